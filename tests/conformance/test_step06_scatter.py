"""Step 17, ScatterView: sums through private copies equal the atomic ones."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import portable as pk
from portable.core.language.frontend import only_added
from portable.core.machines.cuda.space import lower_to_ptx
from portable.errors import DTypeError, InputError, LoweringError, WrongSpaceError

from ..launching import move
from .test_step13_plan import content

SIZES = [0, 1, 9, 1000]


@pk.kernel
def count(i, x, counts, halves):
    pk.atomic_add(counts, x[i], 1)
    if x[i] % 2 == 0:
        pk.atomic_sub(halves, (x[i], i % 3), 0.5)


@pk.kernel
def count_in_teams(team, x, counts):
    for j in team.thread_range(x.shape[1]):
        pk.atomic_add(counts, x[team.league_rank, j], 1)


@pk.kernel
def count_and_sum(i, x, counts):
    pk.atomic_add(counts, x[i], 1)
    return x[i]


def levels(n, bins=7):
    return np.random.default_rng(n).integers(0, bins, n).astype(np.int32)


def expected(x, bins=7):
    halves = np.zeros((bins, 3))
    np.subtract.at(halves, (x, np.arange(len(x)) % 3), np.where(x % 2 == 0, 0.5, 0.0))
    return np.bincount(x, minlength=bins), halves


def test_sums_add_to_what_was_there(space):
    for n in SIZES + [200_000]:
        n = min(n, 500) if space == "checked" else n
        x, counts, halves = levels(n), np.arange(7), np.ones((7, 3))
        moved, counts, halves = move(x), move(counts), move(halves)
        pk.parallel_for(n, count, moved, pk.ScatterView(counts), pk.ScatterView(halves))
        ones, minus = expected(x)
        assert_array_equal(content(counts), np.arange(7) + ones)
        assert_array_equal(content(halves), 1 + minus)


@pk.kernel
def count_and_look(i, x, counts, seen):
    pk.atomic_add(counts, x[i], 1)
    seen[i] = pk.atomic_add(seen, i, counts.shape[0])


def test_short_arrays_that_are_only_added_to_need_no_word(space):
    n = 500 if space == "checked" else 50_000
    assert only_added(count) == {"counts", "halves"}
    assert only_added(count_and_look) == frozenset()
    for bins in (7, 3000):
        x, counts = move(levels(n, bins)), move(np.arange(bins))
        halves, seen = move(np.zeros((bins, 3))), move(np.zeros(n, np.int32))
        for _ in range(2):
            pk.parallel_for(n, count, x, counts, halves)
        pk.parallel_for(n, count_and_look, x, counts, seen)
        assert_array_equal(content(counts), np.arange(bins) + 3 * expected(levels(n, bins), bins)[0])


def test_every_policy_and_a_reduction(space):
    x = levels(60)
    flat, square, counts = move(x, space), move(x.reshape(6, 10), space), move(np.zeros(7, np.int32), space)
    with pk.use(space):
        pk.parallel_for(pk.TeamPolicy(6), count_in_teams, square, pk.ScatterView(counts))
        assert pk.parallel_reduce(60, count_and_sum, flat, pk.ScatterView(counts)) == x.sum()
    assert_array_equal(content(counts), 2 * np.bincount(x, minlength=7))


def test_a_plan_and_a_graph_begin_with_empty_copies(space):
    n = 30_000 if space != "checked" else 50
    x, counts, halves = levels(n), move(np.zeros(7, np.int64), space), move(np.zeros((7, 3)), space)
    args = move(x, space), pk.ScatterView(counts), pk.ScatterView(halves)
    with pk.use(space):
        planned = pk.plan(n, count, *args)
        planned()
        with pk.capture() as graph:
            pk.parallel_for(n, count, *args)
        graph.replay()
        graph.replay()
        planned()
    assert_array_equal(content(counts), 4 * np.bincount(x, minlength=7))


def test_too_large_for_copies_is_atomic(space):
    n, bins = (300, 50_000) if space == "checked" else (20_000, 10_000_000)
    x = levels(n, bins)
    counts = pk.zeros(bins, np.int64)
    pk.parallel_for(n, count_and_ignore, move(x), pk.ScatterView(counts))
    assert content(counts).sum() == n and content(counts)[x[0]] >= 1


@pk.kernel
def count_and_ignore(i, x, counts):
    pk.atomic_add(counts, x[i], 1)


def test_lowers_to_shared_memory():
    specs = (("view", "int32", 1, True, False), ("scatter", "int32", 1, True, False))
    ptx = lower_to_ptx(count_and_ignore, "range", specs)
    assert "atom.shared.add" in ptx or "red.shared.add" in ptx


@pk.kernel
def reads(i, counts):
    counts[i] = counts[i] + 1


@pk.kernel
def looks_at_the_old_value(i, counts):
    counts[pk.atomic_add(counts, i, 1)] = 0


@pk.kernel
def exchanges(i, counts):
    pk.atomic_exchange(counts, i, 1)


@pytest.mark.parametrize("kernel", [reads, looks_at_the_old_value, exchanges])
def test_kernels_only_add(space, kernel):
    counts = move(np.zeros(9, np.int64))
    with pytest.raises(LoweringError, match="'counts' is a ScatterView here"):
        pk.parallel_for(9, kernel, pk.ScatterView(counts))


def test_what_cannot_be_scattered_into():
    frozen = np.zeros(3)
    frozen.flags.writeable = False
    for bad, error, message in [
        (frozen, InputError, "read-only"),
        (np.zeros(3, bool), DTypeError, "bool"),
        (np.zeros((4, 4)).T[:2], InputError, "contiguous"),
    ]:
        with pytest.raises(error, match=message):
            pk.ScatterView(bad)


def test_of_another_space_is_refused():
    if pk.unavailable_because("cuda"):
        pytest.skip(str(pk.unavailable_because("cuda")))
    with pytest.raises(WrongSpaceError, match="counts"):
        pk.parallel_for(
            pk.RangePolicy(0, 9, space="cuda"),
            count_and_ignore,
            pk.zeros(9, np.int32, space="cuda"),
            pk.ScatterView(np.zeros(9, np.int64)),
        )
