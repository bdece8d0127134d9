"""Test EM: the likelihood rises, it stops at a stationary point, recovers parameters, and reports degenerate
branches."""

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from hypothesis import example, given, settings
from hypothesis import strategies as st

import portable as pk
from portable.models.tmap import fit, Runs, TransientMAP, best_renewal, standard_errors
from portable.models.tmap.em import EM
from portable.models.tmap.fit import _exchanged, _in_place_of, _of_starts
from portable.models.tmap import packed
from portable.models.tmap.packed import parts_of

from .problems import MODEL, censored_runs, random_runs, real_runs


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 2**32),
    n_runs=st.integers(3, 60),
    zeros=st.booleans(),
    orders=st.lists(st.integers(1, 6), min_size=0, max_size=2),
    censored=st.booleans(),
)
@example(117100843, 3, True, [1], False)  # a start whose mean is below EM's bound
def test_the_likelihood_never_falls(seed, n_runs, zeros, orders, censored):
    """Problems are random; rounding changes a sum of n logarithms by about n eps of their size."""
    runs = censored_runs(seed, n_runs) if censored and n_runs > 9 else random_runs(seed, n_runs, zeros)
    _, info = fit(runs, orders=[1, *orders], max_iter=15, tol=0.0, seed=seed, n_starts=1)
    assert np.isfinite(info.history).all()
    assert np.diff(info.history).min() > -1e-12 * runs.n_gaps * max(1.0, abs(info.history[0] / runs.n_gaps))


def test_em_runs_alike_on_all_spaces(space):
    runs = MODEL.simulate(40, seed=1)
    model, info = fit(runs, orders=[1, 2], max_iter=5, tol=0.0, n_starts=1, space=space)
    wanted, other = fit(runs, orders=[1, 2], max_iter=5, tol=0.0, n_starts=1)
    assert_allclose(info.history, other.history, rtol=1e-12)
    assert_allclose(model.rates, wanted.rates, rtol=1e-9)
    assert_allclose(model.switching, wanted.switching, rtol=1e-9)
    assert np.diff(info.history).min() > 0.0 and info.n_iterations == 5 and not info.converged


@pytest.mark.parametrize("censored", [False, True])
def test_streamed_in_parts(space, censored):
    """Use packs of 32 runs, the longest of 9 gaps, in 5 KB: a part has a pack or two; sums are in another
    order.
    """
    n_runs, n_steps = (70, 1) if space == "checked" else (200, 4)
    runs = (censored_runs if censored else random_runs)(6, n_runs)
    assert len(parts_of(runs, np.float64, 5_000)[0]) > (3 if n_runs == 200 else 1)
    how = {"orders": [1, 2], "max_iter": n_steps, "tol": 0.0, "n_starts": 1, "space": space}
    model, info = fit(runs, memory_mb=5_000 / 2**20, **how)
    wanted, whole = fit(runs, **how)
    assert_allclose(info.history, whole.history, rtol=1e-12)
    assert_allclose(model.switching, wanted.switching, rtol=1e-10)
    parted = model.log_likelihood(runs, memory_mb=5_000 / 2**20, space=space)
    assert parted == pytest.approx(model.log_likelihood(runs, space=space), rel=1e-13)


def test_parts_hold_every_run():
    runs = random_runs(1, 500)
    parts, whole = parts_of(runs, np.float32, 20_000)
    assert not whole
    assert sum(part.n_runs % 32 != 0 for part in parts) == 1  # the last pack's
    assert sorted(np.concatenate([part.values for part in parts])) == sorted(runs.values)
    sizes = [8 * 32 * np.sort(part.lengths)[::-1][::32].sum() for part in parts]
    assert max(sizes) <= 20_000 and min(sizes) > 10_000


def test_halves_of_the_shards_have_as_many_gaps_of_runs_of_all_lengths(monkeypatch):
    """Each half has runs of all lengths: a place processes neighbouring shards, and long runs take more time
    for each gap."""
    monkeypatch.setattr(packed, "SHARD", 2**13)
    steps = np.sort(default_rng(1).geometric(0.12, 5000))[::-1]
    cuts, _ = packed.cuts_of(np.append(0, np.cumsum(steps)), np.float64, None)
    assert sorted(cuts) == list(zip([0, *sorted(b for _, b in cuts)], sorted(b for _, b in cuts)))
    halves = [
        steps[[k for a, b in part for k in range(a, b)]]
        for part in np.split(np.array(cuts), [len(cuts) // 2])
    ]
    assert len(cuts) % 8 == 0 and halves[0].sum() == pytest.approx(halves[1].sum(), rel=0.01)
    assert np.mean(halves[0]) == pytest.approx(np.mean(halves[1]), rel=0.1)


def test_one_branch_is_found_in_one_step(space):
    """Closed form: rate = r n_gaps / sum of gaps, switching = 1 - n_runs / n_gaps."""
    runs = random_runs(2, 30)
    model, info = fit(runs, orders=[3], n_starts=1, space=space)
    assert model.rates[0] == pytest.approx(3 * runs.n_gaps / runs.values.sum(), rel=1e-12)
    assert model.switching[0, 0] == pytest.approx(1.0 - runs.n_runs / runs.n_gaps, rel=1e-12)
    assert info.converged and info.log_likelihood == pytest.approx(
        model.log_likelihood(runs, space=space), rel=1e-13
    )


def test_the_best_start_is_kept():
    runs = MODEL.simulate(5_000, seed=4, space="threads")
    model, info = fit(runs, orders=[1, 2, 3], n_starts=8, space="threads")
    assert info.converged and info.log_likelihood >= MODEL.log_likelihood(runs, space="threads")
    assert info.log_likelihood == info.starts.max() and len(info.starts) == 8
    assert_allclose(model.rates, MODEL.rates, rtol=0.1)


def test_the_default_starts_find_the_maximum():
    """For six data sets of 1,500 runs; from one random start two of five fits end at a local maximum, and
    report convergence."""
    truth = TransientMAP([0.7, 0.3], [1, 3], [10.0, 1.0], [[0.5, 0.3], [0.1, 0.7]])
    lost = 0
    for seed in range(6):
        runs = truth.simulate(1_500, seed=seed)
        best = fit(runs, orders=[1, 3], start=truth)[1].log_likelihood
        found = fit(runs, orders=[1, 3], seed=seed)[1]
        assert found.log_likelihood > best - 1e-3 and len(found.starts) == 8
        lost += fit(runs, orders=[1, 3], seed=seed, n_starts=1)[1].log_likelihood < best - 1.0
    assert lost >= 1  # a single start misses a maximum


def test_a_maximum_that_one_start_found_is_told():
    assert "1 of 3 starts ended within 1 unit" in _of_starts(np.array([-10.0, -3.0, -7.0]))[0]
    assert not _of_starts(np.array([-3.1, -3.0, -7.0])) and not _of_starts(np.array([-3.0]))


def test_known_parameters_are_recovered():
    """Each parameter of 200,000 runs is within four standard errors; one false alarm in 900 for all 18."""
    truth = TransientMAP([0.7, 0.3], [1, 3], [10.0, 1.0], [[0.5, 0.2], [0.1, 0.4]])
    runs = truth.simulate(200_000, seed=4, space="threads")
    model, info = fit(runs, orders=[1, 3], n_starts=2, max_iter=200, tol=1e-9, space="threads")
    errors = standard_errors(model, runs, space="threads")
    assert info.converged
    for name in "alpha rates exits switching".split():
        off = (getattr(model, name) - getattr(truth, name)) / getattr(errors, name)
        assert np.abs(off).max() < 4.0, name


def test_em_in_float32_runs_as_in_float64(space):
    """Each of some 200 gaps adds rounding errors of 6e-8 of terms of order 1."""
    runs = MODEL.simulate(40, seed=1)
    how = {"orders": [1, 2], "max_iter": 5, "tol": 0.0, "n_starts": 1}
    _, single = fit(runs, dtype="float32", space=space, **how)
    _, double = fit(runs, **how)
    assert_allclose(single.history, double.history, rtol=1e-5)


def test_from_a_given_start():
    runs = MODEL.simulate(300, seed=2)
    _, info = fit(runs, orders=[3, 1, 2], start=MODEL, max_iter=3, tol=0.0)
    assert info.history[0] == pytest.approx(MODEL.log_likelihood(runs), rel=1e-13)
    assert info.n_iterations == 3 and len(info.history) == 4


def test_many_branches_and_high_orders():
    """Fit sixteen branches up to order 100, with one run much longer than the others."""
    random = default_rng(1)
    lengths = np.append(random.integers(1, 20, 60), 3000)
    runs = Runs(random.gamma(2.0, 0.5, lengths.sum()), lengths)
    orders = [1, 1, 1, 2, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 50, 100]
    model, info = fit(runs, orders=orders, max_iter=4, tol=0.0, n_starts=1)
    assert np.diff(info.history).min() > 0.0
    assert model.log_likelihood(runs) == pytest.approx(info.log_likelihood, rel=1e-12)


def test_one_long_run_as_line_solver():
    """Compare with a package that fits one endless run: the same rates and switching, except for the single
    start and end of 4,000 gaps."""
    erchmm = pytest.importorskip("line_solver.lib.kpctoolbox.erchmm")
    truth = TransientMAP([0.5, 0.5], [1, 2], [1.0, 20.0], [[0.8, 0.2 - 1e-5], [0.3, 0.7 - 1e-5]])
    long = truth.simulate(4, seed=3).values[:4000]
    (d0, d1), theirs = erchmm.erchmm_emfit(long, [1, 2], iter_max=200, iter_tol=1e-9, verbose=False)
    model, info = fit(Runs(long, [4000]), orders=[1, 2], n_starts=8, tol=1e-10)
    assert_allclose(model.rates, [-d0[0, 0], -d0[1, 1]], rtol=2e-3)
    switching = d1[np.ix_([0, 2], [0, 1])] / model.rates[:, None]
    assert_allclose(model.switching / model.switching.sum(axis=1)[:, None], switching, atol=2e-3)
    # That package models neither the start nor the end: some log(4000) apart, of 4,000 gaps.
    assert info.log_likelihood / 4000 == pytest.approx(theirs, abs=3 * np.log(4000) / 4000)
    assert "1 run that ends, for 2 branches" in info.notes[0]


def test_means_of_the_fit_are_those_of_the_data():
    """At a stationary point of EM, visits and times equal the data's; the tolerance is EM's remaining
    distance.
    """
    runs = random_runs(9, 200, zeros=True)
    model, _ = fit(runs, orders=[1, 1, 2], max_iter=3000, tol=1e-12, n_starts=1)
    assert model.mean_arrivals() == pytest.approx(runs.n_gaps / runs.n_runs, rel=1e-6)
    assert model.mean_gap() == pytest.approx(runs.values.mean(), rel=1e-3)


def test_branches_come_in_order():
    runs = MODEL.simulate(300, seed=8)
    model, _ = fit(runs, orders=[2, 1, 1], max_iter=50)
    assert model.orders.tolist() == [1, 1, 2] and model.rates[0] > model.rates[1]


def test_a_branch_of_zeros_is_held_and_named():
    """Gaps of zero and of about one alternate: the best branch for the zeros would have a mean of zero."""
    random = default_rng(1)
    values = np.where(np.arange(400) % 2, random.gamma(50.0, 0.02, 400), 0.0)
    shortest = values[values > 0.0].min()
    model, info = fit(Runs(values, np.full(100, 4)), orders=[1, 1, 50], n_starts=4)
    assert np.isfinite(info.log_likelihood)
    assert model.orders[0] / model.rates[0] == pytest.approx(1e-3 * shortest)
    assert any("branch 0 takes zero gaps only" in note for note in info.notes)


def test_a_dead_branch_is_named():
    """All gaps are near one: a branch of order 1,000 explains them all, and the exponential one none."""
    random = default_rng(1)
    runs = Runs(random.gamma(1000.0, 1e-3, 4000), np.full(1000, 4))
    model, info = fit(runs, orders=[1, 1000], n_starts=4, max_iter=2000, tol=0.0)
    assert model.rates[1] == pytest.approx(1000.0, rel=0.01)
    assert any("branch 0 is dead" in note for note in info.notes)


@pytest.mark.parametrize("name", ["cdnow_interpurchase_days", "nasa_http_19950801_sessions"])
def test_real_runs(name):
    """The likelihood exceeds that of the best renewal process with as many stages."""
    runs = real_runs(name)
    model, info = fit(runs, orders=[1, 1, 1, 1], n_starts=4, max_iter=200, space="threads")
    assert np.diff(info.history).min() >= 0.0
    assert (
        info.log_likelihood
        > best_renewal(runs, 4, n_starts=2, max_iter=200, space="threads") + 0.01 * runs.n_gaps
    )
    assert model.mean_arrivals() == pytest.approx(runs.n_gaps / runs.n_runs, rel=0.01)
    assert model.mean_gap() == pytest.approx(runs.values.mean(), rel=0.05)


def test_renewal_in_closed_form():
    """One stage has exponential gaps, 12 of them in 5 runs."""
    runs = Runs(np.linspace(0.0, 2.2, 12), [1, 2, 2, 3, 4])
    wanted = -12 * (np.log(runs.mean) + 1.0) + 5 * np.log(5 / 12) + 7 * np.log(7 / 12)
    assert best_renewal(runs, 1) == pytest.approx(wanted, rel=1e-12)
    with pytest.raises(pk.InputError, match="censored"):
        best_renewal(censored_runs(1, 20), 1)


def test_iterations_that_come_again_are_a_graph(space):
    """On spaces with queues the first iterations are launched one by one, since a short fit ends with them,
    the next are graphs of one, later ones a graph of all; the bits are the same."""
    runs, labels, found = MODEL.simulate(300, seed=2), [], []
    for n, n_replays in ((2, 4), (8, 1)):
        em = EM(runs, MODEL.orders, 1, np.float64, space)
        history = pk.zeros((1, 10), np.float64, em.space)
        iterations = em.iterations(n, 9, -1.0, history)  # it never converges
        em.load([MODEL])
        with pk.listening(lambda phase, what, launch: phase == "begin" and labels.append(launch.label)):
            for _ in range(n_replays):
                iterations.replay()
        found.append(history.to_numpy())
    alone, graphs = (2 + 8, 2 + 1 + 1) if pk.queued(space) else (0, 2 * 4 + 8)
    assert labels.count("tmap.maximise") == alone
    assert sum(label.endswith(" + tmap.maximise") for label in labels) == graphs
    assert_array_equal(*found)
    assert np.diff(found[0][0, :8]).min() > 0.0


def test_sums_do_not_depend_on_the_number_of_threads():
    """They do not depend on the number of teams either, whose sums are added."""
    runs, found = MODEL.simulate(30_000, seed=3), []
    for space in ("serial", "threads:3", "threads:100"):
        em = EM(runs, MODEL.orders, 1, np.float64, space)
        (sums,) = em.expectation([MODEL])
        found.append((sums.loglik, *sums.first, *sums.last, *sums.time, *sums.moves.ravel()))
    assert found[0] == found[1] == found[2]


def test_visits_come_from_the_last_step(space):
    """No E-step is run for the notes, also for starts that converged while others continued."""
    runs, labels = MODEL.simulate(40 if space == "checked" else 3_000, seed=1), []
    em = EM(runs, MODEL.orders, 2, np.float64, space)
    near, _ = fit(runs, orders=MODEL.orders, start=MODEL)
    far = TransientMAP(np.ones(3) / 3, MODEL.orders, MODEL.rates * [3.0, 0.5, 1.0], np.full((3, 3), 0.25))
    ends = em.run_em([near, far], 4 if space == "checked" else 12, 1e-6)
    assert [end.converged for end in ends] == [True, False]
    for end, wanted in zip(ends, em.expectation([end.model for end in ends])):
        assert_allclose(end.visits, wanted.visits, rtol=1e-12)
    with pk.listening(
        lambda phase, what, launch: phase == "begin" and labels.append(launch.label), into_graphs=True
    ):
        fit(runs, orders=MODEL.orders, start=MODEL, max_iter=1, space=space)
    assert labels.count("tmap.expectation") == labels.count("tmap.maximise") == 2


def test_branches_are_exchanged():
    """For gaps of three Erlang branches, EM has a local maximum with the means of two interchanged, which an
    exchange leaves."""
    truth = TransientMAP([0.57, 0.35, 0.08], [1, 2, 3], [0.009, 0.098, 1.0], np.zeros((3, 3)))
    runs = Runs.from_gaps(truth.simulate(4000, seed=0).values)
    best = fit(runs, orders=[1, 2, 3], start=truth, space="threads")[1].log_likelihood
    start = _in_place_of(truth, 1, 2)
    local, info = fit(runs, orders=[1, 2, 3], start=start, space="threads")
    assert info.log_likelihood < best - 1.5
    em = EM(runs, np.array([1, 2, 3]), 4, np.float64, "threads")
    (end,) = em.run_em([local], 1, 1e-8)
    left, gained = _exchanged(em, end, 1000, 1e-8)
    assert left.history[-1] > best - 0.01 and gained == pytest.approx(left.history[-1] - end.history[-1])
    found = fit(runs, orders=[1, 2, 3], space="threads")[1]
    assert found.log_likelihood > best - 0.01
    assert "an exchange of two branches has come 2.3 higher" in _of_starts(np.zeros(8), 2.3)[0]
