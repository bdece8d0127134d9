"""Test promises of pk.check other than its findings: copies, reports, reproducible schedules, and no cost
elsewhere."""

import types

import numpy as np
import pytest

import portable as pk
from portable.testing import watching

from ..processes import python
from .case import broken
from .gallery_of_indices import TIES, X, compact, forward_difference, histogram, where_smallest, zeros
from .gallery_of_teams import FOUR, arrays, mirror_of_shares, reverse, strided_sum


@pk.kernel
def shift(i, x, y):
    y[i] = x[i] + 1.0


@pk.kernel
def swap_halves(i, pair):
    pair[0][i], pair[1][i] = pair[1][i], pair[0][i]


@pk.kernel
def square(i, x):
    return x[i] * x[i]


@pk.kernel
def fill(i, value, x):
    x[i] = value


@pk.kernel
def counts(i, x, bins):
    bins[int(x[i])] += 1


def test_arguments_that_share_memory_still_do():
    x = np.arange(8.0)
    assert pk.check(8, shift, x, x).ok
    assert pk.check(7, shift, x[:-1], x[:-1]).ok
    report = pk.check(7, shift, x[:-1], x[1:])
    assert [f.kind for f in report.findings] == ["race"]
    assert report.findings[0].view in ("x", "y")
    assert pk.check(4, shift, x[::2], x[1::2]).ok
    assert pk.check(4, shift, x[::-2], x[::-2]).ok
    np.testing.assert_array_equal(x, np.arange(8.0))


def test_tuples_of_views_and_labels():
    pair = pk.zeros(4, space="checked", label="left"), np.ones(4)
    assert pk.check(4, swap_halves, pair).ok
    assert not np.asarray(pair[0]).any()
    (found,) = pk.check(5, swap_halves, pair).findings
    assert (found.kind, found.view, found.index, found.members) == (
        "out of bounds",
        "pair[1]",
        (4,),
        ("index 4",),
    )
    (found,) = pk.check(5, fill, 1.0, pair[0]).findings
    assert found.view == "left"


def test_reports():
    report = pk.check(FOUR, broken(reverse), *arrays(), seeds=[0, 3], team_sizes=[2])
    text, page = str(report), report._repr_html_()
    assert not report and not report.ok and report.seeds == (0, 3) and report.team_sizes == (4, 2)
    for words in (
        "missing barrier",
        "reverse_broken",
        "gallery_of_teams.py:",
        "row[",
        "member 3 of team 0",
        "team.barrier()",
        "seed 0",
    ):
        assert words in text
    assert page.startswith("<table>") and "missing barrier" in page and "&#x27;reverse_broken&#x27;" in page
    fine = pk.check(FOUR, reverse, *arrays())
    assert fine and "nothing found" in str(fine) and "nothing found" in fine._repr_html_()
    assert fine.team_sizes == (4, 1, 2, 7, 32)


def test_a_reduction_no_barrier_says_so():
    assert "does not show what others wrote" in str(pk.check(FOUR, broken(mirror_of_shares), *arrays()))


def test_reductions_are_checked_and_compared():
    assert pk.check(12, square, X, reducer=(pk.Sum,)).ok
    assert pk.check(12, square, np.broadcast_to(2.0, 2**40)).ok
    assert not pk.check(13, square, X, reducer=pk.Sum).ok


def test_the_same_seed_is_the_same_schedule():
    """A racy compaction has different results under different schedules, and equal ones under the same
    schedule.
    """

    def outcome(seed):
        counter, out = zeros(1, np.int64), zeros()
        with watching(seed), pytest.raises(pk.CheckError):
            pk.parallel_for(12, broken(compact), X, counter, out)
        return tuple(out)

    outcomes = {seed: outcome(seed) for seed in range(20)}
    assert len(set(outcomes.values())) > 1
    assert all(outcome(seed) == outcomes[seed] for seed in (1, 7))


def test_updates_are_lost_under_some_schedule():
    def total(seed):
        bins = zeros(1, np.int64)
        with watching(seed), pytest.raises(pk.CheckError):
            pk.parallel_for(20, counts, np.zeros(20), bins)
        return int(bins[0])

    assert total(0) == 20 and min(total(seed) for seed in range(1, 6)) < 20


def test_memory_that_is_only_allocated():
    with pk.use("checked"):
        x = pk.empty(6, label="x")
        part = pk.empty((2, 3), "int32")
        pk.parallel_for(5, fill, 2.0, x)
        pk.parallel_for(5, shift, x, pk.empty(5))
        with pytest.raises(pk.CheckError, match=r"uninitialised read.*index 5 reads x\[5\]"):
            pk.parallel_for(6, shift, x, pk.empty(6))
        pk.deep_copy(x, 1.0)
        pk.parallel_for(6, shift, x, pk.empty(6))
        with pytest.raises(pk.CheckError, match="uninitialised read"):
            pk.parallel_reduce(2, square, part[:, 1])


@pytest.mark.parametrize("dtype", "bool int32 int64 uint32 uint64 float32 float64".split())
def test_memory_bears_a_mark_whatever_the_default_space(dtype):
    """Memory made for the checked space is marked, also if another space is the default."""
    with pk.use("serial"):
        x = pk.empty(100, dtype, space="checked")
        report = pk.check(100, copy, x, np.zeros(100, dtype))
        assert [(f.kind, f.view, f.index) for f in report.findings] == [("uninitialised read", "x", (0,))]
        pk.deep_copy(x, 1)
        assert pk.check(100, copy, x, np.zeros(100, dtype)).ok


@pk.kernel
def copy(i, x, y):
    y[i] = x[i]


@pk.kernel
def summed_in_double(i, x, out):
    total = pk.float64(0.0)
    for k in range(3):
        total += x[i]
    out[i] = total


def test_a_kernel_that_says_float64_means_it():
    x = X.astype(np.float32)
    assert pk.check(12, summed_in_double, x, zeros(dtype=np.float32)).ok


@pk.kernel
def narrowed(i, x, out):
    out[i] = pk.int32(x[i])


def test_a_cast_that_cuts_is_reported():
    x = np.array([1, 2**31 - 1, -(2**31), 2**31])
    assert pk.check(3, narrowed, x, zeros(4, np.int32)).ok
    (found,) = pk.check(4, narrowed, x, zeros(4, np.int32)).findings
    assert (found.kind, found.members) == ("integer overflow", ("index 3",))
    assert "compute in pk.int64, or" in found.message


@pk.kernel
def twice(i, x, out):
    out[i] = x[i] + x[i]


def test_nothing_is_wider_than_int64():
    (found,) = pk.check(1, twice, np.array([2**62]), zeros(1, np.int64)).findings
    assert "beyond int64; compute in floats, or" in found.message


def test_large_arrays_of_which_little_is_reached():
    """The time of the analysis depends on the accesses, not on the arrays."""
    x = np.zeros(3_000_000)
    (found,) = pk.check(4, copy_far, x).findings
    assert (found.kind, found.index) == ("race", (2_999_999,))


@pk.kernel
def copy_far(i, x):
    x[x.shape[0] - 1] = i


@pk.function
def put(x, i, value):
    x[i] = value


TOOLS = types.SimpleNamespace(put=put)


@pk.kernel
def puts(i, x):
    TOOLS.put(x, i + 1, 1.0)


def test_functions_are_watched_wherever_they_are_kept():
    (found,) = pk.check(12, puts, zeros()).findings
    assert (found.kind, found.kernel, found.line) == (
        "out of bounds",
        "puts",
        put.fn.__code__.co_firstlineno + 2,
    )


def test_wrong_calls_are_refused():
    with pytest.raises(pk.ShapeError, match="takes 2 argument"):
        pk.check(4, shift, X)
    with pytest.raises(pk.InputError, match="seeds"):
        pk.check(4, shift, X, X, seeds=[])
    assert str(pk.check(4, shift, X, X, seeds=3)) == str(pk.check(4, shift, X, X, seeds=[3]))
    with pytest.raises(pk.InputError, match="team_sizes"):
        pk.check(FOUR, reverse, *arrays(), team_sizes=[0])
    with pytest.raises(pk.LanguageError, match="a list"):
        pk.check(4, lists, X)


@pk.kernel
def lists(i, x):
    x[i] = [1.0][0]


def test_the_order_of_atomics_is_no_dependence_on_the_size():
    """The order of atomic sums is not compared, nor the assignment of slots, which differs between
    schedules."""

    @pk.kernel
    def gather_large(team, x, counter, out):
        for j in team.thread_range(12):
            if x[team.league_rank, j] > 5.0:
                out[pk.atomic_add(counter, 0, 1)] = x[team.league_rank, j]

    assert pk.check(pk.TeamPolicy(3), gather_large, arrays()[0], zeros(1, np.int64), zeros(36)).ok
    assert pk.check(FOUR, strided_sum, *arrays()).ok


def test_many_indices_give_one_finding():
    (found,) = pk.check(4, broken(where_smallest), TIES, 1.0, zeros(1, np.int64)).findings
    assert found.members == ("index 3", "index 1") or found.members == ("index 1", "index 3")
    (found,) = pk.check(12, broken(histogram), X, zeros(8, np.int64), seeds=range(3)).findings
    assert found.times >= 9
    assert "CheckError" not in str(pk.check(12, broken(forward_difference), X, zeros()))


def test_nothing_of_it_is_loaded_by_importing_portable():
    """Only the function `pk.check` itself is loaded."""
    loaded = (
        "import sys, portable; print([m for m in sys.modules if m.split('.')[0] in ('greenlet', 'pytest') or"
        " 'checked' in m])"
    )
    assert python("-c", loaded).stdout.strip() == "['portable.watch.checked', 'portable.watch.checked.check']"
