"""Garbage is collected by hand in these tests: only what they make themselves is looked at."""

import gc

import pytest


@pytest.fixture(autouse=True, scope="module")
def frozen_past():
    gc.freeze()
    yield
    gc.unfreeze()
