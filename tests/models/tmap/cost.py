"""`python -m tests.models.tmap.cost`: an EM iteration by the number of gaps, in memory and streamed, and the
set-up.

Runs are 8.8 gaps long on average, branches of orders 1, 2, 3; an iteration is the mean of ten, after one to
warm up. The set-up converts gaps and run lengths from host arrays to the packs of the space; the time of
copying the two is printed next to it.
"""

import argparse
import time

import numpy as np

import portable as pk
from portable.models.tmap import TransientMAP
from portable.models.tmap.em import EM
from portable.models.tmap.packed import part_of

MODEL = TransientMAP([0.3, 0.3, 0.4], [1, 2, 3], [1.0, 2.0, 3.0], np.full((3, 3), 0.2955))
N_ITERATIONS = 10


def seconds(runs, dtype, space, memory_bytes=None):
    """Return the seconds of an iteration."""
    em = EM(runs, MODEL.orders, 1, dtype, space, memory_bytes)
    history = pk.zeros((1, N_ITERATIONS + 3), np.float64, space)
    iterations = em.iterations(1, N_ITERATIONS + 2, 0.0, history)
    em.load([MODEL])
    for _ in range(2):  # the second run makes a graph
        iterations.replay()
    pk.fence(space)
    begin = time.perf_counter()
    for _ in range(N_ITERATIONS):
        iterations.replay()
    pk.fence(space)
    return (time.perf_counter() - begin) / N_ITERATIONS


def set_up(runs, dtype, space):
    """Return the seconds of the set-up and of the copy, the least of three, or of as many as fit into a
    second.
    """
    found = []
    for what in (
        lambda: part_of(runs).packed(space, dtype),
        lambda: [pk.copy_of(part, space) for part in (runs.values, runs.lengths)],
    ):
        times = []
        while len(times) < 3 and sum(times) < 1.0:
            begin = time.perf_counter()
            kept = what()
            pk.fence(space)
            times.append(time.perf_counter() - begin)
            del kept
        found.append(min(times))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--space", default=None)
    parser.add_argument("--dtype", default="float32", choices=("float32", "float64"))
    parser.add_argument("--gaps", type=float, nargs="+", default=[1e5, 1e6, 1e7])
    parser.add_argument(
        "--streamed",
        type=int,
        default=4,
        help="parts of the streamed iteration, 0: none (default: %(default)s)",
    )
    options = parser.parse_args()
    dtype, space = np.dtype(options.dtype).type, options.space or pk.default_space()
    for n_gaps in options.gaps:
        runs = MODEL.simulate(round(n_gaps / MODEL.mean_arrivals()), seed=1, space=space, max_gaps=2**33)
        print(f"{runs.n_gaps:,} gaps", flush=True)
        _print("an iteration", seconds(runs, dtype, space), runs)
        if options.streamed:
            limit = 2 * np.dtype(dtype).itemsize * runs.n_gaps // options.streamed
            _print(f"streamed through {limit / 1e6:,.1f} MB", seconds(runs, dtype, space, limit), runs)
        for name, found in zip(("set-up", "copy"), set_up(runs, dtype, space)):
            _print(name, found, runs)


def _print(name, found, runs):
    print(f"    {name:<30} {found * 1e3:12.3f} ms {found / runs.n_gaps * 1e12:10.1f} ps a gap", flush=True)


if __name__ == "__main__":
    main()
