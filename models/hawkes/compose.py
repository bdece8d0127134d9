"""Triggering functions composed of a decay in time, a density in space, and a productivity that depends on
marks.

    g(r, dt, m) = exp(alpha m) f(dt) s(r, m)

f is a `Decay`: one or several exponentials, the Omori law, or one defined by the user. s is normal or a power
law, with a length scale that may grow with the mark:

    normal      (2 pi)^(-D/2) h_m^-D exp(-r^2 / (2 h_m^2)),                 h_m = h exp(gamma m)
    power law   (q - 1) / (pi h_m^2) (1 + r^2 / h_m^2)^-q,  in the plane,   h_m = h exp(gamma m)

With the Omori law, marks and the power law this is the epidemic-type aftershock sequence (Ogata 1998).
"""

from __future__ import annotations

import functools
import math
from dataclasses import make_dataclass
from typing import Literal, TypeAlias

import numpy as np

import portable as pk

from ..shared import Frozen, InputError, check_choice, check_count, check_flag
from .triggering import Decay, exponentials, omori, Triggering, normal_scale
from .kernels import LOG2_E
from .parameters import ParametersBase

Shape: TypeAlias = Literal["normal", "power_law"]
_NOTHING = -1100.0  # 2 to this power is 0 in float64


class _Shape(Frozen, eq=False):
    """A density in space with parameters p[at], p[at + 1], ...; kernel functions take lengths as
    reciprocals."""

    names: tuple
    units: tuple
    log2: object  # kernel function (start, r2, p): start plus the base-2 logarithm of the value
    slopes: object  # kernel function (r2, p, out): minus the derivatives of the exponent
    scale: object  # kernel function (n_dims, p)
    scale_slopes: object  # kernel function (n_dims, p, out)
    reach_km: object  # callable (p, k), with lengths in p not as reciprocals
    draw: object  # callable (random, n, n_dims, p)
    least: dict


@pk.function
def _squared(at, r2, p):
    return p[at] * p[at] * r2


def _normal(at):
    @pk.function
    def log2(start, r2, p):
        return start - 0.5 * LOG2_E * p[at] * p[at] * r2

    @pk.function
    def slopes(r2, p, out):
        out[at] = _squared(at, r2, p)

    @pk.function
    def scale(dims, p):
        return normal_scale(dims, p[at])

    @pk.function
    def scale_slopes(dims, p, out):
        out[at] = -1.0 * dims

    def reach_km(p, k):
        return p[at] * math.sqrt(2.0 * k)

    def draw(random, n, dims, p):
        return random.normal(0.0, 1.0, (n, dims)) * p[at]

    return _Shape(("h",), ("km",), log2, slopes, scale, scale_slopes, reach_km, draw, {})


def _power_law(at):
    @pk.function
    def log2(start, r2, p):
        return start - LOG2_E * p[at + 1] * pk.fast_log(1.0 + _squared(at, r2, p))

    @pk.function
    def slopes(r2, p, out):
        y = _squared(at, r2, p)
        out[at] = 2.0 * p[at + 1] * (y / (1.0 + y))
        out[at + 1] = -p[at + 1] * pk.fast_log(1.0 + y)

    @pk.function
    def scale(dims, p):
        plane = 0.3183098861837907 * (p[at + 1] - 1.0) * p[at] * p[at]
        return plane if dims == 2 else 1.0  # other dimensions use the scale of the decay only

    @pk.function
    def scale_slopes(dims, p, out):
        out[at] = -2.0
        out[at + 1] = p[at + 1] / (p[at + 1] - 1.0)

    def reach_km(p, k):
        return p[at] * math.sqrt(math.expm1(k / p[at + 1])) if k / p[at + 1] < 700.0 else math.inf

    def draw(random, n, dims, p):
        r = p[at] * np.sqrt(np.expm1(-np.log1p(-random.random(n)) / (p[at + 1] - 1.0)))
        angle = random.uniform(0.0, 2.0 * np.pi, n)
        return np.stack([r * np.cos(angle), r * np.sin(angle)], axis=1)[:, :dims]

    names, units, least = ("h", "q"), ("km", "1"), {"q": 1.0}
    return _Shape(names, units, log2, slopes, scale, scale_slopes, reach_km, draw, least)


def compose(
    decay: str | int | Decay = "exponential",
    *,
    distance: Shape = "normal",
    marks: bool = False,
    growth: bool = False,
    n_dims: int = 2,
    within_h: float | None = None,
) -> type[ParametersBase]:
    """Return a class of parameters for a triggering function composed of `decay`, `distance` and marks;
    every function that accepts Parameters accepts its instances.

    Its parameters are mu0, tau_x, tau_t, theta, then those of the decay (omega; omega_1, ..., weight_2, ...;
    or c and p), h (and q of the power law, and gamma with `growth`), and alpha with marks.

    Parameters
    ----------
    decay : {"exponential", "omori"}, int, or Decay
        An int is a number of exponentials; a `Decay` is defined by the user.
    distance : {"normal", "power_law"}, default "normal"
        Density of the offspring's distances.
    marks : bool
        If True, an event of mark m has theta exp(alpha (m - m0)) expected offspring; the `Likelihood` then
        requires the events' marks, and m0 is its reference mark.
    growth : bool
        Distances grow with marks, in proportion to exp(gamma (m - m0)).
    n_dims : int, 1 to 3
        Dimensions of space, required for `growth`; the power law is for 2.
    within_h : float, hours, optional
        Longest delay of the Omori law: see `omori`.

    Returns
    -------
    type
        A subclass of ParametersBase, used like `Parameters`.

    Raises
    ------
    DTypeError, InputError
        There is no such decay or distance; growth without marks; `within_h` or dimensions that do not fit.
    """
    check_choice(distance, "distance", Shape)
    marks, growth = check_flag(marks, "marks"), check_flag(growth, "growth")
    if growth and not marks:
        raise InputError("growth is True without marks; expected marks=True")
    n_dims = check_count(n_dims, "n_dims", 1, 3)
    if distance == "power_law" and n_dims != 2:
        raise InputError(f"distance is 'power_law' in {n_dims} dimensions; its density is for 2")
    if isinstance(decay, Decay):
        part = decay
    elif isinstance(decay, str) and decay in ("exponential", "omori"):
        part = omori(within_h) if decay == "omori" else exponentials()
    elif isinstance(decay, int) and not isinstance(decay, bool):
        part = exponentials(decay)
    else:
        raise InputError(
            f"decay is {decay!r}; expected 'exponential', 'omori', a number of exponentials, or a"
            " hawkes.Decay of your own"
        )
    if within_h is not None and decay != "omori":
        raise InputError("within_h is for the Omori law; leave it out, or take decay='omori'")
    spec = None if isinstance(decay, Decay) else (decay, within_h)
    return _class_of(part, distance, marks, growth, n_dims, spec)


@functools.cache
def _class_of(decay, distance, marks, growth, n_dims, spec):
    trigger = _triggering(decay.completed(), distance, marks, growth, n_dims)
    names = ["mu0", "tau_x", "tau_t", "theta", *trigger.names]
    if spec:
        keys = "decay", "distance", "marks", "growth", "n_dims", "within_h"
        spec = dict(zip(keys, (spec[0], distance, marks, growth, n_dims, spec[1])))
    own = {"triggering": trigger, "spec": spec, "__doc__": "Parameters of a composed triggering function."}
    return make_dataclass(
        "ComposedParameters",
        [(name, float) for name in names],
        bases=(ParametersBase,),
        frozen=True,
        namespace=own,
    )


def _triggering(decay, space, marks, growth, n_dims):
    n_time = len(decay.names)
    shape = (_normal if space == "normal" else _power_law)(n_time)
    gamma = n_time + len(shape.names)  # its index in p
    alpha = gamma + growth
    n_space = alpha - n_time
    mixed, n = decay.value is not None, alpha + marks

    @pk.function
    def gain(mark, p):
        """Return log kappa, the logarithm of the productivity."""
        if marks:
            return p[alpha] * mark
        return 0.0

    @pk.function
    def near_one(r2, mark, p):
        """Return r^2 in units of the squared length scale at the event's mark, relative to that at mark 0."""
        if growth:
            return r2 * pk.fast_exp2(-2.0 * LOG2_E * p[gamma] * mark)
        return r2

    @pk.function
    def exponent(r2, dt, mark, p):
        return decay.exponent(dt, p) - shape.log2(0.0, near_one(r2, mark, p), p) / LOG2_E - gain(mark, p)

    @pk.function
    def near(r2, mark, p):
        """Return the base-2 logarithm of the value without the decay."""
        start = LOG2_E * p[alpha] * mark if marks else 0.0
        if growth:
            start -= LOG2_E * n_dims * p[gamma] * mark
        return shape.log2(start, near_one(r2, mark, p), p)

    @pk.function
    def value(r2, dt, mark, p):
        there = near(r2, mark, p)
        found = 0.0
        # Far pairs skip the decay, which costs a logarithm or several exponentials.
        if pk.any(there > _NOTHING):
            if mixed:
                found = decay.value(dt, p) * pk.fast_exp2(there)
            else:
                found = pk.fast_exp2(there - LOG2_E * decay.exponent(dt, p))
        return found

    @pk.function
    def moments(r2, dt, mark, p, out):
        """Write the value and its derivatives to out; return False if they are 0 for all lanes."""
        for k in range(n + 1):
            out[k] = 0.0
        some = pk.any(near(r2, mark, p) > _NOTHING)
        if some:
            moments_near(r2, dt, mark, p, out)
        return some

    @pk.function
    def moments_near(r2, dt, mark, p, out):
        slope = pk.local(n, out.dtype)
        shape.slopes(near_one(r2, mark, p), p, slope)
        if growth:
            slope[gamma] = p[gamma] * mark * (slope[n_time] - n_dims)
        there = near(r2, mark, p)
        if mixed:
            decay.value_slopes(dt, p, slope)
            whole = pk.fast_exp2(there) * decay.value(dt, p)
            for k in range(n_time):
                out[1 + k] = pk.fast_exp2(there) * slope[k]
        else:
            whole = pk.fast_exp2(there - LOG2_E * decay.exponent(dt, p))
            decay.slopes(dt, p, slope)
            for k in range(n_time):
                out[1 + k] = whole * slope[k]
        out[0] = whole
        for k in range(n_space):
            out[1 + n_time + k] = whole * slope[n_time + k]
        if marks:
            out[1 + alpha] = whole * gain(mark, p)

    @pk.function
    def slopes(dims, sums, p, out):
        decay.scale_slopes(p, out)
        shape.scale_slopes(dims, p, out)
        for k in range(gamma, n):
            out[k] = 0.0
        for k in range(n):
            out[k] = sums[1 + k] + out[k] * sums[0]

    @pk.function
    def integral(left, mark, p):
        if marks:
            return decay.share(left, p) * pk.exp(gain(mark, p))
        return decay.share(left, p)

    @pk.function
    def integral_gradient(left, mark, p, out):
        decay.share_slopes(left, p, out)
        for k in range(n_space):
            out[n_time + k] = 0.0
        if marks:
            kappa = pk.exp(gain(mark, p))
            for k in range(n_time):
                out[k] *= kappa
            out[alpha] = kappa * decay.share(left, p) * gain(mark, p)

    @pk.function
    def scale(dims, p):
        return decay.scale(p) * shape.scale(dims, p)

    def slowest(low, high):
        return tuple(high[k] if name in falls else low[k] for k, name in enumerate(names))

    def more(p, mark):
        return p[alpha] * max(mark, 0.0) if marks else 0.0

    def draw(random, parents, dims, p):
        delays = decay.draw(random, len(parents), p[:n_time])
        shifts = shape.draw(random, len(parents), dims, p)
        return delays, shifts * np.exp(p[gamma] * parents)[:, None] if growth else shifts

    def reach_km(p, k, mark):
        return shape.reach_km(p, k + more(p, mark)) * (math.exp(p[gamma] * mark) if growth else 1.0)

    names = (*decay.names, *shape.names, *("gamma",) * growth, *("alpha",) * marks)
    falls = {*decay.falls, "h", "gamma", "alpha"}
    return Triggering(
        names,
        (*decay.units, *shape.units, *("1",) * (growth + marks)),
        value,
        moments,
        slopes,
        integral,
        integral_gradient,
        exponent,
        scale,
        slowest,
        reach_h=lambda p, k, mark: decay.reach_h(p[:n_time], k + more(p, mark)),
        reach_km=reach_km,
        draw=draw,
        productivity=(lambda m, p: np.exp(p[alpha] * m)) if marks else None,
        marked=marks,
        n_dims=n_dims if growth or space == "power_law" else None,
        most_h=decay.most_h,
        least=decay.least | shape.least,
    )
