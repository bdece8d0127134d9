"""Functions of numbered random numbers as the host calls them: arguments are checked, and may be arrays."""

from __future__ import annotations

import inspect
import math
from typing import Any

import numpy as np

from ..core.launch.dispatch import parallel_for
from ..errors import InputError
from ..core.language.kernel import Function, Parameters, kernel
from ..core.places.policy import RangePolicy

MOST_COUNT = 2**52
_COUNT, _SIZE = (0, MOST_COUNT, "0 to 2^52"), (5e-324, 1.7976931348623157e308, "a number above 0")
RANGES = {"mean": _COUNT, "n": _COUNT, "p": (0, 1, "0 to 1"), "shape": _SIZE, "a": _SIZE, "b": _SIZE}


class Drawn(Function):
    """A function of seed, stream, draw and parameters that kernels compile as any other.

    On the host arrays of them are broadcast, and a kernel draws the numbers on the serial space: the same
    ones as everywhere.
    """

    def __init__(self, fn, *options, **named):
        super().__init__(fn, *options, **named)
        self.__module__ = "portable.random"  # module in which pickle finds it by its name

    def __reduce__(self):
        return self.name

    def __call__(self, seed, stream, draw, *of):
        names = list(inspect.signature(self.fn).parameters)[3:]
        for name, values in zip(names, of):
            if name in RANGES:
                self._check_range(name, np.asarray(values, np.float64))
        numbers = [v for v, name in zip(of, names) if name not in ("weights", "out")]
        if all(np.ndim(v) == 0 for v in (seed, stream, draw, *numbers)):
            return super().__call__(seed, stream, draw, *of)
        if "out" in names:
            raise InputError(f"{self.name}: one permutation at a time; seed, stream and draw are numbers")
        keys = [
            np.asarray(v % 2**64, np.uint64) if isinstance(v, int) else np.asarray(v)
            for v in (seed, stream, draw)
        ]
        weights = [np.asarray(v, np.float64) for v, name in zip(of, names) if name == "weights"]
        return self._drawn(np.broadcast_arrays(*keys, *numbers), weights)

    def _check_range(self, name, values):
        low, high, wanted = RANGES[name]
        outside = ~((values >= low) & (values <= high))
        if outside.any():
            raise InputError(f"{self.name}: {name} is {values[outside].flat[0]}; expected {wanted}")

    def _drawn(self, arrays, weights):
        """Return the numbers of arrays of one shape, drawn on the serial space."""
        found = np.empty(math.prod(arrays[0].shape), inspect.signature(self.fn).return_annotation)
        parallel_for(
            RangePolicy(0, found.size, space="serial"),
            _with_weights if weights else _OF[len(arrays)],
            self,
            *(np.array(v).ravel() for v in arrays),
            *weights,
            found,
        )
        return found.reshape(arrays[0].shape)


@kernel
def _three(i, fn, seed, stream, draw, out):
    out[i] = fn(seed[i], stream[i], draw[i])


@kernel
def _four(i, fn, seed, stream, draw, a, out):
    out[i] = fn(seed[i], stream[i], draw[i], a[i])


@kernel
def _five(i, fn, seed, stream, draw, a, b, out):
    out[i] = fn(seed[i], stream[i], draw[i], a[i], b[i])


@kernel
def _with_weights(i, fn, seed, stream, draw, weights, out):
    out[i] = fn(seed[i], stream[i], draw[i], weights)


_OF = {3: _three, 4: _four, 5: _five}  # by the number of arguments


def drawn(text: Function[Parameters, Any]) -> Function[Parameters, Any]:
    """Return the host's form of a function of numbers: kernels compile the same source."""
    return Drawn(text.fn)
