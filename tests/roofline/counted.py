"""Well-known kernels, and the cost of each as a formula of its sizes, never a figure that was counted."""

import math
from dataclasses import dataclass, field

import numpy as np

import portable as pk
from portable.models.hawkes.kernels import squared_distance
from portable.roofline.cases import layer, mixture

T = 16  # edge of a tile
N = 1003  # neither a multiple of 8 nor of 16 lanes


@dataclass
class Costed:
    """Launch, and its cost by formula: flops by dtype, special functions, comparisons, bytes loaded, stored,
    compulsory."""

    policy: object
    kernel: object
    args: tuple
    flops: dict
    loaded: int
    stored: int
    compulsory: int
    special: dict = field(default_factory=dict)
    comparisons: int = 0
    integer: int | None = None
    atomics: dict = field(default_factory=dict)
    options: dict = field(default_factory=dict)
    same_executed: bool = False  # True if packs are full and nothing is hoisted: executed counts are equal


@pk.kernel
def axpy32(i, a, x, y):
    y[i] += a * x[i]


@pk.kernel
def tiled(team, a, b, c):
    """Compute a tile of a product from tiles in scratch."""
    a_tile, b_tile, sums = (
        team.scratch((T, T), a.dtype),
        team.scratch((T, T), a.dtype),
        team.scratch((T, T), a.dtype),
    )
    across = c.shape[1] // T
    row, column = team.league_rank // across * T, team.league_rank % across * T
    for e in team.thread_range(T * T):
        sums[e // T, e % T] = 0.0
    for k0 in range(0, a.shape[1], T):
        for e in team.thread_range(T * T):
            a_tile[e // T, e % T] = a[row + e // T, k0 + e % T]
            b_tile[e // T, e % T] = b[k0 + e // T, column + e % T]
        team.barrier()
        for e in team.thread_range(T * T):
            total = sums[e // T, e % T]
            for k in range(T):
                total += a_tile[e // T, k] * b_tile[k, e % T]
            sums[e // T, e % T] = total
        team.barrier()
    for e in team.thread_range(T * T):
        c[row + e // T, column + e % T] = sums[e // T, e % T]


@pk.kernel
def hawkes_pairs(i, x, t, total):
    """Compute both exponentials of all earlier events, in two dimensions."""
    mu, xi = 0.0, 0.0
    for j in range(i):
        r2 = squared_distance(2, False, x, i, x, j)
        dt = t[i] - t[j]
        mu += pk.fast_exp(-0.5 * r2 + -0.25 * dt * dt)
        xi += pk.fast_exp(-2.0 * r2 - 0.5 * dt)
    total[i] = mu + xi


@pk.kernel
def forward(run, alpha, moves, density, next_alpha):
    """Compute a forward step of a hidden Markov model: sum_i alpha_i moves_ij times the density of j, and its
    scale."""
    scale = 0.0
    for j in range(moves.shape[1]):
        total = 0.0
        for i in range(moves.shape[0]):
            total += alpha[i, run] * moves[i, j]
        total *= density[j, run]
        next_alpha[j, run] = total
        scale += total
    for j in range(moves.shape[1]):
        next_alpha[j, run] /= scale


@pk.kernel
def nearest(i, points, place):
    """Find the nearest of all points before this one."""
    best, at = math.inf, -1
    for j in range(i):
        d2 = 0.0
        for c in range(points.shape[0]):
            d = points[c, i] - points[c, j]
            d2 = pk.fma(d, d, d2)
        if d2 < best:
            best = d2
            at = j
    place[i] = at


@pk.kernel
def newton(i, a, root):
    """Compute a square root by Newton's steps, until convergence."""
    x = a[i]
    while abs(x * x - a[i]) > 1e-9:
        x = 0.5 * (x + a[i] / x)
    root[i] = x


@pk.kernel
def cumulated(i, x):
    return x[i]


@pk.kernel
def squared(i, x):
    return x[i] * x[i]


@pk.kernel
def reverse(i, words, out):
    """Reverse an array, without floating point."""
    w = words[i]
    w = ((w >> 16) & 0xFFFF) | (w << 16)
    out[i] = w ^ (w >> 1)


def newton_steps(a):
    """Return the number of iterations of `newton` for each number, by the same rule."""
    steps, x = np.zeros(a.size, int), a.copy()
    while (going := abs(x * x - a) > 1e-9).any():
        x = np.where(going, 0.5 * (x + a / x), x)
        steps += going
    return steps


def closer(points):
    """Return the number of times that `nearest` finds a closer point."""
    found = 0
    for i in range(points.shape[1]):
        d2 = ((points[:, :i] - points[:, i : i + 1]) ** 2).sum(0)
        found += (d2 < np.minimum.accumulate(np.append(math.inf, d2))[:-1]).sum()
    return int(found)


def escapes(cx, cy, limit):
    """Return the steps of `layer.mandelbrot` for each point."""
    steps, z, c = np.zeros(cx.size, int), np.zeros(cx.size, complex), cx + 1j * cy
    for _ in range(limit):
        inside = abs(z) <= 2
        z[inside] = z[inside] ** 2 + c[inside]
        steps += inside
    return steps


def costed():
    """Return {name: Costed}; arrays are new with each call."""
    random = np.random.default_rng(0)
    x, y = random.random((2, N))
    x32, y32 = random.random((2, N)).astype(np.float32)
    m, k = 12, 37  # a matrix
    a, v = random.random((m, k)), random.random(k)
    p = 48  # edge of the products, three tiles
    left, right = random.random((2, p, p))
    g = 11  # edge of the grid
    inner, u = (g - 2) ** 3, random.random((g, g, g))
    h = 200  # events
    pairs, where, when = h * (h - 1) // 2, random.random((2, h)), np.arange(float(h))
    d, c, points = mixture.P, 6, random.normal(size=(mixture.P, 40))
    q = points.shape[1]
    records = 0.2 * random.normal(size=(c, d + d * (d + 1) // 2 + 1))
    r, runs = 5, 64  # states of the chain, and number of chains
    alpha, moves, density = random.random((r, runs)), random.random((r, r)), random.random((r, runs))
    cloud = random.random((3, 90))
    close = cloud.shape[1] * (cloud.shape[1] - 1) // 2
    levels = random.integers(0, layer.BINS, N, dtype=np.int32)
    high = int((x > 0.5).sum())
    roots = random.random(N) + 0.5
    trips = int(newton_steps(roots).sum())
    cx, cy = random.uniform(-1, 0.5, N), random.uniform(-1, 1, N)
    steps = escapes(cx, cy, 30)
    stays = int((steps == 30).sum())
    f8 = 8
    return {
        # one product, one sum; x and y read, y written
        "axpy": Costed(N, layer.axpy, (2.0, x, y.copy()), {"float64": 2 * N}, 2 * f8 * N, f8 * N, 3 * f8 * N),
        "axpy in float32": Costed(
            N, axpy32, (2.0, x32, y32.copy()), {"float32": 2 * N}, 8 * N, 4 * N, 12 * N
        ),
        # a product and the reducer's sum
        "dot": Costed(
            N,
            layer.product,
            (x, y),
            {"float64": 2 * N},
            2 * f8 * N,
            0,
            2 * f8 * N,
            options={"reducer": pk.Sum},
        ),
        "matvec": Costed(
            pk.TeamPolicy(m),
            layer.matvec,
            (a, v, np.zeros(m)),
            {"float64": 2 * m * k},
            2 * f8 * m * k,
            f8 * m,
            f8 * (m * k + k + m),
        ),
        # each tile of A and B is read p / T times; sums stay in scratch
        "tiled product": Costed(
            pk.TeamPolicy((p // T) ** 2),
            tiled,
            (left, right, np.zeros((p, p))),
            {"float64": 2 * p**3},
            2 * f8 * p**3 // T,
            f8 * p * p,
            3 * f8 * p * p,
            same_executed=True,
        ),
        # five sums of neighbours, two products, one more sum; the corners of the grid are never read
        "stencil": Costed(
            pk.MDRangePolicy((1, 1, 1), (g - 1,) * 3),
            layer.stencil,
            (u, np.zeros_like(u)),
            {"float64": 8 * inner},
            7 * f8 * inner,
            f8 * inner,
            f8 * (inner + 6 * (g - 2) ** 2 + inner),
        ),
        # 2 differences, 2 squares, 2 sums (r2 starts at 0.0); dt; 3 products and a sum; 2 products and a
        # difference; 2 sums
        "Hawkes pairs": Costed(
            h,
            hawkes_pairs,
            (where, when, np.zeros(h)),
            {"float64": 16 * pairs + h},
            6 * f8 * pairs,
            f8 * h,
            f8 * (2 * h + h + h),
            {("fast_exp", "float64"): 2 * pairs},
        ),
        # the formula of the literature: 3 p (p + 1) / 2 + 2 p + 3 a component with the sum over components
        "mixture density": Costed(
            q,
            mixture.packed,
            (points, records, np.zeros(q)),
            {"float64": q * c * (3 * d * (d + 1) // 2 + 2 * d + 3)},
            f8 * q * c * (3 * d * (d + 1) // 2 + 1),
            f8 * q,
            f8 * (d * q + records.size + q),
            {("exp", "float64"): q * c},
        ),
        "TMAP step": Costed(
            runs,
            forward,
            (alpha, moves, density, np.zeros((r, runs))),
            {"float64": runs * (2 * r * r + 3 * r)},
            f8 * runs * (2 * r * r + 2 * r),
            2 * f8 * runs * r,
            f8 * (2 * r * runs + r * r + 2 * r * runs),
        ),
        # a difference and an fma in each of three dimensions
        "kNN distances": Costed(
            cloud.shape[1],
            nearest,
            (cloud, np.zeros(cloud.shape[1], np.int64)),
            {"float64": 9 * close},
            6 * f8 * close,
            f8 * cloud.shape[1],
            f8 * cloud.size + f8 * cloud.shape[1],
            comparisons=close,
        ),
        "scan": Costed(
            N,
            cumulated,
            (x, np.zeros(N)),
            {"float64": N},
            f8 * N,
            f8 * N,
            2 * f8 * N,
            options={"reducer": pk.Sum, "scan": "inclusive"},
        ),
        # atomics are read and written; only the bins of occurring levels
        "histogram": Costed(
            N,
            layer.count,
            (levels, np.zeros(layer.BINS, np.int32)),
            {},
            8 * N,
            4 * N,
            4 * N + 8 * len(np.unique(levels)),
            atomics={("add", "int32"): N},
            integer=0,
        ),
        "conditional": Costed(
            N,
            layer.exp_of_large,
            (x, np.zeros(N)),
            {},
            2 * f8 * N,
            f8 * N,
            2 * f8 * N,
            {("exp", "float64"): high},
            comparisons=N,
        ),
        # the test: a product, a difference, an absolute value, a comparison; an iteration: a product, a sum,
        # a division
        "data-dependent loop": Costed(
            N,
            newton,
            (roots, np.zeros(N)),
            {"float64": 2 * (trips + N) + 3 * trips},
            f8 * (N + trips + N + trips),
            f8 * N,
            2 * f8 * N,
            comparisons=trips + N,
        ),
        # the test: two products and a sum where the limit is not reached; an iteration: 7 operations and a
        # count
        "Mandelbrot set": Costed(
            N,
            layer.mandelbrot,
            (30, cx, cy, np.zeros(N, np.int32)),
            {"float64": 3 * (int(steps.sum()) + N - stays) + 7 * int(steps.sum())},
            2 * f8 * int(steps.sum()),
            4 * N,
            2 * f8 * N + 4 * N,
            comparisons=2 * (int(steps.sum()) + N - stays) + stays,
            integer=int(steps.sum()),
        ),
        "sum of squares": Costed(
            N, squared, (x32,), {"float32": 2 * N}, 8 * N, 0, 4 * N, options={"reducer": pk.Sum}
        ),
        "integers alone": Costed(
            N, reverse, (levels, np.zeros(N, np.int32)), {}, 4 * N, 4 * N, 8 * N, integer=6 * N
        ),
    }
