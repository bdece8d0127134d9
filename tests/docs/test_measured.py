"""Test that figures of the README and of docs/measured.md are those of the records."""

import re
from pathlib import Path

import pytest

from portable.errors import InputError
from portable.roofline import __main__ as cli
from portable.roofline.scoreboard import headlines, measured, records

ROOT = Path(__file__).parents[2]
ROWS, WORDS = 250, 40  # limits of the rows of the page, and of the words of a row
FIGURE = re.compile(r"(\d[\d.,]*) ?(ms|s|µs|ns|microseconds|[TG]B/s|TFLOP/s|times)\b")


@pytest.fixture(scope="module")
def rows():
    return [row for document in measured.documents(records.FOLDER) for row in measured.rows_of(document)]


def test_the_page_is_made_from_the_records(tmp_path, told):
    """`python -m portable.roofline measured` writes the page again."""
    assert cli.main(["measured", "--out", str(tmp_path / "page.md")]) == 0
    assert (tmp_path / "page.md").read_text() == measured.PAGE.read_text()


def test_the_page_stays_small(rows):
    assert 50 < len(rows) <= ROWS
    long = [
        line
        for line in measured.PAGE.read_text().splitlines()
        if line.startswith("| ") and words(line) > WORDS
    ]
    assert not long


def words(line):
    return sum(word != "|" for word in line.split())


def test_each_row_can_be_traced(rows):
    for row in rows:
        assert row["question"] and row["command"] and (row["figure"] or row["ratio"]), row
        assert re.fullmatch(r"20\d\d-\d\d-\d\d", row["date"]) and re.fullmatch(
            r"[0-9a-f]{8,40}\+?", row["commit"]
        )


def test_each_file_is_named_after_its_machine_and_knows_its_headlines():
    for path in records.FOLDER.glob("*.json"):
        document = records.read(path)
        assert path == records.path_of(document["machine"]["kind"], records.FOLDER)
        for row in document["headlines"]:
            assert row["name"] in {headline.name for headline in headlines.headlines_of(row["space"])}, row[
                "name"
            ]


def unfounded(text, rows):
    """Return the figures of a page, row by row, that are in no record of the row's command."""
    for line in text.splitlines():
        asked = {command for command in re.findall(r"`([^`]*)`", line) if command.startswith("python ")}
        known = [row for row in rows if row["command"] in asked]
        for number, unit in FIGURE.findall(line):
            kind, figure = ("ratio", number) if unit == "times" else ("figure", f"{number} {unit}")
            if not any(re.search(rf"(?<![\d.]){re.escape(figure)}(?![\d.]*\d)", row[kind]) for row in known):
                yield f"{number} {unit}: {line}"


def test_the_readme_tells_figures_on_record(rows):
    text = (ROOT / "README.md").read_text()
    assert len(FIGURE.findall(text)) > 8
    assert list(unfounded(text, rows)) == []


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("| work: 36 ms, numba 7.6 times | `python -m a` |", 0),
        ("| work: 6 ms, numba 7.6 times | `python -m a` |", 1),
        ("| work: 36 ms, numba 7 times | `python -m a` |", 1),
        ("| work: 36 ms | `python -m b` |", 1),
        ("it takes 36 ms", 1),
    ],
)
def test_a_figure_without_a_record_is_found(line, wrong):
    row = {"command": "python -m a", "figure": "36 ms", "ratio": "7.6 (7.5 to 7.7)"}
    assert len(list(unfounded(line, [row]))) == wrong


def test_a_damaged_record_makes_no_page(tmp_path):
    with pytest.raises(InputError, match="no records"):
        measured.documents(tmp_path)
    (tmp_path / "a.json").write_text("{")
    assert cli.main(f"measured --records {tmp_path} --out {tmp_path}/page.md".split()) == 2
    assert not (tmp_path / "page.md").exists()
