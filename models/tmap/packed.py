"""Layout of runs in packs, in the memory of a space."""

import functools
import math
from typing import NamedTuple

import numpy as np

import portable as pk

from ..shared import InputError, launch, reached
from ..shared.sharding import even_number, spaces_of, spread
from . import gap_kernels, rounding, run_kernels
from .gaps import intervals_of, own_lengths
from .kernels import PACK

# In place of log(0): so low that a density of order 2 or more is negligible, yet finite: times 0 it is 0.
NEVER = {np.float32: -1e30, np.float64: -1e300}

# A vector with a smaller sum is computed again: a third of the dtype's range, as entries differ widely.
FADED = {np.float32: 1e-12, np.float64: 1e-100}

# Teams: several for each that a space runs at once, and enough for an even distribution; more teams have more
# sums to add. An H200's multiprocessor holds 16 teams of three branches in float32 and 12 in float64: three
# and four rounds of these. On a CPU their number depends on the rows, LEAST_TEAMS for each ROWS, so that sums
# do not depend on the number of threads; 16 or 32 threads get equal shares.
ROUNDS, ROWS, LEAST_TEAMS, MOST_TEAMS = 3, 2**14, 64, 256
ABREAST = 8  # shards that a GPU runs in one launch: a single shard gives each team only one or two packs

SHARD = 2**21  # gaps: some 20 milliseconds of a core for a model, and enough to keep a GPU busy

_WIDEST = 1e25  # float32: the largest gap over the smallest, so that products with rates stay in range
FEW = 2**12  # largest number of runs that NumPy sorts faster than a space
KEPT = 2**25  # largest number of gaps whose packs are kept for the next call: a GB with values, in float64


class Sorted:
    """Runs sorted into packs in the memory of a space, the longest first; runs of equal length in their given
    order.

    Parameters
    ----------
    runs : Runs
    space : str

    Attributes
    ----------
    n_packs : int
    order : View of int64, shape (n_runs,)
        The numbers of the runs.
    steps : View of int64, shape (n_packs,)
        Length of each pack's longest run.
    ends : ndarray of int64, shape (n_packs + 1,)
        Cumulative sums of these: rows before each pack, and of all.
    lengths, begin, open_end : Views of int64, shape (n_packs, PACK)
        As in `Packed`.
    """

    def __init__(self, runs, space):
        self.space, self.n_packs, self._given = space, -(-runs.n_runs // PACK), runs.views[0]
        self.censoring = runs.n_censored > 0
        lengths = reached(runs.views[1], space)
        slots = self.n_packs * PACK
        still = pk.empty(slots if self.censoring else 1, np.int64, space)
        if runs.n_runs <= FEW:
            order = np.argsort(-runs.lengths, kind="stable")
            self.order, begins = (reached(part, space) for part in (order, runs.begins))
        else:
            keys, begins = _starts_of(runs, lengths)
            self.order = pk.argsort(keys, space, descending=True)
        steps = pk.empty(self.n_packs, np.int64, space)
        dealt = [pk.empty(slots, np.int64, space) for _ in range(2)]
        censored = reached(runs.censored, space) if self.censoring else still  # unused without open gaps
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
            space=space,
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
    """Return keys that sort runs by their lengths, and the start of each run among the values, in the space
    of a View of the lengths; results of the check of lengths are used once."""
    starts, runs.starts = runs.starts, None
    return starts if starts and lengths is runs.views[1] else own_lengths(lengths, runs.n_gaps)[1]


class Part:
    """Some packs of runs, consecutive by length; a piece for `sharding.Shards`.

    Parameters
    ----------
    runs : Runs
    prepared : dict
        Results shared by all parts of the runs.
    cuts : list of pairs of int, optional
        First pack and end of each shard in this part; one shard of all packs by default. Together they cover
        consecutive packs.
    n_shards : int
        Number of shards in all parts.
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
        """Approximate size of the packs' values in bytes."""
        return self.runs.nbytes * (self._end - self._first) // self._n_packs

    def sorted_in(self, space):
        """Return the Sorted of the runs in a space, made once."""
        name = _name_of(pk.default_space() if space is None else space)
        return self._make_once((name,), lambda: Sorted(self.runs, name))

    def packed(self, space, dtype, unit=None):
        """Return the Packed of the packs, made once if runs are kept in the space."""
        whole, unit, packs = self.sorted_in(space), unit or unit_of(self.runs), (self._first, self._end)

        def make():
            return Packed(self.runs, whole, dtype, unit, *packs, self.cuts, self.n_shards)

        if self.runs.n_gaps > KEPT:
            return make()
        return self._make_once((whole.space, dtype, unit, *packs), make)

    def _make_once(self, key, make):
        found = self.prepared.get(key)  # two threads may both make it
        return self.prepared.setdefault(key, make()) if found is None else found


@functools.lru_cache(maxsize=64)
def _name_of(space):
    """Return the name of a space that can run here."""
    return pk.empty(1, np.int64, space).space


def part_of(piece, n_shards=1):
    """Make a Part of Runs, one of `n_shards` shards, or of a Stretch. Runs are packed again at each call."""
    if isinstance(piece, Part):
        return piece
    return Part(piece.read() if hasattr(piece, "read") else piece, {}, n_shards=n_shards)


def whole_of(runs):
    """Make a Part of all packs of runs, which keep it if they are not too many."""
    return Part(runs, runs.prepared if runs.n_gaps <= KEPT else {})


class Packed:
    """Runs in lanes, PACK of them in a pack, each padded to the pack's longest run.

    Parameters
    ----------
    runs : Runs
    whole : Sorted
        The same runs in a space.
    dtype : type
    unit : float
        Unit of the packed gaps. It centres the range of float32 on the data.
    first, end : int
        First pack, and end.
    cuts : sequence of pairs of int
        First pack and end of each shard for the first call of `shares`: packs are distributed to teams before
        the gaps are laid out, in a long launch during which Python's memory leaves the caches.
    n_shards : int
        As in `shares`.

    Attributes
    ----------
    n_packs, n_rows : int
        Number of packs, and the sum of the lengths of their longest runs.
    gaps : View of dtype, shape (n_rows * 2 * PACK,)
        Row offset[pack] + k holds gap k of each run of the pack, then their logarithms; NEVER for a gap of
        zero.
    offset, steps : Views of int64, shape (n_packs,)
        A pack's first row, and the length of its longest run.
    lengths, begin : Views of int64, shape (n_packs, PACK)
        Length of each run in packed order, and its start among the runs' values; 0 in slots without a run.
    open_end : View of int64, shape (n_packs, PACK), or (1, 1) if there is none
        1 if the last gap is open.
    distinct : View of float64, shape (2, n_values), or None
        The ends of the distinct intervals of rounded gaps, in units: the row of a complete gap holds its
        index among these.
    """

    def __init__(self, runs, whole, dtype, unit, first, end, cuts, n_shards):
        self.space, self.dtype, self.unit = whole.space, dtype, unit
        self.censoring, self._shares = whole.censoring, {}
        self._ends = whole.ends[first : end + 1] - whole.ends[first]
        self.n_packs, self.n_rows = end - first, int(self._ends[-1])
        self._ends_there = reached(self._ends, self.space)
        self.offset = self._ends_there[:-1]
        self.steps, self.lengths, self.begin, self.open_end = whole.between(first, end)
        self.gaps = pk.empty(self.n_rows * 2 * PACK, dtype, self.space)
        self.distinct, values = None, whole.values
        if runs.resolution is not None:
            distinct, values = intervals_of(values, runs.resolution, runs.complete, unit)
            distinct = distinct if distinct.size else np.zeros((2, 1))
            self.distinct, values, unit = *(reached(part, self.space) for part in (distinct, values)), 1.0
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
        """Return the policy of one team per pack."""
        return pk.TeamPolicy(self.n_packs, PACK, space=self.space)

    def shares(self, cuts, n_shards=1):
        """Distribute the packs of each shard to teams, in consecutive groups of similar numbers of rows.

        Parameters
        ----------
        cuts : sequence of pairs of int
            First pack and end of each shard.
        n_shards : int
            Shards of the whole data, in this space or elsewhere.

        Returns
        -------
        Laid
        """
        key = tuple(cuts), n_shards
        if key not in self._shares:
            self._shares[key] = self._deal_runs(*key)
        return self._shares[key]

    def _deal_runs(self, cuts, n_shards):
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
        views = dealt, *self.views
        return Laid(self.censoring, views, columns, places, n_rows, self.distinct)


def new_table(distinct, n_models, n_branches, dtype, space):
    """Allocate the table of `rounding.tabulate` for distinct gaps; of size 1 if gaps are not rounded."""
    shape = (1, 1, 1, 1) if distinct is None else (n_models, 3, n_branches, distinct.shape[1])
    return pk.empty(shape, dtype, space)


def fill_table(models, distinct, table):
    """Tabulate distinct intervals by the rows of models, a View of float64."""
    n_models, _, n_branches, n_values = table.shape
    launch((n_models, n_branches, n_values), rounding.tabulate, models, distinct, table, space=table.space)


class Laid(NamedTuple):
    """Packs of some shards, distributed to teams.

    Attributes
    ----------
    censoring : bool
        True if any run is open.
    views : tuple
        Arguments of kernels for the runs: each team's first pack, the end of its packs, and its first row
        among those kept for the current packs, shape (3, n_teams); then those of `Packed.views`. Views, or
        arrays kept on the host.
    columns : ndarray of int, shape (n_shards + 1,)
        First team of each shard, and the number of teams.
    groups : list of range
        Teams that are launched together.
    n_rows : int
        Number of rows that the teams of a group keep.
    distinct : View, or None
        The ends of distinct intervals, in units; None if gaps are not rounded.
    """

    censoring: bool
    views: tuple
    columns: np.ndarray
    groups: list
    n_rows: int
    distinct: pk.View | None

    @property
    def nbytes(self):
        return sum(view.size * view.dtype.itemsize for view in self.views)

    def on_host(self):
        return self._replace(views=tuple(view.to_numpy().copy() for view in self.views))


def _n_teams(n_rows, at_once):
    """Choose the number of teams for a shard of n_rows rows, in a space that can use at_once teams; 0 for a
    CPU, which may have any number of threads."""
    if at_once:
        return at_once
    return min(LEAST_TEAMS * max(n_rows // ROWS, 1), MOST_TEAMS)


def tiny(dtype):
    """Return the smallest normal number of a dtype."""
    return float(np.finfo(dtype).tiny)


def unit_of(runs):
    """Choose the unit of gaps: a power of two near the geometric mean of gaps above zero, so that division is
    exact; 1 if all are zero. It is computed with the checks of the gaps, and is the same on all spaces."""
    return 2.0**runs.mean_exponent


def log_unit(runs):
    """Compute the logarithm of the densities' factor for gaps in these units; 0 for rounded gaps, which have
    probabilities."""
    if runs.resolution is not None:
        return 0.0
    return (runs.n_gaps - runs.n_censored) * np.log(unit_of(runs))


def check_range(runs, dtype):
    """Raise an error if the gaps exceed the range of float32."""
    if dtype is not np.float64 and runs.longest > _WIDEST * runs.shortest:
        raise InputError(
            f"gaps range from {runs.shortest:.3g} to {runs.longest:.3g}, more than a factor of "
            f"{_WIDEST:g}; expected dtype='float64'"
        )


def parts_of(runs, dtype, memory_bytes=None, space=None, client=None):
    """Divide runs into shards, each of whole packs and of at most SHARD gaps, or as many as fit into the
    memory when packed.

    Parameters
    ----------
    runs : Runs
    dtype : type
    memory_bytes : int or None
        Memory for packed gaps, in bytes.
    space : str, Space, None or a list of them
        Spaces of the shards.
    client : distributed.Client, optional

    Returns
    -------
    parts : list of Part, Runs or Stretch
        One Part of all shards in one space of this process, or a Part for each shard if several spaces divide
        them. Separate Runs on a cluster, for limited memory, or if gaps are rounded. A Stretch for runs in a
        file.
    whole : bool
        True if the memory holds all of them at once.
    """
    if hasattr(runs, "parts"):  # the runs are in a file
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
    """Cut packs, sorted by descending length, into shards as even as possible; return these as pairs of first
    pack and end, and True if the memory holds all. `ends` are the rows before each pack, and of all.

    A GPU needs more time per gap for long runs, as there are fewer of them: the order of shards mixes
    lengths, so that places finish at the same time.
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
    """Compute log (r - 1)! for each order r."""
    return np.array([math.lgamma(order) for order in orders])
