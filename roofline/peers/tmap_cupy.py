"""EM for transient Markovian arrival processes in CUDA C++, for three branches of orders 1, 2 and 3: a thread
a run.
"""

import cupy as cp
import numpy as np

from portable.roofline.contract import Contender

THREADS = 128
N_SUMS = 19  # first gaps, visits, times: 3 each; switches: 9; the logarithm

# Runs are sorted by length and lie side by side, 32 of them, so that neighbouring threads read neighbouring
# gaps.
SOURCE = r"""
struct Model { real alpha[3], rate[3], to[9]; };

__device__ void densities(const Model& m, real x, real* f) {
    real y1 = m.rate[1] * x, y2 = m.rate[2] * x;
    f[0] = m.rate[0] * EXP(-m.rate[0] * x);
    f[1] = m.rate[1] * y1 * EXP(-y1);
    f[2] = m.rate[2] * (real)0.5 * y2 * y2 * EXP(-y2);
}

extern "C" __global__ void expectation(const real* __restrict__ x, const long long* __restrict__ offset,
                                       const int* __restrict__ length, int n_runs,
                                           const double* __restrict__ model,
                                       real* before, double* partial) {
    Model m;
    real end[3], sum[19];
    for (int i = 0; i < 3; i++) { m.alpha[i] = model[i]; m.rate[i] = model[3 + i]; end[i] = 1; }
    for (int k = 0; k < 9; k++) { m.to[k] = model[6 + k]; end[k / 3] -= m.to[k]; }
    for (int k = 0; k < 19; k++) sum[k] = 0;
    int run = blockIdx.x * blockDim.x + threadIdx.x;
    if (run < n_runs) {
        int n = length[run];
        const real* gap = x + offset[run / 32] + run % 32;
        real* kept = before + 3 * offset[run / 32] + run % 32;
        real a[3] = {m.alpha[0], m.alpha[1], m.alpha[2]}, f[3];
        for (int k = 0; k < n; k++) {
            densities(m, gap[32 * k], f);
            real total = 0, next[3];
            for (int i = 0; i < 3; i++) { kept[96 * k + 32 * i] = a[i]; f[i] *= a[i]; }
            for (int j = 0; j < 3; j++) {
                next[j] = f[0] * m.to[j] + f[1] * m.to[3 + j] + f[2] * m.to[6 + j];
                total += next[j];
            }
            if (k + 1 < n) sum[18] += LOG(total);
            real scale = 1 / total;
            for (int j = 0; j < 3; j++) a[j] = next[j] * scale;
        }
        real behind[3] = {end[0], end[1], end[2]}, b[3] = {0, 0, 0};
        for (int k = n - 1; k >= 0; k--) {
            real here = gap[32 * k], total = 0, g[3];
            densities(m, here, f);
            for (int i = 0; i < 3; i++) { g[i] = kept[96 * k + 32 * i] * f[i]; total += g[i] * behind[i]; }
            if (k == n - 1) sum[18] += LOG(total);
            real scale = 1 / total;
            for (int i = 0; i < 3; i++) {
                g[i] *= scale;
                real q = g[i] * behind[i];
                if (k == 0) sum[i] += q;
                sum[3 + i] += q;
                sum[6 + i] += here * q;
                for (int j = 0; j < 3; j++) sum[9 + 3 * i + j] += g[i] * b[j];
            }
            total = 0;
            for (int i = 0; i < 3; i++) { b[i] = f[i] * behind[i]; total += b[i]; }
            scale = 1 / total;
            for (int i = 0; i < 3; i++) b[i] *= scale;
            for (int i = 0; i < 3; i++) behind[i] = m.to[3 * i] * b[0] + m.to[3 * i + 1] * b[1] +
                m.to[3 * i + 2] * b[2];
        }
    }
    __shared__ real warps[32][19];
    for (int k = 0; k < 19; k++) {
        real v = sum[k];
        for (int by = 16; by; by >>= 1) v += __shfl_down_sync(~0u, v, by);
        if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32][k] = v;
    }
    __syncthreads();
    if (threadIdx.x < 19) {
        double v = 0;
        for (int w = 0; w < blockDim.x / 32; w++) v += warps[w][threadIdx.x];
        partial[(long long)threadIdx.x * gridDim.x + blockIdx.x] = v;
    }
}

extern "C" __global__ void add(const double* partial, int n, double* total) {
    __shared__ double warps[32];
    double v = 0;
    for (int k = threadIdx.x; k < n; k += blockDim.x) v += partial[(long long)blockIdx.x * n + k];
    for (int by = 16; by; by >>= 1) v += __shfl_down_sync(~0u, v, by);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = v;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < blockDim.x / 32; w++) v += warps[w];
        total[blockIdx.x] = v;
    }
}

extern "C" __global__ void maximise(const double* total, double n_runs, double* model) {
    int i = threadIdx.x;
    model[i] = total[i] / n_runs;
    model[3 + i] = (i + 1) * total[3 + i] / total[6 + i];
    for (int j = 0; j < 3; j++) model[6 + 3 * i + j] *= total[9 + 3 * i + j] / total[3 + i];
}
"""


def contenders(values, lengths, start, n_iterations):
    """As many EM iterations from the same start, captured as one graph.

    Parameters
    ----------
    values : ndarray of float32 or float64, shape (n_gaps,)
    lengths : ndarray of int, shape (n_runs,)
    start : tuple of ndarray
        alpha, orders (1, 2, 3), rates, switching.
    n_iterations : int

    Returns
    -------
    list of Contender, whose results are the log-likelihood before the last iteration
    """
    real = values.dtype
    names = (
        {"real": "float", "EXP": "__expf", "LOG": "__logf"}
        if real == np.float32
        else {"real": "double", "EXP": "exp", "LOG": "log"}
    )
    module = cp.RawModule(code="".join(f"#define {k} {v}\n" for k, v in names.items()) + SOURCE)
    order = np.argsort(-lengths, kind="stable")
    rows = lengths[order][::32].astype(np.int64) * 32
    offset = np.concatenate([[0], np.cumsum(rows)])
    begin, slot = np.cumsum(lengths) - lengths, np.empty(len(lengths), np.int64)
    slot[order] = np.arange(len(lengths))
    k = np.arange(len(values)) - np.repeat(begin, lengths)
    packed = np.zeros(offset[-1], real)
    packed[np.repeat(offset[slot // 32] + slot % 32, lengths) + 32 * k] = values
    first = cp.asarray(np.concatenate([start[0], start[2], start[3].ravel()]))
    model, total, x = cp.empty_like(first), cp.empty(N_SUMS), cp.asarray(packed)
    n_blocks = -(-len(lengths) // THREADS)
    partial, before = cp.empty((N_SUMS, n_blocks)), cp.empty(3 * len(packed), real)
    args = (
        x,
        cp.asarray(offset),
        cp.asarray(lengths[order].astype(np.int32)),
        np.int32(len(lengths)),
        model,
        before,
        partial,
    )
    expectation, add, maximise = (module.get_function(name) for name in ("expectation", "add", "maximise"))

    def iterate():
        for _ in range(n_iterations):
            expectation((n_blocks,), (THREADS,), args)
            add((N_SUMS,), (256,), (partial, np.int32(n_blocks), total))
            maximise((1,), (3,), (total, np.float64(len(lengths)), model))

    iterate()  # compiles, before the capture
    stream = cp.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        iterate()
        graph = stream.end_capture()

    def call(held=(args, partial)):  # the graph holds addresses only
        with stream:
            cp.copyto(model, first)
            graph.launch(stream)

    return [
        Contender(
            "CUDA C++, CuPy, one graph",
            call,
            sync=cp.cuda.Device().synchronize,
            result=lambda: float(total[18]),
        )
    ]
