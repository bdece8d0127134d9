"""Compare reverse mode with JAX and Warp's tape: an energy of pairs, a stencil, a matrix times a vector."""

import math

import numpy as np

import portable as pk
from portable.roofline.cases import common
from portable.roofline.digest import digest


@pk.kernel
def energy(i, x):
    total = 0.0
    for j in range(x.shape[0]):
        square = 0.01
        for k in range(3):
            square += (x[i, k] - x[j, k]) ** 2
        total += pk.rsqrt(square)
    return total


@pk.kernel
def stencil(i, j, u, new):
    around = u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1]
    new[i, j] = u[i, j] * u[i, j] + 0.1 * (around - 4.0 * u[i, j])


@pk.kernel
def matvec(i, a, x, y):
    total = 0.0
    for j in range(x.shape[0]):
        total += a[i, j] * x[j]
    y[i] = total


def duels(space, n, quick):
    """Return the duels of the adjoints of all three; see `portable.roofline.cases.Case`."""
    bodies = n or common.size(space, quick, 40, 40, 16_384, 2_000)
    side = n or common.size(space, quick, 40, 40, 4_096, 1_024)
    rng = np.random.default_rng(1)
    x, u, by_new = rng.normal(size=(bodies, 3)), *rng.random((2, side, side))
    a, v, by_y = rng.random((side, side)), *rng.random((2, side))
    by_new[[0, -1]] = by_new[:, [0, -1]] = 0.0
    inside = pk.MDRangePolicy((1, 1), (side - 1, side - 1), space=space)
    each, rows = (pk.RangePolicy(0, k, space=space) for k in (bodies, side))
    order = "any" if space.startswith("cuda") else "fixed"
    new, y = np.empty_like(u), np.empty_like(v)
    return [
        _duel(space, f"{bodies:,} bodies", each, energy, (x,), {}, order),
        _duel(space, f"{side:,} x {side:,}", inside, stencil, (u, new), {"new": by_new}, order),
        _duel(space, f"{side:,} x {side:,}", rows, matvec, (a, v, y), {"y": by_y}, order),
    ]


def _duel(space, size, policy, kernel, args, of, order):
    read = args[: len(args) - len(of)]
    there = [pk.copy_of(v, space=space) for v in args]
    on_space = {path: pk.copy_of(v, space=space) for path, v in of.items()}
    paths = kernel.params[-len(args) :]
    wrt = {path: pk.zeros(v.shape, space=space) for path, v in zip(paths, read)}

    def call():
        for v in wrt.values():
            pk.deep_copy(v, 0.0)
        return pk.adjoint(policy, kernel, *there, wrt=wrt, of=on_space or None, order=order)

    def result():
        return math.fsum(digest(v.to_numpy()) for v in call())

    about = {"result": result, "tools": ("jax", "warp"), "tolerance": 1e-9}
    title = f"adjoint of {kernel.name}, {size}, float64"
    return common.duel(title, space, call, "derivatives", kernel.name, *read, *of.values(), **about)
