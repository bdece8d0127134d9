"""Declare the words of a team for annotations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from .annotations import ArrayLike, Shape
from .reducer import Reducer


class Team(Protocol):
    """First argument of a TeamPolicy's kernel: `def rows(team: pk.Team, ...)`.

    The collective words (reduce, scan, broadcast, append, tally, product, barrier) must be reached by all
    members.
    """

    @property
    def league_rank(self) -> int:
        """Number of this team."""

    @property
    def league_size(self) -> int:
        """Number of teams."""

    @property
    def rank(self) -> int:
        """Number of this member in the team."""

    @property
    def size(self) -> int:
        """Number of members. It may differ from the size that the policy requests."""

    @property
    def registers(self) -> int:
        """Return the number of 64-bit numbers that fit in a member's registers, known at compile time."""

    @property
    def warp_size(self) -> int:
        """Return the number of members of neighbouring ranks that execute together, known at compile time: 32
        on a GPU, all on a CPU, one in the checked space."""

    def thread_range(self, begin: int, end: int = ..., /) -> range:
        """Iterate over this member's share of range(n) or range(begin, end), in a for loop."""

    def reduce(self, value: Any, /, reducer: Reducer = ...) -> Any:
        """Combine the values of all members; every member receives the result."""

    def scan(self, value: Any, /, reducer: Reducer = ...) -> Any:
        """Combine the values of the members of lower rank, in the order of ranks; the first member receives
        the neutral value."""

    def broadcast(self, value: Any, rank: int = 0, /) -> Any:
        """Return the value of member `rank`."""

    def append(self, view: ArrayLike, at: int, value: Any, keep: Any, /) -> int:
        """Store the values of the members with a true `keep` contiguously from view[at], in the order of
        ranks; return the index after the last one."""

    def tally(self, view: ArrayLike, index: int, /) -> int:
        """Add 1 to an element of scratch and return its old value. Members of a warp that count in the same
        element do so in the order of ranks."""

    def tile(self, shape: Shape, dtype: Any, /) -> ArrayLike:
        """Return this member's elements of an m x n array of float32 or float64 that is distributed over the
        team, in registers and initially zero. The shape is known at compile time."""

    def elements(self, tile: ArrayLike, /) -> Iterable[tuple[int, int, int]]:
        """Iterate over (e, i, j) for each of this member's elements, in a for loop: tile[e] is the element in
        row i and column j, which may lie beyond the tile's edge."""

    def product(self, c: ArrayLike, a: ArrayLike, b: ArrayLike, /) -> None:
        """Add a b to c, which is a tile, or a view of known shape that only this team accesses: c[i, j]
        becomes fma(a[i, k], b[k, j], c[i, j]) for each k in ascending order, on every space. a and b are
        views, preferably of scratch, or their .T."""

    def barrier(self) -> None:
        """Wait for all members; afterwards each member sees the earlier writes of all others."""

    def single(self) -> bool:
        """Return True for one member of the team."""

    def scratch(self, shape: Shape, dtype: Any, /) -> ArrayLike:
        """Return an array that the team shares, in cache or shared memory, initially undefined."""
