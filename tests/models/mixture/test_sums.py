"""Test the sums over points: the places of their numbers, and the instructions of the innermost loop."""

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose

from portable.models.mixture.blocks import Components, Points
from portable.models.mixture.sums import record_length


@pytest.mark.parametrize("diagonal", [False, True])
def test_records_begin_where_loads_of_16_bytes_do_in_banks_of_their_own(diagonal):
    for p in range(1, 30):
        least = 2 * p + 1 if diagonal else p * (p + 3) // 2 + 1
        assert record_length(p, diagonal) % 8 == 4 and 0 <= record_length(p, diagonal) - least < 8


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("p, k, diagonal", [(9, 8, False), (3, 8, False), (3, 6, False), (3, 8, True)])
def test_members_with_one_place_each(p, k, diagonal, dtype):
    """With many members each makes separate features, with few a pack makes all: sums are equal, except that
    plain Python rounds products."""
    random = default_rng(3)
    x = random.standard_normal((70, p)).astype(dtype)
    factors = np.ones((k, p)) if diagonal else np.tile(np.eye(p), (k, 1, 1))
    components = Components(np.full(k, -np.log(k)), random.normal(0.0, 0.5, (k, p)), factors)

    def sums(space):
        points = Points(x, k, space, np.zeros(p), diagonal=diagonal)
        points.gather(components)
        return points.gathered()

    tolerance = 1e-4 if dtype == "float32" else 1e-12  # of sums of 70
    assert_allclose(sums("checked"), sums("serial"), rtol=tolerance, atol=tolerance)


def test_densities_of_many_members_are_those_of_packs():
    """Teams of 128 members multiply records and points by tiles, packs process points one by one: the chains
    of fma are the same, except that plain Python rounds the rest."""
    k, p, random = 16, 3, default_rng(3)
    x = random.standard_normal((33, p))
    factors = np.tile(np.eye(p), (k, 1, 1)) + 0.1 * np.tril(random.standard_normal((k, p, p)))
    components = Components(np.full(k, -np.log(k)), random.normal(0.0, 0.5, (k, p)), factors)
    found = [
        Points(x, k, space, np.zeros(p), diagonal=False).log_densities(components)
        for space in ("checked", "serial")
    ]
    assert_allclose(*found, rtol=1e-13)
