"""A typed tree as a Python function that watches what it does: one line an operation, and the place in the user's text of each line.

    x[i] += a        becomes        v7 = load(p1, p0, 96)
                                    v8 = v7 + p2
                                    store(p1, p0, v8, 96)
"""

from __future__ import annotations

import ast
import functools
import math
from pathlib import Path
from typing import NamedTuple

from ... import words
from ...compiler import types as t
from ...compiler.operations import Operations
from ...compiler.tree import Call, If, Leave, Loop, Operation, Rejoin, Set, View, flat
from ...compiler.typing import refuse
from . import access, arithmetic
from .memory import ALIGN, SITE_SHIFT

PLACES = "__places__"  # a global of these functions only: where each of their lines comes from
_OWN = Path(words.__file__).parent  # the layer's own texts
_SCOPE = {"load": access.load, "store": access.store, "atomic": access.atomic, "single": arithmetic.single,
          "divided": arithmetic.divided, "shifted": arithmetic.shifted, "converted": t.converted, "isfinite": math.isfinite}


class Site(NamedTuple):
    """A place in a text."""

    file: str
    line: int
    column: int = 0


SITES = []  # by number, for the life of the process


@functools.cache
def site_of(*place):
    """The number of a Site."""
    SITES.append(Site(*place))
    return len(SITES) - 1


def _place(text, node):
    return Site(text.file, text.line + node.lineno - text.tree.lineno, node.col_offset)


class Code:
    """The function of a tree, `function(run, *numbers and views)`, which returns numbers one after the other.

    Attributes
    ----------
    source : str
    scratch_static : bytes of scratch whose shape is known here
    leaks : whether a float64 that is stored in float32 is a mistake
    dtypes : strong dtypes of what it returns, `to` if that is given
    """

    accesses, strong_const = (), staticmethod(Operations.strong_const)

    def __init__(self, tree, float_dtype, kernel_name, to=None, returns=True):
        self.tree, self.float_dtype, self.kernel_name, self.to, self.is_wanted = tree, float_dtype, kernel_name, to, returns
        self.names, self.scope, self.returns = {}, dict(_SCOPE), {}
        self.lines, self.depth, self.place, self.texts, self.scratch_static = [], 0, _place(tree.text, tree.text.tree), [], 0
        self.scope[PLACES] = self.places = []
        self.leaves = flat(tuple(tree.inputs))
        for k, leaf in enumerate(self.leaves):
            self.names[leaf] = f"p{k}" if isinstance(leaf, (Operation, View)) else "team"
        self.say(f"def kernel({', '.join(['run', *map(self.names.get, self.leaves)])}):")
        self.depth = 1
        self._kernel()
        results = [v for v in flat(tree.result) if isinstance(v, Operation)] if returns and tree.result is not None else []
        self.dtypes = to or [self.strong(v.dtype) for v in results]
        self.source = "\n".join(self.lines)
        exec(compile(self.source, f"<checked {kernel_name}>", "exec"), self.scope)  # noqa: S102  (the text above)
        self.function = self.scope["kernel"]

    @functools.cached_property
    def leaks(self):
        own = [text.tree for text in self.texts if Path(text.file).parent != _OWN]
        says_double = any("float64" in (getattr(n, "id", ""), getattr(n, "attr", "")) for tree in own for n in ast.walk(tree))
        return self.float_dtype == "float32" and not says_double

    def _kernel(self):
        for node in self.tree.root.body:
            if node.__class__ is Call and not node.text.single_return:
                self.returns[node], self.kernel = self._result, node
                self._body(node)
                return
            self.block_of([node])
        result = self.tree.result
        if self.is_wanted and result is not None:
            values = flat(result)
            self.say(self._result(values, [v.dtype for v in values]) if all(isinstance(v, Operation) for v in values) else "return")

    kernel = None

    def _result(self, values, dtypes):
        return f"return {self._tuple(values, self.to or dtypes)}" if self.is_wanted and values else "return"

    def _tuple(self, values, dtypes):
        return f"({''.join(self.get(v, dtype) + ', ' for v, dtype in zip(values, dtypes))})"

    # ---- text
    def say(self, text):
        self.lines.append(" " * self.depth + text)
        self.places.append(self.place)

    def named(self, node, text, prefix="v"):
        """Give a node's value, this text, a name."""
        name = self.names[node] = f"{prefix}{len(self.names)}"
        self.say(f"{name} = {text}")
        return name

    def constant(self, value):
        """The name of an object."""
        name = f"c{len(self.scope)}"
        self.scope[name] = value
        return name

    def site(self, shift=0):
        return site_of(*self.place) << shift

    # ---- numbers
    def strong(self, dtype):
        return {"float": self.float_dtype, "int": "int64"}.get(dtype, dtype)

    def get(self, o, dtype=None, what=None):
        """The text of a number as one of `dtype`; `what`: what it has to fit."""
        own, to = self.strong(o.dtype), self.strong(dtype or o.dtype)
        if o.const is not None:
            return self.literal(o.const, to)
        x = self.ref(o)
        if own == to:
            return x
        if to == "bool":
            return f"({x} != 0)"
        if t.is_float(to):
            return f"{'float' if to == 'float64' else 'single'}({x})"
        if own == "bool":
            return f"int({x})"
        low, high = t.bounds(to)
        if not t.is_float(own):
            least, most = t.bounds(own)
            if low <= least and most <= high:
                return x
            if to in t.UNSIGNED:
                return f"({x} & {high})"
            if own in t.UNSIGNED:  # what has no sign is meant to wrap
                return f"converted({x}, '{to}')"
        return f"run.fitted({x}, '{to}', {(what or to)!r}, {self.site()})"

    def ref(self, o):
        if o.op == "extent":
            view, d = o.attr
            return f"{self.names[view]}.shape[{d}]"
        return self.names[o]

    def index(self, o):
        """The text of an index or a bound."""
        return str(int(o.const)) if o.const is not None else f"int({self.ref(o)})" if o.dtype == "bool" else self.ref(o)

    def literal(self, number, dtype):
        if not t.is_float(dtype) and dtype != "bool" and not isinstance(number, float):
            low, high = t.bounds(dtype)
            if not low <= number <= high:
                raise t.TypeClash(f"{number} does not fit {dtype}; cast the other side first, for example pk.int64(...)")
        value = arithmetic.number(number, dtype)
        return f"({value!r})" if dtype != "float32" and math.isfinite(value) else self.constant(value)

    def variable(self, v):
        if v not in self.names:
            self.names[v] = f"{v.name.partition('@')[0].replace(' ', '_')}_{len(self.names)}"
        return self.names[v]

    # ---- statements
    def block(self, block):
        """A block as Python's."""
        self.depth += 1
        before = len(self.lines)
        self.block_of(block.body)
        if len(self.lines) == before:
            self.say("pass")
        self.depth -= 1

    def block_of(self, nodes):
        for node in nodes:
            self.at(node)
            try:
                _WRITERS[node.__class__](self, node)
            except t.TypeClash as clash:  # a constant that does not fit
                refuse(self.kernel_name, node, clash)

    def at(self, node):
        """Say where what follows stands in the user's text."""
        if getattr(node, "at", None):
            self.place = _place(*node.at)
        elif node.line:
            file, _, line = node.line.rpartition(":")
            self.place = Site(file, int(line))

    def operation(self, o):
        text = getattr(self, "op_" + o.op)(o, *o.args)
        if text is not None:
            self.named(o, text)

    def set(self, s):
        self.say(f"{self.variable(s.variable)} = {self.get(s.value, s.variable.dtype)}")

    def branch(self, s):
        self.say(f"if {self.get(s.condition, 'bool')}:")
        self.block(s.then)
        if s.otherwise is not None:
            self.say("else:")
            self.block(s.otherwise)

    def loop(self, s):
        if s.form == "while":
            self.say("while True:")
            self.depth += 1
            self.block_of(s.test.body)
            self.say(f"if not {self.get(s.condition, 'bool')}: break")
            self.block_of(s.body.body)
            self.depth -= 1
            return
        name = f"k{len(self.names)}"
        if s.form == "trips":
            self.names[s] = name
            self.say(f"for {name} in range({len(s.trips)}):")
            self.depth += 1
            for k, trip in enumerate(s.trips):
                self.say(f"{'el' * (k > 0)}if {name} == {k}:")
                self.block(trip)
            self.depth -= 1
            return
        self.names[s.counter] = name
        start, stop = self.index(s.start), self.index(s.stop)
        if s.form == "members":
            trips = f"range({start} + team.rank, {stop}, team.size)"
        else:
            trips = f"range({start}, {stop}, {s.step})" if abs(s.step) == 1 else f"run.range({start}, {stop}, {s.step}, {self.site()})"
        self.say(f"for {name} in {trips}:")
        self.block(s.body)

    def leave(self, s):
        if s.how != "return":
            self.say(s.how)
            return
        if s.target is self.kernel and "team" in self.lines[0]:
            self.say(f"run.leave({self.place.line})")
        self.say(self.returns[s.target]([a.value for a in s.results], [a.variable.dtype for a in s.results]))

    def _body(self, s):
        self.texts.append(s.text)
        for assignment in s.setup:
            self.set(assignment)
        self.block_of(s.body.body)

    def call(self, s):
        if s.text.single_return:
            self._body(s)
            return
        self.returns[s] = lambda values, dtypes: f"return {self._tuple(values, dtypes)}"
        name = self.names[s] = f"f{len(self.names)}"
        self.say(f"def {name}():")
        self.depth += 1
        self.say("pass")
        self._body(s)
        self.depth -= 1
        results = "".join(f"{self.variable(o.attr)}, " for o in s.outputs)
        self.say(f"{results}= {name}() or {(None,) * s.n_results}" if results else f"{name}()")

    def view(self, view):
        if view.base is not None:
            items = "".join(f"slice({', '.join('None' if b is None else self.index(b) for b in i)}), " if isinstance(i, tuple)
                            else f"{self.index(i)}, " for i in view.items)
            self.named(view, f"{self.names[view.base]}.part(({items}))")
            return
        shape = "".join(f"{n if isinstance(n, int) else self.index(n)}, " for n in view.shape)
        if view.store == "(scratch)":
            n_bytes = None if any(isinstance(n, Operation) for n in view.shape) else math.prod(view.shape) * (t.BITS[view.dtype] // 8 or 1)
            self.scratch_static += -(-(n_bytes or 0) // ALIGN) * ALIGN
        owner = f"team.scratch({len(self.names)}, " if view.store == "(scratch)" else "run.local("
        self.named(view, f"{owner}({shape}), '{view.dtype}', {view.name!r})")

    # ---- operations: the text of a value, or None where it has its name already
    def op_get(self, o):
        return self.variable(o.attr)

    def op_cast(self, o, a):
        return self.get(a, o.dtype)

    op_settle = op_cast

    def op_rounded(self, o, a):
        self.names[o] = self.get(a)

    def op_one(self, o, a):
        return self.literal(1, self.strong(o.dtype))

    def op_not(self, o, a):
        return f"not {self.get(a, 'bool')}"

    def op_binary(self, o, a, b):
        dtype, op = self.strong(o.dtype), o.attr
        x, y = self.get(a, dtype), self.get(b, dtype)
        if t.is_float(dtype):
            if op in ("//", "%"):
                return f"{self.constant(arithmetic.floor_divided if op == '//' else arithmetic.remainder)}({x}, {y})"
            return f"{x} {op} {y}" if op != "/" or dtype == "float32" else f"{x} / {y} if {y} else divided({x}, {y})"
        if op in ("<<", ">>"):
            inside = b.const is not None and 0 <= b.const < t.BITS[dtype]
            if inside and (op == ">>" or dtype in t.UNSIGNED):
                return f"{x} >> {y}" if op == ">>" else f"{x} << {y} & {t.bounds(dtype)[1]}"
            return f"shifted('{op}', {x}, {y}, '{dtype}')"
        if op in ("//", "%"):
            text = f"{x} {op} {y}" if b.const else f"{x} {op} {y} if {y} else 0"
            return text if op == "%" or b.const and b.const != -1 else self._held(o, text, dtype, x, op, y)
        return f"{x} {op} {y}" if op in "&|^" else self._held(o, f"{x} {op} {y}", dtype, x, op, y)

    def _held(self, o, text, dtype, *operation):
        """An integer that may be beyond its type: an unsigned one wraps, a signed one is noted too."""
        low, high = t.bounds(dtype)
        if dtype in t.UNSIGNED:
            return f"({text}) & {high}"
        name = self.named(o, text)
        said = ", ".join(repr(p) if p in _SAID else p for p in operation)
        self.say(f"if not {low} <= {name} <= {high}: {name} = run.beyond({name}, '{dtype}', {self.site()}, {said})")
        return None

    def op_negate(self, o, a):
        dtype = self.strong(o.dtype)
        x = self.get(a, dtype)
        return f"-{x}" if t.is_float(dtype) else self._held(o, f"-{x}", dtype, "-", x)

    def op_abs(self, o, a):
        dtype = self.strong(o.dtype)
        x = self.get(a, dtype)
        return f"abs({x})" if t.is_float(dtype) else self._held(o, f"abs({x})", dtype, "the size of", x)

    def op_invert(self, o, a):
        x = self.get(a)
        if o.dtype == "bool":
            return f"not {x}"
        return f"{x} ^ {t.bounds(o.dtype)[1]}" if o.dtype in t.UNSIGNED else f"~{x}"

    def op_compare(self, o, a, b):
        dtype = t.promote(a.dtype, b.dtype)
        return f"{self.get(a, dtype)} {o.attr} {self.get(b, dtype)}"

    def op_select(self, o, condition, a, b):
        return f"{self.get(a, o.dtype)} if {self.get(condition, 'bool')} else {self.get(b, o.dtype)}"

    def op_extreme(self, o, a, b):
        (op, nan_wins), x, y = o.attr, self.get(a, o.dtype), self.get(b, o.dtype)
        if nan_wins:
            return f"{self.constant(words.minimum if op == '<' else words.maximum)}({x}, {y})"
        return f"{y} if {y} {op} {x} else {x}"  # Python's min and max: the first unless a later one is better

    def _function(self, o, function, args):
        dtype = self.strong(o.dtype)
        text = f"{self.constant(function)}({', '.join(self.get(a, dtype) for a in args)})"
        return f"float({text})" if dtype == "float64" else text

    def op_intrinsic(self, o, *args):
        return self._function(o, arithmetic.INTRINSICS[o.attr], args)

    def op_math(self, o, *args):
        return self._function(o, arithmetic.FUNCTIONS[o.attr[0]], args)

    def op_whole(self, o, a):
        if not t.is_float(a.dtype):
            return self.get(a, o.dtype)
        x = self.get(a) if o.attr == "trunc" else f"{self.constant(arithmetic.INTRINSICS[o.attr])}({self.get(a)})"
        return f"run.fitted({x}, 'int64', 'int64', {self.site()})"

    def op_isfinite(self, o, a):
        return f"isfinite({self.get(a)})"

    def op_bits(self, o, a):
        return f"int({self.constant(words.bits)}({self.get(a)}))"

    def op_from_bits(self, o, a):
        single = o.dtype == "float32"
        text = f"{self.constant(words.from_bits32 if single else words.from_bits64)}({self.get(a, 'int32' if single else 'int64')})"
        return text if single else f"float({text})"

    def op_lanes(self, o, a):
        return self.get(a, "bool")

    def op_assert(self, o, condition):
        self.say(f"if not {self.get(condition, 'bool')}: raise AssertionError({o.attr!r})")

    # ---- operands that are evaluated only where others let them
    def op_junction(self, o, condition, left):
        name = self.names[o] = f"v{len(self.names)}"
        self.say(f"if {'' if o.attr[0] else 'not '}{self.get(condition, 'bool')}:")
        self._side(name, *o.parts[0], o.dtype)
        self.say(f"else: {name} = {self.get(left, o.dtype)}")

    def op_choice(self, o, condition):
        name = self.names[o] = f"v{len(self.names)}"
        self.say(f"if {self.get(condition, 'bool')}:")
        self._side(name, *o.parts[0], o.dtype)
        self.say("else:")
        self._side(name, *o.parts[1], o.dtype)

    def _side(self, name, block, value, dtype):
        self.depth += 1
        self.block_of(block.body)
        self.say(f"{name} = {self.get(value, dtype)}")
        self.depth -= 1

    # ---- memory
    def _element(self, o, n):
        """The view and index of an access, as text."""
        indices = [self.index(i) for i in o.args[:n]]
        return f"{self.names[o.view]}, {indices[0] if n == 1 else '(' + ''.join(i + ', ' for i in indices) + ')'}"

    def _stored(self, v, view):
        return self.get(v, view.dtype, f"the {view.dtype} of '{view.name or view.label}'")

    def op_load(self, o, *indices):
        return f"load({self._element(o, len(indices))}, {self.site(SITE_SHIFT)})"

    def op_store(self, o, *args):
        element, value = self._element(o, len(args) - 1), args[-1]
        self.say(f"store({element}, {self._stored(value, o.view)}, {self.site(SITE_SHIFT)})")
        if o.view.dtype == "float32" == self.float_dtype and self.strong(value.dtype) == "float64":
            self.say(f"run.leak({element}, {self.site()})")

    def op_atomic(self, o, *args):
        n = len(o.view.shape)
        values = "".join(f", {self._stored(v, o.view)}" for v in args[n:])
        return f"atomic('{o.attr[0]}', {self._element(o, n)}, {self.site(SITE_SHIFT)}{values})"

    # ---- teams
    def op_rank(self, o):
        return f"team.{o.op}"

    op_league_rank = op_league_size = op_rank

    def op_together(self, o):
        pass

    def op_barrier(self, o):
        self.say(f"team.barrier({self.site()})")

    def op_broadcast(self, o, a, rank):
        return f"team.broadcast({self.site()}, {self.get(a)}, {self.index(rank)})"

    def op_append(self, o, at, value, keep):
        return (f"team.append({self.site()}, {self.names[o.view]}, {self.index(at)}, {self._stored(value, o.view)}, "
                f"{self.get(keep, 'bool')})")

    def op_combine(self, o, *state):
        from .reducing import combining

        dtypes = [self.strong(v.dtype) for v in state]
        step = self.constant(combining(o.attr, tuple(dtypes), self.float_dtype, self.kernel_name))
        return f"team.reduce({self.site()}, {step}, {self._tuple(state, dtypes)})"

    def op_item(self, o, whole):
        return f"{self.names[whole]}[{o.attr}]"

    def op_before(self, o, own):
        from .reducing import combining

        dtype = self.strong(own.dtype)
        step = self.constant(combining(o.attr, (dtype,), self.float_dtype, self.kernel_name))
        neutral = self.literal(o.attr.identity(dtype), dtype)
        return f"team.scan({self.site()}, {step}, {neutral}, {self.get(own)})"


_SAID = ("+", "-", "*", "//", "the size of")
_WRITERS = {Operation: Code.operation, View: Code.view, Set: Code.set, If: Code.branch, Loop: Code.loop, Leave: Code.leave,
            Call: Code.call, Rejoin: lambda code, node: None}
