"""Prior densities of a parameter, by name: one type for all families.

A density has its logarithm, draws, and, where it has that form, the coefficients of

    c_0 log v + c_1 v + c_2 v^2 + c_3 (log v)^2 + constant    for low < v < high,                        (1)

so that kernels take any of these priors without a branch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .annotations import Array, Real
from .checks import check_number


_ROOT = math.sqrt(2 * math.pi)
# by form, functions of its numbers: the log-density of an array, draws, and the coefficients of (1) or None
FORMS = {
    "normal": (
        lambda v, mean, sd: -0.5 * ((v - mean) / sd) ** 2 - math.log(sd * _ROOT),
        lambda random, size, mean, sd: random.normal(mean, sd, size),
        lambda mean, sd: (0.0, mean / sd**2, -0.5 / sd**2, 0.0),
    ),
    "half_normal": (
        lambda v, sd: -0.5 * (v / sd) ** 2 - math.log(sd * math.sqrt(math.pi / 2)),
        lambda random, size, sd: np.abs(random.normal(0.0, sd, size)),
        lambda sd: (0.0, 0.0, -0.5 / sd**2, 0.0),
    ),
    "gamma": (
        lambda v, shape, rate: (
            (shape - 1.0) * np.log(v) - rate * v + (shape * math.log(rate) - math.lgamma(shape))
        ),
        lambda random, size, shape, rate: random.gamma(shape, 1.0 / rate, size),
        lambda shape, rate: (shape - 1.0, -rate, 0.0, 0.0),
    ),
    "log_normal": (
        lambda v, median, sd: (
            -0.5 * ((np.log(v) - math.log(median)) / sd) ** 2 - np.log(v) - math.log(sd * _ROOT)
        ),
        lambda random, size, median, sd: np.exp(random.normal(math.log(median), sd, size)),
        lambda median, sd: (1.0 / sd**2 * math.log(median) - 1.0, 0.0, 0.0, -0.5 / sd**2),
    ),
    "uniform": (
        lambda v, low, high: np.full(np.shape(v), -math.log(high - low)),
        lambda random, size, low, high: random.uniform(low, high, size),
        lambda low, high: (0.0, 0.0, 0.0, 0.0),
    ),
    "beta": (
        lambda v, a, b: (
            (a - 1.0) * np.log(v)
            + (b - 1.0) * np.log1p(-v)
            + (math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b))
        ),
        lambda random, size, a, b: random.beta(a, b, size),
        None,
    ),
}


@dataclass(frozen=True, slots=True)
class Prior:
    """A prior density of one parameter; made by the functions below.

    Parameters
    ----------
    form : str
        A key of `FORMS`.
    numbers : tuple of float
        The arguments of the form's functions.
    low, high : float
        Bounds between which the density is positive.
    text : str
        Description.
    """

    form: str
    numbers: tuple[float, ...]
    low: float
    high: float
    text: str

    @property
    def coefficients(self) -> tuple[float, ...] | None:
        """The coefficients of (1); None for a density of another form."""
        of = FORMS[self.form][2]
        return of and of(*self.numbers)

    def log_density(self, v: Array) -> Array:
        """Compute the logarithm of the density, including the constant of the whole form.

        Parameters
        ----------
        v : ndarray
            Values between low and high.

        Returns
        -------
        ndarray
        """
        return FORMS[self.form][0](v, *self.numbers)

    def draw(self, random: np.random.Generator, size: int) -> Array:
        """Draw values between the bounds.

        Parameters
        ----------
        random : numpy.random.Generator
        size : int

        Returns
        -------
        ndarray, shape (size,)
        """
        draw = FORMS[self.form][1]
        found = draw(random, size, *self.numbers)
        while (outside := ~((self.low < found) & (found < self.high))).any():
            found[outside] = draw(random, outside.sum(), *self.numbers)
        return found


def _prior(form, low=0.0, high=math.inf, **numbers):
    """Return the density of a form, after a check of its numbers: all are positive but the mean."""
    for name, value in numbers.items():
        numbers[name] = check_number(value, f"{form}: {name}", above=-math.inf if name == "mean" else 0.0)
    words = (f"{name} {value:g}" for name, value in numbers.items())
    return Prior(form, tuple(numbers.values()), low, high, ", ".join([form.replace("_", "-"), *words]))


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
    return _prior("normal", -math.inf, mean=mean, sd=sd)


def half_normal(sd: Real) -> Prior:
    """Make a half-normal density: the positive half of a normal density with mean 0.

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
    return _prior("half_normal", sd=sd)


def gamma(shape: Real, rate: Real) -> Prior:
    """Make a gamma density, proportional to v^(shape - 1) exp(-rate v).

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
    return _prior("gamma", shape=shape, rate=rate)


def log_normal(median: Real, sd: Real) -> Prior:
    """Make a log-normal density, from its median and the standard deviation of the logarithm.

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
    return _prior("log_normal", median=median, sd=sd)


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
    return Prior("uniform", (low, high), low, high, f"uniform, {low:g} to {high:g}")


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
    return _prior("beta", high=1.0, a=a, b=b)
