"""What a launch costs its caller: a kernel of six views that has nothing to do."""

import functools

import numpy as np

import portable as pk
from roofline import peers
from roofline.contract import Contender, Duel

N_VIEWS = 6
LENGTH = 10


@pk.kernel
def add_five(i, a, b, c, d, e, f):
    """a = b + c + d + e + f."""
    a[i] = b[i] + c[i] + d[i] + e[i] + f[i]


def duels(space, n, quick):
    """Each way to launch, on this space and on serial; see `roofline.cases.Case`. `n` counts the indices (1)."""
    spaces = [space] if space.startswith("cuda") or space in ("serial", "checked") else ["serial", space]
    return [duel for name in spaces for duel in _duels(name, n or 1)]


def _duels(space, n):
    with pk.use(space):
        views = [pk.zeros((max(n, LENGTH),), np.float64) for _ in range(N_VIEWS)]
    rivals, absent = peers.gather("launch", space, n, max(n, LENGTH))
    policy = pk.RangePolicy(0, n, space=space)
    calls = {"parallel_for": functools.partial(pk.parallel_for, policy, add_five, *views)}
    plan = getattr(pk, "plan", None)
    if plan:
        calls["plan"] = plan(policy, add_five, *views)
    return [
        Duel(
            f"launch of {n:,} {'index' if n == 1 else 'indices'} with {N_VIEWS} views on {space}, the caller's time",
            Contender(f"portable, {name}", call, sync=functools.partial(pk.fence, space)),
            rivals,
            absent,
            host_only=space.startswith("cuda"),
        )
        for name, call in calls.items()
    ]
