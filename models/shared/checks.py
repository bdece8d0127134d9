"""Checks of what users pass in, shared by the methods. Each names the argument, what was got and what is
wanted.

A method runs all of its checks before anything is computed or copied to a device.
"""

import math
import numbers
from pathlib import Path

import numpy as np

import portable as pk
from portable.errors import DTypeError, FiniteError, InputError, ShapeError

from .extras import need
from .files import is_same_file
from .mapped import Streamed, opened


_FEW = 64  # numbers that Python looks at sooner than NumPy does


def check_outputs(options, *names, inputs=()):
    """Refuse, before anything is computed, files of a command whose folders do not exist, those that it
    reads, and a --plot that Matplotlib has no format for.

    Parameters
    ----------
    options : argparse.Namespace
        An option that is missing or None asks for no file.
    names, inputs : str
        Options that name files to be written, and to be read.
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
                f"--plot is {options.plot}; a name that ends in one of {', '.join(known)} is wanted"
            )


def refuse_mask(value, name):
    """Refuse a masked array: NumPy's functions would go on with what is below the mask."""
    if hasattr(value, "mask") and hasattr(value, "filled"):
        raise DTypeError(
            f"{name} is a masked array, whose mask would be lost: pass {name}.filled(...), or"
            f" {name}.compressed()"
        )


def as_numbers(value, name, n_dims=None):
    """`value`, an array-like, a View, or what `portable.models.shared.mapped` reads, as a host array of real
    numbers, with that many dimensions if given."""
    if type(value) is not np.ndarray:  # most are, of which the rest need not be asked
        value = value.to_numpy() if isinstance(value, pk.View) else opened(value, name)
        if isinstance(value, Streamed):
            value = value[:]
        refuse_mask(value, name)
        if hasattr(value, "toarray"):
            raise DTypeError(
                f"{name} is sparse, of type {type(value).__name__}; a dense array is wanted: {name}.toarray()"
            )
    try:
        array = np.asarray(value)
    except ValueError as error:  # ragged rows
        raise ShapeError(f"{name} is not a rectangular array: {error}") from error
    if array.dtype.kind not in "fiu":
        raise DTypeError(f"{name} must hold real numbers, got dtype {array.dtype}")
    if n_dims is not None and array.ndim != n_dims:
        raise ShapeError(f"{name} has shape {array.shape}; {n_dims} dimension{'s' * (n_dims != 1)} wanted")
    return array


def first_not_finite(array):
    """Return the index of the first number that is not finite, or None."""
    if array.size < _FEW and all(map(math.isfinite, array.ravel().tolist())):
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(array.sum()):  # one pass without a copy; the sum of finite numbers may be infinite too
            return None
    bad = np.argwhere(~np.isfinite(array))
    return tuple(bad[0].tolist()) if bad.size else None


def check_finite(array, name):
    """Return the array as float64, refused at its first number that is not finite."""
    index = first_not_finite(array)
    if index is not None:
        raise FiniteError(
            f"{name}[{', '.join(map(str, index))}] is {array[index]}; finite numbers are wanted"
        )
    return array.astype(np.float64)


def check_numbers(value, name, n_dims=None):
    """Return an array-like, as `as_numbers` does, as finite float64."""
    return check_finite(as_numbers(value, name, n_dims), name)


def check_count(value, name, least=1, most=None):
    """Return a whole number between two bounds, both included."""
    if value.__class__ is not int and (
        isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Integral)
    ):
        raise DTypeError(f"{name} must be an integer, got {value!r} of type {type(value).__name__}")
    if value < least or (most is not None and value > most):
        raise InputError(
            f"{name} is {value}; {f'at least {least}' if most is None else f'{least} to {most}'} is wanted"
        )
    return int(value)


def check_seed(seed):
    """Return a whole number from 0 to 2^64 - 1."""
    return check_count(seed, "seed", 0, 2**64 - 1)


def check_number(value, name, above=-np.inf, least=-np.inf):
    """Return a finite number above one bound and not below the other."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real):
        raise DTypeError(f"{name} must be a number, got {value!r} of type {type(value).__name__}")
    if not np.isfinite(value):
        raise FiniteError(f"{name} is {value}; a finite number is wanted")
    if value < least or value <= above:
        bound = f"at least {least}" if value < least else f"more than {above}"
        raise InputError(f"{name} is {value}; {bound} is wanted")
    return float(value)


def check_share(value, name):
    """Return a share between 0 and 1."""
    if not 0.0 < check_number(value, name) < 1.0:
        raise InputError(f"{name} is {value}; a share between 0 and 1 is wanted: 0.95 for 95 %")
    return float(value)


def check_choice(value, name, choices):
    if not isinstance(value, str) or value not in choices:
        raise InputError(f"{name} is {value!r}; wanted one of {', '.join(map(repr, choices))}")
    return value


def check_flag(value, name):
    if not isinstance(value, (bool, np.bool_)):
        raise DTypeError(f"{name} must be True or False, got {value!r} of type {type(value).__name__}")
    return bool(value)


def check_kind(value, name, kind, wanted):
    """Refuse another type: `name` must `wanted`, such as "be hawkes.Likelihood"."""
    if not isinstance(value, kind):
        raise DTypeError(f"{name} must {wanted}, got {type(value).__name__}")
    return value
