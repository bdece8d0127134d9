"""Find the elements of a launch's arguments that are touched: a bit for each, set by the build that
counts, and a sample of the accesses to lines of memory."""

import struct

import numpy as np

from .recording import LATE, LINE
from ...core.compiler.reading.signature import flatten
from ...core.language.types import itemsize, part, reach
from .reuse import Trace


class Marks:
    """Maps of the memory that a launch's views reach, one to read and one to write; views that share memory
    share maps.

    Attributes
    ----------
    addresses : list of int
        The address of the trace, and for each view the addresses of both maps, less the number of the map's
        first element.
    """

    def __init__(self, entry, views, words, n_workers):
        self.regions = _regions(_views(entry, views, words))
        self.trace = Trace(sum(-(-r.end // LINE) - r.begin // LINE for r in self.regions), n_workers)
        self.addresses = [self.trace.samples.ctypes.data] + [
            marks.ctypes.data - 8 * region.first
            for _, region in sorted((place, r) for r in self.regions for place in r.places)
            for marks in region.marks
        ]

    def count_traffic(self, counted):
        """Return the counts, with {("", "touched NAMES", "load" or "store"): elements, ("", "lines NAMES",
        ...): lines}, ("", "bytes NAMES", ""), and the figures of the trace."""
        result, touched, total = counted, 0, [0, 0]
        for k, sample in enumerate(self.trace.samples):
            sample[0] += result.pop(("", f"{LATE}{k}", ""), 0)
        for region in self.regions:
            names = ", ".join(region.names)
            result["", f"bytes {names}", ""] = region.size
            together = 0
            for k, (marks, way) in enumerate(zip(region.marks, ("load", "store"))):
                result["", f"touched {names}", way] = int(np.unpackbits(marks.view("u1")).sum())
                lines = marks.view(f"u{8 // region.size}")  # the marks of each
                result["", f"lines {names}", way] = int(np.count_nonzero(lines))
                total[k] += result["", f"lines {names}", way]
                together = together | lines
            touched += int(np.count_nonzero(together))
        return result | self.trace.count_traffic(touched, total)


class _Region:
    """A stretch of memory in numbers of one size, of whole words of marks. A complex number is two."""

    def __init__(self, begin, end, size, names, places):
        self.begin, self.end, self.size, self.names, self.places = begin, end, size, names, places

    def allocate(self):
        room = 64 * self.size  # bytes of which a word has the marks
        self.first, end = self.begin // room, -(-self.end // room)
        self.marks = [np.zeros(end - self.first, np.uint64) for _ in range(2)]
        return self


def _views(entry, views, words):
    """List (name, place among the views, first byte, byte after the last, bytes of an element) of each view
    of a launch.
    """
    names = [v.label for v in views]
    word = place = 0
    for spec in flatten(entry.signature.specs):
        if spec[0] in ("view", "scatter"):
            size, ndim = itemsize(part(spec[1])), spec[2]
            pointer, *numbers = struct.unpack_from(f"=Q{2 * ndim}q", words, 8 * word)
            low, high = 0, 0
            if all(numbers[:ndim]):
                low, high = reach(numbers[:ndim], numbers[ndim:], itemsize(spec[1]))
            yield names[place], place, pointer + low, pointer + high, size
            place += 1
        word += entry.signature._words(spec)


def _regions(views):
    """Group views that overlap, if their elements are of one size."""
    found = []
    for name, place, begin, end, size in sorted(views, key=lambda view: (view[4], view[2])):
        last = found[-1] if found else None
        if last and last.size == size and begin < last.end and begin < end:
            last.end = max(last.end, end)
            last.names.append(name)
            last.places.append(place)
        else:
            found.append(_Region(begin, end, size, [name], [place]))
    return [region.allocate() for region in found]
