"""The Hawkes log-likelihood in two dimensions, in plain numba-cuda; one block an event, as in `hawkes_cupy`."""

import math

import numpy as np
from numba import cuda, float32, float64

from roofline.contract import Contender
from roofline.peers.numba_grids import configured

BLOCK = 128
_SUM_BLOCK = 1024


def contenders(locations, times, params, *, mixed):
    """Our algorithm, then the textbook's; with fastmath=True in mixed precision, as a numba user would have it.

    Parameters
    ----------
    locations : ndarray, shape (n_events, 2), km
    times : ndarray, shape (n_events,), hours, ascending from 0
    params : object with mu0, tau_x, tau_t, theta, omega, h
    mixed : bool
        Coordinates and pairs in float32, with times subtracted and sums taken in float64.

    Returns
    -------
    list of Contender, whose calls return the log-likelihood
    """
    real = np.float32 if mixed else np.float64
    x, y = (cuda.to_device(np.ascontiguousarray(locations[:, d]).astype(real)) for d in (0, 1))
    t, before = cuda.to_device(times), cuda.to_device(np.searchsorted(times, times, side="left"))
    n = len(times)
    out, total = cuda.device_array(n), cuda.device_array(1)
    p = params
    background = p.mu0 / (p.tau_x**2 * p.tau_t) * (2 * np.pi) ** -1.5
    excitation = p.theta * p.omega / (p.h**2 * 2 * np.pi)
    pair = [real(v) for v in (-0.5 / p.tau_x**2, -0.5 / p.tau_t**2, -0.5 / p.h**2, p.omega)]
    event = [float(v) for v in (background, excitation, p.mu0, p.tau_t, p.theta)]
    same_pairs, textbook = _kernels(float32 if mixed else float64, fastmath=mixed)
    found = []
    for name, kernel in (("same pairs", same_pairs), ("n x n, two exps", textbook)):
        rates, add_up = configured(kernel, n, BLOCK), configured(_sum, 1, _SUM_BLOCK)

        def call(rates=rates, add_up=add_up):
            rates(x, y, t, before, *pair, *event, out)
            add_up(out, total)
            return float(total.copy_to_host()[0])

        found.append(Contender(f"numba-cuda, {name}", call, result=call))
    return found


def _kernels(real, fastmath):
    """Both kernels for a dtype of the pair: `real` is a constant of their texts."""

    @cuda.jit(fastmath=fastmath)
    def same_pairs(x, y, t, before, a, b, g, omega, background, excitation, mu0, tau_t, theta, out):
        i = cuda.blockIdx.x
        n = t.shape[0]
        mu = 0.0
        xi = 0.0
        for j in range(cuda.threadIdx.x, before[i], BLOCK):
            dx = x[i] - x[j]
            dy = y[i] - y[j]
            dt = real(t[i] - t[j])
            d2 = dx * dx + dy * dy
            mu += math.exp(a * d2 + b * dt * dt)
            xi += math.exp(g * d2 - omega * dt)
        for j in range(before[i] + cuda.threadIdx.x, n, BLOCK):
            dx = x[i] - x[j]
            dy = y[i] - y[j]
            dt = real(t[i] - t[j])
            mu += math.exp(a * (dx * dx + dy * dy) + b * dt * dt)
        _finish(mu, xi, t[i], t[n - 1], omega, background, excitation, mu0, tau_t, theta, out)

    @cuda.jit(fastmath=fastmath)
    def textbook(x, y, t, before, a, b, g, omega, background, excitation, mu0, tau_t, theta, out):
        i = cuda.blockIdx.x
        n = t.shape[0]
        mu = 0.0
        xi = 0.0
        for j in range(cuda.threadIdx.x, n, BLOCK):
            dx = x[i] - x[j]
            dy = y[i] - y[j]
            dt = real(t[i] - t[j])
            d2 = dx * dx + dy * dy
            mu += math.exp(a * d2 + b * dt * dt)
            e = math.exp(g * d2 - omega * abs(dt))
            if dt > 0:
                xi += e
        _finish(mu, xi, t[i], t[n - 1], omega, background, excitation, mu0, tau_t, theta, out)

    return same_pairs, textbook


@cuda.jit(device=True)
def _finish(mu, xi, t, end, omega, background, excitation, mu0, tau_t, theta, out):
    """Sum over the block; its first thread writes log rate less the compensator."""
    sums = cuda.shared.array((2, BLOCK), float64)
    k = cuda.threadIdx.x
    sums[0, k] = mu
    sums[1, k] = xi
    cuda.syncthreads()
    width = BLOCK // 2
    while width > 0:
        if k < width:
            sums[0, k] += sums[0, k + width]
            sums[1, k] += sums[1, k + width]
        cuda.syncthreads()
        width //= 2
    if k == 0:
        inside = 0.5 * (math.erf((end - t) / (tau_t * math.sqrt(2.0))) + math.erf(t / (tau_t * math.sqrt(2.0))))
        rate = background * sums[0, 0] + excitation * sums[1, 0]
        out[cuda.blockIdx.x] = math.log(rate) - mu0 * inside + theta * math.expm1(-float64(omega) * (end - t))


@cuda.jit
def _sum(values, total):
    """The sum of all values, by one block."""
    sums = cuda.shared.array(_SUM_BLOCK, float64)
    k = cuda.threadIdx.x
    v = 0.0
    for j in range(k, values.shape[0], _SUM_BLOCK):
        v += values[j]
    sums[k] = v
    cuda.syncthreads()
    width = _SUM_BLOCK // 2
    while width > 0:
        if k < width:
            sums[k] += sums[k + width]
        cuda.syncthreads()
        width //= 2
    if k == 0:
        total[0] = sums[0]
