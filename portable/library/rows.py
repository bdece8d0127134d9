"""Ragged rows: kernels that check the rows, and their reduction for rows that are long on average, on spaces
whose teams have many members.

There a team processes a row. The result of a row does not depend on the other rows. For a row longer than
`MOST` values the team reduces the first `MOST`; the remaining values are divided into blocks of `MOST`, each
of which holds such a remainder of one row at most. The first teams of a launch validate the rows, since their
offsets are unchecked at that time: the other teams stay within the values, whatever `offsets` holds.
"""

import threading

from ..core import registry
from ..core.language.kernel import function, kernel
from ..core.language.reducer import Max
from ..core.places.space import HOST, fence
from ..core.arrays.view import _view, empty, over_new
from ..core.language.words import int32, int64, local, uint32, uint64, where

MOST = 8192  # values of a row that a team takes, one stretch after the other
AHEAD = 8  # values that a member reads before it combines the first
LOOKS = 256  # teams that validate the rows before the others process them, a byte each
# Their results: no row is longer than `most`, or one is, or the offsets are invalid.
UNSEEN, SHORT, LONG, WRONG = range(4)
_POLLS = 1000  # polls by the host, of some 0.2 microseconds each, before it sleeps
_kept = threading.local()


@function
def wide(x, i):
    """Return an element in the dtype of its sum: integers in 64 bits."""
    if x.dtype == int32:
        return int64(x[i])
    if x.dtype == uint32:
        return uint64(x[i])
    return x[i]


@function
def row_of(offsets, i):
    """Return the row of element i: the last one that begins at or before it."""
    low, high = 0, offsets.shape[0] - 1
    while high - low > 1:
        middle = (low + high) // 2
        if offsets[middle] <= i:
            low = middle
        else:
            high = middle
    return low


@function
def ends_of(r, offsets):
    """Return begin and end of a row."""
    return int64(offsets[r]), int64(offsets[r + 1])


# ---- validation of offsets, and the rows of tiles
@kernel
def row_length(r, offsets):
    """Return a row's length, as `_looked_at` does."""
    return _looked_at(r, offsets)


@function
def _looked_at(r, offsets):
    """Return (the row's length, the beginning of the first row, the end of the last one, the row's length),
    with 0 for other rows' ends.
    """
    begin, end = ends_of(r, offsets)
    return end - begin, begin if r == 0 else 0, end if r + 2 == offsets.shape[0] else 0, end - begin


@kernel
def find_row(t, tile, offsets, rows):
    """Find the row in which a tile begins, the row's end included. A tile has `tile` values and ends of rows
    together: so neither long rows nor many empty ones enlarge it.
    """
    low, high = 0, offsets.shape[0] - 1
    while low < high:
        middle = (low + high) // 2
        if offsets[middle + 1] + middle < t * tile:
            low = middle + 1
        else:
            high = middle
    rows[t] = low


@kernel
def row_length_and_tiles(r, tile, offsets, rows):
    """Return a row's length and the row that `find_row` finds: for machines where a search, one load after
    the other, takes longer than passing through the rows."""
    (begin, end), n_tiles = ends_of(r, offsets), rows.shape[0] - 1
    behind, last = (begin + r - 1) // tile, (end + r) // tile  # the tiles before its first place, at its last
    if behind < last:
        for t in range(max(behind, -1) + 1, min(last, n_tiles - 1) + 1):
            rows[t] = r
    if r + 2 == offsets.shape[0]:
        rows[n_tiles] = r + 1
    return _looked_at(r, offsets)


@kernel
def row_length_and_begin(r, offsets, begins):
    """Return a row's length, after its offsets were checked, and mark its first value in `begins`."""
    begin, end = ends_of(r, offsets)
    if 0 <= begin and begin < min(end, begins.shape[0]):
        begins[begin] = True
    return _looked_at(r, offsets)


@kernel
def row_numbers(i, offsets, rows):
    rows[i] = row_of(offsets, i)


# ---- rows that are long on average
@function
def _check_rows(team, most, n_values, offsets, looks):
    """Store the worst verdict on a team's share of the rows: WRONG if a row ends before it begins, or if the
    first or last offset is not the first or last place of the values; else LONG or SHORT."""
    n_rows, worst = offsets.shape[0] - 1, SHORT
    share = (n_rows + looks.shape[0] - 1) // looks.shape[0]
    low = team.league_rank * share
    for r in team.thread_range(low, min(low + share, n_rows)):
        begin, end = ends_of(r, offsets)
        wrong = end < begin or (r == 0 and begin != 0) or (r == n_rows - 1 and end != n_values)
        worst = max(worst, WRONG if wrong else LONG if end - begin > most else SHORT)
    worst = team.reduce(worst, Max)
    if team.single():
        looks[team.league_rank] = worst


@function
def _row(r, values, offsets):
    """Return begin and end of a row; within the values, whatever `offsets` holds."""
    begin = min(max(int64(offsets[r]), 0), values.shape[0])
    return begin, min(max(int64(offsets[r + 1]), begin), values.shape[0])


@function
def _own_row(team, most, values, offsets, looks):
    """Return (a team's row, its begin and end); the row is negative for teams that validate rows."""
    r = team.league_rank - looks.shape[0]
    begin, end = _row(max(r, 0), values, offsets)
    if r < 0:
        _check_rows(team, most, values.shape[0], offsets, looks)
    return r, begin, end


@function
def _fold(team, reducer, n_ahead, neutral, values, low, high):
    """Combine values low..high by a whole team, of which a member reads `n_ahead` before it combines the
    first."""
    total, ahead = neutral, local(n_ahead, values.dtype)
    for base in range(low + team.rank, high, n_ahead * team.size):
        for m in range(n_ahead):
            ahead[m] = values[min(base + m * team.size, high - 1)]
        for m in range(n_ahead):
            total = where(base + m * team.size < high, reducer.combine(total, wide(ahead, m)), total)
    return team.reduce(total, reducer)


@kernel
def reduce_row(team, reducer, n_ahead, most, neutral, values, offsets, out, looks):
    """Reduce each row, or the first `most` values of a longer one, by a team. Reads a row's values once. The
    first teams validate the rows.
    """
    r, begin, end = _own_row(team, most, values, offsets, looks)
    if r < 0:
        return
    total = _fold(team, reducer, n_ahead, neutral, values, begin, min(end, begin + most))
    if team.single():
        out[r] = total


@kernel
def reduce_block(team, reducer, most, neutral, values, offsets, parts):
    """Reduce the values beyond the first `most` of a row, in a block of as many, by a team.

    The row is the one at the block's beginning: other rows' values beyond `most` begin after the block.
    """
    first = team.league_rank * most
    begin, end = _row(row_of(offsets, first), values, offsets)
    total = _fold(team, reducer, AHEAD, neutral, values, max(first, begin + most), min(first + most, end))
    if team.single():
        parts[team.league_rank] = total


@kernel
def join_row(team, reducer, most, neutral, values, offsets, parts, out):
    """Join a row of more than `most` values with its blocks, by a team. The parts once."""
    begin, end = _row(team.league_rank, values, offsets)
    total = neutral
    for block in team.thread_range((begin + most) // most, (end + most - 1) // most):
        total = reducer.combine(total, parts[block])
    total = team.reduce(total, reducer)
    if team.single() and end - begin > most:
        out[team.league_rank] = reducer.combine(out[team.league_rank], total)


@kernel
def scan_row(team, reducer, most, inclusive, neutral, values, offsets, out, looks):
    """Compute a row's prefixes, by a team. Reads a row's values once and writes its prefixes; skips a row
    longer than `most`. The first teams validate the rows.
    """
    r, begin, end = _own_row(team, most, values, offsets, looks)
    if r < 0:
        return
    end = end if end - begin <= most else begin
    carry, ahead = neutral, local(AHEAD, values.dtype)
    for base in range(begin, end, AHEAD * team.size):
        for m in range(AHEAD):
            ahead[m] = values[min(base + m * team.size + team.rank, end - 1)]
        for m in range(AHEAD):
            i = base + m * team.size + team.rank
            value = where(i < end, wide(ahead, m), neutral)
            before = reducer.combine(carry, team.scan(value, reducer))
            after = reducer.combine(before, value)
            if i < end:
                out[i] = after if inclusive else before
            carry = team.broadcast(after, team.size - 1)


# ---- results of the validating teams, read while other teams run
def looks_of(space):
    """Return (a view of LOOKS bytes for kernels of a space, the same memory for the host), all UNSEEN; not
    shared until `seen`.
    """
    looks = vars(_kept).pop(space.memory, None)
    if looks is None:
        view, elements = read_by_host(space, LOOKS, "uint8")
        # where kernels and the host share no memory, the host's copy stays unset
        looks = view, memoryview(bytearray(LOOKS) if elements is None else elements)
    looks[1][:] = bytes(LOOKS)  # UNSEEN
    return looks


def read_by_host(space, extent, dtype):
    """Return a view for kernels of a space, and a NumPy array of the same memory; None in its place where
    kernels reach no memory that the host reads."""
    view = empty(extent, dtype, space)
    memory = registry.backend(space.name).pinned(view.nbytes)
    if memory is not None:
        view = _view(over_new(memory, view.shape, view.dtype), space.memory, str(space))
    return view, view._array if memory or space.memory == HOST else None


def worst_finding(space, looks):
    """Return the largest finding of all teams that check; UNSEEN if a launch did not end."""
    for _ in range(_POLLS):
        found = bytes(looks[1])
        if UNSEEN not in found:
            break
    else:  # earlier work may take long, and other Python threads should run meanwhile
        fence(space)
        found = bytes(looks[1])
    if UNSEEN not in found:
        vars(_kept)[space.memory] = looks
    return found
