"""The triggering function of an event: the density of its offspring in space and time, behind one
interface; and its decay in time, from which `compose` builds further triggering functions.

    xi_n = theta sum_{t_n' < t_n} g(r_nn', t_n - t_n', m_n')

An event of mark m (a magnitude less the reference mark; 0 without marks) has theta kappa(m) expected
offspring, where kappa is the integral of g over all locations and delays, 1 without marks. `EXPONENTIAL` is
the paper's g; `compose` builds others from a decay, a density in space and a productivity. The likelihood,
its gradient, the fit, the probabilities, the simulation and the samplers access g only through this
interface.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import field, replace
from typing import Any, NamedTuple

import numpy as np

import portable as pk

from ..shared.annotations import Function
from ..shared import Frozen, Names, check_count, check_positive
from .kernels import LOG2_E


class Functions(NamedTuple):
    """The kernel functions of a `Triggering` and the constants compiled into them: the argument `g` of
    kernels.

    Attributes
    ----------
    value, moments, slopes, integral, integral_gradient, exponent, scale : kernel functions
    marked : static int, 0 or 1
    n_own : static int
        The number of parameters p.
    reciprocal : tuple of static bool
        For each parameter, True if kernels take its reciprocal.
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
    """The part of `Functions` that sums over pairs use. It is separate because every field lengthens a
    launch."""

    value: Function
    moments: Function
    marked: Any
    n_own: Any


def is_reciprocal(unit):
    """Return True if kernels and priors take parameters of a unit as reciprocals: lengths and durations."""
    return unit in ("km", "h")


def for_kernels(p, units):
    """Return parameters p of the given units in the form for kernel functions."""
    return tuple(1.0 / v if is_reciprocal(unit) else v for v, unit in zip(p, units))


class Triggering(Frozen, eq=False):
    """A density g of delays dt > 0 and squared distances r2 from an event with a mark, with positive
    parameters p.

    g is factored: g = scale(n_dims, p) * value(r2, dt, mark, p), so that sums of values fit float32.
    Derivatives are in the logarithms of the parameters, where they have no unit; derivatives of g are divided
    by its scale. They are linear in a few products of a pair, such as value * dt: sums over pairs add up
    these moments, and the derivatives are computed from the sums only. Kernel functions take lengths and
    durations as reciprocals (`for_kernels`), so that no pair requires a division; for kernel functions below,
    p is in that form.

    Parameters
    ----------
    names, units : tuple of str
        Of the parameters, in the order of p.
    value : kernel function (r2, dt, mark, p)
    moments : kernel function (r2, dt, mark, p, out)
        Writes value to out[0], and further products, one per parameter, to out[1] and on; returns False
        only if all of them are known to be 0 for all active lanes.
    slopes : kernel function (n_dims, sums, p, out)
        Writes to out[k], from sums of moments, the derivative in the logarithm of p[k].
    integral : kernel function (left, mark, p)
        kappa times the share of offspring that occurs within `left` hours.
    integral_gradient : kernel function (left, mark, p, out)
        Writes the derivatives of the integral to out[k].
    exponent : kernel function (r2, dt, mark, p)
        value <= exp(-exponent). The exponent increases with r2 and dt and decreases with the mark;
        `slowest` defines in which direction each parameter changes it.
    scale : kernel function (n_dims, p)
    slowest : callable (low, high)
        The parameters between two bounds whose exponent is smallest for all pairs.
    reach_h, reach_km : callable (p, k, mark)
        The delay in hours, or distance in kilometres, beyond which the exponent exceeds k for all marks
        up to `mark`.
    draw : callable (random, marks, n_dims, p)
        Draws a delay and a displacement of one offspring for each of n marks, shapes (n,) and (n, n_dims).
    productivity : callable (marks, p)
        kappa; None if it is 1.
    marked : bool
        True if marks are required.
    n_dims : int, optional
        The only number of dimensions in which g is a density; any number if not given.
    most_h : float
        Longest delay for which g is a density: the data must not span more.
    least : dict
        Lower bounds of parameters other than 0, by name.
    """

    names: Names
    units: Names
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
        """Return the argument `g` of kernels."""
        flags = map(pk.static, self.reciprocal)
        numbers = pk.static(int(self.marked)), pk.static(len(self.names)), tuple(flags)
        return Functions(*(getattr(self, name) for name in Functions._fields[:-3]), *numbers)

    @functools.cached_property
    def pairs(self) -> Pairs:
        """Return the argument `g` of kernels that sum over pairs."""
        return Pairs(*(getattr(self.functions, name) for name in Pairs._fields))

    @property
    def of_terms(self) -> tuple[Any, ...]:
        """Return the arguments of `event_terms`; any further function would be counted among the kernel's
        operations."""
        return self.integral, self.functions.marked

    @functools.cached_property
    def reciprocal(self) -> tuple[bool, ...]:
        """Return, for each parameter, True if kernel functions take its reciprocal."""
        return tuple(map(is_reciprocal, self.units))

    def for_kernels(self, p: Iterable[float]) -> tuple[float, ...]:
        """Return the parameters p in the form for kernel functions.

        Parameters
        ----------
        p : sequence of float
            In the order of `names`, in the units of `units`.

        Returns
        -------
        tuple of float
            With lengths and durations as reciprocals.
        """
        return for_kernels(p, self.units)


@pk.function
def normal_scale(n_dims, per_km):
    """Return h^-D (2 pi)^(-D / 2) for per_km = 1 / h."""
    scale = 1.0
    for _ in range(n_dims):
        scale *= 0.3989422804014327 * per_km  # 1 / sqrt(2 pi)
    return scale


# ---- exponential decay: omega exp(-omega dt) h^-D phi_D(r / h); p = (omega, 1/h) in kernels
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


_SERIES = 0.02  # below, the closed form suffers cancellation; the series is accurate to 1e-9


class Decay(Frozen, eq=False):
    """A density of delays. Functions that are not given are derived: derivatives by `pk.derivative`, reach
    and draws numerically.

    Parameters
    ----------
    names, units : tuple of str
        Of its parameters, units among "1", "1/h" and "h"; kernel functions take the reciprocal of a parameter
        with unit "h".
    exponent : kernel function (dt, p)
        At least 0; it increases with dt.
    scale : kernel function (p)
    share : kernel function (left, p)
        The integral of the density over delays up to `left` hours.
    falls : tuple of str
        Parameters in which the exponent decreases; it increases in the others.
    slopes : kernel function (dt, p, out), optional
        Minus the derivatives of the exponent in the logarithms of the parameters (not of their reciprocals).
    scale_slopes : kernel function (p, out), optional
        The derivatives of log(scale).
    share_slopes : kernel function (left, p, out), optional
    reach_h : callable (p, k), optional
        The delay in hours beyond which the exponent exceeds k. `reach_h` and `draw` take the parameters
        themselves, without reciprocals.
    draw : callable (random, n, p), optional
        Delays, shape (n,).
    value : kernel function (dt, p), optional
        If given, the density is scale * value, with value <= exp(-exponent); otherwise it is scale *
        exp(-exponent).
    value_slopes : kernel function (dt, p, out), optional
        Derivatives of the value.
    most_h : float
        Longest delay: the data must not span more. Infinite by default.
    least : dict
        Lower bounds of parameters other than 0 that the density requires, by name.
    """

    names: Names
    units: Names
    exponent: Function
    scale: Function
    share: Function
    falls: Names = ()
    slopes: Function | None = None
    scale_slopes: Function | None = None
    share_slopes: Function | None = None
    reach_h: Function | None = None
    draw: Function | None = None
    value: Function | None = None
    value_slopes: Function | None = None
    most_h: float = math.inf
    least: dict[str, float] = field(default_factory=dict)

    def completed(self) -> Decay:
        """Return this decay with all optional functions filled in.

        Returns
        -------
        Decay
        """
        found = {}
        if self.slopes is None and self.value is None:
            found["slopes"] = _derived_slopes(self.exponent, self.units, -1.0)
        if self.value is not None and self.value_slopes is None:
            found["value_slopes"] = _derived_slopes(self.value, self.units, 1.0)
        if self.share_slopes is None:
            found["share_slopes"] = _derived_slopes(self.share, self.units, 1.0)
        if self.scale_slopes is None:
            found["scale_slopes"] = _log_slopes(self.scale, self.units)
        if self.reach_h is None:
            found["reach_h"] = functools.partial(_reach, self)
        if self.draw is None:
            found["draw"] = functools.partial(_draw, self)
        return replace(self, **found)


def _along(function, units):
    """Return a function that computes `function`(x, p) and its derivatives in the logarithms of the
    parameters, without reciprocals."""
    # the derivative of the logarithm of each parameter's form for kernels in its own logarithm
    n, signs = len(units), tuple(-1.0 if is_reciprocal(unit) else 1.0 for unit in units)

    @pk.function
    def moved(x, p, z):
        q = pk.local(n, pk.float64)
        for k in range(n):
            q[k] = p[k] * (1.0 + signs[k] * z[k])
        return function(x, q)

    return pk.derivative(moved, "z", value=True)


def _derived_slopes(function, units, sign):
    n, derived, here = len(units), _along(function, units), (0.0,) * len(units)

    @pk.function
    def slopes(x, p, out):
        found = derived(pk.float64(x), p, here)
        for k in range(n):
            out[k] = sign * found[1 + k]

    return slopes


def _log_slopes(scale, units):
    @pk.function
    def log(x, p):
        return pk.log(scale(p))

    derived = _derived_slopes(log, units, 1.0)

    @pk.function
    def slopes(p, out):
        derived(0.0, p, out)

    return slopes


def _reach(decay, p, k):
    """Return the delay in hours at which the exponent reaches k, by bisection."""
    q = for_kernels(p, decay.units)
    reach = bisect(lambda delay: decay.exponent(delay, q) <= k, -40.0, 40.0)
    return reach if reach < math.exp(40.0) else math.inf


def bisect(holds, low, high):
    """Return the number from which on `holds` is false, given bounds of its logarithm."""
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if holds(math.exp(middle)) else (low, middle)
    return math.exp(high)


def tabulate_shares(share, most):
    """Return 2,000 delays, evenly spaced in their logarithm from 1e-9 of the longest one on, after 0; and
    the share of offspring within each."""
    delays = np.concatenate([[0.0], np.geomspace(1e-9 * most, most, 2_000)])
    shares = np.array([0.0, *(float(share(delay)) for delay in delays[1:])])
    return delays, np.maximum.accumulate(shares)  # the last shares may decrease due to rounding


def _draw(decay, random, n, p):
    """Draw n delays by inversion of the tabulated share."""
    q = for_kernels(p, decay.units)
    most = min(_reach(decay, p, 30.0), decay.most_h, 1e12)
    delays, shares = tabulate_shares(lambda delay: decay.share(delay, q), most)
    return np.interp(random.random(n) * shares[-1], shares, delays)


@functools.cache
def exponentials(n_scales: int = 1) -> Decay:
    """Return the mixture of n_scales exponential decays: sum_k w_k omega_k exp(-omega_k dt) / sum_k w_k,
    with w_1 = 1.

    The parameter for one scale is omega; for several, omega_1 ... omega_n and weight_2 ... weight_n
    (offspring at that scale per offspring at the first). Scales are interchangeable, so start from, and
    maintain, omega_1 > omega_2 > ...

    Parameters
    ----------
    n_scales : int, at least 1

    Returns
    -------
    Decay

    Raises
    ------
    DTypeError, InputError
        `n_scales` is no whole number, or out of range.
    """
    n = check_count(n_scales, "n_scales", 1, 8)
    if n == 1:
        return _exponential()

    @pk.function
    def weight(k, p):
        return 1.0 if k == 0 else p[n - 1 + k]

    @pk.function
    def totals(p):
        """Return the sums of weights, and of weights times rates."""
        plain, rates = 0.0, 0.0
        for k in range(n):
            plain += weight(k, p)
            rates += weight(k, p) * p[k]
        return plain, rates

    @pk.function
    def value(dt, p):
        decay = 0.0
        for k in range(n):
            decay += weight(k, p) * p[k] * pk.fast_exp2(-LOG2_E * p[k] * dt)
        return decay / totals(p)[1]

    @pk.function
    def value_slopes(dt, p, out):
        rates = totals(p)[1]
        whole = value(dt, p)
        for k in range(n):
            part = weight(k, p) * p[k] / rates
            term = part * pk.fast_exp2(-LOG2_E * p[k] * dt)
            out[k] = term * (1.0 - p[k] * dt) - part * whole
            if k > 0:
                out[n - 1 + k] = term - part * whole

    @pk.function
    def scale(p):
        sums = totals(p)
        return sums[1] / sums[0]

    @pk.function
    def share(left, p):
        late = 0.0
        for k in range(n):
            late -= weight(k, p) * pk.expm1(-p[k] * left)
        return late / totals(p)[0]

    @pk.function
    def exponent(dt, p):
        rate = p[0]
        for k in range(1, n):
            rate = min(rate, p[k])
        return rate * dt

    def draw(random, size, p):
        weights = np.array([1.0, *p[n:]])
        which = random.choice(n, size, p=weights / weights.sum())
        return random.exponential(size=size) / np.array(p[:n])[which]

    names = (*(f"omega_{k + 1}" for k in range(n)), *(f"weight_{k + 1}" for k in range(1, n)))
    return Decay(
        names,
        ("1/h",) * n + ("1",) * (n - 1),
        exponent,
        scale,
        share,
        reach_h=lambda p, k: k / min(p[:n]),
        draw=draw,
        value=value,
        value_slopes=value_slopes,
    )


def _exponential():
    """Return the decay omega exp(-omega dt)."""

    @pk.function
    def exponent(dt, p):
        return p[0] * dt

    @pk.function
    def slopes(dt, p, out):
        out[0] = -p[0] * dt

    @pk.function
    def scale(p):
        return p[0]

    @pk.function
    def share(left, p):
        return -pk.expm1(-p[0] * left)

    return Decay(
        ("omega",),
        ("1/h",),
        exponent,
        scale,
        share,
        slopes=slopes,
        reach_h=lambda p, k: k / p[0],
        draw=lambda random, n, p: random.exponential(1.0 / p[0], n),
    )


@functools.cache
def omori(within_h: float | None = None) -> Decay:
    """Return the Omori-Utsu law (1 + dt / c)^-p: most offspring soon, some after years.

    Parameters
    ----------
    within_h : float, hours, optional
        Longest delay; theta counts the offspring within it, and any p > 0 is allowed. Give at least the
        length of the record. Without it delays are unbounded and p > 1 is required; if the estimate of p
        approaches 1, theta grows without bound.

    Returns
    -------
    Decay

    Raises
    ------
    DTypeError, InputError
        `within_h` is no positive number.

    References
    ----------
    Utsu, Ogata, Matsu'ura: The centenary of the Omori formula for a decay law of aftershock activity. Journal
    of Physics of the Earth 43 (1995).
    """
    most = math.inf if within_h is None else check_positive(within_h, "within_h")
    endless = within_h is None
    until = 1.0 if endless else most

    @pk.function
    def exponent(dt, p):
        return p[1] * pk.fast_log(1.0 + dt * p[0])

    @pk.function
    def slopes(dt, p, out):
        x = dt * p[0]
        out[0] = p[1] * (x / (1.0 + x))
        out[1] = -p[1] * pk.fast_log(1.0 + x)

    @pk.function
    def integral(left, p):
        """Return the integral of (1 + dt / c)^-p over delays up to `left`, in units of c."""
        length = pk.log1p(left * p[0])
        y = (1.0 - p[1]) * length
        if abs(y) < _SERIES:
            whole = 1.0 + y * (0.5 + y * (1.0 / 6.0 + y * (1.0 / 24.0 + y / 120.0)))
        else:
            whole = pk.expm1(y) / y
        return length * whole

    @pk.function
    def scale(p):
        return p[0] * (p[1] - 1.0) if endless else p[0] / integral(until, p)

    @pk.function
    def share(left, p):
        if endless:
            return -pk.expm1((1.0 - p[1]) * pk.log1p(left * p[0]))
        return integral(left, p) / integral(until, p)

    def reach_h(p, k):
        return min(p[0] * math.expm1(k / p[1]), most) if k / p[1] < 700.0 else most

    def draw(random, n, p):
        c, power = p[:2]
        length = math.inf if endless else math.log1p(most / c)
        u = random.random(n)
        if endless:
            return c * np.expm1(-np.log1p(-u) / (power - 1.0))
        y = (1.0 - power) * length
        logs = u * length if abs(y) < 1e-9 else np.log1p(u * np.expm1(y)) / (1.0 - power)
        return c * np.expm1(logs)

    return Decay(
        ("c", "p"),
        ("h", "1"),
        exponent,
        scale,
        share,
        ("c",),
        slopes,
        reach_h=reach_h,
        draw=draw,
        most_h=most,
        least={"p": 1.0} if endless else {},
    )
