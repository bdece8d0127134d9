"""The density of a mixture of normals at many points: one kernel source for ours and for plain numba.

The source is written in the simplest way, without vector functions. P is a global constant, so that both
compilers can unroll.
"""

import math

import numpy as np

import portable as pk
from portable.roofline.cases import common
from portable.roofline.units import scaled

P = 14  # dimensions
K = 64  # components


def density(i, x, rec, out):
    """Compute the sum over components of exp(weight - |L (x - mean)|^2 / 2) at point i.

    Parameters
    ----------
    x : shape (P, n_points)
    rec : shape (n_components, P + P (P + 1) / 2 + 1)
        Mean, lower triangle L row by row, logarithm of the weight.
    out : shape (n_points,)
    """
    total = 0.0
    for j in range(rec.shape[0]):
        q = 0.0
        o = P
        for r in range(P):
            y = 0.0
            for c in range(r + 1):
                y += rec[j, o] * (x[c, i] - rec[j, c])
                o += 1
            q += y * y
        total += math.exp(rec[j, o] - 0.5 * q)
    out[i] = total


packed = pk.kernel(density)


def duels(space, n, quick):
    """Return the duel with the same source under numba; see `portable.roofline.cases.Case`."""
    n = n or common.size(space, quick, 8, 1_000, 100_000, 100_000)
    random = np.random.default_rng(0)
    x, rec = random.normal(size=(P, n)), records(random)
    views = pk.copy_of(x, space), pk.copy_of(rec, space), pk.empty((n,), np.float64, space)
    call = common.launch_over(space, n, packed, *views)
    operations = n * K * (3 * P * (P + 1) // 2 + 2 * P + 2)
    title = f"mixture density, {n:,} points, {P} dimensions, {K} components, {scaled(operations)} operations"
    about = {"result": lambda: float(np.log(views[2].to_numpy()).sum()), "tolerance": 1e-12}
    return [common.duel(title, space, call, "mixture", density, x, rec, **about)]


def records(random):
    """Return random components; the factor 0.2 keeps the densities far from overflow and from zero."""
    return 0.2 * random.normal(size=(K, P + P * (P + 1) // 2 + 1))
