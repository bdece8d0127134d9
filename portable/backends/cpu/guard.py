"""IEEE's rounding and denormals for every entry, whatever a library has set in the calling thread: an entry
looks at the control register once, and where its state is not the usual one sets that, calls itself, and
puts the caller's back.
"""

from llvmlite import ir

from ...compiler.lines import Builder
from ...compiler.values import I32, I64, PTR
from .engine import MACHINE

# word of the control register, its bits that matter (rounding, denormals, traps), and what they usually are
_REGISTERS = {"x86": (I32, 0xFFC0, 0x1F80), "aarch64": (I64, 0x7C89F07, 0)}


def guard(module, entry, machine=MACHINE):
    """Let each function of type `entry` look at the state before its first branch. What LLVM moves to before
    the look does no harm: in another state it is done again."""
    for function in [f for f in module.functions if f.ftype == entry and f.blocks and machine]:
        first, rest = function.blocks[0], function.append_basic_block("usual")
        first.terminator, branch = None, first.instructions.pop()
        b = Builder(first)
        word, mask, usual = _REGISTERS[machine]
        place = b.alloca(word)
        before = _state(b, machine, place)
        odd = b.icmp_unsigned("!=", b.and_(before, word(mask)), word(usual))
        again = function.append_basic_block("unusual")
        b.cbranch(odd, again, rest).set_weights([1, 99])
        rest.instructions, rest.terminator, branch.parent = [branch], branch, rest
        b.position_at_end(again)
        _set(b, machine, place, word(usual))
        b.call(function, function.args)
        _set(b, machine, place, before)
        b.ret_void()


def _known(b, name, result, arguments):
    return b.module.globals.get(name) or ir.Function(b.module, ir.FunctionType(result, arguments), name)


def _set(b, machine, place, state):
    """Emit: the control register's new word, on x86 by way of `place`."""
    if machine == "aarch64":
        b.call(_known(b, "llvm.aarch64.set.fpcr", ir.VoidType(), [I64]), [state])
    else:
        b.store(state, place)
        b.call(_known(b, "llvm.x86.sse.ldmxcsr", ir.VoidType(), [PTR]), [place])


def _state(b, machine, place):
    """Emit: the control register's word."""
    if machine == "aarch64":
        return b.call(_known(b, "llvm.aarch64.get.fpcr", I64, []), [])
    b.call(_known(b, "llvm.x86.sse.stmxcsr", ir.VoidType(), [PTR]), [place])
    return b.load(place, typ=I32)
