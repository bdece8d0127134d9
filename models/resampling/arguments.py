"""Check the arguments of a filter: observations, parameters, inputs, and functions of one particle."""

from collections.abc import Mapping
from typing import Any, TypeAlias, Union

import numpy as np

import portable as pk
from portable.errors import DTypeError, FiniteError, InputError, PortableError, ShapeError

from ..shared import Array, ArrayLike, as_numbers, check_finite, check_kind, refuse
from .filter_kernels import user_draw

ModelFunction: TypeAlias = "pk.Function[..., Any]"
_TRIED = 64  # largest number of rows of parameters with which the model's functions are tried
Params: TypeAlias = Union[ArrayLike, Mapping[str, Any]]  # also a named tuple

FUNCTIONS = "initial", "propagate", "log_weight", "guide", "log_guide"  # functions of a ParticleFilter


class Data:
    """Observations, parameters and inputs of a run, on the host.

    Attributes
    ----------
    y, params, inputs : ndarray of float64, shapes (n_steps, n_values), (n_rows, n_params), (n_steps,
    n_inputs)
    n_steps, n_dims : int
    single : bool
        True if parameters were given for one filter; results then have no axis of filters.
    """

    def __init__(self, model: Any, y: Array, params: Params | None, inputs: Array) -> None:
        self.y, self.inputs, self.n_steps = y, inputs, len(y)
        table, self.single = as_rows([0.0] if params is None else params, model.names)
        self.params = np.atleast_2d(check_finite(table[0] if self.single else table, "params"))
        rows = self.params[:_TRIED] if params is not None else self.params[:1, :0]
        rows = np.hstack([rows, np.tile(inputs[0], (len(rows), 1))])
        self.row, self.n_dims = rows[0], model.n_dims(y[0], rows)


def as_rows(params, names):
    """Convert parameters to rows; return them, and True if they were a single row. `names`, if any, fix their
    number."""
    table = as_table(params, names)
    if table.ndim not in (1, 2) or not table.size:
        raise ShapeError(
            f"params has shape {table.shape}; expected (n_params,) or (n_filters, n_params), not empty"
        )
    if names is not None and table.shape[-1] != len(names):
        raise ShapeError(
            f"params has {table.shape[-1]} numbers per filter; expected {len(names)}: {', '.join(names)}"
        )
    return np.atleast_2d(table), table.ndim == 1


def as_table(params, names):
    """Convert parameters to an array whose last axis is that of parameters, from an array, or by name from a
    dict or a named tuple."""
    if hasattr(params, "_asdict") and names is not None:
        params = params._asdict()
    if not isinstance(params, dict):
        return as_numbers(params, "params")
    if names is None:
        raise DTypeError(
            "params is a dict, but the filter has no names for its parameters; set them by"
            " ParticleFilter(..., names=)"
        )
    check_names(params, names)
    columns = [as_numbers(params[name], f"params[{name!r}]") for name in names]
    try:
        return np.stack(np.broadcast_arrays(*columns), axis=-1)
    except ValueError as error:
        raise ShapeError(f"params: {error}; expected numbers, or arrays of one length") from error


def check_names(params, names):
    """Raise an error unless the names of parameters are exactly the model's."""
    if set(params) != set(names):
        raise InputError(
            f"params has {', '.join(map(repr, params))}; expected exactly {', '.join(map(repr, names))}"
        )


def check_function(function, name):
    """Raise an error if a function is not a `pk.function`."""
    return check_kind(function, name, type(user_draw), "be marked with @pk.function")


def not_infinite(values, name):
    values = values.astype(np.float64)
    refuse(np.isinf(values), values, name, "finite numbers, or NaN where one is missing", FiniteError)
    return values


def tried(name, function, params, *args):
    """Call a model's function in plain Python; an error names the function and its invalid argument or
    index."""
    try:
        return function(*args)
    except IndexError as error:
        given = (
            f"{len(params)} number{'s' * (len(params) != 1)}"
            if len(params)
            else "none: pass run(..., params=)"
        )
        raise InputError(
            f"{name} reads a state, an observation or params beyond its end: {error}; params has {given}"
        ) from error
    except PortableError:
        raise
    except TypeError as error:
        raise DTypeError(f"{name}: {error}; see ParticleFilter for its arguments") from error
    except ValueError as error:  # domain error of `math`
        raise ArithmeticError(str(error)) from error


def check_state(state, name):
    if not isinstance(state, tuple) or not 0 < len(state) < 65:
        raise DTypeError(f"{name} must return a tuple of 1 to 64 numbers, got {state!r:.60}")
    return state
