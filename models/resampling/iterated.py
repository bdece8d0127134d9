"""Maximum likelihood by iterated filtering (IF2), and profile likelihoods with standard errors.

Each particle has its own parameters z, transformed to the real line, which move before every step,

    z <- z + s_m e,   s_m = s a^(m / 50),   e standard normal                                         (1)

in iteration m. Resampling favours parameters that explain the data, and the particles' parameters at the end
are the start of iteration m + 1; as s_m decreases, they concentrate at a maximum. Each row is one search.

A profile is the largest log-likelihood l(v) for each value v of a parameter. A quadratic function fitted to
estimates of it, c + b v + a v^2, has its maximum at -b / (2 a), with the variance

    1 / (-2 a) + (var b - (2 b / a) cov(a, b) + (b / a)^2 var a) / (4 a^2)                            (2)

from the sampling of the data and from the error of the estimates.

References
----------
Ionides, Nguyen, Atchade, Stoev, King: Inference for dynamic and partially observed systems via iterated
perturbed Bayes maps. PNAS 112 (2015).
Ionides, Breto, Park, Smith, King: Monte Carlo profile confidence intervals for dynamic systems. Journal of
the Royal Society Interface 14 (2017).
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ..shared import (
    Array,
    ArrayLike,
    InputError,
    Names,
    Result,
    Whole,
    check_count,
    check_numbers,
    check_positive,
    check_share,
    warn,
)
from . import banks
from .inference import Estimates
from .row_kernels import MOST
from .sampling import Chained, Filtering, filters_of, of_model, run_loop
from .schemes import systematic
from .state_space import StateSpaceModel
from .walk import random_of

_NEAR = 2.0  # difference of log-likelihoods within which searches have found the same maximum


class Maximum(Result, eq=False, kw_only=True):
    """Maxima that the searches found, ordered by likelihood.

    Attributes
    ----------
    params : dict of names and floats
        All parameters of the model, at the end of the best search.
    log_likelihood : float
        Log-likelihood at these.
    ends : ndarray, shape (n_searches, n_free)
        Parameters at the end of each search, in the order of the model.
    logs : ndarray, shape (n_searches,)
        Log-likelihoods at `ends`: logarithms of mean likelihoods of several filters.
    notes : tuple of str
        Warnings about the result: that searches ended at different maxima, or filters died of NaN.
    """

    params: dict[str, float]
    log_likelihood: float
    ends: Array
    logs: Array
    notes: Names = ()


class Profile(Result, eq=False, kw_only=True):
    """A profile likelihood of a parameter.

    Attributes
    ----------
    name : str
    values, logs : ndarray, shape (n_values,)
        Values, and the largest log-likelihood found at each.
    estimate, standard_error : float
        Maximum of a quadratic function fitted to these, and its error by (2); NaN if it has no maximum.
    """

    name: str
    values: Array
    logs: Array
    estimate: float
    standard_error: float


class Searches(Chained):
    """Searches of iterated filtering; `columns` are parameters that are fixed, at a separate value for each
    row."""

    piece = 1

    def __init__(self, problem, sd, cooling, initial, columns, n_repeats):
        super().__init__(problem)
        if unknown := set(initial) - set(self.priors.free):
            raise InputError(f"initial has {', '.join(sorted(unknown))}, which has no prior")
        self._sds = np.array([[sd, 0.0 if name in initial else sd] for name in self.priors.free])
        self._cooling, self.columns, self._n_rows = cooling, columns, self.n_chains * n_repeats
        self._filters = banks.shared(problem, self.n_chains)
        self._estimate = Estimates(self, self._n_rows)

    def table(self, values):
        """Return all parameters of rows; each search has one or several rows."""
        table = super().table(values)
        for name, column in self.columns.items():
            table[:, self.priors.names.index(name)] = np.repeat(column, len(table) // len(column))
        return table

    def start(self, given):
        values = self.priors.draw(random_of(self.seed, 0), self.n_chains) if given is None else given
        self.swarm = np.repeat(self.priors.to_line(values).T[:, None], self.problem.n, axis=1)

    def ends(self):
        return self.priors.from_line(self.swarm.mean(axis=1).T)[0]

    def step(self, number, warm):
        """Run all filters once, then resample the particles' parameters by their weights."""
        random = random_of(self.seed, 1, number)
        ends = self.began = self.ends()
        free = [self.priors.names.index(name) for name in self.priors.free]
        free = free, self.priors.limits, self._sds * self._cooling ** (number / 50.0)
        keys = random.integers(0, 2**64, (self.n_chains, 1), np.uint64)
        found = self._filters.map("wandered", self.table(ends), keys, self.swarm, free)
        *swarm, logs, total = np.concatenate(found, axis=-1)
        self._estimate.rejected(total[0], ends, keys)  # counts filters that died of NaN
        logs = np.where(np.isfinite(total), logs, 0.0)  # a filter that died gives equal weights
        chosen = systematic(log_weights=np.ascontiguousarray(logs.T), seed=int(random.integers(2**63)))
        self.swarm = np.take_along_axis(np.array(swarm), chosen.T[None], axis=1)

    def step_record(self):
        return {"moved": 1.0, "began": self.began}

    def arrays(self):
        return {"swarm": self.swarm}

    def restore(self, arrays):
        self.swarm = arrays["swarm"]

    def drawn(self, parts):
        """Return the ends of searches, the logarithms of mean likelihoods at these, and how far the median
        of these rose in the second half of the iterations."""
        began, ends = np.concatenate([part["began"] for part in parts]), self.ends()
        logs = self._logs_at(ends)
        with np.errstate(invalid="ignore"):
            return ends, logs, np.median(logs) - np.median(self._logs_at(began[len(began) // 2]))

    def _logs_at(self, ends):
        n_rows = self._n_rows
        keys = random_of(self.seed, 2).integers(0, 2**64, (n_rows, 1), np.uint64)
        logs = self._estimate(np.repeat(ends, n_rows // len(ends), axis=0), keys).reshape(len(ends), -1)
        top = np.maximum(logs.max(axis=1), -1e300)
        with np.errstate(divide="ignore"):
            return top + np.log(np.exp(logs - top[:, None]).mean(axis=1))


def maximise(model: StateSpaceModel, observations: ArrayLike, n_particles: Whole, **options: Any) -> Maximum:
    """Maximise the likelihood of parameters by iterated filtering.

    Parameters
    ----------
    model : StateSpaceModel
    observations : as in `ParticleFilter.run`; NaN is missing
    n_particles : int, at most 4,096
        That of each filter.
    **options
        priors, and of the options of `Sampling`: fixed, inputs, start, seed, checkpoint, progress,
        on_nan, space, client. Searches begin at draws of the priors, or at start; otherwise only the
        priors' limits matter.
        Further:
    n_chains : int, default 16
        Searches.
    n_iterations : int, default 100
        Passes of each search over the data.
    sd : float, default 0.02
        Standard deviation of the moves of parameters: s in (1), on the scale of logarithms, log-odds, or
        values themselves, according to the limits.
    cooling : float, 0 to 1, default 0.5
        Factor of the moves' standard deviation after 50 iterations: a in (1).
    initial : sequence of str, optional
        Parameters of the initial state, which move at step 0 only.
    n_repeats : int, default 10
        Filters at the end of each search, whose likelihoods are averaged.
    guided, threshold, dtype, look_ahead : as in `StateSpaceModel.filter`
        Threshold is 1 by default.

    Returns
    -------
    Maximum

    Raises
    ------
    InputError, DTypeError, ShapeError, FiniteError
        Wrong arguments; with on_nan="raise" a log-weight is NaN.
    KeyboardInterrupt
        After Ctrl-C; finished iterations are in the checkpoint.

    Warns
    -----
    RuntimeWarning
        Fewer than half of the searches, or one of several, came near the best one; the likelihood still rose
        in the second half of the iterations; filters died of NaN. `Maximum.notes` has the same text.
    """
    known, ends, logs, notes = search(model, observations, n_particles, {}, **options)
    order = np.argsort(-logs)
    ends, logs = ends[order], logs[order]
    near = int((logs > logs[0] - _NEAR).sum())
    if 2 * near < len(logs) or near == 1 < len(logs):
        notes += (f"only {near} of {len(logs)} searches came near the best one: take more n_iterations",)
        warn(notes[-1])
    params = dict(zip(known.names, known.table(ends[:1])[0].tolist()))
    return Maximum(params=params, log_likelihood=float(logs[0]), ends=ends, logs=logs, notes=notes)


def profile(
    model: StateSpaceModel,
    observations: ArrayLike,
    n_particles: Whole,
    name: str,
    values: ArrayLike,
    *,
    n_chains: Whole = 8,
    **options: Any,
) -> Profile:
    """Maximise the likelihood for each value of a parameter, by iterated filtering of the others.

    Parameters
    ----------
    model, observations, n_particles : as in `maximise`
    name : str
        The parameter, which has no prior.
    values : array-like, shape (n_values,), at least 4, around the maximum
    n_chains : int
        Searches for each value.
    **options
        As in `maximise`; start has n_values * n_chains rows, those of one value next to each other.

    Returns
    -------
    Profile

    Raises
    ------
    InputError, DTypeError, ShapeError, FiniteError, KeyboardInterrupt
        As `maximise`.
    """
    grid = check_numbers(values, "values", 1)
    n_chains = check_count(n_chains, "n_chains")
    if len(np.unique(grid)) < 4:
        raise InputError(f"values is {values}; expected at least 4 different numbers")
    options["fixed"] = {**(options.get("fixed") or {}), name: float(grid[0])}
    columns = {name: np.repeat(grid, n_chains)}
    logs = search(model, observations, n_particles, columns, n_chains=len(columns[name]), **options)[2]
    logs = logs.reshape(-1, n_chains).max(axis=1)
    estimate, error = _peak(grid, logs)
    return Profile(name=name, values=grid, logs=logs, estimate=estimate, standard_error=error)


def _peak(values, logs):
    """Return the maximum of a quadratic function fitted to points, and the square root of (2)."""
    (a, b, _), covariance = np.polyfit(values - values.mean(), logs, 2, cov=True)
    if not a < 0.0:
        return math.nan, math.nan
    share = np.array([b / a, -1.0])
    variance = -0.5 / a + share @ covariance[:2, :2] @ share / (4.0 * a * a)
    return float(values.mean() - 0.5 * b / a), math.sqrt(variance)


def search(
    model,
    observations,
    n,
    columns,
    *,
    n_chains: int = 16,
    n_iterations: int = 100,
    sd: float = 0.02,
    cooling: float = 0.5,
    initial: tuple = (),
    n_repeats: int = 10,
    threshold=1.0,
    **options,
):
    """Run the searches; return the priors, the ends of searches, log-likelihoods at these, and notes, which
    are warned of.

    Parameters
    ----------
    n_chains, n_iterations, sd, cooling, initial, n_repeats
        As in `maximise`.
    """
    sampling = Filtering(n_chains=n_chains, n_draws=n_iterations, n_warmup=0, threshold=threshold, **options)
    sd, n = check_positive(sd, "sd"), check_count(n, "n_particles", 2, MOST)
    cooling, n_repeats = check_share(cooling, "cooling"), check_count(n_repeats, "n_repeats")
    (filters, own), make = filters_of(model, sampling), functools.partial(Searches, n_repeats=n_repeats)
    how = {"sd": sd, "cooling": cooling, "initial": list(initial), "columns": columns}
    given = of_model(sampling, model, filters, n, observations, make, own, **how)
    sampler, (ends, logs, rise), stop = run_loop(sampling, "IF2", *given)
    if stop is not None:
        raise stop
    nans = sampler.nans
    # of the default number of iterations, or of more
    allowed = _NEAR * min(n_iterations / 100, 1.0)
    notes = (f"{nans.counts.sum()} filters died of NaN: {nans.first}",) * bool(nans.first)
    if rise > allowed:
        said = f"searches rose by {rise:.3g} in the second half of the iterations: take more n_iterations"
        notes += (said,)
    for note in notes:
        warn(note)
    return sampler.priors, ends, logs, notes
