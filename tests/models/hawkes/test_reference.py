"""Test the NumPy reference: compared with the published value and with sums written out by hand."""

import numpy as np
import pytest

from portable.models.hawkes import Parameters

from . import reference
from .closed_forms import two_events
from .events import PARAMS, assert_agrees, gunfire


@pytest.mark.parametrize("n_dims", [1, 2, 3])
def test_two_events(n_dims):
    locations, times = np.zeros((2, n_dims)), np.array([3.0, 7.0])
    locations[1, -1] = 0.5
    mu, xi = reference.rates(locations, times, PARAMS)
    value, probabilities = two_events(0.5, 4.0, n_dims, PARAMS)
    assert mu[0] == mu[1] and xi[0] == 0.0
    assert_agrees(reference.log_likelihood(locations, times, PARAMS), value, 2)
    assert_agrees(reference.excitation_probabilities(locations, times, PARAMS), probabilities, 2)


def test_published_value():
    """The authors' program prints -29321.9012230809; its digits and 5,022 sums allow 1e-11."""
    value = reference.log_likelihood(*gunfire("2010_5022"), Parameters(1.0, 1.6, 336.0, 1.0, 1.0, 1.0))
    assert value == pytest.approx(-29321.9012230809, rel=1e-11)
