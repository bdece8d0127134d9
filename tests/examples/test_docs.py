"""Every Python block of README.md and docs/*.md runs, in order, one page after the other; and no link leads nowhere."""

import linecache
import re
from pathlib import Path

import pytest

import portable as pk

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "decisions").glob("*.md"))]


def blocks(page):
    """(number of the first line, lines) of every block that begins with ```python."""
    lines, inside = page.read_text().splitlines(), None
    for number, line in enumerate(lines, 1):
        if inside is None:
            inside = (number + 1, []) if line.strip() == "```python" else None
        elif line.strip() == "```":
            yield inside
            inside = None
        else:
            inside[1].append(line)
    assert inside is None, f"{page.name}: a block has no end"


@pytest.mark.parametrize("space", ["serial", "threads"])
@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_page_runs(page, space, tmp_path, monkeypatch):
    """Kernels are read from their text: the page stands in for a file, with blank lines where it is prose."""
    source = [""] * len(page.read_text().splitlines())
    for first, lines in blocks(page):
        source[first - 1:first - 1 + len(lines)] = lines
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(linecache.cache, str(page), (0, None, [line + "\n" for line in source], str(page)))
    with pk.use(space):
        exec(compile("\n".join(source), str(page), "exec"), {"__name__": "__page__"})


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    links = [link for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()) if "://" not in link]
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_table_of_accuracy_is_the_measured_one():
    from portable.elementary_tables import ACCURACY

    rows = [line.split("|")[1:4] for line in (ROOT / "docs" / "accuracy.md").read_text().splitlines() if line.startswith("| ")]
    table = {name.strip().partition(",")[0]: (float(a), float(b)) for name, a, b in rows if name.strip() != "function"}
    assert table == ACCURACY
