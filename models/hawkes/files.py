"""Events from files: CSV (also gzipped), Parquet and npz, with named columns and stated units."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

from portable.errors import FiniteError, InputError

from ..shared.extras import need
from ..shared.files import check_file, numbers, read_csv, read_npz, reading
from ..shared.warned import warn

LengthUnit: TypeAlias = Literal["km", "m", "mile"]
TimeUnit: TypeAlias = Literal["h", "min", "s", "d"]
LENGTHS_KM = {"km": 1.0, "m": 1e-3, "mile": 1.609344}
TIMES_H = {"h": 1.0, "min": 1 / 60, "s": 1 / 3600, "d": 24.0}
_EARTH_KM = 6371.0088  # mean radius (IUGG)
_MOST_OFF = 0.05  # of a distance on a plane, silently
_WORDS = {
    "min": ("min", "minute", "minutes"),
    "s": ("s", "sec", "second", "seconds"),
    "d": ("d", "day", "days"),
    "h": ("h", "hr", "hour", "hours"),
    "km": ("km", "kilometres", "kilometers"),
    "m": ("m", "metres", "meters"),
    "mile": ("mi", "mile", "miles"),
}


def read_table(source, wanted):
    """Return a name for messages and the wanted columns, of a file or of a table."""

    def pick(names):
        missing = [name for name in wanted if name not in names]
        if missing:
            there = ", ".join(map(str, names)) or "none"
            where = "the table" if in_memory else f"'{source}'"
            hint = "" if in_memory else ". Name the columns of places and time."
            raise InputError(f"{where} has no column '{missing[0]}'; it has: {there}{hint}")
        return list(dict.fromkeys(wanted))

    names = getattr(source, "columns", None)
    names = source.keys() if names is None and hasattr(source, "keys") else names
    in_memory = names is not None
    table = {name: source[name] for name in pick(list(names))} if in_memory else _of_file(Path(source), pick)
    name = "table" if in_memory else source
    lengths = {column: np.shape(values) for column, values in table.items()}
    first, length = next(iter(lengths.items()))
    for column, shape in lengths.items():
        if len(shape) != 1 or shape != length:
            raise InputError(
                f"'{name}': column '{column}' has shape {shape}, '{first}' {length}; one number per event is"
                " wanted"
            )
    return name, table


def _of_file(path, pick):
    kind = check_file(path, (".csv", ".csv.gz", ".parquet", ".npz"))
    if kind != ".parquet":
        return (read_npz if kind == ".npz" else read_csv)(path, pick)
    with reading(path):
        table = need("pyarrow.parquet", "files", "Parquet files").read_table(path)
        return {name: table.column(name).to_numpy() for name in pick(table.column_names)}


def numbers_of(column, name, path):
    """Return a column as float64; the first entry that is not a finite number is named with its row."""
    words = None
    try:
        values = np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError):
        words = list(map(str, column))
        values = numbers(words, name, path)
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        entry = values[bad[0]] if words is None else repr(words[bad[0]])
        raise FiniteError(
            f"'{path}', column '{name}', row {bad[0] + 1} is {entry}; a finite number is wanted "
            f"({bad.size} such row{'s' * (bad.size > 1)})"
        )
    return values


def project(degrees, names, centre):
    """Project longitude and latitude to kilometres east and north of a centre."""
    for column, name, most in zip(degrees.T, names, (180.0, 90.0)):
        bad = np.flatnonzero(np.abs(column) > most)
        if bad.size:
            raise InputError(
                f"column '{name}', row {bad[0] + 1} is {column[bad[0]]}; -{most:g} to {most:g} degrees is"
                " wanted (longitude comes first)"
            )
    longitude, latitude = np.radians(degrees).T
    east, middle = np.radians(centre)
    if np.ptp(degrees[:, 0]) > 180.0:
        raise InputError(
            f"column '{names[0]}' spans {np.ptp(degrees[:, 0]):g} degrees; events on both sides of the date"
            " line are not projected: add 360 to the negative longitudes"
        )
    _warn_of_plane(latitude, middle)
    return _EARTH_KM * np.stack([(longitude - east) * math.cos(middle), latitude - middle], axis=1)


def _warn_of_plane(latitude, middle):
    cosines = np.cos(latitude)
    least, most = math.cos(middle) / cosines.max() - 1.0, math.cos(middle) / max(cosines.min(), 1e-3) - 1.0
    if max(-least, most) > _MOST_OFF:
        warn(
            f"latitudes span {np.degrees(np.ptp(latitude)):.3g} degrees: distances from east to west are off"
            f" by {least:+.0%} to {most:+.0%} on the plane that they are projected to",
            UserWarning,
        )


def warn_of_units(places, times, length_unit, time_unit, lonlat):
    """A column named t_minutes that is to be read as hours is a mistake of a factor of sixty."""
    for names, unit, units in (
        (() if lonlat else places, length_unit, LENGTHS_KM),
        (times, time_unit, TIMES_H),
    ):
        for name in names:
            words = name.lower().replace("-", "_").split("_")[1:] or [name.lower()]
            for other in units:
                if other != unit and any(word in _WORDS[other] for word in words):
                    warn(
                        f"column '{name}' is read as {unit}, but its name speaks of {other}; say so if it is",
                        UserWarning,
                    )


def warn_of_degrees(names, locations):
    words = " ".join(names).lower()
    if "lon" in words and "lat" in words:
        warn(
            f"columns {', '.join(names)} look like degrees, but are read as lengths (they span"
            f" {', '.join(f'{span:.3g}' for span in np.ptp(locations, axis=0))}); ask for lonlat to project"
            " them",
            UserWarning,
        )


def warn_of_rows(locations, times):
    rows = np.column_stack([times, locations])
    repeated = len(rows) - len(np.unique(rows, axis=0))
    if repeated:
        warn(
            f"{repeated} of {len(rows)} events repeat the place and time of another; events at one time do"
            " not excite each other, but each counts in the background",
            UserWarning,
        )
    if times[-1] > 2e2 * 8766:
        warn(
            f"events span {times[-1] / 8766:.0f} years; are the times in another unit?",
            UserWarning,
        )
    gaps = np.diff(times)
    gaps = gaps[gaps > 0]
    if gaps.size >= 100 and float(np.median(gaps)) >= 1.0 and np.allclose(gaps, np.rint(gaps), atol=1e-9):
        warn(
            f"every time is a whole number of hours (median gap {np.median(gaps):g}): hours, or minutes or"
            " seconds that are read as hours?",
            UserWarning,
        )
