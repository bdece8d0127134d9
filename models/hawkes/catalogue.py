"""Read events from CSV (also gzipped), Parquet, npz or a data frame, with named columns, stated units,
dates, names and marks; and join results to the table."""

from __future__ import annotations

import datetime
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from ..shared import (
    Array,
    ArrayLike,
    FiniteError,
    Floats,
    Frozen,
    InputError,
    ShapeError,
    check_choice,
    check_file,
    check_flag,
    check_kind,
    check_number,
    check_positive,
    looks_dated,
    need,
    numbers_in,
    read_csv,
    read_npz,
    reading,
    warn,
    write_csv,
)
from ..shared.dates import DateOrder, since_first
from .likelihood import Likelihood
from .regions import read_polygon


LengthUnit: TypeAlias = Literal["km", "m", "mile"]
TimeUnit: TypeAlias = Literal["h", "min", "s", "d"]
LENGTHS_KM = {"km": 1.0, "m": 1e-3, "mile": 1.609344}
TIMES_H = {"h": 1.0, "min": 1 / 60, "s": 1 / 3600, "d": 24.0}
_EARTH_KM = 6371.0088  # mean radius (IUGG)
_LEAST_SCALE = 1.0 / 1.05  # distances on the plane are off by at most 5%
_ARC = 0.25  # longest edge of a projected polygon, degrees: straight edges are then off by at most 10 metres
_WORDS = {
    "min": "min minute minutes",
    "s": "s sec second seconds",
    "d": "d day days",
    "h": "h hr hour hours",
    "km": "km kilometres kilometers",
    "m": "m metres meters",
    "mile": "mi mile miles",
}


def read_table(source, wanted):
    """Return a name of the source for messages, and the wanted columns, of a file or of a table in memory."""

    def pick(names):
        missing = [name for name in wanted if name not in names]
        if missing:
            there = ", ".join(map(str, names)) or "none"
            where = "the table" if in_memory else f"'{source}'"
            hint = "" if in_memory else ". Name the columns of places and time."
            raise InputError(f"{where} has no column '{missing[0]}'; it has: {there}{hint}")
        return list(dict.fromkeys(wanted))

    names = getattr(source, "column_names", getattr(source, "columns", None))  # those of pyarrow first
    names = source.keys() if names is None and hasattr(source, "keys") else names
    in_memory = names is not None
    table = {name: source[name] for name in pick(list(names))} if in_memory else _of_file(source, pick)
    name = "table" if in_memory else source
    lengths = {column: np.shape(values) for column, values in table.items()}
    first, length = next(iter(lengths.items()))
    for column, shape in lengths.items():
        if len(shape) != 1 or shape != length:
            raise InputError(
                f"'{name}': column '{column}' has shape {shape}, '{first}' {length}; expected one "
                "number per event"
            )
    return name, table


def _of_file(path, pick):
    path = Path(check_kind(path, "source", (str, os.PathLike), "be a path, or a table with names of columns"))
    kind = check_file(path, (".csv", ".csv.gz", ".parquet", ".npz"))
    if kind == ".npz":
        return read_npz(path, pick)
    if kind != ".parquet":
        cells = read_csv(path)
        return {name: cells[name] for name in pick(list(cells))}
    with reading(path):
        table = need("pyarrow.parquet", "files", "Parquet files").read_table(path)
        return {name: table.column(name).to_numpy() for name in pick(table.column_names)}


def numbers_of(column, name, path):
    """Return a column as float64; raise FiniteError with the row of the first entry that is not a finite
    number."""
    values = numbers_in(column, name, path)
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        entry = np.asarray(column)[bad[0]] or "empty"
        raise FiniteError(
            f"'{path}', column '{name}', row {bad[0] + 1} is {entry}; expected a finite number "
            f"({bad.size} such row{'s' * (bad.size > 1)})"
        )
    return values


def middle_of(degrees):
    """Return the centre, longitude and latitude, of events on the sphere."""
    longitude, latitude = np.radians(degrees).T
    x, y = np.cos(latitude) * [np.cos(longitude), np.sin(longitude)]
    middle = math.atan2(np.sin(latitude).mean(), math.hypot(x.mean(), y.mean()))
    return np.degrees([math.atan2(y.mean(), x.mean()), middle])


def project(degrees, names, centre):
    """Project longitude and latitude to kilometres east and north of a centre, by Lambert's azimuthal
    equal-area projection.

    At an angle c from the centre, lengths are multiplied by cos(c / 2) along the radius and 1 / cos(c / 2)
    across it. In a disc of radius c about the centre, each plane distance divided by that of the great circle
    is between these two factors.
    """
    for column, name, most in zip(degrees.T, names, (360.0, 90.0)):
        bad = np.flatnonzero(np.abs(column) > most)
        if bad.size:
            raise InputError(
                f"column '{name}', row {bad[0] + 1} is {column[bad[0]]}; expected -{most:g} to {most:g} "
                "degrees (longitude comes first)"
            )
    east, latitude = np.radians(degrees - [centre[0], 0.0]).T
    sine, cosine = math.sin(math.radians(centre[1])), math.cos(math.radians(centre[1]))
    up, level = np.sin(latitude), np.cos(latitude) * np.cos(east)
    halves = np.sqrt(np.maximum(0.5 * (1.0 + sine * up + cosine * level), 1e-30))  # cos(c / 2)
    if halves.min() < _LEAST_SCALE:
        raise InputError(
            f"columns {', '.join(names)} reach {2.0 * math.degrees(math.acos(halves.min())):.3g} degrees from"
            f" their centre, and plane distances would be off by {1.0 / halves.min() - 1.0:.0%}; expected a"
            f" region within {2.0 * math.degrees(math.acos(_LEAST_SCALE)):.0f} degrees of its centre"
        )
    return (
        _EARTH_KM
        * np.stack([np.cos(latitude) * np.sin(east), cosine * up - sine * level], 1)
        / halves[:, None]
    )


def doubts_of_units(names, unit, units):
    """Yield the columns whose names mention another unit: t_minutes read as hours is wrong by a factor of
    sixty."""
    for name in names:
        words = name.lower().replace("-", "_").split("_")[1:] or [name.lower()]
        for other in units:
            if other != unit and {*words} & {*_WORDS[other].split()}:
                yield f"column '{name}' is read as {unit}, but its name suggests {other}; pass the unit"


def doubts_of_degrees(names, locations):
    words = " ".join(names).lower()
    if "lon" in words and "lat" in words:
        yield (
            f"columns {', '.join(names)} look like degrees, but are read as lengths (they span"
            f" {', '.join(f'{span:.3g}' for span in np.ptp(locations, axis=0))}); pass lonlat to project"
            " them"
        )


def doubts_of_rows(locations, times):
    rows = np.column_stack([times, locations])
    repeated = len(rows) - len(np.unique(rows, axis=0))
    if repeated and locations.size:
        yield (
            f"{repeated} of {len(rows)} events repeat the place and time of another; events at one time do"
            " not excite each other, but each counts in the background"
        )
    if times[-1] > 2e2 * 8766:
        yield f"events span {times[-1] / 8766:.0f} years; are the times in another unit?"
    gaps = np.diff(times)
    gaps = gaps[gaps > 0]
    if gaps.size >= 100 and float(np.median(gaps)) >= 1.0 and np.allclose(gaps, np.rint(gaps), atol=1e-9):
        yield (
            f"every time is a whole number of hours (median gap {np.median(gaps):g}): hours, or minutes or"
            " seconds that are read as hours?"
        )


_HOUR = np.timedelta64(1, "h")


class Catalogue(Frozen, eq=False):
    """Events in the order of time, with the columns of their table.

    Attributes
    ----------
    locations : ndarray, shape (n_events, n_dims), kilometres
    times : ndarray, shape (n_events,), hours since the first
    rows : ndarray of int, shape (n_events,)
        The row of the table that each event comes from, from 0.
    ids : ndarray, shape (n_events,)
        Names of the events from their column; without one, the numbers of the rows from 1.
    marks, reference_mark : ndarray, float or None
    horizon_h : float or None
        End of the record, hours since the first event; None if it was not given.
    origin : numpy.datetime64 or None
        Date and time of the first event, if times are dates.
    columns : dict
        The table's columns of places and times, unchanged, in the table's order.
    index : pandas.Index or None
        Of the table, if it was a DataFrame.
    centre : ndarray, shape (2,), or None
        Longitude and latitude of the point (0, 0), if places were degrees.
    """

    locations: Array
    times: Array
    rows: Array
    ids: Array
    marks: Array | None
    reference_mark: Array | float | None
    horizon_h: float | None
    origin: np.datetime64 | None
    columns: dict[str, Array]
    index: Any = None
    centre: Floats | None = None

    def polygon(self, source: Any) -> Any:
        """Return a polygon in kilometres, with the projection of the places.

        Parameters
        ----------
        source : as for `fit_background(polygon=...)`
            In longitudes and latitudes, if the places were.

        Returns
        -------
        shapely.Polygon or shapely.MultiPolygon

        Raises
        ------
        InputError, DTypeError, FiniteError
            The source is no polygon, or exceeds 180 or 90 degrees; shapely is not installed.
        """
        shape = read_polygon(source)
        if self.centre is None:
            return shape
        names, shapely = (
            ("longitude of the polygon", "latitude of the polygon"),
            need("shapely", "maps", "polygons"),
        )
        return shapely.transform(
            shapely.segmentize(shape, _ARC), lambda degrees: project(degrees, names, self.centre)
        )

    def likelihood(self, **options: Any) -> Likelihood:
        """Return the likelihood of these events, with their marks and end of record.

        Parameters
        ----------
        **options
            Of `Likelihood`.

        Returns
        -------
        Likelihood

        Raises
        ------
        ShapeError, DTypeError, FiniteError, OrderError, InputError
            As in `Likelihood`.
        """
        own = {"horizon_h": self.horizon_h}
        if self.marks is not None:
            own |= {"marks": self.marks, "reference_mark": self.reference_mark}
        return Likelihood(self.locations, self.times, **own | options)

    def joined(self, **results: ArrayLike) -> Any:
        """Return the table's columns followed by columns of results, in the order of the table's rows.

        Parameters
        ----------
        **results : array-like, shape (n_events,)
            In the order of time, as returned by the functions of this package.

        Returns
        -------
        dict of ndarrays, each of shape (n_events,); or a DataFrame with the table's index, if it was one
            "id", the table's places and times, and the results by their names.

        Raises
        ------
        ShapeError
            A result does not have one number per event.
        """
        back = np.argsort(self.rows)  # from the order of time to that of the table
        table = {"id": self.ids[back]} | self.columns
        for name, values in results.items():
            values = np.asarray(values)
            if values.shape != self.times.shape:
                raise ShapeError(
                    f"{name} has shape {values.shape}; expected {self.times.shape}: one per event"
                )
            table[name] = values[back]
        if self.index is None:
            return table
        return need("pandas", "files", "data frames").DataFrame(table, index=self.index)

    def dates(self, times: ArrayLike) -> Array:
        """Return times as dates, if the table had dates.

        Parameters
        ----------
        times : array-like, hours since the first event

        Returns
        -------
        ndarray of datetime64[us], shape of times
            Without dates, the times unchanged.
        """
        times = np.asarray(times, dtype=np.float64)
        if self.origin is None:
            return times
        return self.origin + np.rint(times * 3.6e9).astype("timedelta64[us]")


def read_catalogue(
    source: Any,
    *,
    places: str | Sequence[str] = ("x_km", "y_km"),
    time: str = "t_hours",
    ids: str | None = None,
    marks: str | None = None,
    reference_mark: float | str | None = None,
    end: float | str | datetime.date | np.datetime64 | None = None,
    length_unit: LengthUnit = "km",
    time_unit: TimeUnit = "h",
    lonlat: bool = False,
    spread_h: float | None = None,
    date_order: DateOrder | None = None,
) -> Catalogue:
    """Read the events of a file or a data frame, with names, dates and marks.

    Parameters
    ----------
    source : path, pandas.DataFrame, or mapping of column names to arrays
        A file is .csv, .csv.gz, .parquet (needs pyarrow) or .npz; commas or semicolons separate cells of CSV.
    places : sequence of up to 3 column names
        Empty for events in time alone.
    time : str
        Column of times: numbers, or dates and times. Dates may be those of pandas, with time zones or
        without, or text such as 2026-01-31 12:30 or 1/31/2026: see `portable.models.shared.dates.as_dates`.
    ids : str, optional
        Column of names of events; the numbers of the rows if not given.
    marks : str, optional
        Column of marks, such as magnitudes; the number of offspring is proportional to exp(alpha (mark -
        reference)).
    reference_mark : float or str, optional
        Number, or column, of the mark of an event with theta offspring; the smallest mark if not given. Marks
        below a column's value, such as the catalogue's magnitude of completeness, are raised to it.
    end : float or date, optional
        End of the record, a number or a date as in `time`; the last event if not given.
    length_unit : {"km", "m", "mile"}
        Of places.
    time_unit : {"h", "min", "s", "d"}
        Of times that are numbers.
    lonlat : bool
        Places are longitude and latitude in degrees, on both sides of the date line or not, which are
        projected to kilometres. Areas are exact; distances are those of great circles within 0.1% at 5
        degrees from the centre of the events, 0.6% at 12.5 and 5% at 35. Events further away are refused.
    spread_h : float, optional
        Move each time later by a random part of so many hours: of the unit that times are rounded down to,
        such as 24, so that events of one unit can excite each other. Estimates of theta are then right;
        delays are those of the unit, and h is slightly too large.
    date_order : {"year first", "month first", "day first"}, optional
        Order of ambiguous dates in text.

    Returns
    -------
    Catalogue

    Raises
    ------
    InputError, DTypeError, FiniteError, ShapeError
        The file cannot be read, a column is missing, an entry is no finite number (with its row), longitude
        or latitude is out of range; the end is before the last event.

    Warns
    -----
    UserWarning
        Columns whose names mention another unit; events that occur twice; places that look like degrees;
        times that span more than two centuries.
    """
    check_choice(length_unit, "length_unit", LengthUnit)
    check_choice(time_unit, "time_unit", TimeUnit)
    check_flag(lonlat, "lonlat")
    places = (places,) if isinstance(places, str) else tuple(places)
    if len(places) > 3 or (lonlat and len(places) != 2):
        wanted = "longitude and latitude" if lonlat else "at most 3"
        raise InputError(f"places names {len(places)} columns; expected {wanted}")
    if time in places:
        raise InputError(f"places names the column of times, {time!r}; expected columns of places")
    if marks is None and reference_mark is not None:
        raise InputError("reference_mark needs marks; name their column")
    extra = [name for name in (ids, marks, reference_mark) if isinstance(name, str)]
    name, table = read_table(source, (*places, time, *extra))

    def numbers(column):
        return numbers_of(table[column], column, name)

    locations = np.column_stack([np.empty((len(table[time]), 0)), *map(numbers, places)])
    if looks_dated(table[time]):
        said = f"'{name}', column '{time}'"
        hours, horizon, origin = since_first(table[time], said, date_order, end, _HOUR)
    else:
        hours, origin, horizon = numbers(time) * TIMES_H[time_unit], None, None
        if end is not None:
            horizon = check_number(end, "end") * TIMES_H[time_unit] - hours.min(initial=np.inf)
    if not len(hours):
        raise InputError(f"'{name}' holds no events; expected at least one row")
    doubts = [*doubts_of_units(() if origin is not None else (time,), time_unit, TIMES_H)]
    # pandas arrays keep their dtype, such as dates with a time zone
    columns = {name: getattr(table[name], "array", np.asarray(table[name])) for name in (*places, time)}
    centre = None
    if lonlat:
        centre = middle_of(locations)
        locations = project(locations, places, centre)
    else:
        doubts += *doubts_of_units(places, length_unit, LENGTHS_KM), *doubts_of_degrees(places, locations)
        locations = locations * LENGTHS_KM[length_unit]
    if spread_h is not None:
        least, width = hours.min(), check_positive(spread_h, "spread_h")
        hours = hours + np.random.default_rng(0).uniform(0.0, width, len(hours))
        later = hours.min() - least
        origin = None if origin is None else origin + np.timedelta64(round(later * 3.6e9), "us")
        horizon = None if horizon is None else horizon - later
    order = np.argsort(hours, kind="stable")
    times = hours[order] - hours[order[0]]
    if horizon is not None and horizon < times[-1]:
        raise InputError(
            f"end is {times[-1] - horizon:g} hours before the last event; expected the end of the record"
        )
    for doubt in (*doubts, *doubts_of_rows(locations[order], times)):
        warn(doubt, UserWarning)
    names = np.asarray(table[ids]) if ids is not None else np.arange(1, len(times) + 1)
    size, least = None if marks is None else numbers(marks)[order], reference_mark
    if isinstance(reference_mark, str):
        least = numbers(reference_mark)[order]
        size = np.maximum(size, least)
    index = source.index if hasattr(source, "iloc") else None
    return Catalogue(
        locations[order], times, order, names[order], size, least, horizon, origin, columns, index, centre
    )


def write_table(path, table):
    """Write columns, a dict of arrays, as CSV."""
    write_csv(path, "--out", {n: v.astype(str) if v.dtype.kind == "M" else v for n, v in table.items()})
