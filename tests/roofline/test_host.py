"""Where the host spends a call."""

import time

import numpy as np

from portable.roofline import host


def slow():
    return sum(k * k for k in range(200_000))


def test_the_busiest_functions_are_named():
    told = host.busiest(slow)
    assert "(roofline/test_host.py:" in told and "%" in told
    assert host.busiest(lambda: time.sleep(0.05)).startswith("time.sleep ")
    shuffled = np.random.default_rng(0).random(2_000_000)
    assert host.busiest(lambda: shuffled.sort()).startswith("sort ")
