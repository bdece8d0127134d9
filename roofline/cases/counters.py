"""Launches whose hardware counters are read: each once, in this order, in a separate process under `ncu`.

`python -m portable.roofline.cases.counters` is that process; `python -m portable.roofline counters` starts it
and reports the counts for comparison.
"""

import numpy as np

import portable as pk
from portable.roofline import microkernels
from portable.roofline.cases import layer, mixture
from portable.roofline.truth import machine, pairs

HOT = 1000  # elements of a table that fits into every cache
FAR = 8  # distance of consecutive reads in numbers: each is on a separate line


SUMMED = layer.product, microkernels.element  # kernels of reductions


def launches(space, n=1 << 14, many=1 << 24):
    """Yield (label, policy, kernel, args, reducer) of each launch; the same numbers on every space. `n`
    elements for launches that compute, `many` for launches that move bytes: more than caches hold."""
    for label, policy, kernel, *args in (*_computing(space, n), *_moving(space, many)):
        yield label, policy, kernel, tuple(args), pk.Sum if kernel in SUMMED else ()


def _computing(space, n):
    random = np.random.default_rng(0)
    edge, side = round(n ** (1 / 3)) + 2, 128
    every, box = pk.RangePolicy(0, n, space=space), pk.MDRangePolicy((1,) * 3, (edge - 1,) * 3, space=space)
    rows, tiles = (pk.TeamPolicy(league, space=space) for league in (side, (side // layer.T) ** 2))
    x, y = (pk.copy_of(a, space) for a in random.random((2, n)))
    records = pk.copy_of(mixture.records(random), space)
    points, cube = (
        pk.copy_of(a, space) for a in (random.normal(size=(mixture.P, n)), random.random((edge,) * 3))
    )
    square = [pk.copy_of(a, space) for a in random.random((3, side, side))]
    yield "axpy", every, layer.axpy, layer.A, x, y
    yield "dot product", every, layer.product, x, y
    yield "matrix times vector", rows, layer.matvec, square[0], x[:side], y[:side]
    yield "matrix product, tiles in scratch", tiles, layer.matmul, *square
    yield "7-point stencil", box, layer.stencil, cube, pk.copy_of(cube, space)
    yield "exp under a condition", every, layer.exp_of_large, x, y
    yield "mixture density", every, mixture.packed, points, records, y


def _moving(space, n):
    """Yield launches that mostly access memory: in order, with gaps, and in random order."""
    random, every = np.random.default_rng(1), pk.RangePolicy(0, n, space=space)
    x, y, z = (pk.copy_of(random.random(n), space) for _ in range(3))
    narrow, other = (pk.copy_of(random.random(n).astype(np.float32), space) for _ in range(2))
    yield "copy", every, microkernels.copy, x, y
    yield "copy of float32", every, microkernels.copy, narrow, other
    yield "triad", every, microkernels.triad, layer.A, x, y, z
    yield "update", every, microkernels.update, layer.A, x, y
    yield "fill", every, microkernels.empty_launch, z
    yield "sum", every, microkernels.element, x
    yield "sum of float32", every, microkernels.element, narrow
    edge = int(n**0.5)
    box, inner = (pk.MDRangePolicy((0, 0), (end, end), space=space) for end in (edge, edge - 1))
    square, turned = (a[: edge * edge].reshape(edge, edge) for a in (x, y))
    yield "transpose", box, pairs.turned, square, turned
    yield "three-point stencil", inner, machine.smoothed, square, turned
    some = pk.RangePolicy(0, n // FAR, space=space)
    yield "every eighth number", some, pairs.every_so_many, FAR, x, z
    hot, anywhere, other = (
        pk.copy_of(place, space)
        for place in (random.integers(0, HOT, n), random.integers(0, n, n), random.permutation(n))
    )
    yield "gather of few", every, pairs.gather, hot, x, z
    yield "gather from anywhere", every, pairs.gather, anywhere, x, z
    yield "gather of all in no order", every, pairs.gather, other, x, z
    yield "scatter to all in no order", every, pairs.scatter, other, x, z


def run(space="cuda"):
    """Run every launch once."""
    for _, policy, kernel, args, reducer in launches(space):
        (pk.parallel_reduce if reducer else pk.parallel_for)(policy, kernel, *args)
    pk.fence(space)


if __name__ == "__main__":
    run()
