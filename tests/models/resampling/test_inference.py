"""Compare PMMH and particle Gibbs with an exact posterior on a grid, and test their properties: the same
draws everywhere, checkpoints, messages.

`python -m portable.models.resampling calibrate` computes the ranks of 200 data sets; here its quick form
runs.
"""

import math

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal, assert_equal
from portable.models.resampling import (
    calibration,
    particles_needed,
    priors,
    ready,
    sample_gibbs,
    sample_pmmh,
)
from portable.models.resampling.__main__ import main
from portable.models.resampling.banks import Problem
from portable.models.resampling.inference import Metropolis
from portable.models.resampling.joint_prior import Priors

import portable as pk
from portable.errors import DTypeError, InputError

from ...refusals import refusals
from .test_populations import on_a_grid

pytestmark = pytest.mark.usefixtures("serial")

LG = ready.linear_gaussian
PRIORS = {"phi": priors.uniform(-1.0, 1.0), "sigma": priors.half_normal(1.0)}
FIXED = {"tau": 0.7}
Y = LG.simulate(LG.params(phi=0.8, sigma=0.5, tau=0.7), 40, seed=3, space="serial")[1][:, 0]
Y[10:13] = np.nan
SHORT = {"priors": PRIORS, "fixed": FIXED, "n_chains": 3, "n_draws": 6, "n_warmup": 4, "seed": 5}


@pytest.fixture(scope="module")
def posterior_on_a_grid():
    """Return means and sds of phi and sigma, by sums over a grid with Kalman's likelihood."""
    return on_a_grid(Y)[:2]


@pytest.mark.parametrize(
    "sample, options",
    [
        (sample_pmmh, {"n_particles": 60, "n_draws": 250}),
        (sample_pmmh, {"n_particles": 40, "n_draws": 250, "n_blocks": 5}),
        (sample_pmmh, {"n_particles": 30, "n_draws": 250, "guided": True}),
        (sample_gibbs, {"n_particles": 15, "n_draws": 300}),
    ],
    ids="PMMH correlated guided Gibbs".split(),
)
def test_draws_are_of_the_exact_posterior(sample, options, posterior_on_a_grid):
    """Means of 32 chains are within five standard errors estimated between them; sds within a quarter, which
    1,000 effective draws allow."""
    found = sample(
        LG, Y, priors=PRIORS, fixed=FIXED, n_chains=32, n_warmup=100, seed=1, space="threads", **options
    )
    means, sds = posterior_on_a_grid
    of_chains = found.draws.mean(axis=1)
    error = of_chains.std(axis=0, ddof=1) / math.sqrt(32)
    assert (np.abs(of_chains.mean(axis=0) - means) <= 5 * error).all()
    assert_allclose(found.draws.std(axis=(0, 1)), sds, rtol=0.25)
    assert found.complete and (found.acceptance > 0.05).all()
    assert found["phi"].shape == (32, options["n_draws"])


@pytest.mark.parametrize("sample", [sample_pmmh, sample_gibbs])
def test_the_same_draws_on_every_space(space, sample):
    """The bits are those of the serial space; plain Python may round a logarithm differently, which does not
    change any of so few decisions."""
    few = {"n_draws": 2, "n_warmup": 1, "n_chains": 2} if space == "checked" else {}
    y, n = (Y[:3], 4) if space == "checked" else (Y, 50)
    here, serial = (sample(LG, y, n, **SHORT | few, space=name) for name in (space, "serial"))
    if space == "checked":
        assert_allclose(here.draws, serial.draws, rtol=1e-12)
    else:
        assert_array_equal(here.draws, serial.draws)
        assert_array_equal(here.log_likelihood, serial.log_likelihood)
    assert len(np.unique(serial.draws)) > 2


def test_estimates_of_likelihoods_compute_no_means():
    """Means of the states, which the estimates do not use, took a fifth of the filters' time."""
    asked = set()
    with pk.listening(
        lambda phase, what, launch: (
            "averaged" in launch.kernel.params
            and asked.add(launch.args[launch.kernel.params.index("averaged") - 1].value)
        )
    ):
        sample_pmmh(LG, Y, 20, **SHORT)
    assert asked == {False}


@pytest.mark.parametrize("sample", [sample_pmmh, sample_gibbs])
def test_a_checkpoint_goes_on_to_the_same_draws(sample, tmp_path, monkeypatch):
    """Continue after an interruption, and to more draws than at first; a checkpoint of another seed is
    refused.
    """
    whole = sample(LG, Y, 20, **SHORT)
    steps = []

    def stops(self, number, warm, step=None):
        if number == 7:
            raise KeyboardInterrupt
        steps.append(number)
        return before(self, number, warm)

    from portable.models.resampling.inference import Gibbs

    kind = Metropolis if sample is sample_pmmh else Gibbs
    before = kind.step
    with monkeypatch.context() as patch:
        patch.setattr(kind, "step", stops)
        with pytest.raises(KeyboardInterrupt) as stop:
            sample(LG, Y, 20, **SHORT, checkpoint=tmp_path / "chains")
    cut = stop.value.posterior
    assert not cut.complete and cut.draws.shape[1] == 3
    assert_array_equal(cut.draws, whole.draws[:, :3])
    with monkeypatch.context() as patch:
        patch.setattr(
            kind, "step", lambda self, number, warm: (steps.append(number), before(self, number, warm))
        )
        again = sample(LG, Y, 20, **SHORT, checkpoint=tmp_path / "chains")
    assert_array_equal(again.draws, whole.draws)
    assert again.complete and steps == list(range(10))
    more = sample(LG, Y, 20, **SHORT | {"n_draws": 9}, checkpoint=tmp_path / "chains")
    assert_array_equal(more.draws[:, :6], whole.draws)
    with pytest.raises(InputError, match="belongs to another run: seed is 5 there, 6 here"):
        sample(LG, Y, 20, **SHORT | {"seed": 6}, checkpoint=tmp_path / "chains")


def test_correlated_estimates():
    """A nearby proposal that renews one part of ten changes the estimate far less than one that renews
    all."""
    model = LG.filter(ordered=True)
    known = Priors(LG.parameters, PRIORS, FIXED)
    n = 200
    data = model.data(Y, known.table(np.array([[0.8, 0.5]]))[0], None)
    with pk.use("serial"):
        chains = Metropolis(Problem(model, data, known, 30, n_chains=n, seed=1), 10)
        random = default_rng(1)
        here, near = np.tile([0.8, 0.5], (n, 1)), np.tile([0.81, 0.49], (n, 1))
        keys, others = chains.fresh(random), chains.fresh(random)
        part = np.where(np.arange(10) == random.integers(0, 10, n)[:, None], others, keys)
        first, moved, renewed = (
            chains.estimate(values, by) for values, by in ((here, keys), (near, part), (near, others))
        )
    assert (moved - first).var() < 0.35 * (renewed - first).var()
    assert abs((np.exp(moved - first.mean())).mean() / np.exp(renewed - first.mean()).mean() - 1) < 0.5


def test_how_many_particles():
    found = particles_needed(LG, Y, {"phi": 0.8, "sigma": 0.5, "tau": 0.45}, n_runs=100, space="threads")
    variance = (
        LG.filter(space="threads")
        .log_likelihood(Y, found.n_particles, params=np.tile([0.8, 0.5, 0.45], (400, 1)), seed=9)
        .var()
    )
    assert 0.4 < variance < 2.0 and f"{found.n_particles:,} particles bring the variance" in str(found)
    with pytest.raises(
        InputError, match="with 64 particles the variance of the log-likelihood is .* not about 1"
    ):
        particles_needed(LG, 30.0 * Y, {"phi": 0.8, "sigma": 0.5, "tau": 0.45}, max_particles=64)


def test_what_is_told_of_draws(tmp_path):
    found = sample_pmmh(LG, Y, 20, **SHORT | {"n_draws": 50})
    tree = found.to_arviz()
    assert_array_equal(tree["posterior"]["phi"].values, found["phi"])
    assert tree["posterior"].attrs["fixed tau"] == 0.7
    assert tree["posterior"].attrs["prior of sigma"] == "half-normal, sd 1"
    found.save(tmp_path / "draws.nc")
    again = type(found).load(tmp_path / "draws.nc")
    for name, value in vars(found).items():
        assert_equal(getattr(again, name), value, err_msg=name)
    (tmp_path / "else.nc").write_bytes(b"CDF")
    for path in ("else.nc", "none.nc"):
        with pytest.raises(InputError, match=path):
            type(found).load(tmp_path / path)
    assert (tmp_path / "draws.nc").stat().st_size > 1000
    assert set(found.summary()) == {"phi", "sigma"} and len(list(found.lines())) == 4  # with a note
    rows = found.thinned(10)
    assert list(rows) == ["phi", "sigma", "tau"] and (rows["tau"] == 0.7).all() and len(rows["phi"]) == 10
    with pytest.raises(InputError, match="'tau' was not sampled; expected one of phi, sigma"):
        found["tau"]


@pytest.mark.parametrize(
    "prior",
    [
        priors.normal(1.0, 0.5),
        priors.half_normal(0.7),
        priors.gamma(2.0, 3.0),
        priors.log_normal(0.8, 0.5),
        priors.uniform(-2.0, 3.0),
        priors.beta(2.0, 5.0),
    ],
    ids=lambda prior: prior.text,
)
def test_priors(prior):
    """Densities integrate to 1, draws have their mean, and the transformation to coordinates is inverted,
    with the derivative of the volume."""
    v = np.linspace(max(prior.low, -8.0), min(prior.high, 12.0), 400_001)[1:-1]
    density = np.exp(prior.log_density(v))
    step = v[1] - v[0]
    assert abs(density.sum() * step - 1) < 1e-3
    drawn = prior.draw(default_rng(1), 40_000)
    assert abs(drawn.mean() - (v * density).sum() * step) < 5 * drawn.std() / 200
    known = Priors(("a",), {"a": prior}, None)
    z = known.to_line(drawn[:50, None])
    values, volume = known.from_line(z)
    assert_allclose(values[:, 0], drawn[:50], rtol=1e-9)
    slope = (known.from_line(z + 1e-6)[0] - known.from_line(z - 1e-6)[0])[:, 0] / 2e-6
    assert_allclose(np.log(slope), volume, atol=1e-5)


test_wrong_calls = refusals(
    [
        ({"priors": {"phi": PRIORS["phi"]}}, InputError, "sigma neither in priors nor in fixed"),
        ({"fixed": {"tau": 0.7, "phi": 0.1}}, InputError, "phi in priors and in fixed"),
        (
            {"priors": {"rho": PRIORS["phi"]}},
            InputError,
            "priors has 'rho', which is no parameter of the model; expected one of phi, sigma, tau",
        ),
        (
            {"priors": {**PRIORS, "phi": 0.5}},
            DTypeError,
            r"priors\['phi'\] must be made by normal, half_normal",
        ),
        ({"n_chains": 0}, InputError, "n_chains is 0"),
        ({"look_ahead": 0.5}, DTypeError, "look_ahead must be marked"),
        ({"n_particles": 1.5}, DTypeError, "n_particles must be an integer"),
        ({"start": {"phi": 0.5}}, InputError, "start has phi; expected a dict of exactly phi, sigma"),
        ({"start": {"phi": 2.0, "sigma": 1.0}}, InputError, "start: .* has no density under the priors"),
        (
            {"n_blocks": 2, "n_particles": 5000},
            InputError,
            "n_particles is 5000, method 'systematic'; with ordered=True or look_ahead=",
        ),
    ],
    lambda given: sample_pmmh(LG, Y, **{"n_particles": 20, **SHORT, **given}),
)


def test_what_a_sampler_wants_of_a_model():
    with pytest.raises(InputError, match="particle Gibbs needs the model's log_initial"):
        sample_gibbs(ready.sir(100), [1.0], 20, priors={"beta": priors.gamma(1.0, 1.0)})
    with pytest.raises(
        InputError,
        match="all 10 draws of the prior have likelihood 0 for chain 0; expected more particles, start= near",
    ):
        sample_pmmh(
            ready.sir(10),
            [3.0, 900.0],
            20,
            priors={"beta": priors.gamma(1.0, 1.0)},
            fixed={"gamma": 0.3, "rho": 0.0, "i0": 1.0},
            n_chains=1,
        )


def test_rows_that_are_long(posterior_on_a_grid):
    """Run PMMH over filters of more particles than one team can process: chains differ."""
    found = sample_pmmh(LG, Y, 5000, **SHORT | {"n_draws": 3, "n_warmup": 0}, space="threads")
    assert len(np.unique(found.log_likelihood)) > 1


def test_the_command(capsys, monkeypatch):
    monkeypatch.setattr(calibration, "FILTERS", calibration.FILTERS[:2])
    assert main("calibrate --quick --method pmmh --space serial".split()) == 0
    out = capsys.readouterr().out
    assert "pmmh: phi p = " in out and out.count(", a quarter missing") == 2 and "backward simulation" in out
    assert "\nall within their bounds\n" in out


@pytest.mark.parametrize("method", ["pmmh", "gibbs"])
def test_chains_of_a_calibration_go_on_where_they_are_too_short(monkeypatch, method):
    """They are extended to twice as many draws each time, beginning with the existing draws."""
    seen, lengths = [], iter([0.0, 19.0, 20.0])

    def measured(found):
        seen.append(found.draws)
        return next(lengths)

    monkeypatch.setattr(calibration, "_autocorrelation_times", measured)
    found = calibration.calibrate(method, n_sets=1, n_kept=9, n_steps=20, n_observed=5, seed=3)
    assert [draws.shape[1] for draws in seen] == [10, 20, 40] and found.shortest == 20.0
    assert_array_equal(seen[2][:, :20], seen[1])
    assert_array_equal(seen[1][:, :10], seen[0])
