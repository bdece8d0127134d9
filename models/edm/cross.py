"""Cross mapping of all pairs of many series."""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from pathlib import Path

import numpy as np
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)

import portable as pk
from portable.errors import DTypeError, InputError, ShapeError

from ..checks import as_numbers, check_choice, check_count, check_flag, check_number
from . import frames
from .checks import (
    DTYPES,
    check_columns,
    check_embedding,
    check_horizon,
    check_library,
    check_radius,
    check_windows,
)
from .mapping import Mapping
from .neighbours import within_windows

STEPS = 64  # of the progress, and of a result that goes to a file: at most one such part is computed twice


def cross_map(dataset, dims, *, tau=1, Tp=0, exclusion_radius=0, libraries=None, lib=None, pred=None, dtype="float32", out=None,
              memory_mb=4096, progress=False, space=None):
    """Cross mapping skill of every pair: rho[i, j] says how well series i predicts series j.

    Series i is embedded with the dimension of the target, and each of its points predicts the target's value by simplex
    projection. A high rho[i, j] that grows with the length of the library is taken as a sign that j drives i.

    Parameters
    ----------
    dataset : array-like, shape (n_steps, n_series); also a pandas DataFrame or an xarray DataArray
        NaN is a missing value: what would need it is left out.
    dims : array-like of int, shape (n_series,), or int
        Embedding dimension for each target.
    tau : int, default 1
    Tp : int, default 0
        Steps from a point's last coordinate to the predicted value; negative looks back.
    exclusion_radius : int, default 0
        Candidates at most so many steps from a point are no neighbours of it; 0 leaves out the point itself.
    libraries : array-like of int, optional
        Library series, all if not given.
    lib, pred : (begin, end) or a sequence of such pairs, optional
        Windows of times for candidates and points, as in `simplex`.
    dtype : {"float32", "float64"}
    out : str or Path, optional
        A .npy file that takes the result part by part. If it holds a part of the same result, only the rest is computed.
    memory_mb : float, default 4096
        Bound of what is kept on the space beyond the dataset and its copy, in MiB; less where fewer teams run at a time.
    progress : bool
        Show a bar with the time left.
    space : str or Space, optional

    Returns
    -------
    ndarray of float64, shape (n_libraries, n_series)
        Rows are libraries. NaN, with a RuntimeWarning, where library or target is constant. A DataFrame or DataArray with
        names if `dataset` is one; a memory map if `out` is given.

    Raises
    ------
    ShapeError, DTypeError, FiniteError, InputError
        Naming the argument.

    References
    ----------
    Takahashi et al., kEDM (PEARC 2021); Sugihara et al., Science 338 (2012), 496; equations (1) to (4) of `models.edm`.
    """
    given, dataset = dataset, check_columns(dataset, "dataset", dtype=np.float32)
    names = frames.names_of(given)
    n_times, n_series = dataset.shape
    dims = check_dims(dims, n_series)
    E, tau = check_embedding(int(dims.max()), tau, n_times, "dataset")
    Tp = check_horizon(Tp, n_times, E, tau)
    radius = check_radius(exclusion_radius)
    rows = check_libraries(libraries, n_series)
    check_choice(dtype, "dtype", DTYPES)
    check_flag(progress, "progress")
    memory_bytes = int(2**20 * check_number(memory_mb, "memory_mb", above=0))
    masked, times = within_windows(dataset, check_windows(lib, "lib", n_times), Tp)
    windows = check_windows(pred, "pred", n_times)
    lag = np.arange(E) * tau
    check_library(masked, rows, lag, times, E + 1, radius, names)
    key = hashlib.sha256(repr((dataset.shape, dims.tolist(), tau, Tp, radius, rows.tolist(), lib, windows, dtype)).encode())
    target = _Target(out, (len(rows), n_series), key, dataset)
    with pk.use(pk.default_space() if space is None else space), _bar(progress) as bar:
        task = bar.add_task("cross mapping", total=len(rows), completed=target.done)
        mapping = Mapping(masked, dataset, dataset, dims, lag, Tp, windows, radius, dtype, memory_bytes)
        constant = mapping.constant
        if constant.any():
            which = ", ".join(names[c] for c in np.flatnonzero(constant)[:5])
            warnings.warn(f"{int(constant.sum())} series do not vary ({which}{', ...' if constant.sum() > 5 else ''}): "
                          "their correlations are NaN", RuntimeWarning, stacklevel=2)
        size = len(rows) if out is None and not progress else -(-len(rows) // STEPS)
        while target.done < len(rows):
            part = rows[target.done:target.done + size]
            rho = mapping.run(part, times[None])
            rho[constant[part]] = np.nan
            rho[:, constant] = np.nan
            target.put(rho)
            bar.update(task, completed=target.done)
    return frames.matrix_like(given, target.rho, [names[r] for r in rows], names) if out is None else target.rho


class _Target:
    """Where rows of the result go: an array, or a .npy file with a note of how many rows it has."""

    def __init__(self, out, shape, key, dataset):
        self.done, self.note = 0, None
        if out is None:
            self.rho = np.empty(shape)
            return
        path = Path(out)
        if path.suffix != ".npy":
            raise InputError(f"out is {str(out)!r}; the name of a .npy file is wanted")
        if not path.parent.is_dir():
            raise InputError(f"out is {str(out)!r}, but there is no folder {str(path.parent)!r}")
        key.update(np.ascontiguousarray(dataset).data)
        self.key, self.note = key.hexdigest(), path.with_suffix(".npy.part")
        if path.exists() and self.note.exists():
            note = json.loads(self.note.read_text())
            if note["key"] == self.key:
                self.done = note["rows"]
        mode = "r+" if self.done else "w+"
        self.rho = np.lib.format.open_memmap(path, mode, np.float64, None if self.done else shape)

    def put(self, rows):
        self.rho[self.done:self.done + len(rows)] = rows
        self.done += len(rows)
        if self.note is None:
            return
        self.rho.flush()
        if self.done == len(self.rho):
            self.note.unlink(missing_ok=True)
        else:
            fresh = self.note.with_suffix(".new")
            fresh.write_text(json.dumps({"key": self.key, "rows": self.done}))
            os.replace(fresh, self.note)


def _bar(shown):
    return Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), disable=not shown,
                    transient=True)


def check_dims(dims, n_series):
    dims = as_numbers(dims, "dims")
    dims = np.full(n_series, dims) if dims.ndim == 0 else dims
    if dims.shape != (n_series,):
        raise ShapeError(f"dims has shape {dims.shape}; one dimension a series is wanted: shape ({n_series},)")
    if dims.dtype.kind not in "iu":
        raise DTypeError(f"dims must be whole numbers, got dtype {dims.dtype}")
    if dims.min() < 1:
        n = int(np.argmin(dims))
        raise InputError(f"dims[{n}] is {dims[n]}; at least 1 is wanted")
    return dims.astype(np.int64)


def check_libraries(libraries, n_series):
    if libraries is None:
        return np.arange(n_series)
    rows = np.atleast_1d(np.asarray(libraries))
    if rows.dtype.kind not in "iu" or rows.ndim != 1 or not rows.size:
        raise DTypeError(f"libraries must be numbers of columns, got {libraries!r}")
    for row in rows.tolist():
        check_count(row, "libraries", 0, n_series - 1)
    return rows.astype(np.int64)
