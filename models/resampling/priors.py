"""Priors of parameters, by name, and the unbounded coordinates in which chains move, one for each parameter.

The names are those of `portable.models.hawkes.priors`, plus normal and beta.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from portable.errors import DTypeError, InputError

from ..shared.annotations import Array, Real
from ..shared.checks import check_number


@dataclass(frozen=True, eq=False)
class Prior:
    """A prior density of one parameter; made by the functions below.

    Parameters
    ----------
    log_density : callable
        Log-density of an array of values between low and high, including its constant.
    draw : callable
        (random, size) -> array.
    low, high : float
        Bounds between which the density is positive.
    text : str
        Description.
    """

    log_density: Callable[..., Any] = field(repr=False)
    draw: Callable[..., Any] = field(repr=False)
    text: str
    low: float = -math.inf
    high: float = math.inf


def _positive(value, name):
    return check_number(value, name, above=0.0)


def normal(mean: Real, sd: Real) -> Prior:
    """Make a normal density.

    Parameters
    ----------
    mean : float
    sd : float, positive

    Returns
    -------
    Prior

    Raises
    ------
    InputError, DTypeError, FiniteError
        A value is not a number, or sd is not positive.
    """
    mean, sd = check_number(mean, "normal: mean"), _positive(sd, "normal: sd")
    return Prior(
        lambda v: -0.5 * ((v - mean) / sd) ** 2 - math.log(sd * math.sqrt(2 * math.pi)),
        lambda random, size: random.normal(mean, sd, size),
        f"normal, mean {mean:g}, sd {sd:g}",
    )


def half_normal(sd: Real) -> Prior:
    """Make a half-normal density, on values above 0.

    Parameters
    ----------
    sd : float, positive
        That of the whole normal density.

    Returns
    -------
    Prior

    Raises
    ------
    InputError, DTypeError, FiniteError
        sd is not a positive number.
    """
    sd = _positive(sd, "half_normal: sd")
    return Prior(
        lambda v: -0.5 * (v / sd) ** 2 - math.log(sd * math.sqrt(math.pi / 2)),
        lambda random, size: np.abs(random.normal(0.0, sd, size)),
        f"half-normal, sd {sd:g}",
        0.0,
    )


def gamma(shape: Real, rate: Real) -> Prior:
    """Make a gamma density.

    Parameters
    ----------
    shape, rate : float, positive

    Returns
    -------
    Prior

    Raises
    ------
    InputError, DTypeError, FiniteError
        A value is not a positive number.
    """
    shape, rate = _positive(shape, "gamma: shape"), _positive(rate, "gamma: rate")
    constant = shape * math.log(rate) - math.lgamma(shape)
    return Prior(
        lambda v: (shape - 1.0) * np.log(v) - rate * v + constant,
        lambda random, size: random.gamma(shape, 1.0 / rate, size),
        f"gamma, shape {shape:g}, rate {rate:g}",
        0.0,
    )


def log_normal(median: Real, sd: Real) -> Prior:
    """Make a log-normal density; sd is that of the logarithm.

    Parameters
    ----------
    median, sd : float, positive

    Returns
    -------
    Prior

    Raises
    ------
    InputError, DTypeError, FiniteError
        A value is not a positive number.
    """
    median, sd = _positive(median, "log_normal: median"), _positive(sd, "log_normal: sd")
    centre = math.log(median)
    return Prior(
        lambda v: -0.5 * ((np.log(v) - centre) / sd) ** 2 - np.log(v) - math.log(sd * math.sqrt(2 * math.pi)),
        lambda random, size: np.exp(random.normal(centre, sd, size)),
        f"log-normal, median {median:g}, sd {sd:g}",
        0.0,
    )


def uniform(low: Real, high: Real) -> Prior:
    """Make a constant density between two bounds.

    Parameters
    ----------
    low, high : float

    Returns
    -------
    Prior

    Raises
    ------
    InputError, DTypeError, FiniteError
        A value is not a number, or `high` is not above `low`.
    """
    low = check_number(low, "uniform: low")
    high = check_number(high, "uniform: high", above=low)
    return Prior(
        lambda v: np.full(np.shape(v), -math.log(high - low)),
        lambda random, size: random.uniform(low, high, size),
        f"uniform, {low:g} to {high:g}",
        low,
        high,
    )


def beta(a: Real, b: Real) -> Prior:
    """Make a beta density, on values between 0 and 1.

    Parameters
    ----------
    a, b : float, positive

    Returns
    -------
    Prior

    Raises
    ------
    InputError, DTypeError, FiniteError
        A value is not a positive number.
    """
    a, b = _positive(a, "beta: a"), _positive(b, "beta: b")
    constant = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    return Prior(
        lambda v: (a - 1.0) * np.log(v) + (b - 1.0) * np.log1p(-v) + constant,
        lambda random, size: random.beta(a, b, size),
        f"beta, {a:g} and {b:g}",
        0.0,
        1.0,
    )


class Priors:
    """Independent priors of some of a model's parameters, the others fixed.

    Parameters
    ----------
    names : tuple of str
        All parameters of the model.
    priors : mapping of names and Prior
    fixed : mapping of names and numbers, or None

    Attributes
    ----------
    free : tuple of str
    limits : ndarray, shape (n_free, 2)

    Raises
    ------
    DTypeError, FiniteError, InputError
        A parameter is not the model's, or is in neither or both of `priors` and `fixed`; a value is not a
        prior.
    """

    def __init__(
        self, names: tuple[str, ...], priors: Mapping[str, Prior], fixed: Mapping[str, float] | None
    ) -> None:
        fixed = dict(fixed or {})
        if not isinstance(priors, Mapping) or not priors:
            raise DTypeError(
                f"priors must be a dict of parameters and priors, at least one, got {priors!r:.60}"
            )
        for what, given in (("priors", priors), ("fixed", fixed)):
            for name in given:
                if name not in names:
                    raise InputError(
                        f"{what} has {name!r}, which is no parameter of the model; expected one of "
                        f"{', '.join(names)}"
                    )
        for name, prior in priors.items():
            if not isinstance(prior, Prior):
                raise DTypeError(
                    f"priors[{name!r}] must be made by normal, half_normal, gamma, log_normal, uniform or"
                    f" beta of portable.models.resampling.priors, got {prior!r:.60}"
                )
        both, neither = (
            [n for n in names if n in priors and n in fixed],
            [n for n in names if n not in priors and n not in fixed],
        )
        if both or neither:
            raise InputError(
                f"{', '.join(both)} in priors and in fixed; expected one of them"
                if both
                else f"{', '.join(neither)} neither in priors nor in fixed"
            )
        self.names, self.free = names, tuple(name for name in names if name in priors)
        self.fixed = {name: check_number(value, f"fixed[{name!r}]") for name, value in fixed.items()}
        self.priors = [priors[name] for name in self.free]
        self.texts = {name: prior.text for name, prior in zip(self.free, self.priors)}
        self.limits = np.array([(prior.low, prior.high) for prior in self.priors])
        self._low, self._high = self.limits.T

    def draw(self, random: np.random.Generator, size: int) -> Array:
        """Draw values of the free parameters.

        Parameters
        ----------
        random : numpy.random.Generator
        size : int

        Returns
        -------
        ndarray, shape (size, n_free)
        """
        return np.stack([prior.draw(random, size) for prior in self.priors], axis=1)

    def log_density(self, values: Array) -> Array:
        """Compute the logarithm of the density, summed over parameters.

        Parameters
        ----------
        values : ndarray, shape (n, n_free)

        Returns
        -------
        ndarray, shape (n,)
            -inf where a value is out of bounds.
        """
        inside = ((values > self._low) & (values < self._high)).all(axis=1)
        with np.errstate(all="ignore"):
            total = sum(prior.log_density(values[:, k]) for k, prior in enumerate(self.priors))
        return np.where(inside & np.isfinite(total), total, -np.inf)

    def table(self, values: Array) -> Array:
        """Return all parameters of the model, from the free ones.

        Parameters
        ----------
        values : ndarray, shape (n, n_free)

        Returns
        -------
        ndarray, shape (n, n_params)
        """
        return np.stack(
            [
                values[:, self.free.index(n)] if n in self.free else np.full(len(values), self.fixed[n])
                for n in self.names
            ],
            axis=1,
        )

    def to_line(self, values: Array) -> Array:
        """Transform values to coordinates without bounds: logarithms, log-odds, or the values themselves.

        Parameters
        ----------
        values : ndarray, shape (n, n_free)

        Returns
        -------
        ndarray, shape (n, n_free)
        """
        low, high = self._low, self._high
        with np.errstate(all="ignore"):
            below, above = np.log(values - low), np.log(high - values)
            found = np.where(np.isfinite(low), np.where(np.isfinite(high), below - above, below), values)
        return found

    def from_line(self, z: Array) -> tuple[Array, Array]:
        """Transform coordinates without bounds to values.

        Parameters
        ----------
        z : ndarray, shape (n, n_free)

        Returns
        -------
        values : ndarray, shape (n, n_free)
        volume : ndarray, shape (n,)
            Logarithm of the Jacobian determinant of values with respect to coordinates.
        """
        low, high = self._low, self._high
        with np.errstate(all="ignore"):
            width = high - low
            share = 1.0 / (1.0 + np.exp(-z))
            bounded = np.isfinite(low) & np.isfinite(high)
            values = np.where(bounded, low + width * share, np.where(np.isfinite(low), low + np.exp(z), z))
            volume = np.where(
                bounded, np.log(width) + np.log(share) + np.log1p(-share), np.where(np.isfinite(low), z, 0.0)
            )
        return values, volume.sum(axis=1)

    def at(self, z: Array) -> tuple[Array, Array]:
        """Transform coordinates without bounds to values; compute the logarithm of the density of the
        coordinates.

        Parameters
        ----------
        z : ndarray, shape (n, n_free)

        Returns
        -------
        values : ndarray, shape (n, n_free)
        log_density : ndarray, shape (n,)
        """
        values, volume = self.from_line(z)
        return values, self.log_density(values) + volume
