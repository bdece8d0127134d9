"""Test the lines of the host while no kernel runs."""

import itertools
import time

from numpy.random import default_rng

from portable.roofline import host


def slow():
    return sum(k * k for k in range(200_000))


def test_the_busiest_functions_are_named():
    told = host.busiest(slow)
    assert "(roofline/test_host.py:" in told and "%" in told
    assert host.busiest(lambda: time.sleep(0.05)).startswith("time.sleep ")
    shuffled = default_rng(0).random(2_000_000)
    assert host.busiest(lambda: shuffled.sort()).startswith("sort ")


def test_a_clock_that_steps_back_takes_no_time_from_a_line():
    """The time of counting is subtracted from a program's seconds after it has ended, since the program stood
    still meanwhile.
    """
    seconds = itertools.chain([0.0, 1.0], itertools.repeat(-9.0))
    with host.Lines(lambda: (next(seconds), True)) as lines:
        time.sleep(0.1)
    told = lines.costliest_lines()
    assert told and all(0.0 <= line["seconds"] <= 1.0 for line in told)
