"""What holds while something is compiled, and what a child of a fork finds."""

import gc
import importlib.util
import os
import signal
import subprocess
import sys
import threading

import llvmlite.binding as llvm
import pytest

from portable import locks


@pytest.mark.parametrize("collects", [True, False])
def test_the_garbage_collector_rests_while_something_is_compiled_and_is_as_before_afterwards(collects):
    was = gc.isenabled()
    (gc.enable if collects else gc.disable)()

    @locks.alone
    def compiled(fails):
        assert not gc.isenabled()
        inner() if fails else None

    @locks.alone
    def inner():
        raise ValueError("refused")

    try:
        compiled(False)
        assert gc.isenabled() == collects
        with pytest.raises(ValueError, match="refused"):
            compiled(True)
        assert gc.isenabled() == collects
    finally:
        (gc.enable if was else gc.disable)()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_child_finds_llvm_free_that_another_thread_was_calling():
    """Threads that let go of kernels call LLVM under the lock of llvmlite, not under that of compilations."""
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
                signal.alarm(20)  # a child that hangs ends by this, and not with 0
                llvm.parse_assembly("define void @g() { ret void }")
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        thread.join()


ASKED = """
import threading, time
from portable import locks
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
        "from portable.backends.cpu import engine, pool; all_made = pool.compiled, engine.past_caches",
        "from portable.numba import threads as numbas; all_made = numbas._asking, numbas._compiled",
    ],
    ids=["cpu", "numba"],
)
def test_threads_that_ask_side_by_side_get_the_same_code(imports):
    """They keep addresses in it, and code that nobody has any more goes: one of four threads whose first
    launches were side by side jumped into memory that had been given back, under Python 3.12 in one of four
    processes (3.11 computes a cached property once for all threads)."""
    if "numba" in imports and importlib.util.find_spec("numba") is None:
        pytest.skip("numba is not installed")
    command = [sys.executable, "-c", ASKED.format(imports=imports)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
