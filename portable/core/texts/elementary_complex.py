"""Define operations on complex numbers in kernel source, by their real parts.

Each operation is rounded separately, as in Python: arguments and results of a function are rounded, so that
no sum is fused with a product.
"""

from ..language.words import FILES, cos, exp, sin, where

FILES.append(__file__)


def times(a, b):
    """Return the rounded product of two real numbers."""
    return a * b


def product(a, b):
    return complex(
        times(a.real, b.real) - times(a.imag, b.imag), times(a.real, b.imag) + times(a.imag, b.real)
    )


def quotient(a, b):
    """Return a / b after Smith (Communications of the ACM 5, 1962, 435), as in NumPy: without overflow of
    abs(b) squared. For b = 0 both parts of a are divided by zero."""
    real = abs(b.real) >= abs(b.imag)
    large, small = where(real, b.real, b.imag), where(real, b.imag, b.real)
    ratio = small / large
    scale = 1.0 / (large + times(small, ratio))
    x = where(real, a.real + times(a.imag, ratio), times(a.real, ratio) + a.imag)
    y = where(real, a.imag - times(a.real, ratio), times(a.imag, ratio) - a.real)
    zero, size = large == 0.0, abs(large)
    return complex(where(zero, a.real / size, times(x, scale)), where(zero, a.imag / size, times(y, scale)))


def exponential(z):
    """Return exp(z); its imaginary part is zero if that of z is."""
    size = exp(z.real)
    none = z.imag == 0.0
    return complex(where(none, size, times(size, cos(z.imag))), where(none, z.imag, times(size, sin(z.imag))))
