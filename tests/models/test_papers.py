"""The papers' pages at their smallest size: what they say is checked, not only that they run."""

import runpy

import numpy as np
import pytest

from models import page, tmap
from models.page import Compared, Page
from models.tmap.paper import ORDERS
from models.tmap.paper import Paper as TmapPaper
from portable.errors import DTypeError, InputError

from ..examples.test_docs import ROOT


def made(study, sections, **more):
    """A study of the smallest size after some of its sections."""
    found = study("tiny", **more)
    for name in sections:
        found.page.section(study.sections[name])
        getattr(found, name.replace("-", "_"))()
    return found


def test_a_page_says_what_was_printed_what_was_found_and_their_ratio():
    sheet = Page("A < B", "source", "facts")
    rows = [Compared("h", 2.0, 3.0, "m"), Compared("of a GPU", 0.73, None, "s"), Compared("new", None, 1.0)]
    sheet.compare("caption", rows)
    text = sheet.text()
    assert "A &lt; B" in text and rows[0].ratio == 1.5 and rows[1].ratio is None and rows[2].ratio is None
    assert (
        "<td>2 m</td><td>3 m</td><td>1.5</td>" in text and f"<td>0.73 s</td><td>{page.NOT_RUN}</td>" in text
    )
    assert "http" not in text.replace("http://www.w3.org", "")  # nothing is fetched


@pytest.mark.parametrize("study", [TmapPaper], ids=lambda s: s.__module__)
def test_bad_options_are_named(study, tmp_path):
    options = {"size": "tiny", "space": "serial", "data": None, "out": str(tmp_path / "a.html"), "only": None}

    def refused(match, **bad):
        with pytest.raises(InputError, match=match):
            page.run(study, type("Options", (), options | bad))
        assert not list(tmp_path.iterdir())

    refused("--only is 'figure-99'", only=["figure-99"])
    refused("there is no folder", out=str(tmp_path / "none" / "a.html"))
    refused("is no folder", data=str(tmp_path / "none"))
    refused("size is 'huge'", size="huge")


def test_tmap():
    found = made(TmapPaper, TmapPaper.sections, space="threads")
    for data, (runs, times) in found.climbs.items():
        assert set(times) == {
            (space, dtype) for space in ("serial", found.space) for dtype in ("float64", "float32")
        }
        for history, _ in times.values():
            assert len(history) == 31 and (np.diff(history) > -1e-6 * abs(history[-1])).all()
        assert found.lost(data) < 1e-6 < 2.6e-4  # the paper's single precision
        same = times["serial", "float64"][0][-1], times[found.space, "float64"][0][-1]
        np.testing.assert_allclose(*same, rtol=1e-12)
    assert sum(row.ours is None for row in found.page.compared) == 4  # the paper's GPU
    (fitted, fresh), (more_fitted, more_fresh) = found.ends["branches"], found.ends["unrestricted"]
    assert fitted > more_fitted and fresh > more_fresh  # section 5


def test_the_papers_start_of_tmap():
    """Rows go on with 1 - 1 / K, rates are r / T, and no gap times a rate is above 60."""
    runs = tmap.Runs([1.0, 2.0, 3.0, 2.0, 2.0], [2, 3])
    start = tmap.paper_start(runs, (3, 1, 2), seed=5)
    np.testing.assert_allclose(start.switching.sum(axis=1), 1.0 - 2 / 5)
    np.testing.assert_allclose(start.rates, np.array([1.0, 2.0, 3.0]) / 2.0)
    wide = tmap.Runs([1e-3, 1e-3, 1e-3, 1e6], [2, 2])
    assert wide.longest * tmap.paper_start(wide, ORDERS).rates.max() == pytest.approx(
        12.0
    )  # 4 T is the longest
    longer = tmap.Runs(np.r_[np.full(99, 1e-3), 1e6], [50, 50])
    assert longer.longest * tmap.paper_start(longer, ORDERS).rates.max() == pytest.approx(60.0)
    a = tmap.fit(runs, orders=ORDERS, initial="paper", seed=5, max_iter=4, tol=0.0)[1].history
    b = tmap.fit(runs, orders=ORDERS, initial=start, max_iter=4, tol=0.0)[1].history
    np.testing.assert_array_equal(a, b)
    with pytest.raises(DTypeError, match="'papers'"):
        tmap.fit(runs, orders=ORDERS, initial="papers")


@pytest.mark.parametrize("name", ["unrestricted_map"])
def test_worked_examples_check_themselves(name, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", [f"{name}.py"])
    runpy.run_path(str(ROOT / "docs" / "examples" / "papers" / f"{name}.py"), run_name="__main__")
    assert capsys.readouterr().out.startswith(name)
