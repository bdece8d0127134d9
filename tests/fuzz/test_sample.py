"""Run random programs from fixed seeds on every local space; `python -m tests.fuzz` runs thousands."""

import pytest

from portable.core.places.space import unavailable_because

from . import derived, meaning
from .campaign import KINDS, run_chunk
from .mutants import taken_back

SAMPLE = {
    "range": 8,
    "team": 8,
    "edge": 14,
    "effect": 6,
    "launch": 6,
    "reduction": 6,
    "constant": 4,
    "small": 6,
}


@pytest.mark.parametrize("kind", KINDS)
def test_random_programs_have_one_meaning(kind):
    outcome = run_chunk(kind, seed_=2026, n=SAMPLE[kind], in_turn=True)
    assert not outcome.differences, f"{outcome.differences[0][0]}\n\n{outcome.differences[0][1]}"
    assert not outcome.refused
    assert outcome.programs == SAMPLE[kind]
    assert outcome.undefined + outcome.reported <= 0.1 * outcome.comparisons


@pytest.mark.skipif(unavailable_because("cuda") is not None, reason="no CUDA device")
@pytest.mark.parametrize("kind", KINDS)
def test_random_programs_mean_the_same_on_a_gpu(kind):
    outcome = run_chunk(kind, seed_=2026, n=SAMPLE[kind], space="cuda")
    assert not outcome.differences, f"{outcome.differences[0][0]}\n\n{outcome.differences[0][1]}"


def test_random_functions_have_right_derivatives():
    said, differences = derived.campaign(3, 2026)
    assert not differences, differences[0]
    assert said["compared"] >= 45


def test_the_oracle_rounds_once():
    """Compare the oracle's fused multiply-add with cases worked out by hand: cancellation, ties, signs of
    zero, overflow of the product."""
    import numpy as np

    one = np.float64(1.0)
    tiny = np.float64(2.0**-53)
    assert meaning.fma(one + tiny * 2, one - tiny, -one, "float64") == 2.0**-53 - 2.0**-105
    assert meaning.fma(np.float32(1e30), np.float32(1e30), np.float32(-np.inf), "float32") == -np.inf
    assert np.signbit(meaning.fma(np.float64(-0.0), one, np.float64(-0.0), "float64"))
    assert not np.signbit(meaning.fma(one, one, -one, "float64"))
    assert meaning.from_integer(2**24 + 1, "float32") == 2**24
    assert meaning.from_integer(2**64 - 1, "float64") == 2.0**64
    assert (
        meaning.nearest(meaning.Fraction(3, 2**1075), "float64") == 2 * 5e-324
    )  # a tie is rounded to the even number


def test_the_oracle_differs_where_a_space_would(monkeypatch):
    """A changed definition of an operation is detected: shifts that take their count modulo the width."""
    monkeypatch.setattr(meaning, "shift", lambda op, x, count, dtype: x >> count % 32 if op == ">>" else 0)
    outcome = run_chunk("edge", seed_=4, n=40, shrink=False)
    assert outcome.differences


def test_each_mend_can_be_taken_back():
    """The sources in mends.py are those of the compiler, so that `--mutate` can start."""
    assert len({change.name for change in taken_back()}) == len(taken_back()) >= 18
