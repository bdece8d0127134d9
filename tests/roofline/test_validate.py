"""Test the judgement of reasons; their truth is measured by `python -m portable.roofline validate`."""

import itertools
import json

import numpy as np
import pytest
from numpy.random import default_rng

import portable as pk
from portable import roofline
from portable.errors import InputError
from portable.roofline import __main__ as cli
from portable.roofline import timing, truth
from portable.roofline.truth import validate
from portable.roofline.timing import Samples
from portable.roofline.truth import pairs, Pair


@pk.kernel
def some_work(i, x, out):
    v = x[i]
    for _ in range(200):
        v = v * 0.999 + 0.001
    out[i] = v


def planted(*causes, error=None):
    def make(space, random, scale):
        if error:
            raise error
        launch = pk.RangePolicy(0, 64, space=space), some_work, np.ones(64), np.ones(64)
        return launch, launch

    return Pair("planted", causes, make)


@pytest.fixture
def told(monkeypatch):
    """Make up the measurements and reasons of a pair."""

    def judged(seconds, said, causes=("divergence",)):
        fastest = itertools.chain.from_iterable(seconds if k < 2 else (9.0, 9.0) for k in range(9))
        calls = itertools.count()  # the first call of each side shows its duration, then samples follow
        monkeypatch.setattr(
            validate, "batch_seconds", lambda *_: 1.0 if next(calls) < len(seconds) else next(fastest)
        )
        answers = iter(said)
        monkeypatch.setattr(validate, "_first_cause", lambda *_: next(answers))
        return validate.judge(planted(*causes), "serial", None, lambda: None, quick=True)

    return judged


@pytest.mark.parametrize(
    "said right accused near".split(),
    [
        ([("divergence", "", 3.0, {}), ("", "", None, {})], True, False, True),
        ([("divergence", "", 3.9, {}), ("", "", None, {})], True, False, True),
        ([("divergence", "", 4.0, {}), ("waiting", "", 2.0, {})], True, False, False),
        ([("waiting", "", 3.0, {}), ("divergence", "", 2.0, {})], False, True, False),
        ([("", "", None, {}), ("", "", None, {})], False, False, False),
    ],
)
def test_a_pair_is_judged_by_what_was_said_and_measured(told, said, right, accused, near):
    found = told((3.0, 1.0), said)
    assert (found.right, found.accused, found.near, found.measured) == (right, accused, near, 3.0)
    assert json.loads(json.dumps(found.as_dict()))["measured_gain"] == 3.0


def test_a_cause_that_costs_nothing_on_a_space_is_not_judged(monkeypatch):
    """A launch without packs cannot lose lanes, whatever cause is named; but a clean launch with this cause
    still counts as an error."""
    monkeypatch.setattr(validate, "_ample", lambda pair, space, known, random: pair.make(space, None, 1))
    monkeypatch.setattr(validate, "_seconds", lambda *_: [1.05, 1.0])
    for named, of_clean in (("waiting", ""), ("divergence", ""), ("waiting", "divergence")):
        said, refused = iter([(named, "", 2.0, {}), (of_clean, "", 2.0, {})]), not of_clean
        monkeypatch.setattr(validate, "_first_cause", lambda *_, said=said: next(said))
        found = validate.judge(planted("divergence"), "serial", None, None)
        assert found.refused is refused and ("costs nothing on 'serial'" in found.error) is refused


def test_there_is_as_much_work_as_a_launch_is_dear(monkeypatch):
    """Launches of 9 microseconds need clean ones that take six times as long, on every space."""
    scales = []

    def make(space, random, scale):
        scales.append(scale)
        return planted().make(space, random, scale)

    def measured(*_, **__):
        return Samples((9e-6 + 1e-6 * scales[-1],))

    monkeypatch.setattr(timing, "measure", measured)
    roofs = type("Roofs", (), {"rate": lambda self, name: {"launch call": 9e-6}[name]})()
    validate._ample(Pair("planted", (), make), "serial", lambda special: roofs, lambda: None)
    assert scales[0] == 1 and 9e-6 + 1e-6 * scales[-1] >= 54e-6 and scales[-1] < 1000


def test_a_host_that_is_slow_at_first_does_not_pass_for_work(monkeypatch):
    """A launch is too short if only its first calls are late and the later ones take 10 microseconds."""
    late, scales = itertools.chain((9e-5 * 0.9**k for k in range(8)), itertools.repeat(1e-5)), []

    def make(space, random, scale):
        scales.append(scale)
        return planted().make(space, random, scale)

    roofs = type("Roofs", (), {"rate": lambda self, name: 9e-6})()
    monkeypatch.setattr(timing, "batch_seconds", lambda *_: next(late))
    validate._ample(Pair("planted", (), make), "serial", lambda special: roofs, lambda: None)
    assert scales[1] == pytest.approx(1.2 * 54 / 10)


def test_what_was_judged_of_a_run_that_is_broken_off_is_kept(tmp_path, monkeypatch):
    """A run on a GPU with a time limit may be interrupted at any point."""

    def broken(space, random, scale):
        raise SystemExit(3)

    monkeypatch.setattr(truth, "corpus", lambda: [planted("waiting"), Pair("broken", (), broken)])
    monkeypatch.setattr(validate, "_first_cause", lambda *_: ("waiting", "it waits", 2.0, {}))
    numbers = tmp_path / "numbers.json"
    with pytest.raises(SystemExit):
        cli.main(f"validate --space serial --quick --json {numbers}".split())
    assert [p["pair"] for p in json.loads(numbers.read_text())["pairs"]] == ["planted"]


def test_a_pair_that_cannot_be_run_is_told():
    found = validate.judge(
        planted("divergence", error=ValueError("broken")), "serial", None, lambda: None, quick=True
    )
    assert found.error == "ValueError: broken" and not found.right and not found.near and not found.refused


@pytest.fixture
def quick_rates(monkeypatch, quick_ceilings):
    """Return ceilings by tiny measurements, whose values do not matter here."""
    monkeypatch.setattr(validate, "ceilings", lambda space, **options: quick_ceilings(str(space)))


@pytest.mark.usefixtures("quick_rates")
def test_a_pair_that_wants_threads_is_not_held_against_one(monkeypatch, capsys):
    found = [pair for pair in truth.corpus() if pair.name == "one team for all"]
    monkeypatch.setattr(truth, "corpus", lambda: found)
    assert cli.main(["validate", "--space", "serial"]) == 0
    told = capsys.readouterr().out
    assert (
        "not judged: space: 'serial' runs one team at a time" in told
        and "0 of 0 planted causes named" in told
        and "not judged, so in none of these numbers: 1 of 1 pairs" in " ".join(told.split())
    )


def test_pairs_are_chosen_by_name_or_cause():
    """Pairs keep their data, whatever other pairs run."""
    every = [pair.name for pair in truth.corpus()]
    ((k, pair),) = validate.chosen("one team for all")
    assert every[k] == pair.name == "one team for all"
    by_cause = validate.chosen("divergence, together")
    assert {cause for _, pair in by_cause for cause in pair.causes} == {"divergence", "together"}
    assert [pair.name for _, pair in validate.chosen(None)] == every
    with pytest.raises(InputError, match="no pair's name or cause contains 'moon'; there are: mandel"):
        validate.chosen("moon")


@pytest.mark.parametrize("pair", truth.corpus(), ids=lambda pair: pair.name)
def test_both_launches_of_a_pair_do_the_same_work(pair, monkeypatch):
    """Both use the same numbers in another order, or as many elements: the sources have the same number of
    operations, except for indices and the planted operations."""
    monkeypatch.setattr(truth.machine, "_check_banks", lambda space: None)  # to compare only the work
    random, space = default_rng(5), "threads:2"
    with pk.use(space):
        counts = [_counted(side) for side in pair.make(space, random, 0)]
    flops, special = ([sum(getattr(c, name) for c in found) for found in counts] for name in QUANTITIES)
    if {"launch", "waiting", "special", "outside", "conversions"}.intersection(pair.causes):
        return  # other sizes; more starting points; no functions; a reduction; floats in place of integers
    assert flops[0] == flops[1] and special[0] == special[1]


QUANTITIES = "flops", "n_special"


class _Sums:
    def __init__(self, counts):
        self.flops, self.n_special = counts.flops, sum(counts.special.values())


def _counted(side):
    """Return the counts of one side's launches; a call makes several."""
    if not callable(side):
        return [_Sums(validate.count(*side, executed=False))]
    with roofline.profile() as made:
        side()
    return [_Sums(c) for _, found in made.counts(executed=False) for c in found]


def test_data_are_drawn_anew():
    (one, _), (other, _), (same, _) = (
        pairs.a_branch_that_few_lanes_take("serial", default_rng(seed), 0) for seed in (1, 2, 1)
    )
    values = [np.asarray(launch[2]) for launch in (one, other, same)]
    assert (values[0] == values[2]).all() and (values[0] != values[1]).any()


@pytest.mark.usefixtures("quick_rates")
def test_the_command_tells_every_pair(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(
        truth, "corpus", lambda: [planted("waiting"), planted("divergence", error=ValueError("broken"))]
    )
    monkeypatch.setattr(validate, "_first_cause", lambda *_: ("waiting", "it waits", 2.0, {}))
    numbers = tmp_path / "numbers.json"
    assert cli.main(f"validate --space serial --seed 7 --json {numbers}".split()) == 1
    out, document = capsys.readouterr().out, json.loads(numbers.read_text())
    assert (
        "1 of 2 planted causes named; 1 of 2 clean launches accused" in out
        and "not run: ValueError: broken" in out
    )
    assert document["ceilings"]["launch call"] > 0 and document["pairs"][0]["launches"] == [{}, {}]
    assert document["seed"] == 7 and [p["named"] for p in document["pairs"]] == ["waiting", ""]
    assert cli.main("validate --quick --space serial".split()) == 0
