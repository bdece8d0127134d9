"""Cross mapping of all pairs of many series."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
from pathlib import Path

import numpy as np

from ..shared import (
    ArrayLike,
    ClientLike,
    DType,
    InputError,
    PathLike,
    Real,
    Spaces,
    Store,
    TableLike,
    Whole,
    check_choice,
    check_flag,
    check_kind,
    check_positive,
    connected,
    local_space,
    printable,
    read_npy,
    replacing,
    warn,
)
from ..shared.annotations import TableOrArray
from ..shared.files import allocate_npy, check_no_input, ordinary
from ..shared.progress import bar as bar_of
from . import frames
from .checks import (
    check_columns,
    check_library,
    extremes,
)
from .dimensions import Of, check_dims, choose_dimensions
from .libraries import check_libraries
from .mapping import Sets, mapped_in_steps
from .layout import lay_out
from .segments import Replicates, Window, Windows

SHARDS = 1024  # at most
_ENDS = 1 << 20  # bytes at each end of a file whose digest identifies a file of this run
STEPS = 64  # steps of the progress bar, and parts of a checkpoint; an interruption loses one part at most


def cross_map(
    dataset: TableLike,
    dims: ArrayLike | Of = "library",
    *,
    E_max: Whole | None = None,
    tau: Whole = 1,
    Tp: Whole = 0,
    k: Whole | None = None,
    exclusion_radius: Whole = 0,
    libraries: ArrayLike | None = None,
    lib: Windows = None,
    pred: Windows = None,
    valid: ArrayLike | None = None,
    segments: Replicates = None,
    dtype: DType = "float32",
    out: PathLike | None = None,
    checkpoint: PathLike | None = None,
    memory_mb: Real = 4096,
    progress: bool = False,
    space: Spaces = None,
    client: ClientLike = None,
) -> TableOrArray:
    """Compute the cross mapping skill of every pair of series: rho[i, j] is the skill of library i for target
    j.

    Series i is embedded, and each of its points predicts the value of series j by simplex projection. A high
    rho[i, j] that increases with the length of the library indicates that j drives i.

    Parameters
    ----------
    dataset : array-like, shape (n_steps, n_series); also a pandas DataFrame or an xarray DataArray
        NaN is a missing value: points and predictions that would need it are left out.
    dims : {"library", "target"} or array-like of int, default "library"
        Embedding dimensions. "library": the dimension with the best forecast of each library by itself.
        "target": that of each target, as in the kEDM paper. Numbers: one for all, shape (n_series,) for each
        target, (n_libraries, 1) for each library, or (n_libraries, n_series) for each pair, where libraries
        are all series, or the groups of `libraries`. `attrs["E"]` of a result with names holds the chosen
        dimensions.
    E_max : int, optional
        The largest dimension that is tried; by default 20, or the square root of the number of times.
    tau : int, default 1
        Steps between the coordinates of a point.
    Tp : int, default 0
        Steps from a point's last coordinate to the predicted value; negative for the past.
    k : int, optional
        Neighbours of each point; by default one more than its lags. For series that are embedded already,
        pass E = 1 and k one more than their columns.
    exclusion_radius : int, default 0
        Candidates at most this many steps from a point are excluded; 0 excludes the point itself only.
    libraries : array-like of int or str, optional
        Library series by number or name, shape (n_libraries,), all by default; or groups of series, shape
        (n_libraries, n_columns): then a point is E lags of each column and has E + 1 neighbours, as in
        `simplex`. They are the rows of the result; a checkpoint is valid for the same groups only.
    lib, pred : (begin, end) or a sequence of such pairs, optional
        Windows of times for candidates and points, as in `simplex`.
    valid, segments
        As in `simplex`.
    dtype : {"float32", "float64"}
        Type of the distances.
    out : str or Path, optional
        A .npy file for the result, which exists once the result is complete. A file of another call is not
        replaced.
    checkpoint : str or Path, optional
        A folder in which rows are stored, part by part. The same call resumes after an interruption, a call
        with more `libraries` computes only the additional ones, and a complete one computes nothing. If
        `out` is given, the default is OUT.checkpoint. It is as large as the result, and may be removed once
        the result exists.
    memory_mb : float, default 4096
        Upper bound of the memory on the space in MiB, in addition to the dataset and its copy; less is used
        if fewer teams run at a time.
    progress : bool
        Show a progress bar with the remaining time.
    space : str, Space or a list of them, optional
        With a list, such as several GPUs, the libraries are distributed over the spaces.
    client : distributed.Client or "local", optional
        A Dask client over whose workers the libraries are distributed; each worker receives the dataset.

    Returns
    -------
    ndarray of float64, shape (n_libraries, n_series)
        Rows are libraries, columns targets. NaN, with a RuntimeWarning, if library or target is constant. A
        DataFrame or DataArray with names if `dataset` is one; a read-only memory map if `out` is given.

    Raises
    ------
    ShapeError, DTypeError, FiniteError, InputError
        An argument is invalid; the message names it. Also if `out` exists and is not of this run, or is the
        file that `dataset` is read from; or if a checkpoint is of another run, or in use.
    StorageError
        A file cannot be written, perhaps because the disk is full; the finished rows are kept.

    References
    ----------
    Takahashi et al., kEDM (PEARC 2021); Sugihara et al., Science 338 (2012), 496; equations (1) to (4) of
    `portable.models.edm`.
    """
    check_flag(progress, "progress")
    memory_bytes = int(2**20 * check_positive(memory_mb, "memory_mb"))
    near = local_space(client, space)
    window = Window(tau, Tp, k, exclusion_radius, lib, pred, valid, segments)
    cross = Cross(dataset, dims, libraries, E_max, window, dtype, near, np.float32)
    libraries, names, n_series = cross.libraries, cross.names, cross.n_series
    rows, width = libraries.rows, libraries.width
    out, checkpoint = _check_out(out, checkpoint, cross.given, cross.dataset)
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(Store(checkpoint, "edm.cross_map", cross.settings))
        target = _Target(store, libraries, n_series, out, stack)
        client = stack.enter_context(connected(client))
        bar = stack.enter_context(bar_of(progress))
        task = bar.add_task("cross mapping", total=len(rows), completed=len(rows) - len(target.missing))
        source, points = cross.sources()
        constant = np.equal(*extremes(cross.masked))
        still = libraries.all_of(constant)
        if constant.any():
            which = printable(", ".join(names[c] for c in np.flatnonzero(constant)[:5]))
            warn(
                f"{int(constant.sum())} series do not vary ({which}{', ...' if constant.sum() > 5 else ''}): "
                "their correlations are NaN",
            )
        for form, of in cross.forms():
            missing = np.intersect1d(of, target.missing)
            if not len(missing):
                continue
            args = source, points, cross.columns, form, cross.window, width, dtype, memory_bytes
            together = max(-(-len(missing) // SHARDS), 1)
            parts = [missing[a : a + together] for a in range(0, len(missing), together)]
            mapping = args, cross.candidates[None]
            whole = store.path is None and not progress
            size = max(len(parts), 1) if whole else -(-len(rows) // (STEPS * together))
            pieces = [Sets(part * width, None) for part in parts]
            where = {"client": client, "space": space, "label": "cross_map"}
            for numbers, found in mapped_in_steps(mapping, pieces, size, **where):
                done, rho = np.concatenate([parts[k] for k in numbers]), np.concatenate(found)
                rho[still[done]] = np.nan
                rho[:, constant] = np.nan
                target.put(done, rho)
                bar.update(task, completed=len(rows) - len(target.missing))
        target.finish()
    if out is not None:
        return np.load(out, mmap_mode="r")
    labels = [libraries.names[r] for r in rows]
    return frames.matrix_like(dataset, target.rho, labels, names, cross.dims_of(rows))


class Cross:
    """Checked arguments of a cross map, with series laid out by `portable.models.edm.layout`.

    dataset : ndarray, shape (n_times, n_series)
    dims : array of int, broadcasts to shape (n_libraries, n_series)
    settings : dict, the arguments on which a checkpoint depends
    """

    def __init__(
        self,
        dataset,
        dims,
        libraries,
        E_max,
        window,
        dtype,
        space,
        kept=None,
    ):
        self.given, self.cut = frames.timed(dataset, "dataset", window.segments)
        self.dataset = dataset = check_columns(self.given, "dataset", dtype=kept)
        self.names = frames.names_of(self.given)
        n_times, self.n_series = dataset.shape
        self.libraries = libraries = check_libraries(libraries, self.names)
        dims = given_dims = check_dims(dims, self.n_series, libraries)
        check_choice(dtype, "dtype", DType)
        if isinstance(dims, str):
            # forecasts one step ahead
            keys = window._asdict() | {"Tp": 1, "segments": self.cut, "space": space}
            del keys["k"]
            dims = choose_dimensions(dims, dataset, libraries, E_max, keys)
        self.dims = dims = np.atleast_2d(dims)
        E, window = window.checked(int(dims.max()), "dataset", n_times, self.cut)
        tau, Tp, k, radius, lib, pred, valid, _ = window
        self.settings = {"dataset": dataset, "dims": given_dims, "dtype": dtype} | libraries.settings
        given = window._asdict() | {"lib": np.array(lib), "pred": np.array(pred)}
        given["segments"] = self.cut and np.array(self.cut.windows)
        self.settings |= {name: value for name, value in given.items() if value is not None}
        if isinstance(given_dims, str):
            self.settings["E_max"] = E_max
        reach = max((E - 1) * tau, radius)
        laid = lay_out(dataset, lib, pred, valid, self.cut, reach, (Tp,))
        self.places, self.columns, self.masked, self.candidates, pred = laid
        self.window = window._replace(pred=pred)
        for form, of in self.forms():
            largest, some = int(form.max()), dataclasses.replace(libraries, rows=of)
            check_library(
                self.masked,
                some,
                np.arange(largest) * tau,
                self.candidates,
                largest + 1 if k is None else k,
                radius,
            )

    def forms(self):
        """Yield (dimension of each target, requested libraries) for each group of libraries with the same
        dimensions."""
        rows = np.unique(self.libraries.rows)
        # one row of dimensions represents all: `unique` of 1,000 equal rows takes a third of a second
        dims = self.dims if len(self.dims) == 1 else self.dims_of(rows)
        forms, number = np.unique(dims, axis=0, return_inverse=True)
        for k, form in enumerate(forms):
            yield np.broadcast_to(form, self.n_series), rows[np.broadcast_to(number, rows.shape) == k]

    def dims_of(self, rows):
        """Return the dimensions of the libraries `rows`, shape (n_rows, 1 or n_series)."""
        return np.broadcast_to(self.dims, (len(self.libraries.columns), self.dims.shape[1]))[rows]

    def sources(self):
        """Return the columns of all libraries for candidates, and those for points; the same array twice if
        they are equal."""
        source = self.libraries.of(self.masked)
        return source, source if self.masked is self.columns else self.libraries.of(self.columns)


class _Target:
    """Rows of the result, in the store and in an array, which is memory-mapped to the new file if `out` is
    given.

    Attributes
    ----------
    rho : ndarray of float64, shape (n_rows, n_series)
    missing : ndarray of int64
        Libraries that are not yet computed, without duplicates.
    """

    def __init__(self, store, libraries, n_series, out, stack):
        self._store, self._rows, self._out, self._beside = store, libraries.rows, out, None
        self._n_libraries, rows = len(libraries.columns), libraries.rows
        self._shape = len(rows), n_series
        if out is not None and out.exists() and not self._is_own(out):
            raise _exists(out)
        done = [part["libraries"] for part in store.parts("rows-")]
        self.missing = np.setdiff1d(rows, np.concatenate([rows[:0], *done]))
        if out is None:
            self.rho = np.empty(self._shape)
        elif not len(self.missing) and self._is_there(out):
            return
        else:
            run = f"{store.key} {os.path.realpath(store.path)}"
            mark = hashlib.sha256(run.encode()).hexdigest()[:12]  # equal in all calls of the run
            self._beside = stack.enter_context(replacing(out, mark=mark, shared=True))
            self.rho = allocate_npy(self._beside, self._shape, np.float64)
        for part in store.parts("rows-"):
            self._fill(part["libraries"], part["rho"])

    def put(self, libraries, rho):
        """Store the rows of some missing libraries."""
        self.missing = np.setdiff1d(self.missing, libraries)
        self._store.put(f"rows-{libraries[0]:08d}", libraries=libraries, rho=rho)
        self._fill(libraries, rho)

    def _places(self, libraries):
        """Return the rows of the result that belong to `libraries`, and for each its index in `libraries`."""
        number = np.full(self._n_libraries, -1)
        number[libraries] = np.arange(len(libraries))
        places = np.flatnonzero(number[self._rows] >= 0)
        return places, number[self._rows[places]]

    def _fill(self, libraries, rho):
        places, numbers = self._places(libraries)
        self.rho[places] = rho[numbers]

    def finish(self):
        """Store the mark that identifies the new file, before it gets its name."""
        if self._beside is not None:
            self.rho.flush()
            made = {*self._file_marks(), _mark_of_file(self._beside), self._place(self._out)}
            if made != set(self._file_marks()):
                self._store.put("out", made=np.array(sorted(made)))

    def _file_marks(self):
        """Return the marks of this run's files, and their paths."""
        kept = self._store.get("out")
        return [] if kept is None else kept["made"].tolist()

    def _is_own(self, out):
        """Return True if a file is of this run, by its content, or by its path if it is empty."""
        made = self._file_marks() if out.is_file() else []
        return bool(made) and (
            _mark_of_file(out) in made or self._place(out) in made and _loaded(out) is None
        )

    def _place(self, out):
        return os.path.relpath(os.path.realpath(out), os.path.realpath(self._store.path))

    def _is_there(self, out):
        """Return True if the file holds the rows of the store."""
        found = _loaded(out)
        if found is None or found.shape != self._shape or found.dtype != np.float64:
            return False
        rows = ((*self._places(part["libraries"]), part["rho"]) for part in self._store.parts("rows-"))
        return all(
            np.array_equal(found[places], rho[numbers], equal_nan=True) for places, numbers, rho in rows
        )


def _loaded(path):
    """Return the array of a .npy file, memory-mapped; None if it holds none."""
    with contextlib.suppress(InputError):
        return read_npy(path)
    return None


def _mark_of_file(path):
    """Return the mark of a file, which does not depend on its name: its length, and a digest of both ends."""
    with open(path, "rb", opener=ordinary) as file:
        found = hashlib.sha256(file.read(_ENDS))
        length = file.seek(0, os.SEEK_END)
        file.seek(max(0, length - _ENDS))
        found.update(file.read())
    return f"{length} {found.hexdigest()}"


def _exists(out):
    return InputError(f"out is '{out}', which exists and is not of this run; name another file, or remove it")


def _check_out(out, checkpoint, *arrays):
    """Return the file for the result and the folder of the checkpoint, as paths or None."""
    if out is None:
        return None, checkpoint
    out = Path(check_kind(out, "out", (str, os.PathLike), "be the name of a file"))
    if out.suffix != ".npy":
        raise InputError(f"out is '{out}'; expected the name of a .npy file")
    if not out.parent.is_dir():
        raise InputError(f"out is '{out}', but there is no folder '{out.parent}'")
    for array in arrays:
        check_no_input(out, array, "out", "dataset")
    checkpoint = out.with_name(f"{out.name}.checkpoint") if checkpoint is None else checkpoint
    if out.exists() and not os.path.exists(checkpoint):
        raise _exists(out)
    return out, checkpoint
