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
from ..core.compiler.reading.signature import Signature
from ..core.compiler.reading.tree import Operation, View, described_number, flat
from ..core.language.kernel import Function, Kernel, kernel as marked
from ..core.language import types as t
from ..core.language.reducer import Max, MaxLoc, MinLoc, Sum
from ..core.launch.dispatch import describe_launch, is_record, parallel_for, parallel_reduce, parts_of
from ..library.copies import deep_copy
from ..core.places.policy import MDRangePolicy, RangePolicy, n_indices
from ..errors import DTypeError, InputError, LanguageError, ShapeError
from .changes import changed
from .host import written
from .regions import marks, only_if, undo
from .reverse import Needed
from .target import inside, LANES, Target, Template

LEAST_COPIES, MOST_BYTES = 64, 1 << 31  # of arrays to which any index may add
MORE_BYTES = 1 << 27  # for further copies: a GPU has as many threads


class Adjoint(NamedTuple):
    """Adjoint of a kernel's source: a function that adds to the adjoints of arrays.

    It takes indices, and a tuple: the kernel's arguments; the adjoints of the arrays that the kernel writes
    (`of`); the arrays to which adjoints are added (`wrt`); the begin and the end of the kernel's indices; and
    the number of copies.
    """

    n_index: int
    wrt: tuple
    of: tuple
    numbers: tuple  # of which the adjoints are returned
    # indices are those of the kernel, for "each"; that of a copy, for "copies"; or those of an element, for
    # offsets of the kernel's indices that read it
    how: Any
    seeded: bool

    def text(self, text):
        params = [*text.params[: self.n_index if self.how != "copies" else 1], "given"]
        put = functools.partial(self.inlined, text)
        return dataclasses.replace(text, params=params, defaults=(), trees={}, inlined=put)

    def inlined(self, text, build, args, node):
        *index, (own, of, sums, *bounds) = args
        kind, names = (build.float_dtype, text.name), ((*self.wrt, *self.numbers), self.of)
        found = Template(text, self.n_index, map(_described, own), *kind, *names)
        seeds, sums = (
            {found.nodes[path]: v for path, v in zip(*given)} for given in ((self.of, of), (self.wrt, sums))
        )
        numbers = [found.nodes[path] for path in self.numbers]

        def put(index, **more):
            target = Target(found, index, self.seeded, seeds, sums, numbers, **more)
            return _put(build, target, [*index, *own])

        return put(index) if self.how == "each" else self.put_several(build, index, *bounds, put)

    def put_several(self, build, index, begin, end, n_slots, put):
        """Emit the adjoints of several of the kernel's indices by `put`."""
        if self.how != "copies":
            for k, shift in enumerate(self.how):
                shifted = [build.binary("-", i, by) for i, by in zip(index, shift)]
                with only_if(build, *inside(build, shifted, begin, end)):
                    put(shifted, offset=shift, first=not k)
            return
        n = build.parts_of(build.binary("-", end[-1], begin[-1]), n_slots)
        copy = [build.binary(op, *index, LANES) for op in ("//", "%")]

        def put_one(*counters):
            """Emit the adjoint of one of the last dimension's indices that are `n_slots` apart."""
            *outer, k = counters
            last = build.binary("+", build.binary("+", begin[-1], build.binary("*", k, n_slots)), *index)
            with only_if(build, build.compare("<", last, end[-1])):
                put([*outer, last], copy=copy)

        _nested(build, [*zip(begin[:-1], end), (build.const(0), n)], put_one)


def _nested(build, bounds, put, *index):
    """Emit loops within each other, and in the last one what `put` emits for their counters."""
    if bounds:
        with build.counted_loop(*bounds[0]) as i:
            _nested(build, bounds[1:], put, *index, i)
    else:
        put(*index)


def _described(value):
    if isinstance(value, View):
        return "view", value.dtype, (None,) * value.ndim, value.readonly, value.scatter
    if isinstance(value, tuple):
        return "tuple", getattr(value, "names", ()), *map(_described, value)
    return described_number(value)


def _put(build, target, inputs):
    """Emit the adjoint of one index; if it needs further numbers of loops, emit it again with these kept."""
    begin, block, kept = marks(build), build.block, frozenset()
    while True:
        try:
            return target.item(build, inputs, kept)
        except Needed as needed:
            wanted = needed.args[0] - kept
            if not wanted:
                raise LanguageError(f"kernel '{target.walk.build.kernel_name}' has no adjoint here") from None
            kept |= wanted
            build.block = block
            undo(begin)


# ---- launches
def pulled_back(policy, kernel, args, given, wrt, numbers, of, order="fixed", into=()):
    """Return adjoints of arrays by their paths, added to those of `into`, and of numbers; of a reduction's
    sum if `of` is None. `given`: the arrays of `wrt` and `of`, by their paths."""
    seeded, of = of is None, of or {}
    space, policy, _, kind, specs, *_ = describe_launch(policy, kernel, args, (Sum,) if seeded else ())
    if kind == "team":
        raise InputError(f"policy: expected a range or a box for adjoints, got {policy!r}")
    _check_arrays(kernel, given)
    places, arrays = _plan(kernel, n_indices(kind), specs, (wrt, numbers, tuple(of), seeded))
    of = {path: _like(path, given[path], adjoints) for path, adjoints in of.items()}
    sums = {path: _sum(path, given[path], of, into, arrays, space) for path in wrt}
    _refuse_overlaps(kernel, arrays, args, into, of)
    launch = _Launch(space, kernel, args, *_ends(policy), of, seeded)
    launch.all(sums, places, order)
    found = {p: v.to_numpy() if isinstance(given[p], np.ndarray) else v for p, v in sums.items()}
    return found | dict(into), numbers and launch.run("each", {}, numbers=numbers)


def _plan(kernel, n, specs, wanted):
    """Return facts of a kernel: the constants of the places at which arrays are read, None if they take
    copies; names of arrays, and True for those written."""
    key = "adjoint", n, specs, wanted
    if key not in kernel.compiled:
        wrt, numbers, of, seeded = wanted
        found = _template_of(kernel, n, specs, (*wrt, *numbers), of)
        if seeded and [v.__class__ for v in flat(found.tree.result)] != [Operation]:
            raise LanguageError(
                f"kernel '{kernel.name}' ({kernel.place}): derivatives by arrays are of one real number"
            )
        found.check()
        places = {path: found.offsets(found.nodes[path]) for path in wrt}
        views = [v for v in flat(tuple(found.tree.inputs[n:])) if v.__class__ is View]
        arrays = [(v.label, found.counts["store", v] + found.counts["atomic", v] > 0) for v in views]
        kernel.compiled[key] = places, arrays
    return kernel.compiled[key]


def _template_of(kernel, n, specs, *names):
    signature = Signature(specs)
    facts = signature.described(), signature.float_dtype, kernel.name
    return Template(kernel.portable_text, n, *facts, *names)


def _changes(kernel, kind, specs):
    """Return True if a kernel gives other results when an index runs a second time."""
    key = "changes", kind, specs
    if key not in kernel.compiled:
        found = _template_of(kernel, n_indices(kind), specs).counts
        kernel.compiled[key] = any(
            op == "atomic" or op == "store" and found["load", root] for op, root in found if not root.store
        )
    return kernel.compiled[key]


def selected(launch, policy, kernel, args, reducer):
    """Return the largest or smallest value, and a policy of its index; an empty one if there is none."""
    space, policy, _, kind, specs, *_ = describe_launch(policy, kernel, args, (Sum,))
    if kind == "team":
        raise InputError("gradient of pk.Max and pk.Min: expected a range or a box, got a TeamPolicy")
    if _changes(kernel, kind, specs):
        raise LanguageError(f"kernel '{kernel.name}' changes what it reads; it runs twice with {reducer!r}")
    best, place = launch(policy, kernel, *args, reducer=MaxLoc if reducer is Max else MinLoc)
    begin, end = _ends(policy)
    place = place if isinstance(place, tuple) else (place,)
    if len(place) == len(begin) and all(low <= k < high for low, k, high in zip(begin, place, end)):
        return best, _policy(space, place, tuple(k + 1 for k in place))
    return best, _policy(space, begin, begin)


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
        deep_copy(made, of[path])
    return made


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
        lows, highs = zip(_span(v), _span(w))
        if written_to and v.size and w.size and max(lows) < min(highs):
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


def _ends(policy):
    """Return the begin and the end of a policy's indices, as tuples."""
    ends = policy.begin, policy.end
    return ends if isinstance(policy, MDRangePolicy) else tuple((end,) for end in ends)


def _policy(space, begin, end):
    """Return the range or box of these indices."""
    if len(begin) == 1:
        return RangePolicy(*begin, *end, space=space)
    return MDRangePolicy(begin, end, space=space)


class _Launch(NamedTuple):
    """The launches of an adjoint."""

    space: Any
    kernel: Any
    args: tuple
    begin: tuple
    end: tuple
    of: dict
    seeded: bool

    def all(self, sums, places, order):
        """Launch the kernels that add to all adjoints.

        Where the places at which arrays are read are known, an index processes one element, to which the
        function adds for all places, in a fixed order.
        """
        gathered = {path: v for path, v in sums.items() if places[path]}
        others = {path: v for path, v in sums.items() if not places[path]}
        if gathered:
            shifts = tuple(sorted(set().union(*map(places.get, gathered))))
            ends = ((self.begin, min), (self.end, max))
            box = (tuple(map(operator.add, end, map(of, zip(*shifts)))) for end, of in ends)
            self.run(shifts, gathered, *box)
        if others:
            self.run("each", others) if order == "any" else self.copies(others)

    def run(self, how, sums, begin=None, end=None, numbers=()):
        """Launch a function for each index of the kernel, or of a range; return adjoints of numbers, each a
        sum."""
        begin, end, n = begin or self.begin, end or self.end, len(self.begin)
        change = Adjoint(n, tuple(sums), tuple(self.of), numbers, how, self.seeded)
        given = self.args, tuple(self.of.values()), tuple(sums.values()), self.begin, self.end, end[0]
        made = _kernel(f"adjoint_of_{self.kernel.name}", len(begin), "return " * bool(numbers))
        launch = (
            functools.partial(parallel_reduce, reducer=(Sum,) * len(numbers)) if numbers else parallel_for
        )
        return launch(_policy(self.space, begin, end), made, changed(self.kernel, Function, change), given)

    def copies(self, sums):
        """Add to copies, one for each index of a launch, each of which processes some of the kernel's
        indices.
        """
        n = self.n_copies(sum(v.nbytes for v in sums.values()))
        copies = {
            path: zeros((n // LANES, *v.shape, LANES), str(v.dtype), space=self.space)
            for path, v in sums.items()
        }
        self.run("copies", copies, (0,), (n,))
        for path, out in sums.items():
            whole = RangePolicy(0, out.size, space=self.space)
            parallel_for(whole, _add_up, copies[path].reshape(n // LANES, out.size, LANES), out.reshape(-1))

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
def _kernel(name, n, returns):
    index = ", ".join(f"i{p}" for p in range(n))
    return written(Kernel, name, (index, "f", "given"), [f"    {returns}f({index}, given)\n"])
