"""Tables with named columns and dates as input and output; pandas and xarray are optional."""

import numbers
import warnings
from typing import Any

import numpy as np

from ..shared import DTypeError, InputError, Result, ShapeError, need, read_npy, warn
from .checks import module_of, without_xarray
from .segments import Segments, check_segments


# names by which a monotonic first column is identified as the times of the rows
TIME_NAMES = ("time", "times", "t", "date", "year", "month", "day", "hour", "step", "index", "timestamp")
FEWEST_EQUAL = 20  # smallest number of rows at which equal steps are sufficient to identify such a column


def _labels(table):
    """Return the labels of a table's columns, or of one named series; None if it has none."""
    if isinstance(table, dict):
        return list(table)
    if hasattr(table, "columns"):
        return list(getattr(table, "column_names", table.columns))  # PyArrow's `columns` are the data
    named = module_of(table) in ("pandas", "polars") and len(table.shape) == 1
    return [table.name] if named and table.name not in (None, "") else None


def names_of(dataset):
    """Return the name of each column of a dataset; the column's number if it has none."""
    labels = dataset.series if isinstance(dataset, dict) and hasattr(dataset, "series") else _labels(dataset)
    return list(map(str, range((*np.shape(dataset), 1, 1)[1]) if labels is None else labels))


def index_of(table):
    """Return the names of a table's rows, the times, as a pandas Index; None if it has none."""
    if module_of(table) == "pandas":
        return getattr(table, "index", None)  # an Index has none
    if getattr(table, "times", None) is not None:  # a table from `files.read`
        try:
            import pandas
        except ImportError:
            return None
        return pandas.Index(table.times)
    return None


def at_times(index, times, parts=None, segments=None):
    """Return the names of the times, an array; an index with equal steps is extrapolated beyond its ends.

    parts : the segment of each time; each of the `segments` is extrapolated separately
    """
    if index is None:
        return None
    if segments is not None:
        every = [(*segments.windows[k], times[parts == k]) for k in np.unique(parts).tolist()]
        return np.concatenate([at_times(index[b:e], own - b) for b, e, own in every])
    first, last = times.min(initial=0), times.max(initial=len(index) - 1)
    if first < 0 or last >= len(index):
        index = _carried_on(index, -first, last - len(index) + 1)
    return index[np.asarray(times) - first].to_numpy()


def _carried_on(index, n_before, n_behind):
    """Return an index, extrapolated by n_before times at its start and n_behind times at its end."""
    import pandas

    steps = index[1:] - index[:-1] if len(index) > 1 and index.dtype.kind in "iufM" else ()
    if freq := _freq(index):
        before = pandas.date_range(end=index[0], periods=n_before + 1, freq=freq)[:-1]
        behind = pandas.date_range(index[-1], periods=n_behind + 1, freq=freq)[1:]
    elif len(steps) and (steps == steps[0]).all():
        before = [index[0] - k * steps[0] for k in range(n_before, 0, -1)]
        behind = [index[-1] + k * steps[0] for k in range(1, n_behind + 1)]
    else:
        unknown = [pandas.NaT if index.dtype.kind == "M" else None]
        before, behind = unknown * n_before, unknown * n_behind
    return pandas.Index([*before, *index, *behind])


def _freq(index):
    """Return the pandas frequency of dates, such as "B" for business days; None if there is none."""
    import pandas

    if not isinstance(index, pandas.DatetimeIndex) or len(index) < 3:
        return None
    # pandas 3 warns of a change in the type of the result, which does not matter here
    with warnings.catch_warnings(action="ignore"):
        return pandas.infer_freq(index)


def lagged(name, lag):
    """Return the name of a lagged coordinate, such as "x(t-2)"."""
    return f"{name}(t-{lag})" if lag else f"{name}(t)"


def counts_times(name, values, segments=None):
    """Return True if the values of a table's first column are the times of the rows, in each segment: dates,
    or strictly monotonic numbers that have equal steps or a name such as "year".
    """
    values = np.asarray(values)
    if segments is not None:
        return all(counts_times(name, values[b:e]) for b, e in segments.windows)
    if values.dtype.kind == "M":
        return True
    if values.dtype.kind not in "iuf" or len(values) < 2:
        return False
    steps = np.diff(values.astype(np.float64))
    if not ((steps > 0).all() or (steps < 0).all()):
        return False
    equal = len(values) >= FEWEST_EQUAL and np.allclose(steps, steps[0], rtol=1e-6, atol=0)
    return equal or str(name).strip().lower() in TIME_NAMES


def with_times(table, columns=None, name="library", segments=None):
    """Return a pandas table with its first column as the index if that column contains the times; other
    tables unchanged.

    columns : names of the requested columns; None requests all, and a warning states that the column of times
        is left out
    """
    if module_of(table) != "pandas" or not hasattr(table, "columns") or table.shape[1] < 2 or not len(table):
        return table
    label = table.columns[0]
    if not counts_times(label, table.iloc[:, 0], segments):
        return table
    if columns is None:
        warn(
            f"{name}: the first column, {str(label)!r}, numbers the times; columns= includes it as a series",
            UserWarning,
        )
    elif str(label) in map(str, columns):
        return table
    rest = table.iloc[:, 1:]
    return rest.set_axis(table.iloc[:, 0].array, axis=0).rename_axis(label)


def timed(table, name, segments=None):
    """Return a table without its column of times, see `with_times`, and its Segments; rows are checked by
    `check_times`."""
    table, segments = without_segments(table, segments, name)
    table = with_times(table, None, name, segments)
    check_times(index_of(table), name, segments)
    return table, segments


def without_segments(table, segments, name="library"):
    """Return a table, one of pandas for one of xarray, without the column, or level of its index, that
    contains the names of its segments; and the Segments."""
    table = without_xarray(table, name)
    if not is_label(segments):
        return table, None if segments is None else check_segments(segments, n_rows(table))
    if module_of(table) == "pandas" and segments in table.index.names:
        table = table.reset_index(segments)
    named = Segments.of(choose(table, segments, "segments"))
    if isinstance(table, dict):
        own = {name: table[name] for name in table if str(name) != str(segments)}
        return (table.of(own, named) if hasattr(table, "of") else own), named
    if hasattr(table, "loc") and hasattr(table, "columns"):
        return table.loc[:, [str(c) != str(segments) for c in table.columns]], named
    raise InputError(f"segments is {segments!r}; expected a column of pandas, or a name for each row")


def n_rows(table):
    """Return the number of rows, the times, of a table."""
    return len(next(iter(table.values())) if isinstance(table, dict) else table)


def check_times(index, name, segments=None):
    """Warn if the rows of a table are not consecutive time steps, in each segment.

    index : pandas Index or None; only numbers, dates and periods are checked
    """
    if segments is None or index is None:
        _check_times(index, name)
        return
    for own, (begin, end) in zip(segments.names, segments.windows):
        _check_times(index[begin:end], f"{name}, segment {own!r}")


def _check_times(index, name):
    if index is None or len(index) < 3 or not (index.dtype.kind in "iufM" or hasattr(index, "asi8")):
        return
    values = index.asi8 if hasattr(index, "asi8") else np.asarray(index)
    steps = np.diff(values.astype(np.float64))
    if not (steps > 0).all():
        t = np.argmin(steps > 0)
        warn(
            f"{name}: its rows are not in the order of time: {index[t + 1]} follows {index[t]}; "
            "sort_index() puts them in order",
            UserWarning,
        )
        return
    tall = steps > (1.5 if index.dtype.kind == "M" else 1 + 1e-6) * np.median(steps)
    if tall.any() and not _freq(index):
        t = np.argmax(tall)
        warn(
            f"{name}: rows are missing between {index[t]} and {index[t + 1]}"
            + (f", and in {tall.sum() - 1} other places" if tall.sum() > 1 else "")
            + "; embedded points span the gap. reindex() inserts rows of NaN",
            UserWarning,
        )


def series_of(library, columns, target, segments=None):
    """Select the columns of a table that are named by `columns` and `target`, with its times and segments.

    columns : name or sequence of names; None selects all columns
    target : name or names, array-like, or a table with the same times

    Returns
    -------
    library, target, index, the names of several targets (None for one target), and Segments
    """
    table, segments = without_segments(library, segments)
    named = is_name(target)
    if columns is None and named and len(names_of(table)) > 1:
        raise InputError(
            f"target is {target!r}, a column of the library: choose the embedded series by columns="
        )
    asked = None if columns is None else [*listed(columns), *(listed(target) if named else ())]
    library = with_times(table, asked, segments=segments)
    index = index_of(library)
    check_times(index, "library", segments)
    if columns is not None:
        library = choose(table, columns)
    if named:
        names = None if is_label(target) else list(map(str, target))
        return library, choose(table, target, "target"), index, names, segments
    if target is not None:
        target = with_times(without_xarray(target, "target"), (), "target", segments)
    other = index_of(target)
    if not (index is None or other is None or len(index) != len(other) or index.equals(other)):
        t = np.argmax(np.asarray(index != other))
        raise InputError(
            f"target and library differ in time: at {t} {other[t]!s} and {index[t]!s}; align them first"
        )
    several = module_of(target) == "pandas" and target.ndim == 2
    return library, target, index, names_of(target) if several else None, segments


def is_label(value):
    """Return True if a value may be the name of one column: a string, or an integer as pandas numbers
    columns."""
    return isinstance(value, (str, numbers.Integral)) and not isinstance(value, bool)


def listed(names):
    """Return one name or several names as a list."""
    return [names] if is_label(names) else list(names)


def is_name(target):
    """Return True if a target is the name of a column, or a sequence of names."""
    return is_label(target) or (
        isinstance(target, (list, tuple)) and bool(target) and all(isinstance(v, str) for v in target)
    )


def matrix_like(dataset, matrix, rows, columns, dims):
    """Return a matrix with the names of libraries and targets, a table of the same package as the dataset;
    its `attrs["E"]` holds the dimensions, a list for each row."""
    if module_of(dataset) == "pandas":
        import pandas

        named = pandas.DataFrame(matrix, rows, columns).rename_axis("library").rename_axis("target", axis=1)
    elif module_of(dataset) == "xarray":
        named = named_array(matrix, rows, columns)
    else:
        return matrix
    named.attrs["E"] = dims.tolist()
    return named


def named_array(matrix, rows, columns):
    """Return the matrix of a cross map as an xarray DataArray with named libraries and targets."""
    xarray = need("xarray", "arviz", "a DataArray")
    return xarray.DataArray(matrix, [("library", rows), ("target", columns)], name="rho")


def open_matrix(path, libraries, targets):
    """Open a cross map in a .npy file as an xarray DataArray with names; elements are read on access.

    Parameters
    ----------
    path : str or Path
        The file that `cross_map(..., out=path)` wrote.
    libraries, targets : sequence of str

    Returns
    -------
    xarray.DataArray, shape (n_libraries, n_targets)

    Raises
    ------
    InputError, ShapeError
    """
    matrix = read_npy(path)
    if matrix.shape != (len(libraries), len(targets)):
        raise ShapeError(
            f"{str(path)!r} holds shape {matrix.shape}; expected ({len(libraries)}, "
            f"{len(targets)}), libraries and targets"
        )
    return named_array(matrix, list(libraries), list(targets))


def make_table(columns):
    """Return a dict of columns as a pandas DataFrame."""
    return need("pandas", "files", "a DataFrame").DataFrame(columns)


class Tabled(Result):
    """Base of results that can be tables: of `knn`, `simplex`, `smap`, `embedding_dimension` and others."""

    def to_pandas(self) -> Any:
        """Return the result as a table.

        A row is a neighbour of a point (rank 1 is the nearest), a prediction (of an S-map: for a theta; of
        several targets: for each), a dimension, a library size with the interval of its samples, or a lag.
        Times have the names of the input's rows, such as dates.

        Returns
        -------
        pandas.DataFrame

        Raises
        ------
        InputError
            pandas is not installed.
        """
        return make_table(self._columns())

    def _times(self):
        return self.times if self.index is None else self.index

    def _segment(self):
        return {} if self.segments is None else {"segment": self.segments}

    def _of_targets(self, values, keys, columns):
        """Return the columns of a table with one row per target and key. If `values` has two axes, the first
        axis of each array in `columns` is the targets, and `keys` are repeated for each target."""
        if values.ndim > 1:
            n_targets, n = values.shape
            names = range(n_targets) if self.targets is None else self.targets
            keys = {"target": np.repeat(names, n)} | {k: np.tile(v, n_targets) for k, v in keys.items()}
        return keys | {k: v.ravel() for k, v in columns.items()}


def choose(table, names, what="columns"):
    """Select columns of a table, or a named series, by name: shape (n_times, n_names), or (n_times,) if
    `names` is one name. Columns that are labelled by numbers may be named by strings of these.
    """
    labels, several = _labels(table), listed(names)
    if not several:
        raise InputError(f"{what} is empty; expected at least one name")
    if labels is None and np.ndim(table) == 2 and not any(isinstance(name, str) for name in several):
        labels = range(np.shape(table)[1])
    if labels is None:
        raise DTypeError(
            f"{what} names {several}, but the data are of type {type(table).__name__}, without names; "
            "expected a table of pandas or xarray"
        )
    places = _places(labels)
    chosen = [_column(table, labels, _place(labels, places, name, what)) for name in several]
    return chosen[0] if is_label(names) else np.column_stack(chosen)


def _places(labels):
    """Return the positions of each label, and of its string: two dicts, since tables may have many
    columns."""
    own, as_text = {}, {}
    for place, label in enumerate(labels):
        if is_label(label):
            own.setdefault(label, []).append(place)
        as_text.setdefault(str(label), []).append(place)
    return own, as_text


def _place(labels, places, name, what):
    """Return the position of the column that has the name."""
    own, as_text = places
    found = (own.get(name) if is_label(name) else None) or as_text.get(str(name), [])
    if len(found) == 1:
        return found[0]
    if found:
        raise InputError(
            f"{what}: there are {len(found)} columns {name!r}; expected distinct names; set them by "
            "`table.columns = [...]`"
        )
    raise InputError(f"{what}: there is no column {name!r}; the columns are {', '.join(map(str, labels))}")


def _column(table, labels, place):
    if hasattr(table, "iloc") and table.ndim == 2:
        return np.asarray(table.iloc[:, place])
    if isinstance(table, dict):
        return np.asarray(table[labels[place]])
    values = np.asarray(table)
    return values[:, place] if values.ndim == 2 else values
