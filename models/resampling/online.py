"""An online filter, which takes one observation at a time, and can be saved and resumed."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

import portable as pk

from ..shared import (
    Array,
    ArrayLike,
    FiniteError,
    Frozen,
    InputError,
    NumberOrArray,
    PathLike,
    ShapeError,
    Whole,
    as_numbers,
    check_choice,
    check_count,
    check_seed,
    read_npz,
    replacing,
    warn,
)
from ..shared.store import list_differences, settings_as_json
from .arguments import FUNCTIONS, Data, ModelFunction, Params
from .nan_source import OnNan, counted, undefined
from .filtered import picked
from .filter_run import Run
from .summaries import Summaries
from .weight_kernels import ordered_numpy

ENDLESS = 2**31 - 1  # largest number of steps of a filter


class Step(Frozen):
    """Result of one observation; with params of one filter, arrays have no axis of filters.

    Attributes
    ----------
    t : int
        The step's number, from 0.
    log_likelihood, evidence, size : float, or ndarray of shape (n_filters,)
        That of all observations so far; the contribution of this one; effective sample size before
        resampling.
    died : bool, or ndarray of bool
        No particle explained this observation or an earlier one, or a log-weight was NaN.
    means, variances : ndarray, shape (n_dims, n_filters); variances None if not requested
    quantiles : ndarray, shape (n_levels, n_dims, n_filters), or None
    moments : ndarray, shape (n_moments, n_filters), or None
    """

    t: int
    log_likelihood: NumberOrArray
    evidence: NumberOrArray
    size: NumberOrArray
    died: NumberOrArray
    means: Array
    variances: Array | Any
    quantiles: Array | Any
    moments: Array | Any


class Online:
    """An online filter, made by `ParticleFilter.online`; its steps are bitwise those of `run`.

    Parameters
    ----------
    model : ParticleFilter
    n_particles, params, seed, variances, moments, on_nan : as in `ParticleFilter.run`
    n_values, n_inputs : int
        Values of an observation; inputs of a step.
    levels : ndarray
        Levels of quantiles.

    Raises
    ------
    DTypeError, InputError
        As in `ParticleFilter.run`.
    """

    def __init__(
        self,
        model: Any,
        n_particles: Whole,
        params: Params | None,
        n_values: Whole,
        n_inputs: Whole,
        seed: Whole,
        variances: bool,
        levels: Array,
        moments: ModelFunction | None,
        on_nan: OnNan = "die",
    ) -> None:
        n, self.seed = model.count(n_particles), check_seed(seed)
        self.on_nan = check_choice(on_nan, "on_nan", OnNan)
        self.n_values, self.n_inputs = check_count(n_values, "n_values"), check_count(n_inputs, "n_inputs", 0)
        lags = self.n_values if model.lagged else 0
        self.model, self.t, self._before = model, 0, np.full(lags, np.nan)
        data = Data(model, np.zeros((1, self.n_values)), params, np.zeros((1, lags + self.n_inputs)))
        self._single, self._params = data.single, data.params
        with pk.use(model.space):
            keys = np.full((len(data.params), 1), self.seed, np.uint64)
            self._run = Run(model, data, n, keys, ENDLESS, 2, means=True)
            self._run.keep_weights()  # `save` needs them
            self._summaries = Summaries(self._run, variances, levels, moments, model.n_moments(moments, data))
        self._total, self._died = np.zeros(len(data.params)), np.zeros(len(data.params), bool)

    def step(self, observation: ArrayLike, inputs: ArrayLike = ()) -> Step:
        """Filter one more observation.

        Parameters
        ----------
        observation : number or array-like, shape (n_values,)
            NaN where it is missing.
        inputs : number or array-like, shape (n_inputs,)

        Returns
        -------
        Step

        Raises
        ------
        ShapeError, DTypeError, FiniteError, InputError
            The number of values or inputs differs from the filter's; one is infinite; a log-weight is NaN or
            infinite.
        """
        y = self._checked(observation, "observation", self.n_values)
        known = np.concatenate([self._before, self._checked(inputs, "inputs", self.n_inputs)])
        if self.t == ENDLESS:
            raise InputError(f"this filter has taken {ENDLESS} steps; make a new one")
        run, t = self._run, self.t
        with pk.use(self.model.space):
            for view, values in ((run.y, y), (run.inputs, known)):
                if len(values):
                    pk.deep_copy(view, values.reshape(1, -1).astype(self.model.dtype))
            run.steps(t, t + 1)
            self._summaries.after(t)
            kept = t % run.n_kept
            extremes = run.extremes.to_numpy()[kept : kept + 1]
            bad = np.flatnonzero((undefined(extremes) == 0) & ~self._died)
            if bad.size:
                self._report_dead(bad)
            evidence = run.evidence.to_numpy()[kept]
            self._died = self._died | ~np.isfinite(ordered_numpy(extremes[0, :, 0]))
            self._total = self._total + evidence
            self.t, self._before = t + 1, y if len(self._before) else self._before
            numbers = self._total, evidence, run.sizes.to_numpy()[kept], self._died
            s = self._summaries
            views = [
                view if view is None else np.array(view.to_numpy()[kept])
                for view in (run.means, s.variances, s.quantiles, s.moments)
            ]
            for array in views:
                if array is not None:
                    array[..., self._died] = np.nan
            return Step(
                t,
                *(
                    array if array is None else picked(np.array(array), self._single)
                    for array in (*numbers, *views)
                ),
            )

    def _report_dead(self, bad):
        """Warn about filters that died of NaN at this step, or raise; earlier steps are not kept, so that the
        message is less exact than that of `run`."""
        x = self._run.x[self.t % self._run.x.shape[0]].to_numpy()[:, bad[0]]
        name = "initial, propagate or guide" if np.isnan(x).any() else "log_weight or log_guide"
        number = "" if self._single else f" of filter {bad[0]}"
        said = f"{name} gave NaN or +inf at step {self.t}{number}; expected finite numbers"
        if self.on_nan == "raise":
            raise FiniteError(said)
        warn(counted(len(bad), len(self._died), said))

    def _checked(self, values, name, n):
        found = as_numbers(values, name).astype(np.float64).reshape(-1) if np.size(values) else np.zeros(0)
        if len(found) != n:
            raise ShapeError(
                f"{name} has {len(found)} numbers; expected {n}: online(...,"
                f" n_{'values' if name == 'observation' else name}=)"
            )
        if np.isinf(found).any():
            raise InputError(f"{name} is {values}; expected finite numbers, or NaN where one is missing")
        return found

    # ---- saved state
    def _views(self):
        run = self._run
        return {
            "x": run.x,
            "log_w": run.log_w,
            "w": run.tables.values,
            "sums": run.tables.sums,
            "mass": run.mass,
            "extremes": run.extremes,
            "row_extremes": run.tables.extremes,
        }

    def _settings(self):
        model, run = self.model, self._run
        return settings_as_json(
            {
                **dict(zip(FUNCTIONS, model.functions)),
                **({"look_ahead": model.look_ahead} if model.look_ahead else {}),
                **{
                    name: getattr(model, name)
                    for name in ("method", "threshold", "in_place", "ordered", "lagged")
                },
                "dtype": str(model.dtype),
                "shape": list(run.x.shape),
                "seed": self.seed,
                "n_values": self.n_values,
                "n_inputs": self.n_inputs,
                "n_steps": getattr(model.draw, "keywords", {}).get("n_steps"),
            },
            "path",
        )

    def save(self, path: PathLike) -> None:
        """Write the filter's state, from which `load` resumes bitwise, on any space.

        Parameters
        ----------
        path : str or Path
            Replaced only after everything has been written.

        Raises
        ------
        InputError, StorageError
            The file cannot be written.
        """
        arrays = {name: view.to_numpy() for name, view in self._views().items()}
        with replacing(path, "path") as beside, open(beside, "wb") as file:
            np.savez(
                file,
                settings=json.dumps(self._settings()),
                release=pk.__version__,
                t=self.t,
                before=self._before,
                params=self._params,
                died=self._died,
                likelihood=self._total,
                **arrays,
            )

    def load(self, path: PathLike) -> Online:
        """Resume from a file that a filter of the same settings, params and seed has saved.

        Parameters
        ----------
        path : str or Path

        Returns
        -------
        Online
            This filter.

        Raises
        ------
        InputError
            The file cannot be read, or was saved with other settings; the message names them.
        """
        try:
            arrays = read_npz(path)
            theirs, ours = json.loads(str(arrays["settings"])), self._settings()
            if not isinstance(theirs, dict):
                raise ValueError("its settings are no names and values")
            params, views = arrays["params"], {name: arrays[name] for name in self._views()}
        except (ValueError, KeyError) as error:
            raise InputError(f"path: '{path}' is no state that Online.save wrote: {error}") from error
        different = [list_differences(theirs, ours)] if theirs != ours else []
        if params.shape != self._params.shape or not (params == self._params).all():
            different.append("params differ")
        if different:
            release = arrays.get("release", "an earlier release")
            raise InputError(
                f"path: '{path}' was saved by another filter, of portable {release}: {'; '.join(different)}"
            )
        with pk.use(self.model.space):
            for name, view in self._views().items():
                pk.deep_copy(view, views[name])
        self.t, self._before = int(arrays["t"]), arrays["before"]
        self._died, self._total = arrays["died"], arrays["likelihood"]
        return self
