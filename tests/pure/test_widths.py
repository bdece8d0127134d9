"""Test packs of all widths, in a process for each: a failed assertion of LLVM ends it."""

import pytest

from portable.core.compiler.writing import optimise
from portable.core.machines.cpu import engine
from tests.processes import python

TEXT = """
import sys
import numpy as np, portable as pk

def compared(packed, cast):
    @pk.kernel(packed=packed)
    def k(i, small, wide):
        m, t = cast(i % 30), 0
        while t < 4 and m != cast((i + 16) % 50):
            t += 1
            if m % 3 == 0:
                continue
            wide[i] += m
        if cast(i // 2) < cast(i % 7):
            small[i] = m
    arrays = np.ones(41, np.dtype(cast)), np.zeros(41)
    pk.parallel_for(pk.RangePolicy(0, 41, space="serial"), k, *arrays)
    return arrays

for cast in pk.int32, pk.uint32, pk.int64:
    assert np.array_equal(*(compared(packed, cast) for packed in (int(sys.argv[1]), False)))
"""


@pytest.mark.parametrize("lanes", [2, 4, 8, 16])
def test_truncated_numbers_compare(lanes):
    done = python("-c", TEXT, str(lanes), check=False)
    assert not done.returncode, done.stderr


IR = """
define void @f(ptr %p) {{
  %x = load <4 x i64>, ptr %p
  %y = {} <4 x i64> %x, <i64 40, i64 40, i64 40, i64 40>
  %z = trunc <4 x i64> %y to <4 x i32>
  store <4 x i32> %z, ptr %p
  ret void
}}
"""


@pytest.mark.parametrize("operation, notes", [("lshr", 1), ("mul", 0)])
def test_only_noted_truncations_are_parsed_again(operation, notes, monkeypatch):
    texts, parse = [], optimise.verified
    monkeypatch.setattr(optimise, "verified", lambda text, name: texts.append(text) or parse(text, name))
    module = engine.optimised(IR.format(operation), "f")
    assert len(texts) == 1 + notes and " = trunc <4 x i64>" in str(module)
