"""Tables with names in and out: pandas and xarray, neither of which is needed."""

from __future__ import annotations

import numpy as np

from portable.errors import DTypeError, InputError


def _module(value):
    return type(value).__module__.partition(".")[0]


def names_of(dataset):
    """A name for each column: the table's own, else its number."""
    if _module(dataset) == "pandas":
        return [str(c) for c in (dataset.columns if hasattr(dataset, "columns") else [dataset.name])]
    if _module(dataset) == "xarray" and dataset.ndim == 2:
        return [str(v) for v in dataset[dataset.dims[1]].values]
    shape = np.shape(dataset)
    return [str(c) for c in range(shape[1] if len(shape) > 1 else 1)]


def matrix_like(dataset, matrix, rows, columns):
    """A matrix with the names of libraries and targets, of the same library as the dataset."""
    if _module(dataset) == "pandas":
        import pandas

        return pandas.DataFrame(matrix, index=pandas.Index(rows, name="library"), columns=pandas.Index(columns, name="target"))
    if _module(dataset) == "xarray":
        import xarray

        return xarray.DataArray(matrix, coords={"library": rows, "target": columns}, dims=("library", "target"), name="rho")
    return matrix


def to_pandas(found):
    """A result of `knn`, `simplex`, `smap`, `embedding_dimension` or `ccm` as a DataFrame.

    A row is a neighbour of a point (rank 1 is the nearest), a prediction (of an S-map: for a theta), a dimension, or a library
    size with the band of its samples.

    Raises
    ------
    InputError
        pandas is not installed.
    DTypeError
        Something else than these results. A cross map of a pandas table is a DataFrame by itself.
    """
    try:
        import pandas
    except ImportError as error:
        raise InputError("a DataFrame needs pandas: pip install 'portable-kernels[files]'") from error
    if hasattr(found, "coefficients"):
        n_thetas, n_points = found.predicted.shape
        columns = {"theta": np.repeat(found.theta, n_points), "time": np.tile(found.times, n_thetas),
                   "observed": np.tile(found.observed, n_thetas), "predicted": found.predicted.ravel()}
        columns |= {f"c{c}": found.coefficients[..., c].ravel() for c in range(found.coefficients.shape[-1])}
    elif hasattr(found, "predicted"):
        columns = {"time": found.times, "observed": found.observed, "predicted": found.predicted, "variance": found.variance}
    elif hasattr(found, "best"):
        columns = {"E": found.E, "rho": found.rho}
    elif hasattr(found, "indices"):
        n_points, k = found.indices.shape
        columns = {"point": np.repeat(found.points, k), "rank": np.tile(np.arange(1, k + 1), n_points),
                   "index": found.indices.ravel(), "distance": found.distances.ravel()}
    elif not hasattr(found, "band"):
        raise DTypeError(f"found must be a result of knn, simplex, smap, embedding_dimension or ccm, got {type(found).__name__}")
    else:
        low, high = found.band()
        columns = {"library_size": found.library_sizes, "rho": found.mean, "low": low, "high": high, "p": found.p_values}
    return pandas.DataFrame(columns)


def choose(table, names, what="columns"):
    """Columns of a table (pandas, or a dict of series) by name, shape (n_times, n_names)."""
    names = [names] if isinstance(names, str) else list(names)
    there = [str(c) for c in (table.columns if hasattr(table, "columns") else table)]
    for name in names:
        if name not in there:
            raise InputError(f"{what}: there is no column {name!r}; the columns are {', '.join(there)}")
    return np.column_stack([np.asarray(table[name]) for name in names])
