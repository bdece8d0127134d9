"""Compare the micro-kernels of the ceilings with independent tools: C compiled by gcc on a CPU, CUDA C++ on a
GPU.

Copies and triads in memory; on a CPU triads in each core's private caches, on a GPU reads from scratch and
L2; and peaks of fused multiply-adds.

Both sides of a duel do the same operations on the same numbers, in the same memory, because the speed depends
on the place of the memory. `n` is the number of elements of the vectors.
"""

import functools

import numpy as np

import portable as pk
from portable.roofline import measuring
from portable.roofline import microkernels as kernels
from portable.roofline.cases import common
from portable.roofline.units import scaled

B, C = 0.999, 0.001  # values stay of order one


def duels(space, n, quick):
    """Return the duels of a space; see `portable.roofline.cases.Case`."""
    n = n or common.size(space, quick, 64, 10_000, 1 << 27, 1 << 24)
    few, trips = common.size(space, quick, (64, 2), (1 << 10, 2), (1 << 22, 64), (1 << 14, 128))
    near = common.size(space, False, lambda *_: (), None, _near_gpu, _cache_duels)
    b, c = np.random.default_rng(0).random((2, n))
    return [
        _stream("copy", space, kernels.copy, 16 * n, (), b),
        _stream("triad", space, kernels.triad, 24 * n, (measuring.SCALE,), b, c),
        *near(space, quick),
        *(_peak(dtype, space, few, trips) for dtype in ("float64", "float32")),
    ]


def _stream(name, space, kernel, n_bytes, scale, *inputs):
    n = inputs[-1].size
    views = [*(pk.copy_of(a, space) for a in inputs), pk.zeros((n,), np.float64, space)]
    call = common.launch_over(space, n, kernel, *scale, *views)
    title = f"{name} of {n:,} float64, {scaled(n_bytes, 'B')} to move"
    return _duel(title, space, call, views[-1], name, (scale, views), bytes=n_bytes)


def _cache_duels(space, quick):
    """Yield duels of triads on rows that fit into a core's private caches."""
    with pk.use(space) as here:
        sizes = dict(measuring.cpu_levels(here))
        shapes = {
            level: measuring.rows_in(here, sizes[level] // here.n_threads, quick) for level in ("L1", "L2")
        }
    for level, (league, length, trips) in shapes.items():
        views = measuring.three_rows(pk.copy_of(np.random.default_rng(0).random((league, 3, length)), space))
        policy, n_bytes = pk.TeamPolicy(league, space=space), 24 * league * length * trips
        call = functools.partial(pk.parallel_for, policy, kernels.triad_again, trips, measuring.SCALE, *views)
        title = f"triad in {level}, {trips:,} times on each of {league} rows of {length:,} float64"
        inputs = trips, measuring.SCALE, views
        yield _duel(title, space, call, views[-1], "triad_again", inputs, bytes=n_bytes)


def _near_gpu(space, quick):
    """Yield duels of reads of a team's scratch, and of two working sets that fit into L2."""
    league = (8,) if quick else ()
    with pk.use(space) as here:
        scratch = measuring.read_scratch(here, *league)
        sets = [measuring.read_around(here, n << 20, *league) for n in (16, 32)]
    trips, _, out = scratch.call.args[2:]
    yield _of_plan("shared memory", space, scratch, "read_scratch", (trips, out))
    for plan in sets:
        trips, leap, _, rows, out = plan.call.args[2:]
        inputs = rows.shape[0], leap, trips * kernels.ROWS, rows, out
        yield _of_plan("L2", space, plan, "read_around", inputs)


def _of_plan(what, space, plan, name, inputs):
    """Return the duel of one of our Plans, whose last input is written."""
    title, work = f"{what}: {plan.method}", {"bytes": plan.amount, "best": True}
    return _duel(title, space, plan.call, inputs[-1], name, inputs, **work)


def _peak(dtype, space, n, trips):
    ones = np.ones(n, dtype)
    out = pk.copy_of(ones, space)
    call = common.launch_over(space, n, *kernels.FMA, trips, B, C, out, chunk=measuring.CHUNK)
    operations = 2 * kernels.CHAINS * kernels.UNROLLED * trips * n
    title = f"{kernels.CHAINS} chains of {dtype} fused multiply-adds, {scaled(operations)} operations"
    inputs, tolerance = (n, trips * kernels.UNROLLED, B, C), 1e-5 if dtype == "float32" else 1e-12
    about = {"before": ones, "tolerance": tolerance, "flops": operations, "best": True}
    return _duel(title, space, call, out, f"fma_{dtype}", inputs, **about)


def _duel(title, space, call, out, name, inputs, before=0.0, tolerance=1e-14, **work):
    """Return the duel of a call that writes `out`, which contains `before` on both sides."""
    work |= {"result": common.written(call, out, before), "tolerance": tolerance}
    work["tools"] = ["cupy"] if space.startswith("cuda") else ["gcc"]
    return common.duel(title, space, call, "ceilings", name, kernels.CHAINS, *inputs, **work)
