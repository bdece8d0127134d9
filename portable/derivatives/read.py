"""A source read with its derivatives, in place of its call."""

from ..core.compiler.reading.tree import Operation, arranged, flat, mapped
from ..core.language import types as t
from ..errors import LanguageError
from .changes import place_of
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
        build.fail(base.tree, "it returns no number", LanguageError, base)
    call = build.block.body[at + len(seeds)]
    call.body.body = [*seeds, *call.body.body]
    del build.block.body[at : at + len(seeds)]
    return seeds, result


def _seeded(build, text, args, path, seeds):
    """Return the arguments, with separate numbers at a path: its fields, or all."""
    first, *fields = path.split(".")
    k = place_of(text, first)
    place, what = text.tree.args.args[k], f"derivative with respect to '{path}':"
    found = _separated(
        build, args[k], fields, seeds, lambda why: build.fail(place, f"{what} {why}", LanguageError, text)
    )
    for seed in seeds:
        why = place, f"{what} it is an integer here; pass a float", (), text
        build.checks.append((lambda seed=seed: t.is_float(seed.dtype), *why))
    return [*args[:k], found, *args[k + 1 :]]


def _separated(build, value, fields, seeds, refuse):
    """Return a value with separate numbers at its fields, or all; these are added to `seeds`."""
    names = getattr(value, "names", ())
    if fields:
        if fields[0] not in names:
            refuse(f"no field '{fields[0]}'")
        at = names.index(fields[0])
        inner = _separated(build, value[at], fields[1:], seeds, refuse)
        return t.Record((*value[:at], inner, *value[at + 1 :]), names)
    if isinstance(value, tuple) and value:
        return t.Record((_separated(build, v, (), seeds, refuse) for v in value), names)
    if not isinstance(value, Operation):
        refuse("it is not a number; name its fields")
    if value in seeds:
        refuse("it is repeated")
    seeds.append(build.operation("rounded", value))
    return seeds[-1]
