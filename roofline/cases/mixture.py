"""The density of a mixture of normals at many points: one kernel text for ours and for plain numba.

The text is what a newcomer writes: no vector word in it. P is a global constant, so that both compilers can
unroll.
"""

import functools
import math

import numpy as np

import portable as pk
from portable.roofline import peers
from portable.roofline.contract import Contender, Duel
from portable.roofline.units import scaled

P = 14  # dimensions
K = 64  # components


def density(i, x, rec, out):
    """Sum over components of exp(weight - |L (x - mean)|^2 / 2) at point i.

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
    """Ours against the same text under numba; see `portable.roofline.cases.Case`."""
    n = n or (8 if space == "checked" else 1_000 if quick else 100_000)
    random = np.random.default_rng(0)
    x, rec = random.normal(size=(P, n)), records(random)
    with pk.use(space):
        views = _copy(x), _copy(rec), pk.empty((n,), np.float64)
    policy = pk.RangePolicy(0, n, space=space)
    ours = Contender(
        f"portable, {space}",
        functools.partial(pk.parallel_for, policy, packed, *views),
        sync=functools.partial(pk.fence, space),
        result=lambda: float(np.log(views[2].to_numpy()).sum()),
    )
    rivals, absent = peers.gather("mixture", space, density, x, rec)
    operations = n * K * (3 * P * (P + 1) // 2 + 2 * P + 2)
    title = f"mixture density, {n:,} points, {P} dimensions, {K} components, {scaled(operations)} operations"
    return [Duel(title, ours, rivals, absent, tolerance=1e-12)]


def records(random):
    """Components at random; 0.2 keeps the densities far from overflow and from zero."""
    return 0.2 * random.normal(size=(K, P + P * (P + 1) // 2 + 1))


def _copy(array):
    """A view in the default space with the content of a host array."""
    view = pk.empty(array.shape, array.dtype)
    pk.deep_copy(view, array)
    return view
