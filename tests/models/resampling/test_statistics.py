"""Test expectations, bounds and variances with known values. Fixed seeds; five standard errors: false alarm
6e-7 each."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from portable.models import resampling
from portable.models.resampling import launches, ancestor_kernels
from portable.models.resampling.weights import Tables, Weights

import portable as pk

from . import reference
from .cases import BIASED, SCHEMES, paper_weights

UNBIASED = [(scheme, options) for scheme, options in SCHEMES if scheme not in BIASED]
UNBIASED_NAMES = [scheme.__name__ for scheme, _ in UNBIASED]


def offspring(scheme, w, n_runs, **options):
    """Return offspring of n_runs independent draws, the rows of one call: shape (n_runs, n)."""
    return scheme(np.tile(w, (n_runs, 1)), seed=77, output="offspring", **options)


@pk.function
def start_is_step(r, total, seed, step):
    return step


AT_STEP = start_is_step, *ancestor_kernels.SYSTEMATIC[1:]


def draws_from(w, starts, space):
    """Return systematic ancestors for each of the starts; `starts` is a function of Q."""
    with pk.use(space):
        weights, ancestors = Weights(w, None), pk.empty((1, len(w)), np.int64)
        tables = Tables(weights.values, False, len(w))
        tables.find_extremes()
        tables.add_up()
        for start in starts(int(tables.sums.to_numpy()[0, -1])):
            launches._spread(AT_STEP, tables, 0, np.uint64(0), np.uint64(start), ancestors)
            yield ancestors.to_numpy()[0].copy()


def mean_over_starts(w, n_runs, space):
    """Return the mean of systematic offspring over the starts (r + 1/2) Q / R."""
    drawn = draws_from(w, lambda total: [(2 * r + 1) * total // (2 * n_runs) for r in range(n_runs)], space)
    mean = sum(np.bincount(ancestors, minlength=len(w)) for ancestors in drawn) / n_runs
    return mean, len(w) * w.astype(float) / w.sum(dtype=float)


@pytest.mark.parametrize("n", [1, 64, 1000, 5003])
def test_a_position_at_the_edge_of_a_weight_belongs_to_the_next(space, n):
    """For equal weights, with the first and the last starts, all positions are at edges, where only whole
    numbers are decisive."""
    for ancestors in draws_from(np.ones(n), lambda total: (0, 1, total - 2, total - 1), space):
        assert_array_equal(ancestors, np.arange(n))


@pytest.mark.parametrize("n, n_runs", [(1 << 7, 16), (1 << 13, 64)])
def test_systematic_is_unbiased_by_quadrature(space, n, n_runs):
    """|mean of o_i over starts - e_i| <= 1 / R for every particle."""
    if space == "checked" and n > 1000:
        pytest.skip("plain Python is for small sizes")
    mean, e = mean_over_starts(paper_weights(n, 1.5, np.float32), n_runs, space)
    assert np.abs(mean - e).max() <= 1 / n_runs + 1e-9


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_systematic_is_unbiased_at_four_million_weights(space, dtype):
    """Offspring are unbiased at 2^22 weights, for a third of which a float32 scan fails."""
    if space == "checked":
        pytest.skip("plain Python is for small sizes")
    n_runs = 4
    mean, e = mean_over_starts(paper_weights(1 << 22, 1.0, dtype), n_runs, space)
    assert (np.abs(mean - e) <= 1 / n_runs + 4e-6 * (1 + e)).all()  # the documented quantisation bound


@pytest.mark.parametrize("scheme", [s for s, _ in UNBIASED], ids=lambda s: s.__name__)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_over_many_particles_are_unbiased(space, scheme, dtype):
    """For 2^22 weights the total offspring of each of 16 blocks of particles are within five standard errors
    of the expected number.

    The variance of a block's offspring is below that of the multinomial, except for killing: below twice
    that.
    """
    if space == "checked":
        pytest.skip("plain Python is for small sizes")
    w = paper_weights(1 << 22, 2.0, dtype)
    expected = len(w) * w.astype(float).reshape(16, -1).sum(axis=1) / w.sum(dtype=float)
    blocks = scheme(w, seed=11, space=space, output="offspring").reshape(16, -1).sum(axis=1)
    assert (np.abs(blocks - expected) <= 5 * np.sqrt(2 * expected)).all()


def test_quantisation_bound():
    for n, y in ((100, 0.0), (5000, 4.0), (1 << 13, 2.0)):
        w = paper_weights(n, y)
        q = np.array([float(v) for v in reference.quantised(w, n)])
        e = n * w / w.sum()
        bits = min(51, 62 - np.ceil(np.log2(n)))
        assert (np.abs(n * q / q.sum() - e) <= (n + n * e) * 2.0**-bits + 1e-12 * e).all()


@pytest.mark.parametrize("scheme, options", UNBIASED, ids=UNBIASED_NAMES)
def test_means(scheme, options):
    """Every particle's mean offspring are within five of its standard errors, Bonferroni over 48 particles:
    3e-5."""
    w, n_runs = paper_weights(48, 1.0), 1500
    o = offspring(scheme, w, n_runs, space="serial", **options)
    e = len(w) * w / w.sum()
    error = o.std(axis=0) / np.sqrt(n_runs)
    assert (np.abs(o.mean(axis=0) - e) <= 5 * error + 1e-12).all()


@pytest.mark.parametrize("scheme, options", UNBIASED, ids=UNBIASED_NAMES)
def test_bounds_of_the_offspring(space, scheme, options):
    w = paper_weights(16 if space == "checked" else 64, 1.0)
    w[::5] = 0.0
    e = len(w) * w / w.sum()
    o = offspring(scheme, w, 2 if space == "checked" else 20, space=space, **options)
    assert (o.sum(axis=1) == len(w)).all() and (o[:, ::5] == 0).all()
    if scheme in (resampling.systematic, resampling.stratified, resampling.ssp):
        assert (np.abs(o - e) < (2 if scheme is resampling.stratified else 1)).all()
    if scheme is resampling.residual:
        assert (o >= np.floor(e)).all()


def stratified_variance(w):
    """Return the sum over strata and weights of l (1 - l), where l is the share of the stratum that the
    weight covers.
    """
    ends = np.concatenate([[0.0], np.cumsum(w)]) * len(w) / w.sum()
    total = 0.0
    for low, high in pairwise(ends):
        for k in range(int(low), min(int(np.ceil(high)), len(w))):
            share = min(high, k + 1) - max(low, k)
            total += share * (1 - share)
    return total


@pytest.mark.parametrize(
    "scheme, variance",
    [
        (resampling.multinomial, lambda w, e: len(w) - (e @ e) / len(w)),
        (resampling.systematic, lambda w, e: ((e % 1) * (1 - e % 1)).sum()),
        (resampling.ssp, lambda w, e: ((e % 1) * (1 - e % 1)).sum()),
        (resampling.stratified, lambda w, e: stratified_variance(w)),
        (resampling.residual, lambda w, e: (e % 1).sum() - ((e % 1) @ (e % 1)) / (e % 1).sum()),
    ],
    ids="multinomial systematic ssp stratified residual".split(),
)
def test_variances(scheme, variance):
    """Compare E sum (o_i - e_i)^2 over independent runs, within five standard errors."""
    w, n_runs = paper_weights(256, 1.0), 1000  # enough for strata of multinomial draws
    e = len(w) * w / w.sum()
    squares = ((offspring(scheme, w, n_runs, space="serial") - e) ** 2).sum(axis=1)
    assert abs(squares.mean() - variance(w, e)) <= 5 * squares.std() / np.sqrt(n_runs)


@pytest.mark.parametrize(
    "scheme, n", [(resampling.metropolis, 24), (resampling.megopolis, 24), (resampling.megopolis, 64)]
)
def test_metropolis_is_the_power_of_its_matrix(scheme, n):
    """E[o] = 1^T P^B, each particle within five standard errors; the bias that the power predicts is
    present."""
    w, n_steps, n_runs = paper_weights(n, 2.0), 3, 3000
    p = np.minimum(1.0, w[None, :] / w[:, None]) / n
    np.fill_diagonal(p, 0.0)
    np.fill_diagonal(p, 1.0 - p.sum(axis=1))
    wanted = np.ones(n) @ np.linalg.matrix_power(p, n_steps)
    o = offspring(scheme, w, n_runs, space="serial", n_steps=n_steps)
    error = o.std(axis=0) / np.sqrt(n_runs)
    assert (np.abs(o.mean(axis=0) - wanted) <= 5 * error).all()
    assert (np.abs(o.mean(axis=0) - n * w / w.sum()) > 5 * error).any()


def test_a_loose_bound_leaves_rejection_unbiased():
    w, n_runs = paper_weights(24, 1.0), 1500
    o = offspring(resampling.rejection, w, n_runs, space="serial", max_weight=3.0)
    error = o.std(axis=0) / np.sqrt(n_runs)
    assert (np.abs(o.mean(axis=0) - 24 * w / w.sum()) <= 5 * error).all()


def test_partial_rejection_is_unbiased_with_its_weights():
    """sum_k [a_k = i] max(w_i / v, 1) has an expectation proportional to w_i, each within five standard
    errors."""
    w, n_runs, v = paper_weights(24, 1.0), 2000, 0.4
    a, carried = resampling.partial_rejection(np.tile(w, (n_runs, 1)), seed=5, max_weight=v, space="serial")
    assert_allclose(carried, np.maximum(w[a] / v, 1.0), rtol=1e-14)
    mass = np.array([np.bincount(row, c, minlength=24) for row, c in zip(a, carried)])
    wanted = 24 * w / np.minimum(w, v).sum()
    assert (np.abs(mass.mean(axis=0) - wanted) <= 5 * mass.std(axis=0) / np.sqrt(n_runs)).all()
    assert (w > v).any() and (w < v).any()


def test_poisson_quantiles_are_those_of_scipy():
    from portable.models.resampling.strata import QUANTILES

    assert_allclose(np.array(QUANTILES) / 2**32, stats.poisson.cdf(np.arange(12), 1.0), rtol=0, atol=2.0**-33)
    assert stats.poisson.sf(len(QUANTILES), 1.0) < 2.0**-32
