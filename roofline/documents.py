"""A report's document: saved, read again, and shown as a page or as tables."""

from __future__ import annotations

import json
from html import escape
from pathlib import Path
from typing import Any

from portable.errors import InputError
from portable.roofline import ceiling, html, machine, script
from portable.roofline.profiling import Profile
from portable.roofline.reporting import Report
from portable.roofline.tables import tables
from portable.roofline.units import printable_document

SCHEMA_VERSION = 3


def document(parts):
    """Return the JSON document of parts, each a result of `Report.as_dict`; `schema_version` increases with
    changes that readers must follow."""
    return {
        "schema": "roofline-report",
        "schema_version": SCHEMA_VERSION,
        "parts": printable_document(list(parts)),
    }


class Shown(dict[str, Any]):
    """Store a report's document; a notebook shows it as the page, and rich's `print` as tables."""

    def page(self) -> str:
        """Return the offline page as HTML."""
        return html.page(self)

    def _repr_html_(self):
        """Return the page in a separate frame, so that its styles do not affect the notebook."""
        framed = escape(self.page())
        return (
            '<iframe title="Roofline report" sandbox style="width:100%;height:45rem;border:0"'
            f' srcdoc="{framed}"></iframe>'
        )

    def __rich_console__(self, console, options):
        yield from tables(self)


def report(made: Profile, source: str = "launches") -> Shown:
    """Compare the launches of a profile with the roofs of their spaces: `with roofline.profile() as p: ...`,
    then `report(p)`.

    Counting takes a few runs of each kind of launch, on the present data (for launches whose arrays no longer
    exist, make the profile with `counted=True`); ceilings are measured if they are not known.

    Parameters
    ----------
    made : Profile
    source : str
        The source of the launches, in words.

    Returns
    -------
    Shown
        The report's document (docs/report.schema.json), a dict; a notebook shows it as a page.

    Raises
    ------
    InputError
        The profile has no launches.
    """
    if not made.events:
        raise InputError("report: the profile recorded no launch; launch kernels inside its with-block")
    parts = {}

    def part(space):
        return parts.setdefault(space, Report(space, machine.facts(space)))

    def roofs(space, special):
        return ceiling.ceilings(space, special=special)

    held = roofs if all(e.space != "checked" for e in made.events) else None
    script.add_results(made, source, part, held, counted=made.counted)
    return Shown(document(made.as_dict() for made in parts.values()))


def read(path):
    """Return a saved report's document.

    Raises
    ------
    InputError
        The file cannot be read, is no JSON, no report of this tool, or of another version of its schema.
    """
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"'{path}' cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"'{path}' is no JSON: {error}.") from error
    if not isinstance(found, dict) or found.get("schema") != "roofline-report":
        raise InputError(
            f"'{path}' is no report; `python -m portable.roofline report --json FILE` writes one."
        )
    if found.get("schema_version") != SCHEMA_VERSION:
        raise InputError(
            f"'{path}' has version {found.get('schema_version')} of the schema; expected {SCHEMA_VERSION}."
            " Make the report anew."
        )
    return printable_document(found)
