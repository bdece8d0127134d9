"""Test replicates: each method compared with loops over points in NumPy, which share no code with it; and
refusals."""

import subprocess
import sys

import numpy as np
import pandas
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal

from portable.errors import PortableError
from portable.models import edm
from portable.models.edm import calibrate

from ...refusals import refusals
from .series import logistic_maps

LENGTHS = {"north": 11, "south": 16, "east": 13}
NAMES = np.repeat(list(LENGTHS), list(LENGTHS.values()))
X = logistic_maps(40, 2)


def vector(columns, names, t, E, tau):
    """Return the point of a time, or None if a lag is in another replicate."""
    lags = t - tau * np.arange(E)
    if lags.min() < 0 or (names[lags] != names[t]).any():
        return None
    return columns[lags].T.ravel()


def has_target(names, t, Tp):
    return 0 <= t + Tp < len(names) and names[t + Tp] == names[t]


def neighbours(columns, names, t, E, tau, k, horizons=(0,), radius=0, lib=None):
    """Return distances and times of the k nearest of a point in its own or other replicates."""
    point, found = vector(columns, names, t, E, tau), []
    for s in range(len(names)):
        own = vector(columns, names, s, E, tau)
        near = names[s] == names[t] and abs(s - t) <= radius
        if own is None or near or not all(has_target(names, s, Tp) for Tp in horizons):
            continue
        if lib is None or names[s] in lib:
            found.append((np.sqrt(((own - point) ** 2).sum()), s))
    found.sort()
    return np.array([d for d, _ in found[:k]]), np.array([s for _, s in found[:k]])


def simplex(columns, y, names, E, tau=1, Tp=0, k=None, horizons=None, pred=None, **which):
    """Return (times, predictions, observations) of all points."""
    out = []
    for t in range(len(names)):
        if vector(columns, names, t, E, tau) is None or (pred and names[t] not in pred):
            continue
        d, s = neighbours(columns, names, t, E, tau, k or E + 1, horizons or (Tp,), **which)
        w = np.maximum(np.exp(-d / d[0]), 1e-6)
        out.append((t, w @ y[s + Tp] / w.sum(), y[t + Tp] if has_target(names, t, Tp) else np.nan))
    return np.array(out).T


def rho(predicted, observed):
    both = np.isfinite(observed)
    return np.corrcoef(predicted[both], observed[both])[0, 1]


def held(found, wanted, Tp=0):
    """Compare predictions, observations and skill; points that reach back beyond their replicate are NaN."""
    t, predicted, observed = wanted
    row = np.searchsorted(found.times - Tp, t)
    assert_allclose(found.predicted[row], predicted, rtol=0, atol=1e-12)
    assert_array_equal(found.observed[row], observed)
    assert np.isnan(np.delete(found.predicted, row)).all()
    assert found.rho == pytest.approx(rho(predicted, observed), abs=1e-12)


@pytest.mark.parametrize(
    "form",
    [
        {"E": 2},
        {"E": 2, "tau": 2, "Tp": -1},
        {"E": 1, "Tp": 2, "k": 4},
        {"E": 2, "Tp": 1, "radius": 2},
        {"E": 2, "Tp": 1, "lib": ["north", "east"], "pred": ["south"]},
    ],
)
def test_simplex(space, form):
    y, Tp = X[:, 1], form.get("Tp", 0)
    keys = {("exclusion_radius" if name == "radius" else name): v for name, v in form.items()} | {"Tp": Tp}
    found = edm.simplex(X[:, 0], target=y, segments=NAMES, space=space, **keys)
    held(found, simplex(X[:, :1], y, NAMES, **form), Tp)
    assert found.segments.tolist() == NAMES[found.times - Tp].tolist()


def test_simplex_of_several_columns_of_a_table():
    table = pandas.DataFrame({"site": NAMES, "x": X[:, 0], "y": X[:, 1]})
    found = edm.simplex(table, 2, columns=["x", "y"], target="y", Tp=0, k=5, segments="site")
    held(found, simplex(X, X[:, 1], NAMES, 2, k=5))
    level = edm.simplex(
        table.set_index("site"), 2, columns=["x", "y"], target="y", Tp=0, k=5, segments="site"
    )
    assert_array_equal(level.predicted, found.predicted)
    assert found.to_pandas().segment[0] == "north"


def test_rows_in_no_segment_are_left_out():
    cut = edm.Segments(("a", "b"), ((2, 20), (21, 40)))
    names = np.array(["", *"." * 39])
    names[2:20], names[21:] = "a", "b"
    inside = np.flatnonzero(np.isin(names, ["a", "b"]))
    wanted = simplex(X[:, :1], X[:, 1], names, 2, lib=["a", "b"], pred=["a", "b"])
    found = edm.simplex(X[:, 0], 2, target=X[:, 1], Tp=0, segments=cut)
    held(found, wanted)
    assert set(found.times.tolist()) <= set(inside.tolist())


def test_knn():
    found = edm.knn(X[:, 0], 3, k=30, segments=NAMES)
    for distances, rows, row in zip(found.distances, found.indices, found.points):
        if vector(X[:, :1], NAMES, row + 2, 3, 1) is None:
            assert np.isnan(distances).all()
        else:
            d, s = neighbours(X[:, :1], NAMES, row + 2, 3, 1, 30)
            assert_allclose(distances, d, rtol=0, atol=1e-12)
            assert_array_equal(rows, s - 2)


def test_smap():
    found = edm.smap(X[:, 0], 2, theta=1.5, target=X[:, 1], Tp=1, segments=NAMES)
    for t, predicted, solution in zip(found.times - 1, found.predicted[0], found.coefficients[0]):
        if vector(X[:, :1], NAMES, t, 2, 1) is None:
            assert np.isnan(predicted)
            continue
        d, s = neighbours(X[:, :1], NAMES, t, 2, 1, None, (1,))
        w = np.exp(-1.5 * d / d.mean())
        rows = np.array([[1.0, *vector(X[:, :1], NAMES, one, 2, 1)] for one in s])
        wanted = np.linalg.lstsq(rows * w[:, None], w * X[s + 1, 1], rcond=None)[0]
        assert_allclose(solution, wanted, rtol=0, atol=1e-9)
        assert predicted == pytest.approx(wanted @ [1.0, *vector(X[:, :1], NAMES, t, 2, 1)], abs=1e-10)


def test_embedding_dimension():
    found = edm.embedding_dimension(X[:, 0], 3, Tp=1, segments=NAMES)
    # all dimensions share the candidates of the largest: none reaches back beyond its replicate
    first = np.concatenate([[0], np.cumsum(list(LENGTHS.values()))[:-1]])
    t = np.arange(40)
    late = t - first[np.searchsorted(first, t, side="right") - 1] >= 2
    for E, own in zip(found.E, found.rho):
        valid = edm.embedding_dimension(X[:, 0], 3, Tp=1, segments=NAMES, valid=late).rho[E - 1]
        alone = simplex(X[:, :1], X[:, 0], NAMES, int(E), Tp=1)
        assert own == pytest.approx(rho(*alone[1:]), abs=1e-10) and np.isfinite(valid)


def test_cross_map():
    found = edm.cross_map(X, 2, segments=NAMES, dtype="float64")
    for i, j in ((0, 1), (1, 0), (1, 1)):
        wanted = rho(*simplex(X[:, [i]], X[:, j], NAMES, 2)[1:])
        assert found[i, j] == pytest.approx(wanted, abs=1e-12)


def test_ccm():
    """Use the largest library, which needs no sample: all complete points."""
    n = sum(LENGTHS.values()) - len(LENGTHS)
    keys = {"library_sizes": [n], "n_samples": 1, "segments": NAMES, "dtype": "float64"}
    found = edm.ccm(X[:, 0], X[:, 1], 2, **keys)
    assert found.rho[0, 0] == pytest.approx(rho(*simplex(X[:, :1], X[:, 1], NAMES, 2)[1:]), abs=1e-12)
    with pytest.raises(PortableError, match=f"to {n} "):
        edm.ccm(X[:, 0], X[:, 1], 2, **keys | {"library_sizes": [n + 1]})


def test_lagged_map_draws_replicates():
    lags = (-1, 2)
    found = edm.lagged_map(X[:, 0], X[:, 1], 2, Tp=lags, n_boot=40, seed=3, segments=NAMES)
    drawn = default_rng(3).multinomial(3, np.full(3, 1 / 3), 40)
    for k, Tp in enumerate(lags):
        t, predicted, observed = simplex(X[:, :1], X[:, 1], NAMES, 2, Tp=Tp, horizons=lags)
        assert found.rho[k] == pytest.approx(rho(predicted, observed), abs=1e-10)
        skills = []
        for times in drawn:
            rows = [np.flatnonzero(NAMES[t.astype(int)] == name) for name in LENGTHS]
            chosen = np.concatenate([np.tile(own, n) for own, n in zip(rows, times)])
            skills.append(rho(predicted[chosen], observed[chosen]))
        assert_allclose(found.interval[:, k], np.quantile(skills, [0.025, 0.975]), atol=1e-9)


@pytest.mark.parametrize("method", ["phase", "block", "twin"])
def test_surrogates_are_made_replicate_by_replicate(method):
    made = edm.surrogates(X, 3, method, segments=NAMES, E=2, seed=1)
    alone = edm.surrogates(X[:11], 3, method, E=2, seed=1)
    assert_array_equal(made[:11], alone)
    for name in LENGTHS:
        own, of = X[NAMES == name], made[NAMES == name]
        for c in range(2):
            for s in range(3):
                if method == "phase" and name == "south":  # for different lengths fewer times are transformed
                    spectra = (abs(np.fft.rfft(v)) for v in (own[:, c], of[:, c, s]))
                    assert_allclose(*spectra, atol=1e-9)
                elif method != "phase":
                    assert np.isin(of[:, c, s], own[:, c]).all()
    assert not np.array_equal(made[:11], made[11:22])


def test_a_test_of_all_pairs_has_these_surrogates():
    keys = {"dtype": "float64", "segments": NAMES}
    found = edm.cross_map_test(X, 2, n_surrogates=9, surrogate="phase", stop_after=None, seed=2, **keys)
    standard = (X - X.mean(axis=0)) / X.std(axis=0)
    made = edm.surrogates(standard, 9, seed=2, segments=NAMES)
    for i, j in ((0, 1), (1, 0)):
        better = sum(rho(*simplex(X[:, [i]], one, NAMES, 2)[1:]) >= found.rho[i, j] for one in made[:, j].T)
        assert found.n_better[i, j] == better


TABLE = pandas.DataFrame({"site": NAMES, "x": X[:, 0]})


test_bad_input = refusals(
    [
        (
            lambda: edm.Segments(("a", "b"), ((0, 5), (4, 9))),
            "begin of segment 'b', behind others, is 4; expected at least 5",
        ),
        (lambda: edm.Segments(("a", "a"), ((0, 5), (5, 9))), "'a' begins again at row 5"),
        (lambda: edm.Segments(("a",), ((5, 5),)), "end of segment 'a' is 5; expected at least 6"),
        (lambda: edm.Segments(("a", "b"), ((0, 5),)), "2 names and 1 windows"),
        (lambda: edm.Segments.of(["a", "b", "a"]), "'a' begins again at row 2"),
        (lambda: edm.Segments.of([1.0, np.nan]), r"segments\[1\] is missing"),
        (lambda: edm.Segments.of([]), "a label for each row"),
        (lambda: edm.simplex(TABLE, 12, segments="site"), "'north', rows 0 to 10, has 11 times.*needs 12"),
        (lambda: edm.cross_map(X, 12, segments=NAMES), "'north', rows 0 to 10, has 11 times"),
        (lambda: edm.simplex(TABLE, 2, segments="sites"), "no column 'sites'; the columns are site, x"),
        (lambda: edm.simplex(TABLE, 2, segments="site", lib="west"), "lib: there is no segment 'west'"),
        (lambda: edm.simplex(X, 2, pred=["west"]), "pred: there is no segment 'west'; segments= tells"),
        (
            lambda: edm.simplex(X, 2, segments=NAMES[1:]),
            "the last segment, 'east', is rows 26 to 38; the library has 40",
        ),
        (
            lambda: edm.simplex(X, 2, segments=edm.Segments(("a",), ((0, 41),))),
            "the last segment, 'a', is rows 0 to 40",
        ),
        (
            lambda: edm.simplex(X, 2, segments=edm.Segments(("a",), ((9, 30),)), lib=(0, 9)),
            "which contains no segment",
        ),
        (lambda: edm.surrogates(X, 2, "seasonal", period=5, segments=NAMES), "period is 5; expected 2 to 3"),
    ],
    error=PortableError,
)


def test_a_short_replicate_that_is_not_asked_for_does_no_harm():
    found = edm.simplex(TABLE, 12, segments="site", lib=["south", "east"], pred="south", k=2)
    assert np.isfinite(found.predicted).sum() == 5


def test_command(tmp_path):
    table = TABLE.assign(y=X[:, 1])
    table.insert(0, "day", np.concatenate([np.arange(n) for n in LENGTHS.values()]))
    table.to_csv(tmp_path / "sites.csv", index=False)

    def edm_of(*words):
        line = [sys.executable, "-m", "portable.models.edm", words[0], tmp_path / "sites.csv", *words[1:]]
        return subprocess.run(line, capture_output=True, text=True, check=False)

    common = "--columns", "x", "--target", "y", "-E", "2", "--Tp", "0", "--segments", "site"
    out = tmp_path / "out.csv"
    done = edm_of("simplex", *common, "--lib", "north", "east", "--pred", "south", "--out", out)
    assert done.returncode == 0, done.stderr
    wanted = simplex(X[:, :1], X[:, 1], NAMES, 2, lib=["north", "east"], pred=["south"])
    found = pandas.read_csv(out).dropna()
    assert_allclose(found.predicted, wanted[1], rtol=0, atol=1e-9)
    assert set(found.segment) == {"south"} and found.time.tolist() == [*range(1, 16)]
    assert "no segment 'west'" in edm_of("simplex", *common, "--lib", "west").stderr


def test_calibration_knows_replicates():
    pairs = [calibrate.CLASSES["replicates, AR(1) 0.5"](default_rng(k), 400) for k in range(2)]
    assert all(len(one) == calibrate.APART.windows[-1][1] for one in pairs)
    coupled = [(one, one) for one in pairs]
    assert calibrate.rejections(coupled, None, 19, 0, calibrate.APART) == 1.0
