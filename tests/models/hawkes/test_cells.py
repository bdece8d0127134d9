"""Compare events in cells with NumPy."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from portable.models.hawkes import Likelihood
from portable.models.hawkes.cell_kernels import LONG, WIDTH
from portable.models.hawkes.cells import Grid, PairList, Range, all_pairs_within

from .events import PARAMS, prepared, random_events, squares


def by_numpy(locations, reach_km):
    """Return cells' numbers, and the number of cells along each dimension."""
    n, n_dims = locations.shape
    low, extent = locations.min(axis=0), np.ptp(locations, axis=0)
    most = max(1, int((4 * n) ** (1.0 / n_dims)))
    wide = np.maximum(reach_km, extent / most)
    shape = np.minimum(extent // wide, most - 1).astype(np.int64) + 1
    return np.minimum(((locations - low) // wide).astype(np.int64), shape - 1), shape


@pytest.mark.parametrize("n_dims", [1, 2, 3])
@pytest.mark.parametrize("reach_km", [1e-6, 0.5, 100.0])
def test_grid(space, n_dims, reach_km):
    """Test places on the edges of cells, too: whole kilometres."""
    n = 60 if space == "checked" else 500
    locations, times = random_events(n, n_dims)
    locations[: n // 2] = np.round(locations[: n // 2])
    marks = np.arange(float(n))
    sums = Likelihood(locations, times, marks=marks, space=space).sums
    grid = Grid(sums, reach_km, np.float32)
    cell, shape = by_numpy(sums.locations, reach_km)
    number = np.ravel_multi_index(cell.T, shape)
    order = np.argsort(number, kind="stable")
    assert grid.shape == tuple(shape)
    assert_array_equal(grid.order.to_numpy(), order)
    assert_array_equal(grid.cell.to_numpy(), cell[order].T)
    assert_array_equal(grid.t.to_numpy(), sums.times[order])
    rows = np.vstack([sums.locations.T, marks])[:, order]
    assert_array_equal(grid.x.to_numpy(), rows.astype(np.float32))
    counts = np.bincount(number, minlength=np.prod(shape))
    assert_array_equal(grid.start.to_numpy(), np.concatenate([[0], np.cumsum(counts)]))


def test_all_events_in_one_place(space):
    sums = Likelihood(np.ones((5, 2)), np.arange(5.0), space=space).sums
    grid = Grid(sums, 0.1, np.float64)
    assert grid.shape == (1, 1) and grid.start.to_numpy().tolist() == [0, 5]
    p = PARAMS.trigger_values
    assert PairList(sums, PARAMS.triggering, Range(p, p, 100.0), np.float64).n_pairs == 10


def test_rows_of_a_list(space):
    """Short rows are interleaved, the longest first and those of equal length in the order of the cells; long
    rows follow, contiguous, each with its own pairs."""
    n, crowd = (100, 75) if space == "checked" else (900, 300)
    locations, times = random_events(n)
    locations[:crowd], times[:crowd] = 1e-3 * locations[:crowd] + 5.0, 1e-3 * times[:crowd]
    sums, p = Likelihood(locations, times, space=space).sums, PARAMS.trigger_values
    pairs = PairList(sums, PARAMS.triggering, Range(p, p, 8.0), np.float64)
    begin, length, event, dt_of = (
        view.to_numpy() for view in (pairs.begin, pairs.length, pairs.event, pairs.dt)
    )
    dt, r2 = times[:, None] - times, squares(locations)
    near = (dt > 0.0) & (0.5 * r2 / PARAMS.h**2 + PARAMS.omega * dt <= 8.0)
    counts, n_short = near.sum(axis=1), WIDTH * pairs.n_slices
    assert pairs.n_pairs == counts.sum() and counts.max() > LONG and pairs.n_teams == len(begin) - 1
    places = {row: k for k, row in enumerate(event.tolist()) if row >= 0}
    assert sorted(places) == np.flatnonzero(counts).tolist()
    for row, k in places.items():
        rank, lane = (k // WIDTH, k % WIDTH) if k < n_short else (pairs.n_slices + k - n_short, 0)
        assert (counts[row] > LONG) == (k >= n_short)
        assert k >= n_short or length[k] == counts[row]
        own = dt_of[begin[rank] + lane :: WIDTH if k < n_short else 1][: counts[row]]
        assert_allclose(np.sort(own), np.sort(dt[row, near[row]]), rtol=1e-12)
    order = Grid(sums, PARAMS.triggering.reach_km(p, 8.0, 0.0), np.float64).order.to_numpy()
    for of, rows in ((-counts, event[:n_short]), (0 * counts, event[n_short:])):
        rows, where = rows[rows >= 0], np.argsort(order)
        assert rows.tolist() == sorted(rows.tolist(), key=lambda row, of=of: (of[row], where[row]))
    assert np.diff(begin)[: pairs.n_slices].tolist() == (WIDTH * length[:n_short:WIDTH]).tolist()
    assert np.diff(begin)[pairs.n_slices :].tolist() == counts[event[n_short:]].tolist()


def test_pairs_within_a_cut(space):
    n = 40 if space == "checked" else 200
    locations, times, likelihood = prepared(n, space=space)
    *_, later, earlier = all_pairs_within(likelihood.sums, PARAMS, 6.0)
    r2 = squares(locations)
    dt = times[:, None] - times
    exponent = 0.5 * r2 / PARAMS.h**2 + PARAMS.omega * dt
    wanted = np.argwhere((dt > 0.0) & (exponent <= 6.0))
    found = np.stack([later, earlier], axis=1)
    assert_array_equal(found[np.lexsort(found.T[::-1])], wanted)
