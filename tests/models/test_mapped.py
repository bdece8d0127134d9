"""Test arrays larger than memory: Zarr and dask arrays, Parquet files and readers of users give their rows,
here and where they are sent, and the fits of the array in memory; errors are refused by name."""

import pickle
import subprocess
import sys

import numpy as np
import pandas
import pyarrow
import pytest
import zarr
from dask import array as da
from numpy.random import default_rng
from numpy.testing import assert_array_equal
from pyarrow import dataset, parquet

import portable as pk
from portable.models.shared import mapped
from portable.models import mixture, tmap
from portable.models.shared.store import digest
from portable.errors import DTypeError, FiniteError, InputError, ShapeError

N, P = 3000, 2


@pytest.fixture(scope="module")
def X():
    random = default_rng(1)
    return (random.normal(size=(N, P)) + 5.0 * random.integers(0, 3, (N, 1))).astype(np.float32)


def in_zarr(X, path, chunks=(700, 1)):
    found = zarr.create_array(path / "points.zarr", shape=X.shape, chunks=chunks, dtype=X.dtype)
    found[:] = X
    return found


def in_memory(X, path):
    return zarr.array(X, chunks=(190, 2))


def in_dask(X, path):
    return da.from_array(X, chunks=(450, 1))


def in_parquet(X, path, name="points.parquet", rows=800):
    table = pyarrow.table({f"x{k}": column for k, column in enumerate(np.asarray(X).T)})
    parquet.write_table(table, path / name, row_group_size=rows)
    return path / name


def in_two_files(X, path):
    """Return a folder, with the rows of its files in the order of their names."""
    folder = path / "parts.parquet"
    folder.mkdir()
    in_parquet(X[:1100], folder, "a.parquet")
    in_parquet(X[1100:], folder, "b.parquet")
    return dataset.dataset(folder)


class Users:
    """Reader of a user, without chunks."""

    def __init__(self, X, wrong=None):
        self.X, self.shape, self.dtype, self.wrong = X, X.shape, X.dtype, wrong

    def rows(self, begin, end):
        found = self.X[begin:end]
        return found if self.wrong is None else self.wrong(found)


def of_users(X, path):
    return Users(X)


KINDS = [in_zarr, in_memory, in_dask, in_parquet, in_two_files, of_users]


@pytest.mark.parametrize("kind", KINDS)
def test_rows(kind, X, tmp_path):
    found = mapped.opened(kind(X, tmp_path), "X")
    assert found.shape == X.shape and found.dtype == X.dtype and found.nbytes == X.nbytes
    for begin, end in ((0, N), (10, 20), (650, 1500), (1500, 1501), (699, 700), (N - 1, N), (7, 7)):
        assert_array_equal(found[begin:end], X[begin:end])
        piece = pickle.loads(pickle.dumps(mapped.rows_of(found, begin, end)))
        assert_array_equal(mapped.read(piece), X[begin:end])
        assert piece.nbytes == X[begin:end].nbytes and mapped.read(piece).flags.c_contiguous
    at = default_rng(1).integers(0, N, 300)
    for key in (at, [5, 3], slice(3, 2000, 70), -1, (5, 1), (slice(600, 900), 1), X[:, 0] > 5.0):
        assert_array_equal(found[key], X[key])
    assert_array_equal(np.asarray(found), X)
    assert digest(found) == digest(X)


@pytest.mark.parametrize("kind", KINDS)
def test_a_mixture_has_the_bits_of_the_array_in_memory(kind, X, tmp_path, space):
    """Compare space by space; two blocks, whose edges are not those of chunks."""
    if space == "checked":
        X = X[:60]
    how = {"prior": None, "max_iter": 3, "tol": -1.0, "random_state": 0, "space": space}
    there = kind(X, tmp_path)
    streamed, whole = (mixture.DirichletMixture(2, **how).fit(data) for data in (there, X))
    for name in "means_ covariances_ weights_ objective_history_".split():
        assert_array_equal(getattr(streamed, name), getattr(whole, name))
    if kind in (in_parquet, in_two_files):
        assert streamed.feature_names_in_.tolist() == ["x0", "x1"]
        del streamed.feature_names_in_  # X in memory has none
    assert_array_equal(streamed.predict(X), whole.predict(X))


def test_whole_numbers_are_converted_as_they_are_read(X, tmp_path):
    whole = np.rint(10.0 * X).astype(np.int16)
    how = {"prior": None, "max_iter": 2, "tol": -1.0, "random_state": 0, "space": "serial"}
    streamed = mixture.DirichletMixture(2, **how).fit(in_zarr(whole, tmp_path))
    assert_array_equal(streamed.means_, mixture.DirichletMixture(2, **how).fit(whole).means_)


def test_each_chunk_is_read_once(X):
    """This holds for readers of the rows in order, a few at a time."""
    read = []

    class Chunked(Users):
        cuts = [0, 1000, 1001, 2500, N]

        def rows(self, begin, end):
            read.append((begin, end))
            return super().rows(begin, end)

    found = mapped.opened(Chunked(X), "X")
    for begin in range(0, N, 300):
        assert_array_equal(found[begin : begin + 300], X[begin : begin + 300])
    assert read == [(0, 1000), (1000, 2500), (2500, N)]
    read.clear()
    assert_array_equal(found[[2600, 10, 2999, 11]], X[[2600, 10, 2999, 11]])
    assert read == [(0, 1000), (2500, N)]


def fit(X):
    mixture.DirichletMixture(2, space="serial").fit(X)


def test_chunks_of_another_dtype(X):
    odd = da.from_array(X, chunks=(1000, 2)).map_blocks(
        lambda block, block_info=None: block.astype("f8" if block_info[0]["chunk-location"][0] else "f4"),
        dtype=np.float32,
    )
    with pytest.raises(
        DTypeError, match="X: a chunk from row 1000 on holds float64, but the whole .* float32"
    ):
        fit(odd)
    masked = da.from_array(X, chunks=(1000, 2)).map_blocks(np.ma.masked_array, dtype=np.float32)
    with pytest.raises(DTypeError, match="X: a chunk from row 0 on is a MaskedArray"):
        fit(masked)
    with pytest.raises(DTypeError, match="X: rows 0 to .* are of type list"):
        fit(Users(X, lambda rows: rows.tolist()))
    with pytest.raises(ShapeError, match=r"X: rows 0 to .* have shape .*; expected .*"):
        fit(Users(X, lambda rows: rows[:-1]))


def test_no_numbers(X, tmp_path):
    for wrong, got in (
        (np.array([["a", "b"]] * 9, object), "object"),
        (X > 0.0, "bool"),
        (X * 1j, "complex"),
    ):
        with pytest.raises(DTypeError, match=f"X must hold real numbers, got dtype {got}"):
            fit(da.from_array(wrong, chunks=5))
    path = tmp_path / "words.parquet"
    parquet.write_table(pyarrow.table({"a": [1.0, 2.0], "b": ["x", "y"]}), path)
    with pytest.raises(DTypeError, match=r"X must hold real numbers: column 'b' of '.*words.parquet' holds"):
        fit(path)


def test_files_that_differ(X, tmp_path):
    folder = tmp_path / "parts.parquet"
    folder.mkdir()
    in_parquet(X, folder, "a.parquet")
    in_parquet(X.astype(np.float64), folder, "b.parquet")
    with pytest.raises(
        DTypeError, match="X: column 'x0' holds double in '.*b.parquet', float in '.*a.parquet'"
    ):
        fit(folder)
    in_parquet(X[:, :1], folder, "b.parquet")
    with pytest.raises(InputError, match="X: column 'x1' is not in all files, as in '.*b.parquet'"):
        fit(folder)


def test_missing_values(X, tmp_path):
    path, column = tmp_path / "holes.parquet", X[:, 1].tolist()
    column[1234] = None
    parquet.write_table(pyarrow.table({"a": X[:, 0], "b": column}), path, row_group_size=500)
    with pytest.raises(FiniteError, match=r"X\[1234, 1\] \(column 'b' of '.*holes.parquet'\) is missing"):
        fit(path)
    holes = X.copy()
    holes[1234, 1] = np.nan
    for kind in (in_zarr, in_dask):
        with pytest.raises(FiniteError, match=r"X\[1234, 1\] is nan"):
            fit(kind(holes, tmp_path))


def test_sizes_that_nobody_knows(X):
    some = da.from_array(X, chunks=(1000, 2))
    with pytest.raises(
        ShapeError, match=r"X is a dask array .* unknown sizes; call X.compute_chunk_sizes\(\)"
    ):
        fit(some[some[:, 0] > 0.0])


def test_files_that_are_gone_or_others(X, tmp_path):
    """The files have changed by the time that a worker reads them."""
    path = in_parquet(X, tmp_path)
    piece = pickle.loads(pickle.dumps(mapped.rows_of(mapped.opened(path, "X"), 0, 10)))
    in_parquet(X[:50], tmp_path)
    with pytest.raises(InputError, match="points.parquet', which has .* bytes here and had"):
        mapped.read(piece)
    path.unlink()
    with pytest.raises(InputError, match="points.parquet', which cannot be read here"):
        mapped.read(piece)
    with pytest.raises(InputError, match="points.parquet' cannot be read"):
        fit(path)
    array = in_zarr(X, tmp_path)
    sent = pickle.dumps(mapped.rows_of(mapped.opened(array, "X"), 0, 10))
    (tmp_path / "points.zarr").rename(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="points.zarr', which cannot be read here"):
        mapped.read(pickle.loads(sent))  # a missing chunk would be zeros
    in_zarr(X[:50], tmp_path)
    with pytest.raises(InputError, match="points.zarr', which is another array here"):
        mapped.read(pickle.loads(sent))


def test_nothing_is_imported_before_it_is_given():
    modules = "('zarr', 'dask', 'pyarrow')"
    code = f"import sys, portable.models.mixture; print([m for m in {modules} if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_a_checkpoint_of_the_array_in_memory(X, tmp_path):
    """The checkpoints are interchangeable with those of the streamed array, since their numbers are the
    same."""
    how = {"prior": None, "tol": -1.0, "random_state": 0, "space": "serial"}
    with pk.use("serial"):
        mixture.DirichletMixture(2, max_iter=2, **how).fit(X, checkpoint=tmp_path / "kept")
        one = mixture.DirichletMixture(2, max_iter=4, **how).fit(
            in_zarr(X, tmp_path), checkpoint=tmp_path / "kept"
        )
    assert_array_equal(one.means_, mixture.DirichletMixture(2, max_iter=4, **how).fit(X).means_)


def test_draws_from_the_posterior(X, tmp_path):
    """Their density is equal, too; points that are not finite leave no checkpoint."""
    model = mixture.DirichletMixture(2, max_iter=3, tol=-1.0, random_state=0, moves=False, space="serial")
    model.fit(X)
    there = in_zarr(X, tmp_path)
    one, other = (model.sample_posterior(data, 3, n_warmup=1, seed=3) for data in (there, X))
    for name in ("means", "weights", "log_likelihood"):
        assert_array_equal(getattr(one, name), getattr(other, name))
    densities = [one.log_density(data, space="serial") for data in (Users(X[:50]), X[:50])]
    assert_array_equal(*densities)
    holes = X.copy()
    holes[1234, 1] = np.inf
    with pytest.raises(FiniteError, match=r"X\[1234, 1\] is inf"):
        model.sample_posterior(Users(holes), 3, checkpoint=tmp_path / "kept")
    model.sample_posterior(there, 3, n_warmup=1, checkpoint=tmp_path / "kept")


# ---- operations that read the whole array
def test_gaps_of_a_tmap(X, tmp_path):
    """The gaps equal those of the array in memory, and wrong chunks raise the same errors."""
    gaps, lengths = np.abs(X[:, 0]).astype(np.float64), np.full(1000, 3)
    wanted = tmap.Runs(gaps, lengths)
    for values in (zarr.array(gaps, chunks=(700,)), da.from_array(gaps, chunks=450), Users(gaps)):
        found = tmap.Runs(values, zarr.array(lengths))
        assert_array_equal(found.values, wanted.values)
        assert_array_equal(found.lengths, wanted.lengths)
    odd = da.from_array(gaps, chunks=500).map_blocks(
        lambda block, block_info=None: block.astype("f4") if block_info[0]["chunk-location"][0] else block,
        dtype=np.float64,
    )
    with pytest.raises(DTypeError, match="values: a chunk from row 500 on holds float32, but the whole"):
        tmap.Runs(odd, lengths)
    with pytest.raises(DTypeError, match="values must hold real numbers, got dtype <U|got dtype object"):
        tmap.Runs(da.from_array(np.array(["a", "b", "c"], object), chunks=2), [3])


def test_gaps_in_a_parquet_file(tmp_path):
    path = tmp_path / "gaps.parquet"
    frame = pandas.DataFrame({"run": "b a b a".split(), "gap": [1.0, 2.0, 3.0, 4.0]})
    frame.to_parquet(path)
    found = tmap.read(path)
    assert found.values.tolist() == [2.0, 4.0, 1.0, 3.0] and found.lengths.tolist() == [2, 2]
    frame.assign(gap=[1.0, None, 3.0, 4.0]).to_parquet(path)
    with pytest.raises(FiniteError, match="is nan"):
        tmap.read(path)
    frame.assign(gap="1 2 3 four".split()).to_parquet(path)
    with pytest.raises(DTypeError, match="column 'gap', row 4 is 'four'; expected a number, or NA"):
        tmap.read(path)
    path.write_bytes(b"PAR1 and no more")
    with pytest.raises(InputError, match="gaps.parquet' cannot be read"):
        tmap.read(path)
