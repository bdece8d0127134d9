"""Read and write the adjoints of arrays: elements by the indices of a policy.

A known index of an array is a pair (p, c), the policy's p-th index plus a constant, or (None, c), a constant;
any other is None.
"""

from collections import Counter
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial

from ..core.compiler.reading.tree import Operation, Variable, flat
from ..core.compiler.reading.typing import solved
from ..core.language import types as t
from .changes import at_path
from .forward import Walk
from .operations import ADDED, WHY, roots
from .regions import LEFT, only_if, unknown_number, zero
from .reverse import places, Reverse

LANES = 16  # neighbours in memory among the copies of an array, one a slot


class Template:
    """A kernel's typed tree, and what is known of its accesses to arrays.

    walk : the analysis of numbers that depend on the arguments at `wrt`; nodes : of arguments, by their paths
    counts : number of accesses by "load", "store" or "atomic" and the array; known : what is known of the
    indices in the array, by the operation
    """

    def __init__(self, text, n_index, described, float_dtype, name, wrt=(), of=()):
        index = [("number", "int", t.UNIFORM, 0, False)] * n_index
        build, self.tree = solved(text, (*index, *described), 1, 1, float_dtype, name)
        self.index, self.walk = self.tree.inputs[:n_index], Walk(build, text, (), 0)
        self.nodes = {path: at_path(text, self.tree.inputs, path) for path in (*wrt, *of)}
        self.walk.masks |= {self.nodes[path]: 1 for path in wrt}
        self.walk.spread()
        operations = [o for o in build.order if o.__class__ is Operation and o.view is not None]
        self.counts = Counter((o.op, root) for o in operations for root in roots(o.view))
        self.known = {o: self.known_indices(o) for o in operations}

    def known_indices(self, o):
        view, known = o.view, [self.form(i) for i in o.args[: o.view.n_indices]]
        while view.base is not None:
            rest = iter(known if view.items else known[::-1])
            known = [
                _moved(next(rest), item[0]) if isinstance(item, tuple) else self.form(item)
                for item in view.items
            ]
            known += rest
            view = view.base
        return tuple(known)

    def form(self, i):
        if isinstance(i.const, int):
            return None, i.const
        if i in self.index:
            return self.index.index(i), 0
        a, b = map(self.form, i.args) if i.op == "binary" and i.attr in "+-" else (None, None)
        if i.attr == "+" and a and a[0] is None:
            a, b = b, a
        return (a[0], a[1] + b[1] if i.attr == "+" else a[1] - b[1]) if a and b and b[0] is None else None

    def shift(self, known):
        """Return the dimensions of the policy's indices, and the constants added to these, None unless each
        determines one dimension.
        """
        found = sorted((v[0], (d, v[1])) for d, v in enumerate(known) if v and v[0] is not None)
        single = [p for p, _ in found] == [*range(len(self.index))]
        return tuple(zip(*(place for _, place in found))) if single else None

    def check(self):
        """Refuse arrays with elements that one index writes and another reads or writes."""
        shifts = {}
        for o, known in self.known.items():
            root, shift = roots(o.view)[0], self.shift(known)
            if self.counts["store", root] and not root.store:
                if o.op == "store" and shift is None:
                    self.walk.fail(
                        o,
                        f"of '{root.label}' an index writes elements that may be another's; let each index of"
                        " the policy be one of its indices, or write pk.atomic_add",
                    )
                first = shifts.setdefault(root, shift)
                if shift != first or o.op != "store" and None in (*known, shift):
                    self.walk.fail(
                        o,
                        f"'{root.label}' is read and written at different indices; read one array and write"
                        " another",
                    )

    def keys(self):
        """Return the elements that are written at known indices."""
        stores = ((roots(o.view)[0], known) for o, known in self.known.items() if o.op == "store")
        return [*dict.fromkeys(key for key in stores if not key[0].store and None not in key[1])]

    def offsets(self, view):
        """Return the constants of all places at which an array is read; None if it takes copies."""
        loads = (known for o, known in self.known.items() if o.op == "load" and view in roots(o.view))
        shifts = set() if self.counts["store", view] else {*map(self.shift, loads)}
        if None in shifts or len({dimensions for dimensions, _ in shifts}) > 1:
            return None
        return {constants for _, constants in shifts} or {(0,) * len(self.index)}


def _moved(known, low):
    """Return what is known of an index in an array, by that in a part that begins at `low`."""
    low = 0 if low is None else low.const
    return (known[0], known[1] + low) if known and isinstance(low, int) and low >= 0 else None


@dataclass(eq=False)
class Target:
    """The arrays of one index.

    index : its numbers; seeded : True if its result is added up, so that its adjoint is 1
    keys : elements that are written at known indices; numbers : those whose adjoints are returned
    sums : arrays to which adjoints are added, by the argument; seeds : adjoints of written arrays, by the
    argument; offset : that of the only element to add to, None for all; first : of several offsets it is the
    first; copy : the first and the last index of this index's copy of each sum, if there are copies
    """

    template: Template
    index: list
    seeded: bool
    seeds: dict
    sums: dict
    numbers: list
    offset: tuple | None = None
    first: bool = True
    copy: list | None = None

    def __post_init__(self):
        self.walk, self.keys, self.markers = self.template.walk, self.template.keys(), {}

    def number(self, reverse, known):
        """Return an index that is known, as a number."""
        p, c = known
        return c if p is None else reverse.build.binary("+", self.index[p], c)

    def elements(self, view):
        """Return the keys of elements that a store to a view may change."""
        found = [(root, place) for root in roots(view) if root.store == "(local)" for place in places(root)]
        return found + [key for key in self.keys if key[0] in roots(view)]

    # ---- accesses
    def access(self, reverse, o, env):
        numbers, n = [reverse.present_value(a, env) for a in o.args], o.view.n_indices
        root, indices = reverse.place(o.view, numbers[:n], env)
        own = root.store == "(local)"
        if o.op == "load":
            load = reverse.element if own else partial(self.loaded_value, reverse, o)
            env[o] = load(root, indices, env)
            return
        value, dtype = numbers[-1], t.loaded_dtype(root.dtype)
        if value.const is not None:
            value = reverse.build.cast(value, dtype)
        elif value.dtype != dtype:
            value = reverse.put("cast", [value], dtype, dtype)
        put = self.change_own if own else self.store if o.op == "store" else self.add_into
        put(reverse, o, root, indices, value, env)

    def change_own(self, reverse, o, root, indices, value, env):
        """Change an element of a local array."""
        if o.op == "atomic":
            if o.attr not in ADDED:
                self.walk.fail(o, WHY)
            old = reverse.element(root, indices, env)
            value = reverse.put("binary", [old, value], old.dtype, "+" if o.attr[0] == "add" else "-")
        for key, here in reverse.hits(root, indices):
            env[key] = reverse.put("select", [here, value, env[key]], value.dtype) if here else value

    def loaded_value(self, reverse, o, root, indices, env):
        """Return the value of an element from outside, which this index may have written."""
        known, step = self.template.known[o], None
        held = env.get((root, known))
        if held is not None and (held.op != "lost" or held is not self.markers[root, known]):
            return held
        if self.walk.mask(root):
            add = partial(self.contribute, reverse, root, known, indices)
            step = add if held is None else partial(reverse.add, held)
        again = Operation("load", view=root, dtype=o.dtype, counts=o.counts)
        return reverse.emit_again(again, indices, env, step)

    def store(self, reverse, o, root, indices, value, env):
        known, counts = self.template.known[o], self.template.counts
        if None not in known:
            env[root, known] = value
            if reverse.build.block is self.home:
                self.sure.add((root, known))
            return
        if counts["store", root] > 1 or counts["load", root] or not self.each_once(reverse, indices):
            why = "may be written twice; keep the number in a variable, and write it once"
            self.walk.fail(o, f"elements of '{root.label}' {why}")
        reverse.tape.append(partial(self.forget, reverse, root, indices))
        self.seed(reverse, root, indices, value)

    def each_once(self, reverse, indices):
        """Return True if the counter of each enclosing loop determines a dimension."""
        return all(c is not None and any(_steps(i, c) for i in indices) for c in reverse.counters)

    def add_into(self, reverse, o, root, indices, value, env):
        counts = self.template.counts
        if counts["store", root] or counts["load", root] or o.attr not in ADDED:
            self.walk.fail(o, f"{WHY}, to arrays that are not read")
        self.seed(reverse, root, indices, value, o.attr[0] == "add")

    def seed(self, reverse, root, indices, value, plus=True):
        """The adjoint of a number that is written once."""
        reverse.need(*indices)
        seeds = self.seeds.get(root)

        def step():
            if value in reverse.live and seeds is not None:
                found = reverse.loaded(seeds, *indices)
                reverse.add(value, found if plus else reverse.build.negate(found))

        reverse.tape.append(step)

    def forget(self, reverse, root, indices):
        """Clear the adjoint of an element before a store: no result depends on its earlier value."""
        if self.owns(root):
            self.overwrite(reverse.build, 0.0, self.sums[root], indices)

    def owns(self, root):
        """Return True if adjoints of a written array are stored here: of several offsets, at the first."""
        return root in self.sums and self.first

    def contribute(self, reverse, root, known, indices, adjoint):
        """Add to the adjoint of an element from outside."""
        if root not in self.sums or self.offset and self.offset != self.template.shift(known)[1]:
            return
        reverse.need(*indices)
        build, view = reverse.build, self.sums[root]
        if self.offset is None and not self.copy:
            build.writes()
            build.operation("atomic", *indices, adjoint, attr=("add", False), view=view, dtype=view.dtype)
            return
        if self.copy:
            block, lane = self.copy
            indices = [block, *indices, lane]
        self.overwrite(build, build.binary("+", reverse.loaded(view, *indices), adjoint), view, indices)

    # ---- one index
    def item(self, build, inputs, kept):
        """Emit the adjoint of an index, and return that of the numbers."""
        tree, reverse = self.template.tree, Reverse(build, self.walk, self, kept)
        env = {LEFT: zero("int"), **dict(zip(flat(tuple(tree.inputs)), flat(tuple(inputs))))}
        self.begin(reverse, env)
        reverse.forward(self.template.tree.root.body, env)
        self.add_seeds(reverse, tree.result, env)
        reverse.backwards(reverse.tape)
        for root, known in self.keys:
            if self.owns(root):
                self.keep_first(reverse, root, known)
        return tuple(reverse.adjoints.get(env[number]) or zero("float") for number in self.numbers)

    def add_seeds(self, reverse, result, env):
        """Add the given adjoints, of the index's result and of elements."""
        if self.seeded:
            result = reverse.present_value(*flat(result), env)
            reverse.add(result, reverse.build.strong_const(1.0, result.dtype))
        for root, known in self.keys:
            if root in self.seeds and env[root, known] in reverse.live:
                reverse.add(env[root, known], self.loaded(reverse, (root, known), self.seeds[root]))

    def begin(self, reverse, env):
        """Record the numbers, and the elements of the arrays before any write."""
        reverse.live |= {env[number] for number in self.numbers}
        self.home, self.sure = reverse.build.block, set()  # of `sure`: written in every branch
        for key in self.keys:
            if ("array", key[0]) in reverse.kept:  # it is read where it may have been written before
                self.markers[key] = self.loaded(reverse, key, env[key[0]])
            else:
                self.markers[key] = unknown_number(t.loaded_dtype(key[0].dtype), ("array", key[0]))
            reverse.hold(env, key, self.markers[key])

    def keep_first(self, reverse, root, known):
        """Keep the adjoint of an element as it was at the beginning."""
        adjoint = reverse.adjoints.pop(self.markers[root, known], None) or 0.0
        with self.where_inside(reverse, (root, known), self.sums[root]) as indices:
            self.overwrite(reverse.build, adjoint, self.sums[root], indices)

    @staticmethod
    def overwrite(build, adjoint, view, indices):
        build.writes()
        build.operation("store", *indices, adjoint, view=view)

    def loaded(self, reverse, key, view):
        """Return an element, 0 outside the array."""
        found = Variable("element")
        reverse.assign(found, 0.0)
        with self.where_inside(reverse, key, view) as indices:
            reverse.assign(found, reverse.loaded(view, *indices))
        return reverse.got(found, t.loaded_dtype(view.dtype))

    @contextmanager
    def where_inside(self, reverse, key, view):
        """Build nodes for an element that are executed if it is inside the array."""
        build, indices = reverse.build, [self.number(reverse, k) for k in key[1]]
        conditions = inside(build, indices, [0] * len(indices), view.shape)
        with nullcontext() if key in self.sure else only_if(build, *conditions):
            yield indices


def inside(build, indices, begin, end):
    """Return the conditions that each index is within its bounds."""
    lower = [build.compare(">=", *pair) for pair in zip(indices, begin)]
    return lower + [build.compare("<", *pair) for pair in zip(indices, end)]


def _steps(index, counter):
    """Return True for an index that is a counter plus or minus a constant."""
    return index is counter or (
        index.op == "binary"
        and index.attr in "+-"
        and any(_steps(a, counter) for a in index.args)
        and any(a.const is not None for a in index.args)
    )
