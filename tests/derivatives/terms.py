"""Numbers of 60 digits that carry sums of absolute terms: of their derivatives, and of the rounding errors
that float64 makes on the way to these. A bound of an error is a multiple of such sums.

Terms are Taylor coefficients in the steps of two variables, up to the second order, each an upper bound of
its absolute value; products of such series bound the series of products.
"""

import functools

import mpmath
import numpy as np

from .exact import WORDS

POWERS = (0, 0), (1, 0), (0, 1), (2, 0), (1, 1), (0, 2)  # of the steps
TIMES = np.array(
    [[[a + c == e and b + d == f for c, d in POWERS] for a, b in POWERS] for e, f in POWERS], float
)
NEAR = 2.0**-46  # a test within so many errors of its numbers may be decided either way
STEP = mpmath.mpf(10) ** -10


class Undecided(Exception):
    """A test or a step whose result rounding errors may change."""


@functools.total_ordering
class Terms:
    """A number. terms : sums of absolute terms, and of absolute rounding errors, by POWERS."""

    def __init__(self, value, terms=None):
        self.value = value
        self.terms = np.zeros((2, len(POWERS))) if terms is None else terms
        if terms is None:
            self.terms[0, 0] = abs(value)

    def __add__(self, other):
        other = terms_of(other)
        return rounded(self.value + other.value, self.terms + other.terms)

    def __neg__(self):
        return Terms(-self.value, self.terms)

    def __sub__(self, other):
        return self + -terms_of(other)

    def __mul__(self, other):
        other = terms_of(other)
        return rounded(self.value * other.value, product(self.terms, other.terms))

    def __truediv__(self, other):
        return self * function(lambda v: 1 / v, other)

    def __rtruediv__(self, other):
        return terms_of(other) / self

    def __mod__(self, n):
        return self - floor(self / n) * n

    def __pow__(self, n):
        return self * self ** (n - 1) if n > 1 else self

    __radd__, __rmul__ = __add__, __mul__

    def __rsub__(self, other):
        return -self + other

    def __abs__(self):
        return -self if self < 0 else self

    def __int__(self):
        n = int(mpmath.nint(self.value))
        return n if n and self == n else int(self.value)

    def gap(self, other):
        other = terms_of(other)
        gap, error = self.value - other.value, self.terms[1, 0] + other.terms[1, 0]
        if error and abs(gap) <= NEAR * error:
            raise Undecided
        return gap

    def __eq__(self, other):
        return self.gap(other) == 0

    def __lt__(self, other):
        return self.gap(other) < 0


def terms_of(value):
    return value if isinstance(value, Terms) else Terms(mpmath.mpf(value))


def rounded(value, terms):
    """Return a number whose computation makes a rounding error in each term."""
    return Terms(value, terms + [0.0 * terms[0], terms[0]])


def product(p, q):
    first = TIMES @ q[0]
    return np.array([first @ p[0], first @ p[1] + TIMES @ q[1] @ p[0]])


def floor(x):
    n = mpmath.nint(terms_of(x).value)
    return Terms(n if x >= n else n - 1)


def function(f, x):
    """Return a function of a number; its derivatives are differences."""
    x = terms_of(x)
    low, down, here, up, high = (f(x.value + k * STEP) for k in range(-2, 3))
    slopes = (up - down) / 2, up - 2 * here + down, (high - 2 * up + 2 * down - low) / 2
    change = x.terms.copy()
    change[0, 0] = 0.0
    power, terms, size = change, Terms(here).terms, 1
    for k, slope in enumerate(slopes, 1):
        size *= k
        terms = terms + float(abs(slope) / STEP**k) / size * power
        power = product(power, change)
    return rounded(here, terms)


SCOPE = WORDS | {
    name: functools.partial(function, WORDS[name]) for name in "exp log sin cos tanh sqrt".split()
}
SCOPE |= {
    "int64": int,
    "atan2": lambda a, b: function(mpmath.atan, terms_of(a) / b),  # of a positive b
    "floor": floor,
    "clip": lambda x, low, high: min(max(x, low), high),
    "local": lambda shape, dtype: np.full(shape, Terms(mpmath.mpf(0)), object),
    "float64": terms_of,
}
