"""python -m tests.hostile.cost [--space threads] [--quick] [--rounds N]: what the debug build costs.

The runs of `python -m roofline report` are called once, and the longest launch of each of their kernels is
kept; each is then timed in its usual build, in its debug build and in the one that looks for NaN too, in
turn. Ratios are of the fastest rounds; a launch that is not a reduction is a plan. With --threads: two Python
threads that launch on "serial", against one that launches as often.
"""

import argparse
import contextlib
import functools
import statistics
import threading
import time

import numpy as np

import portable as pk
from roofline import cases

BUILDS = False, True, "nan"


def launches(space, quick):
    """The longest launch of each kernel of the report's runs: {name of the kernel: Launch}."""
    found, begun = {}, []

    def hear(phase, what, launch):
        for one in (each for each, _ in getattr(launch, "launches", ((launch, None),))):
            if phase == "begin":
                begun.append(time.perf_counter())
            else:
                seconds = time.perf_counter() - begun.pop()
                name = f"{one.kernel.fn.__module__}.{one.kernel.name}"
                if seconds > found.get(name, (0.0,))[0]:
                    found[name] = seconds, one
                pk.fence(space)

    for case in cases.ALL:
        for run in cases.load(case).prepare(space, None, quick):
            run.call()  # compiled
            with pk.listening(hear, into_graphs=True), pk.use(space):
                run.call()
    return {name: launch for name, (_, launch) in found.items()}


def prepared(launch, build):
    """A function that gives the seconds of a launch in a build; NaN where it finds something."""
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
                print(f"  {error}", flush=True)
                return np.nan
            return time.perf_counter() - start

    seconds()  # compiled
    return seconds


def costs(space, quick, rounds):
    """Print the ratio of each kernel's builds, then median and worst."""
    rows = {}
    for name, launch in sorted(launches(space, quick).items()):
        calls = [prepared(launch, build) for build in BUILDS]
        times = np.array(
            [[call() for call in calls[:: 1 if k % 2 else -1]][:: 1 if k % 2 else -1] for k in range(rounds)]
        )
        rows[name] = ratios = times.min(axis=0) / times[:, 0].min()
        print(
            f"{name:58s} {1e6 * times[:, 0].min():10.0f} us  debug {ratios[1]:5.2f}  nan {ratios[2]:5.2f}",
            flush=True,
        )
    ratios = np.array(list(rows.values()))
    for k, build in ((1, "debug"), (2, "nan")):
        told = ratios[np.isfinite(ratios[:, k]), k]
        print(f"{build:6s} {len(told)} kernels: median {np.median(told):.2f}, worst {told.max():.2f}")


@pk.kernel
def heavy(i, n, x):
    s = x[i]
    for _ in range(n):
        s = s * 0.999 + 1e-3
    x[i] = s


def side_by_side(rounds):
    """Print how much more two threads launch on "serial" than one, in the same time."""
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
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.hostile.cost",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--space", default="threads")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", action="store_true")
    options = parser.parse_args()
    if options.threads:
        side_by_side(options.rounds)
    else:
        costs(options.space, options.quick, options.rounds)


if __name__ == "__main__":
    main()
