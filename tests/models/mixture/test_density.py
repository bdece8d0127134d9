"""log_density on every space, against SciPy, and the sums of the E-step against NumPy."""

import numpy as np
import pytest

import portable as pk
from models.mixture import kernels, log_density, reference
from models.mixture.density import Points, pack

from ...tolerance import assert_close
from .problems import draw, factors_of, random_mixture

multivariate_normal = pytest.importorskip("scipy.stats").multivariate_normal

WIDE = kernels.MOST_STATIC + 1


@pytest.mark.parametrize("n, p, k", [(1, 1, 1), (9, 1, 3), (21, 3, 4), (5, 14, 2), (19, WIDE, 2)])
def test_agrees_with_scipy(space, n, p, k):
    weights, means, covariances = random_mixture(k, p)
    X = draw(n, weights, means, covariances)
    got = log_density(X, means, factors_of(covariances), weights, space=space)
    terms = [np.log(w) + multivariate_normal.logpdf(X, m, c) for w, m, c in zip(weights, means, covariances)]
    wanted = reference.log_sum_exp(np.reshape(terms, (k, n)).T)
    np.testing.assert_allclose(got, wanted, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("p", [3, WIDE])
@pytest.mark.parametrize("n", [1, 21, 1200])
def test_sums_agree_with_numpy(space, n, p):
    """1,200 points are three blocks and, beyond MOST_STATIC, tiles that are not full."""
    if space == "checked" and n > 21:
        n = 13
    weights, means, covariances = random_mixture(3, p)
    X = draw(n, weights, means, covariances)
    points = Points(X, space)
    records = pack(means, factors_of(covariances), np.log(weights))
    points.normalise(records)
    got = points.sums(records)
    terms = reference.log_joint(X, np.log(weights), means, covariances)
    r = np.exp(terms - reference.log_sum_exp(terms)[:, None])
    d = X[:, None] - means
    wanted = r.sum(axis=0), np.einsum("ij,ija->ja", r, d), np.einsum("ij,ija,ijb->jab", r, d, d)
    for a, b in zip(got, wanted):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11 * np.abs(b).max())
    np.testing.assert_allclose(points.responsibilities(records), r, rtol=1e-11, atol=1e-13)
    np.testing.assert_array_equal(points.labels(records), terms.argmax(axis=1))


def test_sums_have_the_same_bits_again_and_on_one_thread():
    weights, means, covariances = random_mixture(4, 5)
    X = draw(3000, weights, means, covariances)
    records = pack(means, factors_of(covariances), np.log(weights))
    results = []
    for space in ("serial", "threads", "threads"):
        points = Points(X, space)
        points.normalise(records)
        results.append(points.sums(records))
    for other in results[1:]:
        for a, b in zip(results[0], other):
            np.testing.assert_array_equal(a, b)


def test_component_of_weight_zero_and_far_points(space):
    X = np.array([[0.0], [1e6], [-1e6]])
    got = log_density(X, [[0.0], [1.0]], np.ones((2, 1, 1)), [0.0, 1.0], space=space)
    assert_close(got, -0.5 * np.log(2.0 * np.pi) - 0.5 * (X[:, 0] - 1.0) ** 2, np.float64, 8)


GOOD = {"X": np.zeros((3, 2)), "means": np.zeros((1, 2)), "precisions_cholesky": np.eye(2)[None], "weights": [1.0]}
BAD = [
    ({"X": np.zeros(3)}, pk.ShapeError, r"X has shape \(3,\)"),
    ({"X": np.zeros((0, 2))}, pk.ShapeError, "at least one point"),
    ({"X": [[0.0, np.nan]]}, pk.FiniteError, r"X\[0, 1\] is nan"),
    ({"X": [["a", "b"]]}, pk.DTypeError, "X must hold real numbers"),
    ({"X": [[1.0], [1.0, 2.0]]}, pk.ShapeError, "X is not a rectangular array"),
    ({"means": np.zeros((1, 3))}, pk.ShapeError, "points of 2 coordinates"),
    ({"precisions_cholesky": np.eye(2)}, pk.ShapeError, r"\(1, 2, 2\) is wanted"),
    ({"precisions_cholesky": -np.eye(2)[None]}, pk.InputError, "diagonal that is not positive"),
    ({"weights": [0.5]}, pk.InputError, "adds up to 0.5"),
    ({"weights": [0.5, 0.5]}, pk.ShapeError, r"weights has shape \(2,\)"),
]


@pytest.mark.parametrize("change, error, words", BAD)
def test_bad_input(change, error, words):
    with pytest.raises(error, match=words):
        log_density(**{**GOOD, **change})
