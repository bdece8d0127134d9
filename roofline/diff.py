"""`python -m roofline diff BEFORE AFTER`: two saved reports, method by method."""

import json
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from portable.errors import InputError
from roofline.report import SCHEMA_VERSION
from roofline.timing import Samples
from roofline.units import scaled, spread, times

LEAST = 0.05  # a change below 5 % is none, however small the spread: layouts of memory move times by as much
_MACHINE = ("cpu", "device", "cores", "space")


@dataclass(frozen=True)
class Change:
    """One method in both reports, or in one: `before` or `after` is None then."""

    method: str
    source: str
    size: int
    before: Samples | None
    after: Samples | None

    @property
    def verdict(self):
        """ "faster", "slower", "same", "gone" or "new"; a change counts where the quartiles of both lie apart."""
        if self.before is None or self.after is None:
            return "new" if self.before is None else "gone"
        ratio = self.after.median / self.before.median
        if self.after.lower > self.before.upper and ratio > 1 + LEAST:
            return "slower"
        return "faster" if self.after.upper < self.before.lower and ratio < 1 / (1 + LEAST) else "same"

    @property
    def speedup(self):
        """Time before over time after, or None."""
        return self.before.median / self.after.median if self.before and self.after else None


def read(path):
    """A saved report.

    Raises
    ------
    InputError
        The file cannot be read, is no JSON, no report of this tool, or of another version of its schema.
    """
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"'{path}' cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise InputError(f"'{path}' is no JSON: {error}.") from error
    if not isinstance(document, dict) or document.get("schema") != "roofline-report":
        raise InputError(f"'{path}' is no report; `python -m roofline report --json FILE` writes one.")
    if document.get("schema_version") != SCHEMA_VERSION:
        raise InputError(
            f"'{path}' has version {document.get('schema_version')} of the schema; {SCHEMA_VERSION} is wanted. "
            "Make the report anew."
        )
    try:
        _samples(document)
        _machine(document)
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"'{path}' is damaged: a result has no {error}.") from error
    return document


def _samples(document):
    """{(method, source, size): Samples}."""
    return {
        (r["method"], r["source"], r["size"]): Samples(
            tuple(map(float, r["seconds"]["values"])), r["seconds"]["calls_per_repeat"]
        )
        for r in document["results"]
    }


def _machine(document):
    return {name: document["machine"][name] for name in _MACHINE}


def changes(before, after, across=False):
    """What changed between two reports, the worst first.

    Parameters
    ----------
    before, after : dict, see `read`
    across : bool
        Whether they may be of different machines.

    Raises
    ------
    InputError
        They are of different machines, and that was not asked for.
    """
    here, there = _machine(before), _machine(after)
    if here != there and not across:
        told = "; ".join(f"{name}: {here[name]} and {there[name]}" for name in _MACHINE if here[name] != there[name])
        raise InputError(f"the reports are of different machines ({told}). Say --across to compare them all the same.")
    old, new = _samples(before), _samples(after)
    found = [Change(*key, old.get(key), new.get(key)) for key in {**old, **new}]
    return sorted(found, key=lambda c: (c.speedup is None, c.speedup))


def table(found):
    """The terminal's table."""
    made = Table(
        title="Before and after",
        title_justify="left",
        caption_justify="left",
        caption="before / after: above 1, it is faster now; same: the quartiles meet, or less than 5 %",
    )
    for name, justify in (
        ("method", "left"),
        ("input", "left"),
        ("before", "right"),
        ("after", "right"),
        ("before / after", "right"),
        ("", "left"),
    ):
        made.add_column(name, justify=justify)
    for c in found:
        cells = ("" if s is None else f"{scaled(s.median, 's')} ({spread(s, 's')})" for s in (c.before, c.after))
        made.add_row(c.method, f"{c.source}, {c.size:,}", *cells, times(c.speedup) if c.speedup else "", c.verdict)
    return made
