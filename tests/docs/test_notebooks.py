"""Run the notebooks of docs/notebooks from top to bottom, each in a separate kernel; no notebook contains
outputs.
"""

import re

import pytest

from .test_pages import ROOT

FOLDER = ROOT / "docs" / "notebooks"
NOTEBOOKS = sorted(
    FOLDER.glob("*.ipynb"), key=lambda p: (p.stem != "own-kernel", p.stem)
)  # the quickest first


@pytest.fixture
def nbformat():
    return pytest.importorskip("nbformat", reason="nbformat is not installed: pip install '.[notebooks]'")


def test_the_index_names_every_notebook():
    index = (FOLDER / "index.md").read_text()
    assert len(NOTEBOOKS) >= 4
    assert all(f"]({path.name})" in index and f"\n{path.stem}\n" in index for path in NOTEBOOKS)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_notebook_is_kept_without_outputs(nbformat, path):
    notebook = nbformat.read(path, 4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert code and all(cell.outputs == [] and cell.execution_count is None for cell in code)
    prose = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    links = [link for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", prose) if "://" not in link]
    assert links and all((FOLDER / link).exists() for link in links)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_notebook_runs(nbformat, path, tmp_path, monkeypatch):
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed: pip install '.[notebooks]'")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed: pip install '.[notebooks]'")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # the kernel is a separate process
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    notebook = nbformat.read(path, 4)
    client = nbclient.NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()  # raises the error of a cell
    drawn = [
        o for cell in notebook.cells for o in cell.get("outputs", []) if "image/png" in o.get("data", {})
    ]
    assert drawn
