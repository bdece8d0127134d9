"""pk.adjoint, and gradients of reductions by arrays: the analysis of a kernel's array accesses, and the
launches that its adjoint requires. The adjoint of one index is emitted by reverse.py.

If each element is read at the policy's indices plus constants, an index of the adjoint processes one element,
and for each of the constants repeats the kernel's index that reads it there. Otherwise each of a fixed number
of indices processes some of the kernel's, in order, and adds to a private copy; the copies are added up in
order.
"""

import dataclasses
import functools
import itertools
import math
import operator
from typing import Any, NamedTuple

import numpy as np

from ..core.arrays.scatter import viewed
from ..core.arrays.view import View as Array, zeros
from ..core.compiler.reading.build import Build, Frame
from ..core.compiler.reading.signature import Signature
from ..core.compiler.reading.tree import Call, Operation, View, described_number, flat
from ..core.compiler.reading.typing import solved
from ..core.language.kernel import Function, Kernel, kernel as marked
from ..core.language import types as t
from ..core.language.reducer import Sum
from ..core.language.words import static
from ..core.launch.dispatch import describe_launch, is_record, parallel_for, parallel_reduce, parts_of
from ..core.places.policy import MDRangePolicy, RangePolicy, n_indices
from ..errors import DTypeError, InputError, LanguageError, ShapeError
from .changes import changed, place_of
from .forward import Walk
from .host import written
from .regions import marks, undo
from .reverse import Needed
from .target import accesses, LANES, Target

_INDEX = "number", "int", t.UNIFORM, 0, False
LEAST_COPIES, MOST_BYTES = 64, 1 << 31  # of arrays to which any index may add
MORE_BYTES = 1 << 27  # for further copies: a GPU has as many threads


class Template(NamedTuple):
    """A kernel's typed tree: its build, the tree, the analysis of numbers that depend on the arguments at
    `wrt`, and the nodes of arguments by their paths, arrays also by their labels.
    """

    build: Any
    tree: Any
    walk: Any
    nodes: dict


def template(text, described, float_dtype, name, wrt, of):
    build, tree = solved(text, described, 1, 1, float_dtype, name)
    walk = Walk(build, text, (), 0)
    nodes = {view.label: view for view in flat(tuple(tree.inputs)) if view.__class__ is View}
    nodes |= {path: _node(text, tree.inputs, path) for path in (*wrt, *of)}
    walk.masks |= {nodes[path]: 1 for path in wrt}
    walk.spread()
    return Template(build, tree, walk, nodes)


def _node(text, inputs, path):
    first, *fields = path.split(".")
    found = inputs[place_of(text, first)]
    for field in fields:
        found = found[found.names.index(field)]
    return found


class Adjoint(NamedTuple):
    """Adjoint of a kernel's source: a function that adds to the adjoints of arrays.

    It takes the kernel's indices; a tuple of the kernel's arguments, the adjoints of the arrays that the
    kernel writes (`of`) and the arrays to which adjoints are added (`wrt`); and with copies the number of the
    index's copy.
    """

    n_index: int
    wrt: tuple
    of: tuple
    numbers: tuple  # of which the adjoints are returned
    keys: tuple  # (label, known indices) of elements that are written
    how: Any  # "copies", "atomics", or the offsets of the index that reads the element, and if they are first
    seeded: bool

    def text(self, text):
        params = [*text.params[: self.n_index], "given", *["slot"] * (self.how == "copies")]
        put = functools.partial(self.inlined, text)
        return dataclasses.replace(text, params=params, defaults=(), trees={}, inlined=put)

    def inlined(self, text, build, args, node):
        index, ((own, of, sums), *slot) = args[: self.n_index], args[self.n_index :]
        found = template(
            text,
            (*[_INDEX] * self.n_index, *map(_described, own)),
            build.float_dtype,
            build.kernel_name,
            (*self.wrt, *self.numbers),
            self.of,
        )
        nodes = found.nodes
        target = Target(found, index, [(nodes[label], known) for label, known in self.keys])
        target.seeds = {nodes[path]: view for path, view in zip(self.of, of)}
        target.sums = {nodes[path]: view for path, view in zip(self.wrt, sums)}
        target.numbers = [nodes[path] for path in self.numbers]
        target.slot = slot[0] if slot else None
        target.atomic = self.how == "atomics"
        if isinstance(self.how, tuple):
            target.offset, target.first = self.how
        return _put(build, target, found.tree, [*index, *own], self.seeded)


def _described(value):
    if isinstance(value, View):
        shape = tuple(n if isinstance(n, int) else None for n in value.shape)
        return "view", value.dtype, shape, value.readonly, value.scatter, value.lanes_last, value.store
    if isinstance(value, tuple):
        return "tuple", getattr(value, "names", ()), *map(_described, value)
    if isinstance(value, Operation) and value.const is None:
        return "number", value.dtype, t.UNIFORM, 0, False
    return described_number(value)


def _put(build, target, tree, given, seeded):
    """Emit the adjoint of one index; if it needs further numbers of loops, emit it again with these kept."""
    begin, block, kept = marks(build), build.block, frozenset()
    while True:
        try:
            return target.item(build, tree, given, seeded, kept)
        except Needed as needed:
            wanted = needed.args[0] - kept
            if not wanted:
                raise LanguageError(f"kernel '{build.kernel_name}' has no adjoint here") from None
            kept |= wanted
            build.block = block
            undo(begin)


# ---- analysis of a kernel's arrays
def looked_at(found, n_index, seeded):
    """Return the Target of a tree that is analysed without emission: the elements that it reads and
    writes.
    """
    build = Build(1, found.build.float_dtype, found.build.kernel_name)
    call = Call(found.walk.text, build.block, [])
    build.frame = Frame(found.walk.text, call, None)
    target = Target(found, list(found.tree.inputs[:n_index]))
    target.looks = True
    _put(build, target, found.tree, found.tree.inputs, seeded)
    target.check()
    return target


def offsets(target, view):
    """Return the constants of all places at which an array is read; None if it takes copies."""
    shifts = {target.shift(known) for known in target.sites.get(view, ())}
    dimensions = {shift and tuple(d for d, _ in shift) for shift in shifts}
    if None in shifts or len(dimensions) > 1:
        return None
    return {tuple(c for _, c in shift) for shift in shifts} or {(0,) * len(target.index)}


# ---- launches
def pulled_back(policy, kernel, args, given, wrt, numbers, of, order="fixed", into=()):
    """Return adjoints of arrays by their paths, added to those of `into`, and of numbers; of a reduction's
    sum if `of` is None. `given`: the arrays of `wrt` and `of`, by their paths."""
    seeded, of = of is None, of or {}
    space, policy, _, kind, specs, *_ = describe_launch(policy, kernel, args, (Sum,) if seeded else ())
    if kind == "team":
        raise InputError(f"policy: expected a range or a box for adjoints, got {policy!r}")
    n = n_indices(kind)
    _check_arrays(kernel, given)
    keys, places, arrays = _plan(kernel, n, specs, (wrt, numbers, tuple(of), seeded))
    of = {path: _like(path, given[path], adjoints) for path, adjoints in of.items()}
    sums = {path: _sum(path, given[path], of, into, arrays, space) for path in wrt}
    _refuse_overlaps(kernel, arrays, args, into, of)
    launch = _Launch(policy, space, kernel, args, n, of, keys, seeded)
    launch.all(sums, places, order)
    found = {p: v.to_numpy() if isinstance(given[p], np.ndarray) else v for p, v in sums.items()}
    return found | dict(into), launch.numbers(numbers)


def _plan(kernel, n, specs, wanted):
    """Return facts of a kernel: the elements that are written, (label, known indices); the constants of the
    places at which arrays are read, None if they take copies; names of arrays, and True for those written.
    """
    key = "adjoint", n, specs, wanted
    if key not in kernel.compiled:
        wrt, numbers, of, seeded = wanted
        found = _template_of(kernel, n, specs, (*wrt, *numbers), of)
        target = looked_at(found, n, seeded)
        places = {path: offsets(target, found.nodes[path]) for path in wrt}
        views = [v for v in flat(tuple(found.tree.inputs[n:])) if v.__class__ is View]
        accesses = target.n_accesses
        arrays = [(v.label, accesses["store", v] + accesses["atomic", v] > 0) for v in views]
        kernel.compiled[key] = target.all_keys(), places, arrays
    return kernel.compiled[key]


def _template_of(kernel, n, specs, wrt=(), of=()):
    signature = Signature(specs)
    described = [_INDEX] * n + signature.described()
    return template(kernel.portable_text, described, signature.float_dtype, kernel.name, wrt, of)


def refuse_changes(policy, kernel, args, reducer):
    """Refuse a kernel that gives other results when an index runs a second time."""
    *_, kind, specs, _, _ = describe_launch(policy, kernel, args, (Sum,))
    key = "changes", kind, specs
    if key not in kernel.compiled:
        found = accesses(_template_of(kernel, n_indices(kind), specs).build)
        kernel.compiled[key] = any(
            op == "atomic" or op == "store" and found["load", root] for op, root in found if not root.store
        )
    if kernel.compiled[key]:
        raise LanguageError(f"kernel '{kernel.name}' changes what it reads; it runs twice with {reducer!r}")


def _check_arrays(kernel, given):
    for path, value in given.items():
        if not getattr(value, "shape", ()):
            raise DTypeError(f"'{path}' of kernel '{kernel.name}': expected an array, got {value!r:.60}")
        if str(value.dtype) not in ("float32", "float64"):
            raise DTypeError(
                f"'{path}' of kernel '{kernel.name}' is of {value.dtype}; expected float32 or float64"
            )


def _like(path, array, adjoints):
    adjoints = viewed(adjoints)
    if not isinstance(adjoints, Array):
        raise DTypeError(f"adjoint: adjoints of '{path}': expected an array, got {adjoints!r:.60}")
    if adjoints.shape != tuple(array.shape) or adjoints.dtype != array.dtype:
        raise ShapeError(
            f"adjoint: '{path}' has shape {tuple(array.shape)} and dtype {array.dtype}; its adjoints have"
            f" {adjoints.shape} and {adjoints.dtype}"
        )
    return adjoints


def _sum(path, array, of, into, arrays, space):
    """Return the array to which adjoints are added; elements that the kernel does not write keep their given
    adjoints.
    """
    if path in into:
        if path in of or (path, True) in arrays:
            raise InputError(f"wrt: '{path}' is written by the kernel; name it without an array of adjoints")
        return _like(path, array, into[path])
    made = zeros(tuple(array.shape), str(array.dtype), space=space)
    if path in of:
        parallel_for(RangePolicy(0, made.shape[0], space=space), _copy, of[path], made)
    return made


@marked
def _copy(i, x, out):
    out[i : i + 1] = x[i : i + 1]


@marked
def _add_up(e, copies, out):
    total = 0.0
    for b in range(copies.shape[0]):
        for lane in range(copies.shape[2]):
            total += copies[b, e, lane]
    out[e] += total


def _refuse_overlaps(kernel, arrays, args, into, of):
    """Refuse arrays that are written, or to which derivatives are added, and lie in memory of another."""
    given = [(*array, v) for array, v in zip(arrays, _leaves(args))]
    sums = [(f"wrt['{path}']", True, viewed(into[path])) for path in into]
    pairs = [*itertools.permutations([*given, *sums], 2)]
    pairs += itertools.product(sums, ((f"of['{path}']", False, v) for path, v in of.items()))
    for (name, written_to, v), (other, _, w) in pairs:
        (low, high), (low_2, high_2) = map(_span, (v, w))
        if written_to and v.size and w.size and low < high_2 and low_2 < high:
            raise InputError(
                f"kernel '{kernel.name}': '{name}' is written, and shares memory with '{other}'; pass a copy"
            )


def _leaves(args):
    for a in args:
        if is_record(a):
            yield from _leaves(parts_of(a)[1])
        elif isinstance(view := viewed(a), Array):
            yield view


def _span(array):
    """Return the addresses from which to which an array's elements lie."""
    return [array.pointer + end for end in t.reach(array.shape, array.strides, array.dtype.itemsize)]


class _Launch:
    """The launches of an adjoint."""

    def __init__(self, policy, space, kernel, args, n, of, keys, seeded):
        self.policy, self.space, self.kernel, self.args, self.n = policy, space, kernel, args, n
        self.of, self.keys, self.seeded = of, keys, seeded
        box = isinstance(policy, MDRangePolicy)
        self.begin, self.end = (policy.begin, policy.end) if box else ((policy.begin,), (policy.end,))

    def function(self, wrt, how, numbers=()):
        change = Adjoint(self.n, tuple(wrt), tuple(self.of), numbers, self.keys, how, self.seeded)
        return changed(self.kernel, Function, change)

    def run_range(self, begin, end):
        if self.n == 1:
            return RangePolicy(begin[0], end[0], space=self.space)
        return MDRangePolicy(tuple(begin), tuple(end), space=self.space)

    def all(self, sums, places, order):
        """Launch the kernels that add to all adjoints."""
        gathered = {path: v for path, v in sums.items() if places[path] is not None}
        others = {path: v for path, v in sums.items() if places[path] is None}
        if gathered:
            self.gathered(gathered, sorted(set().union(*map(places.get, gathered))))
        if others:
            self.launch_each(others, "atomics") if order == "any" else self.copies(others)

    def run(self, policy, first, lines, functions, sums, shifts=(), launch=parallel_for):
        """Launch a kernel of these lines over a policy whose indices are called `first`; they pass `given` to
        the functions.
        """
        params = *first, "functions", "shifts", "begin", "end", "n_slots", "given"
        made = _kernel(f"adjoint_of_{self.kernel.name}", params, tuple(lines))
        n_slots = policy.end if first == ["slot"] else 0
        given = self.args, tuple(self.of.values()), tuple(sums.values())
        return launch(policy, made, functions, shifts, self.begin, self.end, n_slots, given)

    def gathered(self, sums, shifts):
        """Process one element per index, to which the functions of all shifts add in a fixed order."""
        functions = tuple(self.function(sums, (shift, not k)) for k, shift in enumerate(shifts))
        items = [f"b{p} - shift[{p}]" for p in range(self.n)]
        inside = " and ".join(f"begin[{p}] <= {item} < end[{p}]" for p, item in enumerate(items))
        call = f"            f({', '.join(items)}, given)\n"
        lines = ["    for f, shift in zip(functions, shifts):\n", f"        if {inside}:\n", call]
        box = (
            map(operator.add, ends, map(of, zip(*shifts)))
            for ends, of in ((self.begin, min), (self.end, max))
        )
        names, known = [f"b{p}" for p in range(self.n)], tuple(tuple(map(static, c)) for c in shifts)
        self.run(self.run_range(*map(tuple, box)), names, lines, functions, sums, known)

    def launch_each(self, sums, how, paths=(), launch=parallel_for):
        """Launch a function for each index of the kernel."""
        names = [f"i{p}" for p in range(self.n)]
        lines = [f"    {'return ' if paths else ''}functions[0]({', '.join(names)}, given)\n"]
        whole, functions = self.run_range(self.begin, self.end), (self.function(sums, how, paths),)
        return self.run(whole, names, lines, functions, sums, launch=launch)

    def numbers(self, paths):
        """Return the adjoints of numbers, each a sum."""
        launch = functools.partial(parallel_reduce, reducer=(Sum,) * len(paths))
        return self.launch_each({}, "numbers", paths, launch) if paths else ()

    def copies(self, sums):
        """Add to copies, one for each index of a launch, each of which processes some of the kernel's
        indices.
        """
        n = self.n_copies(sum(v.nbytes for v in sums.values()))
        blocks = n // LANES
        copies = {
            path: zeros((blocks, v.size, LANES), str(v.dtype), space=self.space) for path, v in sums.items()
        }
        slots, functions = RangePolicy(0, n, space=self.space), (self.function(sums, "copies"),)
        self.run(slots, ["slot"], _in_turn(self.n), functions, copies)
        for path, out in sums.items():
            whole = RangePolicy(0, out.size, space=self.space)
            parallel_for(whole, _add_up, copies[path], out.reshape(-1))

    def n_copies(self, n_bytes):
        """Return the number of copies for arrays of so many bytes: a power of two that depends only on sizes,
        so that sums have the same order on all spaces, and is small compared with the kernel's work.
        """
        if LEAST_COPIES * n_bytes > MOST_BYTES:
            what = f"{LEAST_COPIES} copies of {n_bytes:,} bytes are too many"
            raise InputError(f"adjoint: {what}; use order='any', which adds by atomics")
        n_indices = math.prod(map(operator.sub, self.end, self.begin))
        most = min(n_indices // 16, MORE_BYTES // max(n_bytes, 1))
        return max(LEAST_COPIES, 1 << max(most, 1).bit_length() - 1)


@functools.lru_cache(256)
def _kernel(name, params, lines):
    return written(Kernel, name, params, lines)


def _in_turn(n):
    """Return the lines of a slot, which does some of the last indices of a box of n dimensions, `n_slots`
    apart."""
    last, space, lines = n - 1, "    ", []
    for p in range(last):
        lines.append(f"{space}for i{p} in range(begin[{p}], end[{p}]):\n")
        space += "    "
    return [
        *lines,
        f"{space}for t in range((end[{last}] - begin[{last}] + n_slots - 1) // n_slots):\n",
        f"{space}    i{last} = begin[{last}] + t * n_slots + slot\n",
        f"{space}    if i{last} < end[{last}]:\n",
        f"{space}        functions[0]({', '.join(f'i{p}' for p in range(n))}, given, slot)\n",
    ]
