"""Definitions shared by attacks: their table, kernels, and a test that a process is usable."""

import concurrent.futures
import contextlib
import os
import signal
import threading
import time

import numpy as np

import portable as pk

ATTACKS = {}  # name: (function, how often in CI)
HOST = ("serial", "threads", "threads:2", "threads:4")


def attack(times):
    """Register a function in the table; `times`: number of tries in CI."""

    def put(f):
        ATTACKS[f.__name__] = f, times
        return f

    return put


@pk.kernel
def add_one(i, x):
    x[i] += 1.0


@pk.kernel
def value(i, x):
    return x[i]


@pk.kernel
def histogram(i, x, counts):
    pk.atomic_add(counts, i % len(counts), x[i])


@pk.kernel
def slow(i, x, n):
    s = 0.0
    for j in range(n):
        s = s * 0.5 + j
    x[i] += 1.0 + 0.0 * s


@pk.kernel
def spin(i, x):
    n = 0
    while x[i] < 1.0:
        n += 1
    x[i] = n


@pk.kernel(packed=False)
def spin_alone(i, x):
    n = 0
    while x[i] < 1.0:
        n += 1
    x[i] = n


@pk.kernel
def spin_first(i, x):  # one index only: the threads of the others wait for work
    n = 0
    while i == 0 and x[i] < 1.0:
        n += 1


@pk.kernel
def spin_last(i, x):
    n = 0
    while i == len(x) - 1 and x[i] < 1.0:
        n += 1


@pk.kernel
def long_range(i, x):
    for j in range(1 << 60):
        x[i] += 1e-300


@pk.kernel
def long_nest(i, x):
    for k in range(3):
        for j in range(1 << 60):
            x[i] += 1e-300 * k


@pk.kernel
def spin_sum(i, x):
    while x[i] < 1.0:
        pass
    return x[i]


@pk.kernel
def spin_team(team, x):
    n = 0
    while x[team.league_rank] < 1.0:
        n += 1
    x[team.league_rank] = n


@pk.kernel
def members(team, x):
    for j in team.thread_range(1 << 60):
        x[0] = j * 1.0


@pk.kernel
def spin_box(i, j, x):
    while x[i, j] < 1.0:
        pass


@pk.kernel
def last_wins(i, x):
    x[0] = i * 1.0


@pk.kernel
def last_of_box(i, j, x):
    x[0] = i * 1.0 + j


@pk.kernel
def count_up(i, x):
    return 1


@pk.function
def until(x, i):
    while x[i] < 1.0:
        pass
    return x[i]


@pk.kernel
def spin_within(i, x):
    x[i] = until(x, i)


@pk.kernel
def many_draws(i, x):
    s = 0.0
    for j in range(1 << 60):
        s += pk.random.uniform(1, i, j)
    x[i] = s


def fresh(n):
    """Return a kernel that has not been compiled before."""
    namespace = {"pk": pk, "SHIFT": float(n)}

    def shifted(i, x):
        x[i] += SHIFT  # noqa: F821

    return pk.kernel(type(shifted)(shifted.__code__, namespace, "shifted"))


def on(space, n):
    return pk.RangePolicy(0, n, space=space)


def usable():
    """Check that the process launches as before, on all host spaces."""
    for space in ("serial", "threads:2", "checked"):
        x = np.ones(1000 if space != "checked" else 10)
        pk.parallel_for(on(space, len(x)), add_one, x)
        assert (x == 2.0).all(), space
        assert pk.parallel_reduce(on(space, len(x)), value, x) == 2.0 * len(x)


def together(*calls):
    """Run functions in threads; raise the first error of one."""
    with concurrent.futures.ThreadPoolExecutor(len(calls)) as pool:
        for done in [pool.submit(call) for call in calls]:
            done.result(120)


@contextlib.contextmanager
def interrupts(handler=signal.default_int_handler):
    """Install a handler of Ctrl-C: background processes ignore the signal."""
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def stopped(call, kind=KeyboardInterrupt):
    """Return the seconds from Ctrl-C to the exception of a launch.

    On a busy machine Ctrl-C may arrive before the kernel runs; then the exception lacks the note on
    half-written arrays, and the call is repeated with a later Ctrl-C.
    """
    for after in (0.05, 0.5, 5.0):
        sent = []

        def send(sent=sent):
            sent.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

        timer = threading.Timer(after, send)
        timer.start()
        try:
            call()
        except kind as error:
            seconds = time.monotonic() - sent[0]
            if kind is not KeyboardInterrupt or any(
                "half written" in note for note in getattr(error, "__notes__", ())
            ):
                return seconds
        else:
            raise AssertionError("not interrupted")
        finally:
            timer.cancel()
    raise AssertionError("nobody says that arrays may be half written")
