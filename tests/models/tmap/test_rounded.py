"""Test rounded gaps: their probabilities compared with SciPy's, recovery of parameters, a likelihood without
an arbitrary constant."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import integrate, stats

import portable as pk
from portable.models.tmap import (
    fit,
    Runs,
    TransientMAP,
    best_renewal,
    from_frame,
    goodness_of_fit,
    select_orders,
    standard_errors,
)
from portable.models.tmap.em import EM
from portable.models.tmap.packed import fill_table, new_table, part_of

from .problems import random_model
from .reference import expm

TRUTH = TransientMAP([0.7, 0.3], [1, 3], [10.0, 1.0], [[0.5, 0.3], [0.1, 0.7]])


def rounded(runs, resolution, censored=None):
    values = np.where(runs.complete, np.rint(runs.values / resolution) * resolution, runs.values)
    return Runs(values, runs.lengths, runs.censored, resolution=resolution)


def chances(model, x, half):
    """Return P_i of each gap, shape (n_gaps, n_branches), and the mean of such gaps, by quadrature of SciPy's
    density."""
    found, means = np.empty((2, len(x), model.n_branches))
    for i, (order, rate) in enumerate(zip(model.orders, model.rates)):
        law = stats.gamma(order, scale=1.0 / rate)
        for k, value in enumerate(x):
            low, high = max(value - half, 0.0), value + half
            found[k, i] = integrate.quad(law.pdf, low, high, epsabs=0.0, epsrel=1e-11)[0]
            means[k, i] = (
                integrate.quad(lambda t, law=law: t * law.pdf(t), low, high, epsabs=0.0, epsrel=1e-11)[0]
                / found[k, i]
            )
    return found, means


@pytest.mark.parametrize("resolution", [1e-7, 0.02, 1.0])
def test_the_table(space, resolution):
    """Test narrow and wide intervals of orders 1 to 20, in the middle and in both tails; a mean is a ratio of
    two probabilities."""
    model = TransientMAP([0.4, 0.3, 0.3], [1, 4, 20], [2.0, 3.0, 8.0], np.zeros((3, 3)))
    x = np.unique(np.rint(np.array([0.0, 0.5, 1.0, 2.0, 7.0]) / resolution)) * resolution
    wanted, means = chances(model, x[x > 0.0] if resolution < 1e-3 else x, 0.5 * resolution)
    packed = part_of(Runs.from_gaps(x, resolution=resolution)).packed(space, np.float64, 1.0)
    table = new_table(packed.distinct, 1, 3, np.float64, packed.space)
    fill_table(pk.copy_of(model.rows()[None], space), packed.distinct, table)
    table = table.to_numpy()[0, :, :, -len(wanted) :]
    assert_allclose(table[0].T, np.log(wanted), rtol=1e-8, atol=1e-8)
    assert_allclose(table[1].T, means, rtol=1e-7)


def test_likelihood_by_enumeration(space):
    """Compare runs of up to nine gaps, some of them censored, with products of SciPy's probabilities."""
    model = random_model(4, [1, 2])
    plain = TRUTH.simulate(12, seed=2)
    censored = np.arange(12) % 3 == 0
    runs = rounded(Runs(plain.values, plain.lengths, censored), 0.5)
    law = stats.gamma(model.orders, scale=1.0 / model.rates)
    wanted, first = 0.0, 0
    for length, still in zip(runs.lengths, runs.censored):
        a = model.alpha
        for k, x in enumerate(runs.values[first : first + length]):
            last = k == length - 1
            a = a * (law.sf(x) if last and still else law.cdf(x + 0.25) - law.cdf(max(x - 0.25, 0.0)))
            a = a @ (model.switching if not last else np.ones(2) if still else model.exits)
        wanted, first = wanted + np.log(a), first + length
    assert model.log_likelihood(runs, space=space) == pytest.approx(wanted, rel=1e-10)
    (sums,) = EM(runs, model.orders, 1, np.float64, space).expectation([model])
    assert sums.loglik == pytest.approx(wanted, rel=1e-10)
    assert_allclose(model.branch_probabilities(runs, space=space).sum(axis=0), sums.visits, rtol=1e-9)


def test_gaps_between_two_limits(space):
    """The factor of a gap in [a, b] is (-D0)^-1 (exp(D0 a) - exp(D0 b)) D1, by NumPy; a table with a column
    of upper limits, parts of the runs, and EM give the same."""
    model, plain, random = random_model(4, [1, 2]), TRUTH.simulate(12, seed=2), np.random.default_rng(3)
    low = plain.values * random.choice([0.0, 0.4, 0.9], plain.n_gaps)
    high, censored = plain.values + random.exponential(1.0, plain.n_gaps), np.arange(12) % 3 == 0
    opened = np.zeros(plain.n_gaps, bool)
    opened[np.cumsum(plain.lengths)[censored] - 1] = True
    names = np.repeat(np.arange(12), plain.lengths)
    table = {"run": names, "gap": low, "upper": np.where(opened, np.inf, high)}
    runs, (d0, d1, d, _) = from_frame(table, upper="upper"), model.matrices()
    wanted, row = [], d
    for k, name in enumerate(names):
        row = model.matrices()[3] if k == 0 or names[k - 1] != name else row @ d1
        a, b = (expm(d0 * x[k]) for x in (low, high))
        row = row @ (a if opened[k] else np.linalg.solve(-d0, a - b))
        if k + 1 == len(names) or names[k + 1] != name:
            wanted.append(np.log(row.sum() if opened[k] else row @ d))
    wanted = np.array(wanted)
    assert model.log_likelihood(runs, space=space) == pytest.approx(wanted.sum(), rel=1e-10)
    some = runs.subset([7, 2, 9])
    assert model.log_likelihood(some, space=space) == pytest.approx(wanted[[7, 2, 9]].sum(), rel=1e-10)
    _, info = fit(runs, orders=[1, 2], start=model, max_iter=9, space=space)
    assert info.history[0] == pytest.approx(wanted.sum(), rel=1e-10) and np.diff(info.history).min() > -1e-9
    assert from_frame(table, upper="upper", alone=True).n_censored == censored.sum()
    bytes_ = {"gap": np.array([200], np.uint8), "upper": np.array([250], np.uint8)}
    assert from_frame(bytes_, run=None, upper="upper").values == [225.0]
    for change, words in (
        ({"upper": low}, r"upper\[0\] is .*expected a higher limit"),
        ({"upper": np.full(plain.n_gaps, np.inf)}, "only the last gap of a run is open"),
    ):
        with pytest.raises(pk.InputError, match=words):
            from_frame(table | change, upper="upper")
    for widths, words in (
        (0.0 * low, r"resolution\[0\] is 0.0; expected a width above 0"),
        ([1.0], "1 entries for"),
    ):
        with pytest.raises(pk.PortableError, match=words):
            Runs(low, plain.lengths, resolution=widths)


def test_parameters_behind_coarse_rounding():
    """Gaps are rounded to five means of the fast branch: estimates are within four standard errors, while
    those from densities are not; parts do not change the result."""
    runs = rounded(TRUTH.simulate(4_000, seed=3), 0.5)
    model, info = fit(runs, orders=[1, 3])
    errors = standard_errors(model, runs)
    for name in "alpha rates exits switching".split():
        assert np.abs((getattr(model, name) - getattr(TRUTH, name)) / getattr(errors, name)).max() < 4.0, name
    assert np.diff(info.history).min() > -1e-9 and info.converged
    assert fit(Runs(runs.values, runs.lengths), orders=[1, 3])[0].rates[0] > 100.0
    parted = fit(runs, orders=[1, 3], start=model, max_iter=2, memory_mb=0.05)[1]
    assert parted.history[0] == pytest.approx(info.log_likelihood, rel=1e-12)


def test_no_arbitrary_constant():
    """Seconds converted to minutes have the same probability; goodness of fit is valid, too, which otherwise
    fails with coarse rounding."""
    runs = rounded(TRUTH.simulate(2_000, seed=5), 0.5)
    minutes = Runs(runs.values / 60.0, runs.lengths, resolution=0.5 / 60.0)
    slower = TransientMAP(TRUTH.alpha, TRUTH.orders, 60.0 * TRUTH.rates, TRUTH.switching)
    assert slower.log_likelihood(minutes) == pytest.approx(TRUTH.log_likelihood(runs), rel=1e-12)
    assert goodness_of_fit(TRUTH, runs).p_distance > 1e-3
    assert goodness_of_fit(TRUTH, Runs(runs.values, runs.lengths)).p_distance < 1e-9
    assert best_renewal(runs, 2, n_starts=2, max_iter=50) < TRUTH.log_likelihood(runs)


def test_what_is_not_rounded_so():
    with pytest.raises(
        pk.InputError, match="resolution is 0.5, but a gap of 1.3 is no multiple of it: 1 of 2 are not"
    ):
        Runs([1.0, 1.3], [2], resolution=0.5)
    assert Runs([1.0, 1.3], [2], [True], resolution=0.5).resolution == 0.5  # a censored gap is not rounded


def test_plain_gaps_are_phase_type():
    """Gaps without an order in time have no switching; a hyperexponential distribution is recovered; orders
    are chosen by every criterion."""
    random = np.random.default_rng(1)
    gaps = np.where(random.random(3000) < 0.3, random.exponential(5.0, 3000), random.gamma(3.0, 0.1, 3000))
    runs = Runs.from_gaps(gaps)
    model, _ = fit(runs, orders=[1, 3])
    assert not model.switching.any() and model.alpha[0] == pytest.approx(0.3, abs=0.04)
    assert model.rates[0] == pytest.approx(0.2, rel=0.15) and model.rates[1] == pytest.approx(10.0, rel=0.1)
    how = {"max_branches": 2, "n_starts": 2, "max_iter": 100}
    for criterion in ("bic", "aic", "cross_validated"):
        found = select_orders(runs, 4, criterion=criterion, **how)
        assert found[0].orders == (1, 3) and found[0].n_parameters == 3, criterion
    assert found[0].score == pytest.approx(-found[0].info.log_likelihood / 3000, rel=0.01)
    assert found[0].aic == pytest.approx(6.0 - 2.0 * found[0].info.log_likelihood)
    with pytest.raises(pk.InputError, match="n_folds is 5, of 3 runs"):
        select_orders(Runs.from_gaps([1.0, 2.0, 3.0]), 1, criterion="cross_validated")
