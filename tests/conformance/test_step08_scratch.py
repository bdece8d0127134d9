"""Step 8, scratch: memory that a team shares, any number of arrays, dtypes and shapes; local memory of an
index."""

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_array_equal

import portable as pk
from portable.errors import CheckError, InputError

from ..launching import floats, launch_for, move
from ..tolerance import assert_close
from .test_step07_team import in_pairs, sizes

N = 20


@pk.kernel
def reverse_squares(team, x, y):
    squares = team.scratch(N, x.dtype)
    first = team.league_rank * N
    for k in team.thread_range(N):
        squares[k] = x[first + k] * x[first + k]
    team.barrier()
    for k in team.thread_range(N):
        y[first + k] = squares[N - 1 - k]


@in_pairs(np.float32, np.float64, np.int32)
def test_members_read_what_others_wrote(space, dtype, size):
    x = np.arange(3 * N).astype(dtype)
    y = launch_for(pk.TeamPolicy(3, size), reverse_squares, x, np.zeros(3 * N, dtype))[1]
    assert_array_equal(y, (x * x).reshape(3, N)[:, ::-1].ravel())


@pk.kernel
def transpose_block(team, a, out):
    tile = team.scratch((4, 5), a.dtype)
    marks = team.scratch((5, 4), np.int32)
    flags = team.scratch(3, pk.float64)
    for e in team.thread_range(20):
        tile[e // 5, e % 5] = a[team.league_rank, e // 5, e % 5]
        marks[e // 4, e % 4] = e
    for e in team.thread_range(3):
        flags[e] = e + 0.5
    team.barrier()
    for e in team.thread_range(20):
        out[team.league_rank, e // 4, e % 4] = tile[e % 4, e // 4] + marks[e // 4, e % 4] + flags[2]


@sizes
def test_arrays_of_different_dtype_and_shape(space, size):
    a = default_rng(1).random((3, 4, 5))
    out = launch_for(pk.TeamPolicy(3, size), transpose_block, a, np.zeros((3, 5, 4)))[1]
    assert_close(out, a.transpose(0, 2, 1) + np.arange(20).reshape(5, 4) + 2.5, np.float64)


@pk.kernel
def running_sum(team, x, out):
    row = team.scratch(x.shape[1], x.dtype)
    other = team.scratch(x.shape[1], x.dtype)
    for j in team.thread_range(x.shape[1]):
        row[j] = x[team.league_rank, j]
    team.barrier()
    step = 1
    while step < x.shape[1]:
        for j in team.thread_range(x.shape[1]):
            other[j] = row[j] + row[j - step] if j >= step else row[j]
        team.barrier()
        for j in team.thread_range(x.shape[1]):
            row[j] = other[j]
        team.barrier()
        step *= 2
    for j in team.thread_range(x.shape[1]):
        out[team.league_rank, j] = row[j]


@sizes
def test_shapes_known_only_at_run_time(space, size):
    for n in [1, 13, 40]:
        x = default_rng(2).integers(0, 9, (3, n))
        policy = pk.TeamPolicy(3, size, scratch_bytes=pk.scratch_bytes((n, x.dtype), (n, x.dtype)))
        assert_array_equal(launch_for(policy, running_sum, x, np.zeros_like(x))[1], x.cumsum(1))


def test_scratch_is_sized_by_what_is_asked_for():
    """Each array begins at a multiple of 64 bytes; the checked space accepts the resulting size, and not one
    byte less.
    """
    assert pk.scratch_bytes() == pk.scratch_bytes((0, np.float64)) == 0
    assert pk.scratch_bytes(((4, 5), np.float64), (3, "int32"), (17, pk.float32)) == 192 + 64 + 128
    x = np.ones((3, 13))
    enough = pk.scratch_bytes((13, x.dtype), (13, x.dtype))
    launch_for(pk.TeamPolicy(3, 4, scratch_bytes=enough), running_sum, x, np.zeros_like(x), space="checked")
    with pytest.raises(CheckError, match="scratch_bytes"):
        launch_for(
            pk.TeamPolicy(3, 4, scratch_bytes=enough - 64), running_sum, x, np.zeros_like(x), space="checked"
        )
    for bad, match in (
        ((5,), "pair of a shape and a dtype"),
        (((-1, np.float64),), "at least 0"),
        (((2.5, np.float64),), "must be an integer"),
        (((2, "nothing"),), "expected a NumPy dtype"),
        (((2**62, np.float64),), "beyond the range"),
    ):
        with pytest.raises((InputError, pk.DTypeError), match=match):
            pk.scratch_bytes(*bad)


def test_shapes_known_only_at_run_time_must_be_asked_for(space):
    x = move(np.ones((3, 13)))
    with pytest.raises((InputError, CheckError), match="scratch_bytes="):
        pk.parallel_for(pk.TeamPolicy(3), running_sum, x, x)


@pk.kernel
def local_under_conditions(i, x, out):
    v = pk.local(3, x.dtype)
    for k in range(3):
        v[k] = 10.0 * k
    if x[i] > 0.0:
        v[1] = x[i]
        if x[i] > 2.0:
            v[1] += v[2]
            v[2] = -x[i]
    out[i] = v[0] + v[1] + 100.0 * v[2]


def test_local_elements_of_lanes_that_take_no_part_stay(space):
    """With constant indices a private array is in registers, also where it is written under a condition."""
    for n in [1, 8, 19]:
        x = np.arange(n) % 4 - 0.5
        got = launch_for(n, local_under_conditions, x, np.zeros(n))[1]
        wanted = [
            v + (20.0 if v > 2.0 else 0.0) + 100.0 * (-v if v > 2.0 else 20.0) if v > 0.0 else 10.0 + 2000.0
            for v in x
        ]
        assert_array_equal(got, wanted)


def test_local_arrays_under_a_mask_stay_in_registers():
    from portable.core.machines.cpu.entry import entry_of

    with pk.use("serial"):
        pk.parallel_for(9, local_under_conditions, np.ones(9), np.zeros(9))
    ((_, *what),) = [key for key in local_under_conditions.compiled if key[0] == "cpu"]
    stores = entry_of(local_under_conditions, *what).text.count('call void @"llvm.masked.store')
    assert stores == 1  # the store to `out`


@pk.kernel
def local_under_masks(i, x, step, out):
    v = pk.local(4, x.dtype)
    for k in range(4):
        v[k] = 0.0
    for k in range(4 * step, 4 * step + 4):
        if x[i] > 0.25 * k:
            v[k - 4 * step] += x[i]  # an index known at run time
        if x[i] > 2.0:
            v[1000000 * k] = 7.0  # an index out of range, in code that no lane executes
    if x[i] > 0.5:
        v[1] -= v[0]  # an index known at compile time
    else:
        v[2] = 1.0 + v[1]
    out[i] = v[0] + 10.0 * v[1] + 100.0 * v[2] + 1000.0 * v[3]


@floats
def test_local_arrays_under_masks(space, dtype):
    """Inactive lanes keep their values, also where all lanes are inactive."""
    x = (np.arange(21) % 16 / 16).astype(dtype)
    out = launch_for(21, local_under_masks, x, 0, np.zeros(21, dtype))[1]
    v = np.where(x > 0.25 * np.arange(4)[:, None], x, 0)
    v[1] = np.where(x > 0.5, v[1] - v[0], v[1])
    v[2] = np.where(x > 0.5, v[2], 1 + v[1])
    assert_array_equal(out, np.array([1, 10, 100, 1000], dtype) @ v)


@pk.kernel
def atomics_in_scratch(team, x, out):
    s = team.scratch(4, pk.int64)
    for k in team.thread_range(4):
        s[k] = 100
    team.barrier()
    for j in team.thread_range(x.shape[1]):
        pk.atomic_add(s, 0, x[team.league_rank, j])
        pk.atomic_sub(s, 1, x[team.league_rank, j])
        pk.atomic_max(s, 2, x[team.league_rank, j])
        pk.atomic_min(s, 3, x[team.league_rank, j])
    team.barrier()
    for k in team.thread_range(4):
        out[team.league_rank, k] = s[k]


@sizes
def test_atomics_of_all_members_in_scratch(space, size):
    x = default_rng(3).integers(-300, 300, (3, 37))
    out = launch_for(pk.TeamPolicy(3, size), atomics_in_scratch, x, np.zeros((3, 4), np.int64))[1]
    wanted = [100 + x.sum(1), 100 - x.sum(1), np.maximum(100, x.max(1)), np.minimum(100, x.min(1))]
    assert_array_equal(out, np.transpose(wanted))


@pk.kernel
def in_as_many_registers(team, x, out):
    own = pk.local(team.registers // 4, x.dtype)
    total = 0.0
    for begin in range(0, x.shape[1], team.registers // 4):
        for k in range(pk.static(team.registers // 4)):
            own[k] = x[team.league_rank, min(begin + k, x.shape[1] - 1)]
        for k in range(pk.static(team.registers // 4)):
            total += pk.where(begin + k < x.shape[1], own[k], 0.0)
    if team.single():
        out[team.league_rank] = total


@sizes
def test_small_arrays_as_large_as_registers_are(space, size):
    x = default_rng(3).integers(-300, 300, (3, 37)).astype(np.float64)
    out = launch_for(pk.TeamPolicy(3, size), in_as_many_registers, x, np.zeros(3))[1]
    assert_array_equal(out, x.sum(1))
