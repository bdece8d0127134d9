"""Akaike's criterion, which compares fits with the same background alone."""

from __future__ import annotations

import hashlib
import operator

import numpy as np

from portable.errors import InputError


def _compared(by):
    return lambda self, other: by(float(self), self._with(other))


class Criterion(float):
    """A number that is compared with those of fits to the same events with the same background alone."""

    of: str

    def __new__(cls, value: float, of: str) -> Criterion:
        made = super().__new__(cls, value)
        made.of = of
        return made

    def __getnewargs__(self) -> tuple[float, str]:  # type: ignore[override]
        return float(self), self.of

    def _with(self, other):
        if isinstance(other, Criterion) and other.of != self.of:
            raise InputError(
                "AIC compares fits to the same events with the same background; these differ. A background"
                " that has seen each event, or took its bandwidth or its periods from them, counts no"
                " parameter for that. hawkes.triggering_test compares triggering with none whatever the"
                " background; hawkes.residuals and hawkes.predictive_check say which background is any good"
            )
        return float(other)

    __lt__, __le__, __gt__, __ge__ = map(_compared, (operator.lt, operator.le, operator.gt, operator.ge))

    def __add__(self, other):
        return Criterion(float(self) + float(other), self.of)

    def __sub__(self, other):
        less = float(self) - self._with(other)
        return less if isinstance(other, Criterion) else Criterion(less, self.of)

    def __rsub__(self, other):
        return self._with(other) - float(self)


def model_of(likelihood, params, free):
    """Return the same text for the same events and background."""
    sums, background = likelihood.sums, likelihood.background
    held = [likelihood.background_self, *(v for v in ("tau_x", "tau_t") if v in free)]
    held += [getattr(params, v) for v in ("tau_x", "tau_t") if v not in free]
    parts = [np.ascontiguousarray(v).tobytes() for v in (sums.locations, sums.times)]
    parts.append(repr(held).encode() if background is None else background.density.tobytes())
    return hashlib.blake2b(b"".join(parts), digest_size=16).hexdigest()
