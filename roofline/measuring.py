"""List the micro-kernels of each ceiling, and their sizes."""

import functools
import math
import re
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import psutil

import portable as pk
from portable.errors import SpaceUnavailableError
from portable.roofline import microkernels as kernels
from portable.roofline import timing
from portable.roofline.physics import steady
from portable.roofline.timing import Samples

_ASSUMED = (("L1", 32 << 10), ("L2", 512 << 10), ("L3", 8 << 20))  # if the system reports no sizes
_WORKING_SETS = tuple(1 << k for k in range(21, 29))  # 2 to 256 MiB
_TEAM = 256  # threads of a team on a GPU
# indices of a CPU's thread: some 20 microseconds, so that the wait for the slowest thread at the end is short
CHUNK = 64
SCALE = 1e-3  # the factor of the triad
IN_GRAPH = 100  # launches
# Of a measurement: short repeats, some of which are undisturbed by other work, over a period longer than
# disturbances
REPEATS, MOST_REPEATS, REPEAT_SECONDS, SPREAD_SECONDS = 15, 1000, 1e-3, 0.3
ALONE = 3  # a device is seldom shared: its repeats are spread over a shorter time by this factor
ADDED = 1.0, 1e-6  # numbers of order one
# name, type or types, unit and operations of a step of a chain, iterations on a GPU and a CPU, steps of both
# halves of the chains, their numbers, description
CHAINS = (
    (
        "fma {}",
        "float64 float32",
        "flop",
        2,
        (64, 128),
        kernels.FMA[1:],
        (0.999, 0.001),
        "fused multiply-adds",
    ),
    (
        *("no fma {}", "float64 float32", "flop", 1, (64, 128), (kernels.multiplied, kernels.added), ADDED),
        "additions and multiplications, half each",
    ),
    (
        *("integer {}", "int64 int32", "op", 2, (16, 128), (kernels.mixed, kernels.mixed), (5, 3)),
        "exclusive or and addition",
    ),
    (
        *("convert int64", "float64", "op", 2, (2, 16), (kernels.through_int64,) * 2, ADDED),
        "float64 to int64 and back",
    ),
    (
        *("convert float32", "float64", "op", 2, (2, 16), (kernels.through_float32,) * 2, ADDED),
        "float64 to float32 and back",
    ),
)


@dataclass(frozen=True)
class Plan:
    """Store how to measure one ceiling: `amount` of `unit` for each call."""

    name: str
    unit: str
    amount: float
    call: Callable
    sync: Callable
    method: str
    shared: bool = True  # with unknown other work

    def measure(self, quick):
        """Return the rate of each repeat; for the unit "s" the time divided by `amount`. Repeats continue
        until their best rate is steady."""
        start, spread = time.perf_counter(), SPREAD_SECONDS if self.shared else SPREAD_SECONDS / ALONE

        def enough(values):
            return time.perf_counter() - start >= spread and steady(values)

        many = {"repeats": 3} if quick else {"repeats": REPEATS, "most": MOST_REPEATS, "enough": enough}
        seconds = timing.measure(self.call, self.sync, min_time=1e-4 if quick else REPEAT_SECONDS, **many)
        values = tuple(v / self.amount if self.unit == "s" else self.amount / v for v in seconds.values)
        return Samples(values, seconds.calls)


@dataclass(frozen=True)
class Held:
    """Measure the usable size of a cache: the largest of `sizes` whose copy rate is closer to that of the
    smallest than to that of the largest. A cache that is shared with other users of the machine holds less
    than its size."""

    name: str
    sizes: tuple
    plan: Callable  # returns the Plan of a size
    unit: str = "byte"
    method: str = "the largest working set that is copied rather like the smallest than like the largest"

    def measure(self, quick):
        """Return the bytes of a few repeats."""
        plans, found = {size: self.plan(size) for size in self.sizes}, []
        for _ in range(timing.MIN_SAMPLES):
            rates = {size: max(plan.measure(quick=True).values) for size, plan in plans.items()}
            found.append(_largest_like_the_smallest(rates))
        return Samples(tuple(found))


def _largest_like_the_smallest(rates):
    """Return the largest size of {size: rate} whose rate is closer to the highest than to the lowest."""
    between = math.sqrt(max(rates.values()) * min(rates.values()))
    return max(size for size, rate in rates.items() if rate >= between)


def check(space):
    """Raise for a space without a speed to measure."""
    if space.name == "checked":
        raise SpaceUnavailableError(
            "ceilings: space 'checked' is an interpreter and has no ceilings; take 'serial', 'threads' or"
            " 'cuda'"
        )


def plans(space, quick):
    """Return the measurements of a space.

    Returns
    -------
    clock : callable that gives cycles per second or None, or None
    levels : list of (name, bytes)
    plans : list of Plan
    """
    gpu = space.name == "cuda"
    levels = gpu_levels(space, quick) if gpu else cpu_levels(space)
    found = [*_arithmetic(space, quick), *_atomics(space, gpu, quick)]
    found += (_gpu_bandwidth if gpu else _cpu_bandwidth)(space, levels, quick)
    found += _launch(space, gpu)
    found = [replace(plan, shared=False) for plan in found] if gpu else found
    cycles = functools.partial(_gpu_clock, space, found[0]) if gpu else functools.partial(clock, quick)
    return None if gpu and quick else cycles, levels, found


def _plan(space, name, unit, amount, method, policy, kernel, *args):
    call = functools.partial(pk.parallel_for, policy, kernel, *args)
    return Plan(name, unit, amount, call, _wait(space), method)


def _wait(space):
    return functools.partial(pk.fence, space)


def _view(space, values, dtype):
    return pk.copy_of(np.asarray(values, dtype), space)


def _arithmetic(space, quick):
    """Yield the plans of peaks, and of frequent special functions: many indices, each with its chains."""
    n, gpu = _indices(space, quick), space.name == "cuda"
    policy, steps = pk.RangePolicy(0, n, space=space, chunk=CHUNK), kernels.CHAINS * kernels.UNROLLED * n
    for name, dtypes, unit, each, many, halves, numbers, method in CHAINS:
        trips = 1 if quick else many[not gpu]
        how = f"{kernels.CHAINS} chains of {method}, {trips} trips of {n:,} indices"
        for dtype in dtypes.split():
            launch = kernels.chains, *halves, trips, *numbers, _view(space, np.ones(n), dtype)
            yield _plan(space, name.format(dtype), unit, each * trips * steps, how, policy, *launch)
    for dtype in ("float64", "float32"):
        for name in kernels.FUNCTIONS:
            yield special(space, name, dtype, quick)
    if gpu and not quick:
        league, trips, out = 2**13, 256, _view(space, np.zeros(2**20), "float64")
        amount, policy = 2 * 32 * 128 * 4 * trips * league, pk.TeamPolicy(league, 128, space=space)
        how = f"team.product of 32 x 128 sums, {trips} times 4 columns and rows by {league:,} teams"
        yield _plan(space, "product float64", "flop", amount, how, policy, kernels.products, trips, 1e-3, out)


def special(space, name, dtype, quick=False):
    """Return the plan of a special function, or None if it cannot be measured."""
    if (found := kernels.special(name)) is None:
        return None
    n, trips = _indices(space, quick), 2 if quick else 25 if space.name == "cuda" else 100
    policy, amount = pk.RangePolicy(0, n, space=space, chunk=CHUNK), kernels.FEW * trips * n
    how = f"{kernels.FEW} calls in each of {trips} trips of {n:,} indices"
    launch = *found, trips, 2.0, 1e-9, _view(space, np.zeros(n), dtype)
    return _plan(space, f"{name} {dtype}", "op", amount, how, policy, *launch)


def _indices(space, quick):
    """Return the number of indices that fills the machine."""
    return 256 if quick else 2**22 if space.name == "cuda" else 2048 * space.n_threads


def _atomics(space, gpu, quick):
    n, trips = (64, 2) if quick else (2**18 if gpu else 1024 * space.n_threads, 16)
    policy = pk.RangePolicy(0, n, space=space)
    for dtype in ("int64", "float64"):
        for name, where, place in (
            ("apart", "each to its own place", np.arange(n)),
            ("together", "all to one place", np.zeros(n)),
        ):
            how, at = f"additions of {n:,} indices, {where}", _view(space, place, "int64")
            launch = kernels.atomics, trips, at, _view(space, np.zeros(n), dtype)
            yield _plan(space, f"atomic {name} {dtype}", "op", n * trips, how, policy, *launch)


def cpu_levels(space, folder="/sys/devices/system/cpu/cpu0/cache"):
    """Return (name, bytes of all threads together) of each cache, then memory."""
    found = dict(_ASSUMED)
    for index in sorted(Path(folder).glob("index*")):
        try:
            kind, level, size = ((index / name).read_text().strip() for name in ("type", "level", "size"))
        except OSError:
            continue  # not Linux, or a container that hides the folder
        if kind in ("Data", "Unified") and size.endswith("K"):
            found[f"L{level}"] = int(size[:-1]) << 10
    of_each = dict.fromkeys(("L1", "L2"), space.n_threads)
    return [*((name, size * of_each.get(name, 1)) for name, size in sorted(found.items())), ("DRAM", None)]


def rows_in(space, n_bytes, quick):
    """Return (rows, their length, iterations over each) such that a triad's three rows fill two thirds of
    `n_bytes`, a core's cache.

    The three rows are contiguous, the written one in the middle: see `three_rows`.
    """
    length = max(64, n_bytes * 2 // 3 // 24 // 64 * 64)
    # accesses 4 KiB apart wait for each other in a core's store buffer
    length -= 64 * (length % 512 == 0)
    # more rows than threads, so that no thread waits long for the last one
    return 8 * space.n_threads, length, 2 if quick else max(2, (64 << 20) // (24 * length))


def three_rows(block):
    """Return (b, c, a) for a triad in near memory: views of a block of shape (rows, 3, length)."""
    return block[:, 0], block[:, 2], block[:, 1]


def _cpu_bandwidth(space, levels, quick):
    """Yield the plans of triads: on rows that fit into a core's private cache, then over arrays of all
    cores."""
    sizes = dict(levels)
    for name in ("L1", "L2"):
        league, length, trips = rows_in(space, sizes[name] // space.n_threads, quick)
        policy, often = pk.TeamPolicy(league, space=space), "KiB a core, over and over"
        for what, method, each, _, kernel, args in _patterns(*three_rows(*_ones(space, (league, 3, length)))):
            method, n_bytes = f"{method} on {3 * 8 * length >> 10} {often}", each * length * trips * league
            yield _plan(space, f"{what} {name}", "B", n_bytes, method, policy, kernel, trips, *args)
        eight, out = _ones(space, (8 * league, max(64, length * 3 // 8)), (league,))
        method, launch = f"{8 * eight.size // league >> 10} {often}", (kernels.read_again, trips, eight, out)
        yield _plan(space, f"read {name}", "B", 8 * eight.size * trips, method, policy, *launch)
    last = sizes.get("L3", sizes["L2"])
    near = min(last // 2, 4 * sizes["L2"])  # fits into the part of the last cache that others leave
    if "L3" in sizes:
        few = 1 << 16 if quick else 2 * sizes["L2"]
        several = tuple(few << k for k in range(2 if quick else max(2, (2 * last // few).bit_length())))
        yield Held("capacity L3", several, lambda size: _copy_of(space, size))
    far = ("DRAM", min(max(4 * last, 256 << 20), _memory() // 8))
    third = [("L3", near)] if "L3" in sizes else []
    halves = [(name, sizes[name] // 2) for name in ("L1", "L2")]
    yield from _gathers(space, [*halves, *third, far], quick)
    for name, n_bytes in (("L3", near), ("DRAM", min(max(8 * last, 256 << 20), _memory() // 4))):
        if name in sizes:
            yield from _long(space, name, (1 << 16 if quick else n_bytes) // 24)


def _gathers(space, levels, quick):
    """Yield the plans of reads of a table in a level in random order: their rate is determined by the number
    of outstanding loads, not by bandwidth."""
    # enough elements to make a launch's cost a small part
    place, least = np.random.default_rng(0), 1 << 22 if space.name == "cuda" else 1 << 18
    for name, n_bytes in levels:
        # as many elements as lines, so that repeats find none in a nearer level
        n = 1 << 10 if quick else min(max(n_bytes // 64, least), 1 << 23)
        policy = pk.RangePolicy(0, n, space=space)
        (table,) = _ones(space, ((1 << 12 if quick else n_bytes) // 8,))
        at = pk.copy_of(place.integers(0, table.shape[0], n), space)
        call = functools.partial(pk.parallel_reduce, policy, kernels.element_at, at, table)
        method = f"{n:,} elements in no order, of {8 * table.shape[0] / 1e6:,.1f} MB"
        yield Plan(f"gather {name}", "op", n, call, _wait(space), method)


def _copy_of(space, n_bytes):
    """Return the plan of a copy from one half of `n_bytes` to the other."""
    n = n_bytes // 16
    policy = pk.RangePolicy(0, n, space=space)
    return _plan(space, "copy", "B", 16 * n, "copy", policy, kernels.copy, *_ones(space, (n,), (n,)))


def _ones(space, *shapes):
    """Return arrays of ones: memory pages that were never written share one physical page, which stays in the
    first cache."""
    views = [pk.empty(shape, "float64", space) for shape in shapes]
    for view in views:
        pk.deep_copy(view, 1.0)
    return views


def _memory():
    """Return the bytes of the machine's memory."""
    return psutil.virtual_memory().total


def _patterns(b, c, a):
    """Return (name of the ceiling, method, bytes an element, kernel, kernel of a team's rows, arguments) of
    the access patterns."""
    return (
        ("bandwidth", "triad", 24, kernels.triad, kernels.triad_again, (SCALE, b, c, a)),
        ("copy", "copy", 16, kernels.copy, kernels.copy_again, (b, a)),
        ("update", "a += s b", 24, kernels.update, kernels.update_again, (SCALE, b, a)),
    )


def _long(space, level, n):
    """Yield the plans of triad, copy, update and sum over arrays of n elements: the fastest pattern differs
    between machines."""
    policy, (b, c, a) = pk.RangePolicy(0, n, space=space), _ones(space, *[(n,)] * 3)
    for what, method, each, kernel, _, args in _patterns(b, c, a):
        method += f" over {each * n / 1e6:,.0f} MB"
        yield _plan(space, f"{what} {level}", "B", each * n, method, policy, kernel, *args)
    call, wait = functools.partial(pk.parallel_reduce, policy, kernels.element, b), _wait(space)
    yield Plan(f"read {level}", "B", 8 * n, call, wait, f"sum over {8 * n / 1e6:,.0f} MB")


def gpu_levels(space, quick):
    """Return the levels L2 and memory. The capacity of L2 is derived from read rates: of working sets whose
    rate is closer to the fastest than to the slowest, which is that of memory, the largest."""
    if quick:
        return [("L2", 1 << 20), ("HBM", None)]
    rates = {size: max(read_around(space, size).measure(quick=True).values) for size in _WORKING_SETS}
    return [("L2", _largest_like_the_smallest(rates)), ("HBM", None)]


def read_around(space, n_bytes, league=2048):
    """Return the plan of reading a working set in rows of 8 KiB, by all teams until each has read 64 rows."""
    length, trips = kernels.MOST * _TEAM, 64 // kernels.ROWS
    rows, out = _ones(space, (n_bytes // 8 // length, length), (league,))
    policy, amount = pk.TeamPolicy(league, _TEAM, space=space), 8 * length * kernels.ROWS * trips * league
    launch = kernels.read_around, trips, round(kernels.LEAP * rows.shape[0]), pk.static(length), rows, out
    method = f"{n_bytes >> 20} MiB, read by all teams in turn"
    return _plan(space, "read L2", "B", amount, method, policy, *launch)


def read_scratch(space, league=2048, trips=512):
    """Return the plan of reading scratch of 32 KiB a team repeatedly."""
    width, out = kernels.BAND * kernels.BANDS, pk.zeros((league,), "float64", space)
    policy, amount = pk.TeamPolicy(league, _TEAM, space=space), 8 * league * trips * kernels.BANDS * _TEAM
    method, launch = (
        f"{8 * width >> 10} KiB of scratch a team, read over and over",
        (trips, pk.static(width), out),
    )
    return _plan(space, "bandwidth shared", "B", amount, method, policy, kernels.read_scratch, *launch)


def _gpu_bandwidth(space, levels, quick):
    yield read_scratch(space, *((8, 2) if quick else ()))
    yield read_around(space, levels[0][1] // 2, *((8,) if quick else ()))
    yield from _long(space, "HBM", 1 << 12 if quick else 1 << 27)
    yield from _gathers(space, [("L2", levels[0][1] // 2), ("HBM", 1 << 30)], quick)


def _launch(space, gpu):
    """Yield the plans that time launches of an empty kernel: replayed in a graph, with one index (the least
    cost of a launch); one call after the other; and one call followed by a wait for its end. The last two
    have one index on a GPU, and one pack per thread on a CPU."""
    n = 1 if gpu else 16 * space.n_threads
    out = pk.zeros((n,), "float64", space)
    policy = pk.RangePolicy(0, n, space=space, chunk=None if gpu else 16)
    wait, nothing = _wait(space), "a kernel that does nothing"
    with pk.use(space), pk.capture(space) as graph:
        for _ in range(IN_GRAPH):
            pk.parallel_for(pk.RangePolicy(0, 1, space=space), kernels.empty_launch, out)
    yield Plan("launch", "s", IN_GRAPH, graph.replay, wait, f"{nothing}, {IN_GRAPH} in a graph")
    alone = _plan(
        space, "launch call", "s", 1, f"{nothing}, many in a row", policy, kernels.empty_launch, out
    )

    def call():
        alone.call()
        wait()

    yield alone
    yield Plan("round trip", "s", 1, call, wait, f"{nothing}, and the wait for its end")


def clock(quick=False):
    """Return the cycles per second of one core, from a chain of operations of one cycle each."""
    trips, space = 100_000 if quick else 2_000_000, "serial"
    policy, out = pk.RangePolicy(0, 8, space=space), _view(space, np.ones(8), "int64")
    call = functools.partial(pk.parallel_for, policy, kernels.dependent, trips, 5, 3, out)
    return 2 * trips / min(timing.measure(call, min_time=1e-3, repeats=5).values)


def _gpu_clock(space, plan):
    """Return the cycles per second of a GPU under load, from the driver's own tool; None if that is missing
    or reports nothing."""
    for _ in range(timing.QUEUE):  # half a second or more, during which the tool reads the clock
        plan.call()
    number = str(space).partition(":")[2] or "0"
    command = ["nvidia-smi", f"--id={number}", "--query-gpu=clocks.sm", "--format=csv,noheader,nounits"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        told = ""
    plan.sync()
    return 1e6 * float(told) if re.fullmatch(r"\s*\d+\s*", told) else None
