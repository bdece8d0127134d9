"""Which micro-kernels measure which ceiling, at which sizes."""

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

_ASSUMED = (("L1", 32 << 10), ("L2", 512 << 10), ("L3", 8 << 20))  # where the system tells no sizes
_WORKING_SETS = tuple(1 << k for k in range(21, 29))  # 2 to 256 MiB
_TEAM = 256  # threads a team on a GPU
# indices a CPU's thread takes: some 20 microseconds, so that nobody waits long for the slowest at the end
CHUNK = 64
SCALE = 1e-3  # the triad's
IN_GRAPH = 100  # launches
# Of a measurement: short repeats, of which some meet no other work, over so long that they do not all meet
# the same
REPEATS, MOST_REPEATS, REPEAT_SECONDS, SPREAD_SECONDS = 15, 1000, 1e-3, 0.3
ALONE = 3  # a device is seldom shared: its repeats are spread over so much less
_CONSTANTS = {
    "fma": (0.999, 0.001),
    "no fma": (1.0, 1e-6),
    "integer": (5, 3),
    "special": (2.0, 1e-9),
}  # of order one


@dataclass(frozen=True)
class Plan:
    """How one ceiling is measured: `amount` of `unit` a call."""

    name: str
    unit: str
    amount: float
    call: Callable
    sync: Callable
    method: str
    shared: bool = True  # with work that nobody knows of

    def measure(self, quick):
        """The rate of each repeat; of the unit "s" the time itself of one of so many. Repeats go on until the
        best of them stands."""
        start, spread = time.perf_counter(), SPREAD_SECONDS if self.shared else SPREAD_SECONDS / ALONE

        def enough(values):
            return time.perf_counter() - start >= spread and steady(values)

        many = {"repeats": 3} if quick else {"repeats": REPEATS, "most": MOST_REPEATS, "enough": enough}
        seconds = timing.measure(self.call, self.sync, min_time=1e-4 if quick else REPEAT_SECONDS, **many)
        values = tuple(v / self.amount if self.unit == "s" else self.amount / v for v in seconds.values)
        return Samples(values, seconds.calls)


@dataclass(frozen=True)
class Held:
    """How much of a cache is there: of `sizes` the largest whose bytes are read and written rather like the
    smallest's than like the largest's. A cache that a machine's other guests share keeps less than it has."""

    name: str
    sizes: tuple
    plan: Callable  # of a size: its Plan
    unit: str = "byte"

    @property
    def method(self):
        """How it is found."""
        return "the largest working set that is copied rather like the smallest than like the largest"

    def measure(self, quick):
        """The bytes, of a few repeats."""
        plans, found = {size: self.plan(size) for size in self.sizes}, []
        for _ in range(timing.MIN_SAMPLES):
            rates = {size: max(plan.measure(quick=True).values) for size, plan in plans.items()}
            found.append(_largest_like_the_smallest(rates))
        return Samples(tuple(found))


def _largest_like_the_smallest(rates):
    """Of {size: rate} the largest size whose rate lies nearer to the highest than to the lowest."""
    between = math.sqrt(max(rates.values()) * min(rates.values()))
    return max(size for size, rate in rates.items() if rate >= between)


def check(space):
    """Refuse what has no speed to measure."""
    if space.name == "checked":
        raise SpaceUnavailableError(
            "ceilings: space 'checked' is an interpreter and has no ceilings; take 'serial', 'threads' or"
            " 'cuda'"
        )


def plans(space, quick):
    """What to measure on a space.

    Returns
    -------
    clock : callable that gives cycles per second or None, or None
    levels : list of (name, bytes)
    plans : list of Plan
    """
    gpu = space.name == "cuda"
    levels = gpu_levels(space, quick) if gpu else cpu_levels(space)
    found = [*_arithmetic(space, quick), *_conversions(space, quick), *_atomics(space, gpu, quick)]
    found += (_gpu_bandwidth if gpu else _cpu_bandwidth)(space, levels, quick)
    found += _launch(space, gpu)
    found = [replace(plan, shared=False) for plan in found] if gpu else found
    cycles = (
        functools.partial(_gpu_clock, space, found[0])
        if gpu and not quick
        else functools.partial(clock, quick)
    )
    return None if gpu and quick else cycles, levels, found


def _plan(space, name, unit, amount, method, policy, kernel, *args):
    call = functools.partial(pk.parallel_for, policy, kernel, *args)
    wait = functools.partial(pk.fence, space)
    return Plan(name, unit, amount, call, wait, method, shared=space.name != "cuda")


def _view(space, values, dtype):
    return pk.copy_of(np.asarray(values, dtype), space)


def _arithmetic(space, quick):
    """Peaks, and the special functions that most methods have: many indices, each with its chains."""
    n = _indices(space, quick)
    policy = pk.RangePolicy(0, n, space=space, chunk=CHUNK)
    steps = kernels.CHAINS * kernels.UNROLLED
    chains = [
        ("fma", kernels.fma, 2 * steps, "fused multiply-adds"),
        ("no fma", kernels.add_and_multiply, steps, "additions and multiplications, half each"),
    ]
    many, few = (2, 1) if quick else (64, 16) if space.name == "cuda" else (128, 128)  # a millisecond or so

    def plan(label, kernel, each, dtype, trips, method, unit):
        out = _view(space, np.ones(n), dtype)
        how = f"{method}, {trips} trips of {n:,} indices"
        return _plan(
            space,
            f"{label} {dtype}",
            unit,
            each * trips * n,
            how,
            policy,
            kernel,
            trips,
            *_CONSTANTS[label],
            out,
        )

    for dtype in ("float64", "float32"):
        for label, kernel, each, method in chains:
            yield plan(label, kernel, each, dtype, many, f"{kernels.CHAINS} chains of {method}", "flop")
        for label in kernels.FUNCTIONS:
            yield special(space, label, dtype, quick)
    if space.name == "cuda" and not quick:
        league, trips, out = 2**13, 256, _view(space, np.zeros(2**20), "float64")
        amount, policy = 2 * 32 * 128 * 4 * trips * league, pk.TeamPolicy(league, 128, space=space)
        method = f"team.product of 32 x 128 sums, {trips} times 4 columns and rows by {league:,} teams"
        yield _plan(
            space, "product float64", "flop", amount, method, policy, kernels.products, trips, 1e-3, out
        )
    for dtype in ("int64", "int32"):
        method = f"{kernels.CHAINS} chains of exclusive or and addition"
        yield plan("integer", kernels.integers, 2 * steps, dtype, few, method, "op")


def _conversions(space, quick):
    """Conversions there and back, of which each is taken to cost half."""
    n, trips = _indices(space, quick), 2 if quick else 16 if space.name == "cuda" else 128
    policy = pk.RangePolicy(0, n, space=space, chunk=CHUNK)
    for other, kernel in kernels.CONVERSIONS.items():
        method = f"float64 to {other} and back, {kernels.CHAINS} chains, {trips} trips of {n:,} indices"
        out, amount = _view(space, np.ones(n), "float64"), 2 * kernels.CHAINS * trips * n
        args = trips, *_CONSTANTS["no fma"], out
        yield _plan(space, f"convert {other}", "op", amount, method, policy, kernel, *args)


def special(space, name, dtype, quick=False):
    """The plan of a special function, or None for one that nobody can measure."""
    kernel = kernels.special(name)
    if kernel is None:
        return None
    n, trips = _indices(space, quick), 2 if quick else 25 if space.name == "cuda" else 100
    out, policy = _view(space, np.zeros(n), dtype), pk.RangePolicy(0, n, space=space, chunk=CHUNK)
    how = f"{kernels.FEW} calls in each of {trips} trips of {n:,} indices"
    return _plan(
        space,
        f"{name} {dtype}",
        "op",
        kernels.FEW * trips * n,
        how,
        policy,
        kernel,
        trips,
        *_CONSTANTS["special"],
        out,
    )


def _indices(space, quick):
    """Enough indices to fill the machine."""
    return 256 if quick else 2**22 if space.name == "cuda" else 2048 * space.n_threads


def _atomics(space, gpu, quick):
    n, trips = (64, 2) if quick else (2**18 if gpu else 1024 * space.n_threads, 16)
    policy, place = pk.RangePolicy(0, n, space=space), _view(space, np.zeros(n), "int64")
    for dtype in ("int64", "float64"):
        sums = _view(space, np.zeros(n), dtype)
        for name, where, kernel, args in (
            ("apart", "each to its own place", kernels.atomic_apart, (sums,)),
            ("together", "all to one place", kernels.atomic_together, (place, sums)),
        ):
            how = f"additions of {n:,} indices, {where}"
            yield _plan(space, f"atomic {name} {dtype}", "op", n * trips, how, policy, kernel, trips, *args)


def cpu_levels(space, folder="/sys/devices/system/cpu/cpu0/cache"):
    """(name, bytes of all threads together) of each cache, then memory."""
    found = dict(_ASSUMED)
    for index in sorted(Path(folder).glob("index*")):
        try:
            kind, level, size = ((index / name).read_text().strip() for name in ("type", "level", "size"))
        except OSError:
            continue  # not Linux, or a container that hides it
        if kind in ("Data", "Unified") and size.endswith("K"):
            found[f"L{level}"] = int(size[:-1]) << 10
    near = [
        (name, size * (space.n_threads if name in ("L1", "L2") else 1))
        for name, size in sorted(found.items())
    ]
    return [*near, ("DRAM", None)]


def rows_in(space, n_bytes, quick):
    """(rows, their length, trips over each) such that a triad's three rows fill two thirds of so many bytes,
    a core's cache.

    The three lie one behind the other, what is written in the middle: see `three_rows`.
    """
    length = max(64, n_bytes * 2 // 3 // 24 // 64 * 64)
    length -= (
        64 if length % 512 == 0 else 0
    )  # what lies 4 KiB apart waits for each other in a core's store buffer
    trips = 2 if quick else max(2, (64 << 20) // (24 * length))
    return (
        8 * space.n_threads,
        length,
        trips,
    )  # more rows than threads, so that no thread waits long for the last


def three_rows(block):
    """(b, c, a) for a triad in near memory: views of a block of shape (rows, 3, length)."""
    return block[:, 0], block[:, 2], block[:, 1]


def _cpu_bandwidth(space, levels, quick):
    """The triad: on rows that stay in a core's own cache, then over arrays that all cores share."""
    sizes = dict(levels)
    for name in ("L1", "L2"):
        league, length, trips = rows_in(space, sizes[name] // space.n_threads, quick)
        policy, method = (
            pk.TeamPolicy(league, space=space),
            f"triad on {3 * 8 * length >> 10} KiB a core, over and over",
        )
        (b, c, a), amount = three_rows(*_ones(space, (league, 3, length))), 24 * length * trips * league
        yield _plan(
            space,
            f"bandwidth {name}",
            "B",
            amount,
            method,
            policy,
            kernels.triad_again,
            trips,
            SCALE,
            b,
            c,
            a,
        )
        yield _plan(
            space,
            f"copy {name}",
            "B",
            amount * 2 // 3,
            method.replace("triad", "copy"),
            policy,
            kernels.copy_again,
            trips,
            b,
            a,
        )
        yield _plan(
            space,
            f"update {name}",
            "B",
            amount,
            method.replace("triad", "a += s b"),
            policy,
            kernels.update_again,
            trips,
            SCALE,
            b,
            a,
        )
        eight, out = _ones(space, (8 * league, max(64, length * 3 // 8)), (league,))
        method = f"{8 * eight.size // league >> 10} KiB a core, read over and over"
        yield _plan(
            space,
            f"read {name}",
            "B",
            8 * eight.size * trips,
            method,
            policy,
            kernels.read_again,
            trips,
            eight,
            out,
        )
    last = sizes.get("L3", sizes["L2"])
    near = min(last // 2, 4 * sizes["L2"])  # what others leave of the last cache holds so much
    if "L3" in sizes:
        few = 1 << 16 if quick else 2 * sizes["L2"]
        several = tuple(few << k for k in range(2 if quick else max(2, (2 * last // few).bit_length())))
        yield Held("capacity L3", several, lambda size: _copy_of(space, size))
    far = ("DRAM", min(max(4 * last, 256 << 20), _memory() // 8))
    yield from _gathers(
        space,
        [
            ("L1", sizes["L1"] // 2),
            ("L2", sizes["L2"] // 2),
            *([("L3", near)] if "L3" in sizes else []),
            far,
        ],
        quick,
    )
    for name, n_bytes in (("L3", near), ("DRAM", min(max(8 * last, 256 << 20), _memory() // 4))):
        if name in sizes:
            yield from _long(space, name, (1 << 16 if quick else n_bytes) // 24)


def _gathers(space, levels, quick):
    """Elements of a table in a level that are read in no order: what a processor has in flight, not its
    bandwidth, decides."""
    # so many that a launch's cost is a small part
    place, least = np.random.default_rng(0), 1 << 22 if space.name == "cuda" else 1 << 18
    for name, n_bytes in levels:
        n = (
            1 << 10 if quick else min(max(n_bytes // 64, least), 1 << 23)
        )  # as many as lines, so that repeats find none nearer
        policy, (table,) = (
            pk.RangePolicy(0, n, space=space),
            _ones(space, ((1 << 12 if quick else n_bytes) // 8,)),
        )
        at = pk.copy_of(place.integers(0, table.shape[0], n), space)
        call = functools.partial(pk.parallel_reduce, policy, kernels.element_at, at, table)
        method = f"{n:,} elements in no order, of {8 * table.shape[0] / 1e6:,.1f} MB"
        yield Plan(f"gather {name}", "op", n, call, functools.partial(pk.fence, space), method)


def _copy_of(space, n_bytes):
    """A copy from one half of so many bytes to the other."""
    n = n_bytes // 16
    policy = pk.RangePolicy(0, n, space=space)
    return _plan(space, "copy", "B", 16 * n, "copy", policy, kernels.copy, *_ones(space, (n,), (n,)))


def _ones(space, *shapes):
    """Arrays that have been written: pages of memory that never were are one and the same, and lie in the
    first cache."""
    views = [pk.empty(shape, "float64", space) for shape in shapes]
    for view in views:
        pk.deep_copy(view, 1.0)
    return views


def _memory():
    """Bytes of the machine's memory."""
    return psutil.virtual_memory().total


def _long(space, level, n):
    """Triad, copy, update and sum over arrays of n elements: what moves bytes fastest differs between
    machines."""
    policy, arrays = pk.RangePolicy(0, n, space=space), _ones(space, *[(n,)] * 3)
    megabytes = f"{24 * n / 1e6:,.0f} MB"
    yield _plan(
        space,
        f"bandwidth {level}",
        "B",
        24 * n,
        f"triad over {megabytes}",
        policy,
        kernels.triad,
        SCALE,
        *arrays,
    )
    yield _plan(
        space,
        f"copy {level}",
        "B",
        16 * n,
        f"copy, {16 * n / 1e6:,.0f} MB",
        policy,
        kernels.copy,
        *arrays[:2],
    )
    yield _plan(
        space,
        f"update {level}",
        "B",
        24 * n,
        f"a += s b, {megabytes}",
        policy,
        kernels.update,
        SCALE,
        *arrays[:2],
    )
    call = functools.partial(pk.parallel_reduce, policy, kernels.element, arrays[0])
    yield Plan(
        f"read {level}",
        "B",
        8 * n,
        call,
        functools.partial(pk.fence, space),
        f"sum over {8 * n / 1e6:,.0f} MB",
    )


def gpu_levels(space, quick):
    """L2 and memory. What L2 holds shows in how fast working sets are read: those that fit more like the
    fastest than like the slowest, which comes from memory."""
    if quick:
        return [("L2", 1 << 20), ("HBM", None)]
    rates = {size: max(read_around(space, size).measure(quick=True).values) for size in _WORKING_SETS}
    return [("L2", _largest_like_the_smallest(rates)), ("HBM", None)]


def read_around(space, n_bytes, league=2048):
    """A working set in rows of 8 KiB, read by all teams until each has read 64 rows."""
    length, trips = kernels.MOST * _TEAM, 64 // kernels.ROWS
    rows, out = _ones(space, (n_bytes // 8 // length, length), (league,))
    policy, method = (
        pk.TeamPolicy(league, _TEAM, space=space),
        f"{n_bytes >> 20} MiB, read by all teams in turn",
    )
    args = trips, round(kernels.LEAP * rows.shape[0]), pk.static(length), rows, out
    return _plan(
        space,
        "read L2",
        "B",
        8 * length * kernels.ROWS * trips * league,
        method,
        policy,
        kernels.read_around,
        *args,
    )


def read_scratch(space, league=2048, trips=512):
    """Scratch of 32 KiB a team, read over and over."""
    width, out = kernels.BAND * kernels.BANDS, pk.zeros((league,), "float64", space)
    method, amount = (
        f"{8 * width >> 10} KiB of scratch a team, read over and over",
        8 * league * trips * kernels.BANDS * _TEAM,
    )
    args = trips, pk.static(width), out
    return _plan(
        space,
        "bandwidth shared",
        "B",
        amount,
        method,
        pk.TeamPolicy(league, _TEAM, space=space),
        kernels.read_scratch,
        *args,
    )


def _gpu_bandwidth(space, levels, quick):
    yield read_scratch(space, *((8, 2) if quick else ()))
    yield read_around(space, levels[0][1] // 2, *((8,) if quick else ()))
    yield from _long(space, "HBM", 1 << 12 if quick else 1 << 27)
    yield from _gathers(space, [("L2", levels[0][1] // 2), ("HBM", 1 << 30)], quick)


def _launch(space, gpu):
    """Launches in a graph, of one index, which is the least; one by one, and each with the wait for its end:
    of one index on a GPU, of a pack a thread on a CPU."""
    n = 1 if gpu else 16 * space.n_threads
    out, policy = (
        pk.zeros((n,), "float64", space),
        pk.RangePolicy(0, n, space=space, chunk=None if gpu else 16),
    )
    wait = functools.partial(pk.fence, space)
    with pk.use(space), pk.capture(space) as graph:
        for _ in range(IN_GRAPH):
            pk.parallel_for(pk.RangePolicy(0, 1, space=space), kernels.nothing, out)
    yield Plan(
        "launch", "s", IN_GRAPH, graph.replay, wait, f"a kernel that does nothing, {IN_GRAPH} in a graph"
    )
    yield _plan(
        space,
        "launch call",
        "s",
        1,
        "a kernel that does nothing, many in a row",
        policy,
        kernels.nothing,
        out,
    )

    def call():
        pk.parallel_for(policy, kernels.nothing, out)
        wait()

    yield Plan("round trip", "s", 1, call, wait, "a kernel that does nothing, and the wait for its end")


def clock(quick=False):
    """Cycles per second of one core, by a chain of operations of one cycle each."""
    trips, space = 100_000 if quick else 2_000_000, "serial"
    policy, out = pk.RangePolicy(0, 8, space=space), _view(space, np.ones(8), "int64")
    call = functools.partial(pk.parallel_for, policy, kernels.dependent, trips, *_CONSTANTS["integer"], out)
    return 2 * trips / min(timing.measure(call, min_time=1e-3, repeats=5).values)


def _gpu_clock(space, plan):
    """Cycles per second of a GPU at work, by the driver's own tool; None where that is missing or tells
    nothing."""
    for _ in range(timing.QUEUE):  # half a second or more, in which the tool looks
        plan.call()
    number = str(space).partition(":")[2] or "0"
    command = ["nvidia-smi", f"--id={number}", "--query-gpu=clocks.sm", "--format=csv,noheader,nounits"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        told = ""
    plan.sync()
    return 1e6 * float(told) if re.fullmatch(r"\s*\d+\s*", told) else None
