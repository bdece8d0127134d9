"""Step 9, lanes: whatever a kernel says, every lane does what plain Python would do for its index."""

import contextlib
import re

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_array_equal

import portable as pk
from portable.errors import InputError

from ..launching import launch_for
from ..tolerance import assert_close
from . import lane_kernels
from .lane_kernels import CASES, N


def name_of(item):
    return item[0].__name__ + "-" + np.dtype(item[2]).name


@pytest.mark.parametrize("kernel, make, dtype, terms", CASES, ids=[name_of(item) for item in CASES])
def test_as_plain_python(space, kernel, make, dtype, terms):
    if space == "checked":
        pytest.skip("the checked space is the reference here")
    if kernel is lane_kernels.int32_wraps:
        pytest.skip("the checked space reports integers that wrap; NumPy is the reference below")
    args = make(default_rng(7), dtype)
    got, wanted = launch_for(space, N, kernel, *args), launch_for("checked", N, kernel, *args)
    got, wanted = (value if isinstance(value, tuple) else (value,) for value in (got, wanted))
    precision = dtype if np.dtype(dtype).kind == "f" else np.float64
    for one, other in zip(got, wanted, strict=True):
        assert_close(one, other, precision, terms, scale=1.0)


def run(space, kernel, *arrays):
    return launch_for(space, N, kernel, *arrays)[-1]


def test_branches_against_numpy(space):
    x = default_rng(1).random(N)
    wanted = np.where(
        x > 0.75, 4, np.where(x > 0.5, 3 * x, np.where(x > 0.25, 2, np.where(x < 0.1, x + 10, x)))
    )
    assert_close(run(space, lane_kernels.nested_if, x, np.zeros(N)), wanted, np.float64)


def test_masks_against_numpy(space):
    rng = default_rng(2)
    index, x = np.where(rng.random(N) < 0.5, rng.permutation(N), lane_kernels.NOWHERE), rng.random(N)
    live = index < N
    seen = np.where(live, x[np.where(live, index, 0)], 0.0)
    out = run(space, put_where_alive, index, x, np.zeros(N))
    assert_close(out, seen + 10.0 * (seen > 0.5), np.float64)


@pk.kernel
def put_where_alive(i, index, x, out):
    out[i] = x[index[i]] if index[i] < x.shape[0] else 0.0
    if index[i] < x.shape[0] and x[index[i]] > 0.5:
        out[i] += 10.0


def expecting_overflow(space):
    """The checked space reports signed integers that wrap."""
    return (
        pytest.raises(pk.CheckError, match="integer overflow")
        if space == "checked"
        else contextlib.nullcontext()
    )


def test_int32_wraps_as_in_numpy(space):
    x = default_rng(3).integers(-(2**31), 2**31, N).astype(np.int32)
    with np.errstate(over="ignore"):
        wanted = np.stack([x * x, x + np.int32(2_000_000_000), x * np.int32(3) - np.int32(7)])
    with expecting_overflow(space):
        assert_array_equal(run(space, lane_kernels.int32_wraps, x, np.zeros((3, N), np.int64)), wanted)


def test_signs_of_division_as_in_python(space):
    a, b = np.array([7, -7, 7, -7, 0, 6, -6, 1, 9]), np.array([2, 2, -2, -2, 3, 3, 3, -5, 4])
    for dtype in (np.int64, np.int32, np.float64, np.float32):
        out = run(
            space,
            lane_kernels.floor_division_and_modulo,
            a.astype(dtype),
            b.astype(dtype),
            np.zeros((4, 9), dtype),
        )
        assert_array_equal(out, [a // b, a % b, a // 4, (np.arange(9) - 4) % 3])


@pk.kernel
def float_modulo(i, a, b, out):
    out[0, i] = a[i] % b[i]
    out[1, i] = a[i] // b[i]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_remainder_of_floats_is_pythons(space, dtype):
    """The remainder is that of Python and NumPy: the sign of the divisor, less than it in size, and exact
    for whole quotients."""
    a = np.array([1.0, 5.5, -5.5, 0.3, 1e6 + 0.1, -1e-3, 7.0, 4.0, -4.0]).astype(dtype)
    b = np.array([0.1, 2.0, 2.0, 0.1, 0.7, 3.0, -2.5, 2.0, -2.0]).astype(dtype)
    out = launch_for(space, len(a), float_modulo, a, b, np.zeros((2, len(a)), dtype))[-1]
    assert_array_equal(out, [a % b, a // b])


@pk.kernel
def int64_hash(i, x, out):
    out[i] = (x[i] * 6364136223846793005 + 1442695040888963407) >> 33


def test_int64_wraps_as_in_numpy(space):
    x = default_rng(4).integers(-(2**62), 2**62, N)
    with np.errstate(over="ignore"):
        wanted = (x * 6364136223846793005 + 1442695040888963407) >> 33
    with expecting_overflow(space):
        assert_array_equal(launch_for(space, N, int64_hash, x, np.zeros(N, np.int64))[1], wanted)


@pk.kernel
def numpys_words(i, x, out):
    out[i] = np.where(x[i] > 0.5, x[i], np.minimum(x[i], 0.25)) + np.abs(-x[i]) + np.maximum(x[i], 0.5)


def test_numpys_scalar_functions(space):
    x = default_rng(5).random(N)
    wanted = np.where(x > 0.5, x, np.minimum(x, 0.25)) + x + np.maximum(x, 0.5)
    assert_close(run(space, numpys_words, x, np.zeros(N)), wanted, np.float64)


@pk.kernel
def escapes(i, limit, c, out):
    x, n = 0.0, 0
    while n < limit and x <= 4.0:
        x = x * x + c[i]
        n += 1
    out[0, i] = n
    out[1, i] = x


@pk.kernel
def grows_in_memory(i, limit, c, out):
    n = 0
    while out[0, i] < limit[i]:
        out[0, i] = out[0, i] + c[i]
        n += 1
    out[1, i] = n


@pk.kernel
def both_loops_write(i, a, out):
    """The inner loop's lanes stop sooner than the outer one's; some wait in a continue, some leave in the
    middle."""
    x, n, k = a[i], 0, 0
    while x > 1.0 and n < 30:
        n += 1
        x *= 0.75
        while x > 8.0:
            x -= 3.0 + a[i] * 0.01
            k += 1
        if n % 3 == i % 3:
            continue
        k += 2
        if k > 40:
            break
        x *= 0.9
    out[0, i] = x
    out[1, i] = 100 * n + k


@pk.kernel
def reads_where_it_may(i, x, out):
    total, n = 0.0, 0
    while i + n < x.shape[0] and n < i % 4:
        total += x[i]
        n += 1
    out[0, i] = total
    out[1, i] = n


@pytest.mark.parametrize("kernel", [escapes, grows_in_memory, both_loops_write, reads_where_it_may])
def test_lanes_leave_a_loop_one_by_one(space, kernel):
    """A lane keeps its values from when it left, whatever the others went on to compute."""
    for n in [1, 8, 27]:
        if space == "checked":
            pytest.skip("the checked space is the reference here")
        first = default_rng(8).random(n) * 30.0
        args = {
            escapes: (20, first / 30.0),
            grows_in_memory: (first, first / 7.0 + 0.1),
            both_loops_write: (first,),
            reads_where_it_may: (first[: max(n // 2, 1)],),
        }[kernel]
        got, wanted = (
            launch_for(where, n, kernel, *args, np.zeros((2, n)))[-1] for where in (space, "checked")
        )
        assert_close(got, wanted, np.float64, 100)


def test_the_least_integer_by_minus_one_wraps(space):
    for dtype in (np.int32, np.int64):
        a, b = np.full(9, np.iinfo(dtype).min, dtype), np.full(9, -1, dtype)
        out = run_divided(space, a, b)
        assert_array_equal(out, [a, np.zeros(9)])


@pk.kernel
def divided(i, a, b, out):
    out[0, i] = a[i] // b[i]
    out[1, i] = a[i] % b[i]


def run_divided(space, a, b):
    if space == "checked":
        pytest.skip("a finding there, see step 20")
    return launch_for(space, len(a), divided, a, b, np.zeros((2, len(a)), a.dtype))[-1]


@pk.kernel
def after_an_offset(i, first, x, out):
    out[i] = x[first[0] + i]


@pk.kernel
def wrapped(i, first, out):
    k = first[0] + i
    out[0, i] = pk.int64(k)
    out[1, i] = k + pk.int64(1)
    out[2, i] = 1 if k < 0 else 0
    out[3, i] = (k - first[0]) // 3


@pytest.mark.parametrize("packed", [True, False])
def test_consecutive_int32(packed):
    """A pack that begins behind an int32 is still read in one piece; its numbers wrap at 32 bits where they
    are looked at."""
    x, out = np.arange(50.0), np.zeros(40)
    kernel = pk.kernel(after_an_offset.fn, packed=packed)
    pk.parallel_for(pk.RangePolicy(0, 40, space="serial"), kernel, np.array([7], np.int32), x, out)
    assert_array_equal(out, x[7:47])
    accesses = pk.explain(
        pk.RangePolicy(0, 40, space="serial"), kernel, np.array([7], np.int32), x, out
    ).accesses
    assert {a.how for a in accesses if a.view == "x"} == (
        {"contiguous"} if packed else {"strided or gathered"}
    )
    numbers = np.zeros((4, 40), np.int64)
    pk.parallel_for(
        pk.RangePolicy(0, 40, space="serial"),
        pk.kernel(wrapped.fn, packed=packed),
        np.array([2**31 - 5], np.int32),
        numbers,
    )
    expected = (np.arange(40) + 2**31 - 5).astype(np.int32).astype(np.int64)
    assert_array_equal(numbers, [expected, expected + 1, expected < 0, np.arange(40) // 3])


@pytest.mark.parametrize("packed", [2, 4, 8, 16])
def test_lanes_that_are_asked_for(packed):
    out = np.zeros(40)
    kernel, policy = pk.kernel(after_an_offset.fn, packed=packed), pk.RangePolicy(0, 40, space="serial")
    arrays = np.array([7], np.int32), np.arange(50.0), out
    pk.parallel_for(policy, kernel, *arrays)
    assert_array_equal(out, np.arange(7.0, 47.0))
    assert f"packs of {packed} lanes" in str(pk.explain(policy, kernel, *arrays))


@pytest.mark.parametrize("packed", [0, 1, 3, 32, "4", None])
def test_a_number_of_lanes_that_there_is_not(packed):
    with pytest.raises(InputError, match=f"packed is {packed!r}; True, False, 2, 4, 8 or 16 is wanted"):
        pk.kernel(after_an_offset.fn, packed=packed)


@pk.kernel
def picked(i, order, on, x, moved, chosen, again):
    """Loads and stores side by side and apart, under a condition and in a loop that lanes leave."""
    if 0 <= order[i] < x.shape[0]:
        chosen[i] = x[i]
        moved[order[i]] = x[order[i]]
    k = 0
    while k < 3 and k < order[i]:
        if on[i]:
            again[i] += x[i]
        k += 1


DTYPES = [np.bool_, np.int8, np.uint16, np.float16, np.int32, np.float32, np.int64, np.float64]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("odds", [0.0, 0.1, 0.5, 1.0])
def test_lanes_that_take_no_part_touch_nothing(space, dtype, odds):
    """Their places are far outside the arrays."""
    rng = default_rng(1)
    for n in (1, 7, 8, 15, 16, 45):
        on = rng.random(n) < odds
        order = np.where(on, rng.permutation(n), rng.choice([-(2**40), 2**40], n))
        x = (1 + rng.integers(0, 2, n) * np.ones(n)).astype(dtype)
        untouched = np.full(n, 3, dtype)
        arrays = launch_for(space, n, picked, order, on, x, untouched, untouched, untouched)
        times = np.where(on, np.clip(order, 0, 3), 0)
        wants = untouched.copy(), np.where(on, x, untouched), (untouched + times * x).astype(dtype)
        wants[0][order[on]] = x[order[on]]
        for got, want in zip(arrays[3:], wants):
            assert_array_equal(got, want)


@pk.kernel
def gathered(i, order, x, small, out):
    out[order[i]] = x[order[i]] + small[i]


@pytest.mark.parametrize("registers, branches", [(8, set()), (32, {"gather f64", "scatter f64", "load i8"})])
def test_a_last_pack_branches_for_no_lane(monkeypatch, registers, branches):
    """LLVM would make a branch of each lane of a gather or scatter under a mask, and of small numbers, where
    the machine has no such instruction."""
    from portable.core.machines.cpu.entry import entry_of

    kernel, policy = pk.kernel(gathered.fn), pk.RangePolicy(0, 9, space="serial")
    order, x, small, out = np.arange(8, -1, -1), np.arange(9.0), np.arange(9, dtype=np.int8), np.zeros(9)
    pk.parallel_for(policy, kernel, order, x, small, out)
    assert_array_equal(out, x + small[::-1])
    ((_, *what),) = [key for key in kernel.compiled if key[0] == "cpu"]
    monkeypatch.setattr("portable.core.machines.cpu.engine.pack_registers", lambda: registers)
    calls = re.findall(r'call .*@"llvm\.masked\.(\w+)\.v\d+(\w+)\.\w+"\((.*)', entry_of(kernel, *what).text)
    masked = {f"{name} {element}" for name, element, operands in calls if "splat (i1 1)" not in operands}
    assert masked == {"load i64"} | branches
