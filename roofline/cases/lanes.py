"""Compare packs with single lanes: each kernel in both ways, on the same space and memory.

The mixture density is also compared with the peak of the arithmetic units: as many operations as its code
executes, including those of its exponentials, in chains of fused multiply-adds. That ratio is the density's
share of the peak.
"""

import math
from dataclasses import replace

import numpy as np

import portable as pk
from portable.roofline import microkernels, peers
from portable.roofline.cases import common, layer, mixture
from portable.roofline.contract import Duel
from portable.roofline.counting import count
from portable.roofline.truth import pairs
from portable.roofline.units import scaled

COUNTED = 256  # points on which the density's operations are counted: it has no data-dependent branch


@pk.kernel
def of_one(i, function, x, out):
    """Call a function of one number."""
    out[i] = function(x[i])


@pk.kernel
def of_two(i, function, y, x, out):
    """Call a function of two numbers."""
    out[i] = function(y[i], x[i])


def duels(space, n, quick):
    """Return a duel for each kind of kernel; see `portable.roofline.cases.Case`. `n` is the number of
    indices."""
    n = n or common.size(space, quick, 100, 10_000, 1_000_000, 1_000_000)
    random = np.random.default_rng(0)
    x, order = random.random(n), random.integers(0, n, n)
    edge = max(2, int((n / 10) ** 0.5))
    cx, cy = common.complex_plane(edge)
    return [
        _duel(space, "exp under a condition", n, layer.exp_of_large, (x,)),
        _duel(
            space,
            f"a loop until it escapes, at most {layer.LIMIT} steps",
            len(cx),
            layer.mandelbrot,
            (layer.LIMIT, cx, cy),
            np.int32,
        ),
        _duel(space, "gather", n, pairs.gather, (order, x)),
        _duel(space, "axpy", n, layer.axpy, (0.0, x)),
        _word(space, n, of_two, math.atan2, random.normal(size=n), random.normal(size=n)),
        _word(space, n, of_one, math.sinh, random.normal(size=n)),
        _word(space, n, of_one, math.gamma, random.uniform(0.1, 20.0, n)),
        _density(space, max(n // (1 if space.startswith("cuda") else 10), 8)),
    ]


def _duel(space, title, n, kernel, inputs, dtype=np.float64):
    """Return the duel of packs against one lane at a time. axpy's factor is zero, so that repetition is
    harmless."""
    inputs = [pk.copy_of(v, space) if isinstance(v, np.ndarray) else v for v in inputs]

    def side(text):
        out = pk.zeros((n,), dtype, space)
        call = common.launch_over(space, n, text, *inputs, out)
        return call, common.written(call, out)

    one, peers, absent = "one lane at a time", [], []
    if space.startswith("cuda"):
        absent.append((one, "a GPU's threads are its lanes"))
    else:
        peers.append(replace(common.ours(space, *side(pk.kernel(kernel.fn, packed=False))), label=one))
    ours = common.ours(space, *side(kernel))
    return Duel(f"{title}, {n:,} indices", ours, peers, absent, tolerance=layer.CHAOS)


def _word(space, n, kernel, function, *inputs):
    """Return the duel of a function in packs against one lane at a time, and against the same loop in plain
    numba."""
    name = function.__name__
    duel = _duel(space, name, n, kernel, (function, *inputs))
    rivals, absent = peers.gather("layer", space, name, *inputs, tools=("numba",))
    return replace(duel, peers=[*duel.peers, *rivals], absent=[*duel.absent, *absent])


def _density(space, n):
    random = np.random.default_rng(0)
    x, rec = random.normal(size=(mixture.P, n)), mixture.records(random)
    duel = _duel(space, "mixture density", n, mixture.packed, (x, rec))
    some = np.ascontiguousarray(x[:, :COUNTED])
    policy = pk.RangePolicy(0, some.shape[1], space="serial")
    executed = count(policy, mixture.packed, some, rec, np.empty(COUNTED)).executed_totals
    each = sum(executed[kind].get("float64", 0) for kind in ("flops", "inside_flops")) / some.shape[1]
    flops = each * n
    title, peak = f"{duel.title}, {scaled(flops)} operations executed", _peak(space, flops)
    return replace(duel, title=title, peers=[*duel.peers, peak], flops=flops)


def _peak(space, flops):
    """Return our side with `flops` operations at the machine's peak."""
    n = 1 << common.size(space, False, 3, 0, 18, 11)
    trips = max(1, round(flops / (2 * microkernels.CHAINS * microkernels.UNROLLED * n)))
    out = pk.copy_of(np.ones(n), space)
    ours = common.ours(space, common.launch_over(space, n, *microkernels.FMA, trips, 0.999, 0.001, out))
    return replace(ours, label="the peak: as many in fused multiply-adds")
