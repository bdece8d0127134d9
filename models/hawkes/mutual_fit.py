"""Maximum likelihood of mutually exciting types, confidence intervals of the influences between types, and
residuals."""

from __future__ import annotations

import copy
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from ..shared import (
    ArrayLike,
    Floats,
    Frozen,
    InputError,
    Names,
    check_choice,
    check_count,
    check_each,
    check_flag,
    check_kind,
    check_positive,
    need,
    refuse,
)
from .backgrounds import Maker, MOVED
from .checks import places, spread_of
from .covariates import growth_of, unit_of
from .fit import covariance_of, standard_score
from .guards import collapsed
from .mutual import Mutual, check_rates
from .mutual_likelihood import MutualLikelihood, designs, OUTSIDE

_LEAST_MU = 1e-8  # lower bound of mu as a share of the mean rate of a type, so that no event has a rate of 0
_STEP = 1e-4  # step in the logarithms of scales for numerical second derivatives
_MOST_NUMBERS = 2**28  # largest size of the observed information
_MOST_TURNS = 50
_Background: TypeAlias = Literal["constant", "declustered"]


class _Spread(NamedTuple):
    """Standard errors; and the derivative and curvature of the log-likelihood in the influences, for
    influences estimated as 0."""

    mu: Floats
    influence: Floats
    rates: Floats
    coefficients: Floats
    h_km: float
    slopes: Floats
    curvatures: Floats

    def reach(self, z):
        """Return the influence at which the log-likelihood is z^2 / 2 below its value at an influence of
        0."""
        g, h = self.slopes, self.curvatures
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(h > 0.0, (g + np.sqrt(g * g + h * z * z)) / h, np.inf).max(axis=0)


class MutualFit(Frozen, eq=False):
    """Maximum likelihood estimates of mutually exciting types.

    Attributes
    ----------
    params : Mutual
    log_likelihood : float
    n_free : int
        The number of estimated parameters.
    names : tuple
        Of the types.
    converged : bool
    notes : tuple of str
    likelihood : MutualLikelihood
        With the fitted background.
    """

    params: Mutual
    log_likelihood: float
    n_free: int
    names: tuple[Any, ...]
    converged: bool
    notes: Names
    _spread: _Spread | None
    likelihood: MutualLikelihood

    @property
    def aic(self) -> float:
        """Akaike's information criterion; estimates of 0 count as parameters."""
        return 2.0 * self.n_free - 2.0 * self.log_likelihood

    def interval(self, name: str, level: float = 0.95) -> tuple[Floats, Floats]:
        """Return confidence limits of a parameter, from the observed information.

        The limits are normal limits about the estimate, those of `mu` and `influence` truncated at 0. For an
        influence estimated as 0, the upper limit is the value at which a quadratic approximation of the
        log-likelihood has decreased by z^2 / 2. The limits of `rates` and `h_km` are normal limits of the
        logarithm.

        Parameters
        ----------
        name : {"mu", "influence", "rates", "coefficients", "h_km"}
        level : float, between 0 and 1

        Returns
        -------
        low, high : ndarray
            In the shape of the parameter; infinite if the events carry no information.

        Raises
        ------
        DTypeError, InputError
            `level` is out of range; there is no such parameter, or no standard errors.
        """
        names = "mu", "influence", "rates", "coefficients", "h_km"
        check_choice(name, "name", names[: 4 + (self.params.h_km is not None)])
        z = standard_score(level)
        if self._spread is None:
            raise InputError("this fit has no standard errors: pass errors=True to fit_mutual")
        value, error = getattr(self.params, name), getattr(self._spread, name)
        if name in ("rates", "h_km"):
            with np.errstate(over="ignore"):
                width = np.exp(z * error / value)
            return value / width, value * width
        low, high = value - z * error, value + z * error
        if name != "coefficients":
            low = np.maximum(low, 0.0)
        if name == "influence":
            high = np.where(value > 0.0, high, self._spread.reach(z))
            low = np.where(value > 0.0, low, 0.0)
        return low, high

    def graph(self, level: float = 0.95) -> list[dict[str, Any]]:
        """Return the influences whose confidence interval excludes 0, the strongest first.

        Parameters
        ----------
        level : float, between 0 and 1
            The level of each interval separately: a share of (1 - level) / 2 of the pairs without influence
            appears.

        Returns
        -------
        list of dict
            source, target, influence, low, high.

        Raises
        ------
        DTypeError, InputError
            `level` is out of range; there are no standard errors.
        """
        low, high = self.interval("influence", level)
        values = np.stack([self.params.influence, low, high], axis=-1)
        columns = "source", "target", "influence", "low", "high"
        rows = [
            dict(zip(columns, (self.names[i], self.names[j], *values[j, i].tolist())))
            for j, i in np.argwhere(low > 0.0).tolist()
        ]
        return sorted(rows, key=lambda row: -row["influence"])


class _Problem:
    """The log-likelihood as a function of scaled coordinates: mu, branching ratios, logarithms of scales,
    coefficients. Scales are the rates, followed by h_km with places; `free` selects the estimated ones."""

    def __init__(self, likelihood, scales, free, shares):
        self.likelihood, self.scales, self.free = likelihood, scales, free
        # branching[k] = shares[k, r] * ratios[r]: separate ratios for each decay, or one ratio distributed by
        # weights
        self.shares = shares
        n, values = likelihood.n_types, likelihood.covariates.values
        self.shape = self.shares.shape[1], n, n
        self.mean = np.maximum(likelihood.counts, 1) / likelihood.hours
        error = self.mean / np.sqrt(np.maximum(likelihood.counts, 1))
        ratios = np.broadcast_to(error[:, None] / self.mean, self.shape)
        self.n, self.n_linear = n, n + ratios.size
        # rates of immigrants are in units of the mean rates
        ones = np.ones(ratios.size + self.free.sum())
        self.units = np.concatenate([self.mean, ones, np.tile(1.0 / unit_of(values), n)])
        self.scale = self.units * likelihood.n_events**-0.5
        self.scale[: self.n_linear] = np.append(error, ratios)

    def params(self, z):
        mu, ratios, rest = self.split(z * self.scale)
        logs, b = np.split(rest, [self.free.sum()])
        scales = self.scales.copy()
        scales[self.free] *= np.exp(logs)
        rates, h = np.split(scales, [len(self.shares)])
        ratios = np.tensordot(self.shares, np.maximum(ratios, 0.0), 1)
        return Mutual(mu, ratios, rates, b.reshape(self.n, -1), *h.tolist())

    def split(self, x):
        """Return mu, the free ratios, and the other coordinates."""
        mu, free, rest = np.split(x, [self.n, self.n_linear])
        return mu, free.reshape(self.shape), rest

    def slopes(self, params):
        """Return the log-likelihood and its derivatives in all coordinates, unscaled."""
        value, slopes = self.likelihood.gradient(params, rates=bool(self.free.any()))
        ratios = np.tensordot(self.shares.T, slopes.branching, 1).ravel()
        logs = ()
        if self.free.any():
            logs = np.append(slopes.rates * params.rates, slopes.h_km * (params.h_km or 0.0))[self.free]
        return value, np.concatenate([slopes.mu, ratios, logs, slopes.coefficients.ravel()])

    def __call__(self, z):
        value, slopes = self.slopes(self.params(z))
        return -value, -slopes * self.scale

    def solve(self, max_iter, first=None):
        """Return the optimum as SciPy's result object, from coordinates `first` if given."""
        optimize, n = need("scipy.optimize", "stats", "fit_mutual"), self.n_linear
        low, high, at = -30.0 * self.units, 30.0 * self.units, 0.0 * self.units
        low[:n], high[:n], at[:n] = 0.0, np.inf, 0.3 / (self.n * self.shape[0])
        low[: self.n] = _LEAST_MU * self.mean * (self.likelihood.counts > 0)
        at[: self.n] = 0.7 * self.mean
        start, *bounds = (v / self.scale for v in (at, low, high))
        how = {"maxiter": max_iter, "maxfun": 2 * max_iter, "maxcor": 20, "ftol": 1e-14, "gtol": 1e-3}
        how = {"jac": True, "method": "L-BFGS-B", "bounds": list(zip(*bounds)), "options": how}
        return optimize.minimize(self, start if first is None else first, **how)


def fit_mutual(
    likelihood: MutualLikelihood,
    rates: ArrayLike | None = None,
    *,
    h_km: float | None = None,
    background: _Background = "declustered",
    weights: ArrayLike | None = None,
    fixed_rates: bool = False,
    errors: bool = True,
    max_iter: int = 2_000,
) -> MutualFit:
    """Estimate the parameters of mutually exciting types by maximum likelihood (L-BFGS-B, with the exact
    gradient).

    Parameters
    ----------
    likelihood : MutualLikelihood
    rates : array-like, shape (n_rates,), or float, an hour; optional
        Initial or fixed rates of the decays; if not given, the mean rate of the events.
    h_km : float, optional
        With locations: initial or fixed standard deviation of offspring about their parent; if not given, a
        twentieth of the spread of the locations.
    background : {"constant", "declustered"}
        With locations: uniform over the region, or kernel densities of the background events of each type,
        estimated alternately with the parameters, as in `fit_background`.
    weights : array-like, shape (n_rates,), optional
        One branching ratio per pair of types, distributed over the decays in these proportions, such as those
        of `omori_rates`; the rates are then fixed. Otherwise each decay has separate ratios.
    fixed_rates : bool
        Keep the rates and h_km at their initial values. The log-likelihood is then concave, and has one
        maximum.
    errors : bool, default True
        Compute standard errors, in n_events (n_rates n_types)^2 operations.
    max_iter : int

    Returns
    -------
    MutualFit

    Raises
    ------
    DTypeError, ShapeError, FiniteError, InputError
        An argument is of a wrong type or out of range; places that repeat, and the estimate of h_km
        reflects only that; SciPy is not installed.

    References
    ----------
    Ogata: The asymptotic behaviour of maximum likelihood estimators for stationary point processes. Annals of
    the Institute of Statistical Mathematics 30 (1978), 243.
    """
    check_kind(likelihood, "likelihood", MutualLikelihood, "be hawkes.MutualLikelihood")
    rates = check_rates(likelihood.n_events / likelihood.hours if rates is None else rates)
    fixed_rates, errors = check_flag(fixed_rates, "fixed_rates"), check_flag(errors, "errors")
    scales, free = _scales_of(likelihood, rates, h_km, weights is None, fixed_rates)
    problem = _Problem(likelihood, scales, free, _check_weights(weights, rates))
    found = _solve(problem, background, check_count(max_iter, "max_iter"))
    params = problem.params(found.x)
    said, spread = _notes(likelihood, params), None
    size = likelihood.n_types * (1 + problem.shape[0] * likelihood.n_types) ** 2
    if errors and size > _MOST_NUMBERS:
        said.append(f"no standard errors: the observed information holds {size:,} numbers")
    elif errors:
        spread = _spread(problem, found.x)
    return MutualFit(
        params,
        -float(found.fun),
        len(found.x),
        likelihood.names,
        bool(found.success),
        tuple(said),
        spread,
        problem.likelihood,
    )


def _solve(problem, background, max_iter):
    """Return the optimum; of a declustered background, alternate between the densities of background events,
    given the parameters, and the parameters."""
    check_choice(background, "background", _Background)
    found, whole, before = problem.solve(max_iter), problem.likelihood, 1.0
    if background == "constant" or not whole.region:
        return found
    makers = list(_makers(whole))
    for _ in range(_MOST_TURNS):
        shares = problem.likelihood.background_probabilities(problem.params(found.x))
        if np.abs(shares - before).max() < MOVED:
            break
        density = whole.density.copy()
        for some, make in makers:
            made = make(np.maximum(shares[some], 1e-9)).density * make.span / some.sum()
            density[some] = np.maximum(made, OUTSIDE / whole.region.area)
        problem.likelihood, before = copy.copy(whole), shares
        problem.likelihood.density = density
        found = problem.solve(max_iter, found.x)
    else:
        found.success = False
    return found


def _makers(likelihood):
    """Yield, for each type with three events, a mask of its events and what makes their background."""
    rest = likelihood.window[1], likelihood.region, "declustered", 1, None, likelihood.space
    for j in np.flatnonzero(np.bincount(likelihood.types) > 2):
        some = likelihood.types == j
        yield some, Maker(likelihood.locations[some], likelihood.times[some], *rest)


def _scales_of(likelihood, rates, h_km, separate, fixed_rates):
    """Return the rates, with places followed by h_km, and which of them are estimated."""
    if likelihood.region:
        h = 0.05 * spread_of(likelihood.locations) if h_km is None else h_km
        scales = np.append(rates, check_positive(h, "h_km"))
    elif h_km is not None:
        raise InputError("h_km is for a likelihood with locations; leave it out")
    else:
        scales = rates
    free = np.full(len(scales), not fixed_rates)
    free[: len(rates)] &= separate
    return scales, free


def _check_weights(weights, rates):
    if weights is None:
        return np.eye(len(rates))
    weights = check_each(weights, "weights", len(rates), "rates")
    refuse(weights < 0.0, weights, "weights", "at least 0")
    if not weights.any():
        raise InputError("weights are all 0; expected one above 0")
    return (weights / weights.sum())[:, None]


def _notes(likelihood, params):
    if likelihood.region and collapsed(where := places(likelihood.locations), params.h_km):
        raise InputError(
            f"locations: {where}. The estimate of h_km, {params.h_km:.3g}, reflects only that; spread them"
            " (hawkes.jitter, --jitter)"
        )
    said = []
    silent = [str(name) for name, n in zip(likelihood.names, likelihood.counts) if n == 0]
    if silent:
        said.append(
            f"no events of {', '.join(silent[:5])}{' ...' * (len(silent) > 5)} within the window: nothing"
            " is known of their influence"
        )
    if params.radius >= 1.0:
        said.append(
            f"the largest eigenvalue of the influence is {params.radius:.3g}: from 1 on clusters never end"
        )
    slow = np.flatnonzero(params.rates * likelihood.hours < 1.0)
    if slow.size:
        said.append(
            f"rates[{slow[0]}]: delays longer than the record are no other than a rate without triggering"
        )
    return said


def _spread(problem, z):
    """Return standard errors from the observed information: analytic for mu and the ratios, separately for
    each target; the terms that involve rates and coefficients by differences of the gradient."""
    params, at = problem.params(z), _by_target(*problem.split(z * problem.scale / problem.units)[:2])
    active = at > 0.0
    active[:, 0] = params.mu > 2.0 * _LEAST_MU * problem.mean
    information, rows = _information(problem, params, at), _slopes_in_units(problem, z)
    parts = [_by_target(*problem.split(row)[:2]) for row in rows]
    # for each target, its cross terms with rates and coefficients
    shared = np.reshape(parts, (len(rows), *at.shape)).swapaxes(0, 1)
    inverses, covariances, of_rates = _inverted(information, active, shared, rows[:, at.size :])
    mu, influence = (np.sqrt(v) for v in _variances(covariances, problem.shape))
    kept = [np.diag(one - one @ inverse @ one)[1:] for one, inverse in zip(information, inverses)]
    curvatures = np.maximum(kept, 0.0).reshape(problem.n, -1, problem.n).swapaxes(0, 1)
    errors = problem.units[at.size :] * np.sqrt(np.diag(of_rates))
    logs, in_b = np.split(errors, [problem.free.sum()])
    in_scales = problem.free * 0.0
    in_scales[problem.free] = logs
    slopes = problem.split(problem.slopes(params)[1])[1]
    in_b = in_b.reshape(params.coefficients.shape)
    in_rates = params.rates * in_scales[: len(params.rates)]
    in_h = params.h_km * in_scales[-1] if params.h_km else 0.0
    return _Spread(mu * problem.mean, influence, in_rates, in_b, in_h, slopes, curvatures)


def _inverted(information, active, shared, of_rates):
    """Return, for each target, the inverse of its block of the information, and its covariance, infinite
    if the events carry no information; and the covariance of the coordinates that all share."""
    found = [covariance_of(one, ~used) for one, used in zip(information, active)]
    inverses = [np.where(np.isfinite(inverse), inverse, 0.0) for inverse, _ in found]
    moved = [inverse @ one.T for inverse, one in zip(inverses, shared)]
    left = of_rates - sum(one @ there for one, there in zip(shared, moved))
    covariance = covariance_of(0.5 * (left + left.T), np.zeros(len(left), bool))[0]
    finite = np.where(np.isfinite(covariance), covariance, 0.0)
    return inverses, [one + there @ finite @ there.T for (one, _), there in zip(found, moved)], covariance


def _variances(covariances, shape):
    """Return the variances of mu, and of each pair's sum of ratios."""
    ratios = [one[1:, 1:].reshape(2 * shape[::2]) for one in covariances]
    return np.array([one[0, 0] for one in covariances]), np.array([np.einsum("kiri->i", v) for v in ratios])


def _by_target(mu, ratios):
    """Return mu and ratios by target, shape (n_types, 1 + ratios of each)."""
    return np.concatenate([mu[:, None], ratios.transpose(1, 0, 2).reshape(len(mu), -1)], axis=1)


def _information(problem, params, at):
    """Return, for each target, its observed information: the sum over its events of outer products of the
    derivatives of log lambda, exact because lambda is linear in mu and the ratios."""
    found, likelihood = np.zeros((*at.shape, at.shape[1])), problem.likelihood
    growth = growth_of(likelihood.covariates, params).ravel()[likelihood.cells]
    for j, events, x in designs(likelihood, params):
        used = events >= likelihood.n_before
        x = np.einsum("nki,kr->nri", x[used], problem.shares)
        x = np.concatenate(
            [problem.mean[j] * growth[events[used], None], x.reshape(len(x), at.shape[1] - 1)], axis=1
        )
        x /= (x @ at[j])[:, None]
        found[j] += x.T @ x
    return found


def _slopes_in_units(problem, z):
    """Return minus the derivatives of all slopes in the coordinates after the ratios, in units of each."""
    rows = []
    for step in np.diag(_STEP * problem.units / problem.scale)[problem.n_linear :]:
        down, up = (problem.slopes(problem.params(z + way))[1] for way in (-step, step))
        rows.append((down - up) * problem.units / (2.0 * _STEP))
    return np.reshape(rows, (-1, len(z)))


class MutualResiduals(Frozen, eq=False):
    """Events of each type on the transformed time scale of the model.

    Attributes
    ----------
    names : tuple
    gaps : tuple of ndarray
        For each type: the number of events expected by the model between one event and the next;
        independent and exponential with mean 1 if the model is correct.
    p_values : ndarray, shape (n_types,)
        Kolmogorov-Smirnov test of that distribution; NaN for a type with fewer than three events. The test
        is conservative if the parameters were fitted to the same events.
    p_value : float
        Of all types together: the smallest p-value times their number.
    """

    names: tuple[Any, ...]
    gaps: tuple[Floats, ...]
    p_values: Floats
    p_value: float


def mutual_residuals(likelihood: MutualLikelihood, params: Mutual) -> MutualResiduals:
    """Return residuals by time rescaling for each type, given a likelihood and parameters.

    Parameters
    ----------
    likelihood : MutualLikelihood
    params : Mutual

    Returns
    -------
    MutualResiduals

    Raises
    ------
    DTypeError, ShapeError, InputError
        An argument is of a wrong type; no type has three events; SciPy is not installed.
    """
    check_kind(likelihood, "likelihood", MutualLikelihood, "be hawkes.MutualLikelihood")
    stats = need("scipy.stats", "stats", "the test of residuals")
    if likelihood.counts.max() < 3:
        raise InputError("likelihood: no type has three events")
    expected = likelihood.expected(params)[likelihood.n_before :]
    types = likelihood.types[likelihood.n_before :]
    gaps = tuple(np.diff(expected[types == j]) for j in range(likelihood.n_types))
    p_values = np.array([stats.kstest(one, "expon").pvalue if len(one) > 1 else np.nan for one in gaps])
    tested = p_values[np.isfinite(p_values)]
    return MutualResiduals(likelihood.names, gaps, p_values, float(min(1.0, len(tested) * tested.min())))
