"""Emitters for counting builds: `Tally` counts the text's operations where they happen, `Marked` keeps track
of lines and leaves the layer's own functions (exp, random numbers) as calls, so that the optimised code says
what the text became.
"""

from __future__ import annotations

import collections
import contextlib

from llvmlite import ir

from ...core.texts import draws
from ...core.compiler.writing.emit import Emitter, described
from ...core.compiler.reading.known import text_of
from ...core.compiler.writing.lines import Builder
from .recording import KNOWN, LATE, WORKER, outlined
from ...core.compiler.reading.tree import flat, mapped
from ...core.language.types import UNIFORM, VARYING, itemsize
from ...core.compiler.reading.typing import typed
from ...core.compiler.writing.values import I64, Value

ISSUED = "", "issued", ""
# Of a GPU's shared memory: banks, and bytes of a word; every so many accesses are looked at
WORDS, BANK, SAMPLED = 32, 4, 17
PASSES = "banks taken", "banks least"
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
        if self.silent or call.text.file != draws.__file__:
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
    """Counts each line, operation and dtype, in registers until `flush`. Nothing counts before `speaking`.

    Of a pack each lane that takes part counts one. A block of code with one mask has one counter, of its
    runs: `counters` are (how often one run counts what, the counter's place).
    """

    def begin(self, builder, mask=None):
        super().begin(builder, mask)
        self.counters, self.added, self.silent = [], {}, True

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
        here = id(self.b.block), all_lanes or id(self.mask)
        if here not in self.added:
            _, place = self._new(here, self.b.block, self.mask)
            self.b.store(self.b.add(self.b.load(place, typ=I64), self._lanes(all_lanes)), place)
        self.added[here][0][key] += 1

    def _new(self, what, *kept):
        self.counters.append((collections.Counter(), self.slot(I64)))
        self.added[what] = *self.counters[-1], kept  # whose ids no other thing gets
        return self.counters[-1]

    def counter(self, what):
        """The place of a counter of what is no operation: of accesses to another line than the one before at
        the same place of the text, say."""
        if what not in self.added:
            self._new(what)[0]["", what, ""] = 1
        return self.added[what][1]

    def _lanes(self, all_lanes):
        if all_lanes or self.W == 1 or self.mask is None:
            return I64(self.W)
        bits = ir.IntType(self.W)
        count = self.call(f"llvm.ctpop.i{self.W}", [self.b.bitcast(self.mask, bits)], bits)
        return self.b.zext(count, I64)

    def _places(self, how, pointer, size):
        """(addresses, bits of those that take part) of the lanes; of what is the same for all, of one."""
        n = 1 if how == "uniform" else self.W
        whole = ir.IntType(self.W)
        live = whole(-1) if self.mask is None else self.b.bitcast(self.mask, whole)
        if how == "uniform" and self.W > 1:
            live = self.b.icmp_unsigned("!=", live, whole(0))
        vector = ir.VectorType(I64, n)
        if how == "scattered":
            return self.b.ptrtoint(pointer, vector), live
        places = pointer if how == "apart" else [self.advance(pointer, size * k) for k in range(n)]
        addresses = ir.Constant(vector, ir.Undefined)
        for k, place in enumerate(places):
            addresses = self.b.insert_element(addresses, self.b.ptrtoint(place, I64), I64(k))
        return addresses, live

    def flush(self, base):
        """Add all counters, in their order, to the numbers at `base`, whoever else does so at the same
        time."""
        for k, (_, place) in enumerate(self.counters):
            total = self.b.gep(base, [I64(k)], source_etype=I64)
            self.b.atomic_rmw("add", total, self.b.load(place, typ=I64), "monotonic")


class Touching(Tally):
    """Also marks each element of an argument that is read, and each that is written, in maps of a byte an
    element.

    And how often each place of the text goes on from a line of memory to another, a sample of which it
    records; of a pack lane by lane, or elements side by side at once.
    """

    def begin(self, builder, mask=None):
        super().begin(builder, mask)
        self.about, self.ways = {}, 0

    def watch(self, views, maps, record, samples, worker):
        """Look at the accesses to views: `record` (see `Recorder`) is told of each, with what is known of its
        view. `maps`: of each view the addresses (reading, writing) of its map's byte for element 0."""
        self.record = record
        for view, both in zip(views, maps):
            about = self.about[view.label] = self.slot(ir.ArrayType(I64, KNOWN + 1 + record.n_samples))
            places = [
                self.b.gep(about, [I64(k)], source_etype=I64) for k in range(KNOWN + 1 + record.n_samples)
            ]
            shift = I64(itemsize(view.dtype).bit_length() - 1)
            for what, place in zip((shift, *both, samples, self.b.shl(worker, I64(WORKER))), places):
                self.b.store(what, place)
            names = f"moves {view.label}", *(f"{LATE}{k}" for k in range(record.n_samples))
            self.counters += [
                (collections.Counter({("", name, ""): 1}), place)
                for name, place in zip(names, places[KNOWN:])
            ]

    def load(self, view, indices):
        return self._going(1, super().load, view, indices)

    def store(self, view, indices, value):
        return self._going(2, super().store, view, indices, value)

    def atomic(self, op, view, *rest, **options):
        return self._going(3, super().atomic, op, view, *rest, **options)

    def _going(self, ways, reach, *args, **options):
        outer, self.ways = self.ways, ways
        result = reach(*args, **options)
        self.ways = outer
        return result

    def locate(self, view, indices, pairs=False):
        how, pointer = super().locate(view, indices)  # pairs lane by lane
        if not self.silent and not view.store and view.label in self.about:
            rest = self.about[view.label], self.slot(I64), I64(self.ways)
            if self.mask is None and how in ("uniform", "contiguous"):
                n = 1 if how == "uniform" else self.W
                self.b.call(self.record(n), [self.b.ptrtoint(pointer, I64), *rest])
            else:
                addresses, live = self._places(how, pointer, itemsize(view.dtype))
                self.b.call(self.record(addresses.type), [addresses, live, *rest])
        return how, pointer


class Packs(Tally):
    """Counts, as ISSUED and of all operations together, also the lanes that the packs have, masked off or
    not."""

    def add(self, key, all_lanes=False):
        super().add(key)
        super().add(ISSUED, all_lanes=True)


class Banks(Tally):
    """Also samples accesses to scratch: words that the lanes of a pack, a GPU's warp, take of one bank, one
    after the other, of which the bank with most decides; and how often there would be one alone.

    As NVIDIA documents it: 32 banks hold successive words of four bytes, and give one word at a time, to as
    many lanes as want it; of elements of 8 or 16 bytes half or a quarter of a warp is served at once.
    """

    def __init__(self, *args):
        self.passes = {}  # the functions that there are, by lanes and bytes of an element
        super().__init__(*args)

    def locate(self, view, indices, pairs=False):
        how, pointer = super().locate(view, indices, pairs)
        if not self.silent and view.store == "(scratch)":
            seen = self.slot(I64)
            n = self.b.load(seen, typ=I64)
            self.b.store(self.b.add(n, I64(1)), seen)
            with self.b.if_then(self.b.icmp_unsigned("==", self.b.urem(n, I64(SAMPLED)), I64(0))):
                self._look(how, pointer, itemsize(view.dtype))
        return how, pointer

    def _look(self, how, pointer, size):
        """Count one access."""
        addresses, live = self._places(how, pointer, size)
        key = addresses.type.count, max(size, BANK)
        if key not in self.passes:
            self.passes[key] = _Passes(self.b.module, *key).function
        both = self.b.call(self.passes[key], [addresses, live])
        for k, name in enumerate(PASSES):
            place = self.counter(name)
            more = self.b.extract_value(both, k)
            self.b.store(self.b.add(self.b.load(place, typ=I64), more), place)


class _Passes:
    """Writes, into a function of its own, how many words of an access come one after the other: of the places
    of n lanes and the bits of those that take part (that number, and what it would be without conflicts)."""

    def __init__(self, module, n, unit):
        self.n, self.bits, self.at_once = n, ir.IntType(n), WORDS * BANK // unit
        types = [ir.VectorType(I64, n), self.bits]
        self.function = outlined(module, ir.LiteralStructType([I64, I64]), types, f"passes.{n}.{unit}")
        self.b = ir.IRBuilder(self.function.append_basic_block())
        addresses, live = self.function.args
        word = self.b.lshr(addresses, self.all(I64(unit.bit_length() - 1)))
        both = ir.Constant(self.function.function_type.return_type, ir.Undefined)
        for k, x in enumerate(self.conflicts(word, live)):
            both = self.b.insert_value(both, x, k)
        self.b.ret(both)

    def conflicts(self, word, live):
        bank, first = self.b.and_(word, self.all(I64(self.at_once - 1))), self.first(word, live)
        taken = least = I64(0)
        for start in range(0, self.n, self.at_once):
            lanes = range(start, min(self.n, start + self.at_once))
            among = self.bits(sum(1 << k for k in lanes))
            any_one = self.b.icmp_unsigned("!=", self.b.and_(live, among), self.bits(0))
            least = self.b.add(least, self.b.zext(any_one, I64))
            taken = self.b.add(taken, self.b.zext(self.most(bank, lanes, among, first), I64))
        return taken, least

    def most(self, bank, lanes, among, first):
        """How many words the bank with most has to give to these lanes."""
        most = self.bits(0)
        for k in lanes:
            each = self.b.ctpop(self.alike(bank, k, among, first))
            most = self.b.select(self.b.icmp_unsigned(">", each, most), each, most)
        return most

    def first(self, word, live):
        """Bits of the lanes that want a word which no lane before them wants at the same time."""
        b, first = self.b, self.bits(0)
        for k in range(self.n):
            before = self.bits((1 << k) - (1 << k // self.at_once * self.at_once))
            earlier = self.alike(word, k, before, live)
            alone = b.select(b.icmp_unsigned("==", earlier, self.bits(0)), self.bits(1 << k), self.bits(0))
            first = b.or_(first, b.and_(live, alone))
        return first

    def alike(self, values, k, among, which):
        """Bits of those lanes that have the value of lane k."""
        same = self.b.icmp_unsigned("==", values, self.all(self.b.extract_element(values, I64(k))))
        return self.b.and_(self.b.and_(self.b.bitcast(same, self.bits), among), which)

    def all(self, x):
        """A vector of as many lanes, all of them x."""
        vector = ir.Constant(ir.VectorType(I64, self.n), ir.Undefined)
        for k in range(self.n):
            vector = self.b.insert_element(vector, x, I64(k))
        return vector


class Marked(_Named):
    """Gives each instruction its line as debug information: the k-th of `lines`; 0 is for no line of a
    kernel."""

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
        function = outlined(self.b.module, returned, types, label)
        return function, self._fill(function, lower, text, args)

    @staticmethod
    def _fill(function, lower, text, args):
        """Code of a function that returns what a text gives, emitted by `lower`; its arguments are those
        whose numbers are not known."""
        builder = Builder(function.append_basic_block("begin"))
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
            whole = ir.Constant(function.function_type.return_type, ir.Undefined)
            for k, x in enumerate(values):
                whole = builder.insert_value(whole, x, k)
        builder.ret(whole)
        return result
