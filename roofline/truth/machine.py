"""Pairs about the machine's resources: threads, atomic operations, launches, the host, a GPU's shared memory.

Pairs about the host are calls, not launches: each side is a callable without arguments.
"""

import math

import numpy as np

import portable as pk
from portable.errors import InputError
from portable.roofline.truth import pairs
from portable.roofline.truth.pairs import draw, launches, on_device, planted

WARP = 32  # members of a GPU's smallest team, and banks of its shared memory


@pk.kernel
def strided_sums(i, step, rounds, x, out):
    total = 0.0
    for r in range(rounds):
        for k in range(i, x.shape[0], step):
            total += math.exp(-x[k] * r)
    out[i] = total


@planted("parallelism")
def long_sums_of_few_indices(space, random, scale):
    """Plant eight indices, one pack of a CPU, or one index in 64 on a GPU, against thousands."""
    pairs.check_threads(space)
    many, rounds = 128 * pk.concurrency(space) if scale else 64, scale * random.uniform(80, 120)
    few, rounds = (many // 64, rounds / 16) if scale and on_device(space) else (8, rounds)
    x = random.random(max(16 * many, 4096) if scale else 128)
    sides = ((strided_sums, size, max(1, int(rounds)), x) for size in (few, many))
    return launches(space, (few, many), *sides)


@pk.kernel
def added_up(i, level, x, sums):
    pk.atomic_add(sums, level[i], x[i])


@planted("together")
def sums_that_meet_in_one_place(space, random, scale):
    """Plant sums of floats at one place, against as many sums at separate places."""
    n = draw(random, 1_000_000, scale)
    return pairs.in_one_place(space, random, n, added_up, random.random(n), out="float64")


@pk.kernel
def smoothed(i, j, a, out):
    out[i, j] = 0.5 * a[i, j] + 0.25 * (a[i, j + 1] + a[i + 1, j])


@planted("launch")
def a_box_of_few(space, random, scale):
    """Plant a launch over a small square, against one over a large square."""
    few, many = int(random.integers(3, 6)), max(64, int(600 * scale**0.5))
    a, out = random.random((many + 1, many + 1)), np.zeros((many, many))
    boxes = tuple(pk.MDRangePolicy((0, 0), (n, n), space=space) for n in (few, many))
    return launches(space, boxes, (smoothed, a, out), out=None)


@pk.kernel
def step(i, x):
    x[i] = 0.999 * x[i] + 0.001


@planted("calls")
def launches_one_by_one(space, random, scale):
    """Plant launches one by one, against the same launches in a graph."""
    n, times = int(random.integers(3000, 5000)), int(random.integers(100, 200)) if scale else 3
    return pairs.in_a_graph(space, n, step, times)


@planted("outside")
def sums_in_python_between_launches(space, random, scale):
    """Plant sums in Python of a launch's results, against a reduction in the launch."""
    n, times = draw(random, 100_000, scale), 3 if scale else 1
    launch, _ = launches(space, n, (exps, 1024 if on_device(space) else 32, random.random(n)))
    policy, _, *args, out = launch

    def in_python():
        for _ in range(times):
            pk.parallel_for(*launch)
            sum(out.to_numpy().tolist())

    def reduced():
        for _ in range(times):
            pk.parallel_reduce(policy, exp_of, *args)

    return in_python, reduced


@pk.function
def _many_exps(v, rounds):
    total = 0.0
    for k in range(rounds):
        total += math.exp(-v * k)
    return total


@pk.kernel
def exps(i, rounds, x, out):
    out[i] = _many_exps(x[i], rounds)


@pk.kernel
def exp_of(i, rounds, x):
    return _many_exps(x[i], rounds)


def _check_banks(space):
    """Raise for a space without banks of shared memory.

    Raises
    ------
    InputError
    """
    if not str(space).startswith("cuda"):
        raise InputError(f"space: '{space}' has no banks of shared memory; this pair is about a GPU's.")


def _banked(space, random, scale, dtype, *sides):
    """Return two launches of as many teams as fill the space: kernels with their arguments, then iterations,
    and an array with a number for each member."""
    _check_banks(space)
    league = pk.concurrency(space) if scale else 4
    policy, out = pk.TeamPolicy(league, WARP, space=space), np.zeros((league, WARP), dtype)
    trips = max(8, int(scale * random.integers(60, 90)))
    return launches(space, policy, *((*side, trips, out) for side in sides), out=None)


@pk.kernel
def by_columns(team, width, trips, out):
    tile = team.scratch(33 * 33, pk.float32)
    for k in team.thread_range(33 * 33):
        tile[k] = pk.float32(k)
    team.barrier()
    for j in team.thread_range(32):
        total = pk.float32(0.0)
        for trip in range(trips):
            first = j * width + (trip & 7)
            for k in range(pk.static(32)):
                total += tile[first + k]
        out[team.league_rank, j] = total


@planted("banks")
def a_tile_whose_rows_share_their_banks(space, random, scale):
    """Plant rows of 32 numbers, one for each member, against rows of 33."""
    return _banked(space, random, scale, "float32", *((by_columns, width) for width in (32, 33)))


@pk.kernel
def every_so_many_doubles(team, stride, trips, out):
    kept = team.scratch(32 * 18, pk.float64)
    for k in team.thread_range(32 * 18):
        kept[k] = 1.0 + k
    team.barrier()
    for j in team.thread_range(32):
        total = 0.0
        for trip in range(trips):
            first = j * stride + (trip & 7)
            for k in range(pk.static(16)):
                total += kept[first + k]
        out[team.league_rank, j] = total


@planted("banks")
def doubles_a_stride_apart(space, random, scale):
    """Plant numbers sixteen apart, all in two banks, against seventeen apart."""
    sides = ((every_so_many_doubles, stride) for stride in (16, 17))
    return _banked(space, random, scale, "float64", *sides)


@pk.kernel
def own_bins(team, of_member, of_bin, first, trips, out):
    bins = team.scratch(32 * 32, pk.int32)
    for k in team.thread_range(32 * 32):
        bins[k] = pk.int32(0)
    team.barrier()
    for j in team.thread_range(32):
        for trip in range(8 * trips):
            place = j * of_member + ((first + trip) & 31) * of_bin
            bins[place] = bins[place] + pk.int32(1)
        out[team.league_rank, j] = bins[j * of_member + first * of_bin]


@planted("banks")
def a_histogram_of_each_member(space, random, scale):
    """Plant counts that are contiguous for each member, against counts that are contiguous for each bin."""
    first = int(random.integers(0, 32))
    sides = ((own_bins, *ways, first) for ways in ((32, 1), (1, 32)))
    return _banked(space, random, scale, "int32", *sides)
