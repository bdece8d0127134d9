"""Resampling as a CuPy user writes it, and Metropolis chains in CUDA C++ with the same generator as ours."""

import cupy
import numpy as np

from portable.roofline.contract import Contender

if not cupy.cuda.is_available():
    raise ImportError("CuPy finds no CUDA device")

BLOCK = 256
STEPS = 16

SOURCE = r"""
__device__ uint4 philox(uint4 c, uint2 k) {  // Philox4x32-10
    #pragma unroll
    for (int r = 0; r < 10; ++r) {
        const unsigned h0 = __umulhi(0xD2511F53u, c.x), l0 = 0xD2511F53u * c.x;
        const unsigned h1 = __umulhi(0xCD9E8D57u, c.z), l1 = 0xCD9E8D57u * c.z;
        c = make_uint4(h1 ^ c.y ^ k.x, l1, h0 ^ c.w ^ k.y, l0);
        k.x += 0x9E3779B9u;
        k.y += 0xBB67AE85u;
    }
    return c;
}

extern "C" __global__ void __launch_bounds__(BLOCK)
metropolis(int n, int steps, const float* __restrict__ w, unsigned seed, long long* __restrict__ ancestors) {
    const int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i >= n) return;
    int own = i;
    float weight = w[i];
    for (int b = 0; b < steps; ++b) {
        const uint4 r = philox(make_uint4(b, 0, i, 0), make_uint2(seed, 0));
        const int j = (int)__umul64hi(((unsigned long long)r.y << 32) | r.x, (unsigned long long)n);
        const float other = w[j];
        if ((r.z >> 8) * 0x1p-24f * weight < other) {
            own = j;
            weight = other;
        }
    }
    ancestors[i] = own;
}
"""


def contenders(scheme, x, w):
    """CuPy's calls for systematic resampling, CUDA C++ for Metropolis.

    Parameters
    ----------
    scheme : str
    x : ndarray, shape (n,)
        States, of which the result is the mean.
    w : ndarray of float32, shape (n,)

    Returns
    -------
    list of Contender
    """
    on_x, on_w = cupy.asarray(x), cupy.asarray(w)
    call, label = {"systematic": _systematic, "metropolis": _metropolis}[scheme](on_w)
    return [
        Contender(label, call, sync=cupy.cuda.Device().synchronize, result=lambda: float(on_x[call()].mean()))
    ]


def _systematic(w):
    n = len(w)
    ranks = cupy.arange(n)

    def call():
        cumulative = cupy.cumsum(w, dtype=np.float64)  # float32 sums would fail a third of the particles
        return cupy.searchsorted(cumulative, (ranks + 0.37) * (cumulative[-1] / n))

    return call, "CuPy, cumsum and searchsorted"


def _metropolis(w):
    n = len(w)
    kernel = cupy.RawModule(code=SOURCE, options=("-std=c++17", f"-DBLOCK={BLOCK}")).get_function(
        "metropolis"
    )
    ancestors = cupy.empty(n, np.int64)

    def call():
        kernel((-(-n // BLOCK),), (BLOCK,), (np.int32(n), np.int32(STEPS), w, np.uint32(3), ancestors))
        return ancestors

    return call, "CUDA C++"
