"""Code for the operations of a typed tree: one method for each, from the values of its arguments to its
own."""

from __future__ import annotations

import hashlib
import math

import numpy as np
from llvmlite import ir

from ...language import types as t
from ..reading.known import text_of, texts
from .memory import Memory, row_major
from ..reading.team import combine_states
from ...language.types import UNIFORM, VARYING
from .values import I8, I64, PTR, Value, ViewValue


class Instructions(Memory):
    """Needs from the class on top: `values`, `slots`, `frame`, `team`, `under`, `inline` and `block` (see
    emit.py)."""

    # ---- storage
    def slot(self, llvm_type):
        with self.b.goto_entry_block():
            place = self.b.slot(llvm_type)
        if self.b.block.is_terminated:  # what is emitted before a loop stands before its branch
            self.b.position_before(self.b.block.terminator)
        return place

    def dummy(self):
        """A place of 64 bytes that nobody reads."""
        if self._dummy is None:
            with self.b.goto_entry_block():
                self._dummy = self.b.alloca(ir.ArrayType(I64, 8))
        return self._dummy

    def emit_view(self, view):
        if view.options:
            result = self.chosen(view, self.value(view.items[0]))
        elif view.base is not None:
            items = [
                tuple(i and self.value(i) for i in item) if isinstance(item, tuple) else self.value(item)
                for item in view.items
            ]
            result = self.part(self.values[view.base], items)
        elif view.store == "(local)":
            result = self._private(view)
        elif view.store == "(table)":
            result = self._table(view)
        else:
            shape = [n if isinstance(n, int) else self.index_number(self.value(n)) for n in view.shape]
            result = self.team.scratch(self, view.label, view.dtype, shape)
        self.values[view] = result

    def chosen(self, view, number):
        """One of several views."""
        first, *others = [self.values[v] for v in view.options]
        parts = [first.pointer, *first.shape, *first.strides]
        for k, other in enumerate(others, 1):
            here = self.get(self.compare("==", number, self.const(k)), "bool", UNIFORM)
            for n, (a, b) in enumerate(zip(parts, (other.pointer, *other.shape, *other.strides))):
                if a is not b and a != b:
                    parts[n] = self.b.select(here, *(I64(v) if isinstance(v, int) else v for v in (b, a)))
        d = len(first.shape) + 1
        return ViewValue(view.label, view.dtype, parts[0], parts[1:d], parts[d:], view.readonly)

    def _table(self, view):
        dtype, shape, strides = row_major(self.strong(view.dtype), view.shape)
        data = np.array(view.data, dtype).tobytes()
        name = f"table_{hashlib.sha256(data).hexdigest()[:16]}"
        place = self.b.module.globals.get(name)
        if place is None:
            place = ir.GlobalVariable(self.b.module, ir.ArrayType(I8, len(data)), name)
            place.initializer, place.global_constant, place.linkage, place.align = (
                ir.Constant(place.value_type, bytearray(data)),
                True,
                "internal",
                64,
            )
        return ViewValue(view.label, dtype, place, shape, strides, readonly=True, store="(table)")

    def _private(self, view):
        dtype, shape, strides = row_major(view.dtype, view.shape)
        with self.b.goto_entry_block():
            place = self.b.alloca(ir.ArrayType(self.memory_type(dtype), math.prod(shape) * self.W))
            place.align, place.type = 64, PTR
        return ViewValue(view.label, dtype, place, shape, strides, lanes_last=True, store="(local)")

    # ---- operations
    def emit_get(self, o):
        return self.read(o.attr)

    def read(self, variable):
        loops = self.frame.loops if self.frame else ()
        place = next(
            (loop.free[variable] for loop in reversed(loops) if variable in loop.free), None
        ) or self.slot_of(variable)
        return Value(
            variable.dtype, variable.kind, self.b.load(place, typ=self.type_of(variable.dtype, variable.kind))
        )

    def slot_of(self, variable):
        if variable not in self.slots:
            self.slots[variable] = self.slot(self.type_of(variable.dtype, variable.kind))
        return self.slots[variable]

    def emit_binary(self, o, a, b):
        return self.binary(o.attr, a, b)

    def emit_compare(self, o, a, b):
        return self.compare(o.attr, a, b)

    def emit_cast(self, o, a):
        return self.cast(a, o.dtype)

    emit_settle = emit_cast

    def emit_one(self, o, a):
        return self.cast(self.const(1), a.dtype)

    def emit_rounded(self, o, a):
        return rounded(a)

    def emit_not(self, o, a):
        return self.logical_not(a)

    def emit_negate(self, o, a):
        return self.negate(a)

    def emit_invert(self, o, a):
        return self.invert(a)

    def emit_select(self, o, condition, a, b):
        return self.select(condition, a, b)

    def emit_extreme(self, o, a, b):
        (op, nan_wins), dtype = o.attr, o.dtype
        if nan_wins and t.is_float(dtype):
            kind = self.kind_of(a, b)
            return Value(
                dtype,
                kind,
                self.intrinsic(
                    "minimum" if op == "<" else "maximum", [self.get(v, dtype, kind) for v in (a, b)]
                ),
            )
        if nan_wins:
            return self.select(self.compare(op, a, b), a, b)
        # Python's min and max: the first unless a later one is better
        return self.select(self.compare(op, b, a), b, a)

    def emit_abs(self, o, a):
        if t.is_float(a.dtype):
            return Value(a.dtype, a.kind, self.intrinsic("fabs", [self.get(a)]))
        return (
            a
            if a.dtype in t.UNSIGNED
            else self.select(self.compare("<", a, self.const(0)), self.negate(a), a)
        )

    def emit_intrinsic(self, o, *values):
        return self.float_intrinsic(o.attr, values)

    def float_intrinsic(self, name, values):
        dtype, kind = t.common_float(values), self.kind_of(*values)
        return Value(dtype, kind, self.intrinsic(name, [self.get(v, dtype, kind) for v in values]))

    def emit_whole(self, o, a):
        if not t.is_float(a.dtype):
            return self.cast(a, "int") if a.dtype == "bool" else a
        if a.const is not None:  # of a number that wraps where it is stored, see `Operations.whole`
            own = self.strong(a.dtype)
            a = Value(own, UNIFORM, self.get(a, own, UNIFORM))
        return self.cast(
            a if o.attr == "trunc" else self.counted(o.attr, self.float_intrinsic(o.attr, [a])), "int"
        )

    def emit_bits(self, o, a):
        return self._reinterpret(a, self.strong(a.dtype), o.dtype)

    def emit_from_bits(self, o, a):
        integer = "int32" if o.attr == "float32" else "int64"
        return self._reinterpret(self.cast(a, integer), integer, o.attr)

    def _reinterpret(self, v, dtype, to):
        kind = VARYING if v.kind != UNIFORM else UNIFORM
        x = self.get(v, dtype, kind)
        return Value(to, kind, self.b.bitcast(x, self.type_of(to, kind)))

    def emit_lanes(self, o, c):
        if self.W == 1 or c.kind == UNIFORM:
            return c
        c = self.get(c, "bool", VARYING)
        c = c if o.attr == "any" else self.b.not_(c)
        some = self.any_lane(c if self.mask is None else self.b.and_(c, self.mask))
        return Value("bool", UNIFORM, some if o.attr == "any" else self.b.not_(some))

    def emit_math(self, o, *values):
        name, fast = o.attr
        dtype = t.common_float(values)
        values = [self.cast(v, self.strong(dtype)) for v in values]
        native = self.target.fast_math(self, name, values) if fast or self.fastmath else None
        if native is not None:
            return native
        return self.layers_text(
            ("fast_" if fast else "") + name, texts(name, fast or self.fastmath), values, dtype
        )

    def float_division(self, op, a, b, dtype):
        """Python's // and % of floats, by the layer's own text."""
        values = [self.cast(v, self.strong(dtype)) for v in (a, b)]
        return self.layers_text(op, texts("divmod"), values, dtype, op == "%")

    def layers_text(self, name, pair, values, dtype, part=None):
        """A text of the layer's own, of two for float32 and float64, as one operation; or a part of what it
        gives."""
        strong = self.strong(dtype)
        with self.under(float_dtype=strong):  # constants among themselves are of the function's dtype
            result = self.inline(text_of(pair[strong == "float64"]), values)
        result = result if part is None else result[part]
        return Value(dtype, result.kind, result.ir, result.const) if t.is_weak(dtype) else result

    def emit_load(self, o, *indices):
        x = self.load(self.values[o.view], indices)
        return x if x.dtype == o.dtype else Value(o.dtype, x.kind, x.ir)  # of a table of weak numbers

    def emit_store(self, o, *args):
        view, value = self.values[o.view], args[-1]
        if t.is_float(value.dtype) and not t.is_float(view.dtype) and value.const is None:
            value = self.cast(value, view.dtype)
        self.store(view, args[:-1], value)

    def emit_atomic(self, o, *args):
        (op, wanted), n = o.attr, len(o.view.shape)
        return self.atomic(
            op, self.values[o.view], args[:n], args[-1], args[n] if op == "cas" else None, wanted
        )

    # ---- operands that are evaluated only where others let them
    def emit_junction(self, o, c, left):
        conjunction, branches = o.attr
        if self.W > 1 and c.kind != UNIFORM:
            right = self._lazily(o.parts[0], c, conjunction)
        elif branches or self.always_branches:
            return self.branch_value(
                c if conjunction else self.logical_not(c), lambda: self._part(o.parts[0]), lambda: left
            )
        else:
            right = self._part(o.parts[0])
        if left.dtype != "bool" or right.dtype != "bool":
            return self.select(c, right, left) if conjunction else self.select(c, left, right)
        kind = self.kind_of(left, right)
        x, y = self.get(left, "bool", kind), self.get(right, "bool", kind)
        return Value("bool", kind, self.b.and_(x, y) if conjunction else self.b.or_(x, y))

    def emit_choice(self, o, c):
        if self.W > 1 and c.kind != UNIFORM:
            a, b = self._lazily(o.parts[0], c, True), self._lazily(o.parts[1], c, False)
        elif o.attr or self.always_branches:
            return self.branch_value(c, *(lambda part=part: self._part(part) for part in o.parts))
        else:
            a, b = map(self._part, o.parts)
        return self.select(c, a, b)

    always_branches = False  # also where a select would do

    def _part(self, part):
        block, result = part
        self.block(block)
        return self.value(result)

    def _lazily(self, part, condition, holds):
        """An operand for the lanes in which the condition holds, or does not."""
        mask = (self.mask_and if holds else self.mask_without)(self.mask, condition)
        with self.under(mask=mask, alive=False):
            return self._part(part)

    def branch_value(self, condition, then, otherwise):
        """The value of one of two expressions, chosen by a branch."""
        with self.b.if_else(self.get(condition, "bool", UNIFORM)) as (yes, no):
            with yes:
                a = then()
                end_a = self.b.block
            with no:
                b = otherwise()
                end_b = self.b.block
        dtype = t.promote(a.dtype, b.dtype)
        kind = VARYING if condition.kind != UNIFORM else self.kind_of(a, b)
        after = self.b.block
        spread = VARYING if self.W > 1 and self.kind_of(a, b) == VARYING else UNIFORM
        incoming = []
        for v, end in ((a, end_a), (b, end_b)):  # convert where the value was made
            self.b.position_before(end.terminator)
            incoming.append((self.get(v, dtype, spread), end))
        self.b.position_at_end(after)
        phi = self.b.phi(incoming[0][0].type)
        for value, end in incoming:
            phi.add_incoming(value, end)
        return Value(dtype, kind, phi)

    # ---- teams
    def emit_league_rank(self, o):
        return Value("int", UNIFORM, self.team.league_rank)

    def emit_league_size(self, o):
        return Value("int", UNIFORM, self.team.league_size)

    def emit_rank(self, o):
        return self.team.rank(self)

    def emit_together(self, o):
        return None

    def emit_barrier(self, o):
        self.team.barrier(self)

    def emit_broadcast(self, o, value, rank):
        return self.team.pick(self, value, rank)

    def emit_append(self, o, at, value, keep):
        return self.team.append(self, self.values[o.view], at, value, keep)

    def emit_tally(self, o, index):
        return self.team.tally(self, self.values[o.view], index, o.view.shape[0])

    def emit_combine(self, o, *state):
        if o.attr.commutes:
            return self.team.combine(self, state, o.attr, again=self.n_calls > 1 or bool(self.frame.loops))
        last = self.const(self.described_team[1] - 1)  # the members' before the last one, and its own
        return tuple(
            self.team.pick(self, v, last)
            for v in combine_states(self, o.attr, self.emit_before(o, *state), state)
        )

    def emit_item(self, o, states):
        return states[o.attr]

    emit_part = emit_item

    def emit_foreign(self, o, *values):
        return self.target.foreign(self, o.attr, values)

    def emit_before(self, o, *own):
        own = tuple(Value(v.dtype, VARYING, self.get(v, None, VARYING)) for v in own)
        neutral = tuple(self.strong_const(n, v.dtype) for n, v in zip(o.attr.neutral(own[0].dtype), own))
        found = self.team.before(self, own, neutral, lambda a, b: combine_states(self, o.attr, a, b))
        return tuple(Value(v.dtype, VARYING, self.get(v, None, VARYING)) for v in found)


def rounded(v):
    """What crosses the end of a function: a product is a number like any other, which no sum takes apart."""
    return Value(v.dtype, v.kind, v.ir, v.const) if isinstance(v, Value) and v.factors else v
