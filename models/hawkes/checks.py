"""Checks of what users pass in. All of them run before anything is computed or copied to a device."""

from __future__ import annotations

import numpy as np

import portable as pk
from portable.errors import DTypeError, FiniteError, InputError, OrderError, ShapeError

from .parameters import Parameters


def check_events(locations, times):
    """Events as float64 arrays.

    Parameters
    ----------
    locations : array-like or View, shape (n_events, n_dims), n_dims = 1, 2 or 3, kilometres
    times : array-like or View, shape (n_events,), hours, ascending

    Returns
    -------
    locations : ndarray, shape (n_events, n_dims)
    times : ndarray, shape (n_events,)
    """
    locations, times = _as_float64(locations, "locations"), _as_float64(times, "times")
    if times.ndim != 1:
        raise ShapeError(f"times has shape {times.shape}; one time an event is wanted: shape (n_events,)")
    if locations.ndim != 2:
        hint = " A single coordinate is given as locations.reshape(-1, 1)." if locations.ndim == 1 else ""
        raise ShapeError(f"locations has shape {locations.shape}; shape (n_events, n_dims) is wanted.{hint}")
    n_events, n_dims = locations.shape
    if n_events != len(times):
        raise ShapeError(f"locations has {n_events} rows, times has {len(times)} entries; as many of both are wanted")
    if n_dims not in (1, 2, 3):
        raise ShapeError(f"locations has shape {locations.shape}: {n_dims} dimensions; 1, 2 or 3 are wanted")
    if not len(times):
        raise ShapeError("times is empty; at least one event is wanted")
    _check_finite(times, "times")
    _check_finite(locations, "locations")
    falls = np.flatnonzero(np.diff(times) < 0)
    if falls.size:
        n = int(falls[0]) + 1
        raise OrderError(
            f"times must ascend, but times[{n}] = {times[n]} follows times[{n - 1}] = {times[n - 1]}. "
            "Sort times and the rows of locations together, with order = np.argsort(times, kind='stable')."
        )
    return locations, times


def check_horizon(horizon_h, times):
    """The end of observation on the axis of `times`; the last event if None."""
    if horizon_h is None:
        return float(times[-1])
    horizon = _as_float64(horizon_h, "horizon_h")
    if horizon.ndim:
        raise ShapeError(f"horizon_h has shape {horizon.shape}; one number is wanted")
    if not np.isfinite(horizon):
        raise FiniteError(f"horizon_h is {horizon}; a finite number is wanted")
    if horizon < times[-1]:
        raise InputError(f"horizon_h is {horizon}, before the last event at {times[-1]}; that or later is wanted")
    return float(horizon)


def check_params(params):
    if not isinstance(params, Parameters):
        raise DTypeError(f"params must be hawkes.Parameters, got {type(params).__name__}")
    return params


def check_choice(value, name, choices):
    if not isinstance(value, str) or value not in choices:
        raise InputError(f"{name} is {value!r}; wanted one of {', '.join(map(repr, choices))}")
    return value


def check_flag(value, name):
    if not isinstance(value, (bool, np.bool_)):
        raise DTypeError(f"{name} must be True or False, got {value!r} of type {type(value).__name__}")
    return bool(value)


def _as_float64(value, name):
    if isinstance(value, pk.View):
        value = value.to_numpy()
    try:
        array = np.asarray(value)
    except ValueError as error:  # ragged rows
        raise ShapeError(f"{name} is not a rectangular array: {error}") from error
    if array.dtype.kind not in "fiu":
        raise DTypeError(f"{name} must hold real numbers, got dtype {array.dtype}")
    return array.astype(np.float64)


def _check_finite(array, name):
    bad = np.argwhere(~np.isfinite(array))
    if bad.size:
        index = tuple(bad[0].tolist())
        raise FiniteError(f"{name}[{', '.join(map(str, index))}] is {array[index]}; finite numbers are wanted")
