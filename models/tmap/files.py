"""Runs from tables and files, and models to and from files."""

from __future__ import annotations

import json

import numpy as np

from portable.errors import DTypeError, FiniteError, InputError, OrderError, ShapeError

from ..checks import as_numbers, check_number
from ..files import check_csv, check_file, read_json, read_npz, reading, write
from .model import TransientMAP
from .runs import Runs


def from_frame(frame, *, run="run", gap="gap", censored=None):
    """Runs from a table with a row for each gap.

    Parameters
    ----------
    frame : pandas.DataFrame, or mapping of column names to arrays
    run, gap : str
        Columns: which run a gap belongs to (anything that can be sorted), and the gap. Gaps of a run keep their order.
    censored : str, optional
        Column of True or False: whether the run's last gap is still open. Its value in the run's last row counts.

    Returns
    -------
    Runs
        In ascending order of the runs' names.

    Raises
    ------
    InputError, ShapeError, DTypeError, FiniteError
        A column that is not there, of another length, of words or with gaps in it; a gap that is negative.
    """
    names, values = _column(frame, run), as_numbers(_column(frame, gap), gap, 1)
    _check_same(names, run, values, gap)
    order, lengths = _groups(names, run)
    ends = np.cumsum(lengths) - 1
    still = None
    if censored is not None:
        still = _column(frame, censored)
        _check_same(still, censored, values, gap)
        still = still[order][ends]
    return Runs(values[order], lengths, still)


def from_events(frame, *, time="time", run=None, timeout=None):
    """Runs from a table with a row for each event: a run's gaps are the times between its events.

    Parameters
    ----------
    frame : pandas.DataFrame, or mapping of column names to arrays
    time : str
        Column of numbers or of dates; gaps of dates are in seconds.
    run : str, optional
        Column of names, of users for example; all events are of one if not given. Events of one name are sorted by time.
    timeout : float, optional
        A longer gap ends a run, and the next event begins another one of the same name.

    Returns
    -------
    Runs
        Without those of a single event, which have no gap.

    Raises
    ------
    InputError, ShapeError, DTypeError, FiniteError
        A column that is not there, of another length, of words or with gaps in it; no two events of one run.
    """
    times = np.asarray(_column(frame, time))
    if times.dtype.kind == "M":
        if np.isnat(times).any():
            raise FiniteError(f"{time}[{int(np.isnat(times).argmax())}] is no date")
        times = (times - times.min()) / np.timedelta64(1, "s")
    times = as_numbers(times, time, 1).astype(np.float64)
    if not np.isfinite(times).all():
        at = int((~np.isfinite(times)).argmax())
        raise FiniteError(f"{time}[{at}] is {times[at]}; finite times are wanted")
    names = np.zeros(len(times), np.int64) if run is None else _column(frame, run)
    _check_same(names, run, times, time)
    _, codes = np.unique(names, return_inverse=True)
    order = np.lexsort((times, codes))
    gaps, same = np.diff(times[order]), np.diff(codes[order]) == 0
    if timeout is not None:
        same &= gaps <= check_number(timeout, "timeout", above=0.0)
    if not same.any():
        raise InputError(f"no two events are of one run: '{time}' and '{run}' tell of no gap")
    number = np.cumsum(np.append(True, ~same))[1:][same]  # of the run of each gap
    return Runs(gaps[same], np.unique(number, return_counts=True)[1])


def read(path, *, gap="gap", run="run", time=None, timeout=None, censored=None):
    """Runs from a file.

    Parameters
    ----------
    path : str or Path
        .npz with arrays of gaps and of run lengths, called `x` and `K` or `values` and `lengths`, and perhaps
        `censored`; or .csv with a header, for which pandas must be installed.
    gap, run, censored : str
        Columns of a .csv with a row for each gap; see `from_frame`.
    time, timeout : str and float, optional
        For a .csv with a row for each event; see `from_events`.

    Returns
    -------
    Runs

    Raises
    ------
    InputError, ShapeError, DTypeError, FiniteError
        A file that is not there or holds something else; what `from_frame` and `from_events` refuse.
    """
    if check_file(path, (".npz", ".csv", ".csv.gz", ".txt")) == ".npz":
        return _from_npz(path)
    try:
        import pandas
    except ImportError as error:
        raise InputError(f"pandas is wanted to read '{path}': pip install 'portable-kernels[files]'") from error
    check_csv(path, [name for name in (gap, run, time, censored) if name is not None])
    with reading(path):
        frame = pandas.read_csv(path)
    if time is None:
        return from_frame(frame, run=run, gap=gap, censored=censored)
    return from_events(frame, time=time, run=run if run in frame else None, timeout=timeout)


def _from_npz(path):
    arrays = read_npz(path)
    for values, lengths in (("x", "K"), ("values", "lengths")):
        if values in arrays and lengths in arrays:
            return Runs(arrays[values], arrays[lengths], arrays.get("censored"))
    raise InputError(f"'{path}' has the arrays {', '.join(arrays) or 'none'}; 'values' and 'lengths' (or 'x' and 'K') are wanted")


def save(path, model):
    """Write a TransientMAP as JSON."""
    parts = {name: getattr(model, name).tolist() for name in ("alpha", "orders", "rates", "switching")}
    write(path, json.dumps(parts, indent=1) + "\n", "path")


def load(path):
    """The TransientMAP that `save` wrote."""
    parts = read_json(path)
    try:
        return TransientMAP(**{name: parts[name] for name in ("alpha", "orders", "rates", "switching")})
    except InputError:
        raise
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"'{path}' holds no model: {type(error).__name__}: {error}") from error


def _check_same(column, name, other, its_name):
    if column.shape != other.shape:
        raise ShapeError(f"column '{name}' has shape {column.shape}, '{its_name}' {other.shape}; the same is wanted")


def _column(frame, name):
    """A column as an array."""
    try:
        return np.asarray(frame[name])
    except (KeyError, TypeError, IndexError) as error:
        columns = getattr(frame, "columns", None)
        columns = list(frame) if columns is None and hasattr(frame, "keys") else columns
        if columns is None:
            raise DTypeError(f"frame must be a pandas.DataFrame or a mapping of columns, got {type(frame).__name__}") from error
        raise InputError(f"there is no column {name!r}; there are {', '.join(map(repr, columns))}") from error


def _groups(names, column):
    """Rows sorted by name, in their own order within each, and the number of rows of each name."""
    if names.dtype.kind == "f" and np.isnan(names).any():
        raise FiniteError(f"{column}[{int(np.isnan(names).argmax())}] is missing; every row belongs to a run")
    try:
        _, codes, lengths = np.unique(names, return_inverse=True, return_counts=True)
    except TypeError as error:
        raise OrderError(f"column {column!r} cannot be sorted: {error}") from error
    return np.argsort(codes, kind="stable"), lengths
