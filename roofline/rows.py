"""A report's document as rows: what the page, the tables and the figures have in common."""

from collections import defaultdict
from dataclasses import dataclass

from roofline.ceiling import Ceilings
from roofline.roofplot import FLOPS, OTHERS, SMALL, Axes, Dot

SMALLEST = 0.1  # of a call's time, below which a kernel has no mark of its own
PROGRAM = "script"  # the case of launches of a program, whose times add up to the program's


@dataclass(frozen=True)
class Row:
    """One result of a document.

    Attributes
    ----------
    number : int
        Unique in the document; it stands beside the row's mark.
    part : Part
    result : dict
    weight : float or None
        Share of the program's time in launches; None where the results are calls of their own.
    """

    number: int
    part: "Part"
    result: dict
    weight: float | None

    @property
    def roof(self):
        """The result's roof, a dict, or None."""
        return self.result["roof"]

    @property
    def place(self):
        """Where it ran: the space, and the machine where the document has several."""
        return self.part.place

    @property
    def about(self):
        """The input in words."""
        r = self.result
        return f"{r['source']}, {r['size']:,} {r['unit']}"

    def dot(self, view):
        """The row as a Dot of a view, or None where it has no such operations."""
        roof = self.roof
        return roof and self._dot(
            view, self.number, self.result["method"], roof, roof["seconds"]["value"], self.weight or 0.2
        )

    def kernels(self, view):
        """Dots of the row's kernels but the smallest, their area the share of the call's time."""
        found = (
            self._dot(view, k, kernel["label"], _of_call(kernel), kernel["seconds"], kernel["share_of_time"])
            for k, kernel in enumerate(self.roof["kernels"], 1)
            if kernel["share_of_time"] >= SMALLEST
        )
        return [dot for dot in found if dot]

    def _dot(self, view, number, name, roof, seconds, share):
        operations = _operations(roof, view)
        if not (operations and roof["compulsory_bytes"] and seconds):
            return None
        return Dot(
            number,
            f"{name}, {self.place}",
            operations,
            roof["compulsory_bytes"],
            seconds,
            roof["attainable_seconds"]["value"],
            roof["level"],
            roof["near_bytes"],
            self.part.near_level,
            share,
            f"row{self.number}",
            roof["bound_by"],
        )


def _of_call(kernel):
    """A kernel's sums over its launches, in the words of a whole call."""
    n = kernel["launches"]
    return {
        "flops": n * sum(kernel["flops"].values()),
        "special": n * sum(kernel["special"].values()),
        "operations": n * kernel["operations"],
        "compulsory_bytes": n * kernel["bytes"]["compulsory"],
        "near_bytes": n * kernel["near_bytes"],
        "attainable_seconds": {"value": kernel["attainable_seconds"]},
        "level": kernel["level"],
        "bound_by": kernel["bound_by"],
    }


def _operations(roof, view):
    """Operations of a view; kernels without floating-point work stand in that of the others."""
    if view is FLOPS:
        return roof["flops"]
    return roof["operations"] if not roof["flops"] and not roof["special"] else 0


class Part:
    """One space of one machine: its facts, ceilings and axes."""

    def __init__(self, number, content, several):
        self.number, self.content = number, content
        self.space, self.machine = content["space"], content["machine"]
        self.hardware = self.machine["device"] or f"{self.machine['cpu']}, {self.machine['cores']} cores"
        self.place = f"{self.space} ({self.hardware})" if several else self.space
        self.ceilings = Ceilings.from_dict(content["ceilings"]) if content["ceilings"] else None
        self.near_level = ""
        if self.ceilings:
            self.near_level = (
                "shared" if "bandwidth shared" in self.ceilings.items else self.ceilings.levels[0][0]
            )
        self.rows, self.axes = [], {}

    def dots(self, view):
        """The rows that a view can show."""
        return [dot for dot in (row.dot(view) for row in self.rows) if dot]

    def scale(self):
        """Axes of each view that has something to show, common to all plots of the part."""
        for view in (FLOPS, OTHERS):
            dots = self.dots(view)
            if dots and self.ceilings and view.roofs(self.ceilings):
                inner = [dot for row in self.rows if row.roof for dot in row.kernels(view)]
                self.axes[view] = Axes([*dots, *inner], self.ceilings, view)

    def small(self, view):
        """The id of the roofs that small plots share."""
        return f"roofs{self.number}{'o' if view is OTHERS else ''}", self.axes[view].sized(SMALL)


def parts_of(document):
    """The Parts of a document, with their rows; results of one method on one input get neighbouring
    numbers."""
    contents = document["parts"]
    several = len({tuple(sorted((k, str(p["machine"][k])) for k in ("cpu", "device"))) for p in contents}) > 1
    parts = [Part(k, content, several) for k, content in enumerate(contents)]
    grouped = defaultdict(list)
    for part in parts:
        for result in part.content["results"]:
            grouped[result["case"], result["method"], result["source"]].append((part, result))
    launched = sum(_total(r) for part in contents for r in part["results"] if r["case"] == PROGRAM)
    pairs = [pair for found in grouped.values() for pair in found]
    for number, (part, result) in enumerate(pairs, 1):
        weight = _total(result) / launched if result["case"] == PROGRAM and launched else None
        part.rows.append(Row(number, part, result, weight))
    for part in parts:
        part.scale()
    return parts


def _total(result):
    """Seconds of all launches of a kind that a program made, by their median: a first one may hold the
    loading of code."""
    return result["seconds"]["median"] * len(result["seconds"]["values"])


def program(parts):
    """(seconds of the program, seconds of it in launches) of reports of a program; None of others."""
    whole = sum(part.content["program_seconds"] or 0.0 for part in parts)
    return (whole, sum(_total(row.result) for part in parts for row in part.rows)) if whole else None


def rows_of(parts):
    """All rows in their order."""
    return sorted((row for part in parts for row in part.rows), key=lambda row: row.number)


def sweeps(rows):
    """{method: {line: [(size, Row), ...]}}: methods that were run at several sizes, or on several numbers of
    threads.

    A line is one space; where only the space differs, sizes are threads.
    """
    by_method = defaultdict(list)
    for row in rows:
        if row.roof:
            by_method[row.result["method"]].append(row)
    found = {}
    for method, same in by_method.items():
        lines = defaultdict(dict)
        for row in same:
            lines[row.place].setdefault(row.result["size"], row)
        if any(len(line) > 2 for line in lines.values()):
            found[method] = {place: sorted(line.items()) for place, line in lines.items()}
    return found
