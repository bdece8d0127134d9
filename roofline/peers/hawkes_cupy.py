"""The Hawkes log-likelihood in two dimensions, in CUDA C++ through CuPy's RawModule.

`triangle` is our algorithm: tiles of the lower triangle, each pair once with two exps, sums of 32 terms
before they go to float64, and in mixed precision times in two float32 parts. `textbook` is the first CUDA
program: one block an event, n x n pairs, two exps each.
"""

import cupy
import numpy as np

from portable.roofline.contract import Contender

if not cupy.cuda.is_available():
    raise ImportError("CuPy finds no CUDA device")

BLOCK = 128

SOURCE = r"""
__device__ double block_sum(double v) {
    __shared__ double warps[BLOCK / 32];
    for (int k = 16; k; k /= 2) v += __shfl_down_sync(0xffffffffu, v, k);
    __syncthreads();
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = v;
    __syncthreads();
    v = 0;
    for (int k = 0; k < BLOCK / 32; ++k) v += warps[k];
    return v;
}

extern "C" __global__ void __launch_bounds__(BLOCK)
triangle(const REAL* __restrict__ x, const REAL* __restrict__ y, const REAL* __restrict__ t0,
         const REAL* __restrict__ t1, int n, REAL a, REAL b, REAL g, REAL omega, double* __restrict__ mu,
         double* __restrict__ xi) {
    // The tile's row and column from its number, row * (row + 1) / 2 + column; the root may round to a
    // neighbour.
    const int tile = blockIdx.x, lane = threadIdx.x, warp = lane / 32;
    int row = (int)((sqrt(8.0 * tile + 1.0) - 1.0) / 2.0);
    while ((row + 1) * (row + 2) / 2 <= tile) ++row;
    while (row * (row + 1) / 2 > tile) --row;
    const int column = tile - row * (row + 1) / 2, i = row * BLOCK + lane, j = column * BLOCK + lane;
    __shared__ REAL sx[BLOCK], sy[BLOCK], s0[BLOCK], s1[BLOCK], sums[BLOCK / 32][BLOCK];
    // Beyond the last event rows lie in the far past and columns in the far future: every exp there is
    // exactly 0, and no square is infinite in float32.
    const REAL far = 1e15;
    sx[lane] = j < n ? x[j] : 0;
    sy[lane] = j < n ? y[j] : 0;
    s0[lane] = j < n ? t0[j] : far;
    s1[lane] = j < n ? t1[j] : 0;
    for (int w = 0; w < BLOCK / 32; ++w) sums[w][lane] = 0;
    const REAL xi_ = i < n ? x[i] : 0, yi = i < n ? y[i] : 0, t0i = i < n ? t0[i] : -far,
        t1i = i < n ? t1[i] : 0;
    double back = 0, excited = 0;
    __syncthreads();
    for (int first = 0; first < BLOCK; first += 32) {
        REAL back_part = 0, excited_part = 0;
        for (int k = first; k < first + 32; ++k) {
            const int m = (lane + k) % BLOCK;  // the lanes of a warp are on 32 columns
            const REAL dx = xi_ - sx[m], dy = yi - sy[m], dt = (t0i - s0[m]) + (PARTS > 1 ? t1i - s1[m] : 0);
            const REAL d2 = dx * dx + dy * dy;
            const REAL e = EXP(a * d2 + b * dt * dt);
            back_part += e;
            sums[warp][m] += e;
            __syncwarp();
            if (dt > 0) excited_part += EXP(g * d2 - omega * dt);
        }
        back += back_part;
        excited += excited_part;
    }
    __syncthreads();
    if (row != column && j < n) {  // a tile on the diagonal has each pair from both sides already
        double total = 0;
        for (int w = 0; w < BLOCK / 32; ++w) total += sums[w][lane];
        atomicAdd(mu + j, total);
    }
    if (i < n) {
        atomicAdd(mu + i, back);
        atomicAdd(xi + i, excited);
    }
}

extern "C" __global__ void __launch_bounds__(BLOCK)
textbook(const REAL* __restrict__ x, const REAL* __restrict__ y, const double* __restrict__ t, int n,
    REAL a, REAL b,
         REAL g, REAL omega, double* __restrict__ mu, double* __restrict__ xi) {
    const int i = blockIdx.x;
    const REAL xi_ = x[i], yi = y[i];
    const double ti = t[i];
    double back = 0, excited = 0;
    for (int j = threadIdx.x; j < n; j += BLOCK) {
        const REAL dx = xi_ - x[j], dy = yi - y[j], dt = ti - t[j];
        const REAL d2 = dx * dx + dy * dy;
        back += EXP(a * d2 + b * dt * dt);
        const REAL e = EXP(g * d2 - omega * abs(dt));
        excited += dt > 0 ? e : (REAL)0;
    }
    back = block_sum(back);
    excited = block_sum(excited);
    if (threadIdx.x == 0) {
        mu[i] = back;
        xi[i] = excited;
    }
}

extern "C" __global__ void
event_terms(const double* mu, const double* xi, const double* t, int n, double background, double excitation,
            double mu0, double tau_t, double theta, double omega, double* out) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const double end = t[n - 1], inside = normcdf((end - t[i]) / tau_t) - normcdf(-t[i] / tau_t);
    out[i] = log(background * mu[i] + excitation * xi[i]) - mu0 * inside + theta * expm1(-omega * (end -
        t[i]));
}
"""


def defines(mixed):
    """Compiler options of a precision; mixed takes the device's fast `__expf`."""
    real, exp, parts = ("float", "__expf", 2) if mixed else ("double", "exp", 1)
    return ("-std=c++17", f"-DBLOCK={BLOCK}", f"-DREAL={real}", f"-DEXP={exp}", f"-DPARTS={parts}")


def contenders(locations, times, params, *, mixed):
    """Our algorithm, then the textbook's.

    Parameters
    ----------
    locations : ndarray, shape (n_events, 2), km
    times : ndarray, shape (n_events,), hours, ascending from 0
    params : object with mu0, tau_x, tau_t, theta, omega, h
    mixed : bool
        Coordinates and pairs in float32, sums in float64.

    Returns
    -------
    list of Contender, whose calls return the log-likelihood
    """
    module = cupy.RawModule(code=SOURCE, options=defines(mixed))
    triangle, textbook, event_terms = (
        module.get_function(f) for f in ("triangle", "textbook", "event_terms")
    )
    real = np.float32 if mixed else np.float64
    leading = times.astype(real)
    x, y = (cupy.asarray(np.ascontiguousarray(locations[:, d]).astype(real)) for d in (0, 1))
    t, t0, t1 = cupy.asarray(times), cupy.asarray(leading), cupy.asarray((times - leading).astype(real))
    n, size = len(times), np.int32(len(times))
    mu, xi, out = cupy.empty(n), cupy.empty(n), cupy.empty(n)
    p = params
    pair = [real(v) for v in (-0.5 / p.tau_x**2, -0.5 / p.tau_t**2, -0.5 / p.h**2, p.omega)]
    background = p.mu0 / (p.tau_x**2 * p.tau_t) * (2 * np.pi) ** -1.5
    excitation = p.theta * p.omega / (p.h**2 * 2 * np.pi)
    event = [np.float64(v) for v in (background, excitation, p.mu0, p.tau_t, p.theta, p.omega)]
    tiles = -(-n // BLOCK)

    def finish():
        event_terms((tiles,), (BLOCK,), (mu, xi, t, size, *event, out))
        return float(out.sum())

    def call_triangle():
        mu.fill(0)
        xi.fill(0)
        triangle((tiles * (tiles + 1) // 2,), (BLOCK,), (x, y, t0, t1, size, *pair, mu, xi))
        return finish()

    def call_textbook():
        textbook((n,), (BLOCK,), (x, y, t, size, *pair, mu, xi))
        return finish()

    return [
        Contender("CUDA C++, same pairs", call_triangle, result=call_triangle),
        Contender("CUDA C++, n x n, two exps", call_textbook, result=call_textbook),
    ]
