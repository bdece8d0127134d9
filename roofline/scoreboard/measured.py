"""`python -m portable.roofline measured`: the page docs/measured.md, made from the records.

A table for each kind of machine, with one row for each headline and each claim, and a sentence for each
headline that lies below its best recorded figure.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from portable.errors import InputError
from portable.roofline.scoreboard import records
from portable.roofline.units import scaled, times

PAGE = records.HERE / "docs" / "measured.md"
COLUMNS = ("question", "figure", "ratio", "command", "date", "commit")
TOP = """# What was measured, with which command

Made from `docs/records` by `python -m portable.roofline measured`. Figures are medians of times, of
ours where both sides have one; a ratio is the peer's time over ours, above 1 ours is faster, with quartiles
or what several runs gave. Both sides ran in turn in one process. Rows of `python -m portable.roofline
scoreboard` are headlines, with which [a run of it](roofline.md#the-scoreboard) is compared; the others were
measured at their commit. A row that depends on a GPU's host has its CPU in brackets (family/model/stepping).

Peers: `pip install ".[peers]"` (CPU) or `".[cu13]"` (GPU), JAX on a GPU `pip install "jax[cuda13]"`,
particles `pip install --no-deps particles==0.4`, since it asks for NumPy below 2.
"""


def rows_of(document: dict[str, Any]) -> list[dict[str, str]]:
    """Return the rows of a file of records: COLUMNS as strings, headlines first."""
    found = []
    for row in document["headlines"]:
        spread = row["ratio"]
        ends = f" ({times(spread['lower'])} to {times(spread['upper'])})"
        host = f" ({row['host']})" if " " not in row.get("host", " ") else ""  # names are long
        title = row["title"].replace(f" on {row['space']}", "")
        figures = {
            "question": f"{title}, {row['space']}{host}, beside {row['peer']}",
            "figure": scaled(row["ours_seconds"]["median"], "s"),
            "ratio": times(spread["median"]) + ends,
        }
        found.append(figures | {name: row[name] for name in ("command", "date", "commit")})
    return found + [{name: claim.get(name, "") for name in COLUMNS} for claim in document["claims"]]


def documents(folder: Path) -> list[dict[str, Any]]:
    """Return all records of a folder.

    Raises
    ------
    InputError
        The folder has no record, or a damaged one.
    """
    found = [records.read(path) for path in sorted(folder.glob("*.json"))]
    if not found:
        raise InputError(f"--records: '{folder}' has no records. Name the folder that has them.")
    return found


def page(found: list[dict[str, Any]]) -> str:
    """Return the page as Markdown."""
    parts, head = [TOP], f"| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|\n"
    for document in found:
        parts.append(f"\n## {document['machine']['kind']}\n\n{head}")
        parts += [f"| {' | '.join(_cell(row, name) for name in COLUMNS)} |\n" for row in rows_of(document)]
        notes = [f"* {row['name']}: {row['note']}\n" for row in document["headlines"] if row.get("note")]
        parts += ["\nRows below the best figure that was ever seen of them, and why:\n\n", *notes] * bool(
            notes
        )
    return "".join(parts)


def _cell(row, name):
    text = row[name].replace("|", "\\|")
    return f"`{text}`" if name == "command" else text
