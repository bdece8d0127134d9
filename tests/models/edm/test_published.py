"""Compare with expected outputs of the tests of kEDM and rEDM, to their printed digits, on every space.

The interpreter uses the shortest of them, or their first points: a search visits every pair.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from portable.models import edm

from .series import published

INTERPRETED = 12  # points


def shortened(space, begin, end):
    return begin, min(end, begin + INTERPRETED) if space == "checked" else end


@pytest.mark.parametrize("E", [2, 3, 4, 5])
def test_neighbours(space, E):
    found = edm.knn(published("knn_test_data"), E, k=4, space=space)
    assert_allclose(found.distances, published(f"knn_test_validation_E{E}"), rtol=0, atol=1e-6)


@pytest.mark.parametrize("E", [2, 3, 4, 5])
def test_simplex(space, E):
    """One half predicts the other; the reference has four digits."""
    x = published("simplex_test_data")
    points = x[100 - (E - 1) : 200 - (E - 1)]
    begin, end = shortened(space, E - 1, len(points))
    found = edm.simplex(x[:100], E, points=points, pred=(begin, end), space=space)
    wanted = published(f"simplex_test_validation_E{E}")[: end - begin]
    assert_array_equal(np.round(found.predicted[: len(wanted)], 4), wanted)


def test_multivariate_simplex(space):
    x = published("block_3sp")
    begin, end = shortened(space, 99, 198)
    found = edm.simplex(x[:, [1, 4, 7]], 3, lib=(0, 99), pred=(begin, end), space=space)
    assert_allclose(found.predicted, published("block_3sp_validation")[: end - begin], rtol=1e-13)


def test_exclusion_radius(space):
    """Predictions and variances have six digits in the file."""
    circle, wanted = published("circle"), published("Smplx_exclRadius_valid")[1:]
    begin, end = shortened(space, 20, 81)
    found = edm.simplex(
        circle[:, 1], 2, target=circle[:, 2], lib=(0, 100), pred=(begin, end), exclusion_radius=5, space=space
    )
    n = end - begin
    assert_allclose(found.predicted, wanted[:n, 2], rtol=0, atol=5.1e-7)
    assert_allclose(found.variance, wanted[:n, 3], rtol=0, atol=5.1e-7)
    assert_array_equal(found.times + 1, wanted[:n, 0])


def test_missing_values(space):
    """A missing coordinate removes a point, a missing target the prediction."""
    x, y = published("circle")[:, 1], published("circle")[:, 2]
    x[[5, 6, 12]] = np.nan
    y[[10, 11, 17]] = np.nan
    wanted = published("Smplx_nan_valid")[1:]
    begin, end = shortened(space, 1, 95)
    found = edm.simplex(x, 2, target=y, lib=(0, 100), pred=(begin, end), space=space)
    assert_allclose(found.predicted, wanted[: end - begin, 2], rtol=0, atol=5.1e-7)
    assert_allclose(found.observed, wanted[: end - begin, 1], rtol=0, atol=5.1e-7)


@pytest.fixture
def compiled(space):
    """Skip the interpreter: the sweeps below visit 300 x 100 x 20 pairs and more."""
    if space == "checked":
        pytest.skip("too many pairs for an interpreter; test_sweeps.py has smaller ones")
    return space


def test_dimensions_of_the_tent_map(compiled):
    found = edm.embedding_dimension(
        published("TentMap_rEDM")[:, 1], 20, lib=(0, 100), pred=(200, 499), space=compiled
    )
    assert_allclose(found.rho, published("TentMap_rEDM_validation")[:, 1], rtol=0, atol=2e-6)
    assert found.best == 2


def test_dimensions_of_the_lorenz_model(compiled):
    found = edm.embedding_dimension(
        published("LorenzData1000")[:, 1],
        12,
        tau=5,
        Tp=15,
        lib=(0, 500),
        pred=(500, 800),
        exclusion_radius=20,
        space=compiled,
    )
    assert_allclose(found.rho, published("EmbedDim_valid")[:, 1], rtol=0, atol=2e-6)


def test_horizons(compiled):
    x, wanted = published("block_3sp")[:, 1], published("PredictInterval_valid")
    rho = [
        edm.simplex(x, 3, Tp=int(Tp), lib=(0, 150), pred=(150, 198), space=compiled).rho
        for Tp in wanted[:, 0]
    ]
    assert_allclose(rho, wanted[:, 1], rtol=0, atol=2e-6)


def test_convergence(compiled):
    """Compare means of 100 random libraries, drawn by different generators: their standard deviation over 10
    bounds the difference.

    Four standard errors of each side in 8 comparisons: a false alarm in 2,000 runs of fresh seeds.
    """
    x, wanted = published("sardine_anchovy_sst"), published("CCM_anch_sst_valid")
    found = edm.ccm(x[:, 1], x[:, 4], 3, library_sizes=wanted[:, 0].astype(int), space=compiled)
    error = 4 * np.sqrt(2) * found.rho.std(axis=1) / 10
    assert (abs(found.mean - wanted[:, 1]) <= error + 1e-3).all()
