"""Step 16: callers of launches: several threads at once, never a kernel, the child of a fork on the CPU."""

import os
import signal
import sys
import threading

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import portable as pk
from portable.core.launch import dispatch
from portable.core.machines.cpu import space as cpu

from ..launching import move
from .test_step13_plan import axpy, content


def test_threads_launch_at_once(space):
    n = 3000 if space != "checked" else 30
    pairs = [(move(np.ones(n), space), move(np.zeros(n), space)) for _ in range(4)]

    def launch(x, y):
        for _ in range(20):
            pk.parallel_for(pk.RangePolicy(0, n, space=space), axpy, 1.0, x, y)

    threads = [threading.Thread(target=launch, args=pair) for pair in pairs]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for _, y in pairs:
        assert_array_equal(content(y), np.full(n, 20.0))


def test_one_policy_again_and_again(space):
    """Facts stored from the previous launch do not outlive a change of the arguments."""
    policy, y = pk.RangePolicy(1, 20, space=space), move(np.zeros(20), space)
    one, two = (move(np.full(20, value), space) for value in (1.0, 2.0))
    added = np.zeros(20)
    for a, x in [
        (1.0, one),
        (2.0, one),
        (3.0, one),
        (4.0, two),
        (5, two),
        (np.float32(6.0), one),
        (7.0, two),
    ]:
        pk.parallel_for(policy, axpy, a, x, y)
        added[1:] += a * content(x)[1:]
        assert_array_equal(content(y), added)
    single = [move(np.ones(20, np.float32), space) for _ in range(2)]
    for _ in range(3):
        pk.parallel_for(policy, axpy, 0.5, *single)
    assert_array_equal(content(single[1])[:2], [1.0, 2.5])
    for _ in range(2):
        with pytest.raises(pk.ShapeError, match="takes 3 argument"):
            pk.parallel_for(policy, axpy, 0.5, one)
        with pytest.raises(pk.DTypeError, match="argument 'a' is 9223372036854775808, beyond int64"):
            pk.parallel_for(policy, axpy, 2**63, one, y)
    with pk.listening(lambda phase, what, launch: heard.append(launch.label)):
        heard = []
        pk.parallel_for(policy, axpy, 1.0, one, y, label="told")
    assert heard == ["told", "told"]


@pk.kernel
def sum_in_scratch(team, n, x, out):
    shelf = team.scratch(n, pk.float64)
    for k in team.thread_range(n):
        shelf[k] = x[team.league_rank, k]
    team.barrier()
    total = 0.0
    for k in team.thread_range(n):
        total += shelf[n - 1 - k]
    total = team.reduce(total)
    if team.single():
        out[team.league_rank] = total * team.league_size


def test_one_policy_of_teams_again_and_again(space):
    """The league size and scratch size belong to the policy, whatever policy the previous launch had."""
    for league, n in [(3, 5), (40, 70), (3, 5)]:
        room = pk.scratch_bytes((n, np.float64))
        policy = pk.TeamPolicy(league, 32, space=space, scratch_bytes=room)
        for value in (1.0, 2.0, 3.0, 4.0):
            x, out = move(np.full((league, n), value), space), move(np.zeros(league), space)
            pk.parallel_for(policy, sum_in_scratch, n, x, out)
            assert_array_equal(content(out), np.full(league, value * n * league))


@pk.kernel
def exponential(i, a, x, y):
    y[i] += pk.exp(a * x[i])


@pytest.mark.parametrize(
    "kernel, n, alone", [(axpy, 16384, True), (axpy, 16385, False), (exponential, 8192, False)]
)
def test_threads_that_do_not_pay_are_not_used(kernel, n, alone):
    policy, x = pk.RangePolicy(0, n, space="threads:16"), np.zeros(n)
    space, policy, _, compiled, _ = dispatch.bind(policy, kernel, (1.0, x, x), ())
    assert cpu._is_alone(space, *cpu._stretch(policy, compiled, space.n_threads)) == alone


@pk.kernel
def double(i, x, y):
    y[i] = x[i] + x[i]


def test_the_same_views_again_and_again(space):
    """A kernel that stores its views detects different ones: other memory, another part of it, another type
    of the same size, arrays, too few."""
    policy = pk.RangePolicy(0, 8, space=space)
    ones, twos, wide = (pk.copy_of(np.full(16, value), space) for value in (1.0, 2.0, 3.0))
    whole = pk.copy_of(np.full(16, 2**52), space)  # int64, as large as the others
    y, other = (pk.copy_of(np.zeros(16), space) for _ in range(2))
    into = pk.copy_of(np.zeros(16, np.int64), space)

    def launched(x, out, value):
        pk.parallel_for(policy, double, x, out)
        assert (out.to_numpy()[:8] == value).all()

    for x, out, value in [
        *[(ones, y, 2.0)] * 4,
        (twos, y, 4.0),
        (ones, y, 2.0),
        (ones, other, 2.0),
        (wide, other, 6.0),
        (whole, into, 2**53),
        (ones, y, 2.0),
    ]:
        launched(x, out, value)
    if ones.memory == "host":
        same = pk.asview(ones.to_numpy().view(np.int64), space=space)
        launched(same, into, 2 * np.float64(1.0).view(np.int64))
        launched(np.full(16, 5.0), y, 10.0)
    launched(ones, y, 2.0)
    launched(wide[8:], y[:8], 6.0)
    with pytest.raises(pk.ShapeError, match="takes 2 argument"):
        pk.parallel_for(policy, double, ones)
    with pytest.raises(pk.DTypeError, match="not a kernel argument"):
        pk.parallel_for(policy, double, ones, "y")
    launched(ones, y, 2.0)
    thread = threading.Thread(target=launched, args=(twos, other, 4.0))
    thread.start()
    thread.join()
    launched(ones, y, 2.0)


@pk.function
def launching(x):
    pk.parallel_for(pk.RangePolicy(0, 1, space="checked"), axpy, 1.0, x, x)
    return 0.0


def test_a_launch_inside_a_kernel_is_refused(space):
    @pk.kernel
    def nested(i, x):
        x[i] = launching(x)

    with pytest.raises(pk.PortableError, match="nested|launching"):  # compiled spaces: no word of kernels
        pk.parallel_for(pk.RangePolicy(0, 1, space=space), nested, move(np.zeros(1), space))


@pk.kernel
def launches(i, x):
    pk.parallel_for(1, axpy, 1.0, x, x)


def test_a_kernel_that_launches_is_refused(space):
    with pytest.raises(pk.LanguageError, match="pk.parallel_for` cannot be called in a kernel"):
        pk.parallel_for(pk.RangePolicy(0, 1, space=space), launches, move(np.zeros(1), space))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
@pytest.mark.parametrize("name", ["serial", "threads"])
def test_the_child_of_a_fork_launches_on_the_cpu(name):
    x, y = np.ones(50_000), np.zeros(50_000)
    policy = pk.RangePolicy(0, len(x), space=name)
    pk.parallel_for(policy, axpy, 1.0, x, y)
    child = os.fork()
    if child == 0:
        pk.parallel_for(policy, axpy, 1.0, x, y)
        os._exit(0 if (y == 2.0).all() else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert (y == 1.0).all()


@pk.kernel
def counted(i, x):
    x[i] += 1.0


def test_calls_of_one_plan_or_graph_take_turns(space):
    n, calls = (50, 200) if space != "checked" else (5, 20)
    x, y = (move(np.zeros(n), space) for _ in range(2))
    policy = pk.RangePolicy(0, n, space=space)
    plan = pk.plan(policy, counted, x)
    with pk.capture(space) as graph:
        pk.parallel_for(policy, counted, y)

    def call():
        for _ in range(calls):
            plan()
            graph.replay()

    threads = [threading.Thread(target=call) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert (content(x) == 4 * calls).all() and (content(y) == 4 * calls).all()


def test_a_capture_and_listeners_belong_to_their_thread(space):
    x, begun, done, heard = move(np.zeros(5), space), threading.Event(), threading.Event(), []

    def other():
        begun.wait()
        pk.parallel_for(pk.RangePolicy(0, 5, space=space), counted, x)
        pk.fence(space)
        done.set()

    thread = threading.Thread(target=other)
    thread.start()
    with pk.listening(lambda *event: heard.append(event)), pk.capture(space) as graph:
        begun.set()
        done.wait()
    thread.join()
    assert (content(x) == 1.0).all() and graph.launches == [] and heard == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
@pytest.mark.parametrize("name", ["serial", "threads", "checked"])
def test_a_fork_while_another_thread_launches_and_compiles(name):
    n, stop = 20_000 if name != "checked" else 20, threading.Event()

    def launch_anew():
        fresh = pk.kernel(counted.fn)  # compiled again
        x = np.zeros(n)
        pk.parallel_for(pk.RangePolicy(0, n, space=name), fresh, x)
        return x

    def launch():
        while not stop.is_set():
            launch_anew()

    thread = threading.Thread(target=launch)
    thread.start()
    try:
        for _ in range(5):
            child = os.fork()
            if child == 0:
                signal.alarm(60)  # a child that hangs ends by this signal, not with status 0
                os._exit(0 if (launch_anew() == 1.0).all() else 1)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        thread.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_fork_while_another_thread_calls_the_same_plan_and_graph():
    x, held, done = np.zeros(50), threading.Event(), threading.Event()
    policy = pk.RangePolicy(0, len(x), space="serial")
    plan = pk.plan(policy, counted, x)
    with pk.capture("serial") as graph:
        pk.parallel_for(policy, counted, x)

    def hold(*_):
        held.set()
        done.wait()

    def call(what):
        with pk.listening(lambda phase, *_: phase == "begin" and hold()):
            what()

    for what in (plan, graph.replay):
        held.clear()
        done.clear()
        thread = threading.Thread(target=call, args=(what,))
        thread.start()
        held.wait()
        child = os.fork()
        if child == 0:
            signal.alarm(20)  # a child that hangs ends by this signal, not with status 0
            what()
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        done.set()
        thread.join()
        assert status == 0


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers here")
@pytest.mark.parametrize("name", ["serial", "threads"])
def test_a_signal_handler_launches(name):
    x, y = np.zeros(60_000), np.zeros(60_000)
    policy, handled = pk.RangePolicy(0, len(x), space=name), []
    pk.parallel_for(policy, counted, y)  # a nested launch cannot import modules that a first one needs
    y[:] = 0.0

    def handler(*_):
        pk.parallel_for(policy, counted, y)
        handled.append(1)

    before = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        n = 0
        while len(handled) < 100:
            pk.parallel_for(policy, counted, x)
            n += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert (x == n).all() and (y == len(handled)).all()


def test_a_python_without_its_lock_is_refused(monkeypatch):
    from portable.core import locks

    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    with pytest.raises(ImportError, match="PYTHON_GIL=1"):
        locks._require_interpreter()


def test_ctrl_c_waits_for_the_end_of_a_compilation():
    from portable.core import locks

    # processes in the background ignore the signal
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            with locks.uninterrupted():
                os.kill(os.getpid(), signal.SIGINT)
                finished = sum(range(1000))
    finally:
        signal.signal(signal.SIGINT, before)
    assert finished == 499500


@pk.kernel
def through_two_names(i, x, y, out):
    for _ in range(x.shape[0]):
        y[i] += x[i]
    out[i] = x[i]


def test_arguments_that_overlap_are_read_anew(space):
    """Code for arrays that do not overlap is not reused for arrays that do, whatever was launched before."""
    block, n, ways = move(np.ones(32), space), 5, [(0, 8), (0, 0), (1, 17), (4, 0), (16, 8)]
    out = move(np.zeros(n), space)
    for x, y in ways + ways[::-1]:
        pk.deep_copy(block, np.ones(32))
        arrays = block[x : x + n], block[y : y + n], out
        pk.parallel_for(pk.RangePolicy(n - 1, n, space=space), through_two_names, *arrays)
        assert content(out)[n - 1] == (2.0**n if x == y else 1.0)
