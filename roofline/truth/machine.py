"""Pairs about what the machine gives: threads, atomic operations, launches, the host, a GPU's shared memory.

Those about the host are calls, not launches: each side is a callable without arguments.
"""

import math

import numpy as np

import portable as pk
from portable.errors import InputError
from portable.roofline.truth.pairs import _check_threads, _draw, _on_device, _range, _there

WARP = 32  # members of a GPU's smallest team, and banks of its shared memory


@pk.kernel
def strided_sums(i, step, rounds, x, out):
    total = 0.0
    for r in range(rounds):
        for k in range(i, x.shape[0], step):
            total += math.exp(-x[k] * r)
    out[i] = total


def long_sums_of_few_indices(space, random, scale):
    """Eight indices, a pack of a CPU, against thousands; of a GPU one in 64."""
    _check_threads(space)
    many, rounds = 128 * pk.concurrency(space) if scale else 64, scale * random.uniform(80, 120)
    few, rounds = (many // 64, rounds / 16) if scale and _on_device(space) else (8, rounds)
    (x,) = _there(space, random.random(max(16 * many, 4096) if scale else 128))
    return tuple(
        (_range(space, size), strided_sums, size, max(1, int(rounds)), x, pk.zeros(size, space=space))
        for size in (few, many)
    )


@pk.kernel
def added_up(i, level, x, sums):
    pk.atomic_add(sums, level[i], x[i])


def sums_that_meet_in_one_place(space, random, scale):
    """Floats, against as many to places of their own."""
    _check_threads(space)
    n = _draw(random, 1_000_000, scale)
    x, sums = _there(space, random.random(n))[0], pk.zeros(n, space=space)
    return tuple(
        (_range(space, n), added_up, *_there(space, level), x, sums)
        for level in (np.zeros(n, np.int64), np.arange(n))
    )


@pk.kernel
def smoothed(i, j, a, out):
    out[i, j] = 0.5 * a[i, j] + 0.25 * (a[i, j + 1] + a[i + 1, j])


def a_box_of_few(space, random, scale):
    """A launch over a small square, against one over a large one."""
    few, many = int(random.integers(3, 6)), max(64, int(600 * scale**0.5))
    (a,) = _there(space, random.random((many + 1, many + 1)))
    out = pk.zeros((many, many), space=space)

    def launch(n):
        return pk.MDRangePolicy((0, 0), (n, n), space=space), smoothed, a, out

    return launch(few), launch(many)


@pk.kernel
def step(i, x):
    x[i] = 0.999 * x[i] + 0.001


def launches_one_by_one(space, random, scale):
    """Against the same launches in a graph."""
    n, times = int(random.integers(3000, 5000)), int(random.integers(100, 200)) if scale else 3
    x = pk.zeros(n, space=space)
    with pk.use(space), pk.capture(space) as graph:
        for _ in range(times):
            pk.parallel_for(_range(space, n), step, x)

    def one_by_one():
        for _ in range(times):
            pk.parallel_for(_range(space, n), step, x)

    return one_by_one, graph.replay


def sums_in_python_between_launches(space, random, scale):
    """Of numbers that a launch gave, against a reduction in the launch."""
    n, times = _draw(random, 100_000, scale), 3 if scale else 1
    rounds, x = 1024 if _on_device(space) else 32, np.asarray(random.random(n))
    there, out = pk.copy_of(x, space), pk.zeros(n, space=space)

    def in_python():
        for _ in range(times):
            pk.parallel_for(_range(space, n), exps, rounds, there, out)
            sum(out.to_numpy().tolist())

    def reduced():
        for _ in range(times):
            pk.parallel_reduce(_range(space, n), exp_of, rounds, there)

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
    """Refuse where nothing is banked.

    Raises
    ------
    InputError
    """
    if not str(space).startswith("cuda"):
        raise InputError(f"space: '{space}' has no banks of shared memory; this pair is about a GPU's.")


def _teams(space, random, scale):
    """(policy, trips) of as many teams as fill the space."""
    league = pk.concurrency(space) if scale else 4
    return pk.TeamPolicy(league, WARP, space=space), max(8, int(scale * random.integers(60, 90)))


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


def a_tile_whose_rows_share_their_banks(space, random, scale):
    """Rows of 32 numbers, each member its own, against rows of 33."""
    _check_banks(space)
    policy, trips = _teams(space, random, scale)
    out = pk.zeros((policy.league_size, WARP), "float32", space)
    return tuple((policy, by_columns, width, trips, out) for width in (32, 33))


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


def doubles_a_stride_apart(space, random, scale):
    """Sixteen apart, all in two banks, against seventeen."""
    _check_banks(space)
    policy, trips = _teams(space, random, scale)
    out = pk.zeros((policy.league_size, WARP), space=space)
    return tuple((policy, every_so_many_doubles, stride, trips, out) for stride in (16, 17))


@pk.kernel
def own_bins(team, of_member, of_bin, trips, x, out):
    bins = team.scratch(32 * 32, pk.int32)
    for k in team.thread_range(32 * 32):
        bins[k] = pk.int32(0)
    team.barrier()
    for j in team.thread_range(32):
        first = x[team.league_rank, j]
        for trip in range(trips):
            place = j * of_member + ((first + trip) & 31) * of_bin
            bins[place] = bins[place] + pk.int32(1)
        out[team.league_rank, j] = bins[j * of_member + first * of_bin]


def a_histogram_of_each_member(space, random, scale):
    """All counts of a member side by side, against those of a bin."""
    _check_banks(space)
    policy, trips = _teams(space, random, scale)
    shape = policy.league_size, WARP
    (x,), out = _there(space, np.full(shape, random.integers(0, 32))), pk.zeros(shape, "int32", space)
    return tuple((policy, own_bins, *ways, 8 * trips, x, out) for ways in ((32, 1), (1, 32)))


ALL = [
    (("parallelism",), long_sums_of_few_indices),
    (("together",), sums_that_meet_in_one_place),
    (("launch",), a_box_of_few),
    (("calls",), launches_one_by_one),
    (("outside",), sums_in_python_between_launches),
    (("banks",), a_tile_whose_rows_share_their_banks),
    (("banks",), doubles_a_stride_apart),
    (("banks",), a_histogram_of_each_member),
]
