"""Checks of users' arguments."""

import numpy as np

import portable as pk

from ..shared import DTypeError, FiniteError, InputError, ShapeError, as_numbers, refuse

MOST = 2**31 - 1  # particles of a row, or draws: products of two such numbers stay within 64 bits


def check_rows(values, name, kinds="fiu"):
    """Check a vector (n,) or rows (n_rows, n) of at least one element; return a View unchanged, other values
    as a NumPy array."""
    if not isinstance(values, pk.View):
        values = as_numbers(values, name)
    if len(values.shape) not in (1, 2):
        raise ShapeError(
            f"{name} has shape {values.shape}; expected one number per particle: shape (n,), or (n_rows, n)"
            " of several filters"
        )
    if not values.size:
        raise ShapeError(f"{name} is empty; expected at least one particle")
    if values.dtype.kind not in kinds:
        raise DTypeError(
            f"{name} must hold {'real' if 'f' in kinds else 'whole'} numbers, got dtype {values.dtype}"
        )
    if values.shape[-1] > MOST or values.shape[0] > MOST:
        raise InputError(f"{name} has shape {values.shape}; at most 2^31 - 1 in each dimension are possible")
    return values


def check_extremes(values, name, log, largest, smallest, degenerate_allowed):
    """Raise an error for weights that are negative or not finite, log-weights that are NaN or inf, and rows
    without a positive weight.

    Parameters
    ----------
    values : ndarray or View, shape (n,) or (n_rows, n)
    log : bool
    largest, smallest : ndarrays of float64, shape (n_rows,); NaN if a weight is NaN
    degenerate_allowed : bool
        Rows without a positive weight may pass.
    """
    lowest = -np.inf if log else 0.0
    if ((largest > lowest) & (largest < np.inf)).all() and (log or (smallest >= 0.0).all()):
        return
    w = values.to_numpy() if isinstance(values, pk.View) else values
    if log:
        refuse(np.isnan(w) | (w == np.inf), w, name, "finite numbers or -inf", FiniteError)
    else:
        refuse(~np.isfinite(w), w, name, "finite weights", FiniteError)
        refuse(w < 0, w, name, "weights of at least 0 (or give log_weights=)")
    degenerate = np.flatnonzero(largest == lowest)
    if degenerate.size and not degenerate_allowed:
        where = f"{name} are" if len(values.shape) == 1 else f"{name}[{degenerate[0]}] are"
        raise InputError(
            f"{where} all {'-inf' if log else 'zero'}; expected at least one positive weight, or "
            "on_degenerate='uniform'"
        )
