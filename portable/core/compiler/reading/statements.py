"""Build statements of the kernel language into the typed tree: assignments, branches, loops."""

import ast
import functools

from ... import registry
from ...language import words
from ...language.frontend import denoted_object, walk
from .arrays import Array, array_of, assign_array, load_element, part_at, part_of, settled, store_element
from .expressions import element_of, operated, item_at
from .team import TeamHandle
from .operations import build
from .tree import (
    Block,
    If,
    Leave,
    Loop,
    Operation,
    Rejoin,
    Variable,
    View,
    equal_arrangements,
    arrangement,
    describe,
    flat,
    plain_tuple,
)
from ...language.types import UNIFORM, Known, is_float

# functions that take one or two instructions
_SHORT = "min max minimum maximum abs sqrt fma where int float"
_SHORT = {*_SHORT.split(), *"int32 int64 uint32 uint64 float32 float64".split()}
# syntax that costs more than a jump
_HEAVY = (
    ast.For,
    ast.While,
    ast.Call,
    ast.Div,
    ast.FloorDiv,
    ast.Mod,
    ast.Pow,
    ast.Return,
    ast.Break,
    ast.Continue,
)
_UNROLL_TRIPS, _UNROLL_TOTAL, _UNROLL_STATIC = 16, 256, 4096


def assign_to(target, value):
    if isinstance(target, ast.Name):
        build.assign(target.id, settled(value, target), target)
    elif isinstance(target, (ast.Tuple, ast.List)):
        plain = plain_tuple(value)
        if not plain or len(value) != len(target.elts):
            build.fail(
                target,
                f"expected {len(target.elts)} values for `{ast.unparse(target)}`, got {describe(value)}",
            )
        for part, v in zip(target.elts, value):
            assign_to(part, v)
    elif isinstance(target, ast.Subscript):
        place = element_of(changed(target), target)
        if isinstance(place, tuple):
            store_element(*place, value, target)
        else:
            assign_array(array_of(place), value, target)
    else:
        build.refuse(target, f"`{ast.unparse(target)}` cannot be assigned in a kernel")


def changed(target):
    """Return the array of which an assignment changes a part; raise LanguageError for a vector, which is
    immutable."""
    base = build.expr(target.value)
    if plain_tuple(base) or isinstance(base, Array) and not base.place:
        build.refuse(
            target,
            f"`{ast.unparse(target)}` is a part of {describe(base)}, which is immutable; make another, or"
            " write to `w = pk.local(n, dtype)` and take `pk.vector(w)`",
        )
    return base


def put_assert(s):
    """Add an assertion to the tree of the checked space; other spaces ignore it."""
    if build.asserts:
        message = s.msg.value if isinstance(s.msg, ast.Constant) else s.msg and ast.unparse(s.msg)
        build.operation("assert", build.condition(s.test), attr=str(message or ""))


def put_expr(s):
    if isinstance(s.value, ast.Constant):
        return
    if not isinstance(s.value, ast.Call):
        build.refuse(s, f"`{ast.unparse(s)}` does nothing")
    build.unused = s.value
    build.expr(s.value)


def put_assign(s):
    value = build.expr(s.value)
    for target in s.targets:
        assign_to(target, value)


def put_augmented(s):
    name = s.target.id if isinstance(s.target, ast.Name) else None
    place = None if name else element_of(changed(s.target), s.target)
    if name or isinstance(place, tuple):
        old = build.read(name, s) if name else load_element(*place)
        new = operated(s.op, old, build.expr(s.value), s)
        if name:
            build.assign(name, new, s)
        else:
            store_element(*place, new, s)
        return
    change = functools.partial(operated, s.op, node=s)
    assign_array(array_of(place), build.expr(s.value), s, change)


def put_if(s):
    c = build.condition(s.test)
    if c.const is not None:
        build.statements(s.body if c.const else s.orelse)
    else:
        node = build.put(If(c, Block(build.block), Block(build.block) if s.orelse else None, _heavy(s)))
        gone = build.build_block(node.then, s.body)
        build.gone = bool(s.orelse) and build.build_block(node.otherwise, s.orelse) and gone
    if not build.gone and _leaves(s):
        rejoin()


def put_return(s):
    frame = build.frame
    value = None if s.value is None else settled(build.expr(s.value), s)
    if isinstance(value, Known) and value.value is None:
        value = None
    build.gone = True
    if frame.text.single_return:
        frame.result = value
        return
    if value is not None:
        values = flat(value)
        if (
            frame.results
            and not equal_arrangements(frame.result, arrangement(value))
            or not all(isinstance(v, Operation) for v in values)
        ):
            build.fail(s, "every return must give as many numbers (a complex one is two)")
        if not frame.results:
            frame.result = arrangement(value)
            frame.results = tuple(Variable("the result", frame.call) for _ in values)
        build.set(frame.results, tuple(values), frame.call.body)
    build.put(Leave("return", frame.call, build.block, value is not None, list(frame.loops)))


def put_leave(how):
    build.put(Leave(how, build.loop_here(), build.block))
    build.gone = True


def put_while(s):
    no_else(s)
    put_loop(s, Loop("while", build.frame.call))


def put_for(s):
    no_else(s)
    call, of_team = s.iter, False
    if isinstance(call, ast.Call):
        name = getattr(call.func, "attr", "")
        of_team = name in ("thread_range", "elements") and isinstance(build.expr(call.func.value), TeamHandle)
        if of_team and name == "thread_range":
            members_loop(s, call)
            return
        if not of_team and called(call) is range:
            range_loop(s, call)
            return
    n, item, static = (registry.part("tiles of a team").elements if of_team else items_of)(call)
    if n.const is not None and (static or n.const <= _UNROLL_TRIPS):
        unroll(s, [lambda k=k: item(build.const(k)) for k in range(n.const)])
        return
    counted_loop(s, build.const(0), n, 1, item)


def called(node):
    """Return the object from outside the kernel that an expression calls; None for other expressions."""
    if (
        not isinstance(node, ast.Call)
        or node.keywords
        or any(n.id in build.frame.text.webs for n in walk(node.func) if isinstance(n, ast.Name))
    ):
        return None
    callee = build.expr(node.func)
    return callee.value if isinstance(callee, Known) else None


def items_of(node):
    """Return (number of items, function of an index that returns the item, whether the index must be a
    constant) for a for loop."""
    kind = called(node)
    if kind is range:
        return range_items(node)
    if kind is enumerate and 1 <= len(node.args) <= 2:
        return numbered_items(node)
    if kind is zip and node.args:
        return zip_items(node)
    value = build.expr(node)
    if isinstance(value, (View, Array)) and value.shape:
        return *build.operands(value.shape[0]), lambda k: item_of(value, k), False
    if plain_tuple(value):
        return build.const(len(value)), lambda k: item_at(value, k, node), True
    build.refuse(
        node,
        "a for loop runs over range(...), enumerate(...), zip(...), team.thread_range(...), a view"
        f" or a tuple, not over `{ast.unparse(node)}`",
    )


def item_of(array, k):
    """Return the k-th element of a vector, or the k-th row of an array."""
    if isinstance(array, View):
        return (load_element if array.ndim == 1 else part_of)(array, [k])
    return array.item([k]) if array.ndim == 1 else part_at(array, [k])


def numbered_items(node):
    """Return the items of enumerate(...), in the form of `items_of`."""
    first = build.number(node.args[1]) if node.args[1:] else 0
    n, item, static = items_of(node.args[0])
    return n, lambda k: (build.binary("+", first, k), item(k)), static


def zip_items(node):
    """Return the items of zip(...), which ends with the shortest, in the form of `items_of`."""
    lengths, items, static = zip(*(items_of(a) for a in node.args))
    n = functools.reduce(lambda n, m: build.extreme("<", n, m), lengths)
    return n, lambda k: tuple(item(k) for item in items), any(static)


def range_items(node):
    """Return the items of a range, in the form of `items_of`."""
    start, stop, step = range_bounds(node, 3)
    if not step or not isinstance(step, int):
        build.fail(node, f"`{ast.unparse(node)}`: beside others the step is a constant other than zero")
    ends = (stop, start) if step > 0 else (start, stop)
    n = build.parts_of(build.binary("-", *ends), abs(step))
    return build.extreme(">", n, 0), lambda k: build.binary("+", start, build.binary("*", k, step)), False


def no_else(s):
    if s.orelse:
        build.refuse(s, "else after a loop is not supported in kernels; set a variable before `break`")


def range_bounds(call, most):
    """Return start, stop and step of a range; step as a Python number if it is known."""
    values = build.arguments(call, 1, most)
    for v, node in zip(values, call.args):
        build.check_when_typed(
            lambda v=v: not is_float(v.dtype),
            call,
            "`{}`: the bounds are integers, but `{}` is a float; int(...) cuts it off",
            call,
            node,
        )
    if len(values) == 1:
        return build.const(0), values[0], 1
    step = values[2] if len(values) == 3 else build.const(1)
    return values[0], values[1], step if step.const is None else step.const


def members_loop(s, call):
    start, stop, _ = range_bounds(call, 2)
    build.check_when_typed(
        lambda: start.kind == stop.kind == UNIFORM,
        s,
        "the bounds of team.thread_range must be the same for all members",
    )
    loop = Loop(
        "members",
        build.frame.call,
        start=start,
        stop=stop,
        breaks=_exits(s.body, ast.Break),
        at=(build.frame.text, call),
    )
    loop.varying = build.W == 1 or loop.breaks
    loop.counter = Operation("member", attr=loop, dtype="int")
    put_loop(s, loop)


def range_loop(s, call):
    start, stop, step = range_bounds(call, 3)
    if not step:
        build.fail(call, "range's step is zero")
    numbers = unrolled_range(s, call, start.const, stop.const, step)
    if numbers is not None:
        unroll(s, build.operands(*numbers))
        return
    if not _computes(s):
        build.scalar.append(
            (
                start,
                (
                    f"the loop of line {build.line.rpartition(':')[2]} reads other elements in "
                    "each lane and computes little, which one lane at a time does faster"
                ),
            )
        )
    counted_loop(s, start, stop, step)


def counted_loop(s, start, stop, step, item=None):
    """Build a loop over numbers; `item` maps the counter to the loop's target, by default the counter
    itself."""
    loop = Loop("range", build.frame.call, start=start, stop=stop, step=step)
    depends = [start] if isinstance(step, int) else [start, step]
    loop.counter = Operation("counter", depends, attr=loop, dtype="int")
    put_loop(s, loop, item and (lambda: item(loop.counter)))


def unrolled_range(s, call, *ends):
    """Return the numbers of a range loop to unroll, because it has few iterations or names pk.static; else
    None."""
    if not all(isinstance(end, int) for end in ends) or _leaves(s) or _exits(s.body):
        return None
    numbers = range(*ends)
    total = len(numbers) * build.unrolled
    few = len(numbers) <= _UNROLL_TRIPS and total <= _UNROLL_TOTAL
    static = (denoted_object(n, build.frame.text.scope) is words.static for n in walk(call))
    return numbers if few or total <= _UNROLL_STATIC and any(static) else None


def put_loop(s, loop, item=None):
    """Build a loop that is not unrolled; `item` returns the loop's target, by default the counter."""
    loop.body = Block(build.block, split=loop.form == "members")
    loop.deciding = functools.partial(_deciding, s)
    loop.exits, loop.returns = _exits(s.body), _returns(s)
    build.put(loop)
    if loop.form == "while":
        with build.inside(Block(build.block), loop) as loop.test:
            loop.condition = build.condition(s.test)
    else:
        build.order.append(loop.counter)
    build.order.append(loop)  # after the operations that it depends on
    trip(s, loop, loop.body, item or loop.counter)
    if loop.returns:
        rejoin()


def trip(s, loop, block, item):
    unrolled, build.unrolled = build.unrolled, 1
    with build.inside(block, loop):
        begin_trip(s, item)
        build.build_block(block, s.body)
    build.unrolled = unrolled


def begin_trip(s, item):
    build.frame.homes[build.frame.text.blocks.get(id(s.body))] = build.block
    if item is not None:
        assign_to(s.target, item() if callable(item) else item)


def unroll(s, items):
    if _exits(s.body) or _returns(s):
        loop = build.put(Loop("trips", build.frame.call, trips=[], exits=True))
        for item in items:
            loop.trips.append(Block(build.block))
            trip(s, loop, loop.trips[-1], item)
        if _returns(s):
            rejoin()
        return
    build.unrolled *= max(1, len(items))
    for item in items:
        begin_trip(s, item)
        build.statements(s.body)
    build.unrolled //= max(1, len(items))


# ---- facts from a statement's syntax
def _cached_by_statement(search):
    """Return `search` with its results cached on the statement, since an unrolled loop needs them in each
    iteration."""

    def known(s):
        if search.__name__ not in s.__dict__:
            s.__dict__[search.__name__] = search(s)
        return s.__dict__[search.__name__]

    return known


@_cached_by_statement
def _heavy(s):
    """Return (then, else): True for each branch of an `if` that costs more than a jump."""
    return tuple(any(map(_costs, body)) for body in (s.body, s.orelse))


def _costs(part):
    if isinstance(part, ast.If):  # of a long chain, each part once
        return _costs(part.test) or any(_heavy(part))
    return any(isinstance(n, _HEAVY) for n in walk(part))


def _exits(body, kinds=(ast.Break, ast.Continue)):
    """Return True if statements break or continue the loop around them."""
    return any(
        isinstance(s, kinds) or isinstance(s, ast.If) and _exits(s.body + s.orelse, kinds) for s in body
    )


@_cached_by_statement
def _deciding(loop):
    """Return the names of variables on which a loop's next iteration may depend: those in its conditions, and
    those that these are computed from."""
    tests = [n.test for n in walk(loop) if isinstance(n, (ast.While, ast.If))]
    names, more = set(), {n.id for test in tests for n in walk(test) if isinstance(n, ast.Name)}
    assigned = [n for n in walk(loop) if isinstance(n, (ast.Assign, ast.AugAssign))]
    while more - names:
        names |= more
        more = {
            n.id
            for a in assigned
            if names & {n.id for n in walk(a) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
            for n in walk(a.value)
            if isinstance(n, ast.Name)
        }
    return frozenset(names)


@_cached_by_statement
def _returns(s):
    if isinstance(s, ast.If):
        return any(map(_returns, s.body + s.orelse))
    return any(isinstance(n, ast.Return) for n in walk(s))


@_cached_by_statement
def _leaves(s):
    """Return True if lanes may leave the enclosing iteration or function inside this statement."""
    return _returns(s) or isinstance(s, ast.If) and _exits(s.body + s.orelse)


def _computes(loop):
    """Return True for a loop whose body computes more than it reads: it calls a function of more than two
    instructions, or has more divisions than subscripts. (A gather takes a pack as long as a division.)"""
    nodes = [n for s in loop.body for n in walk(s)]
    names = [getattr(n.func, "attr", getattr(n.func, "id", "")) for n in nodes if isinstance(n, ast.Call)]
    if any(name not in _SHORT and not name.startswith("atomic_") for name in names):
        return True
    divisions = sum(isinstance(n, (ast.Div, ast.Pow)) for n in nodes)
    return divisions > sum(isinstance(n, ast.Subscript) for n in nodes)


def rejoin():
    build.put(Rejoin(build.frame.call, build.loop_here(), build.block))


STATEMENTS = {
    ast.Pass: lambda s: None,
    ast.Assert: put_assert,
    ast.Expr: put_expr,
    ast.Assign: put_assign,
    ast.AnnAssign: lambda s: s.value and assign_to(s.target, build.expr(s.value)),
    ast.AugAssign: put_augmented,
    ast.If: put_if,
    ast.Return: put_return,
    ast.Break: lambda s: put_leave("break"),
    ast.Continue: lambda s: put_leave("continue"),
    ast.While: put_while,
    ast.For: put_for,
}
