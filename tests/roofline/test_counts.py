"""Compare counts with the formulas of counted.py, exactly; test the reports of counts."""

import dataclasses
import io

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from rich.console import Console

import portable as pk
from portable import roofline
from portable.errors import InputError, LanguageError, LoweringError
from portable.watch.counts.explain import Explanation
from portable.roofline import counting
from portable.roofline.arguments import Data
from portable.roofline.cases import layer
from tests.roofline.counted import costed, reverse

COSTED = costed()


@pytest.fixture(scope="module")
def counts():
    """Return {name: (Costed, Counts)}, counted once."""
    with pk.use("threads"):
        return {
            name: (c, roofline.count(c.policy, c.kernel, *c.args, **c.options)) for name, c in COSTED.items()
        }


@pytest.mark.parametrize("name", COSTED)
def test_text_counts_are_the_formulas_of_the_hand(counts, name):
    wanted, got = counts[name]
    assert got.flops_by_dtype == wanted.flops
    assert got.special == wanted.special
    assert got.comparisons == wanted.comparisons
    assert got.atomics == wanted.atomics
    assert (got.loaded, got.stored, got.compulsory) == (wanted.loaded, wanted.stored, wanted.compulsory)
    if wanted.integer is not None:
        assert got.integer == wanted.integer


@pytest.mark.parametrize("name", COSTED)
def test_executed_counts_are_those_of_the_text_or_explained(counts, name):
    wanted, got = counts[name]
    executed = sum(got.executed_totals["flops"].values())
    assert (executed == got.flops and got.masked == 0) == (len(got.explanation()) == 1)
    if wanted.same_executed:
        assert executed == got.flops
    special = sum(got.executed_totals["special"].values())
    assert special >= sum(got.special.values())  # masked lanes compute an exp, too
    if got.masked == 0 and not got.special:
        assert executed <= 1.2 * got.flops + 4096  # sums of packs and blocks are combined


@pytest.mark.parametrize("name", COSTED)
def test_executed_counts_on_a_gpu_are_its_own(name):
    """Threads branch where packs use masks: only special functions on the taken path are executed."""
    if reason := pk.unavailable_because("cuda"):
        pytest.skip(reason)
    wanted = COSTED[name]
    with pk.use("cuda"):
        args = [pk.copy_of(a) if isinstance(a, np.ndarray) else a for a in wanted.args]
        before = [a.to_numpy() for a in args if isinstance(a, pk.View)]
        got = roofline.count(wanted.policy, wanted.kernel, *args, **wanted.options)
        after = [a.to_numpy() for a in args if isinstance(a, pk.View)]
    assert got.flops_by_dtype == wanted.flops and 0 <= got.masked < 1
    executed = got.executed_totals
    assert executed["special"] == {
        f"{function} {dtype}": n for (function, dtype), n in wanted.special.items()
    }
    if wanted.same_executed:
        assert executed["flops"] == wanted.flops
    assert executed["stored"] >= wanted.stored > 0 or wanted.options or wanted.atomics
    for old, new in zip(before, after, strict=True):
        assert_array_equal(old, new)


def test_masked_lanes_are_told_apart(counts):
    _, conditional = counts["conditional"]
    n_masked = conditional.executed_totals["special"]["exp float64"] - conditional.special["exp", "float64"]
    assert (
        0.3 < n_masked / conditional.executed_totals["special"]["exp float64"] < 0.7
        and conditional.masked > 0.1
    )
    assert any("masked off" in line for line in conditional.explanation())
    assert counts["axpy"][1].masked < 0.01


@pytest.fixture(autouse=True)
def on_host():
    with pk.use("serial"):
        yield


def test_counting_changes_no_argument(space):
    views = [pk.copy_of(np.arange(10.0), space), pk.copy_of(np.ones(10), space)]
    kernel = COSTED["axpy"].kernel
    policy = pk.RangePolicy(0, 10, space=space)
    counted = roofline.count(policy, kernel, 2.0, *views)
    assert_array_equal(views[1].to_numpy(), np.ones(10))
    assert counted.flops == 20 and counted.compulsory == 240
    assert counted.on_device == (counted.alone > 0.0) == space.startswith("cuda")


def test_shared_memory_stays_shared():
    x = np.arange(10.0)
    roofline.count(10, COSTED["axpy"].kernel, 1.0, x, x)
    assert_array_equal(x, np.arange(10.0))


@pk.kernel
def halve(i, x):
    while x[i] > 1.0:
        x[i] *= 0.5


@pk.kernel
def threshold(i, x, out):
    out[i] = 1.0 if x[i] > 0.5 else 0.0


def test_counts_that_depend_on_changing_data_say_so():
    changing = roofline.count(4, halve, np.array([1.0, 2.0, 4.0, 8.0]))
    assert changing.flops == 0 + 1 + 2 + 3
    assert any("the launch itself changes 'x'" in note for note in changing.notes)
    steady = roofline.count(4, threshold, np.ones(4), np.zeros(4))
    assert "the text has conditions: the counts are of these data" in steady.notes
    assert (
        COSTED["axpy"].kernel
        and roofline.count(4, COSTED["axpy"].kernel, 1.0, np.ones(4), np.ones(4)).notes == []
    )


def test_sums_in_private_copies_are_no_atomics(space):
    """Sums in private copies run at the rate of loads and stores, in the source's counts and the executed
    ones: a roof of atomics would be exceeded."""
    if space == "checked":
        pytest.skip("operations are counted where kernels are compiled")
    levels = np.arange(1000, dtype=np.int32) % layer.BINS
    policy, there = pk.RangePolicy(0, 1000, space=space), pk.copy_of(levels, space)
    shared, own = (
        roofline.count(policy, layer.count, there, wrap(pk.zeros(layer.BINS, np.int32, space)))
        for wrap in (pk.asview, pk.ScatterView)
    )
    assert shared.atomics == {("add", "int32"): 1000} and shared.integer == 0
    assert (
        own.atomics == {}
        and own.integer == 1000
        and (own.loaded, own.stored, own.arrays) == (shared.loaded, shared.stored, shared.arrays)
    )
    assert own.executed_totals["atomics"] == 0 or space.startswith("cuda")


@pk.kernel
def append(i, x, n_kept, kept):
    if x[i] > 0.5:
        kept[pk.atomic_add(n_kept, 0, 1)] = x[i]


@pytest.mark.parametrize("space", ["serial", "threads"])
def test_what_appends_is_counted_within_its_bounds(space):
    """Each run begins with the arguments' initial values; after another run the list would have no more
    room."""
    x, room, n_kept = np.linspace(0.0, 1.0, 1000), np.zeros(2000), np.zeros(1, np.int64)
    with pk.use(space):
        counted = roofline.count(1000, append, x, n_kept, room[:500])
    assert counted.atomics == {("add", "int64"): 500} and n_kept[0] == 0 and not room.any()


@roofline.cost(flops=lambda n, x, y: 2 * n, bytes=lambda n, x, y: 3 * x.nbytes)
@pk.kernel
def well_declared(i, x, y):
    y[i] += 2.0 * x[i]


@roofline.cost(flops=lambda n, x, y: n)
@pk.kernel
def badly_declared(i, x, y):
    y[i] += 2.0 * x[i]


def test_a_declared_cost_is_held_against_the_count():
    assert roofline.count(5, well_declared, np.ones(5), np.ones(5)).notes == []
    assert roofline.count(5, badly_declared, np.ones(5), np.ones(5)).notes == [
        "declared flops: 5; counted: 10"
    ]
    with pytest.raises(InputError, match="cost: flops is 3"):
        roofline.cost(flops=3)


def test_a_kernel_without_floating_point_has_counts_too():
    words, out = np.arange(100, dtype=np.int32), np.zeros(100, np.int32)
    counted = roofline.count(100, reverse, words, out)
    assert counted.flops == 0 and counted.intensity == 0.0 and counted.integer == 600
    assert counted.as_dict()["bytes"]["compulsory"] == 800


def test_the_table_names_every_kind(counts):
    text = io.StringIO()
    Console(file=text, width=200).print(counts["conditional"][1].table())
    told = " ".join(text.getvalue().split())
    assert all(
        word in told for word in ("exp float64", "bytes, compulsory", "16,048", "masked off", "of these data")
    )


def test_wrong_launches_are_refused_as_a_launch_would():
    with pytest.raises(LanguageError, match="cannot be launched"):
        roofline.count(5, np.sin, np.ones(5))
    with pytest.raises(InputError, match="takes 2 argument"):
        roofline.count(5, well_declared, np.ones(5))
    with pytest.raises((LanguageError, LoweringError)):
        roofline.count(5, threshold, np.ones((5, 5)), np.ones(5))


@pk.kernel
def by_members(team, x, parts):
    for m in range(x.shape[0] // team.size):
        x[m * team.size + team.rank] *= 2.0
        total = team.reduce(x[m * team.size + team.rank])
        if team.single():
            parts[m] = total


def test_a_kernel_whose_arrays_fit_its_team_size_is_counted_as_it_runs():
    """Teams have at least eight members; with one member there would be more parts than room for them, by a
    factor of eight."""
    x, parts = np.ones(64), np.zeros(8)
    with pk.use("serial"):
        counts = roofline.count(pk.TeamPolicy(1, 8), by_members, x, parts)
    assert counts.flops >= 64 and 0 < counts.arrays["parts"][1] <= 64 and counts.arrays["x"][1] == 512


def test_elements_far_apart_are_those_of_lines_that_a_device_calls_scattered():
    accesses = [
        ("k.py:3", "x", "strided or gathered"),
        ("k.py:3", "y", "contiguous"),
        ("k.py:4", "x", "uniform"),
    ]
    facts = {"registers a thread": 40, "occupancy": "75% of the threads a multiprocessor can hold"}
    text = {
        ("k.py:3", "load x", "float64"): 10,
        ("k.py:3", "load y", "float64"): 20,
        ("k.py:4", "load x", "float64"): 40,
        ("k.py:3", "atomic add x", "int64"): 1,
        ("k.py:3", "+", "float64"): 5,
    }
    found, policy = Explanation("k", "cuda", facts, accesses, ""), pk.RangePolicy(0, 10)
    occupancy = "40 registers a thread leave room for 75% of its threads"
    assert counting._explained(found, text, {"x": 1}, policy) == (11, 320, occupancy)
    assert counting._explained(Explanation("k", "cuda", {}, [], ""), text, {}, policy) == (0, 0, "")


@pk.kernel
def one_of_32(i, x, y):
    if x[i] > 0.0:
        for _ in range(20):
            y[i] = 0.5 * y[i] + x[i]


def test_lanes_of_a_warp_are_idle_beside_one():
    """If one of 32 threads has work, packs of eight lanes skip three of four, and a warp none."""
    x = np.where(np.arange(4096) % 32, -1.0, 1.0)
    policy = pk.RangePolicy(0, 4096, space="serial")
    packs, warps = (
        counting._masked(policy, one_of_32, Data((x, np.ones(4096)), True), (), None, build)
        for build in ("lanes:8", f"lanes:{counting.WARP}")
    )
    assert packs == pytest.approx(0.84, abs=0.04) and warps == pytest.approx(0.95, abs=0.03)


@pytest.mark.parametrize("name", [n for n, c in COSTED.items() if not isinstance(c.policy, pk.TeamPolicy)])
def test_every_kernel_is_counted_by_warps(name):
    costed = COSTED[name]
    reducer, scan = costed.options.get("reducer", ()), costed.options.get("scan")
    policy = costed.policy if dataclasses.is_dataclass(costed.policy) else pk.RangePolicy(0, costed.policy)
    with Data(costed.args, True) as data:
        masked = counting._masked(policy, costed.kernel, data, reducer, scan, f"lanes:{counting.WARP}")
    assert 0.0 <= masked < 1.0
