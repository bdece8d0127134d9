"""The largest of each row, and compaction, as kernels that every space runs.

The k largest of a row are found by bisection over bit patterns that sort as the numbers do, until the k-th is
isolated.
"""

from __future__ import annotations

from .algorithms import _IN_FLIGHT, _check_dtype, _ordered, _take_all, _vector
from ..core.language.annotations import ArrayLike, SpaceLike
from ..core.launch.dispatch import parallel_for, parallel_scan
from ..errors import DTypeError, InputError, ShapeError
from ..core.language.kernel import function, kernel
from ..core.places.policy import RangePolicy, TeamPolicy, check_index
from ..core.language.reducer import Max, Min
from ..core.places.space import resolve
from ..core.arrays.view import View, asview, empty
from ..core.language.words import atomic_add, int64, local, static, uint64

_COMPACTED = 1024  # elements of a tile in a compaction: enough tiles for all multiprocessors
_WARP = 32  # members of a team on a GPU that append without meeting


# ---- the largest of each row
@function
def _ranked(row, j, falling):
    """Return an unsigned integer, the larger the better."""
    key = _ordered(row, j)
    return uint64(key if falling else ~key)


@function
def _extremes(team, falling, row):
    """Return the least and the largest of the keys that this member reads."""
    low = _ranked(row, 0, falling)
    high = low
    for j in team.thread_range(row.shape[0]):
        key = _ranked(row, j, falling)
        low, high = min(low, key), max(high, key)
    return low, high


@function
def _kth_key(team, k, low, high, falling, row):
    """Return the k-th largest key of a row, by bisection."""
    while low < high:  # at least k keys are not below `low`, fewer than k above `high`
        middle = high - ((high - low) >> 1)
        n_above = 0
        for j in team.thread_range(row.shape[0]):
            n_above += 1 if _ranked(row, j, falling) >= middle else 0
        n_above = team.reduce(n_above)
        if n_above >= k:
            low = middle
        if n_above <= k:
            high = middle - 1 if n_above < k else middle
    return low


@function
def _count_around(team, kth, falling, row):
    """Count this member's keys above the k-th, and those equal to it."""
    n_above, n_equal = 0, 0
    for j in team.thread_range(row.shape[0]):
        key = _ranked(row, j, falling)
        n_above += 1 if key > kth else 0
        n_equal += 1 if key == kth else 0
    return n_above, n_equal


@function
def _end_of_equal(team, wanted, kth, falling, row):
    """Return the column after the first `wanted` whose key equals the k-th."""
    first, last = 0, row.shape[0]
    while first < last:
        middle = (first + last) // 2
        n_before = 0
        for j in team.thread_range(middle):
            n_before += 1 if _ranked(row, j, falling) == kth else 0
        if team.reduce(n_before) >= wanted:
            last = middle
        else:
            first = middle + 1
    return last


@function
def _collect(team, kth, last, falling, row, n_found, keys, columns):
    """Collect the keys above the k-th, and those in columns before `last` that equal it, in any order."""
    if team.single():
        n_found[0] = 0
    team.barrier()
    for j in team.thread_range(row.shape[0]):
        key = _ranked(row, j, falling)
        if key > kth or key == kth and j < last:
            place = atomic_add(n_found, 0, 1)
            columns[place] = j
            keys[place] = key
    team.barrier()


@function
def _n_better(e, keys, columns):
    """Return the number of keys that beat key e, or equal it in an earlier column."""
    n = 0
    for other in range(keys.shape[0]):
        n += 1 if keys[other] > keys[e] or keys[other] == keys[e] and columns[other] < columns[e] else 0
    return n


@kernel
def _top(team, k, falling, x, values, columns):
    """Process one row: bisect for the k-th key, collect the larger ones, then the first equal ones; rank them
    by pairwise comparison.

    Reads the row about 30 times (float32) or 40 (float64), from cache if it fits; k * k comparisons.
    """
    row, n = x[team.league_rank], x.shape[1]
    found, keys, n_found = team.scratch(k, int64), team.scratch(k, uint64), team.scratch(1, int64)
    low, high = _extremes(team, falling, row)
    kth = _kth_key(team, k, team.reduce(low, Min), team.reduce(high, Max), falling, row)
    n_above, n_equal = _count_around(team, kth, falling, row)
    wanted, last = k - team.reduce(n_above), n
    if team.reduce(n_equal) > wanted:
        last = _end_of_equal(team, wanted, kth, falling, row)
    _collect(team, kth, last, falling, row, n_found, keys, found)
    for e in team.thread_range(k):
        rank = _n_better(e, keys, found)
        values[team.league_rank, rank] = row[found[e]]
        columns[team.league_rank, rank] = found[e]


def top_k(x: ArrayLike, k: int, largest: bool = True, space: SpaceLike = None) -> tuple[View, View]:
    """Return the k largest (or smallest) entries of each row, the best first; of equal ones those in the
    first columns.

    Parameters
    ----------
    x : View or NumPy array, shape (n_rows, n_columns), of int32, int64, uint32, uint64, float32 or float64
        NaN counts as larger than all numbers.
    k : int, 1 to n_columns
        A row's k candidates lie in scratch, 16 bytes each.
    largest : bool
    space : str or Space, optional

    Returns
    -------
    values : View, shape (n_rows, k), dtype of x
    columns : View, shape (n_rows, k), int64

    Raises
    ------
    ShapeError, DTypeError, InputError
        `x` is no matrix of numbers; `k` is not 1 to its columns.

    Examples
    --------
    >>> values, columns = pk.top_k(np.array([[3.0, 9.0, 4.0]]), 2, space="serial")
    >>> values.to_numpy().tolist(), columns.to_numpy().tolist()
    ([[9.0, 4.0]], [[1, 2]])
    """
    space = resolve(space)
    x = asview(x, space=space)
    if len(x.shape) != 2:
        raise ShapeError(f"x has shape {x.shape}; expected two dimensions, rows and columns")
    _check_dtype(x, "x")
    k = check_index(k, "k")
    if not 1 <= k <= x.shape[1]:
        raise InputError(f"k is {k}; expected 1 to {x.shape[1]}, the columns of x")
    shape = x.shape[0], k
    values, columns = empty(shape, x.dtype, space), empty(shape, "int64", space)
    policy = TeamPolicy(x.shape[0], space=space, scratch_bytes=16 * k + 256)
    parallel_for(policy, _top, k, static(bool(largest)), x, values, columns, label="top_k")
    return values, columns


# ---- compaction
@kernel
def _count_kept(team, keep, counts):
    """Count the kept elements of one tile. Reads `keep` once."""
    begin = team.league_rank * _COMPACTED
    end = min(begin + _COMPACTED, keep.shape[0])
    n_kept = 0
    for base in range(begin, end, _IN_FLIGHT * team.size):
        for m in range(_IN_FLIGHT):
            j = base + m * team.size + team.rank
            if j < end:
                n_kept += 1 if keep[j] else 0
    n_kept = team.reduce(n_kept)
    if team.single():
        counts[team.league_rank] = n_kept


@kernel
def _move_kept(team, numbers, starts, keep, values, out):
    """Write one tile's kept values (or their numbers) side by side from their start. Reads all
    once, in step.
    """
    begin = team.league_rank * _COMPACTED
    end = min(begin + _COMPACTED, keep.shape[0])
    at = int(starts[team.league_rank])
    kept, x = local(_IN_FLIGHT, keep.dtype), local(_IN_FLIGHT, out.dtype)
    for base in range(begin, end, _IN_FLIGHT * team.size):
        for m in range(_IN_FLIGHT):
            j = base + m * team.size + team.rank
            kept[m], x[m] = 0, 0
            if j < end:
                kept[m] = keep[j]
                x[m] = j if numbers else values[j]
        for m in range(_IN_FLIGHT):
            at = team.append(out, at, x[m], kept[m])


@kernel
def _identity(i, x):
    return x[i]


def compact(keep: ArrayLike, values: ArrayLike | None = None, space: SpaceLike = None) -> View:
    """Return the kept values, in their order; without values their numbers.

    Parameters
    ----------
    keep : View or NumPy array, shape (n,), of bool or integers
        Whether to keep each (zero: no).
    values : View or NumPy array, shape (n,), of any dtype, optional
    space : str or Space, optional

    Returns
    -------
    View, shape (number kept,), dtype of values, or int64 without values

    Raises
    ------
    DTypeError, ShapeError
        `keep` is neither bool nor integer; `values` has another length.

    Notes
    -----
    Reads `keep` twice and the values once.

    Examples
    --------
    >>> x = np.array([3, 1, 2])
    >>> pk.compact(x > 1, x, space="serial").to_numpy().tolist()
    [3, 2]
    """
    keep, space = _vector(keep, "keep", space, any_dtype=True)
    if keep.dtype.kind not in "biu":
        raise DTypeError(f"keep has dtype {keep.dtype}; expected bool or whole numbers")
    numbers = values is None
    values = keep if numbers else _vector(values, "values", space, any_dtype=True)[0]
    if values.shape != keep.shape:
        raise ShapeError(
            f"values has shape {values.shape}, keep has shape {keep.shape}; expected one value each"
        )
    if values.dtype.kind == "c":  # which `team.append` does not take
        return _take_all(compact(keep, None, space), values, space)
    starts = empty(-(-keep.shape[0] // _COMPACTED), "int64", space)
    policy = TeamPolicy(starts.shape[0], _WARP, space=space)
    parallel_for(policy, _count_kept, keep, starts, label="compact.count")
    n_kept = parallel_scan(
        RangePolicy(0, starts.shape[0], space=space),
        _identity,
        starts,
        out=starts,
        inclusive=False,
        label="compact.starts",
    )
    out = empty(n_kept, "int64" if numbers else values.dtype, space)
    parallel_for(policy, _move_kept, static(numbers), starts, keep, values, out, label="compact.move")
    return out
