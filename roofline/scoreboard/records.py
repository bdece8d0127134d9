"""Records: the measured figures of each headline on a kind of machine, and earlier claims.

One JSON file for each kind of machine, named after it: `headlines`, with which a run of the scoreboard is
compared, and `claims`, which are only reported: figures with the command, date and commit by which they were
measured. A row whose figure depends on a GPU's host has its CPU, `host`; there is one for each. A `note`
gives the reason why a row lies below its best recorded figure.
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

from portable.errors import InputError
from portable.roofline.printing import write_file
from portable.roofline.revision import HERE
from portable.roofline.units import one_line

SCHEMA, SCHEMA_VERSION = "roofline-records", 1
FOLDER = HERE / "docs" / "records"
NUMBERS = ("median", "lower", "upper")
FIGURES = ("ours_seconds", "peer_seconds", "ratio")
TEXTS = ("name", "space", "title", "ours", "peer", "command", "date", "commit")


def kind(facts: dict[str, Any]) -> str:
    """Return the kind of machine of a record: a GPU's name, or a CPU's with its cores.

    Processors of one name may be of several generations: family, model and stepping distinguish these.

    Parameters
    ----------
    facts : dict
        The result of `portable.roofline.machine.facts`.

    Raises
    ------
    InputError
        The driver does not report the GPU's name.
    """
    if facts["space"].startswith("cuda") and not facts["device"]:
        raise InputError(
            "--space: the driver reports no name of this GPU for its record; put nvidia-smi on the path"
        )
    cpu = " ".join(filter(None, (facts["cpu"], facts["cpu_id"])))
    return facts["device"] or f"{cpu}, {facts['cores']} core{'s' * (facts['cores'] > 1)}"


def host(facts: dict[str, Any]) -> str:
    """Return the identity of a GPU's host CPU: family, model and stepping, else its name."""
    return facts["cpu_id"] or facts["cpu"]


def path_of(machine: str, folder: Path) -> Path:
    """Return the path of the record of a kind of machine."""
    return folder / f"{re.sub(r'[^a-z0-9]+', '-', machine.lower()).strip('-')}.json"


def read(path: Path, machine: str | None = None) -> dict[str, Any]:
    """Return a file of records after validation.

    Parameters
    ----------
    path : Path
    machine : str, optional
        The kind of machine that the records must be about.

    Raises
    ------
    InputError
        The file cannot be read, is no record, is damaged, or is about another kind of machine.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["schema"] != SCHEMA or document["schema_version"] != SCHEMA_VERSION:
            raise ValueError("another layout")
        own = document["machine"]["kind"]
        for row in document["headlines"]:
            _check(row)
        for claim in document["claims"]:
            _texts(claim, "question", "figure", "command", "date", "commit")
    except OSError as error:
        raise InputError(f"'{path}' cannot be read: {error.strerror}.") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(
            f"'{path}' is damaged ({one_line(error)}). Restore it by git, or move it away."
        ) from error
    if machine is not None and own != machine:
        raise InputError(
            f"'{path}' is the record of another kind of machine, {own}; this is {machine}. Move it, or"
            " name a folder by --records."
        )
    return document


def _check(row):
    _texts(row, *TEXTS, *row.keys() & {"host", "note"})
    numbers = {f"{name}, {part}": row[name][part] for name in FIGURES for part in NUMBERS}
    numbers["seconds"] = row["seconds"]
    for name, value in numbers.items():
        if type(value) not in (int, float) or not 0 < value < math.inf:
            raise ValueError(f"{name}: {value!r} is not positive")
    low, high = map(float, row["ratio"]["interval"])
    _texts(row["identity"], "source")
    dict(row["identity"]["versions"])


def _texts(row, *names):
    for name in names:
        if not isinstance(row[name], str):
            raise TypeError(f"{name}: {row[name]!r} is no text")


def empty(machine: str) -> dict[str, Any]:
    """Return empty records for a kind of machine that has none."""
    return {
        "schema": SCHEMA,
        "schema_version": SCHEMA_VERSION,
        "machine": {"kind": machine},
        "headlines": [],
        "claims": [],
    }


def find(document: dict[str, Any], space: str, name: str, host: str) -> dict[str, Any] | None:
    """Return a headline's record on a space; with this CPU if the headline depends on the host."""
    wanted = space, name, host
    return next((r for r in document["headlines"] if _key(r) in (wanted, (space, name, ""))), None)


def _key(row):
    return row["space"], row["name"], row.get("host", "")


def merged(document: dict[str, Any], facts: dict[str, Any], rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the document with these rows instead of the earlier ones of the same headlines; notes are kept.

    Intervals of one commit become one that covers both: a machine has states that outlast a run, such as
    neighbours that share its memory, and a record made in one of them would accuse the next.
    """
    known = {_key(row): row for row in document["headlines"]}
    for row in rows:
        old = known.get(_key(row), {})
        if "note" in old:
            row["note"] = old["note"]
        if all(row[name] == old.get(name) for name in ("commit", "title", "identity")):
            both = row["ratio"]["interval"] + old["ratio"]["interval"]
            row["ratio"]["interval"] = [min(both), max(both)]
        known[_key(row)] = row
    return document | {"machine": document["machine"] | facts, "headlines": sorted(known.values(), key=_key)}


def write(path: Path, document: dict[str, Any]) -> bool:
    """Write a file atomically, and name it; its folder is made. Return False if it cannot be written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return write_file(path, json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False) + "\n")
