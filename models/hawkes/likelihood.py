"""The log-likelihood (4) and the probabilities (5), by all pairs or by windows in time."""

from __future__ import annotations

import math

import numpy as np

import portable as pk

from ..checks import check_choice, check_flag
from . import kernels
from .checks import check_events, check_horizon, check_params
from .parameters import check_positive
from .windows import choose

METHODS = ("auto", "all_pairs", "windowed")
PRECISIONS = ("float64", "mixed")

# Below this many events every sum is shorter than the work of starting it, so windows save nothing.
_FEW_EVENTS = 1024

# One warp, whose members add up without a barrier: pair_tiles does so once for each earlier event.
_TEAM_SIZE = 32

# Events of a block of pair_tiles: a multiple of 256, and at most 128 blocks, since each costs 16 bytes an event.
_BLOCK, _MOST_BLOCKS = 256, 128


class Likelihood:
    """The log-likelihood of one data set, prepared for many evaluations.

    The events are checked and copied to the space once. The sum of (1) is kept as long as tau_x and tau_t stay the
    same, so that further evaluations cost only the excitation.

    Parameters
    ----------
    locations : array-like, shape (n_events, n_dims), n_dims = 1, 2 or 3, kilometres
    times : array-like, shape (n_events,), hours, ascending
    method : {"auto", "all_pairs", "windowed"}, default "auto"
        "all_pairs" visits every pair. "windowed" leaves out pairs too far apart in time to matter. "auto" is windowed
        from 1,024 events on.
    background_self : bool, default True
        Whether an event is part of its own background, as in the paper. Give False where tau_x or tau_t is estimated.
    tolerance : float, default 1e-9
        Largest relative error of the log-likelihood that leaving out pairs may cause ("windowed").
    precision : {"float64", "mixed"}, default "float64"
        "mixed" evaluates pairs in float32, from time differences that lose no digit, and adds up in float64; relative
        errors of the log-likelihood are below 1e-6.
    horizon_h : float, hours, optional
        End of observation on the axis of `times`; the last event if not given. Observation begins with the first.
    keep_background : bool, default True
        False recomputes the background at every evaluation.
    space : str or Space, optional
        Where to compute; the default space if not given.

    Attributes
    ----------
    n_events, n_dims : int
    method : str
        "all_pairs" or "windowed", also where "auto" was asked for.
    windows : Windows or None
        What the last evaluation left out.
    error_bound : float or None
        Upper bound of the relative error that leaving out pairs caused in the last log-likelihood (rounding apart);
        0 for "all_pairs".

    Raises
    ------
    ShapeError
        `locations` or `times` is empty, has a wrong shape, or they disagree on n_events.
    DTypeError
        An argument is of a wrong type.
    FiniteError
        A time or a location is NaN or infinite; the message names the first.
    OrderError
        `times` does not ascend; the message names the first offending index.
    InputError
        A value outside its range.
    """

    def __init__(self, locations, times, *, method="auto", background_self=True, tolerance=1e-9, precision="float64",
                 horizon_h=None, keep_background=True, space=None):
        locations, times = check_events(locations, times)
        horizon = check_horizon(horizon_h, times)
        check_choice(method, "method", METHODS)
        check_choice(precision, "precision", PRECISIONS)
        self._self_term = 1.0 if check_flag(background_self, "background_self") else 0.0
        self._keep_background = check_flag(keep_background, "keep_background")
        self._tolerance = check_positive(tolerance, "tolerance")
        self.n_events, self.n_dims = locations.shape
        self.method = method if method != "auto" else "windowed" if self.n_events >= _FEW_EVENTS else "all_pairs"
        self.windows = self.error_bound = None

        with pk.use(pk.default_space() if space is None else space) as self._space:
            ties = np.searchsorted(times, times, side="left")
            self._dtype = np.float64 if precision == "float64" else np.float32
            self._horizon = float(horizon - times[0])
            times = times - times[0]
            self._span_h = float(times[-1])
            # Only differences count: about their mean, float32 resolves a city to millimetres on any map.
            self._x = pk.copy_of((locations - locations.mean(axis=0)).T.astype(self._dtype))
            self._t = pk.copy_of(times)
            self._t_parts = pk.copy_of(_split(times, self._dtype))
            self._before = pk.copy_of(ties)
            self._background = pk.empty((self.n_events,), np.float64)
            self._excitation = pk.empty((self.n_events,), np.float64)
        self._events = pk.RangePolicy(0, self.n_events, space=self._space)
        self._groups = pk.TeamPolicy(-(-self.n_events // kernels.GROUP), _TEAM_SIZE, space=self._space)
        self._sizes = pk.static(self.n_dims), pk.static(self._t_parts.shape[0])
        self._all_pairs = None  # what pair_tiles needs, made when it first does
        self._kept = None  # (tau_x, tau_t, reach) of the sums now in self._background
        self._kept_share = None  # (tau_t, total) of observed_share

    def log_likelihood(self, params):
        """Log-likelihood (4) of the events.

        Parameters
        ----------
        params : Parameters

        Returns
        -------
        float
            `error_bound` then holds for it. Minus infinity where some rate is below the smallest positive number of the
            precision, which only `background_self=False` allows.
        """
        check_params(params)
        tolerance = self._tolerance if self.method == "windowed" else 0.0
        while True:
            windows = choose(params, self.n_dims, self.n_events, self._span_h, tolerance)
            self._sum_pairs(params, windows)
            value, inverse_rates = self._sum_events(params)
            error = windows.error(inverse_rates)
            bound = error and (error / abs(value) if value else math.inf)
            if bound <= self._tolerance:
                self.windows, self.error_bound = windows, bound
                return value
            # The guess in `choose` was too bold for these events. The bound is nearly proportional to the tolerance, so
            # aim at half of what is allowed; without any finite bound, leave nothing out.
            tolerance *= 0.5 * self._tolerance / bound if math.isfinite(bound) else 0.0

    def excitation_probabilities(self, params):
        """Probability (5) that each event was triggered by an earlier one.

        Parameters
        ----------
        params : Parameters

        Returns
        -------
        ndarray, shape (n_events,), in [0, 1]
            Exactly 0 for an event that has no earlier one.
        """
        self.log_likelihood(params)
        background = params.background_scale(self.n_dims) * self._background.to_numpy()
        excitation = params.excitation_scale(self.n_dims) * self._excitation.to_numpy()
        return np.divide(excitation, background + excitation, out=np.zeros(self.n_events), where=excitation > 0.0)

    def _sum_pairs(self, params, windows):
        """Fill the sums of exponentials of (1) and (2), the former only where the kept ones will not do."""
        data = *self._sizes, self._x, self._t_parts
        widths = -0.5 / params.tau_x**2, -0.5 / params.tau_t**2
        excitation = -0.5 / params.h**2, params.omega
        wanted, kept = (params.tau_x, params.tau_t, windows.background_h), self._kept
        stale = not self._keep_background or kept is None or kept[:2] != wanted[:2] or kept[2] < wanted[2]
        if stale:
            self._kept = None  # until the launches below have succeeded
        if stale and not windows.missing:
            self._sum_all_pairs(data, widths, excitation)
        else:
            if stale:
                pk.parallel_for(self._groups, kernels.background_sums, *data, windows.background_h, self._self_term,
                                *widths, self._background, label="hawkes.background_sums")
            pk.parallel_for(self._groups, kernels.excitation_sums, *data, windows.excitation_h, *excitation, self._excitation,
                            label="hawkes.excitation_sums")
        if stale:
            self._kept = wanted

    def _sum_all_pairs(self, data, widths, excitation):
        """Both sums of exponentials, block by block."""
        if self._all_pairs is None:
            block = _BLOCK * -(-self.n_events // (_BLOCK * _MOST_BLOCKS))
            n_blocks = -(-self.n_events // block)
            later, earlier = np.tril_indices(n_blocks)
            order = np.argsort(later == earlier, kind="stable")  # half the work is in those: last, to end evenly
            with pk.use(self._space):
                tiles = pk.copy_of(np.stack([later[order], earlier[order]]))
                rows = [pk.empty((n_blocks, self.n_events), np.float64) for _ in range(2)]
            self._all_pairs = pk.TeamPolicy(len(order), _TEAM_SIZE, space=self._space), tiles, block, rows
        policy, tiles, block, rows = self._all_pairs
        pk.parallel_for(policy, kernels.pair_tiles, *data, self._before, tiles, block, *widths, *excitation, *rows,
                        label="hawkes.pair_tiles")
        pk.parallel_for(self._events, kernels.add_tiles, block, self._self_term, *rows, self._background,
                        self._excitation, label="hawkes.add_tiles")

    def _sum_events(self, params):
        """The log-likelihood and the sum of 1 / rate, from the sums over pairs."""
        if self._kept_share is None or self._kept_share[0] != params.tau_t:
            share = pk.parallel_reduce(self._events, kernels.observed_share, math.sqrt(0.5) / params.tau_t,
                                       self._horizon, self._t, label="hawkes.observed_share")
            self._kept_share = params.tau_t, share
        terms, inverse_rates = pk.parallel_reduce(
            self._events, kernels.event_terms, params.background_scale(self.n_dims),
            params.excitation_scale(self.n_dims), params.theta, params.omega, self._horizon, self._t, self._background,
            self._excitation, reducer=(pk.Sum, pk.Sum), label="hawkes.event_terms")
        return float(terms - params.mu0 * self._kept_share[1]), float(inverse_rates)


def log_likelihood(locations, times, params, *, method="auto", background_self=True, tolerance=1e-9,
                   precision="float64", horizon_h=None, space=None):
    """Log-likelihood of a spatiotemporal Hawkes process.

    For several evaluations on the same events, make one `Likelihood`; it also tells the bound on the error.

    Parameters
    ----------
    locations : array-like, shape (n_events, n_dims), n_dims = 1, 2 or 3, kilometres
    times : array-like, shape (n_events,), hours, ascending
    params : Parameters
    method, background_self, tolerance, precision, horizon_h, space
        As in `Likelihood`.

    Returns
    -------
    float

    Raises
    ------
    ShapeError, DTypeError, FiniteError, OrderError, InputError
        As in `Likelihood`.

    References
    ----------
    Holbrook et al. (2021); equation (4) of `models.hawkes`.
    """
    check_params(params)
    return Likelihood(locations, times, method=method, background_self=background_self, tolerance=tolerance,
                      precision=precision, horizon_h=horizon_h, space=space).log_likelihood(params)


def excitation_probabilities(locations, times, params, *, method="auto", background_self=True, tolerance=1e-9,
                             precision="float64", space=None):
    """Probability that each event was triggered by an earlier one.

    Parameters
    ----------
    locations : array-like, shape (n_events, n_dims), n_dims = 1, 2 or 3, kilometres
    times : array-like, shape (n_events,), hours, ascending
    params : Parameters
    method, background_self, tolerance, precision, space
        As in `Likelihood`.

    Returns
    -------
    ndarray, shape (n_events,), in [0, 1]

    Raises
    ------
    ShapeError, DTypeError, FiniteError, OrderError, InputError
        As in `Likelihood`.

    References
    ----------
    Holbrook et al. (2021), equation (2); equation (5) of `models.hawkes`.
    """
    check_params(params)
    return Likelihood(locations, times, method=method, background_self=background_self, tolerance=tolerance,
                      precision=precision, space=space).excitation_probabilities(params)


def _split(times, dtype):
    """Times as a sum of parts, shape (n_parts, n_events): in float64 one, in float32 leading and remaining digits."""
    leading = times.astype(dtype)
    if dtype is np.float64:
        return leading[None, :]
    return np.stack([leading, (times - leading).astype(dtype)])
