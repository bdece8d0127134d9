"""IEEE's rounding and denormals for every entry, whatever a library has set in the calling thread, and the
caller's state again behind it. Where the state is the usual one an entry pays for one look at it.
"""

from llvmlite import ir

from ...compiler.values import I32, I64, PTR
from .engine import MACHINE

_VOID = ir.VoidType()
# word of the control register, its bits that matter (rounding, denormals, traps), and what they usually are
_REGISTERS = {"x86": (I32, 0xFFC0, 0x1F80), "aarch64": (I64, 0x7C89F07, 0)}


def guard(module, entry, machine=MACHINE):
    """Add to each function of type `entry` one that calls it in the usual state."""
    for function in [f for f in module.functions if f.ftype == entry and f.blocks and machine]:
        function.linkage = "internal"
        function.attributes.add("noinline")  # else its arithmetic could move to where the state is another
        _write(ir.Function(module, entry, f"{function.name}.guarded"), function, machine)


def _write(outer, body, machine):
    b = ir.IRBuilder(outer.append_basic_block("begin"))
    word, mask, usual = _REGISTERS[machine]
    get, put = _access(b, machine, word)
    state = get()
    odd = b.icmp_unsigned("!=", b.and_(state, ir.Constant(word, mask)), ir.Constant(word, usual))
    with b.if_then(odd, likely=False):
        put(ir.Constant(word, usual))
        b.call(body, outer.args)
        put(state)
        b.ret_void()
    b.call(body, outer.args, tail=True)
    b.ret_void()


def _access(b, machine, word):
    """Functions that emit: the control register's word, and setting it."""

    def known(name, result, arguments):
        return b.module.globals.get(name) or ir.Function(b.module, ir.FunctionType(result, arguments), name)

    if machine == "aarch64":
        return (
            lambda: b.call(known("llvm.aarch64.get.fpcr", I64, []), []),
            lambda v: b.call(known("llvm.aarch64.set.fpcr", _VOID, [I64]), [v]),
        )
    place = b.alloca(word)

    def get():
        b.call(known("llvm.x86.sse.stmxcsr", _VOID, [PTR]), [place])
        return b.load(place, typ=word)

    def put(v):
        again = b.alloca(word)
        b.store(v, again)
        b.call(known("llvm.x86.sse.ldmxcsr", _VOID, [PTR]), [again])

    return get, put
