"""Particle filters, for one model or many at once; whether to resample is decided on the space.

Notation: states x_t, observations y_t, t = 0..T-1; x_0 ~ initial, x_t ~ propagate(x_(t-1)), weights w_t =
exp(log_weight). The n particles of a filter are a row; each row is a filter with its own parameters.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Sequence
from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

import portable as pk

from ..shared import (
    Array,
    ArrayLike,
    ClientLike,
    DTypeError,
    FiniteError,
    InputError,
    NumberOrArray,
    Real,
    ShapeError,
    Spaces,
    Whole,
    as_numbers,
    check_choice,
    check_count,
    check_flag,
    check_fractions,
    check_seed,
    connected,
    local_space,
    warn,
)
from ..shared.sharding import spaces_of
from . import banks, nan_source, launches, row_kernels
from .arguments import (
    FUNCTIONS,
    Data,
    ModelFunction,
    Params,
    check_function,
    check_state,
    not_infinite,
    tried,
)
from .checks import MOST
from .filtered import Filtered
from .online import Online

Method: TypeAlias = Literal[
    "systematic", "stratified", "multinomial", "residual", "ssp", "killing", "metropolis", "megopolis"
]
SCHEMES = {name: getattr(launches, name) for name in get_args(Method)}


class ParticleFilter:
    """A bootstrap or guided particle filter; the model is given once, as functions of one particle.

    Parameters
    ----------
    initial : pk.function (seed, stream, draw, params) -> tuple of numbers
        A state at step 0. Random numbers come from `pk.random` with this seed and stream, and draws draw,
        draw + 1, ...
    propagate : pk.function (t, state, seed, stream, draw, params) -> tuple of numbers
        A state at step t from one at t - 1; state[c] is component c.
    log_weight : pk.function (t, state, observation, params) -> number
        log p(y_t | x_t), finite or -inf; observation[d] is value d of y_t. It is not called if all values of
        y_t are NaN, which means that they are missing. If only some are missing, it must test them by
        `pk.isnan`.
    guide : pk.function (t, state, observation, seed, stream, draw, params) -> tuple of numbers, optional
        A state at step t from one at t - 1, drawn given the observation: a guided filter. If the observation
        is missing, and at step 0, propagate and initial are used.
    log_guide : pk.function (t, state, moved, observation, params) -> number, optional
        log p(moved | state) - log q(moved | state, y_t), of the transition over the guide, which is added to
        log_weight.
    look_ahead : pk.function (t, state, observation, params) -> number, optional
        An approximation of log p(y_t | x_(t-1) = state): an auxiliary filter resamples by weights times its
        exponential, in favour of states that the next observation makes likely. Estimates stay unbiased for
        any finite function. For systematic draws of at most 4,096 particles; with threshold=1.0 at every
        step.
    names : sequence of str, optional
        Names of the parameters, so that params may be a dict.
    lagged : bool, default False
        Append the previous observation to params (before inputs), NaN at step 0 and where it is missing.
    method : str, default "systematic"
        A name in `SCHEMES`; "metropolis" and "megopolis" require n_steps.
    n_steps : int, optional
    threshold : float, 0 to 1, default 0.5
        A filter resamples if its effective sample size is below threshold * n; with 1 at every step.
    in_place : bool, default False
        Keep one copy of the states instead of two, using permuted ancestors; slower.
    ordered : bool, default False
        Resample systematically in the order of the states' first component, so that close parameters give
        close likelihoods. For at most 4,096 particles.
    dtype : float64 or float32
        Type of states and log-weights.
    space : str, Space or a list of them, optional
        The spaces of a list divide the rows of params of `run` and `log_likelihood`, and compute
        concurrently.

    Raises
    ------
    DTypeError, FiniteError, InputError
        A function is not a `pk.function`, a guide lacks its density, or an option is out of range.
    """

    def __init__(
        self,
        initial: ModelFunction,
        propagate: ModelFunction,
        log_weight: ModelFunction,
        *,
        guide: ModelFunction | None = None,
        log_guide: ModelFunction | None = None,
        look_ahead: ModelFunction | None = None,
        names: Sequence[str] | None = None,
        lagged: bool = False,
        method: Method = "systematic",
        n_steps: Whole | None = None,
        threshold: Real = 0.5,
        in_place: bool = False,
        ordered: bool = False,
        dtype: npt.DTypeLike = np.float64,
        space: Spaces = None,
    ) -> None:
        self.functions = initial, propagate, log_weight, guide, log_guide
        for name, function in zip(FUNCTIONS, self.functions):
            if function is not None or name not in ("guide", "log_guide"):
                check_function(function, name)
        self.look_ahead = look_ahead and check_function(look_ahead, "look_ahead")
        if (guide is None) != (log_guide is None):
            raise InputError(
                f"{'log_guide' if guide is None else 'guide'} is given without"
                f" {'guide' if guide is None else 'log_guide'}; a guided filter needs both"
            )
        self.names, self.lagged = None if names is None else tuple(names), check_flag(lagged, "lagged")
        self.method = check_choice(method, "method", SCHEMES)
        self.draw = SCHEMES[method]
        if method in ("metropolis", "megopolis"):
            self.draw = functools.partial(self.draw, n_steps=check_count(n_steps, "n_steps", 1, 2**31 - 1))
        elif n_steps is not None:
            raise InputError(f"n_steps is {n_steps}; method {method!r} takes none")
        self.threshold = float(check_fractions(threshold, "threshold", 0))
        self.in_place, self.ordered = check_flag(in_place, "in_place"), check_flag(ordered, "ordered")
        self.spaces = space
        self.space = None if space is None else spaces_of(space)[0]
        if self.ordered and (method != "systematic" or self.in_place):
            raise InputError(
                f"ordered is True; expected method 'systematic', got {method!r}, and in_place False, got"
                f" {in_place}"
            )
        self.numbered = True  # rows draw by their numbers and keys; if False by their keys only
        self._n_dims = {}  # keyed by numbers of values and of params
        self.dtype = np.dtype(dtype)
        if self.dtype not in (np.float32, np.float64):
            raise DTypeError(f"dtype is {dtype}; expected float32 or float64")

    def takes_rows(self, n: int) -> bool:
        """Return True if one team takes a row of n particles through all steps:
        `portable.models.resampling.row_kernels`.

        Parameters
        ----------
        n : int

        Returns
        -------
        bool
        """
        return self.method == "systematic" and not self.in_place and n <= row_kernels.MOST

    def run(
        self,
        observations: ArrayLike,
        n_particles: Whole,
        *,
        params: Params | None = None,
        inputs: ArrayLike | None = None,
        seed: Whole = 0,
        keep: bool = False,
        means: bool = True,
        variances: bool = False,
        quantiles: Sequence[float] | Array = (),
        moments: ModelFunction | None = None,
        on_nan: nan_source.OnNan = "die",
        progress: bool = False,
        client: ClientLike = None,
    ) -> Filtered:
        """Filter all observations, without waiting for the space between steps.

        Parameters
        ----------
        observations : array-like, shape (n_steps,) or (n_steps, n_values)
            NaN where a value is missing.
        n_particles : int
        params : array-like, shape (n_params,) or (n_filters, n_params), or dict of names and numbers or
        arrays, optional
            Parameters of one filter, or of one filter for each row, which run concurrently.
        inputs : array-like, shape (n_steps,) or (n_steps, n_inputs), optional
            Covariates of each step, such as the time since the last one; the model finds them after its
            params. NaN are passed on.
        seed : int, default 0
        keep : bool
            Keep states, log-weights and ancestors of all steps, for smoothing.
        means, variances : bool
            Compute filtered means; variances.
        quantiles : sequence of float, 0 to 1
            Levels of filtered quantiles; each takes 64 passes over the particles.
        moments : pk.function (t, state, params) -> tuple of numbers, optional
            Function whose filtered expectations are computed.
        on_nan : {"die", "raise"}, default "die"
            A filter with a log-weight that is NaN or +inf dies, and the others continue, with a warning that
            names the function that gave the first NaN; or this is a FiniteError.
        progress : bool
            Show a progress bar, if one space runs all filters.
        client : distributed.Client or "local", optional
            Its workers divide the rows of params, for filters of one team each (`takes_rows`). Results are
            the same for any number of workers.

        Returns
        -------
        Filtered
            A filter dies if none of its particles explains an observation: its log-likelihood is -inf, and
            the others continue.

        Raises
        ------
        ShapeError, DTypeError, FiniteError, InputError
            FiniteError if on_nan is "raise".

        Warns
        -----
        RuntimeWarning
            Filters died of NaN.
        """
        data = self.data(observations, params, inputs)
        n, seed = self.count(n_particles), check_seed(seed)
        check_choice(on_nan, "on_nan", nan_source.OnNan)
        if check_flag(keep, "keep") and self.in_place:
            raise InputError(
                "keep is True, but in_place keeps no states of earlier steps; expected one of them"
            )
        levels = check_fractions(quantiles, "quantiles", 1)
        variances = check_flag(variances, "variances")
        means = check_flag(means, "means") or variances
        asked = banks.Asked(
            seed, keep, means, variances, levels, moments, self.n_moments(moments, data), on_nan
        )
        progress = check_flag(progress, "progress")
        if client is None and not isinstance(self.spaces, (list, tuple)):
            with pk.use(self.space):
                found = banks.filtered(self, data, n, asked, progress=progress)
        else:
            with connected(client) as client:
                found = banks.run_shared(banks.Problem(self, data, None, n, client, self.spaces), asked)
        n_bad = int((np.atleast_1d(found.nan_steps) >= 0).sum())
        if n_bad:
            warn(nan_source.counted(n_bad, len(data.params), found.nan_from))
        return found

    def log_likelihood(
        self,
        observations: ArrayLike,
        n_particles: Whole,
        *,
        params: Params | None = None,
        inputs: ArrayLike | None = None,
        seed: Whole = 0,
        on_nan: nan_source.OnNan = "die",
        client: ClientLike = None,
    ) -> NumberOrArray:
        """Estimate log p(y) only: `run(...).log_likelihood`, without copying anything else to the host.

        Parameters
        ----------
        observations, n_particles, params, inputs, seed, on_nan, client : as in `run`

        Returns
        -------
        float, or ndarray of shape (n_filters,)
            -inf for a filter that died.

        Raises
        ------
        ShapeError, DTypeError, FiniteError, InputError
            As `run`.
        """
        data = self.data(observations, params, inputs)
        n, seed = self.count(n_particles), check_seed(seed)
        check_choice(on_nan, "on_nan", nan_source.OnNan)
        keys = np.full((len(data.params), 1), seed, np.uint64)
        with connected(client) as client, pk.use(local_space(client, self.spaces)):
            shards = banks.shared(banks.Problem(self, data, None, n, client, self.spaces), len(data.params))
            found = np.concatenate(shards.map("log_likelihoods", data.params, keys))
            bad = np.flatnonzero(np.isnan(found))
            if bad.size:
                said = banks.blamed(self, data, n, keys, int(bad[0]))
                if on_nan == "raise":
                    raise FiniteError(said)
                warn(nan_source.counted(len(bad), len(found), said))
                found[bad] = -np.inf
        return float(found[0]) if data.single else found

    def online(
        self,
        n_particles: Whole,
        *,
        params: Params | None = None,
        n_values: Whole = 1,
        n_inputs: Whole = 0,
        seed: Whole = 0,
        variances: bool = False,
        quantiles: Sequence[float] | Array = (),
        moments: ModelFunction | None = None,
        on_nan: nan_source.OnNan = "die",
    ) -> Online:
        """Make a filter that takes one observation at a time: `portable.models.resampling.Online`.

        Parameters
        ----------
        n_particles, params, seed, variances, quantiles, moments, on_nan : as in `run`
        n_values, n_inputs : int, default 1 and 0
            Values of an observation; inputs of a step.

        Returns
        -------
        Online

        Raises
        ------
        ShapeError, DTypeError, FiniteError, InputError
            As `run`.
        """
        levels = check_fractions(quantiles, "quantiles", 1)
        return Online(self, n_particles, params, n_values, n_inputs, seed, variances, levels, moments, on_nan)

    def count(self, n_particles: Whole) -> int:
        """Check the number of particles.

        Parameters
        ----------
        n_particles : int

        Returns
        -------
        int

        Raises
        ------
        DTypeError, InputError
            It is not a whole number, or out of range.
        """
        n = check_count(n_particles, "n_particles", 1, MOST)
        if (self.ordered or self.look_ahead) and not self.takes_rows(n):
            raise InputError(
                f"n_particles is {n}, method {self.method!r}; with ordered=True or look_ahead="
                f" expected method 'systematic' and at most {row_kernels.MOST}"
            )
        return n

    def data(self, observations: ArrayLike, params: Params | None, inputs: ArrayLike | None) -> Data:
        """Check the data of a run.

        Parameters
        ----------
        observations, params, inputs : as in `run`

        Returns
        -------
        Data

        Raises
        ------
        ShapeError, DTypeError, FiniteError, InputError
            They do not fit together, or the model's functions do not accept them.
        """
        y = as_numbers(observations, "observations")
        if y.ndim not in (1, 2) or not y.size:
            raise ShapeError(
                f"observations has shape {y.shape}; expected (n_steps,) or (n_steps, n_values), not empty"
            )
        known = np.zeros((len(y), 0)) if inputs is None else as_numbers(inputs, "inputs")
        y = not_infinite(y, "observations").reshape(len(y), -1)
        known = not_infinite(known, "inputs")
        if known.ndim not in (1, 2) or len(known) != len(y):
            raise ShapeError(
                f"inputs has shape {known.shape}; expected ({len(y)},) or ({len(y)}, n_inputs),"
                " one row per step"
            )
        known = known.reshape(len(y), -1)
        if self.lagged:
            known = np.hstack([np.vstack([np.full((1, y.shape[1]), np.nan), y[:-1]]), known])
        return Data(self, y, params, known)

    def n_moments(self, moments: ModelFunction | None, data: Data) -> int:
        """Count the numbers that a moment function returns, by one call in plain Python.

        Parameters
        ----------
        moments : as in `run`
        data : Data

        Returns
        -------
        int

        Raises
        ------
        DTypeError, InputError
            It is not a pk.function, or does not return a tuple of 1 to 64 numbers.
        """
        if moments is None:
            return 0
        check_function(moments, "moments")
        found = tried("moments", moments, data.row, 0, np.zeros(data.n_dims), data.row)
        return len(check_state(found, "moments"))

    def n_dims(self, observation: Array, rows: Array) -> int:
        """Count the components of a state, by one call of each function in plain Python, the first time that
        each number of values and of params occurs.

        Parameters
        ----------
        observation : ndarray, shape (n_values,)
        rows : ndarray, shape (n_rows, n_params + n_inputs)
            Tried in turn, until the initial state is defined.

        Returns
        -------
        int

        Raises
        ------
        DTypeError, InputError
            A function does not accept its arguments, or does not return the required numbers.
        """
        known = self._n_dims.get((len(observation), rows.shape[1]))
        if known is None:
            known = self._n_dims[len(observation), rows.shape[1]] = self._tried(observation, rows)
        return known

    def _tried(self, observation, rows):
        """Count the components of a state; call each function once."""
        initial, propagate, log_weight, guide, log_guide = self.functions
        for number, params in enumerate(rows):
            try:
                state = check_state(tried("initial", initial, params, 0, 0, 0, params), "initial")
                break
            except ArithmeticError as error:  # perhaps due to this row's parameters only
                if number + 1 == len(rows):
                    raise InputError(
                        f"initial: {error}, with {nan_source.named(self.names or (), params)}"
                    ) from error
        here = np.array(state, self.dtype)
        for name, function, wanted, args in (
            ("propagate", propagate, len(state), (1, here, 0, 0, 0, params)),
            ("log_weight", log_weight, 0, (0, state, observation, params)),
            ("guide", guide, len(state), (1, here, observation, 0, 0, 0, params)),
            ("log_guide", log_guide, 0, (1, here, state, observation, params)),
            ("look_ahead", self.look_ahead, 0, (1, here, observation, params)),
        ):
            if function is None:
                continue
            try:
                found = tried(name, function, params, *args)
            except ArithmeticError:
                # log(0), 1 / 0: in a kernel these are infinities and NaN, and the run reports the step at
                # which they matter
                continue
            if not wanted and (found is None or np.ndim(found) or isinstance(found, tuple)):
                raise DTypeError(f"{name} must return a number, got {found!r:.60}")
            if wanted and len(check_state(found, name)) != wanted:
                raise DTypeError(
                    f"{name} returns {len(found)} numbers, initial {wanted}; expected as many of both"
                )
            if name == "log_weight":
                self._doubt_columns(found, state, observation, params)
        return len(state)

    def _doubt_columns(self, value, state, observation, params):
        """Warn of the first value of an observation on which a log-weight does not depend."""
        log_weight, others = self.functions[2], np.nan_to_num(observation) + 1.0
        for column in range(len(observation) * (len(observation) > 1 and bool(np.isfinite(value)))):
            moved = np.where(np.arange(len(observation)) == column, others, observation)
            with contextlib.suppress(ArithmeticError):
                if tried("log_weight", log_weight, params, 0, state, moved, params) == value:
                    warn(
                        f"log_weight does not read observations[:, {column}]; expected the values that it"
                        " reads, in their order",
                        UserWarning,
                    )
                    return
