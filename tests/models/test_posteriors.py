"""Test the convergence of draws, compared with ArviZ; that every sampler reports it; resuming after
Ctrl-C."""

import _thread
import signal
import threading

import arviz_stats
import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_array_equal

from portable.errors import InputError
from portable.models import hawkes, resampling
from portable.models.shared import posteriors
from portable.models.mixture import DirichletMixture

from .resampling.test_inference import FIXED, LG, PRIORS, Y


def autoregressive(n_chains, n_draws, phi, seed):
    rng = default_rng(seed)
    x = rng.normal(size=(n_chains, n_draws))
    for t in range(1, n_draws):
        x[:, t] += phi * x[:, t - 1]
    return x


@pytest.mark.parametrize("phi", [-0.5, 0.0, 0.5, 0.95])
@pytest.mark.parametrize("n_chains, n_draws", [(2, 8), (8, 51), (4, 200), (3, 1001)])
def test_r_hat_and_effective_draws_are_those_of_arviz(phi, n_chains, n_draws):
    x = autoregressive(n_chains, n_draws, phi, 1)
    for draws in (x, np.round(x), np.exp(3.0 * x), x + np.arange(n_chains)[:, None]):
        assert posteriors.r_hat(draws) == pytest.approx(float(arviz_stats.rhat(draws)), rel=1e-12)
        assert posteriors.effective(draws) == pytest.approx(
            float(arviz_stats.ess(draws, method="bulk")), rel=1e-9
        )


def test_what_is_said_of_draws():
    good = {"a": autoregressive(4, 2000, 0.3, 1)}
    assert posteriors.mixing(good, "") == ()
    stuck = good | {"b": np.zeros((4, 2000)), "c": good["a"] + np.arange(4)[:, None]}
    (said,) = posteriors.mixing(stuck, "go on")
    assert "b nan and nan, c " in said and said.endswith("at least 400: go on") and "a " not in said[70:80]
    assert "7 of each chain are too few" in posteriors.mixing({"a": good["a"][:, :7]}, "")[0]
    for n in (1, 2, 3):  # of a call that was interrupted early
        found = posteriors.summary(good["a"][:1, :n])
        assert np.isnan([found["r_hat"], found["ess_tail"], found["mcse"]]).all()
        assert np.isnan(found["sd"]) == (n == 1) and found["mean"] == good["a"][0, :n].mean()


def pmmh(**options):
    return resampling.sample_pmmh(
        LG, Y, 20, priors=PRIORS, fixed=FIXED, n_chains=2, space="serial", **options
    )


def gibbs(**options):
    return resampling.sample_gibbs(
        LG, Y, 20, priors=PRIORS, fixed=FIXED, n_chains=2, space="serial", **options
    )


def metropolis(**options):
    rng = default_rng(1)
    times = np.sort(rng.uniform(0.0, 1000.0, 200))
    likelihood = hawkes.Likelihood(rng.normal(size=(200, 2)), times, space="serial")
    starts = [hawkes.Parameters(0.5, 1.6, 336.0, 0.3, 1.0, 1.0)] * 2
    return hawkes.sample_posterior(likelihood, n_chains=2, start=starts, **options)


def assignments(**options):
    X = default_rng(1).normal(size=(200, 2)) + np.repeat([[0.0], [6.0]], 100, axis=0)
    model = DirichletMixture(3, random_state=0, space="serial").fit(X)
    return model.sample_posterior(X, **options)


SAMPLERS = [pmmh, gibbs, metropolis, assignments]


@pytest.mark.parametrize("sample", SAMPLERS, ids=lambda call: call.__name__)
def test_every_sampler_says_that_draws_have_not_converged(sample, tmp_path):
    with pytest.warns(
        posteriors.MixingWarning, match="the draws have not converged: .*expected .*: take more"
    ) as told:
        found = sample(n_draws=12, n_warmup=2, seed=1)
    assert found.notes == (str(told[0].message),) and told[0].filename == __file__
    found.save(tmp_path / "draws.nc")
    assert type(found).load(tmp_path / "draws.nc").notes == found.notes


@pytest.mark.parametrize("sample", [pmmh, metropolis], ids=lambda call: call.__name__)
def test_files_of_before_load_and_those_of_another_family_say_whose_they_are(sample, tmp_path):
    """An earlier file has no family, and numbers in place of JSON."""
    for module in ("h5netcdf", "arviz_base"):
        pytest.importorskip(module)
    with posteriors.mixing_looked_at():
        found = sample(n_draws=9, n_warmup=2, seed=1)
    tree = found.to_arviz()
    del tree["posterior"].attrs["family"]
    if sample is metropolis:
        tree["posterior"].attrs["attained_error"] = found.attained_error
    tree.to_netcdf(tmp_path / "before.nc", engine="h5netcdf")
    again, frame = type(found).load(tmp_path / "before.nc"), found.to_pandas()
    for name in "names fixed priors method seed complete".split():
        assert getattr(again, name) == getattr(found, name)
    assert getattr(again, "attained_error", 0.0) == getattr(found, "attained_error", 0.0)
    assert_array_equal(frame[found.names[0]].to_numpy(), again.draws[:, :, 0].ravel())
    assert_array_equal(frame["log_likelihood"].loc[1], again.log_likelihood[1])
    found.save(tmp_path / "now.nc")
    other = hawkes.Posterior if sample is pmmh else resampling.Posterior
    with pytest.raises(InputError, match=f"holds draws of portable.models.{found.family}, whose Posterior"):
        other.load(tmp_path / "now.nc")


@pytest.fixture
def pythons_handler():
    """Restore Python's handler of Ctrl-C: that of dask_jobqueue, from another test of the process, ends the
    process.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("pythons_handler")
@pytest.mark.parametrize("sample", SAMPLERS, ids=lambda call: call.__name__)
def test_ctrl_c_leaves_the_draws(sample, tmp_path):
    """One interruption ends the run, wherever it occurs; it resumes from a checkpoint."""
    folder, whole = tmp_path / "kept", None
    for seconds in (1.0, 2.0, 4.0, 8.0):
        timer = threading.Timer(seconds, _thread.interrupt_main)
        timer.start()
        try:
            sample(n_draws=1_000_000, n_warmup=3, seed=1, checkpoint=folder)
            raise AssertionError("it was not interrupted")
        except KeyboardInterrupt as stop:
            whole = getattr(stop, "posterior", None)
        finally:
            timer.cancel()
        if whole is not None:
            break
    assert whole is not None
    chains = whole.alpha[None] if sample is assignments else whole.log_likelihood
    assert 0 < chains.shape[1] < 1_000_000
    if sample is not assignments:
        assert not whole.complete and np.isfinite(whole.draws).all()
    n = min(chains.shape[1], 20)
    again = sample(n_draws=n, n_warmup=3, seed=1)
    drawn = again.alpha[None] if sample is assignments else again.log_likelihood
    assert_array_equal(drawn, chains[:, :n])
