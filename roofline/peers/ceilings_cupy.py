"""The micro-kernels in CUDA C++ through CuPy's RawModule."""

import functools

import cupy
import numpy as np

from portable.roofline import microkernels as kernels
from portable.roofline.contract import Contender
from portable.roofline.digest import digest

if not cupy.cuda.is_available():
    raise ImportError("CuPy finds no CUDA device")

BLOCK = 256
SOURCE = r"""
extern "C" __global__ void __launch_bounds__(BLOCK)
copy(long long n, const double* __restrict__ b, double* __restrict__ a) {
    const long long i = blockIdx.x * (long long)BLOCK + threadIdx.x;
    if (i < n) a[i] = b[i];
}

extern "C" __global__ void __launch_bounds__(BLOCK)
triad(long long n, double s, const double* __restrict__ b, const double* __restrict__ c,
    double* __restrict__ a) {
    const long long i = blockIdx.x * (long long)BLOCK + threadIdx.x;
    if (i < n) a[i] = b[i] + s * c[i];
}

#define FMA(NAME, TYPE)                                                        \
extern "C" __global__ void __launch_bounds__(BLOCK, 2048 / BLOCK)              \
NAME(long long n, long long trips, TYPE b, TYPE c, TYPE* out) {                \
    const long long i = blockIdx.x * (long long)BLOCK + threadIdx.x;           \
    if (i >= n) return;                                                        \
    TYPE x[CHAINS], total = 0;                                                 \
    _Pragma("unroll") for (int k = 0; k < CHAINS; ++k) x[k] = out[i] + k;      \
    _Pragma("unroll 8") for (long long t = 0; t < trips; ++t)                  \
        _Pragma("unroll") for (int k = 0; k < CHAINS; ++k) x[k] = x[k] * b + c; \
    _Pragma("unroll") for (int k = 0; k < CHAINS; ++k) total += x[k];          \
    out[i] = total;                                                            \
}
FMA(fma_float64, double)
FMA(fma_float32, float)

__device__ void hand_in(double total, double* out) {
    __shared__ double parts[BLOCK / 32];
    for (int lanes = 16; lanes; lanes /= 2) total += __shfl_down_sync(~0u, total, lanes);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = total;
    __syncthreads();
    if (threadIdx.x) return;
    for (int warp = 1; warp < BLOCK / 32; ++warp) total += parts[warp];
    out[blockIdx.x] = total;
}

extern "C" __global__ void __launch_bounds__(BLOCK)
read_around(int rows, int leap, int trips, const double* __restrict__ x, double* out) {
    double total = 0;
    _Pragma("unroll 8") for (int trip = 0; trip < trips; ++trip) {
        const int row = (blockIdx.x + trip * leap) % rows;
        _Pragma("unroll") for (int j = threadIdx.x; j < WIDTH; j += BLOCK) total += x[row * WIDTH + j];
    }
    hand_in(total, out);
}

extern "C" __global__ void __launch_bounds__(BLOCK)
read_scratch(int trips, double* out) {
    __shared__ double kept[BAND * BANDS];
    for (int j = threadIdx.x; j < BAND * BANDS; j += BLOCK) kept[j] = 1;
    __syncthreads();
    double total[BANDS] = {}, all = 0;
    _Pragma("unroll 4") for (int trip = 0; trip < trips; ++trip)
        _Pragma("unroll") for (int k = 0; k < BANDS; ++k) total[k] += kept[(threadIdx.x + trip) % BAND +
            k * BAND];
    _Pragma("unroll") for (int k = 0; k < BANDS; ++k) all += total[k];
    hand_in(all / BLOCK, out);
}
"""


@functools.cache
def _module(chains):
    sizes = {
        "BLOCK": BLOCK,
        "CHAINS": chains,
        "WIDTH": kernels.MOST * BLOCK,
        "BAND": kernels.BAND,
        "BANDS": kernels.BANDS,
    }
    return cupy.RawModule(code=SOURCE, options=tuple(f"-D{name}={size}" for name, size in sizes.items()))


def contenders(name, chains, *inputs):
    """One peer; `name` is "copy", "triad", "fma_float64", "fma_float32", "read_around" or "read_scratch"."""
    kernel, wait = _module(chains).get_function(name), cupy.cuda.Device().synchronize
    if name.startswith("fma"):
        n, trips, b, c = inputs
        out, dtype = cupy.ones(n, name.removeprefix("fma_")), cupy.dtype(name.removeprefix("fma_")).type
        args, blocks = (n, trips, dtype(b), dtype(c), out), -(-n // BLOCK)
    elif name.startswith("read"):
        *args, out = (cupy.asarray(a) if hasattr(a, "shape") else np.int32(a) for a in inputs)
        args, blocks = (*args, out), out.size
    else:
        scale, views = inputs
        arrays = [cupy.asarray(view) for view in views]
        n, out = arrays[-1].size, arrays[-1]
        args, blocks = (n, *scale, *arrays), -(-n // BLOCK)
    call = functools.partial(kernel, (blocks,), (BLOCK,), args)

    def result():
        out[:] = name.startswith("fma")
        call()
        return digest(out.get())

    return [Contender("CUDA C++", call, sync=wait, result=result)]
