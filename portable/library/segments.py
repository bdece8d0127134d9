"""Ragged rows, and searches in sorted numbers: kernels for every space.

Rows are contiguous in `values`; row r is values[offsets[r]] ... values[offsets[r + 1] - 1], and may be empty.
A reduction divides the values, not the rows, into tiles, a team each: a row of a million costs the same as a
million rows of one. A tile's team processes row by row, or one row per member if the tile has many rows; the
parts of rows that cross tiles are combined in a second launch.
"""

from __future__ import annotations

from functools import cache, lru_cache, partial
import threading
from typing import Literal, overload

import numpy as np

from .algorithms import _by_teams, _clear, _number, _ordered, _take_all, _vector, _widened, argsort
from ..core.events import refuse_while_recording
from ..core.language.annotations import ArrayLike, SpaceLike
from ..core.launch.dispatch import parallel_for, parallel_reduce, parallel_scan
from ..errors import DTypeError, InputError, ShapeError
from ..core.language.kernel import function, kernel
from ..core.places.policy import AUTO, RangePolicy, TeamPolicy, check_index
from ..core.language.reducer import Max, Min, Reducer, Sum
from ..core.places.space import stamp
from .rows import (
    AHEAD,
    LONG,
    LOOKS,
    MOST,
    UNSEEN,
    WRONG,
    ends_of,
    find_row,
    looks_of,
    read_by_host,
    join_row,
    reduce_block,
    reduce_row,
    scan_row,
    row_length,
    row_length_and_begin,
    row_length_and_tiles,
    row_numbers,
    worst_finding,
    wide,
)
from .selecting import compact
from ..core.arrays.view import View, empty, zeros
from ..core.language.words import atomic_add, int64, local, static, where

_TILE, _GPU_TILE, _WARP = 4096, 512, 32
_ALONE = 32  # values, or parts, that a member combines by itself while others wait
_JOINED = 256  # tiles of a team that joins their rows
_LOOKED_AT = Min, Sum, Sum, Max  # for offsets: see rows.py
_LONG = 256  # values of a row, on average, from which on a GPU's teams take rows
# the same, from which on a member reads twice as many values ahead: faster at 1,000, slower at 300
_LONGER = 768


# ---- searches in sorted numbers
@function
def _first_not_below(edges, x, i, right):
    """Return the number of edges below x[i], or (right) not above it."""
    key = _ordered(x, i)
    low, high = 0, edges.shape[0]
    while low < high:
        middle = (low + high) // 2
        edge = _ordered(edges, middle)
        if edge < key or right and edge == key:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _search(i, right, edges, x, out):
    out[i] = _first_not_below(edges, x, i, right)


@kernel
def _differs(i, x, out):
    """Return 1 if a number of a sorted row differs from the one before."""
    out[i] = i == 0 or _ordered(x, i) != _ordered(x, max(i - 1, 0))


@kernel
def _lengths(i, starts, n, out):
    out[i] = (starts[i + 1] if i + 1 < starts.shape[0] else n) - starts[i]


@kernel
def _count_bin(i, x, out):
    atomic_add(out, x[i], 1)


def searchsorted(
    edges: ArrayLike,
    values: ArrayLike,
    side: Literal["left", "right"] = "left",
    space: SpaceLike = None,
) -> View:
    """Return the places at which values would be inserted among sorted edges, as NumPy's.

    Parameters
    ----------
    edges : View or NumPy array, shape (m,), rising, as `argsort` orders (NaN last)
    values : View or NumPy array, shape (n,), of the dtype of edges
    side : {"left", "right"}
        The position before or after equal elements.
    space : str or Space, optional

    Returns
    -------
    View, shape (n,), int64

    Raises
    ------
    DTypeError, InputError
        `edges` and `values` differ in dtype; `side` is unknown.

    Examples
    --------
    >>> pk.searchsorted(np.array([1.0, 2.0, 4.0]), np.array([2.0, 3.0]), space="serial").to_numpy().tolist()
    [1, 2]
    """
    edges, space = _vector(edges, "edges", space, small=True)
    values, _ = _vector(values, "values", space, small=True)
    if edges.dtype != values.dtype:
        raise DTypeError(
            f"values has dtype {values.dtype}, edges has dtype {edges.dtype}; expected one dtype"
        )
    if side not in ("left", "right"):
        raise InputError(f"side is {side!r}; expected 'left' or 'right'")
    out = empty(values.shape, "int64", space)
    parallel_for(
        RangePolicy(0, values.shape[0], space=space),
        _search,
        static(side == "right"),
        edges,
        values,
        out,
        label="searchsorted",
    )
    return out


@overload
def unique(values: ArrayLike, counts: Literal[False] = False, space: SpaceLike = None) -> View: ...
@overload
def unique(values: ArrayLike, counts: Literal[True], space: SpaceLike = None) -> tuple[View, View]: ...
def unique(values: ArrayLike, counts: bool = False, space: SpaceLike = None) -> View | tuple[View, View]:
    """Return the distinct numbers in ascending order; all NaN count as one.

    Parameters
    ----------
    values : View or NumPy array, shape (n,), of int8 to int64, uint8 to uint64, float32 or float64
    counts : bool
        Also how often each occurs.
    space : str or Space, optional

    Returns
    -------
    View, shape (m,), of the dtype of values; with counts a tuple of it and one of int64, shape (m,)

    Examples
    --------
    >>> values, counts = pk.unique(np.array([2, 5, 2]), counts=True, space="serial")
    >>> values.to_numpy().tolist(), counts.to_numpy().tolist()
    ([2, 5], [2, 1])
    """
    values, space = _vector(values, "values", space, small=True)
    n = values.shape[0]
    values, first = _take_all(argsort(values, space), values, space), empty(n, bool, space)
    parallel_for(RangePolicy(0, n, space=space), _differs, values, first, label="unique.first")
    found = compact(first, values, space)
    if not counts:
        return found
    starts = compact(first, space=space)
    out = empty(starts.shape, "int64", space)
    parallel_for(
        RangePolicy(0, starts.shape[0], space=space), _lengths, starts, n, out, label="unique.counts"
    )
    return found, out


def bincount(
    x: ArrayLike, weights: ArrayLike | None = None, minlength: int = 0, space: SpaceLike = None
) -> View:
    """Count each non-negative integer, or sum its weights: the same bits each time.

    Parameters
    ----------
    x : View or NumPy array, shape (n,), of int8 to int64, or uint8 to uint64, none below 0
    weights : View or NumPy array, shape (n,), of float32 or float64, optional
        Sums are of their dtype.
    minlength : int
        The minimum number of bins.
    space : str or Space, optional

    Returns
    -------
    View, shape (max(x) + 1 or minlength,), int64 or of the dtype of weights

    Raises
    ------
    DTypeError, ShapeError, InputError
        `x` has a value other than integers from 0 on, `weights` are not floats of the same length,
        `minlength` is out of range.

    Examples
    --------
    >>> pk.bincount(np.array([0, 2, 2]), space="serial").to_numpy().tolist()
    [1, 0, 2]
    """
    x, space = _vector(x, "x", space, small=True)
    if x.dtype.kind == "f":
        raise DTypeError(f"x has dtype {x.dtype}; expected whole numbers")
    n, n_bins = x.shape[0], check_index(minlength, "minlength")
    policy = RangePolicy(0, n, space=space)
    if n:
        least, most = parallel_reduce(policy, _double, x, reducer=(Min, Max), label="bincount.range")
        if least < 0:
            raise InputError(f"x holds {least}; expected whole numbers from 0 on")
        n_bins = max(n_bins, most + 1)
    if weights is None:
        out = zeros(n_bins, "int64", space)
        parallel_for(policy, _count_bin, x, out, label="bincount.count")
        return out
    return _sums_of_weights(x, _vector(weights, "weights", space)[0], n_bins, space)


def _sums_of_weights(x, weights, n_bins, space):
    """Return the sum of each bin's weights, in the order of their occurrence."""
    if weights.shape != x.shape or weights.dtype.kind != "f":
        raise ShapeError(
            f"weights has shape {weights.shape} and dtype {weights.dtype}; expected floats of shape {x.shape}"
        )
    x = _widened(x, space)
    order, bins = argsort(x, space), empty(n_bins + 1, x.dtype, space)
    parallel_for(RangePolicy(0, n_bins + 1, space=space), _number, bins, label="bincount.bins")
    return segmented_reduce(
        _take_all(order, weights, space),
        searchsorted(_take_all(order, x, space), bins, space=space),
        space=space,
    )


@kernel
def _double(i, x):
    return x[i], x[i]


# ---- ragged rows
@function
def _fold(reducer, neutral, values, low, high):
    """Combine values low..high, by one member."""
    total = neutral
    for j in range(low, high):
        total = reducer.combine(total, wide(values, j))
    return total


@function
def _fold_together(team, reducer, neutral, values, low, high):
    """Combine values low..high, by the whole team."""
    total = neutral
    for j in team.thread_range(low, high):
        total = reducer.combine(total, wide(values, j))
    return team.reduce(total, reducer)


@function
def _stage(team, begin, end, values, staged):
    """Load a tile's values into scratch, with all of a member's loads in flight at once."""
    ahead = local(staged.shape[0] // team.size, values.dtype)
    if begin < end:
        for m in range(ahead.shape[0]):
            ahead[m] = values[min(begin + m * team.size + team.rank, end - 1)]
        for m in range(ahead.shape[0]):
            staged[m * team.size + team.rank] = ahead[m]
    team.barrier()


@function
def _bounds(tile, number, n_values, n_rows, rows):
    """Return (first row, last row, first value, end of the values) of a tile. The last row continues after
    the tile, or is one past all rows. The bounds stay within the views whatever `rows` holds, which is
    arbitrary for invalid offsets.
    """
    first = min(max(rows[number], 0), n_rows)
    last = min(max(rows[number + 1], first), min(first + tile, n_rows))
    begin = min(max(number * tile - first, 0), n_values)
    end = min(max((number + 1) * tile - last, begin), n_values)
    return first, last, begin, end


@function
def _ends(r, offsets):
    """Return begin and end of a row; for rows past the end, those of the last."""
    there = max(min(r, offsets.shape[0] - 2), 0)
    return ends_of(there, offsets)


@function
def _keep(total, bounds, r, start, results):
    """Store a row's part: in the row's result if it is complete; else in the tile's part of a row that begins
    before it, or of one that continues after it.
    """
    (number, _, last, begin, _, _), (out, heads, tails) = bounds, results
    if start < begin:
        heads[number] = total
    elif r < last:
        out[r] = total
    else:
        tails[number] = total


@function
def _parts_by_members(team, reducer, neutral, bounds, values, offsets, results):
    """Combine each row's part of a tile, a member a row."""
    _, first, last, begin, end, origin = bounds
    for r in team.thread_range(first, min(last + 1, offsets.shape[0] - 1)):
        low, high = max(offsets[r], begin), min(offsets[r + 1], end)
        total = _fold(reducer, neutral, values, low - origin, high - origin)
        _keep(total, bounds, r, offsets[r], results)


@function
def _part_by_team(team, reducer, neutral, bounds, r, values, offsets, results):
    """Combine a row's part of a tile, by the whole team."""
    _, _, _, begin, end, origin = bounds
    low, high = max(offsets[r], begin) - origin, min(offsets[r + 1], end) - origin
    total = _fold_together(team, reducer, neutral, values, low, high)
    if team.single():
        _keep(total, bounds, r, offsets[r], results)


@function
def _parts_of_short_rows(team, reducer, neutral, bounds, ahead, values, offsets, results, long):
    """Reduce each row's part of a tile, one row per member, if it is not longer than `_ALONE`; the numbers of
    the other rows go to `long`. Return their count.
    """
    _, first, last, begin, end, origin = bounds
    n_long, (start, stop), behind = 0, ahead, min(last + 1, offsets.shape[0] - 1)
    for base in range(first, behind, team.size):
        r, low, high = base + team.rank, max(start, begin), min(stop, end)
        is_long = r < behind and high - low > _ALONE and n_long + team.size <= long.shape[0]
        if r < behind and not is_long:
            total = _fold(reducer, neutral, values, low - origin, high - origin)
            _keep(total, bounds, r, start, results)
        n_long = team.append(long, n_long, r, is_long)
        start, stop = _ends(r + team.size, offsets)
    team.barrier()
    return n_long


@kernel
def _reduce_tile(team, reducer, tile, neutral, values, offsets, out, heads, tails, rows):
    """Combine each row's part of a tile. Values once, and the offsets of its rows."""
    number, results = team.league_rank, (out, heads, tails)
    first, last, begin, end = _bounds(tile, number, values.shape[0], out.shape[0], rows)
    bounds = number, first, last, begin, end, 0
    if last - first < team.size:
        for r in range(first, min(last + 1, out.shape[0])):
            _part_by_team(team, reducer, neutral, bounds, r, values, offsets, results)
    else:
        _parts_by_members(team, reducer, neutral, bounds, values, offsets, results)


@kernel
def _reduce_staged_tile(team, reducer, tile, neutral, values, offsets, out, heads, tails, rows):
    """Reduce each row's part of a tile, from scratch: for members with private scratch, and slow memory.
    Reads values and the offsets of its rows once.
    """
    staged, long = team.scratch(tile, values.dtype), team.scratch(tile // _ALONE + team.size, int64)
    first, last, begin, end = _bounds(tile, team.league_rank, values.shape[0], out.shape[0], rows)
    bounds, ahead = (team.league_rank, first, last, begin, end, begin), _ends(first + team.rank, offsets)
    _stage(team, begin, end, values, staged)
    results = out, heads, tails
    n_long = _parts_of_short_rows(team, reducer, neutral, bounds, ahead, staged, offsets, results, long)
    for k in range(n_long):
        _part_by_team(team, reducer, neutral, bounds, long[k], staged, offsets, results)


@function
def _row_to_join(tile, number, sizes, offsets, rows):
    """Return (the row that begins in a tile and continues in others, the number of these); 0 tiles: no such
    row.
    """
    n_values, n_rows = sizes
    _, r, begin, end = _bounds(tile, number, n_values, n_rows, rows)
    n_more = 0
    if r < n_rows:
        if offsets[r] >= begin and offsets[r] < end:
            n_more = min((int64(offsets[r + 1]) + r) // tile, rows.shape[0] - 2) - number
    return r, n_more


@function
def _join(reducer, number, n_more, heads, tails):
    """Combine the parts of a row that a tile begins, by one member."""
    total = tails[number]
    for t in range(number + 1, number + n_more + 1):
        total = reducer.combine(total, heads[t])
    return total


@function
def _join_together(team, reducer, neutral, number, n_more, heads, tails):
    """Combine the parts of a row that a tile begins, by the whole team."""
    total = neutral
    for t in team.thread_range(number + 1, number + n_more + 1):
        total = reducer.combine(total, heads[t])
    return reducer.combine(tails[number], team.reduce(total, reducer))


@kernel
def _join_tiles(team, reducer, tile, n_values, neutral, offsets, out, heads, tails, rows):
    """Combine the parts of _JOINED tiles' rows that continue in other tiles; those of many tiles by the whole
    team. Reads the tiles' parts once.
    """
    long, n_long = team.scratch(_JOINED, int64), 0
    begin, n_tiles, sizes = team.league_rank * _JOINED, heads.shape[0], (n_values, out.shape[0])
    for base in range(begin, min(begin + _JOINED, n_tiles), team.size):
        number, r, n_more = base + team.rank, 0, 0
        if number < n_tiles:
            r, n_more = _row_to_join(tile, number, sizes, offsets, rows)
        if 0 < n_more and n_more <= _ALONE:
            out[r] = _join(reducer, number, n_more, heads, tails)
        n_long = team.append(long, n_long, number, n_more > _ALONE)
    team.barrier()
    for k in range(n_long):
        r, n_more = _row_to_join(tile, long[k], sizes, offsets, rows)
        total = _join_together(team, reducer, neutral, long[k], n_more, heads, tails)
        if team.single():
            out[r] = total


@cache
def _restarting(reducer):
    """Return the reducer of (value, 1 at the beginning of a row), which restarts at each row."""
    combine = reducer.combine

    @function
    def restarted(a, b):
        return where(b[1] != 0, b[0], combine(a[0], b[0])), a[1] | b[1]

    @function
    def value_of(state):
        return state[0]

    return Reducer(
        f"Segmented{reducer.name}",
        restarted,
        lambda dtype: (reducer.identity(dtype), 0),
        finish=value_of,
        commutes=False,
    )


@kernel
def _with_begin(i, inclusive, neutral, begins, values):
    """Return (contribution, 1 at the beginning of a row); exclusive prefixes are inclusive ones of the
    previous values.
    """
    if inclusive:
        return wide(values, i), int64(begins[i])
    before = wide(values, max(i - 1, 0))
    return neutral if begins[i] else before, int64(begins[i])


def segmented_reduce(
    values: ArrayLike, offsets: ArrayLike, reducer: Reducer = Sum, space: SpaceLike = None
) -> View:
    """Return each row combined.

    Parameters
    ----------
    values : View or NumPy array, shape (n,), of int32, int64, uint32, uint64, float32 or float64
    offsets : View or NumPy array, shape (n_rows + 1,), int32 or int64
        0, then where each row ends: n at last.
    reducer : Reducer
        A commutative one whose state is a number, without lift and finish.
    space : str or Space, optional

    Returns
    -------
    View, shape (n_rows,)
        The reducer's identity for an empty row. Of the dtype of values, integers in 64 bits. The bits do not
        depend on the number of threads.

    Raises
    ------
    InputError
        `reducer` does not commute.

    Examples
    --------
    >>> ends = np.array([0, 1, 1, 3])
    >>> pk.segmented_reduce(np.array([1.0, 2.0, 4.0]), ends, space="serial").to_numpy().tolist()
    [1.0, 0.0, 6.0]
    """
    values, offsets, dtype, neutral, sizes = _ragged(values, offsets, reducer, space)
    if not reducer.commutes:
        raise InputError(f"reducer: {reducer!r} does not commute; segmented_scan combines in order")
    way = _reduce_long_rows if _are_long(*sizes) else _reduce_tiles
    return way(sizes, reducer, neutral, values, offsets, dtype)


def _reduce_tiles(sizes, reducer, neutral, values, offsets, dtype):
    """Return each row combined, by tiles of values and ends of rows."""
    space, n, n_rows = sizes
    tile, n_tiles, ends, teams, teams_of_tiles = _cut(space, n, n_rows)
    # the row at which each tile begins, and its parts of a row from before and of one that continues
    rows, heads, tails = _workspace(space, (n_tiles + 1, "int64"), (n_tiles, dtype), (n_tiles, dtype))
    if _by_teams(space):
        check = _checked_rows(sizes, offsets, row_length_and_tiles, tile, offsets, rows)
        reduce_tile = _reduce_staged_tile
    else:
        check = _checked_rows(sizes, offsets, row_length, offsets)
        parallel_for(ends, find_row, tile, offsets, rows, label="segments.find_rows")
        reduce_tile = _reduce_tile
    out = empty(n_rows, dtype, space)  # the device has begun already
    parts = offsets, out, heads, tails, rows
    parallel_for(teams, reduce_tile, reducer, tile, neutral, values, *parts, label="segments.reduce")
    parallel_for(teams_of_tiles, _join_tiles, reducer, tile, n, neutral, *parts, label="segments.join")
    check()
    return out


def segmented_scan(
    values: ArrayLike,
    offsets: ArrayLike,
    reducer: Reducer = Sum,
    inclusive: bool = True,
    space: SpaceLike = None,
) -> View:
    """Return prefixes of each row.

    Parameters
    ----------
    values, offsets, reducer, space : as for segmented_reduce; the reducer need not commute
    inclusive : bool
        Whether an element's prefix includes its own value; the first exclusive one is the reducer's identity.

    Returns
    -------
    View, shape (n,), of the dtype of values, integers in 64 bits

    Examples
    --------
    >>> pk.segmented_scan(np.array([1.0, 2.0, 4.0]), np.array([0, 1, 3]), space="serial").to_numpy().tolist()
    [1.0, 2.0, 6.0]
    """
    values, offsets, dtype, neutral, sizes = _ragged(values, offsets, reducer, space)
    given = static(bool(inclusive)), neutral, values, offsets
    if _are_long(*sizes):
        return _scan_long_rows(sizes, reducer, given, dtype)
    return _scan_marked(sizes, reducer, given, empty(values.shape, dtype, sizes[0]))


def _scan_long_rows(sizes, reducer, given, dtype):
    """Compute prefixes by a team a row, or as for other rows if one is longer than MOST, which the previous
    call with these sizes may have recorded.
    """
    (space, n, n_rows), (*_, offsets) = sizes, given
    out, known = empty(n, dtype, space), _kept.__dict__
    if known.get("long") != sizes:
        looks, teams = looks_of(space), _teams(space, LOOKS + n_rows)
        parallel_for(teams, scan_row, reducer, MOST, *given, out, looks[0], label="segments.scan")
        if not _too_long(sizes, offsets, looks):
            return out
    return _scan_marked(sizes, reducer, given, out)


def _scan_marked(sizes, reducer, given, out):
    """Compute prefixes of rows as those of all values, which restart at the marked beginning of each row."""
    (space, n, _), (inclusive, neutral, values, offsets) = sizes, given
    begins, total = _workspace(space, (n, "bool"), (1, out.dtype))
    n = _range(space, n)
    parallel_for(n, _clear, begins, label="segments.clear")
    check = _checked_rows(sizes, offsets, row_length_and_begin, offsets, begins)
    given = inclusive, neutral, begins, values
    parallel_scan(
        n, _with_begin, *given, out=out, reducer=_restarting(reducer), total=total, label="segments.scan"
    )
    _kept.long = sizes if check() > MOST else None
    return out


def segmented_sort(
    values: ArrayLike, offsets: ArrayLike, descending: bool = False, space: SpaceLike = None
) -> tuple[View, View]:
    """Sort each row stably: equal values keep their order.

    Parameters
    ----------
    values, offsets, space : as for segmented_reduce
    descending : bool

    Returns
    -------
    values, order : Views, shape (n,)
        values[order] for the input's values, and the order, int64.

    Examples
    --------
    >>> values, order = pk.segmented_sort(np.array([5, 4, 3, 1]), np.array([0, 2, 4]), space="serial")
    >>> values.to_numpy().tolist()
    [4, 5, 1, 3]
    """
    values, offsets, _, _, sizes = _ragged(values, offsets, Sum, space)
    _checked_rows(sizes, offsets, row_length, offsets)()
    space, n, n_rows = sizes
    rows = empty(n, "int32" if n_rows < 2**31 - 1 else "int64", space)
    parallel_for(RangePolicy(0, n, space=space), row_numbers, offsets, rows, label="segments.rows")
    order = argsort(values, space, descending=descending)
    order = _take_all(argsort(_take_all(order, rows, space), space), order, space)
    return _take_all(order, values, space), order


def _ragged(values, offsets, reducer, space):
    """Return (values, offsets, the dtype of sums of values, the neutral number, (space, number of values, of
    rows)), all checked but the offsets' numbers.
    """
    if not isinstance(reducer, Reducer) or reducer.n_words != 1 or reducer.lift or reducer.finish:
        raise DTypeError(
            f"reducer: expected one with a number as state, without lift and finish, got {reducer!r}"
        )
    values, space = _vector(values, "values", space)
    offsets, _ = _vector(offsets, "offsets", space)
    n_rows = offsets.shape[0] - 1
    if offsets.dtype.kind != "i" or n_rows < 0:
        raise DTypeError(
            f"offsets has dtype {offsets.dtype} and shape {offsets.shape}; expected at least one"
            " int32 or int64"
        )
    return values, offsets, *_added_up(reducer, values.dtype), (space, values.shape[0], n_rows)


@lru_cache(maxsize=256)
def _added_up(reducer, dtype):
    """Return (the dtype of sums of values, the neutral number): cached, since NumPy computes dtype names at
    each call.
    """
    wide = dtype.name if dtype.kind == "f" else f"{dtype.name.rstrip('3264')}64"
    return np.dtype(wide), np.dtype(wide).type(reducer.identity(wide))


@lru_cache(maxsize=256)
def _range(space, n):
    return RangePolicy(0, n, space=space)


@lru_cache(maxsize=256)
def _teams(space, n):
    return TeamPolicy(n, _WARP, space=space)


def _are_long(space, n, n_rows):
    """Return True if a team takes a row."""
    return _by_teams(space) and 0 < n_rows * _LONG <= n


def _reduce_long_rows(sizes, reducer, neutral, values, offsets, dtype):
    """Reduce each row; the values beyond MOST separately if there is a longer row."""
    space, n, n_rows = sizes
    given, out, looks = (MOST, neutral, values, offsets), empty(n_rows, dtype, space), looks_of(space)
    ahead = static(2 * AHEAD if n_rows * _LONGER <= n else AHEAD)
    teams = _teams(space, LOOKS + n_rows)
    parallel_for(teams, reduce_row, reducer, ahead, *given, out, looks[0], label="segments.reduce")
    if _too_long(sizes, offsets, looks):
        n_blocks = -(-n // MOST)
        (parts,) = _workspace(space, (n_blocks, dtype))
        blocks, rows = _teams(space, n_blocks), _teams(space, n_rows)
        parallel_for(blocks, reduce_block, reducer, *given, parts, label="segments.reduce_blocks")
        parallel_for(rows, join_row, reducer, *given, parts, out, label="segments.join")
    return out


def _too_long(sizes, offsets, looks):
    """Raise if a row is longer than MOST, by the findings of the first running teams; the error is that of
    `_checked_rows`."""
    found = worst_finding(sizes[0], looks)
    if WRONG in found or UNSEEN in found:
        return _checked_rows(sizes, offsets, row_length, offsets)() > MOST
    return LONG in found


@lru_cache(maxsize=256)
def _cut(space, n, n_rows):
    """Return the division of values and rows into tiles: (size of a tile, number of tiles, the policies of
    their ends, of one team for each tile, of one team for _JOINED tiles)."""
    tile, members = _tiling(space)
    n_tiles = -(-(n + n_rows) // tile)
    teams, joining = TeamPolicy(n_tiles, members, space=space), -(-n_tiles // _JOINED)
    return (
        static(tile),
        n_tiles,
        RangePolicy(0, n_tiles + 1, space=space),
        teams,
        TeamPolicy(joining, space=space),
    )


_kept = threading.local()


def _workspace(space, *arrays):
    """Return views of (extent, dtype) each, for data between the launches of a call. A GPU's are reused by
    the next call of this thread, which follows this one on the space's stream.
    """
    known, key = _kept.__dict__, (space, arrays)
    views = known[len(arrays)][1] if known.get(len(arrays), (None,))[0] == key else None
    if views is None:
        views = [empty(extent, dtype, space) for extent, dtype in arrays]
        if _by_teams(space):
            known[len(arrays)] = key, views
    return views


def _tiling(space):
    """Return the number of values and ends of rows of a team, and of its members: on a GPU one warp, whose
    collectives need no other.
    """
    return (_GPU_TILE, _WARP) if _by_teams(space) else (_TILE, AUTO)


def _queued(space, look):
    """Queue a check with results in the host's memory; return a function that waits for these."""
    if _kept.__dict__.get("look", (None,))[0] is not space:
        view, elements = read_by_host(space, len(_LOOKED_AT), "int64")
        _kept.look = space, view, elements, tuple(view[k : k + 1] for k in range(len(_LOOKED_AT)))
    _, view, elements, out = _kept.look
    look(out=out)
    mark = stamp(space)
    return lambda: mark.wait() or (view.to_numpy() if elements is None else elements).tolist()


def _checked_rows(sizes, offsets, kernel, *args):
    """Return a function that returns the length of the longest row, and raises if offsets do not ascend from
    0 to the number of values, as found by a kernel with the return values of `row_length`. On a GPU it is
    called when all launches are queued, so that the device continues: until then no kernel may rely on the
    offsets.
    """
    space, n, n_rows = sizes
    refuse_while_recording("a look at offsets")
    look = partial(
        parallel_reduce, _range(space, n_rows), kernel, *args, reducer=_LOOKED_AT, label="segments.check"
    )
    seen = _queued(space, look) if _by_teams(space) else look

    @cache
    def check():
        least, *ends, longest = seen()
        if n_rows == 0:
            ends = [int(offsets.to_numpy()[0])] * 2
        if ends != [0, n] or n_rows and least < 0:
            raise InputError(
                f"offsets begins with {ends[0]}, ends with {ends[1]}"
                + f" and falls by {-least}" * (n_rows > 0 > least)
                + f"; it must rise from 0 to {n}, the number of values"
            )
        return longest

    if not _by_teams(space):
        check()
    return check
