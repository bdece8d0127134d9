"""Step 6, atomics: no update is lost, and each returns the value before it."""

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_array_equal

import portable as pk

from ..launching import floats, launch_for

DTYPES = [np.int32, np.int64, np.uint32, np.uint64, np.float32, np.float64]
N = 203


@pk.kernel
def add(i, x, where, total):
    pk.atomic_add(total, where[i], x[i])


@pk.kernel
def subtract(i, x, where, total):
    pk.atomic_sub(total, where[i], x[i])


@pk.kernel
def extremes(i, x, where, low, high):
    pk.atomic_min(low, where[i], x[i])
    pk.atomic_max(high, where[i], x[i])


def numbers(dtype):
    """Return whole numbers, so that sums are exact in every dtype and in any order, and indices of three
    contended bins.
    """
    rng = default_rng(1)
    return rng.integers(1, 100, N).astype(dtype), rng.integers(0, 3, N)


@pytest.mark.parametrize("dtype", DTYPES)
def test_sums(space, dtype):
    x, where = numbers(dtype)
    wanted = np.array([x[where == b].sum() for b in range(3)])
    assert_array_equal(launch_for(N, add, x, where, np.zeros(3, dtype))[2], wanted)
    start = np.full(3, 20_000, dtype)
    assert_array_equal(launch_for(N, subtract, x, where, start)[2], 20_000 - wanted)


def test_many_updates_of_few_bins(space):
    n = 1_000 if space == "checked" else 200_000
    x, where = np.ones(n, np.int32), np.arange(n) % 3
    assert_array_equal(launch_for(n, add, x, where, np.zeros(3, np.int32))[2], np.bincount(where))


@pytest.mark.parametrize("dtype", DTYPES)
def test_extremes(space, dtype):
    x, where = numbers(dtype)
    if np.dtype(dtype).kind != "u":
        x = x - dtype(50)
    _, _, low, high = launch_for(N, extremes, x, where, np.full(3, 1000, dtype), np.zeros(3, dtype))
    assert_array_equal(low, [x[where == b].min() for b in range(3)])
    assert_array_equal(high, [max(0, x[where == b].max()) for b in range(3)])


@floats
@pytest.mark.parametrize("first", [0.0, -0.0, 1.0, np.nan])
def test_extremes_of_what_compares_as_equal_or_not_at_all(space, dtype, first):
    """Update each of three bins, which hold `first`, by one number: zeros of both signs and NaN are treated
    as by pk.minimum and pk.maximum, with the same sign bit."""
    x, where = np.array([0.0, -0.0, np.nan], dtype), np.arange(3)
    start = np.full(3, first, dtype)
    _, _, low, high = launch_for(3, extremes, x, where, start, start.copy())
    for found, wanted in ((low, pk.minimum), (high, pk.maximum)):
        expected = np.array([wanted(start[b], x[b]) for b in range(3)], dtype)
        assert_array_equal(found, expected)
        known = ~np.isnan(expected)
        assert_array_equal(np.signbit(found)[known], np.signbit(expected)[known])


@pk.kernel
def add_under_condition(i, x, total):
    if x[i] > 0.5:
        pk.atomic_add(total, 0, 1)
        if x[i] > 0.75:
            pk.atomic_add(total, 1, 1)


def test_a_lane_whose_condition_fails_adds_nothing(space):
    x = default_rng(2).random(N)
    total = launch_for(N, add_under_condition, x, np.zeros(2, np.int64))[1]
    assert_array_equal(total, [(x > 0.5).sum(), (x > 0.75).sum()])


@pk.kernel
def take_ticket(i, counter, owner):
    owner[pk.atomic_add(counter, 0, 1)] = i


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_the_old_value_is_a_ticket(space, dtype):
    counter, owner = launch_for(N, take_ticket, np.zeros(1, dtype), np.full(N, -1))
    assert counter[0] == N
    assert_array_equal(np.sort(owner), np.arange(N))


@pk.kernel
def add_to_matrix(i, x, total):
    pk.atomic_add(total, (i % 2, i % 3), x[i])


def test_an_index_of_two_dimensions(space):
    x = np.arange(60.0)
    wanted = np.zeros((2, 3))
    np.add.at(wanted, (np.arange(60) % 2, np.arange(60) % 3), x)
    assert_array_equal(launch_for(60, add_to_matrix, x, np.zeros((2, 3)))[1], wanted)


@pk.kernel
def bits(i, ones, both, odd):
    pk.atomic_or(ones, 0, 1 << (i % 20))
    pk.atomic_and(both, 0, ~(1 << (i % 5)))
    pk.atomic_xor(odd, 0, 1 << (i % 7))


def test_bitwise_updates(space):
    ones, both, odd = launch_for(
        30, bits, np.zeros(1, np.int32), np.full(1, -1, np.int32), np.zeros(1, np.int32)
    )
    assert ones[0] == 2**20 - 1 and both[0] == -1 & ~31
    assert odd[0] == sum(1 << b for b in range(7) if sum(i % 7 == b for i in range(30)) % 2)


@pk.kernel
def exchange(i, cell, got):
    got[i] = pk.atomic_exchange(cell, 0, i)


def test_an_exchange_loses_no_value(space):
    cell, got = launch_for(N, exchange, np.full(1, -1), np.zeros(N, np.int64))
    assert_array_equal(np.sort(np.append(got, cell)), np.arange(-1, N))


@pk.kernel
def multiply_by_cas(i, x, total):
    done = False
    while not done:
        old = total[0]
        done = pk.atomic_cas(total, 0, old, old * x[i]) == old


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_any_update_by_compare_and_swap(space, dtype):
    x = np.array([1, 2, 1, 3, 1, 1, 2, 5, 1, 1, 1, 7, 1, 2, 1, 1, 3, 1], dtype)
    assert_array_equal(launch_for(len(x), multiply_by_cas, x, np.ones(1, dtype))[1], x.prod())
