"""Compare effective sample size, log-sum-exp and B* with closed forms and the paper."""

import math

import numpy as np
import pytest
from numpy.random import default_rng
from portable.models import resampling
from portable.models.resampling.weight_kernels import split

import portable as pk
from portable import roofline

from ...launching import move
from .cases import paper_weights, vectors


def test_effective_sample_size(space):
    assert resampling.effective_sample_size(np.ones(31), space=space) == pytest.approx(31)
    assert resampling.effective_sample_size(np.eye(9)[4], space=space) == 1.0
    assert resampling.effective_sample_size([1e300, 1e300, 0.0, 1e300], space=space) == pytest.approx(3)
    for w in vectors().values():
        exact = [float(v) / float(max(w)) for v in w]
        wanted = math.fsum(exact) ** 2 / math.fsum(v * v for v in exact)
        assert resampling.effective_sample_size(w, space=space) == pytest.approx(wanted, rel=1e-13)
    log_w = np.array([-5000.0, -5000.0 - math.log(2.0), -np.inf])
    assert resampling.effective_sample_size(log_weights=log_w, space=space) == pytest.approx(
        1.5**2 / 1.25, rel=1e-12
    )


def test_log_sum_exp(space):
    assert resampling.log_sum_exp([-1000.0, -1000.0], space=space) == pytest.approx(
        -1000.0 + math.log(2.0), rel=1e-15
    )
    assert resampling.log_sum_exp([1000.0, -np.inf], space=space) == 1000.0
    assert resampling.log_sum_exp([-np.inf, -np.inf], space=space) == -np.inf
    x = default_rng(3).normal(size=100) * 30
    assert resampling.log_sum_exp(x, space=space) == pytest.approx(np.logaddexp.reduce(x), rel=1e-14)


def test_metropolis_steps(space):
    """Compare beta = 1/2 and 1/4 with values computed by hand."""
    assert (
        resampling.metropolis_steps([1.0, 0.0], space=space) == math.ceil(math.log(0.01) / math.log(0.5)) == 7
    )
    assert resampling.metropolis_steps([8.0, 0.0, 0.0, 0.0], error_bound=0.1, space=space) == 9
    assert resampling.metropolis_steps(np.ones(5), space=space) == 1
    assert resampling.metropolis_steps(log_weights=[-900.0, -np.inf], space=space) == 7


@pytest.mark.parametrize("y, steps", list(enumerate([4, 6, 16, 60, 354])))
def test_metropolis_steps_of_the_paper(y, steps):
    """Compare with the paper's B* for w = N(x; y, 1), x ~ N(0, 1), y = 0..4, which uses the exact mean of w.

    A mean of n has the relative variance (2 / sqrt(3) exp(y^2 / 6) - 1) / n; five standard errors, false
    alarm 6e-7.
    """
    n = 1 << 17
    error = 5 * math.sqrt((2 / math.sqrt(3) * math.exp(y * y / 6) - 1) / n)
    assert (
        abs(resampling.metropolis_steps(paper_weights(n, y), space="serial") - steps) <= error * steps + 0.5
    )


def test_a_row_among_others_is_as_alone(space):
    """The bits are equal, whatever the number of rows; one launch processes all of them."""
    log_w = default_rng(8).normal(size=(5, 3000)) * 20
    log_w[2] = -np.inf
    alone = [resampling.log_sum_exp(row, space=space) for row in log_w]
    assert resampling.log_sum_exp(log_w, space=space).tolist() == alone
    rows = np.delete(log_w, 2, axis=0)
    with roofline.profile() as launches:
        sizes = resampling.effective_sample_size(log_weights=rows, space=space)
    assert len(launches.events) <= 3
    assert sizes.tolist() == [resampling.effective_sample_size(log_weights=row, space=space) for row in rows]


@pk.kernel
def quotients(i, position, parts, total, k, rest):
    q, left = split(position[i], parts[i], total[i], pk.float64(parts[i]) / pk.float64(total[i]))
    k[i] = q
    rest[i] = left


def test_quotients_are_exact(space):
    """Test up to the largest numbers of parts and totals, and next to whole quotients."""
    random = default_rng(8)
    totals = [1, 2, 3, 2**31 - 1, 2**51 + 1, 2**62 - 1, 2**62, *(2 ** random.uniform(0, 62, 40)).astype(int)]
    cases = [
        (min(max(position, 0), total), parts, total)
        for total in map(int, totals)
        for parts in (1, 2, 1000, 2**30 + 1, 2**31 - 1)
        for near in (0, total // 3, total // 2, total * 999 // 1000, total)
        for position in (near - 1, near, near + 1)
    ]
    given = [move(np.array(column, np.uint64), space) for column in zip(*cases)]
    found = [move(np.zeros(len(cases), np.int64), space) for _ in range(2)]
    pk.parallel_for(pk.RangePolicy(0, len(cases), space=space), quotients, *given, *found)
    k, rest = (pk.asview(array).to_numpy() for array in found)
    for (position, parts, total), *got in zip(cases, k.tolist(), rest.tolist()):
        assert got == list(divmod(position * parts, total)), (position, parts, total)
