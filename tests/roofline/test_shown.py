"""Test the display of a saved report, by itself or next to another; in notebooks; as figures."""

import json
import os
import sys
from html import unescape
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import portable as pk
from portable import roofline
from portable.errors import InputError
from portable.roofline import __main__ as cli
from portable.roofline import figure
from portable.roofline.cases import layer
from tests.roofline import fakes, shown
from tests.roofline.schema import problems

from ..processes import python


@pytest.fixture
def saved(tmp_path, quick_ceilings):
    """Return paths of two reports, of one part each."""
    document, paths = shown.document(quick_ceilings("serial"), fakes.MARKUP), []
    for k, part in enumerate(document["parts"]):
        if k:
            part["machine"]["device"] = "A GPU"
        paths.append(str(tmp_path / f"{k}.json"))
        (tmp_path / f"{k}.json").write_text(json.dumps(document | {"parts": [part]}))
    return paths


def test_two_reports_stand_side_by_side(saved, tmp_path, told):
    page, numbers = tmp_path / "both.html", tmp_path / "both.json"
    assert cli.main(["show", *saved, *f"--out {page} --json {numbers}".split()]) == 0
    out, document = told.out, json.loads(numbers.read_text())
    assert [part["space"] for part in document["parts"]] == ["serial", "threads"] and problems(document) == []
    assert "threads (A GPU)" in out and out.count("histogram") >= 2 and "threads (A GPU)" in page.read_text()


def test_a_damaged_report_is_refused(saved, tmp_path, told):
    document = json.loads(Path(saved[0]).read_text())
    del document["parts"][0]["results"][0]["roof"]["kernels"]
    (tmp_path / "damaged.json").write_text(json.dumps(document))
    assert cli.main(["show", str(tmp_path / "damaged.json"), "--out", str(tmp_path / "page.html")]) == 2
    assert "is damaged: KeyError: 'kernels'" in told.err and not (tmp_path / "page.html").exists()


def test_figures_for_papers(saved, tmp_path):
    svg, pdf = tmp_path / "plot.svg", tmp_path / "plot.pdf"
    assert cli.main(["show", *saved, *f"--svg {svg} --pdf {pdf}".split()]) == 0
    texts = [element.text for element in ElementTree.parse(svg).iter("{http://www.w3.org/2000/svg}text")]
    assert any(fakes.MARKUP in (text or "") for text in texts) and pdf.read_bytes().startswith(b"%PDF")


def test_a_pdf_wants_svglib(saved, tmp_path, monkeypatch, told):
    monkeypatch.setitem(sys.modules, "svglib", None)
    assert cli.main(["show", *saved, "--pdf", str(tmp_path / "plot.pdf")]) == 2
    assert "--pdf: svglib makes PDF files and is not installed" in told.err


def test_nothing_to_plot_is_said(tmp_path, told):
    path = tmp_path / "empty.json"
    path.write_text(json.dumps(fakes.saved(fakes.result())))
    assert cli.main(["show", str(path), "--svg", str(tmp_path / "plot.svg")]) == 1
    assert "nothing to plot" in told.err
    assert figure.drawing(figure.plots(fakes.saved(fakes.result()))) == ""


def test_a_notebook_shows_a_profile_as_a_page():
    x, y = np.ones(1000), np.ones(1000)
    with pk.use("serial"), roofline.profile() as p:
        for _ in range(3):
            pk.parallel_for(1000, layer.axpy, 2.0, x, y)
    found = roofline.report(p, "a notebook")
    assert problems(json.loads(json.dumps(found))) == []
    assert found["parts"][0]["failures"] == []
    (result,) = found["parts"][0]["results"]
    assert (result["method"], result["source"], result["roof"]["flops"]) == ("axpy", "a notebook", 2000)
    frame = found._repr_html_()
    assert (
        frame.startswith("<iframe")
        and frame.count("<") == 2
        and "What these kernels could be" in unescape(frame)
    )


def test_a_profile_without_launches_is_refused():
    with roofline.profile() as p:
        pass
    with pytest.raises(InputError, match="recorded no launch"):
        roofline.report(p)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no way to hold a process to one core here")
def test_one_core_is_enough(tmp_path):
    """The process may use one core, whatever the machine has; there is no cache folder."""
    program = tmp_path / "program.py"
    program.write_text(
        "import numpy as np, portable as pk\n@pk.kernel\ndef k(i, x):\n    x[i] += 1.0\n"
        "for _ in range(3): pk.parallel_for(1000, k, np.ones(1000))\n"
    )
    command = (
        "import os, sys; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))});"
        " from portable.roofline import __main__ as cli;"
        f"sys.exit(cli.main(['report', '--quick', '--out', {str(tmp_path / 'page.html')!r},"
        f" {str(program)!r}]))"
    )
    done = python("-c", command, env=os.environ | {"PORTABLE_CACHE": "0"}, check=False)
    assert done.returncode == 0, done.stderr
    assert "threads" in done.stdout and (tmp_path / "page.html").exists()
