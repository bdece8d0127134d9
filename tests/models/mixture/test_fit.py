"""Test DirichletMixture: updates compared with the reference and scikit-learn, objective, recovery,
degenerate data, bad input."""

import warnings

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.mixture import GaussianMixture
from sklearn.utils.estimator_checks import check_estimator

from portable.errors import DTypeError, FiniteError, InputError, ShapeError
from portable.models.mixture import sums, DirichletMixture, Prior, TMixture

from ...refusals import refusals
from . import reference
from .problems import WIDE, cells, draw, random_mixture


def start(k, p, seed=7):
    weights, means, covariances = random_mixture(k, p, seed)
    return {"weights_init": weights, "means_init": means, "covariances_init": covariances}


def assert_never_falls(model):
    history = model.objective_history_
    assert np.isfinite(history).all()
    # rounding of a sum over the points
    assert np.diff(history).min(initial=0.0) >= -1e-11 * np.abs(history).max()


@pytest.mark.parametrize("k, p", [(4, 1), (1, 3), (4, 3), (4, WIDE)])
def test_agrees_with_the_reference(space, k, p):
    n, n_iter = (40, 2) if space == "checked" else (400, 8)
    if p > 3 and space == "checked":
        n, n_iter = 12, 1
    X = draw(n, *random_mixture(3, p))
    prior = Prior(mean_scale=7.0, shape=2.0, rate=0.5, scale=np.diag(X.var(axis=0)))
    first = start(k, p)
    weights = first["weights_init"]
    sticks = weights[:-1] / np.cumsum(weights[::-1])[::-1][:-1]
    full = prior.for_data(X.mean(axis=0), X.var(axis=0))
    wanted = reference.bayesian_em(X, full, sticks, first["means_init"], first["covariances_init"], n_iter)
    model = DirichletMixture(k, prior=prior, max_iter=n_iter, tol=-1e9, space=space, **first).fit(X)
    assert model.n_iter_ == n_iter
    assert_allclose(model.objective_history_, wanted[0], rtol=1e-11)
    assert_allclose(model.means_, wanted[2], rtol=1e-11, atol=1e-11)
    assert_allclose(model.covariances_, wanted[3], rtol=1e-11, atol=1e-11)
    left = np.cumprod(np.append(1.0, 1.0 - wanted[1]))[:-1]
    assert_allclose(model.weights_[:-1], wanted[1] * left, rtol=1e-11)


FIRST_COVARIANCES = {
    "full": lambda full: full,
    "tied": lambda full: full[0],
    "diag": lambda full: np.diagonal(full, axis1=1, axis2=2).copy(),
    "spherical": lambda full: np.trace(full, axis1=1, axis2=2) / full.shape[1],
}


@pytest.mark.parametrize("kind", FIRST_COVARIANCES)
def test_maximum_likelihood_is_that_of_scikit_learn(space, kind):
    n, n_iter = (30, 1) if space == "checked" else (600, 10)
    X = draw(n, *random_mixture(3, 4))
    first = start(3, 4)
    first["covariances_init"] = FIRST_COVARIANCES[kind](first["covariances_init"])
    model = DirichletMixture(
        3, prior=None, covariance=kind, max_iter=n_iter, tol=-1e9, space=space, **first
    ).fit(X)
    inverse = np.linalg.inv if kind in ("full", "tied") else np.reciprocal
    peer = GaussianMixture(
        3,
        covariance_type=kind,
        max_iter=n_iter,
        tol=0.0,
        weights_init=first["weights_init"],
        means_init=first["means_init"],
        precisions_init=inverse(first["covariances_init"]),
    )
    with pytest.warns(match="converge"):
        peer.fit(X)
    for name in "weights_ means_ covariances_ precisions_cholesky_".split():
        assert getattr(model, name).shape == getattr(peer, name).shape
        assert_allclose(getattr(model, name), getattr(peer, name), rtol=1e-9, atol=1e-9)
    assert_allclose(model.score_samples(X), peer.score_samples(X), rtol=1e-9)
    assert_allclose(model.predict_proba(X), peer.predict_proba(X), rtol=1e-9, atol=1e-9)
    assert_allclose([model.bic(X), model.aic(X)], [peer.bic(X), peer.aic(X)], rtol=1e-9)


def test_narrow_clusters_far_from_the_centre_keep_their_digits(space):
    """Sums about the centre of all would leave 8 digits; with sums about separate means the error is the
    points' rounding, 1e-12."""
    noise = default_rng(1).normal(size=(2, 20, 2))
    parts = noise[0] + 2e4, noise[1] - 2e4
    first = {"means_init": [[2e4, 2e4], [-2e4, -2e4]], "covariances_init": np.tile(np.eye(2), (2, 1, 1))}
    model = DirichletMixture(2, prior=None, reg_covar=0.0, max_iter=2, tol=-1e9, space=space, **first).fit(
        np.concatenate(parts)
    )
    for part, covariance in zip(parts, model.covariances_):
        assert_allclose(covariance, np.cov(part.T, bias=True), rtol=1e-10)


def numeric_objective(model, prior, X):
    """Evaluate (8), with each covariance in full; a tied one counts once."""
    k, p = model.means_.shape
    kind, c = model.covariance, model.covariances_
    full = {
        "full": lambda: c,
        "tied": lambda: np.tile(c, (k, 1, 1)),
        "diag": lambda: c[:, :, None] * np.eye(p),
        "spherical": lambda: c[:, None, None] * np.eye(p),
    }[kind]()
    sticks = model.weights_[:-1] / np.cumsum(model.weights_[::-1])[::-1][:-1]
    left = np.log1p(-sticks).sum()
    value = reference.log_sum_exp(reference.log_joint(X, np.log(model.weights_), model.means_, full)).sum()
    value += -left - (k + prior.shape - 1) * np.log(prior.rate - left)
    for j in range(k):
        inverse, log_det, away = (
            np.linalg.inv(full[j]),
            np.linalg.slogdet(full[j])[1],
            model.means_[j] - prior.mean,
        )
        own = kind != "tied" or j == 0
        value -= 0.5 * own * ((prior.dof + p + 1) * log_det + np.trace(prior.scale @ inverse))
        value -= 0.5 * (log_det + away @ inverse @ away / prior.mean_scale)
    return value


@pytest.mark.parametrize("kind", FIRST_COVARIANCES)
def test_objective_of_each_kind(space, kind):
    """The objective equals (8) evaluated directly, and no small change of any covariance raises it after
    convergence.
    """
    n = 20 if space == "checked" else 300
    X = draw(n, *random_mixture(3, 3))
    prior = Prior(X.mean(axis=0), 7.0, 5.0, np.diag(X.var(axis=0)), 2.0, 0.5)
    model = DirichletMixture(
        2,
        covariance=kind,
        prior=prior,
        random_state=0,
        tol=-1e9,
        max_iter=1 if space == "checked" else 150,
        space=space,
    ).fit(X)
    assert_never_falls(model)
    assert model.objective_history_[-1] == pytest.approx(numeric_objective(model, prior, X), rel=1e-11)
    if space == "checked":
        return
    for factor in (0.99, 1.01):
        model.covariances_ = model.covariances_ * factor
        assert numeric_objective(model, prior, X) < model.objective_history_[-1]
        model.covariances_ = model.covariances_ / factor


def test_float32_points_are_computed_in_float32(space):
    n = 40 if space == "checked" else 2000
    X = draw(n, *random_mixture(3, 3))
    first = start(3, 3)
    single, double = (
        DirichletMixture(3, max_iter=2, tol=-1e9, space=space, **first).fit(X.astype(dtype))
        for dtype in (np.float32, np.float64)
    )
    assert single.score_samples(X.astype(np.float32)).dtype == np.float32
    # eps 6e-8 times 1/sigma, two steps
    assert_allclose(single.means_, double.means_, rtol=1e-4, atol=1e-4)
    assert np.abs(single.means_ - double.means_).max() > 0.0


@pytest.mark.parametrize("covariance", ["full", "diag"])
def test_no_slice_of_points_is_empty(space, covariance, monkeypatch):
    """Four tiles for three slices are divided as two and two: a third slice would read beyond the last."""
    X = draw(128, *random_mixture(2, 2))
    model = DirichletMixture(1, covariance=covariance, max_iter=1, tol=-1e9, space=space).fit(X)
    monkeypatch.setattr(sums, "SLICE", 43)
    sliced = DirichletMixture(1, covariance=covariance, max_iter=1, tol=-1e9, space=space).fit(X)
    assert_allclose(sliced.covariances_, model.covariances_, rtol=1e-13, atol=1e-13)


def test_memory_mapped_points_are_read_at_every_sweep(space, tmp_path):
    n = 40 if space == "checked" else 9000  # three blocks
    X = draw(n, *random_mixture(3, 3))
    mapped = np.memmap(tmp_path / "points", np.float64, "w+", shape=X.shape)
    mapped[:] = X
    first = start(3, 3)
    models = [
        DirichletMixture(3, max_iter=2, tol=-1e9, space=space, **first).fit(points) for points in (mapped, X)
    ]
    for name in "means_ covariances_ weights_ objective_history_".split():
        assert_array_equal(getattr(models[0], name), getattr(models[1], name))
    assert_array_equal(models[0].predict(mapped), models[1].predict(X))
    mapped[n // 2, 1] = np.nan
    with pytest.raises(FiniteError, match=rf"X\[{n // 2}, 1\] is nan"):
        models[0].fit(mapped)


def test_the_best_of_several_starts_is_kept():
    X = draw(300, *random_mixture(6, 2, seed=3))
    alone = [
        DirichletMixture(4, prior=None, init_params="random", random_state=7, n_init=n).fit(X)
        for n in (1, 2, 5)
    ]
    best = [model.objective_history_[-1] for model in alone]
    assert best[0] <= best[1] <= best[2] and best[0] < best[2]


@pytest.mark.parametrize("prior", [Prior(), Prior(shape=0.01, rate=50.0, mean_scale=0.1), None])
def test_objective_never_falls_on_random_problems(prior):
    """There are 60 problems in all, with all sizes, numbers of components and starts. The second prior
    favours alpha far below 1, where sticks reach their bound."""
    for seed in range(0, 100, 5):
        p, k = 1 + seed % 4, 1 + seed // 20 % 4
        X = draw(30 + 4 * seed, *random_mixture(3, p, seed), seed=seed)
        model = DirichletMixture(
            k,
            prior=prior,
            max_iter=25,
            tol=-1e9,
            random_state=seed,
            reg_covar=0.0,
            init_params=("k-means++", "random")[seed % 2] if prior else "k-means++",
        )
        try:
            model.fit(X)
        except InputError:
            assert prior is None  # the likelihood has no maximum: a component collapsed onto a few points
            continue
        assert_never_falls(model)


def test_recovers_a_known_mixture(space):
    n = 60 if space == "checked" else 6000
    means = np.array([[0.0, 0.0], [8.0, 0.0], [0.0, 8.0]])
    covariances = np.array([[[1.0, 0.5], [0.5, 1.0]], [[0.5, 0.0], [0.0, 2.0]], [[1.0, 0.0], [0.0, 1.0]]])
    weights = np.array([0.5, 0.3, 0.2])
    X = draw(n, weights, means, covariances)
    n_iter = 6 if space == "checked" else 100
    model = DirichletMixture(
        3, prior=None, max_iter=n_iter, tol=-1.0 if space == "checked" else 1e-6, random_state=0, space=space
    ).fit(X)
    assert_never_falls(model)
    order = [int(np.argmin(((model.means_ - m) ** 2).sum(axis=1))) for m in means]
    assert sorted(order) == [0, 1, 2]
    errors = np.sqrt(np.diagonal(covariances, axis1=1, axis2=2) / (n * weights[:, None]))
    assert (np.abs(model.means_[order] - means) < 4.0 * errors).all()
    assert (np.abs(model.weights_[order] - weights) < 4.0 * np.sqrt(weights * (1.0 - weights) / n)).all()
    labels = model.predict(X)
    assert_array_equal(labels, model.predict_proba(X).argmax(axis=1))
    assert_allclose(model.predict_proba(X).sum(axis=1), 1.0, rtol=1e-12)
    assert model.score(X) * n == pytest.approx(model.objective_history_[-1], rel=1e-12)


@pytest.mark.parametrize("kind", FIRST_COVARIANCES)
def test_samples_come_from_the_mixture(kind):
    X = draw(2000, *random_mixture(3, 2))
    model = DirichletMixture(3, covariance=kind, random_state=3, max_iter=30, tol=-1.0).fit(X)
    drawn, labels = model.sample(20_000)
    again, _ = model.sample(20_000)
    assert_array_equal(drawn, again)
    mean = model.weights_ @ model.means_
    away, c = model.means_ - mean, model.covariances_
    full = c if kind in ("full", "tied") else (c if kind == "diag" else c[:, None])[:, :, None] * np.eye(2)
    covariance = np.einsum("j,jab->ab", model.weights_, full + away[:, :, None] * away[:, None, :])
    assert (np.abs(drawn.mean(axis=0) - mean) < 4.0 * np.sqrt(np.diag(covariance) / 20_000)).all()
    assert_allclose(np.bincount(labels, minlength=3) / 20_000, model.weights_, atol=0.015)


HOPELESS = {
    "fewer points than components": default_rng(0).normal(size=(3, 2)),
    "duplicated points": np.repeat([[0.0, 1.0], [1.0, 0.0]], 15, axis=0),
    "collinear columns": np.outer(np.linspace(0.0, 1.0, 20), [1.0, -2.0]),
    "far from the origin": 1e6 + default_rng(1).normal(size=(20, 2)),
    "one point far away": np.append(default_rng(2).normal(size=(20, 2)), [[1e6, 1e6]], axis=0),
}


@pytest.mark.parametrize("case", HOPELESS)
def test_hopeless_data_give_numbers(space, case):
    X = HOPELESS[case]
    model = DirichletMixture(
        6, random_state=0, max_iter=3 if space == "checked" else 25, tol=-1e9, space=space
    ).fit(X)
    assert_never_falls(model)
    for array in (
        model.weights_,
        model.means_,
        model.covariances_,
        model.score_samples(X),
        model.predict_proba(X),
    ):
        assert np.isfinite(array).all()


def test_components_without_points_fall_back_to_the_prior(space):
    X = draw(30, *random_mixture(1, 2))
    first = {"means_init": [[0.0, 0.0], [1e5, 1e5]], "covariances_init": np.tile(np.eye(2), (2, 1, 1))}
    prior = Prior(scale=np.diag(X.var(axis=0)))
    model = DirichletMixture(2, prior=prior, max_iter=1, tol=-1.0, space=space, **first).fit(X)
    assert_allclose(model.means_[1], X.mean(axis=0), rtol=1e-12)
    assert_allclose(model.covariances_[1], np.diag(X.var(axis=0)) / 8.0, rtol=1e-12, atol=1e-15)


def test_real_cells(space):
    X = cells()[: 20 if space == "checked" else 4000, :3]
    model = DirichletMixture(
        4, max_iter=1 if space == "checked" else 10, tol=-1.0, random_state=0, space=space
    ).fit(X)
    assert_never_falls(model)
    assert model.objective_history_[-1] > model.objective_history_[0]
    assert model.means_.shape == (4, 3) and model.weights_.sum() == pytest.approx(1.0, rel=1e-12)


X = default_rng(4).normal(size=(10, 2))
BAD = [
    ({"n_components": 0}, X, InputError, "n_components is 0; expected at least 1"),
    ({"n_components": 2.5}, X, DTypeError, "n_components must be an integer"),
    ({"max_iter": 0}, X, InputError, "max_iter is 0"),
    ({"tol": "small"}, X, DTypeError, "tol must be a number"),
    (
        {"init_params": "kmeans"},
        X,
        InputError,
        "init_params is 'kmeans'; expected one of 'k-means[+][+]', 'random'",
    ),
    (
        {"covariance": "round"},
        X,
        InputError,
        "covariance is 'round'; expected one of 'full', 'tied', 'diag', 'spherical'",
    ),
    (
        {"covariance": "diag", "covariances_init": np.zeros((2, 2))},
        X,
        InputError,
        r"covariances_init\[0, 0\] is 0.0",
    ),
    ({"n_init": 0}, X, InputError, "n_init is 0"),
    ({"random_state": "seven"}, X, InputError, "random_state is 'seven'"),
    ({}, X[:1], ShapeError, "n_samples = 1"),
    ({}, X + 1j, DTypeError, "Complex data not supported"),
    ({}, X.astype(object) * 1j, DTypeError, "X must hold real numbers"),
    ({"prior": "flat"}, X, DTypeError, "prior must be mixture.Prior, or None"),
    ({"prior": Prior(mean=[0.0])}, X, ShapeError, r"prior.mean has shape \(1,\); expected \(2,\)"),
    ({"prior": Prior(scale=-np.eye(2))}, X, InputError, "prior.scale is not positive definite"),
    ({"prior": Prior(scale=[[1.0, 0.5], [0.0, 1.0]])}, X, InputError, "prior.scale is not symmetric"),
    ({"prior": Prior(dof=0.5)}, X, InputError, "prior.dof is 0.5"),
    ({"prior": Prior(rate=0.0)}, X, InputError, "prior.rate is 0.0"),
    ({"prior": None, "n_components": 11}, X, ShapeError, "at least 11 points"),
    ({"warm_start": 1}, X, DTypeError, "warm_start must be True or False"),
    ({"moves": "all"}, X, DTypeError, "moves must be True or False"),
    ({"prior": None, "reg_covar": -1.0}, X, InputError, "reg_covar is -1.0"),
    ({"means_init": np.zeros((3, 2))}, X, ShapeError, "expected 2 rows"),
    (
        {"covariances_init": np.zeros((2, 2, 2))},
        X,
        InputError,
        "covariances_init is not positive definite",
    ),
    ({"weights_init": [0.9, 0.9]}, X, InputError, "weights_init is negative somewhere or adds up to 1.8"),
    ({}, np.column_stack([X, np.ones(10)]), InputError, "column 2 of X is constant"),
    ({}, np.where(X == X[4, 1], np.inf, X), FiniteError, r"X\[4, 1\] is inf"),
    ({}, X.astype(str), DTypeError, "X must hold real numbers"),
    ({}, X[:, 0], ShapeError, r"X has shape \(10,\)"),
]


test_bad_input = refusals(
    BAD, lambda options, points: DirichletMixture(**{"n_components": 2, **options}).fit(points)
)


def test_sparse_input_is_refused():
    with pytest.raises(DTypeError, match=r"X is sparse.*toarray"):
        DirichletMixture(2).fit(sparse.csr_matrix(X))


def test_unfitted_and_other_features():
    model = DirichletMixture(2)
    with pytest.raises(InputError, match="not fitted yet"):
        model.predict(X)
    model.fit(X)
    with pytest.raises(ShapeError, match="X has 3 features, but DirichletMixture is expecting 2"):
        model.score_samples(np.zeros((3, 3)))


@pytest.mark.parametrize(
    "model",
    [
        DirichletMixture(covariance="diag"),
        DirichletMixture(3, random_state=0),
        DirichletMixture(2, prior=None, random_state=0),
        TMixture(),
    ],
    ids=str,
)
def test_estimator_checks_of_scikit_learn(model):
    """One check is skipped: it requires an environment variable for another array library."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # caused by the checks themselves
        results = check_estimator(model, on_fail=None, on_skip=None)
    failed = [(r["check_name"], str(r["exception"])) for r in results if r["status"] == "failed"]
    assert not failed and len(results) > 30


def test_columns_of_a_data_frame_have_names():
    class Frame(np.ndarray):
        columns = ("a", "b")

    named = X.view(Frame)
    model = DirichletMixture(2, max_iter=2, tol=-1.0).fit(named)
    assert list(model.feature_names_in_) == ["a", "b"]
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.predict(X)
    other = X.view(type("Other", (np.ndarray,), {"columns": ("b", "a")}))
    with pytest.raises(InputError, match="feature names should match"):
        model.predict(other)


def test_parameters_by_name():
    model = DirichletMixture(3, tol=0.1)
    assert model.get_params()["tol"] == 0.1 and repr(model) == "DirichletMixture(n_components=3, tol=0.1)"
    assert model.set_params(n_components=2).n_components == 2
    with pytest.raises(InputError, match="Invalid parameter 'components'"):
        model.set_params(components=2)
