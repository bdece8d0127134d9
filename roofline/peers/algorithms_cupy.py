"""CuPy's own calls, which stand on CUB and Thrust; for ragged rows kernels in CUDA C++ too, as a practised
author writes them first.
"""

import functools

import cupy
import numpy as np

from portable.roofline.contract import Contender
from portable.roofline.digest import digest

if not cupy.cuda.is_available():
    raise ImportError("CuPy finds no CUDA device")


BLOCK, TILE = 256, 2048  # threads, and the values that a block sums up in shared memory

SOURCE = r"""
typedef long long Index;

__device__ Index row_of(const Index* offsets, Index n_rows, Index i) {  // the last that begins at or before i
    Index low = 0, high = n_rows;
    while (high - low > 1) {
        const Index middle = (low + high) / 2;
        if (offsets[middle] <= i) low = middle; else high = middle;
    }
    return low;
}

// A block takes a tile of the values, a thread a row of it; of rows that go on, the parts are added.
extern "C" __global__ void __launch_bounds__(BLOCK)
sums_by_tiles(Index n, Index n_rows, const double* __restrict__ x, const Index* __restrict__ offsets,
    double* out) {
    __shared__ double tile[TILE];
    __shared__ Index first;
    const Index begin = blockIdx.x * (Index)TILE, end = min(begin + TILE, n);
    if (threadIdx.x == 0) first = row_of(offsets, n_rows, begin);
    for (Index i = begin + threadIdx.x; i < end; i += BLOCK) tile[i - begin] = x[i];
    __syncthreads();
    for (Index r = first + threadIdx.x; r < n_rows && offsets[r] < end; r += BLOCK) {
        const Index low = max(offsets[r], begin), high = min(offsets[r + 1], end);
        double total = 0;
        for (Index i = low; i < high; ++i) total += tile[i - begin];
        if (low == offsets[r] && high == offsets[r + 1]) out[r] = total;
        else atomicAdd(&out[r], total);
    }
}

extern "C" __global__ void __launch_bounds__(BLOCK)
sums_by_warps(Index n_rows, const double* __restrict__ x, const Index* __restrict__ offsets, double* out) {
    const Index r = (blockIdx.x * (Index)BLOCK + threadIdx.x) / 32;
    if (r >= n_rows) return;
    double total = 0;
    #pragma unroll 4
    for (Index i = offsets[r] + threadIdx.x % 32; i < offsets[r + 1]; i += 32) total += x[i];
    for (int k = 16; k; k /= 2) total += __shfl_down_sync(0xffffffffu, total, k);
    if (threadIdx.x % 32 == 0) out[r] = total;
}

extern "C" __global__ void __launch_bounds__(BLOCK)
prefixes_by_threads(Index n_rows, const double* __restrict__ x, const Index* __restrict__ offsets,
    double* out) {
    const Index r = blockIdx.x * (Index)BLOCK + threadIdx.x;
    if (r >= n_rows) return;
    double total = 0;
    for (Index i = offsets[r]; i < offsets[r + 1]; ++i) out[i] = total += x[i];
}

extern "C" __global__ void __launch_bounds__(BLOCK)
prefixes_by_warps(Index n_rows, const double* __restrict__ x, const Index* __restrict__ offsets,
    double* out) {
    const Index r = (blockIdx.x * (Index)BLOCK + threadIdx.x) / 32;
    if (r >= n_rows) return;
    const int lane = threadIdx.x % 32;
    double before = 0;
    for (Index base = offsets[r]; base < offsets[r + 1]; base += 32) {
        const Index i = base + lane;
        double total = i < offsets[r + 1] ? x[i] : 0;
        for (int k = 1; k < 32; k *= 2) {
            const double other = __shfl_up_sync(0xffffffffu, total, k);
            if (lane >= k) total += other;
        }
        if (i < offsets[r + 1]) out[i] = before + total;
        before += __shfl_sync(0xffffffffu, total, 31);
    }
}
"""


def contenders(name, *inputs):
    """CuPy's ways to one result, on copies of the host arrays."""
    inputs = [cupy.asarray(v) if isinstance(v, np.ndarray) else v for v in inputs]
    ways = WAYS[name] if isinstance(WAYS[name], dict) else {"CuPy": WAYS[name]}
    return [_contender(label, functools.partial(way, *inputs)) for label, way in ways.items()]


def _contender(label, call):
    sync = cupy.cuda.get_current_stream().synchronize
    result = None if label.startswith("a copy") else lambda: digest(call().get())
    return Contender(label, call, sync, result)


@functools.cache
def _kernel(name):
    options = "-std=c++17", f"-DBLOCK={BLOCK}", f"-DTILE={TILE}"
    return cupy.RawModule(code=SOURCE, options=options).get_function(name)


def _launch(name, n_threads, *args):
    """A launch whose last argument is written, and returned."""
    _kernel(name)((-(-n_threads // BLOCK),), (BLOCK,), args)
    return args[-1]


def _sums_by_tiles(x, offsets):
    n, n_rows = np.int64(len(x)), np.int64(len(offsets) - 1)
    blocks = -(-len(x) // TILE)
    return _launch("sums_by_tiles", BLOCK * blocks, n, n_rows, x, offsets, cupy.zeros(int(n_rows)))


def _sums_by_warps(x, offsets):
    n_rows = np.int64(len(offsets) - 1)
    return _launch("sums_by_warps", 32 * int(n_rows), n_rows, x, offsets, cupy.empty(int(n_rows)))


def _prefixes(name, threads_a_row, x, offsets):
    n_rows = np.int64(len(offsets) - 1)
    return _launch(name, threads_a_row * int(n_rows), n_rows, x, offsets, cupy.empty_like(x))


def _prefixes_by_cumsum(x, offsets):
    """The prefixes of all, less what lies before each row."""
    total = cupy.cumsum(x)
    before = cupy.where(offsets[:-1] > 0, total[offsets[:-1] - 1], 0.0)
    rows = cupy.zeros(len(x), np.int32)
    rows[offsets[1:-1]] = 1  # no row is empty
    return total - before[cupy.cumsum(rows)]


def _copy_of_three(decay, x):
    """What a recurrence must move: two arrays read and one written: a copy of half as many more."""
    source, target = _room_of_copy(len(x))
    cupy.copyto(target, source)
    return target


@functools.cache
def _room_of_copy(n):
    return cupy.zeros(3 * n // 2), cupy.zeros(3 * n // 2)


def _partition(x, k):
    """The k largest columns, then these in order; equal entries do not occur."""
    some = cupy.argpartition(x, x.shape[1] - k, axis=1)[:, x.shape[1] - k :]
    return cupy.take_along_axis(some, cupy.argsort(-cupy.take_along_axis(x, some, axis=1), axis=1), axis=1)


WAYS = {
    "argsort": functools.partial(cupy.argsort, kind="stable"),
    "top_k": _partition,
    "compact": lambda keep, x: x[keep],
    "segmented_reduce": {
        "CuPy, add.reduceat": lambda x, offsets: cupy.add.reduceat(x, offsets[:-1]),
        "CUDA C++, a block a tile": _sums_by_tiles,
        "CUDA C++, a warp a row": _sums_by_warps,
    },
    "segmented_scan": {
        "CuPy, cumsum (CUB) less what is before": _prefixes_by_cumsum,
        "CUDA C++, a thread a row": functools.partial(_prefixes, "prefixes_by_threads", 1),
        "CUDA C++, a warp a row": functools.partial(_prefixes, "prefixes_by_warps", 32),
    },
    "recurrence": {"a copy of as many bytes, by CuPy": _copy_of_three},
}
