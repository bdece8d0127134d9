"""What an event triggers: the density of its offspring in space and time, behind one small interface.

    xi_n = theta sum_{t_n' < t_n} g(r_nn', t_n - t_n'),    integral of g over all places and delays = 1

`EXPONENTIAL` is the paper's g. `time_scales` makes mixtures of several decays: retaliation within minutes, hours and days
at once. Another g is another `Triggering`; the likelihood, its gradient, the fit, the probabilities, the simulation and the
samplers ask for nothing else.
"""

from __future__ import annotations

import functools
import math
import types
from collections.abc import Callable
from dataclasses import dataclass

import portable as pk

from .kernels import LOG2_E


@dataclass(frozen=True, eq=False)
class Triggering:
    """A density g of delays dt > 0 and squared distances r2, with positive parameters p.

    g is split: g = scale(n_dims, p) * value(r2, dt, p), with value at most 1, so that sums of values fit float32. Derivatives
    are with respect to the logarithms of the parameters, where they have no unit; those of g are divided by its scale. They are
    linear in a few products of a pair, such as value * dt: pairs add up these moments, and only their sums are combined. Kernel
    functions get lengths as reciprocals (`for_kernels`), so that no pair costs a division; p below is in that form for them.

    Parameters
    ----------
    names, units : tuple of str
        Of the parameters, in the order of p.
    value : kernel function (r2, dt, p)
    moments : kernel function (r2, dt, p, out)
        Writes value to out[0], and other products to as many more places as there are parameters.
    slopes : kernel function (n_dims, sums, p, out)
        From sums of moments, the derivative in the logarithm of p[k] to out[k].
    integral : kernel function (left, p)
        The share of offspring that comes within `left` hours.
    integral_gradient : kernel function (left, p, out)
        Its derivatives to out[k].
    exponent : kernel function (r2, dt, p)
        value <= exp(-exponent). It rises with r2 and dt, and in each parameter as `slowest` says.
    scale : kernel function (n_dims, p)
    slowest : callable (low, high)
        Of all parameters between two bounds, those whose exponent is the smallest everywhere.
    reach_h, reach_km : callable (p, k)
        Beyond that many hours, or kilometres, the exponent exceeds k.
    draw : callable (random, n, n_dims, p)
        Delays, shape (n,), and displacements, shape (n, n_dims), of n offspring.
    """

    names: tuple
    units: tuple
    value: Callable
    moments: Callable
    slopes: Callable
    integral: Callable
    integral_gradient: Callable
    exponent: Callable
    scale: Callable
    slowest: Callable
    reach_h: Callable
    reach_km: Callable
    draw: Callable

    @functools.cached_property
    def functions(self):
        """The kernel functions by name: a namespace, which kernels may look into."""
        names = "value", "moments", "slopes", "integral", "integral_gradient", "exponent", "scale"
        return types.SimpleNamespace(**{name: getattr(self, name) for name in names})

    def for_kernels(self, p):
        """Parameters as kernel functions want them: lengths as reciprocals."""
        return tuple(1.0 / v if unit == "km" else v for v, unit in zip(p, self.units))


@pk.function
def normal_scale(n_dims, per_km):
    """h^-D (2 pi)^(-D / 2) for per_km = 1 / h."""
    scale = 1.0
    for _ in range(n_dims):
        scale *= 0.3989422804014327 * per_km  # 1 / sqrt(2 pi)
    return scale


# ---- one decay: omega exp(-omega dt) h^-D phi_D(r / h); p = (omega, 1/h) in kernels
@pk.function
def _value(r2, dt, p):
    return pk.fast_exp2(-0.5 * LOG2_E * p[1] * p[1] * r2 - LOG2_E * p[0] * dt)


@pk.function
def _moments(r2, dt, p, out):
    value = _value(r2, dt, p)
    out[0] = value
    out[1] = value * dt
    out[2] = value * r2


@pk.function
def _slopes(n_dims, sums, p, out):
    out[0] = sums[0] - p[0] * sums[1]
    out[1] = p[1] * p[1] * sums[2] - n_dims * sums[0]


@pk.function
def _integral(left, p):
    return -pk.expm1(-p[0] * left)


@pk.function
def _integral_gradient(left, p, out):
    out[0] = p[0] * left * pk.exp(-p[0] * left)
    out[1] = 0.0


@pk.function
def _exponent(r2, dt, p):
    return 0.5 * p[1] * p[1] * r2 + p[0] * dt


@pk.function
def _scale(n_dims, p):
    return p[0] * normal_scale(n_dims, p[1])


EXPONENTIAL = Triggering(
    ("omega", "h"), ("1/h", "km"), _value, _moments, _slopes, _integral, _integral_gradient, _exponent, _scale,
    slowest=lambda low, high: (low[0], high[1]),
    reach_h=lambda p, k: k / p[0],
    reach_km=lambda p, k: p[1] * math.sqrt(2.0 * k),
    draw=lambda random, n, n_dims, p: (random.exponential(1.0 / p[0], n), random.normal(0.0, p[1], (n, n_dims))),
)
