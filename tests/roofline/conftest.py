"""Use few repeats, and ceilings that are not stored: these tests check the measurements' content, not their
values."""

import functools

import pytest

from portable.roofline import ceiling, timing, ceilings


@pytest.fixture(autouse=True)
def short_repeats(monkeypatch):
    monkeypatch.setattr(timing, "MIN_SECONDS", 0.001)
    monkeypatch.setattr(timing, "PAUSE", 0.0)


@pytest.fixture(autouse=True)
def wide_output(monkeypatch):
    """Give tables room for full names; the width of 80 columns has a separate test."""
    monkeypatch.setenv("COLUMNS", "200")


@functools.cache
def quick(space):
    """Return the ceilings of a space by tiny measurements, once a session."""
    return ceilings(space, quick=True)


@pytest.fixture
def quick_ceilings():
    return quick


@pytest.fixture(autouse=True)
def no_long_measurements(monkeypatch):
    """Make the command line's measurements tiny; tests of the ceilings themselves use
    `roofline.ceilings`."""
    monkeypatch.setattr(ceiling, "ceilings", lambda space, **options: quick(str(space)))
