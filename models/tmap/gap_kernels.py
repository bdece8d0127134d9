"""Kernels that look at gaps and at lengths of runs as users give them, add them up, and put runs in order."""

import math

import portable as pk

from ..shared.shared_kernels import first_not_below
from .kernels import PACK

SMALLEST, LARGEST = 1e-150, 1e150  # between them, logarithms and products with rates of like range are normal
LEAF = 128  # numbers that eight running sums add up
BRANCHES = 32  # leaves that one index adds up: a power of two
NOWHERE = 2**63 - 1  # in place of the place of what there is none of


@pk.kernel
def look_at_gap(i, copied, given, values):
    """A gap, into `values` if it is to be `copied`; returns its place if it is refused, itself, itself if it
    is above zero, whether it is zero, and else its exponent. 8 or 16 bytes."""
    v = pk.float64(given[i])
    if copied:
        values[i] = v
    allowed = v == 0.0 or (v >= SMALLEST and v <= LARGEST)
    positive = v > 0.0
    exponent = pk.logb(v) if positive and allowed else 0.0
    return NOWHERE if allowed else i, v, v if positive else math.inf, 1 if v == 0.0 else 0, int(exponent)


@pk.kernel
def look_at_length(run, given, lengths, keys, empty):
    """A run's number of gaps into `lengths`, and into `keys`, by which runs are sorted; if it is below 1
    `empty` takes how far before NOWHERE its place is, of the first such. For the scan that says where runs
    begin. 28 bytes."""
    n = pk.int64(given[run])
    lengths[run] = n
    keys[run] = n
    if n < 1:
        pk.atomic_max(empty, 0, NOWHERE - run)
    return n


@pk.kernel
def look_at_rounded(i, censoring, complete, resolution, values):
    """Returns a gap's place if its end was seen and it is no multiple of `resolution`, but for rounding, and
    whether it is so. 8 bytes."""
    share = values[i] / resolution
    off = abs(share - pk.rint(share)) > 1e-6 * max(share, 1.0)
    if censoring:
        off = off and complete[i]
    return i if off else NOWHERE, 1 if off else 0


@pk.kernel
def round_gap(i, censoring, complete, resolution, values, keys):
    """Round a gap to its number of resolutions; infinity if it is open. 16 bytes."""
    key = pk.rint(values[i] / resolution)
    if censoring:
        key = key if complete[i] else math.inf
    keys[i] = key


@pk.kernel
def place_gap(i, unit, keys, places, values, out):
    """Place a complete gap among the distinct ones; of an open one, set its length in units. 32 bytes."""
    out[i] = pk.float64(places[i]) if keys[i] < math.inf else values[i] / unit


@pk.kernel
def add_leaf(team, depth, values, sums):
    """The sum of a leaf's numbers; one team per leaf. 8 bytes a number.

    Leaves are those of a tree of `depth` levels: a node of more than LEAF numbers is cut near its middle, at
    a multiple of eight. Eight running sums take every eighth number each. NumPy adds up so, and so do all
    spaces.
    """
    begin = 0
    end = values.shape[0]
    for level in range(depth):
        middle = begin + ((end - begin) >> 4 << 3) if end - begin > LEAF else end
        if (team.league_rank >> (depth - 1 - level)) & 1 > 0:
            begin = middle
        else:
            end = middle
    whole = end - (end - begin) % 8
    running = team.scratch(8, pk.float64)
    for k in team.thread_range(8):
        part = 0.0
        for first in range(begin, whole, 8):
            part += values[first + k]
        running[k] = part
    team.barrier()
    if team.single():
        total = ((running[0] + running[1]) + (running[2] + running[3])) + (
            (running[4] + running[5]) + (running[6] + running[7])
        )
        for i in range(whole, end):
            total += values[i]
        sums[team.league_rank] = total


@pk.kernel
def add_branches(node, sums, out):
    """The sum of BRANCHES neighbouring leaves, level by level. 8 bytes a leaf."""
    own = pk.local(BRANCHES, pk.float64)
    for k in range(pk.static(BRANCHES)):
        own[k] = sums[node * BRANCHES + k]
    width = BRANCHES
    while width > 1:
        width = width // 2
        for k in range(width):
            own[k] = own[2 * k] + own[2 * k + 1]
    out[node] = own[0]


@pk.kernel
def deal(slot, censoring, order, run_lengths, run_begins, censored, steps, lengths, begin, open_end):
    """Deal the run in a slot of the packs: its length, its first gap, and whether its last gap is open; of
    a pack the length of its first run, the longest. If the last pack has no run all are 0. 50 bytes."""
    length = pk.int64(0)
    first = pk.int64(0)
    still = pk.int64(0)
    if slot < order.shape[0]:
        run = order[slot]
        length = run_lengths[run]
        first = run_begins[run]
        if censoring:
            still = 1 if censored[run] else 0
    lengths[slot] = length
    begin[slot] = first
    if censoring:
        open_end[slot] = still
    if slot % PACK == 0:
        steps[slot // PACK] = length


@pk.kernel
def share_out(team, cuts, ends, dealt):
    """Deal the packs of a cut, before each of which are so many rows as `ends` says, to teams: neighbours, of
    like numbers of rows; one team per cut. A search and 40 bytes a team.

    A cut is its first pack, its end, its number of teams, no more than it has packs, its first column of
    `dealt`, and the number of its first kept row. Rows of `dealt`: a team's first pack, the end of its packs,
    and its first kept row, behind the rows of the first packs of the teams before. Where long packs leave
    teams nothing, the last ones get none.
    """
    cut = team.league_rank
    first = cuts[cut, 0]
    end = cuts[cut, 1]
    most = cuts[cut, 2]
    own = cuts[cut, 3]
    n_rows = ends[end] - ends[first]
    n_teams = pk.int64(0)
    n_kept = cuts[cut, 4]
    for begin in range(0, most, team.size):
        k = begin + team.rank
        pack = first
        begins = pk.int64(0)  # 1 where a team has the pack first
        rows = pk.int64(0)
        if k < most:
            pack = first_not_below(ends, first, end, ends[first] + k * n_rows // most)
            if k == 0 or ends[max(pack - 1, first)] >= ends[first] + (k - 1) * n_rows // most:
                begins = 1
                rows = ends[pack + 1] - ends[pack]
        place = n_teams + team.scan(begins)
        before = n_kept + team.scan(rows)
        if begins > 0:
            dealt[0, own + place] = pack
            if place > 0:
                dealt[1, own + place - 1] = pack
            dealt[2, own + place] = before
        n_teams += team.reduce(begins)
        n_kept += team.reduce(rows)
    for k in team.thread_range(most):
        if k >= n_teams:
            dealt[0, own + k] = end
            dealt[2, own + k] = 0
        if k >= n_teams - 1:
            dealt[1, own + k] = end


@pk.kernel
def take(i, places, values, out):
    """The values at some places. 24 bytes."""
    out[i] = values[places[i]]


@pk.kernel
def take_run(run, lengths, begins, new_begins, values, out):
    """The gaps of a run to where they begin among those of fewer runs. 16 bytes a gap."""
    for k in range(lengths[run]):
        out[new_begins[run] + k] = values[begins[run] + k]
