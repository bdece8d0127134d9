"""A source read with its derivatives, in place of its call."""

from __future__ import annotations

from ..core.compiler.reading.tree import Operation, arranged, flat, mapped
from ..core.language import types as t
from ..errors import LanguageError
from .forward import Walk


def inlined(build, base, args, node, change):
    """Return the derivatives of a source at this place; `change`: a Change."""
    start, at = len(build.order), len(build.block.body)
    seeds, result = _seeded_result(build, base, args, node, change.paths)
    place = build.line, build.at

    def slopes(numbers):
        walk = Walk(build, base, seeds, start)
        walk.change(at)
        return [[walk.slope(v, k) for v in numbers] for k in range(len(seeds))]

    rows, n = slopes(flat(result)), len(flat(result))
    if change.order == 2:
        second = slopes([v for row in rows for v in row])
        rows += [second[j][i * n : (i + 1) * n] for i in range(len(seeds)) for j in range(i + 1)]
    build.line, build.at = place
    items = [*[result] * change.value, *(arranged(result, map(build.rounded, row)) for row in rows)]
    return items[0] if len(items) == 1 else tuple(items)


def _seeded_result(build, base, args, node, paths):
    """Return separate numbers for those at the paths, and the result of a source for these. They become the
    first operations of its call, since a tree begins with a call.
    """
    args, at, seeds = [mapped(build.rounded, a) for a in args], len(build.block.body), []
    for path in paths:
        args = _seeded(build, base, args, path, seeds)
    result = build.inline(base, args, node)
    if result is None or not all(isinstance(v, Operation) for v in flat(result)):
        build.fail(base.tree, "it returns no number, so that it has no derivative", LanguageError, base)
    call = build.block.body[at + len(seeds)]
    call.setup, call.body.body = [], [*seeds, *call.setup, *call.body.body]
    del build.block.body[at : at + len(seeds)]
    return seeds, result


def _seeded(build, text, args, path, seeds):
    """Return the arguments, with a separate number at a path."""
    first, *fields = path.split(".")
    k = [name.partition("@")[0] for name in text.params].index(first)
    seed = _Seed(build, text, path, text.tree.args.args[k], seeds)
    return [*args[:k], seed.seeded_value(args[k], fields), *args[k + 1 :]]


class _Seed:
    """Inserts separate numbers at a path of a parameter, whose place in the source is `place`."""

    def __init__(self, build, text, path, place, seeds):
        self.build, self.text, self.path, self.place, self.seeds = build, text, path, place, seeds

    def seeded_value(self, value, fields):
        """Return a value with such numbers at the fields that are named, or all."""
        names = getattr(value, "names", ())
        if fields:
            if fields[0] not in names:
                self.refuse(f"there is no field '{fields[0]}'")
            k = names.index(fields[0])
            return t.Record((*value[:k], self.seeded_value(value[k], fields[1:]), *value[k + 1 :]), names)
        if isinstance(value, tuple) and value:
            return t.Record((self.seeded_value(v, ()) for v in value), names)
        if not isinstance(value, Operation):
            self.refuse("it is not a number; name parameters, or fields of a record, that are")
        if value in self.seeds:
            self.refuse("it is repeated")
        self.seeds.append(self.build.operation("rounded", value))
        message = f"derivative with respect to '{self.path}': it is an integer here; pass a float"
        self.build.checks.append((lambda: t.is_float(value.dtype), self.place, message, (), self.text))
        return self.seeds[-1]

    def refuse(self, what):
        what = f"derivative with respect to '{self.path}': {what}"
        self.build.fail(self.place, what, LanguageError, self.text)
