"""Cells in space and time, and the list of pairs that are not negligible for the excitation.

Most pairs within a window in time are far apart in space: of the 8.2 million pairs of D.C. gunfire within 50
minutes, only 0.3 million are also close enough in space to contribute. A list of these pairs is used for all
evaluations until a parameter leaves the range of the list.
"""

import numpy as np

import portable as pk

from ..shared import Frozen, InputError, launch, lock_of, reduce
from .cell_kernels import (
    WIDTH,
    find_cells,
    list_pairs,
    listed_sums,
    number_cells,
    place_row,
    places_of,
    put_into_cells,
    rank_row,
)

MOST_PAIRS = 2**27  # 2 GiB in float64


class Grid:
    """Events sorted into cells at least `reach_km` wide, and by time within a cell; valid until the next
    grid is built.

    Parameters
    ----------
    events : PairSums
    reach_km : float
    dtype : of the locations in the grid
    """

    def __init__(self, events, reach_km, dtype):
        n, n_dims, space, (low, extent) = events.n_events, events.n_dims, events.space, events.box
        # most cells along a dimension, for at most about four cells per event
        most = max(1, int((4 * n) ** (1.0 / n_dims)))
        wide = np.maximum(reach_km, extent / most)
        self.shape = tuple(int(v) + 1 for v in np.minimum(extent // wide, most - 1))
        n_cells, each = int(np.prod(self.shape)), pk.RangePolicy(0, n, space=space)
        numbers, self.start = events.room("numbers", np.int32), pk.empty(n_cells + 1, np.int64, space)
        launch(
            each,
            number_cells,
            pk.static(n_dims),
            events.x,
            tuple(low.tolist()),
            tuple(wide.tolist()),
            self.shape,
            numbers,
        )
        self.order = pk.argsort(numbers, space)
        self.x = events.room("x", dtype, events.x.shape[0])
        self.t, self.cell = events.room("t", np.float64), events.room("cell", np.int64, n_dims)
        sorted_numbers = events.room("sorted numbers", np.int32)
        launch(
            each,
            put_into_cells,
            pk.static(n_dims),
            self.order,
            numbers,
            self.shape,
            events.x,
            events.t,
            self.x,
            self.t,
            self.cell,
            sorted_numbers,
        )
        launch(
            pk.RangePolicy(0, n_cells + 1, space=space),
            find_cells,
            sorted_numbers,
            self.start,
        )

    @property
    def args(self):
        """Return the grid as arguments of kernels."""
        return self.x, self.t, self.cell, self.start, self.shape


class Range(Frozen):
    """A range of triggering parameters between two bounds, and the exponent beyond which pairs are
    omitted."""

    low: tuple
    high: tuple
    cut: float

    def holds(self, p, cut):
        """Return True if a list for this range is valid for parameters p and pairs up to the exponent
        `cut`."""
        return cut <= self.cut and all(a <= v <= b for a, v, b in zip(self.low, p, self.high))


def _visit(events, trigger, p, cut, dtype):
    """Return the order of the events by cells, and a function that lists the pairs whose exponent does not
    exceed `cut`, on the default space: it returns r2, dt and marks as Views of n_places entries, and writes
    `earlier` if `fill` is 2, or only the counts if it is 0."""
    most = events.largest if trigger.marked else 0.0
    grid = Grid(events, trigger.reach_km(p, cut, most), np.float64)
    where = *grid.args, trigger.reach_h(p, cut, most), cut, trigger.for_kernels(p)
    head = events.n_events, list_pairs, trigger.functions, pk.static(events.n_dims)

    def visit(fill, n_places, counts, first, stride, earlier):
        n = max(n_places, 1)
        found = [pk.zeros(size, dtype) for size in (n, n, n if trigger.marked else 1)]
        launch(*head, pk.static(fill), *where, counts, first, stride, *found, earlier)
        return found

    return grid.order, visit


class PairList:
    """The pairs whose exponent does not exceed a cut for any parameters in a range.

    Short rows (a row is the pairs of an event) are ordered by length and interleaved, WIDTH at a time, so
    that adjacent lanes read adjacent memory; long rows are stored one after the other.

    Raises
    ------
    OverflowError
        There are more than MOST_PAIRS such pairs; nothing was stored.
    """

    def __init__(self, events, trigger, range_, dtype):
        self.range, self.trigger = range_, trigger
        with pk.use(events.space), lock_of(events):
            slowest = trigger.slowest(range_.low, range_.high)
            order, visit = _visit(events, trigger, slowest, range_.cut, dtype)
            counts = events.room("counts", np.int64)
            visit(0, 0, *(counts,) * 4)
            n_places, first, stride = self._lay_out(events, counts, order)
            if n_places > MOST_PAIRS:
                raise OverflowError(f"{self.n_pairs} pairs count; at most {MOST_PAIRS} are stored")
            self.r2, self.dt, self.marks = visit(1, n_places, counts, first, stride, counts)
        self._policy = pk.TeamPolicy(self.n_teams, WIDTH, space=events.space)

    def _lay_out(self, events, counts, order):
        """Assign memory to the rows by their numbers of pairs. Return the total number of places, the
        first place of each row, and the stride within a row. Only a few sums are copied to the host."""
        keys = events.room("keys", np.int32)
        n_short, n_long, n_pairs = reduce(events.n_events, rank_row, counts, keys, reducer=(pk.Sum,) * 3)
        n_slices = -(-n_short // WIDTH)
        self.n_pairs, self.n_slices, self.n_teams = n_pairs, n_slices, n_slices + n_long
        rows, self.begin = pk.argsort(keys), pk.empty(self.n_teams + 1, np.int64)
        n_places = pk.parallel_scan(
            self.n_teams + 1,
            places_of,
            n_slices,
            n_short,
            self.n_teams,
            rows,
            counts,
            out=self.begin,
            inclusive=False,
            label="hawkes.places_of_rows",
        )
        first, stride = events.room("first", np.int64), events.room("stride", np.int64)
        self.length = pk.empty(max(n_slices * WIDTH, 1), np.int64)
        self.event = pk.empty(max(n_slices * WIDTH + n_long, 1), np.int64)
        launch(
            n_slices * WIDTH + n_long,
            place_row,
            n_slices,
            n_short,
            rows,
            order,
            counts,
            self.begin,
            first,
            stride,
            self.length,
            self.event,
        )
        return n_places, first, stride

    @property
    def args(self):
        """Return the list as an argument of kernels."""
        return self.n_slices, self.r2, self.dt, self.marks, self.begin, self.length, self.event

    def sums(self, n_xi, p, excitation):
        """Write the sums of (2) to `excitation`, shape (n_xi, n_events), for events with pairs; other
        entries must be zero beforehand."""
        launch(self._policy, listed_sums, self.trigger.pairs, pk.static(n_xi), self.args, p, excitation)


def all_pairs_within(events, params, cut):
    """Return the pairs whose exponent does not exceed `cut`, row by row: their r2, dt and marks (Views),
    and their later and earlier events (arrays)."""
    trigger, n_events = params.triggering, events.n_events
    with pk.use(events.space), lock_of(events):
        order, visit = _visit(events, trigger, params.trigger_values, cut, np.float64)
        counts = pk.zeros(n_events, np.int64)
        visit(0, 0, *(counts,) * 4)
        lengths = counts.to_numpy()
        n_pairs = int(lengths.sum())
        if n_pairs > MOST_PAIRS:
            raise InputError(
                f"{n_pairs} pairs reach `least`; expected at most {MOST_PAIRS}. A larger `least` leaves"
                " more out."
            )
        rows = pk.copy_of(np.cumsum(lengths) - lengths), pk.copy_of(np.ones(n_events, np.int64))
        earlier = pk.zeros(max(n_pairs, 1), np.int64)
        pairs, order = visit(2, n_pairs, counts, *rows, earlier), order.to_numpy()
    return *pairs, np.repeat(order, lengths), order[earlier.to_numpy()[:n_pairs]]
