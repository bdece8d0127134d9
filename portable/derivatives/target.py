"""Read and write the adjoints of arrays: elements by the indices of a policy.

A known index of an array is a pair (p, c), the policy's p-th index plus a constant, or an integer; any other
is None.
"""

from collections import Counter
from contextlib import contextmanager, nullcontext
from functools import partial

from ..core.compiler.reading.tree import Operation, Variable, View, flat
from ..core.language import types as t
from .operations import roots
from .regions import LEFT, only_if, unknown_number, zero
from .reverse import places, Reverse

_ATOMICS = "of atomics, atomic_add and atomic_sub whose result is not used have one"
LANES = 16  # neighbours in memory among the copies of an array, one a slot


def accesses(build):
    """Return the number of accesses in a tree by "load", "store" or "atomic" and the array."""
    operations = [o for o in build.order if o.__class__ is Operation and o.view is not None]
    return Counter((o.op, root) for o in operations for root in roots(o.view))


class Target:
    """The arrays of one index.

    index : its numbers; sums : arrays to which adjoints are added, by the argument; seeds : adjoints of
    written arrays, by the argument; offset : that of the only element to add to, None for all; first : of
    several offsets it is the first; copy : the first and the last index of this index's copy of each sum, if
    there are copies
    n_accesses : by "load", "store" or "atomic" and the argument
    keys : elements that are written at known indices; sites : known indices of reads, by the argument
    """

    def __init__(
        self,
        template,
        index,
        keys=(),
        seeds=(),
        sums=(),
        numbers=(),
        offset=None,
        first=True,
        copy=None,
    ):
        self.walk, self.index, self.keys, self.numbers = template.walk, index, keys, numbers
        self.seeds, self.sums = dict(seeds), dict(sums)
        self.offset, self.first, self.copy = offset, first, copy
        self.sites, self.written, self.markers = {}, {}, {}
        self.n_accesses = accesses(template.build)

    # ---- indices
    def index_form(self, i):
        if isinstance(i.const, int):
            return i.const
        if i in self.index:
            return self.index.index(i), 0
        if i.op == "binary" and i.attr in "+-":
            a, b = map(self.index_form, i.args)
            if isinstance(a, tuple) and isinstance(b, int):
                return a[0], a[1] + b if i.attr == "+" else a[1] - b
            if isinstance(b, tuple) and isinstance(a, int) and i.attr == "+":
                return b[0], a + b[1]
        return None

    def shift(self, known):
        """Return ((dimension, constant) of each of the policy's indices), None unless each determines one
        dimension.
        """
        places = {v[0]: (d, v[1]) for d, v in enumerate(known) if isinstance(v, tuple)}
        single = len(places) == sum(isinstance(v, tuple) for v in known) == len(self.index)
        return tuple(places[p] for p in range(len(self.index))) if single else None

    def number(self, reverse, known):
        """Return an index that is known, as a number."""
        if isinstance(known, int):
            return known
        return reverse.build.binary("+", self.index[known[0]], known[1])

    def elements(self, view):
        """Return the keys of elements that a store to a view may change."""
        found = [(root, place) for root in roots(view) if root.store == "(local)" for place in places(root)]
        return found + [key for key in self.keys if key[0] in roots(view)]

    # ---- accesses
    def access(self, reverse, o, env):
        n = len(o.args) - (o.op != "load")
        numbers = [reverse.present_value(a, env) for a in o.args]
        root, indices = reverse.place(o.view, numbers[:n], env)
        if root.store == "(local)":
            self.private(reverse, o, root, indices, numbers[n:], env)
        elif o.op == "load":
            env[o] = self.loaded_value(reverse, o, root, indices, env)
        else:
            reverse.need(*indices)
            put = self.store if o.op == "store" else self.add_into
            put(reverse, o, root, indices, numbers[-1], env)

    def private(self, reverse, o, root, indices, values, env):
        if o.op == "load":
            env[o] = reverse.element(root, indices, env)
            return
        value = reverse.as_dtype(values[0], t.loaded_dtype(root.dtype))
        if o.op == "atomic":
            op, wanted = o.attr
            if wanted or op not in ("add", "sub"):
                self.walk.fail(o, _ATOMICS)
            old = reverse.element(root, indices, env)
            value = reverse.put("binary", [old, value], old.dtype, "+" if op == "add" else "-")
        reverse.change(root, indices, value, env)

    def loaded_value(self, reverse, o, root, indices, env):
        """Return the value of an element from outside, which this index may have written."""
        known, step = tuple(map(self.index_form, indices)), None
        held = env.get((root, known))
        if self.n_accesses["store", root]:
            if None in known:
                self.conflict(o, root)
            self.written.setdefault(root, []).append((o, known))
            if held is not None and (held.op != "lost" or held is not self.markers.get((root, known))):
                return held
        elif self.walk.mask(root):
            self.sites.setdefault(root, set()).add(known)
        if self.walk.mask(root):
            add = partial(self.contribute, reverse, root, indices)
            step = add if held is None else partial(reverse.add, held)
        again = Operation("load", view=root, dtype=o.dtype, counts=o.counts)
        return reverse.emit_again(again, indices, env, step)

    def conflict(self, o, root):
        self.walk.fail(
            o, f"'{root.label}' is read and written at different indices; read one array and write another"
        )

    def store(self, reverse, o, root, indices, value, env):
        known = tuple(map(self.index_form, indices))
        if self.n_accesses["atomic", root]:
            self.conflict(o, root)
        if self.shift(known) is None:
            self.walk.fail(
                o,
                f"of '{root.label}' an index writes elements that may be another's; let each index of the"
                " policy be one of its indices, or write pk.atomic_add",
            )
        value = reverse.as_dtype(value, t.loaded_dtype(root.dtype))
        self.written.setdefault(root, []).append((o, known))
        if None not in known:
            env[root, known] = value
            if reverse.build.block is self.home:
                self.sure.add((root, known))
            return
        n_stores, n_loads = (self.n_accesses[op, root] for op in ("store", "load"))
        if n_stores > 1 or n_loads or not self.each_once(reverse, indices):
            why = "may be written twice; keep the number in a variable, and write it once"
            self.walk.fail(o, f"elements of '{root.label}' {why}")
        reverse.tape.append(partial(self.forget, reverse, root, indices))
        self.seed(reverse, root, indices, value, 1)

    def each_once(self, reverse, indices):
        """Return True if the counter of each enclosing loop determines a dimension."""
        return all(c is not None and any(_steps(i, c) for i in indices) for c in reverse.counters)

    def add_into(self, reverse, o, root, indices, value, env):
        op, wanted = o.attr
        others = any(self.n_accesses[other, root] for other in ("store", "load"))
        if others or wanted or op not in ("add", "sub"):
            self.walk.fail(o, f"{_ATOMICS}, to arrays that are not read")
        self.seed(reverse, root, indices, value, 1 if op == "add" else -1)

    def seed(self, reverse, root, indices, value, sign):
        """The adjoint of a number that is written once."""
        seeds = self.seeds.get(root)

        def step():
            if value in reverse.live and seeds is not None:
                found = reverse.loaded(seeds, *indices)
                reverse.add(value, found if sign > 0 else reverse.build.negate(found))

        reverse.tape.append(step)

    def forget(self, reverse, root, indices):
        """Clear the adjoint of an element before a store: no result depends on its earlier value."""
        if self.owns(root):
            self.overwrite(reverse.build, 0.0, self.sums[root], indices)

    def owns(self, root):
        """Return True if adjoints of a written array are stored here: of several offsets, at the first."""
        return root in self.sums and self.first

    def contribute(self, reverse, root, indices, adjoint):
        """Add to the adjoint of an element from outside."""
        if root not in self.sums:
            return
        if self.offset is not None:
            known = tuple(map(self.index_form, indices))
            if self.offset != tuple(c for _, c in self.shift(known)):
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

    def check(self):
        """Refuse arrays with elements that one index writes and another reads or writes."""
        for root, accesses in self.written.items():
            first = self.shift(accesses[0][1])
            for o, known in accesses:
                if self.shift(known) != first or first is None:
                    self.conflict(o, root)

    def all_keys(self):
        """Return the elements that are written at known indices."""
        found = {
            (view, known)
            for view, accesses in self.written.items()
            for o, known in accesses
            if o.op == "store" and None not in known
        }
        return sorted(found, key=lambda key: (key[0].label, repr(key[1])))

    # ---- one index
    def item(self, build, tree, inputs, seeded, kept):
        """Emit the adjoint of an index; `seeded`: True if its result is added up, so that its
        adjoint is 1.
        """
        reverse, env = Reverse(build, self.walk, self, kept), {LEFT: zero("int")}
        _pair(tree.inputs, inputs, env)
        self.begin(reverse, env)
        reverse.forward(tree.root.body, env)
        if seeded:
            result = reverse.present_value(*flat(tree.result), env)
            reverse.add(result, build.strong_const(1.0, result.dtype))
        for root, known in self.keys:
            if root in self.seeds and env[root, known] in reverse.live:
                reverse.add(env[root, known], self.loaded(reverse, (root, known), self.seeds[root]))
        reverse.backwards(reverse.tape)
        for root, known in self.keys:
            if self.owns(root):
                self.keep_first(reverse, root, known)
        found = [reverse.adjoints.get(env[number]) or zero("float") for number in self.numbers]
        return tuple(found) if len(found) != 1 else found[0]

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


def _pair(inputs, given, env):
    """Bind the inputs of a tree to the given values in an environment."""
    if isinstance(inputs, (tuple, list)):
        for a, b in zip(inputs, given):
            _pair(a, b, env)
    elif inputs.__class__ in (Operation, View):
        env[inputs] = given
