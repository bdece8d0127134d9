"""Compare derivatives with central differences of the reference; test the fit by known parameters and its
score.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

import portable as pk
from portable.models.hawkes import (
    fit,
    compose,
    simulate,
    Background,
    Likelihood,
    Parameters,
    gamma,
    half_normal,
    log_normal,
    uniform,
)
from portable.models.hawkes.priors import log_prior, slopes_of_prior
from portable.models.shared.priors import beta
from portable.models.hawkes.windows import choose
from portable.errors import DTypeError, InputError

from ...refusals import refusals
from . import reference
from .events import FEW, NINE, PARAMS, prepared, random_events

TWO = compose(2)(mu0=0.7, tau_x=1.6, tau_t=20.0, theta=0.3, h=0.4, omega_1=2.0, omega_2=0.1, weight_2=0.5)


def differences(function, params):
    """Return derivatives in each parameter by fourth-order differences: errors of 1e-16 (value / step) and of
    step^4."""
    found = []
    for name, value in zip(params.names(), params.values()):
        step = 1e-3 * value
        at = {k: function(replace(params, **{name: value + k * step})) for k in (-2, -1, 1, 2)}
        found.append((8 * (at[1] - at[-1]) - (at[2] - at[-2])) / (12 * step))
    return np.array(found)


@pytest.mark.parametrize("method", ["all_pairs", "windowed", "cells"])
def test_gradient(space, method):
    locations, times = random_events(41)
    options = {"background_self": False}
    wanted = differences(
        lambda p: reference.log_likelihood(locations, times, p, horizon_h=times[-1] + 3.0, **options), PARAMS
    )
    likelihood = Likelihood(
        locations, times, method=method, horizon_h=times[-1] + 3.0, space=space, **options
    )
    value, slopes = likelihood.gradient(PARAMS)
    assert value == pytest.approx(likelihood.log_likelihood(PARAMS), rel=1e-13)
    # the step is 1e-3 of a value, to the fourth power; and pairs are left out
    assert_allclose(slopes, wanted, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("method", ["all_pairs", "windowed", "cells"])
def test_several_at_once_have_the_same_bits(space, method):
    """This holds also if the windows widen first, for an event far from all others. Lists of pairs are
    reused, so that with cells the order of a sum depends on earlier calls."""
    n = 30 if space == "checked" else 200
    locations, times = random_events(n)
    locations[n // 2] += 40.0
    options = {"method": method, "error_bound": 1e-6, "background_self": False, "space": space}
    likelihood = Likelihood(locations, times, **options)
    several = [PARAMS, replace(PARAMS, tau_x=20.0), replace(PARAMS, h=0.5), PARAMS]
    found, wanted = likelihood.log_gradients(several), [likelihood.log_gradient(p) for p in several]
    for (value, slopes), (other, others) in zip(found, wanted):
        assert value == pytest.approx(other, rel=1e-13 if method == "cells" else 0.0)
        assert_allclose(slopes, others, rtol=1e-12 if method == "cells" else 0.0)
    first = choose(PARAMS, 2, n, likelihood.sums.span_h, 1e-6)
    assert method == "all_pairs" or likelihood.windows.cut > first.cut


@pytest.mark.parametrize(
    "method, given", [("windowed", False), ("windowed", True), ("cells", False), ("cells", True)]
)
def test_several_take_one_launch_of_each_kernel(space, method, given):
    """One launch evaluates several parameters if the same background and list of pairs serve them all, with
    the bits of separate calls."""
    n = 30 if space == "checked" else 700
    locations, times = random_events(n)
    background = Background(np.full(n, 0.1), 5.0) if given else None
    likelihood = Likelihood(locations, times, method=method, background=background, space=space)
    changes = {"h": 1.1 * PARAMS.h}, {"omega": 1.2 * PARAMS.omega, "theta": 0.9}, {"mu0": 2.0}
    several = [PARAMS, *(replace(PARAMS, **change) for change in changes)]
    wanted, labels = [likelihood.log_gradient(params) for params in several], []
    with pk.listening(lambda phase, what, launch: phase == "begin" and labels.append(launch.label)):
        found = likelihood.log_gradients(several)
    assert labels == ["hawkes.excitations_of_several", "hawkes.slopes_of_several"]
    assert likelihood.method == method
    for (value, slopes), (other, others) in zip(found, wanted):
        assert value == other and slopes.tolist() == others.tolist()
    likelihood.log_gradient(replace(PARAMS, h=9.0))  # makes another list of pairs
    for _ in range(2):
        (value, slopes), *_ = likelihood.log_gradients(several)
        assert value == pytest.approx(wanted[0][0], rel=1e-12)
        assert_allclose(slopes, wanted[0][1], rtol=1e-9)


def test_slopes_of_priors():
    """Compare with differences of the log-density at many places; coordinates of h are 1/h."""
    priors = {"theta": gamma(2.0, 3.0), "omega": log_normal(1.5, 0.7), "1/h": half_normal(4.0)}
    free, several = ("theta", "omega", "h"), [PARAMS, replace(PARAMS, theta=1.1, omega=0.2, h=3.0)]
    values = np.array([[getattr(params, name) for name in free] for params in several])
    wanted = [
        differences(lambda p: log_prior(p, priors, free), params)[3:] * row
        for params, row in zip(several, values)
    ]
    found = slopes_of_prior(values, type(PARAMS), priors, free)
    assert_allclose(found, wanted, rtol=1e-9)


def test_the_information_is_computed_once_a_place():
    """It is computed together with the value; at the end of a converged fit it is stored already."""
    asked, whole = [], Likelihood(*random_events(100), space="serial")

    class Asked(Likelihood):
        log_gradient = None

        def log_gradients(self, several):
            asked.append(several)
            return whole.log_gradients(several)

    found = fit(Asked(*random_events(100), space="serial"), start=PARAMS)
    assert found.converged and len(asked) == found.n_iterations == len({several[0] for several in asked})
    assert {len(several) for several in asked} == {1 + 2 * len(found.free)}


def test_gradient_in_mixed_precision(space):
    locations, times = random_events(41)
    exact, mixed = (
        Likelihood(locations, times, method="all_pairs", dtype=p, space=space).gradient(PARAMS)[1]
        for p in ("float64", "mixed")
    )
    assert_allclose(mixed, exact, rtol=1e-5, atol=1e-5)  # float32 terms, of both signs


def test_several_time_scales(space):
    """Compare with the one-scale reference: the triggering function is linear in its scales."""
    locations, times = random_events(13 if space == "checked" else 41)
    mu, _ = reference.rates(locations, times, PARAMS)
    xi, expected = 0.0, 0.0
    for omega, share in ((2.0, 1 / 1.5), (0.1, 0.5 / 1.5)):
        one = replace(PARAMS, theta=0.3 * share, omega=omega)
        xi = xi + reference.rates(locations, times, one)[1]
        expected = expected + reference.expected_counts(times, one)
    # the background is contained in both
    expected = expected - reference.expected_counts(times, replace(PARAMS, theta=1e-15))
    likelihood = Likelihood(locations, times, method="windowed", space=space)
    assert likelihood.log_likelihood(TWO) == pytest.approx(
        float(np.sum(np.log(mu + xi) - expected)), rel=1e-9
    )
    assert_allclose(likelihood.excitation_probabilities(TWO), xi / (mu + xi), rtol=1e-9, atol=1e-12)
    for method in ("windowed", "cells"):
        other = Likelihood(locations, times, method=method, space=space)
        assert_allclose(other.gradient(TWO)[1], differences(other.log_likelihood, TWO), rtol=1e-6, atol=1e-7)


def known(space="serial", n_immigrants=400.0, horizon_h=4000.0):
    """Simulate events; return their true parameters, their times, and a likelihood with the background used
    in the simulation."""
    truth = Parameters(mu0=1.0, tau_x=1.0, tau_t=1.0, theta=0.4, omega=2.0, h=0.05)
    made = simulate(truth, n_immigrants=n_immigrants, horizon_h=horizon_h, seed=5)
    inside = ((made.locations >= 0.0) & (made.locations <= 10.0)).all(axis=1)
    density = np.where(inside, n_immigrants / (100.0 * horizon_h), 0.0)
    background = Background(density, n_immigrants, n_immigrants * made.times / horizon_h)
    how = {"background": background, "horizon_h": horizon_h, "space": space}
    return truth, made.times, Likelihood(*made[:2], **how)


def test_fit_finds_the_truth(space):
    """Recover each parameter within four standard errors: one false alarm in four thousand, with a fixed
    seed.
    """
    if space == "checked":
        pytest.skip("hundreds of evaluations of 700 events are too slow in plain Python")
    truth, _, likelihood = known(space)
    found = fit(likelihood)
    assert found.converged and found.free == ("mu0", "theta", "omega", "h")
    for name in found.free:
        assert abs(getattr(found.params, name) - getattr(truth, name)) < 4 * found.standard_errors[name]
        low, high = found.interval(name)
        assert low < getattr(found.params, name) < high
    with pytest.raises(InputError, match="level is 95; expected a share between 0 and 1: 0.95 for 95 %"):
        found.interval("theta", 95)
    # a Newton step from there gains below 1e-8
    assert np.abs(likelihood.log_gradient(found.params)[1]).max() < 1e-2
    assert likelihood.log_likelihood(found.params) > likelihood.log_likelihood(truth)


def test_standard_errors_are_those_of_counts():
    """If all parents are certain, theta is a number of offspring over a number of events: sd sqrt(theta /
    n)."""
    _, times, likelihood = known()
    found = fit(likelihood)
    wanted = (found.params.theta / len(times)) ** 0.5
    assert found.standard_errors["theta"] == pytest.approx(wanted, rel=0.05)


def test_posterior_mode(space):
    """A narrow prior determines the mode, a flat one changes nothing, and tau is estimated if the event's own
    term is omitted.
    """
    if space == "checked":
        pytest.skip("hundreds of evaluations are too slow in plain Python")
    locations, times, likelihood = prepared(41, background_self=False, space=space)
    how = {"start": PARAMS, "fixed": ("theta", "omega", "h")}
    priors = {name: uniform(0.0, 1e6) for name in ("mu0", "1/tau_x", "1/tau_t")}
    flat = fit(likelihood, posterior=True, priors=priors, **how)
    plain = fit(likelihood, **how)
    assert_allclose(flat.params.values(), plain.params.values(), rtol=1e-4)
    sharp = fit(likelihood, posterior=True, priors={"mu0": half_normal(1e-3)}, **how)
    assert sharp.params.mu0 < 0.02 < plain.params.mu0


WRONG = [
    ({"fixed": "tau_x"}, DTypeError, "fixed must be a sequence"),
    ({"fixed": ("tau",)}, InputError, "fixed has 'tau', which is no parameter"),
    ({"fixed": PARAMS.names()}, InputError, "fixed holds every parameter"),
    ({"fixed": ()}, InputError, "tau_x is free with background_self=True"),
    (
        {"priors": {"h": half_normal(1)}, "posterior": True},
        InputError,
        "priors has 'h', which is no coordinate; expected one of mu0",
    ),
    (
        {"priors": {"theta": uniform(-1.0, 0.5)}, "posterior": True},
        InputError,
        r"priors\['theta'\] is uniform, -1 to 0.5; expected a density from 0 on, not beta",
    ),
    (
        {"priors": {"theta": beta(1.0, 2.0)}, "posterior": True},
        InputError,
        r"priors\['theta'\] is beta, a 1, b 2; expected a density",
    ),
    ({"priors": {"1/h": 3.0}, "posterior": True}, DTypeError, r"priors\['1/h'\] must be made by half_normal"),
    (
        {"priors": {"theta": uniform(0.5, 0.9)}, "posterior": True},
        InputError,
        "start: theta = 0.3 has no density under its prior",
    ),
    ({"priors": {"theta": half_normal(1)}}, InputError, "priors are given but posterior is False"),
    ({"max_iter": 0}, InputError, "max_iter is 0"),
    ({"start": (1, 2)}, DTypeError, "params must be hawkes.Parameters"),
]


test_wrong_calls = refusals(WRONG, lambda options: fit(FEW, **options))


def test_wrong_likelihoods():
    with pytest.raises(DTypeError, match="likelihood must be hawkes.Likelihood, got ndarray"):
        fit(np.zeros(3))
    given = Likelihood(*NINE, background=Background(np.ones(9), 9.0))
    with pytest.raises(InputError, match="tau_x is free, but the background is given"):
        fit(given, fixed=())
    with pytest.raises(DTypeError, match="background must be hawkes.Background or None"):
        Likelihood(*NINE, background=3.0)
    with pytest.raises(InputError, match=r"Background: density\[1\] is -1"):
        Background([1.0, -1.0], 1.0)
    nothing = Likelihood(1e9 * NINE[0][:3], NINE[1][:3], background_self=False)
    with pytest.raises(InputError, match="start: the log-likelihood is -inf"):
        fit(nothing)
    assert math.isinf(nothing.log_likelihood(PARAMS))
