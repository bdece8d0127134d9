"""Count the parts of its arguments that a launch touches: elements, lines and bytes, each once."""

import ast
import collections
import functools

import numpy as np

import portable as pk

SIZES = {"bool": 1, "bfloat16": 2} | {
    np.dtype(kind).name: np.dtype(kind).itemsize for kind in "i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8 c8 c16".split()
}


def accesses(operation, words):
    """Return True if an operation of a source accesses an argument's memory in one of the ways `words`."""
    return operation.startswith(words) and not operation.endswith(")")


def by_names(marks):
    """Return (names, ((bytes read, written), (lines read, written))) of arguments that share memory, from the
    marks of `portable.count`."""
    for (_, what, _), size in marks.items():
        names = what.removeprefix("bytes ")
        if names != what:
            elements, lines = (
                [marks["", f"{kind} {names}", way] for way in ("load", "store")]
                for kind in ("touched", "lines")
            )
            if any(elements):
                yield names, (tuple(size * n for n in elements), tuple(lines))


def bytes_beyond_caches(marks):
    """Return {bytes of the caches: (bytes fetched, written back)}, in rising order, from the marks of
    `portable.count`."""
    sizes = sorted(
        int(what.removeprefix("beyond "))
        for _, what, way in marks
        if what.startswith("beyond ") and way == "load"
    )
    return {n: tuple(marks["", f"beyond {n}", way] for way in ("load", "store")) for n in sizes}


def compulsory(text, touched, names, args):
    """Return the compulsory bytes (read, written) of each argument: the touched ones; if touches were not
    counted, the requested bytes, at most the argument's size."""
    sizes = dict(_named_sizes(names, args))
    known = {name for together in touched for name in together.split(", ")}
    asked = collections.defaultdict(lambda: [0, 0])
    for (_, operation, dtype), n in text.items():
        for which, words in enumerate((("load ", "atomic "), ("store ", "atomic "))):
            name = operation.rpartition(" ")[2]
            if accesses(operation, words) and name not in known:
                asked[name][which] += n * SIZES[dtype]
    found = {together: n_bytes for together, (n_bytes, _) in touched.items()}
    return found | {name: tuple(min(n, sizes.get(name, n)) for n in both) for name, both in asked.items()}


def _named_sizes(names, args):
    for name, a in zip(names, args, strict=False):
        a = a.view if isinstance(a, pk.ScatterView) else a
        if isinstance(a, tuple):
            yield from _named_sizes([f"{name}[{k}]" for k in range(len(a))], a)
        elif hasattr(a, "nbytes") and hasattr(a, "ndim"):
            yield name, a.size * SIZES[a.dtype.name]


def scattered(names, args):
    """Yield the names of the ScatterViews among the arguments."""
    for name, a in zip(names, args, strict=False):
        if isinstance(a, tuple):
            yield from scattered([f"{name}[{k}]" for k in range(len(a))], a)
        elif isinstance(a, pk.ScatterView):
            yield name


def summed(text, private):
    """Return the source's operations with sums of ScatterViews replaced by those of a private copy: a load,
    an addition and a store."""
    found = collections.Counter()
    for (line, operation, dtype), n in text.items():
        *what, name = operation.split(" ")
        parts = (
            (f"load {name}", "+", f"store {name}")
            if what[:1] == ["atomic"] and name in private
            else (operation,)
        )
        for part in parts:
            found[line, part, dtype] += n
    return dict(found)


@functools.cache
def by_data(kernel):
    """Return the names in a source that are subscripted at data-dependent places: `table` of
    `table[place[i]]`, however the place was computed."""
    tree, told = kernel.portable_text.tree, set()

    def from_data(node):
        inner = list(ast.walk(node))
        loads = (one.value for one in inner if isinstance(one, ast.Subscript))
        return any(not isinstance(of, ast.Attribute) for of in loads) or told.intersection(
            one.id for one in inner if isinstance(one, ast.Name)
        )

    size = -1
    while size < len(told):  # until no assignment adds a name
        size = len(told)
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign | ast.AugAssign) and from_data(node.value):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                told |= {
                    one.id
                    for target in targets
                    for one in ast.walk(target)
                    if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
                }
    return frozenset(
        ast.unparse(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Subscript) and from_data(node.slice)
    )
