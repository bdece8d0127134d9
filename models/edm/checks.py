"""Checks of arguments. All of them run before anything is computed or copied to a device."""

import numpy as np

from ..shared import DTypeError, FiniteError, InputError, ShapeError, as_numbers, check_count, refuse, warn
from ..shared.checks import check_unmasked

LARGEST = 1e300  # sums and differences of such numbers are finite
SMALLEST = 1e-300  # the reciprocal of such a difference is finite


def extremes(columns):
    """Return the minimum and the maximum of each column, without NaN."""
    return np.fmin.reduce(columns, axis=0), np.fmax.reduce(columns, axis=0)


def check_columns(values, name, n_columns=None, dtype=None):
    """Return series as columns of float64, shape (n_times, n_columns); NaN is a missing value, infinity is
    refused. float32 is returned without a conversion if `dtype` allows it.
    """
    array = _numbers(values, name)
    if array.ndim not in (1, 2):
        raise ShapeError(f"{name} has shape {array.shape}; expected (n_times,) or (n_times, n_columns)")
    if not array.size:
        raise ShapeError(f"{name} has shape {array.shape}; expected at least one time and one column")
    columns = array.reshape(len(array), -1)
    if columns.dtype != np.float32 or dtype != np.float32:
        columns = columns.astype(np.float64, copy=False)
    low, high = extremes(columns)
    with np.errstate(over="ignore"):
        if not np.isfinite(low + high).all():
            _check_known(columns, name, array.ndim, low)
        low, high = low.astype(np.float64), high.astype(np.float64)
        width = high - low
    tiny = (width > 0) & (width < SMALLEST)
    for wrong, what in (
        ((np.fmax(high, -low) > LARGEST), f"exceeds {LARGEST:g}"),
        (tiny, f"varies by less than {SMALLEST:g}"),
    ):
        if wrong.any():
            c = int(np.argmax(wrong))
            where = f", column {c}," if array.ndim == 2 else ""
            raise InputError(f"{name}{where} {what} (from {low[c]:g} to {high[c]:g}); expected other units")
    if n_columns is not None and columns.shape[1] != n_columns:
        raise ShapeError(
            f"{name} has {columns.shape[1]} column(s); expected {n_columns}, as many as the library has"
        )
    return columns


def _check_known(columns, name, n_dims, low):
    given = columns if n_dims == 2 else columns[:, 0]
    refuse(np.isinf(given), given, name, "finite numbers, or NaN where nothing was observed", FiniteError)
    empty = np.flatnonzero(np.isnan(low))
    if empty.size:
        where = f": column {int(empty[0])}" if n_dims == 2 else ""
        raise InputError(f"{name} holds nothing but NaN{where}")


def _numbers(values, name):
    """Return an array of real numbers; for a table, the error names the column that is not numeric."""
    if isinstance(values, dict):  # a table from a file
        chosen = getattr(values, "series", values)
        values = np.column_stack([as_numbers(values[key], f"{name}[{key!r}]") for key in chosen])
    values = without_xarray(values, name)
    if hasattr(values, "select_dtypes"):  # pandas
        words = [
            str(c) for c in values.columns.difference(values.select_dtypes("number").columns, sort=False)
        ]
        if words:
            raise DTypeError(
                f"{name} must hold real numbers, but column {words[0]!r} has dtype {values[words[0]].dtype}; "
                "drop it, or choose columns"
            )
    return as_numbers(values, name)


def module_of(value):
    """Return the name of the package of a value's type."""
    return type(value).__module__.partition(".")[0]


def without_xarray(table, name):
    """Return an xarray object as one of pandas: a Dataset with its variables as columns; others unchanged."""
    if module_of(table) != "xarray":
        return table
    try:
        return table.to_pandas()
    except ValueError as error:
        raise ShapeError(
            f"{name} is an xarray {type(table).__name__} of the dimensions "
            f"{', '.join(map(str, table.dims))}; expected series of one dimension"
        ) from error


def check_targets(values, n_times):
    """Return one or several targets as columns, shape (n_times, n_targets), with the library's n_times."""
    columns = check_columns(values, "target")
    if len(columns) != n_times:
        raise ShapeError(f"target has {len(columns)} times; expected {n_times}, as many as the library has")
    return columns


def without_variation(**series):
    """Return True if one of the series does not vary, so that rho is NaN; a RuntimeWarning names it."""
    still = [
        name for name, columns in series.items() if columns is not None and np.equal(*extremes(columns)).all()
    ]
    if still:
        warn(
            f"{' and '.join(still)} {'does' if len(still) == 1 else 'do'} not vary: the correlation is NaN",
        )
    return bool(still)


def check_embedding(E, tau, n_times, name="library"):
    """Return E and tau as integers; raise unless (E - 1) tau < n_times."""
    E, tau = check_count(E, "E"), check_count(tau, "tau")
    if n_times <= (E - 1) * tau:
        raise ShapeError(
            f"{name} has {n_times} times; an embedding with E = {E} and tau = {tau} needs "
            f"{(E - 1) * tau + 1}: expected a longer series or a smaller E or tau"
        )
    return E, tau


def check_horizon(Tp, n_times, E, tau):
    """Return Tp as an integer; raise unless at least one point has a target within the series."""
    Tp = check_count(Tp, "Tp", -np.inf)
    ahead = n_times - 1 - (E - 1) * tau
    if not -n_times < Tp <= ahead:
        raise InputError(
            f"Tp is {Tp}; expected {1 - n_times} to {ahead}, so that points of {n_times} times with E = {E} "
            f"and tau = {tau} have a target"
        )
    return Tp


def check_windows(windows, name, n_times):
    """Return (begin, end), or a sequence of such pairs, as an ascending list; the end is exclusive. Windows
    that overlap are merged, windows that touch are not. None is one window of all times."""
    if windows is None:
        return [(0, n_times)]
    pairs = np.asarray(windows)
    if pairs.ndim == 1:
        pairs = pairs[None]
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not len(pairs):
        raise ShapeError(f"{name} is {windows!r}; expected (begin, end), or a sequence of such pairs")
    if pairs.dtype.kind not in "iu":
        raise DTypeError(f"{name} is {windows!r}; expected integers")
    apart = []
    for begin, end in sorted(pairs.tolist()):
        if not 0 <= begin < end <= n_times:
            raise InputError(f"{name} holds ({begin}, {end}); expected 0 <= begin < end <= {n_times}")
        if apart and begin < apart[-1][1]:
            begin, end = apart[-1][0], max(end, apart.pop()[1])
        apart.append((begin, end))
    return apart


def check_valid(valid, n_times):
    """Return `valid` as a bool array, True for the times that may be candidates; None allows all."""
    if valid is None:
        return None
    flags = np.asarray(check_unmasked(valid, "valid"))
    if flags.dtype != bool:
        raise DTypeError(
            f"valid must be True or False for each time, got dtype {flags.dtype}; `values > 0` makes "
            "such flags"
        )
    if flags.shape != (n_times,):
        raise ShapeError(f"valid has shape {flags.shape}; expected a flag for each time: shape ({n_times},)")
    return flags


def known_points(columns, lag):
    """Return a bool array, True for the times whose point has all coordinates."""
    known = np.ones(len(columns), bool)
    known[: int(lag.max())] = False
    if np.isnan(columns.min()):  # the minimum is NaN if a value is, and is faster than an array of flags
        missing = np.isnan(columns).any(axis=1)
        for step in np.unique(lag):
            known[step:] &= ~missing[: len(columns) - step]
    return known


def check_enough(candidates, n_times, points, known, k, radius):
    """Return a bool array, True for the points with at least k candidates; raise if there is none.

    candidates : times of the candidates, below n_times
    points, known : times of the points, and a bool array, True for those with all coordinates
    """
    left = n = len(candidates)
    why, enough = "", np.ones(len(points), bool)
    if radius >= 0 and n - (2 * radius + 1) < k and known.any():
        before = np.searchsorted(candidates, np.arange(n_times + 1))
        low, high = np.clip(points - radius, 0, n_times), np.clip(points + radius + 1, 0, n_times)
        own = n - (before[high] - before[low])
        left, enough = int(own[known].max()), own >= k
        why = f" once the {n - left} within exclusion_radius = {radius} of a point are left out"
    if left < k:
        raise InputError(
            f"k is {k}, but the library has {left} points{why}; expected a smaller E or k, a longer "
            "library or a smaller radius"
        )
    lacking = int((known & ~enough).sum())
    if lacking:
        warn(
            f"{lacking} of {len(points)} points have fewer than k = {k} candidates: their predictions are NaN"
        )
    return enough


def check_library(columns, libraries, lag, times, k, radius):
    """Raise unless each library has k candidates for some of its points."""
    n_times, rows = len(columns), libraries.rows
    complete = not np.isnan(columns.min(axis=0)).any()
    for row in rows[:1] if complete else rows:
        known = known_points(columns[:, libraries.columns[row]], lag)
        try:
            check_enough(times[known[times]], n_times, np.arange(n_times), known, k, radius)
        except InputError as error:
            raise InputError(f"series {libraries.names[row]}: {error}") from None


def check_library_sizes(sizes, most, least):
    """Return library sizes as int64; raise unless each is from `least` to `most`."""
    sizes = check_wholes(sizes, "library_sizes")
    wrong, expected = (sizes < least) | (sizes > most), f"{least} (k) to {most} (points of the library)"
    refuse(wrong, sizes, "library_sizes", expected)
    return sizes


def check_wholes(values, name):
    """Return a sequence of whole numbers, as int64."""
    values = np.atleast_1d(as_numbers(values, name))
    if values.ndim != 1 or not values.size:
        raise ShapeError(f"{name} has shape {values.shape}; expected a sequence of whole numbers")
    if values.dtype.kind not in "iu":
        raise DTypeError(f"{name} must be whole numbers, got dtype {values.dtype}")
    return values.astype(np.int64)
