"""The commands of long jobs: interrupted, given again, and on files that they read."""

import numpy as np
import pytest

from models.edm.__main__ import main as edm_main
from models.edm.mapping import Mapping
from models.hawkes.__main__ import main as hawkes_main
from models.mixture.__main__ import main as mixture_main
from models.tmap.__main__ import main as tmap_main

from . import jobs


@pytest.fixture
def table(tmp_path):
    np.savetxt(tmp_path / "x.csv", jobs.series(), delimiter=",", header="a,b,c,d,e,f", comments="")
    return tmp_path / "x.csv"


def test_a_cross_map_is_interrupted_and_given_again(table, tmp_path, monkeypatch):
    """Its dimensions, too, are kept."""
    monkeypatch.setattr("models.store.EVERY_S", 0.0)
    monkeypatch.setattr("models.store._SHARE", 0.0)
    request = ["crossmap", str(table), "--E-max", "3", "--space", "serial", "--out"]
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


@pytest.mark.parametrize("request_", [["crossmap", "-E", "2"], ["simplex", "--columns", "a", "-E", "2"]])
def test_an_input_is_not_written_over(request_, tmp_path, capsys):
    path = tmp_path / "x.npy"
    np.save(path, jobs.series())
    before = path.read_bytes()
    columns = [word.replace("a", "0") if word == "a" else word for word in request_]
    assert edm_main([columns[0], str(path), *columns[1:], "--space", "serial", "--out", str(path)]) == 2
    assert "x.npy, the file that is read; name another one" in capsys.readouterr().err
    assert path.read_bytes() == before


def test_a_folder_of_results_may_not_hold_the_input(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    np.savez(tmp_path / "mixture.npz", X=np.ones((5, 2)), channels=np.array(["A", "B"]))
    np.savetxt(tmp_path / "probabilities.csv", np.arange(30.0).reshape(10, 3), delimiter=",", header="x_km,y_km,t_hours", comments="")
    for main, name, option in ((mixture_main, "mixture.npz", "--out"), (hawkes_main, "probabilities.csv", "--output")):
        path, command = tmp_path / name, "fit" if main is mixture_main else "probabilities"
        before = path.read_bytes()
        assert main([command, str(path), option, str(tmp_path)]) == 2
        said = capsys.readouterr()
        assert "the file that is read, would be written over" in " ".join((said.out + said.err).split())
        assert path.read_bytes() == before


def test_checkpoints_of_commands(table, tmp_path, capsys):
    """Each makes one, and another request on it is refused by name."""
    pytest.importorskip("matplotlib")
    pytest.importorskip("pandas")
    events, runs, cells = (str(tmp_path / name) for name in ("events.csv", "runs.npz", "cells.npz"))
    random = np.random.default_rng(1)
    np.savetxt(events, np.column_stack([random.normal(size=(40, 2)), np.sort(random.random(40)) * 99]), delimiter=",",
               header="x_km,y_km,t_hours", comments="")
    np.savez(runs, values=random.exponential(size=60), lengths=np.full(20, 3))
    np.savez(cells, X=random.normal(size=(100, 2)), channels=np.array(["A", "B"]))
    one = ["--space", "serial", "--checkpoint", str(tmp_path / "kept")]
    for main, request, other in (
            (edm_main, ["test", str(table), "-E", "2", "--surrogates", "5", "--surrogate", "random"], ["--tau", "2"]),
            (tmap_main, ["fit", runs, "--orders", "1,1", "--starts", "2", "--max-iter", "5"], ["--tol", "1"]),
            (mixture_main, ["fit", cells, "--components", "2", "--out", str(tmp_path / "out")], ["--covariance", "diag"]),
            (hawkes_main, ["fit", events, "--draws", "300", "--warmup", "100", "--chains", "2", "--figures", "none", "--output",
                           str(tmp_path / "out")], ["--tolerance", "1e-8"])):
        jobs.remove(tmp_path / "kept")
        assert main([*request, *one]) == 0, capsys.readouterr()
        assert len(jobs.parts(tmp_path / "kept")) > 0
        before = jobs.parts(tmp_path / "kept")
        assert main([*request, *one]) == 0
        assert jobs.parts(tmp_path / "kept") == before
        capsys.readouterr()
        assert main([*request, *one, *other]) == 2
        said = capsys.readouterr()
        assert "belongs to another run: " in " ".join((said.out + said.err).split())
