"""Libraries of a cross map: single series, or groups of several columns."""

import numpy as np

from ..shared import Array, DTypeError, Frozen, InputError, ShapeError, check_count


class Libraries(Frozen):
    """Libraries of a cross map.

    Attributes
    ----------
    rows : ndarray of int64, shape (n_rows,)
        Requested libraries, as rows of `columns`.
    columns : ndarray of int64, shape (n_libraries, n_columns)
        Series of each library; without groups, library c consists of series c.
    names : list of str
    """

    rows: Array
    columns: Array
    names: list

    @property
    def width(self) -> int:
        """Number of columns of each library."""
        return self.columns.shape[1]

    @property
    def settings(self) -> dict:
        """Settings of a checkpoint: the columns of groups; none for single series, which may be added
        later."""
        return {} if self.width == 1 else {"libraries": self.columns}

    def of(self, dataset: Array) -> Array:
        """Return the columns of library 0, then those of the next, shape (n_times, n_libraries *
        n_columns)."""
        return dataset if self.width == 1 else np.ascontiguousarray(dataset[:, self.columns.ravel()])

    def all_of(self, flags: Array) -> Array:
        """Return True for the libraries whose series are all flagged, shape (n_libraries,)."""
        return flags[self.columns].all(axis=1)

    def hold(self, n_series: int) -> Array:
        """Return True for each series that a library contains, shape (n_libraries, n_series)."""
        return (self.columns[:, :, None] == np.arange(n_series)).any(axis=1)


def check_libraries(libraries, names: list) -> Libraries:
    """Return the Libraries of numbers or names of series, shape (n_libraries,), or of groups, shape
    (n_libraries, n_columns).

    names : of all series
    """
    n_series = len(names)
    alone = np.arange(n_series)[:, None]
    if libraries is None:
        return Libraries(np.arange(n_series), alone, names)
    try:
        given = np.atleast_1d(np.asarray(libraries))
    except ValueError as error:
        raise ShapeError(
            f"libraries is {libraries!r}, groups of different sizes; expected groups of one size, or "
            "a call for each size"
        ) from error
    if given.dtype.kind == "U":
        given = np.array([_number(name, names) for name in given.ravel().tolist()]).reshape(given.shape)
    if given.dtype.kind not in "iu" or given.ndim > 2 or not given.size:
        raise DTypeError(
            "libraries must be numbers of columns, or names, or groups of these of one size; "
            f"got {libraries!r}"
        )
    for column in given.ravel().tolist():
        check_count(column, "libraries", 0, n_series - 1)
    given = given.astype(np.int64)
    if given.ndim == 1 or given.shape[1] == 1:
        return Libraries(given.ravel(), alone, names)
    for number, own in enumerate(given.tolist()):
        if twice := [names[c] for c in own if own.count(c) > 1]:
            raise InputError(f"libraries[{number}] holds {twice[0]} twice; expected different series")
    joined = [" + ".join(names[c] for c in own) for own in given.tolist()]
    return Libraries(np.arange(len(given)), given, joined)


def _number(name, names):
    """Return the number of the series with a name."""
    if (n := names.count(name)) > 1:
        raise InputError(f"libraries: {n} series are called {name!r}; use numbers of columns")
    if not n:
        raise InputError(f"libraries: there is no series {name!r}; they are {', '.join(names)}")
    return names.index(name)
