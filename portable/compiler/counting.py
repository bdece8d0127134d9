"""Emitters for counting builds: `Tally` counts the text's operations where they happen, `Marked` keeps track of lines and
leaves the layer's own functions (exp, random numbers) as calls, so that the optimised code says what the text became.
"""

from __future__ import annotations

import contextlib

from llvmlite import ir

from .. import random
from .emit import Emitter, described
from .known import text_of
from .memory import itemsize
from .tree import flat, mapped
from .types import UNIFORM, VARYING
from .typing import typed
from .values import I8, I64, Value

ISSUED = "", "issued", ""
LINE = 64  # bytes that a cache moves at once
SPECIAL = "special "  # begins the name of a function that is one operation of the text


class _Named(Emitter):
    """Knows when a function of the layer's own is called that counts as one operation."""

    silent = False

    def layers_text(self, name, pair, values, dtype, part=None):
        if self.silent:
            return super().layers_text(name, pair, values, dtype, part)
        text = text_of(pair[self.strong(dtype) == "float64"])
        result = self.special(name, text, values, self.strong(dtype))
        result = result if part is None else result[part]
        return Value(dtype, result.kind, result.ir, result.const)

    def emit_call(self, call):
        if self.silent or call.text.file != random.__file__:
            super().emit_call(call)
            return
        results = self.special(
            f"random.{call.text.name}",
            call.text,
            [mapped(self.value, v) for v in call.inputs],
            self.float_dtype,
        )
        for output, value in zip(call.outputs, flat(results)):
            if output.op == "get":
                self.b.store(self.get(value, output.dtype, output.kind), self.slot_of(output.attr))
            elif output.op != "const":
                self.values[output] = self.values[output.args[0] if output.op == "rounded" else output] = (
                    value
                )


class Tally(_Named):
    """A counter for each line, operation and dtype, in registers until `flush`. Nothing counts before `speaking`.

    Of a pack each lane that takes part counts one. In a block of code with one mask all operations of a kind are one addition.
    """

    def begin(self, builder, mask=None):
        super().begin(builder, mask)
        self.counters, self.added, self.silent = {}, {}, True

    @contextlib.contextmanager
    def speaking(self, on=True):
        outer, self.silent = self.silent, not on
        yield
        self.silent = outer

    @property
    def always_branches(self):
        return self.W == 1

    def special(self, name, text, args, float_dtype):
        with self.speaking(False), self.under(float_dtype=float_dtype):
            result = self.inline(text, args)
        return self.counted(name, result)

    def counted(self, operation, value=None, dtype=None):
        first = value[0] if isinstance(value, tuple) and value else value
        if self.silent or isinstance(first, Value) and first.const is not None:
            return value
        self.add((self.line, operation, self.strong(dtype if dtype is not None else first.dtype)))
        return value

    def add(self, key, all_lanes=False):
        here = key, id(self.b.block), all_lanes or id(self.mask)
        if here in self.added:
            self.added[here][0].constant += 1
            return
        n = ir.Constant(I64, 1)  # grows until the code is written
        self.added[here] = n, self.b.block, self.mask
        place = self.counters.setdefault(key, None) or self.slot(I64)
        self.counters[key] = place
        self.b.store(self.b.add(self.b.load(place, typ=I64), self.b.mul(n, self._lanes(all_lanes))), place)

    def _lanes(self, all_lanes):
        if all_lanes or self.W == 1 or self.mask is None:
            return ir.Constant(I64, self.W)
        bits = ir.IntType(self.W)
        count = self.call(f"llvm.ctpop.i{self.W}", [self.b.bitcast(self.mask, bits)], bits)
        return self.b.zext(count, I64)

    def flush(self, base):
        """Add all counters, in their order, to the numbers at `base`, whoever else does so at the same time."""
        for k, place in enumerate(self.counters.values()):
            total = self.b.gep(base, [ir.Constant(I64, k)], source_etype=I64)
            self.b.atomic_rmw("add", total, self.b.load(place, typ=I64), "monotonic")


class Touching(Tally):
    """Also marks each element of an argument that is read, and each that is written, in maps of a byte an element.

    And how often each place of the text goes on from a line of memory to another. One index at a time. `maps`: for each argument's name the addresses (reading, writing) of its map's byte for element 0 of memory.
    """

    def begin(self, builder, mask=None):
        super().begin(builder, mask)
        self.maps, self.ways = {}, ()

    def load(self, view, indices):
        return self._going((0,), super().load, view, indices)

    def store(self, view, indices, value):
        return self._going((1,), super().store, view, indices, value)

    def atomic(self, op, view, *rest, **options):
        return self._going((0, 1), super().atomic, op, view, *rest, **options)

    def _going(self, ways, reach, *args, **options):
        outer, self.ways = self.ways, ways
        result = reach(*args, **options)
        self.ways = outer
        return result

    def locate(self, view, indices):
        how, pointer = super().locate(view, indices)
        if not self.silent and not view.store and view.label in self.maps:
            shift = ir.Constant(I64, itemsize(view.dtype).bit_length() - 1)
            address = self.b.ptrtoint(pointer, I64)
            element = self.b.lshr(address, shift)
            self._goes_on(view.label, self.b.lshr(address, ir.Constant(I64, LINE.bit_length() - 1)))
            for way in self.ways:
                self.b.store(
                    ir.Constant(I8, 1), self.b.gep(self.maps[view.label][way], [element], source_etype=I8)
                )
        return how, pointer

    def _goes_on(self, label, line):
        """Count an access if it is to another line than the one before it at this place of the text."""
        last, key = self.slot(I64), ("", f"moves {label}", "")
        other = self.b.zext(self.b.icmp_unsigned("!=", self.b.load(last, typ=I64), line), I64)
        self.b.store(line, last)
        place = self.counters.setdefault(key, None) or self.slot(I64)
        self.counters[key] = place
        self.b.store(self.b.add(self.b.load(place, typ=I64), other), place)


class Packs(Tally):
    """Counts, as ISSUED and of all operations together, also the lanes that the packs have, masked off or not."""

    def add(self, key, all_lanes=False):
        super().add(key)
        super().add(ISSUED, all_lanes=True)


class Marked(_Named):
    """Gives each instruction its line as debug information: the k-th of `lines`; 0 is for no line of a kernel."""

    def __init__(self, *args):
        self.lines, self.specials, self._line, self._scope = [""], {}, "", None
        super().__init__(*args)

    @property
    def line(self):
        return self._line

    @line.setter
    def line(self, where):
        self._line = where
        if self.__dict__.get("b") is not None and self._scope is not None:
            if where not in self.lines:
                self.lines.append(where)
            self.b.debug_metadata = self.b.module.add_debug_info(
                "DILocation", {"line": self.lines.index(where), "column": 1, "scope": self._scope}
            )

    def begin(self, builder, mask=None):
        super().begin(builder, mask)
        module, function = builder.module, builder.function
        if "llvm.module.flags" not in module.namedmetadata:
            module.add_named_metadata(
                "llvm.module.flags",
                [
                    ir.Constant(ir.IntType(32), n) if isinstance(n, int) else n
                    for n in (2, "Debug Info Version", 3)
                ],
            )
        file = module.add_debug_info("DIFile", {"filename": "kernel", "directory": ""})
        unit = module.add_debug_info(
            "DICompileUnit",
            {
                "language": ir.DIToken("DW_LANG_Python"),
                "file": file,
                "isOptimized": True,
                "emissionKind": ir.DIToken("NoDebug"),
            },
            is_distinct=True,
        )
        kind = module.add_debug_info("DISubroutineType", {"types": module.add_metadata([None])})
        if "llvm.dbg.cu" not in module.namedmetadata:
            module.add_named_metadata("llvm.dbg.cu")
        module.get_named_metadata("llvm.dbg.cu").add(unit)
        self._scope = module.add_debug_info(
            "DISubprogram",
            {
                "name": function.name,
                "file": file,
                "line": 1,
                "type": kind,
                "unit": unit,
                "spFlags": ir.DIToken("DISPFlagDefinition"),
            },
            is_distinct=True,
        )
        function.set_metadata("dbg", self._scope)
        self.line = ""

    def special(self, name, text, args, float_dtype):
        """A call of a function with the text's code, which the optimiser does not look into."""
        args = [
            Value(v.dtype, VARYING, self.get(v, v.dtype, VARYING)) if v.kind not in (UNIFORM, VARYING) else v
            for v in args
        ]
        label = (
            f"{SPECIAL}{name} "
            + " ".join(f"{self.strong(v.dtype)} {v.kind} {v.const}" for v in args)
            + f" x{self.W}"
        )
        passed = [v for v in args if v.const is None]
        if label not in self.specials:
            self.specials[label] = self._define(text, args, label, float_dtype)
        function, results = self.specials[label]
        x = self.b.call(function, [self.get(v) for v in passed])
        if not isinstance(results, tuple):
            return Value(results.dtype, results.kind, x)
        return tuple(Value(r.dtype, r.kind, self.b.extract_value(x, k)) for k, r in enumerate(results))

    def _define(self, text, args, label, float_dtype):
        """The function of a special, and what it gives."""
        lower = Emitter(self.target, self.W, float_dtype, self.fastmath, self.kernel_name)
        known = tuple(described(v, None) for v in args)
        results = typed(text, known, self.W, self.target.step, float_dtype, self.kernel_name).result
        returned = [lower.type_of(v.dtype, v.kind) for v in flat(results)]
        returned = ir.LiteralStructType(returned) if isinstance(results, tuple) else returned[0]
        types = [lower.type_of(v.dtype, v.kind) for v in args if v.const is None]
        function = ir.Function(self.b.module, ir.FunctionType(returned, types), label)
        function.linkage = "internal"
        function.attributes.add("noinline")
        builder = ir.IRBuilder(function.append_basic_block("begin"))
        start = builder.append_basic_block("start")
        builder.branch(start)
        builder.position_at_end(start)
        lower.begin(builder)
        passed = iter(function.args)
        result = lower.inline(
            text, [v if v.const is not None else Value(v.dtype, v.kind, next(passed)) for v in args]
        )
        values = [lower.get(v) for v in flat(result)]
        whole = values[0]
        if isinstance(result, tuple):
            whole = ir.Constant(returned, ir.Undefined)
            for k, x in enumerate(values):
                whole = builder.insert_value(whole, x, k)
        builder.ret(whole)
        return function, result
