"""Test objects that are sent to other processes, copied, edited and dropped: kernels, functions, reducers,
policies, host views."""

import copy
import gc
import importlib
import os
import pickle
import sys
import textwrap
import weakref

import numpy as np
import platformdirs
import pytest

import portable as pk
from tests.processes import python

MODULE = """
import math
import numpy as np
import portable as pk
SCALE = 3.0
@pk.function
def half(x):
    return x / 2.0
@pk.kernel
def scaled(i, x, out):
    out[i] = half(x[i]) * SCALE + math.exp(0.0)
def local():
    shift = 7.0
    @pk.kernel
    def shifted(i, x, out):
        out[i] = half(x[i]) + shift + np.pi
    return shifted
def add(a, b):
    return a + b
Total = pk.Reducer("Total", add, 0.0)
def run(kernel, space="serial"):
    x, out = np.arange(4.0), np.zeros(4)
    pk.parallel_for(pk.RangePolicy(0, 4, space=space), kernel, x, out)
    return out.tolist()
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "written.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("written")
    del sys.modules["written"]


def round_trips(thing):
    yield pickle.loads(pickle.dumps(thing))
    yield copy.deepcopy(thing)
    cloudpickle = pytest.importorskip("cloudpickle", reason="cloudpickle is not installed")
    yield pickle.loads(cloudpickle.dumps(thing))


@pytest.mark.parametrize("when", ["before a launch", "after one"])
def test_kernels_and_functions(module, when):
    for kernel in (module.scaled, module.local()):
        wanted = module.run(kernel) if when == "after one" else None
        for again in round_trips(kernel):
            assert module.run(again, "checked") == module.run(again) == (wanted or module.run(kernel))
    for function in round_trips(module.half):
        assert function(3.0) == 1.5
    assert pickle.loads(pickle.dumps(module.scaled)) is module.scaled


def test_reducers_policies_spaces_constants_and_views(module):
    for reducer in (pk.Sum, pk.MaxLoc):
        assert all(again is reducer for again in round_trips(reducer))
    x = np.arange(5.0)
    for total in round_trips(module.Total):
        assert pk.parallel_reduce(pk.RangePolicy(0, 5, space="serial"), value, x, reducer=total) == 10.0
    for thing in (
        pk.RangePolicy(0, 3),
        pk.TeamPolicy(3),
        pk.MDRangePolicy((0, 0), (2, 2), space="serial"),
        pk.Threads(3),
    ):
        assert all(again == thing for again in round_trips(thing))
    for number in (4, 4.0, True, -0.0):
        assert all(repr(again) == f"static({number})" for again in round_trips(pk.static(number)))
    for view in round_trips(pk.asview(x, space="serial", label="x")):
        assert (view.to_numpy() == x).all() and view.label == "x" and view.space == "serial"


@pk.kernel
def value(i, x):
    return x[i]


def test_a_script_sends_its_kernels_to_spawned_processes(tmp_path):
    script = MODULE + textwrap.dedent("""
        if __name__ == "__main__":
            import multiprocessing
            kernels = [scaled, local()]
            wanted = [run(k) for k in kernels]
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                print(pool.map(run, kernels) == wanted)
        """)
    (tmp_path / "script.py").write_text(script)
    done = python(tmp_path / "script.py", check=False)
    assert done.stdout.strip() == "True", done.stderr


def test_a_file_that_is_edited_while_its_program_runs(module, tmp_path):
    """A kernel keeps the source that it had when the decorator ran."""
    path = tmp_path / "written.py"
    path.write_text(MODULE.replace("half(x[i]) * SCALE", "half(x[i]) * SCALE + 1000.0"))
    os.utime(path, (1, 1))
    assert module.run(module.scaled) == module.run(module.scaled, "checked") == [1.0, 2.5, 4.0, 5.5]


def test_code_goes_with_its_kernel(module):
    kernel = module.local()
    module.run(kernel)
    code = [weakref.ref(c.code.__self__) for key, c in kernel.compiled.items() if key[0] == "cpu"]
    assert [engine() is not None for engine in code] == [True]
    del kernel
    gc.collect()
    assert [engine() for engine in code] == [None]


def test_a_user_without_a_home_compiles_anew(monkeypatch, module):
    from portable.core import cache

    def unknown(*args, **kwargs):
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("PORTABLE_CACHE", raising=False)
    monkeypatch.setattr(platformdirs, "user_cache_dir", unknown)
    cache.folder.cache_clear()
    cache._directory.cache_clear()
    try:
        with pytest.warns(UserWarning, match="compiled anew.*home directory"):
            assert module.run(module.local()) == [7.0 + np.pi + k / 2 for k in range(4)]
    finally:
        cache.folder.cache_clear()
        cache._directory.cache_clear()
