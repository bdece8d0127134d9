"""Compare this revision with another: intervals, verdicts and turns on made-up sides, then whole processes on
a made-up project."""

import contextlib
import json
import shutil
import subprocess
import tempfile

import numpy as np
import pytest
from numpy.random import default_rng

from portable.errors import InputError
from portable.roofline import __main__ as cli
from portable.roofline import compare_revisions, process, revision, side
from portable.roofline.cases import start
from portable.roofline.compare_revisions import IS_SLOWER, NOT_SLOWER, UNDECIDED, Outcome, Row


def ratios(random, n_sittings, n_rounds, centre=1.0, between=0.0, within=0.01):
    """Return the ratios of made-up sittings: noise common to a pair of processes, and noise of each round,
    with outliers."""
    noise = between * random.standard_normal((n_sittings, 1)) + within * random.standard_t(
        3, (n_sittings, n_rounds)
    )
    return (centre * np.exp(noise)).tolist()


@pytest.mark.parametrize(("between", "within"), [(0.0, 0.05), (0.03, 0.01), (0.03, 0.05)])
def test_intervals_hold_the_median_as_often_as_they_say(between, within):
    """At least 182 of 200 intervals of 95 % contain the median: fewer occur by chance once in 100. Intervals
    from rounds only would contain it in 40 % of cases with the second parameters."""
    random = default_rng(1)
    found = [compare_revisions.interval(ratios(random, 10, 8, 1.3, between, within)) for _ in range(200)]
    assert sum(i.lower <= 1.3 <= i.upper for i in found) >= 182


def test_an_interval_gets_narrower_with_more_rounds_and_more_sittings():
    random = default_rng(2)
    few, rounds, sittings = (
        compare_revisions.interval(ratios(random, *shape, between=0.05, within=0.2)).width
        for shape in ((5, 4), (5, 80), (80, 4))
    )
    assert sittings < rounds < few


def test_sittings_of_different_lengths():
    found = compare_revisions.interval([[1.0], [1.0, 1.2, 1.1], [0.9, 1.0]])
    assert found.median == 1.0 and 0.9 <= found.lower <= 1.0 <= found.upper <= 1.2
    alone = compare_revisions.interval([[2.0]])
    assert alone.median == 2.0 and np.isnan(alone.width)  # a single round has no interval


def row_of(*sittings, **options):
    return Row(
        "work",
        "ours",
        (0, 0),
        calls=1,
        sittings=[[(ratio, 1.0) for ratio in sitting] for sitting in sittings],
        **options,
    )


@pytest.mark.parametrize(
    ("sittings", "verdict"),
    [
        ([[1.0] * 4] * 5, NOT_SLOWER),
        ([[0.5] * 4] * 5, NOT_SLOWER),
        ([[1.019] * 4] * 5, NOT_SLOWER),
        ([[1.021] * 4] * 5, IS_SLOWER),
        ([[1.01] * 4, [1.08] * 4] * 3, NOT_SLOWER),  # begins below 1.02
        ([[1.03] * 4, [1.08] * 4] * 3, IS_SLOWER),
        ([[0.9] * 4, [1.1] * 4] * 3, UNDECIDED),  # wider than 10 %
        ([[1.0] * 400] * 4, UNDECIDED),  # processes started too few times
        ([], UNDECIDED),
    ],
)
def test_verdicts(sittings, verdict):
    assert row_of(*sittings).verdict == verdict


def test_the_case_is_as_good_as_its_worst_row():
    good, slower, open_ = row_of(*[[1.0] * 4] * 5), row_of(*[[1.1] * 4] * 5), row_of([1.0])
    verdicts = [Outcome("REV", rows).verdict for rows in ([good], [good, open_], [good, open_, slower], [])]
    assert verdicts == [NOT_SLOWER, UNDECIDED, IS_SLOWER, UNDECIDED]
    assert Outcome("REV", [good]).passed and not Outcome("REV", [good, open_]).passed
    good.problem = "they differ"
    assert not Outcome("REV", [good]).passed


class Sides:
    """Two made-up processes on a clock that only their work advances."""

    def __init__(self, this, other, random=None, between=0.0):
        self.now, self.log, self.starts = 0.0, [], 0
        self.work, self.random, self.between = (this, other), random, between

    @contextlib.contextmanager
    def start(self):
        self.starts += 1
        self.now += 1.0
        self.sides = [Fake(self, which, work) for which, work in enumerate(self.work)]
        yield self.sides

    def run(self, limit=600.0):
        outcome = Outcome("REV")
        compare_revisions.run(self.start, outcome, limit, clock=lambda: self.now)
        return outcome


class Fake:
    def __init__(self, sides, which, work):
        self.sides, self.which, self.work = sides, which, work
        self.rows = [
            {"title": title, "label": "ours", "tolerance": 0.1, "host_only": False, "has_result": True}
            for title in work
        ]
        self.luck = np.exp(sides.between * sides.random.standard_normal()) if sides.random else 1.0

    def seconds(self, place, calls):
        title = list(self.work)[place]
        took = self.work[title]
        if isinstance(took, Exception):
            raise took
        noise = np.exp(0.05 * self.sides.random.standard_normal()) if self.sides.random else 1.0
        self.sides.now += took * calls * noise
        self.sides.log.append((self.which, title, calls))
        return took * noise * self.luck

    def result(self, place):
        return {"wrong": 1.0 + self.which}.get(list(self.work)[place], 1.0)


def test_the_sides_take_turns_and_either_goes_first():
    sides = Sides({"a": 0.2}, {"a": 0.2})
    (row,) = sides.run().rows
    samples = [which for which, _, calls in sides.log if calls == row.calls]
    assert samples[4:12] == [0, 1, 1, 0, 0, 1, 1, 0]  # after compilation and calibration
    assert row.calls == 1 and len(row.sittings) == sides.starts == compare_revisions.SITTINGS


def test_both_sides_of_a_sample_make_as_many_calls():
    sides = Sides({"a": 1e-4}, {"a": 2e-5})
    (row,) = sides.run().rows
    assert row.calls * 2e-5 >= compare_revisions.MIN_SECONDS and row.interval.median == pytest.approx(5.0)
    assert {calls for _, _, calls in sides.log[-4:]} == {row.calls}


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, NOT_SLOWER), (0.7, NOT_SLOWER), (1.06, IS_SLOWER)])
def test_noise_does_not_hide_the_truth(factor, verdict):
    sides = Sides({"a": 0.06 * factor}, {"a": 0.06}, default_rng(3), between=0.01)
    outcome = sides.run()
    assert outcome.verdict == verdict and outcome.rows[0].interval.width < compare_revisions.NARROW
    assert outcome.seconds < 600


def test_decided_rows_leave_the_time_to_the_others():
    outcome = Sides({"quiet": 0.06, "loud": 0.06}, {"quiet": 0.06, "loud": 0.06}).run()
    assert [len(row.sittings) for row in outcome.rows] == [5, 5]
    noisy = Sides({"quiet": 0.06, "loud": 0.06}, {"quiet": 0.06, "loud": 0.06}, default_rng(4), between=0.1)
    once = noisy.run(40.0)
    assert 40 <= once.seconds < 45 and all(row.sittings for row in once.rows)
    assert any(row.verdict == UNDECIDED for row in once.rows) and not once.passed


def test_the_limit_holds_within_a_sitting():
    outcome = Sides({"a": 3.0, "b": 3.0}, {"a": 3.0, "b": 3.0}).run(10.0)
    # for each row a call that compiles, one that calibrates, and a round
    assert outcome.seconds < 40 and outcome.verdict == UNDECIDED
    assert [len(row.rounds) for row in outcome.rows] == [1, 1]


def test_rows_of_one_revision_alone_are_told():
    outcome = Sides({"a": 0.06, "new": 0.06}, {"old": 0.06, "a": 0.06}).run()
    assert [row.title for row in outcome.rows] == ["a"] and outcome.passed
    assert (outcome.only_this, outcome.only_other) == (["new"], ["old"])


def test_a_row_that_fails_costs_only_itself():
    failing, dying = (
        process.SideError("REV: ValueError: broken"),
        process.SideDied("REV: the process ended with -11"),
    )
    outcome = Sides({"a": failing, "b": 0.06, "c": 0.06}, {"a": 0.06, "b": 0.06, "c": dying}).run()
    assert [row.problem for row in outcome.rows] == [str(failing), None, str(dying)] and not outcome.passed
    assert outcome.rows[1].verdict == NOT_SLOWER


def test_results_that_disagree_are_told():
    outcome = Sides({"wrong": 0.06}, {"wrong": 0.06}).run()
    assert (
        "this gave 1.0, the other 2.0: they differ by 5.0e-01" in outcome.rows[0].problem
        and not outcome.passed
    )


def told(title, label="ours"):
    return {"title": title, "label": label, "tolerance": 0.0, "host_only": False, "has_result": False}


@pytest.mark.parametrize(
    ("here", "there", "same"),
    [
        (
            "density, 100 indices, 1.83 G operations executed",
            "density, 100 indices, 1.7 G operations executed",
            True,
        ),
        (
            "EM, 8 points, float64, 28.6 M operations, 560 a pair",
            "EM, 8 points, float64, 900 k operations, 1,555 a pair",
            True,
        ),
        ("EM, 8 points, 320 operations, 56 a pair", "EM, 9 points, 320 operations, 56 a pair", False),
        ("axpy of 100 float64", "axpy of 200 float64", False),
    ],
)
def test_counted_operations_do_not_part_rows(here, there, same):
    rows, only_here, only_there = compare_revisions.match([told(here)], [told(there)])
    assert bool(rows) == same and bool(only_here) == bool(only_there) == (not same)


def test_rows_of_one_title_are_told_apart_by_their_labels():
    rows, *_ = compare_revisions.match(
        [told("launch", "plan"), told("launch", "for")], [told("launch", "for"), told("launch", "plan")]
    )
    assert [row.places for row in rows] == [(0, 1), (1, 0)]


PROJECT = {
    "portable/__init__.py": (
        "from pathlib import Path\n\n__path__.append(str(Path(__file__).parents[1]))\n\n"
        "import contextlib\n\n@contextlib.contextmanager\ndef use(space):\n    yield space\n"
    ),
    "roofline/__init__.py": "",
    "roofline/peers/__init__.py": (
        "def gather(*args, **options):\n    raise RuntimeError('a peer was asked')\n"
    ),
    "roofline/cases/__init__.py": (
        "import importlib\n\ndef load(name):\n"
        "    return importlib.import_module(f'portable.roofline.cases.{name}')\n"
    ),
}
CASE = """
import atexit
import os
import tempfile
import time
from types import SimpleNamespace
from portable.roofline import peers

folder = tempfile.mkdtemp()
atexit.register(os.rmdir, folder)
now = 0.0
time.perf_counter = lambda: now  # only work takes time

def side(seconds):
    def call():
        global now
        now += seconds
        print("whatever a case prints")
    return SimpleNamespace(label="ours", call=call, sync=None, result=lambda: 1.0)

def duels(space, n, quick):
    peers.gather("fake", space)
    rows = {rows}
    return [
        SimpleNamespace(title=title, ours=side(seconds), tolerance=0.0, host_only=False)
        for title, seconds in rows.items()
    ]
"""


def git(folder, *arguments):
    identity = "-c user.name=A -c user.email=a@example.org -c protocol.file.allow=always".split()
    return subprocess.run(
        ["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True, text=True
    ).stdout


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Make a project with a commit `before`; its working tree has changed since."""
    if shutil.which("git") is None:
        pytest.skip("no git here")
    top = tmp_path / "project"
    for name, text in PROJECT.items():
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    write_case(top, {"same": 0.06, "better": 0.09, "old": 0.06})
    git(tmp_path, "init", "-q", "project")
    git(top, "add", ".")
    git(top, "commit", "-qm", "before")
    git(top, "tag", "before")
    monkeypatch.setattr(revision, "HERE", top)
    monkeypatch.setattr(compare_revisions.time, "sleep", lambda seconds: None)
    return top


def write_case(top, rows):
    (top / "roofline/cases/mixture.py").write_text(CASE.replace("{rows}", repr(rows)))


def compare(top, tmp_path, *options):
    numbers = tmp_path / "numbers.json"
    code = cli.main([*f"compare mixture --against before --space serial --json {numbers}".split(), *options])
    return code, json.loads(numbers.read_text())


def test_a_case_against_the_commit_before(project, tmp_path, monkeypatch, capfd):
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    write_case(project, {"same": 0.06, "better": 0.06, "new": 0.06})
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    code, document = compare(project, tmp_path)
    out = capfd.readouterr().out
    assert code == 0 and document["verdict"] == NOT_SLOWER and "mixture against before: not slower" in out
    assert {row["title"]: row["this_over_other"]["median"] for row in document["rows"]} == pytest.approx(
        {"same": 1.0, "better": 2 / 3}
    )
    assert "only in this revision: new" in out and "only in before: old" in out and "whatever" not in out
    assert (
        document["this"]["changed"]
        and document["other"]["commit"] == git(project, "rev-parse", "before").strip()
    )
    assert not list(temporary.iterdir()) and git(project, "worktree", "list").count("\n") == 1


def test_what_is_slower_fails(project, tmp_path, told):
    write_case(project, {"same": 0.06, "better": 0.1, "old": 0.06})
    code, document = compare(project, tmp_path)
    assert code == 1 and [row["verdict"] for row in document["rows"]] == [NOT_SLOWER, IS_SLOWER, NOT_SLOWER]
    assert "mixture against before: slower" in told.out


def test_too_little_time_is_not_decided(project, tmp_path):
    code, document = compare(project, tmp_path, "--minutes", "0.001")
    assert code == 1 and document["verdict"] == UNDECIDED and document["limit_minutes"] == 0.001


def test_a_side_that_cannot_prepare_is_named(project, tmp_path, capsys):
    (project / "roofline/cases/mixture.py").write_text("raise ValueError('not today')\n")
    code, document = compare(project, tmp_path)
    assert code == 1 and "this revision: ValueError: not today" in document["failure"]
    assert "not today" in capsys.readouterr().err


def test_a_side_that_dies_is_told_with_its_last_words(project, tmp_path):
    (project / "roofline/cases/mixture.py").write_text(
        "import os, sys\nprint('out of memory', file=sys.stderr, flush=True)\nos._exit(9)\n"
    )
    code, document = compare(project, tmp_path)
    assert code == 1 and document["failure"] == "this revision: the process ended with 9: out of memory"


def test_a_package_from_elsewhere_is_refused(project, tmp_path):
    (project / "portable/__init__.py").unlink()
    (project / "portable").rename(project / "gone")
    code, document = compare(project, tmp_path)
    assert code == 1 and "this revision: " in document["failure"]


def test_a_revision_that_cannot_be_compared_is_refused(project, tmp_path, told):
    def refused(*words, rev="before", case="mixture"):
        assert cli.main(["compare", case, "--against", rev, *"--space serial".split()]) == 2
        said = told.err
        assert all(word in said for word in words), said

    refused("'nowhere' names no commit of", rev="nowhere")
    refused("'before' has no case 'tmap'", case="tmap")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(revision, "HERE", project / "roofline")
        refused("is not the top of a git checkout")
        patch.setattr(revision, "HERE", tmp_path)
        refused("is not the top of a git checkout", "not a git repository")
        patch.setattr(revision.shutil, "which", lambda name: None)
        refused("git is not on the path")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--against HEAD --rounds 3".split(), "--rounds is for peers"),
        (["--minutes", "1"], "--minutes is for --against"),
    ],
)
def test_options_of_the_other_comparison_are_refused(arguments, words, told):
    assert cli.main([*"compare mixture --space serial".split(), *arguments]) == 2
    assert words in told.err


def test_an_interruption_ends_both_processes_and_keeps_what_there_is(project, tmp_path, monkeypatch):
    started = []

    class Watched(process.Side):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            started.append(self.process)

    def interrupt(self, place):
        raise KeyboardInterrupt

    monkeypatch.setattr(process, "Side", Watched)
    monkeypatch.setattr(Watched, "result", interrupt, raising=False)
    code, document = compare(project, tmp_path)
    assert code == 130 and document["interrupted"] and document["rows"][0]["rounds"] >= 1
    assert len(started) == 2 and all(one.poll() is not None for one in started)


def test_a_process_that_does_not_end_is_ended(project, monkeypatch):
    (project / "roofline/cases/mixture.py").write_text("import time\ntime.sleep(60)\n")
    monkeypatch.setattr(process, "PATIENCE", 0.1)
    stuck = process.Side("this revision", project, case="mixture", space="serial", n=None, quick=True)
    stuck.close()
    assert stuck.process.returncode == -9


def test_a_case_of_processes_runs_as_it_is_here_the_programs_of_the_other_tree(tmp_path):
    """The measured time is that of a program without its imports."""
    (tmp_path / "sleeps.py").write_text(
        "import sys, time\ntime.sleep(0.01)\nassert sys.argv[1:] == ['serial']"
    )
    case = side.load(start.__file__, str(tmp_path))
    *others, duel = case.duels("serial", None, False)
    assert duel.title == "beyond imports, the 1 programs of docs/examples, compiled before"
    assert (
        0.01 <= duel.ours.call() == pytest.approx(side.batch_seconds(duel.ours.call, side.no_sync, 2), abs=1)
    )
    assert side.batch_seconds(others[0].ours.call, side.no_sync, 1) > 0.01  # includes the whole process


def test_this_project_against_itself(tmp_path, told):
    """Prepare both sides of a real case and take one sitting: the driver finds the names that it uses in
    either tree."""
    try:
        revision.find("HEAD", "mixture")
    except InputError as error:
        pytest.skip(str(error))
    numbers = tmp_path / "numbers.json"
    arguments = (
        f"compare mixture --against HEAD --quick --space serial --minutes 0.001 --json {numbers}".split()
    )
    assert cli.main(arguments) == 1  # one sitting is too few for a verdict
    (row,) = json.loads(numbers.read_text())["rows"]
    assert row["rounds"] == 1 and row["problem"] is None and row["this_over_other"]["median"] > 0
