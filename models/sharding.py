"""Data in shards: prepared where they are used, their small results put together in an order that the data
alone fix.

    shards = Shards(make, pieces, client=client, space=space)
    shards.map("labels", components)         # a result of each shard, in the order of the shards
    shards.reduce("sums", components)        # their sum, by a tree over the numbers of the shards

A *place* is where shards are prepared and used: this process's space, each of several spaces of it, or a
worker of a cluster (`models.cluster`). `make(space)` gives a place its method, an object with

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
import functools
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

import portable as pk
from portable.errors import DTypeError, InputError, SpaceError

from .annotations import ClientLike, Spaces
from .shared_kernels import add_to

Node = tuple[int, int, tuple[Any, ...]]  # first shard, one past the last, values


class Lost(list[int]):
    """Numbers of shards whose pieces a place does not have."""


class Sent:
    """An object in transit, as one string of bytes: arrays that dask sends beside a text arrive read-only,
    and where kernels cannot read them, at addresses that are no multiple of their items' size.

    Parameters
    ----------
    value : object
    seconds : float
        That it took to find it.
    """

    def __init__(self, value: object, seconds: float = 0.0) -> None:
        from distributed.protocol.pickle import dumps

        self._text, self.seconds = dumps(value), seconds

    @property
    def value(self) -> Any:
        """The object, read from the text."""
        from distributed.protocol.pickle import loads

        return loads(self._text)

    def forget(self) -> None:
        """Let go of the text, whoever still holds this."""
        self._text = b""

    def __sizeof__(self) -> int:
        return len(self._text)


class Place:
    """A space, its method, and the shards that are kept there.

    Parameters
    ----------
    make : callable (space) -> method
    space : str, Space or None
    room : float or None
        Bytes of pieces that are kept prepared; all of them if None.
    n_shards : int
        Of all places.
    """

    def __init__(
        self, make: Callable[..., Any], space: pk.SpaceLike | None, room: float | None, n_shards: int
    ) -> None:
        self._make, self.space, self.keeps_all, self._n = make, space, room is None, n_shards
        self._method, self.lock = None, threading.Lock()
        self._pieces, self._prepared, self._left = {}, {}, np.inf if room is None else room
        self._graphs = {}  # launches and sums by name and shards

    def run(
        self,
        numbers: Sequence[int],
        pieces: dict[int, Any],
        name: str,
        args: tuple[Any, ...],
        reduce: bool,
    ) -> list[Any]:
        """The results of some neighbouring shards, or nodes of their sums.

        Parameters
        ----------
        numbers : range
        pieces : dict of number: piece
            Those that this place was not given before.
        name, args
            Of the method.
        reduce : bool

        Returns
        -------
        list or Lost
        """
        with self.lock:
            self._pieces |= {k: piece for k, piece in pieces.items() if k not in self._prepared}
            lost = [k for k in numbers if k not in self._prepared and k not in self._pieces]
            if lost:
                return Lost(lost)
            if not reduce:
                self._begin()
                return list(getattr(self._method, name)(map(self._shard, numbers), *args))
            *_, sums = self.steps(numbers, pieces, name, args)
            return [(first, end, tuple(map(_on_host, values))) for first, end, values in sums]

    def steps(
        self, numbers: Sequence[int], pieces: dict[int, Any], name: str, args: tuple[Any, ...]
    ) -> Iterator[list[Node]]:
        """The sums of some neighbouring shards, step by step; who asks has the lock.

        Parameters
        ----------
        numbers, pieces, name, args
            As in `run`; no piece is lost.

        Yields
        ------
        list of (first, end, values)
            The nodes so far, of values that the space holds, `Held`, once what all shards have in common is
            launched, and after each shard.
        """
        self._pieces |= {k: piece for k, piece in pieces.items() if k not in self._prepared}
        self._begin()
        if name in getattr(self._method, "repeated", ()):
            self._method.load(*args)
            yield self._again(name, numbers)
            return
        found, stack = getattr(self._method, name)(map(self._shard, numbers), *args), []
        yield stack
        for number, values in enumerate(found, numbers[0]):
            _push(stack, (number, number + 1, values), self._n)
            yield stack

    def queues(self, name: str, numbers: Sequence[int]) -> bool:
        """Whether the sums of some shards can be launched without a wait.

        Parameters
        ----------
        name : str
            Of the method's function.
        numbers : range

        Returns
        -------
        bool
        """
        kept = self._method is not None and all(k in self._prepared for k in numbers)
        return kept and name in getattr(self._method, "queued", ()) and pk.queued(self.space)

    def whole(self, pieces: Sequence[Any]) -> tuple[Any, list[Any]] | None:
        """The method and all shards, or None if there is no room to keep them.

        Parameters
        ----------
        pieces : sequence
            All of them.

        Returns
        -------
        (method, list of prepared shards), or None
        """
        with self.lock:
            self._begin()
            if sum(piece.nbytes for piece in pieces) > self._left:
                return None
            self._pieces = dict(enumerate(pieces))
            return self._method, [self._shard(k) for k in range(len(pieces))]

    def _again(self, name: str, numbers: Sequence[int]) -> list[Node]:
        """The nodes of sums whose launches are the same at each call: one graph, when they are asked for once
        more and all shards are kept."""
        function, shards = getattr(self._method, name), map(self._shard, numbers)
        key = name, numbers[0], numbers[-1]
        if key not in self._graphs:
            sums = nodes(function(shards), numbers[0], self._n)
            if all(k in self._prepared for k in numbers):
                self._graphs[key] = None, sums
            return sums
        graph, sums = self._graphs[key]
        if graph is None:
            with pk.capture(self._method.space) as graph:
                sums = nodes(function(shards), numbers[0], self._n)
            self._graphs[key] = graph, sums
        graph.replay()
        return sums

    def _begin(self) -> None:
        if self._method is None:
            self._method = self._make(self.space)

    def _shard(self, number: int) -> object:
        if number in self._prepared:
            return self._prepared[number]
        sent = self._pieces[number]
        piece = sent.value if isinstance(sent, Sent) else sent
        shard = self._method.prepare(piece)
        if piece.nbytes <= self._left:
            self._left -= piece.nbytes
            self._prepared[number] = shard
            del self._pieces[number]
            if isinstance(sent, Sent):
                sent.forget()
        return shard


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
            from .cluster import Workers

            self._crew = Workers(client, make, pieces, space, room, label)
        else:
            self._crew = Threads(make, pieces, spaces_of(space), room)

    @property
    def queued(self) -> bool:
        """Whether places are spaces of this process that keep all shards and queue launches: who asks need
        not look at each sum."""
        places = getattr(self._crew, "places", ())
        return bool(places) and all(place.keeps_all and pk.queued(place.space) for place in places)

    def own(self) -> tuple[Any, list[Any]] | None:
        """The method and all prepared shards where one space of this process has room for them, for a
        method that launches on all of them at once; else None."""
        places = getattr(self._crew, "places", ())
        return places[0].whole(self.pieces) if len(places) == 1 else None

    def map(self, name: str, *args: object, numbers: range | None = None) -> list[Any]:
        """A result of each shard, or of those of some numbers.

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
        """The sums (1) of what the method gives of each shard.

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
            value.view if stay and isinstance(value, Held) else _on_host(value) for value in total(found)
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
        """What each place found.

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
        other at every launch. Where spaces queue launches, nobody waits for them.

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
        """Places, and the shards that each is asked for; what the first has been given to do comes before."""
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


class Held:
    """Sums on a space, which are added up there: nothing waits for the space until the last of them is there.

    Parameters
    ----------
    view : View
        Which others are added to.
    """

    def __init__(self, view: pk.View) -> None:
        self.view = view

    def __add__(self, other: Held) -> Held:
        left, right = self.view.reshape(-1), other.view.reshape(-1)
        policy = pk.RangePolicy(0, left.size, space=left.space)
        pk.parallel_for(policy, add_to, left, right, label="add_to")
        return self


def _brought(value: object, space: pk.SpaceLike | None) -> object:
    """What a space holds of a sum, held by another one."""
    if not isinstance(value, Held):
        return value
    view = pk.create_mirror_view(value.view, space)
    if view is not value.view:
        pk.deep_copy(view, value.view, wait=False)
    return Held(view)


def _on_host(value: object) -> object:
    """What a space holds of a sum, as a number or an array."""
    if not isinstance(value, Held):
        return value
    found = value.view.to_numpy()
    return found if found.ndim else float(found)


def shared_out(numbers: range, n_places: int) -> list[range]:
    """Neighbouring numbers for each place, as even as can be.

    Parameters
    ----------
    numbers : range
    n_places : int

    Returns
    -------
    list of n_places ranges
    """
    cuts = [len(numbers) * k // n_places for k in range(n_places + 1)]
    return [numbers[a:b] for a, b in zip(cuts, cuts[1:])]


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
    """The numbers below n in an order in which each half, quarter, ... is spread evenly over all of them: by
    the digits of their Gray codes, the last one first.

    Parameters
    ----------
    n : int

    Returns
    -------
    list of int
    """
    return sorted(range(n), key=lambda k: f"{k ^ k >> 1:0{n.bit_length()}b}"[::-1])


def nodes(found: Iterable[tuple[Any, ...]], first: int, n_shards: int) -> list[Node]:
    """The largest nodes of the tree (1) over what is found of neighbouring shards.

    Parameters
    ----------
    found : iterable of tuples
        The result of each shard.
    first : int
        The number of the first of them.
    n_shards : int
        Of the tree.

    Returns
    -------
    list of (first, end, values)
    """
    stack: list[Node] = []
    for number, values in enumerate(found, first):
        _push(stack, (number, number + 1, values), n_shards)
    return stack


def additions(n_shards: int) -> list[tuple[int, int]]:
    """Return the additions of the tree (1) in their order, each as the shard that is added to and the one that
    is added; the sum is the first shard's in the end.

    Parameters
    ----------
    n_shards : int

    Returns
    -------
    list of n_shards - 1 pairs of int
    """
    middles = _middles(n_shards)
    return [(first, middles[first, end]) for first, end in reversed(middles)]


def total(parts: Sequence[Node]) -> tuple[Any, ...]:
    """The root of the tree (1).

    Parameters
    ----------
    parts : sequence of (first, end, values)
        Of all shards, in their order.

    Returns
    -------
    tuple
        The sums.
    """
    stack: list[Node] = []
    for node in parts:
        _push(stack, node, parts[-1][1])
    return stack[0][2]


def _push(stack: list[Node], node: Node, n_shards: int) -> None:
    """Put a node behind others, and add up neighbours that have the same parent."""
    stack.append(node)
    while len(stack) > 1:
        (first, middle, left), (_, end, right) = stack[-2:]
        if _middles(n_shards).get((first, end)) != middle:
            return
        stack[-2:] = [(first, end, _add(left, right))]


@functools.cache
def _middles(n_shards: int) -> dict[tuple[int, int], int]:
    """Where the nodes of a tree are cut, by their ends."""
    found, left = {}, [(0, n_shards)]
    while left:
        first, end = left.pop()
        if end - first > 1:
            found[first, end] = middle = (first + end) // 2
            left += (first, middle), (middle, end)
    return found


def _add(left: tuple, right: tuple) -> tuple:
    return tuple(a + b for a, b in zip(left, right, strict=True))


def _check_dtypes(pieces: Sequence) -> None:
    """Refuse shards of different dtypes, for their sums would depend on which is where."""
    kinds = [getattr(getattr(piece, "rows", piece), "dtype", None) for piece in pieces]
    for number, kind in enumerate(kinds):
        if kind != kinds[0]:
            raise DTypeError(
                f"shard {number} holds {kind}, those before it {kinds[0]}; one dtype is wanted for all"
            )


def spaces_of(space: Spaces | None) -> list[str | pk.Space]:
    """The spaces of this process that were asked for.

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
    """The space of this process in which the small work between two maps is done.

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
