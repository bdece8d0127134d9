"""Test Algorithm 1: compared step by step with plain Python, reproducible, resumable; checks of the draws."""

import math
import warnings
from dataclasses import replace
from statistics import NormalDist

import numpy as np
import pytest
import xarray
from numpy.testing import assert_allclose, assert_array_equal

import portable as pk
from portable.models.hawkes import (
    fit,
    Likelihood,
    Parameters,
    Posterior,
    calibrate,
    half_normal,
    sample_nuts,
    sample_posterior,
    uniform,
)
from portable.models.hawkes.chains import Chains, LocalChains
from docs.papers.hawkes_numbers import attainable
from portable.errors import DTypeError, InputError

from ...refusals import refusals
from . import reference
from .events import PARAMS, gunfire, random_events
from .test_gradient import known

FREE = ("mu0", "theta", "omega", "h")
STARTS = [PARAMS, replace(PARAMS, theta=0.5, omega=1.0)]


def algorithm_1(log_likelihood, start, free, sds, n_steps, seed, chain):
    """Run the paper's algorithm, with the numbered random numbers of the sampler."""
    cdf = NormalDist().cdf
    priors = {name: 1.0 if name == "mu0" else 10.0 for name in free}
    batch = {name: [0, 0, 5] for name in free}
    sds, params, rows = dict(zip(free, sds)), start, []
    value = log_likelihood(params)
    for step in range(n_steps):
        name = free[pk.random.randint(seed, chain, 64 * step, len(free))]
        inverse = name in ("h", "tau_x", "tau_t")
        v = getattr(params, name)
        v = 1.0 / v if inverse else v
        draw, new = 2, -1.0
        while new <= 0.0:
            new = v + sds[name] * float(pk.random.normal(seed, chain, 64 * step + draw))
            draw += 1
        proposed = replace(params, **{name: 1.0 / new if inverse else new})
        there = log_likelihood(proposed)
        log_prior = (v * v - new * new) / (2 * priors[name] ** 2)
        log_q = math.log(cdf(v / sds[name]) / cdf(new / sds[name]))
        accepted = (
            math.log(pk.random.uniform_open(seed, chain, 64 * step + 1)) < there - value + log_prior + log_q
        )
        if accepted:
            params, value = proposed, there
        batch[name][0] += 1
        batch[name][1] += accepted
        n, gained, size = batch[name]
        if n == size:
            sds[name] *= min(max(gained / n / 0.44, 0.5), 2.0)
            batch[name] = [0, 0, math.ceil(size**1.1)]
        rows.append([getattr(params, name) for name in free] + [value])
    return np.array(rows)


@pytest.mark.parametrize("free", [FREE, (*FREE[:1], "tau_x", "tau_t", *FREE[1:])], ids=len)
def test_every_step_is_the_papers(space, free):
    """Decisions are equal, so that draws are equal up to the elementary functions' last bits."""
    locations, times = random_events(13)
    own = len(free) == 4
    n_steps = 30 if space == "checked" else 200
    likelihood = Likelihood(locations, times, background_self=own, error_bound=1e-12, space=space)
    fixed = [name for name in PARAMS.names() if name not in free]
    found = sample_posterior(
        likelihood, n_chains=2, n_draws=n_steps, n_warmup=0, start=STARTS, fixed=fixed, seed=7
    )
    for chain, start in enumerate(STARTS):
        coordinates = [
            1 / v if n in ("h", "tau_x", "tau_t") else v
            for n, v in zip(free, (getattr(start, n) for n in free))
        ]
        wanted = algorithm_1(
            lambda p: reference.log_likelihood(locations, times, p, background_self=own),
            start,
            free,
            [0.1 * v for v in coordinates],
            n_steps,
            7,
            chain,
        )
        assert_allclose(found.draws[chain], wanted[:, :-1], rtol=1e-9)
        assert_allclose(found.log_likelihood[chain], wanted[:, -1], rtol=1e-9)
    assert (
        found.attained_error <= 1e-12
        and found.complete
        and found.free == tuple(n for n in PARAMS.names() if n in free)
    )


def test_pairs_are_listed_anew_on_the_way(space, monkeypatch):
    """From a far start the list is rebuilt repeatedly, in windows if it is too long, without a change of the
    draws."""
    if space == "checked":
        pytest.skip("600 steps are too slow in plain Python")
    locations, times = random_events(60)
    far = [replace(PARAMS, omega=20.0, h=0.01, theta=0.9)] * 2
    options = {"n_chains": 2, "n_draws": 600, "n_warmup": 0, "start": far, "seed": 3}
    lists = []
    prepare = LocalChains._prepare
    monkeypatch.setattr(LocalChains, "_prepare", lambda *args: (lists.append(args), prepare(*args))[1])
    likelihood = Likelihood(locations, times, error_bound=1e-12, space=space)
    listed = sample_posterior(likelihood, **options)
    assert len(lists) > 3
    monkeypatch.setattr("portable.models.hawkes.cells.MOST_PAIRS", 0)
    windowed = sample_posterior(likelihood, **options)
    assert_allclose(windowed.draws, listed.draws, rtol=1e-9)
    for k in (0, 300, 599):  # log-likelihoods along the chain are compared with those of all pairs
        wanted = Likelihood(locations, times, method="all_pairs", space=space).log_likelihood(
            listed.params(1, k)
        )
        assert listed.log_likelihood[1, k] == pytest.approx(wanted, rel=1e-11)


def import_nutpie():
    with warnings.catch_warnings(action="ignore"):  # ArviZ announces its next version on import
        pytest.importorskip("nutpie")


TRUTH, _, SMALL = known("serial", 60.0, 600.0)
OPTIONS = {
    "n_chains": 2,
    "n_draws": 300,
    "n_warmup": 100,
    "start": [TRUTH, replace(TRUTH, theta=0.5)],
    "seed": 1,
}


def test_chains_evaluate_each_start_once(space, monkeypatch):
    """Facts about the start are computed once: the size of the log-likelihood, the exponent for the first
    lists, and the constant background."""
    likelihood, seen = Likelihood(*random_events(20), space=space), []
    compute = Likelihood.log_likelihood
    monkeypatch.setattr(
        Likelihood, "log_likelihood", lambda self, params: seen.append(params) or compute(self, params)
    )
    sample_posterior(likelihood, n_chains=2, n_draws=1, n_warmup=0, start=STARTS)
    assert seen == STARTS


def test_seeds():
    one, two, other = (sample_posterior(SMALL, **OPTIONS | {"seed": seed}).draws for seed in (1, 1, 2))
    assert one.shape == (2, 300, 4)
    assert_array_equal(one, two)
    assert (one != other).any()


def test_no_replays_after_the_last_step():
    """Fifty steps, and one that evaluates the start, take eleven replays of five."""
    labels = []
    with pk.listening(lambda phase, what, launch: phase == "begin" and labels.append(launch.label)):
        sample_posterior(SMALL, start=[PARAMS] * 2, n_chains=2, n_draws=25, n_warmup=25)
    replays = [label for label in labels if "chain_decide" in label]
    lists = labels.count("hawkes.list_pairs")
    assert lists >= 1 and len(replays) <= 11 * lists
    assert {label.count("chain_decide") for label in replays} == {5}


def test_thinned_draws_are_among_the_others():
    whole = sample_posterior(SMALL, **OPTIONS | {"n_draws": 300, "n_warmup": 30})
    thinned = sample_posterior(SMALL, **OPTIONS | {"n_draws": 100, "n_warmup": 10, "n_thin": 3})
    assert_array_equal(thinned.draws, whole.draws[:, 2::3])
    assert_array_equal(thinned.log_likelihood, whole.log_likelihood[:, 2::3])


def stop_after(monkeypatch, n, error):
    """Have the n-th check of the chains raise."""
    advance, calls = Chains.advance, []

    def interrupted(self, replays):
        calls.append(1)
        if len(calls) == n:
            raise error
        return advance(self, replays)

    monkeypatch.setattr(Chains, "advance", interrupted)


def test_interrupted_chains_go_on_to_the_same_draws(tmp_path, monkeypatch):
    path = tmp_path / "chains"
    whole = sample_posterior(SMALL, **OPTIONS)
    monkeypatch.setattr("portable.models.shared.store.EVERY_S", 0.0)
    monkeypatch.setattr("portable.models.shared.store._SHARE", 0.0)
    monkeypatch.setattr("portable.models.hawkes.sampler._REPLAYS", 1)
    with monkeypatch.context() as patch:
        stop_after(patch, 10, KeyboardInterrupt)
        with pytest.raises(KeyboardInterrupt) as stop:
            sample_posterior(SMALL, **OPTIONS, checkpoint=path)
    part = stop.value.posterior
    n_kept = part.draws.shape[1]
    assert not part.complete and 20 < n_kept < 200 and len(list(path.glob("looks-*.npz"))) == 9
    assert_array_equal(part.draws, whole.draws[:, :n_kept])

    def assert_whole(**options):
        resumed = sample_posterior(SMALL, **OPTIONS | options, checkpoint=path)
        for name in "draws log_likelihood acceptance attained_error".split():
            assert_array_equal(getattr(resumed, name), getattr(whole, name))
        assert resumed.complete and resumed.start == whole.start

    assert_whole()
    with monkeypatch.context() as patch:
        stop_after(patch, 1, AssertionError)
        assert_whole()  # complete: nothing is computed
    (path / "looks-000000000003.npz").write_bytes(b"")
    with (
        monkeypatch.context() as patch,
        pytest.warns(RuntimeWarning, match="looks-000000000003.npz' is damaged"),
    ):
        stop_after(patch, 2, AssertionError)  # one check of the chains is repeated
        assert_whole()
    whole = sample_posterior(SMALL, **OPTIONS | {"n_draws": 2 * OPTIONS["n_draws"]})
    assert_whole(n_draws=2 * OPTIONS["n_draws"])
    whole = sample_posterior(SMALL, **OPTIONS)
    assert_whole()

    with pytest.raises(InputError, match="belongs to another run: seed is 1 there, 9 here"):
        sample_posterior(SMALL, **OPTIONS | {"seed": 9}, checkpoint=path)
    with pytest.raises(InputError, match="the folder .* does not exist"):
        sample_posterior(SMALL, **OPTIONS, checkpoint=tmp_path / "absent" / "chains")
    with pytest.raises(DTypeError, match="checkpoint must be the name of a folder, got int"):
        sample_posterior(SMALL, **OPTIONS, checkpoint=3)


def test_progress_tells_rates(told):
    sample_posterior(SMALL, **OPTIONS, progress=True)
    shown = told.err
    assert "steps/s, accepted: mu0" in shown and "2 chains" in shown


WRONG = [
    ({"n_chains": 3}, InputError, "start holds 2 parameters for 3 chains"),
    ({"n_warmup": -1}, InputError, "n_warmup is -1; "),
    ({"n_thin": 0}, InputError, "n_thin is 0; expected at least 1"),
    ({"seed": -1}, InputError, "seed is -1"),
    ({"start": 3}, DTypeError, "start must be Parameters or a sequence"),
    ({"priors": {"omega": uniform(5.0, 9.0)}}, InputError, "start: omega = 2 has no density under its prior"),
    ({"fixed": ("tau_t",)}, InputError, "tau_x is free, but the background is given"),
    ({"progress": 1}, DTypeError, "progress must be True or False"),
]


test_wrong_calls = refusals(WRONG, lambda change: sample_posterior(SMALL, **OPTIONS | change))


def test_a_bounded_prior_holds_the_draws():
    found = sample_posterior(
        SMALL, **OPTIONS | {"priors": {"omega": uniform(1.9, 2.1), "mu0": half_normal(2.0)}}
    )
    assert 1.9 < found["omega"].min() and found["omega"].max() < 2.1
    assert found.priors == {
        "mu0": "half-normal, sd 2",
        "theta": "half-normal, sd 10",
        "omega": "uniform, 1.9 to 2.1",
        "1/h": "half-normal, sd 10",
    }


@pytest.mark.parametrize("sampler", [sample_posterior, sample_nuts])
def test_lower_bounds_cut_the_posterior_off(sampler):
    """Compare with the posterior of h only, by quadrature above a bound that exceeds its mode."""
    if sampler is sample_nuts:
        import_nutpie()
    fixed = [name for name in TRUTH.names() if name != "h"]
    mode = fit(SMALL, start=TRUTH, fixed=fixed, posterior=True).params.h
    options = {"n_chains": 2, "n_draws": 1000, "n_warmup": 300, "start": TRUTH, "fixed": fixed, "seed": 1}
    found = sampler(SMALL, least={"h": 1.1 * mode}, **options)
    assert found["h"].min() >= 1.1 * mode
    assert found.priors == {"1/h": f"half-normal, sd 10; h at least {1.1 * mode:g}"}
    v = np.linspace(0.3 / mode, 1.0 / (1.1 * mode), 201)[1:]
    log_density = [
        SMALL.log_likelihood(replace(TRUTH, h=1.0 / one)) - one * one / 200.0 for one in v.tolist()
    ]
    density = np.exp(log_density - np.max(log_density))
    one = found.summary(["h"])["h"]
    assert abs(one["mean"] - np.trapezoid(density / v, v) / np.trapezoid(density, v)) < 5 * one["mcse"]


@pytest.mark.parametrize("sampler", [sample_posterior, sample_nuts])
@pytest.mark.parametrize(
    "least, priors, error, words",
    [
        ({"tau_x": 1.0}, None, InputError, "least has 'tau_x', which is not estimated"),
        (0.1, None, DTypeError, "least must be a dict"),
        ({"h": 0.0}, None, InputError, r"least\['h'\] is 0"),
        (
            {"h": 2.0},
            {"1/h": uniform(1.0, 9.0)},
            InputError,
            r"least\['h'\] is 2, where the prior of 1/h has no ",
        ),
    ],
)
def test_wrong_bounds(sampler, least, priors, error, words):
    with pytest.raises(error, match=words):
        sampler(SMALL, start=TRUTH, least=least, priors=priors)


def test_posterior_object(tmp_path):
    found = sample_posterior(SMALL, **OPTIONS)
    assert isinstance(found, Posterior)
    assert_allclose(found["1/omega"], 1.0 / found["omega"])
    assert found.mean().theta == pytest.approx(found["theta"].mean())
    assert found.params(1, 5).h == found["h"][1, 5] and found.params(1, 5).tau_x == TRUTH.tau_x
    assert len(list(found.thinned(50))) == 50
    with pytest.raises(InputError, match="'tau_x' was not sampled"):
        found["tau_x"]


def test_arviz(tmp_path):
    found = sample_posterior(SMALL, **OPTIONS)
    rows = found.summary(["theta", "1/h"])
    assert rows["theta"]["mean"] == pytest.approx(found["theta"].mean())
    assert (
        rows["1/h"]["q2.5"] < rows["1/h"]["mean"] < rows["1/h"]["q97.5"]
        and 0.9 < rows["theta"]["r_hat"] < 1.5
    )
    assert 10 < rows["theta"]["ess_bulk"] < 600
    found.save(tmp_path / "posterior.nc")
    tree = xarray.open_datatree(tmp_path / "posterior.nc", engine="h5netcdf")
    assert_array_equal(tree["posterior"]["omega"], found["omega"])
    assert (
        tree["posterior"]["omega"].attrs["units"] == "1/h"
        and tree["posterior"].attrs["fixed tau_t"] == TRUTH.tau_t
    )


def test_both_samplers_agree():
    """Posterior means agree within five joint standard errors: one false alarm in 400,000 parameters."""
    import_nutpie()
    one = sample_posterior(SMALL, n_chains=2, n_draws=4000, start=TRUTH, seed=1)
    two = sample_nuts(SMALL, n_chains=2, n_draws=200, n_warmup=100, start=TRUTH, seed=1)
    assert two.draws.shape == (2, 200, 4) and two.attained_error <= SMALL.error_bound
    could = attainable(one)
    for name in FREE:
        a, b = (p.summary([name])[name] for p in (one, two))
        assert abs(a["mean"] - b["mean"]) < 5 * math.hypot(a["mcse"], b["mcse"])
        assert 0.5 < a["ess_bulk"] / could[name] < 2.0  # an estimate from 8,000 draws scatters by a fifth
    assert two.log_likelihood[0, 0] == pytest.approx(SMALL.log_likelihood(two.params(0, 0)), rel=1e-9)


def test_attainable_effective_draws():
    """For two parameters of correlation rho: w = (1 + rho^2) / (1 - rho^2)."""
    random = np.random.default_rng(1)
    draws = random.normal(size=(2, 20_000, 2)) @ np.linalg.cholesky([[1.0, 0.8], [0.8, 1.0]]).T
    found = sample_posterior(SMALL, **OPTIONS | {"n_draws": 1, "n_warmup": 0})
    could = attainable(replace(found, names=("mu0", "theta"), draws=draws))
    # sds of rho: 0.2 %
    assert could["mu0"] == pytest.approx(40_000 / (2 * 5.35 * 1.64 / 0.36 - 1.0), rel=0.05)


def test_calibration():
    """With ten data sets no rank test has a p-value below 0.0001, which happens by chance once in 2,500
    runs."""
    found = calibrate(n_sets=10, n_kept=9, least_ess=100, space="serial", seed=2)
    assert found.ranks.shape == (10, 4) and found.ranks.min() >= 0 and found.ranks.max() <= 9
    assert found.least_ess >= 100 and found.least_events >= 200
    assert min(found.p_values.values()) > 1e-4


def test_gunfire_posterior():
    """For 5,022 events the posterior mode is inside the draws, and log-likelihoods equal those of all pairs
    within the requested bound."""
    locations, times = gunfire("2010_5022")
    likelihood = Likelihood(locations, times, space="threads")
    found = sample_posterior(likelihood, n_draws=700, n_warmup=300, seed=1)
    assert 0.16 < found["theta"].mean() < 0.19 and 0.064 < found["h"].mean() < 0.068
    exact = Likelihood(locations, times, method="all_pairs", space="threads")
    for k in (0, 350, 699):
        assert found.log_likelihood[k % 4, k] == pytest.approx(
            exact.log_likelihood(found.params(k % 4, k)), rel=1e-8
        )
    assert found.attained_error < 1e-9 and isinstance(found.mean(), Parameters)
