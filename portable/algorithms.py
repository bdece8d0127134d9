"""Sorting by key, as kernels that every space runs.

The sort is Satish, Harris and Garland's radix sort, from the least digit on: tiles of the keys count their
digits, a scan over (digit, tile) says where each tile's keys of each digit begin, and the tiles move their
keys there in order; what is equal keeps its order. A team is a tile; where it has many members they first
sort the tile in scratch, so that neighbours write to neighbouring places.

References
----------
N. Satish, M. Harris, M. Garland, "Designing efficient sorting algorithms for manycore GPUs", IPDPS 2009.
"""

from __future__ import annotations

import math


from .annotations import ArrayLike, SpaceLike
from .backends import registry
from .dispatch import parallel_for, parallel_reduce, parallel_scan
from .errors import DTypeError, InputError, ShapeError
from .kernel import function, kernel
from .policy import RangePolicy, TeamPolicy
from .reducer import Max, Min
from .space import resolve
from .view import View, asview, empty
from .words import (
    atomic_add,
    bits,
    float32,
    float64,
    int32,
    int64,
    isnan,
    local,
    static,
    uint32,
    uint64,
    where,
)

_LEAST32, _LEAST64 = -(2**31), -(2**63)
_TOP32, _TOP64 = 2**31, 2**63

_IN_FLIGHT = 8  # elements that a member reads before it looks at the first


# ---- order
@function
def _ordered(x, i):
    """Of element i an unsigned integer that orders as the numbers do: NaN above all, -0.0 like 0.0."""
    v = x[i]
    if x.dtype == float64:
        b = bits(where(isnan(v), math.nan, v + 0.0))
        return uint64(b ^ ((b >> 63) | _LEAST64))
    if x.dtype == float32:
        b = bits(where(isnan(v), math.nan, v + 0.0))
        return uint32(b ^ ((b >> 31) | _LEAST32))
    if x.dtype == int64:
        return uint64(v) ^ _TOP64
    if x.dtype == int32:
        return uint32(v) ^ _TOP32
    return v


@kernel
def _order_keys(i, descending, keys, out):
    """One key's integer, kept, and handed on for the least and the largest."""
    key = ~_ordered(keys, i) if descending else _ordered(keys, i)
    out[i] = key
    return key, key


@kernel
def _itself(i, x):
    return x[i]


@kernel
def _copy(i, x, out):
    out[i] = x[i]


@kernel
def _number(i, out):
    out[i] = i


@kernel
def _take(i, order, x, out):
    """One element of x[order]."""
    out[i] = x[order[i]]


# ---- the radix sort
@function
def _digit(key, shift, n_digits):
    return int64((key >> shift) & (n_digits - 1))


@kernel(packed=False)
def _count(team, tile, n_digits, shift, keys, counts):
    """One tile: how many of its keys have each digit. A key read once."""
    n_own = team.scratch(n_digits, counts.dtype)
    for d in team.thread_range(n_digits):
        n_own[d] = 0
    team.barrier()
    first = team.league_rank * tile
    for j in team.thread_range(first, min(first + tile, keys.shape[0])):
        atomic_add(n_own, _digit(keys[j], shift, n_digits), 1)
    team.barrier()
    for d in team.thread_range(n_digits):
        counts[d * team.league_size + team.league_rank] = n_own[d]


@kernel(packed=False)
def _move(team, tile, digit_bits, shift, starts, keys, order, sorted_keys, sorted_order):
    """One tile, by one member: its keys and their numbers to where the digits of the tile start. Both read
    and written once."""
    n_digits = 1 << digit_bits
    place = team.scratch(n_digits, starts.dtype)
    if team.single():
        for d in range(n_digits):
            place[d] = starts[d * team.league_size + team.league_rank]
        for j in range(team.league_rank * tile, min((team.league_rank + 1) * tile, keys.shape[0])):
            key = keys[j]
            d = _digit(key, shift, n_digits)
            sorted_keys[place[d]] = key
            sorted_order[place[d]] = order[j]
            place[d] += 1


@kernel(packed=False)
def _count_together(team, tile, n_digits, shift, keys, counts):
    """`_count` for many members: each reads several keys before it looks at the first."""
    n_own, digits = team.scratch(n_digits, counts.dtype), local(_IN_FLIGHT, int32)
    for d in team.thread_range(n_digits):
        n_own[d] = 0
    team.barrier()
    begin = team.league_rank * tile
    end = min(begin + tile, keys.shape[0])
    for base in range(begin, end, _IN_FLIGHT * team.size):
        for m in range(_IN_FLIGHT):
            j = base + m * team.size + team.rank
            digits[m] = _digit(keys[j], shift, n_digits) if j < end else -1
        for m in range(_IN_FLIGHT):
            if digits[m] >= 0:
                atomic_add(n_own, digits[m], 1)
    team.barrier()
    for d in team.thread_range(n_digits):
        counts[d * team.league_size + team.league_rank] = n_own[d]


@function
def _field(number, bit):
    """Where two bits of the digit have their count in a word of four."""
    return uint64((number >> (bit - 4)) & 48)


@function
def _shelve(team, n_digits, shift, first, n_here, across, apart, keys, shelf, own):
    """The digits of a tile's keys and their places in it, each as one number; those beyond the end stand
    behind all others."""
    for m in range(own.shape[0]):
        p = m * team.size + team.rank
        own[m] = uint32(n_digits - 1) << 16
        if p < n_here:
            own[m] = uint32(_digit(keys[first + p], shift, n_digits)) << 16
    for m in range(own.shape[0]):
        shelf[across + m * apart] = own[m] | (uint32(team.rank) + m * team.size)


@function
def _sort_shelf(team, digit_bits, stretch, shelf, own):
    """What is on the shelf sorted by the digit, two bits at a time: a member counts the four cases among its
    neighbouring numbers in four fields of one word, whose prefixes say where they go."""
    mine = uint32(team.rank) * (stretch + 1)
    for bit in range(16, 16 + digit_bits, 2):
        counts = uint64(0)
        for m in range(stretch):
            own[m] = shelf[mine + m]
            counts += uint64(1) << _field(own[m], bit)
        before = team.scan(counts)
        # and all of the cases below
        place = before + team.broadcast(before + counts, team.size - 1) * 0x0001000100010000
        team.barrier()
        for m in range(stretch):
            field = _field(own[m], bit)
            p = uint32(place >> field) & 0xFFFF
            shelf[p + p // stretch] = own[m]
            place += uint64(1) << field
        team.barrier()


@function
def _place_digits(team, stretch, across, apart, shelf, starts, begins):
    """Of each digit what to add to a place in the sorted tile for the place in the output."""
    for m in range(stretch):
        p = uint32(team.rank) + m * team.size
        d = shelf[across + m * apart] >> 16
        if p > 0 and shelf[p - 1 + (p - 1) // stretch] >> 16 != d:
            begins[d] = p
    team.barrier()
    for d in team.thread_range(begins.shape[0]):
        begins[d] = starts[d * team.league_size + team.league_rank] - begins[d]
    team.barrier()


@function
def _unshelve(
    team, stretch, first, n_here, across, apart, shelf, begins, keys, order, sorted_keys, sorted_order
):
    """The keys of a sorted tile, and their numbers, to their places in the output."""
    for m in range(stretch):
        p = m * team.size + team.rank
        if p < n_here:
            item = shelf[across + m * apart]
            j, place = first + (item & 0xFFFF), p + begins[item >> 16]
            sorted_keys[place] = keys[j]
            sorted_order[place] = order[j]


@kernel(packed=False, teams=3)
def _move_together(team, tile, digit_bits, shift, starts, keys, order, sorted_keys, sorted_order):
    """One tile of many members: sorted by the digit in scratch, then written where its digits start,
    neighbours to neighbours.

    What is sorted are a key's digit and its place in the tile as one number. One place is free behind each
    member's share, so that no two members meet in a bank.
    """
    stretch, n_digits = tile // team.size, 1 << digit_bits
    shelf, begins, own = (
        team.scratch(tile + team.size, uint32),
        team.scratch(n_digits, starts.dtype),
        local(stretch, uint32),
    )
    first, rank = team.league_rank * tile, uint32(team.rank)
    n_here = min(tile, keys.shape[0] - first)
    across, apart = rank + rank // stretch, team.size + team.size // stretch
    _shelve(team, n_digits, shift, first, n_here, across, apart, keys, shelf, own)
    for d in team.thread_range(n_digits):
        begins[d] = 0
    team.barrier()
    _sort_shelf(team, digit_bits, stretch, shelf, own)
    _place_digits(team, stretch, across, apart, shelf, starts, begins)
    _unshelve(
        team, stretch, first, n_here, across, apart, shelf, begins, keys, order, sorted_keys, sorted_order
    )


def argsort(
    keys: ArrayLike | tuple[ArrayLike, ...], space: SpaceLike | None = None, *, descending: bool = False
) -> View:
    """The order that sorts: keys[order[0]] <= keys[order[1]] <= ...; what is equal keeps its order.

    Parameters
    ----------
    keys : View or NumPy array, shape (n,), of int32, int64, uint32, uint64, float32 or float64; or a tuple of
        such
        NaN comes last; -0.0 and 0.0 are equal. Of several keys the first decides, and the next where it is
        equal.
    space : str or Space, optional
        Where it runs; its kernels must reach the keys. The default space if not given.
    descending : bool
        The largest first, NaN before all.

    Returns
    -------
    View, shape (n,), int64, in the memory of the space

    Raises
    ------
    DTypeError, ShapeError, WrongSpaceError
        Before anything is computed.

    Notes
    -----
    Reads each key twice and its number once, and writes both once, for every 8 bits in which keys differ; so
    small whole numbers sort faster than floats. Needs room for two more copies of the keys and of the order.

    Examples
    --------
    >>> pk.argsort(np.array([3, 1, 2]), space="serial").to_numpy().tolist()
    [1, 2, 0]
    """
    if isinstance(keys, tuple):
        return _argsort_by_several(keys, resolve(space), descending)
    keys, space = _vector(keys, "keys", space)
    n = keys.shape[0]
    index_type = _index_type(n)
    here, there = (_buffers(n, keys, index_type, space) for _ in range(2))
    least, largest = parallel_reduce(
        RangePolicy(0, n, space=space),
        _order_keys,
        static(bool(descending)),
        keys,
        here[0],
        reducer=(Min, Max),
        label="sort.order_keys",
    )
    parallel_for(RangePolicy(0, n, space=space), _number, here[1], label="sort.number")
    _, numbers = _sorted(here, there, (int(least) ^ int(largest)).bit_length() if n else 0, space)
    order = empty(n, "int64", space)
    parallel_for(RangePolicy(0, n, space=space), _copy, numbers, order, label="sort.order")
    return order


def _sorted(here, there, n_bits, space):
    """Keys and their numbers sorted by the keys' last bits, a digit at a time: in one pair of buffers or the
    other."""
    members, digit_bits, tile = _tiling(space)
    keys, numbers = here
    counts = empty(-(-keys.shape[0] // tile) << digit_bits, numbers.dtype, space)
    policy = TeamPolicy(counts.shape[0] >> digit_bits, members, space=space)
    count, move = (_count, _move) if members == 1 else (_count_together, _move_together)
    for shift in range(0, n_bits, digit_bits):
        parallel_for(
            policy, count, tile, static(1 << digit_bits), shift, here[0], counts, label="sort.count_digits"
        )
        parallel_scan(
            RangePolicy(0, counts.shape[0], space=space),
            _itself,
            counts,
            out=counts,
            inclusive=False,
            label="sort.starts",
        )
        parallel_for(
            policy, move, static(tile), static(digit_bits), shift, counts, *here, *there, label="sort.move"
        )
        here, there = there, here
    return here


def _argsort_by_several(keys, space, descending):
    """From the last key on: what is equal keeps its order."""
    if not keys:
        raise InputError("keys is an empty tuple; at least one key is wanted")
    keys = [_vector(k, f"keys[{number}]", space)[0] for number, k in enumerate(keys)]
    if any(k.shape != keys[0].shape for k in keys):
        raise ShapeError(f"keys have shapes {', '.join(str(k.shape) for k in keys)}; one shape is wanted")
    *others, last = keys
    order = argsort(last, space, descending=descending)
    for key in others[::-1]:
        order = _taken(argsort(_taken(order, key, space), space, descending=descending), order, space)
    return order


def _tiling(space):
    """Members of a team, bits of a digit, and keys of a tile, which a team counts and moves.

    On a CPU, where a team that is not packed has one member, the counters of 256 digits stay in its first
    cache. On a GPU a tile has some keys of each digit, which are written together.
    """
    members = registry.backend(space.name).team_size
    return members, 8, 16384 if members == 1 else 4096


def _buffers(n, keys, index_type, space):
    return empty(n, f"uint{8 * keys.dtype.itemsize}", space), empty(n, index_type, space)


def sort_by_key(
    keys: ArrayLike | tuple[ArrayLike, ...],
    values: ArrayLike,
    space: SpaceLike | None = None,
    *,
    descending: bool = False,
) -> tuple[View, View]:
    """Keys in rising order (or falling, `descending`), and the values that belong to them; what is equal
    keeps its order.

    Parameters
    ----------
    keys : as for argsort
    values : View or NumPy array, shape (n,), of any dtype
    space : str or Space, optional

    Returns
    -------
    keys, values : Views, shape (n,), new, in the memory of the space

    Raises
    ------
    ShapeError
        `keys` and `values` differ in length.

    Examples
    --------
    >>> keys, values = pk.sort_by_key(np.array([3, 1, 2]), np.array([30.0, 10.0, 20.0]), space="serial")
    >>> values.to_numpy().tolist()
    [10.0, 20.0, 30.0]
    """
    keys, space = _vector(keys, "keys", space)
    values, _ = _vector(values, "values", space, any_dtype=True)
    if values.shape != keys.shape:
        raise ShapeError(
            f"values has shape {values.shape}, keys has shape {keys.shape}; one value per key is wanted"
        )
    order = argsort(keys, space, descending=descending)
    return _taken(order, keys, space), _taken(order, values, space)


def _taken(order, x, space):
    out = empty(order.shape, x.dtype, space)
    parallel_for(RangePolicy(0, order.shape[0], space=space), _take, order, x, out, label="sort.take")
    return out


# ---- arguments
def _index_type(n):
    return "int32" if n < 2**31 else "int64"


def _vector(array, name, space, any_dtype=False):
    """(View, Space) of a one-dimensional argument."""
    space = resolve(space)
    if not isinstance(array, View):
        try:
            array = asview(array, space=space)
        except InputError as error:
            raise type(error)(f"{name}: {error}") from error
    if len(array.shape) != 1:
        raise ShapeError(f"{name} has shape {array.shape}; one dimension is wanted")
    if not any_dtype:
        _check_dtype(array, name)
    return array, space


def _check_dtype(view, name):
    if view.dtype == bool or view.dtype.itemsize < 4:
        raise DTypeError(
            f"{name} has dtype {view.dtype}; int32, int64, uint32, uint64, float32 or float64 is wanted"
        )
