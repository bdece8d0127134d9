"""The Hawkes log-likelihood in two dimensions, in plain numba-cuda: the algorithms of `hawkes_cupy`."""

import math

import numpy as np
from numba import cuda, float32, float64

from portable.roofline.contract import Contender
from portable.roofline.peers.numba_grids import configured

BLOCK = 128
_WARPS = BLOCK // 32
_SUM_BLOCK = 1024


def contenders(locations, times, params, *, mixed):
    """Our algorithm, then the textbook's; with fastmath=True in mixed precision, as a numba user would have
    it.

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
    n, t = len(times), cuda.to_device(times)
    mu, xi, out, total = (cuda.device_array(size) for size in (n, n, n, 1))
    p = params
    pair = [real(v) for v in (-0.5 / p.tau_x**2, -0.5 / p.tau_t**2, -0.5 / p.h**2, p.omega)]
    background = p.mu0 / (p.tau_x**2 * p.tau_t) * (2 * np.pi) ** -1.5
    excitation = p.theta * p.omega / (p.h**2 * 2 * np.pi)
    event = [float(v) for v in (background, excitation, p.mu0, p.tau_t, p.theta, p.omega)]
    tiles = -(-n // BLOCK)
    clear, event_terms = configured(_clear, tiles, BLOCK), configured(_event_terms, tiles, BLOCK)
    add_up = configured(_sum, 1, _SUM_BLOCK)
    triangle, textbook = _kernels(float32 if mixed else float64, fastmath=mixed)
    grids = {"same pairs": (triangle, tiles * (tiles + 1) // 2), "n x n, two exps": (textbook, n)}
    found = []
    for name, (kernel, blocks) in grids.items():
        pair_sums = configured(kernel, blocks, BLOCK)

        def call(pair_sums=pair_sums):
            clear(mu, xi)
            pair_sums(x, y, t, *pair, mu, xi)
            event_terms(mu, xi, t, *event, out)
            add_up(out, total)
            return float(total.copy_to_host()[0])

        found.append(Contender(f"numba-cuda, {name}", call, result=call))
    return found


def _kernels(real, fastmath):
    """Both kernels for a dtype of the pair: `real` is a constant of their texts."""

    @cuda.jit(fastmath=fastmath)
    def triangle(x, y, t, a, b, g, omega, mu, xi):
        """A block a tile of the lower triangle; each pair once, except on the diagonal."""
        tile = cuda.blockIdx.x
        lane = cuda.threadIdx.x
        warp = lane // 32
        n = t.shape[0]
        row = int((math.sqrt(8.0 * tile + 1.0) - 1.0) / 2.0)
        while (row + 1) * (row + 2) // 2 <= tile:
            row += 1
        while row * (row + 1) // 2 > tile:
            row -= 1
        column = tile - row * (row + 1) // 2
        i = row * BLOCK + lane
        j = column * BLOCK + lane
        sx = cuda.shared.array(BLOCK, real)
        sy = cuda.shared.array(BLOCK, real)
        st = cuda.shared.array(BLOCK, float64)
        sums = cuda.shared.array((_WARPS, BLOCK), real)
        # Beyond the last event rows lie in the far past and columns in the far future: every exp there is 0.
        st[lane] = 1e15
        sx[lane] = 0.0
        sy[lane] = 0.0
        if j < n:
            st[lane] = t[j]
            sx[lane] = x[j]
            sy[lane] = y[j]
        for w in range(_WARPS):
            sums[w, lane] = 0.0
        x_own = real(0.0)
        y_own = real(0.0)
        t_own = -1e15
        if i < n:
            x_own = x[i]
            y_own = y[i]
            t_own = t[i]
        back = 0.0
        excited = 0.0
        cuda.syncthreads()
        for k in range(BLOCK):
            m = (lane + k) % BLOCK  # the lanes of a warp are on 32 columns
            dx = x_own - sx[m]
            dy = y_own - sy[m]
            dt = real(t_own - st[m])
            d2 = dx * dx + dy * dy
            e = math.exp(a * d2 + b * dt * dt)
            back += e
            sums[warp, m] += e
            cuda.syncwarp()
            if dt > 0:
                excited += math.exp(g * d2 - omega * dt)
        cuda.syncthreads()
        if row != column and j < n:
            total = 0.0
            for w in range(_WARPS):
                total += sums[w, lane]
            cuda.atomic.add(mu, j, total)
        if i < n:
            cuda.atomic.add(mu, i, back)
            cuda.atomic.add(xi, i, excited)

    @cuda.jit(fastmath=fastmath)
    def textbook(x, y, t, a, b, g, omega, mu, xi):
        """A block an event; n x n pairs, both exps for each."""
        i = cuda.blockIdx.x
        lane = cuda.threadIdx.x
        back = 0.0
        excited = 0.0
        for j in range(lane, t.shape[0], BLOCK):
            dx = x[i] - x[j]
            dy = y[i] - y[j]
            dt = real(t[i] - t[j])
            d2 = dx * dx + dy * dy
            back += math.exp(a * d2 + b * dt * dt)
            e = math.exp(g * d2 - omega * abs(dt))
            if dt > 0:
                excited += e
        sums = cuda.shared.array((2, BLOCK), float64)
        sums[0, lane] = back
        sums[1, lane] = excited
        cuda.syncthreads()
        width = BLOCK // 2
        while width > 0:
            if lane < width:
                sums[0, lane] += sums[0, lane + width]
                sums[1, lane] += sums[1, lane + width]
            cuda.syncthreads()
            width //= 2
        if lane == 0:
            mu[i] = sums[0, 0]
            xi[i] = sums[1, 0]

    return triangle, textbook


@cuda.jit
def _clear(mu, xi):
    i = cuda.grid(1)
    if i < mu.shape[0]:
        mu[i] = 0.0
        xi[i] = 0.0


@cuda.jit
def _event_terms(mu, xi, t, background, excitation, mu0, tau_t, theta, omega, out):
    """Logarithm of the rate less the compensator, an event a thread."""
    i = cuda.grid(1)
    n = t.shape[0]
    if i < n:
        left = t[n - 1] - t[i]
        inside = 0.5 * (math.erf(left / (tau_t * math.sqrt(2.0))) + math.erf(t[i] / (tau_t * math.sqrt(2.0))))
        rate = background * mu[i] + excitation * xi[i]
        out[i] = math.log(rate) - mu0 * inside + theta * math.expm1(-omega * left)


@cuda.jit
def _sum(values, total):
    """The sum of all values, by one block."""
    sums = cuda.shared.array(_SUM_BLOCK, float64)
    lane = cuda.threadIdx.x
    v = 0.0
    for j in range(lane, values.shape[0], _SUM_BLOCK):
        v += values[j]
    sums[lane] = v
    cuda.syncthreads()
    width = _SUM_BLOCK // 2
    while width > 0:
        if lane < width:
            sums[lane] += sums[lane + width]
        cuda.syncthreads()
        width //= 2
    if lane == 0:
        total[0] = sums[0]
