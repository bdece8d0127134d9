"""Test that memory does not grow over compilations: of kernels that are dropped, and of values of
pk.static."""

import os
from pathlib import Path

import llvmlite.binding as llvm
import pytest

import portable as pk
from portable.core.launch import dispatch
from portable.core.machines.cpu import engine
from portable.core.compiler.writing import optimise
from tests.processes import python

# A compilation left about 100 KiB when LLVM's pass manager was not freed, and about 20 KiB for the code and
# module of a kernel that is kept. Measured are 4 to 6 KiB, and half of that in longer runs: tables and
# allocators grow.
MOST_BYTES = 12 << 10
SCRIPT = """
import gc, os, sys
import numpy as np
import portable as pk
from pathlib import Path
from portable.core.machines.cpu import engine

x, path = np.ones(9), Path(sys.argv[2])
policy = pk.RangePolicy(0, 9, space="serial")
TEXT = '''import portable as pk
@pk.kernel
def kernel_{k}(i, x):
    x[i] = x[i] * {k}.5 + {k}
'''

@pk.kernel
def by_constant(i, x, n):
    x[i] = x[i] * n + n

def kernels(k):
    file, scope = path / f"kernel_{k % 7}.py", {"__name__": "kernels"}
    file.write_text(TEXT.format(k=k))
    exec(compile(file.read_text(), str(file), "exec"), scope)
    pk.parallel_for(policy, scope[f"kernel_{k}"], x)

def constants(k):
    pk.parallel_for(policy, by_constant, x, pk.static(k + 0.5))

def resident():
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

by_constant.compiled.most = 32
step, n = {"kernels": kernels, "constants": constants}[sys.argv[1]], 100
for k in range(60):
    step(k)
before, alive = resident(), len(engine._live)
for k in range(60, 60 + n):
    step(k)
print((resident() - before) / n, len(engine._live) - alive)
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the system does not tell")
@pytest.mark.parametrize("what", ["kernels", "constants"])
def test_compilations_leave_nothing(what, tmp_path):
    file = tmp_path / "script.py"
    file.write_text(SCRIPT)
    done = python(
        file, what, tmp_path, env={**os.environ, "PORTABLE_CACHE": "0", "MALLOC_ARENA_MAX": "1"}, check=False
    )
    assert done.returncode == 0, done.stderr
    each, engines = map(float, done.stdout.split())
    assert each < MOST_BYTES and engines <= 8, done.stdout


def test_what_makes_pass_managers_is_made_anew_now_and_then(monkeypatch):
    """Each run of LLVM leaves callbacks with its builder, which every later pass calls: after 2,000 other
    runs with one builder, a compilation took eight times as long."""
    made, make = [], llvm.create_pass_builder
    monkeypatch.setattr(optimise, "_builders", {})
    monkeypatch.setattr(llvm, "create_pass_builder", lambda *args: made.append(make(*args)) or made[-1])
    for _ in range(2 * optimise._RUNS + 1):
        optimise.optimise("define void @f() {\n ret void\n}", engine.machine(), "empty")
    assert len(made) == 3


def test_constants_of_one_value_and_several_types_differ():
    specs, _, _ = dispatch._describe(tuple(map(pk.static, (1, True, 1.0, 0.0, -0.0, 1))))
    assert len(set(map(repr, specs))) == 5 and specs[0] is specs[-1]
    assert [type(value) for _, value, _ in specs[:3]] == [int, bool, float]


def test_values_of_static_are_forgotten(monkeypatch):
    monkeypatch.setattr(dispatch, "_MOST_STATICS", 5)
    dispatch._statics.clear()
    for k in range(12):
        (spec,), _, _ = dispatch._describe((pk.static(k + 0.5),))
        assert spec == ("static", k + 0.5, f"{k}.5") and len(dispatch._statics) <= 5
