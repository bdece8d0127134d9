"""IEEE rounding and denormals for every entry, even if a library has changed them in the calling thread: an
entry reads the control register once, and if its state is not the default one, calls itself again through a
function that sets the default (engine.py's `USUAL`).
"""

from llvmlite import ir

from ...compiler.writing.lines import Builder
from ...compiler.writing.values import I32, I64, PTR
from .engine import MACHINE

# type of the control register's word, mask of its relevant bits (rounding, denormals, traps), and their
# default
_REGISTERS = {"x86": (I32, 0xFFC0, 0x1F80), "aarch64": (I64, 0x7C89F07, 0)}


def guard(module, entry, machine=MACHINE):
    """Make each function of type `entry` check the control register before its first branch. Instructions
    that LLVM moves ahead of the check do no harm: in any other state they are repeated.
    """
    for function in [f for f in module.functions if f.ftype == entry and f.blocks and machine]:
        first, rest = function.blocks[0], function.append_basic_block("usual")
        first.terminator, branch = None, first.instructions.pop()
        b = Builder(first)
        _, mask, usual = _REGISTERS[machine]
        odd = b.icmp_unsigned("!=", b.and_(_state(b, machine), mask), usual)
        again = function.append_basic_block("unusual")
        b.cbranch(odd, again, rest).set_weights([1, 99])
        rest.instructions, rest.terminator, branch.parent = [branch], branch, rest
        b.position_at_end(again)
        b.call(
            _declare_function(b, "portable_usual", ir.VoidType(), [PTR, *entry.args]),
            [function, *function.args],
        )
        b.ret_void()


def _declare_function(b, name, result, arguments):
    return b.module.globals.get(name) or ir.Function(b.module, ir.FunctionType(result, arguments), name)


def _state(b, machine):
    """Emit a read of the control register's word."""
    if machine == "aarch64":
        return b.call(_declare_function(b, "llvm.aarch64.get.fpcr", I64, []), [])
    place = b.alloca(I32)
    b.call(_declare_function(b, "llvm.x86.sse.stmxcsr", ir.VoidType(), [PTR]), [place])
    return b.load(place, I32)
