"""Launches whose hardware counters are read: each once, in this order, in a process of its own under `ncu`.

`python -m portable.roofline.cases.counters` is that process; `python -m portable.roofline counters` starts it
and tells the counts beside.
"""

import numpy as np

import portable as pk
from portable.roofline import microkernels
from portable.roofline.cases import layer, mixture
from portable.roofline.truth import machine, pairs

HOT = 1000  # elements of a table that every cache holds
FAR = 8  # numbers from an element to the next that is read: each on a line of its own


def launches(space, n=1 << 14, many=1 << 24):
    """(label, policy, kernel, args, reducer) of each launch; the same numbers on every space. `n` elements
    of those that compute, `many` of those that move bytes: more than caches hold."""
    yield from _computing(space, n)
    yield from _moving(space, many)


def _computing(space, n):
    random = np.random.default_rng(0)
    x, y = random.random((2, n))
    edge, side = round(n ** (1 / 3)) + 2, 128
    records = 0.2 * random.normal(size=(mixture.K, mixture.P + mixture.P * (mixture.P + 1) // 2 + 1))
    points, cube = random.normal(size=(mixture.P, n)), random.random((edge,) * 3)
    every, box = pk.RangePolicy(0, n, space=space), pk.MDRangePolicy((1,) * 3, (edge - 1,) * 3, space=space)

    def on(*arrays):
        return [pk.copy_of(a, space) for a in arrays]

    square = random.random((3, side, side))
    tiles = pk.TeamPolicy((side // layer.T) ** 2, space=space)
    yield "axpy", every, layer.axpy, (layer.A, *on(x, y)), ()
    yield "dot product", every, layer.product, tuple(on(x, y)), pk.Sum
    yield (
        "matrix times vector",
        pk.TeamPolicy(side, space=space),
        layer.matvec,
        tuple(on(square[0], x[:side], y[:side])),
        (),
    )
    yield "matrix product, tiles in scratch", tiles, layer.matmul, tuple(on(*square)), ()
    yield "7-point stencil", box, layer.stencil, tuple(on(cube, cube)), ()
    yield "exp under a condition", every, layer.exp_of_large, tuple(on(x, y)), ()
    yield "mixture density", every, mixture.packed, tuple(on(points, records, y)), ()


def _moving(space, n):
    """Kernels that do little but reach memory: in order, with gaps, in no order."""
    random, every = np.random.default_rng(1), pk.RangePolicy(0, n, space=space)
    x, y, z = (pk.copy_of(random.random(n), space) for _ in range(3))
    narrow, other = (pk.copy_of(random.random(n).astype(np.float32), space) for _ in range(2))
    yield "copy", every, microkernels.copy, (x, y), ()
    yield "copy of float32", every, microkernels.copy, (narrow, other), ()
    yield "triad", every, microkernels.triad, (layer.A, x, y, z), ()
    yield "update", every, microkernels.update, (layer.A, x, y), ()
    yield "fill", every, microkernels.nothing, (z,), ()
    yield "sum", every, microkernels.element, (x,), pk.Sum
    yield "sum of float32", every, microkernels.element, (narrow,), pk.Sum
    edge = int(n**0.5)
    box = pk.MDRangePolicy((0, 0), (edge, edge), space=space)
    square, turned = (a[: edge * edge].reshape(edge, edge) for a in (x, y))
    yield "transpose", box, pairs.turned, (square, turned), ()
    inner = pk.MDRangePolicy((0, 0), (edge - 1, edge - 1), space=space)
    yield "three-point stencil", inner, machine.smoothed, (square, turned), ()
    some = pk.RangePolicy(0, n // FAR, space=space)
    yield "every eighth number", some, pairs.every_so_many, (FAR, x, z), ()
    hot, anywhere, other = (
        pk.copy_of(place, space)
        for place in (random.integers(0, HOT, n), random.integers(0, n, n), random.permutation(n))
    )
    yield "gather of few", every, pairs.gather, (hot, x, z), ()
    yield "gather from anywhere", every, pairs.gather, (anywhere, x, z), ()
    yield "gather of all in no order", every, pairs.gather, (other, x, z), ()
    yield "scatter to all in no order", every, pairs.scatter, (other, x, z), ()


def run(space="cuda"):
    """Launch everything once."""
    for _, policy, kernel, args, reducer in launches(space):
        if reducer:
            pk.parallel_reduce(policy, kernel, *args, reducer=reducer)
        else:
            pk.parallel_for(policy, kernel, *args)
    pk.fence(space)


if __name__ == "__main__":
    run()
