"""Test significance of whole cross maps, convergence, and lagged maps."""

import numpy as np
import pandas
import pytest
import xarray
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from portable.errors import DTypeError, InputError
from portable.models import edm
from portable.models.edm.tested import REASONS

from .series import driver_and_driven, logistic_maps
from .test_surrogates import autoregressive


def pairs(space, surrogate):
    """Return series with ties, except if the last bits of a distance decide which points are twins."""
    x = logistic_maps(30 if space == "checked" else 130, 3)
    return x if surrogate == "twin" else np.round(x, 3)


@pytest.mark.parametrize(
    "keys",
    [
        {"surrogate": "phase"},
        {"surrogate": "block", "Tp": 1},
        {"surrogate": "twin"},
        {"surrogate": "block", "libraries": [[0, 1], [1, 2]]},
        {"surrogate": "phase", "lib": (0, 60), "pred": (60, 125), "exclusion_radius": 1},
    ],
    ids=str,
)
def test_pairs_and_surrogates_one_by_one(space, keys):
    """Map every surrogate, made separately, like an independent series, from the same libraries, and count in
    order."""
    if space == "checked" and "lib" in keys:
        keys = keys | {"lib": (0, 15), "pred": (12, 28)}
    x, dims, n = pairs(space, keys["surrogate"]), [1, 3, 2], 4 if space == "checked" else 40
    stop = 2 if space == "checked" else 5
    found = edm.cross_map_test(
        x, dims, n_surrogates=n, stop_after=stop, seed=3, dtype="float64", space=space, **keys
    )
    maps = {k: v for k, v in keys.items() if k != "surrogate"} | {"dtype": "float64", "space": "serial"}
    assert_allclose(found.rho, edm.cross_map(x, dims, **maps), rtol=0, atol=1e-12)
    standard = (x - x.mean(axis=0)) / x.std(axis=0)
    made = edm.surrogates(standard, n, keys["surrogate"], seed=3, E=dims)
    groups = maps.setdefault("libraries", [0, 1, 2])
    own = [[j in np.atleast_1d(group) for j in range(3)] for group in groups]
    assert_array_equal(found.reasons == REASONS.index("library and target are the same series"), own)
    assert found.libraries == ([*"012"] if groups[0] == 0 else ["0 + 1", "1 + 2"])
    for j in range(3):
        both = np.column_stack([x, made[:, j]])
        skill = edm.cross_map(both, dims[j], **maps)[:, 3:]
        for i, row in enumerate(own):
            at_least = (
                np.cumsum(skill[i] >= found.rho[i, j] + 1e-11),
                np.cumsum(skill[i] >= found.rho[i, j] - 1e-11),
            )
            tried = n if at_least[0][-1] < stop else int(np.argmax(at_least[0] == stop)) + 1
            if (at_least[0] != at_least[1]).any():
                continue  # a surrogate that equals the series up to rounding
            assert (found.n_better[i, j], found.n_tried[i, j]) == (at_least[0][tried - 1], tried)
            if not row[j]:
                assert found.p_values[i, j] == (
                    stop / tried if at_least[0][-1] >= stop else (1 + at_least[0][-1]) / (1 + n)
                )


def test_groups_of_targets_and_parts_of_points_change_nothing():
    x, keys = logistic_maps(300, 5), {"n_surrogates": 70, "surrogate": "phase"}
    whole, part = (edm.cross_map_test(x, [1, 4, 2, 2, 3], memory_mb=mb, **keys) for mb in (4096, 0.6))
    assert_array_equal(whole.n_better, part.n_better)
    assert_array_equal(whole.p_values, part.p_values)


def test_what_is_not_tested_says_why():
    x = logistic_maps(80, 4)
    x[:, 2] = 0.5
    found = edm.cross_map_test(x, 2, n_surrogates=20, surrogate="block", libraries=[0, 2, 3])
    assert [REASONS[c] for c in found.reasons[0]] == [
        "library and target are the same series",
        "",
        "the target does not vary",
        "",
    ]
    assert (found.reasons[1] == REASONS.index("the library does not vary")).all()
    assert_array_equal(np.isnan(found.p_values), found.reasons != 0)
    assert found.n_tests == 4 and "3 not tested: the library does not vary" not in found.summary()
    assert "4 not tested: the library does not vary" in found.summary()
    rare = np.zeros(80)
    rare[[3, 40]] = 1.0
    found = edm.cross_map_test(
        np.column_stack([x[:, 0], rare]), 2, n_surrogates=20, surrogate="block", lib=(5, 35)
    )
    assert REASONS[found.reasons[0, 1]] == "the predictions do not vary" and np.isnan(found.rho[0, 1])


def test_summary_tells_what_could_not_have_been_found():
    x = np.column_stack([autoregressive(100, 0.5, seed) for seed in range(4)])
    few = edm.cross_map_test(x, 2, n_surrogates=9)
    assert (
        few.n_needed() > few.n_tests
        and "nothing could have been rejected: p is at least 0.1" in few.summary()
    )
    more = edm.cross_map_test(x, 2, n_surrogates=99)
    assert more.n_needed() == 3 and more.n_needed(method="by") > 3
    coupled = edm.cross_map_test(driver_and_driven(300), 2, n_surrogates=99, surrogate="phase")
    assert coupled.rejected()[1, 0]
    assert "rejected with a false discovery rate of 0.05 (Benjamini-Hochberg)" in coupled.summary()
    assert (coupled.rejected(method="by") <= coupled.rejected()).all()


def test_pairs_that_none_matches_go_on(tmp_path, monkeypatch):
    """Test many pairs with few surrogates: a coupled one continues until it is rejected, with the result of a
    longer test.
    """
    x = np.column_stack([driver_and_driven(200), *(autoregressive(200, 0.5, seed) for seed in range(5))])
    keys = {"surrogate": "phase", "seed": 2}
    longer = keys | {"n_surrogates": 19, "max_surrogates": 5000, "checkpoint": tmp_path / "kept"}
    few = edm.cross_map_test(x, 2, n_surrogates=19, **keys)
    unmatched = few.unmatched()
    assert unmatched[1, 0] and not few.rejected().any()
    wanted = few.n_wanted()
    assert f"max_surrogates={wanted} could tell more" in few.summary()
    assert wanted == int(np.ceil(few.n_tests / (0.05 * unmatched.sum()))) - 1 > 19
    more = edm.cross_map_test(x, 2, **longer)
    assert more.rejected()[1, 0] and wanted <= more.n_max <= 5000
    assert_array_equal(more.p_values[~unmatched], few.p_values[~unmatched])
    whole = edm.cross_map_test(x, 2, n_surrogates=more.n_max, **keys)
    last = more.n_tried == more.n_max
    assert last[1, 0]
    for part in "rho n_better n_tried p_values".split():
        assert_array_equal(getattr(more, part)[last], getattr(whole, part)[last])
    went_on = int((more.n_tried > 19).sum())
    assert f"{went_on} that none of these matched went on to {more.n_max}" in more.summary()
    monkeypatch.setattr(edm.inference._Group, "run", None)  # all results are read
    again = edm.cross_map_test(x, 2, **longer)
    assert_array_equal(again.p_values, more.p_values)
    with pytest.raises(
        InputError,
        match="max_surrogates is 5000; so many of a series of 200 times need memory_mb=12, got 5",
    ):
        edm.cross_map_test(x, 2, max_surrogates=5000, memory_mb=5, **keys)


def test_more_surrogates_keep_the_level():
    """Among independent pairs, whose tests all continue if possible, at most a share p has a p-value up to
    p."""
    p = []
    for seed in range(120):
        x = np.column_stack([autoregressive(60, 0.5, 2 * seed), autoregressive(60, 0.5, 2 * seed + 1)])
        found = edm.cross_map_test(
            x, 1, n_surrogates=4, max_surrogates=200, fdr=0.01, surrogate="phase", seed=seed
        )
        p.append(found.p_values[0, 1])
    p = np.array(p)
    assert (p < 0.2).any()  # beyond 1 / (1 + 4)
    for share in (0.05, 0.1, 0.2):
        assert (p <= share).mean() <= share + 3 * np.sqrt(share * (1 - share) / len(p))


@pytest.mark.parametrize("method", ["bh", "by"])
def test_adjusted_p_values(method):
    p = np.random.default_rng(1).random((6, 7)) ** 3
    wanted = stats.false_discovery_control(p.ravel(), method=method).reshape(6, 7)
    assert_allclose(edm.adjust(p, method), wanted, rtol=1e-12)
    p[2, 3] = np.nan
    known, again = np.isfinite(p), edm.adjust(p, method)
    assert_allclose(again[known], stats.false_discovery_control(p[known], method=method), rtol=1e-12)
    assert np.isnan(again[2, 3])
    with pytest.raises(InputError, match=r"p_values\[.*\] is 1.5"):
        edm.adjust([0.1, 1.5])


def test_results_of_a_test_have_names():
    x = pandas.DataFrame(logistic_maps(80, 3), columns=list("abc"))
    found = edm.cross_map_test(x, 2, n_surrogates=19, surrogate="phase")
    dataset = found.to_xarray()
    assert isinstance(dataset, xarray.Dataset) and dataset.attrs["n_surrogates"] == 19
    assert float(dataset.p.sel(library="a", target="b")) == found.p_values[0, 1]
    table = found.to_pandas()
    assert len(table) == 9 and table.q.dropna().is_monotonic_increasing
    own = table[(table.library == "b") & (table.target == "b")]
    assert own.reason.item() == "library and target are the same series"


def test_convergence_by_hand():
    """The slope is compared with NumPy's polyfit, tau with SciPy; the shares of surrogates are counted."""
    x = logistic_maps(200, 2)
    sizes = np.array([150, 10, 60, 25])
    grown = edm.ccm(
        x[:, 1], x[:, 0], 2, library_sizes=sizes, n_samples=30, n_surrogates=19, surrogate="phase"
    )
    found = grown.test()
    assert found.slope == pytest.approx(np.polyfit(np.log(sizes), grown.mean, 1)[0], rel=1e-12)
    assert found.tau == pytest.approx(stats.kendalltau(sizes, grown.mean).statistic, rel=1e-12)
    assert found.difference == grown.mean[0] - grown.mean[1]
    slopes = [np.polyfit(np.log(sizes), y, 1)[0] for y in grown.surrogate_rho.T]
    assert found.slope_p == (1 + sum(s >= found.slope for s in slopes)) / 20
    error = np.sqrt(sum(grown.rho[k].var(ddof=1) / 30 for k in (0, 1)))
    half = np.diff(found.difference_interval) / 2
    assert half == pytest.approx(1.96 * error, rel=0.15)  # a thousand bootstrap samples of thirty
    with pytest.raises(InputError, match="library_sizes has one size; expected at least two"):
        edm.ccm(x[:, 1], x[:, 0], 2, library_sizes=[20], n_samples=2).test()


def test_several_targets_and_columns(space):
    """Each target has the result of a separate call; a point of two columns has that of simplex."""
    x = logistic_maps(26 if space == "checked" else 90, 3)
    keys = {
        "library_sizes": [9, 20],
        "n_samples": 2,
        "n_surrogates": 2,
        "surrogate": "block",
        "dtype": "float64",
        "space": space,
    }
    both = edm.ccm(x[:, 0], x[:, 1:], 2, **keys)
    alone = edm.ccm(x[:, 0], x[:, 1], 2, **keys)
    assert_array_equal(both.rho[0], alone.rho)
    assert_array_equal(both.p_values[0], alone.p_values)
    n = len(x)
    whole = edm.ccm(x[:, :2], x[:, 2], 2, library_sizes=[n - 1], n_samples=1, dtype="float64", space=space)
    wanted = edm.simplex(x[:, :2], 2, Tp=0, target=x[:, 2]).rho
    assert whole.rho[0, 0] == pytest.approx(wanted, abs=1e-12)
    if space == "checked":
        return  # the same kernels again
    swept = edm.embedding_dimension(x[:, :2], 3, target=x[:, 1:], space=space)
    for q in (0, 1):
        wanted = [edm.simplex(x[:, :2], E, target=x[:, 1 + q]).rho for E in (1, 2, 3)]
        assert_allclose(swept.rho[q], wanted, rtol=0, atol=1e-12)
    found = edm.simplex(x[:, 0], 2, target=x[:, 1:], space=space)
    assert_array_equal(found.predicted[:, 1], edm.simplex(x[:, 0], 2, target=x[:, 2], space=space).predicted)
    maps = edm.smap(x[:, 0], 2, theta=[0.0, 2.0], target=x[:, 1:], space=space)
    alone = edm.smap(x[:, 0], 2, theta=[0.0, 2.0], target=x[:, 2], space=space)
    for part in "predicted coefficients rank observed rho".split():
        assert_array_equal(getattr(maps, part)[..., 1], getattr(alone, part))
    windows = edm.ccm(
        x[:, 0],
        x[:, 1],
        2,
        library_sizes=[20],
        n_samples=2,
        lib=(0, 21),
        pred=(20, n),
        dtype="float64",
        space=space,
    )
    wanted = edm.simplex(x[:, 0], 2, Tp=0, target=x[:, 1], lib=(0, 21), pred=(20, n)).rho
    assert_allclose(windows.rho, [[wanted, wanted]], rtol=0, atol=1e-12)


def test_lagged_maps(space):
    """Each lag has the result of simplex with the same candidates; the delay of a driver is found."""
    n = 40 if space == "checked" else 220
    driver = logistic_maps(n, 1)[:, 0]
    driven = np.full(n, 0.3)
    for t in range(n - 1):
        driven[t + 1] = driven[t] * (3.3 - 3.3 * driven[t] - 0.5 * driver[max(t - 3, 0)])
    lags = [-6, -5, -4, -3, -2, -1, 0, 1]
    found = edm.lagged_map(
        driven, driver, 2, Tp=lags, n_boot=200, n_surrogates=9, surrogate="phase", space=space
    )
    for rho, lag in zip(found.rho, lags):
        shifted = np.full(n, np.nan)
        there = (np.arange(n) + lag >= 0) & (np.arange(n) + lag < n)
        shifted[there] = driver[np.arange(n)[there] + lag]
        alone = edm.simplex(driven, 2, Tp=0, target=shifted, lib=(0, n))
        if lag == -6:  # only this lag excludes the first six candidates
            assert rho != alone.rho
        assert rho == pytest.approx(alone.rho, abs=0.15 if n == 40 else 0.05)
    low, high = found.interval
    assert (low <= found.rho).all() and (found.rho <= high).all()
    assert found.peak_interval[0] <= found.peak <= found.peak_interval[1]
    if n > 40:
        assert found.peak in (-4, -5) and found.peak_p == 0.1 and found.p_values.min() == 0.1


def test_lagged_map_with_one_lag_is_simplex():
    x = logistic_maps(100, 2)
    for lag in (-2, 0, 3):
        found = edm.lagged_map(x[:, 1], x[:, 0], 2, Tp=[lag], n_boot=10)
        assert found.rho[0] == pytest.approx(edm.simplex(x[:, 1], 2, Tp=lag, target=x[:, 0]).rho, abs=1e-12)
    with pytest.raises(DTypeError, match="Tp must be whole numbers"):
        edm.lagged_map(x[:, 1], x[:, 0], 2, Tp=0.5)


def test_lagged_maps_of_several_targets():
    """Each target has the result of a separate call; with names in a table."""
    x = logistic_maps(80, 3)
    keys = {"Tp": [-1, 0, 2], "n_boot": 20, "n_surrogates": 5, "surrogate": "block"}
    both = edm.lagged_map(x[:, 0], x[:, 1:], 2, **keys)
    for q in (0, 1):
        alone = edm.lagged_map(x[:, 0], x[:, 1 + q], 2, **keys)
        for part in "rho interval peak peak_interval p_values peak_p".split():
            assert_array_equal(getattr(both, part)[q], getattr(alone, part))
    frame = pandas.DataFrame(x, columns=list("abc"))
    named = edm.lagged_map(frame, ["b", "c"], 2, columns="a", **keys).to_pandas()
    assert named.target.tolist() == ["b"] * 3 + ["c"] * 3
    assert_array_equal(named.low, both.interval[:, 0].ravel())


def test_results_of_several_targets_have_their_names():
    x = pandas.DataFrame(logistic_maps(60, 3), columns=list("abc"))
    keys = {"columns": "a", "target": ["c", "b"]}
    for found, n in (
        (edm.simplex(x, 2, **keys), 59),
        (edm.smap(x, 2, theta=[0.0, 1.0], **keys), 118),
        (edm.embedding_dimension(x, 3, **keys), 3),
        (edm.ccm(x, E=2, library_sizes=[9, 20], n_samples=2, **keys), 2),
        (edm.simplex(x["a"], 2, target=x[["c", "b"]]), 59),
    ):
        table = found.to_pandas()
        assert table.target.value_counts().to_dict() == {"c": n, "b": n}
    assert found.targets == ["c", "b"]
    assert_array_equal(
        table.predicted[table.target == "b"],
        edm.simplex(x, 2, columns="a", target="b").predicted,
    )
    assert edm.simplex(x, 2, columns="a", target="b").targets is None


def test_tables_with_names_and_dates():
    x = logistic_maps(60, 2)
    dates = pandas.date_range("2020-01-31", periods=60, freq="ME")
    table = pandas.DataFrame(x, columns=["a", "b"], index=dates)
    plain = edm.simplex(x[:, 0], 2, target=x[:, 1], Tp=2)
    for given in (
        table,
        table.to_xarray(),
        xarray.DataArray(x, dims=("index", "cell"), coords={"index": dates, "cell": ["a", "b"]}),
    ):
        found = edm.simplex(given, 2, columns="a", target="b", Tp=2)
        assert_array_equal(found.predicted, plain.predicted)
        wanted = pandas.date_range("2020-04-30", periods=59, freq="ME").to_numpy()
        assert_array_equal(found.index, wanted)
    assert (found.to_pandas().time == wanted).all()
    assert plain.index is None and (edm.knn(table["a"], 2).index == dates[1:]).all()
    assert edm.smap(table, 2, columns="a", target="b", theta=1.0).index[0] == dates[2]
    assert edm.ccm(table, "b", 2, columns="a", library_sizes=[20], n_samples=1).rho.shape == (1, 1)
    season = table.assign(c=np.sin(2 * np.pi * np.arange(60) / 6))
    both = {"columns": "a", "library_sizes": [20], "n_samples": 1, "n_surrogates": 3}
    mixed = edm.ccm(season, ["b", "c"], 2, **both)
    alone = edm.ccm(season, ["b"], 2, **both, surrogate="seasonal", period=6)
    assert_array_equal(mixed.surrogate_rho[0], alone.surrogate_rho[0])
    # a season without weather has only surrogates equal to it
    assert_allclose(mixed.surrogate_rho[1], np.repeat(mixed.mean[1:], 3, axis=1), atol=1e-6)
    with pytest.raises(
        InputError, match="target is 'b', a column of the library: choose the embedded series by columns="
    ):
        edm.simplex(table, 2, target="b")
    with pytest.raises(InputError, match="differ in time: at 0 2020-01-30.* and 2020-01-31"):
        edm.simplex(table["a"], 2, target=table["b"].shift(-1, freq="D"))
    with pytest.raises(InputError, match="target: there is no column 'z'"):
        edm.simplex(table, 2, columns="a", target="z")
    numbered = edm.simplex(table.reset_index()[["a"]], 2, Tp=2)
    assert_array_equal(numbered.index, numbered.times)
