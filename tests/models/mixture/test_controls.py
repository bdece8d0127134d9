"""Test spillover from single stains, doublets and unsteady times, and many files in succession."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose

import portable as pk
from portable.models.mixture import cytometry
from portable.models.mixture.__main__ import main

from ...refusals import refusals

COLOURS = ("B530-A", "V450-A", "R780-A")
SPILL = np.array([[1.0, 0.12, 0.01], [0.05, 1.0, 0.0], [0.002, 0.08, 1.0]])


def stained(channel, name=None, share=0.6, n=3000, seed=0):
    """Simulate cells, a share of which carries one dye, or none, as an instrument measures them."""
    random = default_rng(seed)
    light = random.normal(40.0, 20.0, (n, 3))
    if channel is not None:
        own = np.flatnonzero(random.random(n) < share)
        light[own, COLOURS.index(channel)] += 10.0 ** random.normal(4.0, 0.2, len(own))
    seen = light @ SPILL
    seen += np.sqrt(400.0 + 4.0 * np.abs(seen)) * random.normal(size=seen.shape)
    scatter = random.normal(8e4, 8e3, (n, 1))
    return cytometry.Sample(
        np.hstack([scatter, np.minimum(seen, 262143.0)]), ("FSC-A", *COLOURS), name=name or f"only {channel}"
    )


def controls():
    return [stained(channel, seed=seed) for seed, channel in enumerate(COLOURS)]


def test_spillover_of_single_stains(tmp_path):
    """The estimate is accurate to two thousandths, with unstained cells of the same file, of another, and by
    the command.
    """
    for found in (
        cytometry.spillover_of(controls()[::-1]),
        cytometry.spillover_of([stained(c, share=1.0) for c in COLOURS], stained(None)),
        cytometry.spillover_of({c: stained(c) for c in COLOURS}),
    ):
        assert found[0] == COLOURS
        assert_allclose(found[1], SPILL, atol=2e-3)
    paths = [tmp_path / f"{channel}.fcs" for channel in COLOURS]
    for path, sample in zip(paths, controls()):
        cytometry.write(sample, path)
    assert main(["compensate", *map(str, paths), "--out", str(tmp_path / "out")]) == 0
    names, matrix = cytometry.read_spillover(tmp_path / "out" / "spillover.csv")
    assert names == COLOURS
    assert_allclose(matrix, SPILL, atol=2e-3)


test_controls_that_say_nothing = refusals(
    [
        (lambda: [], "controls is empty"),
        (lambda: [stained(None, "dark")], "stained cells of dark look like unstained ones"),
        (lambda: [stained(c, share=1.0) for c in COLOURS[:1]], "look like unstained ones .* give unstained="),
        (lambda: [stained("B530-A"), stained("B530-A", "again", seed=5)], "again is brightest in B530-A, as"),
        (
            lambda: [stained("B530-A"), replace(stained("V450-A"), channels=("FSC-A", *COLOURS[:2], "X"))],
            "only V450-A has the colours B530-A, V450-A, X, only B530-A .* only one has R780-A",
        ),
        (lambda: [replace(stained(None), channels=("FSC-A", "SSC-A", "FSC-H", "Time"))], "is a colour"),
        (lambda: [replace(stained("B530-A"), X=np.full((9, 4), np.nan))], "no cell has a number in B530-A"),
        (
            lambda: {"FSC-A": stained("B530-A")},
            "detector of only B530-A is 'FSC-A'; expected one of 'B530-A'",
        ),
        (lambda: [np.ones((9, 4))], "controls must hold cytometry.Sample"),
    ],
    lambda made: cytometry.spillover_of(made()),
    error=pk.InputError,
)


def test_what_is_no_sample():
    for call, words in (
        (
            lambda: cytometry.spillover_of(controls(), "dark.fcs"),
            "unstained must be cytometry.Sample, got str",
        ),
        (lambda: cytometry.clean("run.fcs"), "sample must be cytometry.Sample"),
        (lambda: cytometry.shares([]), "labels is empty"),
    ):
        with pytest.raises(pk.InputError, match=words):
            call()


def test_a_detector_without_a_control():
    with pytest.warns(UserWarning, match="no control for R780-A"):
        names, matrix = cytometry.spillover_of(controls()[:2])
    assert names == COLOURS[:2] and matrix.shape == (2, 2)


def disturbed(n=20_000, seed=0):
    """Simulate a sample with doublets, and an interval in which a detector is off; return also which cells
    these are.
    """
    random = default_rng(seed)
    clock = np.sort(random.uniform(0.0, 1000.0, n))
    height = random.normal(6e4, 6e3, n)
    doublet = random.random(n) < 0.05
    area = height * random.normal(1.3, 0.03, n) * np.where(doublet, 1.7, 1.0)
    off = (clock > 400.0) & (clock < 450.0)
    light = 10.0 ** random.normal(3.0, 0.3, (n, 2)) * np.where(off, 2.0, 1.0)[:, None]
    X = np.column_stack([area, height, light, clock])
    return cytometry.Sample(X, ("FSC-A", "FSC-H", "B530-A", "V450-A", "Time"), name="run"), doublet, off


def test_doublets_and_unsteady_times_are_left_out():
    sample, doublet, off = disturbed()
    cleaned = cytometry.clean(sample)
    found = cleaned.left_out
    assert (found[doublet] == 1).mean() > 0.99 and (found[~doublet] == 1).mean() < 1e-3
    quiet = ~doublet & ~off
    assert (found[off & ~doublet] == 2).mean() > 0.7 and (found[quiet] == 2).mean() < 0.03
    panel = cytometry.Panel.of([cleaned])
    assert (panel.points(cleaned)[1] == (found == 0)).all()
    assert (cleaned.take(np.arange(50)).left_out == found[:50]).all()
    X = sample.X[~off]
    X[:, 4] = np.sort(default_rng(1).uniform(0.0, 1000.0, len(X)))  # without the gap
    for ticks in (X[:, 4].copy(), np.floor(X[:, 4] / 20.0)):  # a coarse clock
        X[:, 4] = ticks
        assert (cytometry.clean(replace(sample, X=X)).left_out == 2).sum() == 0
    X = sample.X.copy()
    X[::9, 4] = np.nan  # the others have times
    assert (cytometry.clean(replace(sample, X=X)).left_out[off & ~doublet] == 2).mean() > 0.6


def test_what_cannot_be_looked_at_is_said():
    sample, *_ = disturbed(3000)
    bare = replace(
        sample, X=sample.X[:, 2:], channels=sample.channels[2:], markers=(), limits=None, gains=None
    )
    with pytest.warns(RuntimeWarning) as told:
        assert not cytometry.clean(bare).left_out.any()
        cytometry.clean(replace(sample, X=np.full(sample.X.shape, np.nan)))
    texts = [str(one.message) for one in told]
    assert len(texts) == 4 and "has 0 cells, fewer than 5000" in texts[3]
    assert "run has no height or width of scatter" in texts[0] and "3000 cells, fewer than 5000" in texts[1]


def plate(folder, n_files=4, n_cells=1500):
    samples, _ = cytometry.simulate(
        n_cells=n_cells, n_samples=n_files, n_populations=4, n_markers=4, n_rare=0, seed=5
    )
    for sample in samples:
        cytometry.write(sample, folder / f"{sample.name}.fcs")
    found = cytometry.fit(samples[:2], 5, cells_per_sample=500, rare=False)
    return found, sorted(folder.glob("*.fcs")), samples


def test_files_one_after_the_other(tmp_path):
    """Files in succession give the counts of `predict`; results are stored, except for a file that has
    changed."""
    found, paths, samples = plate(tmp_path)
    made = cytometry.tally(found, paths, checkpoint=tmp_path / "kept")
    for own, sample in zip(made, samples):
        labels = found.predict(sample)
        assert (own.counts == labels.counts).all() and own.n_left_out == labels.n_left_out
        assert own.components.sum() + own.n_left_out == own.n_cells == 1500 and own.sample == sample.name
    read = []
    cytometry.write(samples[1].take(np.arange(900)), paths[0])
    again = cytometry.tally(found, paths, checkpoint=tmp_path / "kept", write=None, prepare=None)
    assert [own.n_cells for own in again] == [900, 1500, 1500, 1500] and not read
    assert (again[1].counts == made[1].counts).all()
    again[0].save(tmp_path / "one.npz")
    assert (cytometry.Tally.load(tmp_path / "one.npz").counts == again[0].counts).all()


@pytest.mark.slow
def test_a_plate_that_is_killed_goes_on(tmp_path):
    """The run is killed once the second file is stored: finished files are not read again, and the table is
    that of an undisturbed run."""
    found, paths, _ = plate(tmp_path)
    found.save(tmp_path / "m.npz")
    kept, files = tmp_path / "kept", [str(tmp_path / "m.npz"), *map(str, paths)]
    rest = "--labels csv --space serial".split()
    request = [sys.executable, "-m", "portable.models.mixture", "predict", *files, *rest]
    run = subprocess.Popen([*request, *f"--checkpoint {kept} --out {tmp_path}/o".split()])
    while len(list(kept.glob("files/file-*.npz"))) < 2 and run.poll() is None:
        time.sleep(0.01)
    run.send_signal(signal.SIGKILL)
    run.wait()
    before = {path: path.stat().st_mtime_ns for path in kept.glob("files/file-*.npz")}
    assert before
    assert main(["predict", *files, *rest, *f"--checkpoint {kept} --out {tmp_path}/o".split()]) == 0
    assert main(["predict", *files, *rest, *f"--out {tmp_path}/whole".split()]) == 0
    assert {path: path.stat().st_mtime_ns for path in before} == before
    names = sorted(os.listdir(tmp_path / "whole"))
    # the file that was being written remains, hidden
    found_names = [name for name in sorted(os.listdir(tmp_path / "o")) if not name.startswith(".")]
    assert found_names == names and "shares.csv" in names
    for name in names:
        assert (tmp_path / "o" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_stability_and_least_share_of_populations(tmp_path, capsys):
    """Well-separated populations are found again in both halves; a population with too small a share is
    merged into others.
    """
    samples, _ = cytometry.simulate(n_cells=1500, n_populations=4, n_markers=4, n_rare=1, rare=0.02, seed=5)
    found = cytometry.fit(samples, 6, halves=True, rare=False)
    assert found.stability.shape == (found.n_populations,) and found.stability.max() > 0.9
    assert ((0.0 <= found.stability) & (found.stability <= 1.0)).all()
    found.save(tmp_path / "p.npz")
    again = cytometry.Populations.load(tmp_path / "p.npz")
    assert (again.stability == found.stability).all()
    coarse = found.merged(samples, "none", least_share=0.1)
    assert (coarse.cells >= 150).all() and coarse.n_populations < found.merged(samples, "none").n_populations
    with pytest.raises(pk.InputError, match="least_share is -1.0"):
        found.merged(samples, least_share=-1.0)
    cytometry.write(samples[0].take(np.arange(150)), path := tmp_path / "few.fcs")
    assert main(f"fit {path} --components 2 --figures none --labels none --out {tmp_path}/few".split()) == 0
    assert "unknown" in (said := capsys.readouterr().out) and "nan" not in said
