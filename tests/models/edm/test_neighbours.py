"""Compare neighbours and simplex projection with plain NumPy."""

import contextlib
import math
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal

import portable as pk
from portable.models import edm
from portable.models.edm import plans, point_kernels, problem, search
from portable.library import algorithms
from portable.testing import watching

from ...tolerance import assert_close
from . import reference
from .series import logistic_maps

pytestmark = pytest.mark.usefixtures("serial")


def length(space):
    """Return a length of several chunks and tiles of any team; for an interpreter one of each."""
    return 40 if space == "checked" else 301


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("E, tau, Tp, radius", [(1, 1, 0, 0), (3, 2, 1, 4), (4, 1, -2, 0)])
def test_neighbours(space, E, tau, Tp, radius, dtype):
    x = logistic_maps(length(space), 1)[:, 0]
    found = edm.knn(x, E, tau=tau, Tp=Tp, exclusion_radius=radius, dtype=dtype, space=space)
    distances, rows = reference.knn(x, E, E + 1, tau=tau, Tp=Tp, radius=radius)
    # differences of numbers near 1 that were rounded once
    assert_allclose(found.distances, distances, rtol=0, atol=20 * np.finfo(dtype).eps)
    if dtype == "float64":
        assert_array_equal(found.indices, rows)
    assert_array_equal(found.points, np.arange(len(rows)))


def test_ties_go_to_the_earlier_row(space):
    """Values are whole numbers: every distance occurs many times, more often than a list has room for."""
    x = default_rng(1).integers(0, 3, 60 if space == "checked" else 2000).astype(float)
    found = edm.knn(x, 2, k=5, space=space)
    distances, rows = reference.knn(x, 2, 5)
    assert_array_equal(found.distances, distances)
    assert_array_equal(found.indices, rows)


@pytest.fixture(params=["sorted", "all pairs"])
def on_a_line(request, monkeypatch):
    """Search points of one coordinate by each method, whatever their number."""
    if request.param == "sorted":
        monkeypatch.setattr(problem, "SORTED", 0)
        monkeypatch.setattr(problem, "PAIRS", 0)
    else:
        monkeypatch.setattr(problem, "SORTED", 1 << 20)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_ties_on_a_line(space, dtype, on_a_line):
    """Ties occur to the left and right, with missing values and points that exclude others."""
    x = default_rng(2).integers(0, 9, 40 if space == "checked" else 500).astype(float)
    x[[3, 17]] = np.nan
    found = edm.knn(x, 1, k=6, Tp=1, exclusion_radius=2, dtype=dtype, space=space)
    known = np.isfinite(x)
    distances, rows = reference.knn(x, 1, 6, Tp=1, radius=2)
    assert_array_equal(found.distances[known], distances[known])
    assert_array_equal(found.indices[known], rows[known])
    assert np.isnan(found.distances[~known]).all() and (found.indices[~known] == -1).all()


def test_many_neighbours_of_another_series(space):
    x = logistic_maps(length(space), 4)
    k = length(space) - 10
    found = edm.knn(x[:, :2], 2, tau=3, k=k, points=x[:30, 2:], space=space)
    distances, rows = reference.knn(x[:, :2], 2, k, tau=3, points=x[:30, 2:])
    assert_close(found.distances, distances, np.float64, 4, scale=1.0)
    assert_array_equal(found.indices, rows)


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_simplex(space, offset):
    x = logistic_maps(length(space), 2)
    found = edm.simplex(x[:, 0] + offset, 3, target=x[:, 1] + offset, space=space)
    wanted = reference.simplex(x[:, 0], x[:, 1], 3)
    # An offset of 1e6 leaves differences of 1e-10, and a distance of a few thousandths divides them.
    assert_allclose(found.predicted - offset, wanted, rtol=0, atol=1e-12 if not offset else 1e-7)
    observed = np.append(x[3:, 1], np.nan) + offset
    assert_array_equal(found.observed, observed)
    assert found.rho == pytest.approx(reference.rho(wanted[:-1], x[3:, 1]), abs=1e-7)


def test_windows_do_not_share_points(space):
    """For a library of two windows no candidate reaches across the gap, and the last window ends Tp early."""
    x = logistic_maps(60, 1)[:, 0]
    found = edm.knn(x, 3, Tp=1, k=4, lib=[(0, 20), (30, 50)], pred=(52, 60), space=space)
    assert set(found.indices.ravel().tolist()) <= set(range(18)) | set(range(30, 47))
    candidates = np.r_[0:18, 30:47]
    rows = reference.embedded(x, 3, 1)
    d = np.sqrt(((rows[found.points][:, None] - rows[candidates]) ** 2).sum(axis=2))
    assert_array_equal(found.indices, candidates[np.argsort(d, axis=1)[:, :4]])


def test_equal_points_weigh_all_alike(space):
    """With a period of four the nearest distances are zero, and the prediction is exact."""
    x = np.tile([0.0, 1.0, 3.0, 2.0], 10)
    found = edm.simplex(x, 2, space=space)
    assert_allclose(found.predicted[:-1], x[2:], rtol=0, atol=1e-12)
    assert found.rho == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("values", ["continuous", "few", "three columns"])
@pytest.mark.parametrize("radius", [0, 3])
def test_tree_finds_the_same(monkeypatch, values, radius):
    """A long series of low dimension uses a tree if timing favours it, so that every bit must be equal; one
    of few values has many ties."""
    x = logistic_maps(6000, 3 if values == "three columns" else 1)
    x = np.round(x, 3) if values == "few" else x
    built = []
    build = edm.tree.build
    monkeypatch.setattr(edm.tree, "FEWEST", 100)
    monkeypatch.setattr(edm.tree.timeit, "repeat", lambda search, **_: search() or [math.inf])
    monkeypatch.setattr(edm.tree, "build", lambda *args: built.append(build(*args)) or built[-1])
    by_tree = edm.knn(x, 2, k=4, Tp=1, exclusion_radius=radius, pred=(100, 400))
    monkeypatch.setattr(edm.tree, "build", lambda *args: None)
    by_kernel = edm.knn(x, 2, k=4, Tp=1, exclusion_radius=radius, pred=(100, 400))
    assert built[0] is not None
    assert_array_equal(by_tree.distances, by_kernel.distances)
    assert_array_equal(by_tree.indices, by_kernel.indices)


FORMS = {
    "a series": {},
    "a target": {"target": True},
    "targets": {"target": True, "several": True},
    "points": {"points": True},
    "points and a target": {"points": True, "target": True},
    "windows": {"lib": [(0, 20), (25, 40)], "pred": [(5, 15), (22, 38)]},
}


@pytest.mark.parametrize("form", FORMS)
def test_a_call_of_the_same_form_gives_what_a_first_one_gives(space, form):
    """A repeated call writes to the views of the one before, whose results are not modified; another thread
    has no stored call.
    """
    wanted, keys = dict(FORMS[form]), {"Tp": 1, "space": space, "dtype": "float32"}
    target, points, several = (wanted.pop(name, False) for name in ("target", "points", "several"))

    def call(x):
        more = {"points": x[:, 1]} if points else {}
        near = edm.knn(x[:, 0], 2, **wanted, **more, **keys)
        more |= {"target": x[:, 1:] if several else x[:, 2]} if target else {}
        found = edm.simplex(x[:, 0], 2, **wanted, **more, **keys)
        return near.distances, near.indices, found.predicted, found.variance, found.rho

    series = [logistic_maps(40, 3, seed) for seed in range(3)]
    series[1][7] = np.nan
    again = [call(x) for x in series]
    with ThreadPoolExecutor(1) as pool:
        for x, found in zip(series, again):
            for one, other in zip(found, pool.submit(call, x).result()):
                assert_array_equal(one, other)
        assert np.isnan(again[1][2]).any() and (points and target) == bool(np.isnan(again[0][4]).all())


@pytest.mark.parametrize("columns, n_launches", [(1, 1), (slice(1, 2), 7)])
def test_a_call_of_the_same_form_copies_the_series_and_the_result_alone(space, columns, n_launches):
    heard, x = [], logistic_maps(40, 2)

    def hear(phase, what, launch):
        if phase == "begin":
            heard.append(what)

    edm.simplex(x[:, columns], 2, space=space)
    with pk.listening(hear, copies=True):
        edm.simplex(x[:, columns], 2, space=space)
    assert heard.count("copy") == 2 and heard.count("kernel") == n_launches


@pytest.mark.parametrize("watched_first", [False, True])
def test_what_is_kept_is_of_its_own_context(watched_first):
    """Launches of a call in the checked space are stored separately from those of a plain call."""
    x = logistic_maps(200, 1)[:, 0]
    plans._calls.by_form.clear()
    wanted = edm.simplex(x, 2).predicted
    plans._calls.by_form.clear()
    found = []
    for watched in (watched_first, not watched_first):
        with watching(seed=1) if watched else contextlib.nullcontext({"checked": 0}) as launches:
            found.append(edm.simplex(x, 2).predicted)
        assert (launches["checked"] > 0) == watched
    assert_array_equal(found[watched_first], wanted)
    assert_allclose(found[not watched_first], wanted, rtol=1e-13)


def test_what_is_kept_of_calls_is_bounded(monkeypatch):
    x = logistic_maps(60, 1)[:, 0]
    plans._calls.by_form.clear()  # other tests change the conditions of stored calls
    first = edm.simplex(x, 2).predicted
    monkeypatch.setattr(plans, "MOST_BYTES", 20_000)
    for n in (30, 40, 50):
        edm.simplex(x[:n], 2)
        assert sum(one.nbytes for one in plans._calls.by_form.values()) <= 20_000
    assert_array_equal(edm.simplex(x, 2).predicted, first)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_sorting_has_the_bits_of_all_pairs(space, dtype, monkeypatch):
    x = logistic_maps(length(space), 2)
    both = []
    for bound in (0, 1 << 20):
        monkeypatch.setattr(problem, "SORTED", bound)
        monkeypatch.setattr(problem, "PAIRS", 0)
        found = edm.simplex(x[:, 0], 1, target=x[:, 1], exclusion_radius=1, dtype=dtype, space=space)
        both.append((found.predicted, found.variance, found.rho))
    for sorted_, met in zip(*both):
        assert_array_equal(sorted_, met)


@pytest.mark.parametrize("by_teams", [True, False])
def test_sorted_candidates_are_launched_again_where_the_host_waits_for_nothing(by_teams, monkeypatch):
    """Candidates are sorted as on a GPU, and as on a CPU. A series with NaN is a different form, since fewer
    candidates count."""
    for name, bound in (("SORTED", 0), ("PAIRS", 0)):
        monkeypatch.setattr(problem, name, bound)
    monkeypatch.setattr(algorithms, "_by_teams", lambda space: by_teams)
    monkeypatch.setattr(algorithms, "_tiling", lambda space: (1, 8, 512))
    series = [logistic_maps(700, 1, seed)[:, 0] for seed in range(3)]
    series[2][50:60] = np.nan
    plans._calls.by_form.clear()
    with mock.patch.object(pk, "argsort", side_effect=pk.argsort) as sorting:
        again = [edm.simplex(x, 1) for x in series]
        assert sorting.call_count == len(plans._calls.by_form) == 2
    for x, found in zip(series, again):
        plans._calls.by_form.clear()
        alone = edm.simplex(x, 1)
        for name in ("predicted", "variance", "rho"):
            assert_array_equal(getattr(found, name), getattr(alone, name))


def test_points_without_neighbours_read_no_target():
    """The time -1 represents no neighbour; steps back from it are before the series."""
    near, times = np.full((4, 2), np.inf), np.full((4, 2), -1, np.int32)
    near[1:], times[1:] = 0.5, [[1, 2], [2, 3], [3, 1]]
    summary, x = np.array([[0.0], [3.0], [1.5], [1.0]]), np.arange(4.0)[:, None]
    found = pk.check(
        pk.MDRangePolicy((0, 0), (1, 4)),
        point_kernels.project,
        pk.static(1),
        1,
        -1,
        near,
        times,
        summary,
        x,
        np.zeros(9),
    )
    assert not found.findings, found


def test_rho_beside_numpy(space):
    """The correlation is compared with NumPy's for all points, for windows, with missing predictions, and in
    units that would overflow."""
    x = logistic_maps(length(space), 1)[:, 0]
    x[9] = np.nan
    for unit in (1.0, 1e200, 1e-200):
        for pred in (None, [(5, 15), (18, 36)]):
            found = edm.simplex(unit * x, 2, pred=pred, space=space)
            assert found.rho == pytest.approx(
                reference.rho(found.predicted / unit, found.observed / unit), abs=1e-12
            )


@pytest.mark.parametrize("n_targets", [1, 2])
def test_rho_where_times_lie_outside_the_series(space, n_targets):
    """Predictions for times before the beginning and after the end have no observation."""
    x = logistic_maps(length(space), 2)
    for Tp in (-3, 4):
        found = edm.simplex(x[:, 0], 1, Tp=Tp, target=x[:, :n_targets], space=space)
        assert np.isnan(found.observed).any(axis=1).sum() == abs(Tp)
        for p, o, rho in zip(found.predicted.T, found.observed.T, found.rho):
            there = np.isfinite(o)
            assert rho == pytest.approx(reference.rho(p[there], o[there]), abs=1e-12)
    last = edm.simplex(x[:, 0], 1, pred=(len(x) - 2, len(x)), Tp=2, space=space)
    assert np.isnan(last.rho) and np.isnan(last.observed).all()


@pytest.mark.parametrize(
    "E, tau, radius, dtype", [(1, 1, 0, "float32"), (3, 2, 4, "float64"), (5, 1, 0, "float32")]
)
def test_teams_that_measure_a_tile_together(space, E, tau, radius, dtype, monkeypatch):
    """Each team processes some of the chunks: the bits are those of one team that processes all."""
    x, found = logistic_maps(length(space), 2), []
    x[9, 0] = np.nan

    def hear(phase, _, launch):
        if phase == "begin":
            labels.append(launch.label)

    for least in (1 << 20, 1):
        labels = []
        monkeypatch.setattr(search, "LEAST_CHUNKS", least)
        monkeypatch.setattr(search, "TEAMS_AT_A_TIME", 500)
        plans._calls.by_form.clear()
        with pk.listening(hear):
            near = edm.knn(x[:, 0], E, tau=tau, k=4, exclusion_radius=radius, dtype=dtype, space=space)
            rho = edm.cross_map(x[:40], [1, 2], space=space)
        found.append((near.distances, near.indices, rho))
        assert labels.count("edm.measure") == (0 if least > 1 else 2)
    for alone, together in zip(*found):
        assert_array_equal(alone, together)


@pytest.mark.parametrize("share", [3, 10_000])
def test_teams_that_lay_out_a_library_together(space, share, monkeypatch):
    """Few teams or many, with consecutive candidates or, for drawn libraries, arbitrary ones."""
    monkeypatch.setattr(search, "SHARE", share)
    x = logistic_maps(40, 2)
    distances, rows = reference.knn(x[:, 0], 3, 4, Tp=1)
    found = edm.knn(x[:, 0], 3, Tp=1, space=space)
    assert_allclose(found.distances, distances, rtol=0, atol=1e-14)
    assert_array_equal(found.indices, rows)
    drawn = edm.ccm(x[:, 0], x[:, 1], 2, library_sizes=[12], n_samples=2, seed=3, space=space).rho
    monkeypatch.setattr(search, "SHARE", 1 << 20)
    wanted = edm.ccm(x[:, 0], x[:, 1], 2, library_sizes=[12], n_samples=2, seed=3, space=space).rho
    assert_array_equal(drawn, wanted)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("E, tau, Tp, radius", [(1, 1, 1, 0), (3, 2, -2, 3), (2, 1, 40, 0), (20, 1, 0, 1)])
def test_one_team_gives_the_bits_of_all(space, E, tau, Tp, radius, dtype):
    """A short series by itself takes one launch, in a table seven; ties and offsets are included."""
    n = 55 if space == "checked" else 100
    for x in (
        logistic_maps(n, 1)[:, 0],
        np.round(logistic_maps(n, 1)[:, 0], 1),
        1e6 + logistic_maps(n, 1)[:, 0],
    ):
        keys = {"tau": tau, "Tp": Tp, "exclusion_radius": radius, "dtype": dtype, "space": space}
        plans._calls.by_form.clear()
        alone, whole = edm.simplex(x, E, **keys), edm.simplex(x[:, None], E, **keys)
        assert [len(one.launches) for one in plans._calls.by_form.values()] == [1, 7]
        for name in "predicted observed variance times".split():
            assert_array_equal(getattr(alone, name), getattr(whole, name))
        assert alone.rho == whole.rho or np.isnan(alone.rho) and np.isnan(whole.rho)


def test_one_team_sums_in_the_order_of_all():
    """On any device the mean is computed by as many members as for a table, and rho by at most as many
    members as there are points."""
    sizes = {}

    def hear(phase, _, launch):
        if isinstance(launch.policy, pk.TeamPolicy):
            sizes[launch.label] = launch.policy.team_size

    x = logistic_maps(100, 1)[:, 0]
    plans._calls.by_form.clear()
    with pk.listening(hear):
        edm.simplex(x, 2), edm.simplex(x[:, None], 2)
    few, whole = sizes["edm.simplex_of_few"], sizes["edm.correlate_points"]
    assert few == sizes["edm.summarise"] and problem.SHORT <= few <= whole


def test_a_form_that_is_known_refuses_what_it_did(space):
    """Series of one length share checks of arguments, but not those of missing, constant or non-numeric
    values.
    """
    x = logistic_maps(60, 1)[:, 0]
    first = edm.simplex(x, 2, space=space)
    again = edm.simplex(x, 2, space=space)
    again.times[:] = 0  # the results are private to each call
    assert_array_equal(edm.simplex(x, 2, space=space).times, first.times)
    with pytest.raises(pk.DTypeError, match="E must be an integer, got True"):
        edm.simplex(x, True, space=space)
    with pytest.raises(pk.FiniteError, match=r"library\[7\] is inf"):
        edm.simplex(np.where(np.arange(60) == 7, np.inf, x), 2, space=space)
    with pytest.warns(RuntimeWarning, match="library does not vary"):
        assert np.isnan(edm.simplex(np.ones(60), 2, space=space).rho)
    missing = np.where(np.arange(60) == 7, np.nan, x)
    assert np.isnan(edm.simplex(missing, 2, space=space).predicted)[[6, 7]].all()
    with pytest.warns(RuntimeWarning, match="fewer than k = 3 candidates"):
        edm.simplex(x[:12], 2, exclusion_radius=4, space=space)
    with pytest.warns(RuntimeWarning, match="fewer than k = 3 candidates"):  # raised at each call
        edm.simplex(x[:12], 2, exclusion_radius=4, space=space)
