"""Events in time only, with one exponential decay and a constant background: the likelihood in O(N).

    lambda(t_n) = mu + theta omega A_n,        A_n = sum_{t_k < t_n} exp(-omega (t_n - t_k))
    log L       = sum_n log lambda(t_n) - mu T - theta sum_n (1 - exp(-omega (T - t_n)))

A_n follows from A_(n-1) by a product and a sum, and so do its moments B_n = sum (t_n - t_k) exp(-omega (t_n -
t_k)), from which the derivative in omega is computed. This recurrence is linear, so it is computed in
parallel: events are divided into blocks, each block is summed from an initial state of 0, a scan over blocks
adds the contributions of earlier blocks, and each block is traversed again from its true initial state.
Events at equal times do not excite each other.
"""

from __future__ import annotations

import functools
import math

import numpy as np

import portable as pk

from ..shared import (
    ArrayLike,
    Floats,
    Frozen,
    Names,
    SpaceLike,
    check_choice,
    check_count,
    check_positive,
    launch,
    reduce,
)
from .checks import check_enough, check_horizon, check_times
from .fit import (
    MAX_ITER,
    climb,
    Differentiable,
    limits,
    standard_score,
    highest_theta,
    profile,
)
from .forecast import Forecast
from .mutual import Mutual
from .mutual_likelihood import MutualLikelihood
from .residuals import Residuals, residuals_of
from .significance import FACTOR, N_OMEGA, SLOWEST, best_shares, stands_out

_BLOCK, _MOST_BLOCKS = 256, 16_384  # least number of events per block; largest number of blocks
_NAMES = "mu", "theta", "omega"
_TESTED = 20_000  # the test uses at most this number of events, the first ones


class TemporalFit(Frozen):
    """Maximum likelihood estimates for events in time only.

    Attributes
    ----------
    mu : float, events an hour
    theta : float
        Expected number of direct offspring of an event.
    omega : float, an hour
    log_likelihood : float
    standard_errors : dict
        Infinite if the events carry no information.
    converged : bool
    notes : tuple of str
        A note if there is no evidence of triggering.
    p_value : float or None
        Of the test of no triggering: the share of data sets (simulated at a constant rate, and the observed
        one) that are at least as clustered as the observed events. A rate that varies in time also makes it
        small.
    profile : tuple or None
        Values of theta, and how far the log-likelihood, maximised over the tested delays, is below its
        maximum at each.
    """

    mu: float
    theta: float
    omega: float
    log_likelihood: float
    standard_errors: dict[str, float]
    converged: bool
    notes: Names = ()
    p_value: float | None = None
    profile: tuple[Floats, Floats] | None = None

    @property
    def params(self) -> Mutual:
        """The parameters as `Mutual` of one type that excites itself."""
        return Mutual([self.mu], [[self.theta]], self.omega)

    @property
    def aic(self) -> float:
        """Akaike's information criterion."""
        return 6.0 - 2.0 * self.log_likelihood

    def interval(self, name: str, level: float = 0.95) -> tuple[float, float]:
        """Return confidence limits of a parameter, from the standard error of its logarithm; the interval
        of theta includes 0 unless the test rejects "no triggering" at 1 - level.

        Parameters
        ----------
        name : {"mu", "theta", "omega"}
        level : float, between 0 and 1

        Returns
        -------
        low, high : float
            (0, inf) for a parameter about which the events carry no information.

        Raises
        ------
        DTypeError, InputError
            `level` is out of range; there is no such parameter.
        """
        z = standard_score(level)
        check_choice(name, "name", self.standard_errors)
        if name == "theta" and self.profile is not None and self.p_value > 1.0 - level:
            return 0.0, highest_theta(self.profile, 0.5 * z * z)
        value = getattr(self, name)
        return limits(value, z * self.standard_errors[name] / value)


@pk.function
def step_on(dt, omega, a, b):
    """Return the decayed sums A and B at a time dt later."""
    decay = pk.fast_exp(-omega * dt)
    return decay * a, decay * (b + dt * a)


@pk.kernel
def sum_blocks(k, block, omega, t, sums):
    """Compute A and B at the last event of block k, from the block's events only, including the last. An
    exponential and 8 bytes per event."""
    begin = k * block
    end = min(begin + block, t.shape[0])
    a = 0.0
    b = 0.0
    for i in range(begin, end):
        if i > begin:
            a, b = step_on(t[i] - t[i - 1], omega, a, b)
        a += 1.0
    sums[0, k] = a
    sums[1, k] = b


@pk.kernel
def walk_blocks(k, block, slopes, omega, mu, rise, horizon, t, before, share):
    """Return block k's contributions to the sums of log lambda, of 1 / lambda, A / lambda, (A - omega B) /
    lambda, and of the offspring until the horizon and their derivative in omega.

    before, shape (2, n_blocks), holds A and B of all earlier blocks at the block's first event. Tied events
    are added to A only after the last of them.
    """
    begin = k * block
    end = min(begin + block, t.shape[0])
    a = before[0, k]
    b = before[1, k]
    waiting = share[k]  # events of earlier blocks that are tied with this block's first event
    a -= waiting
    logs = 0.0
    inverse = 0.0
    excited = 0.0
    faded = 0.0
    offspring = 0.0
    late = 0.0
    for i in range(begin, end):
        if i > begin:
            dt = t[i] - t[i - 1]
            if dt > 0.0:
                a, b = step_on(dt, omega, a + waiting, b)
                waiting = 0.0
            waiting += 1.0
        else:
            waiting += 1.0
        rate = mu + rise * a
        logs += pk.fast_log(rate)
        left = horizon - t[i]
        end_share = pk.fast_exp(-omega * left)
        offspring += 1.0 - end_share
        if slopes:
            one = 1.0 / rate
            inverse += one
            excited += a * one
            faded += (a - omega * b) * one
            late += left * end_share
    return logs, inverse, excited, faded, offspring, late


@pk.kernel
def ratios_in_time(w, r, t, omega, scale, q):
    """Compute scale * A_n at each event of data set r, for one omega. An exponential and 12 bytes per
    event."""
    a = 0.0
    waiting = 0.0
    for i in range(t.shape[0]):
        if i > 0:
            dt = t[i, r] - t[i - 1, r]
            if dt > 0.0:
                a = (a + waiting) * pk.fast_exp(-omega[w] * dt)
                waiting = 0.0
        waiting += 1.0
        q[w, i, r] = pk.float32(scale[w, r] * a)


class TemporalLikelihood:
    """The log-likelihood of events in time only, prepared for many evaluations of O(N).

    Parameters
    ----------
    times : array-like, shape (n_events,), hours, ascending
    horizon_h : float, optional
        End of observation; the last event if not given. Observation begins at the first event.
    space : str or Space, optional

    Raises
    ------
    ShapeError, DTypeError, FiniteError, OrderError, InputError
    """

    def __init__(
        self,
        times: ArrayLike,
        *,
        horizon_h: float | None = None,
        space: SpaceLike = None,
    ) -> None:
        times = check_times(times)
        self.origin_h, self.n_events = float(times[0]), len(times)
        self.horizon_h = check_horizon(horizon_h, times) - self.origin_h
        times = times - times[0]
        self._block = max(_BLOCK, -(-self.n_events // _MOST_BLOCKS))
        first = np.arange(0, self.n_events, self._block)
        last = np.minimum(first + self._block, self.n_events) - 1
        share = first - np.searchsorted(times, times[first])
        with pk.use(space) as self.space:
            self._t, self._share = pk.copy_of(times), pk.copy_of(share.astype(float))
            self._sums, self._before = (pk.zeros((2, len(first))) for _ in range(2))
        self._gaps = np.append(times[first[1:]] - times[last[:-1]], 0.0)
        self._policy = pk.RangePolicy(0, len(first), space=self.space)
        self._lengths = times[last] - times[first]

    def log_likelihood(self, mu: float, theta: float, omega: float) -> float:
        """Return the log-likelihood at the given parameters.

        Parameters
        ----------
        mu : float, events an hour
        theta : float
            Expected number of direct offspring of an event.
        omega : float, an hour

        Returns
        -------
        float

        Raises
        ------
        DTypeError, FiniteError, InputError
            A parameter is no positive finite number.
        """
        return self._evaluate(mu, theta, omega, False)[0]

    def gradient(self, mu: float, theta: float, omega: float) -> tuple[float, Floats]:
        """Return the log-likelihood at the given parameters and its derivatives.

        Parameters
        ----------
        mu : float, events an hour
        theta : float
            Expected number of direct offspring of an event.
        omega : float, an hour

        Returns
        -------
        value : float
        slopes : ndarray, shape (3,)
            In mu, theta and omega.

        Raises
        ------
        DTypeError, FiniteError, InputError
            A parameter is no positive finite number.
        """
        return self._evaluate(mu, theta, omega, True)

    @staticmethod
    def _checked(*params):
        return [check_positive(value, name) for value, name in zip(params, _NAMES)]

    def _evaluate(self, mu, theta, omega, with_slopes):
        mu, theta, omega = self._checked(mu, theta, omega)
        launch(self._policy, sum_blocks, self._block, omega, self._t, self._sums)
        pk.deep_copy(self._before, _scan(self._sums.to_numpy(), self._lengths, self._gaps, omega))
        logs, inverse, excited, faded, offspring, late = reduce(
            self._policy,
            walk_blocks,
            self._block,
            pk.static(with_slopes),
            omega,
            mu,
            theta * omega,
            self.horizon_h,
            self._t,
            self._before,
            self._share,
            reducer=(pk.Sum,) * 6,
        )
        value = float(logs - mu * self.horizon_h - theta * offspring)
        if not with_slopes:
            return value, None
        slopes = inverse - self.horizon_h, omega * excited - offspring, theta * (faded - late)
        return value, np.array(slopes)

    def fit(
        self,
        mu: float | None = None,
        theta: float = 0.3,
        omega: float | None = None,
        *,
        n_simulations: int = 199,
    ) -> TemporalFit:
        """Maximise the likelihood by Newton's method in the logarithms of the parameters, and test for
        triggering.

        Parameters
        ----------
        mu, theta, omega : float, optional
            Initial values.
        n_simulations : int
            Data sets simulated at a constant rate without triggering, for the test; 0 omits the test.

        Returns
        -------
        TemporalFit

        Raises
        ------
        DTypeError, FiniteError, InputError
            An initial value is no positive finite number; all times are equal.
        """
        check_enough(self.n_events, self.horizon_h)
        rate = self.n_events / self.horizon_h
        start = 0.7 * rate if mu is None else mu, theta, rate if omega is None else omega
        top = climb(_Objective(self, self._checked(*start)), MAX_ITER, 1e-10)
        found = dict(zip(_NAMES, np.exp(top.z).tolist()))
        # the error of omega is unknown if omega is at its bound
        errors = np.where(np.isnan(top.errors), math.inf, top.errors)
        p_value, profile, said = None, None, ()
        if check_count(n_simulations, "n_simulations", 0):
            p_value, profile = self._test(n_simulations)
            if p_value > 0.05:
                said = (
                    f"no evidence of triggering: in {p_value:.0%} of {n_simulations} draws of a constant"
                    " rate without any, events follow each other as closely as here",
                )
        value, errors = self.log_likelihood(**found), dict(zip(found, errors.tolist()))
        return TemporalFit(*found.values(), value, errors, top.converged, said, p_value, profile)

    @functools.cached_property
    def mutual(self) -> MutualLikelihood:
        """`MutualLikelihood` of these events as one type, which supports several decays and another
        beginning of observation."""
        times, horizon = self.origin_h + self._t.to_numpy(), self.origin_h + self.horizon_h
        types = np.zeros(self.n_events, np.int64)
        return MutualLikelihood(times, types, horizon_h=horizon, space=self.space)

    def residuals(self, params: TemporalFit | Mutual) -> Residuals:
        """Return the residuals of the events by time rescaling, given parameters.

        Parameters
        ----------
        params : TemporalFit, or Mutual of one type

        Returns
        -------
        Residuals

        Raises
        ------
        DTypeError, ShapeError, InputError
            Parameters of another kind; fewer than 3 events.
        """
        return residuals_of(self.mutual.expected(params))

    def intensity(self, params: TemporalFit | Mutual, times: ArrayLike) -> Floats:
        """Return the rate at the given times.

        Parameters
        ----------
        params : TemporalFit, or Mutual of one type
        times : array-like, shape (n_times,), hours

        Returns
        -------
        ndarray, shape (n_times,), events an hour

        Raises
        ------
        DTypeError, FiniteError, ShapeError
            Parameters of another kind; times that are no finite numbers.
        """
        return self.mutual.intensity(params, times)[0]

    def forecast(
        self, params: TemporalFit | Mutual, hours: float, *, n_draws: int = 500, seed: int = 0
    ) -> Forecast:
        """Simulate events after the end of observation.

        Parameters
        ----------
        params : TemporalFit, or Mutual of one type
        hours : float
            Length of the forecast, from the end of observation on.
        n_draws, seed : int

        Returns
        -------
        Forecast
            Its locations have no columns.

        Raises
        ------
        DTypeError, FiniteError, ShapeError, InputError
            An argument of a wrong type or out of range.
        """
        return self.mutual.forecast(params, hours, n_draws=n_draws, seed=seed)

    def _test(self, n_simulations):
        """Return the p-value of no triggering, and the profile of theta, from the first _TESTED events."""
        times = self._t.to_numpy()[:_TESTED]
        n, span = len(times), float(self.horizon_h if self.n_events <= _TESTED else times[-1])
        if not times[-1] > 0.0:
            return 1.0, None
        # if the last event ends the record, it also ends the simulated records
        last = n - 1 if span == times[-1] else n
        draws = np.repeat(times[:, None], 1 + n_simulations, axis=1)
        random = np.random.default_rng(62)
        draws[1:last, 1:] = np.sort(random.uniform(0.0, span, (last - 1, n_simulations)), axis=0)
        omega = SLOWEST / span * FACTOR ** np.arange(N_OMEGA)
        offspring = np.array([-np.expm1(-one * (span - draws)).sum(axis=0) for one in omega])
        scale = omega[:, None] * span / np.maximum(offspring, 1e-300)
        with pk.use(self.space):
            q = pk.empty((N_OMEGA, n, 1 + n_simulations), np.float32)
            launch(scale.shape, ratios_in_time, *map(pk.copy_of, (draws, omega, scale)), q)
            largest = stands_out(best_shares(q)[1])
            excited = q.to_numpy()[:, :, 0] * (omega / scale[:, 0])[:, None]
        parts = ((np.ones(n), row, span, count) for row, count in zip(excited, offspring[:, 0]))
        return float((largest >= largest[0]).mean()), profile(parts)


class _Objective(Differentiable):
    """The log-likelihood as a function of the logarithms of the parameters, for `climb`."""

    def __init__(self, likelihood, start):
        self.likelihood, self.start = likelihood, start
        # a mean delay longer than the record cannot be distinguished from a constant rate, and theta is then
        # unbounded
        self.low = np.array([-30.0, -30.0, -math.log(likelihood.horizon_h)])

    def place(self, params):
        return np.log(params)

    def at(self, places):
        several = np.exp(places)
        found, slopes = zip(*(self.likelihood.gradient(*params) for params in several.tolist()))
        return found, slopes * several


def _scan(sums, lengths, gaps, omega):
    """Return A and B of all earlier blocks at the first event of each block, by the recurrence (a, b) ->
    decay (a, b + dt a) plus the block's sums."""
    before = np.empty_like(sums)
    a = b = 0.0
    for k, (own_a, own_b, length, gap) in enumerate(zip(*sums.tolist(), lengths.tolist(), gaps.tolist())):
        before[0, k], before[1, k] = a, b
        decay = math.exp(-omega * length)
        a, b = decay * a + own_a, decay * (b + length * a) + own_b
        decay = math.exp(-omega * gap)
        a, b = decay * a, decay * (b + gap * a)
    return before
