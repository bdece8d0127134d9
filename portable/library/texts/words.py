"""Words in addition to those of the core (core/language/words.py), in plain Python that is also kernel
source.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core.language.annotations import Number
from ...core.language.words import (
    FILES,
    copysign,
    isfinite,
    isinf,
    ldexp,
    log,
    logb,
    rint,
    sqrt,
    tan,
    where,
    word,
)

FILES.append(__file__)


# B_2k / 2k, k from 6 down
_DIGAMMA = -691.0 / 32760.0, 1.0 / 132.0, -1.0 / 240.0, 1.0 / 252.0, -1.0 / 120.0, 1.0 / 12.0


@word("inline", also=(math.isclose,))
def isclose(a: Number, b: Number, rel_tol: float = 1e-9, abs_tol: float = 0.0) -> bool:
    """Return True if abs(a - b) is at most rel_tol times the larger size, or abs_tol; as math.isclose."""
    return a == b or (
        abs(a - b) <= max(rel_tol * max(abs(a), abs(b)), abs_tol) and not isinf(a) and not isinf(b)
    )


@word("inline", also=(math.frexp, np.frexp))
def frexp(x: Number) -> tuple[float, int]:
    """Return (m, e) with x = m 2^e and 1/2 <= abs(m) < 1, e an integer; for zero, infinities and NaN m is x,
    and e is 0.
    """
    e = logb(x) + 1.0
    e = where(isfinite(e), e, 0.0)
    return ldexp(x, -e), int(e)


@word("inline", also=(math.gcd, np.gcd))
def gcd(a: int, b: int) -> int:
    """Return the greatest common divisor of two integers; of 0 and 0 it is 0."""
    a, b = abs(a | 0), abs(b | 0)  # of a float there is none
    while b != 0:
        a, b = b, a % b
    return a


@word("inline")
def digamma(x: Number) -> float:
    """Return the derivative of log(gamma(x)), by its asymptotic series above 10; to about 1e-15 of 1, or
    of itself where that is more."""
    a = where(x <= 0.0, 1.0 - x, x) * 1.0
    total = 0.0
    while a < 10.0:
        total += 1.0 / a
        a += 1.0
    z = 1.0 / (a * a)
    series = 1.0 / 12.0
    for c in _DIGAMMA:
        series = series * z + c
    y = log(a) - 0.5 / a - series * z - total
    d = (x - rint(x)) * math.pi
    y = y - where(x < 0.0, math.pi / tan(where((x < 0.0) & (d != 0.0), d, 1.0)), 0.0)
    return where(x == 0.0, copysign(math.inf, -1.0 * x), where((x < 0.0) & (d == 0.0), math.nan, y))


class Small(np.ndarray):
    """Result of `vector` and `matrix` outside of kernels: an array that is a value, `v += w` another
    one."""

    __iadd__, __isub__, __imul__ = np.ndarray.__add__, np.ndarray.__sub__, np.ndarray.__mul__
    __itruediv__, __ipow__ = np.ndarray.__truediv__, np.ndarray.__pow__

    def numbered(self) -> tuple[tuple[str, ...], tuple[Any, ...]]:
        """Return the places of a vector's numbers, or a matrix's rows, as names, and these as kernels take
        them."""
        weak = self.ndim == 1 and self.dtype in (np.float64, np.int64, np.complex128)
        return tuple(map(str, range(len(self)))), tuple(self.tolist() if weak else self)


@word("vector", 1)
def vector(*items: Any) -> Any:
    """Return a vector of numbers, `vector(x, y, z)`, or of a row, `vector(a[i, :3])`, kept in
    registers."""
    items = items[0] if len(items) == 1 and np.ndim(items[0]) else items
    return np.array(items, np.result_type(*items)).view(Small)


@word("vector", 2)
def matrix(*rows: Any) -> Any:
    """Return a matrix of its rows, `matrix((a, b), (c, d))`, or of an array, kept in registers."""
    rows = rows[0] if len(rows) == 1 and np.ndim(rows[0]) == 2 else rows
    return np.array([vector(row) for row in rows]).view(Small)


@word("inline", "arrays", also=(np.cross,))
def cross(a: Any, b: Any) -> Any:
    """Return the vector product of two vectors of three."""
    return vector(a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])


@word("inline", "arrays", also=(np.linalg.norm,))
def norm(v: Any) -> Any:
    """Return the square root of the sum of the squares of a vector's numbers."""
    return sqrt((v * v).sum())
