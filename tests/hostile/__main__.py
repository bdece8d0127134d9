"""python -m tests.hostile [NAME] [--minutes N]: attacks on launches, one after the other at random.

Each attack of tests/hostile/attacks.py runs in a separate process, with a seed that is printed if the attack
fails: NAME --seed S --times N repeats it. The exit status is 1 if an attack failed.
"""

import argparse
import collections
import random
import subprocess
import sys
import time

from .attacks import ATTACKS

LIMIT = 900  # longest run of one process, in seconds


def alone(name, seed, times):
    """Run one attack in this process."""
    attack, usually = ATTACKS[name]
    done = attack(random.Random(seed), times or usually)
    print(f"{name}: {done} held")


def tried(name, seed, times=None):
    """Run one attack in a separate process; return a description of its failure, or None."""
    command = [sys.executable, "-X", "faulthandler", "-m", "tests.hostile", name, "--seed", str(seed)]
    try:
        done = subprocess.run(
            command + (["--times", str(times)] if times else []),
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        return f"no end within {LIMIT} s\n{(error.stderr or b'')[-2000:]}"
    return (
        None
        if done.returncode == 0
        else f"exit status {done.returncode}\n{done.stdout[-1000:]}\n{done.stderr[-3000:]}"
    )


def main(arguments=None):
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.hostile",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "name",
        nargs="?",
        choices=ATTACKS,
        metavar="NAME",
        help="one attack, in this process: " + ", ".join(ATTACKS),
    )
    parser.add_argument("--minutes", type=float, default=1.0, help="how long to go on at random (1)")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--times", type=int, default=None, help="how often one attack tries")
    options = parser.parse_args(arguments)
    seed = options.seed if options.seed is not None else random.randrange(1 << 30)
    if options.name:
        return alone(options.name, seed, options.times)
    order, end, held, failed = (
        random.Random(seed),
        time.monotonic() + 60 * options.minutes,
        collections.Counter(),
        collections.Counter(),
    )
    waiting = []
    while time.monotonic() < end:
        waiting = waiting or order.sample(sorted(ATTACKS), len(ATTACKS))
        name, its = waiting.pop(), order.randrange(1 << 30)
        wrong = tried(name, its)
        (failed if wrong else held)[name] += 1
        if wrong:
            print(f"{name} --seed {its}: {wrong}", flush=True)
    for name in ATTACKS:
        print(f"{name:50s} {held[name]:5d} held {failed[name]:5d} did not")
    print(f"{sum(held.values())} attacks held, {sum(failed.values())} did not (seed {seed})")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
