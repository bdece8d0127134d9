"""Data in shards: prepared where they are used, their small results put together in an order that the data
alone fix.

    shards = Shards(make, pieces, client=client, space=space)
    shards.map("labels", components)         # a result of each shard, in the order of the shards
    shards.reduce("sums", components)        # their sum, by a tree over the numbers of the shards

A *place* is where shards are prepared and used: this process's space, each of several spaces of it, or a
worker of a cluster (`portable.models.shared.cluster`). `make(space)` gives a place its method, an object with

    prepare(piece)                       what the method wants of a piece, in the space of the place
    NAME(shards, *args)                  takes prepared shards, gives an iterator of a result for each
    queued                               names of those that only queue launches where the space queues them
    repeated                             names of sums whose launches are the same at each call, if there are
    load(*args)                          such; they take shards alone, and `load` their arguments before

A place works on neighbouring shards and adds up what it can of the tree of all n shards,

    node (a, b) = node (a, m) + node (m, b), m = (a + b) // 2;  node (a, a + 1): the result of shard a    (1)

with the root (0, n), so that a sum has the same bits however the shards are shared out, and hands over one
node where two, four, ... places share an even number of shards, else at most two of each length. Shards that
a place has no room to keep are prepared anew at each call: data larger than memory are more shards than room.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import portable as pk
from portable.errors import DTypeError, InputError, SpaceError

from .annotations import ClientLike, Spaces
from .cluster import Workers
from .places import Held, Node, Place, on_host, shared_out, total
from .places import nodes as nodes


class Shards:
    """Pieces of data and the places that work on them.

    Parameters
    ----------
    make : callable (space) -> method
        With a cluster it must pickle.
    pieces : sequence
        Each with `nbytes`; with a cluster they must pickle. Where one ends and the next begins must depend
        on the data alone.
    client : distributed.Client, optional
    space : str, Space, None, or a list of them
        Of the places. A list is several spaces of this process, which work side by side. With a client the
        name of a space of each worker, by default as many of its threads as dask gives it.
    room : float, optional
        Bytes of pieces that a place keeps prepared. By default all in this process, and on a worker as many
        as a share of the memory that dask gives it.
    label : str
        What dask's dashboard calls the work.

    Raises
    ------
    DTypeError, SpaceError
        Pieces of a dtype that kernels do not take; there is no such space.
    """

    def __init__(
        self,
        make: Callable[..., Any],
        pieces: Sequence[Any],
        *,
        client: ClientLike = None,
        space: Spaces | None = None,
        room: float | None = None,
        label: str = "shards",
    ) -> None:
        self.pieces = pieces
        _check_dtypes(pieces)
        if client is not None:
            self._crew = Workers(client, make, pieces, space, room, label)
        else:
            self._crew = Threads(make, pieces, spaces_of(space), room)

    @property
    def queued(self) -> bool:
        """Return True if places are spaces of this process that keep all shards and queue launches:
        callers need not look at each sum."""
        places = getattr(self._crew, "places", ())
        return bool(places) and all(place.keeps_all and pk.queued(place.space) for place in places)

    def own(self) -> tuple[Any, list[Any]] | None:
        """Return the method and all prepared shards where one space of this process has room for them, for
        a method that launches on all of them at once; else None."""
        places = getattr(self._crew, "places", ())
        return places[0].whole(self.pieces) if len(places) == 1 else None

    def map(self, name: str, *args: object, numbers: range | None = None) -> list[Any]:
        """Return a result of each shard, or of those of some numbers.

        Parameters
        ----------
        name : str
            Of the method's function.
        *args
            Of that function.
        numbers : range, optional
            Of the shards that are wanted; all if not given.

        Returns
        -------
        list
            In the order of the shards.

        Raises
        ------
        ClusterError
            Worker after worker has ended, or the scheduler is gone.
        """
        numbers = range(len(self.pieces)) if numbers is None else numbers
        return [found for part in self._crew.ask(name, args, False, numbers) for found in part]

    def reduce(self, name: str, *args: object, stay: bool = False) -> tuple[Any, ...]:
        """Return the sums (1) of what the method gives of each shard.

        Parameters
        ----------
        name : str
            Of the method's function.
        *args
            Of that function.
        stay : bool
            Whether sums that a space holds may stay there.

        Returns
        -------
        tuple of numbers and ndarrays
            With `stay`, where they were added up in the first space of this process, Views of it.

        Raises
        ------
        ClusterError
            As `map`.
        """
        numbers = range(len(self.pieces))
        found = self._crew.launched(name, args, numbers)
        if found is None:
            found = [node for part in self._crew.ask(name, args, True, numbers) for node in part]
        return tuple(
            value.view if stay and isinstance(value, Held) else on_host(value) for value in total(found)
        )


class Threads:
    """Places in this process, one a space; several of them work side by side. Each has all pieces, and
    prepares its own."""

    def __init__(
        self,
        make: Callable[..., Any],
        pieces: Sequence[Any],
        spaces: list[str | pk.Space],
        room: float | None,
    ) -> None:
        self.places, self._pieces = [Place(make, space, room, len(pieces)) for space in spaces], pieces

    def ask(self, name: str, args: tuple[Any, ...], reduce: bool, numbers: range) -> list[Any]:
        """Return the findings of each place.

        Parameters
        ----------
        name : str
            Of the method's function.
        args : tuple
            Of that function.
        reduce : bool
            Whether the results are added up.
        numbers : range
            Of the shards that are wanted.

        Returns
        -------
        list of lists
            A list a place, in the order of the shards: results, or nodes of the tree (1).
        """
        asked = self._asked(numbers)
        if len(asked) == 1:
            return [self._run(asked[0], name, args, reduce)]
        with concurrent.futures.ThreadPoolExecutor(len(asked)) as pool:
            return list(pool.map(lambda one: self._run(one, name, args, reduce), asked))

    def launched(self, name: str, args: tuple[Any, ...], numbers: range) -> list[Node] | None:
        """Nodes of sums in the first place's space, by this thread alone: threads that launch wait for each
        other at every launch. Spaces that queue launches let this thread go on.

        Parameters
        ----------
        name, args, numbers
            As in `ask`.

        Returns
        -------
        list of (first, end, values), or None
            None where a place among several would have others wait.
        """
        asked = self._asked(numbers)
        if len(asked) > 1 and not all(place.queues(name, part) for place, part in asked):
            return None
        if len(asked) == 1:
            ((place, part),) = asked
            with place.lock:
                *_, sums = place.steps(part, self._of(part), name, args)
            return sums
        with contextlib.ExitStack() as held:
            for place, _ in asked:
                held.enter_context(place.lock)
            found: list[Any] = [None] * len(asked)
            steps = [place.steps(part, self._of(part), name, args) for place, part in reversed(asked)]
            for now in itertools.zip_longest(*steps):  # a shard of each place, then the next of each
                found = [new or old for new, old in zip(now, found)]
            found.reverse()
            (first, _), *others = asked
            for place, _ in others:
                pk.follow(first.space, place.space)
            return [
                (begin, end, tuple(_brought(value, first.space) for value in values))
                for sums in found
                for begin, end, values in sums
            ]

    def _asked(self, numbers: range) -> list[tuple[Place, range]]:
        """Return places, and the shards that each is asked for; what the first has been given to do comes
        before."""
        parts = shared_out(numbers, len(self.places))
        asked = [(place, part) for place, part in zip(self.places, parts) if len(part)]
        for place, _ in asked[1:]:
            pk.follow(place.space, asked[0][0].space)
        return asked

    def _of(self, numbers: range) -> dict[int, Any]:
        return {k: self._pieces[k] for k in numbers}

    def _run(self, asked: tuple, name: str, args: tuple, reduce: bool) -> list:
        place, numbers = asked
        return place.run(numbers, self._of(numbers), name, args, reduce)


def _brought(value: object, space: pk.SpaceLike | None) -> object:
    """Return a sum held by another space as a space holds it."""
    if not isinstance(value, Held):
        return value
    view = pk.create_mirror_view(value.view, space)
    if view is not value.view:
        pk.deep_copy(view, value.view, wait=False)
    return Held(view)


def even_number(n: int) -> int:
    """So many shards or a few more, for places to have as many each: an even number from 3 on, and a multiple
    of the largest power of two up to an eighth of them.

    Parameters
    ----------
    n : int

    Returns
    -------
    int, at most n + max(n / 8, 1)
    """
    unit = 1 << max(n.bit_length() - 4, int(n > 2))
    return -(-n // unit) * unit


def spread(n: int) -> list[int]:
    """Return the numbers below n in an order in which each half, quarter, ... is spread evenly over all of
    them: by the digits of their Gray codes, the last one first.

    Parameters
    ----------
    n : int

    Returns
    -------
    list of int
    """
    return sorted(range(n), key=lambda k: f"{k ^ k >> 1:0{n.bit_length()}b}"[::-1])


def _check_dtypes(pieces: Sequence) -> None:
    """Refuse shards of different dtypes, for their sums would depend on which is where."""
    kinds = [getattr(getattr(piece, "rows", piece), "dtype", None) for piece in pieces]
    for number, kind in enumerate(kinds):
        if kind != kinds[0]:
            raise DTypeError(
                f"shard {number} holds {kind}, those before it {kinds[0]}; one dtype is wanted for all"
            )


def spaces_of(space: Spaces | None) -> list[str | pk.Space]:
    """Return the spaces of this process that were asked for.

    Parameters
    ----------
    space : str, Space, None, or a list of them
        None is the default space.

    Returns
    -------
    list of str and Space

    Raises
    ------
    InputError, DTypeError
        An empty list, or one that holds something else.
    """
    if not isinstance(space, (list, tuple)):
        return [pk.default_space() if space is None else space]
    if not space:
        raise InputError(
            "space is an empty list; the name of a space is wanted, or of several that work side by side"
        )
    for one in space:
        if not isinstance(one, (str, pk.Space)):
            raise DTypeError(f"space holds {one!r} of type {type(one).__name__}; names of spaces are wanted")
    return list(space)


def here(client: ClientLike, space: Spaces | None) -> str | pk.Space:
    """Return the space of this process in which the small work between two maps is done.

    Parameters
    ----------
    client : distributed.Client or None
    space : str, Space, None, or a list of them

    Returns
    -------
    str or Space
        With a client the space that workers were asked for if this machine has it, else its threads.

    Raises
    ------
    InputError, DTypeError
        As `spaces_of`.
    """
    if client is None:
        return spaces_of(space)[0]
    try:
        with pk.use("threads" if space is None else space) as found:
            return found
    except SpaceError:
        return "threads"


def each(shards: Iterator[Any], function: Callable[..., Any], *args: object) -> Iterator[Any]:
    """For methods whose shards do not know of each other: function(shard, ``*args``) of each.

    Parameters
    ----------
    shards : iterator
    function : callable
    *args

    Returns
    -------
    iterator of what the function returns
    """
    return (function(shard, *args) for shard in shards)
