"""Tests of whole cross maps against surrogates, and what may be rejected of them all."""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt

import portable as pk
from portable.errors import InputError

from ..shared.launches import launch
from ..shared.annotations import PathLike, Real, TableLike, Whole
from ..shared.checks import check_choice, check_count, check_flag, check_number, check_share
from ..shared.fingerprints import digest
from ..shared.progress import bar
from ..shared.store import Store
from . import list_kernels, surrogate_kernels
from .checks import DType, extremes
from .cross import STEPS, Cross
from .search import using
from .segments import Replicates, Windows
from .dimensions import Of
from .mapping import Mapping, Table, cut, on_the_space
from .surrogates import Kind, Surrogates, check_kinds, in_words
from .tested import (
    METHODS,
    NO_SURROGATE,
    SAME,
    STILL_LIBRARY,
    STILL_PREDICTIONS,
    STILL_TARGET,
    TESTED,
    Adjustment,
    CrossMapTest,
)

STOP_AFTER = 10
# surrogates of each target between two looks at which pairs are decided; the last for all that follow
STAGES = 32, 64, 128
_FOUND = "rho", "better", "tried"


def cross_map_test(
    dataset: TableLike,
    dims: npt.ArrayLike | Of = "library",
    *,
    E_max: Whole | None = None,
    n_surrogates: Whole = 200,
    max_surrogates: Whole | None = None,
    fdr: Real = 0.05,
    method: Adjustment = "bh",
    surrogate: Kind | None = None,
    period: Whole | None = None,
    block: Whole | None = None,
    stop_after: Whole | None = STOP_AFTER,
    tau: Whole = 1,
    Tp: Whole = 0,
    k: Whole | None = None,
    exclusion_radius: Whole = 0,
    libraries: npt.ArrayLike | None = None,
    lib: Windows | None = None,
    pred: Windows | None = None,
    valid: npt.ArrayLike | None = None,
    segments: Replicates = None,
    seed: Whole = 0,
    dtype: DType = "float32",
    checkpoint: PathLike | None = None,
    memory_mb: Real = 4096,
    progress: bool = False,
    space: pk.SpaceLike | None = None,
) -> CrossMapTest:
    """Cross mapping skill of every pair, tested against surrogates of each target.

    Surrogates are made, mapped and counted on the space. A pair is given up as soon as `stop_after`
    surrogates did at least as well; its p-value is then that number over how many were tried (Besag and
    Clifford), else (1 + better) / (1 + tried). Either is valid: of true null hypotheses, no more than a share
    p has a p-value of at most p. So many surrogates cost little where most pairs are not coupled.

    Parameters
    ----------
    dataset : array-like, shape (n_steps, n_series); also a pandas DataFrame or an xarray DataArray
    dims, E_max
        As in `cross_map`.
    n_surrogates : int, default 200
        Surrogates of each target. The smallest p-value is 1 / (1 + n_surrogates), if no pair goes on.
    max_surrogates : int, optional
        Surrogates, at most, of pairs that no surrogate has matched, where so many could reject them. These
        are pairs that are not rejected at the false discovery rate `fdr` by `method`. If not given, no pair
        gets more than `n_surrogates`. A p-value from there is as valid as others, for the number of
        surrogates is chosen by how many pairs are unmatched: exactly, where these are independent of the pair
        itself.
    fdr : float, default 0.05
        False discovery rate at which pairs are rejected.
    method : {"bh", "by"}, default "bh"
        How p-values are adjusted: Benjamini and Hochberg, or Benjamini and Yekutieli. See `adjust`.
    surrogate : {"phase", "mirror", "seasonal", "twin", "block", "random"}, optional
        Kind of surrogates. If not given, each target has the kind that its traits ask for: "seasonal" where
        there is a season, "block" where there are rare bursts or gaps, "mirror" where it may drift, which a
        warning names, else "phase".
    period, block : int, optional
        As in `surrogates`.
    stop_after : int or None, default 10
        None tries all surrogates on all pairs.
    tau, Tp, k, exclusion_radius, libraries
        As in `cross_map`.
    lib, pred : (begin, end) or a sequence of such pairs, optional
        Windows of times for candidates and points, as in `simplex`.
    valid, segments
        As in `simplex`; surrogates are made segment by segment.
    seed : int, default 0
    dtype : {"float32", "float64"}
    checkpoint : str or Path, optional
        A folder that keeps what was found, part by part: the same call goes on where an interrupted one
        ended, one for more `libraries` (single series) computes the others only.
    memory_mb : float, default 4096
        Bound of what is kept on the space beyond the dataset, in MiB. Where the surrogates of all targets do
        not fit, the targets are taken group by group.
    progress : bool
        Show a bar on standard error, of libraries times groups of targets; it grows where pairs go on.
    space : str or Space, optional

    Returns
    -------
    CrossMapTest

    Raises
    ------
    ShapeError, DTypeError, FiniteError, InputError
        Naming the argument.
    StorageError
        The checkpoint cannot be written; what was finished is kept.

    References
    ----------
    J. Besag, P. Clifford: Sequential Monte Carlo p-values. Biometrika 78 (1991), 301-304.
    """
    check_flag(progress, "progress")
    windows = {"tau": tau, "exclusion_radius": exclusion_radius, "lib": lib, "pred": pred, "valid": valid}
    windows["segments"] = segments
    cross = Cross(dataset, dims, libraries, E_max, Tp, dtype, space, windows, k)
    dataset, names, libraries = cross.dataset, cross.names, cross.libraries
    n_times, n_series = dataset.shape
    n_surrogates = check_count(n_surrogates, "n_surrogates", 1)
    memory = int(2**20 * check_number(memory_mb, "memory_mb", above=0))
    if max_surrogates is not None:
        check_count(max_surrogates, "max_surrogates", n_surrogates)
        needed = 3 * _width(max_surrogates) * n_times * np.dtype(dtype).itemsize
        if needed > memory:
            raise InputError(
                f"max_surrogates is {max_surrogates}; so many of a series of {n_times} times "
                f"want memory_mb={int(np.ceil(needed / 2**20))}, got {memory_mb}"
            )
    check_share(fdr, "fdr")
    check_choice(method, "method", METHODS)
    never = max(n_surrogates, max_surrogates or 0) + 1
    stop_after = never if stop_after is None else check_count(stop_after, "stop_after")
    kinds = check_kinds(dataset, surrogate, period, block, "dataset", names, cross.cut)
    source, points = cross.sources()
    settings = cross.settings | {
        "n_surrogates": n_surrogates,
        "surrogate": surrogate,
        "period": period,
        "block": block,
        "stop_after": stop_after,
        "seed": seed,
        "memory_mb": memory_mb,
    }

    def group(form, chosen, n, memory):
        made = _Group(cross, source, points, chosen, form[chosen], dtype, memory)
        own = dataset[:, chosen], [kinds[c] for c in chosen], chosen, n, seed
        made.surrogates(*own, {"block": block, "tau": cross.tau, "segments": cross.cut})
        return made

    def judged():
        place, still = np.searchsorted(found.rows, libraries.rows), np.equal(*extremes(dataset))
        rho, better, tried = (numbers[place] for numbers in found.numbers)
        p, reasons = _judged(rho, better, tried, libraries, still, stop_after)
        E = np.array(np.broadcast_to(cross.dims_of(libraries.rows), rho.shape))
        rows = [libraries.names[r] for r in libraries.rows]
        about = in_words(kinds), n_surrogates, stop_after, n_max, E
        return CrossMapTest(rho, p, better, tried, reasons, rows, names, *about)

    n_max = n_surrogates
    found = _Found(np.unique(libraries.rows), n_series)
    with (
        Store(checkpoint, "edm.cross_map_test", settings) as store,
        bar(progress) as shown,
        using(space),
    ):
        found.shown, found.task = shown, shown.add_task("libraries tested", total=0)
        each = n_times * np.dtype(dtype).itemsize
        forms = list(cross.forms())

        def fill(name, n, going=None):
            for form, rows in forms:
                order = np.argsort(form, kind="stable")
                if going is not None:
                    own = going[np.searchsorted(found.rows, rows)]
                    rows, order = rows[own.any(axis=1)], order[own.any(axis=0)[order]]
                if len(rows):
                    part = name if len(forms) == 1 else f"{name}{digest(form)[:12]}-"
                    make = functools.partial(group, form)
                    found.fill(store, part, rows, order, n, make, cross, stop_after, memory, each, going)

        fill("", n_surrogates)
        while n_max < (max_surrogates or 0):
            result = judged()
            wanted = result.n_wanted(fdr, method)
            if not wanted:
                break
            n_max = min(max_surrogates, max(wanted, 2 * n_max))
            fill(f"most-{n_max:012d}-", n_max, found.unmatched(libraries.rows, result))
        return judged()


class _Found:
    """Numbers that are known of each library and target.

    Attributes
    ----------
    rows : ndarray of int, shape (n_rows,)
        Libraries, ascending.
    shown, task
        A bar, and the work in it.
    numbers : rho, and how many surrogates did at least as well and were tried; of shape (n_rows, n_series)
    """

    def __init__(self, rows, n_series):
        shape = len(rows), n_series
        self.rows = rows
        self.numbers = np.empty(shape), np.empty(shape, np.int64), np.empty(shape, np.int64)

    def unmatched(self, asked, result):
        """Return pairs of `rows` that no surrogate of the result's has matched, shape (n_rows,
        n_series)."""
        _, first = np.unique(asked, return_index=True)
        return result.unmatched()[first]

    def fill(self, store, name, rows, targets, n, group, cross, stop, memory, each, going=None):
        """Test these libraries and targets against n surrogates, or read from the store what is there.

        group : callable, makes the `_Group` of some targets and n surrogates for a bound of memory
        each : bytes of a column of all times
        going : pairs of which the numbers are taken; all if not given
        """
        each *= _width(n)
        at_once = int(max(1, memory // (3 * each)))
        n_groups = -(-len(targets) // at_once)
        self.shown.update(self.task, total=self.shown.tasks[0].total + n_groups * len(rows))
        for begin in range(0, len(targets), at_once):
            chosen = targets[begin : begin + at_once]
            part_name = f"{name}targets-{begin:08d}-rows-"
            if going is not None:  # which pairs go on depends on the others
                part_name = f"{name}{digest(chosen)[:12]}-rows-"
            test = functools.cache(functools.partial(group, chosen, n, memory - each * len(chosen)))
            in_one = store.path is None and self.shown.disable
            size = len(rows) if in_one else -(-len(rows) // STEPS)

            def compute(missing):
                some = missing[:size]
                return {"libraries": some} | dict(zip(_FOUND, test().run(some, cross.candidates[None], stop)))

            for part in store.rows(part_name, rows, compute, "libraries"):
                self._take(chosen, part["libraries"], (part[of] for of in _FOUND), going)
                self.shown.advance(self.task, np.isin(part["libraries"], rows).sum())

    def _take(self, chosen, libraries, numbers, going):
        """Take what was found of some libraries, as far as they are asked for, and of the chosen targets."""
        wanted = np.isin(libraries, self.rows)
        places = np.ix_(np.searchsorted(self.rows, libraries[wanted]), chosen)
        for target, part in zip(self.numbers, numbers):
            target[places] = (
                part[wanted] if going is None else np.where(going[places], part[wanted], target[places])
            )


def _judged(rho, better, tried, libraries, still, stop_after):
    """p-values and reasons of pairs; rho becomes NaN where nothing varies."""
    rows, reasons = libraries.rows, np.zeros(rho.shape, np.int8)
    reasons[np.isnan(rho)] = STILL_PREDICTIONS
    reasons[np.isfinite(rho) & (tried == 0)] = NO_SURROGATE
    reasons[libraries.hold(rho.shape[1])[rows]] = SAME
    reasons[:, still] = STILL_TARGET
    dead = libraries.all_of(still)[rows]
    reasons[dead] = STILL_LIBRARY
    rho[dead] = np.nan
    rho[:, still] = np.nan
    given_up = better >= stop_after
    p = np.where(given_up, better / np.maximum(tried, 1), (1 + better) / (1 + tried))
    p[reasons != TESTED] = np.nan
    return p, reasons


class _Group(Mapping):
    """Libraries mapped to a group of targets, and then to their surrogates, as long as pairs are open."""

    def __init__(self, cross, source, points, chosen, dims, dtype, memory):
        self.width, self.places = cross.libraries.width, cross.places
        column, lag = cross.libraries.coordinates(int(dims.max()), cross.tau)
        super().__init__(
            source,
            points,
            cross.columns[:, chosen],
            dims * self.width,
            lag,
            cross.Tp,
            cross.pred,
            cross.radius,
            dtype,
            memory,
            column=column,
            k=cross.k,
        )

    def surrogates(self, columns, kinds, numbers, n, seed, make):
        """Surrogates of all targets, in as many tables as there are stages."""
        spread, middle = np.nanstd(columns, axis=0), np.nanmean(columns, axis=0)
        standard = (columns - middle) / np.where(spread > 0, spread, 1.0)
        standard = standard[:, self.order]
        made = Surrogates(
            standard,
            [kinds[c] for c in self.order],
            seed,
            E=(self.dims // self.width)[self.search_of],
            numbers=numbers[self.order],
            **make,
        )
        self.stages, first = [], 0
        while first < n:
            width = min(STAGES[min(len(self.stages), len(STAGES) - 1)], n - first)
            room = _width(width)
            table = pk.zeros((len(columns), self.n_targets * room), self.dtype)
            made.fill(table, first, width, room)
            table = self.places.spread_view(table)
            slices = {abreast: [] for abreast in (4, 2, 1)}
            for q, search in enumerate(self.search_of.tolist()):
                for abreast, part in cut(search, q * room, width, q * room, q):
                    slices[abreast].append(part)
            self.stages.append((width, room, Table(table, table, on_the_space(slices))))
            self.n_sums = max(self.n_sums, self.n_targets * room)
            first += width

    def run(self, first, times, stop):
        """rho, surrogates that did at least as well, and those tried, each of shape (n_sets, n_targets)."""
        size = min(self.batch_size(times.shape[1]), len(first))
        rho = np.empty((len(first), self.n_targets))
        counts = np.empty((len(first), 2, self.n_targets), np.int32)
        self.room_for(size, times)
        still_open = pk.empty((size, self.n_targets), np.int32)
        on_space = pk.empty((size, 2, self.n_targets), np.int32)
        skill = pk.empty((size, self.n_sums), np.float64)
        for begin in range(0, len(first), size):
            part = slice(begin, begin + size)
            n_sets = len(first[part])
            library, search = self.room.turn_to(first[part] * self.width * self.stride, times)
            self.predict(library, search, self.tables[0])
            self.correlate(n_sets)
            pairs = (n_sets, self.n_targets)
            launch(pairs, surrogate_kernels.open_pairs, self.target_of, self.room.rho, still_open, on_space)
            for width, room, table in self.stages:
                self.predict(library, search, table, still_open, again=True)
                every = (n_sets, self.n_targets * room)
                launch(
                    every,
                    surrogate_kernels.correlate_open,
                    width,
                    room,
                    self.least,
                    self.room.sums,
                    still_open,
                    skill,
                )
                launch(
                    pairs,
                    surrogate_kernels.count_better,
                    width,
                    room,
                    stop,
                    self.target_of,
                    skill,
                    self.room.rho,
                    still_open,
                    on_space,
                )
            pk.deep_copy(rho[part], self.room.rho[:n_sets])
            pk.deep_copy(counts[part], on_space[:n_sets])
        return rho, counts[:, 0], counts[:, 1]


def _width(n):
    """Return columns that n surrogates of a target take."""
    return -(-n // list_kernels.APART) * list_kernels.APART
