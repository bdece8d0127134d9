"""Test segments: where windows touch, no point and no target reaches across; masks of candidates, and copied
points.
"""

import warnings

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal

import portable as pk
from portable.models import edm
from portable.models.edm.checks import check_windows
from portable.models.edm.layout import Places, found_in

from .series import logistic_maps

REPLICATES = [(0, 15), (15, 28), (28, 40)]


def test_windows_that_touch_are_segments(space):
    """Test all functions; test_replicates.py compares these with loops."""
    x = logistic_maps(40, 2)

    def every(**keys):
        keys["space"] = space
        yield edm.simplex(x[:, 0], 2, target=x[:, 1], Tp=-1, **keys).predicted
        yield edm.embedding_dimension(x[:, 0], 3, target=x[:, 1], Tp=0, **keys).rho
        yield edm.smap(x[:, 0], 2, theta=[0.0, 2.0], target=x[:, 1], Tp=0, **keys).rho
        yield edm.cross_map(x, [1, 2], dtype="float64", **keys)
        yield edm.lagged_map(*x.T, 2, Tp=[0], n_boot=2, **keys).rho
        yield edm.ccm(*x.T, 2, library_sizes=[37], n_samples=1, dtype="float64", **keys).rho
        yield edm.knn(x[:, 0], 3, k=30, **keys).indices

    cut = edm.Segments(("a", "b", "c"), tuple(REPLICATES))
    for ours, wanted in zip(every(lib=REPLICATES, pred=REPLICATES), every(segments=cut)):
        assert_array_equal(ours, wanted)
    near = edm.knn(
        x[:, 0], 3, k=33, pred=REPLICATES, space=space
    )  # the library is one window, and divided as well
    assert set(near.indices[near.indices >= 0] + 2) == set(range(2, 40)) - {15, 16, 28, 29}


def test_lags_share_candidates_of_their_segment():
    """A lagged map requires the target of every lag in the candidate's window."""
    x, y = logistic_maps(60, 2).T
    windows = [(0, 20), (20, 40), (40, 60)]
    found = edm.lagged_map(x, y, 2, Tp=[-2, 3], n_boot=2, lib=windows, pred=windows)
    t = np.arange(60)
    own = (t % 20 >= 2) & (t % 20 < 17)
    for lag, rho in zip((-2, 3), found.rho):
        alone = edm.simplex(x, 2, Tp=lag, target=y, valid=own, lib=windows, pred=windows)
        assert rho == pytest.approx(alone.rho, abs=1e-12)


def test_surrogates_are_put_in_their_places(space):
    """Each surrogate of a test is mapped like a separate series."""
    x = logistic_maps(40, 2)
    keys = {"lib": REPLICATES, "pred": REPLICATES, "dtype": "float64", "space": space}
    found = edm.cross_map_test(x, 2, n_surrogates=3, surrogate="phase", stop_after=None, seed=3, **keys)
    standard = (x - x.mean(axis=0)) / x.std(axis=0)
    made = edm.surrogates(standard, 3, seed=3, space="serial")
    for i, j in ((0, 1), (1, 0)):
        skill = edm.cross_map(np.column_stack([x, made[:, j]]), 2, libraries=[i], **keys)[0, 2:]
        assert found.n_better[i, j] == (skill >= found.rho[i, j]).sum()


def test_candidates_may_be_masked(space):
    """A mask removes no coordinates of other points, as NaN would; one that allows all points has no
    effect."""
    n = 40
    x = np.sin(np.arange(n) * 0.631)
    valid = abs(x) > 0.5
    wanted = []
    for t in range(1, n):
        late = [s for s in range(1, n - 1) if valid[s] and s != t]
        d = np.array([np.hypot(x[s] - x[t], x[s - 1] - x[t - 1]) for s in late])
        near = np.argsort(d, kind="stable")[:3]
        w = np.maximum(np.exp(-d[near] / d[near[0]]), 1e-6)
        wanted.append(w @ x[np.array(late)[near] + 1] / w.sum())
    found = edm.simplex(x, 2, valid=valid, space=space)
    assert np.isfinite(found.predicted).all() and len(found.times) == n - 1
    assert_allclose(found.predicted, wanted, rtol=0, atol=1e-12)
    swept = edm.embedding_dimension(x, 2, valid=valid, space=space)
    assert swept.rho[1] == pytest.approx(found.rho, abs=1e-12)
    two = np.column_stack([x, np.cos(np.arange(n) * 0.631)])
    rho = edm.cross_map(two, 2, Tp=1, valid=valid, dtype="float64", space=space)
    assert rho[0, 0] == pytest.approx(found.rho, abs=1e-12)
    largest = [int(valid[1:-1].sum())]
    grown = edm.ccm(
        x, x, 2, Tp=1, library_sizes=largest, n_samples=1, valid=valid, dtype="float64", space=space
    )
    assert grown.rho[0, 0] == pytest.approx(found.rho, abs=1e-12)
    maps = edm.smap(x, 2, theta=0.0, valid=valid.tolist(), space=space)
    assert np.isfinite(maps.predicted).all()
    every = edm.simplex(x, 2, valid=np.ones(n, bool), space=space)
    assert_array_equal(every.predicted, edm.simplex(x, 2, space=space).predicted)


def test_masked_candidates_on_a_line(monkeypatch):
    """There is one coordinate, and so many candidates that they are sorted."""
    x = default_rng(1).random(3000)
    valid = x > 0.3
    monkeypatch.setattr(edm.problem, "PAIRS", 1)
    found = edm.knn(x, 1, k=3, valid=valid, lib=[(0, 1500), (1500, 3000)])
    monkeypatch.setattr(edm.problem, "SORTED", 10**9)
    wanted = edm.knn(x, 1, k=3, valid=valid, lib=[(0, 1500), (1500, 3000)])
    assert_array_equal(found.indices, wanted.indices)
    assert valid[found.indices].all()


@pytest.mark.parametrize("first, last", [(0, 200), (0, 120), (80, 200), (50, 150)])
def test_points_that_are_the_library_leave_themselves_out(first, last):
    """White noise has no skill, whether its rows are given as points in an array, a copy or a list."""
    x = default_rng(0).random(200)
    alone = edm.simplex(x, 2, lib=(0, 200), pred=(first + 1, last))
    for points in (x[first:last], x[first:last].copy(), x[first:last].tolist()):
        found = edm.simplex(x, 2, points=points)
        assert_array_equal(found.predicted, alone.predicted)
        assert abs(found.rho) < 0.3
        assert_array_equal(found.times, np.arange(2, last - first + 1))
    wide = edm.simplex(x, 2, points=x[first:last], exclusion_radius=5)
    radius = edm.simplex(x, 2, pred=(first + 1, last), exclusion_radius=5)
    assert_array_equal(wide.predicted, radius.predicted)
    y = default_rng(1).random(200)
    other = edm.simplex(x, 2, points=x[first:last], target=y)
    seen = edm.simplex(x, 2, pred=(first + 1, last), target=y)
    assert other.rho == pytest.approx(seen.rho, abs=1e-12)
    assert_array_equal(other.observed, seen.observed)
    assert edm.embedding_dimension(x, 3, points=x[first:last]).rho.max() < 0.4
    assert abs(edm.smap(x, 2, theta=8.0, points=x[first:last]).rho[0]) < 0.4


def test_copies_among_other_points_are_warned_of():
    x = default_rng(0).random(200)
    with pytest.warns(RuntimeWarning, match="49 of 99 points equal those of the library"):
        edm.simplex(x[:150], 2, points=x[100:])
    counts = default_rng(1).poisson(0.3, 200).astype(float)
    with warnings.catch_warnings(action="error"):  # few values: equal points are not taken for copies
        edm.simplex(counts[:100], 2, points=counts[100:])
        edm.simplex(x[:100], 2, points=x[100:])


def test_rows_are_found():
    x = default_rng(0).random((50, 2))
    x[5, 0] = np.nan
    assert found_in(x, x) == 0 and found_in(x[4:9], x) == 4 and found_in(x[4:5], x) == 4
    assert found_in(x[::-1], x) is None and found_in(np.r_[x, x], x) is None
    assert found_in(np.zeros((300, 1)), np.zeros((400, 1))) == 0
    assert found_in(np.r_[np.zeros((200, 1)), [[1.0]]], np.zeros((400, 1))) is None


def test_places():
    segments = Places(10, (0, 4, 7), 3)
    times = np.arange(10)
    places = segments.of(times)
    assert places.tolist() == [0, 1, 2, 3, 7, 8, 9, 13, 14, 15] and segments.n_places == 16
    assert_array_equal(segments.times(places), times)
    spread = segments.spread(times.astype(float)[:, None])[:, 0]
    assert np.isnan(spread).sum() == 6 and (spread[places] == times).all()
    there = segments.spread_view(pk.copy_of(times.astype(float)[:, None])).to_numpy()[:, 0]
    assert_array_equal(there, spread)
    part = segments.part(2, 6)
    assert_array_equal(part.of(np.arange(6)), places[2:8])
    assert_array_equal(part.times(places[2:8]), np.arange(6))


@pytest.mark.parametrize(
    "given, wanted",
    [
        ([(0, 30), (30, 60)], [(0, 30), (30, 60)]),
        ([(30, 60), (0, 31)], [(0, 60)]),
        ([(0, 50), (10, 20), (49, 60)], [(0, 60)]),
        ([(0, 30), (0, 30)], [(0, 30)]),
        ((5, 9), [(5, 9)]),
    ],
)
def test_windows_that_overlap_are_one(given, wanted):
    assert check_windows(given, "lib", 60) == wanted
