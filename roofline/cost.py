"""Declare a kernel's cost, to be compared with counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from portable.errors import InputError

_declared = {}  # kernel -> {quantity: function}

Kernel = TypeVar("Kernel")
Quantity = Callable[..., float]


def cost(
    *,
    flops: Quantity | None = None,
    bytes: Quantity | None = None,  # noqa: A002 - the name of the quantity
    special: Quantity | None = None,
) -> Callable[[Kernel], Kernel]:
    """Declare the cost of a kernel's launch; `roofline.count` and reports state where the count disagrees.

        @roofline.cost(flops=lambda n, a, x, y: 2 * n)
        @pk.kernel
        def axpy(i, a, x, y): ...

    Parameters
    ----------
    flops, bytes, special : callable of `(extent, *args)`, optional
        Floating-point operations of the source (FMA = 2), compulsory bytes, calls of special functions. The
        extent is the number of indices or teams; for a box it is a tuple.

    Returns
    -------
    callable
        A decorator that returns the kernel unchanged.

    Raises
    ------
    InputError
        A quantity is not a function.
    """
    given = {"flops": flops, "bytes": bytes, "special": special}
    wanted = {name: value for name, value in given.items() if value is not None}
    for name, value in wanted.items():
        if not callable(value):
            raise InputError(f"cost: {name} is {value!r}; expected a function of (extent, *args)")

    def declare(kernel):
        _declared[kernel] = wanted
        return kernel

    return declare


def disagreements(kernel, extent, args, counted):
    """Return a sentence on each declared quantity that differs from the counted one.

    Parameters
    ----------
    counted : dict of quantity to number
    """
    said = {name: function(extent, *args) for name, function in _declared.get(kernel, {}).items()}
    return [
        f"declared {name}: {n:,}; counted: {counted[name]:,}"
        for name, n in said.items()
        if n != counted[name]
    ]
