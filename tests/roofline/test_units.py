"""Test the formatting of numbers."""

import pytest

from portable.roofline.units import finite, one_line, relative_difference, scaled, times


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.0262, "s", "26.2 ms"),
        (1.0, "s", "1.00 s"),
        (999.9, "", "1.00 k"),
        (999.4, "", "999"),
        (123_456, "pairs", "123 kpairs"),
        (4.5e-9, "s", "4.50 ns"),
        (2.6e-11, "s", "0.03 ns"),
        (1e-6, "s", "1.00 µs"),
        (1e3, "", "1.00 k"),
        (7.1e12, "", "7.10 T"),
        (0.0, "s", "0 s"),
        (float("inf"), "", "inf"),
        (-0.5, "s", "-500 ms"),
    ],
)
def test_scaled(value, unit, text):
    assert scaled(value, unit) == text


def test_relative_difference():
    assert relative_difference(101.0, 100.0) == pytest.approx(0.01)
    assert relative_difference(0.5, 0.0) == 0.5


@pytest.mark.parametrize(
    ("error", "text"), [(ValueError("one\ntwo"), "ValueError: one"), (ValueError(), "ValueError: ")]
)
def test_one_line(error, text):
    assert one_line(error) == text


def test_json_gets_no_nan():
    assert finite(float("nan")) is None and finite(float("-inf")) is None and finite(None) is None
    assert finite(0.0) == 0.0


@pytest.mark.parametrize(
    ("factor", "text"),
    [(3.2149, "3.21"), (7114.0, "7,110"), (99.96, "100"), (0.05, "0.05"), (1e6, "1,000,000")],
)
def test_times(factor, text):
    assert times(factor) == text
