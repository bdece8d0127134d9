"""Places that prepare and process shards, and sums of results by a tree; sharding.py describes the rules."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

import portable as pk

from .shared_kernels import add_to

Values = tuple[Any, ...]  # of a shard, or of several
Node = tuple[int, int, Values]  # first shard, one past the last, values


class Lost(list[int]):
    """Numbers of the shards whose pieces a place lacks."""


class Sent:
    """An object to be sent, pickled as one string of bytes. Arrays that dask sends separately arrive
    read-only, and at addresses that are not aligned to their items, which kernels cannot read.

    Parameters
    ----------
    value : object
    seconds : float
        Time of its computation.
    """

    def __init__(self, value: object, seconds: float = 0.0) -> None:
        from distributed.protocol.pickle import dumps

        self._text, self.seconds = dumps(value), seconds

    @property
    def value(self) -> Any:
        """The object, unpickled."""
        from distributed.protocol.pickle import loads

        return loads(self._text)

    def forget(self) -> None:
        """Delete the bytes, even if other references to this object exist."""
        self._text = b""

    def __sizeof__(self) -> int:
        return len(self._text)


class Place:
    """A space with its method and its prepared shards.

    Parameters
    ----------
    make : callable (space) -> method
    space : str, Space or None
    room : float or None
        Bytes of pieces that are kept prepared; all if None.
    n_shards : int
        Number of shards of all places.
    """

    def __init__(
        self, make: Callable[..., Any], space: pk.SpaceLike, room: float | None, n_shards: int
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
        args: Values,
        reduce: bool,
    ) -> list[Any]:
        """Return the results of some neighbouring shards, or nodes of their sums.

        Parameters
        ----------
        numbers : range
        pieces : dict of number: piece
            Pieces that this place has not received before.
        name, args
            Name and arguments of the method's function.
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
            return [(first, end, tuple(map(on_host, values))) for first, end, values in sums]

    def steps(
        self, numbers: Sequence[int], pieces: dict[int, Any], name: str, args: Values
    ) -> Iterator[list[Node]]:
        """Yield the sums of some neighbouring shards, step by step; the caller holds the lock.

        Parameters
        ----------
        numbers, pieces, name, args
            As in `run`; no piece is lost.

        Yields
        ------
        list of (first, end, values)
            The nodes so far, whose values are `Held` by the space: after the launches that all shards have in
            common, and after each shard.
        """
        self._pieces |= {k: piece for k, piece in pieces.items() if k not in self._prepared}
        self._begin()
        if name in getattr(self._method, "repeated", ()):
            self._method.load(*args)
            yield self._repeated_sums(name, numbers)
            return
        found, stack = getattr(self._method, name)(map(self._shard, numbers), *args), []
        yield stack
        for number, values in enumerate(found, numbers[0]):
            _push(stack, (number, number + 1, values), self._n)
            yield stack

    def queues(self, name: str, numbers: Sequence[int]) -> bool:
        """Return True if the sums of some shards can be launched without blocking the caller.

        Parameters
        ----------
        name : str
            Name of the method's function.
        numbers : range

        Returns
        -------
        bool
        """
        kept = self._method is not None and all(k in self._prepared for k in numbers)
        return kept and name in getattr(self._method, "queued", ()) and pk.queued(self.space)

    def all_shards(self, pieces: Sequence[Any]) -> tuple[Any, list[Any]] | None:
        """Return the method and all shards, or None if they do not fit into memory.

        Parameters
        ----------
        pieces : sequence
            The pieces of all shards.

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

    def _repeated_sums(self, name: str, numbers: Sequence[int]) -> list[Node]:
        """Return the nodes of sums whose launches are the same at each call. From the second call on they are
        replayed as one graph, if all shards are kept."""
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
        shard = getattr(self._method, "prepare", lambda piece: piece)(piece)
        if piece.nbytes <= self._left:
            self._left -= piece.nbytes
            self._prepared[number] = shard
            del self._pieces[number]
            if isinstance(sent, Sent):
                sent.forget()
        return shard


class Held:
    """Sums in the memory of a space, added up by kernels, without synchronisation until the last of them.

    Parameters
    ----------
    view : View
        The sum, to which others are added in place.
    """

    def __init__(self, view: pk.View) -> None:
        self.view = view

    def __add__(self, other: Held) -> Held:
        left, right = self.view.reshape(-1), other.view.reshape(-1)
        policy = pk.RangePolicy(0, left.size, space=left.space)
        pk.parallel_for(policy, add_to, left, right, label="add_to")
        return self


def on_host(value: object) -> object:
    """Return a sum in the memory of a space as a number or an array."""
    if not isinstance(value, Held):
        return value
    found = value.view.to_numpy()
    return found if found.ndim else float(found)


def shared_out(numbers: range, n_places: int) -> list[range]:
    """Divide numbers among places as evenly as possible, each with successive numbers.

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


def nodes(found: Iterable[Values], first: int, n_shards: int) -> list[Node]:
    """Return the largest nodes of the tree (1) for the results of neighbouring shards.

    Parameters
    ----------
    found : iterable of tuples
        The result of each shard.
    first : int
        Number of the first of these shards.
    n_shards : int
        Number of shards of the tree.

    Returns
    -------
    list of (first, end, values)
    """
    stack: list[Node] = []
    for number, values in enumerate(found, first):
        _push(stack, (number, number + 1, values), n_shards)
    return stack


def additions(n_shards: int) -> list[tuple[int, int]]:
    """Return the additions of the tree (1) in order, each as (shard to which is added, shard that is added);
    the total is finally that of the first shard.

    Parameters
    ----------
    n_shards : int

    Returns
    -------
    list of n_shards - 1 pairs of int
    """
    middles = _middles(n_shards)
    return [(first, middles[first, end]) for first, end in reversed(middles)]


def total(parts: Sequence[Node]) -> Values:
    """Return the root of the tree (1).

    Parameters
    ----------
    parts : sequence of (first, end, values)
        Nodes of all shards, in order.

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
    """Append a node to a stack, and add up neighbours that have the same parent."""
    stack.append(node)
    while len(stack) > 1:
        (first, middle, left), (_, end, right) = stack[-2:]
        if _middles(n_shards).get((first, end)) != middle:
            return
        stack[-2:] = [(first, end, _add(left, right))]


@functools.cache
def _middles(n_shards: int) -> dict[tuple[int, int], int]:
    """Return m of (1) for each node (a, b) of the tree, a dict."""
    found, left = {}, [(0, n_shards)]
    while left:
        first, end = left.pop()
        if end - first > 1:
            found[first, end] = middle = (first + end) // 2
            left += (first, middle), (middle, end)
    return found


def _add(left: tuple, right: tuple) -> tuple:
    return tuple(a + b for a, b in zip(left, right, strict=True))
