"""The micro-kernels in CUDA C++ through CuPy's RawModule."""

import functools

import cupy

from roofline.contract import Contender
from roofline.digest import digest

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
triad(long long n, double s, const double* __restrict__ b, const double* __restrict__ c, double* __restrict__ a) {
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
"""


@functools.cache
def _module(chains):
    return cupy.RawModule(code=SOURCE, options=(f"-DBLOCK={BLOCK}", f"-DCHAINS={chains}"))


def contenders(name, chains, *inputs):
    """One peer; `name` is "copy", "triad", "fma_float64" or "fma_float32"."""
    kernel, wait = _module(chains).get_function(name), cupy.cuda.Device().synchronize
    if name.startswith("fma"):
        n, trips, b, c = inputs
        out, dtype = cupy.ones(n, name.removeprefix("fma_")), cupy.dtype(name.removeprefix("fma_")).type
        args = (n, trips, dtype(b), dtype(c), out)
    else:
        scale, views = inputs
        arrays = [cupy.asarray(view) for view in views]
        n, out = arrays[-1].size, arrays[-1]
        args = (n, *scale, *arrays)
    call = functools.partial(kernel, (-(-n // BLOCK),), (BLOCK,), args)

    def result():
        out[:] = name.startswith("fma")
        call()
        return digest(out.get())

    return [Contender("CUDA C++", call, sync=wait, result=result)]
