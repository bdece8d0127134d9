"""Test the lines of the host while no kernel runs."""

import itertools
import time

from portable.roofline import host


def test_a_clock_that_steps_back_takes_no_time_from_a_line():
    """The time of counting is subtracted from a program's seconds after it has ended, since the program stood
    still meanwhile.
    """
    seconds = itertools.chain([0.0, 1.0], itertools.repeat(-9.0))
    with host.Lines(lambda: (next(seconds), True)) as lines:
        time.sleep(0.1)
    told = lines.costliest_lines()
    assert told and all(0.0 <= line["seconds"] <= 1.0 for line in told)
