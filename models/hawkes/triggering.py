"""Define the triggering by an event: the density of its offspring in space and time, behind one small
interface.

    xi_n = theta sum_{t_n' < t_n} g(r_nn', t_n - t_n', m_n')

An event of mark m (a magnitude less the reference's; 0 where there are none) has theta kappa(m) offspring:
kappa is the integral of g over all places and delays, 1 without marks. `EXPONENTIAL` is the paper's g;
`compose` makes others of a decay, a density in space and a productivity. The likelihood, its gradient, the
fit, the probabilities, the simulation and the samplers ask for nothing else.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import portable as pk

from ..shared.annotations import Function
from .kernels import LOG2_E


class Functions(NamedTuple):
    """The kernel functions of a `Triggering` and what their texts depend on: the argument `g` of kernels.

    Attributes
    ----------
    value, moments, slopes, integral, integral_gradient, exponent, scale : kernel functions
    marked : static int, 0 or 1
    n_own : static int
        Parameters p.
    reciprocal : tuple of static bool
    """

    value: Function
    moments: Function
    slopes: Function
    integral: Function
    integral_gradient: Function
    exponent: Function
    scale: Function
    marked: Any
    n_own: Any
    reciprocal: tuple[Any, ...]


class Pairs(NamedTuple):
    """The part of `Functions` that sums over pairs ask for: a launch takes longer for each field."""

    value: Function
    moments: Function
    marked: Any
    n_own: Any


@dataclass(frozen=True, eq=False)
class Triggering:
    """A density g of delays dt > 0 and squared distances r2 around an event of a mark, with positive
    parameters p.

    g is split: g = scale(n_dims, p) * value(r2, dt, mark, p), so that sums of values fit float32. Derivatives
    are with respect to the logarithms of the parameters, where they have no unit; those of g are divided by
    its scale. They are linear in a few products of a pair, such as value * dt: pairs add up these moments,
    and only their sums are combined. Kernel functions get lengths and durations as reciprocals
    (`for_kernels`), so that no pair costs a division; p below is in that form for them.

    Parameters
    ----------
    names, units : tuple of str
        Of the parameters, in the order of p.
    value : kernel function (r2, dt, mark, p)
    moments : kernel function (r2, dt, mark, p, out)
        Writes value to out[0], and other products to as many more places as there are parameters; returns
        whether any of these may be anything but 0, of any lane that moves along.
    slopes : kernel function (n_dims, sums, p, out)
        From sums of moments, the derivative in the logarithm of p[k] to out[k].
    integral : kernel function (left, mark, p)
        kappa times the share of offspring that comes within `left` hours.
    integral_gradient : kernel function (left, mark, p, out)
        Its derivatives to out[k].
    exponent : kernel function (r2, dt, mark, p)
        value <= exp(-exponent). It rises with r2 and dt, falls with the mark, and in each parameter as
        `slowest` says.
    scale : kernel function (n_dims, p)
    slowest : callable (low, high)
        Of all parameters between two bounds, those whose exponent is the smallest everywhere.
    reach_h, reach_km : callable (p, k, mark)
        Beyond that many hours, or kilometres, the exponent exceeds k for all marks up to that one.
    draw : callable (random, marks, n_dims, p)
        Delays, shape (n,), and displacements, shape (n, n_dims), of an offspring of each of n marks.
    productivity : callable (marks, p)
        kappa; None where it is 1.
    marked : bool
        Whether marks are wanted.
    n_dims : int, optional
        The only number of dimensions that g is a density in; any if not given.
    most_h : float
        Longest delay that g is a density for: the data must not span more.
    least : dict
        Bounds of parameters above 0, by name.
    """

    names: tuple[str, ...]
    units: tuple[str, ...]
    value: Function
    moments: Function
    slopes: Function
    integral: Function
    integral_gradient: Function
    exponent: Function
    scale: Function
    slowest: Function
    reach_h: Function
    reach_km: Function
    draw: Function
    productivity: Function | None = None
    marked: bool = False
    n_dims: int | None = None
    most_h: float = math.inf
    least: dict[str, float] = field(default_factory=dict)

    @functools.cached_property
    def functions(self) -> Functions:
        """Return what kernels are given of it."""
        flags = map(pk.static, self.reciprocal)
        numbers = pk.static(int(self.marked)), pk.static(len(self.names)), tuple(flags)
        return Functions(*(getattr(self, name) for name in Functions._fields[:-3]), *numbers)

    @functools.cached_property
    def pairs(self) -> Pairs:
        """Return what kernels that add up pairs are given of it."""
        return Pairs(*(getattr(self.functions, name) for name in Pairs._fields))

    @property
    def of_terms(self) -> tuple[Any, ...]:
        """Return what `event_terms` needs: of more functions the loops would count as the kernel's own."""
        return self.integral, self.functions.marked

    @functools.cached_property
    def reciprocal(self) -> tuple[bool, ...]:
        """Return for each parameter whether kernel functions take its reciprocal."""
        return tuple(unit in ("km", "h") for unit in self.units)

    def for_kernels(self, p: Iterable[float]) -> tuple[float, ...]:
        """Return parameters as kernel functions want them.

        Parameters
        ----------
        p : sequence of float
            As users have them, in the order of `names`.

        Returns
        -------
        tuple of float
            Lengths and durations as reciprocals.
        """
        return tuple(1.0 / v if upside_down else v for v, upside_down in zip(p, self.reciprocal))


@pk.function
def normal_scale(n_dims, per_km):
    """h^-D (2 pi)^(-D / 2) for per_km = 1 / h."""
    scale = 1.0
    for _ in range(n_dims):
        scale *= 0.3989422804014327 * per_km  # 1 / sqrt(2 pi)
    return scale


# ---- one decay: omega exp(-omega dt) h^-D phi_D(r / h); p = (omega, 1/h) in kernels
@pk.function
def _value(r2, dt, mark, p):
    return pk.fast_exp2(-0.5 * LOG2_E * p[1] * p[1] * r2 - LOG2_E * p[0] * dt)


@pk.function
def _moments(r2, dt, mark, p, out):
    value = _value(r2, dt, mark, p)
    out[0] = value
    out[1] = value * dt
    out[2] = value * r2
    return True


@pk.function
def _slopes(n_dims, sums, p, out):
    out[0] = sums[0] - p[0] * sums[1]
    out[1] = p[1] * p[1] * sums[2] - n_dims * sums[0]


@pk.function
def _integral(left, mark, p):
    return -pk.expm1(-p[0] * left)


@pk.function
def _integral_gradient(left, mark, p, out):
    out[0] = p[0] * left * pk.exp(-p[0] * left)
    out[1] = 0.0


@pk.function
def _exponent(r2, dt, mark, p):
    return 0.5 * p[1] * p[1] * r2 + p[0] * dt


@pk.function
def _scale(n_dims, p):
    return p[0] * normal_scale(n_dims, p[1])


EXPONENTIAL = Triggering(
    ("omega", "h"),
    ("1/h", "km"),
    _value,
    _moments,
    _slopes,
    _integral,
    _integral_gradient,
    _exponent,
    _scale,
    slowest=lambda low, high: (low[0], high[1]),
    reach_h=lambda p, k, mark: k / p[0],
    reach_km=lambda p, k, mark: p[1] * math.sqrt(2.0 * k),
    draw=lambda random, marks, n_dims, p: (
        random.exponential(1.0 / p[0], len(marks)),
        random.normal(0.0, p[1], (len(marks), n_dims)),
    ),
)
