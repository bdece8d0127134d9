"""Test cross maps of all pairs: compared with plain NumPy, with offsets, missing values, batches, files and
names.
"""

import warnings
from pathlib import Path

import numpy as np
import pandas
import pytest
import xarray
from numpy.testing import assert_allclose, assert_array_equal

import portable as pk
from portable.models import edm
from portable.models.edm import cross, mapping
from portable.models.edm.frames import open_matrix

from ...processes import python
from . import reference
from .series import driver_and_driven, logistic_maps

DIMS = np.array([2, 1, 3, 2])


def dataset(space, seed=1):
    return logistic_maps(24 if space == "checked" else 300, len(DIMS), seed)


# Float32: rounded coordinates change a distance near its smallest by some eps / d_1, and weights by as much.
@pytest.mark.parametrize("dtype, tolerance", [("float64", 1e-12), ("float32", 1e-4)])
@pytest.mark.parametrize("tau, Tp, radius", [(1, 0, 0), (2, 1, 3), (1, -1, 0)])
def test_all_pairs(space, tau, Tp, radius, dtype, tolerance):
    """Count the earlier time of equal distances, as among rounded numbers."""
    keys = {"tau": tau, "Tp": Tp}
    for x in (dataset(space), np.round(8 * dataset(space)) / 8):
        found = edm.cross_map(x, DIMS, exclusion_radius=radius, dtype=dtype, space=space, **keys)
        wanted = reference.cross_map(x, DIMS, radius=radius, **keys)
        assert_allclose(found, wanted, rtol=0, atol=tolerance)


@pytest.mark.parametrize("seed", range(20))
def test_equal_to_kedm(seed):
    kedm = pytest.importorskip("kedm")
    x = logistic_maps(300, 6, seed).astype(np.float32)
    dims = np.random.default_rng(seed).integers(2, 9, 6)
    assert_allclose(edm.cross_map(x, dims), kedm.xmap(x, dims.tolist(), tau=1, Tp=0), rtol=0, atol=1e-5)


@pytest.mark.parametrize("offset", [1e2, 1e6])
def test_offsets_do_not_matter(space, offset):
    x = dataset(space)[:, :2]
    plain = edm.cross_map(x, DIMS[:2], space=space)
    assert_allclose(edm.cross_map(x + offset, DIMS[:2], space=space), plain, rtol=0, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_many_targets(space, dtype):
    """A member processes two targets at a time, though some members have one."""
    x = dataset(space)[: 8 if space == "checked" else None, :2]
    dims = np.array([1, 2])
    few = edm.cross_map(x, dims, libraries=[1], dtype=dtype, space=space)
    which = np.repeat([0, 1], [33, 97])
    many = edm.cross_map(x[:, which], dims[which], libraries=[33], dtype=dtype, space=space)
    assert_allclose(many, few[:, which], rtol=0, atol=4 * np.finfo(dtype).eps)


@pytest.mark.parametrize("at_once", [1, 3, 4])
def test_wide_teams_predict_the_same_bits(space, at_once, monkeypatch):
    x, found = logistic_maps(24 if space == "checked" else 150, 70, 2), []
    x[5:9, 3] = np.nan
    for form in ((mapping.TEAM, 1), (mapping.WIDE, at_once)):
        monkeypatch.setattr(mapping, "form_of", lambda n_teams: form)
        tested = edm.cross_map_test(x, 2, Tp=1, libraries=[0, 3], surrogate="block", space=space)
        found.append([tested.rho, tested.p_values])
    assert_array_equal(*found)


def test_part_of_the_libraries_in_batches(space):
    x = dataset(space)[:, :3]
    whole = edm.cross_map(x, DIMS[:3], space=space)
    part = edm.cross_map(x, DIMS[:3], libraries=[2, 1], memory_mb=1e-6, space=space)
    assert_array_equal(part, whole[[2, 1]])


def test_memory_keeps_to_its_budget(space, monkeypatch):
    """Memory in addition to the dataset, its copy and the targets stays within the budget; it is released at
    the end."""
    taken, empty = [], pk.empty

    def counted(shape, dtype="float64", *args, **options):
        view = empty(shape, dtype, *args, **options)
        taken.append(int(np.prod(view.shape)) * view.dtype.itemsize)
        return view

    x = logistic_maps(24 if space == "checked" else 1000, len(DIMS))
    wanted = edm.cross_map(x, DIMS, space=space)
    monkeypatch.setattr(pk, "empty", counted)
    found = edm.cross_map(x, DIMS, memory_mb=0.5, space=space)
    copies = 2 * 4 * len(DIMS) * (len(x) + 100)
    assert 0 < sum(taken) <= 2**19 + copies
    assert_array_equal(found, wanted)


def test_missing_values(space):
    x = dataset(space)
    x[[7, 20], 0] = np.nan
    x[15, 2] = np.nan
    found = edm.cross_map(x, DIMS, dtype="float64", space=space)
    for i, j in np.ndindex(4, 4):
        predicted = reference_with_gaps(x[:, i], x[:, j], DIMS[j])
        assert found[i, j] == pytest.approx(reference.rho(predicted, x[DIMS[j] - 1 :, j]), abs=1e-12)


def reference_with_gaps(library, target, E):
    """Points with missing coordinates make no prediction."""
    predicted = reference.simplex(library, target, E, Tp=0)
    predicted[np.isnan(reference.embedded(library, E, 1)).any(axis=1)] = np.nan
    return predicted


def test_constant_series_are_named(space):
    x = dataset(space)
    x[:, 2] = 0.1
    with pytest.warns(RuntimeWarning, match=r"1 series do not vary \(2\)"):
        found = edm.cross_map(x, DIMS, space=space)
    expected = np.zeros((4, 4), bool)
    expected[2] = expected[:, 2] = True
    assert_array_equal(np.isnan(found), expected)


def test_file_is_written_and_resumed(tmp_path, monkeypatch):
    x = logistic_maps(100, 70)
    dims = np.full(70, 2)
    plain = edm.cross_map(x, dims)
    path = tmp_path / "rho.npy"
    part = edm.mapping.Mapping.run
    calls = []

    def interrupted(self, first, times):
        calls.append(first)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return part(self, first, times)

    monkeypatch.setattr(edm.mapping.Mapping, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        edm.cross_map(x, dims, out=path)
    assert [p.name for p in tmp_path.iterdir()] == ["rho.npy.checkpoint"]
    with pytest.raises(ValueError, match="belongs to another run: dims differ"):
        edm.cross_map(x, 3, out=path)
    found = edm.cross_map(x, dims, out=path)
    assert len(calls) == 5 + 31 and calls[5][0] == 8  # two libraries in each part: four were stored
    assert_array_equal(found, plain)
    assert_array_equal(np.load(path), plain)
    written = path.stat().st_mtime_ns
    assert_array_equal(edm.cross_map(x, dims, out=path), plain)
    assert len(calls) == 36 and path.stat().st_mtime_ns == written  # finished: nothing to do


def test_more_libraries_extend_a_checkpoint(tmp_path, monkeypatch):
    x = logistic_maps(100, 12)
    plain = edm.cross_map(x, 2)
    few = edm.cross_map(x, 2, libraries=[7, 3], checkpoint=tmp_path / "rows")
    assert_array_equal(few, plain[[7, 3]])
    ran, run = [], edm.mapping.Mapping.run
    monkeypatch.setattr(
        edm.mapping.Mapping, "run", lambda self, part, times: (ran.extend(part), run(self, part, times))[1]
    )
    assert_array_equal(edm.cross_map(x, 2, checkpoint=tmp_path / "rows"), plain)
    assert ran == [0, 1, 2, 4, 5, 6, 8, 9, 10, 11]
    again = edm.cross_map(x, 2, libraries=[3, 3], checkpoint=tmp_path / "rows", out=tmp_path / "rho.npy")
    assert_array_equal(again, plain[[3, 3]])
    assert len(ran) == 10


def test_other_files_are_never_replaced(tmp_path):
    data = tmp_path / "data.npy"
    x = logistic_maps(60, 3)
    np.save(data, x)
    before = data.read_bytes()
    with pytest.raises(ValueError, match="out is '.*data.npy', the file that dataset is read from"):
        edm.cross_map(np.load(data, mmap_mode="r"), 2, out=data)
    with pytest.raises(ValueError, match="out is '.*data.npy', which exists and is not of this run"):
        edm.cross_map(x, 2, out=data)
    edm.cross_map(x, 2, checkpoint=tmp_path / "rows")
    with pytest.raises(ValueError, match="out is '.*data.npy', which exists and is not of this run"):
        edm.cross_map(x, 2, out=data, checkpoint=tmp_path / "rows")
    assert data.read_bytes() == before
    edm.cross_map(x, 2, out=tmp_path / "other.npy", checkpoint=tmp_path / "rows")
    (tmp_path / "other.npy").write_bytes(b"damaged")  # belongs to this run, and is rebuilt
    found = edm.cross_map(x, 2, out=tmp_path / "other.npy", checkpoint=tmp_path / "rows")
    assert_array_equal(found, edm.cross_map(x, 2))


@pytest.mark.parametrize("same", [False, True])
def test_of_two_calls_with_one_out_the_second_is_refused(tmp_path, monkeypatch, same):
    """The first call to finish keeps its complete file, though both write at once; the second is refused then
    and later.
    """
    x, out = logistic_maps(60, 6), tmp_path / "r.npy"
    put = cross._Target.put
    theirs = []

    def meanwhile(target, libraries, rho):
        monkeypatch.setattr(cross._Target, "put", put)
        edm.cross_map(x, 2 if same else 3, out=out, checkpoint=tmp_path / "b")
        theirs.append(out.read_bytes())
        put(target, libraries, rho)

    monkeypatch.setattr(cross._Target, "put", meanwhile)
    with pytest.raises(ValueError, match="out is '.*r.npy', which another call has written meanwhile"):
        edm.cross_map(x, 2, out=out, checkpoint=tmp_path / "a")
    assert out.read_bytes() == theirs[0]
    if not same:
        with pytest.raises(ValueError, match="out is '.*r.npy', which exists and is not of this run"):
            edm.cross_map(x, 2, out=out, checkpoint=tmp_path / "a")
    assert out.read_bytes() == theirs[0]
    found = edm.cross_map(x, 2, out=tmp_path / "s.npy", checkpoint=tmp_path / "a")
    assert_array_equal(found, edm.cross_map(x, 2))


def test_a_call_that_was_killed_owns_no_file_of_another(tmp_path, monkeypatch):
    x, out = logistic_maps(60, 6), tmp_path / "r.npy"

    def killed(target, libraries, rho):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(cross._Target, "put", killed)
        edm.cross_map(x, 2, out=out, checkpoint=tmp_path / "a")
    edm.cross_map(x, 3, out=out, checkpoint=tmp_path / "b")
    theirs = out.read_bytes()
    with pytest.raises(ValueError, match="out is '.*r.npy', which exists and is not of this run"):
        edm.cross_map(x, 2, out=out, checkpoint=tmp_path / "a")
    assert out.read_bytes() == theirs


def test_names_come_back():
    x = logistic_maps(60, 3)
    plain = edm.cross_map(x, 2)
    found = edm.cross_map(pandas.DataFrame(x, columns=list("abc")), 2)
    assert_array_equal(found, plain)
    assert found.index.name == "library" and found.columns.name == "target"
    assert list(found.index) == list(found.columns) == list("abc")
    for table in (
        xarray.DataArray(x, dims=("time", "cell"), coords={"cell": list("abc")}),
        xarray.Dataset({name: ("time", column) for name, column in zip("abc", x.T)}),
    ):
        assert_array_equal(edm.cross_map(table, 2).sel(library="b", target=["c", "a"]), plain[1, [2, 0]])
    with pytest.raises(
        ValueError, match="dataset is an xarray Dataset of the dimensions time, cell; .*one dimension"
    ):
        edm.cross_map(xarray.Dataset({"a": ("time", x[:, 0]), "b": (("time", "cell"), x)}), 2)


def test_memory_of_a_whole_brain():
    """Map 154 series of 1,600 steps on the CPU in a separate process: at most 200 MB beyond the input.

    The memory is the system's figure for this program; `ru_maxrss` begins with that of its parent process.
    """
    if not Path("/proc/self/status").exists():
        pytest.skip("the system does not tell")
    text = """
from pathlib import Path
import numpy as np
from portable.models import edm

def most():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
x = np.random.default_rng(1).normal(size=(1600, 154)).cumsum(0)
dims = np.arange(154) % 20 + 1
edm.cross_map(x[:60, :20], dims[:20] % 3 + 1)
before = most()
edm.cross_map(x, dims, libraries=np.arange(24))
print(most() - before)
"""
    done = python("-c", text)
    assert int(done.stdout) < 200 * 1024


@pytest.mark.parametrize(
    "groups, windows",
    [
        ([[0, 1], [3, 2]], {}),
        ([[0, 1], [3, 2]], {"lib": (0, 20), "pred": (20, 30)}),
        ([0, 1], {"lib": [(0, 10), (12, 20)], "pred": (21, 30)}),
    ],
    ids=str,
)
def test_windows_and_libraries_of_several_columns(space, groups, windows):
    """Each library and target has the result of simplex from these columns, which may have different
    units, with the same windows."""
    x = logistic_maps(30, 4) * [1.0, 2.0, 1e3, 1e3]
    dims, keys = [1, 2, 2, 1], {"Tp": 1, "dtype": "float64", **windows}
    found = edm.cross_map(x, dims, libraries=groups, space=space, **keys)
    wanted = [
        [edm.simplex(x[:, group], dims[j], target=x[:, j], **keys).rho for j in range(4)] for group in groups
    ]
    assert_allclose(found, wanted, rtol=0, atol=1e-12)


def test_groups_have_their_own_checkpoint_and_names(tmp_path):
    x = pandas.DataFrame(logistic_maps(60, 3), columns=list("abc"))
    keys = {"checkpoint": tmp_path / "kept"}
    found = edm.cross_map(x, 2, libraries=[["a", "c"], ["b", "c"]], **keys)
    assert list(found.index) == ["a + c", "b + c"] and list(found.columns) == list("abc")
    again = edm.cross_map(x, 2, libraries=[[0, 2], [1, 2]], **keys)
    assert_array_equal(found, again)
    assert_array_equal(
        edm.cross_map(x, 2, libraries=["c", "a"]),
        edm.cross_map(x, 2).iloc[[2, 0]],
    )
    with pytest.raises(pk.InputError, match="belongs to another run: libraries"):
        edm.cross_map(x, 2, libraries=[[0, 1], [1, 2]], **keys)


def test_a_group_that_does_not_vary_has_no_skill():
    x = logistic_maps(60, 4)
    x[:, 2:] = 0.5
    with pytest.warns(RuntimeWarning, match="2 series do not vary"):
        found = edm.cross_map(x, 2, libraries=[[0, 2], [2, 3]])
    assert np.isfinite(found[0, :2]).all() and np.isnan(found[1]).all() and np.isnan(found[:, 2:]).all()


def test_a_file_is_opened_lazily(tmp_path):
    path, x = tmp_path / "rho.npy", logistic_maps(60, 3)
    edm.cross_map(x, 2, out=path)
    found = open_matrix(path, list("abc"), list("abc"))
    assert isinstance(found.values.base, np.memmap) or isinstance(found.values, np.memmap)
    assert float(found.sel(library="b", target="c")) == edm.cross_map(x, 2)[1, 2]
    with pytest.raises(pk.ShapeError, match=r"holds shape \(3, 3\); expected \(2, 3\)"):
        open_matrix(path, list("ab"), list("abc"))


@pytest.mark.parametrize("n", [5, 33, 70])
def test_targets_that_are_none_lie_inside(n):
    """A slice reads as many columns as are processed at a time, also if fewer are targets."""
    x = logistic_maps(30, n)
    with pk.use("serial", debug=True):
        found = edm.cross_map(x, 2)
    assert_array_equal(found, edm.cross_map(x, 2))


def test_each_library_has_its_own_dimension(space):
    """By default the dimension that forecasts the library best; optionally that of each target, each library
    or each pair.
    """
    x = logistic_maps(24 if space == "checked" else 120, 3)
    keys = {"dtype": "float64", "space": space}
    by_E = {E: edm.cross_map(x, E, **keys) for E in (1, 2, 3)}
    pairs = np.array([[1, 2, 3], [3, 3, 1], [2, 1, 2]])
    wanted = np.array([[by_E[E][i, j] for j, E in enumerate(row)] for i, row in enumerate(pairs)])
    assert_allclose(edm.cross_map(x, pairs, **keys), wanted, rtol=0, atol=1e-12)
    rows = np.array([by_E[E][i] for i, E in enumerate((3, 1, 3))])
    assert_allclose(edm.cross_map(x, [[3], [1], [3]], **keys), rows, rtol=0, atol=1e-12)
    some = edm.cross_map(x, [[3], [1], [3]], libraries=[2, 1], **keys)
    assert_allclose(some, rows[[2, 1]], rtol=0, atol=1e-12)
    best = [max(1, edm.embedding_dimension(column, 3, space=space).best) for column in x.T]
    own = edm.cross_map(x, E_max=3, **keys)
    assert_allclose(own, [by_E[E][i] for i, E in enumerate(best)], rtol=0, atol=1e-12)
    assert_array_equal(edm.cross_map(x, "target", E_max=3, **keys), edm.cross_map(x, best, **keys))
    n = 3 if space == "checked" else 19
    tested = edm.cross_map_test(x, pairs, surrogate="phase", n_surrogates=n, stop_after=None, **keys)
    assert_allclose(tested.rho, wanted, rtol=0, atol=1e-12)
    assert_array_equal(tested.E, pairs)
    for E in (1, 2, 3):
        alone = edm.cross_map_test(x, E, surrogate="phase", n_surrogates=n, stop_after=None, **keys)
        assert_array_equal(tested.n_better[pairs == E], alone.n_better[pairs == E])


def test_own_dimensions_go_on_and_are_told(tmp_path):
    x = logistic_maps(80, 4)
    keys = {"E_max": 4}
    whole = edm.cross_map(x, **keys)
    part = edm.cross_map(x, libraries=[1, 3], checkpoint=tmp_path / "rows", **keys)
    assert_array_equal(part, whole[[1, 3]])
    assert_array_equal(edm.cross_map(x, checkpoint=tmp_path / "rows", **keys), whole)
    more = {"surrogate": "phase", "n_surrogates": 9, "checkpoint": tmp_path / "test"} | keys
    tested, again = (edm.cross_map_test(x, **more) for _ in range(2))
    assert_array_equal(tested.p_values, again.p_values)
    named = edm.cross_map(pandas.DataFrame(x, columns=list("abcd")), **keys)
    best = [max(1, edm.embedding_dimension(column, 4).best) for column in x.T]
    assert named.attrs["E"] == [[E] for E in best]
    gaps = np.where(np.arange(80)[:, None] % 4 == 3, np.nan, x)
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
        assert edm.cross_map(gaps).shape == (4, 4)  # no point has more than three lags


def test_drivers_are_named():
    x = driver_and_driven(300)
    tested = edm.cross_map_test(x, 2, n_surrogates=99, surrogate="phase")
    lines = tested.drivers()
    assert lines[0].startswith("0 drives 1: its skill from 1's history is 0.8")
    assert "with E = 2, q = 0.0" in lines[0] and len(lines) == tested.rejected().sum()
