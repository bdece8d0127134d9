"""Define the triggering by an event: the density of its offspring in space and time, behind one small
interface; and its decay with time, a part from which `compose` makes others.

    xi_n = theta sum_{t_n' < t_n} g(r_nn', t_n - t_n', m_n')

An event of mark m (a magnitude less the reference's; 0 where there are none) has theta kappa(m) offspring:
kappa is the integral of g over all places and delays, 1 without marks. `EXPONENTIAL` is the paper's g;
`compose` makes others of a decay, a density in space and a productivity. The likelihood, its gradient, the
fit, the probabilities, the simulation and the samplers use nothing else.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

import portable as pk

from ..shared.annotations import Function
from ..shared.checks import check_count, check_number
from .kernels import LOG2_E


class Functions(NamedTuple):
    """The kernel functions of a `Triggering` and the constants that their texts depend on: the argument `g`
    of kernels.

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
    """The part of `Functions` that sums over pairs use: a launch takes longer for each field."""

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
        """Return parameters as kernel functions take them.

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
    """Return h^-D (2 pi)^(-D / 2) for per_km = 1 / h."""
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


_SERIES = 0.02  # below, a closed form cancels, and a series of four terms is right to 1e-9


@dataclass(frozen=True, eq=False)
class Decay:
    """A density of delays. What is not given is found: derivatives by `pk.derivative`, reach and
    draws by numbers.

    Parameters
    ----------
    names, units : tuple of str
        Of its parameters, units among "1", "1/h" and "h"; a parameter of unit "h" reaches kernel functions as
        its reciprocal.
    exponent : kernel function (dt, p)
        At least 0; it rises with dt.
    scale : kernel function (p)
    share : kernel function (left, p)
        The integral of the density over delays up to `left` hours.
    falls : tuple of str
        Parameters that the exponent falls with; it rises with the others.
    slopes : kernel function (dt, p, out), optional
        Minus the derivatives of the exponent in the logarithms of the parameters, as users have them.
    scale_slopes : kernel function (p, out), optional
        The derivatives of log(scale).
    share_slopes : kernel function (left, p, out), optional
    reach_h : callable (p, k), optional
        Beyond that many hours the exponent exceeds k. This and `draw` take the parameters as users have them.
    draw : callable (random, n, p), optional
        Delays, shape (n,).
    value : kernel function (dt, p), optional
        Where the density is scale * value for a value at most exp(-exponent), which is then a bound only.
    value_slopes : kernel function (dt, p, out), optional
        Derivatives of the value.
    most_h : float
        Longest delay: the data must not span more. Infinite by default.
    least : dict
        Bounds of parameters above 0 that the density needs, by name.
    """

    names: tuple[str, ...]
    units: tuple[str, ...]
    exponent: Function
    scale: Function
    share: Function
    falls: tuple[str, ...] = ()
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
        """Return the same with what was not given.

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

    def for_kernels(self, p: Iterable[float]) -> tuple[float, ...]:
        """Return parameters as kernel functions take them.

        Parameters
        ----------
        p : sequence of float
            As users have them, in the order of `names`.

        Returns
        -------
        tuple of float
            Those of unit "h" as reciprocals.
        """
        return tuple(1.0 / v if unit == "h" else v for v, unit in zip(p, self.units))


def _signs(units):
    """Return the factors from a step in a parameter's logarithm to one in that of its form for kernels."""
    return tuple(-1.0 if unit == "h" else 1.0 for unit in units)


def _along(function, units):
    """Return `function` of (x, p), with derivatives in the logarithms of the parameters as users have
    them."""
    n, signs = len(units), _signs(units)

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
    def of_both(x, p):
        return scale(p)

    n, derived, here = len(units), _along(of_both, units), (0.0,) * len(units)

    @pk.function
    def slopes(p, out):
        found = derived(0.0, p, here)
        for k in range(n):
            out[k] = found[1 + k] / found[0]

    return slopes


def _reach(decay, p, k):
    """Find the reach by bisection of the exponent."""
    q, low, high = decay.for_kernels(p), -40.0, 40.0  # logarithms of hours
    if decay.exponent(math.exp(high), q) <= k:
        return math.inf
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if decay.exponent(math.exp(middle), q) <= k else (low, middle)
    return math.exp(high)


def _draw(decay, random, n, p):
    """Draw delays by inverting the share on a grid of 2,000 delays, evenly spaced in their logarithm from
    1e-6 of the reach on."""
    q = decay.for_kernels(p)
    most = min(_reach(decay, p, 30.0), decay.most_h, 1e12)
    grid = np.concatenate([[0.0], np.geomspace(1e-9 * most, most, 2_000)])
    shares = np.array([float(decay.share(v, q)) if v else 0.0 for v in grid])
    return np.interp(random.random(n) * shares[-1], shares, grid)


@functools.cache
def exponentials(n_scales: int = 1) -> Decay:
    """Return one or several exponential decays: sum_k w_k omega_k exp(-omega_k dt) / sum_k w_k, with w_1 =
    1.

    Parameters are omega for one; omega_1 ... omega_n and weight_2 ... weight_n (offspring at that scale, for
    one at the first) for several. Scales may trade places, so start from, and keep, omega_1 > omega_2 > ...

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
    """Return the Omori and Utsu law (1 + dt / c)^-p: most offspring soon, some after years.

    Parameters
    ----------
    within_h : float, hours, optional
        Offspring come within so long, and theta counts those; any p > 0 will do. Give the length of the
        record or more. Without it delays have no end, and p > 1 is wanted: where the data draw p to 1, theta
        has no bound.

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
    most = math.inf if within_h is None else check_number(within_h, "within_h", above=0.0)
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
