"""Complex numbers as kernel text, of their real parts.

Each operation is rounded by itself, as in Python: what a function takes and gives is rounded, and so no sum
takes a product apart.
"""

from ..language.words import FILES, cos, exp, sin, where

FILES.append(__file__)


def times(a, b):
    """Return a product that is rounded."""
    return a * b


def product(a, b):
    return complex(
        times(a.real, b.real) - times(a.imag, b.imag), times(a.real, b.imag) + times(a.imag, b.real)
    )


def quotient(a, b):
    """a / b after Smith (Communications of the ACM 5, 1962, 435), as NumPy has it: without overflow of
    abs(b) squared. By zero both parts of a are."""
    real = abs(b.real) >= abs(b.imag)
    large, small = where(real, b.real, b.imag), where(real, b.imag, b.real)
    ratio = small / large
    scale = 1.0 / (large + times(small, ratio))
    x = where(real, a.real + times(a.imag, ratio), times(a.real, ratio) + a.imag)
    y = where(real, a.imag - times(a.real, ratio), times(a.imag, ratio) - a.real)
    zero, size = large == 0.0, abs(large)
    return complex(where(zero, a.real / size, times(x, scale)), where(zero, a.imag / size, times(y, scale)))


def exponential(z):
    """exp(z); of a number without an imaginary part, one without."""
    size = exp(z.real)
    none = z.imag == 0.0
    return complex(where(none, size, times(size, cos(z.imag))), where(none, z.imag, times(size, sin(z.imag))))
