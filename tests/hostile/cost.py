"""python -m tests.hostile.cost [--space threads] [--cases methods] [--quick] [--rounds N]: measures the cost
of the debug build.

The runs of `python -m portable.roofline report --all` are called, and the longest launch of each of their
kernels is kept, with a copy of its arguments; each is then timed in its usual build, in its debug build and
in the debug build that also checks for NaN, in turn, in N rounds and for at least LEAST seconds, so that a
short disturbance does not dominate the times of a short launch. Ratios are of the fastest rounds; a launch
that is not a reduction is a plan. With --processes N the runs are divided among N processes, which compile
concurrently and time one after the other; --seconds is a limit for these. With --threads: times two Python
threads that launch on "serial", compared with one that launches as often.
"""

import argparse
import contextlib
import copy
import fcntl
import functools
import itertools
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np

import portable as pk
from portable.roofline import cases
from portable.roofline.cases import methods

BUILDS = {"usual": False, "debug": True, "nan": "nan"}
LEAST = 0.4  # seconds of a kernel's rounds: other programs may take a core for several milliseconds
POINTS, PARTICLES, ELEMENTS = 200_000, 2_000_000, 10_000_000  # of `methods` on a GPU, a fifth of the report's


def runs(space, quick, names):
    """Yield the runs of the report's cases; those of `methods` on a GPU have fewer elements, since most of
    their data is made on the host."""
    for case in names:
        if case == "methods" and space.startswith("cuda") and not quick:
            yield from methods._mixture(space, POINTS)
            yield from methods._tmap(space, POINTS)
            yield from methods._resampling(space, PARTICLES)
            yield from methods._words(space, ELEMENTS)
        else:
            yield from cases.load(case).prepare(space, None, quick)


def watch(run, space, tell):
    """Call a run; `tell(number, launch)` is called before each of its launches, and its result, a function,
    after that launch."""
    numbers, after = itertools.count(), []

    def hear(phase, what, launch):
        for one in (each for each, _ in getattr(launch, "launches", ((launch, None),))):
            if phase == "begin":
                after.append(tell(next(numbers), one))
            else:
                after.pop()()
                pk.fence(space)

    with pk.listening(hear, into_graphs=True), pk.use(space):
        run.call()


def launches(space, quick, names, part, n_parts):
    """Return the longest launch of each kernel in one part of the runs, with copies of its arguments, as
    {name of the kernel: Launch}."""
    parts = list(runs(space, quick, names))[part::n_parts]
    longest, kept = {}, {}

    def name_of(launch):
        return f"{launch.kernel.fn.__module__}.{launch.kernel.name}"

    def measure(which, number, launch):
        def end():
            seconds, name = time.perf_counter() - start, name_of(launch)
            longest[name] = max(longest.get(name, (0.0,)), (seconds, which, number))

        start = time.perf_counter()
        return end

    def keep(which, number, launch):
        name = name_of(launch)
        if longest.get(name, ())[1:] == (which, number):
            kept[name] = launch._replace(args=copy.deepcopy(launch.args))
        return lambda: None

    for tell in measure, keep:
        for which, run in enumerate(parts):
            run.call()  # compiled by now
            watch(run, space, functools.partial(tell, which))
    return kept


def prepared(launch, build):
    """Return a function that gives the seconds of a launch in a build; NaN if the build reports an error."""
    with pk.use(launch.space, debug=build):
        if launch.scan:
            *args, out = launch.args
            call = functools.partial(
                pk.parallel_scan,
                launch.policy,
                launch.kernel,
                *args,
                out=out,
                reducer=launch.reducers[0],
                inclusive=launch.scan.endswith("inclusive"),
            )
        elif launch.reducers:
            call = functools.partial(
                pk.parallel_reduce, launch.policy, launch.kernel, *launch.args, reducer=launch.reducers
            )
        else:
            call = pk.plan(launch.policy, launch.kernel, *launch.args)

    def seconds():
        with pk.use(launch.space, debug=build):
            start = time.perf_counter()
            try:
                call()
                pk.fence(launch.space)
            except pk.CheckError as error:
                print(f"  {error}", file=sys.stderr, flush=True)
                return np.nan
            return time.perf_counter() - start

    seconds()  # compiled by now
    return seconds


@contextlib.contextmanager
def alone(path):
    """Exclude other processes that use the same lock file."""
    with open(path, "a") if path else contextlib.nullcontext() as file:
        if path:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def times(options):
    """Yield (kernel, seconds of each build) of each kernel of this process's part, except kernels that access
    elements outside their arrays.
    """
    for name, launch in sorted(launches(options.space, options.quick, options.cases, *options.part).items()):
        calls = {build: prepared(launch, BUILDS[build]) for build in options.builds if build != "usual"}
        if any(np.isnan(call()) for call in calls.values()):  # outside its method the launch is not valid
            continue
        calls = [prepared(launch, False), *calls.values()]
        with alone(options.lock):
            yield name, fastest(calls, options.rounds)


def fastest(calls, n_rounds, least=LEAST):
    """Return the least seconds of each call, of at least `n_rounds` rounds and at least `least` seconds."""
    seconds, end = [], time.perf_counter() + least
    while len(seconds) < n_rounds or time.perf_counter() < end:
        seconds.append([call() for call in calls])
    return np.min(seconds, axis=0)


def shared(options):
    """Return the times of all parts, measured by several processes."""
    with tempfile.NamedTemporaryFile() as lock:
        command = [sys.executable, "-m", "tests.hostile.cost", "--space", options.space, "--lock", lock.name]
        command += [
            "--rounds",
            str(options.rounds),
            "--builds",
            *options.builds,
            "--cases",
            *options.cases,
            *["--quick"] * options.quick,
        ]
        end, best = time.monotonic() + options.seconds, {}
        parts = [
            subprocess.Popen(
                [*command, "--part", str(k), str(options.processes)], stdout=subprocess.PIPE, text=True
            )
            for k in range(options.processes)
        ]
        killer = threading.Timer(end - time.monotonic(), lambda: [part.kill() for part in parts])
        killer.start()
        for line in (line for part in parts for line in part.stdout):
            name, *seconds = line.split()
            seconds = np.array(seconds, float)
            if name not in best or best[name][0] < seconds[0]:
                best[name] = seconds
        killer.cancel()
        ended = sum(part.wait() == 0 for part in parts)
        print(f"{ended} of {len(parts)} processes came to their end")
    return best.items()


def show(rows, builds):
    """Print the ratio of each kernel's builds, then median and worst."""
    ratios = []
    for name, seconds in rows:
        ratios.append(seconds / seconds[0])
        told = "  ".join(f"{build} {ratio:5.2f}" for build, ratio in zip(builds[1:], ratios[-1][1:]))
        print(f"{name:58s} {1e6 * seconds[0]:10.0f} us  {told}", flush=True)
    for build, column in zip(builds[1:], np.array(ratios).T[1:]):
        told = column[np.isfinite(column)]
        print(f"{build:6s} {len(told)} kernels: median {np.median(told):.2f}, worst {told.max():.2f}")


@pk.kernel
def heavy(i, n, x):
    s = x[i]
    for _ in range(n):
        s = s * 0.999 + 1e-3
    x[i] = s


def side_by_side(rounds):
    """Print the ratio of the launches that two threads make on "serial" to those of one in the same time."""
    arrays = [np.ones(1 << 14) for _ in range(2)]
    policy = pk.RangePolicy(0, 1 << 14, space="serial")

    def work(x):
        for _ in range(20):
            pk.parallel_for(policy, heavy, 2000, x)

    def seconds(n):
        threads = [threading.Thread(target=work, args=(x,)) for x in arrays[:n]]
        start = time.perf_counter()
        with contextlib.ExitStack() as stack:
            for thread in threads:
                thread.start()
                stack.callback(thread.join)
        return time.perf_counter() - start

    seconds(2)
    ratios = [2 * one / two for one, two in ((seconds(1), seconds(2)) for _ in range(rounds))]
    print(
        f"two threads do {statistics.median(ratios):.2f} times the work of one "
        f"({min(ratios):.2f} to {max(ratios):.2f}, {rounds} rounds)"
    )


def main():
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.hostile.cost",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--space", default="threads")
    parser.add_argument("--cases", nargs="+", choices=cases.ALL, default=cases.ALL)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--builds", nargs="+", choices=BUILDS, default=[*BUILDS], help="the usual one first")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--part", nargs=2, type=int, help=argparse.SUPPRESS)
    parser.add_argument("--lock", help=argparse.SUPPRESS)
    parser.add_argument("--threads", action="store_true")
    options = parser.parse_args()
    if options.threads:
        side_by_side(options.rounds)
    elif options.part:
        for name, seconds in times(options):
            print(name, *seconds, flush=True)
    elif options.processes > 1:
        show(shared(options), options.builds)
    else:
        options.part = 0, 1
        show(times(options), options.builds)


if __name__ == "__main__":
    main()
