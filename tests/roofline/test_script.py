"""Test reports of any program's launches, each compared with its roof."""

import dataclasses
import json
import sys
import time
from xml.etree import ElementTree

import numpy as np
import pytest

import portable.core.events
from portable.roofline import __main__ as cli
from portable.roofline import ceiling, machine, script

PROGRAM = """
import sys
import numpy as np
import portable as pk
from portable import roofline

@pk.kernel
def saxpy(i, a, x, y):
    y[i] += a * x[i]

@pk.kernel
def square(i, x):
    return x[i] * x[i]

x, y = np.ones(1000), np.ones(1000)
for _ in range(3):
    pk.parallel_for(1000, saxpy, 2.0, x, y)
print(pk.parallel_reduce(1000, square, x, label="squares"), sys.argv[1:])
"""


@pytest.fixture
def report(tmp_path):
    """Return the exit code and the JSON of a report of a program."""

    def made(text, *arguments, space="serial"):
        program, numbers = tmp_path / "program.py", tmp_path / "report.json"
        program.write_text(text)
        options = ["--space", space, *f"--out {tmp_path}/page.html --json {numbers}".split()]
        code = cli.main(["report", *options, str(program), *arguments])
        (part,) = json.loads(numbers.read_text())["parts"]
        return code, part

    return made


def test_each_kind_of_launch_is_reported(report, capsys):
    before = list(sys.argv)
    code, document = report(PROGRAM, "--flag", "7")
    assert code == 0 and sys.argv == before
    out = capsys.readouterr().out
    assert "1000.0 ['--flag', '7']" in out and "attainable" in out
    saxpy, squares = sorted(document["results"], key=lambda r: r["method"])
    assert (saxpy["method"], saxpy["size"], saxpy["unit"], saxpy["source"]) == (
        "saxpy",
        1000,
        "indices",
        "program.py",
    )
    assert len(saxpy["seconds"]["values"]) == 3 and saxpy["roof"]["flops"] == 2000
    assert squares["method"] == "squares" and squares["roof"]["compulsory_bytes"] == 8000
    assert any("timed once" in check["text"] for check in squares["roof"]["checks"])


def test_options_behind_a_program_are_its_own(report, capsys):
    code, part = report(PROGRAM, "--json=mine.json", "7")
    assert code == 0 and len(part["results"]) == 2
    told = capsys.readouterr()
    assert (
        "['--json=mine.json', '7']" in told.out
        and "--json=mine.json behind" in told.err
        and "before its name" in told.err
    )


def test_each_kernel_is_told_at_its_costliest(report, monkeypatch):
    monkeypatch.setattr(script, "LEAST", 2.0)
    text = PROGRAM + "pk.parallel_for(10, saxpy, 2.0, x[:10].copy(), y[:10].copy())\n"
    _, part = report(text)
    assert sorted(r["method"] for r in part["results"]) == ["saxpy", "squares"]
    assert any("1 more kinds of launches" in note for note in part["notes"])


def test_the_plot_alone_is_a_file_for_papers(tmp_path, told):
    program, drawing = tmp_path / "program.py", tmp_path / "plot.svg"
    program.write_text(PROGRAM)
    options = f"--out {tmp_path}/page.html --svg {drawing} {program}".split()
    assert cli.main(["report", "--space", "serial", *options]) == 0
    names = [element.text for element in ElementTree.parse(drawing).iter("{http://www.w3.org/2000/svg}text")]
    assert {name[3:] for name in names if name[:3] in ("1. ", "2. ")} == {"saxpy, serial", "squares, serial"}
    assert any("DRAM" in name for name in names)
    assert cli.main(["report", "--space", "checked", *options]) == 1
    assert "nothing to plot" in told.err


def test_a_program_may_profile_itself(report):
    text = PROGRAM.replace("for _ in range(3):", "with roofline.profile() as p, p.region('setup'):")
    assert {r["method"]: r["source"] for r in report(text)[1]["results"]} == {
        "saxpy": "program.py, setup",
        "squares": "program.py",
    }


@pytest.mark.parametrize(
    ("end", "words"),
    [
        ("raise ValueError('broken')", "ValueError: broken"),
        ("sys.exit(3)", "exit code 3"),
        ("1 +", "SyntaxError"),
    ],
)
def test_a_program_that_fails_keeps_what_it_launched(report, capsys, end, words):
    code, document = report(f"{PROGRAM}\n{end}\n")
    assert code == 1 and words in document["failures"][0]["message"] and words in capsys.readouterr().err
    assert len(document["results"]) == (0 if "Syntax" in words else 2)


def test_a_program_may_end_well_by_itself(report):
    code, document = report(f"{PROGRAM}\nsys.exit()\n")
    assert code == 0 and len(document["results"]) == 2


def test_an_interrupted_program_keeps_what_it_launched(report):
    code, document = report(f"{PROGRAM}\nraise KeyboardInterrupt\n")
    assert code == 130 and document["interrupted"] and len(document["results"]) == 2


def test_a_program_without_launches_says_so(report, told, tmp_path):
    (tmp_path / "page.html").write_text("an earlier page")
    code, document = report("print(1)")
    assert (
        tmp_path / "page.html"
    ).read_text() == "an earlier page" and "page.html is not written" in told.err
    assert code == 1 and document["failures"] == [
        {"case": "script", "method": document["failures"][0]["method"], "message": "it launched no kernel"}
    ]


def test_an_interpreter_has_no_roof(report):
    code, document = report(PROGRAM, space="checked")
    assert code == 0 and all(r["roof"] is None for r in document["results"])


@pytest.mark.parametrize(("launches", "step"), [(2000, 1e-5), (3, 1.0)])
def test_launches_too_short_for_the_clock_are_told(report, monkeypatch, launches, step):
    """Many short launches are reported by their mean, and without a time if that is too short as well; none
    is left out.
    """
    real, short = (
        time.perf_counter,
        (
            "launches are too short for the clock"
            if step == 1.0
            else "too short for the clock; the time is the mean"
        ),
    )
    monkeypatch.setattr(
        portable.core.events.Stamp, "__init__", lambda self: setattr(self, "time", real() // step * step)
    )
    monkeypatch.setattr(script, "tick", lambda: step)
    code, part = report(PROGRAM.replace("range(3)", f"range({launches})").replace("print(", "0 and ("))
    (result,) = part["results"]
    assert (
        code == 0
        and part["failures"] == []
        and result["method"] == "saxpy"
        and len(result["seconds"]["values"]) == launches
    )
    if step == 1.0:
        assert result["seconds"]["median"] == 0.0 and result["roof"] is None and short in part["notes"][0]
    else:
        assert 1e-7 < result["seconds"]["median"] < 1e-3 and any(
            short in note for note in result["roof"]["notes"]
        )


def test_a_missing_program_is_refused(tmp_path, told):
    assert cli.main(f"report --space serial --out {tmp_path}/page.html nowhere.py".split()) == 2
    assert "'nowhere.py' is no file" in told.err


def test_launches_are_counted_on_the_data_that_they_met(report):
    """Later the program's arrays may hold other data, or indices outside of them."""
    text = """
import numpy as np
import portable as pk

@pk.kernel
def some(i, place, x):
    if place[i] >= 0:
        x[place[i]] += 1.0

place = np.arange(100)
place[50:] = -1
pk.parallel_for(100, some, place, np.zeros(100))
place[:] = 10**12
"""
    code, part = report(text)
    assert code == 0 and part["results"][0]["roof"]["flops"] == 50


def test_sizes_that_come_and_go_share_a_row(report):
    """300 launches of as many sizes, and 20 of one: two rows, neither of them a single launch that happened
    to be slow."""
    text = """
import numpy as np
import portable as pk

@pk.kernel
def twice(i, x):
    x[i] *= 2.0

x = np.ones(2000)
for n in range(500, 800):
    pk.parallel_for(n, twice, x)
for _ in range(20):
    pk.parallel_for(2000, twice, x)
"""
    code, part = report(text)
    many, one = sorted(part["results"], key=lambda r: r["size"])
    assert code == 0 and part["notes"] == []
    assert (many["size"], len(many["seconds"]["values"])) == (
        650,
        300,
    ) and "300 sizes from 500 to 799" in many["source"]
    assert (one["size"], len(one["seconds"]["values"])) == (2000, 20) and "sizes" not in one["source"]
    assert many["roof"]["flops"] == pytest.approx(650, rel=0.1) and one["roof"]["flops"] == 2000


def test_few_sizes_have_rows_of_their_own(report, monkeypatch):
    monkeypatch.setattr(script, "LEAST", 0.0)  # also if another launch was interrupted for long
    text = PROGRAM + "for n in (10, 20, 30):\n    pk.parallel_for(n, saxpy, 2.0, x, y)\n"
    assert sorted(r["size"] for r in report(text)[1]["results"] if r["method"] == "saxpy") == [
        10,
        20,
        30,
        1000,
    ]


def test_data_that_evolve_are_counted_in_the_mean(report):
    text = """
import numpy as np
import portable as pk

@pk.kernel
def shrink(i, x, n_done):
    if x[i] > 0.5:
        x[i] = x[i] * 0.9 + 0.001
        n_done[i] += 2

x, n_done = np.linspace(0.0, 1.0, 1000), np.zeros(1000, np.int64)
for _ in range(12):
    pk.parallel_for(1000, shrink, x, n_done)
print("flops", n_done.sum())
"""
    code, part = report(text)
    (result,) = part["results"]
    x, flops = np.linspace(0.0, 1.0, 1000), 0
    for _ in range(12):
        flops += 2 * (x > 0.5).sum()
        x = np.where(x > 0.5, x * 0.9 + 0.001, x)
    assert (
        code == 0
        and result["roof"]["flops"] == pytest.approx(flops / 12, rel=0.1)
        and result["roof"]["flops"] < 700
    )
    assert any("the mean of" in note for note in result["roof"]["notes"])


SLOW_PYTHON = """
import time
import numpy as np
import portable as pk

@pk.kernel
def scale(i, s, x):
    x[i] = s * x[i]

a = np.ones((200, 64))
for r in range(200):
    time.sleep(0.002)
    pk.parallel_for(64, scale, 0.5, a[r])
"""


def test_python_comes_first_where_it_takes_the_most(report, tmp_path, monkeypatch, capsys):
    """Kernels that take a hundredth of the program are not suggested first."""
    monkeypatch.setattr(machine, "busy_cores", lambda: 0.0)
    code, part = report(SLOW_PYTHON)
    assert code == 0 and part["program"]["memory_bytes"] is None or part["program"]["memory_bytes"] >= 0
    (first, *_) = part["program"]["lines"]
    assert first["place"] == "program.py:12" and first["text"] == "time.sleep(0.002)"
    assert 0.2 < first["seconds"] / part["program_seconds"] < 1.0
    told = capsys.readouterr().out
    assert told.index("Python and NumPy outside of kernels") < told.index("scale")
    page = (tmp_path / "page.html").read_text()
    assert "Begin with Python and NumPy outside of kernels" in page
    assert page.count("Begin with") == 1 and "kernels would be" not in page


IN_TURN = """
import numpy as np
import portable as pk

@pk.kernel
def one(i, x):
    x[i] += 1.0

@pk.kernel
def other(i, y, z):
    y[i] += z[i]

x, y, z = np.ones(1000), np.ones(2000), np.ones(2000)
for _ in range(3):
    pk.parallel_for(1000, one, x)
    pk.parallel_for(2000, other, y, z)
"""


def test_what_is_touched_in_between_decides_the_level(report, quick_ceilings, monkeypatch):
    """8 kB of a kernel that other kernels' 40 kB follow come from the level that holds 40 kB."""
    levels = [("L1", 20_000), ("L2", 400_000), ("DRAM", None)]
    items = {name: c for name, c in quick_ceilings("serial").items.items() if "capacity" not in name}
    made = dataclasses.replace(quick_ceilings("serial"), levels=levels, items=items)
    monkeypatch.setattr(ceiling, "ceilings", lambda *_, **__: made)
    _, part = report(IN_TURN)
    roofs = {r["method"]: r["roof"] for r in part["results"]}
    assert roofs["one"]["level"] == "L2" and roofs["other"]["level"] == "L2"
    assert any("other launches touch 32.0 kB in between" in note for note in roofs["one"]["notes"])
    _, part = report(IN_TURN.replace("    pk.parallel_for(2000", "pk.parallel_for(2000"))
    (one,) = (r["roof"] for r in part["results"] if r["method"] == "one")
    assert one["level"] == "L1" and not any("in between" in note for note in one["notes"])


def test_bytes_in_between_are_those_of_other_arrays():
    arrays = {"a": {1: 10, 2: 20}, "b": {2: 20, 3: 300}, "c": {4: 4000}}
    assert script._since(list("abcab"), arrays) == {"a": 4300, "b": 4010, "c": 0}
    assert script._since(list("aab"), arrays) == {"a": 0, "b": 0, "c": 0}


def test_a_programs_page_has_its_time_line(report, tmp_path):
    _, part = report(PROGRAM)
    passed = part["program"]["timeline"]
    blocks = [block for track in passed["tracks"].values() for block in track]
    assert sum(n for _, _, n, _, _ in blocks) == 4
    assert {name for *_, labels, _ in blocks for name in labels} == {"saxpy", "squares"}
    page = (tmp_path / "page.html").read_text()
    assert page.index("Over time") < page.index("One by one") and 'aria-label="Time line of' in page


def test_the_table_of_a_report_fits_80_columns(report, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    report(PROGRAM)
    lines = capsys.readouterr().out.splitlines()
    table = [line for line in lines if line[:1] in "\u250f\u2503\u2521\u2502\u2514"]
    assert max(map(len, table)) <= 80
    text = " ".join(table)
    assert "saxpy" in text and "attain" in text and "quartiles" not in text and "flops" not in text
