"""Test docs/coming-from: the two sides of each pair give the same result, if the other library and its device
are available."""

import importlib.util
import os
import subprocess
import sys

import pytest

from . import pairs
from .test_pages import ROOT

FOLDER = ROOT / "docs" / "coming-from"
PAGES = {  # the pages whose other side can run, and their numbers of pairs
    "jax": 7,
    "warp": 6,
    "cupy": 7,
    "particles": 4,
    "pyedm": 7,
}


def test_every_page_with_another_library_is_here():
    assert {page.stem for page in FOLDER.glob("*.md") if pairs.others(page)} == set(PAGES)


def test_the_index_and_the_toctree_name_every_page():
    index = (FOLDER / "index.md").read_text()
    listed = index.split(":hidden:\n\n")[1].split("```")[0].split()
    assert {page.stem for page in FOLDER.glob("*.md")} == {"index", *listed}
    assert all(f"]({name}.md)" in index for name in listed)


@pytest.mark.parametrize("page", PAGES)
def test_both_sides_agree(page, tmp_path):
    (library,) = pairs.others(FOLDER / f"{page}.md")
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    if page == "cupy":
        reason = without_a_gpu()
        if reason:
            pytest.skip(reason)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-W", "ignore", "-m", "tests.docs.pairs", str(FOLDER / f"{page}.md")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-1] == str(PAGES[page])


def without_a_gpu():
    """Return the reason why CuPy cannot run here; None if it can."""
    import cupy

    try:
        cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"no CUDA device: {error}"
    return None


def test_a_difference_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python other\ntheirs = [1.0, 2.0]\n```\n\n```python\nours = [1.0, 2.5]\n```\n")
    with pytest.raises(AssertionError, match="page.md, line 6"):
        pairs.compare(page)
    page.write_text(page.read_text().replace("2.5", "2.0"))
    assert pairs.compare(page) == 1


def test_a_pair_without_our_side_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python other\ntheirs = 1.0\n```\n")
    with pytest.raises(AssertionError, match="none of ours after it"):
        pairs.compare(page)
