"""`python -m portable.roofline diff BEFORE AFTER`: compare two reports row by row, in a table, in words, and
in one plot."""

from dataclasses import dataclass, replace

from portable.errors import InputError
from portable.roofline import documents
from portable.roofline.grid import grid
from portable.roofline.html import rendered
from portable.roofline.roofplot import FLOPS, NARROW, OTHERS, WIDE, Axes, Plot
from portable.roofline.rows import PROGRAM, Row, parts_of, total
from portable.roofline.timing import Samples
from portable.roofline.units import in_words, one_line, scaled, times

LEAST = 0.05  # smaller changes count as none at any spread: the layout of memory changes times by as much
_MACHINE = ("cpu", "device", "cores")


@dataclass(frozen=True)
class Change:
    """Pair the rows of one method in two reports; `before` or `after` is None where one has no such row.
    `alike` is True if both have the same input."""

    method: str
    before: Row | None
    after: Row | None
    alike: bool = True
    number: int = 0

    @property
    def row(self):
        """The later one of the rows."""
        return self.after or self.before

    @property
    def about(self):
        """The inputs in words."""
        abouts = [row.about for row in (self.before, self.after) if row]
        return abouts[0] if self.alike else ", then ".join(abouts)

    @property
    def space(self):
        """Return the spaces of both runs, in words."""
        return " and ".join(dict.fromkeys(row.result["space"] for row in (self.before, self.after) if row))

    @property
    def samples(self):
        """Seconds before and after, Samples or None; the sums over all launches where the inputs differ."""
        return tuple(row and _samples(row.result, not self.alike) for row in (self.before, self.after))

    @property
    def times(self):
        """Seconds before and after in words."""
        return tuple(_in_words(s) if s else "" for s in self.samples)

    @property
    def verdict(self):
        """Return "faster", "slower", "same", "gone", "new", or "not decided" if a machine was busy with other
        work; times differ only if the intervals between their quartiles do not overlap."""
        before, after = self.samples
        if before is None or after is None:
            return "new" if before is None else "gone"
        if not self.alike:
            return "other input"
        if self.speedup is None:
            return "too short to time"
        if any(part.busy for part in (self.before.part, self.after.part)):
            return "not decided"
        ratio = after.median / before.median
        if after.lower > before.upper and ratio > 1 + LEAST:
            return "slower"
        return "faster" if after.upper < before.lower and ratio < 1 / (1 + LEAST) else "same"

    @property
    def speedup(self):
        """Time before over time after; None if a time is too short for the clock."""
        before, after = self.samples
        timed = before and after and before.median and after.median
        return before.median / after.median if timed else None

    @property
    def launches(self):
        """Return the number of launches of each report that are compared."""
        return tuple(
            1 if self.alike else len(row.result["seconds"]["values"])
            for row in (self.before, self.after)
            if row
        )

    @property
    def moved(self):
        """Return the differences, in sentences."""
        held = self.before and self.after and self.before.roof and self.after.roof
        return rendered("moved.txt", c=self).splitlines() if held else []

    @property
    def texts(self):
        """Return ("Before" or "After", costliest kernel) of each report if the operations of their lines
        differ."""
        rows = [("Before", self.before), ("After", self.after)]
        kernels = [
            (when, row.roof["kernels"][0]) for when, row in rows if row and row.roof and row.roof["kernels"]
        ]
        if len(kernels) < 2 or _done(kernels[0][1]) == _done(kernels[1][1]):
            return []
        return kernels

    def dot(self, view):
        """Return the change's mark in a plot of both reports, or None where a report has no mark."""
        old, new = (row and row.dot(view) for row in (self.before, self.after))
        link = f"change{self.number}"
        return replace(new, before=old, number=str(self.number), link=link) if old and new else None


def _samples(result, whole):
    first, *rest = map(float, result["seconds"]["values"])  # at least one
    values = first, *rest
    return Samples((total(result),) if whole and result["case"] == PROGRAM else values)


def _in_words(s):
    return in_words(s) if len(s.values) > 1 else scaled(s.median, "s")


def _done(kernel):
    """Return the operations of a kernel's lines, by their source."""
    return {kernel["source"].get(place, place): done for place, done in kernel["lines"].items()}


def read(path):
    """Return a saved report; see `portable.roofline.documents.read`.

    Raises
    ------
    InputError
        The file is no report, or damaged; the message names the file.
    """
    document = documents.read(path)
    try:
        for row in _rows(parts_of(document)).values():
            _samples(row.result, False)
        _machines(document)
    except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
        raise InputError(f"'{path}' is damaged: {one_line(error)}.") from error
    return document


def _rows(parts):
    """Return {(method, source, size, space): Row}."""
    found = {}
    for part in parts:
        for row in sorted(part.rows, key=_work):
            r, again = row.result, 1
            name = r["method"]
            while (
                key := (name, r["source"], r["size"], r["space"])
            ) in found:  # launches of a program with other shapes
                again += 1
                name = f"{r['method']} ({again})"
            found[key] = row
    return found


def _work(row):
    """Return a key that sorts launches of one name and size by their work, independent of their time."""
    roof = row.roof or {"compulsory_bytes": 0, "flops": 0}
    return roof["compulsory_bytes"], roof["flops"]


def _machines(document):
    """Return {space: facts that identify the machine}."""
    return {part["space"]: {name: part["machine"][name] for name in _MACHINE} for part in document["parts"]}


def changes(before, after, across=False):
    """Return the changes between two reports, the worst first.

    Rows with the same method, input and space are paired. Of the others, a method that occurs once in each
    report is compared across different inputs; a program's kernel by the sum of all its launches.

    Parameters
    ----------
    before, after : dict, see `read`
    across : bool
        Whether the reports may be of different machines or spaces.

    Raises
    ------
    InputError
        The machines differ without `across`, or the reports have no row in common.
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
                f"the reports are of different machines ({'; '.join(told)}). Pass --across to compare them"
                " anyway."
            )
    old, new = _rows(parts_of(before)), _rows(parts_of(after))
    found = []
    # pair with equal spaces first, then across spaces
    ways = (True, slice(None)), (True, slice(0, 3)), (False, slice(0, 4, 3)), (False, slice(0, 1))
    for alike, kind in ways[:: 1 if across else 2]:
        for key in _unique_parts(old, kind) & _unique_parts(new, kind):
            was, now = (next(k for k in rows if k[kind] == key) for rows in (old, new))
            found.append(Change(now[0], old.pop(was), new.pop(now), alike))
    if not found:
        raise InputError(
            "no method with the same input and space is in both reports: there is nothing to compare."
        )
    found += [Change(key[0], row, None) for key, row in old.items()]
    found += [Change(key[0], None, row) for key, row in new.items()]
    found.sort(key=lambda c: (c.speedup is None, c.speedup, c.method))
    return [replace(change, number=k) for k, change in enumerate(found, 1)]


def _unique_parts(rows, kind):
    """Return parts of keys that belong to exactly one row."""
    parts = [key[kind] for key in rows]
    return {part for part in parts if parts.count(part) == 1}


def table(found):
    """Return the table for the terminal."""
    rows = (
        (c.method, c.about, c.space, *c.times, times(c.speedup) if c.speedup else "", c.verdict)
        for c in found
    )
    caption = (
        "before / after: above 1 is faster; same: quartiles meet, or less than 5 %; not decided: a machine"
        " was busy"
    )
    return grid("Before and after", "method<|input<|?space<|before|after|before / after|<", rows, caption)


def lead(found):
    """Return a summary of two sentences."""
    kinds = [c.verdict for c in found]
    timed = [c for c in found if c.speedup and c.verdict != "same"]
    most = max(timed, key=lambda c: max(c.speedup, 1 / c.speedup), default=None)
    return rendered("lead.txt", kinds={kind: kinds.count(kind) for kind in kinds}, n=len(found), most=most)


def plots(found):
    """Return (title, Axes, dots) of the rows in both reports, one plot for each pair of spaces, with the
    roofs of both if machines or spaces differ, else those of the later report."""
    pairs = {}
    for c in found:
        if c.before and c.after and c.before.part.ceilings and c.after.part.ceilings:
            pairs.setdefault((c.before.part.number, c.after.part.number), []).append(c)
    made = []
    for same in pairs.values():
        old, new = same[0].before.part, same[0].after.part
        names = [f"{part.space} ({part.hardware})" for part in (old, new)]
        across = names[0] != names[1]
        roofs = dict(zip(names, (old.ceilings, new.ceilings), strict=True)) if across else {"": new.ceilings}
        for view in (FLOPS, OTHERS):
            dots = [dot for dot in (c.dot(view) for c in same) if dot]
            if dots and all(view.roofs(ceilings) for ceilings in roofs.values()):
                made.append((" and ".join(dict.fromkeys(names)), Axes(dots, roofs, view), dots))
    return made


def page(before, after, found):
    """Return the page of a comparison as HTML."""
    overlays = [
        (title, *(Plot(axes.sized(size), dots, f"{title}, before and now") for size in (WIDE, NARROW)))
        for title, axes, dots in plots(found)
    ]
    parts = [*parts_of(before), *parts_of(after)]
    told = {"title": "Before and after", "words": lead(found), "changes": found, "overlays": overlays}
    return rendered("diff.html", parts=parts, **told)
