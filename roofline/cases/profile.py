"""Measure the cost of `roofline.profile`: launches of at least a millisecond inside of it, against the same
launches outside.

`n` is the number of launches.
"""

import functools
import math

import numpy as np

import portable as pk
from portable.roofline import measuring, timing, profile
from portable.roofline.cases import common
from portable.roofline.contract import Contender, Duel
from portable.roofline.microkernels import FMA

SECONDS = 1.2e-3  # of a launch: the promised cost is for launches of at least a millisecond


def duels(space, n, quick):
    """Return the duel; see `portable.roofline.cases.Case`."""
    small = quick or space == "checked"
    n, size, trips, few = n or (2 if small else 50), 64 if small else 1 << 18, 1, 16
    out, wait = pk.copy_of(np.ones(size), space), functools.partial(pk.fence, space)

    def launch(trips):
        return common.launch_over(space, size, *FMA, trips, 0.999, 0.001, out, chunk=measuring.CHUNK)

    if not small:
        trips = math.ceil(few * SECONDS / timing.measure(launch(few), wait, repeats=3).median)
    call = launch(trips)

    def call_all():
        for _ in range(n):
            call()
        wait()

    def inside():
        with profile() as heard:
            call_all()
        return len(heard.events)

    title = f"{n} launches of a millisecond or more, gathered by roofline.profile"
    ours, peer = Contender(f"profiled, {space}", inside), Contender("the same, not profiled", call_all)
    return [Duel(title, ours, [peer] if space != "checked" else [])]
