"""Solve for the dtypes and kinds of a tree: the least ones that satisfy every operation, by sweeps over its
nodes in order of evaluation.

A sweep is repeated only if it changed a property on which an EARLIER node depends: a variable's dtype or
kind, a split, the exits of a loop or a call. All of these only rise, so the sweeps end.
"""

import ast

from ....errors import CollectiveError, LoweringError
from ...language.frontend import by_users_names
from .build import Build
from .team import widened
from .tree import If, Leave, Loop, Operation, Rejoin, Set, View, inside
from ...language.types import (
    CONSECUTIVE,
    LINEAR,
    UNIFORM,
    UNSIGNED,
    VARYING,
    Record,
    TypeClash,
    arithmetic,
    check_operator,
    common_float,
    consecutive,
    in_rows,
    is_float,
    kind_of,
    loaded_dtype,
    named,
    part,
    promote,
    stays_aligned,
    strong,
)

# for one source: each new value of a constant argument makes another tree
_MOST_TREES = 256


def typed(text, described, width, step, float_dtype, kernel_name, asserts=False, apart=False):
    """Return the Tree of a source for arguments of these descriptions (see `entry.py` and `emit.py`), for
    packs of `width` lanes.

    `asserts` : whether the tree includes assertions; `apart` : whether collectives are allowed where only
    some members arrive; `step` : difference between the indices of neighbouring lanes; `float_dtype` : dtype
    of weak floats that are combined with no other dtype
    """
    key = described, width, step, float_dtype, asserts, apart
    tree = text.trees.get(key)
    if tree is None:
        build, tree = solved(text, described, width, step, float_dtype, kernel_name, asserts)
        if not apart:
            _Collectives(build).block(tree.root, False)
        if width > 1:
            tree.scalar = next((why for number, why in build.scalar if number.kind != UNIFORM), None)
        tree.chain = any(number.kind != UNIFORM for number in build.chains)
        if len(text.trees) >= _MOST_TREES:
            text.trees.clear()
        text.trees[key] = tree
    return tree


def solved(text, described, width, step, float_dtype, kernel_name, asserts=False):
    """Return (Build, Tree) of a source, with dtypes and kinds; the arguments are those of `typed`."""
    build = Build(width, float_dtype, kernel_name, asserts)
    tree = build.tree(text, [_input(build, name, d) for name, d in zip(text.params, described)])
    _Types(build, step, float_dtype).solve()
    _check(build)
    return build, tree


def _input(build, name, described):
    """Return an argument of a tree from its description."""
    what, *more = described
    if what == "tuple":
        names, *parts = more
        return Record(
            (_input(build, field, d) for field, d in zip(named(name, len(parts), names), parts)), names
        )
    if what == "constant":
        return build.strong_const(more[2], more[0])
    if what == "known":
        return more[0]
    if what == "number":
        dtype, kind, step, aligned = more
        return Operation("input", dtype=dtype, kind=kind, step=step, aligned=aligned)
    if what == "view":
        view = View(name, *more)
        view.shape = [
            Operation("extent", attr=(view, d), dtype="int", kind=UNIFORM) if n is None else n
            for d, n in enumerate(view.shape)
        ]
        return view
    return what(*more)  # a team


class _Types:
    """Solver for the (dtype, kind) of operations, and for the effects of statements on both."""

    def __init__(self, build, step, float_dtype):
        self.build, self.W, self.step = build, build.W, step
        self.float_dtype, self.changed = float_dtype, True

    def strong(self, dtype):
        return strong(dtype, self.float_dtype)

    def solve(self):
        rules = {Set: self.set, If: self.branch, Loop: self.loop, Leave: self.leave}
        work = []
        for node in self.build.order:
            if node.__class__ is Operation:
                work.append((self.operation, node, _RULES[node.op]))
            elif node.__class__ in rules:
                work.append((rules[node.__class__], node, None))
        while self.changed:
            self.changed = False
            for solve, node, rule in work:
                try:
                    solve(node, rule)
                except TypeClash as clash:
                    refuse(self.build.kernel_name, node, clash)
        for node in self.build.order:
            if node.__class__ is Set:
                self.free(node)

    def operation(self, o, rule):
        for a in o.args:
            if a.dtype is None:
                return  # a later sweep solves it
        o.dtype, o.kind = rule(self, o, *o.args)

    def set_fact(self, node, fact):
        if not getattr(node, fact):
            setattr(node, fact, True)
            self.changed = True

    # ---- operations
    def binary(self, o, a, b):
        op, dtype = o.attr, arithmetic(a.dtype, b.dtype, o.attr)
        check_operator(op, dtype)
        if in_rows(op, a, b, self.W):
            o.step = o.aligned = int(op == "%")
            return dtype, LINEAR if op == "%" else UNIFORM
        kind, o.step = consecutive(op, a, b, dtype)
        kind = kind or kind_of(a, b)
        o.aligned = stays_aligned(op, a, b, dtype, kind, self.W)
        return dtype, kind

    def cast(self, o, a, dtype=None):
        dtype = dtype or o.attr
        if a.dtype == dtype:
            o.step, o.aligned = a.step, a.aligned
            return dtype, a.kind
        if a.kind == LINEAR and dtype in CONSECUTIVE and a.dtype != "int32":
            o.step = a.step
            return dtype, LINEAR
        return dtype, kind_of(a)

    def settle(self, o, a):
        """Return the (dtype, kind) of a number made strong; with `attr`, of an integer in 64 bits."""
        dtype = "int64" if a.dtype == "bool" else self.strong(a.dtype)
        return self.cast(o, a, widened(dtype) if o.attr else dtype)

    def invert(self, o, a):
        if is_float(a.dtype):
            raise TypeClash(f"'~' needs integers, got {a.dtype}")
        return a.dtype, kind_of(a)

    def select(self, o, condition, a, b):
        dtype, chosen = promote(a.dtype, b.dtype), a if condition.const else b
        if condition.const is None:
            return dtype, kind_of(condition, a, b)
        return (dtype, UNIFORM) if chosen.const is not None else self.cast(o, chosen, dtype)

    def abs(self, o, a):
        if a.dtype in UNSIGNED:
            return self.cast(o, a, a.dtype)
        return _counted(a), a.kind if is_float(a.dtype) else kind_of(a)

    def round_to_integer(self, o, a):
        return ("int", kind_of(a)) if is_float(a.dtype) or a.dtype == "bool" else self.cast(o, a, a.dtype)

    def load(self, o, *indices):
        varies = o.view.lanes_last or any(i.kind != UNIFORM for i in (*indices, *o.view.indices()))
        return loaded_dtype(o.view.dtype), VARYING if varies else UNIFORM

    def foreign(self, o, *args):
        dtypes = o.attr.results([self.strong(a.dtype) for a in args])
        return dtypes[0] if dtypes else None, VARYING  # each lane calls it: it may draw random numbers

    def member(self, o):
        """Return the (dtype, kind) of a member's rank, or of its index in a range."""
        o.step, o.aligned = self.step, self.W > 1 and (o.op == "rank" or o.attr.start.in_packs(self.W))
        return "int", LINEAR if self.W > 1 else VARYING

    # ---- statements
    def set(self, s, rule):
        variable, value = s.variable, s.value
        # once some lanes have returned, the others must not overwrite their results
        s.inner = s.block.parted_from(s.home) or bool(variable.call and variable.call.varying_return)
        if value.dtype is None:
            return
        dtype = value.dtype if variable.dtype is None else promote(variable.dtype, value.dtype)
        kind = UNIFORM if not s.inner and value.kind == variable.kind == UNIFORM else VARYING
        if (dtype, kind) != (variable.dtype, variable.kind):
            variable.dtype, variable.kind, self.changed = dtype, kind, True

    def branch(self, s, rule):
        if s.condition.kind not in (None, UNIFORM):
            for block in inside(s):
                self.set_fact(block, "split")

    def loop(self, s, rule):
        ends = (s.stop, *s.counter.args) if s.form == "range" else (s.condition,) * (s.form == "while")
        if any(v.kind not in (None, UNIFORM) for v in ends):
            self.set_fact(s, "varying")
        if s.masked:
            for block in s.trips or (s.body,):
                self.set_fact(block, "split")

    def leave(self, s, rule):
        if s.how == "return":
            s.together = not s.block.parted_from(s.target.body)
            if not s.together:
                self.set_fact(s.target, "varying_return")
                for loop in s.loops:
                    self.set_fact(loop, "varying_exit")
            return
        apart = s.block.parted_from(_trip_of(s.target, s.block))
        if s.how == "continue" and apart:
            self.set_fact(s.target, "varying_continue")
        # After a varying continue, other lanes may still be in the loop when some break.
        s.together = not apart and not (s.how == "break" and s.target.varying_continue)
        if not s.together:
            self.set_fact(s.target, "varying_exit")

    def free(self, s):
        """Record a variable that the loop's iterations change for all lanes together, and on which the next
        iteration may depend.

        A lane that has continued early keeps its values until the others arrive: no variable is free then.
        """
        loop = s.loop
        if (
            loop is not None
            and loop.body is not None
            and loop.masked
            and not loop.varying_continue
            and s.inner
            and s.variable.kind == VARYING
        ):
            if (
                s.variable.name in loop.deciding()
                and s.variable not in loop.free
                and not s.block.parted_from(loop.body)
            ):
                loop.free = [*loop.free, s.variable]


def _counted(a):
    """Return the dtype of a number; a bool counts as the integer 0 or 1."""
    return "int" if a.dtype == "bool" else a.dtype


def _floats(types, o, *args):
    return common_float(args), kind_of(*args)


def _fixed_result(dtype, kind=None):
    """Return the rule for results of a fixed dtype, and of a fixed kind or the kind of the arguments."""
    return lambda types, o, *args: (dtype, kind or kind_of(*args))


def _of_first(kind):
    return lambda types, o, a, *more: (a.dtype, kind)


def _of_view(types, o, *args):
    return part(o.view.dtype), VARYING


_RULES = {
    "get": lambda types, o: (o.attr.dtype, o.attr.kind),
    "binary": _Types.binary,
    "compare": lambda types, o, a, b: (promote(a.dtype, b.dtype) and "bool", kind_of(a, b)),
    "cast": _Types.cast,
    "settle": _Types.settle,
    "rounded": lambda types, o, a: types.cast(o, a, a.dtype),
    "not": _fixed_result("bool"),
    "negate": lambda types, o, a: (_counted(a), kind_of(a)),
    "invert": _Types.invert,
    "select": _Types.select,
    "extreme": lambda types, o, a, b: (promote(a.dtype, b.dtype), kind_of(a, b)),
    "intrinsic": _floats,
    "math": _floats,
    "abs": _Types.abs,
    "whole": _Types.round_to_integer,
    "bits": lambda types, o, a: ("int32" if types.strong(a.dtype) == "float32" else "int64", kind_of(a)),
    "from_bits": lambda types, o, a: (o.attr, kind_of(a)),
    "lanes": lambda types, o, a: ("bool", a.kind if types.W == 1 else UNIFORM),
    "load": _Types.load,
    **dict.fromkeys("store together barrier assert print breakpoint".split(), _fixed_result(None, UNIFORM)),
    **dict.fromkeys("broadcast combine one".split(), _of_first(UNIFORM)),
    "item": lambda types, o, whole: (whole.args[o.attr].dtype, whole.kind),
    "foreign": _Types.foreign,
    "part": lambda types, o, whole: (whole.attr.dtypes[o.attr], VARYING),
    "atomic": _of_view,
    "extent": _fixed_result("int"),
    "counter": _fixed_result("int"),
    "member": _Types.member,
    "rank": _Types.member,
    **dict.fromkeys("append league_rank league_size".split(), _fixed_result("int", UNIFORM)),
    "mma": _of_first(VARYING),
    "tally": _of_view,
    "before": _of_first(VARYING),
}


def refuse(kernel_name, node, clash):
    """Raise LoweringError for a TypeClash at an operation or an assignment."""
    text, place = node.at
    what = (
        f"'{node.variable.name}' holds values of two dtypes"
        if node.__class__ is Set
        else f"`{ast.unparse(place).splitlines()[0]}`"
    )
    raise LoweringError(
        f"kernel '{kernel_name}' ({text.place_of(place)}): {by_users_names(what)}: {clash}"
    ) from None


def _trip_of(loop, block):
    """Return the block of the loop's iteration that contains a block."""
    while block is not loop.body and block not in loop.trips:
        block = block.parent
    return block


def _check(build):
    """Raise LoweringError for a recorded condition that does not hold, now that dtypes and kinds are
    known."""
    for holds, node, message, parts, text in build.checks:
        if not holds():
            message = message.format(*map(ast.unparse, parts)) if parts else message
            build.fail(node, message, text=text)


class _Collectives:
    """Checker that rejects collectives, and shares of a range, that only some of the members reach."""

    def __init__(self, build):
        self.build = build

    def block(self, block, apart):
        """Check the statements of a block; `apart`: not all members reach it. Return True if that holds after
        the block."""
        for s in block.body:
            why = None
            if apart and s.__class__ is Operation and s.op == "together":
                why = (
                    ": every member must get here, but this place is reached only by some (a condition, a"
                    " loop or an early return that differs between members)"
                )
            elif apart and s.__class__ is Loop and s.form == "members":
                why = (
                    " gives each member a part, but only some get here (another thread_range, a condition or"
                    " a return that differs); take team.thread_range(n * m), or range(...)"
                )
            elif s.__class__ is Rejoin:
                apart = apart or (s.call.varying_return if s.loop is None else s.loop.varying_exit)
            if why:
                text, node = s.at
                self.build.fail(node, f"`{ast.unparse(node)}`{why}", CollectiveError, text)
            for block in inside(s):
                # Of a loop also the condition: those that continued are there, those that left are not.
                left = s.__class__ is Loop and (s.varying or s.varying_exit and not s.varying_continue)
                self.block(block, apart or block.split or left)
        return apart
