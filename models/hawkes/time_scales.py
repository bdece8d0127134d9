"""Several decays at once, the same in space: retaliation within minutes, hours and days."""

from __future__ import annotations

import functools
from dataclasses import make_dataclass

import portable as pk

from ..checks import check_count
from .kernels import LOG2_E
from .parameters import ParametersBase
from .triggering import Triggering, normal_scale


@functools.cache
def time_scales(n_scales):
    """The parameters' class of a triggering function with several time scales.

    g = h^-D phi_D(r / h) sum_k w_k omega_k exp(-omega_k dt) / sum_k w_k, with w_1 = 1. Parameters are mu0, tau_x, tau_t, theta
    (all offspring), h, omega_1 ... omega_K, and weight_2 ... weight_K (offspring at that scale, for one at the first). Scales may
    trade places, so start from, and keep, omega_1 > omega_2 > ...

    Parameters
    ----------
    n_scales : int, 2 to 8

    Returns
    -------
    type
        Use it like `Parameters`; everything that takes Parameters takes these.
    """
    n = check_count(n_scales, "n_scales", 2, 8)

    @pk.function
    def weight(k, p):
        return 1.0 if k == 0 else p[n + k]

    @pk.function
    def total(p):
        """Of weights, and of weights times rates."""
        plain, rates = 0.0, 0.0
        for k in range(n):
            plain += weight(k, p)
            rates += weight(k, p) * p[1 + k]
        return plain, rates

    @pk.function
    def value(r2, dt, p):
        decay = 0.0
        for k in range(n):
            decay += weight(k, p) * p[1 + k] * pk.fast_exp2(-LOG2_E * p[1 + k] * dt)
        return pk.fast_exp2(-0.5 * LOG2_E * p[0] * p[0] * r2) * decay / total(p)[1]

    @pk.function
    def moments(r2, dt, p, out):
        """Of each scale, its term (that of the first in out[0], with all others) and its term times dt; value times r2."""
        near = pk.fast_exp2(-0.5 * LOG2_E * p[0] * p[0] * r2) / total(p)[1]
        out[0] = 0.0
        for k in range(n):
            term = near * weight(k, p) * p[1 + k] * pk.fast_exp2(-LOG2_E * p[1 + k] * dt)
            out[0] += term
            out[1 + k] = term * dt
            if k > 0:
                out[n + k] = term
        out[2 * n] = out[0] * r2

    @pk.function
    def slopes(n_dims, sums, p, out):
        weights = total(p)[0]
        out[0] = p[0] * p[0] * sums[2 * n] - n_dims * sums[0]
        first = sums[0]
        for k in range(1, n):
            first -= sums[n + k]
            out[1 + k] = sums[n + k] - p[1 + k] * sums[1 + k]
            out[n + k] = sums[n + k] - sums[0] * weight(k, p) / weights
        out[1] = first - p[1] * sums[1]

    @pk.function
    def integral(left, p):
        late = 0.0
        for k in range(n):
            late -= weight(k, p) * pk.expm1(-p[1 + k] * left)
        return late / total(p)[0]

    @pk.function
    def integral_gradient(left, p, out):
        whole = integral(left, p)
        weights = total(p)[0]
        out[0] = 0.0
        for k in range(n):
            share = weight(k, p) / weights
            out[1 + k] = share * p[1 + k] * left * pk.exp(-p[1 + k] * left)
            if k > 0:
                out[n + k] = share * (-pk.expm1(-p[1 + k] * left) - whole)

    @pk.function
    def slowest_rate(p):
        rate = p[1]
        for k in range(1, n):
            rate = min(rate, p[1 + k])
        return rate

    @pk.function
    def exponent(r2, dt, p):
        return 0.5 * p[0] * p[0] * r2 + slowest_rate(p) * dt

    @pk.function
    def scale(n_dims, p):
        sums = total(p)
        return sums[1] / sums[0] * normal_scale(n_dims, p[0])

    def draw(random, size, n_dims, p):
        weights = [weight(k, p) for k in range(n)]
        which = random.choice(n, size, p=[w / sum(weights) for w in weights])
        rates = [p[1 + k] for k in range(n)]
        return random.exponential(size=size) / [rates[k] for k in which], random.normal(0.0, p[0], (size, n_dims))

    rates = [f"omega_{k + 1}" for k in range(n)]
    weights = [f"weight_{k + 1}" for k in range(1, n)]
    trigger = Triggering(
        ("h", *rates, *weights), ("km", *["1/h"] * n, *["1"] * (n - 1)), value, moments, slopes, integral, integral_gradient,
        exponent, scale, slowest=lambda low, high: (high[0], *low[1:]), reach_h=lambda p, k: k / min(p[1 : 1 + n]),
        reach_km=lambda p, k: p[0] * (2.0 * k) ** 0.5, draw=draw)
    names = ["mu0", "tau_x", "tau_t", "theta", *trigger.names]
    return make_dataclass(f"TimeScales{n}", [(name, float) for name in names], bases=(ParametersBase,), frozen=True,
                          namespace={"triggering": trigger, "__doc__": time_scales.__doc__})
