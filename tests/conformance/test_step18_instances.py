"""Step 18, instances: kernels in several queues of one space, dependences between queues, and permission to
request a queue."""

import dataclasses
import threading

import numpy as np
import pytest
from numpy.testing import assert_allclose

import portable as pk
from portable.errors import InputError
from portable.core.places.space import resolve

from ..launching import move
from .test_step13_plan import content


@pk.kernel
def iterate(i, n_steps, x):
    v = x[i]
    for _ in range(n_steps):
        v = v * 0.75 + 1.0
    x[i] = v


@pk.kernel
def add(i, x, y):
    y[i] += x[i]


@pk.kernel
def entry(i, x):
    return x[i]


def stepped(x, n_steps):
    for _ in range(n_steps):
        x = x * 0.75 + 1.0
    return x


def size(space):
    return (20, 3) if space == "checked" else (20_000, 200)


def test_kernels_in_two_queues(space):
    """Queues are filled in turn; each runs its launches in order, independently of the other."""
    n, n_steps = size(space)
    queues = pk.instances(space, 2)
    starts = [np.arange(n) * 1.0, np.arange(n) * -2.0]
    views = [move(start, space) for start in starts]
    for _ in range(4):
        for queue, view in zip(queues, views):
            pk.parallel_for(pk.RangePolicy(0, n, space=queue), iterate, n_steps, view)
    for queue, view, start in zip(queues, views, starts):
        pk.fence(queue)
        assert_allclose(content(view), stepped(start, 4 * n_steps), rtol=1e-12)


def test_a_fence_orders_two_queues(space):
    n, n_steps = size(space)
    first, second = pk.instances(space, 2)
    x, y = move(np.ones(n), space), move(np.zeros(n), space)
    for _ in range(3):
        pk.parallel_for(pk.RangePolicy(0, n, space=first), iterate, n_steps, x)
        pk.fence(first)
        pk.parallel_for(pk.RangePolicy(0, n, space=second), add, x, y)
        pk.fence(second)
    one = np.ones(n)
    wanted = sum(stepped(one, k * n_steps) for k in (1, 2, 3))
    assert_allclose(content(y), wanted, rtol=1e-12)


def test_reductions_scans_plans_and_graphs_in_a_queue(space):
    n, n_steps = size(space)
    (queue,) = pk.instances(space, 1)
    x, out = move(np.ones(n), space), move(np.zeros(n), space)
    policy = pk.RangePolicy(0, n, space=queue)
    pk.plan(policy, iterate, n_steps, x)()
    assert pk.parallel_reduce(policy, entry, x) == pytest.approx(n * stepped(1.0, n_steps))
    assert pk.parallel_scan(policy, entry, x, out=out) == pytest.approx(n * stepped(1.0, n_steps))
    with pk.capture(queue) as graph:
        pk.parallel_for(policy, add, x, out)
    graph.replay()
    pk.fence(queue)
    assert content(out)[0] == pytest.approx(2 * stepped(1.0, n_steps))


def test_two_python_threads_with_a_queue_each(space):
    n, n_steps = size(space)
    views = [move(np.ones(n), space) for _ in range(2)]
    totals = [None, None]

    def work(k, queue):
        policy = pk.RangePolicy(0, n, space=queue)
        for _ in range(5):
            pk.parallel_for(policy, iterate, n_steps + k, views[k])
        totals[k] = pk.parallel_reduce(policy, entry, views[k])

    threads = [threading.Thread(target=work, args=pair) for pair in enumerate(pk.instances(space, 2))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert totals == [pytest.approx(n * stepped(1.0, 5 * (n_steps + k))) for k in range(2)]


def test_queues_are_of_the_space(space):
    a, b = pk.instances(space, 2)
    assert a.memory == b.memory == resolve(space).memory
    assert (a != b) == space.startswith("cuda")
    assert dataclasses.replace(a, stream=0) == resolve(space)


def test_how_many():
    with pytest.raises(InputError, match="instances: n is 0; expected at least 1"):
        pk.instances("serial", 0)


def test_listeners_hear_of_each_launch(space):
    heard = []
    x = move(np.ones(3), space)
    with pk.listening(lambda phase, what, launch: heard.append((phase, what, launch.label))):
        pk.parallel_for(pk.RangePolicy(0, 3, space=space), iterate, 1, x, label="mine")
        pk.parallel_reduce(pk.RangePolicy(0, 3, space=space), entry, x)
    pk.parallel_for(pk.RangePolicy(0, 3, space=space), iterate, 1, x)
    assert heard == [
        ("begin", "kernel", "mine"),
        ("end", "kernel", "mine"),
        ("begin", "kernel", "entry"),
        ("end", "kernel", "entry"),
    ]


def test_a_number_of_threads_in_a_name():
    assert resolve("threads:3") == pk.Threads(3) and resolve("threads:3").n_threads == 3
    assert resolve(str(pk.Threads(64))) == pk.Threads(64)
