"""TMixture: mixtures of t distributions, and of uniform noise, by EM.

A component of nu_j degrees of freedom has the density of N(mu_j, Sigma_j / u), u ~ Ga(nu_j / 2, rate
nu_j / 2). EM takes both the component and u of each point as missing. Sigma_j is divided by the sum of
r_ij u_ij, with which EM takes fewer steps (Kent, Tyler and Vardi 1994), and nu_j solves

    log(nu / 2) - psi(nu / 2) + 1 + sum_i r_ij (log u_ij - u_ij) / n_j + psi((nu' + p) / 2)
        - log((nu' + p) / 2) = 0,   nu' the previous value                                               (9)

References
----------
D. Peel, G. J. McLachlan: Robust mixture modelling using the t distribution. Statistics and Computing 10
(2000), 339. J. D. Banfield, A. E. Raftery: Model-based Gaussian and non-Gaussian clustering. Biometrics 49
(1993), 803: noise.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Literal

import numpy as np

import portable as pk

from ..shared import (
    Array,
    ArrayLike,
    Frozen,
    InputError,
    LargeLike,
    Real,
    ShapeError,
    SpaceLike,
    Whole,
    as_numbers,
    check_choice,
    check_flag,
    launch,
    need,
    opened,
    reduce,
)
from ..shared.sharding import Held
from . import covariance, kernels, tail_kernels
from .blocks import Components
from .covariance import Covariance
from .checks import check_random_state, check_table, feature_names
from .fitted import Fitted
from .rows import on_host
from .starts import Few, Init
from .sweeps import OfPoints, by_tile

LEAST_DOF, MOST_DOF = 0.5, 1000.0  # range of estimated degrees of freedom
_FIRST_DOF = 10.0
_TRIAL = 30  # iterations of a start
_NOISE = 0.05  # share of the noise at the start
_HALVINGS = 60  # bisections of the interval of degrees of freedom


class _State(Frozen):
    """Parameters of a step; `noise` is the logarithm of the noise's weight times its density."""

    weights: Array
    means: Array
    covariances: Array
    dof: Array
    noise: float = kernels.LOG_ZERO


class _Tails(Frozen):
    """Replace normal densities by t densities, for `Points.gather`; `wanted` names the results."""

    p: int
    table: Array
    noise: float
    wanted: str

    def __call__(self, sweeps, block, joint, lse):
        k, space = self.table.shape[1], sweeps.space
        n, over = block.n, by_tile(joint)
        tails, total = pk.copy_of(self.table.astype(sweeps.dtype), space), pk.empty(1, space=space)
        given = k, n, self.noise, tails, joint, lse
        reduce(lse.shape[1], tail_kernels.normalise_tails, *given, out=total, space=space)
        if self.wanted == "densities":
            return ([lse.to_numpy()[0, :n].copy()],)
        if self.wanted == "sums":
            sums = pk.empty((k, 3), space=space)
            policy = pk.TeamPolicy(k, 128, space=space)
            launch(policy, tail_kernels.sum_tails, n, self.p, tails, joint, lse, sums)
        weighted = pk.static(int(self.wanted == "sums"))
        launch(over, tail_kernels.weigh_tails, k, self.p, weighted, tails, joint, space=space)
        if self.wanted == "sums":
            return Held(total), Held(sums)
        shares = pk.empty((n, k), joint.dtype, space)
        launch(over, kernels.responsibilities, joint, lse, shares, space=space)
        return ([shares.to_numpy()],)


class _Asked(OfPoints):
    """Points of a method of a fitted mixture; the noise is the last component."""

    def __init__(self, points, noise):
        self._points, self._noise, self.n = points, noise, points.n

    def by_point(self, what, fitted, as_view):
        """Return one kind of results for each point, used by `OfPoints`; the label -1 is noise."""
        components, densities, shares = fitted
        change = densities if what == "densities" else shares
        found = np.concatenate(self._points.gather(components, change)[1])
        if what != "densities" and self._noise:
            found = np.column_stack([found, np.maximum(1.0 - found.sum(axis=1), 0.0)])
        if what != "most_probable":
            return found
        labels = found.argmax(axis=1)
        return np.where(labels == found.shape[1] - self._noise, -1, labels) if self._noise else labels


@dataclass(eq=False, repr=False)
class TMixture(Fitted):
    """Mixture of t distributions by maximum likelihood: clusters with heavy tails are not cut into pieces.

    Parameters
    ----------
    n_components : int, default 1
    dof : "each", number or array of shape (n_components,), default "each"
        Degrees of freedom: estimated for each component, or given; infinity makes a component normal.
    noise : bool, default False
        Whether points may belong to noise, a uniform distribution over the smallest box that contains all
        points.
    covariance : {"full", "tied", "diag", "spherical"}
    max_iter, tol, reg_covar, n_init, init_params, means_init, random_state
        As in `DirichletMixture`, except that there are ten starts.
    space : str or Space, optional

    Attributes
    ----------
    weights_ : ndarray, shape (n_components,)
        With `noise_weight_` they add up to 1.
    means_, covariances_, precisions_cholesky_
        As in `DirichletMixture`; a component's covariance is `covariances_` times dof / (dof - 2).
    dof_ : ndarray, shape (n_components,)
    noise_weight_ : float
    noise_density_ : float
        Density of the noise; 0 without noise.
    objective_history_ : ndarray
        Mean log-density of the points after 0, 1, ... iterations.
    lower_bound_, n_iter_, converged_, n_features_in_

    Examples
    --------
    >>> import numpy as np
    >>> from portable.models import mixture
    >>> X = np.random.default_rng(0).standard_t(3, size=(2000, 1))
    >>> bool(2 < mixture.TMixture(1, space="serial").fit(X).dof_[0] < 5)
    True
    """

    n_components: Whole = 1
    _: KW_ONLY
    dof: Literal["each"] | ArrayLike = "each"
    noise: bool = False
    covariance: Covariance = "full"
    max_iter: Whole = 1000
    tol: Real = 1e-6
    reg_covar: Real = 1e-6
    n_init: Whole = 10
    init_params: Init = "k-means++"
    means_init: ArrayLike | None = None
    random_state: Whole | np.random.Generator | None = None
    space: SpaceLike = None

    def fit(self, X: LargeLike, y: object = None) -> TMixture:
        """Fit by EM.

        Parameters
        ----------
        X : array-like or View, shape (n_samples, n_features)
        y : ignored

        Returns
        -------
        TMixture
            Itself.

        Raises
        ------
        ShapeError, DTypeError, FiniteError
            X is not a table of finite numbers, or has no more points than components.
        InputError
            An argument is out of range, a component has collapsed, or SciPy is not installed.
        """
        X = opened(X, "X")
        names, random = feature_names(X), self._check_parameters()
        X = check_table(X)
        n, p = X.shape
        if n < self.n_components + 1:
            raise ShapeError(
                f"X has shape {X.shape}: n_samples = {n}; expected more points than {self.n_components} "
                "components"
            )
        rows, variances = self._spread(X)
        few = Few(rows, None, self.n_components, random)
        means = self._first_means(self.n_components, p)
        # the logarithm of the volume of the box that contains all points
        volume = float(np.log(np.ptp(on_host(X), axis=0)).sum()) if self.noise else 0.0
        points = self._blocks_of(X, self.n_components)
        if means is None:
            some = points if few.all else self._blocks_of(few.X, self.n_components)
            first = self._best(few, some, variances, volume, random)
        else:
            first = self._first(means, variances, volume)
        state, history, self.converged_ = self._climb(points, first, self.max_iter, volume)
        self.weights_, self.means_, self.covariances_ = state.weights, state.means, state.covariances
        self.precisions_cholesky_ = covariance.factors_of(self.covariance, state.covariances)
        self.dof_, self.noise_weight_ = state.dof, max(1.0 - float(state.weights.sum()), 0.0) * self.noise
        self.noise_density_ = math.exp(-volume) * self.noise
        self.objective_history_, self.lower_bound_ = np.array(history), history[-1]
        self.n_iter_, self.n_features_in_ = len(history) - 1, p
        self._warn(n)
        return self._named(names)

    def _best(self, few, some, variances, volume, random):
        """Return the state of the best start after some iterations; starts with a collapsed component are
        dropped."""
        found, scales = [], np.sqrt(variances)
        for _ in range(self.n_init):
            means = few.means(self.n_components, scales, self.init_params, random)
            try:
                found.append(self._climb(some, self._first(means, variances, volume), _TRIAL, volume))
            except InputError as error:
                collapsed = error
        if not found:
            raise collapsed
        return max(found, key=lambda one: one[1][-1])[0]

    def _check_parameters(self):
        random, k = self._check_common(), self.n_components
        check_flag(self.noise, "noise")
        if isinstance(self.dof, str):
            check_choice(self.dof, "dof", ("each",))
        else:
            dof = as_numbers(self.dof, "dof")
            if dof.shape not in ((), (k,)) or not (dof > 0.0).all():
                raise InputError(f"dof is {self.dof!r}; expected 'each', or positive numbers, one or {k}")
        need("scipy.special", "stats", "a mixture of t distributions")
        return random

    def _first(self, means, variances, volume):
        k, p = means.shape
        first = covariance.equal_covariances(self.covariance, k, variances * k ** (-2.0 / p))
        dof = np.full(k, _FIRST_DOF) if isinstance(self.dof, str) else np.broadcast_to(self.dof, k) * 1.0
        noise = _log(_NOISE * self.noise) - volume
        return _State(np.full(k, (1.0 - _NOISE * self.noise) / k), means, first, dof, noise)

    def _climb(self, points, state, max_iter, volume):
        """Run EM from a state; return the last state, the mean log-densities, and whether it converged."""
        history = []
        while True:
            _, (total,), sums = points.gather(*self._tails(state, "sums"))
            history.append(total / points.n)
            converged = bool(len(history) > 1 and history[-1] - history[-2] < self.tol)
            if converged or len(history) > max_iter:
                return state, history, converged
            moments = points.moments(state.means)
            state = self._maximum(state, sums, moments, points.n, volume)

    def _tails(self, state, *wanted):
        """Return the normal components, and for each name in `wanted` the change that replaces their
        densities by those of t distributions."""
        from scipy.special import gammaln

        p = state.means.shape[1]
        factors = covariance.factors_of(self.covariance, state.covariances)
        components = Components.of(self.covariance, state.weights, state.means, factors)
        half, dof = 0.5 * (state.dof + p), state.dof
        with np.errstate(invalid="ignore"):
            shift = gammaln(half) - gammaln(0.5 * dof) - 0.5 * p * np.log(0.5 * dof)
        table = np.stack([components.constants(), shift, half, 1.0 / dof])
        table[1:3, np.isinf(dof)] = 0.0
        return components, *(_Tails(p, table, state.noise, one) for one in wanted)

    def _maximum(self, state, sums, moments, n, volume):
        (counts, weights, spreads), (_, means, scatter) = sums.T, moments
        covariances = covariance.mean_of(self.covariance, scatter, weights)
        covariances = covariance.with_diagonal(self.covariance, covariances, self.reg_covar)
        dof, noise = state.dof, state.noise
        if isinstance(self.dof, str):
            dof = _dof(dof, means.shape[1], spreads / np.maximum(counts, covariance.TINY))
        if self.noise:
            noise = max(_log(max(1.0 - counts.sum() / n, 0.0)) - volume, kernels.LOG_ZERO)
        return _State(counts / (n if self.noise else counts.sum()), means, covariances, dof, noise)

    def _fitted(self):
        noise = _log(self.noise_weight_ * self.noise_density_)
        state = _State(self.weights_, self.means_, self.covariances_, self.dof_, noise)
        return self._tails(state, "densities", "shares")

    def _points(self, X, client=None, once=False):
        return _Asked(self._blocks_of(self._check(X)), self.noise)

    def _n_parameters(self):
        return super()._n_parameters() + isinstance(self.dof, str) * self.n_components + bool(self.noise)

    @classmethod
    def _part(cls, held):
        return held if held["class"] == "mixture.student.SavedTMixture" else super()._part(held)

    def sample(self, n_samples: Whole = 1) -> tuple[Array, Array]:
        """Draw from the fitted components; noise is not drawn.

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
        random = check_random_state(self.random_state)
        X, labels = self._drawn(n_samples, random)
        dof, scale = self.dof_[labels], np.ones(len(X))
        heavy = np.isfinite(dof)
        scale[heavy] = dof[heavy] / random.chisquare(dof[heavy])
        return self.means_[labels] + np.sqrt(scale)[:, None] * (X - self.means_[labels]), labels


def _log(share):
    return math.log(share) if share else kernels.LOG_ZERO


def _dof(before, p, sums):
    """Solve (9) for each component by bisection of an interval of log nu; return nu, shape (k,)."""
    from scipy.special import digamma as psi  # `fit` has checked that it is installed

    given = 1.0 + sums + psi(0.5 * (before + p)) - np.log(0.5 * (before + p))
    low, high = (np.full(len(before), math.log(end)) for end in (LEAST_DOF, MOST_DOF))
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        half = 0.5 * np.exp(middle)
        more = np.log(half) - psi(half) + given > 0.0  # the left-hand side of (9) decreases with nu
        low, high = np.where(more, middle, low), np.where(more, high, middle)
    return np.exp(0.5 * (low + high))
