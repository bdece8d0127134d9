"""Test sweeps over the dimension, theta and the library's size."""

import dataclasses
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal

import portable as pk
from portable.models import edm

from . import reference
from .series import driver_and_driven, logistic_maps


def length(space):
    return 40 if space == "checked" else 200


def test_embedding_dimension(space):
    """Test also points in a series of different length, with as many columns."""
    x, y = logistic_maps(length(space), 2), logistic_maps(30, 2, seed=7)
    for library, keys in ((x[:, 0], {"tau": 2}), (x, {"points": y})):
        found = edm.embedding_dimension(library, 4, **keys, space=space)
        wanted = [edm.simplex(library, E, **keys).rho for E in range(1, 5)]
        assert_allclose(found.rho, wanted, rtol=1e-9)
        assert found.best == 1 + np.argmax(wanted)


def test_smap_sweep(space):
    x = logistic_maps(length(space), 2)
    theta = [0.0, 1.0, 4.0]
    found = edm.smap(x[:, 0], 2, theta=theta, target=x[:, 1], space=space)
    for h, value in enumerate(theta):
        predicted, coefficients = reference.smap(x[:, 0], x[:, 1], 2, value)
        assert_allclose(found.predicted[h, :-1], predicted, rtol=0, atol=1e-9)
        assert_allclose(found.coefficients[h, :-1], coefficients, rtol=0, atol=1e-8)
        assert found.rho[h] == pytest.approx(reference.rho(predicted, x[2:, 1]), abs=1e-9)
    assert (found.rank == 3).all()


def test_smap_of_several_columns_and_few_neighbours(space):
    """The fit uses only the 12 nearest; it is compared with NumPy's least squares on those."""
    x = logistic_maps(length(space), 2)
    found = edm.smap(x, 1, theta=2.0, k=12, pred=(30, 36), space=space)
    near = edm.knn(x, 1, k=12, Tp=1, pred=(30, 36), space="serial")
    for i, t in enumerate(range(30, 36)):
        d, s = near.distances[i], near.indices[i]
        w = np.exp(-2.0 * d / d.mean())
        a = np.column_stack([np.ones(12), x[s]]) * w[:, None]
        c = np.linalg.lstsq(a, w * x[s + 1, 0], rcond=None)[0]
        assert found.predicted[0, i] == pytest.approx(c[0] + c[1:] @ x[t], abs=1e-9)


def test_smap_says_where_it_is_singular(space):
    """Two equal columns: one direction has no information, and the prediction is still right."""
    x = logistic_maps(length(space), 1)
    found = edm.smap(np.column_stack([x, x]), 1, theta=1.0, space=space)
    alone = edm.smap(x, 1, theta=1.0, space=space)
    assert (found.rank == 2).all() and (alone.rank == 2).all()
    assert_allclose(found.predicted, alone.predicted, rtol=0, atol=1e-8)


def test_ccm_sample_by_sample(space):
    """Each sample is a search among its points, with targets shuffled or not."""
    x = logistic_maps(length(space), 2)
    found = edm.ccm(
        x[:, 0],
        x[:, 1],
        2,
        library_sizes=[10, 25],
        n_samples=3,
        n_surrogates=2,
        surrogate="block",
        seed=5,
        dtype="float64",
        space=space,
    )
    random = default_rng(5)
    targets = [x[:, 1], *edm.surrogates(x[:, 1], 2, "block", seed=5, space="serial").T]
    rows = reference.embedded(x[:, 0], 2, 1)
    for s, size in enumerate((10, 25)):
        skills = np.empty((3, 3))
        for sample in range(3):
            times = np.sort(random.choice(np.arange(1, len(x)), size, replace=False))
            d = np.sqrt(((rows[:, None] - rows[times - 1]) ** 2).sum(axis=2))
            d[np.arange(1, len(x))[:, None] == times] = np.inf
            nearest = np.argsort(d, axis=1, kind="stable")[:, :3]
            w = reference.weights(np.take_along_axis(d, nearest, axis=1))
            skills[sample] = [reference.rho((w * y[times[nearest]]).sum(axis=1), y[1:]) for y in targets]
        assert_allclose(found.rho[s], skills[:, 0], rtol=0, atol=1e-12)
        assert_allclose(found.surrogate_rho[s], skills[:, 1:].mean(axis=0), rtol=0, atol=1e-12)
        assert found.p_values[s] == (1 + (skills[:, 1:].mean(axis=0) >= skills[:, 0].mean()).sum()) / 3


def test_ccm_rises_where_there_is_a_cause():
    """A driver is found in the series that it drives, and not in noise that was never coupled."""
    x = driver_and_driven(400)
    noise = default_rng(3).normal(size=400)
    how = {"n_samples": 20, "n_surrogates": 40, "surrogate": "phase"}
    driven, free = (
        edm.ccm(series, x[:, 0], 2, library_sizes=[5, 40, 300], **how) for series in (x[:, 1], noise)
    )
    assert (np.diff(driven.mean) > 0).all() and driven.p_values[2] < 0.05
    assert free.p_values[2] > 0.05
    low, high = driven.interval()
    assert (low <= np.median(driven.rho, axis=1)).all() and (np.median(driven.rho, axis=1) <= high).all()


def test_series_that_do_not_vary_have_no_skill(space):
    x = logistic_maps(length(space), 1)[:, 0]
    still = np.full(len(x), 0.1)
    calls = [
        lambda a, b: edm.simplex(a, 2, target=b, space=space).rho,
        lambda a, b: edm.smap(a, 1, theta=1.0, target=b, space=space).rho,
        lambda a, b: edm.embedding_dimension(a, 2, target=b, space=space).rho,
        lambda a, b: (
            edm.ccm(
                a, b, 2, library_sizes=[9], n_samples=2, n_surrogates=1, surrogate="phase", space=space
            ).rho
        ),
    ]
    for call in calls:
        for library, target, name in ((still, x, "library"), (x, still, "target")):
            with pytest.warns(RuntimeWarning, match=f"{name} does not vary: the correlation is NaN"):
                assert np.isnan(call(library, target)).all()


@pytest.mark.parametrize("unit", [2.0**-960, 2.0**960])
def test_units_do_not_matter(unit):
    """Squares of such numbers overflow or underflow float64; scaled by a power of two, only the unit may
    change.
    """
    x = logistic_maps(80, 2)
    big = x * unit
    a, b = (edm.simplex(v, 1, k=4, target=v[:, 1]) for v in (x, big))
    assert_array_equal(b.predicted, a.predicted * unit)
    assert a.rho == b.rho
    a, b = (edm.smap(v, 1, theta=[0.0, 2.0], k=30, target=v[:, 1]) for v in (x, big))
    assert_array_equal(b.predicted, a.predicted * unit)
    assert_array_equal(b.coefficients[..., 1:], a.coefficients[..., 1:])
    mixed = np.column_stack([x[:, 0], big[:, 1]])
    for v in (big, mixed):
        assert_array_equal(edm.cross_map(v, 2), edm.cross_map(x, 2))


def test_undefined_skill_is_not_significant():
    """A target of three events is unrelated to the library: the predictions of most libraries do not vary."""
    x = default_rng(0).random(60)
    target = np.zeros(60)
    target[::20] = 1.0
    keys = {"library_sizes": [10, 40], "n_samples": 100, "n_surrogates": 19, "surrogate": "block"}
    with pytest.warns(RuntimeWarning, match=r"of 200 samples have no skill, .*do not vary"):
        found = edm.ccm(x, target, 2, **keys)
    assert np.isnan(found.rho).any()
    assert_array_equal(found.mean, np.nanmean(found.rho, axis=1))
    assert (found.p_values > 0.05).all()
    with pytest.warns(RuntimeWarning, match="target does not vary"):
        still = edm.ccm(x, np.ones(60), 2, **keys)
    assert np.isnan(still.p_values).all() and np.isnan(still.mean).all()


def results(x):
    """Return a result of each class."""
    grown = edm.ccm(x[:, 0], x[:, 1], 2, library_sizes=[9, 20], n_samples=3)
    return {
        "simplex": edm.simplex(x[:, 0], 2),
        "smap": edm.smap(x[:, 0], 2, theta=[0.0, 2.0]),
        "dimensions": edm.embedding_dimension(x[:, 0], 3),
        "ccm": grown,
        "convergence": grown.test(),
        "knn": edm.knn(x[:, 0], 2, k=2),
        "lagged": edm.lagged_map(x[:, 0], x[:, 1], 2, Tp=[-1, 0], n_boot=9),
        "test": edm.cross_map_test(x, 2, n_surrogates=9, surrogate="block"),
        "traits": edm.traits(x[:, 0]),
    }


def test_results_become_tables():
    x = logistic_maps(60, 2)
    of = results(x)
    table = of["simplex"].to_pandas()[["time", "predicted"]].to_numpy()
    assert_array_equal(table, np.column_stack([of["simplex"].times, of["simplex"].predicted]))
    table = of["smap"].to_pandas()
    assert_array_equal(table[table.theta == 2.0]["d 0(t)"], of["smap"].coefficients[1, :, 1])
    several = edm.smap(x[:, 0], 2, target=x, theta=[0.0, 2.0])
    table = several.to_pandas().query("target == 1 and theta == 2.0")
    assert_array_equal(table["d 0(t)"], several.coefficients[1, :, 1, 1])
    assert_array_equal(table.observed, several.observed[:, 1])
    assert of["dimensions"].to_pandas().set_index("E").rho[2] == of["dimensions"].rho[1]
    assert_array_equal(of["ccm"].to_pandas().rho, of["ccm"].mean)
    pairs = of["knn"].to_pandas()
    assert_array_equal(pairs[pairs["rank"] == 2].distance, of["knn"].distances[:, 1])


def test_results_are_saved_and_loaded(tmp_path):
    x = logistic_maps(60, 2)
    found = results(x)
    dated = pandas.DataFrame(
        x, columns=["a", "b"], index=pandas.period_range("2000-01", periods=60, freq="M")
    )
    found["dated"] = edm.simplex(dated.to_timestamp(), 2, columns="a", target=["a", "b"])
    found["periods"] = edm.simplex(dated, 2, columns="a")
    for name, one in found.items():
        one.save(tmp_path / name)
        again = type(one).load(tmp_path / name)
        for field in dataclasses.fields(one):
            wanted, got = getattr(one, field.name), getattr(again, field.name)
            assert type(got) is type(wanted) or got == wanted
            assert_array_equal(
                got, wanted.astype(str) if name == "periods" and field.name == "index" else wanted
            )
    with pytest.raises(pk.InputError, match="holds edm.Neighbours; expected edm.SMap"):
        edm.SMap.load(tmp_path / "knn")
    (tmp_path / "half").write_bytes((tmp_path / "knn").read_bytes()[:-200])
    with pytest.raises(pk.PortableError, match="half"):
        edm.Neighbours.load(tmp_path / "half")
    np.savez(tmp_path / "other.npz", x=x)
    with pytest.raises(pk.InputError, match="other.npz' holds no result of portable.models"):
        edm.Neighbours.load(tmp_path / "other.npz")


def test_smap_where_some_points_are_singular(space):
    """Two columns are equal up to the middle: there neighbours determine only one direction."""
    n = length(space)
    x = logistic_maps(n, 2)
    x[: n // 2, 1] = x[: n // 2, 0]
    x[n // 2 :] += 4.0
    found = edm.smap(x, 1, theta=[0.5, 2.0], k=6, target=x[:, 1], space=space)
    assert (found.rank[:, : n // 2 - 1] == 2).all() and (found.rank[:, n // 2 : -1] == 3).all()
    near = edm.knn(x, 1, k=6, Tp=1, space="serial")
    for t in (3, n // 3, n - 8):
        d, s = near.distances[t], near.indices[t]
        for theta, predicted, c in zip(found.theta, found.predicted[:, t], found.coefficients[:, t]):
            w = np.exp(-theta * d / d.mean())
            rows = np.column_stack([np.ones(6), x[s] - x[t]]) * w[:, None]
            wanted = np.linalg.lstsq(rows, w * x[s + 1, 1], rcond=1e-10)[0]
            assert predicted == pytest.approx(wanted[0], abs=1e-9)
            assert_allclose(c[1:], wanted[1:], rtol=0, atol=1e-7)
            assert c[0] + c[1:] @ x[t] == pytest.approx(predicted, abs=1e-9)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"target": 1},
        {"points": 1},
        {"points": 1, "target": 2},
        {"lib": (0, 30), "pred": [(5, 15), (20, 38)]},
    ],
    ids=str,
)
def test_a_sweep_of_the_same_form_gives_what_a_first_one_gives(space, more):
    def sweep(x):
        series = {name: x[:, c] if isinstance(c, int) else c for name, c in more.items()}
        return edm.embedding_dimension(x[:, 0], 3, space=space, **series).rho

    series = [logistic_maps(40, 3, seed) for seed in range(3)]
    series[1][7] = np.nan
    again = [sweep(x) for x in series]
    with ThreadPoolExecutor(1) as pool:  # another thread has no stored call
        for x, found in zip(series, again):
            assert_array_equal(found, pool.submit(sweep, x).result())


@pytest.mark.parametrize("theta", [0.0, 2.2])
def test_smap_of_candidates_that_do_not_vary(space, theta):
    """Each target is 1, so each prediction is; undetermined slopes are 0."""
    x = np.r_[np.ones(20), default_rng(0).random(20)]
    with pytest.warns(RuntimeWarning, match="20 of 20 predictions .*no slope is known"):
        found = edm.smap(x, 3, theta=theta, lib=(0, 20), pred=(20, 40), space=space)
    assert_allclose(found.predicted, 1.0, rtol=0, atol=1e-12)
    assert_allclose(found.coefficients[0, 2:, 1:], 0.0, rtol=0, atol=1e-12)
    assert (found.rank[0, 2:] == 1).all()


def test_smap_of_candidates_on_a_line(space):
    """One of two coordinates is constant in the library: the slopes of the other are those of one
    coordinate.
    """
    x = logistic_maps(40, 1)[:, 0]
    both = np.column_stack([x, np.r_[np.full(20, 2.0), np.full(20, 3.0)]])
    with pytest.warns(RuntimeWarning, match="no slope is known"):
        found = edm.smap(both, 1, theta=0.0, lib=(0, 20), pred=(25, 35), space=space)
    alone = edm.smap(x, 1, theta=0.0, lib=(0, 20), pred=(25, 35), space=space)
    assert_allclose(found.predicted, alone.predicted, rtol=0, atol=1e-10)


def test_k_is_asked_for_everywhere(space):
    """Compare predictions by k neighbours with NumPy, in ccm of all points, lagged and cross maps."""
    n, k = (20, 4) if space == "checked" else (70, 5)
    x = logistic_maps(n, 2)
    distances, rows = reference.knn(x[:, 0], 2, k)
    predicted = (reference.weights(distances) * x[rows + 1, 1]).sum(axis=1)
    wanted = np.corrcoef(predicted, x[1:, 1])[0, 1]
    keys = {"k": k, "space": space, "dtype": "float64"}
    lagged = edm.lagged_map(x[:, 0], x[:, 1], 2, Tp=[0], n_boot=2, **keys)
    assert_allclose(lagged.rho, wanted, rtol=1e-9)
    assert_allclose(edm.cross_map(x, 2, **keys)[0, 1], wanted, rtol=1e-9)
    grown = edm.ccm(x[:, 0], x[:, 1], 2, library_sizes=[n - 1], n_samples=1, **keys)
    assert_allclose(grown.mean, wanted, rtol=1e-9)
    assert np.isnan(grown.p_values).all()
    if space != "checked":
        tested = edm.cross_map_test(x, 2, n_surrogates=9, surrogate="block", **keys)
        assert_allclose(tested.rho[0, 1], wanted, rtol=1e-9)
    with pytest.raises(pk.InputError, match="k is 0; expected at least 1"):
        edm.cross_map(x, 2, k=0)


def test_a_point_without_neighbours_is_missing(space):
    """A point with too few neighbours within the radius has the prediction NaN, and the call continues."""
    x = logistic_maps(12, 2)
    with pytest.warns(RuntimeWarning, match="3 of 11 points have fewer than k = 3 candidates"):
        found = edm.simplex(x[:, 0], 2, Tp=0, exclusion_radius=4, space=space)
    lacking = np.isnan(found.predicted)
    candidates = (abs(np.arange(11)[:, None] - np.arange(11)) > 4).sum(axis=1)
    assert_array_equal(lacking, candidates < 3)
    distances, rows = reference.knn(x[:, 0], 2, 3, radius=4)
    wanted = (reference.weights(distances) * x[rows + 1, 0]).sum(axis=1)
    assert_allclose(found.predicted[~lacking], wanted[~lacking], rtol=1e-9)
    with pytest.warns(RuntimeWarning, match="fewer than k = 3"):
        maps = edm.smap(x[:, 0], 2, theta=1.0, Tp=0, exclusion_radius=4, space=space)
    assert_array_equal(np.isnan(maps.predicted[0]), lacking)
    with pytest.raises(pk.InputError, match="k is 3, but the library has 1 points once"):
        edm.simplex(x[:, 0], 2, Tp=0, exclusion_radius=9, space=space)


def test_skill_beside_simple_forecasts(tmp_path):
    x = logistic_maps(200, 1)[:, 0]
    found = edm.simplex(x, 2)
    told = edm.skill(found.predicted, found.observed)
    known = np.isfinite(found.predicted + found.observed)
    errors = (found.predicted - found.observed)[known]
    assert told.n == known.sum() and abs(told.rho - found.rho) < 1e-9
    assert_allclose([told.mae, told.rmse], [abs(errors).mean(), np.sqrt((errors**2).mean())])
    o = found.observed[known]
    assert_allclose(told.persistence_rmse, np.sqrt((np.diff(o) ** 2).mean()))
    line = np.polyval(np.polyfit(o[:-1], o[1:], 1), o[:-1])
    assert_allclose(told.autoregression_rmse, np.sqrt(((line - o[1:]) ** 2).mean()))
    assert told.against_persistence > 0.9 and 0.0 < told.against_autoregression < 1.0
    told.save(tmp_path / "skill.npz")
    assert edm.Skill.load(tmp_path / "skill.npz") == told
    noise = default_rng(0).normal(size=300)
    plain = edm.skill(noise[1:], noise[:-1])
    assert plain.against_autoregression < 0.0
    for unit, origin in ((1e-200, 0.0), (1e200, 0.0), (1e-3, 1e9)):
        one = edm.skill(origin + unit * noise[1:], origin + unit * noise[:-1])
        assert_allclose(one.rmse / unit, plain.rmse, rtol=1e-5)
        assert_allclose(one.against_autoregression, plain.against_autoregression, rtol=1e-4)
        assert edm.traits(origin + unit * noise) == edm.traits(noise)
    for still in (np.ones(30), np.arange(30.0)):  # the regression is exact
        assert np.isnan(edm.skill(still + noise[:30], still).against_autoregression)
    with pytest.raises(pk.InputError, match="predicted has 3 times, observed 4"):
        edm.skill([1.0, 2.0, 3.0], [1.0, 2.0, 3.0, 5.0])
