"""Provide `builder`, which inserts instructions where code is emitted, and values with Python's operators.

One entry is emitted at a time (see `Entry.text`), so there is one builder. It writes frequent instructions
directly as strings: llvmlite builds an object with lists of operands for each instruction, and the string at
the end, which takes twice as long as all other steps of emission. llvmlite still builds the rare ones.
"""

import functools
from contextlib import contextmanager

from llvmlite import ir
from llvmlite.ir.instructions import AtomicRMW, ExtractValue, LoadAtomicInstr, PredictableInstr

_I1, VOID, _PTR = ir.IntType(1), ir.VoidType(), ir.PointerType()
_packs = {}


def pack_of(scalar, n):
    """Return the type of a vector; its string is built once."""
    key = id(scalar), n
    if key not in _packs:
        _packs[key] = ir.VectorType(scalar, n)  # keeps the scalar alive, so that its address is not reused
    return _packs[key]


class Operand:
    """Value with Python's operators, which emit instructions on integers: `>>` and comparisons are signed."""

    def equals(self, other):
        return builder.icmp_signed("==", self, other)

    def differs(self, other):
        return builder.icmp_signed("!=", self, other)

    def __invert__(self):
        return self ^ -1


class Number(Operand, ir.Constant):
    """Constant integer."""


class Integer(ir.IntType):
    """Integer type with cached constants."""

    _instance_cache = {}
    __call__ = functools.lru_cache(1024, typed=True)(Number)


class Written(Operand, ir.Constant):
    """Constant vector with a given string."""

    def __init__(self, vector, text):
        self.type, self.constant = vector, text

    def _get_reference(self):
        return self.constant


@functools.lru_cache
def pack_of_numbers(scalar, numbers):
    """Return a constant vector of integers."""
    return Written(pack_of(scalar, len(numbers)), f"<{', '.join(f'{scalar} {n}' for n in numbers)}>")


def full(scalar, n, number):
    """Return a vector of one number in all lanes as a splat, since llvmlite would write, and LLVM parse, each
    lane."""
    return Written(pack_of(scalar, n), f"splat ({scalar} {scalar(number).get_reference()})")


class Line(Operand, PredictableInstr):
    """Instruction as a string of IR: later changes of `operands` have no effect."""

    metadata, flags = {}, ()

    def __init__(self, block, typ, opname, operands, text):
        self.parent, self.type, self.opname, self.operands = block, typ, opname, operands
        numbers = block.scope._basenamemap  # counter of unnamed values, shared with llvmlite
        number = numbers[""] = numbers[""] + 1
        if typ is not VOID:
            self.reference = f'%".{number}"'
            text = f"{self.reference} = {text}"
        self.text = text

    def get_reference(self):
        return self.reference

    def set_metadata(self, name, node):
        self.metadata = {**self.metadata, name: node}

    def __str__(self):
        return self.text + self._stringify_metadata(leading_comma=True) if self.metadata else self.text


def _typed(*values):
    return ", ".join([f"i64 {v}" if v.__class__ is int else f"{v.type} {v.get_reference()}" for v in values])


def like(x, y):
    """Return y, or for a number of Python's a constant of the type of x."""
    if not isinstance(y, (int, float)):
        return y
    kind = x.type
    return full(kind.element, kind.count, y) if kind.__class__ is ir.VectorType else kind(y)


def _like(x, y):
    return like(x, y).get_reference()


class Argument(Operand, ir.Argument):
    """Argument of a function."""


class Call(Operand, ir.CallInstr):
    """Call of inline assembly."""


class Extracted(Operand, ExtractValue):
    """Part of a structure."""


class Atomic(Operand, AtomicRMW):
    """Atomic operation."""


class AtomicLoad(Operand, LoadAtomicInstr):
    """Atomic load."""


class Phi(Operand, ir.PhiInstr):
    """Value of the block that was left last."""


_WITH_OPERATORS = {c.__bases__[1]: c for c in (Argument, Call, Extracted, Atomic, AtomicLoad, Phi)}


class Builder(ir.IRBuilder):
    """Builder of lines; LLVM checks the types of operands.

    A second operand, or one side of a selection, may be a number of Python's, of the other operand's type; an
    index or a stored number may be an integer of 64 bits.
    """

    def line(self, typ, opname, operands, text):
        made = Line(self._block, typ, opname, operands, text)
        if self.debug_metadata is not None:
            made.set_metadata("dbg", self.debug_metadata)
        self._block.instructions.insert(self._anchor, made)
        self._anchor += 1
        return made

    def _insert(self, made):
        made.__class__ = _WITH_OPERATORS.get(made.__class__, made.__class__)
        super()._insert(made)

    @contextmanager
    def elsewhere(self):
        """Return to this place at the end of a context, which emits other functions."""
        before = {**vars(self)}
        try:
            yield
        finally:
            vars(self).update(before)

    def begin(self, function, name=""):
        """Continue at the beginning of a new function."""
        self.debug_metadata = None
        self.position_at_end(function.append_basic_block(name))
        for argument in function.args:
            argument.__class__ = Argument

    def declared(self, name, result, arguments):
        """Return the function of this name in the module."""
        known = self.module.globals.get(name)
        return known or ir.Function(self.module, ir.FunctionType(result, arguments), name)

    def call_named(self, name, args, result):
        """Call a function by its name."""
        return self.call(self.declared(name, result, [a.type for a in args]), args)

    def slot(self, typ):
        """Return a stack slot, initialised to zero."""
        place = self.line(_PTR, "alloca", (), f"alloca {typ}")
        place.allocated_type = typ
        self.store(ir.Constant(typ, None), place)
        return place

    def load(self, place, typ=None, align=None):
        typ, end = typ or place.allocated_type, "" if align is None else f", align {align}"
        return self.line(typ, "load", (place,), f"load {typ}, {_typed(place)}{end}")

    def store(self, value, place, align=None):
        end = "" if align is None else f", align {align}"
        return self.line(VOID, "store", (value, place), f"store {_typed(value, place)}{end}")

    def gep(self, place, indices, source_etype=None, inbounds=False):
        how = "getelementptr inbounds" if inbounds else "getelementptr"
        operands = place, *indices
        return self.line(place.type, "getelementptr", operands, f"{how} {source_etype}, {_typed(*operands)}")

    def call(self, callee, args, name="", **options):
        if options or callee.__class__ is not ir.Function or callee.ftype.var_arg:
            return super().call(callee, args, name, **options)
        result = callee.ftype.return_type
        how = f"call {callee.calling_convention}".rstrip()
        text = f"{how} {result} {callee.get_reference()}({_typed(*args)})"
        result = VOID if result.__class__ is ir.VoidType else result
        return self.line(result, "call", [callee, *args], text)

    def branch(self, *operands):
        made = self._block.terminator = self.line(VOID, "br", operands, f"br {_typed(*operands)}")
        return made

    cbranch = branch

    def blocks(self, *names):
        """Append new blocks to this function and return them."""
        return [self.append_basic_block(name) for name in names]

    def go(self, block, condition=None, other=None):
        """Branch to a block, or where a condition does not hold to another one; continue in the first."""
        made = self.branch(*([block] if other is None else [condition, block, other]))
        self.position_at_end(block)
        return made


def _arithmetic(op, *always):
    def emit(self, x, y, name="", flags=always):
        words = " ".join((op, *flags)) if flags else op
        return self.line(x.type, op, (x, y), f"{words} {x.type} {x.get_reference()}, {_like(x, y)}")

    return emit


def _cast(op):
    def emit(self, x, to):
        return x if x.type is to or x.type == to else self.line(to, op, (x,), f"{op} {_typed(x)} to {to}")

    return emit


def _comparison(op, kind, words):
    def emit(self, how, x, y):
        typ = pack_of(_I1, x.type.count) if x.type.__class__ is ir.VectorType else _I1
        how = words.get(how) or kind + _ORDER.get(how, how)
        return self.line(typ, op, (x, y), f"{op} {how} {_typed(x)}, {_like(x, y)}")

    return emit


def _select(self, condition, x, y):
    like = y if isinstance(x, (int, float)) else x
    sides = f"{like.type} {_like(like, x)}, {like.type} {_like(like, y)}"
    return self.line(like.type, "select", (condition, x, y), f"select {_typed(condition)}, {sides}")


def _of_operands(op, type_of):
    def emit(self, *operands):
        return self.line(type_of(*operands), op, operands, f"{op} {_typed(*operands)}")

    return emit


_ORDER = {">": "gt", "<": "lt", ">=": "ge", "<=": "le", "==": "eq", "!=": "ne"}
_EQUAL, _NAN = {"==": "eq", "!=": "ne"}, {"ord": "ord", "uno": "uno"}
_MADE = {
    "icmp_signed": _comparison("icmp", "s", _EQUAL),
    "icmp_unsigned": _comparison("icmp", "u", _EQUAL),
    "fcmp_ordered": _comparison("fcmp", "o", _NAN),
    "fcmp_unordered": _comparison("fcmp", "u", _NAN),
    "select": _select,
    "extract_element": _of_operands("extractelement", lambda vector, k: vector.type.element),
    "insert_element": _of_operands("insertelement", lambda vector, x, k: vector.type),
    "shuffle_vector": _of_operands(
        "shufflevector", lambda x, y, order: pack_of(x.type.element, order.type.count)
    ),
}
for _op in "shl lshr ashr add fadd sub fsub mul fmul udiv sdiv fdiv urem srem and or xor".split():
    _MADE[_op + "_" * (_op in ("and", "or"))] = _arithmetic(_op)
for _op in ("add", "sub", "mul"):  # of integers that do not wrap
    _MADE[f"{_op}_nsw"] = _arithmetic(_op, "nsw")
for _op in "trunc zext sext fptrunc fpext bitcast fptoui uitofp fptosi sitofp ptrtoint inttoptr".split():
    _MADE[_op] = _cast(_op)
for _name, _method in _MADE.items():
    setattr(Builder, _name, _method)
builder = Builder()


def _operator(emit, *how):
    return lambda x, y: emit(builder, *how, x, y)


_OPERATORS = "__add__ __sub__ __mul__ __and__ __or__ __xor__ __lshift__ __rshift__".split()
for _name, _method in zip(_OPERATORS, "add sub mul and_ or_ xor shl ashr".split()):
    setattr(Operand, _name, _operator(_MADE[_method]))
for _name, _how in zip("__lt__ __le__ __gt__ __ge__".split(), ("<", "<=", ">", ">=")):
    setattr(Operand, _name, _operator(_MADE["icmp_signed"], _how))
