"""Checks of arguments, shared by the methods. Each message states the argument, its value, and the valid
values.

A method runs all of its checks before anything is computed or copied to a device.
"""

import math
from numbers import Integral, Real
from pathlib import Path
from typing import get_args

import numpy as np

import portable as pk
from portable.errors import DTypeError, FiniteError, InputError, ShapeError

from .extras import need
from .files import is_same_file, numbers
from .mapped import Streamed, opened


UNNAMED = "", "nan", "NaN", "None", "<NA>", "NaT"  # missing labels, as text
_FEW = 64  # number of elements below which a test in Python is faster than in NumPy


def check_outputs(options, *names, inputs=()):
    """Raise, before anything is computed, for output files of a command whose folders do not exist or that
    are also input files, and for a --plot whose format Matplotlib does not support.

    Parameters
    ----------
    options : argparse.Namespace
        An option that is missing or None has no file.
    names, inputs : str
        Names of the options for output files and for input files.
    """
    for name in names:
        path = getattr(options, name, None)
        if path and not Path(path).absolute().parent.is_dir():
            raise InputError(f"--{name} is {path}: there is no folder {Path(path).absolute().parent}")
        for read in filter(None, (getattr(options, one, None) for one in inputs)):
            if path and is_same_file(path, read):
                raise InputError(f"--{name} is {path}, the file that is read; name another one")
    if getattr(options, "plot", None):
        figure = need("matplotlib.figure", "plot", "figures").Figure()
        known = sorted(figure.canvas.get_supported_filetypes())
        if Path(options.plot).suffix[1:] not in known:
            raise InputError(
                f"--plot is {options.plot}; expected a name that ends in one of {', '.join(known)}"
            )


def as_numbers(value, name, n_dims=None):
    """Return an array-like, a View, or an input of `portable.models.shared.mapped` as a host array of real
    numbers; raise unless it has n_dims dimensions, if given."""
    if type(value) is not np.ndarray:  # fast path: most values are arrays
        value = value.to_numpy() if isinstance(value, pk.View) else opened(value, name)
        if isinstance(value, Streamed):
            value = value[:]
        check_unmasked(value, name)
        if hasattr(value, "toarray"):
            raise DTypeError(
                f"{name} is sparse, of type {type(value).__name__}; expected a dense array: {name}.toarray()"
            )
    try:
        array = np.asarray(value)
    except ValueError as error:  # ragged rows
        raise ShapeError(f"{name} is not a rectangular array: {error}") from error
    if array.dtype == object and hasattr(value, "select_dtypes"):  # types of pandas's own
        if array.shape == value.select_dtypes("number").shape:
            array = value.to_numpy(np.float64, na_value=np.nan)
    if array.dtype.kind not in "fiu":
        raise DTypeError(f"{name} must hold real numbers, got dtype {array.dtype}")
    if n_dims is not None and array.ndim != n_dims:
        raise ShapeError(f"{name} has shape {array.shape}; expected {n_dims} dimension{'s' * (n_dims != 1)}")
    return array


def check_unmasked(value, name):
    """Return a value unless it is a masked array, of which NumPy would use the masked values."""
    if hasattr(value, "mask") and hasattr(value, "filled"):
        raise DTypeError(
            f"{name} is a masked array, whose mask would be lost: pass {name}.filled(...), or"
            f" {name}.compressed()"
        )
    return value


def numbers_in(column, name, path="table"):
    """Return a column of a table as float64, also if it holds text."""
    array = np.asarray(column)
    if array.dtype.kind in "OU":
        return numbers(list(map(str, array)), name, path)
    return as_numbers(column, name, 1).astype(np.float64)


def check_labels(value, name):
    """Return the labels of rows as an array; raise if one is missing: None, NaN, NaT, or empty."""
    labels = np.asarray(check_unmasked(value, name))
    if labels.ndim != 1 or not labels.size:
        raise ShapeError(f"{name} has shape {labels.shape}; expected a label for each row")
    if labels.dtype.kind not in "iub":
        missing = np.isin(labels.astype(str), UNNAMED)
        if missing.any():
            raise FiniteError(f"{name}[{missing.argmax()}] is missing; expected a label for each row")
    return labels


def first_not_finite(array):
    """Return the index of the first number that is not finite, or None."""
    if array.size < _FEW and all(map(math.isfinite, array.ravel().tolist())):
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(array.sum()):  # one pass without a copy; the sum of finite numbers may be infinite too
            return None
    bad = np.argwhere(~np.isfinite(array))
    return tuple(bad[0].tolist()) if bad.size else None


def refuse(wrong, values, name, expected, error=InputError):
    """Raise for the first of some values that is `wrong`, a mask."""
    if wrong.any():
        index = np.argwhere(wrong)[0].tolist()
        raise error(f"{name}{index or ''} is {values[tuple(index)]}; expected {expected}")


def check_finite(array, name):
    """Return the array as float64; raise, with the index, if a number is not finite."""
    index = first_not_finite(array)
    if index is not None:
        raise FiniteError(f"{name}{list(index)} is {array[index]}; expected finite numbers")
    return array.astype(np.float64)


def check_numbers(value, name, n_dims=None):
    """Return an array-like as float64, like `as_numbers`; raise if a number is not finite."""
    return check_finite(as_numbers(value, name, n_dims), name)


def check_each(values, name, n, what="events", n_dims=1):
    """Return numbers as float64; raise unless there are n of them, or rows, one for each of n events."""
    values = check_numbers(values, name, n_dims)
    if len(values) != n:
        raise ShapeError(f"{name} has {len(values)} entries for {n} {what}; expected one each")
    return values


def check_count(value, name, least=1, most=None):
    """Return an integer; raise unless it is from `least` to `most`."""
    if value.__class__ is not int and (
        isinstance(value, (bool, np.bool_)) or not isinstance(value, Integral)
    ):
        raise DTypeError(f"{name} must be an integer, got {value!r} of type {type(value).__name__}")
    if value < least or (most is not None and value > most):
        raise InputError(
            f"{name} is {value}; expected {f'at least {least}' if most is None else f'{least} to {most}'}"
        )
    return int(value)


def check_seed(seed):
    """Return an integer; raise unless it is from 0 to 2^64 - 1."""
    return check_count(seed, "seed", 0, 2**64 - 1)


def generator_of(seed):
    """Return a generator of random numbers from a seed, as of `check_seed`."""
    return np.random.default_rng(check_seed(seed))


def check_number(value, name, above=-np.inf, least=-np.inf):
    """Return a float; raise unless it is finite, > above and >= least."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Real):
        raise DTypeError(f"{name} must be a number, got {value!r} of type {type(value).__name__}")
    if not np.isfinite(value):
        raise FiniteError(f"{name} is {value}; expected a finite number")
    if value < least or value <= above:
        bound = f"at least {least}" if value < least else f"more than {above}"
        raise InputError(f"{name} is {value}; expected {bound}")
    return float(value)


def check_positive(value, name):
    """Return a float; raise unless it is finite and > 0."""
    return check_number(value, name, above=0.0)


def check_share(value, name):
    """Return a float; raise unless it is between 0 and 1."""
    if not 0.0 < check_number(value, name) < 1.0:
        raise InputError(f"{name} is {value}; expected a share between 0 and 1: 0.95 for 95 %")
    return float(value)


def check_fractions(values, name, n_dims=None):
    """Return numbers from 0 to 1, both included, as float64."""
    values = check_numbers(values, name, n_dims)
    refuse((values < 0.0) | (values > 1.0), values, name, "0 to 1")
    return values


def check_choice(value, name, choices):
    """Return a value; raise unless it is one of `choices`: of a `Literal` type or a collection."""
    choices = get_args(choices) or choices
    if not isinstance(value, str) or value not in choices:
        raise InputError(f"{name} is {value!r}; expected one of {', '.join(map(repr, choices))}")
    return value


def check_flag(value, name):
    if not isinstance(value, (bool, np.bool_)):
        raise DTypeError(f"{name} must be True or False, got {value!r} of type {type(value).__name__}")
    return bool(value)


def check_kind(value, name, kind, wanted):
    """Return a value; raise unless it is of type `kind`: `name` must `wanted`, such as "be
    hawkes.Likelihood"."""
    if not isinstance(value, kind):
        raise DTypeError(f"{name} must {wanted}, got {type(value).__name__}")
    return value
