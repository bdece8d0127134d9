"""Numbers of the checked space: bools, integers and float64 are Python's own, float32 is NumPy's.

Most operations of kernels are Python's operators; this module has the others: overflow and other edge cases,
and their findings.
"""

import math

import numpy as np

from ...core.language import types as t, words

_EXACT = 2**53
# within a few units of portable's own functions
FUNCTIONS = {row.name: row.plain for row in words.ROWS if row.reads[0] in ("math", "intrinsic")}
FUNCTIONS |= {"floor_divide": np.floor_divide, "modulo": np.remainder}


class Numbers:
    """Rules for integers that do not fit. Outside a kernel, as in the steps of a reducer, no finding is
    recorded.
    """

    def overflow(self, message, site):
        """An integer did not fit."""

    def record_infinity(self, message, site):
        """Record that a number became infinite."""

    def wrap_number(self, number, dtype, site, word, *operands):
        """Return a signed result of an operation on these operands, beyond its type, which wraps."""
        said = {"negate": "-", "abs": "the size of "}.get(word, "") + f" {word} ".join(map(str, operands))
        self.overflow(
            f"{said} is {number if abs(number) < 10**24 else f'about 2**{number.bit_length()}'}, beyond"
            f" {dtype}",
            site,
        )
        return t.converted(number, dtype)

    def fitted(self, number, dtype, what, site):
        """Return a signed integer or a float as an integer of `dtype`."""
        if isinstance(number, np.float32):
            number = float(number)
        result = t.converted(number, dtype)
        if number != number or (result != number if abs(number) == math.inf else int(number) != result):
            self.overflow(f"{number} does not fit {what}", site)
        return result

    def half(self, number, dtype, site):
        """Return a number as an element of float16 or bfloat16, by way of a float32; noted if it is
        beyond."""
        number = single(number)
        short = np.dtype(dtype).type(number)
        if abs(number) < math.inf == abs(single(short)):
            self.record_infinity(f"{number} does not fit {dtype}", site)
        return short

    def range(self, start, stop, step, site):
        """Implement range(start, stop, step); record a finding if the number after its last one is beyond
        int64.
        """
        found = range(start, stop, step)
        if not -(2**63) <= start + len(found) * step < 2**63:
            self.overflow(f"{found} steps beyond int64", site)
        return found


UNWATCHED = Numbers()


def number(value, dtype):
    """Return a Python or NumPy number as one of a strong dtype."""
    if t.loaded_dtype(dtype) == "float32":
        return single(value)
    return t.converted(value.item() if isinstance(value, np.generic) else value, dtype)


def single(value):
    """Return a number as float32, rounded once."""
    if isinstance(value, int) and not -_EXACT <= value <= _EXACT:
        value = t.rounded(value, "float32")
    return np.float32(value)


def divided(a, b):
    """Return a / 0.0 of Python's floats."""
    return float(np.float64(a) / b)


def shifted(op, a, n, dtype):
    """Implement a << n or a >> n: a count that is negative, or as large as the type, gives 0 (for a negative
    number -1).
    """
    if not 0 <= n < t.BITS[dtype]:
        return -1 if a < 0 and op == ">>" else 0
    return t.converted(a << n, dtype) if op == "<<" else a >> n


def called(foreign, *args):
    """Return the result of a numba function's Python source, in the dtypes that numba finds."""
    result = foreign.function.py_func(*args)
    if foreign.n_results is None:
        return number(result, foreign.dtypes[0])
    return tuple(map(number, result or (), foreign.dtypes))


def printed(texts, *numbers):
    """Implement print(...) of strings and, without any, of numbers."""
    numbers = iter(numbers)
    print(*(next(numbers) if text is None else text for text in texts))  # noqa: T201


def asserted(condition, message):
    """Implement an assertion of the source."""
    if not condition:
        raise AssertionError(message)
