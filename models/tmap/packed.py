"""Lay out runs in the memory of a space."""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np

import portable as pk
from portable.errors import InputError

from ..shared.arrays import reached
from ..shared.launches import launch
from ..shared.sharding import even_number, spaces_of, spread
from . import gap_kernels, rounding, run_kernels
from .gaps import distinct_gaps, own_lengths, seen_ends
from .kernels import PACK

# In place of log(0): so low that a density of order 2 or more is zero beside any other, yet finite: times 0
# it is 0.
NEVER = {np.float32: -1e30, np.float64: -1e300}

# A vector of smaller sum is weighed again: a third of the dtype's range, for entries differ much.
FADED = {np.float32: 1e-12, np.float64: 1e-100}

# Teams: some for each that a space runs at once, and enough to be shared out evenly; more of them cost more
# sums. An H200's multiprocessor holds 16 teams of three branches in float32 and 12 in float64: these are
# three and four rounds of it. A CPU has as many as the rows say, LEAST_TEAMS for each ROWS, so that sums do
# not depend on how many threads there are; 16 or 32 share them evenly.
ROUNDS, ROWS, LEAST_TEAMS, MOST_TEAMS = 3, 2**14, 64, 256
ABREAST = 8  # shards that a GPU works on in one launch: alone, a shard leaves a team one or two packs

SHARD = 2**21  # gaps: some 20 milliseconds of a core for a model, and as much as keeps a GPU busy

_WIDEST = 1e25  # float32: the largest gap over the smallest, so that products with rates stay in range
FEW = 2**12  # runs that NumPy sorts sooner than a space is asked to
KEPT = 2**25  # gaps of runs whose packs are kept for the next call: a GB with values, in float64


class Sorted:
    """Runs in packs in the memory of a space, the longest first; those of equal length as they came.

    Parameters
    ----------
    runs : Runs
    space : str

    Attributes
    ----------
    n_packs : int
    order : View of int64, shape (n_runs,)
        The runs' numbers.
    steps : View of int64, shape (n_packs,)
        A pack's longest run.
    ends : ndarray of int64, shape (n_packs + 1,)
        Their sums: rows before each pack, and of all.
    lengths, begin, open_end : Views of int64, shape (n_packs, PACK)
        As of `Packed`.
    """

    def __init__(self, runs, space):
        self.space, self.n_packs, self._given = space, -(-runs.n_runs // PACK), runs.views[0]
        self.censoring = runs.n_censored > 0
        lengths = reached(runs.views[1], space)
        slots = pk.RangePolicy(0, self.n_packs * PACK, space=space)
        still = pk.empty((slots.end if self.censoring else 1,), np.int64, space)
        if runs.n_runs <= FEW:
            order = np.argsort(-runs.lengths, kind="stable")
            self.order, begins = (reached(part, space) for part in (order, runs.begins))
        else:
            keys, begins = _starts_of(runs, lengths)
            self.order = pk.argsort(keys, space, descending=True)
        steps = pk.empty((self.n_packs,), np.int64, space)
        dealt = [pk.empty((slots.end,), np.int64, space) for _ in range(2)]
        censored = reached(runs.censored, space) if self.censoring else still  # nobody reads it
        launch(
            slots,
            gap_kernels.deal,
            pk.static(self.censoring),
            self.order,
            lengths,
            begins,
            censored,
            steps,
            *dealt,
            still,
        )
        self.steps, self.ends = steps, np.zeros(self.n_packs + 1, np.int64)
        np.cumsum(steps.to_numpy(), out=self.ends[1:])
        self.lengths, self.begin = (view.reshape(self.n_packs, PACK) for view in dealt)
        self.open_end = still.reshape((self.n_packs, PACK) if self.censoring else (1, 1))

    @functools.cached_property
    def values(self):
        """The runs' values."""
        return reached(self._given, self.space)

    def between(self, first, end):
        """Return `steps`, `lengths`, `begin` and `open_end` of some packs."""
        open_end = self.open_end[first:end] if self.censoring else self.open_end
        return self.steps[first:end], self.lengths[first:end], self.begin[first:end], open_end


def _starts_of(runs, lengths):
    """Return keys that sort runs by their lengths, and where each begins among the values, in the space of
    a View of the lengths; what their check has left is used once."""
    starts, runs.starts = runs.starts, None
    return starts if starts and lengths is runs.views[1] else own_lengths(lengths, runs.n_gaps)[1]


class Part:
    """Some packs of runs, neighbours by length; a piece for `sharding.Shards`.

    Parameters
    ----------
    runs : Runs
    prepared : dict
        Results shared by all parts of the runs.
    cuts : list of pairs of int, optional
        First pack and end of each shard in this part; one shard of all packs by default. Together they cover
        neighbouring packs.
    n_shards : int
        Shards of all parts.
    """

    def __init__(self, runs, prepared, cuts=None, n_shards=1):
        self._n_packs = -(-runs.n_runs // PACK)
        self.runs, self.prepared, self.n_shards = runs, prepared, n_shards
        self._cuts = [(0, self._n_packs)] if cuts is None else cuts
        self._first, self._end = min(a for a, _ in self._cuts), max(b for _, b in self._cuts)

    @property
    def cuts(self):
        """First pack and end of each shard, counted from the part's first pack."""
        return tuple((a - self._first, b - self._first) for a, b in self._cuts)

    @property
    def nbytes(self):
        """Bytes of the packs' values, about."""
        return self.runs.nbytes * (self._end - self._first) // self._n_packs

    def sorted_in(self, space):
        """Return the runs' Sorted in a space."""
        name = _name_of(pk.default_space() if space is None else space)
        return self._made((name,), lambda: Sorted(self.runs, name))

    def packed(self, space, dtype, unit=None):
        """Return the packs' Packed; made once for runs that are kept in a space."""
        whole, unit, packs = self.sorted_in(space), unit or unit_of(self.runs), (self._first, self._end)

        def make():
            return Packed(self.runs, whole, dtype, unit, *packs, self.cuts, self.n_shards)

        if self.runs.n_gaps > KEPT:
            return make()
        return self._made((whole.space, dtype, unit, *packs), make)

    def _made(self, key, make):
        found = self.prepared.get(key)  # two threads that make the same make it twice
        return self.prepared.setdefault(key, make()) if found is None else found


@functools.lru_cache(maxsize=64)
def _name_of(space):
    """Return the name of a space that can run here."""
    return pk.empty((1,), np.int64, space).space


def part_of(piece, n_shards=1):
    """Return Runs, one of `n_shards` shards, or a Stretch as a Part. Runs are packed anew each time."""
    if isinstance(piece, Part):
        return piece
    return Part(piece.read() if hasattr(piece, "read") else piece, {}, n_shards=n_shards)


def whole_of(runs):
    """Return all packs of runs, kept with them if they are not too many."""
    return Part(runs, runs.prepared if runs.n_gaps <= KEPT else {})


class Packed:
    """Runs laid side by side, PACK of them: each pack is padded to its longest run.

    Parameters
    ----------
    runs : Runs
    whole : Sorted
        The same in a space.
    dtype : type
    unit : float
        In which gaps are counted. The range of float32 is that around the data.
    first, end : int
        The packs.
    cuts : sequence of pairs of int
        First pack and end of each shard that the first call of `shares` will ask for: teams get their packs
        before gaps are laid out, a long launch during which Python's memory leaves the caches.
    n_shards : int
        As of `shares`.

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
    half, distinct : float and View of float64, shape (n_values,), or None
        Half the resolution of rounded gaps, in units, and the distinct ones: a complete gap's row holds its
        place among these.
    """

    def __init__(self, runs, whole, dtype, unit, first, end, cuts, n_shards):
        self.space, self.dtype, self.unit = whole.space, dtype, unit
        self.censoring, self._shares = whole.censoring, {}
        self._ends = whole.ends[first : end + 1] - whole.ends[first]
        self.n_packs, self.n_rows = end - first, int(self._ends[-1])
        self._ends_there = reached(self._ends, self.space)
        self.offset = self._ends_there[:-1]
        self.steps, self.lengths, self.begin, self.open_end = whole.between(first, end)
        self.gaps = pk.empty((self.n_rows * 2 * PACK,), dtype, self.space)
        self.half, self.distinct, values = None, None, whole.values
        if runs.resolution is not None:
            self.half = 0.5 * runs.resolution / unit
            distinct, values = distinct_gaps(values, runs.resolution, seen_ends(runs), unit)
            distinct = distinct * (runs.resolution / unit) if distinct.size else np.zeros(1)
            self.distinct, unit = reached(distinct, self.space), 1.0
        self.shares(cuts, n_shards)
        launch(
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
        )

    @property
    def views(self):
        """Return the kernels' arguments for the runs, in their order."""
        return self.offset, self.steps, self.lengths, self.open_end, self.gaps

    def teams(self):
        """Return a team a pack."""
        return pk.TeamPolicy(self.n_packs, PACK, space=self.space)

    def shares(self, cuts, n_shards=1):
        """Deal the packs of each shard to teams: neighbours, of like numbers of rows.

        Parameters
        ----------
        cuts : sequence of pairs of int
            First pack and end of each shard.
        n_shards : int
            Shards of the whole data, in this space or elsewhere.

        Returns
        -------
        Shares
        """
        key = tuple(cuts), n_shards
        if key not in self._shares:
            self._shares[key] = self._deal(*key)
        return self._shares[key]

    def _deal(self, cuts, n_shards):
        rows, at_once = self._ends, ROUNDS * pk.concurrency(self.space) if pk.queued(self.space) else 0
        at_once = at_once if at_once > MOST_TEAMS else 0
        abreast = min(n_shards, ABREAST) if at_once else 1
        groups = [range(k, min(k + abreast, len(cuts))) for k in range(0, len(cuts), abreast)]
        teams = [min(b - a, _n_teams(int(rows[b] - rows[a]), at_once // abreast)) for a, b in cuts]
        kept = [int(min(rows[b] - rows[a], n * (rows[a + 1] - rows[a]))) for n, (a, b) in zip(teams, cuts)]
        columns = np.append(0, np.cumsum(teams))
        before = [sum(kept[group.start : k]) for group in groups for k in group]
        dealt = pk.empty((3, int(columns[-1])), np.int64, self.space)
        launch(
            pk.TeamPolicy(len(cuts), 1024, space=self.space),
            gap_kernels.share_out,
            reached(np.column_stack([cuts, teams, columns[:-1], before]), self.space),
            self._ends_there,
            dealt,
        )
        places = [range(int(columns[group.start]), int(columns[group.stop])) for group in groups]
        n_rows = max(sum(kept[k] for k in group) for group in groups)
        return Shares(dealt, columns, places, n_rows)


def new_table(distinct, n_models, n_branches, dtype, space):
    """Return room for what `rounding.tabulate` says of each distinct gap; for gaps that are not rounded, next
    to none."""
    shape = (1, 1, 1, 1) if distinct is None else (n_models, 3, n_branches, distinct.size)
    return pk.empty(shape, dtype, space)


def fill_table(half, models, distinct, table):
    """Tabulate distinct gaps by the rows of models, a View of float64."""
    n_models, _, n_branches, n_values = table.shape
    each = pk.MDRangePolicy((0, 0, 0), (n_models, n_branches, n_values), space=table.space)
    launch(each, rounding.tabulate, half, models, distinct, table)


class Shares(NamedTuple):
    """Packs of some shards, dealt to teams.

    Attributes
    ----------
    dealt : View of int64, shape (3, n_teams)
        Each team's first pack, the end of its packs, and its first row among those that are kept of the pack
        in work.
    columns : ndarray of int, shape (n_shards + 1,)
        First team of each shard, and the number of teams.
    groups : list of range
        Teams that are launched together.
    n_rows : int
        Rows that the teams of a group keep.
    """

    dealt: pk.View
    columns: np.ndarray
    groups: list
    n_rows: int


def _n_teams(n_rows, at_once):
    """Return the number of teams of a shard of so many rows, in a space that has use for so many teams; 0 for
    a CPU, which may have any number of threads."""
    if at_once:
        return at_once
    return min(LEAST_TEAMS * max(n_rows // ROWS, 1), MOST_TEAMS)


def tiny(dtype):
    """Return the smallest normal number."""
    return float(np.finfo(dtype).tiny)


def unit_of(runs):
    """Return a power of two near the geometric mean of gaps above zero, by which they are divided without
    rounding; 1 if all are zero. It is found with the checks of the gaps, and the same on all spaces."""
    return 2.0**runs.mean_exponent


def log_unit(runs):
    """Return the excess of the density's logarithm for gaps in these units; rounded gaps have
    probabilities."""
    if runs.resolution is not None:
        return 0.0
    return (runs.n_gaps - runs.n_censored) * np.log(unit_of(runs))


def check_range(runs, dtype):
    """Refuse what float32 cannot hold."""
    if dtype is not np.float64 and runs.longest > _WIDEST * runs.shortest:
        raise InputError(
            f"gaps range from {runs.shortest:.3g} to {runs.longest:.3g}, more than a factor of {_WIDEST:g}; "
            "dtype='float64' is wanted"
        )


def parts_of(runs, dtype, memory_bytes=None, space=None, client=None):
    """Return the same runs in shards, each of whole packs and of at most SHARD gaps, or as many as the
    memory holds once they are packed.

    Parameters
    ----------
    runs : Runs
    dtype : type
    memory_bytes : int or None
        Bytes.
    space : str, Space, None or a list of them
        Of the shards.
    client : distributed.Client, optional

    Returns
    -------
    parts : list of Part, Runs or Stretch
        One Part of all shards in one space of this process, a Part for each shard where several spaces share
        them. Runs where each has to be by itself: on a cluster, in little memory, with distinct gaps of its
        own. A Stretch of a file has to be read.
    whole : bool
        Whether the memory holds all of them at once.
    """
    if hasattr(runs, "parts"):  # they are in a file
        return runs.parts(dtype, memory_bytes), False
    apart = memory_bytes is not None or client is not None or runs.resolution is not None
    part = whole_of(runs)
    spaces = spaces_of(space)
    ordered = part.sorted_in(runs.views[1].space if apart else spaces[0])
    cuts, whole = cuts_of(ordered.ends, dtype, memory_bytes)
    if not apart:
        shared = [cuts] if len(spaces) == 1 else [[cut] for cut in cuts]
        return [Part(runs, part.prepared, some, len(cuts)) for some in shared], whole
    if len(cuts) == 1:
        return [runs], whole
    order = ordered.order.to_numpy()
    return [runs.subset(order[PACK * a : PACK * b]) for a, b in cuts], whole


def cuts_of(ends, dtype, memory_bytes):
    """Return the shards of packs, whose longest runs descend, as even as can be, as pairs of numbers of
    packs; and whether the memory holds all. `ends` are the rows before each pack, and of all.

    Long runs take a GPU more time a gap, for there are fewer of them: neighbouring shards have runs of all
    lengths, so that places are done at the same time.
    """
    item = 2 * PACK * np.dtype(dtype).itemsize
    longest, total = (int(n) * item for n in ends[[1, -1]])
    if memory_bytes is not None and longest > memory_bytes:
        raise InputError(
            f"memory_mb is {memory_bytes / 2**20:.3g}, but {PACK} runs of up to {ends[1]} gaps"
            f" take {longest / 2**20:.3g}"
        )
    most = max(SHARD // PACK * item, longest)
    most = most if memory_bytes is None else min(most, memory_bytes)
    n_shards, whole = even_number(-(-total // most)), memory_bytes is None or total <= memory_bytes
    limit, cuts = total if memory_bytes is None else most, [0]
    while cuts[-1] < len(ends) - 1:
        before, least = (int(n) * item for n in ends[cuts[-1] :][:2])
        wanted = min(len(cuts), n_shards) * total // n_shards  # bytes before the next shard
        end = min(before + limit, max(wanted, least))
        cuts.append(int(np.searchsorted(ends, end // item, side="right")) - 1)
    pairs = list(zip(cuts, cuts[1:]))
    return [pairs[k] for k in spread(len(pairs))], whole


def log_factorials(orders):
    """Return log (r - 1)! of each order r."""
    return np.array([math.lgamma(order) for order in orders])
