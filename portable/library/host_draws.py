"""Functions of numbered random numbers as the host calls them: arguments are checked, and may be arrays."""

from __future__ import annotations

import functools
import inspect
import math
from typing import Any

import numpy as np

from ..core import events
from ..core.launch.dispatch import parallel_for
from ..errors import DTypeError, InputError, ShapeError
from ..core.language.kernel import Function, Kernel, Parameters, from_text
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
        self.signature = inspect.signature(fn)
        self.__module__ = "portable.random"  # module in which pickle finds it by its name

    def __reduce__(self):
        return self.name

    def __call__(self, *args, **named):
        names = [*self.signature.parameters]
        try:
            args = self.signature.bind(*args, **named).args
        except TypeError:
            raise InputError(f"{self.name} takes {', '.join(names)}: numbers, or arrays") from None
        return self._drawn(names[3:], *args)

    def _drawn(self, names, *given):
        """Return the numbers for arguments, of which `names` are those after seed, stream and draw."""
        keys, of = [v % 2**64 if isinstance(v, int) else v for v in given[:3]], given[3:]
        for name, values in zip(["seed", "stream", "draw", *names], (*keys, *of)):
            self._check(name, values)
        numbers = [v for v, name in zip(of, names) if name not in ("weights", "out")]
        if all(np.ndim(v) == 0 for v in (*keys, *numbers)):
            return super().__call__(*keys, *of)
        if "out" in names:
            raise InputError(f"{self.name}: seed, stream and draw must be numbers, for one permutation")
        weights = [np.asarray(v, np.float64) for v, name in zip(of, names) if name == "weights"]
        return self._draw_on_host(np.broadcast_arrays(*keys, *numbers), weights)

    def _check(self, name, values):
        """Refuse an argument that is no number or array of numbers, or beyond its range."""
        whole = name in ("seed", "stream", "draw") or self.name == "randint"
        if np.asarray(values).dtype.kind not in "biuf" or whole and not np.isfinite(values).all():
            raise DTypeError(f"{self.name}: {name} is {values!r:.60}; expected numbers, or arrays of them")
        if name in RANGES and self.name != "randint":
            (low, high, wanted), found = RANGES[name], np.asarray(values, np.float64)
            outside = ~((found >= low) & (found <= high))
            if outside.any():
                raise InputError(f"{self.name}: {name} is {found[outside].flat[0]}; expected {wanted}")
        if name in ("weights", "out") and (np.ndim(values) != 1 or not hasattr(values, "shape")):
            raise ShapeError(f"{self.name}: {name} is {values!r:.60}; expected an array of one dimension")

    def _draw_on_host(self, arrays, weights):
        """Return the numbers of arrays of one shape, drawn on the serial space."""
        events.refuse_while_recording("a draw")
        found = np.empty(math.prod(arrays[0].shape), self.signature.return_annotation)
        parallel_for(
            RangePolicy(0, found.size, space="serial"),
            _of_elements(len(arrays), len(weights)),
            self,
            *(np.array(v).ravel() for v in arrays),
            *weights,
            found,
        )
        return found.reshape(arrays[0].shape)


@functools.cache
def _of_elements(n, weights):
    """Return a kernel that stores the values of a function of the elements of n arrays, and of `weights`."""
    names, more = [f"a{k}" for k in range(n)], ["weights"] * weights
    params, given = ", ".join([*names, *more]), ", ".join([*(f"{name}[i]" for name in names), *more])
    lines = [f"def draw(i, fn, {params}, out):\n", f"    out[i] = fn({given})\n"]
    return from_text(Kernel, "draw", __name__, "<draws>", lines, 1, {}, (False, False, 1))


def host_form(text: Function[Parameters, Any]) -> Function[Parameters, Any]:
    """Return the host's form of a function of numbers: kernels compile the same source."""
    return Drawn(text.fn)
