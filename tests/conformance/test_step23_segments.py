"""Step 23: ragged rows, and searches in sorted numbers, compared with NumPy row by row."""

import threading

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal

import portable as pk
from portable.library import rows, segments
from portable.errors import CheckError, DTypeError, InputError, ShapeError

from ..launching import move

DTYPES = "int32 int64 uint32 uint64 float32 float64".split()


def ragged(rng, shape, dtype):
    """Return (values whose sums are exact, offsets) of rows in one of several shapes."""
    lengths = {
        "short": rng.integers(0, 12, 60),
        "mixed": rng.choice([0, 1, 5, 70], 30),
        "one": np.array([300]),
        "none": np.zeros(4, int),
        "no rows": np.zeros(0, int),
    }[shape]
    x = rng.integers(0, 100, lengths.sum())
    return (x / 8 if dtype[0] == "f" else x).astype(dtype), np.concatenate([[0], np.cumsum(lengths)])


def rows_of(x, offsets):
    return [x[a:b] for a, b in zip(offsets[:-1], offsets[1:])]


TILES = {"tiles of 16": (16, False), "a tile": (segments._TILE, False), "in scratch": (128, True)}


@pytest.fixture(params=TILES)
def tiles(request, monkeypatch):
    """Use small tiles, so that rows cross several of them at sizes that plain Python can run; read from
    scratch as on a GPU.
    """
    tile, staged = TILES[request.param]
    monkeypatch.setattr(segments, "_TILE", tile)
    monkeypatch.setattr(segments, "_GPU_TILE", max(tile, segments._WARP))  # each member has a value
    if staged:
        monkeypatch.setattr(segments, "_by_teams", lambda space: True)
    segments._cut.cache_clear()
    yield
    segments._cut.cache_clear()


SHAPES = ["short", "mixed", "one", "none", "no rows"]


@pytest.mark.parametrize(
    "dtype, tiles",
    [
        *((dtype, "a tile") for dtype in DTYPES),
        *((dtype, tiles) for dtype in ("int32", "float64") for tiles in ("tiles of 16", "in scratch")),
    ],
    indirect=["tiles"],
)
def test_rows_are_combined(space, dtype, tiles):
    for shape in SHAPES:
        rows_are_combined(space, shape, dtype)


def sums_agree(x, offsets, space):
    found = pk.segmented_reduce(move(x, space), move(offsets, space), space=space).to_numpy()
    assert found.tolist() == [row.sum() for row in rows_of(x, offsets)]


def largest_agree(x, offsets, space):
    largest = pk.segmented_reduce(
        move(x, space), move(offsets, space), reducer=pk.Max, space=space
    ).to_numpy()
    rows = rows_of(x, offsets)
    assert [a for a, row in zip(largest, rows) if len(row)] == [row.max() for row in rows if len(row)]


def rows_are_combined(space, shape, dtype):
    x, offsets = ragged(default_rng(1), shape, dtype)
    given = move(x, space), move(offsets, space)
    wide = dtype if dtype[0] == "f" else "int64" if dtype[0] == "i" else "uint64"
    found = pk.segmented_reduce(*given, space=space)
    assert found.dtype == wide
    assert found.to_numpy().tolist() == [row.sum(dtype=wide) for row in rows_of(x, offsets)]
    if shape in ("short", "one"):
        largest_agree(x, offsets, space)


@pytest.mark.parametrize("dtype", "int32 uint64 float32 float64".split())
def test_prefixes_of_rows(space, dtype):
    for shape in ("short", "mixed", "none"):
        x, offsets = ragged(default_rng(2), shape, dtype)
        given = move(x), move(offsets)
        sums = [np.cumsum(row, dtype="float64" if dtype[0] == "f" else None) for row in rows_of(x, offsets)]
        assert pk.segmented_scan(*given).to_numpy().tolist() == [v for row in sums for v in row]
        before = pk.segmented_scan(*given, inclusive=False).to_numpy()
        assert before.tolist() == [v for row in sums for v in [0, *row][: len(row)]]
        largest = pk.segmented_scan(*given, reducer=pk.Max).to_numpy()
        assert largest.tolist() == [v for row in rows_of(x, offsets) for v in np.maximum.accumulate(row)]


@pytest.fixture
def long_rows(monkeypatch):
    """Use a team for each row, as a GPU does if rows are long on average; values beyond the first 16 are
    processed in blocks."""
    monkeypatch.setattr(segments, "_by_teams", lambda space: True)
    monkeypatch.setattr(segments, "_LONG", 1)
    monkeypatch.setattr(segments, "MOST", 16)
    few_looks(monkeypatch)


def few_looks(monkeypatch):
    """Check offsets by only four teams, for the sake of plain Python, in memory of this test."""
    for module in (rows, segments):
        monkeypatch.setattr(module, "LOOKS", 4)
    monkeypatch.setattr(rows, "_kept", threading.local())


@pytest.mark.parametrize("dtype", "int32 uint64 float32 float64".split())
@pytest.mark.parametrize("lengths", [[16] * 3, [17, 0, 0, 16, 1, 33, 300, 31], [0, 5, 0, 1, 70, 70, 0]])
def test_long_rows_are_combined_by_a_team_each(space, lengths, dtype, long_rows):
    """Combine rows that end at a block, one value after it, or are empty, together with long rows."""
    rng, offsets = default_rng(9), np.concatenate([[0], np.cumsum(lengths)])
    x = rng.integers(0, 100, offsets[-1]).astype(dtype)
    sums_agree(x, offsets, space)
    largest_agree(x, offsets, space)


@pytest.mark.parametrize("mean", [300, 1000])
def test_rows_of_several_rounds_of_a_team(space, mean, monkeypatch):
    """Each member reads several values ahead, twice as many for longer rows."""
    monkeypatch.setattr(segments, "_by_teams", lambda space: True)
    few_looks(monkeypatch)
    rng, offsets = default_rng(12), np.cumsum([0, mean, 0, 2 * mean, mean + 1, 1, mean, 2 * mean])
    x = rng.integers(0, 1000, offsets[-1]).astype("float64")
    sums_agree(x, offsets, space)


@pytest.mark.parametrize("most", [16, 300])
@pytest.mark.parametrize("inclusive", [True, False])
def test_prefixes_of_long_rows(space, inclusive, most, long_rows, monkeypatch):
    """Each row has a team, unless one of the rows is longer than a team can process."""
    monkeypatch.setattr(segments, "MOST", most)
    rng, offsets = default_rng(10), np.cumsum([0, 17, 0, 16, 1, 33, 300, 31])
    x = rng.integers(1, 9, offsets[-1])
    found = pk.segmented_scan(move(x), move(offsets), IN_ORDER, inclusive, space).to_numpy()
    wanted = x if inclusive else np.where(np.isin(np.arange(len(x)), offsets), 0, np.roll(x, 1))
    assert found.tolist() == wanted.tolist()  # the last value before, 0 where there is none
    sums = pk.segmented_scan(move(x), move(offsets), pk.Sum, inclusive, space).to_numpy()
    wanted = [np.cumsum(row) - (0 if inclusive else row) for row in rows_of(x, offsets)]
    assert sums.tolist() == np.concatenate(wanted).tolist()


@pytest.mark.parametrize("inclusive", [True, False])
def test_prefixes_of_rows_of_the_sizes_of_the_call_before(space, inclusive, long_rows):
    """Repeat a call with the same numbers of rows and values; now one row is longer than a team can process,
    now none: a GPU continues before the host has this information."""
    x = default_rng(11).integers(1, 9, 48)
    for lengths in ([16] * 3, [15, 16, 17], [16] * 3, [16, 15, 17], [0, 48, 0], [16] * 3, [16] * 3):
        offsets = np.cumsum([0, *lengths])
        found = pk.segmented_scan(move(x), move(offsets), pk.Sum, inclusive, space).to_numpy()
        wanted = [np.cumsum(row) - (0 if inclusive else row) for row in rows_of(x, offsets)]
        assert found.tolist() == np.concatenate(wanted).tolist(), lengths


def later(a, b):
    return pk.where(b != 0, b, a)


IN_ORDER = pk.Reducer("InOrder", later, 0, commutes=False)


@pytest.mark.parametrize("descending", [False, True])
def test_rows_are_sorted(space, descending):
    x, offsets = ragged(default_rng(3), "short", "float64")
    x = np.where(x > 11, np.nan, x)
    values, order = pk.segmented_sort(move(x), move(offsets), descending, space)
    assert_array_equal(values.to_numpy(), x[order.to_numpy()])
    wanted = [
        a + np.argsort(-row if descending else row, kind="stable")
        for a, row in zip(offsets, rows_of(np.nan_to_num(x, nan=1e9), offsets))
    ]
    assert_array_equal(order.to_numpy(), np.concatenate(wanted))


@pytest.mark.parametrize("dtype", [*DTYPES, "int8", "uint16"])
def test_places_among_edges(space, dtype):
    rng = default_rng(4)
    edges, values = np.sort(rng.integers(0, 30, 20)).astype(dtype), rng.integers(0, 30, 50).astype(dtype)
    if dtype[0] == "f":
        edges[-1], values[:3] = np.nan, [np.nan, np.inf, -0.0]
    for side in ("left", "right"):
        found = pk.searchsorted(move(edges), move(values), side, space)
        assert_array_equal(found.to_numpy(), np.searchsorted(edges, values, side))


@pytest.mark.parametrize("dtype", "int32 uint64 float32 float64".split())
def test_different_numbers(space, dtype):
    for n in [0, 1, 200]:
        x = default_rng(5).integers(0, 40, n).astype(dtype)
        if dtype[0] == "f":
            x[::7] = np.nan
        found, counts = pk.unique(move(x), counts=True)
        wanted = np.unique(x, return_counts=True)
        assert_array_equal(found.to_numpy(), wanted[0])
        assert_array_equal(counts.to_numpy(), wanted[1])
        assert_array_equal(pk.unique(move(x), space=space).to_numpy(), wanted[0])


@pytest.mark.parametrize("n", [0, 300])
def test_bins(space, n):
    rng = default_rng(6)
    x, weights = rng.integers(0, 17, n), rng.integers(0, 9, n) / 4
    assert_array_equal(pk.bincount(move(x)).to_numpy(), np.bincount(x))
    assert_array_equal(pk.bincount(move(x), minlength=40).to_numpy(), np.bincount(x, minlength=40))
    sums = pk.bincount(move(x), move(weights), 20, space).to_numpy()
    assert_array_equal(sums, np.bincount(x, weights, 20))


def test_several_keys_and_falling_ones(space):
    rng = default_rng(7)
    first, second = rng.integers(0, 5, 200), rng.integers(0, 9, 200) / 2
    order = pk.argsort((move(first), move(second)), space)
    assert_array_equal(order.to_numpy(), np.lexsort((second, first)))
    falling = pk.argsort(move(second), space, descending=True)
    assert_array_equal(falling.to_numpy(), np.argsort(-second, kind="stable"))
    keys, values = pk.sort_by_key(move(first), move(second), space, descending=True)
    order = np.argsort(-first, kind="stable")
    assert_array_equal(keys.to_numpy(), first[order])
    assert_array_equal(values.to_numpy(), second[order])


def test_what_is_wrong_is_named(space):
    x, offsets = move(np.arange(4.0)), move(np.array([0, 2, 4]))
    for call, error, words in [
        (
            lambda: pk.segmented_reduce(x, move(np.array([0, 3, 2, 4]))),
            InputError,
            "falls by 1",
        ),
        (
            lambda: pk.segmented_reduce(x, move(np.array([0, 3]))),
            InputError,
            "ends with 3",
        ),
        (
            lambda: pk.segmented_reduce(x, move(np.array([0.0, 4.0]))),
            DTypeError,
            "offsets",
        ),
        (lambda: pk.segmented_reduce(x, offsets, pk.MinLoc, space), DTypeError, "MinLoc"),
        (lambda: pk.segmented_scan(x, offsets, pk.LogSumExp), DTypeError, "LogSumExp"),
        (lambda: pk.searchsorted(x, offsets), DTypeError, "one dtype"),
        (lambda: pk.searchsorted(x, x, "middle", space), InputError, "side"),
        (lambda: pk.bincount(move(np.array([1, -2]))), InputError, "-2"),
        (lambda: pk.bincount(x), DTypeError, "whole"),
        (lambda: pk.bincount(offsets, x), ShapeError, "weights"),
        (lambda: pk.argsort((), space), InputError, "empty"),
        (lambda: pk.argsort((x, offsets), space), ShapeError, "one shape"),
    ]:
        with pytest.raises(error, match=words):
            call()


def test_wrong_offsets_of_long_rows(space, long_rows):
    x = move(np.arange(60.0))
    for offsets in ([0, 70, 60], [-5, 30, 60], [0, 40, 20, 60]):
        for call in (pk.segmented_reduce, pk.segmented_scan):
            with pytest.raises((InputError, CheckError), match="must rise from 0 to 60|^race"):
                call(x, move(np.array(offsets)))


@pytest.mark.parametrize("n_rows", [3, 12, 9_000])
def test_wherever_offsets_of_long_rows_are_wrong(space, n_rows, long_rows):
    """Offsets of fewer rows than checking teams, of more, and of more than their members process at once, are
    checked; in the middle one decreasing offset is enough."""
    n_rows = min(n_rows, 20 if space == "checked" else n_rows)
    n = 3 * n_rows
    x, whole = move(np.arange(float(n))), 3 * np.arange(n_rows + 1)
    for place in {0, 1, n_rows // 3, n_rows // 2, n_rows - 1, n_rows}:
        offsets = whole.copy()
        offsets[place] += 1 if place in (0, n_rows) else 4
        for call in (pk.segmented_reduce, pk.segmented_scan):
            with pytest.raises((InputError, CheckError), match=f"must rise from 0 to {n}|^race"):
                call(x, move(offsets))
    assert pk.segmented_reduce(x, move(whole)).to_numpy().sum() == n * (n - 1) / 2


def test_wrong_offsets_touch_nothing_else(space, tiles):
    """A GPU combines rows before the host has checked the offsets."""
    for seed in range(6):
        wrong_offsets(space, seed)


def wrong_offsets(space, seed):
    rng = default_rng(seed)
    x, offsets = move(rng.random(60), space), rng.integers(-50, 100, 40)
    offsets[0] = seed % 2
    for call in (pk.segmented_reduce, pk.segmented_scan):
        # the checked space may first report that two rows claim one tile, but no index outside a view
        with pytest.raises((InputError, CheckError), match="must rise from 0 to 60|^race"):
            call(x, move(offsets, space), space=space)
    whole = np.array([0, 30, 60])
    found = pk.segmented_reduce(x, move(whole, space), space=space).to_numpy()  # no state remains
    assert_allclose(found, np.add.reduceat(x.to_numpy() if hasattr(x, "to_numpy") else x, whole[:-1]))


@pk.kernel
def write_ends(i, n_steps, length, n, wrong, offsets):
    """Write offsets of rows of equal length, the last one shorter, after a delay."""
    waited = 0.0
    for j in range(n_steps):
        waited = waited * 0.5 + j
    offsets[i] = (min(i * length, n) if waited > 0.0 else 0) + (i == wrong)


def test_offsets_that_the_launch_before_writes(space):
    """A GPU combines rows before the host has checked their offsets."""
    # takes a GPU longer than the host's work in the meantime
    n, n_rows, n_steps = (20_000, 40, 100_000) if space != "checked" else (600, 2, 2)
    values, length = np.arange(float(n)), n // n_rows + 1
    x, offsets = move(values), move(np.zeros(n_rows + 1, np.int64))
    policy = pk.RangePolicy(0, n_rows + 1)
    for turn in range(8):
        call = pk.segmented_scan if turn % 2 else pk.segmented_reduce
        wrong = (0, -1, n_rows, -1)[turn // 2 % 4]  # the beginning, none, the end, none
        pk.parallel_for(policy, write_ends, n_steps, length + turn, n, wrong, offsets)
        if wrong >= 0:
            with pytest.raises(InputError, match=f"must rise from 0 to {n}"):
                call(x, offsets)
            continue
        found = call(x, offsets).to_numpy()
        rows = rows_of(values, np.minimum(np.arange(n_rows + 1) * (length + turn), n))
        wanted = np.concatenate([np.cumsum(row) for row in rows]) if turn % 2 else [row.sum() for row in rows]
        assert_array_equal(found, wanted)


def test_threads_that_combine_rows_at_once(space):
    """Each thread receives only the errors of its own rows."""
    n, n_rows = (20_000, 40) if space != "checked" else (600, 2)
    found = {}

    def combine(number):
        x = move(np.full(n, float(number)), space)
        ends = np.linspace(0, n, n_rows + 1).astype(np.int64)
        if number == 2:
            ends[-1] -= 1
        offsets, wanted = move(ends, space), float(number) * np.diff(ends)
        for _ in range(20 if space != "checked" else 2):
            try:
                sums = pk.segmented_reduce(x, offsets, space=space).to_numpy()
                found.setdefault(number, []).append((sums == wanted).all())
            except InputError as error:
                found.setdefault(number, []).append(f"ends with {n - 1}" in str(error))

    threads = [threading.Thread(target=combine, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [0, 1, 2, 3] and all(all(turns) for turns in found.values()), found


def test_many_empty_rows(space, tiles):
    """A tile counts ends of rows, too: many empty rows, before, among and after others, are distributed like
    many values."""
    rng = default_rng(8)
    rows, none = rng.integers(1, 40, 12), np.zeros(200, int)
    for lengths in ([none, rows], [rows[:6], none, rows[6:], none, [90]], [rows, none]):
        offsets = np.concatenate([[0], np.cumsum(np.concatenate(lengths))])
        x = rng.integers(-9, 9, offsets[-1])
        sums_agree(x, offsets, space)
