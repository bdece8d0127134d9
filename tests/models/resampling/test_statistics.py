"""Expectations, bounds and variances with known answers. Fixed seeds; five standard errors: false alarm 6e-7 each."""

import numpy as np
import pytest

import portable as pk
from models import resampling
from models.resampling import reference
from models.resampling.schemes import draw_systematic, quantise
from models.resampling.weights import Weights

from .cases import SCHEMES, paper_weights

UNBIASED = [(scheme, options) for scheme, options in SCHEMES if scheme is not resampling.metropolis]
UNBIASED_NAMES = [scheme.__name__ for scheme, _ in UNBIASED]


def offspring(scheme, w, n_runs, **options):
    """Offspring of n_runs independent calls, shape (n_runs, n)."""
    runs = [np.bincount(scheme(w, seed=77, step=t, **options), minlength=len(w)) for t in range(n_runs)]
    return np.array(runs)


@pytest.mark.parametrize("n, n_runs", [(1 << 7, 16), (1 << 13, 64)])
def test_systematic_is_unbiased_by_quadrature(space, n, n_runs):
    """|mean of o_i over starts (r + 1/2) Q / R - e_i| <= 1 / R for every particle."""
    if space == "checked" and n > 1000:
        pytest.skip("plain Python is for small sizes")
    w = paper_weights(n, 1.5, np.float32)
    with pk.use(space):
        weights, ancestors = Weights(w, None), pk.empty((n,), np.int64)
        _, cumulative, total = quantise(weights, n)
        mean = np.zeros(n)
        for r in range(n_runs):
            draw_systematic(cumulative, total, (2 * r + 1) * total // (2 * n_runs), ancestors)
            mean += np.bincount(ancestors.to_numpy(), minlength=n) / n_runs
    e = n * w.astype(float) / w.sum(dtype=float)
    assert np.abs(mean - e).max() <= 1 / n_runs + 1e-9


def test_systematic_is_unbiased_at_four_million_float32_weights():
    """As above at 2^22, where a float32 scan fails for a third of the particles."""
    n, n_runs = 1 << 22, 4
    w = paper_weights(n, 1.0, np.float32)
    with pk.use("threads"):
        weights, ancestors = Weights(w, None), pk.empty((n,), np.int64)
        _, cumulative, total = quantise(weights, n)
        mean = np.zeros(n)
        for r in range(n_runs):
            draw_systematic(cumulative, total, (2 * r + 1) * total // (2 * n_runs), ancestors)
            mean += np.bincount(ancestors.to_numpy(), minlength=n) / n_runs
    e = n * w.astype(float) / w.sum(dtype=float)
    assert (np.abs(mean - e) <= 1 / n_runs + 4e-6 * (1 + e)).all()  # the documented quantisation bound


def test_quantisation_bound():
    for n, y in ((100, 0.0), (5000, 4.0), (1 << 13, 2.0)):
        w = paper_weights(n, y)
        q = np.array([float(v) for v in reference.quantised(w, n)])
        e = n * w / w.sum()
        bits = 62 - np.ceil(np.log2(n))
        assert (np.abs(n * q / q.sum() - e) <= (n + n * e) * 2.0**-bits + 1e-12 * e).all()


@pytest.mark.parametrize("scheme, options", UNBIASED, ids=UNBIASED_NAMES)
def test_means(scheme, options):
    """Every particle's mean offspring within five of its own standard errors, Bonferroni over 48 particles: 3e-5."""
    w, n_runs = paper_weights(48, 1.0), 1500
    o = offspring(scheme, w, n_runs, space="serial", **options)
    e = len(w) * w / w.sum()
    error = o.std(axis=0) / np.sqrt(n_runs)
    assert (np.abs(o.mean(axis=0) - e) <= 5 * error + 1e-12).all()


@pytest.mark.parametrize("scheme, options", UNBIASED, ids=UNBIASED_NAMES)
def test_bounds_of_the_offspring(space, scheme, options):
    w = paper_weights(64, 1.0)
    w[::5] = 0.0
    e = len(w) * w / w.sum()
    o = offspring(scheme, w, 2 if space == "checked" else 20, space=space, **options)
    assert (o.sum(axis=1) == len(w)).all() and (o[:, ::5] == 0).all()
    if scheme in (resampling.systematic, resampling.stratified):
        assert (np.abs(o - e) < (1 if scheme is resampling.systematic else 2)).all()
    if scheme is resampling.residual:
        assert (o >= np.floor(e)).all()


def stratified_variance(w):
    """The sum over strata and weights of l (1 - l), l the share of the stratum that the weight covers."""
    ends = np.concatenate([[0.0], np.cumsum(w)]) * len(w) / w.sum()
    total = 0.0
    for low, high in zip(ends[:-1], ends[1:]):
        for k in range(int(low), min(int(np.ceil(high)), len(w))):
            share = min(high, k + 1) - max(low, k)
            total += share * (1 - share)
    return total


@pytest.mark.parametrize("scheme, variance", [
    (resampling.multinomial, lambda w, e: len(w) - (e @ e) / len(w)),
    (resampling.systematic, lambda w, e: ((e % 1) * (1 - e % 1)).sum()),
    (resampling.stratified, lambda w, e: stratified_variance(w)),
], ids=["multinomial", "systematic", "stratified"])
def test_variances(scheme, variance):
    """E sum (o_i - e_i)^2 over independent runs, within five standard errors."""
    w, n_runs = paper_weights(32, 1.0), 2000
    e = len(w) * w / w.sum()
    squares = ((offspring(scheme, w, n_runs, space="serial") - e) ** 2).sum(axis=1)
    assert abs(squares.mean() - variance(w, e)) <= 5 * squares.std() / np.sqrt(n_runs)


def test_metropolis_is_the_power_of_its_matrix():
    """E[o] = 1^T P^B, each particle within five standard errors; the bias that the power predicts is there."""
    w, n_steps, n_runs = paper_weights(24, 2.0), 3, 3000
    n = len(w)
    p = np.minimum(1.0, w[None, :] / w[:, None]) / n
    np.fill_diagonal(p, 0.0)
    np.fill_diagonal(p, 1.0 - p.sum(axis=1))
    wanted = np.ones(n) @ np.linalg.matrix_power(p, n_steps)
    o = offspring(resampling.metropolis, w, n_runs, space="serial", n_steps=n_steps)
    error = o.std(axis=0) / np.sqrt(n_runs)
    assert (np.abs(o.mean(axis=0) - wanted) <= 5 * error).all()
    assert (np.abs(o.mean(axis=0) - n * w / w.sum()) > 5 * error).any()


def test_a_loose_bound_leaves_rejection_unbiased():
    w, n_runs = paper_weights(24, 1.0), 1500
    o = offspring(resampling.rejection, w, n_runs, space="serial", max_weight=3.0)
    error = o.std(axis=0) / np.sqrt(n_runs)
    assert (np.abs(o.mean(axis=0) - 24 * w / w.sum()) <= 5 * error).all()
