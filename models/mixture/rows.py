"""Copy the points of a call to memory that a space reaches, and results of points to the caller's array."""

from typing import NamedTuple

import portable as pk

from ..shared import Streamed, reached
from ..shared.arrays import Copying

# Bytes of one copy to a device or from it: enough for the full speed of its link. The device needs memory for
# that many points or results in addition to its stored arrays.
_TOGETHER = 2**28
_AHEAD = 2**24  # bytes of one copy if points are used once: the next ones are copied during computation
_WHOLE = 2**30  # points of no more bytes are copied as a whole, and shared by all computations


class Rows:
    """Points in memory that a space reaches: not copied on the host, copied in stretches to a device.
    Streamed points are read in stretches.

    Parameters
    ----------
    X : ndarray, View or Streamed, shape (n, p)
    space : str or Space
    unit : int
        If there are several stretches, their numbers of rows are multiples of this one.
    once : bool
        Whether rows are used once: a device then computes with one stretch of an array while the next is
        copied.

    Attributes
    ----------
    is_whole : bool
        Whether the points are one stretch.
    length : int
        Number of rows of each stretch except the last.
    starts : range
        First rows of the stretches.
    """

    def __init__(self, X, space, unit, once=False):
        self.X, n, size = X, len(X), X.dtype.itemsize * X.shape[1]
        with pk.use(space) as self.space:
            pass
        is_there = isinstance(X, pk.View) and X.memory == self.space.memory
        self._ahead = once and not isinstance(X, Streamed) and self.space.memory != "host"
        most, together = (min(of, _AHEAD) if self._ahead else of for of in (_WHOLE, _TOGETHER))
        self.is_whole = is_there or (n * size <= most and not isinstance(X, Streamed))
        self.length = n if self.is_whole else max(together // (size * unit), 1) * unit
        self.starts = range(0, n, self.length)
        self._near = self._next = None

    def rows(self, begin, end):
        """Return rows `begin` to `end`, which are in one stretch."""
        first = begin // self.length * self.length
        if self._near is None or self._near[0] != first:
            self._near = None  # frees its memory before the next one is allocated
            self._near = first, self._copied(first)
        return self._near[1][begin - first : end - first]

    def _copied(self, first):
        """Return the stretch that begins at row `first`; if rows are used once, the copy of the next one is
        started."""
        after = first + self.length
        if self._next is not None and self._next[0] == first:
            _, found, copying = self._next
            copying.wait()
        else:
            found = reached(self.X[first:after], self.space)
        self._next = None
        if self._ahead and after < len(self.X):
            given = self.X[after : after + self.length]
            there = pk.empty(given.shape, given.dtype, self.space)
            self._next = after, there, Copying(there, given)
        return found

    def take(self, begin, end):
        """Return rows as `rows` does; a stretch is released after its last row is taken."""
        found = self.rows(begin, end)
        if end >= min(begin // self.length * self.length + self.length, len(self.X)):
            self.forget()
        return found

    def forget(self):
        """Release the copied stretch."""
        self._near = None


class Stretch(NamedTuple):
    """Rows of a piece of shards, which are copied together with the other rows of their stretch."""

    of: Rows
    begin: int
    end: int

    @property
    def dtype(self):
        return self.of.X.dtype

    @property
    def nbytes(self):
        return (self.end - self.begin) * self.dtype.itemsize * self.of.X.shape[1]

    def read(self):
        """Return the rows, on the space of `of`."""
        return self.of.take(self.begin, self.end)


class Landing:
    """Results of points, one a row, which a space writes in the order of the points: directly to the array if
    the space reaches it, otherwise to the space's memory, from which many rows are copied at once.

    Parameters
    ----------
    out : ndarray or View, shape (n, ...)
        Array of the results of all points, including points that other spaces process.
    space : Space
    """

    def __init__(self, out, space):
        self._out, self._space = pk.asview(out), space
        self._most = max(_TOGETHER // max(self._out[:1].nbytes, 1), 1)
        self._near, self._begin, self._done, self._end = None, 0, 0, 0

    def rows(self, begin, end):
        """Return the View to which the results of rows `begin` to `end` are to be written."""
        if self._near is None or end > self._end:
            self.flush()
            self._begin, self._end = begin, min(max(begin + self._most, end), len(self._out))
            self._near = pk.create_mirror_view(self._out[begin : self._end], self._space)
        self._done = end
        return self._near[begin - self._begin : end - self._begin]

    def flush(self):
        """Copy the results written so far to the array."""
        if self._near is not None and self._near.memory != self._out.memory:
            pk.deep_copy(self._out[self._begin : self._done], self._near[: self._done - self._begin])
        self._near = None


def on_host(array):
    """Return an array, or the elements of a View."""
    return array.to_numpy() if isinstance(array, pk.View) else array
