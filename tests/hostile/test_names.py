"""Test names with terminal control characters, and names that no file can have: no report is lost, and no
such name is written raw to the terminal.
"""

import json
import os

import numpy as np
import pytest
from numpy.random import default_rng
from rich.console import Console

import portable as pk
from portable import roofline
from portable.models.edm.__main__ import main as edm_main
from portable.models.mixture.__main__ import main as mixture_main
from portable.models.tmap.__main__ import main as tmap_main
from portable.errors import InputError, printable
from portable.roofline import __main__ as cli

BAD = "\x1b[2Jcleared\x07 \udcff \x9b31m \u202egnp.exe é"
SHOWN = r"\x1b[2Jcleared\x07 \udcff \x9b31m \u202egnp.exe é"


def assert_shown(text):
    assert SHOWN in text.replace("\n", "")
    assert not set("\x1b\x07\x9b\u202e\udcff") & set(text)


def test_printable():
    assert (
        printable(BAD) == SHOWN
        and printable("plain é\n\t ∑ 日本") == "plain é\n\t ∑ 日本"
        and printable(3) == "3"
    )
    assert str(InputError(f"x is {BAD}")) == f"x is {SHOWN}"


@pk.kernel
def add(i, x):
    x[i] += 1.0


def test_labels_in_profiles(tmp_path):
    x = np.zeros(2000)
    with roofline.profile() as made:
        with roofline.region(BAD):
            pk.parallel_for(pk.RangePolicy(0, 2000, space="serial"), add, x, label=BAD)
        pk.parallel_for(pk.RangePolicy(0, 2000, space="serial"), add, x, label=3)
    with (tmp_path / "out").open("w", encoding="utf-8") as file:
        Console(width=300, file=file, markup=False).print(made.table())
    assert_shown((tmp_path / "out").read_text(encoding="utf-8"))
    assert made.events[0].label == SHOWN and made.events[1].label == "3"
    with pytest.raises(InputError, match="never launched"):
        made.of(print)


def test_a_program_of_hostile_labels_has_its_report(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")  # narrower tables wrap labels between any two characters
    program = tmp_path / "program.py"
    program.write_text(
        "import numpy as np, portable as pk\n\n\n@pk.kernel\ndef add(i, x):\n    x[i] += 1.0\n\n\nx ="
        " np.zeros(100000)\nfor _ in range(20):\n    pk.parallel_for(pk.RangePolicy(0, 100000,"
        f" space='serial'), add, x, label={BAD!a})\n"
    )
    page, data = tmp_path / "page.html", tmp_path / "page.json"
    assert (
        cli.main(
            ["report", "--space", "serial", "--quick", "--out", str(page), "--json", str(data), str(program)]
        )
        == 0
    )
    said = capsys.readouterr()
    assert_shown(said.out)
    assert_shown(page.read_text(encoding="utf-8"))
    document = json.loads(data.read_text())
    assert document["parts"][0]["results"][0]["method"] == SHOWN
    document["parts"][0]["results"][0]["method"] = BAD  # a saved report that was edited
    data.write_text(json.dumps(document))
    assert cli.main(["show", str(data), "--out", str(page)]) == 0
    assert_shown(capsys.readouterr().out)
    assert_shown(page.read_text(encoding="utf-8"))


def test_columns_and_files(tmp_path, capsys):
    x = default_rng(1).random((60, 2))
    path = tmp_path / os.fsdecode(b"t\xff\x1b.csv")
    with path.open("w", encoding="utf-8") as file:
        file.write("\x1b[2Ja,b,\x1bwords\n" + "".join(f"{a},{b},x\n" for a, b in x))
    assert edm_main(["crossmap", str(path), "-E", "2", "--space", "serial"]) == 0
    said = capsys.readouterr()
    assert (
        "\x1b" not in said.out + said.err
        and r"\x1b[2Ja" in said.out
        and r"\x1bwords hold no numbers" in said.err
    )
    assert edm_main(["embed", str(path), "--columns", "z"]) == 2
    said = capsys.readouterr()
    assert "\x1b" not in said.err and r"\x1b[2Ja, b" in said.err
    for main, request in ((tmap_main, ["describe"]), (mixture_main, ["fit"])):
        assert main([*request, str(tmp_path / os.fsdecode(b"\xff\x1b.npz"))]) == 2
        said = capsys.readouterr()
        assert "\x1b[2" not in said.err and r"\udcff\x1b.npz" in said.err.replace("\n", "")


def test_channels_lose_no_fit(tmp_path, told):
    path = tmp_path / "cells.npz"
    X = default_rng(1).normal(size=(200, 2)) * 100.0
    np.savez(path, X=X, channels=np.array(["\x1b[2JA", "B\udcff"]))
    assert (
        mixture_main(
            ["fit", str(path), "--components", "2", "--space", "serial", "--out", str(tmp_path / "out")]
        )
        == 0
    )
    assert "\x1b" not in told.out
    assert r"\x1b[2JA mean" in (tmp_path / "out" / "components.csv").read_text()
