"""The Hawkes log-likelihood in two dimensions, in CUDA C++ through CuPy's RawModule; one block an event.

`same_pairs` is our algorithm: excitation from earlier events only, sums of 32 terms a thread before they go to float64,
and in mixed precision times in two float32 parts. `textbook` is the first CUDA program: n x n pairs, two exps each.
"""

import cupy
import numpy as np

from roofline.contract import Contender

if not cupy.cuda.is_available():
    raise ImportError("CuPy finds no CUDA device")

BLOCK = 128

SOURCE = r"""
#define CONSTANTS double a_, double b_, double g_, double omega_, double background, double excitation, double mu0, \
                  double tau_t, double theta

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

__device__ double term(double rate, double t, double end, double mu0, double tau_t, double theta, double omega) {
    const double inside = normcdf((end - t) / tau_t) - normcdf(-t / tau_t);
    return log(rate) - mu0 * inside + theta * expm1(-omega * (end - t));
}

extern "C" __global__ void __launch_bounds__(BLOCK)
same_pairs(const REAL* __restrict__ x, const REAL* __restrict__ y, const REAL* __restrict__ t0,
           const REAL* __restrict__ t1, const double* __restrict__ t, const long long* __restrict__ before, int n,
           CONSTANTS, double* __restrict__ out) {
    const int i = blockIdx.x, earlier = (int)before[i], step = 32 * BLOCK;
    const REAL a = a_, b = b_, g = g_, omega = omega_, xi = x[i], yi = y[i], t0i = t0[i], t1i = PARTS > 1 ? t1[i] : 0;
    double mu = 0, excited = 0;
    for (int begin = 0; begin < earlier; begin += step) {
        const int end = min(begin + step, earlier);
        REAL mu_part = 0, excited_part = 0;
        for (int j = begin + threadIdx.x; j < end; j += BLOCK) {
            const REAL dx = xi - x[j], dy = yi - y[j], dt = PARTS > 1 ? (t0i - t0[j]) + (t1i - t1[j]) : t0i - t0[j];
            const REAL d2 = dx * dx + dy * dy;
            mu_part += EXP(a * d2 + b * dt * dt);
            excited_part += EXP(g * d2 - omega * dt);
        }
        mu += mu_part;
        excited += excited_part;
    }
    for (int begin = earlier; begin < n; begin += step) {
        const int end = min(begin + step, n);
        REAL mu_part = 0;
        for (int j = begin + threadIdx.x; j < end; j += BLOCK) {
            const REAL dx = xi - x[j], dy = yi - y[j], dt = PARTS > 1 ? (t0i - t0[j]) + (t1i - t1[j]) : t0i - t0[j];
            mu_part += EXP(a * (dx * dx + dy * dy) + b * dt * dt);
        }
        mu += mu_part;
    }
    mu = block_sum(mu);
    excited = block_sum(excited);
    const double rate = background * mu + excitation * excited;
    if (threadIdx.x == 0) out[i] = term(rate, t[i], t[n - 1], mu0, tau_t, theta, omega_);
}

extern "C" __global__ void __launch_bounds__(BLOCK)
textbook(const REAL* __restrict__ x, const REAL* __restrict__ y, const double* __restrict__ t, int n, CONSTANTS,
         double* __restrict__ out) {
    const int i = blockIdx.x;
    const REAL a = a_, b = b_, g = g_, omega = omega_, xi = x[i], yi = y[i];
    const double ti = t[i];
    double mu = 0, excited = 0;
    for (int j = threadIdx.x; j < n; j += BLOCK) {
        const REAL dx = xi - x[j], dy = yi - y[j], dt = ti - t[j];
        const REAL d2 = dx * dx + dy * dy;
        mu += EXP(a * d2 + b * dt * dt);
        const REAL e = EXP(g * d2 - omega * abs(dt));
        excited += dt > 0 ? e : (REAL)0;
    }
    mu = block_sum(mu);
    excited = block_sum(excited);
    const double rate = background * mu + excitation * excited;
    if (threadIdx.x == 0) out[i] = term(rate, ti, t[n - 1], mu0, tau_t, theta, omega_);
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
    same_pairs, textbook = module.get_function("same_pairs"), module.get_function("textbook")
    real = np.float32 if mixed else np.float64
    leading = times.astype(real)
    x, y = (cupy.asarray(np.ascontiguousarray(locations[:, d]).astype(real)) for d in (0, 1))
    t, t0, t1 = cupy.asarray(times), cupy.asarray(leading), cupy.asarray((times - leading).astype(real))
    before = cupy.asarray(np.searchsorted(times, times, side="left").astype(np.int64))
    n, out = len(times), cupy.empty(len(times))
    p = params
    background = p.mu0 / (p.tau_x**2 * p.tau_t) * (2 * np.pi) ** -1.5
    excitation = p.theta * p.omega / (p.h**2 * 2 * np.pi)
    pair = (-0.5 / p.tau_x**2, -0.5 / p.tau_t**2, -0.5 / p.h**2, p.omega)
    constants = [float(v) for v in (*pair, background, excitation, p.mu0, p.tau_t, p.theta)]

    def call_same_pairs():
        same_pairs((n,), (BLOCK,), (x, y, t0, t1, t, before, np.int32(n), *constants, out))
        return float(out.sum())

    def call_textbook():
        textbook((n,), (BLOCK,), (x, y, t, np.int32(n), *constants, out))
        return float(out.sum())

    return [
        Contender("CUDA C++, same pairs", call_same_pairs, result=call_same_pairs),
        Contender("CUDA C++, n x n, two exps", call_textbook, result=call_textbook),
    ]
