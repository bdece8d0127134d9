"""Compare kEDM and pyEDM with portable where they are installed; tests/docs runs the page's pairs."""

import warnings

import numpy as np
import pandas
import pytest
from numpy.testing import assert_allclose

from portable.models import edm

from .series import logistic_maps

X = logistic_maps(160, 2)
LIB, PRED = (0, 80), (90, 150)


@pytest.fixture(scope="module")
def kedm():
    return pytest.importorskip("kedm")


@pytest.fixture(scope="module")
def pyedm():
    with warnings.catch_warnings(action="ignore"):
        return pytest.importorskip("pyEDM")


@pytest.mark.parametrize(("E", "tau", "Tp"), [(2, 1, 1), (3, 2, 1), (3, 1, 2), (2, 1, 0)])
def test_kedm(kedm, E, tau, Tp):
    lib, pred = X[slice(*LIB), 0].astype(np.float32), X[slice(*PRED), 0].astype(np.float32)
    keys = {"tau": tau, "Tp": Tp}
    found = edm.simplex(lib, E, points=pred, **keys).predicted
    assert_allclose(found, kedm.simplex(lib, pred, E=E, **keys), rtol=0, atol=1e-5)
    found = edm.smap(lib, E, points=pred, theta=2.0, **keys).predicted[0]
    assert_allclose(found, kedm.smap(lib, pred, target=lib, E=E, theta=2.0, **keys), rtol=0, atol=1e-5)


def test_kedm_dimension(kedm):
    for column in logistic_maps(200, 4, 2).T.astype(np.float32):
        assert kedm.edim(column, E_max=6) == edm.embedding_dimension(column, 6).best


def table_of(pandas, columns):
    return pandas.DataFrame(columns, columns=["x", "y"]).rename_axis("Time").reset_index()


@pytest.mark.parametrize("E tau Tp radius".split(), [(2, 1, 1, 0), (3, 2, 2, 0), (3, 1, -2, 0), (2, 1, 1, 4)])
def test_pyedm(pyedm, E, tau, Tp, radius):
    """pyEDM returns the rows that it could predict, and some without a prediction; ours are matched by
    time."""
    frame = table_of(pandas, X)
    theirs = {
        "dataFrame": frame,
        "lib": "1 80",
        "pred": "91 150" if not radius else "1 80",
        "E": E,
        "tau": -tau,
        "Tp": Tp,
        "columns": "x",
        "target": "y",
        "exclusionRadius": radius,
    }
    lib = max(LIB[0], -Tp - 1), LIB[1]
    ours = {
        "tau": tau,
        "Tp": Tp,
        "lib": lib,
        "pred": PRED if not radius else LIB,
        "target": X[:, 1],
        "exclusion_radius": radius,
    }
    wanted = pyedm.Simplex(**theirs).dropna()
    found = edm.simplex(X[:, 0], E, **ours)
    predicted = dict(zip(found.times, found.predicted))
    assert len(wanted) > 50
    assert_allclose([predicted[t] for t in wanted.Time], wanted.Predictions, rtol=0, atol=1e-9)
    # excluded candidates differ between points, and therefore the number that "all but one" means
    if radius:
        return
    wanted = pyedm.SMap(**theirs, theta=2.0)["predictions"].dropna()
    n = lib[1] - lib[0] - (E - 1) * tau - max(Tp, 0)
    found = edm.smap(X[:, 0], E, theta=2.0, k=n - 1, **ours)
    predicted = dict(zip(found.times, found.predicted[0]))
    assert_allclose([predicted[t] for t in wanted.Time], wanted.Predictions, rtol=0, atol=1e-9)
