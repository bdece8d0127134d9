"""Test mixtures of t, uniform noise, missing values, and the choice among families."""

import warnings
from functools import partial

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal

from portable.errors import DTypeError, FiniteError, InputError, ShapeError
from portable.models import mixture
from portable.models.mixture import DirichletMixture, TMixture

from ...refusals import refusals
from . import reference
from .problems import draw, random_mixture


def heavy(n, seed=0, p=2, dof=4.0):
    """Draw three clusters of t."""
    random = default_rng(seed)
    labels = random.integers(0, 3, n)
    return 12.0 * np.eye(3)[labels, :p] + random.standard_t(dof, size=(n, p)), labels


@pytest.mark.parametrize("noise", [False, True])
def test_t_agrees_with_numpy(space, noise):
    """Weights, means, covariances, degrees of freedom and objective agree after some steps, to 1e-9."""
    X, _ = heavy(40 if space == "checked" else 400)
    n_iter = 2 if space == "checked" else 8
    if noise:
        X = np.concatenate([X, default_rng(1).uniform(-20.0, 30.0, (len(X) // 10, 2))])
    start = np.array([[1.0, 1.0], [10.0, 0.0], [0.0, 11.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mixture.ConvergenceWarning)
        keys = {"means_init": start, "reg_covar": 0.0, "tol": -1.0, "max_iter": n_iter}
        found = TMixture(3, noise=noise, space=space, **keys).fit(X)
    widths = np.tile(np.diag(X.var(axis=0) / 3.0), (3, 1, 1))
    volume = np.log(np.ptp(X, axis=0)).sum()
    totals, *wanted = reference.t_em(X, start, widths, np.full(3, 10.0), n_iter, 0.05 * noise, volume)
    assert_allclose(found.objective_history_, np.array(totals) / len(X), rtol=1e-9)
    names = "weights_", "means_", "covariances_", "dof_"
    for name, value in zip(names, wanted):
        assert_allclose(getattr(found, name), value, rtol=1e-9, atol=1e-9, err_msg=name)
    assert np.diff(found.objective_history_).min() > -1e-12
    total = found.weights_.sum() + found.noise_weight_
    assert abs(total - 1.0) < 1e-12 and (found.noise_weight_ > 0.0) == noise


@pytest.mark.parametrize("kind", "full tied diag spherical".split())
def test_t_of_infinite_dof_is_normal(kind):
    """Compare with DirichletMixture without a prior, for every kind of covariances."""
    X, _ = heavy(300, dof=30.0)
    keys = {"covariance": kind, "means_init": 12.0 * np.eye(3)[:, :2], "tol": 1e-12}
    found = TMixture(3, dof=np.inf, **keys).fit(X)
    wanted = DirichletMixture(3, prior=None, **keys).fit(X)
    assert_allclose(found.means_, wanted.means_, atol=1e-5)
    assert_allclose(found.score_samples(X), wanted.score_samples(X), atol=1e-5)
    assert (found.predict(X) == wanted.predict(X)).all()


def test_t_finds_clusters_with_tails_and_noise(tmp_path):
    X, labels = heavy(2000)
    found = TMixture(3, random_state=0).fit(X)
    assert mixture.fitting.agreement(found.predict(X), labels) > 0.95
    assert (found.dof_ > 2.5).all() and (found.dof_ < 8.0).all()
    assert_allclose(found.predict_proba(X).sum(axis=1), 1.0, atol=1e-12)
    assert_allclose(found.score(X), found.lower_bound_, rtol=1e-12)
    far = default_rng(3).uniform(-40.0, 60.0, (200, 2))
    both = TMixture(3, dof=np.inf, noise=True, random_state=0).fit(np.concatenate([X, far]))
    assert (both.predict(far) == -1).mean() > 0.9 and both.predict_proba(far).shape == (200, 4)
    both.save(tmp_path / "t.npz")
    again = TMixture.load(tmp_path / "t.npz")
    assert_array_equal(again.predict_proba(X), both.predict_proba(X))
    assert again.get_params()["noise"] is True
    with pytest.raises(InputError, match="holds mixture.TMixture; expected mixture.Selection"):
        mixture.Selection.load(tmp_path / "t.npz")
    drawn, own = found.sample(4000)
    assert abs(np.bincount(own) / 4000 - found.weights_).max() < 0.05
    assert abs(np.median(drawn[own == 0], axis=0) - found.means_[0]).max() < 0.3


def with_holes(n, p=3, seed=0, share=0.25):
    weights, means, covariances = random_mixture(2, p, seed)
    X = draw(n, weights, means, covariances, seed)
    X[default_rng(seed).random(X.shape) < share] = np.nan
    return X[~np.isnan(X).all(axis=1)]


def test_missing_values_agree_with_numpy(space):
    """Compare with EM over patterns, to 1e-9, from the same start."""
    X = with_holes(30 if space == "checked" else 120)
    keys = {"prior": None, "reg_covar": 0.0, "random_state": 0, "space": space, "tol": -1.0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mixture.ConvergenceWarning)
        filled = np.where(np.isnan(X), np.nanmean(X, axis=0), X)
        start = DirichletMixture(2, max_iter=3, **keys).fit(filled)
        found = DirichletMixture(2, missing=True, max_iter=3, **keys).fit(X)
    totals, *wanted = reference.em_of_patterns(X, start.weights_, start.means_, start.covariances_, 3)
    assert_allclose(found.objective_history_, totals, rtol=1e-9)
    for name, value in zip(("weights_", "means_", "covariances_"), wanted):
        assert_allclose(getattr(found, name), value, rtol=1e-9, atol=1e-9, err_msg=name)
    assert np.isfinite(found.score(X)) and not np.isnan(found.impute(X)).any()
    known = ~np.isnan(X)
    assert_array_equal(found.impute(X)[known], X[known])


@pytest.mark.parametrize("kind", "full tied diag spherical".split())
def test_missing_values_under_a_prior(kind):
    """The objective never falls, and few missing values change little; without any the result is the usual
    one.
    """
    X = with_holes(400, share=0.1)
    whole = X[~np.isnan(X).any(axis=1)]
    keys = {"covariance": kind, "random_state": 0}
    found = DirichletMixture(3, missing=True, **keys).fit(X)
    assert np.diff(found.objective_history_).min() > -1e-9 * abs(found.objective_history_[0])
    plain = DirichletMixture(3, **keys).fit(whole)
    assert abs(found.score(whole) - plain.score(whole)) < 0.1
    again = DirichletMixture(3, missing=True, **keys).fit(whole)
    assert_allclose(again.score_samples(whole), plain.score_samples(whole), atol=1e-2)
    assert (again.predict(whole) == plain.predict(whole)).mean() > 0.99


def test_the_family_is_chosen_by_points_not_seen():
    X, _ = heavy(600)
    keys = {"n_init": 1, "random_state": 0}
    asked = {f"t {k}": TMixture(k, **keys) for k in (1, 2, 3, 4)}
    asked["normal 3"] = TMixture(3, dof=np.inf, **keys)
    found = mixture.select(asked, X, n_folds=3)
    assert found.best == "t 3" and found.scores.shape == (5,)
    with pytest.raises(InputError, match="candidates is empty"):
        mixture.select({}, X)
    with pytest.raises(DTypeError, match=r"candidates\['x'\] must be a mixture, got int"):
        mixture.select({"x": 3}, X)


def test_components_are_merged_by_name():
    X, _ = heavy(600)
    model = DirichletMixture(6, random_state=0).fit(X)
    members, joins = mixture.merge(model, X, n_populations=3)
    assert members.shape == (6,) and set(members) == {0, 1, 2} and isinstance(joins, list)


@pytest.mark.parametrize("make", [partial(DirichletMixture, prior=None), TMixture])
def test_components_of_one_point_are_named(make):
    with pytest.warns(
        UserWarning,
        match=r"components \[\d, \d\] have one point each, so their variance is only reg_covar=1e-06",
    ):
        make(3, random_state=0).fit(np.array([[0.0, 0.0], [1.0, 5.0], [9.0, 2.0], [4.0, 4.0]]))


test_bad_input = refusals(
    [
        (lambda: TMixture(dof="all"), [[1.0], [2.0]], InputError, "dof is 'all'"),
        (lambda: TMixture(2, dof=[1.0, 0.0]), [[1.0], [2.0]], InputError, "positive numbers, one or 2"),
        (lambda: TMixture(2), [[1.0], [2.0]], ShapeError, "n_samples = 2; expected more points than 2"),
        (
            lambda: TMixture(2, means_init=[[0.0]]),
            [[1.0], [2.0], [4.0]],
            ShapeError,
            r"means_init has shape \(1, 1\); expected 2 rows",
        ),
        (lambda: TMixture(), [[np.nan], [2.0]], FiniteError, r"X\[0, 0\] is nan"),
        (lambda: TMixture(noise=1), [[1.0], [2.0]], DTypeError, "noise must be True or False"),
        (lambda: DirichletMixture(missing=1), [[1.0], [2.0]], DTypeError, "missing must be True"),
        (
            lambda: DirichletMixture(missing=True),
            [[1.0, np.nan], [2.0, np.nan]],
            InputError,
            "column 1 of X is missing in all rows",
        ),
        (
            lambda: DirichletMixture(missing=True),
            [[1.0, 2.0], [np.nan, np.nan], [2.0, 1.0], [0.0, 1.0]],
            FiniteError,
            "is NaN, as all of its row",
        ),
    ],
    lambda make, X: make().fit(np.array(X)),
)
