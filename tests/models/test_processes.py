"""Test jobs in several processes: the same results in the same order, and the first error unchanged."""

import functools
import math

import pytest
from numpy.testing import assert_array_equal

from portable.models.shared.processes import map_numbers, space_of
from portable.models.resampling.calibration import calibrate
from portable.errors import InputError


def _refuse(at, k):
    if k == at:
        raise InputError(f"{k} is refused")
    return k


def test_results_are_in_order():
    for jobs in (1, 2):
        assert map_numbers(math.factorial, 5, jobs=jobs) == [1, 1, 2, 6, 24]
        assert map_numbers(math.factorial, 0, jobs=jobs) == []
        with pytest.raises(InputError, match="2 is refused"):
            map_numbers(functools.partial(_refuse, 2), 4, jobs=jobs)
    with pytest.raises(InputError, match="jobs is 0"):
        map_numbers(math.factorial, 5, jobs=0)


def test_processes_share_the_cores():
    assert space_of(None, 1) is None and space_of(None, 2) == "serial"
    assert space_of("threads:2", 2) == "threads:2"


def test_calibrations_do_not_depend_on_the_number_of_processes():
    """A data set depends only on its seed and number."""
    ranks = [
        calibrate("pmmh", n_sets=3, n_kept=9, n_steps=40, long_enough=2.0, jobs=jobs, space="serial").ranks
        for jobs in (1, 2)
    ]
    assert_array_equal(*ranks)


def test_chains_of_a_calibration_are_long():
    """40 steps hold two or three autocorrelation times, so they are doubled until they hold ten."""
    short, long = (
        calibrate("pmmh", n_sets=1, n_kept=9, n_steps=40, long_enough=least, space="serial")
        for least in (0.0, 10.0)
    )
    assert short.shortest < 10.0 <= long.shortest
