"""Test the traits of a series that surrogates keep, and the warnings about series for which the default is
wrong."""

import warnings

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal

import portable as pk
from portable.models import edm
from portable.models.edm.surrogates import Surrogates, check_kinds, mean_cycle

from .series import logistic_maps


def autoregressive(n, phi, seed):
    random = default_rng(seed)
    noise, x = random.normal(size=n + 200), np.zeros(n + 200)
    for t in range(1, n + 200):
        x[t] = phi * x[t - 1] + noise[t]
    return x[200:]


@pytest.mark.parametrize("n", [48, 49])
def test_phase_surrogates_keep_the_spectrum(space, n):
    x = np.column_stack([autoregressive(n, 0.9, 1), autoregressive(n, 0.2, 2)])
    made = edm.surrogates(x, 3, seed=5, space=space)
    assert made.shape == (n, 2, 3) and abs(np.corrcoef(made[:, 0].T)[0, 1]) < 0.9
    wanted = abs(np.fft.rfft(x, axis=0))
    assert_allclose(abs(np.fft.rfft(made, axis=0)), wanted[:, :, None] * np.ones(3), rtol=0, atol=1e-10)


def test_phases_are_the_numbers_that_were_drawn():
    """Compare with the sum itself, with the layer's random numbers: surrogate k of series c has stream c 2^32
    + k.
    """
    x = autoregressive(30, 0.5, 1)
    found = edm.surrogates(np.column_stack([x, x]), 2, seed=7, space="serial")[:, 1, 1]
    j, t = np.arange(1, 15), np.arange(30)
    angle = 2 * np.pi * pk.random.uniform(7, (1 << 32) + 1, np.arange(16, dtype=np.uint64))
    size = abs(np.fft.rfft(x)) / 30
    wanted = size[0] * np.sign(x.mean()) + 2 * (
        size[1:15, None] * np.cos(2 * np.pi * np.outer(j, t) / 30 + angle[1:15, None])
    ).sum(axis=0)
    wanted += size[15] * (1 if angle[15] < np.pi else -1) * np.cos(np.pi * t)
    assert_allclose(found, wanted, rtol=0, atol=1e-12)


def test_lengths_without_factors_are_nearly_kept():
    """A length of 47 is transformed as 45 = 5 * 9, and the surrogate is rotated."""
    x = autoregressive(47, 0.9, 1)
    made = edm.surrogates(x, 2, space="serial")
    assert_allclose(
        abs(np.fft.rfft(made[:45], axis=0)),
        abs(np.fft.rfft(x[:45]))[:, None] * np.ones(2),
        rtol=0,
        atol=1e-10,
    )
    assert_array_equal(made[45:], made[:2])


def test_seasonal_surrogates_keep_the_cycle(space):
    t = np.arange(48)
    x = np.sin(2 * np.pi * t / 6) + 0.3 * autoregressive(48, 0.5, 3)
    made = edm.surrogates(x, 3, "seasonal", period=6, space=space)
    rest = made - mean_cycle(x[:, None], 6)[t % 6]
    own = x - mean_cycle(x[:, None], 6)[t % 6, 0]
    assert_allclose(
        abs(np.fft.rfft(rest, axis=0)), abs(np.fft.rfft(own))[:, None] * np.ones(3), rtol=0, atol=1e-10
    )


def test_random_and_block_surrogates_move_values(space):
    x = autoregressive(40, 0.5, 1)
    x[7] = np.nan
    with pytest.warns(RuntimeWarning, match="'random' destroys autocorrelation"):
        made = edm.surrogates(x, 4, "random", space=space)
    assert np.isnan(made[7]).all() and len(np.unique(made[0])) > 1
    assert_array_equal(np.sort(made, axis=0), np.sort(x)[:, None] * np.ones(4))
    made = edm.surrogates(np.arange(40.0), 4, "block", block=8, space=space)
    steps = np.diff(made, axis=0) % 40
    assert (np.delete(steps, [7, 15, 23, 31], axis=0) == 1).all() and len(np.unique(made[0])) > 1


def test_every_order_is_as_likely():
    """Draw 2,400 shuffles of four values; a chi-square of 23 degrees of freedom exceeds 49.7 once in a
    thousand seeds.
    """
    with pytest.warns(RuntimeWarning, match="'random'"):
        made = edm.surrogates(np.arange(4.0), 2400, "random", seed=1, space="serial").astype(int)
    counts = np.unique(made.T @ [64, 16, 4, 1], return_counts=True)[1]
    assert len(counts) == 24 and ((counts - 100) ** 2 / 100).sum() < 49.7


def test_twins_walk_along_the_attractor(space):
    """In a cycle of period 4 every point has twins: a surrogate is the cycle again, from any start. Without
    twins it is a shift."""
    x = np.tile([0.0, 1.0, 3.0, 1.5], 8)
    made = edm.surrogates(x, 6, "twin", E=2, space=space)
    follows = dict(zip(x, np.roll(x, -1)))
    assert (
        all(b == follows[a] for y in made.T for a, b in zip(y[:25], y[1:26])) and len(np.unique(made[0])) > 1
    )


def test_surrogates_do_not_depend_on_their_company():
    x = np.column_stack([autoregressive(40, 0.5, 1), autoregressive(40, 0.5, 2)])
    for method, keys in (("phase", {}), ("block", {}), ("twin", {"E": 2}), ("seasonal", {"period": 8})):
        many = edm.surrogates(x, 5, method, seed=3, space="serial", **keys)
        assert_array_equal(edm.surrogates(x[:, 0], 2, method, seed=3, **keys), many[:, 0, :2])


def test_traits():
    random = default_rng(1)
    t = np.arange(400)
    noise = autoregressive(400, 0.5, 4)
    assert edm.traits(noise) == edm.Traits(0, False, False)
    assert edm.traits(1.2 * np.sin(2 * np.pi * t / 12) + noise).period == 12
    assert edm.traits(np.where(random.random(400) < 0.1, noise, 0.0)).intermittent
    assert edm.traits(np.exp(2 * noise)).intermittent
    assert edm.traits(np.cumsum(random.normal(size=400))).drifting
    assert edm.traits(logistic_maps(400, 1)[:, 0]) == edm.Traits(0, False, False)


@pytest.mark.parametrize(
    "cycle", [[0, 0, 0, 4] + [0] * 8, [0, 0, 0.5, 1.5, 2.5, 1.5, 0.5, 0, 0, -1, -2, -0.5]]
)
def test_a_season_may_have_any_shape(cycle):
    """The season's lines are at 12, 6, 4 ... steps: surrogates of half of the cycle lose the common part of
    two series.
    """
    rejected = 0
    for seed in range(40):
        x = np.array(cycle)[np.arange(400) % 12][:, None] + np.column_stack(
            [0.87 * autoregressive(400, 0.5, 2 * seed), 0.87 * autoregressive(400, 0.5, 2 * seed + 1)]
        )
        assert edm.traits(x[:, 0]).period in (12, 24, 36, 48, 60, 84, 96)
        found = edm.cross_map_test(x, 3, libraries=[0], n_surrogates=19, stop_after=None)
        rejected += found.p_values[0, 1] <= 0.05
    assert rejected <= 7  # 2 are expected; more than 7 by chance in one of 1,000 such tests


def test_the_default_is_chosen_by_series():
    """Seasons, gaps, bursts and drifts have separate surrogates, and no series is refused because of
    another.
    """
    t, random = np.arange(200), default_rng(3)
    plain, gaps = autoregressive(200, 0.5, 5), autoregressive(200, 0.5, 7)
    gaps[20:23] = np.nan
    season = 10.0 * np.sin(2 * np.pi * t / 8) + autoregressive(200, 0.5, 6)
    bursts, walk = np.exp(3 * random.normal(size=200)), np.cumsum(random.normal(size=200))
    x = np.column_stack([plain, season, gaps, bursts, walk])
    with pytest.warns(RuntimeWarning, match="dataset: '4' may drift as a random walk"):
        kinds = check_kinds(x, None, None, None, "dataset", list("01234"))
    assert kinds == [("seasonal", 8), ("seasonal", 8), ("block", None), ("block", None), ("mirror", None)]
    assert check_kinds(x[:, :1], None, None, None, "dataset") == [("phase", None)]
    table = pk.empty((200, 5 * 3))
    Surrogates(x, kinds, 1).fill(table, 0, 3, 3)
    made = table.to_numpy().reshape(200, 5, 3)
    for c, (kind, period) in enumerate(kinds):
        whole = x if kind == "block" else np.nan_to_num(x)
        alone = edm.surrogates(whole, 3, kind, period=period, seed=1)
        # sums over one column and over several are rounded otherwise
        assert_allclose(made[:, c], alone[:, c], rtol=0, atol=1e-10)
    found = edm.cross_map_test(x[:, :4], 2, n_surrogates=3)
    assert found.n_tests == 12 and found.surrogate == "seasonal (8 steps) and block"


def test_no_table_of_independent_series_is_refused():
    """Test 100 series: some look seasonal, or drift, by chance; a refusal would affect one in ten such
    tables."""
    x = np.column_stack([autoregressive(400, 0.93, 100 + c) for c in range(100)])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = edm.cross_map_test(x, 2, n_surrogates=19, libraries=[0, 1])
    assert found.n_tests == 198 and all("may drift" in str(w.message) for w in caught)
    assert 0.005 <= np.nanmean(found.p_values <= 0.05) <= 0.12  # 10 of 198, two libraries


def test_mirrored_surrogates_keep_the_level_and_the_spectrum():
    """For a slow series whose ends differ, steps at the seam are as small as the others."""
    x = np.cumsum(default_rng(2).normal(size=300)) + 0.2 * np.arange(300)
    made = edm.surrogates(x, 20, "mirror")
    steps = np.std(np.diff(made, axis=0), axis=0)
    assert made.shape == (300, 20) and (steps < 1.5 * np.std(np.diff(x))).all()
    assert (np.std(np.diff(edm.surrogates(x, 20, "phase"), axis=0), axis=0) > 2.0).all()
