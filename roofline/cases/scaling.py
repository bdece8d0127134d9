"""Time every method with 1, 2, 4, ... threads of this machine, next to the machine's own limits: fused
multiply-adds in registers, limited by the cores' clocks and other work, and a copy, limited by the memory's
bandwidth.

A row's ratio is the speed-up of all threads over fewer. Below each table are the speed-ups of these two
limits, and the share of a call on one thread that is serial by Amdahl's law for the measured speed-up: with
two threads it is hardly informative. Sizes are those of `compare calls` on a device, except for a mixture's
fit.

`--n` scales all sizes: 1,000,000 leaves them unchanged.
"""

import numpy as np

import portable as pk
from portable.errors import InputError
from portable.roofline import microkernels
from portable.roofline.cases import calls, common
from portable.roofline.contract import Contender, Duel

COPIED = 50_000_000  # float64
MULTIPLIED, TRIPS = 16_384, 2_000  # indices of multiply-adds, and iterations of each
FITTED_SHARE = 0.2  # of the points to which `calls` fits a mixture, which takes a minute with one thread


def duels(space, n, quick):
    """Return the duels of each call with all threads against fewer; see `portable.roofline.cases.Case`."""
    most = pk.concurrency(space)
    if not space.startswith("threads") or most < 2:
        raise InputError(f"compare scaling needs two threads or more, got --space {space} of {most}")
    scale = (n or 1_000_000) / 1_000_000 * (2e-4 if quick else 1.0)
    size, trips = (max(int(k * scale), 1000) for k in (COPIED, TRIPS))
    x, y = pk.zeros((size,), np.float64, space), pk.zeros((size,), np.float64, space)
    ones = pk.copy_of(np.ones(1000 if quick else MULTIPLIED), space)

    def multiplied(space):
        return common.launch_over(space, ones.size, *microkernels.FMA, trips, 0.5, 0.5, ones)

    def copied(space):
        return common.launch_over(space, size, microkernels.copy, x, y)

    reached = {}  # the speed-ups of the machine itself
    return [
        _duel("fused multiply-adds in registers", multiplied, most, reached, own="multiply-adds"),
        _duel(f"copy of {size:,} float64", copied, most, reached, own="a copy", bytes=16 * size),
        *(
            _duel(call.title, lambda space, call=call: call.bind(space, *call.arrays), most, reached)
            for call in calls.public_calls(scale, FITTED_SHARE)
        ),
    ]


def _duel(title, bind, most, reached, own=None, **options):
    fewer = [2**k for k in range(most.bit_length()) if 2**k < most]
    peers = [Contender(f"threads:{k}", bind(f"threads:{k}")) for k in fewer]

    def describe(rows):
        if own:
            reached.update({own: row.ratio.median for row in rows if row.peer == "threads:1"})
        limits = ", ".join(f"{name} {speedup:.2f}" for name, speedup in reached.items() if not own)
        return serial_share(rows, most) + (f"; the machine itself: {limits}" if limits else "")

    return Duel(title, Contender(f"threads:{most}", bind(f"threads:{most}")), peers, told=describe, **options)


def serial_share(rows, most):
    """Return, in words, the serial share s of T(p) / T(1) = s + (1 - s) / p at p = `most`."""
    alone = next((row for row in rows if row.peer == "threads:1"), None)
    if alone is None:
        return "one thread gave no time"
    speedup = alone.ratio.median
    if speedup <= 1.0:
        return f"speed-up {speedup:.2f} of {most}: one thread does as well"
    share = (most / speedup - 1.0) / (most - 1.0)
    return f"speed-up {speedup:.2f} of {most}; serial share {max(share, 0.0):.1%}"
