"""Test that operations without a derivative are refused, with line and reason, and that every operation is in
a table."""

import re

import numba
import numpy as np
import pytest

import portable as pk
from portable.core.compiler.reading import typing
from portable.derivatives import operations, rules
from portable.errors import LanguageError

from .tables import made

ROWS = np.ones((3, 4))


TABLE = """
stored
    x[i, 0] = a * a
    return x[i, 0]

added_to_an_array
    pk.atomic_add(x, (i, 0), a)
    return a

by_its_bits
    return pk.from_bits64(pk.bits(a)) * 2.0

lowered
    v = pk.local(2, pk.float64)
    v[0] = 3.0
    pk.atomic_min(v, 0, a)
    return v[0]

result_of_an_atomic
    v = pk.local(2, pk.float64)
    v[0] = a
    return pk.atomic_add(v, 0, a)

array_or_its_own
    v = pk.local(4, pk.float64)
    v[:] = a
    if i > 1:
        v = x[i]
    return v[1]

too_large
    v = pk.local(3000, pk.float64)
    v[0] = a
    return v[0]

largest_of_a_team(team, a, x)
    return team.reduce(a * team.rank, pk.Max)

appended(team, a, x)
    row = team.scratch(64, pk.float64)
    n = team.append(row, 0, a, True)
    team.barrier()
    return row[n - 1]
"""
WHY = (
    r"`x\[i, 0\] = a \* a` has no derivative: 'x' is an array argument",
    "'x' is an array argument",
    r"`pk.bits\(a\)` has no derivative: the bits of a float",
    "atomic_add and atomic_sub whose result is not used",
    "atomic_add and atomic_sub whose result is not used",
    "holds",
    "local arrays take more than",
    "pk.Sum has one, pk.Max has not",
    "values that a team appends",
)
KERNELS = made(pk.kernel, TABLE, globals(), "<refused>", "i, a, x")


@pytest.mark.parametrize(("kernel", "words"), [*zip(KERNELS, WHY)], ids=lambda v: getattr(v, "name", ""))
def test_refused(kernel, words):
    team = kernel in KERNELS[-2:]
    policy = pk.TeamPolicy(3, 8, space="serial") if team else pk.RangePolicy(0, 3, space="serial")
    with pytest.raises(pk.PortableError, match=words) as told:
        pk.parallel_reduce(policy, kernel, 2.0, ROWS.copy(), gradient="a")
    line = int(re.search(r"(?:test_refused.py|<refused>):(\d+)", str(told.value))[1])
    assert 0 < line - kernel.fn.__code__.co_firstlineno < 6


def test_numbas_functions_are_refused():

    @numba.njit
    def theirs(a):
        return a * a

    @pk.kernel
    def calls(i, a):
        return theirs(a)

    assert pk.parallel_reduce(3, calls, 2.0) == 12.0
    with pytest.raises(LanguageError, match=r"`theirs\(a\)` has no derivative: it is numba's"):
        pk.parallel_reduce(3, calls, 2.0, gradient="a")


def test_a_word_without_a_row_is_refused(monkeypatch):
    monkeypatch.delitem(rules.PARTIALS, "tanh")

    @pk.function
    def bounded(a):
        return pk.tanh(a)

    with pytest.raises(LanguageError, match=r"`pk.tanh\(a\)` has no derivative: its partial derivatives"):
        pk.derivative(bounded, "a")(1.0)


def test_tables_name_operations_that_there_are():
    assert operations.RULES.keys() | operations.PASSIVE | operations.WITHOUT.keys() <= typing._RULES.keys()


def test_random_numbers_of_an_active_shape():
    """Derive a gamma variate; the bits that are taken apart are those of random numbers."""
    draw = pk.derivative(pk.random.gamma, "shape", value=True)
    up, down = (draw(1, 2, 3, 2.5 + e)[0] for e in (1e-6, -1e-6))
    assert draw(1, 2, 3, 2.5)[1] == pytest.approx((up - down) / 2e-6, rel=1e-7)
