"""Test the commands of the families and of roofline: options with one meaning, uniform exit, and all commands
and options that the pages show."""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import os
import re
import shlex
import warnings
from pathlib import Path

import numpy as np
import pytest
from numpy.random import default_rng

from portable.__main__ import main
from portable.models.shared import command
from portable.models.shared.files import write
from portable.models import edm, hawkes
from portable.models.mixture import cytometry
from portable.errors import InputError

from ..architecture.test_public import FUNCTIONS

ROOT = Path(__file__).parents[2]
FAMILIES = ("hawkes", "tmap", "edm", "resampling", "mixture")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# earlier names of options; NAMES of CHANGELOG.md
GONE = {
    *("tolerance", "precision", "thin", "n_burn", "n_iter", "n_rounds", "max_rounds", "memory_limit"),
    *("scheme", "sampler", "most_surrogates", "most_branches", "n_most", "error"),
}


def parsers():
    """Return (name, parser) of each command of each family and of roofline."""
    for family in FAMILIES:
        made = importlib.import_module(f"portable.models.{family}.__main__")._parser()
        yield from ((f"models.{family} {name}", one) for name, one in of(made).items())
    made = importlib.import_module("portable.roofline.options").parser()
    yield from ((f"roofline {name}", one) for name, one in of(made).items())


def of(made):
    """Return the subparsers of a parser, by name."""
    return next(a for a in made._actions if isinstance(a, argparse._SubParsersAction)).choices


def portable_(*arguments):
    return main(list(arguments))


PARSERS = dict(parsers())
WHOLE = pytest.mark.skipif(
    not os.environ.get("PORTABLE_WHOLE"), reason="PORTABLE_WHOLE=1 runs it; tests of the family run like ones"
)


@pytest.mark.parametrize(
    "option", "--json --space --seed --dtype --level --checkpoint --progress --cluster --out".split()
)
def test_an_option_means_the_same_everywhere(option):
    """It has the same kind of value, and, where no default is stated, the same help."""
    found = {
        name: action
        for name, one in PARSERS.items()
        for action in one._actions
        if option in action.option_strings
    }
    assert len(found) > 1
    assert len({action.type for action in found.values()}) == 1, found
    if option in ("--seed", "--dtype", "--level", "--progress", "--cluster"):
        words = {
            action.help.partition(" (default")[0] for name, action in found.items() if "roofline" not in name
        }
        assert len(words) == 1, words


def test_every_command_says_what_it_takes(monkeypatch):
    """Each option has a help, usage and help fit 80 columns, and all but `roofline measured`, whose page is
    made of JSON files, have --quiet and --json."""
    monkeypatch.setenv("COLUMNS", "80")
    for name, one in PARSERS.items():
        assert max(map(len, one.format_help().splitlines())) <= 80, name
        helps = {a.option_strings[0]: a.help for a in one._actions if a.option_strings}
        assert {flag for flag, told in helps.items() if not told} <= {"--figures", "--places", "--seed"}, name
        assert helps.keys() >= {"--quiet", "--json"} or name == "roofline measured", name


def test_no_old_name_is_a_parameter():
    for name, value in FUNCTIONS:
        try:
            names = set(inspect.signature(value).parameters) if name.startswith("models.") else set()
        except (TypeError, ValueError):
            continue
        old = GONE | (set() if "DirichletMixture" in name else {"n_init", "init_params", "random_state"})
        assert not names & old, f"{name}: {names & old}"


# a command of each family that reads a file, and refuses it soon
REFUSED = {
    "hawkes": "residuals FILE",
    "tmap": "describe FILE",
    "edm": "simplex FILE --columns no -E 2",
    "resampling": "figures FILE --out .",
    "mixture": "predict FILE FILE --labels none",
}
# families, and files of theirs: the name, and columns, arrays or keys
FILES = """hawkes times.csv t_hours type
hawkes events.csv t x y type
hawkes parents.csv child parent
hawkes params.json mu0 theta
hawkes fit.json params units
tmap runs.csv run gap
tmap runs.npz values lengths
tmap model.json alpha orders
edm rho.npy rho
edm pairs.csv library target rho q
edm predicted.csv observed predicted
edm saved.npz
resampling study.json schema cells
mixture cells.npz X channels
mixture components.csv component population
mixture shares.csv sample cells
mixture cells.fcs FCS"""


def refuse(family, path):
    assert portable_(family, *REFUSED[family].replace("FILE", path).split()) == 2


def make_file(path, *names):
    """Write a file of these columns, arrays or keys, or a saved result."""
    if not names:
        edm.Dimensions(np.arange(1, 3), np.zeros(2), 1, ["a"]).save(path)
    elif path.endswith(".npz"):
        np.savez(path, **dict.fromkeys(names, 0))
    else:
        Path(path).write_text(json.dumps(dict.fromkeys(names)) if path.endswith("json") else ",".join(names))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_file_of_another_family_says_whose_it_looks_like(family, tmp_path, told, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for whose, path, *names in map(str.split, FILES.splitlines()):
        make_file(path, *names)
        refuse(family, path)
        words = f"{family}: warning: '{path}' looks like a file of 'portable {whose}'"
        assert (words in told.err) == (whose != family), path
    make_file("cells.csv", "CD3", "CD4", "t", "x", "y")
    refuse(family, "cells.csv")
    assert "looks like" not in told.err


@pytest.mark.parametrize("family", FAMILIES)
def test_refusals_go_to_standard_error(family, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    refuse(family, "none")
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith(f"{family}: ") and "\x1b" not in said.err


def ending(act):
    """Return the exit status of a command that calls this function."""
    made = argparse.ArgumentParser()
    made.set_defaults(act=act)
    return command.run("name", made, [])


def test_how_a_command_ends(capsys):
    def raising(error):
        def act(options):
            warnings.warn("careful \x1b[2J", UserWarning, stacklevel=2)
            raise error

        return act

    assert ending(lambda options: None) == 0 and ending(lambda options: 1) == 1
    assert capsys.readouterr() == ("", "")
    for error, status, words in (
        (InputError("x is 3"), 2, "name: x is 3"),
        (OSError(13, "Permission denied", "a.csv"), 2, "name: Permission denied: 'a.csv'"),
        (KeyboardInterrupt(), 130, "name: stopped"),
    ):
        assert ending(raising(error)) == status
        said = capsys.readouterr()
        assert said.out == "" and words in said.err and r"name: warning: careful \x1b[2J" in said.err


def example(
    hours: float, *, n_draws: int = 7, rare: bool = True, lonlat: bool = False, level: float | None = None
):
    """Do something.

    Parameters
    ----------
    hours, level : float
        How long. Not shown.
    n_draws : int
        Draws of `it`, 90 % of them.
    rare : bool
        Look for rare ones.
    lonlat : bool
        Places are degrees.
    """


def test_options_are_taken_from_a_function(told):
    made = argparse.ArgumentParser()
    command.add(made, example, "hours", "n_draws", "rare", "lonlat", "level")
    options = made.parse_args("--hours 3 --draws 9 --no-rare".split())
    assert command.arguments_of(options, example) == {
        "n_draws": 9,
        "rare": False,
        "lonlat": False,
        "level": None,
    }
    assert options.hours == 3.0
    text = " ".join(made.format_help().split())
    assert "--draws N draws of it, 90 % of them (default: 7)" in text
    assert "--no-rare do not look for rare ones" in text and "--lonlat places are degrees" in text
    assert command.parameters_of(edm.simplex)["tau"] == command.parameters_of(edm.knn)["tau"] != ""
    with pytest.raises(SystemExit) as ended:
        made.parse_args([])
    assert ended.value.code == 2 and "--hours" in told.err


def test_numbers_as_json(tmp_path):
    """NaN becomes null, a date text; fields of dataclasses, arrays and NumPy's numbers are unchanged."""
    path, made = tmp_path / "a.json", argparse.ArgumentParser()
    found = edm.Dimensions(np.arange(1, 3), np.array([0.5, np.nan]), np.int64(1), ["a"])

    def act(options):
        write(tmp_path / "b.csv", "x\n")
        command.write_json(options, found=found, when=np.array(["2026-01-02"], "datetime64[D]"))
        command.write_json(options, low=-np.inf)
        return 1

    made.set_defaults(act=act)
    command.add_json(made)
    assert command.run("name", made, []) == 1 and not path.exists()
    assert command.run("name", made, ["--json", str(path)]) == 1
    wanted = {"E": [1, 2], "rho": [0.5, None], "best": 1, "targets": ["a"]}
    assert json.loads(path.read_text()) == {
        "files": [str(tmp_path / "b.csv")],
        "exit_code": 1,
        "found": wanted,
        "when": ["2026-01-02"],
        "low": None,
    }
    assert command.run("name", made, ["--json", str(tmp_path / "none" / "a.json")]) == 2


@pytest.mark.parametrize(
    "line",
    [
        "hawkes simulate --out events.csv --immigrants 20 --horizon-h 100",
        "tmap fit runs.csv --orders 1,1,2 --errors --space serial",
        "edm simplex table.csv --columns x -E 2 --out predicted.csv --space serial",
    ],
)
def test_a_run_names_its_files_and_keeps_its_numbers(line, tmp_path, capsys, monkeypatch):
    """Its tables fit 80 columns."""
    monkeypatch.chdir(tmp_path)
    random = default_rng(1)
    runs = np.column_stack([np.repeat(np.arange(40), 3), random.exponential(2.0, 120)])
    for name, header, rows in (("runs.csv", "run,gap", runs), ("table.csv", "x", random.random((60, 1)))):
        np.savetxt(name, rows, delimiter=",", header=header, comments="")
    assert portable_(*line.split()) == 0
    *lines, told = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80 and "…" not in "".join(lines)
    assert (told == "wrote no file; --out FILE does") == ("--out" not in line)
    assert portable_(*line.split(), "--json", "numbers.json") == 0
    document = json.loads(Path("numbers.json").read_text())
    assert len(document) > 2 and all(map(os.path.exists, document["files"]))
    told = f"wrote {', '.join([*document['files'], 'numbers.json'])}"
    assert capsys.readouterr().out.endswith(f"{told}\n")
    assert portable_(*line.split(), "--quiet") == 0 and not capsys.readouterr().out


def shown():
    """Return (place, whole, words) of each command on a page; `whole` is True on a separate line."""
    for page in PAGES:
        for number, line in enumerate(page.read_text().splitlines(), 1):
            for match in re.finditer(r"python -m portable\.((?:models\.\w+|roofline)(?: [^`|#\n]*)?)", line):
                whole = line.strip().startswith("python -m")
                yield f"{page.name}:{number}", whole, match[1].replace("\\", "")


COMMANDS = list(shown())


def test_commands_of_the_pages_are_there(monkeypatch, told):
    """Commands on separate lines parse; for others the command and its options exist."""
    monkeypatch.setenv("PORTABLE_DATA", "data")
    assert len(COMMANDS) > 60
    for place, whole, words in COMMANDS:
        try:
            is_there(whole, words)
        except SystemExit:
            pytest.fail(f"{place}: {words}: {told.err}")


def is_there(whole, words):
    package, *rest = shlex.split(
        words.replace(" ...", "").replace("CASE", "layer").replace("&&", " && "), comments=True
    )
    rest = rest[: rest.index("&&")] if "&&" in rest else rest
    if not rest or not re.fullmatch(r"[a-z]+", rest[0]):
        return  # the command's name only, or a list of its commands
    one = PARSERS[f"{package} {rest[0]}"]
    if whole:
        one.parse_args(rest[1:])
        return
    known = {option for action in one._actions for option in action.option_strings}
    assert not {word.partition("=")[0] for word in rest if re.match(r"--[a-z]", word)} - known, words


def commands_of(page):
    return [words for place, whole, words in COMMANDS if whole and place.partition(":")[0] == page]


def run(words, more=()):
    """Run a command as a page shows it, with further options that make it short."""
    package, *rest = shlex.split(os.path.expandvars(words.replace(" ...", "")), comments=True)
    assert portable_(package.removeprefix("models."), *rest, "--space", "serial", *more) == 0, words


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Make an empty folder to work in, which is also that of the data of pages."""
    for module in "arviz_stats h5netcdf scipy matplotlib pandas flowutils pyarrow".split():
        pytest.importorskip(module)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PORTABLE_DATA", str(tmp_path))
    return tmp_path


def test_commands_of_the_page_of_hawkes_run(folder, capsys):
    truth = hawkes.Parameters(1.0, 1.6, 336.0, 0.4, 5.0, 0.05)
    made = hawkes.simulate(truth, n_immigrants=50, horizon_h=1000.0, seed=1)
    with open("EVENTS.csv", "w") as file:
        file.write("x_km,y_km,t_hours,when,case,magnitude,kind\n")
        for n, ((x, y), t) in enumerate(zip(made.locations.tolist(), made.times.tolist())):
            when = np.datetime64("2026-01-01") + np.timedelta64(int(1e6 * 3600 * t), "us")
            file.write(f"{x},{y},{t},{when},case {n},{2 + n % 3},{'ab'[n % 2]}\n")
    for words in commands_of("hawkes.md"):
        module, name, *rest = words.split()
        if name == "calibrate" or module == "roofline":  # tests of samplers, a comparison
            continue
        few = {"probabilities": ["--average", "3"], "forecast": ["--draws", "5"]}.get(name, [])
        sampled = (
            name == "fit"
            and "likelihood" not in rest
            or name == "probabilities"
            and "--posterior" not in rest
        )
        few += "--draws 40 --warmup 20".split() if sampled else []
        few += [] if name in ("simulate", "mutual") else ["--figures", "none"]
        if name == "simulate":
            assert portable_("hawkes", *words.split()[1:]) == 0
        else:
            run(words, few)
    assert {"params.json", "posterior.nc", "probabilities.csv", "parents.csv"} <= set(os.listdir("results"))


def test_commands_of_the_page_of_edm_run(folder, told):
    (folder / "edm").mkdir()
    random = default_rng(1)
    x = [0.3]
    for _ in range(499):
        x.append(3.8 * x[-1] * (1.0 - x[-1]))
    np.savetxt("edm/TentMap_rEDM.csv", x, header="TentMap", comments="")
    fish = np.column_stack([np.arange(1929, 2009), x[:80], x[1:81], random.random(80)])
    header = "year,anchovy,sardine,np_sst"
    np.savetxt("edm/sardine_anchovy_sst.csv", fish, header=header, comments="", delimiter=",")
    for words in commands_of("edm.md"):
        run(words)
    assert {"dimensions.png", "pairs.csv"} <= set(os.listdir())


@WHOLE
def test_commands_of_the_page_of_tmap_run(folder, capsys):
    (folder / "tmap").mkdir()
    random = default_rng(1)
    for name in ("cdnow_interpurchase_days", "nasa_http_19950801_sessions"):
        np.savez(f"tmap/{name}.npz", values=random.integers(0, 9, 90).astype(float), lengths=np.full(30, 3))
    with open("EVENTS.csv", "w") as file:
        file.write("user,when\n")
        for n in range(60):  # visits of three events, five minutes apart
            minutes = np.timedelta64(500 * (n // 3) + 5 * (n % 3) + n % 2, "m")
            file.write(f"user {n // 3 % 5},{np.datetime64('2026-01-01') + minutes}\n")
    for words in commands_of("tmap.md"):
        run(words, "--starts 1 --max-iter 5 --total 3".split() if " fit " in words else [])
    assert {"cdnow.png", "nasa.json", "nasa.png", "simulated.npz"} <= set(os.listdir())


@WHOLE
def test_commands_of_the_page_of_cytometry_run(folder, told):
    options = {"n_populations": 3, "n_markers": 6, "n_rare": 1, "rare": 0.05}
    for seed, name in enumerate(("donor1", "donor2", "DONOR", "NEW")):
        (sample,), _ = cytometry.simulate(n_cells=400, seed=5, **options)
        cytometry.write(sample.take(np.arange(seed, 400)), f"{name}.fcs")
    for words in commands_of("cytometry.md"):
        few = "--components 3 --max-iter 5 --no-rare".split() if " fit " in words else []
        run(words, few)
    assert "shares.csv" in os.listdir("new") and "mixture.npz" in os.listdir("merged")
    assert "figures.pdf" in os.listdir("pages")


def test_one_command_leads_to_all(capsys):
    assert portable_() == 0
    told = capsys.readouterr().out
    assert (
        all(f"\n  {name} " in told for name in (*FAMILIES, "roofline", "info"))
        and "example: portable" in told
    )
    for name in (*FAMILIES, "roofline"):
        with pytest.raises(SystemExit) as end:
            portable_(name, "--help")
        told = capsys.readouterr().out
        assert end.value.code == 0 and f"usage: portable {name} [-h]" in told
        assert max(map(len, told.splitlines())) <= 80
    assert portable_("--version") == 0 and portable_("info") == 0 == portable_("cache", "--help")
    capsys.readouterr()
    for wrong, words in (("hawks", "did you mean 'hawkes'?"), ("qqq", "(choose from info, hawkes")):
        assert portable_(wrong) == 2 and words in capsys.readouterr().err


@pytest.mark.parametrize("command", PARSERS)
def test_a_misspelt_command_names_the_nearest(command, told):
    family, word = command.removeprefix("models.").split()
    with pytest.raises(SystemExit) as end:
        portable_(family, word[:-1])
    assert end.value.code == 2 and f"did you mean '{word}'?" in told.err
