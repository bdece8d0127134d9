"""Run the command line on every available space, and with all mistakes of its users."""

import gzip
import json
import re
import shutil
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from portable.roofline import __main__ as cli
from portable.roofline import files, machine, reporting
from portable.roofline import case_list as cases
from portable.roofline.attainable import LOW
from portable.roofline.cases import scaling
from portable.roofline.contract import Contender, Duel, Run
from tests.roofline.schema import problems

HEADER = "x_km,y_km,t_hours"


@pytest.fixture(autouse=True)
def simulated_events(monkeypatch):
    """Use simulated events, whatever the machine's environment names."""
    monkeypatch.delenv("PORTABLE_DATA", raising=False)


def data_folder(tmp_path, lines=None, raw=None):
    folder = tmp_path / "data" / "hawkes"
    folder.mkdir(parents=True)
    if raw is not None:
        (folder / "dc_gunfire_small.csv.gz").write_bytes(raw)
    elif lines is not None:
        (folder / "dc_gunfire_small.csv.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    return str(folder.parent)


def events(n):
    random = np.random.default_rng(0)
    return [HEADER] + [
        f"{x:.3f},{y:.3f},{t:.3f}"
        for (x, y), t in zip(random.uniform(0, 9, (n, 2)), np.sort(random.uniform(5, 99, n)), strict=True)
    ]


@pytest.fixture
def hawkes_alone(monkeypatch):
    """One case is enough here; another test runs all."""
    monkeypatch.setattr(cases, "REPORTED", ("hawkes",))


def test_report_writes_table_page_and_json(space, hawkes_alone, tmp_path, capsys):
    page, numbers = tmp_path / "report.html", tmp_path / "report.json"
    methods = [
        "all pairs, float64",
        "all pairs, mixed",
        "windowed, background recomputed",
        "windowed, background kept",
    ]
    options = ["--space", space, *f"--out {page} --json {numbers}".split()]
    if space == "checked":  # where an event costs a hundred times as much
        methods, options = methods[-2:], [*options, "--only", "windowed"]
    assert cli.main(["report", "--quick", *options]) == 0
    out = capsys.readouterr().out
    text, document = page.read_text(encoding="utf-8"), json.loads(numbers.read_text())
    for method in methods:
        assert f"Hawkes, {method}" in out and f"Hawkes, {method}" in text
    (part,) = document["parts"]
    assert [result["method"] for result in part["results"]] == [f"Hawkes, {method}" for method in methods]
    assert part["space"] == space and part["failures"] == []
    values = [result["value"] for result in part["results"]]
    assert values == pytest.approx([values[0]] * len(methods), rel=1e-6)
    assert problems(document) == []
    if space == "checked":  # an interpreter has no roof
        assert part["ceilings"] is None and all(result["roof"] is None for result in part["results"])
        return
    assert re.search(r"^Median share of the roof \d+% of 4 rows, \d below 10%[:.]$", out, re.MULTILINE)
    assert "attainable" in out and "Against the roof" in text and len(text.encode()) < 500_000
    for result in part["results"]:
        roof = result["roof"]
        assert (
            roof["flops"] > 0
            and roof["special"] > 0
            and roof["compulsory_bytes"] > 0
            and roof["share_of_attainable"] > 0
        )
        assert (roof["reason"] is None) == (roof["share_of_attainable"] >= LOW)
    assert part["ceilings"]["space"] == space


def test_every_method_is_held_against_its_roof(tmp_path, monkeypatch, told):
    # executed counts have another test, and take long to compile
    monkeypatch.setattr(reporting, "LONG", 0.0)
    numbers = tmp_path / "report.json"
    arguments = f"report --quick --space serial --out {tmp_path}/page.html --json {numbers}".split()
    assert cli.main(arguments) == 0
    results = json.loads(numbers.read_text())["parts"][0]["results"]
    names = " ".join(result["method"] for result in results)
    assert all(word in names for word in "Hawkes mixture TMAP resampling axpy stencil histogram".split())
    for result in results:
        assert result["roof"]["bound_by"] and result["roof"]["share_of_attainable"] > 0, result["method"]
    (histogram,) = (result for result in results if result["method"] == "histogram")
    (kernel,) = histogram["roof"]["kernels"]
    # in private copies
    assert histogram["roof"]["flops"] == 0 and kernel["integer"] == 10_000 and kernel["atomics"] == {}


def test_some_methods_alone(hawkes_alone, tmp_path, told):
    page, numbers = tmp_path / "page.html", tmp_path / "report.json"
    options = f"report --quick --space serial --out {page} --json {numbers} --only".split()
    assert cli.main([*options, "MIXED"]) == 0
    (result,) = json.loads(numbers.read_text())["parts"][0]["results"]
    assert result["method"] == "Hawkes, all pairs, mixed"
    low = [
        kernel
        for kernel in result["roof"]["kernels"]
        if kernel["attainable_seconds"] < LOW * kernel["seconds"]
    ]
    assert all(kernel["reason"] for kernel in low) and "Every kernel" in page.read_text(encoding="utf-8")
    assert all(kernel["reason"] is None for kernel in result["roof"]["kernels"] if kernel not in low)
    assert cli.main([*options, "nothing of the kind"]) == 2
    assert (
        "no method's name contains 'nothing of the kind'; there are: Hawkes, all pairs, float64" in told.err
    )


def test_report_on_real_files(hawkes_alone, tmp_path, told):
    page = tmp_path / "report.html"
    folder = data_folder(tmp_path, events(30))
    options = ["--space", "serial", "--data", folder, "--only", "all pairs"]
    assert cli.main(["report", *options, "--out", str(page)]) == 0
    assert "dc_gunfire_small.csv.gz, 30 events" in page.read_text(encoding="utf-8")
    assert "dc_gunfire_small.csv.gz" in told.out


def test_the_environment_names_the_data_too(hawkes_alone, tmp_path, monkeypatch):
    monkeypatch.setenv("PORTABLE_DATA", data_folder(tmp_path, events(30)))
    page = tmp_path / "report.html"
    assert cli.main(f"report --space serial --only mixed --out {page}".split()) == 0
    assert "dc_gunfire_small.csv.gz, 30 events" in page.read_text(encoding="utf-8")


WRONG_DATA = [
    ({}, "has no hawkes/dc_gunfire_"),
    ({"lines": ["a,b,c", "1,2,3"]}, "has the columns 'a,b,c'"),
    ({"lines": [HEADER]}, "shape"),
    ({"lines": [HEADER, "1,2,three"]}, "cannot be read"),
    ({"lines": [HEADER, "1,2"]}, "shape"),
    ({"raw": b"not gzip"}, "cannot be read"),
    ({"raw": gzip.compress(b"x_km,y_km,t_hours\n" * 99)[:-20]}, "cannot be read"),
]


# NumPy warns of an empty table; the program's message must be the error
@pytest.mark.filterwarnings("ignore:loadtxt")
@pytest.mark.parametrize(("content", "words"), WRONG_DATA)
def test_wrong_data_is_refused_before_any_run(tmp_path, told, content, words):
    page = tmp_path / "report.html"
    assert (
        cli.main(
            ["report", "--space", "serial", "--data", data_folder(tmp_path, **content), "--out", str(page)]
        )
        == 2
    )
    assert words in told.err
    assert not page.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["report", "--data", "nowhere"], "--data: 'nowhere' is not a folder"),
        (["report", "--out", "nowhere/report.html"], "--out: the folder 'nowhere' does not exist"),
        (["report", "--json", "nowhere/report.json"], "--json: the folder 'nowhere' does not exist"),
        (["report", "--space", "moon"], "'moon'"),
        (["report", "--space", "serial,moon"], "'moon'"),
        (["report", "--pdf", "nowhere/x.pdf"], "--pdf: the folder"),
        ("report --only axpy program.py".split(), "--only chooses among the methods"),
        ("report --all kernels.py::name 10".split(), "--all chooses among the methods"),
        (["show", "nowhere.json"], "'nowhere.json' cannot be read"),
        ("compare launch --space moon".split(), "'moon'"),
        ("compare launch --json nowhere/x.json".split(), "--json: the folder"),
    ],
)
def test_a_wrong_request_is_refused(tmp_path, monkeypatch, told, arguments, words):
    monkeypatch.chdir(tmp_path)
    assert cli.main(arguments) == 2
    assert words in told.err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["compare"],
        ["compare", "nothing"],
        "compare launch --n 0".split(),
        "compare launch --rounds x".split(),
    ],
)
def test_a_wrong_command_line_is_refused(arguments, told):
    with pytest.raises(SystemExit) as stopped:
        cli.main(arguments)
    assert stopped.value.code == 2 and "usage" in told.err


def raising(error):
    def call():
        raise error

    return call


def pretend(monkeypatch, calls):
    """Make a report of made-up methods."""
    runs = [Run(name, "made up", 10, "things", call) for name, call in calls.items()]
    monkeypatch.setattr(cases, "load", lambda name: SimpleNamespace(prepare=lambda space, data, quick: runs))


def test_a_failing_method_costs_only_itself(tmp_path, hawkes_alone, monkeypatch, capsys):
    pretend(monkeypatch, {"bad": raising(ValueError("broken")), "good": lambda: 1.0})
    page = tmp_path / "report.html"
    assert cli.main(f"report --space serial --out {page}".split()) == 1
    told = capsys.readouterr()
    assert "good" in told.out and "not measured: bad: ValueError: broken" in told.err
    # results appear as they are measured
    lines = [line for line in told.err.splitlines() if line.startswith("serial: ")]
    assert lines[:2] == ["serial: preparing inputs", "serial: 1 of 2, bad: ValueError: broken"]
    assert re.fullmatch(r"serial: 2 of 2, good: [\d.]+ [nµ]s; looked at for [\d.]+ m?s", lines[2])
    assert "good" in page.read_text() and "ValueError: broken" in page.read_text()


def test_an_interruption_keeps_what_was_measured(tmp_path, monkeypatch):
    pretend(monkeypatch, {"first": lambda: 1.0, "second": raising(KeyboardInterrupt()), "third": lambda: 1.0})
    page, numbers = tmp_path / "report.html", tmp_path / "report.json"
    assert cli.main(f"report --space serial --out {page} --json {numbers}".split()) == 130
    (part,) = json.loads(numbers.read_text())["parts"]
    assert [result["method"] for result in part["results"]] == ["first"] and part["interrupted"]
    assert "interrupted" in page.read_text()


def test_names_are_no_markup_for_the_terminal(tmp_path, monkeypatch, told):
    pretend(monkeypatch, {"[bold]fast[/wrong]": lambda: 1.0})
    assert cli.main(f"report --space serial --out {tmp_path}/report.html".split()) == 0
    assert "[bold]fast[/wrong]" in told.out


@pytest.mark.parametrize(("busy", "told"), [(1.25, True), (0.1, False), (None, False)])
def test_a_busy_machine_is_told(tmp_path, monkeypatch, capsys, busy, told):
    pretend(monkeypatch, {"only": lambda: 1.0})
    monkeypatch.setattr(machine, "busy_cores", lambda: busy)
    numbers = tmp_path / "report.json"
    arguments = f"report --space serial --out {tmp_path}/report.html --json {numbers}".split()
    assert cli.main(arguments) == 0
    assert ("keep 1.25 of" in capsys.readouterr().err) == told
    assert json.loads(numbers.read_text())["parts"][0]["machine"]["busy_cores"] == busy


def test_a_full_disk_leaves_the_table(tmp_path, monkeypatch, capsys):
    pretend(monkeypatch, {"only": lambda: 1.0})

    def full(path, text):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "write", full)
    assert cli.main(f"report --space serial --out {tmp_path}/report.html".split()) == 1
    told = capsys.readouterr()
    assert "only" in told.out and "No space left on device" in told.err


def test_compare_launch_runs_without_any_peer(space, tmp_path, monkeypatch, capsys):
    for tool in ("numba", "cupy"):
        monkeypatch.setitem(sys.modules, tool, None)
    for name in [name for name in sys.modules if name.startswith("portable.roofline.peers.")]:
        monkeypatch.delitem(sys.modules, name)
    numbers = tmp_path / "launch.json"
    assert cli.main(["compare", "launch", "--space", space, *f"--rounds 3 --json {numbers}".split()]) == 0
    out, document = capsys.readouterr().out, json.loads(numbers.read_text())
    assert "none here" in out and "not here: " in out
    assert document["case"] == "launch" and document["schema_version"] == 1
    assert all(duel["alone_seconds"]["median"] > 0 and duel["absent"] for duel in document["duels"])


PEERS = {
    "edm": ("kedm scipy sklearn faiss".split(), ["kedm"]),
    "mixture_em": (["sklearn"], ["scikit-learn"]),
    "cytometry": (["sklearn"], ["GaussianMixture, told the number", "k-means with merging", "rare 1 of 1"]),
    "cytometry_files": (["sklearn"], ["k-means with merging", "between halves"]),
    "mixture_fit": (["sklearn"], ["GaussianMixture, told the number", "BayesianGaussianMixture"]),
    "derivatives": (["jax", "warp"], ["JAX", "Warp"]),
    "filters": (["particles"], ["particles"]),
    "hawkes_mutual": (["torch"], ["PyTorch"]),
    "mixture_large": (["sklearn"], ["scikit-learn"]),
    "resampling": (["particles"], ["particles"]),
    "ceilings": ([], ["gcc"]),
    "profile": ([], ["not profiled"]),
    "edm_brains": ([], []),
    "scaleout": (["distributed"], ["one process"]),
    "edm_test": ([], []),
    "calls": ([], ["serial"]),
    "scaling": ([], ["speed-up", "the machine itself: multiply-adds"]),
}
OF_THREADS = ("calls", "scaling")  # several threads compared with one
ALONE = ("edm_brains", "edm_test")  # no peers: their own time is measured


@pytest.mark.parametrize("name", ALONE)
def test_what_has_no_peer_is_timed_alone(name, tmp_path):
    numbers = tmp_path / "compare.json"
    assert cli.main(["compare", name, *f"--quick --space serial --rounds 3 --json {numbers}".split()]) == 0
    for duel in json.loads(numbers.read_text())["duels"]:
        assert duel["alone_seconds"]["median"] > 0 and not duel["rows"]


@pytest.mark.parametrize("name", [name for name in cases.COMPARED if name not in (*ALONE, "kernels")])
def test_compare_has_a_row_a_peer(name, tmp_path, capsys):
    tools, titles = PEERS.get(name, (["numba"], ["numba"]))
    for tool in tools:
        pytest.importorskip(tool)
    if "gcc" in titles and shutil.which("gcc") is None:
        pytest.skip("no C compiler here")
    numbers, space = tmp_path / "compare.json", "threads:2" if name in OF_THREADS else "serial"
    assert (
        cli.main(["compare", name, "--quick", "--space", space, *f"--rounds 3 --json {numbers}".split()]) == 0
    )
    out, document = capsys.readouterr().out, json.loads(numbers.read_text())
    assert document["duels"] and all(title in out for title in titles)
    for duel in document["duels"]:
        # these peers may be missing
        assert bool(duel["rows"]) != (name in ALONE) and all(
            "'warp'" in absence["reason"] or "'fastccm'" in absence["reason"] for absence in duel["absent"]
        )
        for row in duel["rows"]:
            assert len(row["peer_over_ours"]["values"]) == 3 and row["peer"] in out


def test_scaling_wants_threads(told):
    assert cli.main("compare scaling --quick --space serial".split()) == 2
    assert "needs two threads or more, got --space serial of 1" in told.err


def test_the_serial_share_of_a_call():
    rows = [SimpleNamespace(peer="threads:1", ratio=SimpleNamespace(median=1.6))]
    assert scaling.serial_share(rows, 2) == "speed-up 1.60 of 2; serial share 25.0%"
    rows[0].ratio.median = 0.9
    assert scaling.serial_share(rows, 2) == "speed-up 0.90 of 2: one thread does as well"


def test_a_peer_that_disagrees_is_an_error(monkeypatch, told):
    sides = [
        Contender(name, lambda: None, result=lambda value=value: value)
        for name, value in (("ours", 1.0), ("peer", 2.0))
    ]
    duel = Duel("work", sides[0], sides[1:], tolerance=1e-9)
    monkeypatch.setattr(cases, "load", lambda name: SimpleNamespace(duels=lambda space, n, quick: [duel]))
    assert cli.main("compare hawkes --space serial --rounds 3".split()) == 1
    assert "disagrees: peer gave 2.0, ours 1.0" in told.err
