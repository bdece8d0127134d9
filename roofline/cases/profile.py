"""Measure the cost of `roofline.profile`: launches of a millisecond and more inside of it, against the
same ones outside.

`n` counts the launches.
"""

import functools
import math

import numpy as np

import portable as pk
from portable.roofline import measuring, timing, profile
from portable.roofline import microkernels as kernels
from portable.roofline.contract import Contender, Duel

SECONDS = 1.2e-3  # of a launch: the promise begins at a millisecond


def duels(space, n, quick):
    """See `portable.roofline.cases.Case`."""
    n, size = n or (2 if quick or space == "checked" else 50), 64 if quick or space == "checked" else 1 << 18
    out, policy = (
        pk.copy_of(np.ones(size), space),
        pk.RangePolicy(0, size, space=space, chunk=measuring.CHUNK),
    )
    wait, launch = functools.partial(pk.fence, space), functools.partial(_launch, policy, out)
    trips = 1
    if not quick and space != "checked":
        few = 16
        seconds = timing.measure(functools.partial(launch, few), wait, repeats=3).median
        trips = math.ceil(few * SECONDS / seconds)

    def alone():
        for _ in range(n):
            launch(trips)
        wait()

    def inside():
        with profile() as heard:
            alone()
        return len(heard.events)

    title = f"{n} launches of a millisecond or more, gathered by roofline.profile"
    ours, peer = Contender(f"profiled, {space}", inside), Contender("the same, not profiled", alone)
    return [Duel(title, ours, [peer] if space != "checked" else [])]


def _launch(policy, out, trips):
    pk.parallel_for(policy, *kernels.FMA, trips, 0.999, 0.001, out)
