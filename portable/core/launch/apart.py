"""Choose between two codes of a launch: one for views that overlap nothing, are aligned and have short
extents, or one that assumes nothing."""

from __future__ import annotations

import functools
import struct
from operator import itemgetter

from .. import locks
from ..language.types import PARTS, SHORT, itemsize

ALIGNED = 16  # bytes
_MOST = 1024  # sets of views whose code is kept
_FEW = 8192  # bytes of a view to which many indices add, of which threads or blocks have copies


class Apart:
    """The codes of a kernel on a space, for arguments of known types.

    Parameters
    ----------
    specs : types of the arguments, as compilers are told
    added : of each argument whether the kernel does nothing with it but add to its elements
    prepare : gives the code for such specs
    """

    def __init__(self, specs, added, prepare=None):
        self.specs, self.prepare, self.known, self.codes = specs, prepare, {}, {}
        places = [k for k, s in enumerate(specs) if s[0] == "view"]
        self.views = itemgetter(*places)
        self.latest = None, None  # words of a launch, and its code
        self.rows = []  # of each view: its place, bytes of an element, whether it is only read, and whether
        for k in places:  # it may be one of few elements that are only added to
            _, dtype, ndim, whole, readonly = specs[k]
            self.rows.append(
                (
                    k,
                    itemsize(dtype),
                    readonly,
                    dtype not in PARTS and added[k] and ndim == 1 and whole and not readonly,
                )
            )

    def code(self, words):
        """Return the code for a launch, by the words of its arguments."""
        before, code = self.latest
        if words == before:
            return code
        views = self.views(words)
        code = self.known.get(views)
        if code is None:
            if len(self.known) >= _MOST:
                self.known.clear()
            code = self.known[views] = self._code(self._facts(words))
        self.latest = words, code
        return code

    def _code(self, facts):
        if facts not in self.codes:
            self.codes[facts] = locks.alone(self.prepare)(self._told(facts))
        return self.codes[facts]

    def told(self, words):
        """Return what compilers are told of arguments with such words: that views are apart, where they are,
        and that a short one is only added to, as a ScatterView is."""
        return self._told(self._facts(words))

    def _told(self, facts):
        known = list(self.specs)
        for (k, *_), few in zip(self.rows, facts or ()):
            known[k] = ("scatter" if few else "view", *known[k][1:], True)
        return tuple(known)

    def _facts(self, words):
        """Return for each view whether it is short and only added to; None if views overlap."""
        spans, few = [], []
        for k, size, readonly, added in self.rows:
            low, end, plain = _span(words[k], size)
            if not plain:
                return None
            spans.append((low, end, readonly))
            few.append(added and 0 < end - low <= _FEW)
        reached = written = 0  # the ends of those before, of all and of those that may be written
        for low, end, readonly in sorted(spans):
            if low < (written if readonly else reached):
                return None
            reached, written = max(reached, end), max(written, 0 if readonly else end)
        return tuple(few)


@functools.cache
def _unpack(n_bytes):
    """Return what reads that many bytes of words."""
    return struct.Struct(f"={n_bytes // 8}q").unpack


@functools.lru_cache(_MOST)
def _span(words, size):
    """Return where the bytes of a view begin, and end, by its words, and whether it begins at a multiple of
    ALIGNED and all its extents are short."""
    first, *rest = _unpack(len(words))(words)
    low, end = first, first + size
    for n, step in zip(rest, rest[len(rest) // 2 :]):
        way = step * (n - 1)
        if way < 0:
            low += way
        else:
            end += way
    return low, end, first % ALIGNED == 0 and max(rest[: len(rest) // 2], default=0) < SHORT


def knows(specs):
    """Return whether there are two codes: for views that are arguments of their own, none scattered."""
    kinds = {s[0] for s in specs}
    return "view" in kinds and not kinds & {"tuple", "scatter"}
