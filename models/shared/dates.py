"""Conversion of dates and times to NumPy: from pandas, with or without time zones, and from strings."""

import datetime
import re
from typing import Literal, TypeAlias

import numpy as np

from portable.errors import DTypeError, FiniteError, InputError, ShapeError

from .checks import UNNAMED, check_choice

_DAY = r"(\d{1,4})(?P<mark>[-/.])(\d{1,2})(?P=mark)(\d{1,4})"
_CLOCK = r"(?:[T ]+(\d{1,2}):([0-5]\d)(?::([0-5]\d|60)(?:[.,](\d{1,9}))?)?\s*([AaPp][Mm])?)?"
_TEXT = re.compile(rf"\s*{_DAY}{_CLOCK}\s*(Z|[+-]\d{{2}}:?\d{{2}})?\s*")
DateOrder: TypeAlias = Literal["year first", "month first", "day first"]
# positions of year, month and day in the parts of a date
ORDERS = {"year first": [1, 2, 3], "month first": [3, 1, 2], "day first": [3, 2, 1]}


def _with_kind(column):
    """Return a column, one of pyarrow as an array, and the kind of its dtype."""
    column = np.asarray(column) if hasattr(column, "to_pylist") else column
    return column, getattr(getattr(column, "dtype", None), "kind", None)


def _known(column):
    """Return the first entry that is not missing, or None."""
    return next((entry for entry in column if str(entry) not in UNNAMED), None)


def looks_dated(column):
    """Return True if a column contains dates: of NumPy, pandas or Python, or strings of which the first known
    one is a date."""
    column, kind = _with_kind(column)
    if kind == "M":
        return True
    if kind in ("f", "i", "u", "b") or not len(column):
        return False
    first = _known(column)
    return isinstance(first, (datetime.date, np.datetime64)) or (
        isinstance(first, str) and _TEXT.fullmatch(first) is not None
    )


def as_dates(column, name, order=None):
    """Return a column of dates and times in UTC.

    Parameters
    ----------
    column : array-like
        datetime64, pandas or Python dates, with or without a time zone, or strings: 2026-01-31, 2026/01/31
        12:30, optionally with Z or an offset such as +01:00, 1/31/2026 1:05 PM, 31.1.2026. Dates without a
        zone are not converted.
    name : str
        Name of the argument, for messages.
    order : {"year first", "month first", "day first"}, optional
        Order of the parts of dates in strings. If the year is last and no order is given, it follows from an
        entry with a day above 12.

    Returns
    -------
    ndarray of datetime64[us], shape (n,)

    Raises
    ------
    DTypeError, FiniteError, InputError
        An entry is not a date, is missing, or is ambiguous.
    """
    column, kind = _with_kind(column)
    if kind == "M":
        zoned = column.dt if hasattr(column, "dt") else column  # a Series, or an index or array
        if getattr(zoned, "tz", None) is not None:
            column = zoned.tz_convert("UTC")
            column = (column.dt if hasattr(column, "dt") else column).tz_localize(None)
        found = np.asarray(column).astype("datetime64[us]")
    else:
        entries = list(column)
        if isinstance(_known(entries), str):
            found = _of_text(entries, name, order and check_choice(order, "date_order", ORDERS))
        else:
            found = np.array(
                [_of_object(entry, name, row) for row, entry in enumerate(entries, 1)], "datetime64[us]"
            )
    missing = np.flatnonzero(np.isnat(found))
    if missing.size:
        raise FiniteError(
            f"{name}, row {missing[0] + 1} is no time; expected a date and time "
            f"({missing.size} such row{'s' * (missing.size > 1)})"
        )
    return found


def since_first(column, name, order, end, unit):
    """Return a column of dates, as of `as_dates`, in units since the first of them; the record's end, a date
    or None, in the same; and the first."""
    moments = as_dates(column, name, order)
    if not len(moments):
        raise ShapeError(f"{name} is empty; expected at least one date")
    first = moments.min()
    if end is not None:
        (end,) = as_dates(np.array([end]) if isinstance(end, np.datetime64) else [end], "end")
        end = float((end - first) / unit)
    return (moments - first) / unit, end, first


def _of_object(entry, name, row):
    if entry is None or entry != entry:  # NaT differs from itself
        return np.datetime64("NaT")
    if isinstance(entry, np.datetime64):
        return entry.astype("datetime64[us]")
    if isinstance(entry, datetime.datetime):
        if entry.tzinfo is not None:
            entry = entry.astimezone(datetime.UTC)
        return np.datetime64(entry.replace(tzinfo=None), "us")
    if isinstance(entry, datetime.date):
        return np.datetime64(entry, "us")
    raise DTypeError(
        f"{name}, row {row} is {entry!r} of type {type(entry).__name__}; expected a date and time"
    )


def _of_text(entries, name, order):
    """Return strings as dates: split into parts by one pattern, then converted by arithmetic on arrays."""
    parts = np.array([_parts_of(entry, name, row) for row, entry in enumerate(entries, 1)], np.int64)
    table, (hours, clocks) = parts[:, :4], parts[:, 4:].T
    if order is None:
        order = _order(table, table[:, 0].astype(bool), name)
    year, month, day = table[:, ORDERS[order]].T
    months = ((year - 1970) * 12 + month - 1).astype("datetime64[M]")
    start, after = months.astype("datetime64[D]"), (months + 1).astype("datetime64[D]")
    wrong = (year < 100) | (month < 1) | (month > 12) | (hours > 24)
    bad = np.flatnonzero(wrong | (day < 1) | (day > (after - start).astype(np.int64)))
    if bad.size:
        raise DTypeError(
            f"{name}, row {bad[0] + 1} is {entries[bad[0]]!r}, which is no date with the {order}; "
            "expected a day that is there, and a year of four digits"
        )
    return (start + (day - 1)).astype("datetime64[us]") + clocks.astype("timedelta64[us]")


def _parts_of(entry, name, row):
    """Return whether a string begins with a year, the three parts of its date, its hour, and the microseconds
    since midnight, in UTC if it has a zone."""
    parts = _TEXT.fullmatch(entry) if isinstance(entry, str) else None
    if parts is None:
        if str(entry).strip() in UNNAMED:
            raise FiniteError(f"{name}, row {row} is no time; expected a date and time")
        raise DTypeError(
            f"{name}, row {row} is {entry!r}; expected a date and time such as 2026-01-31T12:30 or "
            "1/31/2026 12:30"
        )
    first, _, second, third, hour, minute, seconds, fraction, half, zone = parts.groups()
    hour, minute = int(hour or 0), int(minute or 0)
    if half:
        hour = hour % 12 + 12 * (half.lower() == "pm")
    if zone not in (None, "Z"):
        minute -= int(f"{zone[0]}1") * (60 * int(zone[1:3]) + int(zone[-2:]))
    micro = int((fraction or "0").ljust(6, "0")[:6])
    clock = ((60 * hour + minute) * 60 + int(seconds or 0)) * 1_000_000 + micro
    return len(first) > 2, int(first), int(second), int(third), hour, clock


def _order(table, year_first, name):
    """Determine the order of day, month and year from the entries."""
    if year_first.all():
        return "year first"
    if year_first.any():
        row = int(np.flatnonzero(year_first != year_first[0])[0])
        raise InputError(
            f"{name}: row 1 and row {row + 1} begin with different parts of a date; expected one form "
            "throughout"
        )
    month_first, day_first = (table[:, 2] > 12).any(), (table[:, 1] > 12).any()
    if month_first and day_first:
        row = int(np.flatnonzero(table[:, 1] > 12)[0]), int(np.flatnonzero(table[:, 2] > 12)[0])
        raise InputError(
            f"{name}: row {row[0] + 1} has the day first, row {row[1] + 1} the month; expected one form "
            "throughout"
        )
    if not month_first and not day_first:
        raise InputError(
            f"{name} may have the month or the day first; give date_order='month first' or 'day first'"
        )
    return "month first" if month_first else "day first"
