"""DirichletMixture: the estimator, with scikit-learn's conventions."""

from __future__ import annotations

import numpy as np

from portable.errors import InputError, ShapeError

from ..checks import check_choice, check_count, check_number, check_seed
from ..store import Store
from . import covariance, gibbs
from .blocks import Components, Points
from .checks import (
    check_covariances,
    check_feature_names,
    check_points,
    check_random_state,
    check_variances,
    check_weights,
    feature_names,
    spread_of,
)
from .prior import Prior, WithoutPrior, WithPrior, check_prior
from .sklearn_protocol import Parameters, not_fitted
from .starts import STARTS, first_means
from .steps import FullSteps, HostSteps


class DirichletMixture(Parameters):
    """Gaussian mixture, fitted by EM or sampled from; n_samples * n_components numbers are never stored.

    Parameters
    ----------
    n_components : int, default 1
        Number of components; with a prior those without use die out.
    prior : Prior or None, default "default"
        "default" is Prior(); None is plain maximum likelihood.
    covariance : {"full", "tied", "diag", "spherical"}, default "full"
        A prior is that of full matrices, restricted to those of this kind; a tied one has it once.
    max_iter : int, default 200
    tol : float, default 1e-6
        EM ends when the objective per point grows by less.
    reg_covar : float, default 1e-6
        Added to the diagonal of each covariance; maximum likelihood only.
    n_init : int, default 1
        Starts; the one of the largest objective is kept.
    init_params : {"k-means++", "random"}, default "k-means++"
        How points are chosen as first means. The first covariances are the data's variances on the diagonal.
    means_init, covariances_init, weights_init : array-like, optional
        Starts of the shapes of `means_`, `covariances_` and `weights_` instead.
    random_state : int, Generator or None
    space : str or Space, optional
        Where to compute; the default space if not given.

    Attributes
    ----------
    weights_, means_ : ndarrays, shapes (k,), (k, n_features)
    covariances_ : ndarray, shape (k, n_features, n_features), (n_features, n_features), (k, n_features) or (k,)
        For "full", "tied", "diag", "spherical".
    precisions_cholesky_ : ndarray, of the same shape
        Upper triangular, as in scikit-learn, or reciprocal standard deviations.
    objective_history_ : ndarray, shape (n_iter_ + 1,)
        Equation (8), or the log-likelihood, after 0, 1, ... iterations; never falls, but for the effect of reg_covar.
    n_iter_, n_features_in_ : int
    converged_ : bool
    feature_names_in_ : ndarray of str
        Only after a fit to a data frame.

    Raises
    ------
    ShapeError, DTypeError, FiniteError, InputError
        From `fit`, before anything is computed; without a prior also InputError where a component has collapsed.

    Notes
    -----
    Points in float32 are computed in float32 and added up in float64. A `numpy.memmap` is read from its file once an
    iteration and may be larger than memory.

    References
    ----------
    Suchard et al. (2010); equations (1) to (8) of `models.mixture`.
    """

    def __init__(self, n_components=1, *, prior="default", covariance="full", max_iter=200, tol=1e-6, reg_covar=1e-6,
                 n_init=1, init_params="k-means++", means_init=None, covariances_init=None, weights_init=None,
                 random_state=None, space=None):
        self.n_components, self.prior, self.covariance, self.n_init = n_components, prior, covariance, n_init
        self.max_iter, self.tol, self.reg_covar, self.init_params = max_iter, tol, reg_covar, init_params
        self.means_init, self.covariances_init, self.weights_init = means_init, covariances_init, weights_init
        self.random_state, self.space = random_state, space

    def fit(self, X, y=None):
        """Fit by EM.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        DirichletMixture
            Itself.

        Raises
        ------
        ShapeError, DTypeError, FiniteError
            X is no table of finite numbers with two points or more.
        InputError
            An option out of its range, a constant column, a covariance that stopped being positive definite (maximum likelihood).
        """
        names, streamed = feature_names(X), isinstance(X, np.memmap)
        random = self._check_parameters()
        X, model, means, covariances, scales = self._first(X)
        points = Points(X, self.n_components, self.space, self._centre, covariance.is_diagonal(self.covariance), streamed)
        best = None
        for _ in range(self.n_init):
            first = first_means(X, self.n_components, scales, self.init_params, random) if means is None else means
            found = self._em(points, model(), first, covariances)
            if best is None or found[0][-1] > best[0][-1]:
                best = found
        history, self.converged_, self.weights_, self.means_, self.covariances_, self.precisions_cholesky_ = best
        self.objective_history_, self.n_iter_ = np.array(history), len(history) - 1
        self.n_features_in_ = X.shape[1]
        if names is None:
            self.__dict__.pop("feature_names_in_", None)
        else:
            self.feature_names_in_ = names
        return self

    def _em(self, points, model, means, covariances):
        """EM from a start: objectives, whether it converged, weights, means, covariances and factors."""
        kind, history = self.covariance, []
        steps = FullSteps(points, model, means, covariances) if kind == "full" else HostSteps(points, model, kind, means, covariances)
        while True:
            last = len(history) == self.max_iter
            history.append(steps.objective(points.log_likelihood(steps.components) if last else steps.sweep()))
            converged = len(history) > 1 and history[-1] - history[-2] < self.tol * points.n
            if converged or last:
                return history, converged, np.exp(model.log_weights()), *steps.result()
            steps.advance()

    def sample_posterior(self, X, n_draws=1000, *, n_burn=100, n_thin=1, seed=0, checkpoint=None):
        """Draws from the posterior by blocked Gibbs sampling, from the fitted mode on.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
        n_draws, n_burn, n_thin : int
            Draws kept; sweeps before the first of them; sweeps for each.
        seed : int, 0 to 2^64 - 1
        checkpoint : path, optional
            A folder that keeps draws every few seconds. The same call goes on from there to the same draws, one for more
            draws adds to them.

        Returns
        -------
        Posterior
            Components carry the labels of the mode: those that share most points (Hungarian matching).

        Raises
        ------
        InputError
            Without a prior, or with covariances that are not full; a checkpoint of another run, or in use; a full disk: what
            was kept before stays.
        """
        self._check_fitted()
        if self.prior is None or self.covariance != "full":
            raise InputError("sample_posterior needs a prior and covariance='full'; this DirichletMixture has "
                             f"prior={self.prior!r}, covariance={self.covariance!r}")
        counts = check_count(n_draws, "n_draws", 1), check_count(n_burn, "n_burn", 0), check_count(n_thin, "n_thin", 1)
        streamed = isinstance(X, np.memmap)
        X = self._check(X)
        mean, variances = spread_of(X)
        points = Points(X, self.n_components, self.space, mean, False, streamed)
        prior = self._full_prior().for_data(mean, variances)
        n_draws, n_burn, n_thin = counts
        start, seed = self._fitted(), check_seed(seed)
        settings = vars(prior) | {"X": X, "log_weights": start.log_weights, "means": start.means, "factors": start.factors,
                                  "n_burn": n_burn, "n_thin": n_thin, "seed": seed}
        with Store(checkpoint, "mixture.sample_posterior", settings) as store:
            return gibbs.sample(points, prior, start, n_draws, n_burn, n_thin, seed, store)

    def score_samples(self, X):
        """Log-density of the mixture at each point, shape (n_samples,)."""
        return self._points(X).log_densities(self._fitted())

    def score(self, X, y=None):
        """Mean log-density."""
        points = self._points(X)
        return points.log_likelihood(self._fitted()) / points.n

    def predict(self, X):
        """The most probable component of each point, shape (n_samples,)."""
        return self._points(X).labels(self._fitted())

    def fit_predict(self, X, y=None):
        """`fit`, then `predict`."""
        return self.fit(X).predict(X)

    def predict_proba(self, X):
        """Probability of each component for each point, shape (n_samples, n_components): stored, since asked for."""
        return self._points(X).responsibilities(self._fitted())

    def bic(self, X):
        """Bayesian information criterion: lower is better."""
        points = self._points(X)
        return self._n_parameters() * np.log(points.n) - 2.0 * points.log_likelihood(self._fitted())

    def aic(self, X):
        """Akaike's information criterion: lower is better."""
        return 2.0 * self._n_parameters() - 2.0 * self._points(X).log_likelihood(self._fitted())

    def sample(self, n_samples=1):
        """Draw from the fitted mixture.

        Returns
        -------
        X : ndarray, shape (n_samples, n_features)
        labels : ndarray, shape (n_samples,), ascending
        """
        self._check_fitted()
        random = check_random_state(self.random_state)
        counts = random.multinomial(check_count(n_samples, "n_samples", 1), self.weights_ / self.weights_.sum())
        labels = np.repeat(np.arange(len(counts)), counts)
        away = random.standard_normal((len(labels), self.n_features_in_))
        factors = self._fitted().factors
        if factors.ndim == 2:
            away /= factors[labels]
        else:
            for j, end in enumerate(np.cumsum(counts)):
                part = away[end - counts[j]:end]
                part[:] = np.linalg.solve(factors[j].T, part.T).T
        return self.means_[labels] + away, labels

    def _check_parameters(self):
        """Of what needs no data; the generator of starts."""
        check_count(self.n_components, "n_components", 1)
        check_count(self.max_iter, "max_iter", 1)
        check_count(self.n_init, "n_init", 1)
        check_number(self.tol, "tol")
        check_number(self.reg_covar, "reg_covar", least=0.0)
        check_choice(self.init_params, "init_params", STARTS)
        check_choice(self.covariance, "covariance", covariance.KINDS)
        check_prior(self._full_prior())
        return check_random_state(self.random_state)

    def _first(self, X):
        """Checked points, a maker of the model, first means (or None) and covariances, and the columns' deviations."""
        k, kind, prior = self.n_components, self.covariance, self._full_prior()
        X = check_points(X)
        n, p = X.shape
        self._centre, variances = spread_of(X)
        if prior is None and n < max(k, p):
            raise ShapeError(f"X has shape {X.shape}: with {k} components at least {max(k, p)} points are wanted, "
                             "or a prior")
        weights = np.full(k, 1.0 / k)
        if self.weights_init is not None:
            weights = check_weights(self.weights_init, k, "weights_init")
        if prior is not None:
            prior = prior.for_data(self._centre, variances)
        means = self.means_init
        if means is not None:
            means = check_points(means, "means_init").astype(np.float64)
            if means.shape != (k, p):
                raise ShapeError(f"means_init has shape {means.shape}; {k} rows are wanted, shape {(k, p)}")
        if self.covariances_init is None:
            first = {"full": np.tile(np.diag(variances), (k, 1, 1)), "tied": np.diag(variances),
                     "diag": np.tile(variances, (k, 1)), "spherical": np.full(k, variances.mean())}[kind]
        else:
            check = check_variances if covariance.is_diagonal(kind) else check_covariances
            first = check(self.covariances_init, covariance.shape(kind, k, p), "covariances_init")

        def model():
            return WithoutPrior(self.reg_covar, kind, weights) if prior is None else WithPrior(prior, kind, weights)

        return X, model, means, first, np.sqrt(variances)

    def _full_prior(self):
        return Prior() if isinstance(self.prior, str) and self.prior == "default" else self.prior

    def _components(self, log_weights, means, factors):
        return Components(log_weights, means, covariance.for_each(self.covariance, factors, *means.shape))

    def _fitted(self):
        with np.errstate(divide="ignore"):
            return self._components(np.log(self.weights_), self.means_, self.precisions_cholesky_)

    def _n_parameters(self):
        k, p = self.means_.shape
        return k * p + k - 1 + covariance.n_parameters(self.covariance, k, p)

    def _check_fitted(self):
        if not hasattr(self, "means_"):
            raise not_fitted("this DirichletMixture is not fitted yet; call fit first")

    def _check(self, X):
        self._check_fitted()
        check_feature_names(X, getattr(self, "feature_names_in_", None))
        return check_points(X, n_features=self.n_features_in_)

    def _points(self, X):
        """Used once, so read block by block."""
        return Points(self._check(X), len(self.means_), self.space, self._centre,
                      covariance.is_diagonal(self.covariance), streamed=True)
