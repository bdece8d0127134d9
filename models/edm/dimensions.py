"""Embedding dimensions of a cross map: the best for forecasts of each library or target, or given numbers."""

import math
from typing import Literal, TypeAlias, get_args

import numpy as np

from ..shared import (
    DTypeError,
    InputError,
    NOWHERE,
    ShapeError,
    as_numbers,
    check_choice,
    check_count,
    refuse,
)
from .sweeps import embedding_dimension

Of: TypeAlias = Literal["library", "target"]
OF = get_args(Of)  # the series whose best dimension is chosen
E_MAX = 20  # default of the largest dimension that is tried


def check_dims(dims, n_series, libraries):
    """Return dimensions as an array that broadcasts to shape (n_libraries, n_series); a word of `OF` is
    returned unchanged."""
    if isinstance(dims, str):
        return check_choice(dims, "dims", OF)
    dims, n_libraries = as_numbers(dims, "dims"), len(libraries.columns)
    if dims.shape not in ((), (n_series,), (n_libraries, 1), (n_libraries, n_series)):
        raise ShapeError(
            f"dims has shape {dims.shape}; expected a dimension for each target: shape ({n_series},), for "
            f"each library, ({n_libraries}, 1), or for each pair, ({n_libraries}, {n_series})"
        )
    if dims.dtype.kind not in "iu":
        raise DTypeError(f"dims must be whole numbers, got dtype {dims.dtype}")
    refuse(dims < 1, dims, "dims", "at least 1")
    return dims.astype(np.int64).reshape((1,) * (2 - dims.ndim) + dims.shape)


def choose_dimensions(of, dataset, libraries, E_max, keys, store=NOWHERE):
    """Return the dimensions for the word `of`: the best of each series for forecasts of itself, shape
    (n_series,) for targets, else (n_libraries, 1).

    A library of several columns has the largest dimension of these. Only the series that are needed are
    forecast, and the results are kept in the store.

    keys : tau, exclusion_radius, lib, pred, valid, segments and space, arguments of `embedding_dimension`
    """
    wanted = np.unique(libraries.columns[libraries.rows]) if of == "library" else np.arange(dataset.shape[1])
    best = np.ones(dataset.shape[1], np.int64)

    def compute(missing):
        found = []
        while len(found) < len(missing) and not (found and store.due()):
            found.append(best_dimension(dataset[:, missing[len(found)]], E_max, keys))
        return {"series": missing[: len(found)], "best": np.array(found)}

    for part in store.rows("series-", wanted, compute, "series"):
        best[part["series"]] = part["best"]
    return best if of == "target" else best[libraries.columns].max(axis=1)[:, None]


def best_dimension(series, E_max, keys):
    """Return the best dimension of a series for forecasts of itself; 1 if there is no finite skill, or the
    series does not vary.

    If E_max is None, the largest dimension follows from the length of the series and its gaps.
    """
    if not np.nanmin(series) < np.nanmax(series):
        return 1
    if E_max is not None:
        return max(1, embedding_dimension(series, check_count(E_max, "E_max"), **keys).best)
    most = min(E_MAX, math.isqrt(len(series)))
    while True:
        try:
            return max(1, embedding_dimension(series, most, **keys).best)
        except InputError:
            if most == 1:
                raise
            most = max(1, 2 * most // 3)
