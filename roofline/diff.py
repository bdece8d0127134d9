"""`python -m roofline diff BEFORE AFTER`: two saved reports, method by method."""

from dataclasses import dataclass

from rich.table import Table

from portable.errors import InputError
from roofline import reporting
from roofline.timing import Samples
from roofline.units import one_line, scaled, spread, times

LEAST = 0.05  # a change below 5 % is none, however small the spread: layouts of memory move times by as much
_MACHINE = ("cpu", "device", "cores")


@dataclass(frozen=True)
class Change:
    """One method in both reports, or in one: `before` or `after` is None then."""

    method: str
    source: str
    size: int
    space: str
    before: Samples | None
    after: Samples | None

    @property
    def verdict(self):
        """ "faster", "slower", "same", "gone" or "new"; a change counts where the quartiles of both lie
        apart."""
        if self.before is None or self.after is None:
            return "new" if self.before is None else "gone"
        if self.speedup is None:
            return "too short to time"
        ratio = self.after.median / self.before.median
        if self.after.lower > self.before.upper and ratio > 1 + LEAST:
            return "slower"
        return "faster" if self.after.upper < self.before.lower and ratio < 1 / (1 + LEAST) else "same"

    @property
    def speedup(self):
        """Time before over time after, or None: too short for the clock is no time."""
        timed = self.before and self.after and self.before.median and self.after.median
        return self.before.median / self.after.median if timed else None


def read(path):
    """A saved report; see `roofline.reporting.read`.

    Raises
    ------
    InputError
        It is none, or damaged; the message names the file.
    """
    document = reporting.read(path)
    try:
        _samples(document)
        _machines(document)
    except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
        raise InputError(f"'{path}' is damaged: {one_line(error)}.") from error
    return document


def _samples(document):
    """{(method, source, size, space): Samples}."""
    found = {}
    for part in document["parts"]:
        for r in sorted(part["results"], key=_work):
            values = tuple(map(float, r["seconds"]["values"]))
            values[0]  # at least one
            name, again = r["method"], 1
            while (
                key := (name, r["source"], r["size"], r["space"])
            ) in found:  # of a program: on arrays of other shapes
                again += 1
                name = f"{r['method']} ({again})"
            found[key] = Samples(values, r["seconds"]["calls_per_repeat"])
    return found


def _work(result):
    """What orders launches of one name and size, however long they took."""
    roof = result["roof"] or {"compulsory_bytes": 0, "flops": 0}
    return roof["compulsory_bytes"], roof["flops"]


def _machines(document):
    """{space: facts that make two machines the same}."""
    return {part["space"]: {name: part["machine"][name] for name in _MACHINE} for part in document["parts"]}


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
        They are of different machines, and that was not asked for, or have no row in common.
    """
    here, there = _machines(before), _machines(after)
    if not across:
        told = [
            f"{name}: {here[space][name]} and {there[space][name]}"
            for space in here.keys() & there.keys()
            for name in _MACHINE
            if here[space][name] != there[space][name]
        ]
        if not here.keys() & there.keys():
            told = [f"space: {', '.join(here)} and {', '.join(there)}"]
        if told:
            raise InputError(
                f"the reports are of different machines ({'; '.join(told)}). Say --across to compare them all"
                " the same."
            )
    old, new = _samples(before), _samples(after)
    if not old.keys() & new.keys():
        raise InputError(
            "no method with the same input and space is in both reports: there is nothing to compare."
        )
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
        ("space", "left"),
        ("before", "right"),
        ("after", "right"),
        ("before / after", "right"),
        ("", "left"),
    ):
        made.add_column(name, justify=justify)
    for c in found:
        cells = (
            "" if s is None else f"{scaled(s.median, 's')} ({spread(s, 's')})" for s in (c.before, c.after)
        )
        made.add_row(
            c.method,
            f"{c.source}, {c.size:,}",
            c.space,
            *cells,
            times(c.speedup) if c.speedup else "",
            c.verdict,
        )
    return made
