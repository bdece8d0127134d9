"""Tests of all pairs of a cross map against surrogates, and the pairs whose null hypothesis is rejected."""

from __future__ import annotations

import functools

import numpy as np

import portable as pk

from ..shared import (
    ArrayLike,
    DType,
    InputError,
    PathLike,
    Real,
    SpaceLike,
    Store,
    TableLike,
    Whole,
    bar,
    check_choice,
    check_count,
    check_flag,
    check_positive,
    check_share,
    launch,
)
from ..shared.fingerprints import digest
from . import list_kernels, surrogate_kernels
from .checks import extremes
from .cross import STEPS, Cross
from .segments import Replicates, Window, Windows
from .dimensions import Of
from .mapping import Mapping, Table, on_the_space, slices_of
from .surrogates import Kind, Surrogates, check_kinds, in_words
from .tested import (
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
# surrogates of each target before decided pairs are removed; the last number is repeated
STAGES = 32, 64, 128
_FOUND = "rho", "better", "tried"


def cross_map_test(
    dataset: TableLike,
    dims: ArrayLike | Of = "library",
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
    libraries: ArrayLike | None = None,
    lib: Windows = None,
    pred: Windows = None,
    valid: ArrayLike | None = None,
    segments: Replicates = None,
    seed: Whole = 0,
    dtype: DType = "float32",
    checkpoint: PathLike | None = None,
    memory_mb: Real = 4096,
    progress: bool = False,
    space: SpaceLike = None,
) -> CrossMapTest:
    """Test the cross mapping skill of every pair against surrogates of each target.

    Surrogates are generated, mapped and counted on the space. The test of a pair ends once the skill of
    `stop_after` surrogates is at least that of the target; its p-value is then stop_after / tried (Besag and
    Clifford), else (1 + better) / (1 + tried). Both are valid: under the null hypothesis, P(p-value <= p) <=
    p. So many surrogates cost little if most pairs are not coupled.

    Parameters
    ----------
    dataset : array-like, shape (n_steps, n_series); also a pandas DataFrame or an xarray DataArray
    dims, E_max
        As in `cross_map`.
    n_surrogates : int, default 200
        Surrogates of each target. The smallest p-value is 1 / (1 + n_surrogates) without further surrogates.
    max_surrogates : int, optional
        Largest number of surrogates for pairs that no surrogate has matched. They receive more than
        `n_surrogates` if they are not rejected at the false discovery rate `fdr` by `method`, but could be
        with at most this many. By default no pair receives more than `n_surrogates`. The p-values remain
        valid, since the number of surrogates depends on the number of unmatched pairs: exactly, if the other
        pairs are independent of the pair itself.
    fdr : float, default 0.05
        False discovery rate at which pairs are rejected.
    method : {"bh", "by"}, default "bh"
        Adjustment of p-values: Benjamini and Hochberg, or Benjamini and Yekutieli. See `adjust`.
    surrogate : {"phase", "mirror", "seasonal", "twin", "block", "random"}, optional
        Kind of surrogates. By default it follows from the traits of each target: "seasonal" for a season,
        "block" for rare bursts or gaps, "mirror" for a possible drift (with a warning), else "phase".
    period, block : int, optional
        As in `surrogates`.
    stop_after : int or None, default 10
        Number of surrogates with at least the skill of the target that ends the test of a pair; None
        maps all surrogates for all pairs.
    tau, Tp, k, exclusion_radius, libraries
        As in `cross_map`.
    lib, pred : (begin, end) or a sequence of such pairs, optional
        Windows of times for candidates and points, as in `simplex`.
    valid, segments
        As in `simplex`; surrogates are generated for each segment separately.
    seed : int, default 0
    dtype : {"float32", "float64"}
    checkpoint : str or Path, optional
        A folder in which results are stored, part by part. The same call resumes after an interruption, a
        call with more `libraries` (single series) computes only the additional ones.
    memory_mb : float, default 4096
        Upper bound of the memory on the space in MiB, in addition to the dataset. If the surrogates of all
        targets do not fit, targets are processed in groups.
    progress : bool
        Show a progress bar on standard error, whose total is libraries times groups of targets; further
        surrogates by `max_surrogates` increase it.
    space : str or Space, optional

    Returns
    -------
    CrossMapTest

    Raises
    ------
    ShapeError, DTypeError, FiniteError, InputError
        An argument is invalid; the message names it.
    StorageError
        The checkpoint cannot be written; the finished parts are kept.

    References
    ----------
    J. Besag, P. Clifford: Sequential Monte Carlo p-values. Biometrika 78 (1991), 301-304.
    """
    check_flag(progress, "progress")
    window = Window(tau, Tp, k, exclusion_radius, lib, pred, valid, segments)
    cross = Cross(dataset, dims, libraries, E_max, window, dtype, space)
    n_surrogates = check_count(n_surrogates, "n_surrogates")
    memory, n_most = int(2**20 * check_positive(memory_mb, "memory_mb")), n_surrogates
    if max_surrogates is not None:
        n_most = check_count(max_surrogates, "max_surrogates", n_surrogates)
        needed = 3 * _target_bytes(cross.dataset, n_most, dtype)
        if needed > memory:
            raise InputError(
                f"max_surrogates is {max_surrogates}; so many of a series of {len(cross.dataset)} times "
                f"need memory_mb={int(np.ceil(needed / 2**20))}, got {memory_mb}"
            )
    check_share(fdr, "fdr")
    check_choice(method, "method", Adjustment)
    stop_after = n_most + 1 if stop_after is None else check_count(stop_after, "stop_after")
    kinds = check_kinds(cross.dataset, surrogate, period, block, "dataset", cross.names, cross.cut)
    settings = cross.settings | {
        "n_surrogates": n_surrogates,
        "surrogate": surrogate,
        "period": period,
        "block": block,
        "stop_after": stop_after,
        "seed": seed,
        "memory_mb": memory_mb,
    }
    make = {"seed": seed, "block": block, "tau": cross.window.tau, "segments": cross.cut}
    with (
        Store(checkpoint, "edm.cross_map_test", settings) as store,
        bar(progress) as shown,
        pk.use(space),
    ):
        test, n_max = _Test(cross, kinds, make, dtype, stop_after, memory, store, shown), n_surrogates
        test.fill("", n_surrogates)
        while True:
            result = test.judged(in_words(kinds), n_surrogates, stop_after, n_max)
            wanted = result.n_wanted(fdr, method) if n_max < n_most else 0
            if not wanted:
                return result
            n_max = min(n_most, max(wanted, 2 * n_max))
            _, first = np.unique(cross.libraries.rows, return_index=True)
            test.fill(f"most-{n_max:012d}-", n_max, result.unmatched()[first])


class _Test:
    """State of a test: the results so far for each library and target.

    Attributes
    ----------
    rows : ndarray of int, shape (n_rows,)
        Libraries, ascending.
    numbers : dict of arrays, shape (n_rows, n_series): rho, the number of surrogates with at least that
        skill, and the number of surrogates tried
    """

    def __init__(self, cross, kinds, make, dtype, stop_after, memory, store, shown):
        self.cross, self.kinds, self.make, self.dtype = cross, kinds, make, dtype
        self.stop_after, self.memory, self.store, self.shown = stop_after, memory, store, shown
        self.source, self.points = cross.sources()
        self.rows = np.unique(cross.libraries.rows)
        shape = len(self.rows), cross.n_series
        self.numbers = np.empty(shape), np.empty(shape, np.int64), np.empty(shape, np.int64)
        self.task = shown.add_task("libraries tested", total=0)

    def fill(self, name, n, going=None):
        """Test pairs against n surrogates; parts in the store are read instead.

        going : bool array, shape (n_rows, n_series), True for the pairs to test; all if None
        """
        forms = list(self.cross.forms())
        for form, rows in forms:
            targets = np.argsort(form, kind="stable")
            if going is not None:
                own = going[np.searchsorted(self.rows, rows)]
                rows, targets = rows[own.any(axis=1)], targets[own.any(axis=0)[targets]]
            if len(rows):
                part = name if len(forms) == 1 else f"{name}{digest(form)[:12]}-"
                self._fill(part, form, rows, targets, n, going)

    def _fill(self, name, form, rows, targets, n, going):
        """Test libraries and targets with the same row of dimensions, in groups of targets that fit in
        memory."""
        each = _target_bytes(self.cross.dataset, n, self.dtype)
        at_once = int(max(1, self.memory // (3 * each)))
        n_groups = -(-len(targets) // at_once)
        self.shown.update(self.task, total=self.shown.tasks[0].total + n_groups * len(rows))
        in_one = self.store.path is None and self.shown.disable
        size = len(rows) if in_one else -(-len(rows) // STEPS)
        for begin in range(0, len(targets), at_once):
            chosen = targets[begin : begin + at_once]
            part_name = f"{name}targets-{begin:08d}-rows-"
            if going is not None:  # the tested pairs depend on the results of all libraries
                part_name = f"{name}{digest(chosen)[:12]}-rows-"
            memory = self.memory - each * len(chosen)
            group = functools.cache(functools.partial(_Group, self, chosen, form[chosen], n, memory))

            def compute(missing):
                some = missing[:size]
                found = group().run(some, self.cross.candidates[None], self.stop_after)
                return {"libraries": some} | dict(zip(_FOUND, found))

            for part in self.store.rows(part_name, rows, compute, "libraries"):
                self._take(part, chosen, going)
                self.shown.advance(self.task, np.isin(part["libraries"], rows).sum())

    def _take(self, part, chosen, going):
        """Copy the results of some libraries, if requested, for the chosen targets."""
        wanted = np.isin(part["libraries"], self.rows)
        places = np.ix_(np.searchsorted(self.rows, part["libraries"][wanted]), chosen)
        for target, name in zip(self.numbers, _FOUND):
            found = part[name][wanted]
            target[places] = found if going is None else np.where(going[places], found, target[places])

    def judged(self, surrogate, n_surrogates, stop_after, n_max):
        """Return the CrossMapTest, with p-values, and with the reason for each pair without one."""
        libraries, still = self.cross.libraries, np.equal(*extremes(self.cross.dataset))
        place = np.searchsorted(self.rows, libraries.rows)
        rho, better, tried = (numbers[place] for numbers in self.numbers)
        reasons, dead = np.zeros(rho.shape, np.int8), libraries.all_of(still)[libraries.rows]
        reasons[np.isnan(rho)] = STILL_PREDICTIONS
        reasons[np.isfinite(rho) & (tried == 0)] = NO_SURROGATE
        reasons[libraries.hold(rho.shape[1])[libraries.rows]] = SAME
        reasons[:, still] = STILL_TARGET
        reasons[dead] = STILL_LIBRARY
        rho[dead] = rho[:, still] = np.nan
        given_up = better >= stop_after
        p = np.where(given_up, better / np.maximum(tried, 1), (1 + better) / (1 + tried))
        p[reasons != TESTED] = np.nan
        E = np.array(np.broadcast_to(self.cross.dims_of(libraries.rows), rho.shape))
        names = [libraries.names[r] for r in libraries.rows], self.cross.names
        about = surrogate, n_surrogates, stop_after, n_max, E
        return CrossMapTest(rho, p, better, tried, reasons, *names, *about)


class _Group(Mapping):
    """Map of libraries to a group of targets, and then to their surrogates until all pairs are decided."""

    def __init__(self, test, chosen, dims, n, memory):
        cross = test.cross
        columns = cross.dataset[:, chosen]
        super().__init__(
            test.source,
            test.points,
            cross.columns[:, chosen],
            dims,
            cross.window,
            cross.libraries.width,
            test.dtype,
            memory,
        )
        spread, middle = np.nanstd(columns, axis=0), np.nanmean(columns, axis=0)
        standard = (columns - middle) / np.where(spread > 0, spread, 1.0)
        numbers = chosen[self.order]
        made = Surrogates(
            standard[:, self.order],
            [test.kinds[c] for c in numbers],
            E=self.dims[self.search_of],
            numbers=numbers,
            **test.make,
        )
        self.stages = list(self._stages(made, len(columns), n, cross.places))

    def _stages(self, made, n_times, n, places):
        """Yield, for each stage, the number of surrogates of each target, their columns, and their table."""
        first = stage = 0
        while first < n:
            width = min(STAGES[min(stage, len(STAGES) - 1)], n - first)
            room = _width(width)
            table = pk.zeros((n_times, self.n_targets * room), self.dtype)
            made.fill(table, first, width, room)
            table = places.spread_view(table)
            owners = enumerate(self.search_of.tolist())
            slices = slices_of((search, q * room, width, q * room, q) for q, search in owners)
            yield width, room, Table(table, table, on_the_space(slices))
            self.n_sums = max(self.n_sums, self.n_targets * room)
            first, stage = first + width, stage + 1

    def run(self, first, times, stop):
        """Return rho, the number of surrogates with at least that skill, and the number tried, each of shape
        (n_sets, n_targets)."""
        rho = np.empty((len(first), self.n_targets))
        counts = np.empty((len(first), 2, self.n_targets), np.int32)
        for part in self.batches(first * self.width, times):
            n_sets = self.library.n_sets
            pairs, skill = (n_sets, self.n_targets), pk.empty((n_sets, self.n_sums))
            ends = still_open, on_space = pk.empty(pairs, np.int32), pk.empty((n_sets, 2, pairs[1]), np.int32)
            launch(pairs, surrogate_kernels.open_pairs, self.target_of, self.rho, *ends)
            for width, room, table in self.stages:
                self.predict(table, still_open, again=True)
                form, every = (width, room), (n_sets, self.n_targets * room)
                how = self.least, self.sums, still_open, skill
                launch(every, surrogate_kernels.correlate_open, *form, *how)
                of = self.target_of, skill, self.rho, *ends
                launch(pairs, surrogate_kernels.count_better, *form, stop, *of)
            pk.deep_copy(rho[part], self.rho[:n_sets])
            pk.deep_copy(counts[part], on_space[:n_sets])
        return rho, counts[:, 0], counts[:, 1]


def _width(n):
    """Return the number of columns for n surrogates of a target, with padding."""
    return -(-n // list_kernels.APART) * list_kernels.APART


def _target_bytes(dataset, n, dtype):
    """Return the bytes for n surrogates of a target."""
    return _width(n) * len(dataset) * np.dtype(dtype).itemsize
