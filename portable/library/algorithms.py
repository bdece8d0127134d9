"""Sorting by key, as kernels that every space runs.

The sort is a stable radix sort, from the least significant digit. On a CPU it is the algorithm of Satish,
Harris and Garland: tiles of the keys count their digits, and each tile moves its keys to the positions after
those of the preceding tiles. Where teams have many members it is that of Adinets and Merrill, with one pass a
digit: a tile is sorted in scratch, reads the positions of its keys from the counts of the preceding tiles,
and writes neighbours to neighbouring positions.

References
----------
N. Satish, M. Harris, M. Garland, "Designing efficient sorting algorithms for manycore GPUs", IPDPS 2009.
A. Adinets, D. Merrill, "Onesweep: a faster least significant digit radix sort for GPUs", arXiv:2206.01784.
D. Merrill, M. Garland, "Single-pass parallel prefix scan with decoupled look-back", NVR-2016-002.
"""

from __future__ import annotations

import functools
import math

from ..core.language.annotations import ArrayLike, SpaceLike
from ..core import registry
from ..core.launch.dispatch import parallel_for, parallel_reduce
from ..errors import DTypeError, InputError, ShapeError
from ..core.language.kernel import function, kernel
from ..core.places.policy import RangePolicy, TeamPolicy
from ..core.language.reducer import Max, Min
from ..core.places.space import concurrency, resolve
from ..core.arrays.view import View, asview, empty
from ..core.language.words import (
    atomic_add,
    atomic_exchange,
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

_IN_FLIGHT = 8  # elements that a member reads before it uses the first
_COUNTED = 1 << 14  # keys for which a team counts digits
_TILES, _LEAST_TILE = 8, 2048  # on a CPU: tiles for each thread, and keys of one at least


# ---- order
@function
def _ordered(x, i):
    """Return an unsigned integer that orders element i as the numbers do: NaN above all, -0.0 like 0.0."""
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


@function
def _order_key(descending, keys, i):
    """Key i as an unsigned integer that orders so."""
    return ~_ordered(keys, i) if descending else _ordered(keys, i)


@kernel
def _order_keys(i, descending, keys, out):
    """Store a key's integer, and return it twice, for the minimum and the maximum over all keys."""
    key = _order_key(descending, keys, i)
    out[i] = key
    return key, key


@kernel
def _number(i, out):
    out[i] = i


@kernel
def _clear(i, out):
    out[i] = 0


@kernel
def _take(i, order, x, out):
    """One element of x[order], or of x."""
    out[i] = x[i if order is None else order[i]]


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
        counts[team.league_rank * n_digits + d] = n_own[d]


@function
def _add_counts(begin, end, counts, sums):
    """Count the keys of tiles begin .. end - 1 by digit."""
    for d in range(sums.shape[0]):
        sums[d] = 0
    for t in range(begin, end):
        for d in range(sums.shape[0]):
            sums[d] += counts[t * sums.shape[0] + d]


@kernel(packed=False)
def _move(team, tile, digit_bits, shift, counts, keys, order, sorted_keys, sorted_order):
    """Process a tile by one member: move its keys and their numbers to the start of the tile's digits, after
    smaller digits and the preceding tiles. Both are read and written once, and the counts of all tiles read;
    the first digit's numbers are the keys' places.
    """
    n_digits, start = 1 << digit_bits, 0
    place, others = team.scratch(n_digits, counts.dtype), team.scratch(n_digits, counts.dtype)
    if team.single():
        _add_counts(0, team.league_rank, counts, place)
        _add_counts(team.league_rank, team.league_size, counts, others)
        for d in range(n_digits):
            n_here = place[d] + others[d]
            place[d] += start
            start += n_here
        for j in range(team.league_rank * tile, min((team.league_rank + 1) * tile, keys.shape[0])):
            key = keys[j]
            d = _digit(key, shift, n_digits)
            sorted_keys[place[d]] = key
            sorted_order[place[d]] = order[j] if shift > 0 else j
            place[d] += 1


# ---- the radix sort of teams of many members
_AGGREGATE, _PREFIX, _ODD = 1, 2, 4  # the last three bits of a tile's word; above them a count
_WORD_BITS = 3


@function
def _count_at_all_places(digit_bits, n_places, key, counts):
    """One more of the key's digit at each place."""
    for place in range(n_places):
        d = _digit(key, place * digit_bits, 1 << digit_bits)
        atomic_add(counts, (place << digit_bits) + d, 1)


@kernel(packed=False)
def _count_all_digits(team, stretch, digit_bits, n_places, descending, keys, counts):
    """One stretch of keys: how many have each digit at each place. A key read once."""
    own, ahead = team.scratch(n_places << digit_bits, int32), local(_IN_FLIGHT, keys.dtype)
    for e in team.thread_range(own.shape[0]):
        own[e] = 0
    team.barrier()
    begin = team.league_rank * stretch
    end = min(begin + stretch, keys.shape[0])
    for base in range(begin + team.rank, end, _IN_FLIGHT * team.size):
        for m in range(_IN_FLIGHT):
            ahead[m] = keys[min(base + m * team.size, end - 1)]
        for m in range(_IN_FLIGHT):
            if base + m * team.size < end:
                _count_at_all_places(digit_bits, n_places, _order_key(descending, ahead, m), own)
    team.barrier()
    for e in team.thread_range(own.shape[0]):
        if own[e] > 0:
            atomic_add(counts, e, own[e])


@function
def _share(team, n_digits):
    """Return the digits of a member, neighbours, so that prefixes over members are prefixes over
    digits."""
    each = -(-n_digits // team.size)
    return min(team.rank * each, n_digits), min((team.rank + 1) * each, n_digits)


@kernel(packed=False)
def _start_digits(team, digit_bits, n_keys, state):
    """Process one digit's place: after the numbers of keys with each digit, store the numbers of keys with a
    smaller one, and near the end 1 if a round is required. The first place always has one, which writes the
    order.
    """
    begin, n_places = team.league_rank << digit_bits, team.league_size
    low, high = _share(team, 1 << digit_bits)
    n_own, most = 0, 0
    for d in range(low, high):
        n_own += state[begin + d]
        most = max(most, state[begin + d])
    start, most = team.scan(n_own), team.reduce(most, Max)
    for d in range(low, high):
        state[(n_places << digit_bits) + begin + d] = start
        start += state[begin + d]
    if team.single():
        wanted = team.league_rank == 0 or most < n_keys
        state[state.shape[0] - 1 - n_places + team.league_rank] = 1 if wanted else 0


@function
def _facts_of_place(digit_bits, n_places, place, state):
    """Return a place's facts: the shift of its digit, its round (-1: none), the number of rounds, the
    starts of digits, and the words of tiles."""
    first = state.shape[0] - 1 - n_places
    turn, n_rounds = 0, 0
    for q in range(n_places):
        turn += state[first + q] if q < place else 0
        n_rounds += state[first + q]
    if state[first + place] == 0:
        turn = -1
    starts, words = state[(n_places + place) << digit_bits :], state[n_places << (digit_bits + 1) :]
    return place * digit_bits, turn, n_rounds, starts, words


@function
def _next_tile(team, n_keys, n, state, counts):
    """Return (the next tile that no team has taken, the parity of the round, the number of keys of the tile);
    counts are cleared.
    """
    for e in team.thread_range(counts.shape[0] * counts.shape[1]):
        counts[e // counts.shape[1], e % counts.shape[1]] = 0
    number = int64(team.broadcast(atomic_add(state, state.shape[0] - 1, 1) if team.single() else 0))
    team.barrier()
    tile = number % team.league_size
    return tile, number // team.league_size % 2 * _ODD, min(n_keys, n - tile * n_keys)


@function
def _place(team, m, n_each):
    """Return the place in a tile of a member's m-th key: a warp's are neighbours, and so are its members'
    m-th."""
    return (team.rank // team.warp_size * n_each + m) * team.warp_size + team.rank % team.warp_size


@function
def _take_given(team, descending, begin, n_here, keys, own):
    """Load a member's keys of a tile in the first round; beyond the end are keys that sort after
    all others.
    """
    for m in range(own.shape[0]):
        p = _place(team, m, own.shape[0])
        key = _order_key(descending, keys, begin + min(p, n_here - 1))
        own[m] = where(p < n_here, key, ~(key ^ key))


@function
def _take_keys(team, descending, turn, begin, n_here, given, keys, own):
    """Load a member's keys of a tile as `_take_given` does, in any round."""
    n_each = own.shape[0]
    if turn == 0:
        _take_given(team, descending, begin, n_here, given, own)
    elif n_here == n_each * team.size:  # without conditions all loads are on their way at once
        for m in range(n_each):
            own[m] = keys[begin + _place(team, m, n_each)]
    else:
        for m in range(n_each):
            p = _place(team, m, n_each)
            key = keys[begin + min(p, n_here - 1)]
            own[m] = where(p < n_here, key, ~(key ^ key))


@function
def _tally_keys(team, shift, counts, own, ranks):
    """Rank each of a member's keys among those of its digit in its warp's part."""
    row = counts[team.rank // team.warp_size]
    for m in range(own.shape[0]):
        ranks[m] = team.tally(row, _digit(own[m], shift, counts.shape[1]))


@function
def _publish_counts(team, tile, parity, counts, totals, words):
    """Replace the warps' counts of a digit by the sums over the preceding warps; store the total, the number
    of the tile's keys with the digit, for this tile and the later ones. Return the sum over a member's
    digits.
    """
    n_own = 0
    low, high = _share(team, totals.shape[0])
    for d in range(low, high):
        n = 0
        for w in range(counts.shape[0]):
            n_here = counts[w, d]
            counts[w, d] = n
            n += n_here
        totals[d] = n
        atomic_exchange(words, tile * totals.shape[0] + d, (n << _WORD_BITS) | parity | _AGGREGATE)
        n_own += n
    return n_own


@function
def _begin_digits(team, start, counts, totals, begins):
    """Set the beginning of each digit's keys in the sorted tile, and of each warp's in it."""
    low, high = _share(team, totals.shape[0])
    for d in range(low, high):
        begins[d] = start
        for w in range(counts.shape[0]):
            counts[w, d] += start
        start += totals[d]


@function
def _count_before(n_digits, tile, parity, d, words):
    """Return the number of keys of the preceding tiles that have a digit: the sum of these tiles' counts,
    back to the first that has a prefix. Waits for tiles that have written nothing yet, which are all running.
    """
    n, t = 0, tile - 1
    while t >= 0:
        word = atomic_add(words, t * n_digits + d, 0)
        if word & (_AGGREGATE | _PREFIX) != 0 and word & _ODD == parity:
            n += word >> _WORD_BITS
            t = t - 1 if word & _AGGREGATE != 0 else -1
    return n


@function
def _look_back(team, tile, parity, starts, totals, begins, words):
    """Find for each digit the number that turns a place in the sorted tile into one in the output."""
    n_digits = totals.shape[0]
    low, high = _share(team, n_digits)
    for d in range(low, high):
        n = _count_before(n_digits, tile, parity, d, words)
        word = ((n + totals[d]) << _WORD_BITS) | parity | _PREFIX
        atomic_exchange(words, tile * n_digits + d, word)
        begins[d] = starts[d] + n - begins[d]


@function
def _sort_into_tile(team, shift, counts, own, ranks, shelf):
    """Move a member's keys to their places in the sorted tile, which become their ranks."""
    for m in range(own.shape[0]):
        ranks[m] += counts[team.rank // team.warp_size, _digit(own[m], shift, counts.shape[1])]
        shelf[ranks[m]] = own[m]


@function
def _take_numbers(team, turn, begin, n_here, numbers, taken):
    """The numbers of a member's keys."""
    n_each = taken.shape[0]
    if turn == 0:
        for m in range(n_each):
            taken[m] = begin + _place(team, m, n_each)
    elif n_here == n_each * team.size:
        for m in range(n_each):
            taken[m] = numbers[begin + _place(team, m, n_each)]
    else:
        for m in range(n_each):
            taken[m] = numbers[begin + min(_place(team, m, n_each), n_here - 1)]


@function
def _find_places(team, shift, begins, shelf, mine, places):
    """Load a member's keys of the sorted tile, and compute their destinations."""
    for m in range(mine.shape[0]):
        p = m * team.size + team.rank
        mine[m] = shelf[p]
        places[m] = p + begins[_digit(mine[m], shift, begins.shape[0])]


@function
def _write_from_tile(team, known, n_here, shared, own, even, odd, order):
    """Write keys and their numbers to their places; in the last round only the numbers, as the order."""
    (shift, turn, n_rounds, _, _), (_, _, begins, shelf, kept), (mine, places, _) = known, shared, own
    _find_places(team, shift, begins, shelf, mine, places)
    keys, numbers = even
    if turn % 2 == 1:
        keys, numbers = odd
    if turn == n_rounds - 1:
        for m in range(mine.shape[0]):
            if m * team.size + team.rank < n_here:
                order[places[m]] = kept[m * team.size + team.rank]
    else:
        for m in range(mine.shape[0]):
            if m * team.size + team.rank < n_here:
                numbers[places[m]] = kept[m * team.size + team.rank]
                keys[places[m]] = mine[m]


@function
def _sort_tile(team, descending, known, at, given, even, odd, shared, own):
    """Sort a tile's keys and their numbers in scratch, and compute for each digit the offset from a place
    there to its place in the output.
    """
    (counts, totals, begins, shelf, kept), (mine, ranks, taken) = shared, own
    (shift, turn, _, starts, words), (tile, parity, n_here) = known, at
    (keys, numbers), begin = odd, tile * shelf.shape[0]
    if turn % 2 == 1:
        keys, numbers = even
    _take_keys(team, descending, turn, begin, n_here, given, keys, mine)
    _tally_keys(team, shift, counts, mine, ranks)
    team.barrier()
    start = team.scan(_publish_counts(team, tile, parity, counts, totals, words))
    _begin_digits(team, start, counts, totals, begins)
    team.barrier()
    _sort_into_tile(team, shift, counts, mine, ranks, shelf)
    _take_numbers(team, turn, begin, n_here, numbers, taken)
    _look_back(team, tile, parity, starts, totals, begins, words)
    for m in range(taken.shape[0]):
        kept[ranks[m]] = taken[m]
    team.barrier()


@kernel(packed=False, teams=3)
def _move_tile(team, n_keys, digit_bits, n_places, place, descending, given, even, odd, order, state):
    """Sort one tile of `n_keys` keys and their numbers by the digit at a place in scratch, then write them to
    their destinations, neighbours to neighbours. Both are read and written once.

    A team takes the next tile, so that the preceding ones are finished or in progress, and it waits for no
    other. It stores its digits' counts in the tile's words, and once they are available the counts of all
    tiles up to it (the decoupled look-back of Merrill and Garland). A round writes every word; a bit gives
    the parity of the round, so that the words need no clearing. `state` holds the counts at all places, the
    starts from `_start_digits`, the words, for each place 1 if it requires a round, and last the number of
    tiles that were taken. An even round writes to the one pair of buffers, an odd one to the other.
    """
    n_digits, n_each, (keys, numbers) = 1 << digit_bits, n_keys // team.size, even
    counts = team.scratch((team.size // team.warp_size, n_digits), int32)
    totals, begins = team.scratch(n_digits, int32), team.scratch(n_digits, state.dtype)
    shelf, kept = team.scratch(n_keys, keys.dtype), team.scratch(n_keys, numbers.dtype)
    own = local(n_each, keys.dtype), local(n_each, state.dtype), local(n_each, numbers.dtype)
    known, shared = _facts_of_place(digit_bits, n_places, place, state), (counts, totals, begins, shelf, kept)
    if known[1] < 0:
        return
    at = _next_tile(team, n_keys, given.shape[0], state, counts)
    _sort_tile(team, descending, known, at, given, even, odd, shared, own)
    _write_from_tile(team, known, at[2], shared, own, even, odd, order)


def argsort(
    keys: ArrayLike | tuple[ArrayLike, ...], space: SpaceLike = None, *, descending: bool = False
) -> View:
    """Compute the order that sorts keys stably: keys[order[0]] <= keys[order[1]] <= ...; equal keys keep
    their order.

    Parameters
    ----------
    keys : View or NumPy array, shape (n,), of int8 to int64, uint8 to uint64, float32 or float64; or a tuple
        of such
        NaN comes last; -0.0 and 0.0 are equal. Several keys are compared lexicographically, the first key
        first.
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
    For every 8 bits in which keys differ reads each key and its number once (on a CPU the key twice, and of
    floats for all bits), and writes both once; so small integers sort faster than floats. Needs room for
    two more copies of the keys and of the order.

    Examples
    --------
    >>> pk.argsort(np.array([3, 1, 2]), space="serial").to_numpy().tolist()
    [1, 2, 0]
    """
    if isinstance(keys, tuple):
        return _argsort_by_several(keys, resolve(space), descending)
    keys, space = _vector(keys, "keys", space, small=True)
    keys = _widened(keys, space)
    if _by_teams(space):
        return _argsort_by_teams(keys, bool(descending), space)
    n = keys.shape[0]
    here, there = (_buffers(n, keys, _index_type(n), space) for _ in range(2))
    policy, n_bits = RangePolicy(0, n, space=space), 8 * keys.dtype.itemsize
    launch = policy, _order_keys, static(bool(descending)), keys, here[0]
    if keys.dtype.kind == "f":  # which usually differ at all places: the host does not wait for the result
        parallel_for(*launch, label="sort.order_keys")
    else:
        least, largest = parallel_reduce(*launch, reducer=(Min, Max), label="sort.order_keys")
        n_bits = (int(least) ^ int(largest)).bit_length()
    return _sorted(here, there, n_bits if n else 0, space)


def _sorted(here, there, n_bits, space):
    """Return the order of keys by their last bits, a digit at a time, from one pair of buffers to the
    other."""
    (keys, numbers), (members, digit_bits, tile) = here, _tiling(space)
    tile = max(keys.shape[0] // (_TILES * concurrency(space)), tile)
    policy = _teams(-(-keys.shape[0] // tile), members, space)
    counts = empty(policy.league_size << digit_bits, numbers.dtype, space)
    order = empty(keys.shape[0], "int64", space)
    for shift in range(0, max(n_bits, min(keys.shape[0], 1)), digit_bits):
        there = there if shift + digit_bits < n_bits else (there[0], order)
        parallel_for(
            policy, _count, tile, static(1 << digit_bits), shift, here[0], counts, label="sort.count_digits"
        )
        parallel_for(policy, _move, tile, static(digit_bits), shift, counts, *here, *there, label="sort.move")
        here, there = there, here
    return order


_teams = functools.lru_cache(64)(TeamPolicy)  # a repeated policy finds its launch prepared


def _argsort_by_teams(keys, descending, space):
    """Return the order by rounds of `_move_tile`, one for each place at which digits differ, as its teams
    find: the host never waits."""
    members, digit_bits, n_keys = _tiling(space)
    n, n_places = keys.shape[0], 8 * keys.dtype.itemsize // digit_bits
    teams, constants = _teams(-(-n // n_keys), members, space), [*map(static, (n_keys, digit_bits, n_places))]
    state = _start_all_digits(keys, descending, n_places, space)
    order = empty(n, "int64", space)
    even, odd = (_buffers(n, keys, _index_type(n), space) for _ in range(2))
    for place in range(n_places):
        parallel_for(
            teams,
            _move_tile,
            *constants,
            place,
            static(descending),
            keys,
            even,
            odd,
            order,
            state,
            label="sort.move",
        )
    return order


def _start_all_digits(keys, descending, n_places, space):
    """Return the state of `_move_tile` before the first round: the digits at all places are counted."""
    (members, digit_bits, n_keys), n = _tiling(space), keys.shape[0]
    n_words = ((2 * n_places + -(-n // n_keys)) << digit_bits) + n_places + 1
    state = empty(n_words, _index_type(n << _WORD_BITS), space)
    parallel_for(RangePolicy(0, state.shape[0], space=space), _clear, state, label="sort.clear")
    parallel_for(
        TeamPolicy(-(-n // _COUNTED), members, space=space),
        _count_all_digits,
        _COUNTED,
        *map(static, (digit_bits, n_places, descending)),
        keys,
        state,
        label="sort.count_digits",
    )
    parallel_for(
        TeamPolicy(n_places, members, space=space),
        _start_digits,
        static(digit_bits),
        n,
        state,
        label="sort.starts",
    )
    return state


def _argsort_by_several(keys, space, descending):
    """Sort by several keys, the last key first; equal keys keep their order."""
    if not keys:
        raise InputError("keys is an empty tuple; expected at least one key")
    keys = [_vector(k, f"keys[{number}]", space, small=True)[0] for number, k in enumerate(keys)]
    if any(k.shape != keys[0].shape for k in keys):
        raise ShapeError(f"keys have shapes {', '.join(str(k.shape) for k in keys)}; expected one shape")
    *others, last = keys
    order = argsort(last, space, descending=descending)
    for key in others[::-1]:
        order = _take_all(argsort(_take_all(order, key, space), space, descending=descending), order, space)
    return order


def _by_teams(space):
    """Return True if teams have many members, so that their work is in scratch."""
    return registry.backend(space.name).team_size > 1


def _tiling(space):
    """Return the members of a team, bits of a digit, and keys of a tile (at least, on a CPU), which a team
    counts and moves.

    On a CPU, where a team that is not packed has one member, the counters of 256 digits stay in its first
    cache. On a GPU a tile has some keys of each digit, which are written together.
    """
    members = registry.backend(space.name).team_size
    return members, 8, _LEAST_TILE if members == 1 else 4096


def _buffers(n, keys, index_type, space):
    return empty(n, f"uint{8 * keys.dtype.itemsize}", space), empty(n, index_type, space)


def sort_by_key(
    keys: ArrayLike | tuple[ArrayLike, ...],
    values: ArrayLike,
    space: SpaceLike = None,
    *,
    descending: bool = False,
) -> tuple[View, View]:
    """Sort keys in ascending order (or descending, `descending`), and their values with them; equal keys keep
    their order.

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
    keys, space = _vector(keys, "keys", space, small=True)
    values, _ = _vector(values, "values", space, any_dtype=True)
    if values.shape != keys.shape:
        raise ShapeError(
            f"values has shape {values.shape}, keys has shape {keys.shape}; expected one value per key"
        )
    order = argsort(keys, space, descending=descending)
    return _take_all(order, keys, space), _take_all(order, values, space)


def _take_all(order, x, space, dtype=None):
    """Return x[order], or all of x, as a new view."""
    out = empty(x.shape if order is None else order.shape, dtype or x.dtype, space)
    parallel_for(RangePolicy(0, out.shape[0], space=space), _take, order, x, out, label="sort.take")
    return out


# ---- arguments
def _index_type(n):
    return "int32" if n < 2**31 else "int64"


def _widened(x, space):
    """Return a view of 8- or 16-bit integers as one of int32; other views unchanged."""
    if x.dtype.itemsize >= 4:
        return x
    return _take_all(None, x, space, "int32")


def _vector(array, name, space, any_dtype=False, small=False):
    """Return (View, Space) of a one-dimensional argument."""
    space = resolve(space)
    if not isinstance(array, View):
        try:
            array = asview(array, space=space)
        except InputError as error:
            raise type(error)(f"{name}: {error}") from error
    if len(array.shape) != 1:
        raise ShapeError(f"{name} has shape {array.shape}; expected one dimension")
    if not any_dtype:
        _check_dtype(array, name, small)
    return array, space


def _check_dtype(view, name, small=False):
    """Raise DTypeError unless the dtype is a number of 32 or 64 bits, or, where they are supported, a smaller
    integer.
    """
    if view.dtype.kind == "c" or view.dtype.itemsize < 4 and not (small and view.dtype.kind in "iu"):
        raise DTypeError(
            f"{name} has dtype {view.dtype}; expected {'int8, uint8, int16, uint16, ' * small}int32, int64,"
            " uint32, uint64, float32 or float64"
        )
