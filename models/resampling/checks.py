"""Checks of what users pass in."""

from __future__ import annotations

import numpy as np

import portable as pk
from portable.errors import DTypeError, FiniteError, InputError, ShapeError

MOST = 2**31  # particles or draws: products of two such numbers stay within 64 bits


def check_vector(values, name, kinds="fiu"):
    """`values` as a contiguous vector of at least one element: a View as it is, anything else as a NumPy array."""
    if not isinstance(values, pk.View):
        try:
            values = np.asarray(values)
        except ValueError as error:  # ragged rows
            raise ShapeError(f"{name} is not a rectangular array: {error}") from error
    if len(values.shape) != 1:
        raise ShapeError(f"{name} has shape {values.shape}; one number a particle is wanted: shape (n,)")
    if not values.shape[0]:
        raise ShapeError(f"{name} is empty; at least one particle is wanted")
    if values.dtype.kind not in kinds:
        raise DTypeError(f"{name} must hold {'real' if 'f' in kinds else 'whole'} numbers, got dtype {values.dtype}")
    if values.shape[0] > MOST:
        raise InputError(f"{name} has {values.shape[0]} entries; at most 2^31 are possible")
    return values


def refuse(values, name, wrong, message, error=InputError):
    """Raise, naming the first entry for which `wrong` holds."""
    host = values.to_numpy() if isinstance(values, pk.View) else values
    n = int(np.flatnonzero(wrong(host))[0])
    raise error(f"{name}[{n}] is {host[n]}; {message}")


def check_range(values, name, smallest, largest):
    """Weights are finite and not negative, and one is positive."""
    if np.isnan(largest) or largest == np.inf:
        refuse(values, name, lambda w: ~np.isfinite(w), "finite weights are wanted", FiniteError)
    if smallest < 0:
        refuse(values, name, lambda w: w < 0, "weights of at least 0 are wanted (or give log_weights=)")
    if largest == 0:
        raise InputError(f"{name} are all zero; at least one positive weight is wanted")


def check_log_range(values, name, largest):
    """Log-weights are finite or -inf, and one is finite."""
    if np.isnan(largest) or largest == np.inf:
        refuse(values, name, lambda w: np.isnan(w) | (w == np.inf), "finite numbers or -inf are wanted", FiniteError)
    if largest == -np.inf:
        raise InputError(f"{name} are all -inf; at least one positive weight is wanted")
