"""The words of a team, as annotations know them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from .annotations import ArrayLike, Shape
from .reducer import Reducer


class Team(Protocol):
    """First argument of a TeamPolicy's kernel: `def rows(team: pk.Team, ...)`.

    The collective words (reduce, scan, broadcast, append, tally, product, barrier) are for all members: none
    may stand where only some come by.
    """

    @property
    def league_rank(self) -> int:
        """This team's number."""

    @property
    def league_size(self) -> int:
        """The number of teams."""

    @property
    def rank(self) -> int:
        """This member's number in the team."""

    @property
    def size(self) -> int:
        """The number of members: take it from here, never from what the policy asked for."""

    @property
    def registers(self) -> int:
        """Return the number of 64-bit numbers that a member's registers hold, known at compile time."""

    @property
    def warp_size(self) -> int:
        """Return the number of members of neighbouring ranks that move together, known at compile time: 32
        on a GPU, all on a CPU, one in the checked space."""

    def thread_range(self, begin: int, end: int = ..., /) -> range:
        """This member's share of range(n) or range(begin, end), in a for loop."""

    def reduce(self, value: Any, /, reducer: Reducer = ...) -> Any:
        """The values of all members combined; every member gets the result."""

    def scan(self, value: Any, /, reducer: Reducer = ...) -> Any:
        """The values of the members before this one combined, in the order of ranks; the neutral one for the
        first."""

    def broadcast(self, value: Any, rank: int = 0, /) -> Any:
        """The value of member `rank`."""

    def append(self, view: ArrayLike, at: int, value: Any, keep: Any, /) -> int:
        """The values of the members that keep, side by side from view[at] on in the order of ranks; where the
        next would go."""

    def tally(self, view: ArrayLike, index: int, /) -> int:
        """Count one more in an element of scratch; how many there were before. Of the members of a warp that
        count in the same element, those of lower ranks come first."""

    def tile(self, shape: Shape, dtype: Any, /) -> ArrayLike:
        """A member's own elements of an m x n array of float32 or float64 that the team shares out, in
        registers; zeros at first. The shape is known at compile time."""

    def elements(self, tile: ArrayLike, /) -> Iterable[tuple[int, int, int]]:
        """(e, i, j) of each of a member's own elements, in a for loop: tile[e] is that of row i and column
        j, which may lie beyond the tile's last."""

    def product(self, c: ArrayLike, a: ArrayLike, b: ArrayLike, /) -> None:
        """Add a b to c, a tile or a view of known shape that only this team has: c[i, j] becomes
        fma(a[i, k], b[k, j], c[i, j]) for each k in ascending order, on every space. a and b are views, of
        scratch best, or their .T."""

    def barrier(self) -> None:
        """Wait for all members: each sees after it whatever others wrote before it."""

    def single(self) -> bool:
        """True for one member of the team."""

    def scratch(self, shape: Shape, dtype: Any, /) -> ArrayLike:
        """An array that the team shares, in cache or shared memory, undefined at first."""
