"""Results of a particle filter, and paths through the particles that it kept."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import portable as pk

from ..shared import Array, InputError, NumberOrArray, Shown, check_count, launch, reached
from . import filter_kernels, launches, weight_kernels
from .nan_source import undefined
from .checks import MOST
from .schemes import Call

_OF_ROWS = "x", "log_w", "ancestors", "extremes", "params"  # fields of a History with an axis of filters


def picked(array, single):
    """Return an array, for a single filter without its last axis, that of filters."""
    if not single:
        return array
    return array[..., 0].item() if array.ndim == 1 else array[..., 0]


def collect(run, summaries, single, means, reason):
    """Collect the fields of `Filtered`, copying small arrays to the host.

    reason : callable of a row that died of NaN, which returns the reason, or raises
    """
    extremes = run.extremes.to_numpy()
    nan_steps = undefined(extremes)
    bad = np.flatnonzero(nan_steps >= 0)
    dead = ~np.isfinite(weight_kernels.ordered_numpy(extremes[:, :, 0]))
    died = np.where(dead.any(axis=0), dead.argmax(axis=0), -1)
    after = np.maximum.accumulate(dead, axis=0)
    evidence = run.evidence.to_numpy()
    resampled = extremes[:, :, 2] == 0
    resampled[-1] = False  # there is no resampling after the last step
    last, model, history = len(extremes) - 1, run.model, None
    if run.keep:
        kept = run.x, run.log_w, run.ancestors, run.extremes, run.params, run.inputs
        history = History(*kept, model.space)
    found = {
        "log_likelihood": np.cumsum(evidence, axis=0)[-1],
        "evidence": evidence,
        "sizes": run.sizes.to_numpy(),
        "resampled": resampled,
        "died": died,
        "nan_steps": nan_steps,
    }
    told = {
        "means": run.means if means else None,
        **{name: getattr(summaries, name) for name in ("variances", "quantiles", "moments")},
    }
    for name, view in told.items():
        if view is not None:
            found[name] = view.to_numpy()
            gone = np.expand_dims(after, tuple(range(1, found[name].ndim - 1)))
            found[name][np.broadcast_to(gone, found[name].shape)] = np.nan
    return (
        told
        | {name: picked(array, single) for name, array in found.items()}
        | {
            "nan_from": reason(int(bad[0])) if bad.size else "",
            "states": run.x[last % run.x.shape[0]],
            "log_weights": run.log_w[last % run.log_w.shape[0]],
            "history": history,
            "_single": single,
        }
    )


def joined(parts):
    """Join filters that ran in several places into one `Filtered`; arrays of all particles are copied to the
    host."""
    found = copy.copy(parts[0])
    for name, value in vars(found).items():
        values = [getattr(part, name) for part in parts]
        if isinstance(value, History):
            own = {
                one: np.concatenate([on_host(getattr(history, one)) for history in values], axis=-2)
                for one in _OF_ROWS
            }
            found.history = dataclasses.replace(value, **own, inputs=on_host(value.inputs), space=None)
        elif isinstance(value, pk.View):
            whole = np.concatenate([on_host(one) for one in values], axis=-2)
            setattr(found, name, pk.asview(whole, space="serial"))
        elif isinstance(value, np.ndarray):
            setattr(found, name, np.concatenate(values, axis=-1))
        elif isinstance(value, str):
            setattr(found, name, next(filter(None, values), ""))
    return found


@dataclass
class History:
    """All particles of a run with `keep=True`: Views on its space, or after pickling arrays on the host.

    Attributes
    ----------
    x : shape (n_steps, n_dims, n_filters, n)
    log_w : shape (n_steps, n_filters, n)
    ancestors : shape (n_steps, n_filters, n)
        Row t holds the parents, at t, of the particles of step t + 1, if the filter was resampled.
    extremes : see `portable.models.resampling.filter_kernels`
    params, inputs : shape (n_filters, n_params), (n_steps, n_inputs)
    """

    x: pk.View
    log_w: pk.View
    ancestors: pk.View
    extremes: pk.View
    params: pk.View
    inputs: pk.View
    space: object

    def __getstate__(self):
        return {name: on_host(value) for name, value in self.__dict__.items()} | {"space": None}

    def reached(self):
        """Copy fields that are arrays on the host to the default space; return self."""
        for name, value in self.__dict__.items():
            if isinstance(value, np.ndarray):
                setattr(self, name, reached(value))
        return self


def on_host(value):
    """Return a View as an array, anything else unchanged."""
    return np.array(value.to_numpy()) if isinstance(value, pk.View) else value


@dataclass
class Filtered(Shown):
    """Result of a run. With params of one filter, arrays have no axis of filters. It can be pickled.

    Attributes
    ----------
    log_likelihood : float, or ndarray of shape (n_filters,)
        Logarithm of the estimate of p(y), which is unbiased; -inf for a filter that died.
    evidence : ndarray, shape (n_steps, n_filters)
        Contribution of each step to log_likelihood.
    sizes : ndarray, shape (n_steps, n_filters)
        Effective sample sizes before resampling.
    resampled : ndarray of bool, shape (n_steps, n_filters)
    died : int, or ndarray of shape (n_filters,)
        The step at which no particle explained the observation, or a log-weight was NaN; otherwise -1. From
        that step on, means, variances, quantiles and moments are NaN.
    nan_steps : int, or ndarray of shape (n_filters,)
        The step at which a filter died because a log-weight was NaN or +inf, or -1.
    nan_from : str
        For the first such filter: the function that gave the first NaN, its step and the parameters; "" if
        there is none.
    means, variances : ndarray, shape (n_steps, n_dims, n_filters), or None
        Filtered means E(x_t | y_0..y_t), and variances.
    quantiles : ndarray, shape (n_steps, n_levels, n_dims, n_filters), or None
    moments : ndarray, shape (n_steps, n_moments, n_filters), or None
    states : View, shape (n_dims, n_filters, n_particles)
        States at the last step.
    log_weights : View, shape (n_filters, n_particles)
        Log-weights at the last step, up to a constant for each filter.
    history : History, or None
        All particles, after a run with `keep=True`.
    """

    log_likelihood: NumberOrArray
    evidence: Array
    sizes: Array
    resampled: Array
    died: NumberOrArray
    nan_steps: NumberOrArray
    nan_from: str
    means: Array | Any
    variances: Array | Any
    quantiles: Array | Any
    moments: Array | Any
    states: pk.View
    log_weights: pk.View
    history: History | Any = field(repr=False)
    _single: bool = field(repr=False)

    def __getstate__(self):
        return self.__dict__ | {name: on_host(getattr(self, name)) for name in ("states", "log_weights")}

    def __setstate__(self, state):
        views = {name: pk.asview(state[name], space="serial") for name in ("states", "log_weights")}
        self.__dict__.update(state | views)

    @contextlib.contextmanager
    def _kept_history(self, what):
        """Yield the History, with its space as the default one; raise if there is none, with `what` in the
        message."""
        if self.history is None:
            raise InputError(f"this run kept no ancestors; expected run(..., keep=True) for {what}")
        with pk.use(self.history.space):
            yield self.history.reached()

    def _without_dead(self, array):
        """Set results of filters that died to NaN, shape (n_steps, n_dims, n_filters, ...); for params of one
        filter, drop the axis of filters."""
        array[:, :, np.atleast_1d(self.died) >= 0] = np.nan
        return array[:, :, 0] if self._single else array

    def trajectories(self, n: int, *, seed: int = 0) -> Array:
        """Draw paths x_0..x_(T-1) by the last weights (multinomial) and trace them back through the kept
        ancestors.

        n_steps reads a path. Far from the last step all paths have few different ancestors;
        `smoothing.backward_paths` has no such limit, at n_particles times the cost.

        Parameters
        ----------
        n : int
            Paths of each filter.
        seed : int, default 0

        Returns
        -------
        ndarray, shape (n_steps, n_dims, n_filters, n)

        Raises
        ------
        InputError, DTypeError
            The run had no `keep=True`, a filter died, or n is below 1.
        """
        n = check_count(n, "n", 1, MOST)
        with self._kept_history("trajectories") as kept:
            call = Call(None, kept.log_w[kept.log_w.shape[0] - 1], seed, 0, n, "uniform", None)
            ends = call.draw(launches.multinomial)
            paths = pk.empty((*kept.x.shape[:3], n), kept.x.dtype)
            own = kept.extremes, kept.ancestors, kept.x, ends, paths
            launch(ends.shape, filter_kernels.trace, *own)
            return self._without_dead(paths.to_numpy())
