"""Measure the cost of a launch to its caller: an empty kernel of six views, once and ten times in a row."""

import functools
from dataclasses import replace

import numpy as np

import portable as pk
from portable.roofline import peers
from portable.roofline.cases import common
from portable.roofline.contract import Duel

N_VIEWS = 6
LENGTH = 10
TEN = 10  # launches of a graph


@pk.kernel
def add_five(i, a, b, c, d, e, f):
    """Compute a = b + c + d + e + f."""
    a[i] = b[i] + c[i] + d[i] + e[i] + f[i]


def duels(space, n, quick):
    """Return each way to launch, on this space and on serial; see `portable.roofline.cases.Case`. `n` is the
    number of indices (1 by default).
    """
    spaces = [space] if space.startswith("cuda") or space in ("serial", "checked") else ["serial", space]
    return [duel for name in spaces for duel in _duels(name, n or 1)]


def _duels(space, n):
    with pk.use(space):
        views = [pk.zeros((max(n, LENGTH),), np.float64) for _ in range(N_VIEWS)]
    policy = pk.RangePolicy(0, n, space=space)
    calls = {
        "parallel_for": functools.partial(pk.parallel_for, policy, add_five, *views),
        "plan": pk.plan(policy, add_five, *views),
    }
    with pk.capture(space) as graph:
        for _ in range(TEN):
            calls["parallel_for"]()
    what = f"of {n:,} {'index' if n == 1 else 'indices'} with {N_VIEWS} views on {space}"
    rivals, absent = peers.gather("launch", space, n, max(n, LENGTH))

    def duel(title, label, call, rivals, host_only=False):
        return Duel(
            title,
            replace(common.ours(space, call), label=f"portable, {label}"),
            rivals,
            absent,
            host_only=host_only,
        )

    title = f"launch {what}, the caller's time"
    found = [duel(title, *one, rivals, space.startswith("cuda")) for one in calls.items()]
    # Timed to the end of the work: a queue of graphs is too long for a meaningful time of the caller.
    title = f"ten launches {what}, to the end of the work"
    return [*found, duel(title, "a graph of ten", graph.replay, list(map(_ten, rivals)))]


def _ten(rival):
    """Return a contender that launches ten times."""

    def call():
        for _ in range(TEN):
            rival.call()

    return replace(rival, label=f"{rival.label}, ten times", call=call)
