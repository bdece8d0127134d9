"""Compare derivatives of words at the ends of their ranges with differences in 350 digits or more, except at
jumps and poles. Where a value is NaN its derivatives are, too; at infinity those of no other are."""

import itertools

import mpmath
import numpy as np
import pytest

import portable as pk
from portable.derivatives.rules import PARTIALS

from .exact import plain
from .tables import made

SIZES = 1e-300, 0.3, 2.0, 1e160, 1.7e308
ENDS = *SIZES, *(-size for size in SIZES), np.inf, -np.inf, np.nan
ROWS = [name for name, row in PARTIALS.items() if hasattr(pk, name) and {*map(type, row)} == {str}]
ROWS.remove("exp_nonpositive")
CALLS = [f"{name}({', '.join('xy'[: len(PARTIALS[name])])})" for name in ROWS]
WORDS = made(
    pk.function, "\n\n".join(f"of_{call}\n    return pk.{call}" for call in CALLS), globals(), "<ends>"
)


@pytest.mark.parametrize("word", WORDS, ids=ROWS)
def test_ends(word):
    slopes, run = pk.derivative(word, word.params, value=True), plain(word)
    for point in itertools.product(ENDS, repeat=len(word.params)):
        value, *found = slopes(*point)
        for orders, got in zip(np.eye(len(found), dtype=int).tolist(), found):
            if np.isnan(value) or point == (np.inf,):
                assert np.isnan(got) == np.isnan(value), point
            elif np.isfinite((*point, value)).all():
                with mpmath.workdps(350 * len(found)):
                    try:
                        exact = mpmath.diff(run, point, orders)
                    except (ArithmeticError, ValueError):
                        continue
                    if abs(exact) < SIZES[-1] and not mpmath.im(exact):
                        assert abs(got - exact) <= 1e-12 * abs(exact) + 1e-300, (point, orders, got)
