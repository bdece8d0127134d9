"""A text read with its derivatives, in the place of its call."""

from __future__ import annotations

from ..core.compiler.reading.tree import Operation, mapped
from ..core.language import types as t
from ..errors import LanguageError
from .forward import Walk


def inlined(build, base, args, node, change):
    """Return the derivatives of a source at this place; `change`: a Change."""
    args = [mapped(build.rounded, a) for a in args]
    start, at, seeds = len(build.order), len(build.block.body), []
    for path in change.paths:
        args = _seeded(build, base, args, path, seeds)
    result = build.inline(base, args, node)
    call, place = _with_seeds(build.block.body, at, seeds), (build.line, build.at)
    walk = Walk(build, base, seeds, start, change.order == 2)
    values = walk.results(result, call)
    walk.change(at, call, change.value)
    rows = [[walk.slope(v, k) for v in values] for k in range(len(seeds))]
    if change.order == 2:
        rows += _second(walk, seeds, start, at, values)
    build.line, build.at = place
    items = [*[result] * change.value, *(_like(result, map(build.rounded, row)) for row in rows)]
    return items[0] if len(items) == 1 else tuple(items)


def _like(result, numbers):
    """Return numbers, arranged as a result is."""
    numbers = iter(numbers)
    return mapped(lambda _: next(numbers), result)


def _with_seeds(body, at, seeds):
    """Return the call behind seeds, which become its first operations: a tree begins with a call."""
    call = body[at + len(seeds)]
    call.setup, call.body.body = [], [*seeds, *call.setup, *call.body.body]
    del body[at : at + len(seeds)]
    return call


def _second(walk, seeds, start, at, values):
    """Return the second derivatives of numbers, in rows up to the diagonal."""
    again, call, n = Walk(walk.build, walk.text, seeds, start, True, walk), walk.call, len(seeds)
    if not call.text.single_return:
        again.masks |= {walk.variable(v.attr, k): (2 << k) - 1 for v in values for k in range(n)}
    again.change(at, call, True)
    return [[again.slope(walk.slope(v, i), j) for v in values] for i in range(n) for j in range(i + 1)]


def _seeded(build, text, args, path, seeds):
    """Return the arguments, with a number of its own at a path."""
    first, *fields = path.split(".")
    k = [name.partition("@")[0] for name in text.params].index(first)
    seed = _Seed(build, text, path, text.tree.args.args[k], seeds)
    return [*args[:k], seed.at(args[k], fields), *args[k + 1 :]]


class _Seed:
    """Puts numbers of their own at a path of a parameter, whose place in the text is `place`."""

    def __init__(self, build, text, path, place, seeds):
        self.build, self.text, self.path, self.place, self.seeds = build, text, path, place, seeds

    def at(self, value, fields):
        """Return a value with such numbers at the fields that are named, or all."""
        names = getattr(value, "names", ())
        if fields:
            if fields[0] not in names:
                self.refuse(f"there is no field '{fields[0]}'")
            k = names.index(fields[0])
            return t.Record((*value[:k], self.at(value[k], fields[1:]), *value[k + 1 :]), names)
        if isinstance(value, tuple) and value:
            return t.Record((self.at(v, ()) for v in value), names)
        if not isinstance(value, Operation):
            self.refuse("it is no number; name those parameters, or fields of a record, that are")
        if value in self.seeds:
            self.refuse("it is named twice")
        self.seeds.append(self.build.operation("rounded", value))
        message = f"derivative with respect to '{self.path}': it is an integer here; pass a float"
        self.build.checks.append((lambda: t.is_float(value.dtype), self.place, message, (), self.text))
        return self.seeds[-1]

    def refuse(self, what):
        what = f"derivative with respect to '{self.path}': {what}"
        self.build.fail(self.place, what, LanguageError, self.text)
