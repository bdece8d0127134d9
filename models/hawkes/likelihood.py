"""The log-likelihood (4) and the probabilities (5), from sums over all pairs, over windows in time, or by
cells."""

from __future__ import annotations

import contextlib
import functools
import math
import threading
import weakref
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

import portable as pk

from ..shared import (
    ArrayLike,
    Floats,
    InputError,
    Spaces,
    check_choice,
    check_flag,
    check_number,
    connected,
    exclusive,
    launch,
    local_space,
    reduce,
)
from . import kernels
from .checks import check_background, check_events, check_horizon, check_marks, check_params, Places, places
from .excitation import event_terms, row_of_params, slopes_of_several
from .parameters import Background, ParametersBase
from .sharded_sums import Evaluation, shards_of
from .significance import triggering_test, TriggeringTest
from .sums import Method, PairSums
from .windows import choose, EVERYTHING, Windows


# Least number of events per team of event_slopes, and largest number of teams, whose sums the host adds up.
_SLOPE_BLOCK, _MOST_SLOPE_BLOCKS = 256, 512
# Most numbers in the excitations of several parameter sets that are stored at once: 32 MB
_MOST_TOGETHER = 1 << 22


def _close(stack: contextlib.ExitStack) -> None:
    """Close a cluster. Another thread than the main one may be the cluster's own, in which garbage is
    collected too: closing there would wait for itself, so that a new thread does it."""
    if threading.current_thread() is threading.main_thread():
        stack.close()
    else:
        threading.Thread(target=stack.close).start()


class Likelihood:
    """The log-likelihood of one data set, prepared for many evaluations.

    The events are checked and copied to the space once. The sums of (1) are stored and reused while tau_x and
    tau_t do not change, so that further evaluations compute only the excitation.

    Parameters
    ----------
    locations : array-like, shape (n_events, n_dims), n_dims = 1, 2 or 3, kilometres
    times : array-like, shape (n_events,), hours, ascending
    method : {"auto", "all_pairs", "windowed", "cells"}, default "auto"
        "all_pairs" visits every pair. "windowed" omits pairs that are negligible because far apart in time,
        "cells" pairs far apart in time or space; its list of pairs is reused while the parameters change
        little. "auto" takes the method with the least estimated cost.
    background_self : bool, default True
        If True, an event is part of its own background, as in the paper. Use False if tau_x or tau_t is
        estimated.
    error_bound : float, 1e-15 or more, default 1e-9
        Largest relative error of a log-likelihood due to omitted pairs ("windowed", "cells").
    dtype : {"float64", "mixed"}, default "float64"
        "mixed" evaluates pairs in float32, from time differences without loss of digits, and adds up in
        float64; relative errors of the log-likelihood are below 1e-6.
    horizon_h : float, hours, optional
        End of observation on the axis of `times`; the last event if not given. Observation begins at the
        first event.
    keep_background : bool, default True
        False recomputes the background at every evaluation.
    background : Background, optional
        A background with known density at the events in place of (1): mu_n = mu0 * density. tau_x and tau_t
        then have no effect.
    marks : array-like, shape (n_events,), optional
        Marks such as magnitudes, for triggering functions that use them (`compose`).
    reference_mark : float, or array-like of shape (n_events,), optional
        m0, the mark of an event with theta offspring; the smallest mark if not given. Give one value per
        event if the completeness of a catalogue changes: theta then counts recorded offspring. No mark may be
        smaller.
    repeats : {"refuse", "accept"}, default "refuse"
        Treatment of repeated locations, such as centroids, which the background cannot represent. With
        "refuse", neither h nor theta is estimated from such data (`places`).
    space : str, Space or a list of them, optional
        Where to compute; the default space if not given. The events are divided among the spaces of a list,
        such as several GPUs.
    client : distributed.Client or "local", optional
        Divide the sums of the events among the workers of this client; each worker stores all events. With a
        client or a list of spaces, sums are by windows in time (infinite ones for all pairs), not by cells,
        and do not depend on the number of workers or spaces.

    Attributes
    ----------
    n_events, n_dims : int
    method : str or None
        The method of the last evaluation: "all_pairs", "windowed" or "cells".
    windows : Windows or None
        The reach of the sums in the last evaluation.
    attained_error : float or None
        Upper bound of the relative error of the last log-likelihood due to omitted pairs (without rounding);
        0 for "all_pairs".
    shared_by : tuple or None
        The client and the spaces that the events are divided among, if any.
    inverse_rates : float or None
        The sum of 1 / (mu_n + xi_n) in the last evaluation: the factor of an error common to all rates.

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

    Examples
    --------
    >>> from portable.models import hawkes
    >>> params = hawkes.Parameters(mu0=1.0, tau_x=1.6, tau_t=336.0, theta=0.3, omega=1.0, h=0.1)
    >>> events = hawkes.simulate(params, n_immigrants=50, horizon_h=1000.0, seed=1)
    >>> likelihood = hawkes.Likelihood(events.locations, events.times, space="serial")
    >>> round(likelihood.log_likelihood(params), 3)
    -450.205
    """

    n_events: int
    n_dims: int
    background: Background | None
    # None before the first evaluation; Any because a type checker cannot infer that an evaluation has
    # happened.
    method: str | Any
    windows: Windows | Any
    attained_error: float | Any
    inverse_rates: float | Any

    def __init__(
        self,
        locations: ArrayLike,
        times: ArrayLike,
        *,
        method: Method = "auto",
        background_self: bool = True,
        error_bound: float = 1e-9,
        dtype: Literal["float64", "mixed"] = "float64",
        horizon_h: float | None = None,
        keep_background: bool = True,
        background: Background | None = None,
        marks: ArrayLike | None = None,
        reference_mark: ArrayLike | None = None,
        repeats: Literal["refuse", "accept"] = "refuse",
        space: Spaces = None,
        client: object = None,
    ) -> None:
        locations, times = check_events(locations, times)
        marks = check_marks(marks, reference_mark, len(times))
        horizon = check_horizon(horizon_h, times)
        check_choice(method, "method", Method)
        check_choice(dtype, "dtype", ("float64", "mixed"))
        self.background_self = check_flag(background_self, "background_self")
        self.repeats = check_choice(repeats, "repeats", ("refuse", "accept"))
        self.error_bound = check_number(error_bound, "error_bound", least=1e-15)
        self.background = check_background(background, len(times))
        self.n_events, self.n_dims = locations.shape
        self.requested, self.method = method, None
        self.windows = self.attained_error = self.inverse_rates = self._evaluated = None
        data = (
            locations,
            times - times[0],
            np.float64 if dtype == "float64" else np.float32,
            background_self,
            check_flag(keep_background, "keep_background"),
            self.background,
        )
        self._shards = self.shared_by = None
        if client is not None or isinstance(space, (list, tuple)):
            with contextlib.ExitStack() as stack:
                client = stack.enter_context(connected(client))
                self._shards = shards_of(data, marks, method, client, space)
                self.shared_by = client, space
                # Close the cluster created for "local" when this object is deleted.
                weakref.finalize(self, _close, stack.pop_all())
        self.sums = PairSums(*data, local_space(client, space), marks)
        self.space = self.sums.space
        self.horizon_h = float(horizon - times[0])
        # The offsets subtracted from times and locations.
        self.origin_h, self.centre = float(times[0]), self.sums.centre
        self._several = {}  # buffers of `_together`, by the shape of its rows
        self._last_share = None, None  # (tau_t, total of observed_share and of its derivative)
        self._tests = {}  # tests without triggering, by their number of simulations

    @exclusive
    def log_likelihood(self, params: ParametersBase) -> float:
        """Return the log-likelihood (4) of the events at `params`.

        Parameters
        ----------
        params : Parameters

        Returns
        -------
        float
            `attained_error` then refers to this value. Minus infinity if some rate is below the smallest
            positive number of the dtype, which is only possible with `background_self=False`.

        Raises
        ------
        DTypeError, InputError
            Not Parameters, or parameters that do not fit the events: see `check_params`.
        """
        self.check_params(params)
        return self._evaluate(params, 1, 1, self._sum_events)[0]

    @exclusive
    def evaluate(self, params: ParametersBase) -> None:
        """Evaluate the log-likelihood at `params`, unless `windows`, `inverse_rates` and the background
        already belong to it.

        Parameters
        ----------
        params : Parameters

        Raises
        ------
        DTypeError, InputError
            Not Parameters, or parameters that do not fit the events: see `check_params`.
        """
        if params != self._evaluated or self.sums.stale(params, self.windows, 1):
            self.log_likelihood(params)

    def check_params(self, params: ParametersBase) -> ParametersBase:
        """Return `params` if they are Parameters whose triggering function fits the events; raise
        otherwise.

        Parameters
        ----------
        params : Parameters

        Returns
        -------
        Parameters
            The same.

        Raises
        ------
        DTypeError, InputError
            Not Parameters; they use marks, but the events have none; they are for another number of
            dimensions, or for a shorter record.
        """
        check_params(params)
        trigger = params.triggering
        if trigger.marked and self.sums.marks is None:
            raise InputError(
                "params use marks, but the Likelihood has none: pass it marks=, such as magnitudes"
            )
        if trigger.n_dims not in (None, self.n_dims):
            raise InputError(f"params are for {trigger.n_dims} dimensions, the events have {self.n_dims}")
        if self.horizon_h > trigger.most_h:
            raise InputError(
                f"params: offspring come within {trigger.most_h:g} hours, but the record is"
                f" {self.horizon_h:g} hours long; expected within_h of at least that"
            )
        return params

    def triggering_test(self, n_simulations: int = 199) -> TriggeringTest:
        """Test the hypothesis of no triggering, from the events only: the result does not depend on the
        likelihood's background (`triggering_test`).

        Parameters
        ----------
        n_simulations : int
            Simulated data sets without triggering.

        Returns
        -------
        TriggeringTest
            Stored for further calls.

        Raises
        ------
        DTypeError, InputError
            `n_simulations` is no positive whole number.
        """
        if n_simulations not in self._tests:
            self._tests[n_simulations] = triggering_test(
                self.sums.locations, self.sums.times, n_simulations=n_simulations, space=self.space
            )
        return self._tests[n_simulations]

    def keep_test(self, test: TriggeringTest) -> None:
        """Store the result of a test of these events for `triggering_test`.

        Parameters
        ----------
        test : TriggeringTest
        """
        self._tests[len(test.simulated)] = test

    def productivity(self, params: ParametersBase) -> Floats:
        """Return kappa of each event: its expected number of offspring divided by theta.

        Parameters
        ----------
        params : Parameters

        Returns
        -------
        ndarray, shape (n_events,)
            1 without marks.
        """
        if params.triggering.productivity is None:
            return np.ones(self.n_events)
        return params.triggering.productivity(self.sums.marks, params.trigger_values)

    def branching_ratio(self, params: ParametersBase) -> float:
        """Return the expected number of direct offspring of an event: theta times the mean productivity of
        the events' marks.

        From 1 on, the expected size of a cluster is infinite, and the process has no stationary rate.

        Parameters
        ----------
        params : Parameters

        Returns
        -------
        float

        Raises
        ------
        DTypeError, InputError
            Not Parameters, or parameters that do not fit the events: see `check_params`.
        """
        self.check_params(params)
        return params.theta * float(self.productivity(params).mean())

    def gradient(self, params: ParametersBase) -> tuple[float, Floats]:
        """Return the log-likelihood (4) at `params` and its derivatives.

        Parameters
        ----------
        params : Parameters

        Returns
        -------
        value : float
            As returned by `log_likelihood`.
        slopes : ndarray, shape (n_params,)
            The derivative in each parameter, in the order of `params.names()`; 0 for tau_x and tau_t if the
            background is given.

        Raises
        ------
        DTypeError, InputError
            Not Parameters, or parameters that do not fit the events: see `check_params`.
        """
        value, slopes = self.log_gradient(params)
        return value, slopes / np.array(params.values())

    @exclusive
    def log_gradient(self, params: ParametersBase) -> tuple[float, Floats]:
        """Return the log-likelihood and its derivatives in the logarithms of the parameters, in the order
        of `gradient`.

        Parameters
        ----------
        params : Parameters

        Returns
        -------
        value : float
        slopes : ndarray, shape (n_params,)

        Raises
        ------
        DTypeError, InputError
            Not Parameters, or parameters that do not fit the events: see `check_params`.
        """
        n_xi = 1 + len(self.check_params(params).trigger_values)
        value, _, slopes = self._evaluate(params, 3, n_xi, self._sum_slopes)
        return value, slopes

    def excitation_probabilities(
        self,
        params: ParametersBase,
        rows: tuple[pk.View, pk.View] | None = None,
    ) -> Floats:
        """Return the probability (5) that each event was triggered by an earlier event.

        Parameters
        ----------
        params : Parameters
        rows : tuple of Views, optional
            The result of `rows` for `params`.

        Returns
        -------
        ndarray, shape (n_events,), in [0, 1]
            Exactly 0 for an event without earlier events.

        Raises
        ------
        DTypeError, InputError
            Not Parameters, or parameters that do not fit the events: see `check_params`.
        """
        background, excitation = self.rates(params, rows)
        return np.divide(
            excitation, background + excitation, out=np.zeros(self.n_events), where=excitation > 0.0
        )

    @exclusive
    def rates(
        self,
        params: ParametersBase,
        rows: tuple[pk.View, pk.View] | None = None,
    ) -> tuple[Floats, Floats]:
        """Return the background mu_n of (1) and the excitation xi_n of (2) at the events.

        Parameters
        ----------
        params : Parameters
        rows : tuple of Views, optional
            The result of `rows` for `params`.

        Returns
        -------
        background, excitation : ndarray, shape (n_events,), per km^D and hour

        Raises
        ------
        DTypeError, InputError
            Not Parameters, or parameters that do not fit the events: see `check_params`.
        """
        background, excitation = (view[0].to_numpy() for view in rows or self.rows(params))
        return self.background_scale(params) * background, params.excitation_scale(self.n_dims) * excitation

    @exclusive
    def rows(self, params: ParametersBase) -> tuple[pk.View, pk.View]:
        """Return the sums of (1), or the given density, and the sums of (2), as Views on `space`.

        Parameters
        ----------
        params : Parameters

        Returns
        -------
        background, excitation : View, shape (n_rows, n_events)

        Raises
        ------
        DTypeError, InputError
            Not Parameters, or parameters that do not fit the events: see `check_params`.
        """
        self.log_likelihood(params)
        if self._shards is None:
            return self.sums.background, self.sums.excitation
        rows = zip(self._shards.pieces, self._shards.map("rows", self._evaluation))
        found = np.concatenate([row for _, row in sorted(rows, key=lambda row: row[0].begin)], axis=1)
        return tuple(pk.copy_of(row[None], self.space) for row in found)

    @property
    def n_shards(self) -> int:
        """The number of parts that the events are divided into."""
        return 1 if self._shards is None else len(self._shards.pieces)

    @functools.cached_property
    def places(self) -> Places:
        """Return the `Places` that describe repeated locations among the events."""
        return places(self.sums.locations)

    def background_scale(self, params: ParametersBase) -> float:
        """Return the factor of the sums of (1), or of the given density, in the background.

        Parameters
        ----------
        params : Parameters

        Returns
        -------
        float
        """
        return params.mu0 if self.background else params.background_scale(self.n_dims)

    @exclusive
    def log_gradients(self, several: Sequence[ParametersBase]) -> list[tuple[float, Floats]]:
        """Return `log_gradient` for each of several parameter sets, by one launch over pairs if possible.

        Parameters
        ----------
        several : sequence of Parameters

        Returns
        -------
        list of (value, slopes)

        Raises
        ------
        DTypeError, InputError
            Not Parameters, or parameters that do not fit the events: see `check_params`.
        """
        together = None if self._shards else self._together(several)
        if together is None:
            return list(map(self.log_gradient, several))
        windows, sums = together
        values, inverse_rates, slopes = self._with_shares(several, sums)
        return [
            one[2:4] if self._note_error(*one[:3], one[4]) <= self.error_bound else self.log_gradient(one[0])
            for one in zip(several, windows, values.tolist(), slopes, inverse_rates.tolist())
        ]

    def _together(self, several):
        """Return the windows and the sums over events of several parameter sets, from one launch over
        pairs and one over events; the values are bitwise equal to those of separate launches. Return None
        if this is not possible: for all pairs, for pairs in float32, or if a background or a list of pairs
        has to be recomputed."""
        sums, kind = self.sums, type(self.check_params(several[0]))
        n_xi = 1 + len(several[0].trigger_values)
        if sums.dtype is not np.float64 or len(several) * n_xi * self.n_events > _MOST_TOGETHER:
            return None
        windows, methods = zip(*(self._plan(params, self.error_bound) for params in several))
        method, pairs = methods[0], list(zip(several, windows))
        if (
            method == "all_pairs"
            or len({*methods}) > 1
            or {*map(type, several)} != {kind}
            or any(sums.stale(params, one, 3) for params, one in pairs)
            or method == "cells"
            and not all(sums.serves(params, one) for params, one in pairs)
        ):
            return None
        rows = [
            row_of_params(params, self.n_dims, one.excitation_h, self.background_scale(params))
            for params, one in pairs
        ]
        rows, (block, n_blocks) = np.array(rows), self._blocks()
        if rows.shape not in self._several:  # These buffers are free again when this method returns.
            self._several[rows.shape] = (
                pk.empty(rows.shape, space=self.space),
                pk.empty((len(several), 5 + n_xi, n_blocks), space=self.space),
            )
        of_each, found = self._several[rows.shape]
        pk.deep_copy(of_each, rows)
        excitation = sums.sum_excitations(several[0], n_xi, of_each, method)
        launch(
            pk.TeamPolicy(len(several) * n_blocks, 128, space=self.space),
            slopes_of_several,
            kind.triggering.functions,
            pk.static(self.n_dims),
            n_blocks,
            block,
            several[0].background_exponents,
            of_each,
            self.horizon_h,
            sums.t,
            sums.event_marks,
            sums.background,
            excitation,
            found,
        )
        self.method = method
        return windows, found.to_numpy().sum(axis=2)

    def _blocks(self):
        """Return the number of events per team of event_slopes, and the number of teams."""
        block = _SLOPE_BLOCK * -(-self.n_events // (_SLOPE_BLOCK * _MOST_SLOPE_BLOCKS))
        return block, -(-self.n_events // block)

    def _evaluate(self, params, n_mu, n_xi, sum_events):
        """Sum over pairs, then over events; widen the windows and repeat until the error due to omitted
        pairs meets its bound."""
        error_bound = self.error_bound
        while True:
            windows = self._fill(params, error_bound, n_mu, n_xi)
            result = sum_events(params)
            bound = self._note_error(params, windows, *result[:2])
            if bound <= self.error_bound:
                return result
            # The windows of `choose` were too short for these events. The error is nearly proportional to
            # error_bound, so aim at half of the allowed error; if the error is not finite, omit nothing.
            error_bound *= 0.5 * self.error_bound / bound if math.isfinite(bound) else 0.0

    def _note_error(self, params, windows, value, inverse_rates):
        """Return a bound of the relative error of the log-likelihood `value` due to the pairs that its
        windows omit; record this evaluation as the last if the bound is at most `error_bound`."""
        error = windows.missing * inverse_rates if windows.missing else 0.0
        bound = error and (error / abs(value) if value else math.inf)
        if bound <= self.error_bound:
            self._evaluated, self.windows = params, windows
            self.inverse_rates, self.attained_error = inverse_rates, bound
        return bound

    def _plan(self, params, error_bound):
        """Return the windows that aim at `error_bound`, and the method to use with them."""
        given = params.mu0 * self.background.typical if self.background else None
        sums = self.sums
        known = params, self.n_dims, self.n_events, sums.span_h, error_bound, given, sums.largest
        method, windows = self.requested, choose(*known, in_space=self.requested == "cells")
        if method == "auto":
            method = sums.cheapest(params, windows)
            windows = choose(*known, in_space=True) if method == "cells" else windows
        if method == "all_pairs" or not math.isfinite(windows.cut):
            windows, method = EVERYTHING, "all_pairs"
        return windows, method

    def _fill(self, params, error_bound, n_mu, n_xi):
        """Compute the sums over the pairs within the windows of `_plan`; return these windows."""
        while True:
            windows, method = self._plan(params, error_bound)
            if self._shards is not None:
                self.method = "windowed" if method == "cells" else method
                scale = self.background_scale(params)
                self._evaluation = Evaluation(params, windows, n_mu, n_xi, scale, self.horizon_h)
                return windows
            try:
                self.sums.fill(params, windows, method, n_mu, n_xi)
                self.method = method
                return windows
            except OverflowError as error:
                if self.requested == "cells":
                    raise InputError(
                        f"method is 'cells', but {error}; method='auto' needs no list"
                    ) from error
                self.sums.crowded = True

    def observed_share(self, params: ParametersBase) -> tuple[float, float]:
        """Return the factor of mu0 in (3), summed over events, and the derivative of that sum in log
        tau_t.

        Parameters
        ----------
        params : Parameters

        Returns
        -------
        share, slope : float
        """
        if self.background:
            return self.background.mass, 0.0
        if self._last_share[0] != params.tau_t:
            shares = reduce(
                self.n_events,
                kernels.observed_share,
                math.sqrt(0.5) / params.tau_t,
                self.horizon_h,
                self.sums.t,
                reducer=(pk.Sum, pk.Sum),
                space=self.space,
            )
            self._last_share = params.tau_t, shares
        return self._last_share[1]

    def _event_args(self, params):
        return self.sums.of_events(params, self.background_scale(params), self.horizon_h)

    def _sum_events(self, params):
        """Return the log-likelihood and the sum of 1 / rate, from the sums over pairs."""
        terms, inverse_rates = (
            self._shards.reduce("terms", self._evaluation)[0].tolist()
            if self._shards is not None
            else reduce(
                self.n_events,
                event_terms,
                *params.triggering.of_terms,
                *self._event_args(params),
                reducer=(pk.Sum, pk.Sum),
                space=self.space,
            )
        )
        return float(terms - params.mu0 * self.observed_share(params)[0]), float(inverse_rates)

    def _sum_slopes(self, params):
        """Return the log-likelihood, the sum of 1 / rate, and the derivatives in the logarithms of the
        parameters."""
        if self._shards is not None:
            (sums,) = self._shards.reduce("slopes", self._evaluation)
        else:
            args, block = self._event_args(params), self._blocks()[0]
            sums = self.sums.slopes(params, args, 0, self.n_events, block).to_numpy().sum(axis=1)
        (value,), (inverse_rates,), (slopes,) = self._with_shares([params], sums[None])
        return float(value), float(inverse_rates), slopes

    def _with_shares(self, several, sums):
        """Return the results of `_sum_slopes` for several parameter sets, given their sums over events,
        shape (n_several, n_rows)."""
        shares = np.array([self.observed_share(params) for params in several])
        share, share_slope = np.array([params.mu0 for params in several]) * shares.T
        slopes = sums[:, 2:].copy()
        slopes[:, 0] -= share
        slopes[:, 2] -= share_slope
        if self.background:
            slopes[:, 1:3] = 0.0
        return sums[:, 0] - share, sums[:, 1], slopes
