"""Test the reasons why a kernel stays below its roof: each cause from evidence that is constructed for it."""

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.random import default_rng

import portable as pk
from portable import roofline
from portable.watch.counts.explain import Explanation
from portable.roofline import counting, touched
from portable.roofline.attainable import LOW, Analysis, atomics, bound, moving
from portable.roofline.cases import layer
from portable.roofline.ceiling import Ceiling, Ceilings
from portable.roofline.causes import Cause, causes
from portable.roofline.reasons import reason
from portable.roofline.timing import Samples
from tests.roofline import fakes, shown

pytestmark = pytest.mark.usefixtures("serial")
CLOCK = 1e9
RATES = {  # rates of a made-up machine: one core at 1 GHz, eight lanes
    "fma float64": ("flop", 32e9),
    "no fma float64": ("flop", 16e9),
    "exp float64": ("op", 1e9),
    "integer int64": ("op", 8e9),
    "atomic apart int64": ("op", 1e9),
    "atomic together int64": ("op", 1e7),
    "bandwidth L1": ("B", 128e9),
    "bandwidth L2": ("B", 64e9),
    "bandwidth DRAM": ("B", 4e9),
    "launch": ("s", 1e-6),
}


def rated(machine, rates):
    """Return the machine with other rates, or more of them."""
    made = {name: Ceiling(name, unit, Samples((rate,)), "made up") for name, (unit, rate) in rates.items()}
    return replace(machine, items=machine.items | made)


@pytest.fixture(scope="module")
def machine():
    levels = [("L1", 32 << 10), ("L2", 1 << 20), ("DRAM", None)]
    facts = fakes.machine(space="serial")
    return rated(Ceilings("serial", "2026-01-01T00:00:00+00:00", facts, CLOCK, levels, {}), RATES)


def why(machine, counts, seconds, inside=None, samples=None):
    """Return the reason for a call of one launch that took `seconds`."""
    roof = Analysis(seconds, [("k", counts, bound(counts, machine), inside or seconds)], [])
    found = reason(roof, machine, samples)
    return found and (found["causes"][0]["name"], found["text"])


def shown_kernel(machine, counts, seconds):
    return Analysis(seconds, [("k", counts, bound(counts, machine), seconds)], []).kernels[0]


def named(name, kernel, machine):
    """List the causes of that name."""
    return [cause for cause in causes(kernel, machine) if cause.name == name]


def test_near_the_roof_nothing_is_asked(machine):
    counts = shown.counted()["axpy"]
    least = bound(counts, machine).seconds
    assert why(machine, counts, least / (LOW + 0.01)) is None
    assert why(machine, counts, least / (LOW - 0.01)) is not None


def test_time_outside_of_kernels(machine):
    name, text = why(machine, shown.counted()["axpy"], 1e-3, inside=1e-4)
    assert name == "outside" and text.startswith("90% of the call passes outside of its 1 launch,")


def test_launches_one_by_one(machine):
    counts = shown.counted()["axpy"]
    least = bound(counts, machine)
    roof = Analysis(1.7e-3, [("k", counts, least, 1e-6)] * 600, [])
    found = reason(roof, machine)
    assert (
        found["causes"][0]["name"] == "calls"
        and "600 launches, one by one, cost the host 600 µs" in found["text"]
    )
    work = max(s for name, s in least.wants.items() if name != "launch")  # "serial" has one thread
    gain = 1.7e-3 / (600 * (machine.rate("launch") + work))
    assert found["causes"][0]["gain"] == pytest.approx(gain, rel=1e-3)


def test_kernels_that_lose_are_named_with_their_part(machine):
    """The first kernel loses half of the lost time, the others the rest; dot and copy wait alike and are
    reported together."""
    counts = shown.counted()
    launches = [
        (name, counts[name], bound(counts[name], machine), seconds)
        for name, seconds in (("histogram", 5e-3), ("dot", 2.6e-3), ("copy", 2.4e-3))
    ]
    found = reason(Analysis(0.01, launches, []), machine)
    assert [cause["name"] for cause in found["causes"]] == ["waiting"] * 2
    assert (
        "Kernel histogram, 50% of the time, at 0." in found["text"]
        and "Kernel dot, 26% of the time" in found["text"]
    )
    same = {name: replace(counts["copy"], kernel=name) for name in ("left", "right")}
    launches = [(name, c, bound(c, machine), 5e-3) for name, c in same.items()]
    text = reason(Analysis(0.01, launches, []), machine)["text"]
    assert (
        text.startswith("Kernels left, 50% of the time, at")
        and "; right, 50% of the time" in text
        and text.count("it starts") == 1
    )


def test_a_loss_in_many_places(machine):
    """The kernel that loses most is named, with its part, if none loses a twentieth."""
    counts = shown.counted()["axpy"]
    launches = [(f"k{n}", counts, bound(counts, machine), 4e-5) for n in range(25)]
    found = reason(Analysis(1e-3, launches, []), machine)
    assert [cause["name"] for cause in found["causes"]] == [
        "waiting"
    ] and "Kernel k0, 4% of the time" in found["text"]


def test_atomics_that_meet(machine):
    counts = shown.counted()["histogram"]
    took = sum(counts.atomics.values()) / 1e7
    one_line = replace(counts, lines={names: (1, 1) for names in counts.lines})
    name, text = why(machine, one_line, took)
    assert name == "together" and "4.10 k atomic operations wait for each other" in text
    assert why(machine, counts, took)[0] != "together"  # two cores seldom update the same of many lines


def test_without_meeting_atomic_operations_take_what_they_do_apart(machine):
    counts = shown.counted()["histogram"]
    counts = replace(counts, lines={names: (1, 1) for names in counts.lines})
    took = 3 * atomics(counts, machine, "apart")
    (found,) = named("together", shown_kernel(machine, counts, took), machine)
    least = atomics(counts, machine, "apart") + moving(counts, machine) + machine.rate("launch")
    assert found.gain == pytest.approx(took / least)


def test_lanes_that_are_masked_off(machine):
    x = np.where(np.arange(shown.N) % 8, -1.0, 1.0)
    counts = roofline.count(shown.N, rare_exp, x, np.ones(shown.N))
    assert (
        counts.executed_totals["special"] == {"exp float64": shown.N}
        and sum(counts.special.values()) == shown.N // 8
    )
    name, text = why(machine, counts, shown.N / 1e9)
    assert (
        name == "divergence"
        and text.startswith("Kernel k: 88% of the lanes are idle, ")
        and ": up to " in text
    )


@pk.kernel
def rare_exp(i, x, y):
    if x[i] > 0.0:
        y[i] = pk.exp(x[i])


def test_scattered_elements(machine):
    executed = {("", "masked.gather", "<8 x double>"): 4 * shown.N}
    counts = replace(shown.counted()["copy"], executed=executed)
    name, text = why(machine, counts, 4 * 8 * shown.N / (2 * CLOCK))
    assert name == "scattered" and "at scattered places" in text


def test_a_launch_that_costs_as_much_as_its_work(machine):
    counts = roofline.count(8, layer.axpy, 2.0, np.ones(8), np.ones(8))
    assert bound(counts, machine).by == "launch"
    assert why(machine, counts, 1.9e-6)[0] == "launch"


def test_what_no_rate_explains_waits(machine):
    name, text = why(machine, shown.counted()["dot"], 1e-3)
    assert name == "waiting" and "it starts 0.0" in text


def test_other_work_on_the_machine(machine):
    counts = shown.counted()["axpy"]
    name, text = why(machine, counts, 1e-3, samples=Samples((1e-4, 1e-3, 1e-3)))
    assert name == "neighbours" and text.startswith("The fastest repeat took 100 µs")


def test_too_few_indices_for_the_machine(machine):
    threads = replace(machine, space="threads:4")
    with pk.use("threads:4"):
        counts = roofline.count(pk.TeamPolicy(1), busy, np.zeros(1))
    least = bound(counts, threads).seconds
    assert named("parallelism", shown_kernel(threads, counts, 4 * least), threads)


@pk.kernel
def busy(team, out):
    total = 0.0
    for j in team.thread_range(100_000):
        total += pk.exp(float(j) * 1e-6)
    total = team.reduce(total)
    if team.single():
        out[0] = total


@pytest.mark.parametrize("name", "axpy dot histogram copy".split())
@pytest.mark.parametrize("slow", [1.7, 5.0, 1000.0])
def test_there_is_always_a_reason(machine, name, slow):
    counts = shown.counted()[name]
    name, text = why(machine, counts, slow * bound(counts, machine).seconds)
    assert name and text.endswith(".")


def test_neighbouring_threads_that_read_far_apart(machine):
    counts = replace(shown.counted()["copy"], executed=None, on_device=True, apart=10**6)
    name, text = why(machine, counts, 32e6 / 64e9)
    assert (
        name == "overfetch"
        and "1.00 M elements that neighbouring threads reach far apart brings 32 bytes, 32.0 MB together"
        in text
    )


def test_threads_that_wait_say_how_many_have_room(machine):
    counts = replace(
        shown.counted()["copy"],
        executed=None,
        on_device=True,
        occupancy="200 registers a thread leave room for 12% of its threads",
    )
    assert "; 200 registers a thread leave room for 12% of its threads." in why(machine, counts, 1.0)[1]


@pytest.fixture(scope="module")
def with_gathers(machine):
    """Return the machine with a rate of gathers from memory."""
    return rated(machine, {"gather L2": ("op", 5e8), "gather DRAM": ("op", 1e7)})


@pk.kernel
def gathered(i, place, table, y):
    y[i] = table[place[i]]


def gather_of(n, places):
    return roofline.count(n, gathered, places, np.ones(500_000), np.zeros(n))


def test_a_gather_from_all_over_memory(with_gathers):
    n = 100_000
    counts = gather_of(n, default_rng(0).permutation(500_000)[:n])
    assert counts.line_bytes > 1 << 20 and sum(counts.moves.values()) > n
    name, text = why(with_gathers, counts, n / 1e7)
    assert name == "overfetch" and "brings a line of 64 bytes from DRAM: up to " in text


@pk.kernel
def scattered(i, place, x, out):
    out[place[i]] = x[i]


@pytest.mark.parametrize("slow, told", [(0.6, True), (1.0, True), (2.0, True), (3.9, True), (4.1, False)])
def test_a_scatter_to_all_over_memory_moves_each_line_once_or_twice(with_gathers, slow, told):
    n = 100_000
    places = default_rng(0).permutation(500_000)[:n]
    counts = roofline.count(n, scattered, places, np.ones(n), np.zeros(500_000))
    found = causes(shown_kernel(with_gathers, counts, slow * n / 1e7), with_gathers)
    assert any("brings a line" in c.text for c in found) is told


def test_a_gather_from_all_over_a_gpus_memory(with_gathers):
    """Each element needs a sector, at the rate of gathers: slower than its bytes at the bandwidth."""
    n = 100_000
    counts = gather_of(n, default_rng(0).permutation(500_000)[:n])
    counts = replace(counts, executed=None, on_device=True, apart=n)
    name, text = why(with_gathers, counts, n / 1e7)
    assert name == "overfetch" and "brings 32 bytes from DRAM: up to " in text


def explained(counts, policy, **ways):
    """Return the explanation of a kernel of one line by a GPU's compiler, and the result of its counts."""
    (line,) = {line for line, operation, _ in counts.text if operation.startswith("load ")}
    found = Explanation("k", "cuda", {}, [(line, view, how) for view, how in ways.items()], "")
    return counting._explained(found, counts.text, counts.moves, policy)[:2]


def test_what_a_compiler_knows_nothing_of_is_apart_as_the_data_are():
    """A gather in order reaches a new sector of 32 bytes with each fourth element."""
    n = 4000
    policy, how = pk.RangePolicy(0, n), {"table": "strided or gathered"}
    apart, _ = explained(gather_of(n, default_rng(0).permutation(500_000)[:n]), policy, **how)
    assert apart == n
    apart, _ = explained(gather_of(n, np.arange(n)), policy, **how)
    assert apart == pytest.approx(n / 4, abs=2)


@pk.kernel
def summed_table(i, table, out):
    for k in range(table.shape[0]):
        out[i] += table[k]


def test_what_a_whole_warp_reads_is_asked_for_once(machine):
    counts = roofline.count(64, summed_table, np.ones(500), np.zeros(64))
    _, alike = explained(counts, pk.RangePolicy(0, 64), table="uniform", out="contiguous")
    assert alike == 8 * 500 * 64
    on_gpu = replace(counts, executed=None, on_device=True, alike=alike)
    asked = shown_kernel(machine, on_gpu, 1.0).near_bytes
    assert asked == alike // 32 + (counts.loaded - alike) + counts.stored
    code = replace(on_gpu, executed={("", "load", "double"): 500 * 64})  # out stays in a register
    assert shown_kernel(machine, code, 1.0).near_bytes == alike // 32


@pytest.mark.parametrize("slow, told", [(60.0, False), (140.0, True), (1000.0, True), (5000.0, False)])
def test_one_team_fills_neither_the_multiprocessors_nor_one_of_them(machine, monkeypatch, slow, told):
    """With 132 multiprocessors and room for sixteen teams on each, the time is between those of one team and
    one multiprocessor, or has another cause."""
    monkeypatch.setattr(pk, "concurrency", lambda space: 16 * 132)
    gpu = replace(machine, space="cuda")
    counts = roofline.count(pk.TeamPolicy(1), busy, np.zeros(1), executed=False)
    counts = replace(counts, on_device=True)
    found = named("parallelism", shown_kernel(gpu, counts, slow * bound(counts, gpu).seconds), gpu)
    assert [c.gain for c in found] == ([pytest.approx(slow, rel=0.02)] if told else [])


def on_a_gpu(machine, monkeypatch, counts, seconds, n=2112 * 128, **more):
    """Return a kernel of `n` indices on a made-up GPU of 132 multiprocessors, and its Ceilings."""
    monkeypatch.setattr(pk, "concurrency", lambda space: 16 * 132)
    gpu = replace(machine, space="cuda")
    made = replace(counts, on_device=True, policy=f"{n:,} indices", **more)
    return shown_kernel(gpu, made, seconds), gpu


def test_the_longest_thread_stays_where_lanes_are_idle_no_longer(machine, monkeypatch):
    kernel, gpu = on_a_gpu(
        machine, monkeypatch, shown.counted()["axpy"], 101e-6, masked=0.75, alone=21e-6, executed=None
    )
    (found,) = named("divergence", kernel, gpu)
    share = math.hypot(0.25 * (101e-6 - 20e-6), moving(kernel.counts, gpu))
    assert found.gain == pytest.approx(101e-6 / (1e-6 + 20e-6 + share))


def test_a_thread_among_many_has_its_share_to_do(machine, monkeypatch):
    """If few threads do all work, and take as long without others, it can be divided among as many as have
    room.
    """
    for alone in (0.0, 150e-6):
        kernel, gpu = on_a_gpu(
            machine, monkeypatch, shown.counted()["axpy"], 151e-6, n=2112, alone=alone and alone + 1e-6
        )
        (found,) = named("parallelism", kernel, gpu)
        assert found.gain == pytest.approx(151e-6 / (1e-6 + alone / 128 + kernel.bound.seconds))


def test_what_a_gpu_has_to_start_beside_conversions(with_conversions, monkeypatch):
    """The integer operations take longer than the arithmetic: eight lanes a cycle and team."""
    n, ran = 2112 * 128, 4000 * 2112 * 128
    executed = {("", "fptrunc", "double"): 100 * n, ("", "add", "i64"): ran, ("", "fma", "double"): 10 * n}
    least = (ran + 10 * n) / (8 * 2112 * CLOCK) + 4 * 10 / CLOCK + 1e-6
    kernel, gpu = on_a_gpu(
        with_conversions, monkeypatch, shown.counted()["axpy"], 100 * n / 2e9, executed=executed
    )
    (found,) = named("conversions", kernel, gpu)
    assert found.gain == pytest.approx(kernel.seconds / least)


def test_a_gpus_roof_has_no_flops_that_its_code_leaves_out(machine):
    counts = shown.counted()["axpy"]
    for n, share in ((shown.N // 4, 0.25), (2 * shown.N, 1.0)):
        code = replace(counts, on_device=True, executed={("", "fma", "double"): n})
        assert bound(code, machine).wants["arithmetic"] == pytest.approx(share * counts.flops / 32e9)


def test_special_functions_leave_a_gpus_thread_its_own_time(machine, monkeypatch):
    """If that time is known, the time beyond their rate does not extend the rest."""
    n = 2112 * 128
    text = {("", "exp", "float64"): 20 * n, ("", "+", "float64"): 20 * n}
    executed = {("", "fadd", "double"): 20 * n, ("", "special exp", "double"): 20 * n}
    kernel, gpu = on_a_gpu(
        machine, monkeypatch, shown.counted()["copy"], 1.5 * 20 * n / 1e9, text=text, executed=executed
    )
    (found,) = named("special", kernel, gpu)
    rest = math.hypot(20 * n / 16e9, moving(kernel.counts, gpu))
    assert found.gain == pytest.approx(kernel.seconds / (rest + 1e-6 + 4 * 20 / CLOCK))


def test_atomics_that_cost_no_more_where_they_meet(machine):
    """Atomics that take as long with one thread are not slow because of contention."""
    counts = shown.counted()["histogram"]
    alone = rated(machine, {"atomic apart int64": RATES["atomic together int64"]})
    assert why(alone, counts, 1.9 * bound(counts, alone).seconds)[0] != "together"


def test_a_gather_of_few_elements_is_not_told_to_move_lines(with_gathers):
    """100 hot elements come from the nearest cache, whatever the size of their array."""
    n = 4000
    counts = gather_of(n, default_rng(0).integers(0, 100, n))
    for slow in (2.0, 5.0, 20.0, 300.0):
        assert why(with_gathers, counts, slow * bound(counts, with_gathers).seconds)[0] != "overfetch"


def test_a_gather_of_neighbours_brings_no_line_for_each(with_gathers):
    n = 100_000
    counts = gather_of(n, np.arange(n))
    assert why(with_gathers, counts, n / 1e7)[0] != "overfetch"


def test_elements_of_which_each_has_its_own_line(with_gathers):
    x = np.ones(16 * shown.N)
    counts = roofline.count(shown.N, layer.axpy, 2.0, x[::16], x[8::16])
    name, text = why(
        with_gathers,
        counts,
        0.95 * counts.line_bytes / with_gathers.bandwidth(with_gathers.level_of(counts.line_bytes)),
    )
    assert name == "overfetch" and "lie apart, in lines of 786 kB" in text and ": up to " in text


def test_a_gain_ends_at_the_roof(machine):
    cause = Cause("divergence", 1.0, "", ideal=0.01)
    assert cause.without(1.0, 0.5).gain == 2.0 and cause.without(1.0, 0.001).gain == pytest.approx(100.0)
    assert (
        cause.without(1.0, 0.95).clause == ""
        and cause.without(1.0, 0.5).clause == ": up to 2 times as fast without"
    )
    assert cause.without(1.0, 0.5).as_dict("it: ")["gain"] == 2.0


def test_lanes_that_no_index_fills_are_no_divergence(machine):
    counts = roofline.count(9, layer.axpy, 2.0, np.ones(9), np.ones(9))
    assert counts.masked > 0.3
    assert not named("divergence", shown_kernel(machine, counts, 1e-5), machine)


@pk.kernel
def row_sums(i, a, out):
    total = 0.0
    for j in range(a.shape[1]):
        total += a[i, j] / 7.0
    out[i] = total


@pk.kernel
def column_sums(i, a, out):
    total = 0.0
    for j in range(a.shape[0]):
        total += a[j, i] / 7.0
    out[i] = total


def test_rows_across_lanes_are_named_with_their_line(machine):
    """Each index reads contiguous elements, so that a pack of indices gathers elements a row apart."""
    counts = roofline.count(64, row_sums, np.ones((64, 256)), np.zeros(64))
    other_layout = roofline.count(64, column_sums, np.ones((256, 64)), np.zeros(64))
    slow = 4 * bound(counts, machine).seconds
    name, text = why(machine, counts, slow)
    assert (
        name == "scattered" and "neighbouring indices are a row of a apart (strided), so that 16.4 k" in text
    )
    assert "A team for each row, or the other layout" in text and ": up to " in text
    assert why(machine, other_layout, slow)[0] != "scattered"


def test_a_level_holds_what_it_was_seen_to_hold(machine):
    """Twice the measured capacity of the cache comes from memory, whatever size the system states."""
    counts = shown.counted()["axpy"]
    busier = rated(machine, {"capacity L2": ("byte", counts.compulsory / 2)})
    assert bound(counts, machine).level == "L2" and bound(counts, busier).level == "DRAM"


@pk.kernel
def turned(i, j, a, out):
    out[j, i] = a[i, j]


def test_lines_at_scattered_places_come_from_the_level_that_keeps_them(with_gathers):
    """A column of 600 lines, 38 kB, exceeds the first cache but not the second, though the matrix exceeds
    both: an element costs a line from the second cache, not from memory."""
    n = 600
    machine = rated(with_gathers, {"gather L1": ("op", 4e9)})
    a = np.ones((n, n))
    counts = roofline.count(pk.MDRangePolicy((0, 0), (n, n)), turned, a, a.copy())
    seconds = n * n / 5e8 + n * n / 8 / 1e7
    found = causes(shown_kernel(machine, counts, 1.2 * seconds), machine)
    assert found[0].name == "overfetch" and found[0].seconds == pytest.approx(1.2 * seconds, rel=0.05)
    assert seconds < 0.5 * n * n / 1e7  # reading all of them from memory would take longer


@pytest.fixture(scope="module")
def with_conversions(machine):
    """Return the machine with rates of conversions, of float32, and of copies in the first cache."""
    more = {
        "convert int64": ("op", 1e9),
        "convert float32": ("op", 2e9),
        "fma float32": ("flop", 64e9),
        "no fma float32": ("flop", 32e9),
        "copy L1": ("B", 100e9),
    }
    return rated(machine, more)


@pk.kernel
def whole(i, x, y):
    for _ in range(10):
        y[i] += pk.float64(pk.int64(x[i] + y[i]))


def test_conversions_cost_their_rate(with_conversions):
    counts = roofline.count(shown.N, whole, np.ones(shown.N), np.zeros(shown.N))
    n = sum(counts.conversions.values())
    assert set(counts.conversions) == {"float64 to int64", "int64 to float64"} and n >= 20 * shown.N
    name, text = why(with_conversions, counts, n / 1e9)
    assert name == "conversions" and "conversions between types" in text and ": up to " in text
    assert why(with_conversions, counts, 10 * n / 1e9)[0] != "conversions"  # conversions explain a tenth


@pytest.mark.parametrize("slow, named", [(1.0, True), (0.3, False), (3.0, False)])
def test_what_registers_have_no_room_for(with_conversions, slow, named):
    counts = replace(shown.counted()["axpy"], spilled=10**8)
    name, text = why(with_conversions, counts, slow * 1e8 / 100e9)
    assert (name == "spills") is named
    assert not named or "registers are too few: 100 MB go to the stack and come back" in text


def test_memory_of_a_gpus_threads(machine):
    """The bytes are known, but not the accesses to them: at least one for each, and at most one for every
    operation.
    """
    n, ran = 10**6, {("", "fma", "double"): 10**8}
    counts = replace(
        shown.counted()["axpy"], executed=ran, on_device=True, local=512, policy=f"{n:,} indices"
    )
    least, most = 2 * 512 * n / 128e9, 2 * 8 * 2 * 10**8 / 128e9
    for slow, told in ((0.4 * least, False), (2 * least, True), (most, True), (3 * most, False)):
        assert bool(named("spills", shown_kernel(machine, counts, slow), machine)) is told


@pytest.mark.parametrize("banks, told", [((320, 10), True), ((10, 10), False), ((0, 0), False)])
def test_words_in_one_bank(machine, banks, told):
    counts = replace(
        shown.counted()["copy"], executed=None, text={("", "load (scratch)", "float64"): 10**9}, banks=banks
    )
    name, text = why(rated(machine, {"bandwidth shared": ("B", 1e12)}), counts, 32 * 8e-3)
    assert (name == "banks") is told
    assert not told or "are asked 32 times as often as they had to: up to " in text


def test_special_functions_are_named_where_nothing_else_is_found(machine):
    """Special functions are part of the roof; the kernel is near it, or waits in addition."""
    counts = roofline.count(64, busy_index, 1000, np.zeros(64))
    least = bound(counts, machine).seconds
    for slow, named in ((2.5, True), (10.0, False)):
        name, text = why(machine, counts, slow * least)
        assert (name == "special") is named
    assert "special functions take most" in why(machine, counts, 2.0 * least)[1]


def test_launches_of_a_graph_are_not_told_to_be_called_one_by_one(machine):
    """600 launches would have cost the host 600 microseconds: the time outside of launches is a tenth of
    that.
    """
    quick = rated(machine, {"launch": ("s", 1e-9), "launch call": ("s", 1e-6)})
    counts = roofline.count(8, layer.axpy, 2.0, np.ones(8), np.ones(8))
    least = bound(counts, quick)
    for seconds, named in ((6e-5, False), (6e-4, True)):
        found = reason(Analysis(seconds, [("k", counts, least, 2e-9)] * 600, []), quick)["causes"]
        assert ("calls" in [cause["name"] for cause in found]) is named


def test_indices_of_one_pack_fill_one_core(machine):
    two = replace(machine, space="threads:2")
    with pk.use("threads:2"):
        counts = roofline.count(8, busy_index, 100_000, np.zeros(8))
    least = bound(counts, two).seconds
    assert named("parallelism", shown_kernel(two, counts, 2 * least), two)


@pk.kernel
def busy_index(i, n, out):
    total = 0.0
    for j in range(n):
        total += pk.exp(float(i + j) * 1e-6)
    out[i] = total


def test_a_gain_that_is_known_does_not_shrink_with_what_was_seen():
    known, shared = (Cause("overfetch", 1.0, "", ideal=0.5, fixed=fixed) for fixed in (True, False))
    assert [c.without(2.0, 0.1).gain for c in (known, shared)] == [pytest.approx(4.0), pytest.approx(2.0)]
    assert Cause("conversions", 1.0, "", ideal=0.2, least=0.2).without(1.0, 0.9).gain == pytest.approx(5.0)
    assert replace(known, alone=0.4).without(2.0, 0.1, 0.1).gain == pytest.approx(2.0)


def test_what_is_only_written_is_fetched_before(machine):
    """A copy of 16 bytes an element moves 24; an update moves as many bytes as it counts."""
    copied, updated = (shown.counted()[name] for name in ("copy", "axpy"))
    rates = machine.rate("bandwidth L2") * 4 / 3  # rate of a triad: its 24 bytes move 32
    assert moving(copied, machine, "L2") == pytest.approx(1.5 * copied.compulsory / rates)
    assert moving(updated, machine, "L2") == pytest.approx(updated.compulsory / machine.bandwidth("L2"))


@pk.kernel
def at_places(i, place, table, other, out):
    at = place[i] + 1
    out[i] = table[at] + other[i * other.shape[0] // 7]


def test_places_that_data_tell_are_known_from_the_text():
    assert touched.by_data(at_places) == {"table"}


@pk.kernel
def of_a_row(i, j, x):
    x[i, j] = 1.0


def test_lanes_behind_each_row_of_a_box_are_no_divergence(machine):
    counts = roofline.count(pk.MDRangePolicy((0, 0), (9, 5)), of_a_row, np.ones((9, 5)))
    assert counts.masked > 0.3
    assert not named("divergence", shown_kernel(machine, counts, 1e-5), machine)


@pk.kernel
def _squared(team, a, out):
    own = team.tile((16, 16), a.dtype)
    team.product(own, a, a)
    for e, i, j in team.elements(own):
        if i < 16 and j < 16:
            out[i, j] = own[e]


def test_products_of_teams_have_a_roof_of_their_own(machine):
    """Tensor cores are twice as fast as fused multiply-adds; a sum by multiply-adds gets the advice to use
    them.
    """
    counts = counting.count(pk.TeamPolicy(1, 32), _squared, np.ones((16, 16)), np.zeros((16, 16)))
    counts = replace(counts, executed=None, arrays={})
    with_tensor_cores = rated(machine, {"product float64": ("flop", 64e9)})
    once, twice = (bound(counts, of).wants["arithmetic"] for of in (machine, with_tensor_cores))
    assert once == 2 * twice == pytest.approx(2 * 16**3 / 32e9)
    dense = replace(counts, text={("f:1", "fma", "float64"): 10**9})
    assert bound(dense, with_tensor_cores).notes == ["float64 by team.product has a roof of 64.0 Gflop/s"]
    assert not bound(dense, machine).notes and not bound(counts, with_tensor_cores).notes
