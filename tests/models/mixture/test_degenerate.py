"""Test degenerate data, and given starts: the step of other libraries for any number of points, finite
numbers under a prior, refusals by name."""

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose
from sklearn import mixture as sklearn

import portable as pk
from portable.models.mixture import DirichletMixture, Prior

from . import reference

KINDS = "full", "tied", "diag", "spherical"


def far_apart(n, p, k):
    rng = default_rng(n)
    means = 4.0 * rng.normal(size=(k, p))
    return means[rng.integers(0, k, n)] + rng.normal(size=(n, p)), means + rng.normal(size=(k, p))


@pytest.mark.parametrize("n, p, k", [(20_000, 1, 2), (20_001, 1, 2), (30_000, 3, 4), (100_000, 2, 2)])
def test_a_given_start_is_where_em_begins(n, p, k, space):
    """One step of maximum likelihood equals that of NumPy, with any number of points."""
    if space == "checked":
        pytest.skip("some billion operations in plain Python")
    X, means = far_apart(n, p, k)
    weights, covariances = np.full(k, 1.0 / k), np.tile(np.eye(p), (k, 1, 1))
    options = {"means_init": means, "covariances_init": covariances, "weights_init": weights, "space": space}
    found = DirichletMixture(k, prior=None, max_iter=1, tol=-1.0, reg_covar=0.0, **options).fit(X)
    shares = reference.responsibilities(X, weights, means, covariances)
    before = reference.log_sum_exp(reference.log_joint(X, np.log(weights), means, covariances)).mean()
    counts = shares.sum(axis=0)
    assert_allclose(found.means_, shares.T @ X / counts[:, None], rtol=1e-9, atol=1e-9)
    assert_allclose(found.weights_, counts / n, rtol=1e-9)
    assert_allclose(found.objective_history_[0] / n, before, rtol=1e-11)


@pytest.mark.filterwarnings("ignore:Best performing initialization did not converge")
@pytest.mark.parametrize("kind", KINDS)
def test_many_points_as_scikit_learn(kind):
    """A step of each kind of covariance agrees for a given start, with and without precisions."""
    X, means = far_apart(20_001, 2, 2)
    eye = {"full": np.tile(np.eye(2), (2, 1, 1)), "tied": np.eye(2)}
    eye |= {"diag": np.ones((2, 2)), "spherical": np.ones(2)}
    options = {"max_iter": 1, "means_init": means, "weights_init": [0.5, 0.5]}
    ours = DirichletMixture(
        2, prior=None, covariance=kind, tol=-1.0, covariances_init=eye[kind], **options
    ).fit(X)
    theirs = sklearn.GaussianMixture(
        2, covariance_type=kind, tol=0.0, precisions_init=eye[kind], **options
    ).fit(X)
    for name in ("weights_", "means_", "covariances_"):
        assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("prior", ["default", None])
def test_a_warm_start_of_many_points_goes_on(prior):
    """After a converged fit one more step neither decreases the objective nor moves far."""
    X, _ = far_apart(25_000, 2, 3)
    model = DirichletMixture(3, prior=prior, random_state=0).fit(X)
    before, score = model.means_, model.lower_bound_
    model.set_params(warm_start=True, max_iter=1, tol=-1.0, moves=False).fit(X)
    assert model.lower_bound_ >= score - 1e-12 * abs(score)
    assert_allclose(model.means_, before, atol=1e-3)


def test_a_given_start_of_many_points_has_all_moves():
    """Surplus components are merged as for fewer points, though the start was not chosen among a sample."""
    rng = default_rng(0)
    centres = 6.0 * rng.normal(size=(4, 2))
    X = centres[rng.integers(0, 4, 25_000)] + rng.normal(size=(25_000, 2))
    assert DirichletMixture(10, means_init=X[:10]).fit(X).n_active_ <= 5


def dependent(name, n, rng):
    Y = rng.normal(size=(n, 2))
    return {
        "a copy": np.c_[Y, Y[:, 0]],
        "a sum": np.c_[Y, Y.sum(axis=1)],
        "linear": np.c_[Y, 3.0 * Y[:, 0] - 2.0 * Y[:, 1] + 7.0],
        "far": np.c_[Y, Y[:, 0]] + 1e4,
        "one hot": np.eye(3)[rng.integers(0, 3, n)],
        "shares": rng.dirichlet([2.0, 3.0, 4.0], n),
        "nearly a copy": np.c_[Y, Y[:, 0] + 1e-7 * rng.normal(size=n)],
    }[name]


DEPENDENT = "a copy", "a sum", "linear", "far", "one hot", "shares", "nearly a copy"


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", DEPENDENT)
def test_dependent_columns_have_finite_fits(name, dtype):
    rng = default_rng(5)
    for n in (20, 300, 2000):
        X = dependent(name, n, rng).astype(dtype)
        for kind, k in (("full", 1), ("full", 3), ("tied", 2), ("diag", 2), ("spherical", 3)):
            model = DirichletMixture(k, covariance=kind, random_state=0).fit(X)
            found = model.weights_, model.means_, model.covariances_, model.precisions_cholesky_
            assert all(np.isfinite(each).all() for each in found), (n, kind, k)
            assert np.isfinite(model.score_samples(X)).all() and np.isfinite(model.objective_history_).all()


def test_dependent_columns_leave_the_number_of_clusters():
    """With a third column that is redundant there are still two clusters."""
    rng = default_rng(6)
    Y = rng.normal(size=(1000, 2)) + np.repeat([[0.0], [8.0]], 500, axis=0)
    for X in (np.c_[Y, Y[:, 0]], np.c_[Y, Y @ [1.0, -2.0]], np.c_[Y, Y] + 1e5):
        assert DirichletMixture(5, random_state=0).fit(X).n_active_ == 2


@pytest.mark.filterwarnings("ignore:components .* have one point each")
@pytest.mark.parametrize("kind", KINDS)
def test_two_points_far_apart_in_float32(kind):
    """The variance is smaller than the error of a sum about the centre of all points."""
    for far in (9999.0, 1e6):
        X = np.float32([[far], [0.0]])
        model = DirichletMixture(2, prior=None, covariance=kind, reg_covar=0.1, random_state=0)
        model.fit(X)
        assert_allclose(model.covariances_.ravel(), 0.1, rtol=1e-6)
        assert_allclose(np.sort(model.means_.ravel()), [0.0, far], rtol=1e-6)


def test_maximum_likelihood_still_collapses():
    """Pivots are raised only by the amount of rounding, which does not act as a prior."""
    X = np.repeat([[0.0, 0.0], [3e5, 4e5]], 5, axis=0)
    for kind in KINDS:
        with pytest.raises(pk.InputError, match="a component has collapsed.*give a prior"):
            DirichletMixture(2, prior=None, covariance=kind, reg_covar=0.0, random_state=0).fit(X)


@pytest.mark.parametrize("prior", ["default", None])
@pytest.mark.parametrize(
    "dtype, scales, beyond",
    [
        (np.float64, (1e-138, 1e-60, 1e60, 1e149), (1e-300, 1e-160, 1e-141, 1e151, 1e153, 1e155, 1e300)),
        (np.float32, (1e-13, 1e-6, 1e6, 1e15), (1e-40, 1e-30, 1e-15, 1e17, 1e20, 1e37)),
    ],
)
def test_every_scale_is_fitted_or_refused(dtype, scales, beyond, prior):
    X = default_rng(0).normal(size=(300, 2))
    options = {"prior": prior, "random_state": 0, "reg_covar": 0.0}
    for scale in scales:
        model = DirichletMixture(2, **options).fit((X * scale).astype(dtype))
        for each in (model.means_ / scale, model.covariances_ / scale / scale, model.objective_history_):
            assert np.isfinite(each).all(), scale
        assert np.isfinite(model.score_samples((X * scale).astype(dtype))).all()
    for scale in beyond:
        with pytest.raises(pk.InputError, match=r"column 0 of X has a standard deviation of .*own scale"):
            DirichletMixture(2, **options).fit((X * scale).astype(dtype))
    mixed = X * [scales[0], scales[-1]]
    assert np.isfinite(DirichletMixture(2, **options).fit(mixed.astype(dtype)).means_).all()


@pytest.mark.parametrize("kind", KINDS)
def test_repetitions_of_fewer_points_than_coordinates(kind):
    """Counts are whole, and so are thresholds: rounding decides nothing."""
    rng = default_rng(42)
    X, repeats = rng.random((15, 30)), rng.integers(0, 5, 15)
    for k in (2, 3, 5):
        options = {"covariance": kind, "random_state": 0}
        repeated = DirichletMixture(k, **options).fit(X.repeat(repeats, axis=0))
        weighted = DirichletMixture(k, **options).fit(X[::-1].copy(), sample_weight=repeats[::-1])
        assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-7)


def test_draws_of_dependent_columns():
    """The posterior is proper under a prior whose scale keeps a width in every direction."""
    Y = default_rng(3).normal(size=(100, 2))
    model = DirichletMixture(2, prior=Prior(), random_state=0).fit(np.c_[Y, Y[:, 0]])
    drawn = model.sample_posterior(np.c_[Y, Y[:, 0]], 20, n_warmup=5, seed=1)
    assert np.isfinite(drawn.means).all() and np.isfinite(drawn.covariances).all()
