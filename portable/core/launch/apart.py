"""Which of two codes a launch takes: one that knows of its views that they overlap nothing and how they are
aligned, or one that knows neither."""

from __future__ import annotations

import itertools
import struct
from operator import itemgetter

from .. import locks
from ..language.types import itemsize, reach

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

    def __init__(self, specs, added, prepare):
        self.specs, self.added, self.prepare, self.known = specs, added, locks.alone(prepare), {}
        self.views = itemgetter(*_places(specs))
        self.latest = None, None  # words of a launch, and its code

    def code(self, words):
        """Return the code for a launch, by the words of its arguments."""
        before, code = self.latest
        if words == before:
            return code
        views = self.views(words)
        code = self.known.get(views)
        if code is None:
            code = self.prepare(told(self.specs, words, self.added))
            if len(self.known) >= _MOST:
                self.known.clear()
            self.known[views] = code
        self.latest = words, code
        return code


def knows(specs):
    """Return whether there are two codes: for views that are arguments of their own, none scattered."""
    kinds = {s[0] for s in specs}
    return "view" in kinds and not kinds & {"tuple", "scatter"}


def told(specs, words, added):
    """Return what compilers are told of arguments with such words: that views are apart, where they are, and
    that a short one is only added to, as a ScatterView is."""
    views = {k: _span(specs[k], words[k]) for k in _places(specs)}
    aligned = not any(pointer % ALIGNED for pointer, *_ in views.values())
    if not aligned or any(_overlap(*pair) for pair in itertools.combinations(views.values(), 2)):
        return specs
    known = list(specs)
    for k in views:
        _, dtype, ndim, whole, readonly = specs[k]
        _, low, high, _ = views[k]
        few = added[k] and ndim == 1 and whole and not readonly and 0 < high - low <= _FEW
        known[k] = ("scatter" if few else "view", *specs[k][1:], True)
    return tuple(known)


def _places(specs):
    return [k for k, s in enumerate(specs) if s[0] == "view"]


def _span(spec, words):
    """Where a view begins, its lowest address, that behind its highest one, and whether it is only read."""
    _, dtype, ndim, _, readonly = spec
    pointer, *rest = struct.unpack(f"={1 + 2 * ndim}q", words)
    if 0 in rest[:ndim]:
        return pointer, 0, 0, True
    low, high = reach(rest[:ndim], rest[ndim:], itemsize(dtype))
    return pointer, pointer + low, pointer + high, readonly


def _overlap(a, b):
    """Return whether one of two views, of which one may be written, reaches into the other."""
    return not (a[3] and b[3]) and a[1] < b[2] and b[1] < a[2]
