"""Step 3, parallel_reduce: sums and extremes, the places of extremes, several reducers at once; the same bits
for any number of threads."""

import math

import numpy as np
import pytest
from numpy.random import default_rng

import portable as pk
from portable.errors import DTypeError, ShapeError

from ..launching import floats, launch_reduce, move
from ..tolerance import assert_close

SIZES = [0, 1, 7, 8, 9, 16, 17, 100, 1000]


@pk.kernel
def entry(i, x):
    return x[i]


@pk.kernel
def value_and_square(i, x):
    return x[i], x[i] * x[i]


@floats
def test_sum(space, dtype):
    for n in SIZES:
        x = default_rng(n).random(n).astype(dtype)
        total = launch_reduce(n, entry, x)
        assert isinstance(total, (float, int))
        assert_close(total, math.fsum(x), dtype, n)


@pk.kernel
def entry_or_nothing(i, x):
    return x[i] if x[i] > -1.0 else 0.0


@pk.kernel
def cell(i, j, x):
    return x[i, j]


@pk.kernel
def cell_or_nothing(i, j, x):
    return x[i, j] if x[i, j] > -1.0 else 0.0


def test_long_texts_add_up_in_the_same_order(space):
    """The body of a kernel with branches is emitted once, with rotating accumulators; a short body once for
    each accumulator.
    """
    for n in [*SIZES, 31, 32, 33, 63, 64, 5000]:
        x = default_rng(n).random(n)
        assert launch_reduce(n, entry_or_nothing, x) == launch_reduce(n, entry, x)
        several = pk.MDRangePolicy((0, 0), (3, n))
        x = default_rng(n).random((3, n))
        assert launch_reduce(several, cell_or_nothing, x) == launch_reduce(several, cell, x)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_integers_add_up_in_64_bits(space, dtype):
    total = launch_reduce(100, entry, np.full(100, 2**30, dtype))
    assert total == 100 * 2**30 and isinstance(total, int)


@pytest.mark.parametrize("begin, end", [(3, 3), (3, 4), (5, 60)])
def test_a_range_may_begin_anywhere(space, begin, end):
    x = np.arange(100.0)
    assert launch_reduce(pk.RangePolicy(begin, end), entry, x) == x[begin:end].sum()


def test_product(space):
    x = default_rng(2).uniform(0.9, 1.1, 50)
    assert_close(launch_reduce(50, entry, x, reducer=pk.Prod), np.prod(x), np.float64, 50)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
def test_extremes(space, dtype):
    for n in [1, 8, 9, 1000]:
        x = (default_rng(n).normal(size=n) * 1000).astype(dtype)
        assert launch_reduce(n, entry, x, reducer=pk.Min) == x.min()
        assert launch_reduce(n, entry, x, reducer=pk.Max) == x.max()


@pytest.mark.parametrize("where", [0, 5, 12])
def test_nan_wins_as_in_numpy(space, where):
    x = np.arange(13.0)
    x[where] = np.nan
    assert math.isnan(launch_reduce(13, entry, x, reducer=pk.Min))
    assert math.isnan(launch_reduce(13, entry, x, reducer=pk.Max))
    value, index = launch_reduce(13, entry, x, reducer=pk.MinLoc)
    assert math.isnan(value) and index == where


def test_where_the_extremes_are(space):
    for n in [1, 8, 17, 1000]:
        x = default_rng(n).random(n)
        assert launch_reduce(n, entry, x, reducer=pk.MinLoc) == (x.min(), x.argmin())
        assert launch_reduce(n, entry, x, reducer=pk.MaxLoc) == (x.max(), x.argmax())


def test_ties_go_to_the_lowest_index(space):
    x = np.zeros(100)
    x[[30, 41, 99]] = -1.0
    x[[7, 8, 64]] = 1.0
    assert launch_reduce(100, entry, x, reducer=pk.MinLoc) == (-1.0, 30)
    assert launch_reduce(100, entry, x, reducer=pk.MaxLoc) == (1.0, 7)


def test_the_location_is_the_index_of_the_policy(space):
    x = np.arange(50.0)
    assert launch_reduce(pk.RangePolicy(20, 40), entry, x, reducer=pk.MinLoc) == (20.0, 20)


def test_several_reducers_at_once(space):
    x = default_rng(3).random(77)
    total, largest = launch_reduce(77, value_and_square, x, reducer=(pk.Sum, pk.Max))
    assert_close(total, x.sum(), np.float64, 77)
    assert_close(largest, (x * x).max(), np.float64)


@pk.kernel
def below(i, x, limit, log):
    log[i] = 1.0
    if x[i] >= limit:
        return 0.0
    log[i] = 2.0
    for k in range(3):
        if k == i:
            return -1.0
    return x[i]


def test_early_returns_carry_their_value(space):
    x = default_rng(4).random(50)
    wanted = np.where(x >= 0.5, 0.0, np.where(np.arange(50) < 3, -1.0, x)).sum()
    assert_close(launch_reduce(50, below, x, 0.5, np.zeros(50)), wanted, np.float64, 50)


@pk.kernel
def whole_or_half(i, x):
    if x[i] > 0.5:
        return 1
    return 0.5


def test_returns_of_two_dtypes_meet_in_one(space):
    x = default_rng(8).random(40)
    assert launch_reduce(40, whole_or_half, x) == np.where(x > 0.5, 1, 0.5).sum()


def test_empty_ranges_give_the_identity(space):
    x = np.zeros(0)
    assert launch_reduce(0, entry, x) == 0
    assert launch_reduce(0, entry, x, reducer=pk.Prod) == 1
    assert launch_reduce(0, entry, x, reducer=pk.Min) == math.inf
    assert launch_reduce(0, entry, x, reducer=pk.Max) == -math.inf


@floats
def test_the_bits_do_not_depend_on_the_number_of_threads(dtype):
    n = 100_003
    x = default_rng(5).normal(size=n).astype(dtype)
    sums = {
        pk.parallel_reduce(pk.RangePolicy(0, n, space=s), entry, x)
        for s in ("serial", pk.Threads(1), pk.Threads(2), pk.Threads(3), pk.Threads(4))
    }
    assert len(sums) == 1
    assert_close(sums.pop(), math.fsum(x), dtype, n, scale=math.sqrt(n))


def test_the_result_can_go_to_a_view(space):
    x = np.arange(30.0)
    out = pk.zeros((), "float64", space=space)
    with pk.use(space):
        pk.parallel_reduce(30, entry, move(x, space), out=out)
        pk.fence()
    assert out.to_numpy() == x.sum()


@pytest.mark.parametrize(
    "out, error, message",
    [
        (
            lambda space: pk.zeros(1, "int64", space=space),
            DTypeError,
            "out: expected a view of float64, the dtype of the result; got int64",
        ),
        (
            lambda space: (pk.zeros(1, space=space),) * 2,
            ShapeError,
            r"out: expected 1 one-element view\(s\), got 2",
        ),
        (
            lambda space: pk.zeros(2, space=space),
            ShapeError,
            "out: expected a view of one element, got shape",
        ),
    ],
)
def test_what_cannot_take_the_result_is_refused(space, out, error, message):
    x = move(np.arange(30.0), space)
    with pk.use(space), pytest.raises(error, match=message):
        pk.parallel_reduce(30, entry, x, out=out(space))


@pk.kernel
def row_sum(team, a):
    total = 0.0
    for j in team.thread_range(a.shape[1]):
        total += a[team.league_rank, j]
    return team.reduce(total)


def test_a_team_contributes_once(space):
    a = default_rng(6).random((13, 21))
    total, (largest, where) = (
        launch_reduce(pk.TeamPolicy(13), row_sum, a, reducer=r) for r in (pk.Sum, pk.MaxLoc)
    )
    assert_close(total, a.sum(), np.float64, a.size)
    assert where == a.sum(1).argmax()
    assert_close(largest, a.sum(1).max(), np.float64, 21)


@pk.kernel
def store_and_return(i, x, out):
    out[i] = 2.0 * x[i]
    return x[i]


def test_a_reduction_may_store_too(space):
    x, out = np.arange(19.0), pk.zeros(19, "float64")
    assert launch_reduce(19, store_and_return, x, out) == x.sum()
    np.testing.assert_array_equal(out.to_numpy(), 2 * x)
