"""Compare delay, dimension, rolling origins and many views with plain NumPy."""

from itertools import combinations

import numpy as np
import pandas
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal

import portable as pk
from portable.models import edm

from ...refusals import refusals
from . import reference
from .series import driver_and_driven, logistic_maps


def slow_series(n=400):
    return np.sin(np.arange(n) / 6) + 0.1 * default_rng(3).normal(size=n)


def information(x, lag, n_bins):
    """Return the mutual information by sums over all pairs of bins."""
    edges = np.quantile(x, np.arange(1, n_bins) / n_bins)
    bins, total = np.searchsorted(edges, x, side="right"), 0.0
    now, before = bins[lag:], bins[: len(x) - lag]
    for a in range(n_bins):
        for b in range(n_bins):
            both = np.mean((now == a) & (before == b))
            if both:
                total += both * np.log(both / (np.mean(now == a) * np.mean(before == b)))
    return total


def test_delay_by_mutual_information():
    x = slow_series()
    found = edm.embedding_delay(x, 15, n_bins=8)
    wanted = [information(x, lag, 8) for lag in range(16)]
    assert_allclose(found.information, wanted, rtol=1e-12)
    assert found.best == next(lag for lag in range(1, 15) if wanted[lag + 1] > wanted[lag])
    assert 7 <= edm.embedding_delay(slow_series(5000)).best <= 12  # a quarter of a cycle is 9.4 steps
    assert edm.embedding_delay(np.arange(50.0), 3).best == 0
    assert edm.Delays.__name__ in repr(found) and list(found.to_pandas().columns) == ["lag", "information"]


def test_information_stays_within_segments():
    x = slow_series(200)
    names = np.repeat(["a", "b"], 100)
    missing = x.copy()
    missing[150] = np.nan
    found = edm.embedding_delay(missing, 4, n_bins=4, segments=names)
    edges = np.nanquantile(missing, [0.25, 0.5, 0.75])
    bins = np.searchsorted(edges, missing, side="right")
    for lag in range(5):
        pairs = [
            (bins[t], bins[t - lag])
            for t in range(lag, 200)
            if names[t] == names[t - lag] and 150 not in (t, t - lag)
        ]
        table = np.zeros((4, 4))
        np.add.at(table, tuple(np.array(pairs).T), 1 / len(pairs))
        apart = np.outer(table.sum(axis=1), table.sum(axis=0))
        inside = table > 0
        wanted = (table[inside] * np.log(table[inside] / apart[inside])).sum()
        assert found.information[lag] == pytest.approx(wanted, rel=1e-12)


def false_share(x, E, tau, ratio=15.0, size=2.0, part=None):
    """Return the share of false neighbours by all distances between points."""
    n = len(x) - E * tau
    part = np.zeros(len(x)) if part is None else part
    rows = reference.embedded(x, E, tau)[:n]
    whole = np.array([len(set(part[i : i + E * tau + 1])) == 1 for i in range(n)])
    false = []
    for i in np.flatnonzero(whole):
        d = np.sqrt(((rows - rows[i]) ** 2).sum(axis=1))
        d[i] = np.inf
        d[~whole] = np.inf
        j = int(np.argmin(d))
        ahead = abs(x[i + E * tau] - x[j + E * tau])
        false.append(ahead > ratio * d[j] or np.hypot(ahead, d[j]) > size * x.std())
    return np.mean(false)


def test_false_neighbours(space):
    x = driver_and_driven(40 if space == "checked" else 300)[:, 1]
    found = edm.false_neighbours(x, 3, tau=1, space=space)
    assert_allclose(found.share, [false_share(x, E, 1) for E in (1, 2, 3)], rtol=1e-12)
    assert found.E.tolist() == [1, 2, 3]
    part = np.repeat([0, 1], len(x) // 2)
    cut = edm.false_neighbours(x, 2, tau=2, segments=part, space=space)
    assert_allclose(cut.share, [false_share(x, E, 2, part=part) for E in (1, 2)], rtol=1e-12)


def test_noise_has_false_neighbours_at_any_dimension():
    noise = default_rng(0).normal(size=300)
    found = edm.false_neighbours(noise, 8)
    assert found.best == 0 and found.share.min() > 0.05
    logistic = edm.false_neighbours(driver_and_driven(300)[:, 0], 3)
    assert logistic.best == 1 and list(logistic.to_pandas().columns) == ["E", "share"]


@pytest.mark.parametrize("length", [None, 60])
def test_a_rolling_origin_knows_the_past_alone(space, length):
    x = logistic_maps(50 if space == "checked" else 120, 1)[:, 0]
    start = len(x) - 20
    found = edm.rolling_origin(x, 2, start, step=3, length=length, space=space)
    origins = range(start, len(x), 3)
    wanted = []
    for t in origins:
        past = x[max(t + 1 - (length or len(x)), 0) : t + 1]
        wanted.append(reference.simplex(past, past, 2)[-1])
    assert_allclose(found.predicted, wanted, rtol=1e-9)
    assert_array_equal(found.times, [t + 1 for t in origins])
    assert_array_equal(found.observed, [x[t + 1] if t + 1 < len(x) else np.nan for t in origins])
    changed = x.copy()
    changed[-5:] = 0.5  # later values have no effect
    again = edm.rolling_origin(changed, 2, start, step=3, length=length, space=space)
    past = np.array(origins) < len(x) - 5
    # except for the mean and the spread, which affect the rounding of sums
    assert_allclose(again.predicted[past], found.predicted[past], rtol=1e-12)


def test_a_rolling_origin_of_s_maps():
    x = logistic_maps(80, 1)[:, 0]
    found = edm.rolling_origin(x, 2, 70, theta=2.0)
    one = edm.smap(x, 2, theta=2.0, lib=(0, 75), pred=(74, 75))
    assert found.predicted[4] == one.predicted[0, 0] and np.isnan(found.variance).all()
    assert edm.skill(found.predicted, found.observed).n == 9


def test_many_views(space):
    n = 40 if space == "checked" else 160
    x, half = driver_and_driven(n), n // 2
    keys = {"lib": (0, half), "pred": (half, n), "space": space}
    found = edm.multiview(x, 2, n_lags=2, **keys)
    block = np.full((n, 4), np.nan)  # driver at lags 0 and 1, driven at lags 0 and 1
    block[:, [0, 2]], block[1:, [1, 3]] = x, x[:-1]
    views = [v for v in combinations(range(4), 2) if 0 in v or 2 in v]
    assert len(views) == 5
    skills, guesses = [], []
    for view in views:
        own = {}
        for name, points in (("lib", (0, half)), ("pred", (half, n))):
            chosen = edm.simplex(
                block[:, view], target=x[:, 0], k=3, lib=(0, half), pred=points, space="serial"
            )
            own[name] = chosen.predicted, chosen.observed
        skills.append(reference.rho(*own["lib"]))
        guesses.append(own["pred"])
    best = np.argsort(-np.array(skills), kind="stable")[:2]  # the root of 5
    assert_allclose(found.rho, np.array(skills)[best], atol=1e-9)
    names = "0(t) 0(t-1) 1(t) 1(t-1)".split()
    assert found.views == [[names[c] for c in views[v]] for v in best]
    assert_allclose(found.prediction.predicted, np.mean([guesses[v][0] for v in best], axis=0), atol=1e-12)
    assert found.prediction.rho == pytest.approx(
        reference.rho(found.prediction.predicted, guesses[0][1]), abs=1e-9
    )


def test_views_of_a_table_have_its_names_and_dates(tmp_path):
    months = pandas.date_range("2001-01-01", periods=120, freq="MS")
    table = pandas.DataFrame(driver_and_driven(120), columns=["a", "b"], index=months)
    found = edm.multiview(table, 2, columns=["a", "b"], target="b", n_views=3, tau=2)
    assert len(found.views) == 3 and set(sum(found.views, [])) <= {
        f"{c}({t})" for c in "ab" for t in ("t", "t-2", "t-4")
    }
    assert found.prediction.to_pandas().time.iloc[-1] == pandas.Timestamp("2011-01-01")
    found.save(tmp_path / "views.npz")
    again = edm.Multiview.load(tmp_path / "views.npz")
    assert again.views == found.views and again.prediction.rho == found.prediction.rho


test_what_cannot_be_is_refused_by_name = refusals(
    [
        (lambda x: edm.embedding_delay(x, 40), "max_lag is 40; expected 1 to 39"),
        (lambda x: edm.embedding_delay(np.c_[x, x]), "series has 2 columns; expected one series"),
        (
            lambda x: edm.embedding_delay(x, 25, segments=np.repeat([0, 1], 20)),
            "no two values have a distance of 20",
        ),
        (lambda x: edm.false_neighbours(x, 2, ratio=0), "ratio is 0; expected more than 0.0"),
        (lambda x: edm.false_neighbours(np.c_[x, x]), "library has 2 columns"),
        (lambda x: edm.rolling_origin(x, 2, 40), "start is 40; expected 0 to 39"),
        (lambda x: edm.rolling_origin(x, 2, 1), "k is 3, but the library has"),
        (lambda x: edm.multiview(np.c_[x, x[::-1]], 7), "E is 7; expected 1 to 6"),
        (lambda x: edm.multiview(np.c_[x, x[::-1]], 2, n_views=99), "n_views is 99; expected 1 to 9"),
    ],
    lambda call: call(logistic_maps(40, 1)[:, 0]),
    error=(pk.InputError, pk.ShapeError),
)
