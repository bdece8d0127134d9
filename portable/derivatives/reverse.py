"""Reverse mode: the adjoints of one index, after its statements, which are emitted once more.

`forward` emits the statements of a typed tree, each variable replaced by its value at that place (`env`).
Each operation on numbers that depend on the arrays adds a function to the tape, which adds to the adjoints of
its arguments; the tape is run backwards. A branch or a loop (regions.py) is repeated with its adjoints, from
its input numbers, so that no number is kept that can be recomputed. Numbers that a loop carries are lost
there, unless an adjoint needs one: `Needed` restarts with that one kept.
"""

import copy
import functools
import itertools
import math

from ..core.compiler.reading.arrays import part_of
from ..core.compiler.reading.operations import building
from ..core.compiler.reading.tree import (
    Block,
    Call,
    If,
    Leave,
    Loop,
    Operation,
    Rejoin,
    Set,
    View,
    inside,
    mapped,
)
from ..core.language import types as t
from .forward import partial_of, product, summed
from .operations import PASSIVE, WITHOUT, second_wins
from .regions import CODES, LEFT, fork, loop, unknown_number, emit_rest, unrolled, within, zero
from .rules import PARTIALS

MOST_ELEMENTS = 32  # of a local array that is indexed by a variable


class Needed(Exception):
    """Numbers that loops carry, (loop, key), without which an adjoint cannot be computed."""


class Reverse:
    """Puts the adjoints of one index into a tree.

    target : reads and writes adjoints (target.py); kept : numbers that loops keep, (loop, key)
    tape : functions, in the order of the operations whose adjoints they are; adjoints : by the number
    live : numbers that depend on the arrays; masked : numbers with adjoint 0 where they were not selected;
    masking : True while an adjoint of such a number is passed on
    homes : the blocks in which variables begin; counters : of the loops around this place
    """

    def __init__(self, build, walk, target, kept):
        self.build, self.walk, self.target, self.kept = build, walk, target, kept
        self.tape, self.adjoints, self.homes, self.counters = [], {}, {}, []
        self.live, self.masked, self.masking = set(), set(), False

    # ---- adjoints
    def add(self, number, value):
        """Add to the adjoint of a number."""
        if number in self.live:
            if self.masking:
                self.masked.add(number)
            self.adjoints[number] = summed(self.build, self.adjoints.get(number), value)

    def backwards(self, tape):
        for step in reversed(tape):
            self.masking = False
            step()

    @staticmethod
    def need(*numbers):
        missing = [v.attr for v in numbers if v and v.op == "lost"]
        if missing:
            raise Needed(frozenset().union(*missing))

    def record_adjoint(self, number, step):
        """Add to the tape a function of the adjoint of a number, called if it has one."""

        def run():
            adjoint = self.adjoints.pop(number, None)
            if adjoint is not None:
                self.build.line, self.build.at = place
                self.masking = number in self.masked
                step(adjoint)

        place = self.build.line, self.build.at
        self.live.add(number)
        self.tape.append(run)

    def separate_tape(self, put, *args):
        """Return the operations that `put` adds to the tape."""
        outer, self.tape = self.tape, []
        put(*args)
        tape, self.tape = self.tape, outer
        return tape

    # ---- places
    def assign(self, variable, value):
        build = self.build
        home = self.homes.setdefault(variable, build.block)
        build.put(Set(variable, *build.operands(value), home, build.block, build.loop_here(), at=build.at))

    def got(self, variable, dtype=None):
        return self.build.operation("get", attr=variable, dtype=dtype)

    def loaded(self, view, *indices):
        """Return an element of an array made here, or of one of adjoints."""
        return self.build.operation("load", *indices, view=view, dtype=t.loaded_dtype(view.dtype))

    def present_value(self, number, env):
        """Return the present value of a number of the tree."""
        (number,) = self.build.operands(number)
        if number.op == "extent":
            view, dimension = number.attr
            (number,) = self.build.operands(env[view].shape[dimension])
            return number
        return number if number.const is not None else env[number]

    def hold(self, env, key, number):
        """Bind a key to a number; the tree determines if it depends on the arrays."""
        env[key] = number
        if key != LEFT and self.walk.mask(key[0] if key.__class__ is tuple else key):
            self.live.add(number)

    # ---- statements
    def forward(self, body, env):
        for k, s in enumerate(body):
            self.build.at = getattr(s, "at", None) or self.build.at
            self.build.line = self.walk.build.line = getattr(s, "line", "") or self.build.line
            _STATEMENTS[s.__class__](self, s, env)
            after = body[k + 1 :]
            if env[LEFT].const != 0 and after:
                emit_rest(self, functools.partial(self.forward, after), after, env)
                return

    def call(self, s, env):
        self.forward(s.body.body, env)
        env[LEFT] = zero("int")

    def leave(self, s, env):
        env[LEFT] = self.build.const(CODES[s.how])

    def branch(self, s, env):
        puts = [functools.partial(self.forward, block.body) for block in inside(s)]
        fork(self, self.present_value(s.condition, env), puts, within(s), env)

    # ---- operations
    def operation(self, o, env):
        if o.op == "get":
            env[o] = env[o.attr]
        elif o.op in ("load", "store", "atomic"):
            self.target.access(self, o, env)
        else:
            env[o] = self.emit_again(o, [self.present_value(a, env) for a in o.args], env)

    def emit_again(self, o, args, env, step=None):
        """Emit an operation of the tree with other numbers; `step` is called with its adjoint, which tables
        determine if there is none.
        """
        walk, view = self.walk, o.view and env[o.view]
        if lost := [a.attr for a in args if a.op == "lost"]:
            made = unknown_number(o.dtype, *frozenset().union(*lost))
        else:
            made = self.build.operation(o.op, *args, attr=o.attr, dtype=o.dtype, view=view, counts=o.counts)
        if not step and any(a in self.live for a in args) and o.op not in PASSIVE:
            if walk.is_step(o):
                walk.flat(o)
                return made
            rule = _ADJOINTS.get(o.op) or (walk.key(o) in PARTIALS and Reverse.by_partials)
            if not rule:
                walk.fail(o, WITHOUT.get(o.op, f"'{o.op}' has none in reverse"))
            step = functools.partial(rule, self, o, args, made)
        if step:
            self.record_adjoint(made, step)
        return made

    def put(self, op, args, dtype, attr=None):
        """Emit an operation that is not in the tree, with its adjoint."""
        return self.emit_again(Operation(op, args, attr=attr, dtype=dtype), args, {})

    def by_partials(self, o, args, made, adjoint):
        build = self.build
        for a, partial in zip(args, PARTIALS[self.walk.key(o)]):
            if a in self.live and partial is not None:
                value = product(build, partial_of(build, partial, args, made, self.need), adjoint)
                if self.masking and value.op == "binary":  # 0 times a possibly infinite number
                    value = build.select(build.compare("==", adjoint, 0.0), 0.0, value)
                self.add(a, value)

    def cast(self, o, args, made, adjoint):
        self.add(args[0], self.build.cast(adjoint, args[0].dtype))

    def add_choice(self, condition, a, b, adjoint):
        self.need(condition)
        self.masking = True
        for number, sides in ((a, (adjoint, 0.0)), (b, (0.0, adjoint))):
            if number in self.live:
                self.add(number, self.build.select(condition, *sides))

    def extreme(self, o, args, made, adjoint):
        """Add the adjoint of an extreme: of equal numbers the first takes it."""
        self.need(*args)
        self.add_choice(second_wins(self.build, o, *args), *args[::-1], adjoint)

    # ---- views, and arrays of one's own
    def view(self, view, env):
        if view.options or view.store == "(scratch)":
            why = "it is one of several arrays; write a branch"
            self.walk.refuse_view(view, "teams have none in reverse" if view.store else why)
        if view.base is None and view.store == "(local)":
            env |= {(view, k): zero(t.loaded_dtype(view.dtype)) for k in places(view)}

        def present(bound):
            number = bound and self.present_value(bound, env)
            self.need(number)
            return number

        if view.items:
            items = [mapped(present, item) for item in view.items]
            with building(self.build):
                env[view] = part_of(env[view.base], items)
            return
        made = env[view] = self.build.put(copy.copy(view))
        if view.base is not None:
            made.base = env[view.base]
            made.shape = made.base.shape[::-1]

    def place(self, view, indices, env):
        """Return the array from outside, or made here, that a view is a part of, and the indices in it."""
        while view.base is not None:
            made, rest = env[view], iter(indices if view.items else indices[::-1])
            indices = [
                self.moved(item[0], n, next(rest)) if isinstance(item, tuple) else item
                for item, n in zip(made.items, made.base.shape)
            ]
            indices += rest
            view = view.base
        return view, indices

    def moved(self, low, n, index):
        """Return the index in an array of n elements for one in a part that begins at `low`, which may be
        counted from the end."""
        build = self.build
        if low is None or low.const == 0:
            return index
        self.need(index)
        if low.const is None or low.const < 0:
            end = build.extreme(">", build.binary("+", low, n), 0)
            low = build.select(build.compare("<", low, 0), end, low)
        return build.binary("+", low, index)

    def element(self, view, indices, env):
        """Return the element of a local array."""
        (key, _), *others = self.hits(view, indices)
        found = env[key]
        for key, here in others:
            found = self.put("select", [here, env[key], found], found.dtype)
        return found

    def hits(self, view, indices):
        """Yield (key, condition that it is the indexed one) for each element of a local array; (key, None) of
        one alone with constant indices."""
        known = tuple(i.const for i in indices)
        if None not in known:
            yield (view, tuple(map(int, known))), None
            return
        if math.prod(view.shape) > MOST_ELEMENTS:
            what = "in reverse, local arrays that are indexed by variables have"
            self.walk.refuse_view(view, f"{what} {MOST_ELEMENTS} elements")
        self.need(*indices)
        build = self.build
        for place in places(view):
            equal = [build.compare("==", i, k) for i, k in zip(indices, place)]
            yield (view, place), functools.reduce(functools.partial(build.binary, "&"), equal)


def places(view):
    """Return the indices of all elements of a local array."""
    return itertools.product(*map(range, view.shape))


def _assigned(reverse, s, env):
    env[s.variable] = reverse.present_value(s.value, env)


_STATEMENTS = {
    Operation: Reverse.operation,
    View: Reverse.view,
    Set: _assigned,
    If: Reverse.branch,
    Loop: loop,
    Block: unrolled,
    Leave: Reverse.leave,
    Rejoin: lambda reverse, s, env: None,
    Call: Reverse.call,
}
_ADJOINTS = {
    "select": lambda reverse, o, args, made, adjoint: reverse.add_choice(*args, adjoint),
    "extreme": Reverse.extreme,
    **dict.fromkeys(("cast", "rounded", "settle"), Reverse.cast),
}
