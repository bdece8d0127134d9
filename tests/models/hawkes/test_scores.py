"""Test scores of forecasts, information gain, residuals in space, magnitudes: compared with loops, SciPy and
true values.
"""

import numpy as np
import pytest
from numpy.random import default_rng
from scipy import stats

from portable.errors import DTypeError, InputError, ShapeError
from portable.models import hawkes
from portable.models.hawkes import figures, Likelihood, Parameters

from ...refusals import refusals

TOWNS = np.array([[3.0, 3.5], [7.5, 6.0]])
YEAR, N, SD = 8766.0, 400, 0.6


def ahead(n_draws=200, seed=1):
    """Return draws of about 20 events over a square of 10 km, most on its left, with exponential marks."""
    random = default_rng(seed)
    counts = random.poisson(20, n_draws)
    places = [np.column_stack([10 * random.random(n) ** 2, 10 * random.random(n)]) for n in counts]
    marks = [random.exponential(0.4, n) for n in counts]
    return hawkes.Forecast(100.0, 200.0, counts, places, [random.uniform(100, 200, n) for n in counts], marks)


def test_numbers_places_and_marks():
    made = ahead()
    times = np.linspace(90.0, 199.0, 26)  # two of them precede the forecast
    random = default_rng(2)
    likely = np.column_stack([10 * random.random(26) ** 2, 10 * random.random(26)])
    likely[[0, 1]] = [0.1, 0.1], [9.9, 9.9]
    found = hawkes.score_forecast(made, times, likely, random.exponential(0.4, 26))
    n = int((times >= 100.0).sum())
    assert found.n_events == n
    assert found.number == ((made.counts >= n).mean(), (made.counts <= n).mean())
    assert 0.05 < found.places < 0.95 and 0.05 < found.marks
    mirrored = likely.copy()
    mirrored[:, 0] = 10.0 - likely[:, 0]
    assert hawkes.score_forecast(made, times, mirrored).places < 0.01
    large = hawkes.score_forecast(made, times, marks=random.exponential(2.0, 26))
    assert large.marks < 0.01 and large.places is None
    with pytest.warns(RuntimeWarning, match="none of 1 times is within the forecast's hours, 100 to 200"):
        assert hawkes.score_forecast(made, [5.0]).number == (1.0, 0.0)


def test_the_forecast_of_marks():
    kind = hawkes.compose("exponential", marks=True)
    truth = kind(1.0, 1.0, 336.0, 0.3, 0.1, 0.2, 0.5)
    made = hawkes.simulate(truth, n_immigrants=100, horizon_h=1000.0, seed=3)
    likelihood = Likelihood(*made[:2], marks=made.marks, reference_mark=0.0, horizon_h=1000.0, space="serial")
    found = hawkes.forecast(likelihood, truth, 200.0, n_draws=20, seed=1)
    assert [len(one) for one in found.marks] == found.counts.tolist() and found.counts.sum() > 20
    assert np.isin(np.concatenate(found.marks), made.marks).all()
    plain = hawkes.forecast(
        Likelihood(*made[:2], space="serial"),
        Parameters(1.0, 1.0, 1.0, 0.3, 0.1, 0.2),
        50.0,
        n_draws=2,
    )
    assert plain.marks is None
    with pytest.raises(InputError, match="marks need a forecast with marks"):
        hawkes.score_forecast(plain, [plain.begin_h], marks=[0.0])


def test_information_gain():
    random = default_rng(4)
    ours, theirs = random.normal(0.3, 1.0, 80), random.normal(0.0, 1.0, 80)
    found = hawkes.information_gain(ours, theirs, level=0.9)
    interval = stats.ttest_1samp(ours - theirs, 0.0).confidence_interval(0.9)
    assert (found.low, found.high) == pytest.approx(tuple(interval))
    assert found.gain == pytest.approx((ours - theirs).mean())
    assert found.p_value == pytest.approx(stats.wilcoxon(ours - theirs).pvalue)
    assert hawkes.information_gain(ours, ours).p_value == 1.0


def test_magnitudes():
    """b = 1.2 above 2.05; half of the smaller events are missing."""
    random = default_rng(5)
    marks = 1.05 + random.exponential(np.log10(np.e) / 1.2, 40_000)
    kept = np.round(marks[(marks > 2.05) | (random.random(40_000) < 0.05)], 1)
    found = hawkes.magnitudes(kept)
    assert found.completeness == pytest.approx(2.3) and abs(found.b - 1.2) < 3.0 * found.error
    exact = hawkes.magnitudes(marks, completeness=1.05, width=0.0)
    assert exact.n_events == 40_000 and exact.error == pytest.approx(1.2 / 200.0, rel=0.1)
    assert abs(exact.b - 1.2) < 3.0 * exact.error
    assert np.isnan(hawkes.magnitudes([2.0], completeness=2.0).b)


def density(places, sd=SD):
    r2 = ((places[:, None] - TOWNS) ** 2).sum(axis=2)
    return np.exp(-0.5 * r2 / sd**2).sum(axis=1) / (4.0 * np.pi * sd**2)


def likelihood_of(at, seed):
    """Return events around two towns, and a likelihood whose background has them at `at`."""
    random = default_rng(seed)
    places = TOWNS[random.integers(0, 2, N)] + random.normal(0.0, SD, (N, 2))
    times = np.sort(random.uniform(0.0, YEAR, N))
    background = hawkes.Background(N * at(places) / YEAR, N, at=lambda x, t: N * at(x) / YEAR)
    return Likelihood(places, times, background=background, horizon_h=YEAR, space="serial")


def test_residuals_in_space(space):
    params, box = Parameters(1.0, 1.0, 1.0, 1e-6, 1.0, 0.1), ((0.0, 10.0),) * 2
    right = hawkes.thinned_residuals(likelihood_of(density, 6), params, box_km=box)
    even = likelihood_of(lambda x: np.full(len(x), 0.01), 6)
    wrong = hawkes.thinned_residuals(even, params, box_km=box)
    assert right.p_value > 0.02 and wrong.p_value == 1 / 200
    # as many as at a constant rate: 400 are expected, within five standard deviations
    assert abs(len(right.times) - N) < 100 and right.rate == pytest.approx(N / 100.0 / YEAR, rel=0.01)
    assert right.is_event.any() and not right.is_event.all()
    assert figures.thinned_plot(right).get_title().startswith("even in space")


WRONG = [
    (lambda: hawkes.score_forecast(3, [1.0]), DTypeError, "ahead must come from hawkes.forecast, got int"),
    (
        lambda: hawkes.score_forecast(ahead(), [150.0], [[1.0, 2.0]] * 2),
        ShapeError,
        "locations has 2 entries",
    ),
    (
        lambda: hawkes.information_gain([1.0, 2.0], [1.0, 2.0]),
        InputError,
        "ours has 2 events; expected at least 3",
    ),
    (lambda: hawkes.information_gain([1.0] * 3, [1.0] * 4), ShapeError, "theirs has 4 entries for 3"),
    (
        lambda: hawkes.magnitudes([1.0, 2.0], completeness=5.0),
        InputError,
        "above all marks .the largest is 2",
    ),
    (lambda: hawkes.magnitudes([1.0, 2.0], width=0.0), InputError, "give completeness, or a width"),
]


test_wrong_calls = refusals(WRONG)
