"""State-space models: a few functions of one particle, and parameters with names.

Notation: states x_t with densities p(x_0) and p(x_t | x_(t-1)), observations y_t with p(y_t | x_t), t =
0..T-1. Each of the three may be given as a function that draws from it and as its log-density;
`StateSpaceModel` lists which methods need which.
"""

from __future__ import annotations

import collections
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

import portable as pk

from ..shared import (
    Array,
    ArrayLike,
    DTypeError,
    Frozen,
    InputError,
    ShapeError,
    SpaceLike,
    Whole,
    as_numbers,
    check_count,
    check_flag,
    check_seed,
    launch,
    reached,
)
from .arguments import ModelFunction, Params, as_rows, check_function, check_names
from .filter import ParticleFilter
from .simulation_kernels import simulate_rows

FUNCTIONS = (
    "initial",
    "propagate",
    "log_weight",
    "observe",
    "log_initial",
    "log_transition",
    "guide",
    "log_guide",
)


@functools.cache
def _record_of(names):
    """Return the class of named tuples with some names; a pickle of one holds the names."""
    record = collections.namedtuple("Parameters", names)
    record.__reduce__ = lambda self: (_record, (names, tuple(self)))
    return record


def _record(names, values):
    return _record_of(names)(*values)


class StateSpaceModel(Frozen, eq=False):
    """A state-space model, defined once for filters, smoothers, simulation and inference on every space.

    Parameters
    ----------
    parameters : sequence of str
        Names of params[0], params[1], ...
    states : sequence of str
        Names of state[0], state[1], ...
    initial, propagate, log_weight : pk.function
        Draws from p(x_0) and p(x_t | x_(t-1)), and log p(y_t | x_t): see `ParticleFilter`.
    observe : pk.function (t, state, seed, stream, draw, params) -> tuple of numbers, optional
        Draws from p(y_t | x_t): for `simulate` and posterior predictive checks.
    log_initial : pk.function (state, params) -> number, optional
        log p(x_0): for particle Gibbs.
    log_transition : pk.function (t, state, moved, params) -> number, optional
        log p(x_t = moved | x_(t-1) = state): for backward simulation and particle Gibbs.
    guide, log_guide : pk.function, optional
        For guided filters: see `ParticleFilter`.
    lagged : bool, default False
        Append the previous observation to params (before inputs), NaN at step 0 and where it is missing.
    """

    parameters: Sequence[str]
    states: Sequence[str]
    initial: ModelFunction
    propagate: ModelFunction
    log_weight: ModelFunction
    observe: ModelFunction | None = None
    log_initial: ModelFunction | None = None
    log_transition: ModelFunction | None = None
    guide: ModelFunction | None = None
    log_guide: ModelFunction | None = None
    lagged: bool = False

    def __post_init__(self) -> None:
        for name in ("parameters", "states"):
            names = tuple(getattr(self, name))
            if (
                not names
                or len(set(names)) < len(names)
                or not all(isinstance(n, str) and n.isidentifier() for n in names)
            ):
                raise InputError(
                    f"{name} is {names!r}; expected distinct identifiers of Python, at least one"
                )
            object.__setattr__(self, name, names)
        for name in FUNCTIONS:
            if getattr(self, name) is not None:
                check_function(getattr(self, name), name)

    @property
    def Parameters(self) -> type:  # noqa: N802  (a class)
        """A named tuple with the parameters' names."""
        return _record_of(self.parameters)

    def params(self, **values: ArrayLike) -> Any:
        """Make a record of parameters from values by name.

        Parameters
        ----------
        **values : float, or ndarray of shape (n_filters,)
            All parameters.

        Returns
        -------
        Parameters
            A named tuple.

        Raises
        ------
        InputError
            A name is missing, or is not one of the model's.
        """
        check_names(values, self.parameters)
        return self.Parameters(**values)

    def need(self, what: str, *names: str) -> None:
        """Raise an error if the model lacks one of some functions.

        Parameters
        ----------
        what : str
            The method that needs the functions, for the message.
        *names : str
            Names of the functions.

        Raises
        ------
        InputError
            One of them was not given.
        """
        for name in names:
            if getattr(self, name) is None:
                raise InputError(f"{what} needs the model's {name}: pass StateSpaceModel(..., {name}=)")

    def filter(self, *, guided: bool = False, **options: Any) -> ParticleFilter:
        """Make a particle filter of the model.

        Parameters
        ----------
        guided : bool, default False
            Draw states with the model's guide.
        **options
            method, n_steps, threshold, in_place, ordered, dtype, space, as in `ParticleFilter`.

        Returns
        -------
        ParticleFilter

        Raises
        ------
        InputError, DTypeError
            A guided filter is requested but the model lacks guide or log_guide; `ParticleFilter` refuses an
            option.
        """
        if check_flag(guided, "guided"):
            self.need("a guided filter", "guide", "log_guide")
            options |= {"guide": self.guide, "log_guide": self.log_guide}
        return ParticleFilter(
            self.initial,
            self.propagate,
            self.log_weight,
            names=self.parameters,
            lagged=self.lagged,
            **options,
        )

    def table(self, params: Params) -> tuple[Array, bool]:
        """Convert parameters to rows.

        Parameters
        ----------
        params : as in `ParticleFilter.run`

        Returns
        -------
        table : ndarray, shape (n_rows, n_params)
        single : bool
            True if they were of one row, without an axis of rows.

        Raises
        ------
        ShapeError, DTypeError, InputError
            They do not fit the model.
        """
        table, single = as_rows(params, self.parameters)
        return table.astype(np.float64), single

    def simulate(
        self,
        params: Params,
        n_steps: Whole,
        *,
        seed: Whole = 0,
        inputs: ArrayLike | None = None,
        start: ArrayLike | None = None,
        first: int = 0,
        space: SpaceLike = None,
    ) -> tuple[Array, Array]:
        """Draw states and observations of n_steps steps, one series for each row of parameters.

        Parameters
        ----------
        params : as in `ParticleFilter.run`
        n_steps : int
        seed : int, default 0
        inputs : array-like, shape (n_steps,) or (n_steps, n_inputs), optional
        start : array-like, shape (n_dims,) or (n_dims, n_rows), optional
            States at the step before `first`, for a forecast; if not given, the model's initial distribution
            is used.
        first : int
            The number of the first step, if start is given.
        space : str or Space, optional

        Returns
        -------
        states : ndarray, shape (n_steps, n_dims, n_rows)
        observations : ndarray, shape (n_steps, n_values, n_rows)
            Without the last axis if params are of one row.

        Raises
        ------
        ShapeError, DTypeError, InputError
            Arguments do not fit the model, or the model has no `observe`.
        """
        self.need("simulation", "observe")
        table, single = self.table(params)
        n_steps, n_dims = check_count(n_steps, "n_steps"), len(self.states)
        begin = np.zeros(n_dims) if start is None else as_numbers(start, "start")
        begin = np.broadcast_to(begin.astype(np.float64).reshape(n_dims, -1), (n_dims, len(table)))
        x = np.zeros((n_steps, n_dims, len(table)))
        where = first, start is not None, begin
        x, y = self._drawn(self.propagate, table, x, inputs, seed, space, *where)
        return (x[..., 0], y[..., 0]) if single else (x, y)

    def _drawn(self, propagate, table, x, inputs, seed, space, first, goes_on, start):
        """Draw states and observations by `simulate_rows`."""
        n_steps, n_dims, n_rows = x.shape
        known = np.zeros((n_steps, 0)) if inputs is None else as_numbers(inputs, "inputs")
        known = known.reshape(n_steps, -1).astype(np.float64)
        n_values = self._n_values(table[0], known)
        sizes = n_dims, n_values, n_values if self.lagged else 0, table.shape[1], known.shape[1]
        seed = np.uint64(check_seed(seed))
        with pk.use(space):
            x, y = pk.copy_of(x), pk.empty((n_steps, n_values, n_rows))
            launch(
                n_rows,
                simulate_rows,
                self.initial,
                propagate,
                self.observe,
                *map(pk.static, sizes),
                n_steps,
                first,
                goes_on,
                seed,
                *map(reached, (table, known, np.ascontiguousarray(start))),
                x,
                y,
            )
            return x.to_numpy(), y.to_numpy()

    def replicate(
        self,
        paths: ArrayLike,
        params: Params,
        *,
        seed: Whole = 0,
        inputs: ArrayLike | None = None,
        space: SpaceLike = None,
    ) -> Array:
        """Draw new observations for given states, a path for each row of parameters: posterior predictive
        replicates.

        Parameters
        ----------
        paths : array-like, shape (n_steps, n_dims, n_rows)
        params : array-like, shape (n_rows, n_params)
        seed, inputs, space : as in `simulate`

        Returns
        -------
        ndarray, shape (n_steps, n_values, n_rows)

        Raises
        ------
        ShapeError, DTypeError, InputError
            As `simulate`.
        """
        self.need("replication", "observe")
        table, _ = self.table(params)
        x = as_numbers(paths, "paths", 3).astype(np.float64)
        if x.shape[1:] != (len(self.states), len(table)):
            raise ShapeError(
                f"paths has shape {x.shape}; expected (n_steps, {len(self.states)}, {len(table)}), a path a"
                " row of params"
            )
        return self._drawn(None, table, x, inputs, seed, space, 0, True, x[0])[1]

    def _n_values(self, params, inputs):
        """Count the values of an observation, by one call in plain Python; only the length of the result
        matters."""
        row = np.concatenate([params, np.ones(64 if self.lagged else 0), inputs[0]])
        found = self.observe(0, np.array(self.initial(0, 0, 0, row), np.float64), 0, 0, 0, row)
        if not isinstance(found, tuple) or not found:
            raise DTypeError(f"observe must return a tuple of numbers, got {found!r:.60}")
        return len(found)
