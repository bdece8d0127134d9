"""The parameters of the model, checked on construction."""

from __future__ import annotations

import functools
import math
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ..shared.annotations import Function
from ..shared import InputError, Names, check_each, check_numbers, check_positive, refuse
from .triggering import EXPONENTIAL, Triggering

_SHARED_UNITS = {"mu0": "1", "tau_x": "km", "tau_t": "h", "theta": "1"}


class ParametersBase:
    """Parameters common to all triggering functions: mu0, tau_x, tau_t, theta, followed by those of the
    triggering function.

    Raises
    ------
    DTypeError, FiniteError, InputError
        A value is no positive number, or out of range.
    """

    __slots__ = ()
    triggering: ClassVar[Triggering]
    # arguments of `compose` that reproduce this class; None for the paper's and for user-defined classes
    spec: ClassVar[dict[str, Any] | None] = None

    if TYPE_CHECKING:  # classes made by `compose` have fields that a type checker cannot infer
        mu0: float
        tau_x: float
        tau_t: float
        theta: float

        def __init__(self, *args: float, **kwargs: float) -> None: ...

        def __getattr__(self, name: str) -> Any: ...

    def __post_init__(self) -> None:
        least = self.triggering.least
        for name, value in zip(self.names(), self.values()):
            value = check_positive(value, f"Parameters: {name}")
            # Squares, cubes and products of values in this range are finite in float64, and the factors of
            # exponents in float32.
            if not 1e-15 <= value <= 1e15:
                raise InputError(f"Parameters: {name} is {value}; expected 1e-15 to 1e15, in km and hours")
            if value <= least.get(name, 0.0):
                raise InputError(
                    f"Parameters: {name} is {value}; expected more than {least[name]:g}, for"
                    " a finite integral"
                )
            object.__setattr__(self, name, value)

    @classmethod
    def names(cls) -> Names:
        """Return the names of all parameters, in order.

        Returns
        -------
        tuple of str
        """
        return cls.__match_args__

    @classmethod
    def units(cls) -> dict[str, str]:
        """Return the unit of each parameter, by its name.

        Returns
        -------
        dict of str
            "1", "km", "h" or "1/h".
        """
        return _SHARED_UNITS | dict(zip(cls.triggering.names, cls.triggering.units))

    @classmethod
    def unit(cls, name: str) -> str:
        """Return the unit of a parameter, or of a reciprocal such as '1/omega'.

        Parameters
        ----------
        name : str
            Such as 'omega' or '1/omega'.

        Returns
        -------
        str

        Raises
        ------
        KeyError
            There is no such parameter.
        """
        unit = cls.units()[name.removeprefix("1/")]
        if not name.startswith("1/") or unit == "1":
            return unit
        return unit.removeprefix("1/") if unit.startswith("1/") else f"1/{unit}"

    def values(self) -> tuple[float, ...]:
        """Return all values, in the order of `names`.

        Returns
        -------
        tuple of float
        """
        return _values_of(type(self))(self)

    @property
    def trigger_values(self) -> tuple[float, ...]:
        """The values of the triggering function's parameters."""
        return self.values()[4:]

    @property
    def kernel_values(self) -> tuple[float, ...]:
        """The triggering function's parameters in the form for kernel functions, with lengths and
        durations as reciprocals."""
        return self.triggering.for_kernels(self.trigger_values)

    @property
    def background_exponents(self) -> tuple[float, float]:
        """-1 / (2 tau_x^2) and -1 / (2 tau_t^2), the factors of r^2 and dt^2 in the exponent of (1)."""
        return -0.5 / self.tau_x**2, -0.5 / self.tau_t**2

    def background_scale(self, n_dims: int) -> float:
        """Return the factor of the sum of exponentials in (1): mu0 tau_x^-D tau_t^-1 (2 pi)^(-(D + 1) / 2).

        Parameters
        ----------
        n_dims : int, 1 to 3
            Dimensions of space, D.

        Returns
        -------
        float, per km^D and hour
        """
        return self.mu0 / (self.tau_x**n_dims * self.tau_t * (2 * math.pi) ** ((n_dims + 1) / 2))

    def excitation_scale(self, n_dims: int) -> float:
        """Return the factor of the sum in (2): theta omega h^-D (2 pi)^(-D / 2) for the paper's triggering
        function.

        Parameters
        ----------
        n_dims : int, 1 to 3
            Dimensions of space, D.

        Returns
        -------
        float, per km^D and hour
        """
        return self.theta * _scale_of(self.triggering, n_dims, self.values()[4:])


@functools.cache
def _values_of(kind):
    """Return a function that returns the values of such parameters in order."""
    return operator.attrgetter(*kind.names())


@functools.lru_cache(maxsize=1024)
def _scale_of(trigger, n_dims, p):
    """Return the scale of the triggering function."""
    return float(trigger.scale(n_dims, trigger.for_kernels(p)))


@dataclass(frozen=True, slots=True)
class Parameters(ParametersBase):
    """Parameters of the spatiotemporal Hawkes process, all between 1e-15 and 1e15.

    Parameters
    ----------
    mu0 : float
        Weight of the background.
    tau_x : float, kilometres
        Spatial scale of the background.
    tau_t : float, hours
        Temporal scale of the background.
    theta : float
        Branching ratio: the expected number of direct offspring of an event.
    omega : float, per hour
        Decay rate of the excitation; 1 / omega is the mean delay of an offspring.
    h : float, kilometres
        Spatial scale of excitation.

    Raises
    ------
    DTypeError
        A value is not a real number.
    FiniteError
        A value is NaN or infinite.
    InputError
        A value is not between 1e-15 and 1e15.
    """

    mu0: float
    tau_x: float
    tau_t: float
    theta: float
    omega: float
    h: float
    triggering: ClassVar[Triggering] = EXPONENTIAL


@dataclass(frozen=True, slots=True, eq=False)
class Background:
    """A known background, in place of the kernel density (1): mu_n = mu0 * density[n].

    Parameters
    ----------
    density : array-like, shape (n_events,), per km^D and hour
        Its value at each event, at least 0.
    mass : float
        Its integral over the region and time of observation; it has mu0 * mass expected events.
    mass_until : array-like, shape (n_events,), optional
        Its integral over the region until the time of each event; required for residuals.
    at : callable (locations, times), optional
        Returns its density at other points, shape (n_points,); required for intensities.
    draw : callable (random, mu0, begin, end), optional
        Simulates background events between two times, (locations, times); required for forecasts.
    """

    density: Any
    mass: float
    mass_until: Any = None
    at: Function | None = None
    draw: Function | None = None

    def __post_init__(self) -> None:
        density = check_numbers(self.density, "Background: density", 1)
        refuse(density < 0.0, density, "Background: density", "at least 0")
        object.__setattr__(self, "density", density)
        if self.mass_until is not None:
            until = check_each(self.mass_until, "Background: mass_until", len(density))
            object.__setattr__(self, "mass_until", until)
        object.__setattr__(self, "mass", check_positive(self.mass, "Background: mass"))

    @property
    def typical(self) -> float:
        """The mean density over events, or 1 if it is 0 at all of them."""
        return float(self.density.mean()) or 1.0
