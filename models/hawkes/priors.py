"""Priors of a process, and the coordinates in which they are defined.

Lengths and durations have their prior on the reciprocal, all other parameters on the parameter itself, as in
the paper: on mu0, theta, omega, 1/h, 1/tau_x and 1/tau_t. Densities are those of positive numbers among
`portable.models.shared.priors` that have coefficients, which kernels and derivatives read.
"""

import functools
import math
from dataclasses import replace

import numpy as np

from ..shared import InputError, Prior, check_kind
from ..shared.priors import half_normal, normal
from . import triggering


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
        coordinate_name(params_type, name): replace(
            normal(least[name], 10.0), low=least[name], text=f"half-normal above {least[name]:g}, sd 10"
        )
        if name in least
        else half_normal(1.0 if name == "mu0" else 10.0)
        for name in params_type.names()
    }


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
        check_kind(prior, f"priors['{name}']", Prior, "be made by half_normal, gamma, log_normal or uniform")
        if prior.low < 0.0 or prior.coefficients is None:
            raise InputError(f"priors['{name}'] is {prior.text}; expected a density from 0 on, not beta")
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
        prior = priors[coordinate]
        if not prior.low < v < prior.high:
            return -math.inf
        c, log_v = prior.coefficients, math.log(v)
        value += c[0] * log_v + c[1] * v + c[2] * v * v + c[3] * log_v * log_v
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
