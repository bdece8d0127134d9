"""Step 14: captured launches, replayed as one."""

import threading

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import portable as pk
from portable.core import events
from portable.core.machines.cpu import space as cpu
from portable.errors import DTypeError, InputError, LaunchError

from ..launching import move
from .test_step13_plan import axpy, content, row_sums


@pk.kernel
def value(i, x):
    return x[i]


def arrays(space):
    """Return a length, an array of ones and one of zeros, and one of a single zero."""
    n = 5000 if space != "checked" else 20
    return n, *(move(array, space) for array in (np.ones(n), np.zeros(n), np.zeros(1)))


def test_a_replay_runs_what_was_recorded_so_many_times(space):
    """Replay repeatedly, also a reduction, whose partial results use the same memory in all rounds."""
    n, x, y, total = arrays(space)
    with pk.use(space), pk.capture(times=3) as graph:
        pk.parallel_for(n, axpy, 1.0, x, y)  # y = y + x
        pk.parallel_for(n, axpy, 1.0, y, x)  # x = x + y
        pk.parallel_reduce(n, value, x, out=total)
        pk.parallel_for(1, axpy, 1.0, total, y)  # the first element of y receives the sum
    assert len(graph.launches) == 12
    labels = []
    with pk.listening(lambda phase, what, launch: labels.append(launch.label), into_graphs=True):
        graph.replay()
    assert len(labels) == 24
    graph.replay()
    wanted_x, wanted_y = np.ones(n), np.zeros(n)
    for _ in range(6):
        wanted_y += wanted_x
        wanted_x += wanted_y
        wanted_y[0] += wanted_x.sum()
    assert_array_equal(content(x), wanted_x)
    assert_array_equal(content(y), wanted_y)


def test_graphs_of_one_thread_do_not_wait_for_the_pool(space):
    """Another thread's launch may hold the pool: graphs of "serial", and of launches too small to be divided,
    run nevertheless."""
    if not space.startswith(("serial", "threads")):
        pytest.skip("has no pool")
    x, y = np.ones(9), np.zeros(9)
    with pk.capture(space) as graph:
        pk.parallel_for(pk.RangePolicy(0, 9, space=space), axpy, 1.0, x, y)
    pool = cpu._pool(pk.core.places.space.resolve(space))
    thread = threading.Thread(target=graph.replay, daemon=True)
    with pool.lock:
        thread.start()
        thread.join(60)
        assert not thread.is_alive() and (y == 1.0).all()


@pytest.mark.parametrize("times, error", [(0, InputError), (-1, InputError), (1.5, DTypeError)])
def test_wrong_numbers_of_rounds(times, error):
    with pytest.raises(error, match="capture: times"):
        with pk.capture("serial", times=times):
            pass


def test_teams_and_empty_launches_are_recorded_too(space):
    a, out = move(np.arange(12.0).reshape(3, 4), space), move(np.zeros(3), space)
    with pk.use(space), pk.capture() as graph:
        pk.parallel_for(pk.TeamPolicy(3), row_sums, a, out)
        pk.parallel_for(0, axpy, 1.0, out, out)
        pk.parallel_for(3, axpy, 1.0, out, out)
    graph.replay()
    assert_array_equal(content(out), [12.0, 44.0, 76.0])


def test_reductions_and_scans_are_recorded_when_views_take_their_numbers(space):
    n = 5000 if space != "checked" else 20
    x, y, prefix = (move(np.ones(n), space) for _ in range(3))
    total, last, largest, where = (move(np.zeros(1, t), space) for t in (float, float, float, np.int64))
    with pk.use(space), pk.capture() as graph:
        pk.parallel_for(n, axpy, 1.0, x, y)
        pk.parallel_scan(n, value, y, out=prefix, total=last)
        pk.parallel_reduce(n, value, prefix, out=total)
        pk.parallel_reduce(n, value, prefix, reducer=pk.MaxLoc, out=(largest, where))
    for trip in (2.0, 3.0):
        graph.replay()
        assert content(total)[0] == trip * n * (n + 1) / 2
        assert content(last)[0] == content(largest)[0] == trip * n
        assert content(where)[0] == n - 1


def test_calls_of_plans_and_replays_of_graphs_are_recorded_in_their_turn(space):
    """Record calls in order, also of a plan made in the capture, one of a debug build, and a graph of two
    rounds.
    """
    n, x, y, total = arrays(space)
    with pk.use(space):
        plan = pk.plan(n, axpy, 1.0, x, y)  # y = y + x
        with pk.use(debug=True):
            looked = pk.plan(n, axpy, 2.0, x, y)
        with pk.capture(times=2) as inner:
            pk.parallel_for(n, axpy, 1.0, y, x)  # x = x + y
            pk.parallel_reduce(n, value, x, out=total)
        heard = []
        with pk.listening(lambda *event: heard.append(event)), pk.capture() as graph:
            plan()
            inner.replay()
            pk.plan(1, axpy, 10.0, total, total)()
            plan()
            looked()
            with pk.use(debug=True):
                looked()
    assert heard == [] and len(graph.launches) == 9
    assert (content(x) == 1.0).all() and (content(y) == 0.0).all() and content(total)[0] == 0.0
    for graph_of in (graph, inner):  # the inner one is unchanged
        graph_of.replay()
    assert (content(y) == 1.0 + 3.0 + 6.0 + 6.0).all() and (content(x) == 3.0 + 2.0 * 16.0).all()
    assert content(total)[0] == n * 35.0


def test_a_plan_of_another_space_is_refused_as_its_launch_would_be():
    x, y = np.ones(9), np.zeros(9)
    plan = pk.plan(pk.RangePolicy(0, 9, space="serial"), axpy, 1.0, x, y)
    with pk.capture("serial") as graph:
        plan()
    for call in (plan, graph.replay):
        with pytest.raises(LaunchError, match="'axpy' runs on 'serial', but this capture records.*'threads"):
            with pk.capture("threads:2"):
                call()
    assert (y == 0.0).all()


@pk.function
def square(x):
    return x * x


def test_what_runs_at_once_is_refused():
    x, y = np.ones(9), np.zeros(9)
    for call in (
        lambda: pk.count(pk.RangePolicy(0, 9, space="serial"), axpy, 1.0, x, y),
        lambda: pk.random.normal(1, np.arange(5), 0),
        lambda: pk.derivative(square, "x")(1.0),
    ):
        with pytest.raises(LaunchError, match="cannot be recorded"), pk.capture("serial"):
            call()
    assert (y == 0.0).all()


def test_an_empty_capture_replays_nothing(space):
    with pk.capture(space) as graph:
        pass
    graph.replay()


def test_a_listener_may_hear_of_each_launch_of_a_graph(space):
    """Listeners receive each launch in the space that recorded it, whichever is the default at the replay;
    other listeners receive the same calls.
    """
    n = 50 if space != "checked" else 9
    x, y, total, heard, others = (
        move(np.ones(n), space),
        move(np.zeros(n), space),
        move(np.zeros(1), space),
        [],
        [],
    )
    with pk.use(space), pk.capture() as graph:
        pk.parallel_for(n, axpy, 1.0, x, y)
        pk.parallel_reduce(n, value, y, out=total, label="sum")
    with pk.listening(lambda phase, what, launch: others.append(launch.label)):
        with pk.listening(lambda phase, what, launch: heard.append((phase, launch.label)), into_graphs=True):
            graph.replay()
        assert (
            heard == [("begin", "axpy"), ("end", "axpy"), ("begin", "sum"), ("end", "sum")]
            and len(others) == 4
        )
        graph.replay()
    assert len(heard) == 4 and len(others) == 6 and content(total)[0] == 2.0 * n


def test_what_cannot_be_recorded_is_refused(space):
    x = move(np.ones(9))
    for call, word in [
        (lambda: pk.parallel_reduce(9, value, x), "returns a number"),
        (lambda: pk.parallel_scan(9, value, x, out=x), "returns a number"),
        (lambda: pk.zeros(3), "allocation"),
        (lambda: pk.deep_copy(x, 1.0), "copy"),
        (lambda: pk.capture(space).__enter__(), "nest"),
    ]:
        with pytest.raises(LaunchError, match=word), pk.capture(space):
            call()
    assert events.current() is events.NONE


def test_another_space_is_refused():
    x = np.ones(9)
    with pytest.raises(LaunchError, match="serial"), pk.capture("threads"):
        pk.parallel_for(pk.RangePolicy(0, 9, space="serial"), axpy, 1.0, x, x)


@pk.kernel
def mixed(i, k, a, x):
    x[i] += a * k


@pk.kernel
def scaled(i, k, x):
    return k * x[i]


@pk.kernel
def of_teams(team, k, out):
    if team.single():
        out[team.league_rank] += k


def test_numbers_of_a_graph_change_for_one_run(space):
    """Change numbers in launches of every pattern. Numbers that are not given, and a replay after it, have
    the recorded values; a graph that is called within a capture is recorded with its numbers."""
    n = 5000 if space != "checked" else 20
    x, prefix, teams = (move(np.zeros(m, "f4"), space) for m in (n, n, 3))
    total, last = move(np.zeros(1, "f4"), space), move(np.zeros(1, "f4"), space)
    with pk.use(space), pk.capture() as graph:
        pk.parallel_for(n, mixed, 2, 0.5, x)
        pk.parallel_reduce(n, scaled, 2, x, out=total)
        pk.parallel_scan(n, scaled, 2, x, out=prefix, total=last)
        pk.parallel_for(pk.TeamPolicy(3), of_teams, np.int64(2), teams)
    with pk.use(space), pk.capture(times=2) as outer:
        graph(k=3, a=0.25)
        graph(k=4)
    state = np.zeros(2)  # expected elements of x and of teams
    for call, steps in [
        (lambda: graph(k=3, a=0.25), [(3, 0.25)]),
        (lambda: graph(k=np.int32(5)), [(5, 0.5)]),
        (graph.replay, [(2, 0.5)]),
        (lambda: graph(a=7), [(2, 7.0)]),
        (outer.replay, [(3, 0.25), (4, 0.5)] * 2),
        (lambda: outer(k=6), [(6, 0.25), (6, 0.5)] * 2),
        (graph, [(2, 0.5)]),
    ]:
        call()
        state += sum(a * k for k, a in steps), sum(k for k, _ in steps)
        k = steps[-1][0]
        assert set(content(x)) == {state[0]} and set(content(teams)) == {state[1]}
        assert content(total)[0] == content(last)[0] == content(prefix)[-1] == k * n * state[0]


def test_numbers_of_a_graph_are_of_the_type_that_was_recorded(space):
    x, heard = move(np.zeros(3, "f4"), space), []
    with pk.use(space), pk.capture() as graph:
        pk.parallel_for(3, mixed, 1, 0.5, x)
    graph(a=0.1)
    assert content(x)[0] == np.float32(0.1)
    with pk.listening(lambda phase, what, launch: heard.append(launch.args[:2])):
        graph(k=4)
    assert heard == [(4, 0.5)] * 2 and content(x)[0] == np.float32(0.1) + np.float32(2.0)
    for numbers, error, text in [
        ({"k": 1.5}, DTypeError, "graph: k is 1.5; 'mixed' was recorded with another type"),
        ({"k": 2**63}, DTypeError, "k is 9223372036854775808"),
        ({"b": 1, "x": 2}, InputError, "takes a number b, x; expected a, k"),
    ]:
        with pytest.raises(error, match=text):
            graph(**numbers)
    graph(a=0.0)
    assert content(x)[0] == np.float32(0.1) + np.float32(2.0)
    with pytest.raises(LaunchError, match="has not ended"), pk.capture(space) as open_graph:
        open_graph(k=1)
