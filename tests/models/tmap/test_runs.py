"""Test runs: the memory of their numbers, their facts, and the parts that are computed once."""

import copy
import pickle

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_array_equal

import portable as pk
from portable.errors import DTypeError, FiniteError, InputError, ShapeError
from portable.models.shared import arrays
from portable.models.tmap import fit, Runs
from portable.models.tmap.packed import Sorted
from portable.core import registry

from ..mixture.far import FAR
from .problems import MODEL, censored_runs, random_runs

SIZES = [*range(1, 40), 127, 128, 129, 135, 136, 137, 255, 257, 1000, 4097, 99_999, 1_000_003]


def test_what_is_known_of_gaps():
    """The mean has NumPy's bits, whatever the number of gaps."""
    gaps = default_rng(1).exponential(1.0, max(SIZES))
    gaps[::7] = 0.0
    for n in SIZES:
        runs = Runs.from_gaps(gaps[:n])
        positive = gaps[:n][gaps[:n] > 0.0]
        assert runs.mean == gaps[:n].mean(), n
        assert runs.longest == gaps[:n].max() and runs.shortest == positive.min(initial=np.inf)
        assert runs.n_zero == n - len(positive)
        exponents = np.frexp(positive)[1] - 1
        assert runs.mean_exponent == round(int(exponents.sum()) / max(len(positive), 1))


def test_the_same_bits_where_views_are(space):
    n = 300 if space == "checked" else 50_000
    gaps, lengths = default_rng(2).exponential(1.0, 3 * n), np.full(n, 3)
    runs = Runs(pk.copy_of(gaps, space), pk.copy_of(lengths.astype(np.int32), space))
    assert runs.mean == gaps.mean() and (runs.longest, runs.shortest) == (gaps.max(), gaps.min())
    assert_array_equal(runs.values, gaps)
    assert_array_equal(runs.lengths, lengths)
    assert {view.memory for view in runs.views} == {pk.empty(1, space=space).memory}


def test_runs_are_sorted_while_gaps_are_copied(monkeypatch):
    """The copy is to another memory, by a thread if there are many; invalid gaps are reported after it."""
    monkeypatch.setitem(registry._loaders, "far", lambda: FAR)
    monkeypatch.setattr(arrays, "_LARGE", 0)
    random = default_rng(5)
    lengths = random.integers(1, 9, 6000)
    gaps = random.exponential(1.0, lengths.sum())
    runs = Runs(gaps, lengths, space="far")
    assert any(isinstance(made, Sorted) for made in runs.prepared.values())
    assert runs.mean == gaps.mean() and runs.longest == gaps.max() and runs.n_gaps == gaps.size
    assert_array_equal(runs.values, gaps)
    wanted = MODEL.log_likelihood(Runs(gaps, lengths))
    assert MODEL.log_likelihood(runs, space="far") == wanted
    assert MODEL.log_likelihood(Runs(gaps, lengths, np.arange(6000) % 2 == 0, space="far"), space="far") == (
        MODEL.log_likelihood(Runs(gaps, lengths, np.arange(6000) % 2 == 0))
    )
    gaps[7] = np.nan
    with pytest.raises(FiniteError, match=r"values\[7\].* is nan"):
        Runs(gaps, lengths, space="far")
    with pytest.raises(ShapeError, match="lengths add up to"):
        Runs(gaps[1:], lengths, space="far")


def test_gaps_stay_where_they_are(space, monkeypatch):
    """No array as large as the gaps is copied to the host, nor back."""
    monkeypatch.setitem(registry._loaders, "far", lambda: FAR)
    space = {"serial": "far"}.get(space, space)
    runs = MODEL.simulate(60 if space == "checked" else 5_000, seed=1, space=space)
    views, copied = [pk.copy_of(part, space) for part in (runs.values, runs.lengths)], []
    rounded = pk.copy_of(np.rint(runs.values), space), views[1]

    def hear(phase, what, event):
        if what == "copy" and phase == "begin" and event.source and event.source != event.target:
            copied.append(event.nbytes)

    with pk.listening(hear, copies=True):
        runs = Runs(*views)
        MODEL.log_likelihood(runs, space=space)
        fit(runs, orders=[1, 2, 3], max_iter=2, tol=0.0, start=MODEL, space=space)
        whole = Runs(*rounded, resolution=1.0)
        fit(whole, orders=[1, 2, 3], max_iter=2, tol=0.0, start=MODEL, space=space)
    assert max(copied, default=0) < 0.5 * runs.lengths.nbytes


def test_gaps_go_where_they_are_wanted(space):
    """Arrays of the host are checked and kept in the named space, and copied there once."""
    gaps, lengths, copied = default_rng(3).exponential(1.0, 90), np.full(30, 3), []

    def hear(phase, what, event):
        if what == "copy" and phase == "begin" and event.source and event.nbytes >= gaps.nbytes:
            copied.append((event.source, event.target))

    with pk.listening(hear, copies=True):
        runs = Runs(gaps, lengths, space=space)
        found = MODEL.log_likelihood(runs, space=space)
    there = pk.empty(1, space=space).memory
    assert {view.memory for view in runs.views} == {there}
    assert copied == ([] if there == "host" else [("host", there)])
    assert found == MODEL.log_likelihood(Runs(gaps, lengths), space=space)
    gaps[:] = 5.0
    assert MODEL.log_likelihood(runs, space=space) == found
    for other in (Runs.from_gaps([1.0, 2.0], space=space), Runs.from_lists([[1.0], [2]], space=space)):
        assert {view.memory for view in other.views} == {there} and other.values.tolist() == [1.0, 2.0]
    with pytest.raises(InputError, match=r"run 1, gap 2 \(values\[5\]\) is -1.0"):
        Runs([1.0] * 5 + [-1.0], [3, 3], space=space)
    with pytest.raises(DTypeError, match=r"lengths\[1\] is 1.5"):
        Runs([1.0] * 3, [1.0, 1.5, 0.5], space=space)


def test_runs_are_prepared_once(space):
    runs, labels = random_runs(3, 70), []
    first = MODEL.log_likelihood(runs, space=space)
    with pk.listening(lambda phase, what, launch: labels.append(launch.label)):
        assert MODEL.log_likelihood(runs, space=space) == first
    assert set(labels) == {"tmap.log_likelihood"}
    assert MODEL.log_likelihood(runs.subset(slice(None)), space=space) == first


def test_packs_of_large_runs_are_not_kept(monkeypatch):
    monkeypatch.setattr("portable.models.tmap.packed.KEPT", 10)
    runs = random_runs(3, 70)
    wanted = MODEL.log_likelihood(runs)
    assert not runs.prepared and wanted == MODEL.log_likelihood(runs)


@pytest.mark.parametrize("dtype", "float32 float16 >f8 longdouble int8 int64 uint32".split())
def test_numbers_of_any_kind(dtype):
    gaps = np.arange(12).astype(dtype)
    runs = Runs(gaps, np.array([5, 7], "uint8" if dtype == "int8" else dtype))
    assert runs.values.dtype == np.float64 and runs.lengths.dtype == np.int64
    assert_array_equal(runs.values, gaps.astype(np.float64))
    assert runs.mean == 5.5 and runs.n_runs == 2


def test_runs_own_what_they_hold():
    gaps = np.ones((4, 2))
    runs = Runs(gaps[:, 0], [2, 2])
    gaps[:] = 5.0
    assert runs.values.tolist() == [1.0] * 4
    for array in (runs.values, runs.lengths, runs.censored):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_the_first_of_many_is_named(space):
    n = 200 if space == "checked" else 20_000
    gaps = np.ones(2 * n)
    gaps[[n + 3, n + 90, -1]] = -2.0, np.nan, np.inf
    with pytest.raises(InputError, match=rf"run {(n + 3) // 2}, gap 1 \(values\[{n + 3}\]\) is -2.0"):
        Runs(pk.copy_of(gaps, space), np.full(n, 2))
    lengths = np.full(n, 2)
    lengths[[n // 2, n // 3]] = 0, -4
    with pytest.raises(InputError, match=rf"lengths\[{n // 3}\] is -4: run {n // 3} has no gap"):
        Runs(gaps, pk.copy_of(lengths, space))


def test_the_first_that_is_no_multiple_is_named(space):
    """Censored gaps may have any value."""
    n = 100 if space == "checked" else 10_000
    gaps, censored = np.arange(n) % 7 * 0.5, np.zeros(n // 2, bool)
    gaps[[11, n // 2, n - 1]] = 0.7, 1.3, 0.9
    censored[5], there = True, pk.copy_of(gaps, space)
    with pytest.raises(InputError, match=rf"resolution is 0.5, but a gap of 1.3 .* 2 of {n - 1} are not"):
        Runs(there, np.full(n // 2, 2), censored, resolution=0.5)
    gaps[[n // 2, n - 1]] = 1.0
    runs = Runs(pk.copy_of(gaps, space), np.full(n // 2, 2), censored, resolution=0.5)
    wanted = MODEL.log_likelihood(Runs(gaps, runs.lengths, censored, resolution=0.5))
    assert MODEL.log_likelihood(runs, space=space) == pytest.approx(wanted, rel=1e-12)


def test_views_that_are_no_vectors_of_numbers():
    with pytest.raises(DTypeError, match="values must hold real numbers, got dtype bool"):
        Runs(pk.zeros(3, "bool", "serial"), [3])
    with pytest.raises(ShapeError, match=r"lengths has shape \(1, 2\); expected 1 dimension"):
        Runs([1.0, 2.0], pk.zeros((1, 2), "int64", "serial"))


def test_some_of_the_runs(space):
    runs = censored_runs(4, 90)
    parts = np.split(runs.values, np.cumsum(runs.lengths)[:-1])
    for which in ([7, 3, 7], runs.censored, slice(10, 40, 3)):
        some, numbers = runs.subset(which), np.arange(90)[which]
        assert_array_equal(some.values, np.concatenate([parts[k] for k in numbers]))
        assert_array_equal(some.lengths, runs.lengths[numbers])
        assert_array_equal(some.censored, runs.censored[numbers])
        assert some.mean == some.values.mean() and some.longest == some.values.max()
    there = Runs(pk.copy_of(runs.values, space), runs.lengths).subset([7, 3, 7])
    assert_array_equal(there.values, np.concatenate([parts[k] for k in (7, 3, 7)]))
    with pytest.raises(ShapeError, match="which is empty"):
        runs.subset([])
    with pytest.raises(IndexError):
        runs.subset([90])


def test_open_gaps_of_zero_are_not_counted():
    runs = Runs([0.0, 1.0, 0.0, 0.0], [2, 1, 1], [False, True, False])
    assert runs.n_zero == 2 and runs.subset([1]).n_zero == 0


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda runs: pickle.loads(pickle.dumps(runs))])
def test_copies(again):
    runs = censored_runs(5, 40)
    wanted = MODEL.log_likelihood(runs)
    other = again(runs)
    assert not other.prepared and repr(other) == repr(runs)
    assert MODEL.log_likelihood(other) == wanted and other.shortest == runs.shortest


@pytest.mark.parametrize("few", [0, 1000])
def test_packs_of_runs_by_length(space, monkeypatch, few):
    """Sorting is by NumPy, or in the space: the longest first, those of equal length in their order."""
    monkeypatch.setattr("portable.models.tmap.packed.FEW", few)
    runs = censored_runs(6, 100)
    found = Sorted(runs, pk.empty(1, space=space).space)
    order = np.argsort(-runs.lengths, kind="stable")
    assert_array_equal(found.order.to_numpy(), order)
    for view, wanted in (
        (found.lengths, runs.lengths),
        (found.begin, np.cumsum(runs.lengths) - runs.lengths),
        (found.open_end, runs.censored),
    ):
        assert_array_equal(view.to_numpy().ravel()[:100], wanted[order])
        assert view.shape == (4, 32) and not view.to_numpy().ravel()[100:].any()
    assert_array_equal(found.steps.to_numpy(), runs.lengths[order][::32])
    assert_array_equal(found.ends, np.append(0, np.cumsum(runs.lengths[order][::32])))
