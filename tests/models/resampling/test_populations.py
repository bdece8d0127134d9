"""Compare SMC^2 and tempered SMC samplers with exact posteriors and evidences, and test their properties: the
same draws everywhere, checkpoints, messages.

`python -m portable.models.resampling calibrate` computes ranks over 200 data sets and the bias of the
evidence.
"""

import functools
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from portable.models.resampling import exact, populations, priors, ready, sample_smc, sample_smc2
from portable.models.resampling.populations import Populations

import portable as pk
from portable.errors import DTypeError, FiniteError, InputError, ShapeError

from ...refusals import refusals
from .test_nan import MODEL
from .test_nan import Y as NAN_Y

LG = ready.linear_gaussian
PRIORS = {"phi": priors.uniform(-1.0, 1.0), "sigma": priors.half_normal(1.0)}
Y = LG.simulate(LG.params(phi=0.8, sigma=0.5, tau=0.7), 25, seed=3, space="serial")[1][:, 0]
Y[10:13] = np.nan
SHORT = {"priors": PRIORS, "fixed": {"tau": 0.7}, "n_chains": 2, "n_draws": 20, "length": 5, "seed": 5}
DATA = np.random.default_rng(1).normal(1.0, 2.0, 30)
pytestmark = [
    pytest.mark.usefixtures("serial"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),
]  # few draws do not converge


@pk.function
def log_normals(params, data):
    """Return the log-density of independent normal numbers with mean params[0] and sd params[1]."""
    total = 0.0
    for i in range(data.shape[0]):
        total += ready.log_normal_density(data[i, 0], params[0], params[1])
    return total


smc2 = functools.partial(sample_smc2, LG, Y, 30, **SHORT)
smc = functools.partial(
    sample_smc,
    log_normals,
    data=DATA,
    **SHORT | {"priors": {"mu": priors.normal(0.0, 3.0)}, "fixed": {"sd": 2.0}},
)
BOTH = pytest.mark.parametrize("sample", [smc2, smc], ids=["SMC2", "SMC"])


def on_a_grid(y=Y):
    """Return means, sds, and the log-evidence of phi and sigma, by sums over a grid with Kalman's
    likelihood."""
    phi, sigma = np.linspace(-0.995, 0.995, 60), np.linspace(0.02, 2.6, 60)
    logs = np.array([[exact.kalman(y, (a, b, 0.7)).log_likelihood - 0.5 * b * b for b in sigma] for a in phi])
    w = np.exp(logs - logs.max())
    cell = (phi[1] - phi[0]) * (sigma[1] - sigma[0]) * 0.5 * math.sqrt(2 / math.pi)
    log_evidence = math.log(w.sum() * cell) + logs.max()
    w /= w.sum()
    means = np.array([w.sum(1) @ phi, w.sum(0) @ sigma])
    return (
        means,
        np.sqrt([w.sum(1) @ phi**2 - means[0] ** 2, w.sum(0) @ sigma**2 - means[1] ** 2]),
        log_evidence,
    )


def of_conjugates():
    """Return the same of a normal mean with a normal prior, by their formulas."""
    variance = 1.0 / (1.0 / 9.0 + len(DATA) / 4.0)
    mean = variance * DATA.sum() / 4.0
    joint = 4.0 * np.eye(len(DATA)) + 9.0
    log_evidence = -0.5 * (
        DATA @ np.linalg.solve(joint, DATA) + np.linalg.slogdet(2.0 * math.pi * joint).logabsdet
    )
    return np.array([mean]), np.array([math.sqrt(variance)]), log_evidence


@pytest.mark.parametrize("sample, truth", [(smc2, on_a_grid), (smc, of_conjugates)], ids=["SMC2", "SMC"])
def test_draws_and_evidence_are_exact(sample, truth):
    """Means of 40 populations and the evidence are within four standard errors estimated between them; sds
    within a tenth, which 2,000 effective draws allow."""
    found = sample(n_chains=40, n_draws=100, length=10, seed=1, space="threads")
    means, sds, log_evidence = truth()
    of_chains = found.draws.mean(axis=1)
    error = of_chains.std(axis=0, ddof=1) / math.sqrt(40)
    assert (np.abs(of_chains.mean(axis=0) - means) <= 4 * error).all() and (error < 0.1 * sds).all()
    assert_allclose(found.draws.std(axis=(0, 1)), sds, rtol=0.1)
    assert 0.0 < found.log_evidence_error < 0.1 and (found.acceptance > 0.1).all() and found.complete
    assert abs(found.log_evidence - log_evidence) < 4 * found.log_evidence_error


@BOTH
def test_the_same_draws_on_every_space(sample, space):
    """The bits are those of the serial space, and of several spaces at once; plain Python may round a
    logarithm differently.
    """
    few = {"observations": Y[:3]} if sample is smc2 else {"data": DATA[:3]}
    few = few | {"n_draws": 4, "length": 2} if space == "checked" else {}
    if "observations" in few:
        sample = functools.partial(sample_smc2, LG, few.pop("observations"), 4, **SHORT)
    here, serial = (sample(**few, space=name) for name in (space, "serial"))
    if space == "checked":
        assert_allclose(here.draws, serial.draws, rtol=1e-12)
        return
    both = sample(space=[space, "serial"])
    for found in (here, both):
        assert_array_equal(found.draws, serial.draws)
        assert_array_equal(found.log_likelihood, serial.log_likelihood)
        assert found.log_evidence == serial.log_evidence
    assert len(np.unique(serial.draws)) > 10


def test_how_far_filters_go_ahead_changes_nothing(monkeypatch):
    """Increments of filters that continued, were run ahead, or began again are the same to the last bit."""
    found = []
    for ahead in (1, 3, 100):
        monkeypatch.setattr(populations, "_AHEAD", ahead)
        found.append(smc2())
    for one in found[1:]:
        assert_array_equal(one.draws, found[0].draws)
        assert one.log_evidence == found[0].log_evidence


@BOTH
def test_a_checkpoint_goes_on_to_the_same_draws(sample, tmp_path, monkeypatch):
    whole, before, steps = sample(), Populations.step, []

    def stops(self, number, warm):
        if number == 2:
            raise KeyboardInterrupt
        before(self, number, warm)

    monkeypatch.setattr(Populations, "step", stops)
    with pytest.raises(KeyboardInterrupt) as stop:
        sample(checkpoint=tmp_path / "populations")
    cut = stop.value.posterior
    assert not cut.complete and cut.draws.shape == whole.draws.shape
    assert cut.notes[0].startswith("stopped: draws are those after ") and math.isfinite(cut.log_evidence)
    monkeypatch.setattr(
        Populations, "step", lambda self, number, warm: (steps.append(number), before(self, number, warm))
    )
    again = sample(checkpoint=tmp_path / "populations")
    assert_array_equal(again.draws, whole.draws)
    assert again.complete and steps[0] == 2 and again.log_evidence == whole.log_evidence
    with pytest.raises(InputError, match="belongs to another run: seed is 5 there, 6 here"):
        sample(seed=6, checkpoint=tmp_path / "populations")


def test_what_is_kept_of_the_evidence(tmp_path):
    found = smc()
    found.save(tmp_path / "draws.nc")
    again = type(found).load(tmp_path / "draws.nc")
    assert (again.log_evidence, again.log_evidence_error) == (found.log_evidence, found.log_evidence_error)
    assert f"log-evidence {found.log_evidence:.3f} +- {found.log_evidence_error:.2g}" in found.lines()


def test_what_has_not_converged_is_told():
    with pytest.warns(RuntimeWarning, match="one population does not tell the error of its evidence"):
        found = smc(n_chains=1)
    assert math.isnan(found.log_evidence_error)
    with pytest.warns(RuntimeWarning, match=r"tell the log-evidence to \+-"):
        found = sample_smc2(LG, 9.0 * Y, 4, **SHORT)
    assert len(found.notes) == 2 and "not converged" in found.notes[0]


def test_nan_is_counted_and_named():
    options = {"priors": {"a": priors.uniform(-1.0, 2.9)}, "n_chains": 2, "n_draws": 20, "length": 5}
    with np.errstate(all="ignore"), pytest.warns(RuntimeWarning, match="log-likelihoods were NaN.*with a = "):
        found = sample_smc2(MODEL, NAN_Y, 30, **options)
    assert found.n_nan.sum() > 0 and (found["a"] > 0.3).all() and np.isfinite(found.log_likelihood).all()
    with np.errstate(all="ignore"), pytest.raises(FiniteError, match=r"gave nan .*, with a = "):
        sample_smc2(MODEL, NAN_Y, 30, **options, on_nan="raise")
    with pytest.raises(FiniteError, match="log_likelihood gave nan or inf, with mu = .*, sd = -1"):
        smc(fixed={"sd": -1.0}, on_nan="raise")


test_wrong_calls = refusals(
    [
        (smc2, {"n_draws": 22}, InputError, "n_draws is 22 and length 5; expected a multiple of length"),
        (smc2, {"look_ahead": 0.5}, DTypeError, "look_ahead must be marked"),
        (smc2, {"length": 1}, InputError, "length is 1; expected at least 2"),
        (smc2, {"renew_below": 1.5}, InputError, "renew_below is 1.5; expected a share between 0 and 1"),
        (smc2, {"start": {"phi": 0.5}}, InputError, "start is not for populations, which begin as draws"),
        (smc2, {"priors": {"phi": PRIORS["phi"]}}, InputError, "sigma neither in priors nor in fixed"),
        (smc, {"inputs": DATA}, InputError, "inputs is not for populations"),
        (smc, {"data": np.zeros((2, 2, 2))}, ShapeError, r"data has shape \(2, 2, 2\)"),
        (smc, {"data": ["a"]}, DTypeError, "data must hold real numbers"),
        (smc, {"priors": None}, DTypeError, "priors must be a dict"),
        (smc, {"fixed": None}, InputError, "log_likelihood reads .* beyond its end.*params has 1 number"),
        (
            smc,
            {"data": np.full(3, 1e200)},
            InputError,
            "no parameters of population 0 explain the data, at",
        ),
    ],
    lambda sample, given: sample(**given),
)


def test_what_is_no_log_likelihood():
    with pytest.raises(DTypeError, match="log_likelihood must be marked with @pk.function"):
        sample_smc(math.log, priors=PRIORS)
    with pytest.raises(InputError, match="n_particles is 5000; SMC.2 has at most 4096"):
        sample_smc2(LG, Y, 5000, **SHORT)
    with pytest.raises(InputError, match="no parameters of population 0 explain observation 1"):
        sample_smc2(LG, [0.5, 1e200, 0.5], 8, **SHORT)
