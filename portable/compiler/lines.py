"""A builder of llvmlite's that writes an instruction's text when it makes it.

llvmlite keeps each instruction as an object with lists of its parts, of which it makes the text at the end:
two thirds of the time that it takes to emit a kernel. Whatever is seldom made, llvmlite makes.
"""

from __future__ import annotations

import functools

from llvmlite import ir
from llvmlite.ir.instructions import PredictableInstr

_I1, _VOID, _PTR, _NONE = ir.IntType(1), ir.VoidType(), ir.PointerType(), {}
_COMPARISONS = {">": "gt", "<": "lt", "==": "eq", "!=": "ne", ">=": "ge", "<=": "le"}
_ARITHMETIC = "shl lshr ashr add fadd sub fsub mul fmul udiv sdiv fdiv urem srem and or xor".split()
_CASTS = "trunc zext sext fptrunc fpext bitcast fptoui uitofp fptosi sitofp ptrtoint inttoptr".split()


_packs = {}


def pack_of(scalar, n):
    """The type of a vector, whose text is made once."""
    key = id(scalar), n
    if key not in _packs:
        _packs[key] = ir.VectorType(scalar, n)  # which keeps the scalar's address from others
    return _packs[key]


class Integer(ir.IntType):
    """A type whose constants are made once."""

    _instance_cache = {}
    __call__ = functools.lru_cache(1024, typed=True)(ir.Constant)


@functools.lru_cache
def pack_of_numbers(scalar, numbers):
    """A constant vector of integers."""
    return Written(pack_of(scalar, len(numbers)), f"<{', '.join(f'{scalar} {n}' for n in numbers)}>")


class Written(ir.Constant):
    """A vector by its text: of one number in all lanes llvmlite would write, and LLVM read, each one."""

    def __init__(self, vector, text):
        self.type, self.constant = vector, text

    def _get_reference(self):
        return self.constant


def full(scalar, n, number):
    """A vector of one number in all lanes."""
    return Written(pack_of(scalar, n), f"splat ({scalar} {scalar(number).get_reference()})")


class Line(PredictableInstr):
    """An instruction as LLVM reads it; whoever changes `operands` changes nothing."""

    metadata, flags = _NONE, ()

    def __init__(self, block, typ, opname, operands, text):
        self.parent, self.type, self.opname, self.operands = block, typ, opname, operands
        numbers = block.scope._basenamemap  # of what has no name, also if llvmlite makes it
        number = numbers[""] = numbers[""] + 1
        if typ is not _VOID:
            self.reference = f'%".{number}"'
            text = f"{self.reference} = {text}"
        self.text = text

    def get_reference(self):
        return self.reference

    def set_metadata(self, name, node):
        self.metadata = {**self.metadata, name: node}

    def __str__(self):
        return self.text + self._stringify_metadata(leading_comma=True) if self.metadata else self.text


def _typed(value):
    return f"{value.type} {value.get_reference()}"


class Builder(ir.IRBuilder):
    """Makes lines; their operands' types are LLVM's to check."""

    def line(self, typ, opname, operands, text):
        made = Line(self._block, typ, opname, operands, text)
        if self.debug_metadata is not None:
            made.set_metadata("dbg", self.debug_metadata)
        self._block.instructions.insert(self._anchor, made)
        self._anchor += 1
        return made

    def _compared(self, opname, op, x, y):
        typ = pack_of(_I1, x.type.count) if x.type.__class__ is ir.VectorType else _I1
        text = f"{opname} {op} {x.type} {x.get_reference()}, {y.get_reference()}"
        return self.line(typ, opname, (x, y), text)

    def icmp_signed(self, op, x, y):
        sign = "" if op in ("==", "!=") else "s"
        return self._compared("icmp", sign + _COMPARISONS[op], x, y)

    def icmp_unsigned(self, op, x, y):
        sign = "" if op in ("==", "!=") else "u"
        return self._compared("icmp", sign + _COMPARISONS[op], x, y)

    def fcmp_ordered(self, op, x, y):
        return self._compared("fcmp", f"o{_COMPARISONS[op]}" if op in _COMPARISONS else op, x, y)

    def fcmp_unordered(self, op, x, y):
        return self._compared("fcmp", f"u{_COMPARISONS[op]}" if op in _COMPARISONS else op, x, y)

    def select(self, condition, x, y):
        text = f"select  {_typed(condition)}, {_typed(x)}, {_typed(y)}"
        return self.line(x.type, "select", (condition, x, y), text)

    def not_(self, x):
        ones = full(x.type.element, x.type.count, -1) if x.type.__class__ is ir.VectorType else x.type(-1)
        return self.xor(x, ones)

    def slot(self, typ):
        """A place for a number, which begins as zero."""
        place = self.line(_PTR, "alloca", (), f"alloca {typ}")
        place.allocated_type = typ
        self.store(ir.Constant(typ, None), place)
        return place

    def load(self, place, align=None, typ=None):
        typ, end = typ or place.allocated_type, "" if align is None else f", align {align}"
        return self.line(typ, "load", (place,), f"load {typ}, {_typed(place)}{end}")

    def store(self, value, place, align=None):
        end = "" if align is None else f", align {align}"
        return self.line(_VOID, "store", (value, place), f"store {_typed(value)}, {_typed(place)}{end}")

    def gep(self, place, indices, inbounds=False, source_etype=None):
        how = "getelementptr inbounds" if inbounds else "getelementptr"
        operands = (place, *indices)
        text = f"{how} {source_etype}, {', '.join(map(_typed, operands))}"
        return self.line(place.type, "getelementptr", operands, text)

    def call(self, callee, args, **options):
        if options or callee.__class__ is not ir.Function or callee.ftype.var_arg:
            return super().call(callee, args, **options)
        result = callee.ftype.return_type
        how = f"call {callee.calling_convention}" if callee.calling_convention else "call"
        text = f"{how} {result} {callee.get_reference()}({', '.join(map(_typed, args))})"
        result = _VOID if result.__class__ is ir.VoidType else result
        return self.line(result, "call", [callee, *args], text)

    def extract_element(self, vector, index):
        operands = vector, index
        text = f"extractelement {_typed(vector)}, {_typed(index)}"
        return self.line(vector.type.element, "extractelement", operands, text)

    def insert_element(self, *operands):
        return self.line(operands[0].type, "insertelement", operands, f"insertelement {_all(operands)}")

    def shuffle_vector(self, *operands):
        typ = pack_of(operands[0].type.element, operands[2].type.count)
        return self.line(typ, "shufflevector", operands, f"shufflevector {_all(operands)}")

    def branch(self, target):
        return self._end((target,))

    def cbranch(self, *operands):
        return self._end(operands)

    def _end(self, operands):
        made = self._block.terminator = self.line(_VOID, "br", operands, f"br {_all(operands)}")
        return made


def _all(operands):
    return ", ".join(map(_typed, operands))


def _arithmetic(op):
    def emit(self, x, y, name="", flags=()):
        words = " ".join((op, *flags)) if flags else op
        return self.line(x.type, op, (x, y), f"{words} {x.type} {x.get_reference()}, {y.get_reference()}")

    return emit


def _cast(op):
    def emit(self, x, to):
        return x if x.type is to or x.type == to else self.line(to, op, (x,), f"{op} {_typed(x)} to {to}")

    return emit


for _op in _ARITHMETIC:
    setattr(Builder, _op + "_" * (_op in ("and", "or")), _arithmetic(_op))
for _op in _CASTS:
    setattr(Builder, _op, _cast(_op))
