"""The layer's words in CUDA C++ through CuPy's RawModule, and CuPy's own calls where they stand on CUB.

Kernels are what a practised author writes first: blocks of 256, warp shuffles and a grid that fills the
device once in sums, a block's own bins in shared memory, a stencil's planes in registers.
"""

import functools

import cupy
import numpy as np

from portable.roofline.contract import Contender
from portable.roofline.digest import digest

if not cupy.cuda.is_available():
    raise ImportError("CuPy finds no CUDA device")

BLOCK = 256
BLOCKS_PER_PROCESSOR = 8  # of 256 threads: all that a multiprocessor holds
TILE = 16  # edge of a matrix product's tile
WIDE, HIGH, DEEP = 32, 8, 32  # a stencil's block, and the planes that it walks through

SOURCE = r"""
#define INF __longlong_as_double(0x7ff0000000000000LL)

__device__ double block_sum(double v) {  // the result is thread 0's
    __shared__ double warps[BLOCK / 32];
    for (int k = 16; k; k /= 2) v += __shfl_down_sync(0xffffffffu, v, k);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = v;
    __syncthreads();
    v = threadIdx.x < BLOCK / 32 ? warps[threadIdx.x] : 0;
    if (threadIdx.x < 32)
        for (int k = 16; k; k /= 2) v += __shfl_down_sync(0xffffffffu, v, k);
    return v;
}

extern "C" __global__ void __launch_bounds__(BLOCK)
axpy(long long n, double a, const double* __restrict__ x, double* __restrict__ y) {
    const long long i = blockIdx.x * (long long)BLOCK + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}

extern "C" __global__ void __launch_bounds__(BLOCK)
dot(long long n, const double* __restrict__ x, const double* __restrict__ y, double* __restrict__ sums) {
    const long long step = gridDim.x * (long long)BLOCK;
    double total = 0;
    #pragma unroll 4
    for (long long i = blockIdx.x * (long long)BLOCK + threadIdx.x; i < n; i += step) total += x[i] * y[i];
    total = block_sum(total);
    if (threadIdx.x == 0) sums[blockIdx.x] = total;
}

extern "C" __global__ void __launch_bounds__(BLOCK)
finish_sum(int n, const double* __restrict__ sums, double* __restrict__ out) {
    double total = 0;
    for (int i = threadIdx.x; i < n; i += BLOCK) total += sums[i];
    total = block_sum(total);
    if (threadIdx.x == 0) *out = total;
}

extern "C" __global__ void __launch_bounds__(BLOCK)
matvec(int columns, const double* __restrict__ a, const double* __restrict__ x, double* __restrict__ y) {
    const double* row = a + (size_t)blockIdx.x * columns;
    double total = 0;
    #pragma unroll 4
    for (int c = threadIdx.x; c < columns; c += BLOCK) total += row[c] * x[c];
    total = block_sum(total);
    if (threadIdx.x == 0) y[blockIdx.x] = total;
}

extern "C" __global__ void __launch_bounds__(TILE * TILE)
matmul(int inner, int columns, const double* __restrict__ a, const double* __restrict__ b,
    double* __restrict__ c) {
    __shared__ double a_tile[TILE][TILE], b_tile[TILE][TILE];
    const int r = threadIdx.y, k = threadIdx.x, row = blockIdx.y * TILE + r, column = blockIdx.x * TILE + k;
    double total = 0;
    for (int k0 = 0; k0 < inner; k0 += TILE) {
        a_tile[r][k] = a[(size_t)row * inner + k0 + k];
        b_tile[r][k] = b[(size_t)(k0 + r) * columns + column];
        __syncthreads();
        #pragma unroll
        for (int m = 0; m < TILE; ++m) total += a_tile[r][m] * b_tile[m][k];
        __syncthreads();
    }
    c[(size_t)row * columns + column] = total;
}

extern "C" __global__ void __launch_bounds__(WIDE * HIGH)
stencil_cells(int edge, const double* __restrict__ u, double* __restrict__ out) {
    const int k = blockIdx.x * WIDE + threadIdx.x + 1, j = blockIdx.y * HIGH + threadIdx.y + 1,
        i = blockIdx.z + 1;
    if (k >= edge - 1 || j >= edge - 1) return;
    const size_t plane = (size_t)edge * edge, at = i * plane + (size_t)j * edge + k;
    const double around = u[at - plane] + u[at + plane] + u[at - edge] + u[at + edge] + u[at - 1] + u[at + 1];
    out[at] = 0.4 * u[at] + 0.1 * around;
}

extern "C" __global__ void __launch_bounds__(WIDE * HIGH)
stencil_planes(int edge, const double* __restrict__ u, double* __restrict__ out) {
    const int k = blockIdx.x * WIDE + threadIdx.x + 1, j = blockIdx.y * HIGH + threadIdx.y + 1;
    const int first = blockIdx.z * DEEP + 1, last = min(first + DEEP, edge - 1);
    if (k >= edge - 1 || j >= edge - 1) return;
    const size_t plane = (size_t)edge * edge;
    size_t at = first * plane + (size_t)j * edge + k;
    double below = u[at - plane], here = u[at];
    for (int i = first; i < last; ++i, at += plane) {
        const double above = u[at + plane];
        out[at] = 0.4 * here + 0.1 * (below + above + u[at - edge] + u[at + edge] + u[at - 1] + u[at + 1]);
        below = here;
        here = above;
    }
}

// `places` are those of the elements, or null where an element's own index is its place.
extern "C" __global__ void __launch_bounds__(BLOCK)
argmin(long long n, const double* __restrict__ x, const long long* __restrict__ places,
    double* __restrict__ values,
       long long* __restrict__ found) {
    const long long step = gridDim.x * (long long)BLOCK;
    double best = INF;
    long long place = 0x7fffffffffffffffLL;
    #pragma unroll 4
    for (long long i = blockIdx.x * (long long)BLOCK + threadIdx.x; i < n; i += step) {
        const double v = x[i];
        const long long p = places ? places[i] : i;
        if (v < best || (v == best && p < place)) { best = v; place = p; }
    }
    __shared__ double warp_values[BLOCK / 32];
    __shared__ long long warp_places[BLOCK / 32];
    for (int turn = 0; turn < 2; ++turn) {
        for (int k = 16; k; k /= 2) {
            const double v = __shfl_down_sync(0xffffffffu, best, k);
            const long long p = __shfl_down_sync(0xffffffffu, place, k);
            if (v < best || (v == best && p < place)) { best = v; place = p; }
        }
        if (turn == 1) break;
        if (threadIdx.x % 32 == 0) { warp_values[threadIdx.x / 32] = best;
            warp_places[threadIdx.x / 32] = place; }
        __syncthreads();
        const bool mine = threadIdx.x < BLOCK / 32;
        best = mine ? warp_values[threadIdx.x] : INF;
        place = mine ? warp_places[threadIdx.x] : 0x7fffffffffffffffLL;
    }
    if (threadIdx.x == 0) { values[blockIdx.x] = best; found[blockIdx.x] = place; }
}

extern "C" __global__ void __launch_bounds__(BLOCK)
histogram(long long n, const int* __restrict__ levels, int* __restrict__ counts) {
    __shared__ int own[BINS];
    for (int b = threadIdx.x; b < BINS; b += BLOCK) own[b] = 0;
    __syncthreads();
    const long long first = blockIdx.x * (long long)BLOCK + threadIdx.x, step = gridDim.x * (long long)BLOCK;
    const int4* fours = (const int4*)levels;  // of an allocation's start, so aligned
    for (long long i = first; i < n / 4; i += step) {
        const int4 v = fours[i];
        atomicAdd(&own[v.x], 1);
        atomicAdd(&own[v.y], 1);
        atomicAdd(&own[v.z], 1);
        atomicAdd(&own[v.w], 1);
    }
    for (long long i = n / 4 * 4 + first; i < n; i += step) atomicAdd(&own[levels[i]], 1);
    __syncthreads();
    for (int b = threadIdx.x; b < BINS; b += BLOCK) atomicAdd(&counts[b], own[b]);
}

extern "C" __global__ void __launch_bounds__(BLOCK)
exp_of_large(long long n, const double* __restrict__ x, double* __restrict__ out) {
    const long long i = blockIdx.x * (long long)BLOCK + threadIdx.x;
    if (i < n) out[i] = x[i] > 0.5 ? exp(-x[i]) : x[i];
}

extern "C" __global__ void __launch_bounds__(BLOCK)
mandelbrot(long long n, int limit, const double* __restrict__ cx, const double* __restrict__ cy,
           int* __restrict__ steps) {
    const long long i = blockIdx.x * (long long)BLOCK + threadIdx.x;
    if (i >= n) return;
    const double a = cx[i], b = cy[i];
    double x = 0, y = 0;
    int count = 0;
    while (count < limit && x * x + y * y <= 4.0) {
        const double next = x * x - y * y + a;
        y = 2.0 * x * y + b;
        x = next;
        ++count;
    }
    steps[i] = count;
}
"""


def contenders(name, *inputs):
    """CUDA C++ and CuPy's calls for one word.

    Parameters
    ----------
    name : str
        A key of `WORDS`.
    *inputs : ndarrays and numbers
        As the case of that word hands them over.

    Returns
    -------
    list of Contender
    """
    return WORDS[name](*inputs)


@functools.cache
def _module(bins=1):
    sizes = {"BLOCK": BLOCK, "TILE": TILE, "WIDE": WIDE, "HIGH": HIGH, "DEEP": DEEP, "BINS": bins}
    return cupy.RawModule(
        code=SOURCE, options=("-std=c++17", *(f"-D{name}={size}" for name, size in sizes.items()))
    )


def _blocks(n, block=BLOCK):
    return -(-n // block)


def _resident():
    """Blocks of a grid that fills the device once."""
    return BLOCKS_PER_PROCESSOR * cupy.cuda.Device().attributes["MultiProcessorCount"]


def _contender(label, call, result):
    return Contender(label, call, sync=cupy.cuda.Device().synchronize, result=result)


def _writer(kernel, grid, block, *args, label="CUDA C++"):
    """A launch whose last argument is written."""
    call = functools.partial(_module().get_function(kernel), grid, block, args)

    def result():
        call()
        return digest(cupy.asnumpy(args[-1]))

    return _contender(label, call, result)


def _axpy(a, x, y):
    on_x, on_y = cupy.asarray(x), cupy.asarray(y)
    n = len(x)
    launch = _writer("axpy", (_blocks(n),), (BLOCK,), np.int64(n), np.float64(a), on_x, on_y)

    def result():
        on_y.set(y)
        return launch.result()

    return [_contender(launch.label, launch.call, result)]


def _dot(x, y):
    x, y = cupy.asarray(x), cupy.asarray(y)
    dot, finish = (_module().get_function(name) for name in ("dot", "finish_sum"))
    blocks = _resident()
    sums, out = cupy.empty(blocks), cupy.empty(1)
    n = np.int64(len(x))

    def call():
        dot((blocks,), (BLOCK,), (n, x, y, sums))
        finish((1,), (BLOCK,), (np.int32(blocks), sums, out))
        return out.item()

    def library():
        return float(x @ y)

    return [_contender("CUDA C++", call, call), _contender("CuPy, x @ y (cuBLAS)", library, library)]


def _matvec(a, x):
    rows, columns = a.shape
    views = cupy.asarray(a), cupy.asarray(x), cupy.empty(rows)
    return [_writer("matvec", (rows,), (BLOCK,), np.int32(columns), *views)]


def _matmul(a, b):
    rows, inner = a.shape
    columns = b.shape[1]
    views = cupy.asarray(a), cupy.asarray(b), cupy.empty((rows, columns))
    grid = columns // TILE, rows // TILE
    return [_writer("matmul", grid, (TILE, TILE), np.int32(inner), np.int32(columns), *views)]


def _stencil(u):
    edge = u.shape[0]
    views = cupy.asarray(u), cupy.zeros(u.shape)
    across, down = _blocks(edge - 2, WIDE), _blocks(edge - 2, HIGH)
    shapes = {
        "cells": (edge - 2, "one thread per cell"),
        "planes": (_blocks(edge - 2, DEEP), f"{DEEP} planes a thread"),
    }
    return [
        _writer(
            f"stencil_{name}",
            (across, down, deep),
            (WIDE, HIGH),
            np.int32(edge),
            *views,
            label=f"CUDA C++, {words}",
        )
        for name, (deep, words) in shapes.items()
    ]


def _argmin(x):
    x = cupy.asarray(x)
    argmin = _module().get_function("argmin")
    blocks = _resident()
    values, places = cupy.empty(blocks), cupy.empty(blocks, np.int64)
    best, found = cupy.empty(1), cupy.empty(1, np.int64)
    n, none = np.int64(len(x)), np.intp(0)

    def call():
        argmin((blocks,), (BLOCK,), (n, x, none, values, places))
        argmin((1,), (BLOCK,), (np.int64(blocks), values, places, best, found))
        return found.item()

    def library():
        return int(cupy.argmin(x))

    return [_contender("CUDA C++", call, call), _contender("CuPy argmin", library, library)]


def _histogram(levels, bins):
    levels = cupy.asarray(levels)
    counts = cupy.empty(bins, np.int32)
    kernel, blocks, n = _module(bins).get_function("histogram"), _resident(), np.int64(len(levels))

    def call():
        counts.fill(0)
        kernel((blocks,), (BLOCK,), (n, levels, counts))

    def result():
        call()
        return digest(cupy.asnumpy(counts))

    def library():
        return cupy.histogram(levels, bins=bins, range=(0, bins))[0]

    return [
        _contender("CUDA C++, bins in shared memory", call, result),
        _contender("CuPy histogram (CUB)", library, lambda: digest(cupy.asnumpy(library()))),
    ]


def _scan(x):
    x = cupy.asarray(x)
    out = cupy.empty_like(x)
    call = functools.partial(cupy.cumsum, x, out=out)

    def result():
        call()
        return digest(cupy.asnumpy(out))

    return [_contender("CuPy cumsum (a copy, then CUB in place)", call, result)]


def _sum(x):
    x = cupy.asarray(x)

    def call():
        return int(cupy.sum(x))

    return [_contender("CuPy sum (CUB)", call, call)]


def _conditional(x):
    n = len(x)
    return [_writer("exp_of_large", (_blocks(n),), (BLOCK,), np.int64(n), cupy.asarray(x), cupy.empty(n))]


def _mandelbrot(limit, cx, cy):
    n = cx.size
    views = cupy.asarray(cx), cupy.asarray(cy), cupy.empty(n, np.int32)
    return [_writer("mandelbrot", (_blocks(n),), (BLOCK,), np.int64(n), np.int32(limit), *views)]


WORDS = {
    "axpy": _axpy,
    "dot": _dot,
    "matvec": _matvec,
    "matmul": _matmul,
    "stencil": _stencil,
    "argmin": _argmin,
    "histogram": _histogram,
    "scan": _scan,
    "sum": _sum,
    "conditional": _conditional,
    "mandelbrot": _mandelbrot,
}
