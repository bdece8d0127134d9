"""A source read with its derivatives, in place of its call."""

import itertools

from ..core.compiler.reading.tree import Operation, arranged, flat, mapped
from ..core.language import types as t
from ..errors import LanguageError
from .changes import at_path, place_of
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
    args, seeds = tuple(mapped(build.rounded, a) for a in args), []
    at, numbers, count = len(build.block.body), flat(args), itertools.count()
    places = mapped(lambda _: next(count), args)
    for path in paths:
        seeds += _separated(build, base, places, numbers, path, seeds)
    result = build.inline(base, arranged(args, iter(numbers)), node)
    if result is None or not all(isinstance(v, Operation) for v in flat(result)):
        build.fail(base.tree, "it returns no number", LanguageError, base)
    call = build.block.body[at + len(seeds)]
    call.body.body = [*seeds, *call.body.body]
    del build.block.body[at : at + len(seeds)]
    return seeds, result


def _separated(build, text, places, numbers, path, seeds):
    """Replace the numbers at a path by separate ones, and return these."""
    parameter = text.tree.args.args[place_of(text, path)]
    try:
        found = flat(at_path(text, places, path))
        plain = found and all(isinstance(numbers[k], Operation) for k in found)
        why = "" if plain else "it is not a number; name its fields"
    except KeyError as field:
        found, why = [], f"no field {field}"
    if any(numbers[k] in seeds for k in found):
        why = "it is repeated"
    what = f"derivative with respect to '{path}':"
    if why:
        build.fail(parameter, f"{what} {why}", LanguageError, text)
    made = [build.operation("rounded", numbers[k]) for k in found]
    for k, seed in zip(found, made):
        numbers[k] = seed
        why = parameter, f"{what} it is an integer here; pass a float", (), text
        build.checks.append((lambda seed=seed: t.is_float(seed.dtype), *why))
    return made
