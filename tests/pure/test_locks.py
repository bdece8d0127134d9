"""Test the locks that are held while code is compiled, and their state in a child of a fork."""

import _thread
import gc
import importlib.util
import math
import operator
import os
import signal
import subprocess
import sys
import threading

import llvmlite.binding as llvm
import pytest

import portable as pk
from portable.core import locks
from portable.core.language import frontend
from portable.core.machines.cpu.pool import Pool


@locks.compile_alone
def compiled(meanwhile):
    """Compile, with another compilation that ends within it, and a call."""
    inner(lambda: None)
    assert gc.get_threshold()[0] > 1 << 30
    meanwhile()


inner = locks.compile_alone(lambda meanwhile: meanwhile())


@pytest.fixture
def collector():
    on, thresholds = gc.isenabled(), gc.get_threshold()
    yield
    (gc.enable if on else gc.disable)()
    gc.set_threshold(*thresholds)


@pytest.mark.parametrize("first", [700, 0, 3])
def test_the_garbage_collector_rests_while_something_is_compiled_and_is_as_before_afterwards(
    collector, first
):
    gc.set_threshold(first, 11, 12)

    def fails():
        raise ValueError("refused")

    compiled(lambda: None)
    assert gc.get_threshold()[:2] == (first, 11)
    with pytest.raises(ValueError, match="refused"):
        compiled(fails)
    assert gc.get_threshold()[:2] == (first, 11)


@pytest.mark.parametrize("set_it", [gc.disable, gc.enable, lambda: gc.set_threshold(5, 6)])
def test_what_another_thread_says_to_the_collector_meanwhile_stays(collector, set_it):
    (gc.enable if set_it is gc.disable else gc.disable)()

    def meanwhile():
        thread = threading.Thread(target=set_it)
        thread.start()
        thread.join()
        wanted.append(
            (gc.isenabled(), gc.get_threshold()[0] if set_it not in (gc.disable, gc.enable) else 700)
        )

    wanted = []
    gc.set_threshold(700)
    compiled(meanwhile)
    assert [(gc.isenabled(), gc.get_threshold()[0])] == wanted
    assert wanted[0] == ((set_it is gc.enable), 5 if set_it not in (gc.disable, gc.enable) else 700)


HANDLER = """
import os, signal, sys, threading, time
import numpy as np, portable as pk
import portable as pk
from portable.core import locks

locks.SLOW = 999.0

@pk.kernel
def count_up(i, x): x[i] += 1.0

def launches(space="serial"):
    x = np.zeros(3)
    pk.parallel_for(pk.RangePolicy(0, 3, space=space), count_up, x)
    assert x.tolist() == [1.0] * 3

def child_of(handler):
    pid = os.fork()
    if pid:
        assert os.waitpid(pid, 0)[1] == 0, handler
        return
    signal.alarm(60)
    if handler == "launches":
        launches(), launches("threads:2")
        os._exit(0)
    born.append(1)  # and goes on where the signal has interrupted it

born = []
@locks.compile_alone
def compiled(handler):
    signal.signal(signal.SIGUSR1, lambda *_: child_of(handler))
    locks.compile_alone(os.kill)(os.getpid(), signal.SIGUSR1)

compiled(HANDLER)
launches(), launches("threads:2")
os._exit(0) if born else print("held")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("handler", ["launches", "returns"])
def test_a_signal_handler_forks_while_something_is_compiled(handler, tmp_path):
    """Locks held by the thread that forks are held by it in the child, too: the compilation ends there."""
    program = tmp_path / "program.py"
    program.write_text(HANDLER.replace("HANDLER", repr(handler)))
    command = [sys.executable, "-W", "ignore", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (0, "held\n", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_child_finds_llvm_free_that_another_thread_was_calling():
    """Threads that drop kernels call LLVM under the lock of llvmlite, not under that of compilations."""
    stop = threading.Event()

    def call():
        while not stop.is_set():
            llvm.parse_assembly("define void @f() { ret void }").verify()

    thread = threading.Thread(target=call)
    thread.start()
    try:
        for _ in range(8):
            child = os.fork()
            if child == 0:
                signal.alarm(20)  # a child that hangs ends by this signal, not with status 0
                llvm.parse_assembly("define void @g() { ret void }")
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        thread.join()


ASKED = """
import threading, time
import portable as pk
from portable.core import locks
{imports}
for made in all_made:
    given = []
    threads = [threading.Thread(target=lambda: given.append(made())) for _ in range(3)]
    with locks.compiling:
        for thread in threads:
            thread.start()
        while made.cache_info().misses < 3:  # all of them are on their way
            time.sleep(0.001)
    for thread in threads:
        thread.join()
    assert len(given) == 3 and all(one is given[0] for one in given), (made, given)
"""


@pytest.mark.parametrize(
    "imports",
    [
        "from portable.core.machines.cpu import pool; all_made = pool.compiled, pool.copies",
        "from portable.numba import threads as numbas; all_made = numbas._asking, numbas._compiled",
    ],
)
def test_threads_that_ask_side_by_side_get_the_same_code(imports):
    """Threads store addresses in the code, and code without references is freed: one of four threads that
    launched for the first time at once jumped into freed memory, under Python 3.12 in one of four
    processes (3.11 computes a cached property once for all threads)."""
    if "numba" in imports and importlib.util.find_spec("numba") is None:
        pytest.skip("numba is not installed")
    command = [sys.executable, "-c", ASKED.format(imports=imports)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr


def kept_function():
    def f(i, x):
        pass

    frontend.keep(f, ["def f(i, x):"])
    frontend.scope_of(f)
    return f


@pytest.mark.parametrize("made", [locks.Lock, kept_function, lambda: Pool(2)])
def test_ctrl_c_is_not_lost_where_something_is_dropped(made):
    """An exception in a callback of a weak reference is ignored; here only C code runs from the signal to the
    end.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    dropped = [made()]
    try:
        with pytest.raises(KeyboardInterrupt):
            list(map(operator.methodcaller("__call__"), (_thread.interrupt_main, dropped.clear)))
    finally:
        signal.signal(signal.SIGINT, before)
    assert not dropped


def sum_of(n):
    @pk.function
    def summed(x):
        total = 0.0
        for j in range(n):
            total += math.sin(x * j) if x > 0.5 else x * j
        return total

    return summed


def test_threads_read_sources_at_once():
    """Readers share the builder of the tree that they build."""
    found, before = {}, sys.getswitchinterval()

    def work(n):
        found[n] = pk.derivative(sum_of(n), "x")(0.7)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(2, 12)]
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert {n: round(one, 9) for n, one in found.items()} == {
        n: round(sum(j * math.cos(0.7 * j) for j in range(n)), 9) for n in range(2, 12)
    }
