"""IEEE rounding and denormals for every entry, even if a library has changed them in the calling thread: an
entry reads the control register once, and if its state is not the default one, calls itself again through a
function that sets the default (engine.py's `USUAL`).
"""

from llvmlite import ir

from ...compiler.writing.lines import builder
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
        builder.position_at_end(first)
        _, mask, usual = _REGISTERS[machine]
        odd = (_state(machine) & mask).differs(usual)
        again = function.append_basic_block("unusual")
        builder.cbranch(odd, again, rest).set_weights([1, 99])
        rest.instructions, rest.terminator, branch.parent = [branch], branch, rest
        builder.position_at_end(again)
        usual = builder.declared("portable_usual", ir.VoidType(), [PTR, *entry.args])
        builder.call(usual, [function, *function.args])
        builder.ret_void()


def _state(machine):
    """Emit a read of the control register's word."""
    if machine == "aarch64":
        return builder.call_named("llvm.aarch64.get.fpcr", [], I64)
    place = builder.alloca(I32)
    builder.call(builder.declared("llvm.x86.sse.stmxcsr", ir.VoidType(), [PTR]), [place])
    return builder.load(place, I32)
