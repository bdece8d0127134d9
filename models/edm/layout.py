"""Layout of series with gaps between segments, so that no point crosses from one segment to another.

Windows that touch are separate segments, and so are `Segments`. Within this package, the rows of series are
*places*: after each segment follow places without a value, more than the lags of a point, its horizon and its
exclusion radius extend over. So lags, targets and radii end with their segment, on every space and in every
method.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

import portable as pk

from .surrogate_kernels import put_in_places
from ..shared import launch, warn

FEW = 64
COPIES = 0.05  # share of points that are copies of candidates above which a warning is given


class Places(NamedTuple):
    """Map from the times of a series in segments to places.

    Attributes
    ----------
    n_times : int
    begins : tuple of int
        The first time of each segment, ascending; the first is 0.
    gap : int
        Places without a value between two segments.
    lead : int
        Places without a value before the first segment.
    """

    n_times: int
    begins: tuple[int, ...] = (0,)
    gap: int = 0
    lead: int = 0

    @property
    def n_places(self) -> int:
        """Number of places, of all times and of the gaps before and between segments."""
        return self.lead + self.n_times + self.gap * (len(self.begins) - 1)

    @property
    def plain(self) -> bool:
        """True if the place of each time is its number."""
        return not self.lead and len(self.begins) == 1

    def of(self, times):
        """Return the place of each time."""
        if self.plain:
            return times
        return times + self.lead + self.gap * (np.searchsorted(self.begins, times, side="right") - 1)

    def times(self, places):
        """Return the time of each place that is not in a gap."""
        if self.plain:
            return places
        number = np.searchsorted(self.of(np.array(self.begins)), places, side="right") - 1
        return places - self.lead - self.gap * np.maximum(number, 0)

    def part(self, first, n_times) -> Places:
        """Return the Places of n_times times from `first` on, which have the same places as here."""
        begins = [begin - first for begin in self.begins if first < begin < first + n_times]
        return Places(n_times, (0, *begins), self.gap, int(self.of(np.array(first))))

    def spread(self, columns):
        """Return columns of all times in their places, with NaN in gaps; the array itself if there are no
        gaps.
        """
        if self.plain:
            return columns
        out = np.full((self.n_places, *columns.shape[1:]), np.nan, columns.dtype)
        out[self.of(np.arange(self.n_times))] = columns
        return out

    def spread_view(self, table):
        """Return `spread` of a view on the default space."""
        if self.plain:
            return table
        time = np.full(self.n_places, -1, np.int32)
        time[self.of(np.arange(self.n_times))] = np.arange(self.n_times)
        out = pk.empty((self.n_places, table.shape[1]), table.dtype)
        launch(out.shape, put_in_places, pk.copy_of(time), table, out)
        return out

    def windows(self, windows):
        """Return windows of times as windows of places."""
        if self.plain or not windows:
            return windows
        ends = self.of(np.array(windows) - [0, 1]) + [0, 1]
        return [tuple(window) for window in ends.tolist()]


def lay_out(columns, lib, pred, valid, segments, reach, horizons):
    """Lay out a library in places, and choose its candidates.

    columns : ndarray, shape (n_times, n_columns)
    lib, pred : lists of windows from `check_windows`; pred is empty if points are of another series
    valid : bool array, shape (n_times,), or None
    segments : Segments or None
    reach : the larger one of the steps of all lags and the exclusion radius
    horizons : steps from a candidate to its targets

    Returns
    -------
    places : Places
    columns, masked : ndarray, shape (n_places, n_columns)
        The series, and the series with NaN outside the library's windows; the same array if these include
        all times.
    candidates : ndarray of int64, ascending
        Places of the times that may be candidates: valid, and with targets in the same window.
    pred : list of (begin, end)
        Windows of points, in places.
    """
    n_times, low, high = len(columns), min(*horizons, 0), max(*horizons, 0)
    places = places_of(n_times, (lib, pred), max(reach, -low, high), segments)
    there = places.spread(columns)
    if lib == [(0, n_times)] and valid is None and places.plain:
        return places, there, there, all_times(n_times)[-low : max(n_times - high, 0)], pred
    inside, allowed = np.zeros((2, n_times), bool)
    for begin, end in lib:
        inside[begin:end] = True
        allowed[begin - low : max(end - high, begin - low)] = True
    if valid is not None:
        allowed &= valid
    masked = there if inside.all() else places.spread(np.where(inside[:, None], columns, np.nan))
    return places, there, masked, places.of(np.flatnonzero(allowed)), places.windows(pred)


def places_of(n_times, several, gap, segments=None) -> Places:
    """Return the Places of n_times times, with segments that begin where two windows of a list touch, and
    with each of the Segments.

    several : lists of windows
    """
    begins = {end for windows in several for _, end in windows if any(end == begin for begin, _ in windows)}
    if segments is not None:
        begins |= {row for window in segments.windows for row in window} - {0, n_times}
    return Places(n_times, (0, *sorted(begins)), gap if begins else 0)


@functools.lru_cache(maxsize=1)
def all_times(n_times):
    """Return 0, ..., n_times - 1 as a read-only array; repeated calls share it, since new memory costs more
    than the numbers.
    """
    times = np.arange(n_times)
    times.flags.writeable = False
    return times


def times_within(windows, first, n_times):
    """Return the times of each window from its time `first` on, ascending."""
    if len(windows) == 1:
        return all_times(n_times)[max(windows[0][0], first) : windows[0][1]]
    within = np.zeros(n_times, bool)
    for begin, end in windows:
        within[begin:end] = True
    within[:first] = False
    return np.flatnonzero(within)


def found_in(points, library):
    """Return the first row of a range of the library that equals all points; None if there is none.

    points, library : ndarrays, shapes (n_points, n_columns) and (n_times, n_columns)
    """
    n, known = len(points), ~np.isnan(points).any(axis=1)
    if n > len(library) or not known.any():
        return None
    asked, first = int(np.argmax(known)), np.arange(len(library) - n + 1)
    library, points = (np.where(np.isnan(x), np.inf, x) for x in (library, points))  # NaN equals NaN here
    for step in range(asked, min(n, asked + FEW)):  # to reduce the rows whose whole range is compared
        first = first[(library[first + step] == points[step]).all(axis=1)]
    for row in first[:FEW].tolist():
        if np.array_equal(library[row : row + n], points):
            return row
    return None


def warn_of_copies(library, points, front, column, lag):
    """Warn if many points are copies of candidates, unless the library itself has many equal points."""
    if len(library) <= front or len(points) <= front:
        return
    both = [
        np.ascontiguousarray(x[np.arange(front, len(x))[:, None] - lag, column]) for x in (library, points)
    ]
    own, asked = (one[~np.isnan(one).any(axis=1)] for one in both)
    kept = {row.tobytes() for row in own}
    copies = sum(row.tobytes() in kept for row in asked)
    if copies > max(COPIES * len(asked), 2 * len(asked) * (1 - len(kept) / max(len(own), 1))):
        warn(
            f"{copies} of {len(asked)} points equal those of the library: each is its own neighbour, at "
            "distance 0. Omit `points`, or give other times",
        )
