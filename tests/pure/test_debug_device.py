"""Test the debug build on a device, as far as the host is concerned: the place of faults, and the launch that
reads them.
"""

import ctypes
import struct

import numpy as np
import pytest
from fake_cuda import fake_cuda  # noqa: F401

import portable as pk
from portable.core.machines.cuda import space as launches
from portable.core.compiler.writing.block import FAULT


@pk.kernel
def gather(i, k, x, y):
    y[i] = x[k[i]]


@pk.kernel
def first(team, x, y):
    s = team.scratch(4, pk.float64)
    s[team.rank % 4] = x[team.league_rank]
    team.barrier()
    y[team.league_rank] = s[0]


@pk.kernel
def add_one(i, x):
    x[i] += 1.0


@pk.kernel
def total(i, k, x):
    return x[k[i]]


def arranged():
    """Return a policy, a view of integers, and two of floats."""
    k, x, y = (pk.zeros(37, dtype, space="cuda") for dtype in ("int64", "float64", "float64"))
    return pk.RangePolicy(0, 37, space="cuda"), k, x, y


@pytest.fixture
def faulty(fake_cuda, monkeypatch):
    """Simulate a device on which the second launch of a kernel reports a fault at its first site."""
    usual, n = launches.Compiled.launch, [0]

    def launch(self, grid, words, *others, **options):
        usual(self, grid, words, *others, **options)
        n[0] += 1
        assert len(self.block) == self.faults.place + 8 >= len(words) + 8
        place = ctypes.c_uint64.from_buffer(self.block, self.faults.place).value
        taken, words = fake_cuda.bytes_at(place, 8), self.faults.words.pointer
        assert place == self.faults.memory.pointer and not any(taken)
        assert ctypes.c_uint64(words).value == struct.unpack("=q", fake_cuda.bytes_at(place + FAULT, 8))[0]
        if n[0] == 2:
            fault = struct.pack("=8q", 1, 0, 40, 37, 3, 5, 0, 0)
            taken[:] = fault[:8]
            ctypes.memmove(words, fault, 64)

    monkeypatch.setattr(launches.Compiled, "launch", launch)
    return fake_cuda


@pytest.mark.parametrize("pattern", ["for", "team", "reduce"])
def test_a_fault_is_read_and_told_once(faulty, pattern):
    policy, k, x, y = arranged()

    def launch():
        if pattern == "reduce":
            return pk.parallel_reduce(policy, total, k, x)
        if pattern == "team":
            return pk.parallel_for(pk.TeamPolicy(37, space="cuda"), first, x, y)
        return pk.parallel_for(policy, gather, k, x, y)

    with pk.use(debug=True):
        launch()
        where = "team 5, member 3" if pattern == "team" else f"index {5 + 3 * 256}"
        with pytest.raises(pk.CheckError, match=f"40 .* 37.*, at {where}"):
            launch()
        assert faulty.calls.count("cuStreamSynchronize") >= 2
        launch()


def test_plans_and_captures(fake_cuda):
    policy, k, x, y = arranged()
    with pk.use(debug=True):
        plan = pk.plan(policy, gather, k, x, y)
        with pk.capture("cuda") as graph:
            pk.parallel_for(policy, gather, k, x, y)
    before = fake_cuda.calls.count("cuLaunchKernel")
    plan()
    graph.replay()
    assert fake_cuda.calls.count("cuLaunchKernel") == before + 2 and "cuGraphLaunch" not in fake_cuda.calls


def test_a_launch_is_one_call_and_one_wait(fake_cuda):
    """This holds also for a plan in another block with the same setting, and for a reduction, which waits
    once.
    """
    launches.driver.context(0).alone = True
    policy, k, x, y = arranged()
    copy, sums = pk.kernel(gather.fn), pk.kernel(total.fn)  # not compiled for another driver
    with pk.use(debug=True):
        plan = pk.plan(policy, copy, k, x, y)
        pk.parallel_for(policy, copy, k, x, y)
        pk.parallel_reduce(policy, sums, k, x)
    for call in (
        plan,
        lambda: pk.parallel_for(policy, copy, k, x, y),
        lambda: pk.parallel_reduce(policy, sums, k, x),
    ):
        fake_cuda.calls.clear()
        with pk.use(debug=True):
            call()
        assert fake_cuda.calls == ["cuLaunchKernel", "cuStreamSynchronize"]


def test_a_plan_of_a_debug_build_is_called_as_it_was_made(monkeypatch):
    x, policy = np.zeros(9), pk.RangePolicy(0, 9, space="serial")
    with pk.use(debug=True):
        plan = pk.plan(policy, add_one, x)
    monkeypatch.setattr(pk.core.launch.dispatch, "parallel_for", None)  # a call of parallel_for would fail
    with pk.use(debug=True):
        plan()
        with pk.use("serial", debug=True):
            plan()
    assert (x == 2.0).all()


@pk.kernel
def tally(i, k, counts):
    pk.atomic_add(counts, k[i], 1)


def test_a_view_that_is_only_added_to_has_a_copy_in_each_block(fake_cuda):
    """The view has no copies if it is too large, since the debug build uses some of a block's shared
    memory."""
    (policy, k, *_), add = arranged(), pk.kernel(tally.fn)
    with pk.use(debug=True):
        for n, shared in ((9, 72), (6 << 10, 0)):
            pk.parallel_for(policy, add, k, pk.ScatterView(pk.zeros(n, "int64", space="cuda")))
            assert fake_cuda.launches[-1][3] == shared


@pk.kernel
def total_of_team(team, x):
    return x[team.league_rank]


@pytest.mark.parametrize("debug", [False, True])
def test_a_reduction_over_teams_reads_its_results(fake_cuda, debug):
    x, sums = pk.zeros(37, space="cuda"), pk.kernel(total_of_team.fn)
    with pk.use(debug=debug):
        assert pk.parallel_reduce(pk.TeamPolicy(37, space="cuda"), sums, x) == 0.0
