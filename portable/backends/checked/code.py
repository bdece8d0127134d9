"""A typed tree as a Python function that watches what it does: one line an operation, and the place in the user's text of each line.

x[i] += a        becomes        v7 = load(p1, p0, 96)
                                v8 = v7 + p2
                                store(p1, p0, v8, 96)
"""

from __future__ import annotations

import ast
import functools
import math
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ... import words
from ...compiler import types as t
from ...compiler.tree import Call, If, Leave, Loop, Operation, Rejoin, Set, View, flat
from ...compiler.typing import refuse
from ...compiler.values import Ops
from . import access, arithmetic
from .access import stopped
from .memory import SITE_SHIFT

PLACES = "__places__"  # a global of these functions only: where each of their lines comes from
_OWN = Path(words.__file__).parent  # the layer's own texts
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

# Operations as text: {0}, {1} are arguments, as numbers of their own dtype, {0:=} of the result's, {0:~} of the dtype common to all,
# {0:i} an index. By operator, or name, and the result's dtype, or its kind, where these matter. What is not here is `a op b`.
_TEXTS = {
    "cast": "{0:=}",
    "trunc": "{0:=}",
    "settle": "{0:=}",
    "rounded": "{0:=}",
    "whole": "{0:=}",
    "one": "{0:=} ** 0",
    "not": "not {0:bool}",
    "compare": "{0:~} {o.attr} {1:~}",
    "negate": "-{0:=}",
    "abs": "abs({0:=})",
    "invert": "~{0}",
    "invert bool": "not {0}",
    "invert unsigned": "{0} ^ {high}",
    "select": "{1:=} if {0:bool} else {2:=}",
    "extreme": "extreme({o.attr}, {0:=}, {1:=})",
    "/ float64": "{0:=} / {1:=} if {1:=} else divided({0:=}, {1:=})",
    "// float64": "float(floor_divide({0:=}, {1:=}))",
    "% float64": "float(modulo({0:=}, {1:=}))",
    "// float32": "floor_divide({0:=}, {1:=})",
    "% float32": "modulo({0:=}, {1:=})",
    "//": "{0:=} // {1:=} if {1:=} else 0",
    "%": "{0:=} % {1:=} if {1:=} else 0",
    "<<": "shifted('<<', {0:=}, {1:=}, {dtype!r})",
    ">>": "{0:=} >> {1:=} if 0 <= {1:=} < {bits} else shifted('>>', {0:=}, {1:=}, {dtype!r})",
    "intrinsic": "{o.attr}({all})",
    "intrinsic float64": "float({o.attr}({all}))",
    "math": "{o.attr[0]}({all})",
    "math float64": "float({o.attr[0]}({all}))",
    "floor": "run.fitted(floor({0}), 'int64', 'int64', {site})",
    "ceil": "run.fitted(ceil({0}), 'int64', 'int64', {site})",
    "rint": "run.fitted(rint({0}), 'int64', 'int64', {site})",
    "print": "printed({o.attr!r}, {all})",
    "breakpoint": "stopped({seen}, {site})",
    "bits": "int(bits({0}))",
    "lanes": "{0:bool}",
    "from_bits float32": "from_bits32({0:int32})",
    "from_bits": "float(from_bits64({0:int64}))",
    "assert": "asserted({0:bool}, {o.attr!r})",
    "load": "load({element}, {shifted})",
    "store": "store({element}, {shifted}{values})",
    "atomic": "atomic({element}, {shifted}{values}, op={o.attr[0]!r})",
    "rank": "team.rank",
    "league_rank": "team.league_rank",
    "league_size": "team.league_size",
    "together": "None",
    "barrier": "team.barrier({site})",
    "broadcast": "team.broadcast({site}, {0}, {1:i})",
    "append": "team.append({site}, {view}, {0:i}, {1:v}, {2:bool})",
    "item": "{0}[{o.attr}]",
    "part": "{0}[{o.attr}]",
    "foreign": "called({foreign}, {all})",
    "combine": "team.reduce({site}, {step}, ({all}))",
    "before": "team.scan({site}, {step}, {neutral}, ({all}))",
}
_HELD = ("+", "-", "*", "//", "negate", "abs")  # integers that may be beyond their type
_LOOPS = {
    "while": "while True:",
    "trips": "for {name} in range({n}):",
    "members": "for {name} in range({start} + team.rank, {stop}, team.size):",
    "range": "for {name} in run.range({start}, {stop}, {step}, {site}):",
}


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


class _Argument:
    """An argument of an operation, formatted as `_TEXTS` says."""

    def __init__(self, code, o, number):
        self.code, self.o, self.number = code, o, number

    def __format__(self, how):
        if how == "i":
            return self.code.index(self.number)
        if how == "v":
            view = self.o.view
            return self.code.get(self.number, view.dtype, f"the {view.dtype} of '{view.name or view.label}'")
        if how == "~":
            how = t.promote(self.o.args[0].dtype, self.o.args[-1].dtype)
        return self.code.get(self.number, self.o.dtype if how == "=" else how)


class Code:
    """The function of a tree, `function(run, *numbers and views)`, which returns numbers one after the other, as `to` if that is given."""

    def __init__(self, tree, float_dtype, kernel_name, to=None, returns=True):
        self.tree, self.float_dtype, self.kernel_name, self.to, self.returns = (
            tree,
            float_dtype,
            kernel_name,
            to,
            returns,
        )
        self.names, self.lines, self.depth, self.place, self.texts = (
            {},
            [],
            0,
            _place(tree.text, tree.text.tree),
            [],
        )
        self.scope, self.places = dict(_SCOPE), []
        self.scope[PLACES] = self.places
        self.leaves = flat(tuple(tree.inputs))
        for leaf in self.leaves:
            self.names[leaf] = self.new("p") if isinstance(leaf, (Operation, View)) else "team"
        self.say(f"def kernel(run, {', '.join(map(self.names.get, self.leaves))}):")
        with self.inside():
            self.block(tree.root.body)
            self.result([] if tree.result is None else flat(tree.result), to)
        exec(compile("\n".join(self.lines), f"<checked {kernel_name}>", "exec"), self.scope)  # noqa: S102  (the text above)
        self.function = self.scope["kernel"]

    @functools.cached_property
    def leaks(self):
        """Whether a float64 that is stored in float32 is a mistake."""
        own = [text.tree for text in self.texts if Path(text.file).parent != _OWN]
        says_double = any(
            "float64" in (getattr(n, "id", ""), getattr(n, "attr", ""))
            for tree in own
            for n in ast.walk(tree)
        )
        return self.float_dtype == "float32" and not says_double

    # ---- text
    def say(self, text):
        self.lines.append(" " * self.depth + text)
        self.places.append(self.place)

    @contextmanager
    def inside(self):
        self.depth += 1
        self.say("pass")
        yield
        self.depth -= 1

    def new(self, prefix):
        return f"{prefix}{len(self.names)}"

    def constant(self, value):
        """The name of an object."""
        name = f"c{len(self.scope)}"
        self.scope[name] = value
        return name

    # ---- numbers
    def strong(self, dtype):
        return t.strong(dtype, self.float_dtype)

    def get(self, o, dtype=None, what=None):
        """The text of a number as one of `dtype`; `what`: what it has to fit."""
        own, to = self.strong(o.dtype), self.strong(dtype or o.dtype)
        if o.const is not None:
            return self.literal(o.const, to)
        x = f"{self.names[o.attr[0]]}.shape[{o.attr[1]}]" if o.op == "extent" else self.names[o]
        if own == to:
            return x
        if to == "bool":
            return f"({x} != 0)"
        if to == "float16":
            return f"run.half({x}, {site_of(*self.place)})"
        if t.is_float(to):
            return f"{'single' if to == 'float32' else 'float'}({x})"
        if own == "bool":
            return f"int({x})"
        (low, high), (least, most) = t.bounds(to), (0, 0) if t.is_float(own) else t.bounds(own)
        if low <= least <= most <= high and most:
            return x
        if most and (to in t.UNSIGNED or own in t.UNSIGNED):  # what has no sign is meant to wrap
            return f"({x} & {high})" if to in t.UNSIGNED else f"converted({x}, {to!r})"
        return f"run.fitted({x}, {to!r}, {what or to!r}, {site_of(*self.place)})"

    def index(self, o):
        """The text of an index or a bound."""
        return (
            "None"
            if o is None
            else str(o)
            if isinstance(o, int)
            else self.get(o, "int" if o.dtype == "bool" else None)
        )

    def literal(self, number, dtype):
        Ops.constant(number, dtype)  # or it does not fit
        value = arithmetic.number(number, dtype)
        return self.constant(value) if t.held(dtype) == "float32" else f"({value!r})"

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
        self.say(f"{self.variable(s.variable)} = {self.get(s.value, s.variable.dtype)}")

    def branch(self, s):
        self.sides(s.condition, (s.then.body, None), (s.otherwise.body if s.otherwise else (), None))

    def sides(self, condition, *sides, name=None, dtype=None):
        """Pairs of statements, of which a condition chooses one, and of the value that `name` then has."""
        for head, (body, value) in zip((f"if {self.get(condition, 'bool')}:", "else:"), sides):
            self.say(head)
            with self.inside():
                self.block(body)
                if name:
                    self.say(f"{name} = {self.get(value, dtype)}")

    def loop(self, s):
        name = self.names[s.counter or s] = self.new("k")
        bounds = {
            "start": self.index(s.start),
            "stop": self.index(s.stop),
            "step": self.index(s.step),
            "n": len(s.trips),
        }
        self.say(_LOOPS[s.form].format(name=name, site=site_of(*self.place), **bounds))
        with self.inside():
            if s.test is not None:
                self.block(s.test.body)
                self.say(f"if not {self.get(s.condition, 'bool')}: break")
            for k, trip in enumerate(s.trips):
                self.say(f"if {name} == {k}:")
                with self.inside():
                    self.block(trip.body)
            if s.body is not None:
                self.block(s.body.body)

    def leave(self, s):
        if s.how == "return":
            self.result([a.value for a in s.results], [a.variable.dtype for a in s.results], s.target)
        else:
            self.say(s.how)

    def result(self, values, dtypes, call=None):
        """Return from the kernel, or from a function that it calls."""
        is_kernel = call is None or call is self.tree.root.body[0]
        if is_kernel and "team" in self.lines[0] and call:
            self.say(f"run.member.left_at = {self.place.line}")
        wanted = all(isinstance(v, Operation) for v in values) and (self.returns or not is_kernel)
        dtypes = is_kernel and self.to or dtypes or [v.dtype for v in values if wanted]
        self.say(
            f"return ({''.join(self.get(v, dtype) + ', ' for v, dtype in zip(values, dtypes))})"
            if wanted and values
            else "return"
        )

    def call(self, s):
        """A function's text in the place of its call; as a function of its own if it returns from several places."""
        self.texts.append(s.text)
        apart = not s.text.single_return and s is not self.tree.root.body[0]
        if apart:
            name = self.names[s] = self.new("f")
            self.say(f"def {name}():")
        with self.inside() if apart else nullcontext():
            self.block([*s.setup, *s.body.body])
        if not (apart or s.text.single_return):
            self.say("return")  # behind it are names of results that nobody asks for
        if apart:
            results = "".join(f"{self.variable(o.attr)}, " for o in s.outputs)
            self.say(f"{results}{'= ' * bool(results)}{name}() or {(None,) * s.n_results}")

    def view(self, view):
        if view.data:
            values = np.array(view.data, self.strong(view.dtype)).reshape(view.shape)
            self.names[view] = self.new("x")
            self.say(f"{self.names[view]} = run.table({self.constant(values)}, {view.label!r})")
            return
        if view.options:
            self.names[view] = self.new("x")
            self.say(
                f"{self.names[view]} = ({', '.join(map(self.names.get, view.options))},)[{self.get(view.items[0])}]"
            )
            return
        items = "".join(
            f"slice({self.index(i[0])}, {self.index(i[1])}), "
            if isinstance(i, tuple)
            else f"{self.index(i)}, "
            for i in (view.shape if view.base is None else view.items)
        )
        name, made = self.new("x"), f"({items}), {view.dtype!r}, {view.name!r})"
        if view.base is not None:
            made = f"{self.names[view.base]}.part(({items}))"
        else:
            made = (f"team.scratch({name!r}, " if view.store == "(scratch)" else "run.local(") + made
        self.names[view] = name
        self.say(f"{name} = {made}")

    # ---- operations
    def operation(self, o):
        name = self.new("v")
        if o.parts:
            self.names[o] = name
            sides = [*((block.body, value) for block, value in o.parts), ((), o.args[-1])][:2]
            self.sides(
                o.args[0],
                *sides[:: -1 if o.op == "junction" and not o.attr[0] else 1],
                name=name,
                dtype=o.dtype,
            )
            return
        dtype, site, args = (
            self.strong(o.dtype),
            site_of(*self.place),
            [_Argument(self, o, a) for a in o.args],
        )
        kind = "float" if t.is_float(dtype) else "unsigned" if dtype in t.UNSIGNED else "signed"
        word = o.attr if o.op == "binary" or o.op == "whole" and t.is_float(o.args[0].dtype) else o.op
        template = next(
            (_TEXTS[k] for k in (f"{word} {dtype}", f"{word} {kind}", word) if k in _TEXTS),
            "{0:=} {o.attr} {1:=}",
        )
        facts = {
            "o": o,
            "dtype": dtype,
            "site": site,
            "shifted": site << SITE_SHIFT,
            "bits": t.BITS.get(dtype),
        }
        if kind == "unsigned":
            facts["high"] = t.bounds(dtype)[1]
        if o.op in ("math", "intrinsic", "print"):
            facts["all"] = ", ".join(map(("{}" if o.op == "print" else "{:=}").format, args))
        elif o.op == "breakpoint":
            seen = {name: v for name, v in o.attr.values.items() if isinstance(v, (Operation, View))}
            facts["seen"] = ", ".join(
                f"{name!r}: {self.names[v] if isinstance(v, View) else self.get(v)}"
                for name, v in seen.items()
            ).join("{}")
        elif o.op == "foreign":
            facts |= {"foreign": self.constant(o.attr), "all": ", ".join(map("{}".format, args))}
        elif o.op == "get":
            template = self.variable(o.attr)
        elif o.op in ("combine", "before"):
            facts |= self.step(o.attr, o.args, o.op == "before")
        elif o.view is not None:
            n = len(o.view.shape)
            index = "".join(map("{:i}, ".format, args[:n]))
            facts["view"] = self.names[o.view]
            facts["element"] = f"{facts['view']}, {index[:-2] if n == 1 else f'({index})'}"
            facts["values"] = "".join(map(", {:v}".format, args[n:])) if o.op in ("store", "atomic") else ""
        text = template.format(*args, **facts)
        held = word in _HELD and kind != "float"
        self.names[o] = name
        self.say(
            f"{name} = ({text}) & {facts['high']}" if held and kind == "unsigned" else f"{name} = {text}"
        )
        if held and kind == "signed":
            low, high = t.bounds(dtype)
            self.say(
                f"if not {low} <= {name} <= {high}: {name} = run.beyond({name}, {dtype!r}, {site}, {word!r}, "
                f"{', '.join(map('{:=}'.format, args))})"
            )
        if (
            o.op == "store"
            and o.view.dtype == "float32" == self.float_dtype
            and self.strong(o.args[-1].dtype) == "float64"
        ):
            self.say(f"run.leak({facts['element']}, {site})")

    def step(self, reducer, state, begins):
        """The combination of a reducer's states, as facts for `_TEXTS`."""
        from .reducing import combining

        dtypes = tuple(self.strong(v.dtype) for v in state)
        neutral = (
            "".join(f"{self.literal(n, dtype)}, " for n, dtype in zip(reducer.neutral(dtypes[0]), dtypes))
            if begins
            else ""
        )
        return {
            "step": self.constant(combining(reducer, dtypes, self.float_dtype, self.kernel_name)),
            "all": "".join(f"{self.get(v)}, " for v in state),
            "neutral": f"({neutral})",
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
