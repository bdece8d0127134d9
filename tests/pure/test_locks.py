"""What holds while something is compiled, and what a child of a fork finds."""

import gc
import os
import signal
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
        for _ in range(30):
            child = os.fork()
            if child == 0:
                signal.alarm(20)  # a child that hangs ends by this, and not with 0
                llvm.parse_assembly("define void @g() { ret void }")
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        thread.join()
