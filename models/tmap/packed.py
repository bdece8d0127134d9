"""How runs lie in the memory of a space."""

from __future__ import annotations

import math

import numpy as np

import portable as pk
from portable.errors import InputError

from . import rounding, run_kernels
from .kernels import PACK

# In place of log(0): so low that a density of order 2 or more is zero beside any other, yet finite: times 0
# it is 0.
NEVER = {np.float32: -1e30, np.float64: -1e300}

# A vector of smaller sum is weighed again: a third of the dtype's range, for entries differ much.
FADED = {np.float32: 1e-12, np.float64: 1e-100}

# Teams: some for each that a space runs at once, and enough to be shared out evenly; more of them cost more
# sums. An H200's multiprocessor holds 16 teams of three branches in float32 and 12 in float64: these are
# three and four rounds of it.
ROUNDS, LEAST_TEAMS = 3, 64

SHARD = 2**21  # gaps: some 20 milliseconds of a core for a model, and as much as keeps a GPU busy

_WIDEST = 1e25  # float32: the largest gap over the smallest, so that products with rates stay in range
_RADIX = 2**16  # NumPy sorts 16-bit keys by counting


class Packed:
    """Runs sorted by length and laid side by side, PACK of them: each pack is padded to its longest run.

    Parameters
    ----------
    runs : Runs
    space : str or Space
    dtype : type
    unit : float, optional
        In which gaps are counted; by default their mean. The range of float32 is that around the data.

    Attributes
    ----------
    n_packs, n_rows : int
        Packs, and the sum of their longest runs.
    gaps : View of dtype, shape (n_rows * 2 * PACK,)
        Row offset[pack] + k holds gap k of each run of the pack, then their logarithms; NEVER for a gap of
        zero.
    offset, steps : Views of int64, shape (n_packs,)
        A pack's first row, and its longest run.
    lengths, begin : Views of int64, shape (n_packs, PACK)
        Gaps of each run in packed order, and where they begin among the runs' values; 0 where the last pack
        has no run.
    open_end : View of int64, shape (n_packs, PACK), or (1, 1) if there is none
        1 where the last gap is an open one.
    rounded : bool
        Then a complete gap's row holds its place among `distinct`, View of float64, shape (n_values,), in
        units.
    """

    def __init__(self, runs, space, dtype=np.float64, unit=None):
        self.runs, self.dtype, self.unit = runs, dtype, unit or unit_of(runs)
        self.n_packs = -(-runs.n_runs // PACK)
        order = in_packs(runs.lengths)
        lengths = self._slots(runs.lengths[order])
        steps = lengths[:, 0].copy()
        offset = np.cumsum(steps) - steps
        begin = self._slots((np.cumsum(runs.lengths) - runs.lengths)[order])
        self.censoring = bool(runs.censored.any())
        open_end = self._slots(runs.censored[order]) if self.censoring else np.zeros((1, 1), np.int64)
        parts = offset, steps, lengths, begin, open_end
        self.offset, self.steps, self.lengths, self.begin, self.open_end = (
            pk.copy_of(p, space) for p in parts
        )
        self.space = self.offset.space
        self.n_rows, self._ends = int(steps.sum()), np.append(offset, steps.sum())
        self.gaps = pk.empty((self.n_rows * 2 * PACK,), dtype, space)
        self.rounded, values, unit = runs.resolution is not None, runs.values, self.unit
        if self.rounded:
            distinct, places = np.unique(
                np.rint(values[runs.complete] / runs.resolution), return_inverse=True
            )
            values, unit = values / unit, 1.0
            values[runs.complete] = places
            self.distinct = pk.copy_of(
                distinct * (runs.resolution / self.unit) if distinct.size else np.zeros(1), space
            )
        values = pk.copy_of(values, space)
        pk.parallel_for(
            self.teams(),
            run_kernels.lay_out,
            unit,
            NEVER[dtype],
            tiny(dtype),
            self.offset,
            self.steps,
            self.lengths,
            self.begin,
            values,
            self.gaps,
            label="tmap.lay_out",
        )

    @property
    def views(self):
        """What kernels take of the runs, in their order."""
        return self.offset, self.steps, self.lengths, self.open_end, self.gaps

    def table(self, n_models, n_branches):
        """Room for what `rounding.tabulate` says of each distinct gap; for gaps that are not rounded, next to
        none."""
        shape = (n_models, 3, n_branches, self.distinct.size) if self.rounded else (1, 1, 1, 1)
        return pk.zeros(shape, self.dtype, self.space)

    def tabulation(self, models, table):
        """The launch that fills it from the rows of models, a View of float64."""
        n_models, _, n_branches, n_values = table.shape
        return (
            pk.MDRangePolicy((0, 0, 0), (n_models, n_branches, n_values), space=self.space),
            rounding.tabulate,
            0.5 * self.runs.resolution / self.unit,
            models,
            self.distinct,
            table,
        )

    def teams(self):
        """A team a pack."""
        return pk.TeamPolicy(self.n_packs, PACK, space=self.space)

    def shares(self):
        """Each team's first pack, and the number of packs: neighbours, of like numbers of rows; shape
        (n_teams + 1,)."""
        n_teams = min(self.n_packs, max(ROUNDS * pk.concurrency(self.space), LEAST_TEAMS))
        wanted = np.arange(n_teams) * self.n_rows // n_teams
        return np.append(np.unique(np.searchsorted(self._ends[:-1], wanted)), self.n_packs)

    def rows_of(self, packs):
        """Rows of each of these packs."""
        return self._ends[packs + 1] - self._ends[packs]

    def _slots(self, sorted_runs):
        table = np.zeros(self.n_packs * PACK, np.int64)
        table[: len(sorted_runs)] = sorted_runs
        return table.reshape(self.n_packs, PACK)


def tiny(dtype):
    """The smallest normal number."""
    return float(np.finfo(dtype).tiny)


def unit_of(runs):
    """The mean gap; 1 if all are zero."""
    return runs.mean or 1.0


def log_unit(runs):
    """What the logarithm of the density of gaps in these units is too large by; rounded gaps have
    probabilities."""
    if runs.resolution is not None:
        return 0.0
    return (runs.n_gaps - int(runs.censored.sum())) * np.log(unit_of(runs))


def check_range(runs, dtype):
    """Refuse what float32 cannot hold."""
    if dtype is not np.float64 and runs.longest > _WIDEST * runs.shortest:
        raise InputError(
            f"gaps range from {runs.shortest:.3g} to {runs.longest:.3g}, more than a factor of {_WIDEST:g}; "
            "dtype='float64' is wanted"
        )


def parts_of(runs, dtype, memory_bytes=None):
    """The same runs in shards, each of whole packs and of at most SHARD gaps, or as many as the memory holds
    once they are packed.

    Parameters
    ----------
    runs : Runs
    dtype : type
    memory_bytes : int or None
        Bytes.

    Returns
    -------
    parts : list of Runs
    whole : bool
        Whether the memory holds all of them at once.
    """
    if hasattr(runs, "parts"):  # they are in a file
        return runs.parts(dtype, memory_bytes), False
    order = in_packs(runs.lengths)
    cuts, whole = cuts_of(runs.lengths[order], dtype, memory_bytes)
    if len(cuts) == 1:
        return [runs], whole
    return [runs.subset(order[a:b]) for a, b in cuts], whole


def cuts_of(lengths, dtype, memory_bytes):
    """Where runs of descending lengths are cut into shards, as pairs of numbers of runs; whether the memory
    holds all."""
    item = 2 * PACK * np.dtype(dtype).itemsize
    size = lengths[::PACK] * item
    if memory_bytes is not None and size[0] > memory_bytes:
        raise InputError(
            f"memory_mb is {memory_bytes / 2**20:.3g}, but {PACK} runs of up to {lengths[0]} gaps"
            f" take {size[0] / 2**20:.3g}"
        )
    most = max(SHARD // PACK * item, int(size[0]))
    most = most if memory_bytes is None else min(most, memory_bytes)
    ends = np.cumsum(size)
    whole = memory_bytes is None or bool(ends[-1] <= memory_bytes)
    cuts = [0]
    while cuts[-1] < len(size):
        before = ends[cuts[-1] - 1] if cuts[-1] else 0
        cuts.append(int(np.searchsorted(ends, before + most, side="right")))
    return [(PACK * a, min(PACK * b, len(lengths))) for a, b in zip(cuts, cuts[1:])], whole


def in_packs(lengths):
    """Runs in descending order of length; those of equal length as they came."""
    longest = lengths.max()
    keys = longest - lengths
    return np.argsort(keys.astype(np.uint16) if longest < _RADIX else keys, kind="stable")


def log_factorials(orders):
    """log (r - 1)! of each order r."""
    return np.array([math.lgamma(order) for order in orders])
