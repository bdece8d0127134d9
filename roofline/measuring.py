"""Which micro-kernels measure which ceiling, at which sizes."""

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import portable as pk
from portable.errors import SpaceUnavailableError
from roofline import microkernels as kernels
from roofline import timing
from roofline.timing import Samples

_ASSUMED = (("L1", 32 << 10), ("L2", 512 << 10), ("L3", 8 << 20))  # where the system tells no sizes
_CONSTANTS = {"fma": (0.999, 0.001), "no fma": (1.0, 1e-6), "integer": (5, 3)}  # values stay of order one


@dataclass(frozen=True)
class Plan:
    """How one ceiling is measured: `amount` of `unit` a call."""

    name: str
    unit: str
    amount: float
    call: Callable
    sync: Callable
    method: str

    def measure(self, quick):
        """The rate of each repeat; of the unit "s" the time itself."""
        seconds = timing.measure(self.call, self.sync, min_time=1e-4 if quick else 0.01, repeats=3 if quick else 15)
        values = seconds.values if self.unit == "s" else tuple(self.amount / v for v in seconds.values)
        return Samples(values, seconds.calls)


def check(space):
    """Refuse what has no speed to measure."""
    if space.name == "checked":
        raise SpaceUnavailableError(
            "ceilings: space 'checked' is an interpreter and has no ceilings; take 'serial', 'threads' or 'cuda'"
        )


def plans(space, quick):
    """What to measure on a space.

    Returns
    -------
    clock : callable that gives cycles per second, or None
    levels : list of (name, bytes)
    plans : list of Plan
    """
    gpu = space.name == "cuda"
    levels = _gpu_levels() if gpu else _cpu_levels(space)
    found = [*_arithmetic(space, quick), *_atomics(space, gpu, quick)]
    found += _gpu_bandwidth(space, quick) if gpu else _cpu_bandwidth(space, levels, quick)
    found += _launch(space, gpu)
    return None if gpu else functools.partial(clock, quick), levels, found


def _plan(space, name, unit, amount, method, policy, kernel, *args):
    call = functools.partial(pk.parallel_for, policy, kernel, *args)
    return Plan(name, unit, amount, call, functools.partial(pk.fence, space), method)


def _view(space, values, dtype):
    return pk.copy_of(np.asarray(values, dtype), space)


def _arithmetic(space, quick):
    """Peaks, and the special functions that most methods have: many indices, each with its chains."""
    n = _indices(space, quick)
    policy = pk.RangePolicy(0, n, space=space)
    steps = kernels.CHAINS * kernels.UNROLLED
    chains = [
        ("fma", kernels.fma, 2 * steps, "fused multiply-adds"),
        ("no fma", kernels.add_and_multiply, steps, "additions and multiplications, half each"),
    ]
    many, few = (2, 1) if quick else (64, 16) if space.name == "cuda" else (128, 128)  # a millisecond or so

    def plan(label, kernel, each, dtype, trips, method, unit):
        b, c = (_view(space, [v], dtype) for v in _CONSTANTS.get(label, (2.0, 0.0)))
        out = _view(space, np.ones(n), dtype)
        how = f"{method}, {trips} trips of {n:,} indices"
        return _plan(space, f"{label} {dtype}", unit, each * trips * n, how, policy, kernel, trips, b, c, out)

    for dtype in ("float64", "float32"):
        for label, kernel, each, method in chains:
            yield plan(label, kernel, each, dtype, many, f"{kernels.CHAINS} chains of {method}", "flop")
        for label in kernels.FUNCTIONS:
            yield special(space, label, dtype, quick)
    for dtype in ("int64", "int32"):
        method = f"{kernels.CHAINS} chains of exclusive or and addition"
        yield plan("integer", kernels.integers, 2 * steps, dtype, few, method, "op")


def special(space, name, dtype, quick=False):
    """The plan of a special function, or None for one that nobody can measure."""
    kernel = kernels.special(name)
    if kernel is None:
        return None
    n, trips = _indices(space, quick), 2 if quick else 25 if space.name == "cuda" else 100
    b, c, out = (_view(space, v, dtype) for v in ([2.0], [1e-9], np.zeros(n)))
    how = f"{kernels.FEW} calls in each of {trips} trips of {n:,} indices"
    return _plan(
        space,
        f"{name} {dtype}",
        "op",
        kernels.FEW * trips * n,
        how,
        pk.RangePolicy(0, n, space=space),
        kernel,
        trips,
        b,
        c,
        out,
    )


def _indices(space, quick):
    """Enough indices to fill the machine."""
    return 256 if quick else 2**22 if space.name == "cuda" else 1024 * space.n_threads


def _atomics(space, gpu, quick):
    n, trips = (64, 2) if quick else (2**18 if gpu else 1024 * space.n_threads, 16)
    policy, counts = pk.RangePolicy(0, n, space=space), _view(space, np.zeros(n), "int64")
    for name, kernel in (("apart", kernels.atomic_apart), ("together", kernels.atomic_together)):
        method = f"additions of {n:,} indices, {'each to its own place' if name == 'apart' else 'all to one place'}"
        yield _plan(space, f"atomic {name} int64", "op", n * trips, method, policy, kernel, trips, counts)


def _cpu_levels(space, folder="/sys/devices/system/cpu/cpu0/cache"):
    """(name, bytes of all threads together) of each cache, then memory."""
    found = dict(_ASSUMED)
    for index in sorted(Path(folder).glob("index*")):
        try:
            kind, level, size = ((index / name).read_text().strip() for name in ("type", "level", "size"))
        except OSError:
            continue  # not Linux, or a container that hides it
        if kind in ("Data", "Unified") and size.endswith("K"):
            found[f"L{level}"] = int(size[:-1]) << 10
    near = [(name, size * (space.n_threads if name in ("L1", "L2") else 1)) for name, size in sorted(found.items())]
    return [*near, ("DRAM", None)]


def _cpu_bandwidth(space, levels, quick):
    """The triad: on rows that stay in a core's own cache, then over arrays that all cores share."""
    sizes, scale = dict(levels), _view(space, [1e-3], "float64")
    league = 8 * space.n_threads  # more rows than threads, so that no thread waits for the last
    for name in ("L1", "L2"):
        length = max(64, sizes[name] // space.n_threads // 2 // 24 // 64 * 64)  # half a cache for three rows
        trips = 2 if quick else max(2, (64 << 20) // (24 * length * 8))
        rows = [pk.zeros((league, length), "float64", space) for _ in range(3)]
        method = f"triad on {3 * 8 * length >> 10} KiB a core, over and over"
        yield _plan(
            space,
            f"bandwidth {name}",
            "B",
            24 * length * trips * league,
            method,
            pk.TeamPolicy(league, space=space),
            kernels.triad_again,
            trips,
            scale,
            *rows,
        )
        eight, out = (
            pk.zeros((8 * league, max(64, length * 3 // 8)), "float64", space),
            pk.zeros((league,), "float64", space),
        )
        n_bytes = 8 * eight.size
        yield _plan(
            space,
            f"read {name}",
            "B",
            n_bytes * trips,
            f"{n_bytes // league >> 10} KiB a core, read over and over",
            pk.TeamPolicy(league, space=space),
            kernels.read_again,
            trips,
            eight,
            out,
        )
    last = sizes.get("L3", sizes["L2"])
    for name, n_bytes in (("L3", last // 2), ("DRAM", min(max(8 * last, 256 << 20), _memory() // 4))):
        if name in sizes:
            yield from _long(space, name, (1 << 16 if quick else n_bytes) // 24, scale)


def _memory():
    """Bytes of the machine's memory, or 2 GiB where it does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 2 << 30


def _long(space, level, n, scale):
    """Triad and sum over arrays of n elements."""
    policy, arrays = pk.RangePolicy(0, n, space=space), [pk.zeros((n,), "float64", space) for _ in range(3)]
    megabytes = f"{24 * n / 1e6:,.0f} MB"
    yield _plan(
        space, f"bandwidth {level}", "B", 24 * n, f"triad over {megabytes}", policy, kernels.triad, scale, *arrays
    )
    yield _plan(space, f"copy {level}", "B", 16 * n, f"copy, {16 * n / 1e6:,.0f} MB", policy, kernels.copy, *arrays[:2])
    call = functools.partial(pk.parallel_reduce, policy, kernels.element, arrays[0])
    yield Plan(f"read {level}", "B", 8 * n, call, functools.partial(pk.fence, space), f"sum over {8 * n / 1e6:,.0f} MB")


def _gpu_levels():
    return [("L2", 32 << 20), ("HBM", None)]


def _gpu_bandwidth(space, quick):
    league, length, trips = (8, 64, 2) if quick else (2048, 1024, 64)
    policy, out = pk.TeamPolicy(league, 256, space=space), pk.zeros((league,), "float64", space)
    width = 64 if quick else 2048
    yield _plan(
        space,
        "bandwidth shared",
        "B",
        8 * league * trips * width,
        f"{8 * width >> 10} KiB of scratch a team, read over and over",
        policy,
        kernels.read_scratch,
        trips,
        pk.static(width),
        out,
    )
    rows = pk.zeros((league, length), "float64", space)
    yield _plan(
        space,
        "read L2",
        "B",
        8 * league * length * trips,
        f"{8 * league * length >> 20} MiB, read by all teams in turn",
        policy,
        kernels.read_around,
        trips,
        rows,
        out,
    )
    yield from _long(space, "HBM", 1 << 12 if quick else 1 << 27, _view(space, [1e-3], "float64"))


def _launch(space, gpu):
    """Launches, and a launch with the wait for its end: of one index on a GPU, of one pack a thread on a CPU."""
    n = 1 if gpu else 16 * space.n_threads
    out, policy = pk.zeros((n,), "float64", space), pk.RangePolicy(0, n, space=space, chunk=None if gpu else 16)
    wait = functools.partial(pk.fence, space)
    yield _plan(space, "launch", "s", 1, "a kernel that does nothing, many in a row", policy, kernels.nothing, out)

    def call():
        pk.parallel_for(policy, kernels.nothing, out)
        wait()

    yield Plan("round trip", "s", 1, call, wait, "a kernel that does nothing, and the wait for its end")


def clock(quick=False):
    """Cycles per second of one core, by a chain of operations of one cycle each."""
    trips, space = 100_000 if quick else 2_000_000, "serial"
    b, c, out = (_view(space, [v] * 8, "int64") for v in (5, 3, 1))
    call = functools.partial(pk.parallel_for, pk.RangePolicy(0, 8, space=space), kernels.dependent, trips, b, c, out)
    return 2 * trips / min(timing.measure(call, min_time=1e-3, repeats=5).values)
