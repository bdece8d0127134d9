"""Where the host spends a call."""

import time

import numpy as np

from roofline import host


def slow():
    return sum(k * k for k in range(200_000))


def test_the_busiest_functions_are_named():
    told = host.busiest(slow)
    assert "(roofline/test_host.py:" in told and "%" in told
    assert host.busiest(lambda: time.sleep(0.05)).startswith("time.sleep ")
    assert host.busiest(lambda: np.sort(np.arange(2_000_000)[::-1].copy())).startswith("sort ")
