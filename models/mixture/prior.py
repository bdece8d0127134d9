"""The prior, and the M-step from the sums (3) with a prior and without one."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..shared import Array, ArrayLike, Frozen, check_number
from . import covariance
from .checks import check_array, check_covariances

_MEAN_SCALE = 100.0  # g of the Bayesian EM of Suchard et al. (2010)
_NEAREST = 1e-10  # least distance of sticks from 0 and 1


class Prior(Frozen):
    """The prior of `portable.models.mixture`.

    Parameters
    ----------
    mean : array-like, shape (n_features,), optional
        m; the mean of the data if not given.
    mean_scale : float, optional
        g: ratio of the covariance of the means to that of a component's points; if not given, the larger of
        100 and the largest ratio of a coordinate's variance to that within components.
    dof : float, optional
        nu > n_features - 1; n_features + 2 if not given.
    scale : array-like, shape (n_features, n_features), optional
        Psi, with the default `dof` the expected covariance of a component; if not given, estimated from the
        components' widths: the harmonic mean of their covariances, weighted by their counts, after some
        iterations from the first start under a prior of Fraley and Raftery's width (or of
        `covariances_init`). The data's variances would inflate small components: they are appropriate only if
        every component is as wide as all data together.
    shape, rate : float, default 10 and 1
        e and f, shape and rate of the gamma prior of alpha.
    """

    mean: ArrayLike | None = None
    mean_scale: float | None = None
    dof: float | None = None
    scale: ArrayLike | None = None
    shape: float = 10.0
    rate: float = 1.0

    def for_data(self, center: Array, variances: Array, widths: Array | None = None) -> Prior:
        """Return this prior with every number checked and every missing one set; the scale, if missing,
        remains so unless `widths` is given.

        Parameters
        ----------
        center, variances : ndarrays, shape (n_features,)
            The data's mean and variances.
        widths : ndarray, shape (n_features, n_features), optional
            The scale if the prior has none.

        Returns
        -------
        Prior

        Raises
        ------
        ShapeError, DTypeError, FiniteError, InputError
            A parameter of the prior does not match the data's dimension, or is out of its range.
        """
        p = len(center)
        checked = Prior(
            mean=center if self.mean is None else check_array(self.mean, "prior.mean", (p,)),
            mean_scale=None
            if self.mean_scale is None
            else check_number(self.mean_scale, "prior.mean_scale", 0.0),
            dof=p + 2.0 if self.dof is None else check_number(self.dof, "prior.dof", p - 1.0),
            scale=None if self.scale is None else check_covariances(self.scale, (p, p), "prior.scale"),
            shape=check_number(self.shape, "prior.shape", 0.0),
            rate=check_number(self.rate, "prior.rate", 0.0),
        )
        widths = checked.scale if widths is None else widths
        return checked if widths is None else checked.as_wide_as(widths, variances)

    def as_wide_as(self, widths: Array, variances: Array) -> Prior:
        """Return this prior with scale and mean_scale for components of these widths, unless they were given.

        Parameters
        ----------
        widths : ndarray, shape (n_features, n_features)
            The covariance that a component is expected to have.
        variances : ndarray, shape (n_features,)
            The data's variances.

        Returns
        -------
        Prior
        """
        if self.scale is None:
            widths = covariance.solid(widths, variances)
        scales = np.sqrt(np.diagonal(widths))  # their powers beyond squares may overflow
        ratio = np.diagonal(np.linalg.inv(widths / np.outer(scales, scales))) * variances / scales**2
        return replace(
            self,
            scale=widths if self.scale is None else self.scale,
            mean_scale=max(_MEAN_SCALE, float(ratio.max())) if self.mean_scale is None else self.mean_scale,
        )


class WithPrior:
    """The M-step of Bayesian EM, with the sticks V_j as its state: equations (4) to (8).

    Parameters
    ----------
    prior : Prior, from `for_data`
    kind : one of `covariance.KINDS`
    weights : ndarray, shape (k,)
    """

    has_prior = True

    def __init__(self, prior, kind, weights):
        self.prior, self._kind = prior, kind
        self._scale = np.diagonal(prior.scale) if covariance.is_diagonal(kind) else prior.scale
        left = np.cumsum(weights[::-1])[::-1]
        with np.errstate(invalid="ignore"):  # no weight is left: any stick will do
            self.restore(_hold(np.nan_to_num(weights / left, nan=0.5)[:-1]))

    def log_weights(self):
        """Return log pi_j, shape (k,)."""
        found = np.zeros(len(self._sticks) + 1)
        np.log(self._sticks, out=found[:-1])
        found[1:] += self._log_left.cumsum()
        return found

    def state(self):
        """Return the sticks, an array, the state that EM changes; for `restore`."""
        return self._sticks

    def restore(self, state):
        self._sticks, self._log_left = state, np.log1p(-state)
        self._left = self._log_left.sum()

    def alpha(self):
        """Return alpha* of (4)."""
        return (self.prior.shape + len(self._sticks)) / (self.prior.rate - self._left)

    def weigh(self, n):
        """Set the sticks to (7) from the counts n."""
        others = self.alpha() - 1.0 + n[:0:-1].cumsum()[::-1]
        # If alpha < 1, `others` may be negative: the objective then increases up to the bound of the stick.
        sticks = np.divide(n[:-1], n[:-1] + others, out=np.ones(len(n) - 1), where=others > 0.0)
        self.restore(_hold(sticks))

    def maximum(self, n, xbar, scatter):
        """Return means (5) and covariances (6) from the sums (3)."""
        dof = self.prior.dof + xbar.shape[1] + 1.0
        means, bracket, _ = brackets(self._kind, self.prior, n, xbar, scatter)
        return means, covariance.mean_of(self._kind, bracket, n + 1.0, self._scale, dof)

    def numbers(self, p):
        """Return the arguments of `step_kernels`: m, scale, pull, dof, reg_covar."""
        return self.prior.mean, self.prior.scale, 1.0 / self.prior.mean_scale, self.prior.dof + p + 2.0, 0.0

    def penalty(self, means, factors):
        """Return twice the term of (8) that is subtracted for means and covariances; `factors` as in
        `covariance`."""
        prior, kind, (k, p) = self.prior, self._kind, means.shape
        log_dets = covariance.log_dets(kind, factors, p)
        each = (prior.dof + p + 1.0) * log_dets + covariance.traces(kind, factors, prior.scale)
        away = covariance.squares(kind, factors, means - prior.mean).sum()
        return each.sum() + np.broadcast_to(log_dets, k).sum() + away / prior.mean_scale

    def objective(self, log_likelihood, penalty):
        """Return the objective (8)."""
        left, power = self._left, len(self._sticks) + 1 + self.prior.shape - 1.0
        return log_likelihood - left - power * np.log(self.prior.rate - left) - 0.5 * penalty


@dataclass
class WithoutPrior:
    """The M-step of maximum-likelihood EM, with `reg_covar` added to the diagonals of the covariances."""

    reg_covar: float
    kind: str
    weights: Array
    has_prior = False

    def log_weights(self):
        with np.errstate(divide="ignore"):
            return np.log(self.weights)

    def state(self):
        return self.weights

    def restore(self, state):
        self.weights = state

    def weigh(self, n):
        self.weights = n / n.sum()

    def maximum(self, n, xbar, scatter):
        covariances = covariance.mean_of(self.kind, scatter, n)
        return xbar, covariance.with_diagonal(self.kind, covariances, self.reg_covar)

    def numbers(self, p):
        return np.zeros(p), np.zeros((p, p)), 0.0, 0.0, self.reg_covar

    def penalty(self, means, factors):
        return 0.0

    def objective(self, log_likelihood, penalty):
        return log_likelihood


def brackets(kind, prior, n, xbar, scatter):
    """Return means (5), the bracket of (6) less the prior's scale, and 1 + g n_j, for each component."""
    pull = 1.0 + prior.mean_scale * n
    means = (prior.mean + prior.mean_scale * n[:, None] * xbar) / pull[:, None]
    spread = covariance.squared(kind, np.sqrt(n / pull)[:, None] * (xbar - prior.mean))
    return means, scatter + spread, pull


def steps_of(prior, reg_covar, kind, weights):
    """Return the M-step under a prior, or the one without."""
    if prior is None:
        return WithoutPrior(reg_covar, kind, weights)
    return WithPrior(prior, kind, weights)


def joined(kind, one, other):
    """Return the moments of each component's points from those of two parts of these points."""
    (n, xbar, scatter), (m, ybar, more) = one, other
    both = np.maximum(n + m, covariance.TINY)
    away = np.sqrt(n * m / both)[:, None] * (ybar - xbar)
    mean = (n[:, None] * xbar + m[:, None] * ybar) / both[:, None]
    mean = np.where((n + m > 0.0)[:, None], mean, xbar)
    return n + m, mean, scatter + more + covariance.squared(kind, away)


def pooled(kind, n, xbar, scatter):
    """Return the moments of several components' points together."""
    mean = n @ xbar / n.sum()
    away = covariance.squared(kind, np.sqrt(n)[:, None] * (xbar - mean))
    return n.sum(), mean, (scatter + away).sum(axis=0)


def exceeds(counts, bound):
    """Return a mask of counts above a bound by more than rounding: counts are often whole numbers of
    points."""
    return counts > bound * (1.0 + 1e-9)


def ascending(values, total):
    """Return the ascending order of shares of a total; shares that differ only by rounding keep their
    order."""
    return np.argsort(np.round(values / total, 9), kind="stable")


def _hold(sticks):
    return np.minimum(np.maximum(sticks, _NEAREST), 1.0 - _NEAREST)
