"""pk.derivative, and the gradients of parallel_reduce: which numbers are meant, checked. The tree is changed
in forward.py."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import numpy as np

from ..core.language.kernel import Function, Kernel
from ..core.language.types import fields_of
from ..errors import DTypeError, InputError, LanguageError


class Change(NamedTuple):
    """What `derivative` makes of a text: tangents along the numbers at `paths`, such as "x" or "p.omega".

    value : the value comes first; order : 1 or 2; before : what was made of the text before
    """

    paths: tuple
    value: bool
    order: int
    before: Change | None

    def text(self, text):
        """The Text that gives the derivatives of what another gives."""
        base = text if self.before is None else self.before.text(text)
        return dataclasses.replace(base, trees={}, inlined=functools.partial(self.inlined, base))

    def inlined(self, base, build, args, node):
        """What the text gives at this place of a tree."""
        from .read import inlined

        return inlined(build, base, args, node, self)

    def run(self, function, args):
        """What a derived function gives for numbers of the host."""
        if isinstance(function, Kernel):
            raise LanguageError(f"{function!r} is derived: launch it, pk.parallel_reduce(..., reducer=...)")
        from .host import run

        return run(function, args)


def derivative(function: Any, wrt: str | tuple[str, ...], *, value: bool = False, order: int = 1) -> Any:
    """Make the derivative of a function of kernels, or of a kernel of parallel_reduce.

    Parameters
    ----------
    function : function marked with @pk.function or @pk.kernel, or a derivative
        It returns a number or a tuple of numbers. A kernel returns a number.
    wrt : str or tuple of str
        Parameters that are floats, "x"; of a record a field, "p.omega", or all of its fields, "p".
    value : bool
        Whether the value comes first.
    order : 1 or 2
        2 adds the second derivatives, row by row up to the diagonal.

    Returns
    -------
    Function or Kernel, as `function` is
        It takes the same arguments. A function gives the derivative; of several numbers, with `value`, or of
        order 2 a tuple of the value, the derivatives in the order of `wrt`, and the second ones.

    Raises
    ------
    DTypeError, InputError
        `function` is none, or has no such parameter.
    LanguageError, LoweringError
        When it is compiled: what has no derivative (docs/derivatives.md), with its line and the reason.

    Examples
    --------
    >>> @pk.function
    ... def decay(x, rate):
    ...     return rate * pk.exp(-rate * x)
    >>> round(pk.derivative(decay, "rate")(1.0, 2.0), 6)
    -0.135335
    >>> pk.derivative(decay, ("x", "rate"), value=True)(0.0, 2.0)
    (2.0, -4.0, 1.0)
    """
    if not isinstance(function, (Function, Kernel)):
        raise DTypeError(
            f"derivative: a function marked with @pk.function or @pk.kernel is wanted, got {function!r}"
        )
    paths = _paths(function, wrt, "wrt")
    if order not in (1, 2):
        raise InputError(f"derivative: order is {order!r}; 1 or 2 is wanted, and more by a derivative's own")
    key = "derivative", paths, bool(value), order
    if key not in function.compiled:
        *options, before = function.options
        kind = Kernel if isinstance(function, Kernel) else Function
        change = Change(paths, bool(value), order, before)
        function.compiled[key] = kind(function.fn, *options, change)
    return function.compiled[key]


def _paths(function, names, argument):
    """Names of numbers, checked, as a tuple."""
    names = (names,) if isinstance(names, str) else names
    if not isinstance(names, tuple) or not names or not all(isinstance(name, str) for name in names):
        raise InputError(f"{argument}: the name of a parameter, or a tuple of them, is wanted, got {names!r}")
    params = function.params[isinstance(function, Kernel) :]
    for name in names:
        if name.partition(".")[0] not in params:
            raise InputError(
                f"{argument}: '{function.name}' has no parameter '{name.partition('.')[0]}';"
                f" there are {', '.join(params)}"
            )
    if len(set(names)) < len(names):
        raise InputError(f"{argument}: {names!r} has a name twice")
    return names


def reduced(launch, kernel, args, reducer, gradient, hessian):
    """parallel_reduce with derivatives; `launch` is the same without them.

    Returns
    -------
    (value, gradient), or (value, gradient, hessian)
    """
    from ..core.language.reducer import Sum

    if reducer is not Sum or gradient is not None and hessian is not None:
        raise InputError("gradient or hessian, one of them, goes with the reducer pk.Sum alone")
    names, order = (gradient, 1) if hessian is None else (hessian, 2)
    argument = "gradient" if order == 1 else "hessian"
    if not isinstance(kernel, Kernel):
        raise DTypeError(f"{argument}: a kernel marked with @pk.kernel is wanted, got {kernel!r}")
    first = len(kernel.params) - len(args)
    given = dict(zip(kernel.params[first:], args))
    paths = tuple(
        p for name in _paths(kernel, names, argument) for p in _numbers(kernel, given, name, argument)
    )
    n = len(paths)
    n_second = n * (n + 1) // 2 if order == 2 else 0
    derived = derivative(kernel, paths, value=True, order=order)
    results = launch(derived, *args, reducer=(Sum,) * (1 + n + n_second))
    if results is None:
        return None
    return _arrays(results, n)


def _arrays(results, n):
    """The value, the derivatives by n numbers, and the second ones, if there are any."""
    value, slopes, second = results[0], np.array(results[1 : n + 1]), results[n + 1 :]
    if not second:
        return value, slopes
    hessian, below = np.empty((n, n), slopes.dtype), np.tril_indices(n)
    hessian[below] = hessian.T[below] = second
    return value, slopes, hessian


def _numbers(kernel, given, path, argument):
    """The paths of the numbers of an argument, which are floats."""
    first, *fields = path.split(".")
    value = given.get(first)
    for field in fields:
        names = fields_of(type(value))
        if names is None or field not in names.params:
            raise InputError(f"{argument}: '{path}' of kernel '{kernel.name}' is no field of {value!r:.60}")
        value = getattr(value, field)
    names = fields_of(type(value))
    if names is not None:
        return [p for f in names.params for p in _numbers(kernel, given, f"{path}.{f}", argument)]
    if not isinstance(value, (float, np.floating)):
        hint = "; pass a float" if isinstance(value, (int, np.integer)) else ""
        raise DTypeError(
            f"{argument}: argument '{path}' of kernel '{kernel.name}' is of type {type(value).__name__};"
            f" derivatives are with respect to floats{hint}"
        )
    return [path]
