"""Apply a fitted mixture to points: densities, labels, scores, samples and imputation."""

from __future__ import annotations

import numpy as np

from ..shared import (
    Array,
    ArrayOrView,
    ClientLike,
    InputError,
    LargeLike,
    ShapeError,
    Whole,
    check_choice,
    check_count,
    check_number,
    connected,
    local_space,
    opened,
    warn,
)
from ..shared.results import Saved
from . import covariance
from .blocks import Components, Points
from .checks import check_feature_names, check_points, check_random_state, check_table
from .fitting import Start
from .missing import Patterns
from .moves import Move
from .prior import Prior
from .rows import Rows
from .search_kernels import BLOCK
from .spread import spread_of
from .starts import Init
from .sklearn_protocol import ConvergenceWarning, Parameters, as_in_sklearn


_LONE = 1e-6  # relative deviation of a count from 1
_NOT_SAVED, _HIDDEN = ("random_state", "space"), ("_centre", "_online")


class Fitted(Parameters, Saved):
    """A fitted mixture and its methods on points: the part of `DirichletMixture` that does not fit. A saved
    file has all arguments except `random_state` and `space`."""

    weights_: Array
    means_: Array
    covariances_: Array
    precisions_cholesky_: Array
    objective_history_: Array
    moves_: list[Move]
    lower_bound_: float
    n_active_: int
    starts_: tuple[Start, ...]
    prior_: Prior | None
    n_iter_: int
    n_features_in_: int
    converged_: bool
    feature_names_in_: Array

    @property
    def precisions_(self) -> Array:
        """Inverses of `covariances_`, in the same shape.

        Raises
        ------
        AttributeError
            There was no fit.
        """
        if not hasattr(self, "precisions_cholesky_"):
            raise AttributeError("precisions_ is set by fit")
        factors = self.precisions_cholesky_
        return (
            factors**2 if covariance.is_diagonal(self.covariance) else factors @ np.swapaxes(factors, -1, -2)
        )

    def _fields(self):
        self._check_fitted()
        params = {name: v for name, v in self.get_params().items() if name not in _NOT_SAVED}
        fitted = {name: v for name, v in vars(self).items() if name.endswith("_") or name in _HIDDEN}
        return {"parameters": params, "fitted": fitted}

    @classmethod
    def _of(cls, fields):
        model = cls(**fields["parameters"])
        vars(model).update(fields["fitted"])
        k, p = model.means_.shape
        if model.weights_.shape != (k,) or model._centre.shape != (p,) or p != model.n_features_in_:
            raise ValueError(f"weights of shape {model.weights_.shape}, means of shape {model.means_.shape}")
        if hasattr(model, "feature_names_in_"):
            model.feature_names_in_ = np.asarray(model.feature_names_in_, dtype=object)
        return model

    def score_samples(self, X: LargeLike, *, client: ClientLike = None) -> ArrayOrView:
        """Return the log-density of the mixture at each point.

        Parameters
        ----------
        X : array-like or View, shape (n_samples, n_features)
        client : distributed.Client or "local", optional
            As in `fit`.

        Returns
        -------
        ndarray, shape (n_samples,)
            A View on the space if X is a View or an array on a device.

        Raises
        ------
        ShapeError, DTypeError, FiniteError
            X is not a table of finite numbers with `n_features_in_` columns.
        InputError
            Not fitted.
        """
        return self._by_point("densities", X, client)

    def score(self, X: LargeLike, y: object = None, *, client: ClientLike = None) -> float:
        """Return the mean log-density of the mixture at the points.

        Parameters
        ----------
        X : array-like or View, shape (n_samples, n_features)
        y : ignored
        client : distributed.Client or "local", optional
            As in `fit`.

        Returns
        -------
        float

        Raises
        ------
        ShapeError, DTypeError, FiniteError
            X is not a table of finite numbers with `n_features_in_` columns.
        InputError
            Not fitted.
        """
        with connected(client) as client:
            points = self._points(X, client)
            return points.log_likelihood(self._fitted()) / points.n

    def predict(self, X: LargeLike, *, client: ClientLike = None) -> ArrayOrView:
        """Return the most probable component of each point.

        Parameters
        ----------
        X : array-like or View, shape (n_samples, n_features)
        client : distributed.Client or "local", optional
            As in `fit`.

        Returns
        -------
        ndarray of int, shape (n_samples,)
            A View, as `score_samples` returns.

        Raises
        ------
        ShapeError, DTypeError, FiniteError
            X is not a table of finite numbers with `n_features_in_` columns.
        InputError
            Not fitted.
        """
        return self._by_point("most_probable", X, client)

    def predict_proba(self, X: LargeLike, *, client: ClientLike = None) -> ArrayOrView:
        """Return the probability of each component for each point, an array of points times components.

        Parameters
        ----------
        X : array-like or View, shape (n_samples, n_features)
        client : distributed.Client or "local", optional
            As in `fit`.

        Returns
        -------
        ndarray, shape (n_samples, n_components)
            Each row adds up to 1. A View, as `score_samples` returns.

        Raises
        ------
        ShapeError, DTypeError, FiniteError
            X is not a table of finite numbers with `n_features_in_` columns.
        InputError
            Not fitted.
        """
        return self._by_point("responsibilities", X, client)

    def bic(self, X: LargeLike) -> float:
        """Return the Bayesian information criterion: lower is better.

        Parameters
        ----------
        X : array-like or View, shape (n_samples, n_features)

        Returns
        -------
        float

        Raises
        ------
        ShapeError, DTypeError, FiniteError
            X is not a table of finite numbers with `n_features_in_` columns.
        InputError
            Not fitted.
        """
        points = self._points(X)
        return self._n_parameters() * np.log(points.n) - 2.0 * points.log_likelihood(self._fitted())

    def aic(self, X: LargeLike) -> float:
        """Return Akaike's information criterion: lower is better.

        Parameters
        ----------
        X : array-like or View, shape (n_samples, n_features)

        Returns
        -------
        float

        Raises
        ------
        ShapeError, DTypeError, FiniteError
            X is not a table of finite numbers with `n_features_in_` columns.
        InputError
            Not fitted.
        """
        return 2.0 * self._n_parameters() - 2.0 * self._points(X).log_likelihood(self._fitted())

    def sample(self, n_samples: Whole = 1) -> tuple[Array, Array]:
        """Draw from the fitted mixture.

        Parameters
        ----------
        n_samples : int, default 1

        Returns
        -------
        X : ndarray, shape (n_samples, n_features)
        labels : ndarray, shape (n_samples,), ascending

        Raises
        ------
        InputError
            Not fitted, or n_samples is below 1.
        """
        self._check_fitted()
        return self._drawn(n_samples, check_random_state(self.random_state))

    def _drawn(self, n_samples, random):
        n_samples = check_count(n_samples, "n_samples")
        counts = random.multinomial(n_samples, self.weights_ / self.weights_.sum())
        labels = np.repeat(np.arange(len(counts)), counts)
        away = random.standard_normal((len(labels), self.n_features_in_))
        factors = covariance.for_each(self.covariance, self.precisions_cholesky_, *self.means_.shape)
        if factors.ndim == 2:
            away /= factors[labels]
        else:
            for j, end in enumerate(np.cumsum(counts)):
                part = away[end - counts[j] : end]
                part[:] = np.linalg.solve(factors[j].T, part.T).T
        return self.means_[labels] + away, labels

    def impute(self, X: LargeLike) -> Array:
        """Replace missing coordinates of points by their expectations, given the known ones.

        Parameters
        ----------
        X : array-like, shape (n_samples, n_features)
            Missing coordinates are NaN.

        Returns
        -------
        ndarray of float64, of that shape

        Raises
        ------
        ShapeError, DTypeError, FiniteError
            X is not such a table, or all coordinates of a row are missing.
        InputError
            Not fitted.
        """
        return self._blocks_of(self._check(X), kind=Patterns).completed(self._fitted())

    def _fitted(self):
        return Components.of(self.covariance, self.weights_, self.means_, self.precisions_cholesky_)

    def _n_parameters(self):
        k, p = self.means_.shape
        return k * p + k - 1 + covariance.n_parameters(self.covariance, k, p)

    def _named(self, names):
        """Store the names of a fit's columns, if there are any; return the model."""
        self.__dict__.pop("feature_names_in_", None)
        if names is not None:
            self.feature_names_in_ = names
        return self

    def _first_means(self, k, p):
        """Return `means_init`, shape (k, p), or None."""
        if self.means_init is None:
            return None
        means = np.array(check_points(self.means_init, "means_init"), np.float64)
        if means.shape != (k, p):
            raise ShapeError(f"means_init has shape {means.shape}; expected {k} rows, shape {(k, p)}")
        return means

    def _ended(self, climb):
        """Store the results of EM; warn if it has not converged."""
        total, history = climb.points.total, climb.history
        self.weights_, self.means_, self.covariances_, self.precisions_cholesky_ = climb.result()
        self.objective_history_, self.n_iter_ = np.array(history), len(history) - 1
        self.lower_bound_, self._online = history[-1] / total, (climb.moments, total, 0)
        self._warn(total, total)

    def _spread(self, X, weights=None, client=None):
        """Store the mean of the columns; return the rows and the variances of the columns, with a warning of
        those in which reg_covar is no small part."""
        rows = Rows(X, local_space(client, self.space), BLOCK)
        self._centre, variances = spread_of(rows, weights)
        small = np.flatnonzero(variances < 100.0 * self.reg_covar)
        if small.size and getattr(self, "prior", None) is None:
            warn(
                f"reg_covar={self.reg_covar:g} is more than 1 % of the variance of columns {small.tolist()}"
                " of X, and widens their clusters; expected larger units, or a smaller reg_covar",
                UserWarning,
            )
        return rows, variances

    def _warn(self, n, per=1.0):
        """Warn if a fit to n points ended before it had converged, or has components of one point. `per`
        divides an entry of the history to give the objective per point."""
        lone = np.flatnonzero(np.abs(self.weights_ * n - 1.0) < _LONE)
        if lone.size and getattr(self, "prior", None) is None:
            warn(
                f"components {lone.tolist()} have one point each, so their variance is only "
                f"reg_covar={self.reg_covar:g}; expected fewer components, or a prior",
                UserWarning,
            )
        history = self.objective_history_
        if not self.converged_ and self.tol >= 0.0:
            grew = (history[-1] - history[-2]) / per if len(history) > 1 else np.nan
            warn(
                f"EM stopped after max_iter={self.max_iter} iterations: the objective per point still grew by"
                f" {grew:.2g}, more than tol={self.tol:g}. Raise max_iter or tol",
                as_in_sklearn(ConvergenceWarning, "ConvergenceWarning"),
            )

    def _check_common(self):
        """Check the arguments of all mixtures; return the generator of random numbers for starts."""
        for name in ("n_components", "max_iter", "n_init"):
            check_count(getattr(self, name), name)
        check_number(self.tol, "tol")
        check_number(self.reg_covar, "reg_covar", least=0.0)
        check_choice(self.init_params, "init_params", Init)
        check_choice(self.covariance, "covariance", covariance.KINDS)
        return check_random_state(self.random_state)

    def _check_fitted(self):
        if not hasattr(self, "means_"):
            error = as_in_sklearn(InputError, "NotFittedError")
            raise error(f"this {type(self).__name__} is not fitted yet; call fit first")

    def _check(self, X):
        self._check_fitted()
        X = opened(X, "X")
        check_feature_names(X, getattr(self, "feature_names_in_", None))
        return check_table(X, n_features=self.n_features_in_)

    def _points(self, X, client=None, once=False):
        """Return the points of a call, which are used once and therefore read block by block."""
        X = self._check(X)
        if getattr(self, "missing", False):
            return self._blocks_of(X, kind=Patterns)
        return self._blocks_of(X, streamed=True, client=client, once=once)

    def _blocks_of(self, X, k=None, kind=Points, **how):
        """Return Points, or Patterns, for k components, by default for as many as were fitted."""
        diagonal = covariance.is_diagonal(self.covariance)
        return kind(X, k or len(self.means_), self.space, self._centre, diagonal, **how)

    def _by_point(self, what, X, client):
        with connected(client) as client:
            points = self._points(X, client, once=True)
            return points.by_point(what, self._fitted(), points.as_view)
