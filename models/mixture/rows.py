"""Points of a call where a space reaches them, and results of points where the caller wants them."""

from __future__ import annotations

from typing import NamedTuple

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
    starts : range
        Of stretches.
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
        """Return some rows of one stretch."""
        first = begin // self.length * self.length
        if self._near is None or self._near[0] != first:
            self._near = None  # its memory is free before the next one's is asked for
            self._near = first, self._copied(first)
        return self._near[1][begin - first : end - first]

    def _copied(self, first):
        """Return the stretch that begins there; of those that are used once, the next is copied
        meanwhile."""
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
        """`rows`; a stretch is let go after its last row."""
        found = self.rows(begin, end)
        if end >= min(begin // self.length * self.length + self.length, len(self.X)):
            self.forget()
        return found

    def forget(self):
        """Let go of what was copied."""
        self._near = None


class Stretch(NamedTuple):
    """Rows that are copied with their neighbours, as a piece of shards holds them."""

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
    """Results of points, a row each, which a space writes in the order of the points: there if it reaches
    the array, else to its own memory, from where they are copied many at once.

    Parameters
    ----------
    out : ndarray or View, shape (n, ...)
        Of all points, also of those that others write.
    space : Space
    """

    def __init__(self, out, space):
        self._out, self._space = pk.asview(out), space
        self._most = max(_TOGETHER // max(self._out[:1].nbytes, 1), 1)
        self._near, self._begin, self._done, self._end = None, 0, 0, 0

    def rows(self, begin, end):
        """Return the place to which rows `begin` to `end` are written."""
        if self._near is None or end > self._end:
            self.flush()
            self._begin, self._end = begin, min(max(begin + self._most, end), len(self._out))
            self._near = pk.create_mirror_view(self._out[begin : self._end], self._space)
        self._done = end
        return self._near[begin - self._begin : end - self._begin]

    def flush(self):
        """Copy what has been written."""
        if self._near is not None and self._near.memory != self._out.memory:
            pk.deep_copy(self._out[self._begin : self._done], self._near[: self._done - self._begin])
        self._near = None


def on_host(array):
    """Return an array, or the elements of a View."""
    return array.to_numpy() if isinstance(array, pk.View) else array
