"""Test runs whose gaps are in a file: fits, likelihoods and standard errors have the bits of runs in
memory."""

import pickle

import numpy as np
import pyarrow
import pytest
import zarr
from dask import array as da
from numpy.testing import assert_array_equal
from pyarrow import parquet

import portable as pk
from portable.models import tmap
from portable.models.tmap import packed, stored

TRUTH = tmap.TransientMAP([0.7, 0.3], [1, 2], [10.0, 1.0], [[0.5, 0.3], [0.1, 0.7]])
ORDERS = [1, 2]


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Use several shards, each with gaps from all over the data, and several reads."""
    monkeypatch.setattr(packed, "SHARD", 512)
    monkeypatch.setattr(stored, "_LEAF", 300)


@pytest.fixture(scope="module")
def runs():
    found = TRUTH.simulate(500, seed=1)
    censored = np.zeros(found.n_runs, bool)
    censored[::7] = True
    return tmap.Runs(found.values, found.lengths, censored)


def in_memory(values, path):
    return values


def mapped(values, path):
    np.save(path / "given.npy", values)
    return np.load(path / "given.npy", mmap_mode="r")


def in_zarr(values, path):
    return zarr.array(values, chunks=(170,))


def in_dask(values, path):
    return da.from_array(values, chunks=450)


def in_parquet(values, path):
    parquet.write_table(pyarrow.table({"gap": values}), path / "given.parquet", row_group_size=333)
    return path / "given.parquet"


@pytest.mark.parametrize("kind", [in_memory, mapped, in_zarr, in_dask, in_parquet])
def test_what_is_known_of_gaps(kind, runs, tmp_path):
    found = tmap.StoredRuns(
        kind(runs.values, tmp_path), runs.lengths, runs.censored, path=tmp_path / "gaps.npy"
    )
    for name in "n_runs n_gaps mean mean_exponent longest shortest n_zero nbytes".split():
        assert getattr(found, name) == getattr(runs, name), name
    assert_array_equal(found.values[5:900], runs.values[5:900])
    assert_array_equal(found.complete, runs.complete)
    assert_array_equal(found.sample(np.array([7, 3])), runs.values[[7, 3]])


@pytest.mark.parametrize("kind", [in_zarr, in_parquet])
def test_a_fit_has_the_bits_of_runs_in_memory(kind, runs, tmp_path, space):
    if space == "checked":
        runs = runs.subset(slice(0, 40))
    found = tmap.StoredRuns(
        kind(runs.values, tmp_path), runs.lengths, runs.censored, path=tmp_path / "gaps.npy"
    )
    how = {"orders": ORDERS, "max_iter": 4, "tol": 0.0, "n_starts": 2}
    for where in ({"space": space}, {"space": [space, space]}, {"space": space, "memory_mb": 0.05}):
        (one, a), (other, b) = (tmap.fit(data, **how, **where) for data in (found, runs))
        assert_array_equal(a.history, b.history)
        assert_array_equal(one.rates, other.rates)
        assert_array_equal(one.switching, other.switching)
    assert one.log_likelihood(found, space=space) == one.log_likelihood(runs, space=space)


def test_rounded_gaps_and_standard_errors(runs, tmp_path):
    gaps = np.rint(runs.values * 20.0) / 20.0
    there = tmap.Runs(gaps, runs.lengths, resolution=0.05)
    found = tmap.StoredRuns(gaps, runs.lengths, path=tmp_path / "gaps.npy", resolution=0.05)
    models = [tmap.fit(data, orders=ORDERS, max_iter=200, n_starts=1)[0] for data in (found, there)]
    assert_array_equal(models[0].rates, models[1].rates)
    errors = [tmap.standard_errors(models[0], data).covariance for data in (found, there)]
    assert_array_equal(*errors)


def test_a_checkpoint_is_that_of_runs_in_memory(runs, tmp_path):
    found = tmap.StoredRuns(
        in_zarr(runs.values, tmp_path), runs.lengths, runs.censored, path=tmp_path / "gaps.npy"
    )
    how = {"orders": ORDERS, "tol": 0.0, "n_starts": 1}
    tmap.fit(runs, max_iter=3, checkpoint=tmp_path / "kept", **how)
    _, info = tmap.fit(found, max_iter=5, checkpoint=tmp_path / "kept", **how)
    assert_array_equal(info.history, tmap.fit(runs, max_iter=5, **how)[1].history)


def test_what_asks_for_all_gaps(runs, tmp_path):
    """Operations that need all gaps read them: of runs in the file, and of these sent elsewhere."""
    found = tmap.StoredRuns(in_zarr(runs.values, tmp_path), runs.lengths, path=tmp_path / "gaps.npy")
    for there in (found, pickle.loads(pickle.dumps(found))):
        assert_array_equal(there.subset([7, 3]).values, runs.subset([7, 3]).values)
        wanted = TRUTH.branch_probabilities(tmap.Runs(runs.values, runs.lengths))
        assert_array_equal(TRUTH.branch_probabilities(there), wanted)
        assert TRUTH.log_likelihood(there) == TRUTH.log_likelihood(found)


def test_the_sum_is_numpys():
    """The sum is NumPy's for any number of gaps, by pieces of any size."""
    for n in (1, 7, 299, 300, 301, 2999, 4096, 10_001):
        values = np.random.default_rng(n).lognormal(size=n)
        at = [0]

        def some(k):
            at[0] += k
            return float(np.add.reduce(values[at[0] - k : at[0]]))

        assert stored._added_up(n, some) == values.sum() and at[0] == n


WRONG = [
    (
        lambda gaps: np.where(np.arange(len(gaps)) == 1000, -1.0, gaps),
        pk.InputError,
        r"\(values\[1000\]\) is",
    ),
    (
        lambda gaps: np.where(np.arange(len(gaps)) == 999, np.nan, gaps),
        pk.FiniteError,
        r"values\[999\]\) is nan",
    ),
    (lambda gaps: gaps[:-1], pk.ShapeError, "but lengths add up to"),
    (
        lambda gaps: np.stack([gaps, gaps], axis=1),
        pk.ShapeError,
        r"values has shape \(.*, 2\); expected 1 dimension",
    ),
    (lambda gaps: gaps > 1.0, pk.DTypeError, "values must hold real numbers, got dtype bool"),
]


@pytest.mark.parametrize("change, error, message", WRONG)
def test_wrong_gaps(change, error, message, runs, tmp_path):
    """The error names the gap's number, and no file is left."""
    for kind in (in_memory, in_dask):
        with pytest.raises(error, match=message):
            tmap.StoredRuns(kind(change(runs.values), tmp_path), runs.lengths, path=tmp_path / "gaps.npy")
    assert not list(tmp_path.glob("*gaps*"))


def test_wrong_files(runs, tmp_path):
    given = mapped(runs.values, tmp_path)
    with pytest.raises(pk.InputError, match="path is '.*given.npy', the file that values is read from"):
        tmap.StoredRuns(given, runs.lengths, path=tmp_path / "given.npy")
    with pytest.raises(pk.errors.StorageError, match="path: '.*gaps.npy' cannot be written"):
        tmap.StoredRuns(given, runs.lengths, path=tmp_path / "nowhere" / "gaps.npy")
    found = tmap.StoredRuns(given, runs.lengths, path=tmp_path / "gaps.npy")
    (tmp_path / "gaps.npy").unlink()
    with pytest.raises(pk.InputError, match="gaps.npy', which cannot be read here"):
        tmap.fit(found, orders=ORDERS, max_iter=2)
