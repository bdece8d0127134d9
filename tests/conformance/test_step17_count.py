"""Counting builds: the operations of a launch, and their numbers."""

import collections
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

import portable as pk
from portable.core.language.frontend import has_loops
from portable.errors import InputError, LoweringError, SpaceError

from .test_step13_plan import row_sums

N = 1003  # neither a multiple of 8 nor of 16 lanes


@pk.function
def shifted(v):
    return v + 1.0


@pk.kernel
def branches(i, x, out):
    if x[i] > 0.5:
        out[i] = math.exp(-x[i]) * shifted(x[i])
    elif x[i] > 0.25 and x[i] * x[i] < 0.2:
        out[i] = math.sqrt(x[i]) / 3.0


@pk.kernel
def product(i, x, y):
    return x[i] * y[i]


@pk.kernel
def until_small(i, x, steps):
    v, n = x[i], 0
    while v > 1e-3:
        v *= 0.5
        n += 1
    steps[i] = n


@pk.kernel
def shuffled(i, x, bins):
    pk.atomic_add(bins, int(x[i] * 8.0), 1.0)
    bins[8] = pk.random.uniform(1, i, 0)


@pk.kernel
def draws(i, x):
    x[i] = pk.random.uniform(1, i, 0)


@pk.kernel
def levels(i, x, counts):
    pk.atomic_add(counts, int(x[i] * 8.0), 1)


def totals(counts):
    """Return the counts without those by line."""
    found = collections.Counter()
    for (_, operation, dtype), n in counts.items():
        word, _, of = operation.rpartition(" ")
        access = word in ("load", "store") or word.startswith("atomic ")
        found[f"{word if access else operation} {dtype}".strip()] += n
    return dict(found)


@pytest.fixture
def x():
    return np.random.default_rng(0).random(N)


@pytest.fixture(params=["serial", "threads"])
def cpu(request):
    with pk.use(request.param):
        yield


@pytest.mark.parametrize("build", "text touched lanes executed".split())
def test_a_count_makes_no_code_of_the_launch_itself(x, cpu, build):
    @pk.kernel
    def doubled(i, x):
        x[i] *= 2.0

    pk.count(N, doubled, x, build=build)
    assert [key[1] for key in doubled.compiled] == [build]


@pytest.mark.parametrize("build", ["text", "lanes"])
def test_branches_count_where_they_are_taken(x, cpu, build):
    found = totals(pk.count(N, branches, x, np.zeros(N), build=build))
    issued = found.pop("issued", None)
    high, middle = x > 0.5, (x <= 0.5) & (x > 0.25)
    low = middle & (x * x < 0.2)
    assert found == {
        "compare float64": N + (x <= 0.5).sum() + middle.sum(),
        "neg float64": high.sum(),
        "exp float64": high.sum(),
        "* float64": high.sum() + middle.sum(),
        "+ float64": high.sum(),
        "sqrt float64": low.sum(),
        "/ float64": low.sum(),
        "load float64": N + 2 * high.sum() + (x <= 0.5).sum() + 2 * middle.sum() + low.sum(),
        "store float64": high.sum() + low.sum(),
    }
    assert issued is None if build == "text" else issued > sum(found.values())


def test_a_team_of_the_text_has_one_member(cpu):
    a, out = np.ones((7, 100)), np.zeros(7)
    found = totals(pk.count(pk.TeamPolicy(7), row_sums, a, out))
    assert found == {"load float64": 700, "+ float64": 700, "store float64": 7, "team.reduce": 7}
    assert (out == 100).all()


@pk.kernel
def members(team, sizes, ranks):
    if team.single():
        sizes[team.league_rank] = team.size
    for j in team.thread_range(ranks.shape[0]):
        ranks[j] = team.rank


@pytest.mark.parametrize("width", [8, 32, 64])
def test_packs_may_be_as_wide_as_another_machine_has_them(cpu, width):
    """Arrays may be arranged for teams of that size."""
    sizes, ranks = np.zeros(3), np.zeros(100)
    found = totals(pk.count(pk.TeamPolicy(3), members, sizes, ranks, build=f"lanes:{width}"))
    assert (sizes == width).all() and (ranks == np.arange(100) % width).all()
    assert found["store float64"] == 3 + 3 * 100
    for wrong in "text:8 lanes:many lanes:0 lanes:1000".split():
        with pytest.raises(InputError, match="build is "):
            pk.count(pk.TeamPolicy(3), members, sizes, ranks, build=wrong)


@pytest.mark.parametrize("width", [4, 8, 32])
def test_packs_that_draw_are_as_wide_as_was_asked(cpu, width):
    """Without a request the width is 16 lanes: 20 draws and 20 stores then have lanes for 32 each."""
    for build, lanes in ((f"lanes:{width}", width), ("lanes", 16)):
        found = totals(pk.count(20, draws, np.zeros(20), build=build))
        assert found["random.uniform float64"] == found["store float64"] == 20
        assert found["issued"] == 2 * lanes * -(-20 // lanes)


@pk.kernel
def above(team, x, kept, n_kept):
    n = 0
    for first in range(0, x.shape[0], team.size):
        i = first + team.rank
        v = x[min(i, x.shape[0] - 1)]
        n = team.append(kept, n, v, (i < x.shape[0]) & (v > 0.5))
    if team.single():
        n_kept[0] = n


@pytest.mark.parametrize("width", [8, 32])
def test_members_of_wide_packs_append(x, cpu, width):
    kept, n = np.zeros(2 * N), np.zeros(1, np.int64)
    pk.count(pk.TeamPolicy(1), above, x, kept, n, build=f"lanes:{width}")
    assert n[0] == (x > 0.5).sum() and (kept[: n[0]] == x[x > 0.5]).all()


def test_a_reduction_combines_once_an_index(x, cpu):
    found = totals(pk.count(N, product, x, x, reducer=pk.Sum))
    assert found == {"load float64": 2 * N, "* float64": N, "+ float64": N}


def test_loops_count_their_trips(x, cpu):
    steps = np.zeros(N, np.int64)
    found = totals(pk.count(N, until_small, x, steps, build="lanes"))
    active = {
        "load float64": N,
        "compare float64": steps.sum() + N,
        "* float64": steps.sum(),
        "+ int64": steps.sum(),
        "store int64": N,
    }
    issued = found.pop("issued")
    assert found == active
    # of whole packs, the number of the slowest lane
    trips = 8 * np.resize(np.append(steps, np.zeros(5, int)), (126, 8)).max(1).sum()
    # a load and a store, the last comparison, and three in each iteration
    assert issued == 2 * 8 * 126 + 8 * 126 + 3 * trips


def test_atomics_and_random_numbers_are_operations(x, cpu):
    found = totals(pk.count(N, shuffled, x, np.zeros(9)))
    assert found == {
        "load float64": N,
        "* float64": N,
        "convert int64": N,
        "atomic add float64": N,
        "random.uniform float64": N,
        "store float64": N,
    }


@pk.kernel
def words_of_a_draw(i, x):
    w = pk.random.words(1, i, 0)
    x[i] = pk.float64(w[0]) + w[3]


def test_numbers_that_come_from_a_function_of_a_function_are_known_behind_both(x, cpu):
    """`words` returns the result of another function: both are one operation."""
    for build in ("text", "executed"):
        found = pk.count(N, words_of_a_draw, np.zeros(N), build=build)
        assert sum(n for (_, what, _), n in found.items() if "random.words" in what) >= N // 16


def test_executed_instructions_are_those_of_the_packs(x, cpu):
    found = totals(pk.count(N, product, x, x, reducer=pk.Sum, build="executed"))
    assert found["fmul <8 x double>"] == 126 and found["fadd <8 x double>"] >= 126
    assert not any("exp" in name for name in found)
    out = np.zeros(N)
    found = totals(pk.count(N, branches, x, out, build="executed"))
    assert found["special exp <8 x double>"] == 126
    assert_allclose(out[x > 0.5], (np.exp(-x) * (x + 1.0))[x > 0.5])


def test_a_gpu_counts_what_its_threads_do(x):
    """Counts are exact: a thread for each index, branches taken or not, no argument read from memory."""
    if reason := pk.unavailable_because("cuda"):
        pytest.skip(reason)
    with pk.use("cuda"):
        a, out, high = pk.copy_of(x), pk.zeros((N,)), int((x > 0.5).sum())
        found = totals(pk.count(N, product, a, a, reducer=pk.Sum, build="executed"))
        assert found["fmul double"] == N and found["fadd double"] >= N
        found = totals(pk.count(N, branches, a, out, build="executed"))
        assert found["special exp double"] == high and found["fdiv double"] == found["sqrt double"]
        assert found["store double"] == high + found["sqrt double"] and "load i64" not in found
        assert totals(pk.count(0, branches, a, out, build="executed")) == {}
        prefixes = pk.zeros((N,))
        found = totals(
            pk.count(N, product, a, a, prefixes, reducer=pk.Sum, scan="inclusive", build="executed")
        )
        assert found["fmul double"] == 2 * N  # once for the totals of tiles, once for the prefixes
        assert_allclose(prefixes.to_numpy(), np.cumsum(x * x))
        # copies in shared memory are added up; if they would be too large, there are none
        for room, more in ((8, True), (10_000, False)):
            counts = pk.zeros((room,), "int64")
            found = totals(pk.count(N, levels, a, pk.ScatterView(counts), build="executed"))
            assert (
                counts.to_numpy().sum() == N
                and (found["atomicrmw add i64"] > N) == more
                and found["atomicrmw add i64"] >= N
            )
        with pytest.raises(SpaceError, match="not on 'cuda"):
            pk.count(N, branches, a, out)


@pytest.mark.parametrize("room, atomics", [(8, 0), (1 << 24, N)])
def test_private_copies_are_executed_without_atomics(x, room, atomics):
    """Count also where copies would be too large, as the atomics that are executed."""
    counts = np.zeros(room, np.int64)
    with pk.use("threads:2"):
        found = totals(pk.count(N, levels, x, pk.ScatterView(counts), build="executed"))
    assert counts.sum() == N and found.get("atomicrmw add i64", 0) == atomics


def test_operations_know_their_lines(x):
    with pk.use("serial"):
        text, executed = (pk.count(N, branches, x, np.zeros(N), build=b) for b in ("text", "executed"))
    line = branches.portable_text.line + 2
    for counts, operation in ((text, "exp"), (executed, "special exp")):
        assert [place.rpartition(":")[2] for place, name, _ in counts if name == operation] == [str(line)]


def test_a_scan_is_executed(x, cpu):
    out = np.zeros(N)
    counts = pk.count(N, product, x, x, out, reducer=pk.Sum, scan="inclusive", build="executed")
    assert_allclose(out, np.cumsum(x * x))
    assert totals(counts)["fmul <8 x double>"] >= 126


def test_listing_is_machine_code(x):
    with pk.use("serial"):
        assert "ret" in pk.listing(N, product, x, x, reducer=pk.Sum)
    with pytest.raises(SpaceError, match="no machine code"):
        pk.listing(pk.RangePolicy(0, N, space="checked"), branches, x, x)


def test_what_cannot_be_counted_is_refused(x):
    with pytest.raises(InputError, match="build is 'all'"):
        pk.count(N, branches, x, x, build="all")
    with pytest.raises(SpaceError, match="counted on 'serial' and 'threads'"):
        pk.count(pk.RangePolicy(0, N, space="checked"), branches, x, x)


def test_accesses_name_their_argument(x):
    with pk.use("serial"):
        found = pk.count(N, shuffled, x, np.zeros(9))
    assert {name for _, name, _ in found if " " in name} == {"load x", "atomic add bins", "store bins"}


def test_stamps_tell_the_time_between(space):
    earlier = pk.stamp(space)
    pk.parallel_for(
        pk.RangePolicy(0, 0, space=space), until_small, pk.zeros(1, space=space), pk.zeros(1, space=space)
    )
    assert 0.0 <= pk.stamp(space).seconds_since(earlier) < 10.0


def test_listeners_hear_of_scans_and_of_graphs(space, x):
    heard = []
    views = pk.copy_of(x, space), pk.empty((N,), np.float64, space)
    policy = pk.RangePolicy(0, N, space=space)
    with pk.capture(space) as graph:
        pk.parallel_for(policy, until_small, views[0], views[1], label="once")
    with pk.listening(lambda phase, what, launch: heard.append((phase, launch))):
        pk.parallel_scan(policy, product, views[0], views[0], out=views[1])
        graph.replay()
    assert [phase for phase, _ in heard] == ["begin", "end"] * 2
    assert (
        heard[0][1].scan == "scan inclusive" and heard[2][1] is graph and graph.launches[0][0].label == "once"
    )


def test_listeners_that_ask_hear_of_copies(space):
    """A listener that requests copies receives each once, however many pieces it has; other listeners receive
    only launches."""
    heard, launches = [], []
    x = pk.zeros((N, 2), np.float64, space)
    with (
        pk.listening(lambda *told: launches.append(told)),
        pk.listening(lambda *told: heard.append(told), copies=True),
    ):
        pk.deep_copy(x, np.ones((N, 2)))
        pk.deep_copy(x[:, 0], 2.0)
        pk.deep_copy(np.zeros((N, 2), np.float32), x, cast=True)
        x.to_numpy()
        pk.deep_copy(x[:0], x[:0])  # an empty copy
    there, back = ("host", x.memory, 16 * N), (x.memory, "host", 8 * N)
    fetched = [] if x.memory == "host" else [(x.memory, "host", 16 * N)]
    assert [(what, tuple(copy)) for phase, what, copy in heard if phase == "begin"] == [
        ("copy", told) for told in (there, ("", x.memory, 8 * N), back, *fetched)
    ]
    assert [phase for phase, *_ in heard] == ["begin", "end"] * (3 + len(fetched)) and launches == []


@pk.kernel
def gathered(team, x, kept):
    n = 0
    for i in range((x.shape[0] + team.size - 1) // team.size):
        m = min(i * team.size + team.rank, x.shape[0] - 1)
        n = team.append(kept, n, x[m], i * team.size + team.rank < x.shape[0] and x[m] > 0.0)
    for j in team.thread_range(n):
        kept[j] = kept[j] + 1.0


def test_a_list_that_a_team_appends_to_is_counted():
    """The result of append is uniform for the members, also in a team of one."""
    x = np.where(np.arange(N) % 4, -1.0, 1.0)
    with pk.use("serial"):
        found = pk.count(pk.TeamPolicy(1), gathered, x, np.zeros(N))
    assert sum(n for (_, name, _), n in found.items() if name == "+") >= -(-N // 4)
    assert [n for (_, name, _), n in found.items() if name == "load kept"] == [-(-N // 4)]


@pk.function
def looped(x):
    total = 0.0
    for k in range(x.shape[0]):
        total += x[k]
    return total


@pk.kernel
def calls_a_loop(i, x):
    return looped(x) + pk.random.uniform(1, i, 0)


@pk.kernel
def calls_none(i, x):
    return x[i] + pk.random.uniform(1, i, 0)


def test_a_loop_in_a_function_is_the_kernels_too():
    """A reduction uses this to decide how many copies of the body it interleaves; the layer's own functions
    do not count."""
    assert has_loops(calls_a_loop.portable_text, ()) and not has_loops(calls_none.portable_text, ())


@pk.kernel
def picks(i, n, out):
    for j in range(n):
        out[i] += pk.random.randint(1, i, j, 10)


def test_special_functions_whose_range_llvm_knows():
    """LLVM prints the range before their names."""
    found = pk.count(pk.RangePolicy(0, N, space="serial"), picks, 3, np.zeros(N, np.int64), build="executed")
    ((of, n),) = [(of, n) for (_, name, of), n in found.items() if name == "special random.randint"]
    lanes = int(of[1:].split(" x ")[0])
    assert n == 3 * -(-N // lanes)


def test_code_that_llvm_refuses_is_an_error_of_the_house():
    """Raise PortableError also for the counting build, which parses the IR a second time."""
    from portable.core.machines.cpu import engine

    text = "define void @entry() {\n  ret void\n}\n"
    with pytest.raises(LoweringError, match="kernel 'k' was lowered to code that LLVM refuses"):
        engine.rewritten(text, "k", lambda optimised: optimised.replace("ret void", "return"))


@pk.kernel
def halves(i, width, x, out):
    out[i] = x[i] // 6 + x[i] // width


def test_integers_divided_by_a_constant_are_told_apart():
    """Such a division becomes a product and shifts; a division by a variable takes many cycles."""
    x = np.arange(N)
    found = totals(
        pk.count(pk.RangePolicy(0, N, space="serial"), halves, 7, x, np.zeros_like(x), build="executed")
    )
    divided = {
        name.rpartition(" <")[0] for name in found if name.startswith(("sdiv", "srem", "udiv", "urem"))
    }
    assert any(name.endswith(" by constant") for name in divided)
    assert any(not name.endswith(" by constant") for name in divided)


@pk.kernel
def strided_scratch(team, stride, out):
    kept = team.scratch(33 * 32, out.dtype)
    for j in team.thread_range(33 * 32):
        kept[j] = 1
    team.barrier()
    for j in team.thread_range(32):
        total = kept[0]
        for k in range(3):
            total += kept[j * stride + k]
        out[team.league_rank, j] = total


def conflicts(words, n_bytes):
    """Compute the number of requests to banks independently: 32 banks of four bytes; as many lanes at once as
    128 bytes hold."""
    at_once, taken = 128 // n_bytes, 0
    for start in range(0, 32, at_once):
        different = set(words[start : start + at_once])
        taken += max(collections.Counter(w % at_once for w in different).values())
    return taken, 32 // at_once


@pytest.mark.parametrize("stride", [0, 1, 2, 8, 16, 32, 33])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_words_in_one_bank_of_a_gpus_scratch(cpu, stride, dtype):
    """A sample is sufficient: all accesses that are not contiguous are alike."""
    out = np.zeros((17, 32), dtype)
    found = pk.count(pk.TeamPolicy(17), strided_scratch, stride, out, build="banks")
    taken, least = (found["", f"banks {name}", ""] for name in ("taken", "least"))
    size = out.itemsize
    each = conflicts([j * stride for j in range(32)], size)
    assert least > 0 and (taken > least) == (each[0] > each[1])
    assert (taken - least) % (each[0] - each[1]) == 0 if each[0] > each[1] else taken == least
    assert pk.count(pk.TeamPolicy(1), row_sums, out.astype(float), np.zeros(1), build="banks")


@pk.kernel
def strided(i, step, rounds, x, out):
    total = 0.0
    for r in range(rounds):
        for k in range(i, x.shape[0], step):
            total += math.exp(-x[k] * r)
    out[i] = total


def test_executed_instructions_have_names_whatever_llvm_calls_its_values(cpu):
    """LLVM creates values such as %.us-phi23, whose lines were once parsed as instructions of that name."""
    found = pk.count(8, strided, 8, 3, np.ones(4096), np.zeros(8), build="executed")
    assert found and not [name for _, name, _ in found if name.startswith("%")]
