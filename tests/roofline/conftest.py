"""Short repeats: these tests look at what is timed and told, not at how long it takes."""

import pytest

from roofline import timing


@pytest.fixture(autouse=True)
def short_repeats(monkeypatch):
    monkeypatch.setattr(timing, "MIN_SECONDS", 0.001)
