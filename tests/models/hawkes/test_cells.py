"""Events in cells against the same by NumPy."""

import numpy as np
import pytest

from models.hawkes.cells import Events, Grid, PairList, Range, all_pairs_within

from .events import PARAMS, random_events


def by_numpy(locations, reach_km):
    """Cells' numbers, and how many there are along each dimension."""
    n, n_dims = locations.shape
    low, extent = locations.min(axis=0), np.ptp(locations, axis=0)
    most = max(1, int((4 * n) ** (1.0 / n_dims)))
    wide = np.maximum(reach_km, extent / most)
    shape = np.minimum(extent // wide, most - 1).astype(np.int64) + 1
    return np.minimum(((locations - low) // wide).astype(np.int64), shape - 1), shape


@pytest.mark.parametrize("n_dims", [1, 2, 3])
@pytest.mark.parametrize("reach_km", [1e-6, 0.5, 100.0])
def test_grid(space, n_dims, reach_km):
    """Also places on the edges of cells: whole kilometres."""
    n = 60 if space == "checked" else 500
    locations, times = random_events(n, n_dims)
    locations[: n // 2] = np.round(locations[: n // 2])
    marks = np.arange(float(n))
    grid = Grid(Events(locations, times, space, marks), reach_km, np.float32)
    cell, shape = by_numpy(locations, reach_km)
    number = np.ravel_multi_index(cell.T, shape)
    order = np.argsort(number, kind="stable")
    assert grid.shape == tuple(shape)
    np.testing.assert_array_equal(grid.order.to_numpy(), order)
    np.testing.assert_array_equal(grid.cell.to_numpy(), cell[order].T)
    np.testing.assert_array_equal(grid.t.to_numpy(), times[order])
    rows = np.vstack([locations.T, marks])[:, order]
    np.testing.assert_array_equal(grid.x.to_numpy(), rows.astype(np.float32))
    counts = np.bincount(number, minlength=np.prod(shape))
    np.testing.assert_array_equal(grid.start.to_numpy(), np.concatenate([[0], np.cumsum(counts)]))


def test_all_events_in_one_place(space):
    events = Events(np.ones((5, 2)), np.arange(5.0), space)
    grid = Grid(events, 0.1, np.float64)
    assert grid.shape == (1, 1) and grid.start.to_numpy().tolist() == [0, 5]
    p = PARAMS.trigger_values
    assert PairList(events, PARAMS.triggering, Range(p, p, 100.0), np.float64).n_pairs == 10


def test_pairs_within_a_cut(space):
    n = 40 if space == "checked" else 200
    locations, times = random_events(n, 2)
    *_, later, earlier = all_pairs_within(Events(locations, times, space), PARAMS, 6.0)
    r2 = ((locations[:, None] - locations) ** 2).sum(axis=2)
    dt = times[:, None] - times
    exponent = 0.5 * r2 / PARAMS.h**2 + PARAMS.omega * dt
    wanted = np.argwhere((dt > 0.0) & (exponent <= 6.0))
    found = np.stack([later, earlier], axis=1)
    np.testing.assert_array_equal(found[np.lexsort(found.T[::-1])], wanted)
