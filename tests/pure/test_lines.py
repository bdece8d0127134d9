"""Test instructions written as strings: LLVM reads the same as from llvmlite's builder."""

import pytest


import llvmlite.binding as llvm  # noqa: E402
from llvmlite import ir  # noqa: E402

from portable.core.compiler.writing.lines import (  # noqa: E402
    Argument,
    Builder,
    builder,
    full,
    pack_of,
    pack_of_numbers,
)
from portable.core.compiler.writing.values import F32, F64, I1, I8, I16, I32, I64, PTR  # noqa: E402

INTEGERS = "add sub mul and_ or_ xor shl lshr ashr udiv sdiv urem srem".split()
FLOATS = "fadd fsub fmul fdiv".split()
CASTS = [  # method, name of its operand, type of its result
    ("trunc", "n", I8),
    ("zext", "n", I64),
    ("sext", "n", I64),
    ("bitcast", "n", F32),
    ("sitofp", "n", F64),
    ("uitofp", "n", F64),
    ("fptosi", "x", I32),
    ("fptoui", "x", I16),
    ("fptrunc", "x", F32),
    ("ptrtoint", "p", I64),
]
ORDER = "< <= > >= == !=".split()


def operands(b, packs):
    """Return values of each kind by name: the arguments of a function, or packs of them."""
    n, m, x, y, p, c = b.function.args
    found = {"n": n, "m": m, "x": x, "y": y, "p": p, "c": c}
    if packs:
        found |= {k: b.insert_element(full(v.type, 4, 0), v, I32(1)) for k, v in found.items() if k != "p"}
    return found


def emitted(kind, emit, packs=False):
    """Return a module with the instructions that `emit` makes by a builder of this kind, as LLVM prints
    it."""
    module = ir.Module("lines")
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [I32, I32, F64, F64, PTR, I1]), "made")
    b = kind(function.append_basic_block("begin"))
    emit(b, operands(b, packs))
    if b.block.terminator is None:
        b.ret_void()
    read = llvm.parse_assembly(str(module))
    read.verify()
    return str(read)


def arithmetic(b, of):
    for op in INTEGERS:
        getattr(b, op)(of["n"], of["m"])
    for op in FLOATS:
        getattr(b, op)(of["x"], of["y"], flags=("contract", "nsz"))
    b.add(of["n"], of["m"], flags=("nsw", "nuw"))
    b.not_(of["c"])
    b.not_(of["n"])
    b.neg(of["n"])


def comparisons(b, of):
    for op in ORDER:
        for a, other in ("nm", "mn"):
            b.icmp_signed(op, of[a], of[other])
            b.icmp_unsigned(op, of[a], of[other])
        b.fcmp_ordered(op, of["x"], of["y"])
        b.fcmp_unordered(op, of["x"], of["y"])
    b.fcmp_ordered("ord", of["x"], of["y"])
    b.fcmp_unordered("uno", of["x"], of["y"])
    b.select(of["c"], of["n"], of["m"])


def casts(b, of):
    for op, name, to in CASTS:
        v = of[name]
        if isinstance(v.type, ir.VectorType):
            to = pack_of(to, 4)
        elif op == "ptrtoint":
            b.inttoptr(b.ptrtoint(v, I64), PTR)
        if op != "ptrtoint":
            getattr(b, op)(v, to)
    b.fpext(b.fptrunc(of["x"], F32 if of["x"].type == F64 else pack_of(F32, 4)), of["x"].type)
    assert b.zext(of["n"], of["n"].type) is of["n"]


def memory(b, of):
    whole = b.load(of["p"], align=4, typ=I32)
    b.store(whole, b.gep(of["p"], [whole, I64(2)], inbounds=True, source_etype=ir.ArrayType(I32, 8)), align=4)
    b.store(of["x"], b.gep(of["p"], [I64(3)], source_etype=F64))
    b.load(b.alloca(I64))


def packs(b, of):
    x = full(F64, 4, 0.5)
    x = b.insert_element(x, of["x"] if of["x"].type == F64 else b.extract_element(of["x"], I32(0)), I32(2))
    order = ir.Constant(pack_of(I32, 6), [0, 4, 1, 5, 2, 6])
    b.extract_element(b.shuffle_vector(x, x, order), I32(3))


def calls(b, of):
    module = b.module
    known = ir.Function(module, ir.FunctionType(I32, [I32, F64]), "known")
    cold = ir.Function(module, ir.FunctionType(ir.VoidType(), [PTR]), "cold")
    cold.calling_convention = "preserve_mostcc"
    printed = ir.Function(module, ir.FunctionType(I32, [PTR], var_arg=True), "printed")
    b.call(known, [b.call(known, [b.function.args[0], b.function.args[2]]), F64(1.5)])
    b.call(known, [I32(1), F64(-0.0)], attrs=("readnone",))
    b.call(cold, [of["p"]])
    b.call(printed, [of["p"], I32(3)])
    b.ctpop(b.function.args[0])


def branches(b, of):
    with b.if_then(b.function.args[5], likely=False):
        b.store(b.function.args[0], of["p"])
    with b.if_else(b.function.args[5]) as (yes, no):
        with yes:
            one, first = b.add(b.function.args[0], I32(1)), b.block
        with no:
            two, second = b.add(b.function.args[0], I32(2)), b.block
    both = b.phi(I32)
    both.add_incoming(one, first)
    both.add_incoming(two, second)
    b.store(both, of["p"])
    loop = b.append_basic_block("loop")
    b.branch(loop)
    b.position_at_end(loop)
    again = b.cbranch(b.icmp_signed("<", both, I32(9)), loop, b.append_basic_block("end"))
    again.set_metadata(
        "llvm.loop", b.module.add_metadata([b.module.add_metadata(["llvm.loop.mustprogress"])])
    )
    b.position_at_end(b.function.blocks[-1])


def between(b, of):
    """Return a context that inserts instructions before the existing ones."""
    later = b.add(of["n"], of["m"])
    b.position_before(later)
    b.mul(of["n"], of["n"])
    b.position_at_end(b.block)
    b.sub(later, of["m"])


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    "emit",
    [arithmetic, comparisons, casts, memory, packs, calls, branches, between],
    ids=lambda emit: emit.__name__,
)
def test_llvm_reads_what_it_reads_from_llvmlites_builder(emit, packed):
    assert emitted(Builder, emit, packed) == emitted(ir.IRBuilder, emit, packed)


def test_a_slot_begins_as_zero():
    def slots(b, of):
        if isinstance(b, Builder):
            b.slot(I64), b.slot(pack_of(F32, 4))
        else:
            for kind in (I64, pack_of(F32, 4)):
                b.store(ir.Constant(kind, None), b.alloca(kind))

    assert emitted(Builder, slots) == emitted(ir.IRBuilder, slots)


def test_debug_places_are_kept():
    def placed(kind):
        module = ir.Module("lines")
        function = ir.Function(module, ir.FunctionType(ir.VoidType(), [I32]), "made")
        b = kind(function.append_basic_block("begin"))
        b.debug_metadata = module.add_debug_info("DILocation", {"line": 3, "column": 1})
        return str(b.add(function.args[0], I32(1)))

    assert placed(Builder) == placed(ir.IRBuilder) and "!dbg !" in placed(Builder)


def test_constants_are_told_by_type_and_sign():
    assert I64(1) is I64(1) and I32(1) is not I64(1)
    assert str(F64(0.0)) != str(F64(-0.0))
    assert {str(I1(v)) for v in (True, 1)} == {"i1 true", "i1 1"}
    assert str(pack_of_numbers(I32, (0, 1))) == "<2 x i32> <i32 0, i32 1>"


def test_operators_emit_instructions_on_integers():
    def emit(b, of):
        n, m = of["n"], of["m"]
        if b is builder:
            return (n + m) * 3 - n, ~(n & m | 7) ^ n << 2 >> 1, n < m, n >= 5, n.equals(m), n.differs(0)
        b.sub(b.mul(b.add(n, m), I32(3)), n)
        bits = b.or_(b.and_(n, m), I32(7))
        b.xor(b.xor(bits, I32(-1)), b.ashr(b.shl(n, I32(2)), I32(1)))
        pairs = ("<", m), (">=", I32(5)), ("==", m), ("!=", I32(0))
        return [b.icmp_signed(how, n, other) for how, other in pairs]

    def own(block):
        builder.position_at_end(block)
        for argument in block.function.args:
            argument.__class__ = Argument
        return builder

    with builder.elsewhere():
        assert emitted(own, emit) == emitted(ir.IRBuilder, emit)
