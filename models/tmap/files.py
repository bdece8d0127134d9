"""Make runs from tables and files."""

from __future__ import annotations

import datetime
import os
from typing import Any, TypeAlias

import numpy as np

from ..shared import (
    DTypeError,
    FiniteError,
    InputError,
    OrderError,
    ShapeError,
    check_file,
    check_flag,
    check_labels,
    check_number,
    check_positive,
    looks_dated,
    need,
    numbers_in,
    read_npz,
    reading,
    refuse,
)
from ..shared.checks import check_unmasked
from ..shared.dates import DateOrder, since_first
from ..shared.files import check_csv, delimiter_of, first_line
from .runs import Runs

_NO_RUN = (
    ". Name the column of runs (run=, --run), or say that all gaps are of one run (run=None, --one-run) or"
    " each of its own (alone=True, --alone)"
)
_Moment: TypeAlias = float | str | datetime.date | np.datetime64


def from_frame(
    frame: Any,
    *,
    run: str | None = "run",
    gap: str = "gap",
    censored: str | None = None,
    resolution: float | None = None,
    upper: str | None = None,
    alone: bool = False,
) -> Runs:
    """Make runs from a table with a row for each gap.

    Parameters
    ----------
    frame : pandas.DataFrame, or mapping of column names to arrays
    run, gap : str
        Columns: the run of each gap (any values that can be sorted), and the gap. Gaps of a run keep their
        order. All are of one run if `run` is None.
    censored : str, optional
        Column of True or False: True if the run's last gap is still open. Its value in the run's last row
        counts.
    resolution : float, optional
        The gaps are rounded to multiples of this; see `Runs`.
    upper : str, optional
        Column of upper limits: each gap is between `gap` and this, and open if it is infinite.
    alone : bool
        Gaps have no order in time: each is a separate run, in place of `run` (`Runs.from_gaps`).

    Returns
    -------
    Runs
        In ascending order of the runs' names.

    Raises
    ------
    InputError, ShapeError, DTypeError, FiniteError
        A column is missing, has another length, or contains words or missing values; a gap is negative.
    """
    values, still = (
        numbers_in(_column(frame, gap), gap),
        None if censored is None else _column(frame, censored),
    )
    if upper is not None:
        high = numbers_in(_column(frame, upper), upper)
        _check_same(high, upper, values, gap)
        if censored is not None or resolution is not None:
            raise InputError("upper replaces censored and resolution; leave these out")
        wrong = np.flatnonzero(~(high > values))
        if wrong.size:
            k = wrong[0]
            raise InputError(f"{upper}[{k}] is {high[k]}, {gap}[{k}] {values[k]}; expected a higher limit")
        still, values = np.isinf(high), np.where(np.isinf(high), values, 0.5 * (values + high))
        resolution = np.where(still, 1.0, 2.0 * (high - values))
    if check_flag(alone, "alone"):
        return Runs.from_gaps(values, still, resolution=resolution)
    codes = _runs_of(frame, run, values, gap, _NO_RUN)
    order, lengths = np.argsort(codes, kind="stable"), np.bincount(codes)
    ends = np.cumsum(lengths) - 1
    if still is not None:
        _check_same(still, censored, values, gap)
        if upper is not None and still.sum() > still[order][ends].sum():
            raise InputError(f"{upper} is infinite within a run; only the last gap of a run is open")
        still = still[order][ends]
    resolution = resolution[order] if np.ndim(resolution) else resolution
    return Runs(values[order], lengths, still, resolution=resolution)


def from_events(
    frame: Any,
    *,
    time: str = "time",
    run: str | None = None,
    timeout: float | None = None,
    end: _Moment | None = None,
    censored: str | None = None,
    resolution: float | None = None,
    date_order: DateOrder | None = None,
) -> Runs:
    """Make runs from a table with a row for each event: a run's gaps are the times between its events.

    Parameters
    ----------
    frame : pandas.DataFrame, or mapping of column names to arrays
    time : str
        Column of numbers or of dates (NumPy's, pandas's with or without time zones, or text); gaps of dates
        are in seconds.
    run : str, optional
        Column of names, of users for example; all events are of one name if not given. Events of one name are
        sorted by time.
    timeout : float, optional
        A longer gap ends a run, and the next event begins another one of the same name.
    end : float or date, optional
        Time at which the record ended. The last run of each name is then censored: its last gap is open, from
        its last event to the end. With `timeout`, only if that gap is no longer than the time-out; other runs
        have ended.
    censored : str, optional
        With `end`: column of True or False, True if a name's last run continues. Its value in the name's last
        row counts.
    resolution : float, optional
        The gaps are rounded to multiples of this; see `Runs`.
    date_order : {"year first", "month first", "day first"}, optional
        Order of dates in text that can be read in two ways.

    Returns
    -------
    Runs
        Without those of a single event, which have no gap, unless `end` gives them an open one.

    Raises
    ------
    InputError, ShapeError, DTypeError, FiniteError
        A column is missing, has another length, or contains words or missing values; no two events are of one
        run; an event is after the end; `censored` is given without `end`.
    """
    times, end = _times(frame, time, end, date_order)
    codes = _runs_of(frame, run, times, time)
    still = _open_runs(frame, censored, times, time, end)
    if end is not None and times.max() > end:
        raise InputError(
            f"end is before {time}[{int(times.argmax())}], the last event, by {times.max() - end:g}; "
            "expected the time when the record ended"
        )
    order = np.lexsort((times, codes))
    times, codes = times[order], codes[order]
    gaps, same = np.diff(times), np.diff(codes) == 0
    if timeout is not None:
        same &= gaps <= check_positive(timeout, "timeout")
    number = np.cumsum(np.append(False, ~same))  # number of each event's run
    gaps, number_of_gap = gaps[same], number[1:][same]
    goes_on = np.zeros(len(times), bool)
    if end is not None:
        goes_on = np.append(np.diff(codes) != 0, True)  # the last event of each name
        if still is not None:
            goes_on &= still[order]
        if timeout is not None:
            goes_on &= end - times <= timeout
        gaps = np.append(gaps, (end - times)[goes_on])
        number_of_gap = np.append(number_of_gap, number[goes_on])
    if not len(gaps):
        raise InputError(f"no two events are of one run: '{time}' and '{run}' define no gap")
    open_end = np.zeros(number[-1] + 1, bool)
    open_end[number[goes_on]] = True
    in_order = np.argsort(number_of_gap, kind="stable")  # moves open gaps to the ends of their runs
    kept, lengths = np.unique(number_of_gap, return_counts=True)
    censored = None if end is None else open_end[kept]
    return Runs(gaps[in_order], lengths, censored, resolution=resolution)


def _times(frame, time, end, date_order):
    """Return a column of times as numbers, dates in seconds from the first one, and the record's end in the
    same units, or None."""
    column = _column(frame, time, raw=True)
    if looks_dated(column):
        times, end, _ = since_first(column, time, date_order, end, np.timedelta64(1, "s"))
    else:
        times = numbers_in(column, time)
        if end is not None:
            end = check_number(end, "end")
    refuse(~np.isfinite(times), times, time, "finite times", FiniteError)
    return times, end


def _open_runs(frame, censored, times, time, end):
    """Return the column of names whose last runs continue, or None."""
    if censored is None:
        return None
    if end is None:
        raise InputError(
            f"censored names the column '{censored}', but how long its runs have been open is not known: give"
            " end, when the record ended"
        )
    still = _column(frame, censored)
    _check_same(still, censored, times, time)
    if still.dtype != bool:
        raise DTypeError(f"column '{censored}' must hold True or False, got dtype {still.dtype}")
    return still


def read(
    path: str | os.PathLike[str],
    *,
    gap: str = "gap",
    run: str | None = "run",
    time: str | None = None,
    timeout: float | None = None,
    end: _Moment | None = None,
    censored: str | None = None,
    resolution: float | None = None,
    upper: str | None = None,
    date_order: DateOrder | None = None,
    alone: bool = False,
) -> Runs:
    """Read runs from a file.

    Parameters
    ----------
    path : str or Path
        .npz with arrays of gaps and of run lengths, called `x` and `K` or `values` and `lengths`, and perhaps
        `censored`; or .csv with a header or .parquet, for which pandas must be installed.
    gap : str, default "gap"
        Column of gaps. A table then has a row for each gap; see `from_frame`.
    run : str or None, default "run"
        Column of run names. All gaps, or events, are of one run if it is None.
    time : str, optional
        Column of event times, in place of gaps. A table then has a row for each event; see `from_events`.
    timeout : float, optional
        With `time`: a longer gap ends a run.
    end : float or date, optional
        With `time`: when the record ended, a number or a date; runs still open then are censored.
    censored : str, optional
        Column that is true where a run's last gap is still open.
    resolution : float, optional
        Gaps are rounded to multiples of this; see `Runs`.
    upper : str, optional
        Column of upper limits of gaps, of which `gap` has the lower.
    date_order : {"year first", "month first", "day first"}, optional
        Order of ambiguous dates in text.
    alone : bool
        Gaps have no order in time: each is a separate run.

    Returns
    -------
    Runs

    Raises
    ------
    InputError, ShapeError, DTypeError, FiniteError
        The file does not exist or has other contents; `from_frame` or `from_events` refuses an argument.
    """
    kind = check_file(path, (".npz", ".csv", ".csv.gz", ".txt", ".parquet"))
    if kind == ".npz":
        return _from_npz(path, resolution)
    pandas = need("pandas", "files", f"reading '{path}'")
    if kind != ".parquet":
        check_csv(path, [name for name in (gap, run, time, censored, upper) if name is not None])
    with reading(path):
        apart = "," if kind == ".parquet" else delimiter_of(first_line(path))
        how = {"sep": apart, "decimal": "." if apart == "," else ","}
        frame = pandas.read_parquet(path) if kind == ".parquet" else pandas.read_csv(path, **how)
    of_gaps, of_events = {"upper": upper, "alone": alone or None}, {"timeout": timeout, "end": end}
    kind, others = ("gaps", of_events) if time is None else ("events", of_gaps)
    for name, value in others.items():
        if value is not None:
            raise InputError(f"{name} is not for a table of {kind}, which time tells; leave one of them out")
    how = {"run": run, "censored": censored, "resolution": resolution}
    if time is None:
        return from_frame(frame, gap=gap, upper=upper, alone=alone, **how)
    return from_events(frame, time=time, date_order=date_order, **of_events, **how)


def _from_npz(path, resolution):
    arrays = read_npz(path)
    for values, lengths in (("x", "K"), ("values", "lengths")):
        if values in arrays and lengths in arrays:
            return Runs(arrays[values], arrays[lengths], arrays.get("censored"), resolution=resolution)
    raise InputError(
        f"'{path}' has the arrays {', '.join(arrays) or 'none'}; expected 'values' and 'lengths' (or "
        "'x' and 'K')"
    )


def _check_same(column, name, other, its_name):
    if column.shape != other.shape:
        raise ShapeError(
            f"column '{name}' has shape {column.shape}, '{its_name}' {other.shape}; expected the same"
        )


def _column(frame, name, raw=False, hint=""):
    """Return a column as an array, or with `raw` unchanged."""
    try:
        column = frame[name]
    except (KeyError, TypeError, IndexError) as error:
        columns = getattr(frame, "columns", None)
        columns = list(frame) if columns is None and hasattr(frame, "keys") else columns
        if columns is None:
            raise DTypeError(
                f"frame must be a pandas.DataFrame or a mapping of columns, got {type(frame).__name__}"
            ) from error
        raise InputError(
            f"there is no column {name!r}; there are {', '.join(map(repr, columns))}{hint}"
        ) from error
    column = column if raw else np.asarray(check_unmasked(column, name))
    if not len(column):
        raise ShapeError(f"column '{name}' is empty; expected at least one row")
    return column


def _runs_of(frame, run, values, beside, hint=""):
    """Return the number of each row's run, by their ascending names; `values` are the column `beside`."""
    if run is None:
        return np.zeros(len(values), np.int64)
    names = check_labels(_column(frame, run, hint=hint), run)
    _check_same(names, run, values, beside)
    try:
        return np.unique(names, return_inverse=True)[1]
    except TypeError as error:
        raise OrderError(f"column {run!r} cannot be sorted: {error}") from error
