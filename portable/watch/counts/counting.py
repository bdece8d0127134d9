"""Watches of counting builds: `Tally` counts the source's operations as they happen, `Marked` tracks lines
and keeps portable's functions (exp, random numbers) as calls, so that the optimised code can be attributed to
the source.
"""

import collections

from llvmlite import ir

from ...core.language import types as t
from ...library.texts import draws
from ...core.compiler.writing.emit import Emitter, described
from ...core.compiler.writing.lines import Integer, builder
from ...core.machines.cpu.native import define
from .recording import BANK, KNOWN, LATE, SAMPLES, WORKER, passes, record, record_lanes
from ...core.compiler.reading.tree import flat, mapped
from ...core.language.types import UNIFORM, VARYING, itemsize
from ...core.compiler.reading.typing import typed
from ...core.compiler.writing.values import I64, PTR, Value, ViewValue
from ...core.compiler.writing.watch import Watch

ISSUED = "", "issued", ""
SAMPLED = 17  # one in so many accesses to scratch is examined
PASSES = "banks taken", "banks least"
SPECIAL = "special "  # begins the name of a function that is one operation of the source


class Reached(Watch):
    """Notes how lines reach views: `accesses`, (line, view, how)."""

    def __init__(self, entry):
        self.accesses = set()

    def access(self, here, view, indices, ways, locate):
        located = how, _ = locate()
        if how not in ("contiguous", "pairs"):  # contiguous if only one index varies, in steps of one
            terms = *view.prefix, *zip(indices, view.strides)
            apart = [(v.step, stride) for v, stride in terms if v.kind != UNIFORM]
            one_by_one = apart == [(here.ops.step, itemsize(view.dtype))]
            how = "contiguous" if one_by_one else "strided or gathered" if apart else "uniform"
        self.accesses.add((here.ops.line, view.label, "contiguous" if how == "pairs" else how))
        return located


class Named(Watch):
    """Detects draws of random numbers, by a function of portable's that counts as one operation."""

    def call(self, here, node):
        if node.text.file != draws.__file__:
            return False
        inputs = [mapped(here.value, v) for v in node.inputs]
        results = self.replace_function(
            here, f"random.{node.text.name}", node.text, inputs, here.ops.float_dtype
        )
        for output, value in zip(node.outputs, () if results is None else flat(results)):
            if output.op == "get":
                builder.store(here.ops.get(value, output.dtype, output.kind), here.place_of(output.attr))
            elif output.op != "const":
                named = output.args[0] if output.op == "rounded" else output
                here.scope.values[output] = here.scope.values[named] = value
        return results is not None


class Tally(Named):
    """Counts each line, operation and dtype, in registers until the entry's end. Nothing counts but visits.

    Each active lane of a pack counts one. A basic block with one mask has one counter, of its executions:
    `kept` are (the counts of one execution, the counter's place).

    Parameters
    ----------
    look : the class that examines accesses: Touching or Banks; or None
    packs : counts, as ISSUED and of all operations together, also the lanes that the packs have, masked off
        or not
    """

    def __init__(self, look, packs, entry):
        self.look, self.packs = look and look(), packs
        self.silent = False
        self.pairs = look is not Touching  # Touching examines pairs lane by lane

    def opened(self, code, function):
        self.counters, self.added = [], {}
        if function.name == "entry":
            self.kept = self.counters
            if self.look is not None:
                self.look.opened(self, code, function)

    def done(self, code):
        """Add all counters, in their order, to the numbers of the block's, atomically."""
        function = code.module.globals["entry"]
        code.block = function.args[0]
        blocks = (block for block in function.blocks if block.terminator)
        (end,) = (block for block in blocks if block.terminator.opname == "ret void")
        builder.position_before(end.terminator)
        base = code.extra("counter", PTR)
        base = code.word(base, self.look.n_words) if isinstance(self.look, Touching) else base
        for k, (_, place) in enumerate(self.kept):
            builder.atomic_rmw("add", builder.gep(base, [k], I64), builder.load(place, I64), "monotonic")

    def counted(self, totals):
        """Return the number of times that each (line, operation, type) happened, from the counters."""
        found = collections.Counter()
        for (mix, _), runs in zip(self.kept, totals):
            for key, n in mix.items():
                found[key] += n * runs
        return dict(found)

    # ---- operations
    def replace_function(self, here, name, text, args, float_dtype):
        if self.silent or not self.visiting:
            return None
        self.silent = True
        result = here.own_text(text, args, float_dtype)
        self.silent = False
        self._count(here, name, result)
        return result

    def operation(self, here, o, args, emit):
        result = emit(here, o, *args)
        if o.counts and not _does_nothing(here.ops, o):
            if o.op == "whole" and o.attr != "trunc" and t.is_float(args[0].dtype):
                self._count(here, o.attr, result, args[0].dtype)
            dtype = None
            if o.op == "compare":
                dtype = t.promote(o.args[0].dtype, o.args[-1].dtype)
            elif o.op == "together":
                dtype = ""
            elif o.view is not None:
                dtype = t.part(o.view.dtype)
            self._count(here, o.counts, result, dtype)
        return result

    def _count(self, here, operation, value, dtype=None):
        first = value[0] if isinstance(value, tuple) and value else value
        known = isinstance(first, Value) and first.const is not None
        if not (self.silent or not self.visiting or known):
            dtype = here.ops.strong(first.dtype if dtype is None else dtype)
            self._add(here, (here.ops.line, operation, dtype))
            if self.packs:
                self._add(here, ISSUED, True)

    def _add(self, here, key, all_lanes=False):
        what = id(builder.block), all_lanes or id(here.mask)
        if what not in self.added:
            _, place = self._new(here.ops, what, builder.block, here.mask)
            builder.store(builder.load(place) + _n_lanes(here, all_lanes), place)
        self.added[what][0][key] += 1

    def _new(self, ops, what, *kept):
        self.counters.append((collections.Counter(), ops.slot(I64)))
        self.added[what] = *self.counters[-1], kept  # kept alive, so that their ids are not reused
        return self.counters[-1]

    def counter(self, ops, what):
        """Return the place of a counter of other events than operations: accesses to another line than the
        preceding one at the same place of the source, for example.
        """
        if what not in self.added:
            self._new(ops, what)[0]["", what, ""] = 1
        return self.added[what][1]

    # ---- accesses
    def access(self, here, view, indices, ways, locate):
        how, pointer = locate()
        if self.look is not None and self.visiting and not self.silent:
            self.look.access(self, here, view, how, pointer, ways)
        return how, pointer


def _does_nothing(ops, o):
    """Return True if an operation is not counted (a float's // and % count where their implementation is
    emitted).
    """
    first = o.args[0] if o.args else None
    if o.op in ("cast", "whole"):
        return ops.strong(first.dtype) == ops.strong(o.dtype)
    if o.op == "abs":
        return o.dtype in t.UNSIGNED
    if o.op == "binary":
        return o.attr in ("//", "%") and t.is_float(o.dtype)
    return o.op == "select" and first.const is not None


def _n_lanes(here, all_lanes):
    ops = here.ops
    if all_lanes or ops.W == 1 or here.mask is None:
        return I64(ops.W)
    bits = ir.IntType(ops.W)
    return builder.zext(
        builder.call_named(f"llvm.ctpop.i{ops.W}", [builder.bitcast(here.mask, bits)], bits), I64
    )


def _called(here, function, *args):
    """Call a function of recording.py; places are given by their addresses."""
    known = builder.module.globals.get(function.name)
    builder.call(
        known or _keep_function(define(builder.module, function.fn)),
        [builder.ptrtoint(x, I64) if isinstance(x.type, ir.PointerType) else x for x in args],
    )


def _lanes(here, how, pointer, size):
    """Return the address of the lanes' addresses, their number, and bits of the active ones; of a uniform
    address, of one."""
    ops, n = here.ops, 1 if how == "uniform" else here.ops.W
    whole = Integer(ops.W)
    live = whole(-1) if here.mask is None else builder.bitcast(here.mask, whole)
    if how == "uniform" and ops.W > 1:
        live = live.differs(0)
    place = ops.slot(ir.ArrayType(I64, n))
    if how == "scattered":
        builder.store(builder.ptrtoint(pointer, ir.VectorType(I64, n)), place, align=8)
    else:
        places = pointer if how == "apart" else [ops.advance(pointer, size * k) for k in range(n)]
        for k, each in enumerate(places):
            builder.store(builder.ptrtoint(each, I64), builder.gep(place, [k], I64))
    return place, I64(n), builder.zext(live, I64)


class Touching:
    """Marks each element of an argument that is read, and each that is written, in maps of a bit an element.

    Also counts how often each place of the source moves from one line of memory to another, and records a
    sample of the lines; of a pack lane by lane, or contiguous elements at once. The block's counters begin
    with the addresses of a trace and of maps, two for each view among the arguments: `n_words`.
    """

    def opened(self, tally, code, function):
        """Load the facts of the views: for each the addresses (reading, writing) of its map's bit for
        element 0.
        """
        ops, self.about = code.ops, {}
        self.views = [v for v in flat(tuple(code.args)) if isinstance(v, ViewValue)]
        self.n_words = 1 + 2 * len(self.views)
        if not self.views:
            return
        base = code.extra("counter", PTR)
        samples, *maps = (builder.load(code.word(base, k), I64) for k in range(self.n_words))
        for view, *both in zip(self.views, maps[::2], maps[1::2]):
            self._view_facts(tally, ops, view, *both, samples, function.args[3])

    def _view_facts(self, tally, ops, view, reading, writing, samples, worker):
        """Store the facts of a view at a place, followed by its counters."""
        n = KNOWN + 1 + SAMPLES
        about = self.about[view.label] = ops.slot(ir.ArrayType(I64, n))
        places = [builder.gep(about, [k], I64) for k in range(n)]
        shift = I64(itemsize(view.dtype).bit_length() - 1)
        worker = worker << WORKER
        for what, place in zip((shift, reading, writing, samples, worker), places):
            builder.store(what, place)
        names = f"moves {view.label}", *(f"{LATE}{k}" for k in range(SAMPLES))
        tally.counters += [
            (collections.Counter({("", name, ""): 1}), place) for name, place in zip(names, places[KNOWN:])
        ]

    def access(self, tally, here, view, how, pointer, ways):
        """Record one access."""
        if view.store or view.label not in self.about:
            return
        rest = self.about[view.label], here.ops.slot(I64), I64(ways)
        if here.mask is None and how in ("uniform", "contiguous"):
            _called(here, record, pointer, I64(1 if how == "uniform" else here.ops.W), *rest)
        else:
            _called(here, record_lanes, *_lanes(here, how, pointer, itemsize(view.dtype)), *rest)


class Banks:
    """Samples accesses to scratch, and counts their `passes`."""

    def opened(self, tally, code, function):
        """Do nothing."""

    def access(self, tally, here, view, how, pointer, ways):
        """Count one access, if it is of the sample."""
        if view.store != "(scratch)":
            return
        seen = here.ops.slot(I64)
        n = builder.load(seen)
        builder.store(n + 1, seen)
        with builder.if_then(builder.urem(n, SAMPLED).equals(0)):
            size, counters = itemsize(view.dtype), [tally.counter(here.ops, name) for name in PASSES]
            shift = I64(max(size, BANK).bit_length() - 1)
            _called(here, passes, *_lanes(here, how, pointer, size), shift, *counters)


class Marked(Named):
    """Gives each instruction its line as debug information: the k-th of `lines`; 0 is for no line of a
    kernel."""

    def __init__(self, entry):
        self.lines, self.specials, self._scope = [""], {}, None

    def begin_statement(self, ops, line):
        if line not in self.lines:
            self.lines.append(line)
        where = {"line": self.lines.index(line), "column": 1, "scope": self._scope}
        builder.debug_metadata = builder.module.add_debug_info("DILocation", where)

    def begin(self, ops):
        module, function = builder.module, builder.function
        if "llvm.dbg.cu" not in module.namedmetadata:
            flags = ir.IntType(32)(2), "Debug Info Version", ir.IntType(32)(3)
            module.add_named_metadata("llvm.module.flags", list(flags))
            module.add_named_metadata("llvm.dbg.cu")
        file = module.add_debug_info("DIFile", {"filename": "kernel", "directory": ""})
        unit = {"language": ir.DIToken("DW_LANG_Python"), "file": file}
        unit = module.add_debug_info("DICompileUnit", unit, is_distinct=True)
        module.get_named_metadata("llvm.dbg.cu").add(unit)
        scope = {"name": function.name, "unit": unit, "spFlags": ir.DIToken("DISPFlagDefinition")}
        self._scope = module.add_debug_info("DISubprogram", scope, is_distinct=True)
        function.set_metadata("dbg", self._scope)
        self.begin_statement(ops, "")

    def replace_function(self, here, name, text, args, float_dtype):
        """Call a separate function with a function's code, which the optimiser does not inline."""
        ops = here.ops
        args = [
            Value(v.dtype, VARYING, ops.get(v, v.dtype, VARYING)) if v.kind not in (UNIFORM, VARYING) else v
            for v in args
        ]
        types = " ".join(f"{ops.strong(v.dtype)} {v.kind} {v.const}" for v in args)
        label = f"{SPECIAL}{name} {types} x{ops.W}"
        if label not in self.specials:
            self.specials[label] = _define(here.lower, text, args, label, float_dtype)
        function, results = self.specials[label]
        x = builder.call(function, [ops.get(v) for v in args if v.const is None])
        if not isinstance(results, tuple):
            return Value(results.dtype, results.kind, x)
        return tuple(Value(r.dtype, r.kind, builder.extract_value(x, k)) for k, r in enumerate(results))


def _keep_function(function):
    """Make a function the module's own, and one that stays a function."""
    function.linkage = "internal"
    function.attributes.add("noinline")
    return function


def _define(outer, text, args, label, float_dtype):
    """Return the function of a special, and its results."""
    ops = outer.ops
    lower = Emitter(ops.target, ops.W, float_dtype, bool(ops.flags), outer.kernel_name)
    results = typed(
        text, tuple(described(v, None) for v in args), ops.W, ops.step, float_dtype, outer.kernel_name
    ).result
    returned = [lower.ops.type_of(v.dtype, v.kind) for v in flat(results)]
    returned = ir.LiteralStructType(returned) if isinstance(results, tuple) else returned[0]
    types = [lower.ops.type_of(v.dtype, v.kind) for v in args if v.const is None]
    function = _keep_function(ir.Function(builder.module, ir.FunctionType(returned, types), label))
    with builder.elsewhere():
        return function, _fill(function, lower, text, args)


def _fill(function, lower, text, args):
    """Emit the code of a function that returns a source's result, by `lower`; its arguments are the numbers
    that are not constant.
    """
    lower.begin(function)
    passed = iter(function.args)
    args = [v if v.const is not None else Value(v.dtype, v.kind, next(passed)) for v in args]
    result = lower.make_place().inline(text, args)
    values = [lower.ops.get(v) for v in flat(result)]
    whole = values[0]
    if isinstance(result, tuple):
        whole = ir.Constant(function.function_type.return_type, ir.Undefined)
        for k, x in enumerate(values):
            whole = builder.insert_value(whole, x, k)
    builder.ret(whole)
    return result
