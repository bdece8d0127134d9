"""Compare each function of the layer, in a common kernel, with the same in the machine's native languages.

Sizes follow from one number, the elements of a vector; bytes are those of every input and output touched
once, an updated element twice. Arrays are compared by their digests.
"""

import functools
import math
import re

import numpy as np

import portable as pk
from portable.roofline import revision
from portable.roofline.cases import common
from portable.roofline.microkernels import element
from portable.roofline.units import scaled

A = 1e-3  # of axpy: however often it is repeated, y does not overflow
T = 16  # edge of a matrix product's tile
BINS = 256
LIMIT = 200  # steps of a Mandelbrot point
TOLERANCE = 1e-12  # sums are in different orders
# Rounding (in some places a fused multiply-add) determines when a point near the set's edge leaves the
# circle.
CHAOS = 1e-3


@pk.kernel
def axpy(i, a, x, y):
    """Update one element: two are read, one is written."""
    y[i] += a * x[i]


@pk.kernel
def product(i, x, y):
    """Return one term of a scalar product: two elements are read."""
    return x[i] * y[i]


@pk.kernel
def matvec(team, a, x, y):
    """Compute one row, whose columns are divided among the team."""
    row = team.league_rank
    total = 0.0
    for c in team.thread_range(x.shape[0]):
        total += a[row, c] * x[c]
    total = team.reduce(total)
    if team.single():
        y[row] = total


@pk.kernel
def matmul(team, a, b, c):
    """Compute one tile of C from tiles of A and B in scratch; edges are multiples of T, T * T is a multiple
    of the team's size.
    """
    a_tile, b_tile = team.scratch((T, T), a.dtype), team.scratch((T, T), b.dtype)
    own = T * T // team.size  # elements of each member
    sums = pk.local(own, c.dtype)
    sums[:] = 0.0
    n_across = c.shape[1] // T
    row0, column0 = team.league_rank // n_across * T, team.league_rank % n_across * T
    for k0 in range(0, a.shape[1], T):
        for e in team.thread_range(T * T):
            a_tile[e // T, e % T] = a[row0 + e // T, k0 + e % T]
            b_tile[e // T, e % T] = b[k0 + e // T, column0 + e % T]
        team.barrier()
        for s in range(own):
            e = s * team.size + team.rank
            total = sums[s]
            for k in range(T):
                total += a_tile[e // T, k] * b_tile[k, e % T]
            sums[s] = total
        team.barrier()
    for s in range(own):
        e = s * team.size + team.rank
        c[row0 + e // T, column0 + e % T] = sums[s]


@pk.kernel
def stencil(i, j, k, u, out):
    """Compute one inner cell from itself and its six neighbours."""
    around = (
        u[i - 1, j, k] + u[i + 1, j, k] + u[i, j - 1, k] + u[i, j + 1, k] + u[i, j, k - 1] + u[i, j, k + 1]
    )
    out[i, j, k] = 0.4 * u[i, j, k] + 0.1 * around


@pk.kernel
def clear(i, counts):
    """Clear one bin."""
    counts[i] = 0


@pk.kernel
def count(i, levels, counts):
    """Count one item in its bin."""
    pk.atomic_add(counts, levels[i], 1)


@pk.kernel
def exp_of_large(i, x, out):
    """Compute exp for about half of the elements, and copy the others."""
    if x[i] > 0.5:
        out[i] = math.exp(-x[i])
    else:
        out[i] = x[i]


@pk.kernel
def mandelbrot(i, limit, cx, cy, steps):
    """Count the steps of z -> z z + c within the circle of radius 2."""
    x, y = 0.0, 0.0
    n = pk.int32(0)
    while n < limit and x * x + y * y <= 4.0:
        x, y = x * x - y * y + cx[i], 2.0 * x * y + cy[i]
        n += 1
    steps[i] = n


def duels(space, n, quick):
    """Return a duel for each function; see `portable.roofline.cases.Case`. `n` is the elements of a
    vector."""
    n = n or common.size(space, quick, 300, 20_000, 100_000_000, 20_000_000)  # far beyond the caches
    random = np.random.default_rng(0)
    x, y = random.random((2, n))
    levels = random.integers(0, BINS, n, dtype=np.int32)
    whole = random.integers(-1000, 1001, n)
    return [
        _axpy(space, x, y),
        _reduced("dot", f"dot product of {n:,} float64", space, product, x, y),
        _matvec(space, x, y),
        _matmul(space, x, y),
        _dense(space, x, "float64", TOLERANCE),
        _dense(space, x, "float32", 1e-5),
        _stencil(space, x),
        _argmin(space, x),
        _histogram(space, levels),
        _scan(space, whole),
        _scan(space, x),
        _reduced("sum", f"sum of {n:,} {whole.dtype}", space, element, whole, tolerance=0.0),
        _conditional(space, x),
        _mandelbrot(space, n),
    ]


def _duel(name, title, n_bytes, space, call, result, inputs, tolerance=TOLERANCE, **about):
    """Return the duel of a function with the peers of that name, which are given the same host arrays."""
    about |= {"result": result, "tolerance": tolerance, "bytes": n_bytes}
    if not space.startswith("cuda"):
        about.setdefault("tools", ("numba", "warp"))
    title += f", {scaled(n_bytes, 'B')} to move"
    return common.duel(title, space, call, "layer", name, *inputs, **about)


def _array_for_kernels(array, space):
    """Return an array for kernels; on a CPU the peers' own array, since the placement of its pages changes a
    time by a tenth."""
    return pk.copy_of(array, space) if space.startswith("cuda") else pk.asview(array, space=space)


def _written(name, title, n_bytes, space, policy, kernel, inputs, out, tolerance=TOLERANCE, **about):
    """Return the duel of a parallel_for that writes `out`."""
    views = [_array_for_kernels(a, space) if isinstance(a, np.ndarray) else a for a in inputs]
    call = functools.partial(pk.parallel_for, policy, kernel, *views, out)
    return _duel(name, title, n_bytes, space, call, common.written(call, out), inputs, tolerance, **about)


def _reduced(name, title, space, kernel, *inputs, tolerance=TOLERANCE, which=None, **reducer):
    """Return the duel of a parallel_reduce; `which` selects the compared part of the result."""
    views = [_array_for_kernels(a, space) for a in inputs]
    call = functools.partial(pk.parallel_reduce, _range(space, len(inputs[0])), kernel, *views, **reducer)
    result = call if which is None else lambda: call()[which]
    return _duel(name, title, sum(a.nbytes for a in inputs), space, call, result, inputs, tolerance)


def _range(space, n):
    return pk.RangePolicy(0, n, space=space)


def _axpy(space, x, y):
    out = pk.copy_of(y, space)
    call = common.launch_over(space, len(x), axpy, A, _array_for_kernels(x, space), out)
    given = space, call, common.written(call, out, y), (A, x, y)
    return _duel("axpy", f"axpy of {len(x):,} float64", 3 * x.nbytes, *given)


def _matvec(space, x, y):
    edge = math.isqrt(len(x))
    a, x, out = x[: edge * edge].reshape(edge, edge), y[:edge], pk.empty((edge,), space=space)
    title = f"matrix times vector, {edge:,} x {edge:,} float64, one team per row"
    policy = pk.TeamPolicy(edge, space=space)
    return _written("matvec", title, a.nbytes + 2 * x.nbytes, space, policy, matvec, (a, x), out)


def _matmul(space, x, y):
    edge = max(1, round((16 * len(x)) ** (1 / 3) / T)) * T
    squares, out = [np.resize(v, (edge, edge)) for v in (x, y)], pk.empty((edge, edge), space=space)
    policy = pk.TeamPolicy((edge // T) ** 2, space=space)
    title = (
        f"matrix product, {edge:,} cubed, float64, tiles of {T} in scratch, {scaled(2 * edge**3)} operations"
    )
    return _written("matmul", title, 3 * out.nbytes, space, policy, matmul, squares, out)


def _overlapped():
    """Return the kernel of that name in docs/products.md."""
    page, names = revision.HERE / "docs/products.md", {"pk": pk}
    before, code, _ = re.split(r"```python\n(?=@pk.function\ndef load)|\n\na, b, c = .*96", page.read_text())
    exec(compile("\n" * before.count("\n") + "\n" + code, page, "exec"), names)
    return names["overlapped"]


def _dense(space, x, dtype, tolerance):
    """Return the duel of the product of docs/products.md with the machine's BLAS."""
    few = 16, 16, 16, 8
    edge, *tile = common.size(space, len(x) < 1_000_000, few, few, (4096, 64, 128, 16), (2304, 192, 256, 64))
    a, b = np.resize(x, (2, edge, edge)).astype(dtype)
    inputs, out = (*map(pk.static, tile), a, b), pk.empty(a.shape, dtype, space)
    policy = pk.TeamPolicy(edge // tile[0] * (edge // tile[1]), 128, space=space)
    about = {"tools": ["cublas" if "cuda" in space else "blas"], "flops": 2 * edge**3}
    given = 3 * out.nbytes, space, policy, _overlapped(), inputs, out, tolerance
    return _written("dense", f"dense product, {edge:,} cubed, {dtype}", *given, **about)


def _stencil(space, x):
    edge = max(3, int(len(x) ** (1 / 3)))
    u = np.resize(x, (edge, edge, edge))
    out = pk.zeros(u.shape, space=space)
    policy = pk.MDRangePolicy((1, 1, 1), (edge - 1,) * 3, space=space)
    return _written(
        "stencil", f"7-point stencil, {edge:,} cubed, float64", 2 * u.nbytes, space, policy, stencil, [u], out
    )


def _argmin(space, x):
    x = x + 1.0
    x[2 * len(x) // 3] = 0.5
    about = {"tolerance": 0.0, "which": 1, "reducer": pk.MinLoc}
    return _reduced("argmin", f"argmin of {len(x):,} float64", space, element, x, **about)


def _histogram(space, levels):
    counts = pk.zeros((BINS,), np.int32, space)
    empty = common.launch_over(space, BINS, clear, counts)
    fill = common.launch_over(
        space, len(levels), count, _array_for_kernels(levels, space), pk.ScatterView(counts)
    )

    def call():
        empty()
        fill()

    title = f"histogram of {len(levels):,} int32, {BINS} bins, ScatterView"
    result = common.written(call, counts)
    return _duel("histogram", title, levels.nbytes, space, call, result, (levels, BINS), tolerance=0.0)


def _scan(space, x):
    out = pk.empty(x.shape, x.dtype, space)
    call = functools.partial(
        pk.parallel_scan, _range(space, len(x)), element, _array_for_kernels(x, space), out=out
    )
    about = common.written(call, out), (x,), 0.0 if x.dtype.kind == "i" else TOLERANCE
    return _duel("scan", f"scan of {len(x):,} {x.dtype}", 2 * x.nbytes, space, call, *about)


def _conditional(space, x):
    title, out = f"exp under a condition, {len(x):,} float64", pk.empty(x.shape, space=space)
    return _written("conditional", title, 2 * x.nbytes, space, _range(space, len(x)), exp_of_large, [x], out)


def _mandelbrot(space, n):
    edge = max(
        4, math.isqrt(n // (8 if space.startswith("cuda") else 40))
    )  # by the measured time in milliseconds
    cx, cy = common.complex_plane(edge)
    steps, policy = pk.empty((cx.size,), np.int32, space), _range(space, cx.size)
    title = f"Mandelbrot set, {edge:,} x {edge:,} points, at most {LIMIT} steps"
    return _written(
        "mandelbrot", title, 20 * cx.size, space, policy, mandelbrot, (LIMIT, cx, cy), steps, CHAOS
    )
