"""Test the comparison of two versions of a program, run in turn."""

import csv
import json

import pytest

from portable.roofline import __main__ as cli
from portable.roofline import machine, printing, compare_programs

PROGRAM = """
import sys
import numpy as np
import portable as pk

@pk.kernel
def work(i, x):
    v = x[i]
    for _ in range({trips}):
        v = v * 0.999 + 0.001
    x[i] = v

print("arguments", sys.argv[1:])
x = np.ones(4096)
for _ in range(20):
    pk.parallel_for(4096, work, x)
sys.exit({code})
"""


@pytest.fixture
def program(tmp_path):
    def made(name, trips=10, code=0):
        (tmp_path / name).write_text(PROGRAM.format(trips=trips, code=code))
        return str(tmp_path / name)

    return made


@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [
        ([1.0, 1.01, 0.99] * 3, compare_programs.SAME),
        ([2.0, 2.1, 1.9] * 3, compare_programs.SLOWER),
        ([0.5, 0.51, 0.49] * 3, compare_programs.FASTER),
        ([0.7, 1.0, 1.4] * 3, compare_programs.UNDECIDED),
        ([2.0], compare_programs.UNDECIDED),  # a single round has no interval
    ],
)
def test_the_rule(ratios, verdict):
    rounds = [
        ({compare_programs.WHOLE: 1.0, "gone": 1.0}, {compare_programs.WHOLE: r, "new": 1.0}) for r in ratios
    ]
    (row,) = compare_programs.judged(rounds, 1.05)
    assert row["name"] == compare_programs.WHOLE and row["verdict"] == verdict


def test_a_slower_version_ends_with_1(program, tmp_path, monkeypatch, capfd):
    """Both programs run; their times are replaced, since the machine may be busy."""
    numbers, judged = tmp_path / "numbers.json", compare_programs.judged

    def of_twice_the_time(rounds, threshold):
        rounds = [(dict.fromkeys(old, 1.0), dict.fromkeys(new, 2.0)) for old, new in rounds]
        return judged(rounds, threshold)

    monkeypatch.setattr(compare_programs, "judged", of_twice_the_time)
    paths = program("old.py"), program("new.py")
    options = f"--space serial --rounds 3 --json {numbers}".split()
    assert cli.main(["versus", *options, *paths, "--flag"]) == 1
    whole, work = json.loads(numbers.read_text())["rows"]
    assert (whole["name"], work["name"], work["verdict"]) == (
        compare_programs.WHOLE,
        "work",
        compare_programs.SLOWER,
    )
    assert len(work["seconds"]["old"]["values"]) == 3
    told = capfd.readouterr()
    assert "slower" in told.out and "arguments" not in told.out and "arguments ['--flag']" in told.err


def test_a_program_that_fails_is_named(program, told):
    paths = program("old.py"), program("new.py", code=3)
    assert cli.main(["versus", "--space", "serial", *paths]) == 2
    assert "new.py' ended with exit code" in told.err
    assert cli.main([*"versus --space serial".split(), paths[0], "nowhere.py"]) == 2


def test_a_report_is_held_against_a_baseline_and_written_as_csv(program, tmp_path, monkeypatch, told):
    """The file is made the first time; a slower report then ends with 1."""
    monkeypatch.setattr(machine, "busy_cores", lambda *seconds: 0.0)
    base, rows, path = tmp_path / "base.json", tmp_path / "rows.csv", program("run.py", trips=3000)
    asked = f"report --space serial --quick --baseline {base} --csv {rows}".split()
    asked += ["--out", str(tmp_path / "page.html"), path]
    assert cli.main(asked) == 0 and json.loads(base.read_text())["schema"] == "roofline-report"
    (row,) = csv.DictReader(rows.read_text().splitlines())
    assert (row["method"], row["size"], row["space"]) == ("work", "4096", "serial") and float(
        row["median"]
    ) > 0
    known = json.loads(base.read_text())
    for name in "median lower upper values".split():
        own = known["parts"][0]["results"][0]["seconds"]
        own[name] = [s / 100 for s in own[name]] if name == "values" else own[name] / 100
    base.write_text(json.dumps(known))
    assert cli.main(asked) == 1 and "slower" in told.out


def test_a_quiet_machine_is_waited_for_so_long_at_most(monkeypatch, told):
    looks = iter([2.0, 1.0, 0.0])
    monkeypatch.setattr(machine, "busy_cores", lambda seconds: next(looks))
    printing.wait_for_quiet(60.0)
    assert next(looks, None) is None and told.err.count("waiting for a quiet machine") == 2
    printing.wait_for_quiet(None)
