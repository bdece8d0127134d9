"""pk.derivative, pk.adjoint and the gradients of parallel_reduce: selection of the numbers and arrays. Trees
are transformed in forward.py and reverse.py.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import numpy as np

from ..core.arrays.scatter import viewed
from ..core.language.kernel import Function, Kernel
from ..core.language.reducer import Max, Min, Sum
from ..core.language.types import fields_of
from ..core.launch.dispatch import is_record, named_arguments, parallel_reduce, parts_of
from ..errors import DTypeError, InputError, LanguageError
from .changes import changed


class Change(NamedTuple):
    """Derivative of a source: tangents along the numbers at `paths`, such as "x" or "p.omega".

    value : True if the value comes first; order : 1 or 2; before : the Change applied before this one
    """

    paths: tuple
    value: bool
    order: int
    before: Change | None

    def text(self, text):
        """Return a Text with the derivatives of the results of another Text."""
        base = text if self.before is None else self.before.text(text)
        return dataclasses.replace(base, trees={}, inlined=functools.partial(self.inlined, base))

    def inlined(self, base, build, args, node):
        """Return the result of the source at this place of a tree."""
        from .read import inlined

        return inlined(build, base, args, node, self)

    def run(self, function, args):
        """Return the result of a derived function for numbers of the host."""
        if isinstance(function, Kernel):
            raise LanguageError(
                f"{function!r} is a kernel; launch it by pk.parallel_reduce(..., reducer=...)"
            )
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
        True if the value comes first.
    order : 1 or 2
        2 adds the second derivatives, row by row up to the diagonal.

    Returns
    -------
    Function or Kernel, as `function` is
        It takes the same arguments. A function returns the derivative; for several numbers, with `value`, or
        of order 2, a tuple of the value, the derivatives in the order of `wrt`, and the second ones.

    Raises
    ------
    DTypeError, InputError
        `function` is none, or has no such parameter.
    LanguageError, LoweringError
        At compilation: an operation without derivative (docs/derivatives.md), with its line and the reason.

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
            f"derivative: expected a function marked with @pk.function or @pk.kernel, got {function!r}"
        )
    paths = _paths(function, wrt, "wrt")
    if order not in (1, 2):
        raise InputError(f"derivative: order is {order!r}; expected 1 or 2")
    return changed(function, type(function), Change(paths, bool(value), order, function.options[-1]))


def _paths(function, names, argument):
    """Return names of numbers, checked, as a tuple."""
    names = (names,) if isinstance(names, str) else names
    if not isinstance(names, tuple) or not names or not all(isinstance(name, str) for name in names):
        raise InputError(f"{argument}: expected the name of a parameter, or a tuple of them, got {names!r}")
    params = function.params[isinstance(function, Kernel) :]
    for name in names:
        if name.partition(".")[0] not in params:
            raise InputError(
                f"{argument}: '{function.name}' has no parameter '{name.partition('.')[0]}';"
                f" there are {', '.join(params)}"
            )
    if len(set(names)) < len(names):
        raise InputError(f"{argument}: {names!r} repeats a name")
    return names


def adjoint(
    policy: Any,
    kernel: Any,
    *args: Any,
    wrt: str | tuple[str, ...] | dict[str, Any],
    of: dict[str, Any] | None = None,
    order: str = "fixed",
    **named: Any,
) -> Any:
    """Multiply the derivatives of a launch's results by given factors, and sum: reverse mode by arrays.

    Parameters
    ----------
    policy : int, RangePolicy or MDRangePolicy
    kernel, *args, **named : as in the launch, with the arrays' values before it; nothing is written to them
    wrt : str, tuple of str, or dict of arrays
        Arrays of float32 or float64 that the kernel reads, "x", or in a record, "p.x"; numbers as for
        `gradient`. To the arrays of a dict the derivatives are added.
    of : dict of arrays, optional
        For arrays that the kernel writes, by name, the derivatives of some number by their elements, of the
        same shape; 0 for arrays that are not named. Without `of` the number is the sum of the kernel's return
        values.
    order : "fixed" or "any"
        How derivatives are added where several indices read an element: in an order that makes the same bits
        on every space, or by atomics.

    Returns
    -------
    array or tuple of arrays
        The derivatives of that number by the elements of each of `wrt`, of the same shapes: those of the
        dict; or new ones, NumPy arrays for NumPy arrays, else views. Of numbers an array, shape (n_numbers,).

    Raises
    ------
    InputError, DTypeError, ShapeError
        A name, an array or a policy is not as required, or two arrays share memory.
    LanguageError
        The kernel has no adjoint (docs/derivatives.md); the message has the line and the reason.

    Examples
    --------
    >>> @pk.kernel
    ... def differences(i, x, out):
    ...     out[i] = (x[i + 1] - x[i]) * x[i]
    >>> x, ones = np.array([1.0, 2.0, 4.0]), np.ones(2)
    >>> pk.adjoint(2, differences, x, np.empty(2), wrt="x", of={"out": ones}).tolist()
    [0.0, 1.0, 2.0]
    """
    kernel, args = named_arguments().arranged(policy, kernel, args, named)
    if order not in ("fixed", "any"):
        raise InputError(f"adjoint: order is {order!r}; expected 'fixed' or 'any'")
    if not isinstance(of, dict) and not (of is None and kernel.portable_text.returns_something):
        raise InputError(
            f"adjoint: of is {of!r:.60}; expected a dict of arrays by name, or None if the kernel"
            " returns a number"
        )
    into = wrt if isinstance(wrt, dict) else {}
    names = _paths(kernel, tuple(into) or wrt, "wrt")
    if of:
        _paths(kernel, tuple(of), "of")
    return _by_name(policy, kernel, args, _kinds(kernel, args, names, "wrt"), wrt, of, order, into)


def reduced(policy, kernel, args, reducer, gradient, hessian, out, label):
    """Compute a reduction with its derivatives, for parallel_reduce.

    Returns
    -------
    (value, gradient), or (value, gradient, hessian)
    """
    launch = functools.partial(parallel_reduce, label=label)
    argument, names, order = ("gradient", gradient, 1) if hessian is None else ("hessian", hessian, 2)
    if gradient is not None and hessian is not None:
        raise InputError("expected gradient or hessian, not both")
    names = _paths(kernel, names, argument)
    if reducer is not Sum:
        if reducer not in (Max, Min):
            raise InputError(f"{argument}: expected reducer pk.Sum, pk.Max or pk.Min, got {reducer!r}")
        from .adjoint import selected

        best, policy = selected(launch, policy, kernel, args, reducer)
        found = reduced(policy, kernel, args, Sum, gradient, hessian, out, label)
        return found and (best, *found[1:])
    kinds = arrays, _, numbers = _kinds(kernel, args, names, argument)
    if not arrays:
        return _by_numbers(launch, policy, kernel, args, numbers, order, out)
    if order == 2 or out is not None:
        raise InputError(f"{argument}: {', '.join(arrays)}: arrays need gradient=, without out=")
    found = _by_name(policy, kernel, args, kinds, gradient)
    return launch(policy, kernel, *args), found


def _kinds(kernel, args, names, argument):
    """Return the arrays by their names, the paths of the numbers of each of the others, and all paths."""
    values = _values(kernel, args, names, argument)
    arrays = {n: v for n, v in values.items() if getattr(v, "shape", ()) and not is_record(v)}
    paths = {n: _numbers(kernel, n, v, argument) for n, v in values.items() if n not in arrays}
    return arrays, paths, tuple(sum(paths.values(), []))


def _by_numbers(launch, policy, kernel, args, numbers, order, out):
    n, derived = len(numbers), derivative(kernel, numbers, value=True, order=order)
    count = 1 + n + (n * (n + 1) // 2 if order == 2 else 0)
    results = launch(policy, derived, *args, reducer=(Sum,) * count, out=out)
    if not results:
        return None
    value, slopes, second = results[0], np.array(results[1 : n + 1]), results[n + 1 :]
    if order == 1:
        return value, slopes
    hessian, below = np.empty((n, n), slopes.dtype), np.tril_indices(n)
    hessian[below] = hessian.T[below] = second
    return value, slopes, hessian


def _by_name(policy, kernel, args, kinds, asked, of=None, order="fixed", into=()):
    """Return derivatives in reverse mode, by the name of an array or number, or by several."""
    from .adjoint import pulled_back

    arrays, paths, numbers = kinds
    given = arrays | _values(kernel, args, of or (), "of")
    found, slopes = pulled_back(policy, kernel, args, given, tuple(arrays), numbers, of, order, into)
    slopes = iter(slopes)
    found |= {name: np.array([next(slopes) for _ in own]) for name, own in paths.items()}
    return found[asked] if isinstance(asked, str) else tuple(map(found.get, asked))


def _values(kernel, args, paths, argument):
    """Return the arguments, or the parts of some, at paths."""
    given, found = dict(zip(kernel.params[len(kernel.params) - len(args) :], args)), {}
    for path in paths:
        first, *fields = path.split(".")
        value = given.get(first)
        for field in fields:
            parts = dict(zip(*parts_of(value))) if is_record(value) else {}
            if field not in parts:
                raise InputError(
                    f"{argument}: '{path}' of kernel '{kernel.name}' is no field of {value!r:.60}"
                )
            value = parts[field]
        found[path] = value if isinstance(value, np.ndarray) else viewed(value)
    return found


def _numbers(kernel, path, value, argument):
    """Return the paths of the numbers of an argument, which are floats."""
    if hasattr(value, "numbered") or fields_of(type(value)):
        parts = zip(*parts_of(value))
        return [p for name, v in parts for p in _numbers(kernel, f"{path}.{name}", v, argument)]
    if not isinstance(value, (float, np.floating)):
        hint = "; pass a float" if isinstance(value, (int, np.integer)) else ""
        raise DTypeError(
            f"{argument}: argument '{path}' of kernel '{kernel.name}' is of type {type(value).__name__};"
            f" derivatives are with respect to floats{hint}"
        )
    return [path]
