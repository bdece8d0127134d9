"""Test conventions of scikit-learn: weights of points, warm starts, online fits, warnings, attributes; and
files of fitted mixtures."""

import json
import warnings

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import exceptions
from sklearn.mixture import GaussianMixture

from portable.errors import FiniteError, InputError, ShapeError, StorageError
from portable.models.mixture import covariance, ConvergenceWarning, DirichletMixture, Prior, TMixture

from ...refusals import refusals
from .problems import WIDE, draw, random_mixture

MIXTURE = (
    np.array([0.5, 0.3, 0.2]),
    np.array([[0.0, 0.0], [7.0, 0.0], [0.0, 7.0]]),
    np.tile(np.eye(2), (3, 1, 1)),
)


@pytest.mark.parametrize("kind", covariance.KINDS)
@pytest.mark.parametrize("prior", ["default", None])
def test_a_weight_is_a_number_of_repetitions(space, kind, prior):
    n = 30 if space == "checked" else 200
    X = draw(n, *random_mixture(3, 2))
    weights = default_rng(1).integers(0, 4, n)
    options = {
        "n_components": 2,
        "prior": prior,
        "covariance": kind,
        "random_state": 0,
        "space": space,
        "max_iter": 1 if space == "checked" else 8,
        "tol": -1.0,
    }
    one = DirichletMixture(**options).fit(X, sample_weight=weights)
    other = DirichletMixture(**options).fit(np.repeat(X, weights, axis=0))
    for name in "weights_ means_ covariances_ objective_history_".split():
        assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-9, atol=1e-9)
    assert one.lower_bound_ == pytest.approx(other.lower_bound_)


test_weights_that_are_none = refusals(
    [
        ([1.0], ShapeError, r"sample_weight has shape \(1,\); expected \(600,\)"),
        (-np.ones(600), InputError, r"sample_weight\[0\] is -1.0; expected numbers >= 0"),
        (np.zeros(600), InputError, "sample_weight adds up to 0.0, near zero"),
        (np.full(600, 1e300), InputError, "sample_weight adds up to .*e.302"),
        (np.full(600, np.nan), FiniteError, r"sample_weight\[0\] is nan"),
    ],
    lambda weights: DirichletMixture(2).fit(draw(600, *MIXTURE), sample_weight=weights),
)


@pytest.mark.parametrize("kind", covariance.KINDS)
def test_precisions_are_inverses(kind):
    X = draw(300, *random_mixture(3, 3))
    model = DirichletMixture(2, covariance=kind, max_iter=5, tol=-1.0, random_state=0)
    assert not hasattr(model, "precisions_")
    model.fit(X)
    if covariance.is_diagonal(kind):
        assert_allclose(model.precisions_ * model.covariances_, 1.0, rtol=1e-12)
    else:
        assert_allclose(
            model.precisions_ @ model.covariances_,
            np.broadcast_to(np.eye(3), model.covariances_.shape),
            atol=1e-10,
        )


def test_lower_bound_is_that_of_scikit_learn():
    X = draw(600, *MIXTURE)
    options = {"means_init": MIXTURE[1], "weights_init": MIXTURE[0]}
    model = DirichletMixture(3, prior=None, covariances_init=MIXTURE[2], tol=1e-10, **options).fit(X)
    peer = GaussianMixture(3, precisions_init=MIXTURE[2], tol=1e-10, max_iter=1000, **options).fit(X)
    assert model.lower_bound_ == pytest.approx(peer.lower_bound_, abs=1e-8)


def test_what_did_not_converge_says_so():
    X = draw(600, *random_mixture(4, 2))
    with pytest.warns(
        ConvergenceWarning, match="stopped after max_iter=2 iterations: the objective per point still grew by"
    ):
        model = DirichletMixture(4, max_iter=2, random_state=0).fit(X)
    assert not model.converged_ and model.n_iter_ == 2
    with pytest.warns(exceptions.ConvergenceWarning):
        DirichletMixture(4, max_iter=2, random_state=0).fit(X)


def test_more_coordinates_than_points_by_maximum_likelihood():
    """reg_covar makes it possible, as in scikit-learn."""
    X = default_rng(5).normal(size=(6, WIDE))
    model = DirichletMixture(3, prior=None, reg_covar=1e-3, max_iter=4, tol=-1.0, random_state=0).fit(X)
    assert np.isfinite(model.score_samples(X)).all()


def test_a_warm_start_goes_on(space):
    n = 20 if space == "checked" else 600
    X = draw(n, *random_mixture(4, 2))
    step = 1 if space == "checked" else 3
    model = DirichletMixture(
        3, warm_start=True, moves=False, max_iter=step, tol=-1.0, random_state=0, space=space
    )
    first = model.fit(X).objective_history_
    second = model.fit(X).objective_history_
    assert second[0] == pytest.approx(first[-1], rel=1e-12) and second[-1] > second[0]
    model.n_components = 2
    with pytest.raises(ShapeError, match="warm_start: the previous fit had means_ of shape"):
        model.fit(X)


@pytest.mark.parametrize("kind", covariance.KINDS)
@pytest.mark.parametrize("prior", ["default", None])
def test_online_steps_come_to_the_mixture(kind, prior):
    """Process twenty parts, the first with different shares of the clusters: within five standard errors of
    4,000 points."""
    model = DirichletMixture(3, prior=prior, covariance=kind, random_state=0)
    model.partial_fit(draw(300, np.array([0.2, 0.2, 0.6]), *MIXTURE[1:]))
    before = model.lower_bound_
    for part in range(20):
        assert model.partial_fit(draw(200, *MIXTURE, seed=part)) is model
    order = [int(np.argmin(((model.means_ - m) ** 2).sum(axis=1))) for m in MIXTURE[1]]
    assert sorted(order) == [0, 1, 2] and model.lower_bound_ != before
    assert_allclose(model.means_[order], MIXTURE[1], atol=5.0 / np.sqrt(4000 * 0.2))
    assert_allclose(model.weights_[order], MIXTURE[0], atol=0.05)
    with pytest.raises(ShapeError, match="X has 3 features"):
        model.partial_fit(np.zeros((4, 3)))


def test_an_online_step_on_every_space(space):
    n = 30 if space == "checked" else 300
    X = draw(n, *MIXTURE)
    first = {"means_init": MIXTURE[1], "covariances_init": MIXTURE[2], "weights_init": MIXTURE[0]}
    models = [
        DirichletMixture(3, max_iter=1, tol=-1.0, space=where, **first).fit(X).partial_fit(X[: n // 2])
        for where in (space, "serial")
    ]
    for name in "weights_ means_ covariances_ lower_bound_".split():
        assert_allclose(getattr(models[0], name), getattr(models[1], name), rtol=1e-9)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"prior": None, "covariance": "diag", "means_init": MIXTURE[1].tolist()},
        {"prior": Prior(scale=np.eye(2), shape=np.float64(2.0)), "covariance": "tied", "tol": 1e-5},
    ],
)
def test_a_saved_mixture_is_the_same(tmp_path, options):
    X = draw(300, *MIXTURE)
    model = DirichletMixture(3, random_state=0, **options).fit(X)
    model.save(tmp_path / "fitted.mixture")
    again = DirichletMixture.load(tmp_path / "fitted.mixture")
    again.space = "serial"
    assert [entry.name for entry in tmp_path.iterdir()] == ["fitted.mixture"]
    for name in (
        "weights_ means_ covariances_ precisions_cholesky_ objective_history_ n_iter_ converged_ n_active_"
        " lower_bound_ moves_ tol covariance"
    ).split():
        assert_array_equal(getattr(again, name), getattr(model, name))
    assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert_array_equal(again.partial_fit(X[:50]).means_, model.partial_fit(X[:50]).means_)
    if model.prior is not None:
        assert_array_equal(again.prior_.scale, model.prior_.scale)
        assert (
            again.sample_posterior(X, 2, n_warmup=0).alpha.tolist()
            == model.sample_posterior(X, 2, n_warmup=0).alpha.tolist()
        )


def test_files_that_are_no_saved_mixtures(tmp_path):
    X = draw(60, *MIXTURE)
    model = DirichletMixture(2, random_state=0)
    with pytest.raises(InputError, match="not fitted yet"):
        model.save(tmp_path / "a")
    model.fit(X)
    with pytest.raises(StorageError, match="none/a' cannot be written: No such file"):
        model.save(tmp_path / "none" / "a")
    with pytest.raises(InputError, match="a' cannot be read: No such file"):
        DirichletMixture.load(tmp_path / "a")
    (tmp_path / "a").write_text("nonsense")
    with pytest.raises(InputError, match="a' cannot be read"):
        DirichletMixture.load(tmp_path / "a")
    np.savez(tmp_path / "b.npz", header=np.array({"format": "models.mixture"}, dtype=object))
    with pytest.raises(InputError, match="cannot be read: .*allow_pickle=False"):
        DirichletMixture.load(tmp_path / "b.npz")
    model.save(tmp_path / "c")
    with np.load(tmp_path / "c") as file:
        arrays = dict(file)
    header = json.loads(str(arrays["header"]))
    np.savez(tmp_path / "d.npz", **arrays | {"header": np.array(json.dumps(header | {"version": 99}))})
    with pytest.raises(InputError, match="has version 99 of the format; expected 1 or less"):
        DirichletMixture.load(tmp_path / "d.npz")
    first = next(name for name, array in arrays.items() if array.shape == (2,))
    np.savez(tmp_path / "e.npz", **arrays | {first: np.ones(7)})
    with pytest.raises(InputError, match="is damaged"):
        DirichletMixture.load(tmp_path / "e.npz")


@pytest.mark.parametrize("model", [DirichletMixture(2, prior=None), DirichletMixture(2), TMixture(2)])
def test_small_units_are_told(model):
    """A prior follows the units of the points; reg_covar does not."""
    X = default_rng(1).normal(size=(200, 2)) * [1.0, 1e-4]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model.set_params(max_iter=2, tol=-1.0).fit(X)
    assert any("of columns [1] of X" in str(one.message) for one in told) == (
        type(model) is TMixture or model.prior is None
    )
