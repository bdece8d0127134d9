"""Points of a call where a space reaches them, and results of points where the caller wants them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import portable as pk

from ..shared.arrays import Copying, reached
from ..shared.mapped import Streamed

# Bytes that are copied to a device or from it at once: enough for the speed of its link. So many points or
# results may lie there beside what is kept.
_TOGETHER = 2**28
_AHEAD = 2**24  # of points that are used once, if they are more: the next are copied meanwhile
_WHOLE = 2**30  # points of no more bytes are copied as a whole, and used by all who need them


class Rows:
    """Points where a space reaches them: on the host as they are, on a device copied in stretches. Those that
    are streamed are read in stretches.

    Parameters
    ----------
    X : ndarray, View or Streamed, shape (n, p)
    space : str or Space
    unit : int
        Stretches, if there is more than one, have a multiple of so many rows.
    once : bool
        Whether rows are used once: then a device works on one stretch of an array while the next is copied.

    Attributes
    ----------
    is_whole : bool
        Whether they are one stretch.
    length : int
        Rows of a stretch but the last.
    """

    def __init__(
        self, X: np.ndarray | pk.View | Streamed, space: pk.SpaceLike, unit: int, once: bool = False
    ) -> None:
        self.X, n, size = X, len(X), X.dtype.itemsize * X.shape[1]
        with pk.use(space) as self.space:
            pass
        is_there = isinstance(X, pk.View) and X.memory == self.space.memory
        self._ahead = once and not isinstance(X, Streamed) and self.space.memory != "host"
        most, together = (min(of, _AHEAD) if self._ahead else of for of in (_WHOLE, _TOGETHER))
        self.is_whole = is_there or (n * size <= most and not isinstance(X, Streamed))
        self.length = n if self.is_whole else max(together // (size * unit), 1) * unit
        self._near: tuple[int, pk.View] | None = None
        self._next: tuple[int, pk.View, Copying] | None = None

    @property
    def starts(self) -> range:
        """Return the beginnings of stretches."""
        return range(0, len(self.X), self.length)

    def rows(self, begin: int, end: int) -> pk.View:
        """Return some rows of one stretch."""
        first = begin // self.length * self.length
        if self._near is None or self._near[0] != first:
            self._near = None  # its memory is free before the next one's is asked for
            self._near = first, self._copied(first)
        return self._near[1][begin - first : end - first]

    def _copied(self, first: int) -> pk.View:
        """Return the stretch that begins there; of those that are used once, the next is copied
        meanwhile."""
        given = self.X[first : first + self.length]
        if not self._ahead:
            return reached(given, self.space)
        if self._next is None or self._next[0] != first:
            found = reached(given, self.space)
        else:
            _, found, copying = self._next
            copying.wait()
        self._next, after = None, first + self.length
        if after < len(self.X):
            given = self.X[after : after + self.length]
            there = pk.empty(given.shape, given.dtype, self.space)
            self._next = after, there, Copying(there, given)
        return found

    def take(self, begin: int, end: int) -> pk.View:
        """`rows`; a stretch is let go after its last row."""
        found = self.rows(begin, end)
        if end >= min(begin // self.length * self.length + self.length, len(self.X)):
            self.forget()
        return found

    def forget(self) -> None:
        """Let go of what was copied."""
        self._near = None


class Stretch(NamedTuple):
    """Rows that are copied with their neighbours, as a piece of shards holds them."""

    of: Rows
    begin: int
    end: int

    @property
    def dtype(self) -> np.dtype:
        return self.of.X.dtype

    @property
    def nbytes(self) -> int:
        return (self.end - self.begin) * self.dtype.itemsize * self.of.X.shape[1]

    def read(self) -> pk.View:
        """Return the rows, on the space of `of`."""
        return self.of.take(self.begin, self.end)


class Landing:
    """Results of points, a row each, which a space writes in the order of the points: there if it reaches
    the array, else to its own memory, from where they are copied many at once.

    Parameters
    ----------
    out : ndarray or View, shape (n, ...)
        Of all points, also of those that others write.
    space : Space
    """

    def __init__(self, out: np.ndarray | pk.View, space: pk.Space) -> None:
        self._out, self._space = pk.asview(out), space
        self._most = max(_TOGETHER // max(self._out[:1].nbytes, 1), 1)
        self._near, self._begin, self._done, self._end = None, 0, 0, 0

    def rows(self, begin: int, end: int) -> pk.View:
        """Return the place to which rows `begin` to `end` are written."""
        if self._near is None or end > self._end:
            self.flush()
            self._begin, self._end = begin, min(max(begin + self._most, end), len(self._out))
            self._near = pk.create_mirror_view(self._out[begin : self._end], self._space)
        self._done = end
        return self._near[begin - self._begin : end - self._begin]

    def flush(self) -> None:
        """Copy what has been written."""
        if self._near is not None and self._near.memory != self._out.memory:
            pk.deep_copy(self._out[self._begin : self._done], self._near[: self._done - self._begin])
        self._near = None


def on_host(array: np.ndarray | pk.View) -> np.ndarray:
    """Return an array, or the elements of a View."""
    return array.to_numpy() if isinstance(array, pk.View) else array
