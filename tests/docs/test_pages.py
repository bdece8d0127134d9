"""Run every Python block of README.md and docs/*.md in order, one page after the other, and check all
links."""

import itertools
import linecache
import re
from pathlib import Path

import pytest

import portable as pk
from portable.core.language.words import ROWS

from . import pairs

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "coming-from").glob("*.md")),
    *sorted((ROOT / "docs" / "decisions").glob("*.md")),
]


@pytest.mark.parametrize("space", ["serial", "threads"])
@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_page_runs(page, space, tmp_path, monkeypatch):
    """Kernels need their source in a file: the page is used as one, with blank lines in place of prose."""
    source = [""] * len(page.read_text().splitlines())
    for first, whose, block in pairs.blocks(page):
        if not whose:
            source[first - 1 : first + block.count("\n")] = block.split("\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(linecache.cache, str(page), (0, None, [line + "\n" for line in source], str(page)))
    with pk.use(space):
        exec(compile("\n".join(source), str(page), "exec"), {"__name__": "__page__"})


def prose(page):
    return re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


def anchors(page):
    """Return the anchors of a page's headings, as hosts of repositories and Sphinx make them."""
    headings = re.findall(r"^#+ +(.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in headings}


@pytest.mark.parametrize(
    "page", [*PAGES, *sorted(ROOT.glob("C*.md"))], ids=lambda p: str(p.relative_to(ROOT))
)
def test_links_lead_somewhere(page):
    nowhere = []
    for link in re.findall(r"\]\(([^)\s]+)[^)]*\)", prose(page)):
        file, _, anchor = link.partition("#")
        there = page.parent / file if file else page
        if "://" not in link and (not there.exists() or (anchor and anchor not in anchors(there))):
            nowhere.append(link)
    assert nowhere == []


def table(page, heading):
    """Return the lines of the table that follows a line of a page."""
    below = (ROOT / "docs" / page).read_text().split(heading, 1)[1].splitlines()
    start = next(k for k, line in enumerate(below) if line.startswith("|"))
    return list(itertools.takewhile(lambda line: line.startswith("|"), below[start + 2 :]))


def test_the_table_of_accuracy_is_that_of_the_words():
    assert table("accuracy.md", "The figures are") == accuracy()


def test_every_word_is_in_the_table_of_words():
    assert table("kernels.md", "## Functions") == described()


def accuracy():
    return [f"| {row.name} | {row.ulps[0]:.2f} | {row.ulps[1]:.2f} |" for row in ROWS if row.ulps]


def described():
    """Return each word by pk's name, or by Python's, with its line."""
    return [
        f"| `{'pk.' * (getattr(pk, row.name, None) in (row.plain, *row.also))}{row.name}` | {row.line} |"
        for row in ROWS
        if row.line
    ]


if __name__ == "__main__":  # run this after adding a row: it writes the tables of the pages again
    for page, heading, rows in (
        ("accuracy.md", "The figures are", accuracy()),
        ("kernels.md", "## Functions", described()),
    ):
        file = ROOT / "docs" / page
        file.write_text(file.read_text().replace("\n".join(table(page, heading)), "\n".join(rows)))
