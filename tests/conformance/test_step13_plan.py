"""Step 13: plans, which prepare a launch once."""

import gc
import weakref

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import portable as pk
from portable.core.machines.cpu import space as cpu

from ..launching import move


@pk.kernel
def axpy(i, a, x, y):
    y[i] += a * x[i]


@pk.kernel
def row_sums(team, a, out):
    row = 0.0
    for j in team.thread_range(a.shape[1]):
        row += a[team.league_rank, j]
    row = team.reduce(row)
    if team.single():
        out[team.league_rank] = row


@pk.kernel
def count(i, x, counts):
    pk.atomic_add(counts, x[i], 1)


def content(view):
    return view if isinstance(view, np.ndarray) else view.to_numpy()


def test_a_plan_runs_again_and_again(space):
    x, y = move(np.arange(20.0)), move(np.zeros(20))
    step = pk.plan(pk.RangePolicy(0, 20), axpy, 2.0, x, y)
    for _ in range(3):
        step()
    assert_array_equal(content(y), 6 * np.arange(20.0))
    assert "axpy" in repr(step)


def test_plans_of_one_kernel_keep_their_own_arguments(space):
    x, y, z = move(np.ones(9)), move(np.zeros(9)), move(np.zeros(9))
    policy = pk.RangePolicy(0, 9)
    one, two = pk.plan(policy, axpy, 1.0, x, y), pk.plan(policy, axpy, 10.0, x, z)
    one(), two(), one()
    pk.parallel_for(policy, axpy, 100.0, x, y)
    assert_array_equal(content(y), np.full(9, 102.0))
    assert_array_equal(content(z), np.full(9, 10.0))


def test_a_plan_of_teams_and_of_nothing(space):
    a, out = move(np.arange(12.0).reshape(3, 4)), move(np.zeros(3))
    pk.plan(pk.TeamPolicy(3), row_sums, a, out)()
    pk.plan(pk.TeamPolicy(0), row_sums, a, out)()
    assert_array_equal(content(out), [6.0, 22.0, 38.0])


def test_a_plan_keeps_its_views_alive(space):
    y = move(np.zeros(1000))
    step = pk.plan(pk.RangePolicy(0, 1000), axpy, 1.0, move(np.ones(1000)), y)
    move(np.full(1000, 7.0))  # would reuse the memory of a view that had been freed
    step()
    assert_array_equal(content(y), np.ones(1000))


@pk.kernel
def take(i, at, x, out):
    out[i] = x[at[i]]


def test_a_plan_keeps_the_code_that_it_calls(monkeypatch):
    """A plan keeps its code, also if a ScatterView is too large for copies, which needs other code: a kernel
    keeps only the last of its builds."""
    monkeypatch.setattr(cpu, "_MOST_COPIES", 0)
    kernel, counts = pk.kernel(count.fn), np.zeros(3, np.int64)
    policy = pk.RangePolicy(0, 192, space="threads:2")
    step = pk.plan(policy, kernel, np.arange(192) % 3, pk.ScatterView(counts))
    code = [weakref.ref(c.code.__self__) for key, c in kernel.compiled.items() if key[0] == "cpu"]
    kernel.compiled.clear()
    gc.collect()
    assert len(code) == 2 and all(engine() is not None for engine in code)
    step()
    assert_array_equal(counts, [64, 64, 64])


@pytest.mark.parametrize("space", ["serial", "threads:2"])
def test_strips_and_last_packs_are_whole_launches(monkeypatch, space):
    """Compare launches, repeated launches, plans and captures of few and of many strips."""
    monkeypatch.setattr(cpu, "STRIP", 128)
    for kernel in (pk.kernel(axpy.fn), pk.kernel(axpy.fn, packed=False)):
        for n in (0, 1, 64, 127, 128, 129, 1000, 5003):
            x, y = np.arange(float(n)), np.zeros(n)
            policy, rest = pk.RangePolicy(0, n, space=space), pk.RangePolicy(n // 3, n, space=space)
            with pk.capture(space) as graph:
                pk.parallel_for(policy, kernel, 1.0, x, y)
                pk.parallel_for(rest, kernel, 1.0, x, y)
            for _ in range(3):
                pk.parallel_for(policy, kernel, 1.0, x, y)
            pk.plan(policy, kernel, 1.0, x, y)()
            graph.replay()
            assert_array_equal(y, np.where(np.arange(n) < n // 3, 5 * x, 6 * x))
            rows = np.zeros((3, n))
            pk.parallel_for(pk.MDRangePolicy((0, 0), (3, n), space=space), count_up, rows)
            assert_array_equal(rows, np.ones((3, n)))


@pk.kernel
def count_up(i, j, x):
    x[i, j] += 1.0


def test_a_plan_is_looked_at_where_launches_are(space):
    """A plan is checked in the context of its launch, also if it was made in a context without checks."""
    at = move(np.arange(4), space)
    x, out = move(np.arange(4.0), space), move(np.zeros(4), space)
    with pk.use(space):
        step = pk.plan(4, take, at, x, out)
    step()
    if space != "checked":  # which always checks
        pk.deep_copy(at, np.array([0, 1, 2, 4]))
        with pk.use(debug=True), pytest.raises(pk.CheckError, match="index 4 is outside extent 4"):
            step()
        pk.deep_copy(at, np.arange(4))
    step()
    assert_array_equal(content(out), np.arange(4.0))
