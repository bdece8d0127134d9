"""Choose between two codes of a launch: one for non-overlapping, aligned views with short extents, and one
without assumptions.
"""

import functools
import struct
from operator import itemgetter

from .. import locks
from ..language.types import PARTS, SHORT, itemsize

ALIGNED = 16  # bytes
_MOST = 1024  # sets of views for which the code is kept
_FEW = 8192  # bytes of a view to which many indices add, of which threads or blocks have copies


class TwoCodes:
    """The codes of a kernel on a space, for arguments of known types.

    Parameters
    ----------
    specs : types of the arguments, as compilers take them
    added : for each argument, True if the kernel only adds to its elements
    prepare : function that returns the code for such specs
    """

    def __init__(self, specs, added, prepare=None):
        self.specs, self.prepare, self.known, self.codes = specs, prepare, {}, {}
        places = [k for k, s in enumerate(specs) if s[0] == "view"]
        self.views = itemgetter(*places)
        self.latest = None, None  # words of a launch, and its code
        self.rows = []  # of each view: its place, bytes of an element, True if it is read-only, True if
        for k in places:  # private copies of it may be used where it is short
            _, dtype, ndim, contiguous, readonly = specs[k]
            sums = added[k] and dtype not in PARTS and ndim == 1 and contiguous and not readonly
            self.rows.append((k, itemsize(dtype), readonly, sums))

    def code(self, words):
        """Return the code for a launch, given the words of its arguments."""
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
            self.codes[facts] = locks.compile_alone(self.prepare)(self._specs_with(facts))
        return self.codes[facts]

    def specs_for(self, words):
        """Return the specs of a launch with the facts that its words show: the views without overlap, and the
        short ones that are only added to, as a ScatterView is.
        """
        return self._specs_with(self._facts(words))

    def _specs_with(self, facts):
        known = list(self.specs)
        for (k, *_), few in zip(self.rows, facts or ()):
            known[k] = ("scatter" if few else "view", *known[k][1:], True)
        return tuple(known)

    def _facts(self, words):
        """Return for each view True if it is short and only added to; None if views overlap, are not aligned
        or are too long.
        """
        spans, few = [], []
        for k, size, readonly, added in self.rows:
            low, end, plain = _span(words[k], size)
            if not plain:
                return None
            spans.append((low, end, readonly))
            few.append(added and 0 < end - low <= _FEW)
        reached = written = 0  # the ends of the views before this one: of all, and of the writable ones
        for low, end, readonly in sorted(spans):
            if low < (written if readonly else reached):
                return None
            reached, written = max(reached, end), max(written, 0 if readonly else end)
        return tuple(few)


@functools.cache
def _unpack(n_bytes):
    """Return a function that unpacks that many bytes as 64-bit words."""
    return struct.Struct(f"={n_bytes // 8}q").unpack


@functools.lru_cache(_MOST)
def _span(words, size):
    """Return the addresses at which a view begins and ends, given its words, and True if it begins at a
    multiple of ALIGNED and has short extents.
    """
    first, *rest = _unpack(len(words))(words)
    low, end = first, first + size
    for n, step in zip(rest, rest[len(rest) // 2 :]):
        way = step * (n - 1)
        if way < 0:
            low += way
        else:
            end += way
    return low, end, first % ALIGNED == 0 and max(rest[: len(rest) // 2], default=0) < SHORT


def have_two_codes(specs):
    """Return True for launches that choose between two codes: views are direct arguments, none scattered."""
    kinds = {s[0] for s in specs}
    return "view" in kinds and not kinds & {"tuple", "scatter"}
