"""The six parameters of the model, checked when they are made."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass, fields

from portable.errors import DTypeError, FiniteError, InputError


@dataclass(frozen=True, slots=True)
class Parameters:
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
        Rate at which excitation decays; 1 / omega is the mean delay of an offspring.
    h : float, kilometres
        Spatial scale of excitation.

    Raises
    ------
    DTypeError
        A value is not a real number.
    FiniteError
        A value is NaN or infinite.
    InputError
        A value is not positive, or so extreme that no factor of the model could be trusted.
    """

    mu0: float
    tau_x: float
    tau_t: float
    theta: float
    omega: float
    h: float

    def __post_init__(self):
        for field in fields(self):
            value = check_positive(getattr(self, field.name), f"Parameters: {field.name}")
            # Squares, cubes and products of such values stay within float64, and the exponents' factors within float32.
            if not 1e-15 <= value <= 1e15:
                raise InputError(f"Parameters: {field.name} is {value}; 1e-15 to 1e15, in km and hours, is wanted")
            object.__setattr__(self, field.name, value)

    def background_scale(self, n_dims):
        """mu0 tau_x^-D tau_t^-1 (2 pi)^(-(D + 1) / 2): what multiplies the sum of exponentials in (1)."""
        return self.mu0 / (self.tau_x**n_dims * self.tau_t * (2 * math.pi) ** ((n_dims + 1) / 2))

    def excitation_scale(self, n_dims):
        """theta omega h^-D (2 pi)^(-D / 2): what multiplies the sum of exponentials in (2)."""
        return self.theta * self.omega / (self.h**n_dims * (2 * math.pi) ** (n_dims / 2))


def check_positive(value, name):
    """`value` as a float if it is a positive finite real number, else an error that begins with `name`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise DTypeError(f"{name} must be a number, got {value!r} of type {type(value).__name__}")
    value = float(value)
    if not math.isfinite(value):
        raise FiniteError(f"{name} is {value}; a finite number is wanted")
    if value <= 0.0:
        raise InputError(f"{name} is {value}; a positive number is wanted")
    return value
