"""Maximum likelihood and the posterior mode, by Newton's method on the logarithms of the parameters."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Sequence
from dataclasses import replace
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from ..shared import (
    Array,
    DTypeError,
    Frozen,
    InputError,
    Names,
    check_choice,
    check_count,
    check_flag,
    check_kind,
    check_positive,
    check_share,
)
from ..shared.fingerprints import fingerprint
from .checks import check_enough, check_params, spread_of
from .guards import check_estimate, check_places, notes
from .likelihood import Likelihood
from .parameters import Parameters, ParametersBase
from .priors import check_priors, check_start, cut_priors, is_reciprocal, log_prior, slopes_of_prior
from .significance import TriggeringTest


_LEAST_THETA, _MOST_THETA, _N_THETAS = 1e-4, 2.0, 60
LEAST_P = 1e-3  # smallest p-value that a test of a few hundred simulations can support


def profile(parts):
    """Return values of theta from 0 on, and how far the profile log-likelihood is below its maximum at each:
    the largest of several parts. Of each part, `parts` holds the background and the excitation of each event
    with mu0 and theta of 1, and their expected numbers of events."""
    thetas = np.concatenate([[0.0], np.geomspace(_LEAST_THETA, _MOST_THETA, _N_THETAS)])
    best = [_best_mu0(thetas, *part) - thetas * offspring for *part, offspring in parts]
    highest = np.max(best, axis=0)
    return thetas, highest.max() - highest


def highest_theta(profile, fallen):
    """Return the theta above which the profile log-likelihood is more than `fallen` below its maximum."""
    thetas, below = profile
    inside = np.flatnonzero(below <= fallen)
    k = int(inside[-1]) if len(inside) else 0
    if k == len(thetas) - 1:
        return math.inf
    share = min(max((fallen - below[k]) / (below[k + 1] - below[k]), 0.0), 1.0)
    return float(thetas[k] + share * (thetas[k + 1] - thetas[k]))


def profile_of(likelihood, params, free, least, test):
    """Return the `profile` that maximises over mu0, and over the delays and distances that were tested or
    estimated, of the exponential and normal triggering function."""
    h = test.h_km if "h" in free else (getattr(params, "h", test.distance_km),)
    omega = test.omega if "omega" in free else (getattr(params, "omega", 1.0 / test.delay_h),)
    left = likelihood.horizon_h - likelihood.sums.times
    h = [v for v in h if v >= least.get("h", 0.0)] or [least["h"]]
    found = [(params.omega, params.h)] if hasattr(params, "omega") and hasattr(params, "h") else []

    def part(one, other):
        at = Parameters(1.0, params.tau_x, params.tau_t, 1.0, one, other)
        return *likelihood.rates(at), likelihood.observed_share(at)[0], -np.expm1(-one * left).sum()

    return profile(itertools.starmap(part, [*itertools.product(omega, h), *found]))


def _best_mu0(thetas, background, excited, share):
    """Return the maximum over mu0 of sum_n log(mu0 background_n + theta excited_n) - mu0 share, for each
    theta. Newton's method for the reciprocal of the first term's derivative, which is concave, rises to
    it."""
    added, mu0 = thetas[:, None] * excited, np.full((len(thetas), 1), math.exp(-30.0))
    some = background > 0.0
    own, others = background[some], added[:, some]
    for _ in range(40):
        rates = own / (mu0 * own + others)
        slope = rates.sum(axis=1, keepdims=True)
        step = (slope / share - 1.0) * slope / np.einsum("ij,ij->i", rates, rates)[:, None]
        mu0 += np.maximum(step, 0.0)
        if (step < 1e-9 * mu0).all():
            break
    with np.errstate(divide="ignore"):
        logs = np.log(mu0 * background + added).sum(axis=1)
    return logs - mu0[:, 0] * share


def _compared(by):
    return lambda self, other: by(float(self), self._combined_with(other))


class Criterion(float):
    """A number that can be compared only with criteria of fits to the same events with the same
    background."""

    of: str

    def __new__(cls, value: float, of: str = "") -> Criterion:
        made = super().__new__(cls, value)
        made.of = of
        return made

    def _combined_with(self, other):
        if isinstance(other, Criterion) and other.of != self.of:
            raise InputError(
                "AIC compares fits to the same events with the same background; these differ."
                " hawkes.triggering_test compares triggering with none for any background;"
                " hawkes.residuals and hawkes.predictive_check test a background"
            )
        return float(other)

    __lt__, __le__, __gt__, __ge__ = map(_compared, (operator.lt, operator.le, operator.gt, operator.ge))

    def __add__(self, other):
        return Criterion(float(self) + float(other), self.of)

    def __sub__(self, other):
        less = float(self) - self._combined_with(other)
        return less if isinstance(other, Criterion) else Criterion(less, self.of)

    def __rsub__(self, other):
        return self._combined_with(other) - float(self)


def model_of(likelihood, params, free):
    """Return a digest of the events and the background: equal if and only if both are the same."""
    sums, background = likelihood.sums, likelihood.background
    scales = [v if v in free else getattr(params, v) for v in ("tau_x", "tau_t")]
    held = [likelihood.background_self, *scales] if background is None else background.density
    return fingerprint((sums.locations, sums.times, held))


# Step of central differences of exact gradients. The relative error of a second derivative is about the
# square of the step; its noise is the gradient's rounding of 1e-12 divided by the step.
_STEP = 1e-3
# Smaller information about the logarithm of a parameter is treated as none: its standard error exceeds 30, a
# factor of e^30 in both directions.
_LEAST_INFORMATION = 1e-3
# A parameter is not identified if its share in the directions without information exceeds this.
_LEAST_SHARE = 1e-3
_ROUNDING, _SMALL = 1e-12, 1e-9  # relative to the log-likelihood
_AT_BOUND = 0.25  # assumed standard error of the logarithm of a parameter at its bound
START = Parameters(0.5, 1.6, 336.0, 0.3, 1.0, 1.0)
MAX_ITER, TOL = 100, 1e-8  # of a fit: most steps, and the predicted gain of a step below which it ends
_LONGEST = 1.0  # longest step, a factor of e per parameter: the quadratic approximation is poor beyond that


class Fit(Frozen):
    """Maximum of the log-likelihood, or of the log-posterior.

    Attributes
    ----------
    params : Parameters
    log_likelihood : float
        At `params`.
    free : tuple of str
        The estimated parameters.
    standard_errors : dict
        Of each free parameter, in its unit: from the observed information, by the delta method.
    log_covariance : ndarray, shape (n_free, n_free)
        Inverse of the observed information about the logarithms of the free parameters; infinite on the
        diagonal for a parameter that is not identified, 0 for a parameter at its bound.
    converged : bool
    n_iterations : int
    notes : tuple of str
        Weaknesses of the estimate: parameters that are not identified or at their bounds, a branching
        ratio of 1 or more, repeated locations, scales far from those of the data, and no evidence of
        triggering. Empty if there are none.
    test : TriggeringTest or None
        The test of no triggering. Its p-value decides if an interval of theta includes 0.
    profile : tuple or None
        If the test does not reject: values of theta, and how far the profile log-likelihood is below its
        maximum at each, maximised over mu0 and over the tested delays and distances.
    model : str
        A digest of the events and the background: `aic` compares fits with equal digests.
    """

    params: ParametersBase
    log_likelihood: float
    free: Names
    standard_errors: dict[str, float]
    log_covariance: Array
    converged: bool
    n_iterations: int
    notes: Names = ()
    test: TriggeringTest | None = None
    profile: tuple[Array, Array] | None = None
    model: str = ""

    @property
    def aic(self) -> Criterion:
        """Akaike's information criterion, 2 n_free - 2 log L: of two fits to the same events with the same
        background, the smaller is better. Comparisons across backgrounds raise InputError."""
        return Criterion(2.0 * len(self.free) - 2.0 * self.log_likelihood, self.model)

    def interval(self, name: str, level: float = 0.95) -> tuple[float, float]:
        """Return confidence limits of a free parameter, from the standard error of its logarithm.

        The interval of theta includes 0 unless the test rejects "no triggering" at 1 - level; if it does, its
        upper limit is the profile likelihood limit of that level.

        Parameters
        ----------
        name : str
        level : float, between 0 and 1
            Coverage probability of the interval.

        Returns
        -------
        low, high : float, in the parameter's unit
            (0, inf) for a parameter that is not identified, NaN for a parameter at its bound.

        Raises
        ------
        DTypeError, InputError
            `level` is out of range; the parameter was not estimated.
        """
        z = standard_score(level)
        check_choice(name, "name", self.free)
        k = self.free.index(name)
        if name == "theta" and self.test is not None and not self.test.rejects(1.0 - level):
            return 0.0, math.inf if self.profile is None else highest_theta(self.profile, 0.5 * z * z)
        if math.isnan(self.standard_errors[name]):
            return math.nan, math.nan
        return limits(getattr(self.params, name), z * math.sqrt(max(self.log_covariance[k, k], 0.0)))


def standard_score(level):
    """Return the half-width, in standard errors, of a normal confidence interval of that level."""
    return NormalDist().inv_cdf(0.5 + 0.5 * check_share(level, "level"))


def limits(value, error):
    """Return confidence limits of a positive number from the half-width `error` in its logarithm; (0, inf)
    if that is infinite."""
    width = math.exp(error) if error < 700.0 else math.inf
    return value / width, value * width


def fit(
    likelihood: Likelihood,
    *,
    start: ParametersBase | None = None,
    fixed: Sequence[str] = ("tau_x", "tau_t"),
    posterior: bool = False,
    priors: dict | None = None,
    least: dict | None = None,
    max_iter: int = MAX_ITER,
    tol: float = TOL,
    n_simulations: int = 199,
) -> Fit:
    """Estimate the parameters of a likelihood by maximum likelihood or posterior mode, and test for
    triggering.

    Parameters
    ----------
    likelihood : Likelihood
        Of the events. If its `background_self` is True, the likelihood grows without bound as tau_x or tau_t
        decrease, so that these two must be fixed.
    start : Parameters, optional
        Initial values, and values of the fixed parameters; (0.5, 1.6, 336, 0.3, 1, 1) if not given, with the
        paper's scales of the background.
    fixed : sequence of str
        Parameters that keep their values in `start`.
    posterior : bool, default False
        If True, estimate the posterior mode, of the density of the coordinates in which `priors` are defined
        (`portable.models.hawkes.priors`).
    priors : dict, optional
        Priors by coordinate, such as {"1/h": half_normal(10)}; other coordinates have the paper's priors.
    least : dict, optional
        Lower bounds of free parameters, by name; for h, for example, the rounding of locations.
    max_iter : int
    tol : float
        The fit ends when the predicted gain of a Newton step in the log-likelihood is smaller.
    n_simulations : int, default 199
        Simulated data sets without triggering for the test (`triggering_test`); 0 omits the test.

    Returns
    -------
    Fit

    Raises
    ------
    DTypeError, InputError
        An argument of a wrong type or out of range; a start at which the likelihood or a prior is zero;
        repeated locations, which would be mistaken for triggering.

    Examples
    --------
    >>> from portable.models import hawkes
    >>> params = hawkes.Parameters(mu0=1.0, tau_x=1.6, tau_t=336.0, theta=0.3, omega=1.0, h=0.1)
    >>> events = hawkes.simulate(params, n_immigrants=50, horizon_h=1000.0, seed=1)
    >>> found = hawkes.fit(hawkes.Likelihood(events.locations, events.times, space="serial"))
    >>> found.converged, [round(limit, 2) for limit in found.interval("theta", level=0.95)]
    (True, [0.23, 0.51])
    """
    check_likelihood(likelihood)
    start = check_params(START if start is None else start)
    free = check_free(fixed, start, likelihood)
    check_flag(posterior, "posterior")
    max_iter, tol = check_count(max_iter, "max_iter"), check_positive(tol, "tol")
    priors = check_priors(priors, type(start)) if posterior or priors is not None else None
    if priors and not posterior:
        raise InputError("priors are given but posterior is False; pass posterior=True to use them")
    least = check_least(least, free)
    params, top = _highest(likelihood, start, free, priors, least, max_iter, tol, n_simulations)
    held, flat = top.held, top.flat
    test = likelihood.triggering_test(n_simulations) if n_simulations and "theta" in free else None
    said = [f"{name} is held at its bound, {getattr(params, name):g}" for name in np.array(free)[held]]
    said += [
        f"{name} is not identified: the events say nothing about it here" for name in np.array(free)[flat]
    ]
    if not top.converged:
        said.append(f"not converged after {top.n_iterations} iterations")
    said += notes(likelihood, params, np.array(free)[~held], n_simulations=n_simulations)
    return Fit(
        params,
        likelihood.log_likelihood(params),
        free,
        dict(zip(free, top.errors.tolist())),
        top.covariance,
        top.converged,
        top.n_iterations,
        # the most important note first
        tuple(sorted(said, key=lambda note: not note.startswith("no evidence"))),
        test,
        profile_of(likelihood, params, free, least, test)
        if test is not None and not test.rejects(LEAST_P) and likelihood.horizon_h > 0.0
        else None,
        model_of(likelihood, params, free),
    )


def _highest(likelihood, start, free, priors, least, max_iter, tol, n_simulations=0):
    """Return the parameters of the maximum, and the _Top of the search for it; raise InputError if
    repeated locations make the estimate meaningless."""
    if priors is not None:
        check_start(start, priors, free)
    check_places(likelihood, start, free)
    objective = Objective(likelihood, start, free, priors, least=least)
    top = climb(objective, max_iter, tol)
    params = objective.params(top.z)
    check_estimate(likelihood, params, set(free) - set(least), n_simulations)
    return params, top


class _Top(NamedTuple):
    """End of a climb: the coordinates, a mask of the parameters at a bound, standard errors, the
    covariance of the logarithms, a mask of the parameters without information, and convergence."""

    z: Array
    held: Array
    errors: Array
    covariance: Array
    flat: Array
    converged: bool
    n_iterations: int


def climb(objective, max_iter, tol):
    """Maximise the objective by Newton's method from its start; return a _Top."""
    z = np.maximum(objective.place(objective.start), objective.low)
    value, slopes, information = objective.with_information(z)
    if not math.isfinite(value):
        raise InputError(no_rate(objective.likelihood, objective.start, value))
    converged = False
    for n_iterations in range(1, max_iter + 1):
        held = (z <= objective.low) & (slopes < 0.0)  # at a bound, with the gradient towards it
        step = np.zeros(len(z))
        if not held.all():
            information = objective.information(z) if information is None else information
            step[~held] = _ascent(information[~held][:, ~held], slopes[~held])
        if slopes @ step < 2.0 * tol:
            converged = True
            break
        moved, promised = _search(objective, z, value, step, slopes), slopes @ step
        gained = moved[1] - value if moved else 0.0
        z, value, slopes, information = moved or (z, value, slopes, information)
        if gained <= _ROUNDING * abs(value):  # no further gain is distinguishable from rounding
            converged = bool(promised < _SMALL * abs(value))
            break
    held = (z <= objective.low) & (slopes < 0.0)
    information = objective.information(z) if information is None else information
    covariance, flat = covariance_of(information, held)
    errors = np.where(held, np.nan, np.sqrt(np.diag(covariance)) * np.exp(z))
    return _Top(z, held, errors, covariance, flat, converged, n_iterations)


def no_rate(likelihood, start, value):
    """Return an error message for a start at which the rate of some event is 0 in float64."""
    words = f"start: the log-likelihood is {value} at {start}; begin where every event has a positive rate"
    if likelihood.background is None and not likelihood.background_self:
        far = likelihood.sums
        words += (
            ". Some event is so far from all others that its rate is 0 to all digits: begin with larger"
            f" scales, such as tau_x = {max(spread_of(far.locations), 1e-3):.3g} km and tau_t ="
            f" {max(0.1 * far.span_h, 1e-3):.3g} h (--tau-x, --tau-t)"
        )
    return words


def check_least(least, free):
    """Return checked lower bounds of free parameters by name."""
    if least is None:
        return {}
    check_kind(least, "least", dict, "be a dict of parameter names and bounds")
    for name in least:
        if name not in free:
            raise InputError(
                f"least has '{name}', which is not estimated; expected some of {', '.join(free)}"
            )
    return {name: check_positive(value, f"least['{name}']") for name, value in least.items()}


def check_target(likelihood, start, fixed, priors, least):
    """Return the definition of a sampler's target: free parameters, priors, lower bounds, and the priors
    truncated there."""
    free = check_free(fixed, start, likelihood)
    priors, least = check_priors(priors, type(start)), check_least(least, free)
    return free, priors, least, cut_priors(priors, type(start), least)


def raise_to(least, params):
    """Return `params` with each parameter below its lower bound moved just above it."""
    above = {name: max(getattr(params, name), bound * (1.0 + 1e-9)) for name, bound in least.items()}
    return replace(params, **above)


def posterior_mode(likelihood, start, free, priors, least):
    """Return the start of the samplers: the posterior mode within bounds, and the covariance of the
    logarithms of the free parameters there. A parameter at its bound gets a standard error of 0.25,
    because the curvature there is unknown."""
    params, top = _highest(likelihood, start, free, priors, least, MAX_ITER, TOL)
    held = np.where(np.isnan(top.errors), _AT_BOUND**2, 0.0)
    return raise_to(least, params), top.covariance + np.diag(held)


def covariance_of(information, held):
    """Return the inverse of the information, infinite for parameters without information, and a mask of
    these."""
    n = len(information)
    covariance, flat, free = np.zeros((n, n)), np.zeros(n, bool), ~held
    if free.any():
        values, axes = np.linalg.eigh(information[free][:, free])
        none = values < _LEAST_INFORMATION
        flat[free] = (axes[:, none] ** 2).sum(axis=1) > _LEAST_SHARE
        inverse = axes[:, ~none] / values[~none] @ axes[:, ~none].T
        covariance[np.ix_(free, free)] = inverse
    covariance[flat] = covariance[:, flat] = 0.0
    covariance[flat, flat] = np.inf
    return covariance, flat


class Exact:
    """A function of several coordinates. Method `with_information` returns its value, its gradient, and the
    information: minus the second derivatives, or their expectation."""

    def __call__(self, z):
        return self.with_information(z)[:2]

    def information(self, z):
        return self.with_information(z)[2]


class Differentiable:
    """A function of several coordinates. Method `at` returns its values and gradients at several points,
    shapes (n_places,) and (n_places, n); the information, minus the second derivatives, is computed from
    differences of gradients."""

    def __call__(self, z):
        values, slopes = self.at(z[None])
        return values[0], slopes[0]

    def with_information(self, z):
        """Return value, gradient and information at z, from one call of `at`."""
        values, slopes = self.at(np.vstack([z, z + _sides(len(z))]))
        return values[0], slopes[0], _differences(slopes[1:])

    def information(self, z):
        return _differences(self.at(z + _sides(len(z)))[1])


def _sides(n):
    """Return a step in both directions along each of n coordinates, shape (2 n, n)."""
    steps = _STEP * np.eye(n)
    return np.stack([-steps, steps], axis=1).reshape(-1, n)


def _differences(slopes):
    """Return the information from the gradients at the points of `_sides`."""
    matrix = (slopes[::2] - slopes[1::2]) / (2.0 * _STEP)
    return 0.5 * (matrix + matrix.T)


class Objective(Differentiable):
    """Log-likelihood or log-posterior as a function of the logarithms of the free parameters, with its
    gradient."""

    def __init__(self, likelihood, start, free, priors, with_jacobian=False, least=None):
        self.likelihood, self.start, self.free, self.priors = likelihood, start, free, priors
        self.jacobian, self.least = with_jacobian, least or {}
        # log Jacobian of the coordinates: d v / d log v = v, and d (1 / v) / d log v = -1 / v
        self.signs = np.array([-1.0 if is_reciprocal(type(start), name) else 1.0 for name in free])
        self._at = [start.names().index(name) for name in free]
        own = {name: low * (1.0 + 1e-9) for name, low in start.triggering.least.items()}
        # a mean delay longer than the record cannot be distinguished from background
        if likelihood.horizon_h > 0.0:
            own.setdefault("omega", 1.0 / likelihood.horizon_h)
        self.low = np.log([max(own.get(name, 0.0), self.least.get(name, 0.0), 1e-15) for name in free])

    def place(self, params):
        """Return the logarithms of the free parameters."""
        return np.log([getattr(params, name) for name in self.free])

    def _values(self, places):
        """Return the values of all parameters at each point; free parameters outside their bounds are set
        to the bounds."""
        values = np.tile(self.start.values(), (len(places), 1))
        values[:, self._at] = np.exp(np.minimum(np.maximum(places, self.low), math.log(1e15)))
        return values

    def params(self, z):
        """Return the parameters at logarithms z; parameters outside their bounds are set to the bounds."""
        return type(self.start)(*self._values(z[None])[0].tolist())

    def at(self, places):
        values = self._values(places)
        several = [type(self.start)(*row) for row in values.tolist()]
        found, slopes = map(np.array, zip(*self.likelihood.log_gradients(several)))
        slopes = slopes[:, self._at]
        if self.priors is not None:
            found += [log_prior(params, self.priors, self.free) for params in several]
            slopes += slopes_of_prior(values[:, self._at], type(self.start), self.priors, self.free)
        if self.jacobian:
            found += [self.signs @ self.place(params) for params in several]
            slopes += self.signs
        return found, slopes


def _ascent(information, slopes):
    """Return Newton's step, with the sign of negative curvatures reversed, and shortened to at most
    _LONGEST per parameter."""
    curvatures, axes = np.linalg.eigh(information)
    curvatures = np.maximum(np.abs(curvatures), 1e-8 * np.abs(curvatures).max() + 1e-300)
    step = axes @ ((axes.T @ slopes) / curvatures)
    return _LONGEST / max(_LONGEST, np.abs(step).max()) * step


def _search(objective, z, value, step, slopes):
    """Halve the step until the objective increases sufficiently; return None if it does not. The first
    step usually succeeds, so its information is computed in the same call; for further steps it is None."""
    for halvings in range(40):
        moved = np.maximum(z + step, objective.low)
        there = objective(moved) + (None,) if halvings else objective.with_information(moved)
        if there[0] > value + 1e-4 * (slopes @ (moved - z)):
            return moved, *there
        step = 0.5 * step
    return None


def check_likelihood(likelihood):
    return check_kind(likelihood, "likelihood", Likelihood, "be hawkes.Likelihood")


def check_free(fixed, start, likelihood):
    """Return the names of the parameters that are not fixed, in order."""
    check_enough(likelihood.n_events, likelihood.horizon_h)
    if isinstance(fixed, str) or not all(isinstance(name, str) for name in fixed):
        raise DTypeError(f"fixed must be a sequence of parameter names, got {fixed!r}")
    names = start.names()
    unknown = [name for name in fixed if name not in names]
    if unknown:
        raise InputError(
            f"fixed has {unknown[0]!r}, which is no parameter; expected some of {', '.join(names)}"
        )
    free = tuple(name for name in names if name not in fixed)
    if not free:
        raise InputError("fixed holds every parameter; at least one must be free")
    scales = [name for name in ("tau_x", "tau_t") if name in free]
    if scales and likelihood.background:
        raise InputError(
            f"{scales[0]} is free, but the background is given and does not depend on it; put it into fixed"
        )
    if scales and likelihood.background_self:
        raise InputError(
            f"{scales[0]} is free with background_self=True: the likelihood then grows without bound as it "
            "shrinks. Make the Likelihood with background_self=False, or put it into fixed."
        )
    return free
