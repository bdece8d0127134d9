"""Attacks by Ctrl-C: in kernels of each kind, many in succession, while kernels compile, while other threads
launch.
"""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np

import portable as pk

from .victims import (
    HOST,
    attack,
    count_up,
    fresh,
    interrupts,
    last_of_box,
    last_wins,
    long_nest,
    long_range,
    many_draws,
    members,
    on,
    slow,
    spin,
    spin_alone,
    spin_box,
    spin_first,
    spin_last,
    spin_sum,
    spin_team,
    spin_within,
    stopped,
    usable,
)


def endless():
    """Yield (name, function of a space that makes a launch without end)."""

    def range_of(kernel, n):
        return lambda space: lambda: pk.parallel_for(on(space, n), kernel, np.zeros(min(n, 1 << 16)))

    def graph_of(space):
        x = np.zeros(64)
        with pk.capture(space) as graph:
            pk.parallel_for(on(space, 64), spin, x)
            pk.parallel_for(on(space, 64), spin, x)
        return graph.replay

    def scanned(space):
        x = np.zeros(64)
        return lambda: pk.parallel_scan(on(space, 64), spin_sum, x, out=np.zeros(64))

    yield "while", range_of(spin, 64)
    yield "while, one index", range_of(spin, 1)
    yield "while, packed=False", range_of(spin_alone, 64)
    yield "the first of many", range_of(spin_first, 1 << 16)
    yield "the last of many", range_of(spin_last, 1 << 16)
    yield "for", range_of(long_range, 64)
    yield "for in for", range_of(long_nest, 64)
    yield "in a function", range_of(spin_within, 64)
    yield "draws", range_of(many_draws, 64)
    yield "no loop", range_of(last_wins, 1 << 45)
    yield (
        "box",
        lambda space: (
            lambda: pk.parallel_for(pk.MDRangePolicy((0, 0), (9, 9), space=space), spin_box, np.zeros((9, 9)))
        ),
    )
    yield (
        "box, no loop",
        lambda space: (
            lambda: pk.parallel_for(
                pk.MDRangePolicy((0, 0), (1 << 22, 1 << 22), space=space), last_of_box, np.zeros(1)
            )
        ),
    )
    yield (
        "box, one long row",
        lambda space: (
            lambda: pk.parallel_for(
                pk.MDRangePolicy((0, 0), (1, 1 << 45), space=space), last_of_box, np.zeros(1)
            )
        ),
    )
    yield "reduction", lambda space: lambda: pk.parallel_reduce(on(space, 64), spin_sum, np.zeros(64))
    yield (
        "reduction, no loop",
        lambda space: lambda: pk.parallel_reduce(on(space, 1 << 45), count_up, np.zeros(1), reducer=pk.Max),
    )
    yield "scan", scanned
    yield (
        "team",
        lambda space: lambda: pk.parallel_for(pk.TeamPolicy(64, 8, space=space), spin_team, np.zeros(64)),
    )
    yield (
        "members",
        lambda space: lambda: pk.parallel_for(pk.TeamPolicy(8, 8, space=space), members, np.zeros(8)),
    )
    yield "plan", lambda space: pk.plan(on(space, 64), spin, np.zeros(64))
    yield "graph", graph_of


@attack(1)
def ctrl_c_in_each_kind_of_kernel(random, times):
    """Measure median and longest time; half a second is allowed for a machine with other load."""
    took = []
    with interrupts():
        for _ in range(times):
            for name, make in endless():
                for space in ("serial", "threads:2", "threads:4"):
                    call = make(space)
                    with contextlib.suppress(AssertionError):
                        stopped(call)  # compiled by now: Ctrl-C may have waited for that
                    seconds = stopped(call)
                    took.append(seconds)
                    assert seconds < 2.0, f"{name} on {space}: {seconds:.3f} s"
                    usable()
    print(
        f"  {len(took)} kernels stopped, median {1e3 * np.median(took):.1f} ms, "
        f"longest {1e3 * max(took):.1f} ms"
    )
    return len(took)


class Mine(Exception):
    pass


@attack(2)
def ctrl_c_with_a_handler_that_raises_its_own(random, times):
    def handler(*_):
        raise Mine

    for _ in range(times):
        space = random.choice(HOST)
        with interrupts(handler):
            call = pk.plan(on(space, 64), spin, np.zeros(64))
            stopped(call, Mine)
        usable()
    return times


class _Rain:
    """Sender of Ctrl-C again and again. The handler raises only while `open` is set, and once: a
    KeyboardInterrupt in the harness itself would end the test.

    Attributes
    ----------
    raised, missed : int, number of exceptions raised, and number of those that a launch has lost
    """

    def __init__(self, pause):
        self.pause, self.open, self.raised, self.missed = pause, False, 0, 0

    def _handler(self, *_):
        if self.open:
            self.open = False
            self.raised += 1
            raise KeyboardInterrupt

    def _fall(self, stop, pid):
        while not stop.wait(self.pause()):
            os.kill(pid, signal.SIGINT)

    @contextlib.contextmanager
    def falling(self):
        stop = threading.Event()
        thread = threading.Thread(target=self._fall, args=(stop, os.getpid()))
        with interrupts(self._handler):
            thread.start()
            try:
                yield self
            finally:
                self.open = False
                stop.set()
                thread.join()
            time.sleep(0.01)

    def on(self, launch):
        """Return True if a launch raised KeyboardInterrupt."""
        before = self.raised
        try:
            self.open = True
            launch()
            for _ in range(1000):  # Python raises a pending exception between two instructions
                pass
            self.open = False
        except KeyboardInterrupt:
            assert self.raised == before + 1, (
                "KeyboardInterrupt, which the handler did not raise: the layer's"
            )
            return True
        self.missed += self.raised - before
        return False


@attack(100)
def ctrl_c_in_a_rain(random, times):
    """Interrupt short launches: a launch either raises or is complete, and no exception of the handler is
    lost.
    """
    x, complete = np.zeros(100_000), 0
    for space in HOST:  # compiled beforehand: a compilation would not end during the signals
        pk.parallel_for(on(space, len(x)), slow, x, 10)
    with _Rain(lambda: 0.04 * random.random()).falling() as rain:
        while rain.raised < times:
            x[:] = 0.0
            space = HOST[rain.raised % 4]
            if not rain.on(lambda: pk.parallel_for(on(space, len(x)), slow, x, 10)):  # noqa: B023
                assert (x == 1.0).all(), f"cut short without a word, on {space}: the launch's"
                complete += 1
    assert not rain.missed, (
        f"the handler raised {rain.raised} times, {rain.missed} did not arrive: the layer's"
    )
    usable()
    print(f"  {rain.raised} interrupted, {complete} complete")
    return rain.raised


@attack(15)
def ctrl_c_while_kernels_compile(random, times):
    n = 0
    with _Rain(lambda: 0.001 + 0.03 * random.random()).falling() as rain:
        while rain.raised < times:
            n, x = n + 1, np.zeros(100)
            kernel = fresh(random.random() if n % 2 else n)
            rain.on(lambda: pk.parallel_for(on("threads:2", 100), kernel, x))  # noqa: B023
    assert not rain.missed, (
        f"the handler raised {rain.raised} times, {rain.missed} did not arrive: the layer's"
    )
    usable()
    return rain.raised


_LONG = """
import importlib, pathlib
from tests.hostile.victims import *
pathlib.Path("long_text.py").write_text(
    "import portable as pk\\n\\n@pk.kernel\\ndef long(i, x):\\n    s = 0.0\\n"
    + "".join(f"    s = s * 0.5 + x[i] * {k}.0\\n" for k in range(4000)) + "    x[i] = s\\n")
sys.path.insert(0, ".")
usable()
heard = []
signal.signal(signal.SIGINT, HANDLER)
print("ready", flush=True)
x = np.ones(9)
try:
    pk.parallel_for(on("serial", 9), importlib.import_module("long_text").long, x)
except KeyboardInterrupt:
    print("interrupted", flush=True)
usable()
print("heard", len(heard), x[0] != 1.0, flush=True)
"""


def _long(handler, presses, folder):
    """Run a process that compiles a long source, with Ctrl-C `presses` seconds after its note that this takes
    long; return its exit status, its output, and the seconds since that note."""
    command = [sys.executable, "-c", "import os, signal, sys\n" + _LONG.replace("HANDLER", handler)]
    settings = {**os.environ, "PORTABLE_CACHE": "0", "PYTHONPATH": os.pathsep.join(sys.path)}
    pipes = dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder, env=settings)
    with subprocess.Popen(command, **pipes) as process:
        try:
            assert process.stdout.readline() == "ready\n", process.stderr.read()
            line = process.stderr.readline()
            assert "kernel 'long' takes long to compile" in line, line
            begun = time.monotonic()
            for after in presses:
                time.sleep(after)
                process.send_signal(signal.SIGINT)
            told, wrong = process.communicate(timeout=600)
        except BaseException:
            process.kill()
            raise
    assert "takes long" not in wrong, "told twice"
    return process.returncode, told, time.monotonic() - begun


@attack(1)
def ctrl_c_while_a_long_text_compiles(random, times):
    """The first Ctrl-C is handled between two parts of the compilation; the second ends the process wherever
    it is.
    """
    raises, notes = "signal.default_int_handler", "lambda *_: heard.append(1)"
    for _ in range(times):
        with tempfile.TemporaryDirectory() as folder:
            code, told, one = _long(raises, [random.random()], folder)
            assert (code, told) == (0, "interrupted\nheard 0 False\n"), (code, told)
            code, told, whole = _long(notes, [random.random()], folder)
            assert (code, told) == (0, "heard 1 True\n"), (code, told)
            code, told, two = _long(raises, [random.random(), 0.05], folder)
            if (code, told) != (0, "interrupted\nheard 0 False\n"):  # the first was handled within 0.05 s
                assert (code, told) == (-signal.SIGINT, ""), (code, told)
            print(f"  of {whole:.1f} s: one ended it after {one:.1f} s, two after {two:.1f} s")
    return times


@attack(1)
def ctrl_c_leaves_nothing_in_copies(random, times):
    """A stopped plan or graph with a ScatterView adds correctly at the next call."""

    @pk.kernel
    def scattered(i, x, counts):
        pk.atomic_add(counts, i % 16, 1.0)
        while x[0] < 1.0:
            pass

    for _ in range(times):
        x, counts = np.zeros(1), np.zeros(16)
        policy = pk.RangePolicy(0, 1600, space="threads:2", chunk=16)
        with interrupts():
            plan = pk.plan(policy, scattered, x, pk.ScatterView(counts))
            with pk.capture("threads:2") as graph:
                pk.parallel_for(policy, scattered, x, pk.ScatterView(counts))
            for call in (plan, graph.replay):
                x[:] = 0.0
                stopped(call)
                x[:], counts[:] = 1.0, 0.0
                call()
                assert (counts == 100.0).all(), counts
    return times


@attack(1)
def ctrl_c_beside_another_threads_kernel(random, times):
    """Only the main thread handles Python's signals: a kernel of another thread continues to its correct
    end."""
    for _ in range(times):
        x, z, space = np.zeros(64), np.zeros(64), random.choice(HOST)
        other = "serial" if random.random() < 0.5 else "threads:3"
        pk.parallel_for(on(other, 64), spin, np.ones(64))
        with interrupts():
            pk.plan(on(space, 64), spin, np.ones(64))
            thread = threading.Thread(target=lambda: pk.parallel_for(on(other, 64), spin, z))
            thread.start()
            assert stopped(lambda: pk.parallel_for(on(space, 64), spin, x)) < 2.0
            time.sleep(0.2)
            assert thread.is_alive() and (z == 0.0).all()
            z[:] = 2.0
            thread.join(60)
            assert not thread.is_alive() and (z != 2.0).all()
    return times
