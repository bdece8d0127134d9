"""Test the space "numba": launches run on the threads of numba's prange, and on no others."""

import configparser
import importlib
import os
import re
import sys
import types
from pathlib import Path

import numba
import numpy as np
import pytest
from numpy.testing import assert_array_equal

import portable as pk
from tests import conformance

from ..processes import python
from ..conformance.test_step13_plan import axpy

N = 100_000


def launched(space, n=N):
    x, y = np.arange(float(n)), np.zeros(n)
    pk.parallel_for(pk.RangePolicy(0, n, space=space), axpy, 2.0, x, y)
    return y


def test_the_suite_of_every_backend():
    """Run steps of many chunks; for all steps: PORTABLE_TEST_SPACES=numba python -m pytest
    tests/conformance."""
    assert conformance.run("numba", steps=(14,)) == 0


def test_a_user_s_number_of_threads_is_obeyed_and_put_back():
    most = numba.config.NUMBA_NUM_THREADS
    for asked in {1, most}:
        numba.set_num_threads(asked)
        try:
            assert_array_equal(launched("numba"), launched("serial"))
            assert_array_equal(launched("numba:1"), launched("serial"))
            assert numba.get_num_threads() == asked
        finally:
            numba.set_num_threads(most)


def test_more_threads_than_numba_has_are_refused():
    most = numba.config.NUMBA_NUM_THREADS
    with pytest.raises(pk.SpaceUnavailableError, match=f"numba has {most} thread.*NUMBA_NUM_THREADS"):
        launched(f"numba:{most + 1}")


def test_numba_finds_the_layer_by_the_entry_point_of_the_package():
    setup = configparser.ConfigParser()
    setup.read(Path(__file__).parents[2] / "setup.cfg")
    module, _, name = setup["options.entry_points"]["numba_extensions"].split("=")[1].strip().partition(":")
    assert getattr(importlib.import_module(module), name) is pk.numba.register


def test_importing_the_layer_imports_nothing_of_numba(program):
    loaded = program("""
        import sys
        import portable
        print([name for name in sys.modules if name.split(".")[0] in ("numba", "llvmlite")])
    """)
    assert loaded.strip() == "[]"


@pytest.mark.parametrize(
    "module, reason",
    [
        (None, "numba cannot be imported"),
        (types.SimpleNamespace(__version__="0.62.1"), "numba 0.62.1 brings another LLVM"),
    ],
)
def test_numba_missing_or_another_one_is_one_line(monkeypatch, module, reason):
    monkeypatch.setitem(sys.modules, "numba", module)
    pk.numba.missing.cache_clear()
    try:
        assert re.match(f"{reason}.*pip install", pk.unavailable_because(pk.Space("numba")))
    finally:
        pk.numba.missing.cache_clear()


@pytest.mark.parametrize("layer", ["omp", "workqueue"])
def test_threads_of_python_and_forks_on_each_layer(program, layer):
    """Launch from several threads, in the child of a fork after threads had run, and in prange or at the same
    time.
    """
    assert (
        program(
            """
        import os, threading, warnings
        import portable.core.machines.cpu.pool
        import numba
        import numpy as np
        import portable as pk

        warnings.simplefilter("ignore", DeprecationWarning)

        @pk.kernel
        def axpy(i, a, x, y):
            y[i] += a * x[i]

        @numba.njit(parallel=True)
        def loop(y):
            for i in numba.prange(y.size):
                y[i] += 1.0

        def work():
            x, y = np.ones(100_000), np.zeros(100_000)
            policy = pk.RangePolicy(0, len(x), space="numba")
            for _ in range(20):
                pk.parallel_for(policy, axpy, 2.0, x, y)
            with pk.capture("numba") as graph:
                pk.parallel_for(policy, axpy, 2.0, x, y)
            graph.replay()
            assert (y == 42.0).all()

        @numba.njit(parallel=True)
        def nested(ys):
            for k in numba.prange(ys.shape[0]):
                pk.parallel_for(ys.shape[1], axpy, 2.0, ys[k], ys[k])

        pk.numba.register()
        ys = np.ones((4, 100_000))
        nested(ys)
        assert (ys == 3.0).all()
        y = np.zeros(100_000)
        loop(y)
        work()
        threads = [threading.Thread(target=work) for _ in range(3)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        loop(y)
        assert (y == 2.0).all() and not portable.core.machines.cpu.pool._pools  # one set of threads
        child = os.fork()
        if not child:
            try:
                work()
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        print(numba.threading_layer())
    """,
            NUMBA_THREADING_LAYER=layer,
        ).strip()
        == layer
    )


@pytest.mark.parametrize(
    "command",
    [["-m", "portable", "info"], ["-c", "from tests.numba.test_space import launched; launched('numba')"]],
)
def test_a_layer_that_cannot_be_loaded_is_named(command):
    """The layer is set in the environment of a process, since numba chooses its threads once."""
    found = python(
        *command,
        env=os.environ | {"NUMBA_THREADING_LAYER": "none of these"},
        cwd=Path(__file__).parents[2],
        check=False,
    )
    told = " ".join((found.stdout + found.stderr).replace("\u2502", " ").split())
    assert "space 'numba': numba cannot load its threading layer 'none of these'" in told
    assert "ValueError" not in told
