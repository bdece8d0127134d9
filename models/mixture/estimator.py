"""DirichletMixture: the estimator, with scikit-learn's conventions."""

from __future__ import annotations

import numpy as np

from portable.errors import InputError, ShapeError

from ..checks import check_count, check_number
from .checks import check_covariances, check_points, check_weights
from .density import Points, pack
from .prior import (
    Prior,
    WithoutPrior,
    WithPrior,
    centre,
    check_prior,
    precision_factors,
)

STARTS = ("k-means++", "random")

# Points among which a start is sought: enough for the centres, and few enough to look at on the host.
_SEED_POINTS = 20_000

# Points whose responsibilities are in the space at once.
_ROWS = 65_536


class DirichletMixture:
    """Gaussian mixture with full covariances, fitted by EM; n_samples * n_components numbers are never stored.

    Parameters
    ----------
    n_components : int
        Number of components; with a prior those without use die out.
    prior : Prior or None, default Prior()
        None is plain maximum likelihood.
    max_iter : int, default 200
    tol : float, default 1e-6
        EM ends when the objective per point grows by less.
    reg_covar : float, default 1e-6
        Added to the diagonal of each covariance; maximum likelihood only.
    init_params : {"k-means++", "random"}, default "k-means++"
        How points are chosen as first means. The first covariances are the data's variances on the diagonal.
    means_init, covariances_init, weights_init : array-like, optional
        Starts of shapes (k, n_features), (k, n_features, n_features) and (k,) instead.
    random_state : int, Generator or None
    space : str or Space, optional
        Where to compute; the default space if not given.

    Attributes
    ----------
    weights_, means_, covariances_ : ndarrays, shapes (k,), (k, n_features), (k, n_features, n_features)
    precisions_cholesky_ : ndarray, shape (k, n_features, n_features)
        Upper triangular, as in scikit-learn.
    objective_history_ : ndarray, shape (n_iter_ + 1,)
        Equation (8), or the log-likelihood, after 0, 1, ... iterations; never falls, but for the effect of reg_covar.
    n_iter_, n_features_in_ : int
    converged_ : bool

    Raises
    ------
    ShapeError, DTypeError, FiniteError, InputError
        From `fit`, before anything is computed; without a prior also InputError where a component has collapsed.

    References
    ----------
    Suchard et al. (2010); equations (1) to (8) of `models.mixture`.
    """

    def __init__(self, n_components, *, prior=Prior(), max_iter=200, tol=1e-6, reg_covar=1e-6, init_params="k-means++",
                 means_init=None, covariances_init=None, weights_init=None, random_state=None, space=None):
        self.n_components, self.prior, self.max_iter, self.tol = n_components, prior, max_iter, tol
        self.reg_covar, self.init_params, self.random_state, self.space = reg_covar, init_params, random_state, space
        self.means_init, self.covariances_init, self.weights_init = means_init, covariances_init, weights_init

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
        """
        X, model, means, covariances = self._start(X)
        points = Points(X, self.space)
        history, self.converged_ = [], False
        while True:
            factors = precision_factors(covariances)
            records = pack(means, factors, model.log_weights())
            history.append(model.objective(points.normalise(records), means, factors))
            if len(history) > 1 and history[-1] - history[-2] < self.tol * points.n:
                self.converged_ = True
            if self.converged_ or len(history) > self.max_iter:
                break
            n, first, second = points.sums(records)
            means, covariances = model.update(n, *centre(n, first, second, means))
        self.weights_, self.means_, self.covariances_ = np.exp(model.log_weights()), means, covariances
        self.precisions_cholesky_, self._records = factors, records
        self.objective_history_, self.n_iter_ = np.array(history), len(history) - 1
        self.n_features_in_ = points.n_features
        return self

    def score_samples(self, X):
        """Log-density of the mixture at each point, shape (n_samples,)."""
        points = self._points(X)
        points.normalise(self._records)
        return points.lse.to_numpy()

    def score(self, X, y=None):
        """Mean log-density."""
        return float(self.score_samples(X).mean())

    def predict(self, X):
        """The most probable component of each point, shape (n_samples,)."""
        return self._points(X).labels(self._records)

    def predict_proba(self, X):
        """Probability of each component for each point, shape (n_samples, n_components): stored, since asked for."""
        X = self._check(X)
        return np.concatenate([Points(X[i:i + _ROWS], self.space).responsibilities(self._records)
                               for i in range(0, len(X), _ROWS)])

    def sample(self, n_samples=1):
        """Draw from the fitted mixture.

        Returns
        -------
        X : ndarray, shape (n_samples, n_features)
        labels : ndarray, shape (n_samples,), ascending
        """
        self._check_fitted()
        random = np.random.default_rng(self.random_state)
        counts = random.multinomial(check_count(n_samples, "n_samples", 1), self.weights_ / self.weights_.sum())
        labels = np.repeat(np.arange(len(counts)), counts)
        X = np.concatenate([random.multivariate_normal(m, c, size, method="cholesky")
                            for m, c, size in zip(self.means_, self.covariances_, counts)])
        return X, labels

    def _start(self, X):
        """Checked points, the model (prior or not, and weights), first means and covariances."""
        k = check_count(self.n_components, "n_components", 1)
        check_count(self.max_iter, "max_iter", 1)
        check_number(self.tol, "tol")
        if self.init_params not in STARTS:
            raise InputError(f"init_params is {self.init_params!r}; wanted one of {', '.join(map(repr, STARTS))}")
        prior = check_prior(self.prior)
        X = check_points(X)
        n, p = X.shape
        variances = X.var(axis=0)
        still = np.flatnonzero(np.ptp(X, axis=0) == 0.0)
        if still.size:
            raise InputError(f"column {still[0]} of X is constant; leave such columns out ({still.tolist()})")
        if prior is None and n < max(k, p):
            raise ShapeError(f"X has shape {X.shape}: with {k} components at least {max(k, p)} points are wanted, "
                             "or a prior")
        weights = np.full(k, 1.0 / k)
        if self.weights_init is not None:
            weights = check_weights(self.weights_init, k, "weights_init")
        if prior is None:
            model = WithoutPrior(check_number(self.reg_covar, "reg_covar", least=0.0), weights)
        else:
            model = WithPrior(prior.for_data(X.mean(axis=0), variances), weights)
        if self.means_init is None:
            means = self._seeds(X, np.sqrt(variances))
        else:
            means = check_points(self.means_init, "means_init", p)
            if len(means) != k:
                raise ShapeError(f"means_init has shape {means.shape}; {k} rows are wanted")
        if self.covariances_init is None:
            covariances = np.tile(np.diag(variances), (k, 1, 1))
        else:
            covariances = check_covariances(self.covariances_init, (k, p, p), "covariances_init")
        return X, model, means, covariances

    def _seeds(self, X, scales):
        """First means: points, chosen at random or far from those chosen before."""
        random, k = np.random.default_rng(self.random_state), self.n_components
        few = min(len(X), max(_SEED_POINTS, 20 * k))
        X = X[random.choice(len(X), few, replace=False)]
        if self.init_params == "random":
            return X[random.choice(few, k, replace=few < k)]
        chosen = [random.integers(few)]
        nearest = np.full(few, np.inf)
        while len(chosen) < k:
            nearest = np.minimum(nearest, (((X - X[chosen[-1]]) / scales) ** 2).sum(axis=1))
            total = nearest.sum()  # 0 where fewer distinct points than components
            chosen.append(random.choice(few, p=nearest / total if total > 0.0 else None))
        return X[chosen]

    def _check_fitted(self):
        if not hasattr(self, "_records"):
            raise InputError("this DirichletMixture is not fitted yet; call fit first")

    def _check(self, X):
        self._check_fitted()
        return check_points(X, n_features=self.n_features_in_)

    def _points(self, X):
        return Points(self._check(X), self.space)
