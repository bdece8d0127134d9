"""Step 19, algorithms: sorting by key, the largest of each row, compaction, compared with NumPy's stable
sort.
"""

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal

import portable as pk
from portable.library import algorithms
from portable.core import events
from portable.errors import DTypeError, InputError, ShapeError, WrongSpaceError

from ..refusals import refusals
from ..launching import move

DTYPES = "int32 int64 uint32 uint64 float32 float64".split()


def numbers(rng, dtype, shape):
    """Return numbers, of both signs if the dtype is signed, with many equal ones."""
    x = np.rint(rng.normal(size=shape) * 300)
    return (np.abs(x) if dtype[0] == "u" else x / 8 if dtype[0] == "f" else x).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_argsort_is_numpys_stable_one(space, dtype):
    rng = default_rng(1)
    for n in (0, 1, 9, 300) + (() if space == "checked" else (40_000,)):
        keys = numbers(rng, dtype, n)
        order = pk.argsort(move(keys), space)
        assert order.dtype == np.int64
        assert_array_equal(order.to_numpy(), np.argsort(keys, kind="stable"))


@pytest.mark.parametrize("dtype", DTYPES)
def test_keys_at_the_ends_of_their_range(space, dtype):
    if dtype[0] == "f":
        tiny = np.finfo(dtype).smallest_subnormal
        keys = np.array(
            [np.nan, 0.0, -0.0, np.inf, -np.inf, -tiny, tiny, -np.nan, 1.0, -0.0, 0.0, -1.0], dtype
        )
    else:
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        keys = np.array([high, low, 0, 1, high - 1, low + 1, high, low, 0], dtype)
    assert_array_equal(pk.argsort(move(keys), space).to_numpy(), np.argsort(keys, kind="stable"))
    values, columns = pk.top_k(move(keys[None]), len(keys), False, space)
    assert_array_equal(columns.to_numpy()[0], np.argsort(keys, kind="stable"))
    assert_array_equal(values.to_numpy()[0], keys[np.argsort(keys, kind="stable")])


def stable_order(keys, descending=False):
    if not descending:
        return np.argsort(keys, kind="stable")
    return (len(keys) - 1 - np.argsort(keys[::-1], kind="stable"))[::-1]  # NaN first


def with_all_ends(dtype, n):
    """Return keys of both signs, many of them equal; for floats NaN and both zeros; for integers the ends of
    a range.
    """
    keys = numbers(default_rng(n), dtype, n)
    ends = [np.nan, -0.0, 0.0, np.inf, -np.inf] if dtype[0] == "f" else [0, *map(int, bounds(dtype))]
    for k, end in enumerate(ends):
        keys[k :: 3 * k + 7] = end
    return keys


def bounds(dtype):
    return np.iinfo(dtype).min, np.iinfo(dtype).max


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", "int32 uint64 float32 float64".split())
def test_sizes_around_tiles(space, dtype, descending):
    """Sort one tile, one key more and less, and several tiles: of 4,096 keys on a GPU, of at least 2,048 on a
    CPU.
    """
    tile = 64 if space == "checked" else 2048 if pk.concurrency(space) < 200 else 4096
    for n in (tile - 1, tile, tile + 1, 5 * tile + 77):
        keys = with_all_ends(dtype, n)
        order = pk.argsort(move(keys), space, descending=descending).to_numpy()
        assert_array_equal(order, stable_order(keys, descending))


@pytest.mark.parametrize("dtype", ["int32", "float64"])
def test_digits_that_are_all_alike(space, dtype):
    """Sort equal keys, and keys that differ at one place only: the first, one within, the last."""
    n = 300 if space == "checked" else 9_000
    changes = default_rng(8).integers(0, 256, n)
    for shift in (None, 0, 8, 16, 8 * np.dtype(dtype).itemsize - 8):
        bits = np.full(n, 0x01020304, f"u{np.dtype(dtype).itemsize}")
        if shift is not None:
            bits ^= changes.astype(bits.dtype) << bits.dtype.type(shift)
        keys = bits.view(dtype)
        order = pk.argsort(move(keys), space).to_numpy()
        assert_array_equal(order, np.argsort(keys, kind="stable"))


def by_teams(monkeypatch, *tiling):
    """Sort by a GPU's teams, with `n` members, bits of a digit, and keys of a tile."""
    monkeypatch.setattr(algorithms, "_by_teams", lambda space: True)
    monkeypatch.setattr(algorithms, "_tiling", lambda space: tiling)


@pytest.mark.parametrize("dtype", "int32 uint64 float32 float64".split())
@pytest.mark.parametrize("of", ["serial", "threads"])
def test_tiles_that_look_back(monkeypatch, of, dtype):
    """Run the sort of a GPU's teams on CPUs with teams of one: many small tiles, concurrently on threads."""
    by_teams(monkeypatch, 1, 8, 64)
    for n in (0, 1, 63, 64, 65, 9_000):
        for descending in (False, True):
            keys = with_all_ends(dtype, n)
            order = pk.argsort(keys, of, descending=descending).to_numpy()
            assert_array_equal(order, stable_order(keys, descending))


@pytest.mark.parametrize("of", ["serial", "threads", "checked"])
def test_tiles_of_more_keys_than_32_bits_count(monkeypatch, of):
    """Use counts, words and numbers of 64 bits, as beyond 2^28 and 2^31 keys."""
    by_teams(monkeypatch, 1, 4, 64)
    monkeypatch.setattr(algorithms, "_index_type", lambda n: "int64")
    keys = with_all_ends("float32", 300 if of == "checked" else 5_000)
    assert_array_equal(pk.argsort(keys, of).to_numpy(), stable_order(keys))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("tiling", [(4, 2, 16), (8, 4, 16), (3, 4, 12)], ids=str)
def test_a_tile_of_several_members(monkeypatch, tiling, seed):
    """Run the same sort with members in plain Python, in turns drawn from a seed: no two of them race."""
    by_teams(monkeypatch, *tiling)
    keys = default_rng(2).integers(-40, 40, 93).astype("int32")
    with events.changed(seed=seed):
        order = pk.argsort(keys, "checked").to_numpy()
    assert_array_equal(order, np.argsort(keys, kind="stable"))


def test_words_of_the_round_before_do_not_count(monkeypatch):
    """Rounds share their words and their ticket, which are not cleared, so that a launch may run again."""
    by_teams(monkeypatch, 1, 8, 16)
    launches = []
    plain = algorithms.parallel_for
    monkeypatch.setattr(
        algorithms,
        "parallel_for",
        lambda *a, **k: [plain(*a, **k) for _ in range(1 + ("sort.move" in k.values()))],
    )
    monkeypatch.setattr(algorithms, "empty", lambda *a: launches.append(pk.empty(*a)) or launches[-1])
    keys = default_rng(3).integers(0, 2**20, 1000).astype("int32")
    assert_array_equal(pk.argsort(keys, "serial").to_numpy(), np.argsort(keys, kind="stable"))
    assert launches[0].to_numpy()[-1] == 2 * 3 * -(-1000 // 16)


def test_sort_by_key_takes_values_along(space):
    rng = default_rng(3)
    keys, values = rng.integers(0, 20, 200), rng.random(200).astype("float32")
    sorted_keys, sorted_values = (v.to_numpy() for v in pk.sort_by_key(move(keys), move(values), space))
    order = np.argsort(keys, kind="stable")
    assert_array_equal(sorted_keys, keys[order])
    assert_array_equal(sorted_values, values[order])


@pytest.mark.parametrize("dtype", "int32 uint64 float32 float64".split())
@pytest.mark.parametrize("largest", [True, False])
def test_top_k_takes_the_first_of_equals(space, dtype, largest):
    x = numbers(default_rng(4), dtype, (3, 70))
    x[2] = x[2, 0]
    falling = np.argsort(-x.astype("float64") if largest else x, axis=1, kind="stable")
    on = move(x)
    for k in (1, 8, 70):
        values, columns = pk.top_k(on, k, largest, space)
        assert values.dtype == x.dtype and columns.dtype == np.int64
        assert_array_equal(columns.to_numpy(), falling[:, :k])
        assert_array_equal(values.to_numpy(), np.take_along_axis(x, falling[:, :k], 1))


def test_top_k_of_no_rows(space):
    values, columns = pk.top_k(move(np.zeros((0, 5))), 2)
    assert values.shape == columns.shape == (0, 2)


def test_compact_keeps_the_order(space):
    for n in [0, 1, 1000]:
        rng = default_rng(5)
        keep = rng.random(n) < 0.4
        assert_array_equal(pk.compact(move(keep)).to_numpy(), np.flatnonzero(keep))
        for dtype in ("int32", "int8", "complex64"):
            x = rng.integers(-9, 9, n).astype(dtype)
            kept = pk.compact(move(keep.astype("int32")), move(x), space)
            assert kept.dtype == dtype
            assert_array_equal(kept.to_numpy(), x[keep])


def test_a_view_of_another_memory_is_refused():
    if pk.unavailable_because("cuda") is not None:
        pytest.skip("one memory only")
    with pytest.raises(WrongSpaceError):
        pk.argsort(np.zeros(5), "cuda")


test_wrong_arguments = refusals(
    [
        (
            lambda: pk.argsort(np.zeros((2, 2)), "serial"),
            ShapeError,
            r"keys has shape \(2, 2\); expected one dimension",
        ),
        (lambda: pk.argsort(np.zeros(3, bool), "serial"), DTypeError, "keys has dtype bool"),
        (lambda: pk.argsort(np.zeros(3, "float16"), "serial"), DTypeError, "float16"),
        (
            lambda: pk.sort_by_key(np.zeros(3), np.zeros(4), "serial"),
            ShapeError,
            r"values has shape \(4,\), keys has shape \(3,\)",
        ),
        (lambda: pk.top_k(np.zeros(3), 1, space="serial"), ShapeError, "two dimensions"),
        (lambda: pk.top_k(np.zeros((2, 3)), 0, space="serial"), InputError, "k is 0; expected 1 to 3"),
        (lambda: pk.top_k(np.zeros((2, 3)), 4, space="serial"), InputError, "k is 4; expected 1 to 3"),
        (lambda: pk.top_k(np.zeros((2, 3)), 1.5, space="serial"), InputError, "k"),
        (lambda: pk.compact(np.zeros(3), space="serial"), DTypeError, "keep has dtype float64"),
        (lambda: pk.compact(np.zeros(3, bool), np.zeros(2), "serial"), ShapeError, "values has shape"),
    ]
)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16])
def test_small_whole_numbers_are_keys(space, dtype):
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    keys = default_rng(3).integers(low, high, 500, endpoint=True).astype(dtype)
    keys[:2] = low, high
    given = move(keys)
    assert_array_equal(pk.argsort(given, space).to_numpy(), np.argsort(keys, kind="stable"))
    values, counts = (v.to_numpy() for v in pk.unique(given, counts=True))
    wanted = np.unique(keys, return_counts=True)
    assert values.dtype == dtype
    assert_array_equal(values, wanted[0])
    assert_array_equal(counts, wanted[1])
    if low == 0:
        weights = np.arange(500.0)
        assert_array_equal(pk.bincount(given).to_numpy(), np.bincount(keys))
        sums = pk.bincount(given, move(weights)).to_numpy()
        assert_allclose(sums, np.bincount(keys, weights), rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float16, np.bool_, np.complex64])
def test_other_keys_are_refused_with_what_there_is(space, dtype):
    with pytest.raises(pk.DTypeError, match="int8, uint8, int16, uint16, int32"):
        pk.argsort(move(np.zeros(3, dtype)), space)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.bool_, np.float16, np.int16, np.int32, np.float64])
def test_values_of_each_dtype_are_kept(space, dtype):
    values, keep = (np.arange(500) % 120).astype(dtype), np.arange(500) % 3 == 0
    got = pk.compact(move(keep), move(values), space).to_numpy()
    assert got.dtype == dtype
    assert_array_equal(got, values[keep])
