"""Data in shards, prepared where they are used, and the sums of their results in an order that depends only
on the data.

    shards = Shards(make, pieces, client=client, space=space)
    shards.map("labels", components)         # a result of each shard, in the order of the shards
    shards.reduce("sums", components)        # their sum, by a tree over the numbers of the shards

A *place* is where shards are prepared and used: this process's space, each of several spaces of it, or a
worker of a cluster (`portable.models.shared.cluster`). `make(space)` gives a place its method, an object with

    prepare(piece)                       returns the shard of a piece, in the space of the place (optional)
    NAME(shards, *args)                  takes prepared shards, returns an iterator of a result for each
    queued                               names of functions that only queue launches, if the space queues them
    repeated                             names of sums with the same launches at each call (optional); these
    load(*args)                          functions take only shards, and `load` takes their arguments before

A place processes neighbouring shards and adds up their results as far as possible by the tree of all n
shards,

    node (a, b) = node (a, m) + node (m, b), m = (a + b) // 2;  node (a, a + 1): the result of shard a    (1)

with the root (0, n), so that a sum is bit-identical for every distribution of the shards. It returns one node
if an even number of shards is distributed over two, four, ... places, else at most two of each length. Shards
that do not fit into the memory of a place are prepared again at each call, so data may be larger than memory.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import portable as pk
from portable.errors import DTypeError, InputError, SpaceError

from .annotations import ClientLike, Function, Spaces
from .checks import check_kind
from .cluster import Workers
from .places import Held, Node, Place, Values, on_host, shared_out, total
from .places import nodes as nodes


class Shards:
    """Pieces of data and the places that process them.

    Parameters
    ----------
    make : callable (space) -> method
        With a cluster it must pickle.
    pieces : sequence
        Each has `nbytes`; with a cluster they must pickle. The boundaries of pieces must depend only on the
        data.
    client : distributed.Client, optional
    space : str, Space, None, or a list of them
        Space of the places. A list is several spaces of this process, used in parallel. With a client, the
        name of a space of each worker, by default as many threads as dask assigns to it.
    room : float, optional
        Bytes of pieces that a place keeps prepared. By default all in this process, and on a worker a share
        of its memory limit in dask.
    label : str
        Name of the work in dask's dashboard.

    Raises
    ------
    DTypeError, SpaceError
        The dtype of a piece is not supported by kernels; the space does not exist.
    """

    def __init__(
        self,
        make: Function,
        pieces: Sequence[Any],
        *,
        client: ClientLike = None,
        space: Spaces = None,
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
        """True if places are spaces of this process that keep all shards and queue launches, so that callers
        need not read each sum."""
        places = getattr(self._crew, "places", ())
        return bool(places) and all(place.keeps_all and pk.queued(place.space) for place in places)

    def prepared_shards(self) -> tuple[Any, list[Any]] | None:
        """Return the method and all prepared shards if they fit into one space of this process, for a method
        that launches on all of them at once; else None."""
        places = getattr(self._crew, "places", ())
        return places[0].all_shards(self.pieces) if len(places) == 1 else None

    def map(self, name: str, *args: object, numbers: range | None = None) -> list[Any]:
        """Return a result of each shard, or of the shards `numbers`.

        Parameters
        ----------
        name : str
            Name of the method's function.
        *args
            Arguments of that function.
        numbers : range, optional
            Numbers of the shards; all by default.

        Returns
        -------
        list
            In the order of the shards.

        Raises
        ------
        ClusterError
            Several workers have ended, or the scheduler is gone.
        """
        numbers = range(len(self.pieces)) if numbers is None else numbers
        return [found for part in self._crew.ask(name, args, False, numbers) for found in part]

    def reduce(self, name: str, *args: object, stay: bool = False) -> Values:
        """Return the sums (1) of the method's results over all shards.

        Parameters
        ----------
        name : str
            Name of the method's function.
        *args
            Arguments of that function.
        stay : bool
            True if sums in the memory of a space may be returned as Views.

        Returns
        -------
        tuple of numbers and ndarrays
            With `stay`, Views of the first space of this process if they were added up there.

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
    """Places in this process, one per space, used in parallel. Each has all pieces, and prepares those that
    it processes."""

    def __init__(
        self,
        make: Function,
        pieces: Sequence[Any],
        spaces: list[str | pk.Space],
        room: float | None,
    ) -> None:
        self.places, self._pieces = [Place(make, space, room, len(pieces)) for space in spaces], pieces

    def ask(self, name: str, args: Values, reduce: bool, numbers: range) -> list[Any]:
        """Return the results of each place.

        Parameters
        ----------
        name : str
            Name of the method's function.
        args : tuple
            Arguments of that function.
        reduce : bool
            True to add up the results.
        numbers : range
            Numbers of the requested shards.

        Returns
        -------
        list of lists
            One list per place, in the order of the shards: results, or nodes of the tree (1).
        """
        asked = self._requested_shards(numbers)
        if len(asked) == 1:
            return [self._run(asked[0], name, args, reduce)]
        with concurrent.futures.ThreadPoolExecutor(len(asked)) as pool:
            return list(pool.map(lambda one: self._run(one, name, args, reduce), asked))

    def launched(self, name: str, args: Values, numbers: range) -> list[Node] | None:
        """Return nodes of sums in the first place's space, launched by this thread only, since threads that
        launch block each other at every launch. Spaces that queue launches do not block this thread.

        Parameters
        ----------
        name, args, numbers
            As in `ask`.

        Returns
        -------
        list of (first, end, values), or None
            None if one of several places would block the others.
        """
        asked = self._requested_shards(numbers)
        if len(asked) > 1 and not all(place.queues(name, part) for place, part in asked):
            return None
        if len(asked) == 1:
            ((place, part),) = asked
            with place.lock:
                *_, sums = place.steps(part, self._shards_of(part), name, args)
            return sums
        return self._launched_in_turn(asked, name, args)

    def _launched_in_turn(self, asked: list[tuple[Place, range]], name: str, args: tuple) -> list[Node]:
        """Return the nodes of several places, by launches of one shard of each place after the other."""
        with contextlib.ExitStack() as held:
            for place, _ in asked:
                held.enter_context(place.lock)
            found: list[Any] = [None] * len(asked)
            steps = [place.steps(part, self._shards_of(part), name, args) for place, part in reversed(asked)]
            for now in itertools.zip_longest(*steps):  # a shard of each place, then the next of each
                found = [new or old for new, old in zip(now, found)]
            found.reverse()
            (first, _), *others = asked
            for place, _ in others:
                pk.follow(first.space, place.space)
            return [
                (begin, end, tuple(_in_space(value, first.space) for value in values))
                for sums in found
                for begin, end, values in sums
            ]

    def _requested_shards(self, numbers: range) -> list[tuple[Place, range]]:
        """Return the places, and the shards that are requested from each; pending work of the first place is
        completed before."""
        parts = shared_out(numbers, len(self.places))
        asked = [(place, part) for place, part in zip(self.places, parts) if len(part)]
        for place, _ in asked[1:]:
            pk.follow(place.space, asked[0][0].space)
        return asked

    def _shards_of(self, numbers: range) -> dict[int, Any]:
        return {k: self._pieces[k] for k in numbers}

    def _run(self, asked: tuple, name: str, args: tuple, reduce: bool) -> list:
        place, numbers = asked
        return place.run(numbers, self._shards_of(numbers), name, args, reduce)


def _in_space(value: object, space: pk.SpaceLike) -> object:
    """Return a sum in the memory of another space, copied to `space`."""
    if not isinstance(value, Held):
        return value
    view = pk.create_mirror_view(value.view, space)
    if view is not value.view:
        pk.deep_copy(view, value.view, wait=False)
    return Held(view)


def even_number(n: int) -> int:
    """Return n or a slightly larger number of shards that is divided evenly among places: an even number from
    3 on, and a multiple of the largest power of two up to n / 8.

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
    """Raise for shards of different dtypes, whose sums would depend on their distribution."""
    kinds = [getattr(getattr(piece, "rows", piece), "dtype", None) for piece in pieces]
    for number, kind in enumerate(kinds):
        if kind != kinds[0]:
            raise DTypeError(
                f"shard {number} holds {kind}, those before it {kinds[0]}; expected one dtype for all"
            )


def spaces_of(space: Spaces) -> list[str | pk.Space]:
    """Return the spaces of this process for an argument `space`.

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
        The list is empty, or has an element that is not a space.
    """
    if not isinstance(space, (list, tuple)):
        return [pk.default_space() if space is None else space]
    if not space:
        raise InputError("space is an empty list; expected the name of a space, or of several in parallel")
    for one in space:
        check_kind(one, "space", (str, pk.Space), "hold names of spaces")
    return list(space)


def local_space(client: ClientLike, space: Spaces) -> str | pk.Space:
    """Return the space of this process for the small computations between two maps.

    Parameters
    ----------
    client : distributed.Client or None
    space : str, Space, None, or a list of them

    Returns
    -------
    str or Space
        With a client, the requested space of the workers if this machine has it, else threads.

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


def each(shards: Iterator[Any], function: Function, *args: object) -> Iterator[Any]:
    """Return function(shard, ``*args``) of each shard, for methods with independent shards.

    Parameters
    ----------
    shards : iterator
    function : callable
    *args

    Returns
    -------
    iterator of the function's results
    """
    return (function(shard, *args) for shard in shards)
