"""Step 20, meaning: operations at edge values have one result on every space. References are Python and
NumPy, written in this file.

The checked space may also report that an integer overflows; it stores the same value.
"""

import math

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal

import portable as pk
from portable.core.launch import dispatch
from portable.core.machines.cuda.space import lower_to_ptx

from ..launching import floats, launch_for, launch_reduce, move

SIGNED, UNSIGNED = (np.int32, np.int64), (np.uint32, np.uint64)


def run(space, policy, kernel, *args):
    """Run a kernel and return its array arguments; the checked space may report integers that overflow."""
    moved = [move(arg, space) for arg in args]
    policy = pk.RangePolicy(0, policy, space=space) if isinstance(policy, int) else policy
    try:
        pk.parallel_for(policy, kernel, *moved)
    except pk.CheckError as error:
        assert {finding.kind for finding in error.findings} == {"integer overflow"}, error
    return [arg.to_numpy() if isinstance(arg, pk.View) else arg for arg in moved if hasattr(arg, "shape")]


def assert_same(got, wanted):
    """Check for equal values, NaN where NaN is expected, and zeros of the same sign."""
    assert_array_equal(got, wanted)
    if np.asarray(wanted).dtype.kind == "f":
        numbers = ~np.isnan(wanted)
        assert_array_equal(np.signbit(got)[numbers], np.signbit(wanted)[numbers])


# ---- leaving loops
@pk.kernel
def find_first(team, x, key, out):
    found = x.shape[0]
    for j in team.thread_range(x.shape[0]):
        if x[j] == key:
            found = j
            break
    found = team.reduce(found, pk.Min)
    if team.single():
        out[0] = found


def test_a_member_that_breaks_is_out_of_the_last_pack_too(space):
    for n in [4, 8, 17, 20, 37, 300]:
        x = np.full(n, 7.0)
        x[:3] = 0.0
        policy = pk.TeamPolicy(1, 8)
        assert launch_for(policy, find_first, x, 7.0, np.zeros(1, np.int64))[-1][0] == 3


@pk.kernel
def stops_together(team, limit, out):
    n = 0
    for j in team.thread_range(out.shape[0]):
        if limit < 0:
            break
        out[j] = 1.0
        n += 1
    total = team.reduce(n)
    if team.single():
        out[0] = total


@pytest.mark.parametrize("limit", [-1, 1])
def test_all_members_break(space, limit):
    out = launch_for(pk.TeamPolicy(1, 8), stops_together, limit, np.zeros(21))
    assert out[0] == (0 if limit < 0 else 21) and (out[1:] == (limit > 0)).all()


@pk.kernel
def newton(team, x, out):
    a = x[team.rank % x.shape[0]] + 1.0
    v = a
    for _ in range(50):
        step = (v * v - a) / (2.0 * v)
        v -= step
        if abs(step) < 1e-12:
            break
    k = 0
    while True:
        k += 1
        if k % 2 == 0:
            continue
        if k > team.rank % 5:
            break
    n = team.reduce(1)
    s = team.reduce(v)
    most = team.reduce(k, pk.Max)
    if team.single():
        out[0] = s / n
        out[1] = most


def test_members_meet_again_behind_a_loop_that_they_left_one_by_one(space):
    out = launch_for(pk.TeamPolicy(1, 8), newton, np.zeros(1), np.zeros(2))[-1]
    assert_allclose(out, [1.0, 5.0], rtol=1e-12)


@pk.kernel
def returns_from_its_share(team, x, out):
    for j in team.thread_range(x.shape[0]):
        if x[j] > 0.0:
            return
    pk.atomic_add(out, 0, 1)


@pytest.mark.parametrize("place", [0, 9, 10])
def test_a_member_that_returned_from_its_share_is_gone(space, place):
    x = np.zeros(11)
    x[place] = 1.0

    gone, all_ = (
        launch_for(pk.TeamPolicy(1, 8), returns_from_its_share, values, np.zeros(1, np.int64))[-1][0]
        for values in (x, np.zeros(11))
    )
    assert gone == all_ - 1


@pk.kernel
def meets_after_a_return(team, x, out):
    for j in team.thread_range(x.shape[0]):
        if x[j] > 0.0:
            return
    out[0] = team.reduce(1.0)


@pk.kernel
def asks_alone(team, x, out):
    while x[0] < team.rank + team.reduce(1):
        out[0] += 1


@pk.kernel
def asks_those_who_left(team, x, out):
    while team.reduce(1) > 0:
        if x[0] < team.rank:
            break


@pytest.mark.parametrize("kernel", [meets_after_a_return, asks_alone, asks_those_who_left])
def test_no_collective_that_some_members_miss(space, kernel):
    with pytest.raises(pk.CollectiveError, match="test_step20_meaning.py"):
        launch_for(pk.TeamPolicy(1, 8), kernel, np.zeros(3), np.zeros(1))


@pk.kernel
def asks_all(team, out):
    k = 0
    while team.reduce(k) < 5 * team.size:
        k += 1
        if team.rank > 0:
            continue
        out[0] += 1


def test_members_that_continue_meet_in_the_condition(space):
    assert launch_for(pk.TeamPolicy(1, 8), asks_all, np.zeros(1))[0] == 5


# ---- integers
@pk.kernel
def shifted(i, x, n, count, out):
    out[0, i] = x[i] << n[i]
    out[1, i] = x[i] >> n[i]
    out[2, i] = x[i] << 40
    out[3, i] = x[i] >> 33
    out[4, i] = x[i] >> count
    out[5, i] = x[i] << 3


@pytest.mark.parametrize("dtype", [*SIGNED, *UNSIGNED])
def test_shifts_by_any_count(space, dtype):
    """Follow NumPy; also for negative counts, which NumPy treats as huge ones."""
    bits = np.iinfo(dtype).bits
    counts = [0, 1, bits - 1, bits, bits + 1, 2 * bits, 2**31 - 1]
    counts += [-1, -bits] if dtype in SIGNED else []
    x, n = (
        a.ravel()
        for a in np.meshgrid(
            np.array([0, 1, 5, np.iinfo(dtype).max, np.iinfo(dtype).min], dtype), np.array(counts, dtype)
        )
    )
    out = run(space, len(x), shifted, x, n, -1, np.zeros((6, len(x)), dtype))[-1]

    def wanted(left, v, count):
        if not 0 <= count < bits:
            return 0 if left or v >= 0 else -1
        return (
            np.array((int(v) << int(count)) % 2**bits, np.uint64).astype(dtype)
            if left
            else int(v) >> int(count)
        )

    for row, (left, count) in zip(
        out, [(True, n), (False, n), (True, 40), (False, 33), (False, -1), (True, 3)]
    ):
        assert_array_equal(row, [wanted(left, v, c) for v, c in zip(x, np.broadcast_to(count, len(x)))])


@pk.kernel
def of_bools(i, b, x, out):
    out[0, i] = -b[i]
    out[1, i] = b[i] + b[i]
    out[2, i] = b[i] << 2
    out[3, i] = ~b[i]
    out[4, i] = x[b[i]]
    n = 0
    for _ in range(b[i]):
        n += 5
    out[5, i] = n
    out[6, i] = abs(b[i])
    out[7, i] = b[i] - True
    out[8, i] = ~(i > 1)


def test_bools_count_as_0_and_1(space):
    b, x = np.array([True, False, True]), np.array([10.0, 20.0])
    out = run(space, 3, of_bools, b, x, np.zeros((9, 3)))[-1]
    n = b.astype(int)
    assert_same(out + 0.0, [-n, 2 * n, 4 * n, 1 - n, x[n], 5 * n, n, n - 1, [1, 1, 0]])


@pk.kernel
def smallest(i, x, out):
    out[0, i] = x[i] // -1
    out[1, i] = x[i] % -1
    out[2, i] = x[i] // 0
    out[3, i] = x[i] % 0


@pytest.mark.parametrize("dtype", SIGNED)
def test_the_smallest_integer_by_a_literal(space, dtype):
    least = np.iinfo(dtype).min
    out = run(space, 9, smallest, np.full(9, least, dtype), np.zeros((4, 9), dtype))[-1]
    assert (out == np.array([[least], [0], [0], [0]])).all()


@pk.kernel
def by_powers(i, x, out):
    out[0, i], out[1, i] = x[i] // 1, x[i] % 1
    out[2, i], out[3, i] = x[i] // 2, x[i] % 2
    out[4, i], out[5, i] = x[i] // 64, x[i] % 64


@pk.kernel
def by_number(i, x, n, out):
    out[0, i], out[1, i] = x[i] // n, x[i] % n


@pytest.mark.parametrize("dtype", SIGNED)
def test_floor_division_by_powers_of_two_and_by_one_number_for_all(space, dtype):
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    numbers = [least, least + 1, -65, -64, -63, -2, -1, 0, 1, 2, 63, 64, 65, most - 1, most]
    x = np.array(numbers * 2, dtype)
    found = run(space, len(x), by_powers, x, np.zeros((6, len(x)), dtype))[-1]
    for k, n in enumerate((1, 2, 64)):
        wanted = [[v // n for v in numbers] * 2, [v % n for v in numbers] * 2]
        assert_array_equal(found[2 * k : 2 * k + 2], wanted)
    for n in numbers:
        found = run(space, len(x), by_number, x, dtype(n), np.zeros((2, len(x)), dtype))[-1]
        pairs = [(v // n, v % n) if n and (v, n) != (least, -1) else (least * (n < 0), 0) for v in numbers]
        assert_array_equal(found, np.array(pairs * 2).T)


@pk.kernel
def around(i, x, step, n, out):
    out[0, i], out[1, i] = (x[i] + step) % n, (i - 17 - step + n) % n


@pytest.mark.parametrize("dtype", SIGNED)
def test_what_wraps_around(space, dtype):
    near = [-(2**30), -9, -5, -1, 0, 1, 3, 4, 5, 9, 2**30]
    x = np.array([*near, *(n << 31 for n in near)] if dtype == np.int64 else near * 2, dtype)
    for n in (-5, -1, 0, 1, 5, 2**30):
        found = run(space, len(x), around, x, dtype(-1), dtype(n), np.zeros((2, len(x)), dtype))[-1]
        wanted = [
            [(int(v) - 1) % n if n else 0 for v in x],
            [(i - 16) % n if n else 0 for i in range(len(x))],
        ]
        assert_array_equal(found, wanted)


@pytest.mark.parametrize("dtype", SIGNED)
def test_remainders_where_twice_the_divisor_is_beyond_the_type(space, dtype):
    least, half = np.iinfo(dtype).min, np.iinfo(dtype).max // 2 + 1
    for n in (half - 1, half, half + 1, half + 5, 2 * half - 1):
        for number in (least + 1, least + 7, -half, -1, 1, half, n - 3, 2 * half - 1):
            x = np.full(16, number, dtype)  # uniform lanes
            found = run(space, 16, around, x, dtype(-1), dtype(n), np.zeros((2, 16), dtype))[-1]
            assert_array_equal(found[0], [(number - 1) % n] * 16)


@pk.kernel
def on_a_ring(i, begin, x, none, out):
    k, n, m = i - begin, x.shape[0], none.shape[0]
    out[0, k] = (i - 1 + n) % n
    out[1, k] = (i + 1) % n
    out[2, k] = (i - 3 * n) % n
    out[3, k] = i // n
    out[4, k] = i // m + (i + 1) % m


@pk.kernel
def on_a_torus(i, j, begin, x, out):
    n, m = x.shape
    out[i, j - begin] = (i - 2 + n) % n * m + (j + 1) % m


@pytest.mark.parametrize("begin", [0, 3, -9, -(2**40), 2**30 - 20, 2**30 - 5, 2**31 - 9, 2**32 - 3, 2**40])
@pytest.mark.parametrize("n, m", [(7, 3), (40, 43), (43, 40)])
def test_remainders_of_indices_by_extents(space, begin, n, m):
    """GPU code uses short arithmetic in launches with indices from 0 to 2^30 only, and does not divide in
    launches within the extents; one extent is 0."""
    x, none = np.zeros((n, m)), np.zeros(0)
    indices = range(begin, begin + 40)
    policy = pk.RangePolicy(begin, begin + 40)
    found = run(space, policy, on_a_ring, begin, x, none, np.zeros((5, 40), np.int64))[-1]
    wanted = [[(i - 1) % n, (i + 1) % n, i % n, i // n, 0] for i in indices]
    assert_array_equal(found.T, wanted)
    policy = pk.MDRangePolicy((0, begin), (7, begin + 40))
    found = run(space, policy, on_a_torus, begin, x, np.zeros((7, 40), np.int64))[-1]
    assert_array_equal(found, [[(i - 2) % n * m + (j + 1) % m for j in indices] for i in range(7)])


def test_remainders_within_extents_take_no_division():
    view = "view", "float64", 2, True, False
    specs = ("number", "int"), (*view, True), view
    assert lower_to_ptx(on_a_torus, "box2", specs).count("min.u32") == 2


# ---- floats
@pk.kernel
def divided(i, x, y, quotient, remainder):
    quotient[i] = x[i] // y[i]
    remainder[i] = x[i] % y[i]


@floats
def test_float_division_has_numpys_bits(space, dtype):
    """Divide special numbers in all pairs, random bit patterns, and quotients of all sizes."""
    info, rng, n = np.finfo(dtype), default_rng(3), 300 if space == "checked" else 20_000
    special = np.array(
        [
            0.0,
            -0.0,
            1,
            -1,
            1e-17,
            -1e-17,
            np.inf,
            -np.inf,
            np.nan,
            info.max,
            info.tiny,
            -info.smallest_subnormal,
            3.5,
            -2.5,
            1e30,
            1e-10,
            2,
            1 / 3,
        ],
        dtype,
    )
    pairs = np.meshgrid(special, special)
    patterns = rng.integers(0, 2**info.bits, (2, n), dtype=f"u{info.bits // 8}").view(dtype)
    spread = (
        (rng.normal(size=n) * 10.0 ** rng.uniform(-3, 18, n)).astype(dtype),
        rng.normal(size=n).astype(dtype),
    )
    x, y = (np.concatenate([pairs[k].ravel(), patterns[k], spread[k]]) for k in range(2))
    got = run(space, len(x), divided, x, y, np.zeros_like(x), np.zeros_like(x))[2:]
    with np.errstate(all="ignore"):
        wanted = np.floor_divide(x, y), np.remainder(x, y)
    for a, b in zip(got, wanted):
        assert_same(a, b)


@pk.kernel
def converted(i, x, a, b, c, d, e):
    a[0, i], b[0, i], c[0, i], d[0, i] = pk.int32(x[i]), pk.uint32(x[i]), pk.int64(x[i]), pk.uint64(x[i])
    a[1, i], b[1, i], c[1, i], d[1, i] = x[i], x[i], x[i], x[i]
    e[0, i] = math.floor(x[i])
    e[1, i] = math.ceil(x[i])
    e[2, i] = int(x[i])


@floats
def test_conversions_are_held_between_the_ends(space, dtype):
    x = np.array(
        [
            np.nan,
            np.inf,
            -np.inf,
            3e38,
            -3e38,
            -1.5,
            -0.5,
            2.5,
            5e9,
            -5e9,
            2.0**31,
            2.0**31 - 1,
            -(2.0**31) - 0.5,
            2.0**32,
            2.0**63,
            -(2.0**63),
            2.0**64,
            1e19,
        ],
        dtype,
    )
    n = len(x)

    def held(value, to):
        if math.isnan(value):
            return 0
        return (
            int(min(max(value, float(np.iinfo(to).min)), float(np.iinfo(to).max)))
            if abs(value) < 2.0**30
            else (
                np.iinfo(to).min
                if value <= np.iinfo(to).min
                else np.iinfo(to).max
                if value >= np.iinfo(to).max
                else int(value)
            )
        )

    types = (np.int32, np.uint32, np.int64, np.uint64)
    got = run(space, n, converted, x, *(np.zeros((2, n), to) for to in types), np.zeros((3, n), np.int64))[1:]
    for out, to in zip(got, types):
        for row in out:
            assert row.tolist() == [held(float(v), to) for v in x], to
    with np.errstate(all="ignore"):
        for row, v in zip(got[-1], (np.floor(x), np.ceil(x), np.trunc(x))):
            assert row.tolist() == [held(float(w), np.int64) for w in v]


MINUS_TWO = -2.0


@pk.kernel
def constants(i, out):
    out[0] = MINUS_TWO**0.5
    out[1] = 0.0**-1
    out[2] = 2.0**5000
    out[3] = math.floor(math.inf)
    out[4] = pk.int32(math.inf)
    out[5] = int(math.nan)
    out[6] = 2**-1
    out[7] = pk.uint32(-1)
    out[8] = pk.minimum(math.nan, 1.0)
    out[9] = min(1.0, math.nan)
    out[10] = pk.minimum(0.0, -0.0)
    out[11] = inf_by(math.inf)


@pk.function
def inf_by(x):
    return x // 2.0


def test_constants_as_at_run_time(space):
    wanted = np.array(
        [np.nan, np.inf, np.inf, 2.0**63, 2**31 - 1, 0, 0.5, 2**32 - 1, np.nan, 1.0, -0.0, np.nan]
    )
    assert_same(run(space, 1, constants, np.zeros(12))[-1], wanted)


@pk.kernel
def extremes(i, x, y, out):
    out[0, i] = pk.minimum(x[i], y[i])
    out[1, i] = pk.maximum(x[i], y[i])
    out[2, i] = min(x[i], y[i])
    out[3, i] = max(x[i], y[i])
    out[4, i] = pk.clip(x[i], y[i], 1.0)


def test_extremes_of_zeros_and_nan(space):
    values = np.array([0.0, -0.0, 1.0, np.nan, -np.inf])
    x, y = (a.ravel() for a in np.meshgrid(values, values))
    out = run(space, len(x), extremes, x, y, np.zeros((5, len(x))))[-1]

    def least(a, b, sign):
        if math.isnan(a) or math.isnan(b):
            return math.nan
        return min((a, b), key=lambda v: (sign * v, sign * math.copysign(1.0, v)))

    pairs = list(zip(x, y))
    wanted = [
        [least(a, b, 1) for a, b in pairs],
        [least(a, b, -1) for a, b in pairs],
        [min(a, b) for a, b in pairs],
        [max(a, b) for a, b in pairs],
        [least(least(a, b, -1), 1.0, 1) for a, b in pairs],
    ]
    assert_same(out, np.array(wanted))


# ---- views and names
@pk.kernel
def slices(i, x, a, b, out):
    parts = (x[i, :-1], x[i, -3:], x[i, 2:100], x[i, a:b], x[i, :a], x[i, b:])
    k = 0
    for part in parts:
        total = 0.0
        for j in range(len(part)):
            total += part[j]
        out[i, k] = total
        out[i, k + 1] = len(part)
        k += 2


@pytest.mark.parametrize("a, b", [(-4, -1), (1, 3), (4, 2), (-9, 9), (7, 9), (0, 0), (False, True)])
def test_slices_as_in_python(space, a, b):
    x = np.arange(15.0).reshape(3, 5)
    out = run(space, 3, slices, x, a, b, np.zeros((3, 12)))[-1]
    wanted = [
        [
            v
            for part in (r[:-1], r[-3:], r[2:100], r[int(a) : int(b)], r[: int(a)], r[int(b) :])
            for v in (part.sum(), len(part))
        ]
        for r in x
    ]
    assert_array_equal(out, wanted)


@pk.kernel
def counted(i, counts, seen):
    if 0 <= pk.atomic_add(counts, 0, 1) < 5:
        pk.atomic_add(seen, 0, 1)
    if 100 < i < pk.atomic_add(counts, 1, 1):
        seen[1] = 1


def test_a_chain_of_comparisons_evaluates_each_operand_once(space):
    counts, seen = run(space, 20, counted, np.zeros(2, np.int64), np.zeros(2, np.int64))
    assert counts.tolist() == [20, 0] and seen.tolist() == [5, 0]


@pk.kernel
def scaled(i, k, x, out):
    out[0] = k * x[0]
    out[1] = 1.0 / k
    out[2] = 1.0 / -k


@pytest.mark.parametrize("first, second", [(4, 4.0), (1, True), (0.0, -0.0), (-0.0, 0)])
def test_equal_constants_of_different_types(space, first, second):
    x = np.array([2**62])
    for k in (first, second, first):
        with np.errstate(all="ignore"):
            wanted = [
                np.float64(np.int64(2**62) * k if isinstance(k, int) else 2.0**62 * k),
                np.float64(1.0) / k,
                np.float64(1.0) / -k,
            ]
        assert_same(run(space, 1, scaled, pk.static(k), x, np.zeros(3))[-1], np.array(wanted))


@pk.kernel
def value(i, x):
    return x[i]


@pytest.mark.parametrize("dtype", UNSIGNED)
def test_unsigned_sums_wrap(space, dtype):
    x = (
        np.array([2**63, 2**63, 3], np.uint64).astype(dtype)
        if dtype is np.uint64
        else np.full(3, 2**32 - 1, dtype)
    )
    assert launch_reduce(3, value, x) == sum(x.tolist()) % 2**64


@pk.kernel
def drawn(i, seed, out):
    out[0, i] = pk.random.randint(seed, i, 0, 0)
    out[1, i] = pk.random.randint(-1, -5, i, -3)
    out[2, i] = pk.random.randint(seed, -i, -2, 10)
    out[3, i] = int(pk.random.uniform(seed, i, 0) * 2.0**53)


def test_numbers_of_draws_are_taken_modulo_two_to_the_64(space):
    out = run(space, 5, drawn, -7, np.zeros((4, 5), np.int64))[-1]
    wanted = [
        [pk.random.randint(2**64 - 7, (-i) % 2**64, 2**64 - 2, 10) for i in range(5)],
        [int(pk.random.uniform(2**64 - 7, i, 0) * 2.0**53) for i in range(5)],
    ]
    assert not out[:2].any()
    assert_array_equal(out[2:], wanted)


SCALE = 2.0


@pk.kernel
def by_a_global(i, out):
    out[i] = SCALE


def test_globals_are_taken_once_for_all_spaces(space, monkeypatch):
    assert run(space, 1, by_a_global, np.zeros(1))[-1][0] == 2.0
    monkeypatch.setattr(f"{__name__}.SCALE", 3.0)
    assert run(space, 1, by_a_global, np.zeros(1))[-1][0] == 2.0


@pk.kernel
def strides(i, begin, end, out):
    for k in range(begin + i, end, 3):  # the loop cannot be removed, since it stores
        out[0, i] += 1
        out[1, i] = k
        if out[0, i] > 9:
            break
    for k in range(end - i, begin, -4):
        out[2, i] += 1
        out[3, i] = k
        if out[2, i] > 9:
            break


@pytest.mark.parametrize(
    "begin, end", [(-(2**63), -(2**63) + 9), (2**63 - 12, 2**63 - 4), (2**63 - 9, 2**63 - 1), (5, 2), (0, 20)]
)
def test_strides_to_the_ends_of_int64(space, begin, end):
    out = run(space, 2, strides, begin, end, np.zeros((4, 2), np.int64))[-1]
    for i in range(2):
        up, down = range(begin + i, end, 3), range(end - i, begin, -4)
        assert out[:, i].tolist() == [len(up), up[-1] if up else 0, len(down), down[-1] if down else 0]


@pk.kernel
def counted_trips(i, begin, end, out):
    n = 0
    for k in range(begin, end):
        n += 1
    for k in range(-begin, -end - 1, -1):
        n += 1
    out[i] = n


def test_a_range_up_to_the_last_integer_is_no_overflow(space):
    out = move(np.zeros(2, np.int64))
    pk.parallel_for(2, counted_trips, 2**63 - 8, 2**63 - 1, out)
    assert pk.asview(out).to_numpy().tolist() == [15, 15]


# ---- rounding at the ends of functions
@pk.function
def product(a, b):
    return a * b


@pk.function
def plus_one(a):
    return a + 1.0


@pk.kernel
def calls(i, x, y, out):
    out[0, i] = product(x[i], y[i]) + 1.0
    out[1, i] = plus_one(x[i] * y[i])
    out[2, i] = x[i] * y[i] + 1.0


def test_what_a_function_takes_and_returns_is_rounded(space):
    """A sum with a product is rounded once within one function, and twice if the product or the sum is in
    another."""
    rng = default_rng(5)
    x, y = rng.normal(size=(2, 100))
    out = run(space, 100, calls, x, y, np.zeros((3, 100)))[-1]
    twice, once = x * y + 1.0, np.array([pk.fma(a, b, 1.0) for a, b in zip(x, y)])
    assert (twice != once).any()
    assert_array_equal(out[:2], [twice, twice])
    assert_array_equal(out[2], twice if space == "checked" else once)


def unevenly(a, b):
    s = 0.1 + a
    if b > a:
        s = s + b
    return s + b


Shifted, Narrow, Wide = (pk.Reducer(name, unevenly, 0.0) for name in ("Shifted", "Narrow", "Wide"))


@pk.kernel
def two_reductions(team, x32, x64, out32, out64):
    narrow, wide = x32[team.rank % 8], x64[team.rank % 8]
    first = team.reduce(narrow, Shifted)
    second = team.reduce(wide, Shifted)
    if team.single():
        out32[0] = first
        out64[0] = second


@pk.kernel
def one_after_the_other(team, x32, x64, out32, out64):
    first = team.reduce(x32[team.rank % 8], Narrow)
    second = team.reduce(x64[team.rank % 8], Wide)
    if team.single():
        out32[0] = first
        out64[0] = second


def test_a_reducer_of_two_dtypes_in_one_kernel(space):
    """Each result has the same bits as with a separate reducer."""
    for seed in range(20):
        x = default_rng(seed).normal(size=8)
        args = x.astype(np.float32), x, np.zeros(1, np.float32), np.zeros(1)
        policy = pk.TeamPolicy(1, 8)
        together, alone = (
            launch_for(policy, kernel, *args)[2:] for kernel in (two_reductions, one_after_the_other)
        )
        assert [x.tolist() for x in together] == [x.tolist() for x in alone]


# ---- memory that must not be written, and masks
class Immutable:
    """Array of a library from before DLPack 1.0 whose arrays are read-only."""

    def __init__(self, array):
        self.array = array

    def __dlpack_device__(self):
        return 1, 0

    def __dlpack__(self, *, stream=None):
        return self.array.__dlpack__()

    def __array__(self, dtype=None, copy=None):
        frozen = self.array.view()
        frozen.flags.writeable = False
        return frozen


@pk.kernel
def zeroed(i, x):
    x[i] = 0.0


def test_memory_of_a_producer_that_forbids_writing():
    x = np.arange(5.0)
    view = pk.asview(Immutable(x), space="serial")
    assert view.readonly
    with pytest.raises(
        pk.ReadOnlyError,
        match=r"kernel 'zeroed' \(.*test_step20_meaning.py:\d+\): 'x' .*Immutable forbids writing",
    ):
        pk.parallel_for(pk.RangePolicy(0, 5, space="serial"), zeroed, view)
    assert x.tolist() == [0, 1, 2, 3, 4]


def test_masked_arrays_are_refused(space):
    masked = np.ma.array([1.0, 2.0, 1e9], mask=[0, 0, 1])
    with pytest.raises(pk.DTypeError, match=r"'x'.*mask.*filled"):
        pk.parallel_reduce(3, value, masked)


@pk.kernel
def two_lines(i, x, out):
    y = x[i] ** 2.5
    out[2 * i] = y


def test_lines_behind_a_call_are_the_kernels_own():
    accesses = pk.explain(
        pk.RangePolicy(0, 10, space="serial"), two_lines, np.zeros(10), np.zeros(20)
    ).accesses
    first = two_lines.fn.__code__.co_firstlineno
    assert {(a.view, int(a.line.rpartition(":")[2]) - first) for a in accesses} == {("x", 2), ("out", 3)}
    assert all(a.line.startswith(__file__) for a in accesses)


@pk.kernel
def takes_apart(i, x, out):
    t = (x[i], 1.0)
    for _ in range(2):
        t, u = x[i], 2.0
    a, b = (t, u, 1.0)
    out[i] = a + b


def test_messages_call_variables_by_their_names():
    with pytest.raises(pk.LoweringError) as error:
        pk.parallel_for(pk.RangePolicy(0, 3, space="serial"), takes_apart, np.zeros(3), np.zeros(3))
    assert "@" not in str(error.value)


@pk.kernel
def chosen(i, u, n, out):
    out[0, i] = pk.uint32(-min(u[i], 3))
    out[1, i] = pk.uint32(-pk.where(u[i] > n, 3, u[i]))
    pk.atomic_max(out, (2, 0), pk.atomic_add(out, (3, i), 1) + i)


def test_a_choice_has_the_dtype_that_the_two_have_in_common(space):
    u = np.array([1, 5], np.uint32)
    out = run(space, 2, chosen, u, 4, np.zeros((4, 2), np.uint32))[-1]
    assert out.tolist() == [[2**32 - 1, 2**32 - 3], [2**32 - 1, 2**32 - 3], [1, 0], [1, 1]]


@pk.kernel
def beyond_the_other(i, k, a, n, f, out):
    out[0, i] = (k[i] // k[i]) // math.floor(a[i])
    out[1, i] = 1 if k[i] < n else 0
    out[2, i] = min(k[i], n) + (k[i] & n)
    out[3, i] = (n if a[i] > 0.0 else k[i]) // 3
    out[4, i] = (k[i] and n) // 3 + (k[i] > 5 and n)
    out[5, i] = k[i] >> n
    out[6, i] = int(k[i] * f[i] / 3.0)


def test_a_weak_integer_takes_the_type_that_it_meets(space):
    """Beyond int32 it wraps, also in choices and comparisons: there 2**62 + 6 is 6."""
    k, a, f = (
        np.array([-3, 0, 5, 7], np.int32),
        np.array([1e300, 1.0, -1e300, np.nan]),
        np.full(4, 2**20 + 1, np.float32),
    )
    out = run(space, 4, beyond_the_other, k, a, 2**62 + 6, f, np.zeros((7, 4), np.int64))[-1]
    assert out.tolist() == [
        [-1, 0, 0, 0], [1, 1, 1, 0], [1, 0, 9, 12], [2, 2, 1, 2], [2, 0, 2, 8], [-1, 0, 0, 0],
        [int(np.float32(v) * np.float32(2**20 + 1) / np.float32(3)) for v in k]]  # fmt: skip


@pk.kernel
def negated_constants(i, unsigned, signed):
    five = pk.uint32(5)
    unsigned[0] = -five
    unsigned[1] = -five // 2
    signed[0] = -pk.int32(-2147483648)
    signed[1] = abs(pk.int32(-2147483648))


def test_constants_of_a_type_wrap_when_negated(space):
    unsigned, signed = run(space, 1, negated_constants, np.zeros(2, np.uint32), np.zeros(2, np.int32))
    assert unsigned.tolist() == [2**32 - 5, (2**32 - 5) // 2] and signed.tolist() == [-(2**31)] * 2


@pk.kernel
def weak_contributions(team, k, out, whole):
    out[team.rank] = team.scan(0.1, pk.Sum)
    t = team.scan(-0.25, pk.Max)
    flag = team.rank > 0
    if flag < (t < t <= t):
        out[0] += t % 1.5
    whole[team.rank] = (team.scan(1) + k[0]) - k[0]
    whole[team.rank] += team.reduce(True)


def test_weak_contributions_of_members_are_of_the_kernels_own_types(space):
    """Sums are float32 if arrays are, without a note."""
    out, whole = launch_for(
        pk.TeamPolicy(1, 8),
        weak_contributions,
        np.array([2**31 - 9], np.int32),
        np.zeros(256, np.float32),
        np.zeros(256, np.int32),
    )[1:]
    size = int(whole[0])
    assert whole[:size].tolist() == [size + k for k in range(size)]
    assert_allclose(out[1:size], 0.1 * np.arange(1, size), rtol=1e-5)
    if size > 2:
        assert out[2] == np.float32(0.1) + np.float32(0.1)


@pytest.mark.parametrize("dtype", [np.int32, np.uint64, np.float32])
def test_reductions_of_nothing_have_the_contributions_dtype(space, dtype):
    x = np.zeros(1, dtype)
    wide = np.float32 if dtype is np.float32 else np.uint64 if dtype is np.uint64 else np.int64
    info = np.iinfo(wide) if wide is not np.float32 else None
    ends = (math.inf, -math.inf) if info is None else (info.max, info.min)
    got = [launch_reduce(0, value, x, reducer=r) for r in (pk.Sum, pk.Min, pk.Max)]
    assert got == [0, *ends] and type(got[0]) is (float if info is None else int)


@pk.kernel
def wraps_then_divides(i, z, m, out):
    out[0] = z[0] ** 3
    out[1] = m[0] % m[0]


def test_an_unsigned_number_that_wraps_accuses_nobody(space):
    out = launch_for(
        1,
        wraps_then_divides,
        np.array([2**40], np.uint64),
        np.zeros(1, np.int64),
        np.ones(2, np.uint64),
    )[-1]
    assert out.tolist() == [0, 0]


@pk.function(chain=True)
def in_sixteen_lanes(x):
    return x


@pk.kernel
def kept_in_order(team, skipped, out, floats):
    n = in_sixteen_lanes(team.rank)
    at = team.append(out, 0, pk.int64(n) * 2**33 + n, n % 3 != skipped)
    end = team.append(floats, 0, pk.float64(n) + 0.5, n % 3 != skipped)
    if team.single():
        out[out.shape[0] - 1] = at
        floats[floats.shape[0] - 1] = end


def test_wide_packs_append_numbers_of_64_bits(space):
    """Append numbers of 64 bits in sixteen lanes, too."""
    out, floats = run(space, pk.TeamPolicy(1, 16), kept_in_order, 1, np.zeros(100, np.int64), np.zeros(100))
    size = next(n for n in (16, 32, 64, 128) if out[-1] == sum(k % 3 != 1 for k in range(n)))
    kept = np.array([k for k in range(size) if k % 3 != 1])
    assert (
        (out[: len(kept)] == kept * 2**33 + kept).all()
        and (floats[: len(kept)] == kept + 0.5).all()
        and floats[-1] == len(kept)
    )


@pk.kernel
def beside_zero(i, x, tiny, out):
    v = x[i]
    out[i, 0], out[i, 1] = min(0.0, v), min(v, 0.0)
    out[i, 2], out[i, 3] = max(0.0, v), max(v, -0.0)
    out[i, 4], out[i, 5] = v if v < 0 else 0.0, 0.0 if v <= 0.0 else v
    out[i, 6], out[i, 7] = pk.where(0 > v, v, 0.0), min(tiny, v)


@pk.kernel
def beside_rounded(i, x, part, out):
    v = x[i]
    out[i, 0], out[i, 1] = min(np.floor(part), v), min(v, np.trunc(part))
    out[i, 2], out[i, 3] = max(np.rint(part), v), max(v, np.ceil(-part))
    out[i, 4], out[i, 5] = min(np.sqrt(np.floor(part)), v), max(np.copysign(np.floor(part), -part), v)
    out[i, 6], out[i, 7] = np.sqrt(part) * v, np.floor(part * 30.0) + v


@floats
@pytest.mark.parametrize(
    "kernel, number, known, other",
    [
        (beside_zero, 0.0, 0.0, np.nan),
        (beside_zero, 0.0, pk.static(1e-400), np.nan),
        (beside_rounded, 0.1, pk.static(0.1), 3.0),
    ],
)
def test_zeros_keep_their_signs_beside_a_constant(space, dtype, kernel, number, known, other):
    x = np.array([0.0, -0.0, 1e-45, -1e-45, 2.0, -2.0, other, np.inf], dtype)
    wanted = np.zeros((8, 8), dtype)
    for i in range(8):
        kernel(i, x, dtype(number), wanted)
    got = launch_for(8, kernel, x, known, np.zeros((8, 8), dtype))[1]
    assert got.tobytes() == wanted.tobytes()


@pytest.mark.parametrize(("kernel", "known"), [(beside_zero, 1e-46), (beside_rounded, 0.1)])
def test_no_text_is_taken_for_a_minimum_that_orders_zeros(kernel, known):
    x = np.ones(8, np.float32)
    policy = pk.RangePolicy(0, 8, space="serial")
    launch = dispatch.describe_launch(policy, kernel, (x, pk.static(known), np.ones((8, 8), np.float32)))
    *_, kind, specs, reducers, _ = launch
    text = lower_to_ptx(kernel, kind, specs, reducers)
    assert "min.f32" not in text and "max.f32" not in text


@pk.kernel
def quotient_less(i, s, n, x, out):
    out[i, 0], out[i, 1] = x.shape[0] // 20 - (s << 4), i // 20 - s * n
    out[i, 2], out[i, 3] = min(x.shape[0] // 12 - s, 7), x.shape[0] % 20 - (s << 4)


@pytest.mark.parametrize("n", [60, 61, 1999])
def test_a_quotient_less_zero(space, n):
    """ptxas merges mul.hi.u32 and a subtraction of 64 bits into one instruction, which loses a carry."""
    got = launch_for(41, quotient_less, 0, 3, np.ones(n), np.zeros((41, 4), np.int64))[1]
    wanted = [[n // 20, i // 20, min(n // 12, 7), n % 20] for i in range(41)]
    assert got.tolist() == wanted


def test_short_numbers_are_not_divided_in_32_bits():
    launch = dispatch.describe_launch(
        pk.RangePolicy(0, 8, space="serial"), quotient_less, (0, 3, np.ones(60), np.zeros((8, 4), np.int64))
    )
    *_, kind, specs, reducers, _ = launch
    apart = tuple((*s, True) if s[0] == "view" and len(s) < 6 else s for s in specs)
    for known in (specs, apart):
        assert "mul.hi.u32" not in lower_to_ptx(quotient_less, kind, known, reducers)
