"""The bootstrap particle filter, for one model or many at once; the space decides when to resample.

Notation: states x_t, observations y_t, t = 0..T-1; x_0 ~ initial, x_t ~ propagate(x_(t-1)), weights w_t = exp(log_weight).
Particles of a filter are a row of n; rows are filters, with parameters of their own.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

import numpy as np
from rich.progress import track

import portable as pk
from portable.errors import (
    DTypeError,
    FiniteError,
    InputError,
    PortableError,
    ShapeError,
)

from ..arrays import reached
from ..checks import (
    as_numbers,
    check_choice,
    check_count,
    check_finite,
    check_flag,
    check_number,
    check_seed,
)
from . import filter_kernels, launches, weighing
from .checks import MOST
from .schemes import Call
from .weights import TEAM, Tables, on

SWEEP = 4096  # particles of a team
SCHEMES = {"systematic": launches.systematic, "stratified": launches.stratified, "multinomial": launches.multinomial,
           "residual": launches.residual, "ssp": launches.ssp, "killing": launches.killing,
           "metropolis": launches.metropolis, "megopolis": launches.megopolis}


class ParticleFilter:
    """A bootstrap filter of a model that is written once, as functions of one particle.

    Parameters
    ----------
    initial : pk.function (seed, stream, draw, params) -> tuple of numbers
        A state at step 0. Random numbers come from `pk.random` with this seed and stream, and draws draw, draw + 1, ...
    propagate : pk.function (t, state, seed, stream, draw, params) -> tuple of numbers
        A state at step t from one at t - 1; state[c] is component c.
    log_weight : pk.function (t, state, observation, params) -> number
        log p(y_t | x_t), finite or -inf; observation[d] is value d of y_t.
    scheme : str, default "systematic"
        A name in `SCHEMES`; "metropolis" and "megopolis" take n_steps.
    n_steps : int, optional
    threshold : float, 0 to 1, default 0.5
        A filter resamples where its effective sample size is below threshold * n; with 1 always.
    in_place : bool, default False
        Keep one copy of the states instead of two, by permuted ancestors; slower.
    dtype : float64 or float32
        Of states and log-weights.
    space : str or Space, optional
    """

    def __init__(self, initial, propagate, log_weight, *, scheme="systematic", n_steps=None, threshold=0.5, in_place=False,
                 dtype=np.float64, space=None):
        self.functions = initial, propagate, log_weight
        for name, function in zip(("initial", "propagate", "log_weight"), self.functions):
            if not isinstance(function, type(filter_kernels.user_draw)):
                raise DTypeError(f"{name} must be marked with @pk.function, got {function!r:.60}")
        self.draw = SCHEMES[check_choice(scheme, "scheme", tuple(SCHEMES))]
        if scheme in ("metropolis", "megopolis"):
            self.draw = functools.partial(self.draw, n_steps=check_count(n_steps, "n_steps", 1, 2**31 - 1))
        elif n_steps is not None:
            raise InputError(f"n_steps is {n_steps}; scheme {scheme!r} takes none")
        self.threshold = check_number(threshold, "threshold", least=0.0)
        if self.threshold > 1:
            raise InputError(f"threshold is {threshold}; 0 to 1 is wanted")
        self.in_place, self.space = check_flag(in_place, "in_place"), space
        self.dtype = np.dtype(dtype)
        if self.dtype not in (np.float32, np.float64):
            raise DTypeError(f"dtype is {dtype}; float32 or float64 is wanted")
        self._kernels = {}

    def run(self, observations, n_particles, *, params=None, seed, keep=False, means=True, progress=False):
        """Filter all observations. Nothing waits for the space between steps.

        Parameters
        ----------
        observations : array-like, shape (n_steps,) or (n_steps, n_values)
        n_particles : int
        params : array-like, shape (n_params,) or (n_filters, n_params), optional
            Of one filter, or of as many as there are rows, which run at once.
        seed : int
        keep : bool
            Keep states and ancestor indices of all steps, for `Filtered.trajectories`.
        means : bool
            Compute filtered means.
        progress : bool
            Show a bar.

        Returns
        -------
        Filtered

        Raises
        ------
        ShapeError, DTypeError, FiniteError, InputError
            FiniteError names the step at which a log-weight was NaN or infinite; InputError one at which all were -inf.
        """
        y = as_numbers(observations, "observations")
        if y.ndim not in (1, 2) or not y.size:
            raise ShapeError(f"observations has shape {y.shape}; (n_steps,) or (n_steps, n_values) is wanted, not empty")
        p = np.zeros(1) if params is None else as_numbers(params, "params")
        if p.ndim not in (1, 2) or not p.size:
            raise ShapeError(f"params has shape {p.shape}; (n_params,) or (n_filters, n_params) is wanted, not empty")
        y, table = check_finite(y, "observations").reshape(len(y), -1), np.atleast_2d(check_finite(p, "params"))
        n, seed = check_count(n_particles, "n_particles", 1, MOST), np.uint64(check_seed(seed))
        if check_flag(keep, "keep") and self.in_place:
            raise InputError("keep is True, but in_place keeps no states of earlier steps; one of them is wanted")
        n_dims = self._n_dims(y[0], table[0] if params is not None else table[0, :0])
        with on(self.space):
            state = Run(self, n, n_dims, reached(y.astype(self.dtype)), reached(table.astype(self.dtype)), seed, keep,
                         check_flag(means, "means"))
            for t in track(range(len(y)), "filtering", disable=not check_flag(progress, "progress"), transient=True):
                state.step(t)
            return state.result(single=p.ndim == 1)

    def _n_dims(self, observation, params):
        """Components of a state, from one call of each function in plain Python."""
        initial, propagate, log_weight = self.functions
        try:
            state = _check_state(_tried("initial", initial, params, 0, 0, 0, params), "initial")
        except ArithmeticError as error:
            raise InputError(f"initial: {error}, with the seed, stream and draw 0") from error
        try:
            moved = _check_state(_tried("propagate", propagate, params, 1, np.array(state, self.dtype), 0, 0, 0, params), "propagate")
            if len(moved) != len(state):
                raise DTypeError(f"propagate returns {len(moved)} numbers, initial {len(state)}; as many of both are wanted")
            weight = _tried("log_weight", log_weight, params, 0, state, observation, params)
            if weight is None or np.ndim(weight) or isinstance(weight, tuple):
                raise DTypeError(f"log_weight must return a number, got {weight!r:.60}")
        except ArithmeticError:
            pass  # log(0), 1 / 0: a kernel has infinities and NaN for these, and the run says at which step they matter
        return len(state)

    def kernels(self, n_dims):
        """(start, advance, weigh), made once."""
        if n_dims not in self._kernels:
            self._kernels[n_dims] = filter_kernels.model_kernels(*self.functions, n_dims)
        return self._kernels[n_dims]


def _tried(name, function, params, *args):
    """What a function of the model gives in plain Python; what it takes or reads wrongly is told by its name."""
    try:
        return function(*args)
    except IndexError as error:
        given = f"{len(params)} number{'s' * (len(params) != 1)}" if len(params) else "none: run(..., params=) gives them"
        raise InputError(f"{name} reads a state, an observation or params beyond its end: {error}; params has {given}") from error
    except PortableError:
        raise
    except TypeError as error:
        raise DTypeError(f"{name}: {error}; see ParticleFilter for what it is called with") from error
    except ValueError as error:  # a domain error of `math`
        raise ArithmeticError(str(error)) from error


def _check_state(state, name):
    if not isinstance(state, tuple) or not 0 < len(state) < 65:
        raise DTypeError(f"{name} must return a tuple of 1 to 64 numbers, got {state!r:.60}")
    return state


class Run:
    """One run: its arrays on the space, and the launches of a step."""

    def __init__(self, model, n, n_dims, y, params, seed, keep, means):
        self.model, self.y, self.params, self.seed, self.keep = model, y, params, seed, keep
        n_steps, n_rows = y.shape[0], params.shape[0]
        self.n_slots = n_steps if keep else 1 if model.in_place else min(2, n_steps)
        self.x = pk.empty((self.n_slots, n_dims, n_rows, n), model.dtype)
        self.log_w = pk.empty((n_rows, n), model.dtype)
        self.ancestors = pk.empty((n_steps if keep else 1, n_rows, n), np.int32)
        self.tables = Tables(pk.empty((n_rows, n), model.dtype), weighing.WEIGHTS, n)
        self.extremes = pk.empty((n_steps, n_rows, 3), np.int64)
        pk.parallel_for(pk.TeamPolicy(n_steps * n_rows), weighing.begin, self.extremes.reshape(-1, 3),
                        pk.empty((n_steps * n_rows, 0), np.int64))
        pk.parallel_for(self.tables.rows, weighing.begin, self.tables.extremes, self.tables.stretches)
        self.tables.extremes = pk.copy_of(np.tile(np.array([1.0, 0.0, 0.0]).view(np.int64), (n_rows, 1)))  # weights are relative
        self.sweeps = pk.TeamPolicy(n_rows * -(-n // SWEEP), TEAM)
        self.squares = pk.empty((n_rows, self.tables.n_tiles), np.uint64)
        self.mass = pk.copy_of(np.full(n_rows, np.log(float(n))))
        self.evidence, self.sizes = pk.empty((n_steps, n_rows)), pk.empty((n_steps, n_rows))
        self.half = (62 - (n - 1).bit_length()) // 2
        self.means = pk.empty((n_steps, n_dims, n_rows)) if means else None
        self.parts = pk.empty((n_dims, n_rows, self.tables.n_tiles if means else 1))
        self.start, self.advance, self.weigh = model.kernels(n_dims)
        if model.in_place:
            self.owner, self.permuted = pk.empty((n_rows, n), np.int32), pk.empty((n_rows, n), np.int32)
            pk.deep_copy(self.ancestors, 0)  # rows that idle are permuted too: any particles will do

    def step(self, t):
        """States, weights, decision and ancestors of step t."""
        tables, slot = self.tables, t % self.n_slots
        before, now = self.extremes[max(t - 1, 0)], self.extremes[t]
        if t == 0:
            pk.parallel_for(self.sweeps, self.start, SWEEP, self.seed, self.y, self.params, self.x, self.log_w, now)
        else:
            known = [pk.static(v) for v in (self.model.in_place, self.params.shape[1], self.y.shape[1])]
            pk.parallel_for(self.sweeps, self.advance, pk.static(SWEEP), *known, t, (t - 1) % self.n_slots, slot, self.seed, self.y, self.params,
                            self.ancestors[(t - 1) % len(self.ancestors)], before, self.x, self.log_w, now)
        pk.parallel_for(tables.wide_tiles, self.weigh, tables.tile_size, tables.bits, self.half,
                        pk.static(self.means is not None), slot, self.x, self.log_w, now, tables.values, tables.extremes, tables.sums, self.squares,
                        self.parts)
        pk.parallel_for(tables.rows, filter_kernels.decide, tables.bits, self.half, tables.n, self.model.threshold, now,
                        tables.extremes, tables.sums, self.squares, self.mass, self.evidence[t], self.sizes[t])
        if self.means is not None:
            pk.parallel_for(tables.rows, filter_kernels.average, tables.sums, self.parts, self.means[t])
        if t < len(self.y) - 1:
            self._resample(t, now)

    def _resample(self, t, now):
        ancestors = self.ancestors[t % len(self.ancestors)]
        self.model.draw(self.tables, self.seed, np.uint64(2 * t << 32), ancestors)
        if self.model.in_place:
            launches.permute(ancestors, self.owner, self.permuted)
            pk.parallel_for(self.tables.draws, filter_kernels.overwrite, now, self.permuted, self.x)

    def result(self, single):
        """Bring what is small to the host, and check it."""
        extremes = self.extremes.to_numpy()
        largest = weighing.ordered_numpy(extremes[:, :, 0])
        _check_largest(largest, single)
        pick = (lambda a: a[..., 0]) if single else (lambda a: a)
        evidence = self.evidence.to_numpy()
        idle = extremes[:, :, 2] != 0
        idle[-1] = True  # after the last step nothing is resampled
        return Filtered(
            log_likelihood=float(evidence.sum(axis=0)[0]) if single else evidence.sum(axis=0), evidence=pick(evidence),
            sizes=pick(self.sizes.to_numpy()), resampled=pick(~idle),
            means=None if self.means is None else pick(self.means.to_numpy()),
            states=self.x[(len(self.y) - 1) % self.n_slots], log_weights=self.log_w, _run=self, _single=single)


def _check_largest(largest, single):
    bad = np.argwhere(~np.isfinite(largest))
    if bad.size:
        t, r = bad[0]
        where = f"step {t}" if single else f"step {t} of filter {r}"
        if largest[t, r] == -np.inf:
            raise InputError(f"log_weight is -inf for every particle at {where}: none explains the observation; more particles, "
                             "or a model with heavier tails, are wanted")
        raise FiniteError(f"log_weight gave {largest[t, r]} for a particle at {where}; finite numbers or -inf are wanted")


@dataclass
class Filtered:
    """What a run found. With params of one filter the axis of filters is left out of arrays.

    Attributes
    ----------
    log_likelihood : float, or ndarray of shape (n_filters,)
        Log of the estimate of p(y), which is unbiased.
    evidence : ndarray, shape (n_steps, n_filters)
        What each step adds to it.
    sizes : ndarray, shape (n_steps, n_filters)
        Effective sample sizes before resampling.
    resampled : ndarray of bool, shape (n_steps, n_filters)
    means : ndarray, shape (n_steps, n_dims, n_filters), or None
        Filtered means E(x_t | y_0..y_t).
    states : View, shape (n_dims, n_filters, n_particles)
        Of the last step.
    log_weights : View, shape (n_filters, n_particles)
        Of the last step, up to a constant of each filter.
    """

    log_likelihood: float | np.ndarray
    evidence: np.ndarray
    sizes: np.ndarray
    resampled: np.ndarray
    means: np.ndarray | None
    states: pk.View
    log_weights: pk.View
    _run: Run = field(repr=False)
    _single: bool = field(repr=False)

    def trajectories(self, n, *, seed):
        """Paths x_0..x_(T-1), drawn by the last weights (multinomial) and followed back through the ancestors kept.

        Parameters
        ----------
        n : int
            Paths of each filter.
        seed : int

        Returns
        -------
        ndarray, shape (n_steps, n_dims, n_filters, n)

        Raises
        ------
        InputError, DTypeError
            A run without `keep=True`; n below 1.
        """
        run = self._run
        if not run.keep:
            raise InputError("this run kept no ancestors; run(..., keep=True) is wanted for trajectories")
        with on(run.model.space):
            call = Call(None, self.log_weights, seed, 0, check_count(n, "n", 1, MOST), "raise")
            call.tables.find_extremes()
            ends = call.draw(launches.multinomial)
            paths = pk.empty((*run.x.shape[:3], call.n_draws), run.model.dtype)
            pk.parallel_for(call.tables.draws, filter_kernels.trace, run.extremes, run.ancestors, run.x, ends, paths)
            found = paths.to_numpy()
        return found[:, :, 0] if self._single else found
