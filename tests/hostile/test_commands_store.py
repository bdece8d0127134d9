"""Test checkpoints of the commands of long jobs: interrupted, repeated, and on files that they read."""

import os

import numpy as np
import pytest

from portable.models.edm.__main__ import main as edm_main
from portable.models.edm.mapping import Mapping
from portable.models.hawkes.__main__ import main as hawkes_main
from portable.models.mixture.__main__ import main as mixture_main
from portable.models.tmap.__main__ import main as tmap_main

from . import jobs


@pytest.fixture
def table(tmp_path):
    np.savetxt(tmp_path / "x.csv", jobs.series(), delimiter=",", header="a,b,c,d,e,f", comments="")
    return tmp_path / "x.csv"


def test_a_cross_map_is_interrupted_and_given_again(table, tmp_path, monkeypatch):
    """The dimensions chosen for each series are stored, too."""
    monkeypatch.setattr("portable.models.shared.store.EVERY_S", 0.0)
    monkeypatch.setattr("portable.models.shared.store._SHARE", 0.0)
    request = f"crossmap {table} --E-max 3 --space serial --out".split()
    assert edm_main([*request, str(tmp_path / "whole.npy")]) == 0
    ran, run = [], Mapping.run

    def interrupted(self, *args):
        ran.append(1)
        if len(ran) == 7:
            raise KeyboardInterrupt
        return run(self, *args)

    monkeypatch.setattr(Mapping, "run", interrupted)
    while edm_main([*request, str(tmp_path / "rho.npy")]) == 130:
        assert not (tmp_path / "rho.npy").exists()
    assert (tmp_path / "rho.npy").read_bytes() == (tmp_path / "whole.npy").read_bytes()
    monkeypatch.setattr(Mapping, "run", None)
    assert edm_main([*request, str(tmp_path / "rho.npy")]) == 0  # finished: nothing is computed


@pytest.mark.parametrize("request_", [["crossmap", "-E", "2"], "simplex --columns a -E 2".split()])
def test_an_input_is_not_written_over(request_, tmp_path, told):
    path = tmp_path / "x.npy"
    np.save(path, jobs.series())
    before = path.read_bytes()
    columns = [word.replace("a", "0") if word == "a" else word for word in request_]
    assert edm_main([columns[0], str(path), *columns[1:], "--space", "serial", "--out", str(path)]) == 2
    assert "x.npy, the file that is read; name another one" in told.err
    assert path.read_bytes() == before


def test_a_folder_of_results_may_not_hold_the_input(tmp_path, capsys):
    np.savez(tmp_path / "mixture.npz", X=np.ones((5, 2)), channels=np.array(["A", "B"]))
    np.savetxt(
        tmp_path / "probabilities.csv",
        np.arange(30.0).reshape(10, 3),
        delimiter=",",
        header="x_km,y_km,t_hours",
        comments="",
    )
    for main, name, option in (
        (mixture_main, "mixture.npz", "--out"),
        (hawkes_main, "probabilities.csv", "--out"),
    ):
        path, command = tmp_path / name, "fit" if main is mixture_main else "probabilities"
        before = path.read_bytes()
        assert main([command, str(path), option, str(tmp_path)]) == 2
        said = capsys.readouterr()
        assert "the file that is read, would be written over" in " ".join((said.out + said.err).split())
        assert path.read_bytes() == before


COMMANDS = {  # each command's arguments, and the changes that make a different run
    "edm": (edm_main, "test x.csv -E 2 --surrogates 5 --surrogate random", "--tau 2"),
    "tmap": (tmap_main, "fit runs.npz --orders 1,1 --starts 2 --max-iter 5", "--tol 1"),
    "mixture": (mixture_main, "fit cells.npz --components 2 --out out", "--covariance diag"),
    "hawkes": (
        hawkes_main,
        "fit events.csv --draws 300 --warmup 100 --chains 2 --figures none --out out",
        "--error-bound 1e-8",
    ),
}


@pytest.mark.parametrize("family", COMMANDS if os.environ.get("PORTABLE_HOSTILE") else ["edm"])
def test_checkpoints_of_commands(family, table, tmp_path, capsys, monkeypatch):
    """Each command makes a checkpoint, which is recognised; a different request on it is refused by name."""
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(1)
    np.savetxt(
        "events.csv",
        np.column_stack([random.normal(size=(40, 2)), np.sort(random.random(40)) * 99]),
        delimiter=",",
        header="x_km,y_km,t_hours",
        comments="",
    )
    np.savez("runs.npz", values=random.exponential(size=60), lengths=np.full(20, 3))
    np.savez("cells.npz", X=random.normal(size=(100, 2)), channels=np.array(["A", "B"]))
    main, request, other = COMMANDS[family]
    request = [*request.split(), "--space", "serial", "--checkpoint", "kept"]
    assert main(request) == 0
    before = jobs.parts(tmp_path / "kept")
    assert before and main(request) == 0 and jobs.parts(tmp_path / "kept") == before
    capsys.readouterr()
    assert main([*request, *other.split()]) == 2
    said = capsys.readouterr()
    assert "belongs to another run: " in " ".join((said.out + said.err).split())
