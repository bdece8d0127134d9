"""Attacks by Python threads and by signal handlers that launch."""

import contextlib
import os
import signal
import threading
import time

import numpy as np

import portable as pk

from .victims import HOST, add_one, attack, fresh, histogram, interrupts, on, spin, together, value


def _turns(call, n, of, wanted):
    together(*[lambda: [call() for _ in range(n // 4)]] * 4)
    assert (of == wanted).all(), f"{of.min()}..{of.max()}, {wanted} wanted"


@attack(1)
def one_plan_in_four_threads(random, times):
    for _ in range(times):
        space = random.choice(HOST)
        x = np.zeros(random.choice((1, 50, 20_000)))
        _turns(pk.plan(on(space, len(x)), add_one, x), 4000, x, 4000)
    return times


@attack(1)
def one_plan_with_copies_in_four_threads(random, times):
    for _ in range(times):
        x, counts = np.ones(30_000), np.zeros(16)
        plan = pk.plan(
            on(random.choice(("threads:2", "threads:3")), len(x)), histogram, x, pk.ScatterView(counts)
        )
        _turns(plan, 200, counts, 200 * 30_000 / 16)
    return times


@attack(1)
def one_graph_in_four_threads(random, times):
    for _ in range(times):
        x, space = np.zeros(5000), random.choice(HOST)
        with pk.capture(space) as graph:
            pk.parallel_for(on(space, len(x)), add_one, x)
            pk.parallel_for(on(space, len(x)), add_one, x)
        _turns(graph.replay, 1000, x, 2000)
    return times


@attack(1)
def one_kernel_in_many_threads(random, times):
    for _ in range(times):
        kernel, arrays = fresh(random.random()), [np.zeros(2000) for _ in range(16)]
        together(
            *[
                lambda x=x: [pk.parallel_for(on(random.choice(HOST), len(x)), kernel, x) for _ in range(20)]
                for x in arrays
            ]
        )
        assert len({x.tobytes() for x in arrays}) == 1
    return times


@attack(1)
def many_kernels_in_many_threads(random, times):
    for _ in range(times):

        def work(k):
            x = np.zeros(100)
            pk.parallel_for(on("threads:2", len(x)), fresh(k), x)
            assert (x == k).all()

        together(*[lambda k=k: work(k) for k in range(12)])
    return times


@attack(1)
def capture_beside_another_thread(random, times):
    for _ in range(times):
        x, inside, done = np.zeros(10), threading.Event(), threading.Event()

        def other():
            inside.wait()
            pk.parallel_for(on("serial", 10), add_one, x)
            assert pk.parallel_reduce(on("threads:2", 10), value, x) == 10.0
            done.set()

        thread = threading.Thread(target=other)
        thread.start()
        with pk.capture("serial") as graph:
            inside.set()
            assert done.wait(60)
        thread.join()
        assert graph.launches == []
    return times


@attack(1)
def watching_and_listening_beside_another_thread(random, times):
    from portable import testing

    for _ in range(times):
        heard, x, inside, done = [], np.zeros(10), threading.Event(), threading.Event()

        def other():
            inside.wait()
            pk.parallel_for(on("serial", 10), add_one, x)
            done.set()

        thread = threading.Thread(target=other)
        thread.start()
        with testing.watching() as launches, pk.listening(lambda *event: heard.append(event)):
            inside.set()
            assert done.wait(60)
        thread.join()
        assert launches["checked"] == 0 and heard == [] and (x == 1.0).all()
    return times


# ---- signals
@contextlib.contextmanager
def alarms(handler, seconds=0.0007):
    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, seconds, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _handler_launches(random, times, make):
    for _ in range(times):
        space, handled, within = random.choice(HOST), [], []
        x, y = np.zeros(40_000), np.zeros(40_000)
        call, again = make(space, x), make(space, y)

        def handler(*_):
            if len(within) < 3:  # handlers interrupt each other
                within.append(1)
                again()
                handled.append(1)
                within.pop()

        call()
        again()
        x[:], y[:], n = 0.0, 0.0, 0
        with alarms(handler):
            end = time.monotonic() + 30
            while len(handled) < 60 and time.monotonic() < end:
                call()
                n += 1
        assert len(handled) >= 60 and (x == n).all() and (y == len(handled)).all()
    return times


@attack(1)
def handler_that_launches(random, times):
    return _handler_launches(
        random, times, lambda space, x: lambda: pk.parallel_for(on(space, len(x)), add_one, x)
    )


@attack(1)
def handler_that_calls_a_plan(random, times):
    return _handler_launches(random, times, lambda space, x: pk.plan(on(space, len(x)), add_one, x))


@attack(1)
def handler_that_replays_a_graph(random, times):
    def make(space, x):
        with pk.capture(space) as graph:
            pk.parallel_for(on(space, len(x)), add_one, x)
        return graph.replay

    return _handler_launches(random, times, make)


@attack(3)
def handler_of_ctrl_c_that_launches_within_a_kernel(random, times):
    """The handler does not raise: the kernel continues to its correct end."""
    for _ in range(times):
        space, y, handled = random.choice(HOST), np.zeros(30_000), []
        x = np.zeros(64)

        def handler(*_):
            pk.parallel_for(on(space, len(y)), add_one, y)
            handled.append((x == 0.0).all())

        with interrupts(handler):
            pk.parallel_for(on(space, 1), add_one, y)  # compiled: the flag's handler is installed
            pk.parallel_for(on(space, len(x)), spin, np.ones(len(x)))
            pk.plan(on(space, 1), add_one, y)
            y[:] = 0.0

            def press_and_release():
                time.sleep(0.05)
                os.kill(os.getpid(), signal.SIGINT)
                end = time.monotonic() + 60
                while not handled and time.monotonic() < end:
                    time.sleep(0.01)
                x.fill(2.0)

            threading.Thread(target=press_and_release).start()
            pk.parallel_for(on(space, len(x)), spin, x)
        assert handled == [True] and (y == 1.0).all() and (x != 2.0).all(), (space, handled, y, x)
    return times
