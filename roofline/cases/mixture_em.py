"""One EM iteration of a Gaussian mixture with full covariances, by maximum likelihood: sums over all points,
new parameters.

Points are drawn either from the mixture's own components, far apart, so that few components have a share in a
point; or from one normal distribution, so that all have and no work can be omitted. The counted operations
are those that our code executes for densities and sums, exponentials included: counted by `portable.count`,
which agrees with a GPU's own counters (`python -m portable.roofline counters`). p (p + 3) for a log-density
and (p + 1) (p + 2) for the weighted sums of a pair are unavoidable: 478 of about 560 in 14 dimensions. The
share of the ceiling is that of the machine's fused multiply-adds, with all executed operations.

The last duel is against the paper's own way, in the same layer: responsibilities are stored, and `calc_sigma`
is launched once for each entry of each component's covariance. An entry costs 5 operations for each point and
reads 24 bytes of it.
"""

import functools

import numpy as np

import portable as pk
from portable.models.mixture.blocks import Components, Points
from portable.models.mixture.prior import WithoutPrior
from portable.models.mixture.steps import FullSteps
from portable.roofline.cases import common
from portable.roofline.ceiling import ceilings
from portable.roofline.contract import Contender
from portable.roofline.operation_mix import executed_totals
from portable.roofline.units import scaled

P = 14  # coordinates
LARGE = 1_000_000, 20, 100  # points, coordinates and components of the rows of `mixture_large`, on a device
FAR, NEAR = 4.0, 0.1  # standard deviation of the components' means; within a component it is 1
DTYPES = "float64", "float32"
COUNTED = 8192  # points on which operations are counted


@pk.kernel
def calc_sigma(i, r, x, y, x_mean, y_mean):
    """Return the contribution of point i to one entry of one component's scatter: the paper's calcSigma."""
    return r[i] * (x[i] - x_mean) * (y[i] - y_mean)


def duels(space, n, quick):
    """Return the duels of ours with each peer; see `portable.roofline.cases.Case`."""
    small, on_device = space == "checked" or quick, space.startswith("cuda")
    known, k = common.size(space, quick, (64, 4), (2_000, 4), (5_000_000, 256), (100_000, 64))
    n = n or known
    found = [
        _duel(space, n, k, *kind, small) for kind in ((FAR, "float64"), (NEAR, "float64"), (NEAR, "float32"))
    ]
    if on_device and not small:
        found += [_duel(space, LARGE[0], LARGE[2], NEAR, dtype, small, LARGE[1]) for dtype in DTYPES]
        found += [_duel(space, n // 10, 4096, NEAR, dtype, small) for dtype in DTYPES]
    found.append(_against_calc_sigma(space, max(n // 10, 64), k))
    return found


def iteration(steps):
    """Compute the sums and a log-likelihood, and the new parameters; each iteration begins at the parameters
    of the one before.
    """
    steps.sweep()
    steps.advance()


def executed(space, k, dtype, p=P):
    """Return the floating-point operations executed for a pair of point and component of p coordinates,
    counted on few points.
    """
    heard = []

    def hear(phase, what, launch):
        if phase == "begin" and launch.label in ("mixture.log_joint", "mixture.moments"):
            heard.append(launch)

    _, points, components = _problem(space, COUNTED, k, NEAR, dtype, p)
    with pk.listening(hear):
        points.gather(components)
    flops = 0
    for launch in heard:
        totals = executed_totals(pk.count(launch.policy, launch.kernel, *launch.args, build="executed"))
        flops += sum(totals["flops"].values()) + sum(totals["inside_flops"].values())
    return flops / (COUNTED * k)


def _problem(space, n, k, apart, dtype, p=P):
    """Return points in the space, and the components from which an iteration starts."""
    random = np.random.default_rng(0)
    means = random.normal(0.0, apart, (k, p))
    x = random.standard_normal((n, p), np.float32)
    if apart == FAR:
        x += means[random.integers(0, k, n)]
    x = x.astype(dtype)
    components = Components(np.full(k, -np.log(k)), means, np.tile(np.eye(p), (k, 1, 1)))
    return x, Points(x, k, space, np.zeros(p), diagonal=False), components


def _duel(space, n, k, apart, dtype, small, p=P):
    x, points, components = _problem(space, n, k, apart, dtype, p)
    steps = FullSteps(
        points, WithoutPrior(1e-6, "full", np.full(k, 1.0 / k)), components.means, components.factors
    )
    needed = p * (p + 3) + (p + 1) * (p + 2)
    each = needed if small else executed(space, k, dtype, p)
    operations = round(n * k * each)
    overlap = "components far apart" if apart == FAR else "all components overlap"
    title = (
        f"one EM iteration, {overlap}, {n:,} points, {p} dimensions, {k:,} components, {dtype}, "
        f"{scaled(operations)} operations, {each:.0f} a pair"
    )
    about = {"flops": operations, "tolerance": 1e-10 if dtype == "float64" else 1e-4}
    if not small:
        about["told"] = lambda rows: f"{needed} of the {each:.0f} operations a pair cannot be avoided"
        about["ceiling"] = lambda: ceilings(space).rate(f"fma {dtype}")
    return common.duel(
        title,
        space,
        functools.partial(iteration, steps),
        "mixture_em",
        x,
        components.means,
        result=lambda: points.log_likelihood(components),
        **about,
    )


def _trace(points, components):
    """Return the sum of the traces of all scatters about the components' own means."""
    _, (n, xbar, scatter) = points.sweep(components)
    away = xbar - components.means
    return float(np.trace(scatter.sum(axis=0)) + (n[:, None] * away * away).sum())


def _against_calc_sigma(space, n, k):
    x, points, components = _problem(space, n, k, NEAR, "float64")
    columns, sigma = pk.copy_of(np.ascontiguousarray(x.T), space), pk.zeros((k, P, P), space=space)
    means = components.means

    def by_entry():
        r = pk.copy_of(np.ascontiguousarray(points.responsibilities(components).T), space)
        for j in range(k):
            for a in range(P):
                for b in range(a + 1):
                    pk.parallel_reduce(
                        pk.RangePolicy(0, n, space=space),
                        calc_sigma,
                        r[j],
                        columns[a],
                        columns[b],
                        means[j, a],
                        means[j, b],
                        out=sigma[j, a, b : b + 1],
                    )

    title = (
        f"E-step and sums, {n:,} points, {P} dimensions, {k:,} components, float64: one sweep against "
        f"{k * P * (P + 1) // 2:,} launches"
    )
    sweep = functools.partial(points.sweep, components)
    found = common.duel(title, space, sweep, result=lambda: _trace(points, components), tolerance=1e-10)
    found.peers.append(
        Contender(
            "calcSigma, launched for each entry",
            by_entry,
            found.ours.sync,
            lambda: float(np.trace(sigma.to_numpy().sum(axis=0))),
        )
    )
    return found
