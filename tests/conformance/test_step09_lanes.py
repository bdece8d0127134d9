"""Step 9, lanes: for every construct, each lane computes the result of plain Python for its index."""

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
    got, wanted = launch_for(N, kernel, *args), launch_for(N, kernel, *args, space="checked")
    got, wanted = (value if isinstance(value, tuple) else (value,) for value in (got, wanted))
    precision = dtype if np.dtype(dtype).kind == "f" else np.float64
    for one, other in zip(got, wanted, strict=True):
        assert_close(one, other, precision, terms, scale=1.0)


def run(space, kernel, *arrays):
    return launch_for(N, kernel, *arrays, space=space)[-1]


def expecting_overflow(space):
    """Accept that the checked space reports signed integers that wrap."""
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
    """A lane keeps its values from when it left the loop, whatever the other lanes compute later."""
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
            launch_for(n, kernel, *args, np.zeros((2, n)), space=where)[-1] for where in (space, "checked")
        )
        assert_close(got, wanted, np.float64, 100)


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
    """A pack that begins after an int32 is still loaded in one piece; its numbers wrap at 32 bits before they
    are compared."""
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


def test_gathers_do_not_wait_for_the_iteration_before():
    """AVX-512 has ones in a mask by kxnor of register 0, which waits for its last write."""
    assert "kxnor" not in pk.listing(
        pk.RangePolicy(0, N, space="serial"), lane_kernels.static_loops, np.ones(N), np.ones(N)
    )


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
    with pytest.raises(InputError, match=f"packed is {packed!r}; expected True, False, 2, 4, 8 or 16"):
        pk.kernel(after_an_offset.fn, packed=packed)


@pk.kernel
def picked(i, order, on, x, moved, chosen, again):
    """Load and store contiguous and scattered elements, under a condition and in a loop that lanes leave."""
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
    """The indices of inactive lanes are far outside the arrays."""
    rng = default_rng(1)
    for n in (1, 7, 8, 15, 16, 45):
        on = rng.random(n) < odds
        order = np.where(on, rng.permutation(n), rng.choice([-(2**40), 2**40], n))
        x = (1 + rng.integers(0, 2, n) * np.ones(n)).astype(dtype)
        untouched = np.full(n, 3, dtype)
        arrays = launch_for(n, picked, order, on, x, untouched, untouched, untouched)
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
    """LLVM would make a branch for each lane of a masked gather or scatter, and of a masked access to small
    types, if the machine has no such instruction."""
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
