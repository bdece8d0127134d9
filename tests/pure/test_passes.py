"""How the CPU's code is compiled: which passes see it, what they may unroll, what stands in front of it."""

import re

import llvmlite.binding as llvm
import numpy as np
import pytest
from llvmlite import ir

import portable as pk
from portable.backends.cpu import engine
from portable.backends.cpu.guard import guard
from portable.backends.cpu.lower import ENTRY, Entry
from portable.compiler.optimise import optimise

FLOATS, INTS = (("view", dtype, 1, True, False) for dtype in ("float64", "int64"))


@pk.kernel
def quotient_and_rest(i, n, x, y):
    y[i] = x[i] // n[i] * 3 + x[i] % n[i]


@pk.kernel
def rest(i, n, x, y):
    y[i] = x[i] % n[i]


@pk.kernel
def short(i, n, x, y):
    total = 0.0
    for k in range(n):
        total += x[k]
    y[i] = total


@pk.kernel
def long(i, n, x, y):
    total = 0.0
    for k in range(n):
        total += pk.exp(x[k] * i) + pk.sin(x[k] - i)
    y[i] = total


@pk.kernel
def product(i, x, y):
    return x[i] * y[i]


def divisions(kernel):
    code = engine.assembly(Entry(kernel, "range", (INTS,) * 3, ()).text, kernel.name)
    return len(re.findall(r"^\s+idiv", code, re.M))


@pytest.mark.skipif(engine.MACHINE != "x86", reason="counts an instruction of x86")
def test_a_packs_quotient_and_rest_are_one_division():
    """LLVM divides vectors lane by lane, and does not see that the rest is the quotient's."""
    assert divisions(quotient_and_rest) == divisions(rest) > 0


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_quotients_and_rests_of_all_signs(dtype):
    """The rest by its quotient has the sign of the divisor, at the ends of the type too."""
    ends = np.iinfo(dtype)
    some = np.array([ends.min, ends.min + 1, -7 if ends.min else 7, 0, 1, 5, ends.max - 1, ends.max], dtype)
    by = np.array([1, 3, ends.max, ends.min or 2, -3 if ends.min else 3, -1 if ends.min else 1], dtype)
    x, n = (a.ravel() for a in np.meshgrid(some, by))
    y = np.zeros_like(x)
    pk.parallel_for(pk.RangePolicy(0, len(x), space="serial"), rest, n, x, y)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(y, np.where(n == -1, 0, x % np.where(n == -1, 1, n)))


@pytest.mark.parametrize("kernel", [short, long])
def test_a_long_body_is_not_unrolled_at_run_time(kernel):
    text = Entry(kernel, "range", (("number", "int64"), FLOATS, FLOATS), ()).text
    back = [line for line in text.splitlines() if re.search(r'br label %"head(\.\d+)?", !llvm\.loop', line)]
    assert ('"llvm.loop.unroll.runtime.disable"' in text and len(back) > 0) == (kernel is long)


def test_what_a_loop_says_of_itself_is_its_own():
    """LLVM takes loops of one identifier for one loop."""
    text = Entry(long, "range", (("number", "int64"), FLOATS, FLOATS), ()).text
    used = re.findall(r"!llvm\.loop !(\d+)", text)
    assert len(used) == len(set(used)) > 1
    assert all(f"!{k} = !{{ !{k}, " in text for k in used)


def test_each_function_is_there_behind_the_passes_for_one():
    """A reduction's two functions are optimised, each by itself, and nothing is left in memory."""
    text = Entry(product, "range", (FLOATS, FLOATS), (pk.Sum,)).text
    module = optimise(text, engine.machine(), "product", apart=True)
    defined = [function for function in module.functions if not function.is_declaration]
    assert [function.name for function in defined] == ["entry", "finish"]
    assert not re.search(r"= alloca", str(module))


def test_what_only_this_module_calls_is_inlined():
    text = """
define internal i64 @own(i64 %x) {
  %y = mul i64 %x, 3
  ret i64 %y
}
define i64 @entry(i64 %x) {
  %y = call i64 @own(i64 %x)
  ret i64 %y
}
"""
    assert "call" not in str(optimise(text, engine.machine(), "inlined", apart=True))


@pytest.mark.parametrize("mark", ["", "_"])
def test_the_guard_is_assembly_of_this_machine(mark):
    """Each function of the entry's type has one; others have none."""
    module = ir.Module("guarded")
    for name, kind in (("entry", ENTRY), ("finish", ENTRY), ("other", ir.FunctionType(ir.VoidType(), ()))):
        ir.IRBuilder(ir.Function(module, kind, name).append_basic_block()).ret_void()
    text = guard(module, ENTRY, mark=mark)
    found = re.findall(r'^module asm "(\S+):"$', text, re.M)
    assert found == [f"{mark}entry.guarded", f"{mark}finish.guarded"] * bool(engine.MACHINE)
    if not mark:
        engine.new_machine().emit_object(llvm.parse_assembly(str(module) + text))
