"""Forward mode: the tangents of each operation of a tree, inserted after it, before dtypes are solved.

A source is read as usual. Sweeps over the nodes of its tree find the numbers on which operations, variables
and local arrays depend; then each block is traversed once more, and a tangent is inserted after each
dependent node: for an operation by a row of `rules.py`, for an assignment one to the variable's tangent, for
a store one to the array's. All code that reads a tree therefore supports derivatives without changes. A node
that is in no table here is refused.

Second derivatives are a second traversal, over the result of the first.
"""

import ast
import dataclasses
import functools
import warnings

from ..core.compiler.reading.build import MOST_OPERATIONS
from ..core.compiler.reading.tree import Call, If, inside, Leave, Loop, Operation, Rejoin, Set, Variable, View
from ..core.language import types as t, words
from ..core.language.kernel import Function, from_text
from ..errors import LanguageError
from .operations import PASSIVE, RULES, WITHOUT, WRITES, bits, carried, roots, shadow
from .rules import FLAT, NAMES, PARTIALS

_warned = set()


@functools.cache
def _rule(partial, n):
    """Return the text of a partial derivative by one of n arguments; its operations are inlined at the call,
    as those of words are.
    """
    params = ("x" if n == 1 else "a, b, c"[: 3 * n - 2]) + ", y"
    lines = [f"def partial({params}):\n", f"    return {partial}\n"]
    made = from_text(Function, "partial", __name__, "<partial>", lines, 1, NAMES, ())
    return dataclasses.replace(made.portable_text, file=words.__file__)


def partial_of(build, partial, args, result, need=lambda *numbers: None):
    """Return a partial derivative, of a row in `rules.py`; `need` is called with those numbers that it is
    made from."""
    if isinstance(partial, float):
        return build.const(partial)
    text = _rule(partial, len(args))
    read = {n.id for n in text.nodes if isinstance(n, ast.Name)}
    numbers = [v if name in read else build.const(0.0) for name, v in zip(text.params, [*args, result])]
    need(*numbers)
    return build.inline(text, numbers)


def product(build, partial, slope):
    """Return the product of a partial derivative, which may be an integer of the text, and a tangent or an
    adjoint, a float.
    """
    if partial.const == 1.0:
        return slope
    if partial.const == -1.0:
        return build.negate(slope)
    made = build.binary("*", partial, slope)
    return made if slope.op in ("one", "const") else build.counted("*", made)


def summed(build, a, b):
    return b if a is None else build.counted("+", build.binary("+", a, b))


class Walk:
    """One walk over the nodes that were read from `start` on.

    masks : the directions, as bits, in which an operation, a variable or an array changes
    tangents : the Operation, Variable or View that is the tangent of another, by (node, direction)
    """

    def __init__(self, build, text, seeds, start):
        self.build, self.text, self.start, self.seeds = build, text, start, seeds
        self.old, self.next = build.order[start:], 0
        self.position = {node: k for k, node in reversed([*enumerate(self.old)])}
        self.quiet = 0
        self.masks, self.tangents = {seed: 1 << k for k, seed in enumerate(seeds)}, {}

    # ---- which nodes have tangents
    def mask(self, *nodes):
        found = 0
        for node in nodes:
            found |= self.masks.get(node, 0)
        return found

    def spread(self):
        """Sweep until no mask rises."""
        before = None
        while before != self.masks:
            before = dict(self.masks)
            for node in self.old:
                changed, sources = self.flow(node)
                if mask := self.mask(*sources):
                    self.masks |= {other: mask | self.mask(other) for other in changed}

    def flow(self, node):
        """Return what a node changes, and that on which it depends smoothly."""
        if node.__class__ is Set:
            return [node.variable], [node.value]
        if node.__class__ is View:
            return [node, *roots(node) * bool(node.options)], roots(node)
        if node.__class__ is not Operation or node.op in PASSIVE or self.is_step(node):
            return [], []
        if node.op in WRITES:
            return [node, *roots(node.view)], [node.args[-1], *roots(node.view)]
        return [node], carried(node)

    def is_step(self, o):
        """Return True if the derivative of an operation is 0 but at jumps."""
        dtype = o.attr if o.op == "cast" else t.part(o.view.dtype) if o.op in WRITES else "float"
        return self.key(o) in FLAT or not t.is_float(dtype)

    @staticmethod
    def key(o):
        """Return the row of an operation in the table of partial derivatives."""
        return o.attr[0] if o.op == "math" else o.attr if o.op in ("binary", "intrinsic") else o.op

    # ---- the walk
    def change(self, at):
        """Walk over the nodes of the block from `at` on."""
        build = self.build
        self.spread()
        del build.order[self.start :]
        body = build.block.body[at:]
        del build.block.body[at:]
        for node in body:
            self.statement(node)
        build.order += self.old[self.next :]

    def block(self, block):
        nodes, block.body = block.body, []
        with self.build.inside(block):
            for node in nodes:
                self.statement(node)

    def statement(self, node):
        if len(self.build.order) > MOST_OPERATIONS:
            self.build.fail(
                self.text.tree,
                f"with its derivatives it has more than {MOST_OPERATIONS:,} operations",
                text=self.text,
            )
        self.build.line = node.line
        self.build.at = getattr(node, "at", None) or self.build.at
        _STATEMENTS[node.__class__](self, node)

    def keep(self, node):
        """Append an existing node to the open block, and nodes up to it to the order of evaluation."""
        self.build.block.body.append(node)
        k = self.position[node]
        if k >= self.next:
            self.build.order += self.old[self.next : k + 1]
            self.next = k + 1

    def fail(self, node, why):
        text, place = node.at
        said = ast.unparse(place).splitlines()[0]
        self.build.fail(place, f"`{said}` has no derivative: {why}", LanguageError, text)

    def put_tangents(self, node, put):
        """Put a tangent in each direction of a node."""
        for k in bits(self.mask(node)):
            made = put(k)
            if made is not None:
                self.tangents[node, k] = made

    def slope(self, v, k):
        """Return the tangent of a number; 0 if it has none."""
        return self.tangents.get((v, k)) or self.build.const(0.0)

    def variable(self, variable, k):
        return self.tangents.setdefault((variable, k), Variable(f"d_{variable.name}", variable.call))

    # ---- statements
    def set(self, s):
        """Assign a variable's tangents, in its dtype, after itself."""
        self.keep(s)
        for k in bits(self.mask(s.variable)):
            slope = self.slope(s.value, k)
            if slope.const is None:
                like = self.build.operation("one", s.value)
                slope = self.build.select(self.build.const(True), slope, like)
            self.build.put(Set(self.variable(s.variable, k), slope, s.home, s.block, s.loop, at=s.at))

    def regions(self, s):
        self.keep(s)
        for block in inside(s):
            self.block(block)

    def inner(self, call):
        own = call.text.is_own  # portable's functions issue no warnings
        self.quiet += own
        self.regions(call)
        self.quiet -= own
        if not call.text.single_return:
            self.outputs(call)

    def outputs(self, call):
        """Add the tangents of a call with several returns to its outputs."""
        for output in call.outputs[:]:
            made = [
                Operation("get", attr=self.variable(output.attr, k)) for k in bits(self.mask(output.attr))
            ]
            call.outputs += made
            self.build.order += made
        call.n_results = len(call.outputs)

    def view(self, view):
        self.keep(view)
        self.put_tangents(view, lambda k: shadow(self, view, k))

    def refuse_view(self, view, why="it may be an array argument, whose elements have no tangents"):
        self.refuse(f"'{view.name.partition('@')[0] or view.label}' has no derivative: {why}")

    def refuse(self, why):
        """Raise LanguageError for the line at which this walk, or that of reverse mode, is."""
        raise LanguageError(f"kernel '{self.build.kernel_name}' ({self.build.line}): {why}")

    # ---- operations
    def operation(self, o):
        self.keep(o)
        if o in self.seeds:
            self.tangents[o, self.seeds.index(o)] = self.build.operation("one", o)
            return
        key = self.key(o)
        if self.is_step(o):
            self.flat(o)
        elif o.op in RULES:
            RULES[o.op](self, o)
        elif key in PARTIALS:
            self.partials(o, PARTIALS[key])
        elif o.op not in PASSIVE and (self.mask(*o.args, *carried(o)) or o.op not in WITHOUT):
            self.fail(o, WITHOUT.get(o.op, f"nothing is known of '{o.op}'"))

    def flat(self, o):
        """Say once that a step's derivative is 0."""
        if not self.mask(*o.args) or self.quiet or self.key(o) == "logb" or o.attr == "bool":
            return
        text, place = o.at
        where = text.place_of(place)
        if where not in _warned:
            _warned.add(where)
            warnings.warn(
                f"kernel '{self.build.kernel_name}' ({where}): `{ast.unparse(place)}` is a step function:"
                " its derivative is 0, and undefined at the jumps",
                RuntimeWarning,
                stacklevel=2,
            )

    def partials(self, o, row):
        """The tangents of an operation by its partial derivatives, each computed once for all directions."""
        found = [
            (a, partial_of(self.build, partial, o.args, o))
            for a, partial in zip(o.args, row)
            if self.mask(a) and partial is not None
        ]

        def put(k):
            total = None
            for a, partial in found:
                if self.mask(a) >> k & 1:
                    total = summed(self.build, total, product(self.build, partial, self.slope(a, k)))
            return total

        self.put_tangents(o, put)


_STATEMENTS = {
    Operation: Walk.operation,
    View: Walk.view,
    Set: Walk.set,
    If: Walk.regions,
    Loop: Walk.regions,
    Leave: Walk.keep,
    Rejoin: Walk.keep,
    Call: Walk.inner,
}
