"""Launches whose hardware counters are read: each once, in this order, in a process of its own under `ncu`.

`python -m roofline.cases.counters` is that process; `python -m roofline counters` starts it and tells the
counts beside.
"""

import numpy as np

import portable as pk
from roofline.cases import layer, mixture


def launches(space, n=1 << 14):
    """(label, policy, kernel, args, reducer) of each launch; the same numbers on every space."""
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
