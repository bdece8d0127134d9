"""Compute the coefficients of the elementary functions: `python -m tests.coefficients [NAME ...]` prints
those of `FITS`.

Fits the polynomial of least weighted error (Remez's exchange, in 60 digits) on an interval. Its lowest
coefficient is rounded to the type, then the others are fitted again with that one fixed, and so on, so that
the printed coefficients are those of the evaluated polynomial.
"""

import sys

import mpmath
import numpy as np
from mpmath import mpf

DIGITS = 60


def rounded(x, bits):
    """Return the number of the type next to x."""
    with mpmath.workprec(53 if bits == 64 else 24):
        return +x


def exchanged(f, weight, powers, a, b, rounds=12):
    """Return coefficients c with sum c_k x^k nearest to f, with errors weighted by `weight`, and the
    error."""
    n = len(powers)
    x = [a + (b - a) * mpmath.sin(mpmath.pi * (k + 1) / (2 * n + 2)) ** 2 for k in range(n + 1)]
    grid = [(a + b) / 2 - (b - a) / 2 * mpmath.cos(mpmath.pi * mpf(k) / (40 * n)) for k in range(40 * n + 1)]
    values = [(v, f(v), weight(v)) for v in grid]
    best = None
    for _ in range(rounds):
        rows = [[v**k for k in powers] + [(-1) ** j / weight(v)] for j, v in enumerate(x)]
        solution = mpmath.lu_solve(mpmath.matrix(rows), mpmath.matrix([f(v) for v in x]))
        c, level = list(solution)[:n], abs(solution[n])
        errors = [(w * (sum(q * v**k for q, k in zip(c, powers)) - y), v) for v, y, w in values]
        worst = max(abs(e) for e, _ in errors)
        best = min(best or (worst, c), (worst, c), key=lambda pair: pair[0])
        peaks, signs = [], []
        for e, v in errors:
            sign = mpmath.sign(e)
            if signs and sign == signs[-1]:
                peaks[-1] = max(peaks[-1], (abs(e), v), key=lambda p: p[0])
            elif sign:
                peaks.append((abs(e), v))
                signs.append(sign)
        while len(peaks) > n + 1:
            peaks.pop(0 if peaks[0][0] < peaks[-1][0] else -1)
        if len(peaks) < n + 1:
            break
        x = [v for _, v in peaks]
        if worst < level * mpf("1.001"):
            break
    return best[1], best[0]


def fitted(f, weight, a, b, n, bits, exact=()):
    """Return n coefficients, highest power first, as numbers of the type, and the largest weighted error.
    `exact`: the lowest ones."""
    known, b = [rounded(mpf(c), bits) for c in exact], mpf(b)
    a = mpf(a) or b / 10**6  # where the weight may be 0
    with mpmath.workdps(DIGITS):
        while len(known) < n:
            powers = range(len(known), n)
            rest = lambda x: f(x) - sum(c * x**k for k, c in enumerate(known))  # noqa: B023, E731
            c, _ = exchanged(rest, weight, powers, a, b)
            known.append(rounded(c[0], bits))
        error = max(
            abs(weight(x) * (sum(c * x**k for k, c in enumerate(known)) - f(x)))
            for x in (a + (b - a) * mpf(k) / 1000 for k in range(1, 1001))
        )
    return [float(c) for c in reversed(known)], float(error)


def _odd(f):
    """Return (f(t) / t - 1) / t^2 as a function of z = t^2, from its series at 0 on."""

    def rest(z):
        if z < mpf(10) ** -25:
            z = mpf(10) ** -25
        t = mpmath.sqrt(z)
        return (f(t) / t - 1) / z

    return rest


EIGHTH = float((np.sqrt(2) - 1) ** 2)
ROOT = float(np.sqrt(0.5))
# name: function, weight of its error, interval (with an end for 64 and one for 32 bits where they differ),
# number of coefficients for 64 and 32 bits, exact lowest ones
FITS = {
    "ATAN": (_odd(mpmath.atan), lambda z: z, 0, EIGHTH * 1.001, 11, 5, ()),
    "ASIN": (_odd(mpmath.asin), lambda z: z, 0, 0.2501, 12, 6, ()),
    "SINH": (_odd(mpmath.sinh), lambda z: z, 0, 1.001, 7, 4, ()),
    "GAMMA": (
        lambda t: (mpmath.gamma(1 + t) - 1) / (t * (t - 1)),
        lambda t: t * (1 - t),
        0,
        0.999999,
        21,
        10,
        (),
    ),
    "ERF": (
        lambda z: mpmath.erf(mpmath.sqrt(z)) / mpmath.sqrt(z) - 1,
        lambda z: mpmath.sqrt(z) / mpmath.erf(mpmath.sqrt(z)),
        0,
        1.0,
        12,
        7,
        (),
    ),
    "ERF_TAIL": (
        lambda a: -mpmath.log(mpmath.erfc(a)) / a - 1,
        lambda a: a * mpmath.erfc(a),
        1.0,
        (6.0, 4.0),
        18,
        6,
        (),
    ),
    "CBRT": (lambda f: mpmath.cbrt(1 + f), lambda f: 1, ROOT - 1, 2 * ROOT - 1, 6, 5, ()),
}


def main(names):
    for name in names or FITS:
        f, weight, a, b, *counts, exact = FITS[name]
        print(f"{name} = (")
        ends = b if isinstance(b, tuple) else (b, b)
        for bits, n, end in zip((64, 32), counts, ends):
            with mpmath.workdps(DIGITS):
                c, error = fitted(f, weight, a, end, n, bits, exact)
            print(f"    ({', '.join(map(repr, c))}),  # {error:.1e}", flush=True)
        print(")")


if __name__ == "__main__":
    main(sys.argv[1:])
