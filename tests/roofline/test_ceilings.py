"""Test ceilings: when they are measured, stored, and measured again. `compare ceilings` tests their
values."""

import dataclasses
import datetime
import json
import os
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

import portable as pk
from portable import roofline
from portable.errors import InputError, SpaceError
from portable.roofline import __main__ as cli
from portable.roofline import ceiling, checks, machine, measuring, microkernels, physics, timing
from portable.roofline.timing import Samples

from .test_timing import Clock

ALWAYS = {
    "fma float64",
    "fma float32",
    "no fma float64",
    "exp float64",
    "log float32",
    "sqrt float64",
    "divide float64",
    "integer int64",
    "atomic apart int64",
    "atomic together int64",
    "launch",
}


def test_every_ceiling_has_a_rate_a_spread_and_a_method(space, quick_ceilings):
    if space == "checked":
        with pytest.raises(SpaceError, match="interpreter"):
            roofline.ceilings(space)
        return
    found = quick_ceilings(space)
    memory = (
        {"read L2", "bandwidth HBM", "bandwidth shared"}
        if space == "cuda"
        else {"bandwidth L1", "bandwidth L2", "bandwidth DRAM"}
    )
    assert (ALWAYS | memory) <= found.items.keys()
    for c in found.items.values():
        assert min(c.rate.values) > 0 and len(c.rate.values) >= 3 and c.method
        assert c.best in c.rate.values
    assert found.levels[-1][1] is None and found.bandwidth(found.levels[-1][0]) > 0
    assert found.level_of(100) == found.levels[0][0] and found.level_of(1 << 50) == found.levels[-1][0]
    assert (found.clock is None) == (space == "cuda")
    assert ceiling.Ceilings.from_dict(json.loads(json.dumps(found.as_dict()))) == found


def test_full_measurements_have_amounts_and_sizes(monkeypatch):
    monkeypatch.setattr(measuring, "_memory", lambda: 1 << 24)
    _, levels, plans = measuring.plans(pk.Threads(1), quick=False)
    assert {plan.unit for plan in plans} == {"flop", "op", "B", "s", "byte"}
    assert all(plan.amount >= 1 for plan in plans if plan.unit != "byte")
    (held,) = (plan for plan in plans if plan.unit == "byte")  # from twice L2 to beyond L3
    sizes = dict(levels)
    assert held.sizes[0] == 2 * sizes["L2"] and held.sizes[-1] >= sizes["L3"]
    assert {name for name, _ in levels} == {plan.name.split()[1] for plan in plans if plan.unit == "B"}


def test_a_cache_holds_what_is_moved_rather_like_what_is_near():
    class Made:
        def __init__(self, size):
            self.rate = {1: 10.0, 2: 9.0, 4: 6.0, 8: 2.0}[size]

        def measure(self, quick):
            return Samples((self.rate, 0.5))

    held = measuring.Held("capacity L3", (1, 2, 4, 8), Made)
    assert set(held.measure(False).values) == {4}


def test_what_a_shared_cache_was_seen_to_hold_decides_where_bytes_come_from(quick_ceilings):
    items = {"capacity L3": ceiling.Ceiling("capacity L3", "byte", Samples((4 << 20,)), "made up")}
    levels = [("L1", 32 << 10), ("L3", 32 << 20), ("DRAM", None)]
    found = dataclasses.replace(quick_ceilings("serial"), levels=levels, items=items)
    sizes = (1 << 10, 3 << 20, 8 << 20)
    assert [found.level_of(n) for n in sizes] == ["L1", "L3", "DRAM"]


@pytest.mark.parametrize(
    "name",
    "exp sqrt expm1 pow hypot gammainc ndtr".split() + ["random.normal", "random.randint", "random.words"],
)
def test_any_special_function_can_be_held(name):
    found = measuring.special(
        pk.Threads(1), name, "uint32" if name == "random.words" else "float64", quick=True
    )
    assert found.amount > 0 and found.measure(quick=True).median > 0


@pytest.mark.parametrize("name", ["words", "fma", "frexp"])  # not functions of one or two numbers
def test_nobody_measures_what_is_no_function_of_one_or_two_numbers(name):
    assert measuring.special(pk.Threads(1), name, "float64", quick=True) is None


def test_micro_kernels_do_what_their_amounts_say():
    """The operations stated by the plans equal those that are counted."""
    out, b, c = np.ones(8), 0.999, 0.001
    chains, steps = microkernels.CHAINS, microkernels.CHAINS * microkernels.UNROLLED
    wanted = [
        (
            microkernels.chains,
            (pk.fma, pk.fma, 5, b, c, out),
            2 * steps * 5 * 8 + 2 * chains * 8,
        ),  # the starts and the sum of the chains are included
        (
            microkernels.chains,
            (microkernels.multiplied, microkernels.added, 5, b, c, out),
            steps * 5 * 8 + 2 * chains * 8,
        ),
        (microkernels.triad, (0.5, np.ones(8), np.ones(8), out), 16),
    ]
    with pk.use("serial"):
        for kernel, args, flops in wanted:
            # the compiler knows that out[i] + 0 for the first chain is out[i]
            first = 8 if kernel is not microkernels.triad else 0
            assert abs(roofline.count(8, kernel, *args).flops - flops) <= first
        counted = roofline.count(8, *microkernels.special("exp"), 5, b, c, out)
        assert counted.special == {("exp", "float64"): microkernels.FEW * 5 * 8}


def test_independent_tools_do_the_same_work(space, capsys):
    """Copies, triads and chains in C or CUDA C++ give the same numbers, or the absent tool is named with the
    reason."""
    assert cli.main([*"compare ceilings --quick --space".split(), space, *"--rounds 3".split()]) == 0
    out = capsys.readouterr().out
    tool, duels = ("CUDA C++", 7) if space == "cuda" else ("gcc -O3", 6)  # in caches, too
    assert out.count(tool) == duels or out.count("not here: ") >= 4


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """Start with an empty cache, and list the measurements since."""
    monkeypatch.setenv("PORTABLE_CACHE", str(tmp_path))
    monkeypatch.setattr(ceiling, "_held", {})
    measured = []

    class Plan:
        name, unit, method = "fma float64", "flop", "a pretence"

        def measure(self, quick):
            measured.append(1)
            return Samples((1.0, 2.0, 3.0))

    monkeypatch.setattr(measuring, "plans", lambda space, quick: (None, [("DRAM", None)], [Plan()]))
    monkeypatch.setattr(machine, "busy_cores", lambda: 0.0)
    return measured


def file_in(folder):
    (path,) = (folder / "ceilings").iterdir()
    return path


def test_a_measurement_is_kept(kept, tmp_path):
    first = roofline.ceilings("serial")
    assert roofline.ceilings("serial") == first and len(kept) == 1
    roofline.ceilings("serial", fresh=True)
    assert len(kept) == 2 and file_in(tmp_path).stat().st_size < 10_000


def test_measured_again_the_better_is_kept(kept, tmp_path):
    first = roofline.ceilings("serial")
    slower = dataclasses.replace(first.items["fma float64"], rate=Samples((0.5, 1.0)))
    first.items["fma float64"] = slower
    assert roofline.ceilings("serial", again=True).rate("fma float64") == 3.0 and len(kept) == 2
    first.items["fma float64"] = dataclasses.replace(slower, rate=Samples((9.0,)))
    assert roofline.ceilings("serial", again=True).rate("fma float64") == 9.0 and len(kept) == 3
    wait = dataclasses.replace(slower, unit="s", rate=Samples((2.0, 1.0)))
    assert wait.better(dataclasses.replace(wait, rate=Samples((1.5,)))) is wait


@pytest.mark.parametrize("spoil", "age cpu content source".split())
def test_a_stale_measurement_is_made_anew(kept, tmp_path, monkeypatch, spoil):
    roofline.ceilings("serial")
    path = file_in(tmp_path)
    document = json.loads(path.read_text())
    if spoil == "age":
        long_ago = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=ceiling.DAYS + 1)
        path.write_text(json.dumps(document | {"date": long_ago.isoformat()}))
    elif spoil == "cpu":
        monkeypatch.setattr(machine, "cpu_model", lambda: "another processor")
    elif spoil == "content":
        path.write_text(path.read_text()[:100])
    else:
        monkeypatch.setattr(ceiling, "SCHEMA_VERSION", 99)
    ceiling._held.clear()  # as in another process
    roofline.ceilings("serial")
    assert len(kept) == 2


def test_what_a_busy_machine_gave_holds_until_it_is_quieter(kept, monkeypatch):
    """Later processes measure again; one process compares everything with the same roof."""
    monkeypatch.setattr(machine, "busy_cores", lambda: 1.5)
    roofline.ceilings("serial")
    ceiling._held.clear()
    roofline.ceilings("serial")
    monkeypatch.setattr(machine, "busy_cores", lambda: 0.1)
    roofline.ceilings("serial")
    assert len(kept) == 1
    ceiling._held.clear()
    roofline.ceilings("serial")
    roofline.ceilings("serial")
    assert len(kept) == 2


def test_a_special_function_is_added_to_what_is_kept(kept, tmp_path):
    assert "expm1 float64" not in roofline.ceilings("serial").items
    found = roofline.ceilings("serial", special=[("expm1", "float64"), ("words", "float64")])
    assert len(kept) == 1 and found.items["expm1 float64"].best > 0 and "words float64" not in found.items
    assert "expm1 float64" in roofline.ceilings("serial").items


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write everywhere")
def test_an_unwritable_folder_costs_a_warning(kept, tmp_path):
    tmp_path.chmod(0o500)
    try:
        with pytest.warns(UserWarning, match="cannot be used"):
            assert roofline.ceilings("serial").rate("fma float64") == 3.0
    finally:
        tmp_path.chmod(0o700)


def test_a_folder_that_is_a_file_costs_a_warning(kept, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PORTABLE_CACHE", str(tmp_path / "file"))
    with pytest.warns(UserWarning, match="cannot be used"):
        assert roofline.ceilings("serial").rate("fma float64") == 3.0


def test_the_cache_can_be_off(kept, monkeypatch, tmp_path):
    monkeypatch.setenv("PORTABLE_CACHE", "0")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        roofline.ceilings("serial")
        roofline.ceilings("serial")
    assert len(kept) == 1 and not list(tmp_path.iterdir())  # the ceilings are kept in this process


def test_the_command_prints_and_writes(tmp_path, told):
    numbers = tmp_path / "ceilings.json"
    assert cli.main(f"ceilings --space serial --quick --json {numbers}".split()) == 0
    out, document = told.out, json.loads(numbers.read_text())
    assert "fma float64" in out and document["schema"] == "roofline-ceilings"
    assert {c["name"] for c in document["ceilings"]} >= ALWAYS
    assert cli.main(["ceilings", "--space", "moon"]) == 2


def test_cache_sizes_come_from_the_system_or_are_assumed(tmp_path):
    for index, (kind, level, size) in enumerate(
        [("Data", 1, "48K"), ("Instruction", 1, "32K"), ("Unified", 2, "2048K")]
    ):
        folder = tmp_path / f"index{index}"
        folder.mkdir()
        for name, text in (("type", kind), ("level", level), ("size", size)):
            (folder / name).write_text(f"{text}\n")
    assert measuring.cpu_levels(pk.Threads(2), tmp_path) == [
        ("L1", 96 << 10),
        ("L2", 4 << 20),
        ("L3", 8 << 20),
        ("DRAM", None),
    ]
    assert [
        name for name, _ in measuring.cpu_levels(pk.Threads(1), tmp_path / "nowhere")
    ] == "L1 L2 L3 DRAM".split()


def test_what_a_gpu_keeps_near_shows_in_rates(monkeypatch):
    """Working sets that are read about as fast as the fastest fit into the cache."""
    rates = dict(zip(measuring._WORKING_SETS, (12.5, 11.0, 9.7, 8.8, 8.7, 5.7, 4.5, 4.4), strict=True))

    class Plan:
        def __init__(self, rate):
            self.rate = rate

        def measure(self, quick):
            return Samples((0.9 * self.rate, self.rate))

    monkeypatch.setattr(measuring, "read_around", lambda space, size: Plan(rates[size]))
    assert measuring.gpu_levels(None, quick=False) == [("L2", 32 << 20), ("HBM", None)]


@pytest.mark.parametrize(("told", "clock"), [("1980\n", 1.98e9), ("[N/A]\n", None), (None, None)])
def test_a_gpu_at_work_is_asked_for_its_clock(monkeypatch, told, clock):
    done, plan = [], SimpleNamespace(call=lambda: done.append("launch"), sync=lambda: done.append("wait"))

    def run(command, **options):
        assert command[0] == "nvidia-smi" and "--id=1" in command and done.count("launch") > 100
        if told is None:
            raise FileNotFoundError("nvidia-smi")
        return SimpleNamespace(stdout=told)

    monkeypatch.setattr(measuring.subprocess, "run", run)
    assert measuring._gpu_clock("cuda:1", plan) == clock and done[-1] == "wait"


def made_up(levels=("L1", "L2", "L3", "DRAM"), **rates):
    """Return ceilings of given rates: `fma_float64=1.0`, `read_L2=2.0`."""
    names = {
        name.replace("_f", " f").replace("_L", " L").replace("_D", " D").replace("_i", " i"): rate
        for name, rate in rates.items()
    }
    items = {
        name: ceiling.Ceiling(name, "B" if name.split()[-1] in levels else "flop", Samples((rate,)), "")
        for name, rate in names.items()
    }
    return ceiling.Ceilings(
        "serial",
        "2026-01-01T00:00:00+00:00",
        {"cpu": "A", "device": None},
        None,
        [(n, 1) for n in levels],
        items,
    )


@pytest.mark.parametrize(
    ("rates", "low", "words"),
    [
        (
            {"fma_float64": 25.5, "no_fma_float64": 47.0},
            {"fma float64"},
            "fma float64 was measured at 25.5 flop/s, below no fma float64",
        ),
        (
            {"fma_float32": 45.4, "fma_float64": 57.0},
            {"fma float32"},
            "below fma float64, 57.0 flop/s, which no machine can have",
        ),
        (
            {"fma_float64": 50.0, "fma_float32": 114.0},
            {"fma float64"},
            "fma float64 was measured at 50.0 flop/s, below half of fma float32, 57.0 flop/s",
        ),
        (
            {"copy_L2": 60.0, "read_L2": 65.0, "read_L3": 107.0},
            {"copy L2", "read L2"},
            "the bandwidth of L2 was measured at 65.0 B/s",
        ),
        ({"read_L1": 50.0, "read_DRAM": 60.0}, {"read L1"}, "below that of DRAM"),
    ],
)
def test_what_no_machine_can_have_is_doubted(rates, low, words):
    found = made_up(**{name.replace("no_fma", "no fma"): rate for name, rate in rates.items()})
    ((names, sentence),) = physics.disorder(found)
    assert names == low and words in sentence and found.doubts == [sentence] == found.as_dict()["doubts"]
    assert words in checks.caveats(found, [])[0]


def test_a_gpu_has_other_units_for_float64():
    rates = made_up(fma_float64=1.0, fma_float32=64.0)
    assert physics.disorder(rates) and not physics.disorder(dataclasses.replace(rates, space="cuda"))


def test_what_a_machine_can_have_is_not_doubted():
    fine = made_up(
        fma_float64=20.0,
        fma_float32=40.0,
        read_L1=9.0,
        copy_L2=5.0,
        read_L2=4.0,
        update_L3=4.5,
        read_DRAM=4.6,
    )
    assert fine.doubts == []  # the difference between L3 and DRAM is within that of repeats


def test_a_roof_is_what_several_repeats_came_to():
    """A single repeat may be an error of the clock: 89.6 GB/s, where the others stay below 20."""
    rates = (89.6, 19.9, 19.8, *[19.6] * 9)
    assert ceiling.Ceiling("update DRAM", "B", Samples(rates), "").best == 19.8
    assert ceiling.Ceiling("launch", "s", Samples((1e-9, *[2e-6] * 11)), "").best == 2e-6
    assert ceiling.Ceiling("few", "B", Samples((3.0, 2.0, 1.0)), "").best == 3.0


def test_bests_of_one_moment_are_doubted_where_they_are_many():
    once, often = (1.0, *[1.1] * 59), (1.0, 1.01, 1.02, *[1.1] * 57)

    def found(*times):
        items = {
            f"log float{k}": ceiling.Ceiling(f"log float{k}", "op", Samples(tuple(1.0 / t for t in ts)), "")
            for k, ts in enumerate(times)
        }
        return dataclasses.replace(made_up(), items=items).doubts

    assert found(once[:15]) == [] and found(often) == [] and found(once, often, often, often) == []
    assert found(once, once, often) == [
        "of 2 of 3 ceilings the best repeat was not reached again, however often they were repeated"
    ]


def test_repeats_are_spread_over_more_than_a_moment(monkeypatch):
    """Repeats within a few milliseconds could all be disturbed by the same process."""
    clock = Clock(monkeypatch)
    plan = measuring.Plan("fma float64", "flop", 1.0, clock.taking(2e-3), lambda: None, "")
    assert len(plan.measure(quick=False).values) > measuring.REPEATS
    assert measuring.SPREAD_SECONDS <= clock.now < measuring.SPREAD_SECONDS + 5e-3
    dataclasses.replace(plan, shared=False).measure(quick=False)  # of a device, which has no other users
    assert 4 / 3 * measuring.SPREAD_SECONDS <= clock.now < 4 / 3 * measuring.SPREAD_SECONDS + 1e-2


def test_repeats_go_on_until_the_best_stands(monkeypatch):
    monkeypatch.setattr(measuring, "SPREAD_SECONDS", 0.0)
    for noise, wanted in (
        (lambda k: 1.0, measuring.REPEATS),
        (lambda k: 2.0 / (k + 1) if k < 30 else 0.05, 33),
        (lambda k: 2.0 / (k + 1), 103),  # until one step is within 2 %,
    ):
        seen = []

        def batch(fn, sync, calls, seen=seen, noise=noise):
            seen.append(noise(max(len(seen) - 2, 0)))  # the first two compile and calibrate
            return 0.1 * seen[-1]

        monkeypatch.setattr(timing, "batch_seconds", batch)
        monkeypatch.setattr(timing, "MORE_SECONDS", 60.0)
        plan = measuring.Plan("fma float64", "flop", 1.0, lambda: None, lambda: None, "")
        assert len(plan.measure(quick=False).values) == pytest.approx(wanted, abs=1)


def test_an_unknown_level_is_an_error_that_names_those_there_are():
    with pytest.raises(
        InputError,
        match="'dram' is no memory level whose bandwidth was measured on serial; there are L2, DRAM",
    ):
        made_up(read_L2=2.0, read_DRAM=1.0).bandwidth("dram")


def plans_of(monkeypatch, rates):
    """Replace plans by ones that give these rates in turn; return the list of measured plans, in order."""
    log = []

    class Plan:
        unit, method = "flop", "a pretence"

        def __init__(self, name):
            self.name = name

        def measure(self, quick):
            log.append(self.name)
            return Samples((rates[self.name].pop(0),))

    monkeypatch.setattr(
        measuring, "plans", lambda space, quick: (None, [("DRAM", None)], [Plan(name) for name in rates])
    )
    return log


def test_what_was_too_low_is_measured_again_and_then_kept(kept, tmp_path, monkeypatch):
    log = plans_of(monkeypatch, {"fma float64": [25.0, 30.0, 90.0], "no fma float64": [47.0]})
    found = roofline.ceilings("serial")
    assert found.rate("fma float64") == 90.0 and found.doubts == []
    assert log == ["fma float64", "no fma float64", "fma float64", "fma float64"] and file_in(tmp_path)


def test_what_stays_in_doubt_is_not_kept_for_others(kept, tmp_path, monkeypatch):
    log = plans_of(
        monkeypatch, {"fma float64": [25.0] * (2 + 2 * ceiling.TRIES), "no fma float64": [47.0] * 2}
    )
    first = roofline.ceilings("serial")
    assert first.doubts and len(log) == 2 + ceiling.TRIES and not list((tmp_path / "ceilings").iterdir())
    assert roofline.ceilings("serial") is first  # one process compares all kernels with the same ceilings
    ceiling._held.clear()
    roofline.ceilings("serial")
    assert len(log) > 2 + ceiling.TRIES


def test_no_compiler_knows_that_atomics_meet():
    """A compiler with this knowledge would first add the lanes of a GPU's warp, so that 32 updates would need
    one atomic operation."""
    views = np.zeros(64, np.int64), np.zeros(64, np.int64)
    told = pk.explain(pk.RangePolicy(0, 64, space="serial"), microkernels.atomics, 2, *views)
    assert {access.how for access in told.accesses if access.view == "counts"} == {"strided or gathered"}
