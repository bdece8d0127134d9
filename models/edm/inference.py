"""Tests of whole cross maps against surrogates, and what may be rejected of them all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import portable as pk
from portable.errors import InputError

from ..checks import as_numbers, check_choice, check_count, check_number
from ..store import Store
from . import frames, list_kernels, surrogate_kernels
from .checks import (
    DTYPES,
    check_columns,
    check_embedding,
    check_horizon,
    check_library,
    check_radius,
    check_windows,
)
from .cross import STEPS, check_dims, check_libraries
from .mapping import Mapping, Table, cut, on_the_space
from .neighbours import within_windows
from .surrogates import Surrogates, check_surrogates
from .traits import check_default

STOP_AFTER = 10
# surrogates of each target between two looks at which pairs are decided; the last for all that follow
STAGES = 32, 64, 128
METHODS = ("bh", "by")
REASONS = ("", "library and target are the same series", "the library does not vary",
           "the target does not vary",
           "the predictions do not vary", "no surrogate has a skill")
_FOUND = "rho", "better", "tried"
TESTED, SAME, STILL_LIBRARY, STILL_TARGET, STILL_PREDICTIONS, NO_SURROGATE = range(len(REASONS))


@dataclass(frozen=True)
class CrossMapTest:
    """Skill of every pair, and how often surrogates of the target do as well.

    Attributes
    ----------
    rho : ndarray, shape (n_libraries, n_targets)
        As from `cross_map`.
    p_values : ndarray, shape (n_libraries, n_targets)
        NaN where there is nothing to test; `reasons` says why.
    n_better, n_tried : ndarray of int, shape (n_libraries, n_targets)
        Surrogates that did at least as well as the target, and those that have a skill and were tried.
    reasons : ndarray of int8, shape (n_libraries, n_targets)
        Places in `REASONS`; 0 where there is a p-value.
    libraries, targets : list of str
    surrogate : str
    n_surrogates, stop_after : int
    """

    rho: np.ndarray
    p_values: np.ndarray
    n_better: np.ndarray
    n_tried: np.ndarray
    reasons: np.ndarray
    libraries: list
    targets: list
    surrogate: str
    n_surrogates: int
    stop_after: int

    @property
    def n_tests(self) -> int:
        """How many pairs have a p-value."""
        return int(np.isfinite(self.p_values).sum())

    def adjusted(self, method: str = "bh") -> np.ndarray:
        """p-values adjusted for the number of tests, see `adjust`."""
        return adjust(self.p_values, method)

    def rejected(self, level: float = 0.05, method: str = "bh") -> np.ndarray:
        """Whether each pair's skill exceeds that of surrogates, with a false discovery rate of `level`."""
        return self.adjusted(method) <= check_level(level)

    def n_needed(self, level: float = 0.05, method: str = "bh") -> int:
        """How many pairs must have the smallest possible p-value before any is rejected."""
        check_level(level)
        tests = self.n_tests * _harmonic(self.n_tests, method)
        return int(np.ceil(tests / (level * (self.n_surrogates + 1)) * (1 - 1e-12)))

    def could_reject(self, level: float = 0.05, method: str = "bh") -> bool:
        """Whether anything would have been rejected, had all pairs done better than all surrogates."""
        return 0 < self.n_needed(level, method) <= self.n_tests

    def summary(self, level: float = 0.05, method: str = "bh") -> str:
        """What a paper would say: tests, rejections, what was not tested and why, what would tell more."""
        rejected = int(self.rejected(level, method).sum())
        name = {"bh": "Benjamini-Hochberg", "by": "Benjamini-Yekutieli"}[method]
        given_up = self.stop_after <= self.n_surrogates
        lines = [f"{self.n_tests} pairs tested against {self.n_surrogates} {self.surrogate} surrogates, "
                 "one-sided" + (f"; given up after {self.stop_after} did as well" if given_up else ""),
                 f"{rejected} rejected with a false discovery rate of {level:g} ({name}); "
                 f"{int((self.p_values <= level).sum())} have p <= {level:g}, {self.n_tests * level:.4g} are "
                 "expected by chance"]
        counts = np.bincount(self.reasons.ravel())
        lines += [f"{n} not tested: {REASONS[code]}" for code, n in enumerate(counts) if code and n]
        least = 1.0 / (self.n_surrogates + 1)
        at_least = int((self.p_values <= least * (1 + 1e-12)).sum())
        needed = self.n_needed(level, method)
        if not self.could_reject(level, method):
            lines.append(f"nothing could have been rejected: p is at least {least:.4g}, and even "
                         f"{self.n_tests} of these do not pass")
        elif not rejected and 0 < at_least < needed:
            wanted = int(np.ceil(needed * (self.n_surrogates + 1) / at_least))
            lines.append(f"p is at least {least:.4g}: {needed} pairs with it are needed for a rejection, "
                         f"{at_least} have it; "
                         f"n_surrogates={wanted} could tell more")
        return "\n".join(lines)

    def to_xarray(self, method: str = "bh"):
        """All of it as an xarray Dataset with names."""
        return frames.test_as_dataset(self, self.adjusted(method))

    def to_pandas(self, method: str = "bh"):
        """A row for each pair: library, target, rho, p, q, n_tried, reason; the smallest q first."""
        return frames.test_as_table(self, self.adjusted(method), REASONS)


def cross_map_test(dataset, dims, *, n_surrogates=200, surrogate=None, period=None, block=None,
                   stop_after=STOP_AFTER, tau=1, Tp=0, exclusion_radius=0, libraries=None, lib=None,
                   pred=None, seed=0, dtype="float32", checkpoint=None, memory_mb=4096,
                   space=None) -> CrossMapTest:
    """Cross mapping skill of every pair, tested against surrogates of each target.

    Surrogates are made, mapped and counted on the space. A pair is given up as soon as `stop_after`
    surrogates did at least as well; its p-value is then that number over how many were tried (Besag and
    Clifford), else (1 + better) / (1 + tried). Either is valid: of true null hypotheses, no more than a share
    p has a p-value of at most p. So many surrogates cost little where most pairs are not coupled.

    Parameters
    ----------
    dataset : array-like, shape (n_steps, n_series); also a pandas DataFrame or an xarray DataArray
    dims : array-like of int, shape (n_series,), or int
        Embedding dimension for each target.
    n_surrogates : int, default 200
        Of each target; the smallest p-value is 1 / (1 + n_surrogates).
    surrogate : {"phase", "seasonal", "twin", "block", "random"}, optional
        See `surrogates`. If not given, "phase", unless a series has a season, rare bursts or a drift, for
        which it is wrong: then an InputError says what is wanted.
    period, block : int, optional
        As in `surrogates`.
    stop_after : int or None, default 10
        None tries all surrogates on all pairs.
    tau, Tp, exclusion_radius, libraries
        As in `cross_map`.
    lib, pred : (begin, end) or a sequence of such pairs, optional
        Windows of times for candidates and points, as in `simplex`.
    seed : int, default 0
    dtype : {"float32", "float64"}
    checkpoint : str or Path, optional
        A folder that keeps what was found, part by part: the same call goes on where an interrupted one ended, one for more
        `libraries` computes the others only.
    memory_mb : float, default 4096
        Bound of what is kept on the space beyond the dataset, in MiB. Where the surrogates of all targets do
        not fit, the targets are taken group by group.
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
    given, dataset = dataset, check_columns(dataset, "dataset")
    names = frames.names_of(given)
    n_times, n_series = dataset.shape
    dims = check_dims(dims, n_series)
    E, tau = check_embedding(int(dims.max()), tau, n_times, "dataset")
    Tp = check_horizon(Tp, n_times, E, tau)
    radius, rows = check_radius(exclusion_radius), check_libraries(libraries, n_series)
    check_choice(dtype, "dtype", DTYPES)
    n_surrogates = check_count(n_surrogates, "n_surrogates", 1)
    stop_after = n_surrogates + 1 if stop_after is None else check_count(stop_after, "stop_after")
    memory = int(2**20 * check_number(memory_mb, "memory_mb", above=0))
    if surrogate is None:
        surrogate = "phase"
        check_surrogates(dataset, surrogate, period, block, "dataset", names)
        check_default(dataset, names, "dataset")
    else:
        check_surrogates(dataset, surrogate, period, block, "dataset", names)
    windows = check_windows(lib, "lib", n_times)
    masked, times = within_windows(dataset, windows, Tp)
    pred = check_windows(pred, "pred", n_times)
    lag = np.arange(E) * tau
    check_library(masked, rows, lag, times, E + 1, radius, names)
    each_row = np.unique(rows)
    shape = len(each_row), n_series
    found = np.empty(shape), np.empty(shape, np.int64), np.empty(shape, np.int64)
    settings = {"dataset": dataset, "dims": dims, "n_surrogates": n_surrogates, "surrogate": surrogate, "period": period, "block": block,
                "stop_after": stop_after, "tau": tau, "Tp": Tp, "exclusion_radius": radius, "lib": windows, "pred": pred, "seed": seed,
                "dtype": dtype, "memory_mb": memory_mb}
    with Store(checkpoint, "edm.cross_map_test", settings) as store, pk.use(pk.default_space() if space is None else space):
        make = {"period": period, "block": block, "tau": tau}
        order = np.argsort(dims, kind="stable")
        each = _width(n_surrogates) * n_times * np.dtype(dtype).itemsize
        at_once = int(max(1, memory // (3 * each)))
        for begin in range(0, n_series, at_once):
            chosen = order[begin:begin + at_once]
            missing, test, name = each_row, None, f"targets-{begin:08d}-rows-"
            for kept in filter(None, map(store.get, store.names(name))):
                _take(found, each_row, chosen, kept["libraries"], (kept[of] for of in _FOUND))
                missing = np.setdiff1d(missing, kept["libraries"])
            size = len(missing) if store.path is None else -(-len(each_row) // STEPS)
            while len(missing):
                if test is None:
                    test = _Group(dataset, masked, chosen, dims, lag, Tp, pred, radius, dtype,
                                  memory - each * len(chosen))
                    test.surrogates(dataset[:, chosen], chosen, n_surrogates, surrogate, seed, make)
                part, missing = missing[:size], missing[size:]
                numbers = test.run(part, times[None], stop_after)
                _take(found, each_row, chosen, part, numbers)
                store.put(f"{name}{part[0]:08d}", libraries=part, **dict(zip(_FOUND, numbers)))
    place = np.searchsorted(each_row, rows)
    rho, better, tried = (numbers[place] for numbers in found)
    low, high = np.fmin.reduce(dataset, axis=0), np.fmax.reduce(dataset, axis=0)
    return _judged(rho, better, tried, rows, low == high, names, surrogate, n_surrogates, stop_after)


def _take(found, each_row, chosen, libraries, numbers):
    """What was found of some libraries, as far as they are asked for, and of the chosen targets."""
    wanted = np.isin(libraries, each_row)
    places = np.searchsorted(each_row, libraries[wanted])
    for target, part in zip(found, numbers):
        target[np.ix_(places, chosen)] = part[wanted]


def _judged(rho, better, tried, rows, still, names, surrogate, n_surrogates, stop_after):
    reasons = np.zeros(rho.shape, np.int8)
    reasons[np.isnan(rho)] = STILL_PREDICTIONS
    reasons[np.isfinite(rho) & (tried == 0)] = NO_SURROGATE
    reasons[rows[:, None] == np.arange(rho.shape[1])] = SAME
    reasons[:, still] = STILL_TARGET
    reasons[still[rows]] = STILL_LIBRARY
    rho[still[rows]] = np.nan
    rho[:, still] = np.nan
    given_up = better >= stop_after
    p = np.where(given_up, better / np.maximum(tried, 1), (1 + better) / (1 + tried))
    p[reasons != TESTED] = np.nan
    return CrossMapTest(rho, p, better, tried, reasons, [names[r] for r in rows], names, surrogate,
                        n_surrogates, stop_after)


class _Group(Mapping):
    """Libraries mapped to a group of targets, and then to their surrogates, as long as pairs are open."""

    def __init__(self, dataset, masked, chosen, dims, lag, Tp, windows, radius, dtype, memory):
        most = int(dims[chosen].max())
        super().__init__(masked, dataset, dataset[:, chosen], dims[chosen], lag[:most], Tp, windows, radius,
                         dtype, memory)

    def surrogates(self, columns, numbers, n, method, seed, make):
        """Surrogates of all targets, in as many tables as there are stages."""
        spread, middle = np.nanstd(columns, axis=0), np.nanmean(columns, axis=0)
        standard = (columns - middle) / np.where(spread > 0, spread, 1.0)
        standard = standard[:, self.order]
        made = Surrogates(standard, method, seed, E=self.dims[self.search_of], numbers=numbers[self.order],
                          **make)
        self.stages, first = [], 0
        while first < n:
            width = min(STAGES[min(len(self.stages), len(STAGES) - 1)], n - first)
            room = _width(width)
            table = pk.zeros((len(columns), self.n_targets * room), self.dtype)
            made.fill(table, first, width, room)
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
            library, search = self.room.turn_to(first[part] * self.stride, times)
            self.predict(library, search, self.tables[0])
            self.correlate(n_sets)
            pairs = pk.MDRangePolicy((0, 0), (n_sets, self.n_targets))
            pk.parallel_for(pairs, surrogate_kernels.open_pairs, self.target_of, self.room.rho, still_open,
                            on_space,
                            label="edm.open_pairs")
            for width, room, table in self.stages:
                self.predict(library, search, table, still_open, again=True)
                every = pk.MDRangePolicy((0, 0), (n_sets, self.n_targets * room))
                pk.parallel_for(every, surrogate_kernels.correlate_open, width, room, self.least,
                                self.room.sums, still_open, skill,
                                label="edm.correlate_open")
                pk.parallel_for(pairs, surrogate_kernels.count_better, width, room, stop, self.target_of,
                                skill, self.room.rho,
                                still_open, on_space, label="edm.count_better")
            pk.deep_copy(rho[part], self.room.rho[:n_sets])
            pk.deep_copy(counts[part], on_space[:n_sets])
        return rho, counts[:, 0], counts[:, 1]


def _width(n):
    """Columns that n surrogates of a target take."""
    return -(-n // list_kernels.APART) * list_kernels.APART


def check_level(level):
    if check_number(level, "level", above=0.0) >= 1.0:
        raise InputError(f"level is {level}; a share between 0 and 1 is wanted: 0.05 for 5 %")
    return level


def _harmonic(n, method):
    check_choice(method, "method", METHODS)
    return float((1.0 / np.arange(1, n + 1)).sum()) if method == "by" else 1.0


def adjust(p_values, method: str = "bh") -> np.ndarray:
    """p-values adjusted for their number: what is at most q is rejected with a false discovery rate of q.

    Parameters
    ----------
    p_values : array-like, of any shape
        NaN is no test, and stays.
    method : {"bh", "by"}
        "bh" (Benjamini and Hochberg) holds for independent tests and those that depend positively, as is
        common for pairs with a target in common; "by" (Benjamini and Yekutieli) for any dependence, and
        rejects less.

    Returns
    -------
    ndarray of float64, of the same shape

    Raises
    ------
    InputError
        A p-value outside [0, 1].

    References
    ----------
    Y. Benjamini, Y. Hochberg: J. R. Stat. Soc. B 57 (1995), 289; Y. Benjamini, D. Yekutieli: Ann. Stat. 29
    (2001), 1165.
    """
    p = as_numbers(p_values, "p_values").astype(np.float64)
    known = np.flatnonzero(~np.isnan(p.ravel()))
    values = p.ravel()[known]
    if ((values < 0) | (values > 1)).any():
        raise InputError(f"p_values holds {values[(values < 0) | (values > 1)][0]}; numbers from 0 to 1 are "
                         "wanted")
    order = np.argsort(values, kind="stable")
    n = len(values)
    scaled = values[order] * n * _harmonic(n, method) / np.arange(1, n + 1)
    out = np.full(p.size, np.nan)
    out[known[order]] = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1.0)
    return out.reshape(p.shape)
