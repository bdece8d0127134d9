"""Test the parts of arrays that launches access: elements by the identity of memory, and their cache
lines."""

import math

import numpy as np
import pytest
from numpy.random import default_rng

import portable as pk
from portable import roofline
from portable.library import algorithms
from portable.watch.counts import reuse
from portable.watch.counts import recording
from portable.roofline import counting
from portable.roofline.cases import layer

N = 1000


@pk.kernel
def gather(i, place, table, y):
    y[i] = table[place[i]]


@pk.kernel
def fill(i, y):
    y[i] = 0.0


@pk.kernel
def update(i, x):
    x[i] += 1.0


@pk.kernel
def row_sums(team, a, out):
    row, total = a[team.league_rank, 1:], 0.0
    for j in team.thread_range(row.shape[0]):
        total += row[j]
    total = team.reduce(total)
    if team.single():
        out[team.league_rank] = total


@pytest.fixture(params=["serial", "threads:2"], autouse=True)
def on(request):
    with pk.use(request.param):
        yield


def lines(*arrays):
    """Return the number of lines of 64 bytes that hold these elements."""
    return len(
        {
            (a.ctypes.data + np.ravel_multi_index(k, a.shape) * a.itemsize) // 64
            for a in arrays
            for k in np.ndindex(a.shape)
        }
    )


def test_an_array_passed_twice_is_read_once():
    y = np.arange(float(N))
    counts = roofline.count(N, layer.product, y, y, reducer=pk.Sum)
    assert (
        counts.compulsory == 8 * N
        and counts.arrays == {"x, y": (8 * N, 0)}
        and counts.lines == {"x, y": (lines(y), 0)}
    )
    assert counts.loaded == 16 * N


def test_parts_of_one_array_are_one():
    whole = np.arange(N + 2.0)
    assert roofline.count(N, layer.product, whole[:-2], whole[2:], reducer=pk.Sum).compulsory == 8 * (N + 2)
    left, right = whole[: N // 2], whole[N // 2 : N]
    assert roofline.count(N // 2, layer.product, left, right, reducer=pk.Sum).arrays == {
        "x": (4 * N, 0),
        "y": (4 * N, 0),
    }


def test_a_gather_of_few_reads_few():
    """100 elements of ten million are 800 bytes in 13 lines, of an array that begins with a line."""
    room = np.zeros(10_000_008)
    table = room[-room.ctypes.data % 64 // 8 :][:10_000_000]
    counts = roofline.count(100_000, gather, np.arange(100_000) % 100, table, np.zeros(100_000))
    assert counts.arrays["table"] == (800, 0) and counts.lines["table"] == (13, 0)
    assert counts.compulsory == 800 + 16 * 100_000


def test_a_stride_touches_more_lines_than_it_needs():
    x = np.zeros(16 * N)
    counts = roofline.count(N, update, x[::-16])
    assert counts.arrays == {"x": (8 * N, 8 * N)} and counts.lines == {"x": (N, N)}
    assert counts.compulsory == 16 * N and counts.line_bytes == 128 * N == counts.as_dict()["bytes"]["lines"]


def test_slices_and_atomics_are_where_they_are():
    a, out = np.ones((20, 50)), np.zeros(20)
    assert roofline.count(pk.TeamPolicy(20), row_sums, a, out).arrays == {
        "a": (8 * 20 * 49, 0),
        "out": (0, 160),
    }
    counts = np.zeros(256, np.int32)
    found = roofline.count(N, layer.count, np.arange(N, dtype=np.int32) % 7, counts)
    assert found.arrays == {"levels": (4 * N, 0), "counts": (28, 28)}


def test_views_of_other_element_sizes_are_told_apart():
    a = np.ones(N)
    assert roofline.count(N, gather, np.zeros(N, np.int64), a, a.copy()).arrays["table"] == (8, 0)
    small = np.ones(N, np.float32)
    assert roofline.count(N, layer.product, small, a, reducer=pk.Sum).arrays == {
        "x": (4 * N, 0),
        "y": (8 * N, 0),
    }
    assert roofline.count(0, update, np.ones(0)).compulsory == 0


def test_a_fill_stores_what_it_fills():
    """The optimiser replaces the loop by one call; its bytes count."""
    counts = roofline.count(100_000, fill, np.ones(100_000))
    assert counts.executed_totals["stored"] == 800_000 == counts.stored == counts.compulsory
    copied = roofline.count(
        100_000, gather, np.arange(100_000), np.ones(100_000), np.ones(100_000)
    ).executed_totals
    assert copied["stored"] == 800_000 and 1_600_000 <= copied["loaded"] < 1_601_000


@pk.kernel
def thirds(i, x, y):
    y[i] = x[i] // 3.0 + 1.0


@pk.kernel
def total(i, x):
    return x[i] * x[i]


@pk.kernel
def at_most_once(i, x, y):
    if x[i] > 0.5:
        y[i] = x[i] * 2.0 + 1.0


def told(*launch, **options):
    return " ".join(roofline.count(*launch, **options).explanation())


def test_more_flops_than_the_text_are_told_where_they_are():
    x = np.linspace(0.0, 1.0, 1001)
    sums = told(1001, total, x, reducer=pk.Sum)
    assert "partial sums of packs, blocks and teams are combined: " in sums and "//" not in sums
    masked = told(1001, at_most_once, x, np.zeros(1001))
    assert "partial sums" not in masked and "flops more, of lanes" in masked


def test_a_float_floor_division_is_one_flop_of_code_and_text():
    counts = roofline.count(1000, thirds, np.linspace(0.0, 1.0, 1000), np.zeros(1000))
    assert (
        counts.flops == 2000 == sum(counts.executed_totals["flops"].values())
        and len(counts.explanation()) == 1
    )


@pk.kernel
def turned(i, x, y):
    y[i] = x[i] * 2.0 + 1j


@pk.kernel
def some(i, place, x, y):
    if place[i] % 3 != 0:
        y[2 * i] = x[place[i]]


@pk.kernel
def rows(i, a, x, y):
    y[i] = a[i, 1] + x[0]


def shared_out(team, n, x):
    """Add as many private numbers for each member as a team's share of n has."""
    own = pk.local(n // team.size, x.dtype)
    for k in range(n // team.size):
        own[k] = x[k * team.size + team.rank]
    for k in range(n // team.size):
        x[k * team.size + team.rank] = own[k] + 1.0


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("n", [1 << 16, 1 << 18])
def test_what_the_members_of_large_teams_share_out_is_counted(n, packed):
    """Count as many members as a warp has, or two, if a pack's few lanes, or the single one of a kernel
    without packs, would need private arrays that are too large."""
    kernel, x = pk.kernel(shared_out, packed=packed), np.zeros(n)
    counts = roofline.count(pk.TeamPolicy(1, 256), kernel, pk.static(n), x, executed=False)
    assert counts.arrays == {"x": (8 * n, 8 * n)} and counts.loaded == 8 * n and not x.any()


@pk.kernel
def kept(team, n, x, out):
    """Store a member's share of n in scratch, whose shape is known at run time."""
    own = team.scratch(n // team.size, x.dtype)
    for k in team.thread_range(n // team.size):
        own[k] = x[k]
    team.barrier()
    for k in team.thread_range(n // team.size):
        out[k] = own[k] + 1.0


@pytest.mark.parametrize(("n", "size"), [(1 << 18, 256), (1 << 22, 1024), (1 << 12, 32), (1 << 18, pk.AUTO)])
def test_scratch_of_a_devices_teams_has_room_where_fewer_members_count(n, size):
    """The scratch of a device's launch is too small for the shares of a host's few members."""
    at_least = 128 if size is pk.AUTO else size
    policy = pk.TeamPolicy(2, size, scratch_bytes=pk.scratch_bytes((n // at_least, np.float64)))
    x, out = np.zeros(n), np.zeros(n)
    _, touched, _, _ = counting._text(policy, kept, (n, x, out), (), None, on_device=True)
    n_read, n_written = touched["x"][0][0] // 8, touched["out"][0][1] // 8
    assert n_read == n_written and n % n_read == 0 and n_read >= n // at_least and out[:n_read].all()


def test_rounds_of_a_sort_by_a_gpus_teams_are_counted(monkeypatch):
    """Teams of 256 that divide tiles of 4,096 keys, in a kernel without packs, are counted by a warp of
    members, whose sort is the same."""
    n, space = 50_000, pk.default_space()
    monkeypatch.setattr(algorithms, "_tiling", lambda space: (256, 8, 4096))
    keys = default_rng(0).integers(0, 1 << 16, n).astype(np.uint64)
    state = algorithms._start_all_digits(keys, False, 8, space)
    even, odd = ((np.zeros(n, np.uint64), np.zeros(n, np.int32)) for _ in range(2))
    policy, order = pk.TeamPolicy(-(-n // 4096), 256), np.zeros(n, np.int64)
    for place in range(8):
        launch = *map(pk.static, (4096, 8, 8)), place, pk.static(False), keys, even, odd, order, state
        counts = roofline.count(policy, algorithms._move_tile, *launch, executed=False)
        read, written = (8 * n, 12 * n) if place == 0 else (0, 8 * n) if place == 1 else (0, 0)
        assert counts.arrays.get("given", (0, 0)) == (read, 0)
        assert sum(counts.arrays.get(name, (0, 0))[1] for name in ("keys", "numbers", "order")) == written
        pk.count(policy, algorithms._move_tile, *launch, build="touched:32")  # the launch itself
    assert (order == np.argsort(keys, kind="stable")).all()


@pk.kernel
def sweeps(i, n, x, out):
    total = 0.0
    for k in range(n):
        total += x[k]
    out[i] = total


@pytest.mark.parametrize("build", ["touched", "touched:32"])
def test_samples_that_are_full_know_how_many_accesses_came(build, monkeypatch):
    """More accesses occur than any member records: for each sampled line, one for each sweep."""
    traces, made = [], reuse.Trace.__init__
    monkeypatch.setattr(
        reuse.Trace, "__init__", lambda trace, *args: (made(trace, *args), traces.append(trace))[0]
    )
    n_indices, x = 512, np.zeros(4096)
    pk.count(pk.RangePolicy(0, n_indices), sweeps, 4096, x, np.zeros(n_indices), build=build)
    (trace,) = traces
    first = x.ctypes.data // 64
    hashed = [line * recording.HASH % 2**64 >> 64 - reuse.HASHED for line in range(first, first + 512)]
    width = 32 if build == "touched:32" else 1
    for sample in trace.samples:
        picked = sum(h < sample[recording.LIMIT] for h in hashed)
        if picked > 16:
            assert sample[0] / picked == pytest.approx(n_indices / width, rel=0.2)
    assert width > 1 or trace.samples[0][0] > reuse.EVENTS


@pk.function
def halved(x):
    return 0.5 * x


@pk.function
def positive(x):
    return x if x > 0.0 else 0.0


@pk.kernel
def straight(i, n, a, place, out):
    total = 0.0
    for k in range(n[i]):
        total += halved(a[k] * out[place[i]])
    out[i] = math.exp(-total) + pk.random.normal(1, 0, i)


@pk.kernel
def choosing(i, n, a, place, out):
    out[i] = positive(a[n[i]])


@pk.function
def applied(function, x):
    return function(x)


@pk.kernel
def given(i, n, a, place, out):
    out[i] = applied(positive, a[n[i]])


@pk.kernel
def weighted(i, n, a, place, out):
    return a[place[i]] * out[i], n[i]


def _larger(a, b):
    return a if a > b else b


larger = pk.Reducer("larger", _larger, identity=-1)


@pk.kernel
def grid_sum(j, i, n, a, place, out):
    out[i] = a[place[i]] + a[j]


@pytest.mark.parametrize(
    ("kernel", "policy", "build"),
    [
        (straight, pk.RangePolicy(3, N), "touched:lanes"),
        (grid_sum, pk.MDRangePolicy((0, 1), (5, N - 3)), "touched:lanes"),
        (weighted, pk.RangePolicy(0, N - 1), "touched:lanes"),
        (weighted, pk.RangePolicy(0, N - 1), "touched"),
        (choosing, pk.RangePolicy(0, N), "touched"),
        (given, pk.RangePolicy(0, N), "touched"),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_devices_kernel_that_chooses_nothing_is_counted_by_packs(kernel, policy, build):
    """Packs execute the same operations as single indices, and share the facts that are uniform."""
    place = default_rng(0).integers(0, N, N)
    arrays, reducer = (np.arange(N) % 7, np.ones(N), place, np.ones(N)), ()
    if kernel is weighted:
        reducer = (pk.Sum, pk.Sum if build == "touched:lanes" else larger)
    assert [name for _, name in counting._builds(kernel, policy, reducer, True)] == [build]
    by_index, by_packs = (
        counting._text(policy, kernel, arrays, reducer, None, device) for device in (False, True)
    )
    assert by_packs[:2] == by_index[:2]


@pytest.mark.parametrize("kernel", [turned, some, rows], ids=lambda k: k.name)
@pytest.mark.parametrize("build", ["touched:lanes", "touched:32"])
def test_packs_touch_what_single_lanes_touch(kernel, build):
    """Compare complex numbers, whose parts packs load by rows; inactive lanes; gathers, gaps; a single
    index."""
    place = default_rng(0).integers(0, 900, N + 1)
    wide, out = np.ones(N, np.float32), np.zeros(2 * N + 2)
    numbers = np.ones(N + 1, complex), np.zeros(N + 1, complex)
    args = {turned: numbers, some: (place, wide, out), rows: (np.ones((N + 1, 3)), wide, out)}[kernel]

    def found(build):
        counted = pk.count(pk.RangePolicy(0, N + 1), kernel, *args, build=build)
        kinds = "touched", "lines", "bytes", "load", "store"
        return {key: n for key, n in counted.items() if key[1].startswith(kinds)}

    assert found(build) == found("touched")
