"""Test the site: the documentation of public names, its pictures, and that Sphinx builds it without a
warning.
"""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

import portable as pk

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def makers(monkeypatch):
    """Import the modules that make pages of the site."""
    monkeypatch.syspath_prepend(str(DOCS))
    import gallery
    import reference

    return reference, gallery


def test_every_public_name_is_in_one_group(makers):
    named = [name for names in makers[0].groups().values() for name in names]
    assert sorted(named) == sorted({*pk.__all__} - {"errors", "random"}) and len(named) == len(set(named))


def test_the_reference_has_a_page_for_each_group(makers):
    pages = makers[0].pages()
    assert "autofunction:: portable.parallel_for" in pages["launches"] and "models-hawkes" in pages["index"]


@pytest.mark.parametrize("part", range(4))
def test_every_picture_is_drawn_by_its_example(makers, part, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib", reason="pictures want matplotlib")
    gallery = makers[1]
    assert len(gallery.PICTURES) >= 20 and all(
        (DOCS / "examples" / file).exists() for _, file, *_ in gallery.PICTURES
    )
    monkeypatch.setattr(gallery, "PICTURES", gallery.PICTURES[part::4])
    gallery.draw(tmp_path)
    index = (tmp_path / "index.md").read_text()
    for name, *_ in gallery.PICTURES:
        assert (tmp_path / f"{name}.png").stat().st_size > 2000 and f":link: {name}\n" in index


def test_the_site_builds_without_a_warning(tmp_path):
    """Build all pictures, which takes minutes on two cores, if Sphinx is installed: pip install ".[docs]"."""
    missing = [
        m
        for m in "sphinx myst_nb pydata_sphinx_theme numpydoc sphinx_copybutton".split()
        if importlib.util.find_spec(m) is None
    ]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed: pip install '.[docs]'")
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-W",
        "--keep-going",
        "-q",
        "-b",
        "html",
        str(DOCS),
        str(tmp_path / "site"),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    site = tmp_path / "site"
    assert (site / "api" / "launches.html").exists() and (site / "searchindex.js").exists()
    outside = re.compile(r'(src|href)="(https?:)?//[^"]*\.(js|css)')  # the site and its search work offline
    assert [page.name for page in site.rglob("*.html") if outside.search(page.read_text())] == []
    assert "<img" in (site / "notebooks" / "brains.html").read_text()  # the picture of the notebook
