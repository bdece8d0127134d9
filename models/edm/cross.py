"""Cross mapping of all pairs of many series."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
import os
from pathlib import Path

import numpy as np
import numpy.typing as npt

from portable.errors import DTypeError, InputError, printable

from ..shared.annotations import ClientLike, PathLike, Real, Spaces, TableLike, TableOrArray, Whole
from ..shared.checks import check_choice, check_count, check_flag, check_number
from ..shared.cluster import connected
from ..shared.files import allocate_npy, check_no_input, ordinary, read_npy, replacing
from ..shared.progress import bar as bar_of
from ..shared.sharding import Shards, here
from ..shared.store import Store
from ..shared.warned import warn
from . import frames
from .checks import (
    DTYPES,
    DType,
    check_columns,
    check_embedding,
    check_horizon,
    check_library,
    check_valid,
    extremes,
)
from .dimensions import Of, check_dims, choose_dimensions
from .libraries import check_libraries
from .mapping import Maps, Sets, mapped_in_steps
from .layout import lay_out
from .search import by_lag
from .segments import Replicates, Windows, check_length, windows_in

SHARDS = 1024  # at most
_ENDS = 1 << 20  # bytes at each end by which a file of this run is known
STEPS = 64  # of the progress, and parts of a checkpoint: at most one of them is computed twice


def cross_map(
    dataset: TableLike,
    dims: npt.ArrayLike | Of = "library",
    *,
    E_max: Whole | None = None,
    tau: Whole = 1,
    Tp: Whole = 0,
    k: Whole | None = None,
    exclusion_radius: Whole = 0,
    libraries: npt.ArrayLike | None = None,
    lib: Windows | None = None,
    pred: Windows | None = None,
    valid: npt.ArrayLike | None = None,
    segments: Replicates = None,
    dtype: DType = "float32",
    out: PathLike | None = None,
    checkpoint: PathLike | None = None,
    memory_mb: Real = 4096,
    progress: bool = False,
    space: Spaces | None = None,
    client: ClientLike = None,
) -> TableOrArray:
    """Cross mapping skill of every pair: rho[i, j] says how well series i predicts series j.

    Series i is embedded, and each of its points predicts the target's value by simplex projection. A high
    rho[i, j] that grows with the length of the library is taken as a sign that j drives i.

    Parameters
    ----------
    dataset : array-like, shape (n_steps, n_series); also a pandas DataFrame or an xarray DataArray
        NaN is a missing value: what would need it is left out.
    dims : {"library", "target"} or array-like of int, default "library"
        Embedding dimensions: of each library the one with which it is forecast best itself; of each target,
        as in kEDM's paper; or given: one for all, shape (n_series,), for each target, or shape
        (n_libraries, 1), for each library, or (n_libraries, n_series), for each pair. There, libraries are
        all series, or the groups of `libraries`. A matrix with names tells what was chosen in `attrs["E"]`.
    E_max : int, optional
        The largest dimension that is tried; 20, or the square root of the number of times, if not given.
    tau : int, default 1
        Steps between the coordinates of a point.
    Tp : int, default 0
        Steps from a point's last coordinate to the predicted value; negative looks back.
    k : int, optional
        Neighbours of each point; one more than its lags if not given. Of series that are embedded already,
        E = 1 and k one more than their columns are wanted.
    exclusion_radius : int, default 0
        Candidates at most so many steps from a point are no neighbours of it; 0 leaves out the point itself.
    libraries : array-like of int or str, optional
        Library series by number or name, shape (n_libraries,), all if not given; or groups of them, shape
        (n_libraries, n_columns): then a point is E lags of each column and has E + 1 neighbours, as in
        `simplex`. Rows of the result follow them, and a checkpoint is for these groups.
    lib, pred : (begin, end) or a sequence of such pairs, optional
        Windows of times for candidates and points, as in `simplex`.
    valid, segments
        As in `simplex`.
    dtype : {"float32", "float64"}
        What distances are computed in.
    out : str or Path, optional
        A .npy file for the result, which appears there when it is whole. No file that another call has made
        is replaced.
    checkpoint : str or Path, optional
        A folder that keeps the rows, part by part: the same call goes on where an interrupted one ended, one
        for more `libraries` computes the others only, and a finished one nothing. If `out` is given it is
        OUT.checkpoint unless another is named. As large as the result; once that is there, it may be removed.
    memory_mb : float, default 4096
        Bound of what is kept on the space beyond the dataset and its copy, in MiB; less where fewer teams run
        at a time.
    progress : bool
        Show a bar with the time left.
    space : str, Space or a list of them, optional
        Spaces of a list, such as several GPUs, share the libraries.
    client : distributed.Client or "local", optional
        Whose workers share the libraries; each gets the dataset.

    Returns
    -------
    ndarray of float64, shape (n_libraries, n_series)
        Rows are libraries. NaN, with a RuntimeWarning, where library or target is constant. A DataFrame or
        DataArray with names if `dataset` is one; a memory map to be read if `out` is given.

    Raises
    ------
    ShapeError, DTypeError, FiniteError, InputError
        Naming the argument. Also where `out` exists and is not of this run, or is what `dataset` is read
        from; where a checkpoint is of another run, or in use.
    StorageError
        A file cannot be written, for the disk is full perhaps; what was finished is kept.

    References
    ----------
    Takahashi et al., kEDM (PEARC 2021); Sugihara et al., Science 338 (2012), 496; equations (1) to (4) of
    `portable.models.edm`.
    """
    check_flag(progress, "progress")
    memory_bytes = int(2**20 * check_number(memory_mb, "memory_mb", above=0))
    near = here(client, space)
    windows = tau, Tp, k, exclusion_radius, lib, pred, valid, segments
    cross = Cross(dataset, dims, libraries, E_max, *windows, dtype, near, np.float32)
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
            column, lag = by_lag(width, int(form.max()), cross.tau)
            args = source, points, cross.columns, form * width, lag, cross.Tp, cross.pred, cross.radius
            together = max(-(-len(missing) // SHARDS), 1)
            parts = [missing[a : a + together] for a in range(0, len(missing), together)]
            shards = Shards(
                functools.partial(
                    Maps, (*args, dtype, memory_bytes), {"column": column, "k": k}, cross.candidates[None]
                ),
                [Sets(part * width, None) for part in parts],
                client=client,
                space=space,
                label="cross_map",
            )
            whole = store.path is None and not progress
            size = max(len(parts), 1) if whole else -(-len(rows) // (STEPS * together))
            for numbers, found in mapped_in_steps(shards, size):
                done, rho = np.concatenate([parts[k] for k in numbers]), np.concatenate(found)
                rho[still[done]] = np.nan
                rho[:, constant] = np.nan
                target.put(done, rho)
                bar.update(task, completed=len(rows) - len(target.missing))
        target.finish()
    if out is not None:
        return np.load(out, mmap_mode="r")
    labels = [libraries.names[r] for r in rows]
    return frames.matrix_like(cross.given, target.rho, labels, names, cross.dims_of(rows))


class Cross:
    """Checked arguments of a cross map, in places of `portable.models.edm.layout`.

    dataset : ndarray, shape (n_times, n_series)
    dims : array of int, broadcasts to shape (n_libraries, n_series)
    settings : what a checkpoint depends on
    """

    def __init__(
        self,
        dataset,
        dims,
        libraries,
        E_max,
        tau,
        Tp,
        k,
        exclusion_radius,
        lib,
        pred,
        valid,
        segments,
        dtype,
        space,
        kept=None,
    ):
        self.given, self.cut = frames.timed(dataset, "dataset", segments)
        self.dataset = dataset = check_columns(self.given, "dataset", dtype=kept)
        self.names = frames.names_of(self.given)
        n_times, self.n_series = dataset.shape
        self.libraries = libraries = check_libraries(libraries, self.names)
        dims = given_dims = check_dims(dims, self.n_series, libraries)
        check_choice(dtype, "dtype", DTYPES)
        if isinstance(dims, str):
            keys = {"tau": tau, "exclusion_radius": exclusion_radius, "lib": lib, "pred": pred}
            keys |= {"valid": valid, "segments": self.cut, "space": space}
            dims = choose_dimensions(dims, dataset, libraries, E_max, keys)
        self.dims = dims = np.atleast_2d(dims)
        E, self.tau = check_embedding(int(dims.max()), tau, n_times, "dataset")
        self.Tp = check_horizon(Tp, n_times, E, self.tau)
        self.radius = check_count(exclusion_radius, "exclusion_radius", 0)
        lib, pred = (windows_in(own, name, n_times, self.cut) for own, name in ((lib, "lib"), (pred, "pred")))
        check_length(self.cut, lib + pred, E, self.tau)
        valid, self.k = check_valid(valid, n_times), None if k is None else check_count(k, "k")
        self.settings = {"dataset": dataset, "dims": given_dims, "tau": self.tau, "Tp": self.Tp}
        self.settings |= {"exclusion_radius": self.radius, "dtype": dtype} | libraries.settings
        self.settings |= {"lib": np.array(lib), "pred": np.array(pred)}
        given = {"valid": valid, "segments": self.cut and np.array(self.cut.windows), "k": self.k}
        self.settings |= {name: value for name, value in given.items() if value is not None}
        if isinstance(given_dims, str):
            self.settings["E_max"] = E_max
        reach = max((E - 1) * self.tau, self.radius)
        laid = lay_out(dataset, lib, pred, valid, self.cut, reach, (self.Tp,))
        self.places, self.columns, self.masked, self.candidates, self.pred = laid
        for form, of in self.forms():
            largest, some = int(form.max()), dataclasses.replace(libraries, rows=of)
            _, lag = by_lag(libraries.width, largest, self.tau)
            check_library(
                self.masked, some, lag, self.candidates, largest + 1 if k is None else k, self.radius
            )

    def forms(self):
        """(dimension of each target, libraries that are asked for) for libraries of the same dimensions."""
        rows = np.unique(self.libraries.rows)
        # one row of dimensions stands for all: a thousand equal ones take a third of a second to tell apart
        dims = self.dims if len(self.dims) == 1 else self.dims_of(rows)
        forms, number = np.unique(dims, axis=0, return_inverse=True)
        for k, form in enumerate(forms):
            yield np.broadcast_to(form, self.n_series), rows[np.broadcast_to(number, rows.shape) == k]

    def dims_of(self, rows):
        """Dimensions of some libraries, shape (n_rows, 1 or n_series)."""
        return np.broadcast_to(self.dims, (len(self.libraries.columns), self.dims.shape[1]))[rows]

    def sources(self):
        """Return columns of all libraries, of candidates and of points; one array where these do not
        differ."""
        source = self.libraries.of(self.masked)
        return source, source if self.masked is self.columns else self.libraries.of(self.columns)


class _Target:
    """Keeper of the rows of the result: in the store, and in an array, which is that of the new file if there
    is `out`.

    Attributes
    ----------
    rho : ndarray of float64, shape (n_rows, n_series)
    missing : ndarray of int64
        Libraries that are still to be computed, each once.
    """

    def __init__(self, store, libraries, n_series, out, stack):
        self._store, self._rows, self._out, self._beside = store, libraries.rows, out, None
        self._n_libraries, rows = len(libraries.columns), libraries.rows
        self._shape = len(rows), n_series
        if out is not None and out.exists() and not self._is_own(out):
            raise _exists(out)
        done = [part["libraries"] for part in self._kept()]
        self.missing = np.setdiff1d(rows, np.concatenate([rows[:0], *done]))
        if out is None:
            self.rho = np.empty(self._shape)
        elif not len(self.missing) and self._is_there(out):
            return
        else:
            run = f"{store.key} {os.path.realpath(store.path)}"
            mark = hashlib.sha256(run.encode()).hexdigest()[:12]  # the same for each call of the run
            self._beside = stack.enter_context(replacing(out, "out", mark=mark, shared=True))
            self.rho = allocate_npy(self._beside, self._shape, np.float64)
        for part in self._kept():
            self._fill(part["libraries"], part["rho"])

    def put(self, libraries, rho):
        """Take rows of what is missing."""
        self.missing = np.setdiff1d(self.missing, libraries)
        self._store.put(f"rows-{libraries[0]:08d}", libraries=libraries, rho=rho)
        self._fill(libraries, rho)

    def _kept(self):
        return (part for part in map(self._store.get, self._store.names("rows-")) if part is not None)

    def _places(self, libraries):
        """Return the rows of the result that are of these libraries, and of which of them."""
        number = np.full(self._n_libraries, -1)
        number[libraries] = np.arange(len(libraries))
        places = np.flatnonzero(number[self._rows] >= 0)
        return places, number[self._rows[places]]

    def _fill(self, libraries, rho):
        places, numbers = self._places(libraries)
        self.rho[places] = rho[numbers]

    def finish(self):
        """Note what the new file is known by, before it has its name."""
        if self._beside is not None:
            self.rho.flush()
            made = {*self._made(), _look(self._beside), self._place(self._out)}
            if made != set(self._made()):
                self._store.put("out", made=np.array(sorted(made)))

    def _made(self):
        """Return the marks of this run's files, and the places where they were put."""
        kept = self._store.get("out")
        return [] if kept is None else kept["made"].tolist()

    def _is_own(self, out):
        """Tell whether a file is of this run: by its content, or if it has none by its place."""
        made = self._made() if out.is_file() else []
        return bool(made) and (_look(out) in made or self._place(out) in made and _loaded(out) is None)

    def _place(self, out):
        return os.path.relpath(os.path.realpath(out), os.path.realpath(self._store.path))

    def _is_there(self, out):
        """Tell whether the file holds the rows that were kept."""
        found = _loaded(out)
        if found is None or found.shape != self._shape or found.dtype != np.float64:
            return False
        rows = ((*self._places(part["libraries"]), part["rho"]) for part in self._kept())
        return all(
            np.array_equal(found[places], rho[numbers], equal_nan=True) for places, numbers, rho in rows
        )


def _loaded(path):
    """Return the array of a file, mapped; None if it holds none."""
    with contextlib.suppress(InputError):
        return read_npy(path)
    return None


def _look(path):
    """Return a file's mark, under whatever name: its length, and a digest of both ends."""
    with open(path, "rb", opener=ordinary) as file:
        found = hashlib.sha256(file.read(_ENDS))
        length = file.seek(0, os.SEEK_END)
        file.seek(max(0, length - _ENDS))
        found.update(file.read())
    return f"{length} {found.hexdigest()}"


def _exists(out):
    return InputError(f"out is '{out}', which exists and is not of this run; name another file, or remove it")


def _check_out(out, checkpoint, *arrays):
    """Return the file for the result, and the folder for what leads to it, as paths or None."""
    if out is None:
        return None, checkpoint
    if not isinstance(out, (str, os.PathLike)):
        raise DTypeError(f"out must be the name of a file, got {out!r} of type {type(out).__name__}")
    out = Path(out)
    if out.suffix != ".npy":
        raise InputError(f"out is '{out}'; the name of a .npy file is wanted")
    if not out.parent.is_dir():
        raise InputError(f"out is '{out}', but there is no folder '{out.parent}'")
    for array in arrays:
        check_no_input(out, array, "out", "dataset")
    checkpoint = out.with_name(f"{out.name}.checkpoint") if checkpoint is None else checkpoint
    if out.exists() and not os.path.exists(checkpoint):
        raise _exists(out)
    return out, checkpoint
