"""Step 16: who may launch: several threads at once, a kernel never, the child of a fork on the CPU."""
import os
import threading

import numpy as np
import pytest

import portable as pk
from portable.errors import NestedLaunchError

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
        np.testing.assert_array_equal(content(y), np.full(n, 20.0))


@pk.function
def launching(x):
    pk.parallel_for(pk.RangePolicy(0, 1, space="checked"), axpy, 1.0, x, x)
    return 0.0


def test_a_launch_inside_a_kernel_is_refused(space):
    @pk.kernel
    def nested(i, x):
        x[i] = launching(x)

    with pytest.raises(pk.PortableError, match="nested|launching"):  # compiled spaces: not a word of kernels
        pk.parallel_for(pk.RangePolicy(0, 1, space=space), nested, move(np.zeros(1), space))


def test_a_launch_inside_a_python_kernel_is_refused():
    """Plain Python could launch; the lock of the launch that runs would never be free."""
    from portable import dispatch
    from portable.backends.checked import interpreter

    def body(i, x):
        pk.parallel_for(pk.RangePolicy(0, 1, space="checked"), axpy, 1.0, x, x)

    dispatch._interpreting = threading.get_ident()
    try:
        with pytest.raises(NestedLaunchError, match="axpy"):
            interpreter.run_for(pk.RangePolicy(0, 1), body, (np.zeros(1),))
    finally:
        dispatch._interpreting = None


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
