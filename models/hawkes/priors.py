"""Priors as coefficients, and the coordinates in which they are defined.

Lengths and durations have their prior on the reciprocal, all other parameters on the parameter itself, as in
the paper: on mu0, theta, omega, 1/h, 1/tau_x and 1/tau_t. A log-density is

    c_0 log v + c_1 v + c_2 v^2 + c_3 (log v)^2 + constant    for low < v < high,

which includes half-normal, gamma, log-normal and uniform densities, so that kernels require no branch.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace

import numpy as np

from portable.errors import DTypeError, InputError

from ..shared.checks import check_kind, check_number
from . import triggering
from .parameters import check_positive


@dataclass(frozen=True, slots=True)
class Prior:
    """A prior density of one coordinate, up to a constant; constructed by the functions below.

    Parameters
    ----------
    coefficients : tuple of 4 floats
    low, high : float
        Bounds of the interval with positive density.
    text : str
        A description in words.
    """

    coefficients: tuple[float, float, float, float]
    low: float
    high: float
    text: str

    def log_density(self, v: float) -> float:
        """Return the logarithm of the density at v, up to a constant.

        Parameters
        ----------
        v : float
            Value of the coordinate.

        Returns
        -------
        float
            Minus infinity if the density is 0.
        """
        if not self.low < v < self.high:
            return -math.inf
        c, log_v = self.coefficients, math.log(v)
        return c[0] * log_v + c[1] * v + c[2] * v * v + c[3] * log_v * log_v

    def draw(self, random: np.random.Generator) -> float:
        """Draw a value, for calibration and starts, by inversion of the distribution function on a grid of
        10,001 logarithms.

        Parameters
        ----------
        random : numpy.random.Generator

        Returns
        -------
        float
        """
        low, high = max(self.low, 1e-9), min(self.high, 1e9)
        grid = np.linspace(math.log(low), math.log(high), 10_001)
        log_density = np.array([self.log_density(math.exp(g)) + g for g in grid[1:-1]])
        cumulative = np.cumsum(np.exp(log_density - log_density.max()))
        return math.exp(np.interp(random.random() * cumulative[-1], cumulative, grid[1:-1]))


def half_normal(sd: float) -> Prior:
    """Return a half-normal prior: the positive half of a normal density with mean 0.

    Parameters
    ----------
    sd : float, above 0
        Standard deviation of the whole normal density, in the coordinate's unit.

    Returns
    -------
    Prior

    Raises
    ------
    DTypeError, FiniteError, InputError
        A number is none, not finite, or out of range.
    """
    sd = check_positive(sd, "half_normal: sd")
    return Prior((0.0, 0.0, -0.5 / sd**2, 0.0), 0.0, math.inf, f"half-normal, sd {sd:g}")


def gamma(shape: float, rate: float) -> Prior:
    """Return a gamma prior, with density proportional to v^(shape - 1) exp(-rate v).

    Parameters
    ----------
    shape : float, above 0
    rate : float, above 0, in the reciprocal of the coordinate's unit

    Returns
    -------
    Prior

    Raises
    ------
    DTypeError, FiniteError, InputError
        A number is none, not finite, or out of range.
    """
    shape, rate = check_positive(shape, "gamma: shape"), check_positive(rate, "gamma: rate")
    return Prior((shape - 1.0, -rate, 0.0, 0.0), 0.0, math.inf, f"gamma, shape {shape:g}, rate {rate:g}")


def log_normal(median: float, sd: float) -> Prior:
    """Return a log-normal prior, given its median and the standard deviation of the logarithm.

    Parameters
    ----------
    median : float, above 0, in the coordinate's unit
    sd : float, above 0
        Standard deviation of the logarithm.

    Returns
    -------
    Prior

    Raises
    ------
    DTypeError, FiniteError, InputError
        A number is none, not finite, or out of range.
    """
    median, sd = check_positive(median, "log_normal: median"), check_positive(sd, "log_normal: sd")
    precision = 1.0 / sd**2
    coefficients = (precision * math.log(median) - 1.0, 0.0, 0.0, -0.5 * precision)
    return Prior(coefficients, 0.0, math.inf, f"log-normal, median {median:g}, sd {sd:g}")


def uniform(low: float, high: float) -> Prior:
    """Return a uniform prior between `low` and `high`.

    Parameters
    ----------
    low : float, at least 0, in the coordinate's unit
    high : float, above low

    Returns
    -------
    Prior

    Raises
    ------
    DTypeError, FiniteError, InputError
        A number is none, not finite, or out of range.
    """
    low = check_number(low, "uniform: low", least=0.0)
    high = check_number(high, "uniform: high", above=low)
    return Prior((0.0, 0.0, 0.0, 0.0), low, high, f"uniform, {low:g} to {high:g}")


def coordinate_name(params_type, name):
    """Return the name of a parameter's coordinate: '1/h' for the length h, 'theta' for theta."""
    return f"1/{name}" if is_reciprocal(params_type, name) else name


def coordinate_of(params, name):
    """Return the name of a parameter's coordinate, and its value."""
    value = getattr(params, name)
    return coordinate_name(type(params), name), 1.0 / value if is_reciprocal(type(params), name) else value


@functools.cache
def is_reciprocal(params_type, name):
    """Return True if a parameter's coordinate is its reciprocal, because it is a length or a duration."""
    return triggering.is_reciprocal(params_type.units()[name])


@functools.cache
def default_priors(params_type):
    """Return the paper's priors: half-normal with sd 1 on mu0 and sd 10 on other coordinates, and
    restricted to values above the lower bound of a parameter that has one."""
    least = params_type.triggering.least
    return {
        coordinate_name(params_type, name): _half_normal_above(least[name])
        if name in least
        else half_normal(1.0 if name == "mu0" else 10.0)
        for name in params_type.names()
    }


def _half_normal_above(low):
    return Prior(
        (0.0, low / 10.0**2, -0.5 / 10.0**2, 0.0), low, math.inf, f"half-normal above {low:g}, sd 10"
    )


def check_priors(priors, params_type):
    """Return the priors of all coordinates: the given ones, and defaults for the others."""
    found = default_priors(params_type).copy()
    if priors is None:
        return found
    check_kind(priors, "priors", dict, "be a dict of coordinate names and priors")
    for name, prior in priors.items():
        if name not in found:
            raise InputError(
                f"priors has '{name}', which is no coordinate; expected one of {', '.join(found)}"
            )
        if not isinstance(prior, Prior):
            raise DTypeError(
                f"priors['{name}'] must be made by half_normal, gamma, log_normal or uniform, got {prior!r}"
            )
    return found | priors


def cut_priors(priors, params_type, least):
    """Return the priors, truncated so that no parameter is below its bound in `least`."""
    cut = {}
    for name, bound in least.items():
        coordinate = coordinate_name(params_type, name)
        prior = priors[coordinate]
        low, high = max(prior.low, bound), prior.high
        if coordinate != name:
            low, high = prior.low, min(prior.high, 1.0 / bound)
        if not low < high:
            raise InputError(
                f"least['{name}'] is {bound:g}, where the prior of {coordinate} has no density ({prior.text})"
            )
        cut[coordinate] = replace(prior, low=low, high=high, text=f"{prior.text}; {name} at least {bound:g}")
    return priors | cut


def in_words(priors, params_type, free):
    """Return descriptions of the priors of the free parameters, by coordinate."""
    names = [coordinate_name(params_type, name) for name in free]
    return {name: priors[name].text for name in names}


def check_start(params, priors, free):
    """Raise InputError if `params` have no density under the priors of the free parameters."""
    for name in free:
        coordinate, v = coordinate_of(params, name)
        prior = priors[coordinate]
        if not prior.low < v < prior.high:
            raise InputError(
                f"start: {coordinate} = {v:g} has no density under its prior ({prior.text}); start between "
                f"{prior.low:g} and {prior.high:g}, or widen the prior"
            )


def log_prior(params, priors, free):
    """Return the sum of the log prior densities of the free parameters' coordinates."""
    value = 0.0
    for coordinate, v in (coordinate_of(params, name) for name in free):
        value += priors[coordinate].log_density(v)
    return value


def slopes_of_prior(values, params_type, priors, free):
    """Return the derivatives of `log_prior` in the logarithms of the free parameters, given their values;
    both arrays have the shape (n_places, n_free)."""
    reciprocal = np.array([is_reciprocal(params_type, name) for name in free])
    c = np.transpose([priors[coordinate_name(params_type, name)].coefficients for name in free])
    v = np.where(reciprocal, 1.0 / values, values)
    logs = np.reshape(list(map(math.log, v.ravel())), v.shape)
    slopes = c[0] + c[1] * v + 2.0 * c[2] * v * v + 2.0 * c[3] * logs
    return np.where(reciprocal, -slopes, slopes)
