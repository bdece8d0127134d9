"""A typed tree as a Python function that checks its operations: one line an operation, and the place of each
line in the user's source.

    x[i] += a        becomes        v7 = load(p1, p0, 96)
                                    v8 = v7 + p2
                                    store(p1, p0, v8, 96)
"""

import ast
import functools
import itertools
import math
from contextlib import contextmanager, nullcontext
from typing import NamedTuple

import numpy as np

from ...core.language import types as t, words
from ...core.compiler.reading.tree import Call, If, Leave, Loop, Operation, Rejoin, Set, View, flat, inside
from ...core.compiler.reading.team import TeamHandle
from ...core.compiler.reading.typing import refuse
from ...core.compiler.writing.values import Ops
from ...core.locks import lazy_attribute
from . import access, arithmetic
from .access import stopped
from .memory import SITE_SHIFT

PLACES = "__places__"  # a global of these functions only: the source places of their lines
_SCOPE = {
    **vars(words),
    **vars(access),
    **vars(arithmetic),
    **arithmetic.FUNCTIONS,
    "inf": math.inf,
    "nan": math.nan,
    "converted": t.converted,
    "stopped": lambda names, site: stopped(names, SITES[site]),
}

# Operations as text: {0}, {1} are arguments, as numbers of their own dtype, {0:=} of the result's, {0:~} of
# the dtype common to all, {0:i} an index. By operator, or name, and the result's dtype, or its kind, where
# these matter. Other operations are `a op b`.
_TEXTS = dict(
    line.split(": ")
    for line in """
cast: {0:=}
trunc: {0:=}
settle: {0:=}
rounded: {0:=}
whole: {0:=}
one: {0:=} ** 0
not: not {0:bool}
compare: {0:~} {o.attr} {1:~}
negate: -{0:=}
abs: abs({0:=})
invert: ~{0}
invert bool: not {0}
invert unsigned: {0} ^ {high}
select: {1:=} if {0:bool} else {2:=}
extreme: EXTREMES[{o.attr}]({0:=}, {1:=})
/ float64: {0:=} / {1:=} if {1:=} else divided({0:=}, {1:=})
// float64: float(floor_divide({0:=}, {1:=}))
% float64: float(modulo({0:=}, {1:=}))
// float32: floor_divide({0:=}, {1:=})
% float32: modulo({0:=}, {1:=})
//: {0:=} // {1:=} if {1:=} else 0
%: {0:=} % {1:=} if {1:=} else 0
<<: shifted('<<', {0:=}, {1:=}, {dtype!r})
>>: {0:=} >> {1:=} if 0 <= {1:=} < {bits} else shifted('>>', {0:=}, {1:=}, {dtype!r})
intrinsic: {o.attr}({all})
intrinsic float64: float({o.attr}({all}))
math: {o.attr[0]}({all})
math float64: float({o.attr[0]}({all}))
floor: run.fitted(floor({0}), 'int64', 'int64', {site})
ceil: run.fitted(ceil({0}), 'int64', 'int64', {site})
rint: run.fitted(rint({0}), 'int64', 'int64', {site})
print: printed({o.attr!r}, {all})
breakpoint: stopped({seen}, {site})
bits: int(bits({0}))
lanes: {0:bool}
from_bits float32: from_bits32({0:int32})
from_bits: float(from_bits64({0:int64}))
assert: asserted({0:bool}, {o.attr!r})
load: load({element}, {shifted})
store: store({element}, {shifted}{values})
atomic: atomic({element}, {shifted}{values}, op={o.attr[0]!r})
rank: team.rank
league_rank: team.league_rank
league_size: team.league_size
together: None
barrier: team.barrier({site})
broadcast: team.broadcast({site}, {0}, {1:i})
append: team.append({site}, {view}, {0:i}, {1:v}, {2:bool})
tally: atomic({element}, {shifted}, 1, op='add')
get: {variable}
item: {0}[{o.attr}]
part: {0}[{o.attr}]
foreign: called({foreign}, {all})
combine: team.reduce({site}, {step}, ({all}))
before: team.scan({site}, {step}, {neutral}, ({all}))
""".strip().splitlines()
)
_HELD = ("+", "-", "*", "//", "negate", "abs")  # integers that may be beyond their type
_LOOPS = {
    "while": "while True:",
    "trips": "for {name} in range({n}):",
    "members": "for {name} in range({start} + team.rank, {stop}, team.size):",
    "range": "for {name} in run.range({start}, {stop}, {step}, {site}):",
}


class Site(NamedTuple):
    """A place in a source."""

    file: str
    line: int
    column: int = 0


SITES = []  # by number, for the life of the process


@functools.cache
def site_of(*place):
    """Return the number of a Site."""
    SITES.append(Site(*place))
    return len(SITES) - 1


def _place(text, node):
    return Site(text.file, text.line + node.lineno - text.tree.lineno, node.col_offset)


class _Argument:
    """An argument of an operation, formatted by the rules of `_TEXTS`."""

    def __init__(self, code, o, number):
        self.code, self.o, self.number = code, o, number

    def __format__(self, how):
        if how == "i":
            return self.code.index(self.number)
        if how == "v":
            view = self.o.view
            dtype = t.part(view.dtype)
            return self.code.get(self.number, dtype, f"the {dtype} of '{view.name or view.label}'")
        if how == "~":
            how = t.promote(self.o.args[0].dtype, self.o.args[-1].dtype)
        return self.code.get(self.number, self.o.dtype if how == "=" else how)


class Code:
    """The function of a tree, `function(run, *numbers and views)`, which returns numbers one after the other,
    as `to` if that is given."""

    def __init__(self, tree, float_dtype, kernel_name, combining, to=None, returns=True):
        self.combining = combining  # reducing.py's, of a reducer's states
        self.tree, self.float_dtype, self.kernel_name = tree, float_dtype, kernel_name
        self.to, self.returns = to, returns
        self.lines, self.depth, self.place, self.texts = [], 0, _place(tree.text, tree.text.tree), []
        self.scope, self.places = dict(_SCOPE), []
        self.scope[PLACES] = self.places
        self.leaves = flat(tuple(tree.inputs))
        params = ["team" if isinstance(v, TeamHandle) else f"p{k}" for k, v in enumerate(self.leaves)]
        self.names, self.numbers = dict(zip(self.leaves, params)), itertools.count()
        self.write_line(f"def kernel(run, {', '.join(params)}):")
        self.kernel(tree)
        exec(compiled(self.lines, f"<checked {kernel_name}>"), self.scope)
        self.function = self.scope["kernel"]

    def kernel(self, tree):
        """Write the body of the function, and return the results, unless the first call does."""
        first, results = tree.root.body[0], [] if tree.result is None else flat(tree.result)
        self.own = first if results == [*first.outputs] else None  # the call with the kernel's results
        with self.inside():
            self.block(tree.root.body)
            self.result(results, self.to)

    @lazy_attribute
    def leaks(self):
        """Return True if storing a float64 in float32 is reported as a mistake."""
        own = [text.tree for text in self.texts if not text.is_own]
        says_double = any(
            "float64" in (getattr(n, "id", ""), getattr(n, "attr", ""))
            for tree in own
            for n in ast.walk(tree)
        )
        return self.float_dtype == "float32" and not says_double

    # ---- text
    def write_line(self, text):
        self.lines.append(" " * self.depth + text)
        self.places.append(self.place)

    @contextmanager
    def inside(self):
        self.depth += 1
        self.write_line("pass")
        yield
        self.depth -= 1

    def new(self, prefix):
        return f"{prefix}{next(self.numbers)}"

    def constant(self, value):
        """Return the name of an object."""
        name = f"c{len(self.scope)}"
        self.scope[name] = value
        return name

    # ---- numbers
    def strong(self, dtype):
        return t.strong(dtype, self.float_dtype)

    def get(self, o, dtype=None, what=None):
        """Return the text of a number as one of `dtype`; `what`: the name of the type that it must fit."""
        own, to = self.strong(o.dtype), self.strong(dtype or o.dtype)
        if o.const is not None:
            return self.literal(t.converted_constant(o, to, self.float_dtype), to)
        x = f"{self.names[o.attr[0]]}.shape[{o.attr[1]}]" if o.op == "extent" else self.names[o]
        return x if own == to else self.converted(x, own, to, what or to)

    def converted(self, x, own, to, what):
        """Return the text of a number of dtype `own` as one of another; a number that does not fit is a
        finding, with `what` as the type's name.
        """
        if to == "bool":
            return f"({x} != 0)"
        if to in ("float16", "bfloat16"):
            return f"run.half({x}, {to!r}, {site_of(*self.place)})"
        if t.is_float(to):
            return f"{'single' if to == 'float32' else 'float'}({x})"
        if own == "bool":
            return f"int({x})"
        (low, high), (least, most) = t.bounds(to), (0, 0) if t.is_float(own) else t.bounds(own)
        if low <= least <= most <= high and most:
            return x
        if most and (to in t.UNSIGNED or own in t.UNSIGNED):  # unsigned integers wrap by definition
            return f"({x} & {high})" if to in t.UNSIGNED else f"converted({x}, {to!r})"
        return f"run.fitted({x}, {to!r}, {what!r}, {site_of(*self.place)})"

    def index(self, o):
        """Return the text of an index or a bound."""
        if o is None or isinstance(o, int):
            return str(o)
        return self.get(o, "int" if o.dtype == "bool" else None)

    def bound(self, o):
        """Return the text of a slice's bound."""
        return self.index(o) if o is None or o.kind == t.UNIFORM else f"varying_bound({self.index(o)})"

    def literal(self, number, dtype):
        Ops.constant(number, dtype)  # or it does not fit
        value = arithmetic.number(number, dtype)
        return self.constant(value) if t.loaded_dtype(dtype) == "float32" else f"({value!r})"

    # ---- statements
    def block(self, nodes):
        for node in nodes:
            if getattr(node, "at", None):
                self.place = _place(*node.at)
            elif node.line:
                file, _, line = node.line.rpartition(":")
                self.place = Site(file, int(line))
            try:
                _WRITERS[node.__class__](self, node)
            except t.TypeClash as clash:  # a constant that does not fit
                refuse(self.kernel_name, node, clash)

    def variable(self, v):
        return self.names.setdefault(v, self.new(v.name.partition("@")[0].replace(" ", "_") + "_"))

    def set(self, s):
        self.write_line(f"{self.variable(s.variable)} = {self.get(s.value, s.variable.dtype)}")

    def branch(self, s):
        for head, side in zip((f"if {self.get(s.condition, 'bool')}:", "else:"), inside(s)):
            self.write_line(head)
            with self.inside():
                self.block(side.body)

    def loop(self, s):
        name = self.names[s.counter or s] = self.new("k")
        bounds = {
            "start": self.index(s.start),
            "stop": self.index(s.stop),
            "step": self.index(s.step),
            "n": len(s.trips),
        }
        self.write_line(_LOOPS[s.form].format(name=name, site=site_of(*self.place), **bounds))
        with self.inside():
            if s.test is not None:
                self.block(s.test.body)
                self.write_line(f"if not {self.get(s.condition, 'bool')}: break")
            for k, trip in enumerate(s.trips):
                self.write_line(f"if {name} == {k}:")
                with self.inside():
                    self.block(trip.body)
            if s.body is not None:
                self.block(s.body.body)

    def leave(self, s):
        if s.how == "return":
            outputs = s.target.outputs if s.valued else []
            self.names |= {o: self.variable(o.attr) for o in outputs}
            self.result(outputs, None, s.target)
        else:
            self.write_line(s.how)

    def result(self, values, dtypes, call=None):
        """Return from the kernel, or from a function that it calls."""
        is_kernel = call is None or call is self.own
        if is_kernel and "team" in self.lines[0] and call:
            self.write_line(f"run.member.left_at = {self.place.line}")
        wanted = all(isinstance(v, Operation) for v in values) and (self.returns or not is_kernel)
        dtypes = is_kernel and self.to or dtypes or [v.dtype for v in values if wanted]
        self.write_line(
            f"return ({''.join(self.get(v, dtype) + ', ' for v, dtype in zip(values, dtypes))})"
            if wanted and values
            else "return"
        )

    def call(self, s):
        """Inline a function's text at its call; or define it as a nested function if it has several
        returns.
        """
        self.texts.append(s.text)
        apart = not s.text.single_return and s is not self.own
        if apart:
            name = self.names[s] = self.new("f")
            self.write_line(f"def {name}():")
        with self.inside() if apart else nullcontext():
            self.block(s.body.body)
        if not (apart or s.text.single_return):
            self.write_line("return")  # followed by names of results that are never read
        if apart:
            results = "".join(f"{self.variable(o.attr)}, " for o in s.outputs)
            self.write_line(f"{results}{'= ' * bool(results)}{name}() or {(None,) * s.n_results}")

    def view(self, view):
        name = self.new("x")
        if view.data:
            made = self.table(view)
        elif view.options:
            views = ", ".join(map(self.names.get, view.options))
            made = f"({views},)[{self.get(view.items[0])}]"
        elif view.base is not None and not view.items:
            made = f"{self.names[view.base]}.turned({len(view.shape)})"
        elif view.base is not None:
            made = f"{self.names[view.base]}.part(({self.places_of(view.items)}))"
        else:
            maker = f"team.scratch({name!r}, " if view.store == "(scratch)" else "run.local("
            made = f"{maker}({self.places_of(view.shape)}), {view.dtype!r}, {view.name!r})"
        self.names[view] = name
        self.write_line(f"{name} = {made}")

    def table(self, view):
        """Return the text of a view of constants."""
        shape, dtype = view.shape + [2] * (view.dtype in t.PARTS), t.part(self.strong(view.dtype))
        return f"run.table({self.constant(np.array(view.data, dtype).reshape(shape))}, {view.label!r})"

    def places_of(self, items):
        """Return the text of indices, extents and slices."""
        return "".join(
            f"slice({self.bound(i[0])}, {self.bound(i[1])}), "
            if isinstance(i, tuple)
            else f"{self.index(i)}, "
            for i in items
        )

    # ---- operations
    def operation(self, o):
        name = self.new("v")
        dtype = self.strong(o.dtype)
        word = o.attr if o.op == "binary" or o.op == "whole" and t.is_float(o.args[0].dtype) else o.op
        args = [_Argument(self, o, a) for a in o.args]
        facts = self.facts(o, dtype, args)
        text = self.template(word, dtype).format(*args, **facts)
        self.names[o] = name
        if word in _HELD and not t.is_float(dtype):
            self.write_checked(name, text, word, dtype, args)
        else:
            self.write_line(f"{name} = {text}")
        if (
            o.op == "store"
            and o.view.dtype == "float32" == self.float_dtype
            and self.strong(o.args[-1].dtype) == "float64"
        ):
            self.write_line(f"run.leak({facts['element']}, {facts['site']})")

    def template(self, word, dtype):
        """Return the row of `_TEXTS` for a result of this dtype."""
        kind = "float" if t.is_float(dtype) else "unsigned" if dtype in t.UNSIGNED else "signed"
        keys = (f"{word} {dtype}", f"{word} {kind}", word)
        return next((_TEXTS[k] for k in keys if k in _TEXTS), "{0:=} {o.attr} {1:=}")

    def facts(self, o, dtype, args):
        """Return the names that a row of `_TEXTS` may use in addition to the arguments."""
        site = site_of(*self.place)
        facts = {
            "o": o,
            "dtype": dtype,
            "site": site,
            "shifted": site << SITE_SHIFT,
            "bits": t.BITS.get(dtype),
        }
        if dtype in t.UNSIGNED:
            facts["high"] = t.bounds(dtype)[1]
        if o.op in _FACTS:
            facts |= _FACTS[o.op](self, o, args)
        elif o.view is not None:
            facts |= self.element(o, args)
        return facts

    def write_checked(self, name, text, word, dtype, args):
        """Emit an integer operation whose result may overflow its type: it wraps if unsigned, else it is a
        finding.
        """
        low, high = t.bounds(dtype)
        if dtype in t.UNSIGNED:
            self.write_line(f"{name} = ({text}) & {high}")
            return
        self.write_line(f"{name} = {text}")
        self.write_line(
            f"if not {low} <= {name} <= {high}: {name} = run.wrap_number({name}, {dtype!r}, "
            f"{site_of(*self.place)}, {word!r}, {', '.join(map('{:=}'.format, args))})"
        )

    # ---- facts of single operations
    def element(self, o, args):
        """Return an access's view, its element, and the value that is written."""
        n, view = o.view.n_indices, self.names[o.view]
        index = "".join(map("{:i}, ".format, args[:n]))
        values = "".join(map(", {:v}".format, args[n:])) if o.op in ("store", "atomic") else ""
        return {
            "view": view,
            "element": f"{view}, {index[:-2] if n == 1 else f'({index})'}",
            "values": values,
        }

    def names_shown(self, o, args):
        """Return the names that a breakpoint shows."""
        values = {name: v for name, v in o.attr.values.items() if isinstance(v, (Operation, View))}
        pairs = (
            f"{name!r}: {self.names[v] if isinstance(v, View) else self.get(v)}" for name, v in values.items()
        )
        return {"seen": ", ".join(pairs).join("{}")}

    def step(self, o, args):
        """Return the combination of a reducer's states."""
        dtypes = tuple(self.strong(v.dtype) for v in o.args)
        neutral = o.attr.neutral(dtypes[0]) if o.op == "before" else ()
        return {
            "step": self.constant(self.combining(o.attr, dtypes, self.float_dtype, self.kernel_name)),
            "all": "".join(f"{self.get(v)}, " for v in o.args),
            "neutral": f"({''.join(f'{self.literal(n, dtype)}, ' for n, dtype in zip(neutral, dtypes))})",
        }


def compiled(lines, name):
    """Compile lines of Python, indented by a blank a level; its parser takes a hundred levels, this any."""
    try:
        return compile("\n".join(lines), name, "exec")
    except IndentationError:
        tree = ast.Module([], [])
        bodies = [tree.body]  # of the blocks around a line
    for number, line in enumerate(lines):
        text = line.lstrip(" ")
        outer = bodies[len(line) - len(text)]
        del bodies[len(line) - len(text) + 1 :]
        if text == "else:":
            bodies.append(outer[-1].orelse)
            continue
        (node,) = ast.parse(text + " pass" * text.endswith(":")).body
        outer.append(ast.increment_lineno(node, number))
        if text.endswith(":"):
            node.body.clear()
            bodies.append(node.body)
    return compile(tree, name, "exec")


def _all_as(how):
    return lambda code, o, args: {"all": ", ".join(map(how.format, args))}


_FACTS = {
    "math": _all_as("{:=}"),
    "intrinsic": _all_as("{:=}"),
    "print": _all_as("{}"),
    "foreign": lambda code, o, args: {"foreign": code.constant(o.attr), **_all_as("{}")(code, o, args)},
    "get": lambda code, o, args: {"variable": code.variable(o.attr)},
    "breakpoint": Code.names_shown,
    "combine": Code.step,
    "before": Code.step,
}
_WRITERS = {
    Operation: Code.operation,
    View: Code.view,
    Set: Code.set,
    If: Code.branch,
    Loop: Code.loop,
    Leave: Code.leave,
    Call: Code.call,
    Rejoin: lambda code, node: None,
}
