"""Define the decay of excitation with time: the parts from which `compose` makes triggering functions.

A decay is a density of delays dt > 0, scale(p) exp(-exponent(dt, p)). Kernel functions get durations as
reciprocals, so that no pair costs a division; p begins with the decay's own parameters.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

import portable as pk

from ..shared.annotations import Function
from ..shared.checks import check_count, check_number
from .kernels import LOG2_E

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
        found = {name: getattr(self, name) for name in self.__dataclass_fields__}
        if self.slopes is None and self.value is None:
            found["slopes"] = _slopes(self.exponent, self.units, -1.0)
        if self.value is not None and self.value_slopes is None:
            found["value_slopes"] = _slopes(self.value, self.units, 1.0)
        if self.share_slopes is None:
            found["share_slopes"] = _slopes(self.share, self.units, 1.0)
        if self.scale_slopes is None:
            found["scale_slopes"] = _log_slopes(self.scale, self.units)
        if self.reach_h is None:
            found["reach_h"] = functools.partial(_reach, self)
        if self.draw is None:
            found["draw"] = functools.partial(_draw, self)
        return Decay(**found)

    def for_kernels(self, p: Iterable[float]) -> tuple[float, ...]:
        """Return parameters as kernel functions want them.

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
    """`function` of (x, p), where the logarithms of the parameters, as users have them, are z larger; its
    derivatives are by these."""
    n, signs = len(units), _signs(units)

    @pk.function
    def moved(x, p, z):
        q = pk.local(n, pk.float64)
        for k in range(n):
            q[k] = p[k] * (1.0 + signs[k] * z[k])
        return function(x, q)

    return pk.derivative(moved, "z", value=True)


def _slopes(function, units, sign):
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
    """By bisection of the exponent."""
    q, low, high = decay.for_kernels(p), -40.0, 40.0  # logarithms of hours
    if decay.exponent(math.exp(high), q) <= k:
        return math.inf
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if decay.exponent(math.exp(middle), q) <= k else (low, middle)
    return math.exp(high)


def _draw(decay, random, n, p):
    """By inverting the share on a grid of 2,000 delays, even in its logarithm from a 1e-6 of the reach to the
    reach."""
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
    """omega exp(-omega dt)."""

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
