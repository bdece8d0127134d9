"""Compare log_density on every space with SciPy, and the sums of the E-step with NumPy."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal

import portable as pk
from portable.errors import DTypeError, FiniteError, InputError, ShapeError
from portable.models.mixture import blocks, log_density
from portable.models.mixture.blocks import Components, Points

from ...refusals import refusals
from ...tolerance import assert_close
from . import reference
from .problems import WIDE, draw, factors_of, random_mixture


@pytest.mark.parametrize("n, p, k", [(1, 1, 1), (9, 1, 3), (21, 3, 4), (19, WIDE, 2)])
def test_agrees_with_scipy(space, n, p, k):
    weights, means, covariances = random_mixture(k, p)
    X = draw(n, weights, means, covariances)
    got = log_density(X, means, factors_of(covariances), weights, space=space)
    terms = [np.log(w) + multivariate_normal.logpdf(X, m, c) for w, m, c in zip(weights, means, covariances)]
    wanted = reference.log_sum_exp(np.reshape(terms, (k, n)).T)
    assert_allclose(got, wanted, rtol=1e-11, atol=1e-11)


def swept(points, components):
    """Return the log-likelihood, the sums and their references."""
    return points.gather(components)[0], points.gathered(), points.reference


def assert_sums(got, wanted, dtype):
    """Compare the sums of each component, relative to the largest of them."""
    for a, b in zip(got, wanted):
        assert_close(a, b, dtype, 64, scale=np.abs(b).max())


@pytest.mark.parametrize(
    "n, p, dtype",
    [
        *((n, p, np.float64) for n, p in ((1, 3), (21, 3), (5000, 3), (21, WIDE))),
        *((n, p, np.float32) for n, p in ((5000, 3), (21, 24))),
    ],
)
def test_sweep_agrees_with_numpy(space, n, p, dtype, monkeypatch):
    """The 5,000 points make two blocks. The features of 24 and 26 coordinates make three, and up to 24
    coordinates of a point are in registers."""
    monkeypatch.setattr(blocks, "_LEAST", 4096)
    if space == "checked" and n > 21:
        n = 41
    weights, means, covariances = random_mixture(3, p)
    X = draw(n, weights, means, covariances).astype(dtype)
    points = Points(X, 3, space, X.mean(axis=0, dtype=float), diagonal=False)
    components = Components(np.log(weights), means, factors_of(covariances))
    likelihood, sums, about = swept(points, components)
    terms = reference.log_joint(X.astype(float), np.log(weights), means, covariances)
    lse = reference.log_sum_exp(terms)
    r = np.exp(terms - lse[:, None])
    d = np.concatenate([np.ones((n, 3, 1)), X[:, None] - about], axis=2)
    size = np.abs(terms).max()
    assert_close(likelihood, lse.sum(), dtype, size, scale=np.abs(lse).sum())
    assert_sums(sums, np.einsum("ij,ija,ijb->jab", r, d, d), dtype)
    assert_close(points.log_densities(components), lse, dtype, size, scale=1.0)
    assert_close(points.responsibilities(components), r, dtype, size, scale=1.0)
    assert_array_equal(points.labels(components), terms.argmax(axis=1))


@pytest.mark.parametrize("p", [7, 70])
def test_diagonal_sweep_agrees_with_numpy(space, p):
    """The features of 70 coordinates make two blocks."""
    if space == "checked" and p > 7:
        pytest.skip("too many operations for plain Python")
    n = 21
    weights, means, covariances = random_mixture(3, p)
    X = draw(n, weights, means, covariances)
    points = Points(X, 3, space, X.mean(axis=0), diagonal=True)
    variances = np.diagonal(covariances, axis1=1, axis2=2)
    likelihood, sums, about = swept(points, Components(np.log(weights), means, 1.0 / np.sqrt(variances)))
    terms = reference.log_joint(X, np.log(weights), means, variances[:, :, None] * np.eye(p))
    lse = reference.log_sum_exp(terms)
    r = np.exp(terms - lse[:, None])
    d = X[:, None] - about
    assert_close(likelihood, lse.sum(), float, 64, scale=np.abs(lse).sum())
    wanted = [r.sum(axis=0)[:, None], np.einsum("ij,ija->ja", r, d), np.einsum("ij,ija->ja", r, d * d)]
    assert_sums(sums, np.concatenate(wanted, axis=1), float)


@pytest.mark.parametrize("dtype, width", [(np.float64, 1e-6), (np.float32, 1e-3)])
def test_narrow_components_far_from_the_centre_keep_their_digits(space, dtype, width):
    """Their sums are about separate means; about the centre of all points no digit of a covariance would
    remain. Two components share one."""
    random = np.random.default_rng(5)
    centres = np.array([[1.0, -1.0], [1.0 + 3.0 * width, -1.0], [-2.0, 2.0], [0.1, 0.0]])
    widths = width * np.array([1.0, 1.0, 1.0, 1.0 / width])
    labels = np.arange(80) % 4
    X = (centres[labels] + widths[labels, None] * random.normal(size=(80, 2))).astype(dtype)
    factors = np.eye(2) / widths[:, None, None]
    points = Points(X, 4, space, np.zeros(2), diagonal=False)
    _, (_, _, scatter) = points.sweep(Components(np.full(4, np.log(0.25)), centres, factors))
    about = points.reference
    assert (about[0] == about[1]).all() and not (about[0] == 0.0).all() and not about[3].any()
    covariances = widths[:, None, None] ** 2 * np.eye(2)
    r = reference.responsibilities(X.astype(float), np.full(4, 0.25), centres, covariances)
    means = (r.T @ X) / r.sum(axis=0)[:, None]
    away = X.astype(float)[:, None] - means
    wanted = np.einsum("ij,ija,ijb->jab", r, away, away)
    # The logarithms are accurate to eps / width, the last place of a coordinate in units of the width.
    assert_allclose(
        scatter / wanted[:, :1, :1],
        wanted / wanted[:, :1, :1],
        rtol=0.0,
        atol=30.0 * np.finfo(dtype).eps / width,
    )


@pytest.mark.parametrize("dtype, n", [(np.float64, 4500), (np.float32, 4500), (np.float32, 300)])
def test_many_components_and_slices(space, dtype, n):
    """There are more components than a team of the density can process, and enough points for several slices
    of sums; members have many tiles, the last one few."""
    if space == "checked":
        pytest.skip("too many operations for plain Python")
    k = 70
    weights, means, covariances = random_mixture(k, 3)
    X = draw(n, weights, means, covariances).astype(dtype)
    points = Points(X, k, space, X.mean(axis=0, dtype=float), diagonal=False)
    components = Components(np.log(weights), means, factors_of(covariances))
    likelihood, sums, _ = swept(points, components)
    terms = reference.log_joint(X.astype(float), np.log(weights), means, covariances)
    lse = reference.log_sum_exp(terms)
    size = max(np.abs(terms).max(), 64.0)
    assert_close(likelihood, lse.sum(), dtype, size, scale=np.abs(lse).sum())
    assert_close(points.log_densities(components), lse, dtype, size, scale=1.0)
    assert_close(sums[:, 0, 0], np.exp(terms - lse[:, None]).sum(axis=0), dtype, size, scale=1.0)


@pytest.mark.parametrize("diagonal", [False, True])
def test_sums_of_a_sweep_outlast_the_next(space, diagonal):
    weights, means, covariances = random_mixture(2, 3)
    X = draw(40, weights, means, covariances)
    factors = np.ones((2, 3)) if diagonal else factors_of(covariances)
    points = Points(X, 2, space, X.mean(axis=0), diagonal=diagonal)
    _, sums, _ = swept(points, Components(np.log(weights), means, factors))
    before = sums.copy()
    points.sweep(Components(np.log(weights), means + 0.5, factors))
    assert_array_equal(sums, before)


def test_sums_have_the_same_bits_again_and_on_one_thread():
    weights, means, covariances = random_mixture(4, 3)
    X = draw(9000, weights, means, covariances)
    components = Components(np.log(weights), means, factors_of(covariances))
    results = [
        swept(Points(X, 4, space, X.mean(axis=0), diagonal=False), components)
        for space in ("serial", "threads", "threads")
    ]
    for likelihood, sums, _ in results[1:]:
        assert likelihood == results[0][0]
        assert_array_equal(sums, results[0][1])


def test_points_without_a_share_cost_no_accuracy(space):
    """Responsibilities below e^-70 are omitted; a distant component then has a count of 0 instead of about
    1e-200."""
    X = np.linspace(-1.0, 1.0, 40)[:, None]
    points = Points(X, 2, space, np.zeros(1), diagonal=False)
    _, (n, _, _) = points.sweep(Components(np.log([0.5, 0.5]), np.array([[0.0], [40.0]]), np.ones((2, 1, 1))))
    assert n.tolist() == [40.0, 0.0]


@pytest.mark.parametrize(
    "n, p, k",
    [
        (40_000, 1, 10),
        (100_000, 14, 64),
        (5_000, 14, 4096),
        (5_000_000, 14, 256),
        (5_000_000, 14, 4096),
        (200_000, 64, 4096),
    ],
)
def test_memory_beyond_the_points(n, p, k):
    """No array contains all pairs for many points, and all arrays together stay below a gigabyte."""
    points = Points(
        np.broadcast_to(np.zeros(1), (n, p)), k, "serial", np.zeros(p), diagonal=False, streamed=True
    )
    components = Components(np.zeros(k), np.zeros((k, p)), np.broadcast_to(np.eye(p), (k, p, p)))
    sweeps = points.make("serial")
    arrays = [
        view
        for owner in (sweeps, sweeps.room())
        for view in vars(owner).values()
        if isinstance(view, pk.View)
    ]
    height = 1 << (k - 1).bit_length()
    assert max(view.size for view in arrays) <= max(n * height / 8 + 128 * height, 4096 * height, 2**23)
    records = components.records(np.zeros(p), np.float64)
    assert sum(view.size * view.dtype.itemsize for view in arrays) + records.nbytes < 1e9


def test_component_of_weight_zero_and_far_points(space):
    X = np.array([[0.0], [1e6], [-1e6]])
    got = log_density(X, [[0.0], [1.0]], np.ones((2, 1, 1)), [0.0, 1.0], space=space)
    assert_close(got, -0.5 * np.log(2.0 * np.pi) - 0.5 * (X[:, 0] - 1.0) ** 2, np.float64, 8)


GOOD = {
    "X": np.zeros((3, 2)),
    "means": np.zeros((1, 2)),
    "precisions_cholesky": np.eye(2)[None],
    "weights": [1.0],
}
BAD = [
    ({"X": np.zeros(3)}, ShapeError, r"X has shape \(3,\)"),
    ({"X": np.zeros((0, 2))}, ShapeError, "at least one point"),
    ({"X": [[0.0, np.nan]]}, FiniteError, r"X\[0, 1\] is nan"),
    ({"X": [["a", "b"]]}, DTypeError, "X must hold real numbers"),
    ({"X": [[1.0], [1.0, 2.0]]}, ShapeError, "X is not a rectangular array"),
    ({"means": np.zeros((1, 3))}, InputError, "points of 2 coordinates"),
    ({"precisions_cholesky": np.zeros((1, 2, 3))}, ShapeError, r"expected \(1, 2, 2\)"),
    ({"precisions_cholesky": -np.eye(2)[None]}, InputError, "diagonal that is not positive"),
    ({"weights": [0.5]}, InputError, "adds up to 0.5"),
    ({"weights": [0.5, 0.5]}, ShapeError, r"weights has shape \(2,\)"),
]


test_bad_input = refusals(BAD, lambda change: log_density(**{**GOOD, **change}))


@pytest.mark.parametrize("dtype, far", [(np.float64, 1e155), (np.float64, 1e308), (np.float32, 1e25)])
def test_points_beyond_any_density_are_named(space, dtype, far):
    X = np.zeros((20, 2), dtype)
    X[13, 1] = far
    with pytest.raises(FiniteError, match=r"X\[13, 1\] is .*e\+.*beyond float"):
        log_density(X, np.zeros((1, 2)), np.eye(2)[None], [1.0], space=space)
