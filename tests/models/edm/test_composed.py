"""Test iterated forecasts, partial cross maps, penalised S-maps; and the recipes of docs/edm.md."""

import numpy as np
import pandas
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import linear_model as linear

from portable.errors import PortableError
from portable.models import edm

from ...refusals import refusals
from .series import driver_and_driven, logistic_maps


@pytest.mark.parametrize("theta", [None, 2.0])
def test_a_forecast_feeds_itself(space, theta):
    """Compare with a loop over points in NumPy for simplex projection, step by step."""
    x = driver_and_driven(80)[:, 0]
    options = {} if theta is None else {"theta": theta}
    found = edm.forecast(x, 2, 3, space=space, **options)
    known = x.tolist()
    for step in range(3):
        if theta is None:
            point = np.array(known[-1:-3:-1])
            d = np.array([np.hypot(*(x[[s, s - 1]] - point)) for s in range(1, 79)])
            near = np.argsort(d, kind="stable")[:3]
            w = np.maximum(np.exp(-d[near] / d[near[0]]), 1e-6)
            known.append(w @ x[near + 2] / w.sum())
        else:
            known.append(edm.smap(x, 2, theta=theta, points=known[-2:]).predicted[0, -1])
    assert_allclose(found[:, 0], known[80:], rtol=0, atol=1e-12)
    assert edm.forecast(np.column_stack([x, x[::-1]]), 2, 2, tau=2, space=space).shape == (2, 2)
    with pytest.raises(PortableError, match="n_steps is 0"):
        edm.forecast(x, 2, 0)


@pytest.mark.parametrize("penalty, l1_ratio", [(0.01, 0.0), (0.003, 0.5), (0.01, 1.0)])
def test_penalised_maps_are_those_of_scikit_learn(space, penalty, l1_ratio):
    """The columns have different units. Both algorithms use coordinate descent, and stop slightly before
    convergence.
    """
    x, y = (logistic_maps(40, 2) * (7.0, 2.0) + (3.0, -1.0)).T
    keys = {"penalty": penalty, "l1_ratio": l1_ratio, "space": space}
    found = edm.smap(x, 3, theta=[0.5, 2.0], target=y, **keys)
    rows = np.column_stack([x[2:], x[1:-1], x[:-2]])
    for h, theta in enumerate(found.theta):
        for i in range(0, 37, 6):
            other = np.arange(37) != i
            d = np.sqrt(((rows[:-1] - rows[i]) ** 2).sum(axis=1))[other]
            w = np.exp(-theta * d / d.mean()) ** 2
            map_of = (
                linear.ElasticNet(alpha=penalty, l1_ratio=l1_ratio, tol=1e-14, max_iter=10**6)
                if l1_ratio
                else linear.Ridge(alpha=penalty * w.sum())
            ).fit(rows[:-1][other], y[3:][other], sample_weight=w)
            wanted = [map_of.intercept_, *map_of.coef_]
            assert_allclose(found.coefficients[h, i], wanted, rtol=0, atol=1e-7)
            assert found.predicted[h, i] == pytest.approx(map_of.predict(rows[[i]])[0], abs=1e-8)


def test_coefficients_have_names():
    table = pandas.DataFrame(logistic_maps(40, 2), columns=["prey", "hunter"])
    found = edm.smap(table, 2, theta=1.0, columns=["prey", "hunter"], target="prey", tau=3)
    assert found.coordinates == "prey(t) prey(t-3) hunter(t) hunter(t-3)".split()
    shown = found.to_pandas()
    assert_array_equal(shown["d hunter(t-3)"], found.coefficients[0, :, 4])
    assert_array_equal(shown.intercept, found.coefficients[0, :, 0])


def chain(n):
    """Return a chain: x drives y, which drives z."""
    out = np.empty((n, 3))
    out[0] = 0.4, 0.2, 0.3
    for t in range(n - 1):
        x, y, z = out[t]
        out[t + 1] = (x * (3.6 - 3.6 * x), y * (3.72 - 3.72 * y - 0.35 * x), z * (3.68 - 3.68 * z - 0.35 * y))
    return out


def test_a_partial_cross_map_knows_what_goes_between():
    x, y, z = chain(400).T
    rho, left = edm.partial_cross_map(z, x, y, 2)
    direct, kept = edm.partial_cross_map(y, x, z, 2)
    assert left < 0.75 * rho and kept > 0.95 * direct
    # by its equation, with linear residuals of NumPy
    found, between = (edm.simplex(z, 2, target=one, Tp=0) for one in (x, y))
    assert rho == found.rho
    series = np.full(400, np.nan)
    series[1:] = between.predicted
    way = edm.simplex(series, 2, target=x, Tp=0).predicted
    ok = np.isfinite(way)
    a, b, c = found.predicted[ok], x[1:][ok], way[ok]
    r = np.corrcoef([a, b, c])
    wanted = (r[0, 1] - r[0, 2] * r[1, 2]) / np.sqrt((1 - r[0, 2] ** 2) * (1 - r[1, 2] ** 2))
    assert left == pytest.approx(wanted, abs=1e-9)
    turns = np.tile([0.0, 1.0], 20)  # what is left of a correlation of 1 is rounding
    rho, left = edm.partial_cross_map(turns, turns[::-1].copy(), turns * 3.0, 1)
    assert rho == 1.0 and np.isnan(left)


def test_a_partial_cross_map_takes_tables_and_segments():
    table = pandas.DataFrame(chain(120), columns=list("xyz")).assign(site=np.repeat(["a", "b"], 60))
    keys = {"columns": "z", "segments": "site"}
    found = edm.partial_cross_map(table, "x", ["y"], 2, **keys)
    alone = edm.partial_cross_map(*(table[c].to_numpy() for c in "zxy"), 2, segments=table.site.to_numpy())
    assert found == alone and np.isfinite(found).all()


test_bad_input = refusals(
    [
        ({"penalty": -1.0}, "penalty is -1"),
        ({"l1_ratio": 2.0}, "l1_ratio is 2"),
        ({"theta": -1.0}, r"theta\[0\] is -1"),
    ],
    lambda form: edm.smap(np.arange(20.0), 2, **({"theta": 1.0} | form)),
    error=PortableError,
)
