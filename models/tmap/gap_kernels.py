"""Kernels that check gaps and run lengths as given, and sort runs."""

import math

import portable as pk

from ..shared import first_not_below
from .kernels import PACK

SMALLEST, LARGEST = 1e-150, 1e150  # between these, logarithms and products with similar rates are normal
NOWHERE = 2**63 - 1  # place of a gap or run that does not exist


@pk.kernel
def look_at_gap(i, copied, given, values):
    """Check a gap, and copy it into `values` if `copied`; return its place if it is refused, its value, its
    value if it is above zero, 1 if it is zero, and its exponent if it is above zero. 8 or 16 bytes."""
    v = pk.float64(given[i])
    if copied:
        values[i] = v
    allowed = v == 0.0 or (v >= SMALLEST and v <= LARGEST)
    positive = v > 0.0
    exponent = pk.logb(v) if positive and allowed else 0.0
    return NOWHERE if allowed else i, v, v if positive else math.inf, 1 if v == 0.0 else 0, int(exponent)


@pk.kernel
def look_at_length(run, given, lengths, keys, empty):
    """Copy a run's number of gaps into `lengths`, and into `keys`, by which runs are sorted; if it is below
    1, raise `empty` to NOWHERE less the run's number, so that the first such run counts. Return the number,
    for the scan that gives the starts of runs. 28 bytes."""
    n = pk.int64(given[run])
    lengths[run] = n
    keys[run] = n
    if n < 1:
        pk.atomic_max(empty, 0, NOWHERE - run)
    return n


@pk.kernel
def look_at_rounded(i, censoring, complete, resolution, values):
    """Check that a gap with an observed end is a multiple of `resolution`, up to rounding; return its place
    if not, and 1 if not. 8 bytes."""
    share = values[i] / resolution
    off = abs(share - pk.rint(share)) > 1e-6 * max(share, 1.0)
    if censoring:
        off = off and complete[i]
    return i if off else NOWHERE, 1 if off else 0


@pk.kernel
def round_gap(i, censoring, complete, resolution, values, keys):
    """Divide a gap by `resolution` and round it; infinity if it is open. 16 bytes."""
    key = pk.rint(values[i] / resolution)
    if censoring:
        key = key if complete[i] else math.inf
    keys[i] = key


@pk.kernel
def place_gap(i, unit, keys, places, values, out):
    """Set a complete gap to its index among the distinct ones, and an open one to its length in units. 32
    bytes."""
    out[i] = pk.float64(places[i]) if keys[i] < math.inf else values[i] / unit


@pk.kernel
def deal(slot, censoring, order, run_lengths, run_begins, censored, steps, lengths, begin, open_end):
    """Put a run into a slot of the packs: its length, its first gap, and 1 if its last gap is open; for each
    pack also the length of its first run, the longest. All are 0 in slots without a run. 50 bytes."""
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
    """Distribute the packs of a cut to teams, in consecutive groups of similar numbers of rows; one team per
    cut. `ends` holds the number of rows before each pack. A search and 40 bytes a team.

    A cut is its first pack, its end, its number of teams, at most that of its packs, its first column of
    `dealt`, and the number of its first kept row. Rows of `dealt`: a team's first pack, the end of its packs,
    and its first kept row, after the rows of the first packs of the previous teams. If long packs leave too
    few for all teams, the last teams get none.
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
        begins = pk.int64(0)  # 1 if a team starts with this pack
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
    """Copy the values at some places. 24 bytes."""
    out[i] = values[places[i]]


@pk.kernel
def take_run(run, lengths, begins, new_begins, values, out):
    """Copy the gaps of a run to their places among those of fewer runs. 16 bytes a gap."""
    for k in range(lengths[run]):
        out[new_begins[run] + k] = values[begins[run] + k]
