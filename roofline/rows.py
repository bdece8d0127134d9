"""The rows of a report's document, which the page, the tables and the figures share."""

from collections import defaultdict
from dataclasses import dataclass

from portable.roofline.ceiling import Ceilings
from portable.roofline.checks import BUSY, OWN, caveats
from portable.roofline.roofplot import FLOPS, OTHERS, Axes, Dot
from portable.roofline.verdicts import titled

SMALLEST = 0.1  # share of a call's time below which a kernel has no separate mark
LONGEST = 34  # characters of a mark's label
HELPER = 0.01  # share of every call in which a kernel runs, below which the kernel counts as small
PROGRAM = "script"  # the case of a program's launches, whose times add up to the program's


@dataclass(frozen=True)
class Row:
    """Wrap one result of a document.

    Attributes
    ----------
    number : int
        Unique in the document; printed next to the row's mark.
    part : Part
    result : dict
    weight : float or None
        Share of the program's time in launches; None if the results are independent calls.
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
        """Return the place of the run: the space, and the machine if the document has several."""
        return self.part.place

    @property
    def about(self):
        """The input in words."""
        r = self.result
        return f"{r['source']}, {r['size']:,} {r['unit']}"

    @property
    def share(self):
        """The attainable time over the measured one."""
        return self.roof["share_of_attainable"]

    @property
    def to_gain(self):
        """Return the share of time that would be saved at the roof: of the program's time, else of the
        row's."""
        return (self.weight if self.weight is not None else 1.0) * (1.0 - min(1.0, self.share))

    @property
    def failed(self):
        """The row's failed self-checks that invalidate its share of the roof, in words."""
        checks = (self.roof or {"checks": ()})["checks"]
        return [check["text"] for check in checks if check["check"] in OWN and not check["passed"]]

    @property
    def doubtful(self):
        """Return True if the row's share of the roof is unreliable: a check of the row or of the machine
        failed."""
        of_machine = any(not check["passed"] for check in self.part.content["checks"])
        return bool(self.failed or of_machine or (self.part.ceilings and self.part.ceilings.doubts))

    @property
    def causes(self):
        """The causes of its time as (name, title, gain or None), each once, the most important first."""
        found = {}
        for cause in (self.roof["reason"] or {"causes": ()})["causes"]:
            name, title = titled(cause["name"])
            found.setdefault(name, (name, title, cause.get("gain")))
        return list(found.values())

    @property
    def numbered(self):
        """(number, kernel) of each kernel: a call's only kernel has the number of the row."""
        kernels = self.roof["kernels"]
        return [
            (f"{self.number}.{k}" if len(kernels) > 1 else str(self.number), kernel)
            for k, kernel in enumerate(kernels, 1)
        ]

    def dot(self, view):
        """Return the row as a Dot of a view, or None if it has no operations of that view."""
        roof = self.roof
        method, seconds = self.result["method"], roof and roof["seconds"]["value"]
        return roof and self._dot(view, str(self.number), method, roof, seconds, self.weight or 0.2, self.tag)

    def kernels(self, view):
        """Return Dots of the row's kernels except the smallest; their area is the share of the call's
        time."""
        found = (
            self._dot(
                view, number, kernel["label"], _of_call(kernel), kernel["seconds"], kernel["share_of_time"]
            )
            for number, kernel in self.numbered
            if kernel["share_of_time"] >= SMALLEST
        )
        return [dot for dot in found if dot]

    @property
    def tag(self):
        """The method's name, and the part of its input that other rows of that name do not have."""
        method, words = self.result["method"], self.about.split(", ")
        same = [set(row.about.split(", ")) for row in self.part.rows if row.result["method"] == method]
        own = [word for word in words if not all(word in others for others in same)]
        return _short(", ".join([method, *own]))

    def _dot(self, view, number, name, roof, seconds, share, tag=""):
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
            roof["level_bytes"],
            share,
            f"row{self.number}",
            roof["bound_by"],
            tag,
        )


def _short(text):
    return text if len(text) <= LONGEST else text[: LONGEST - 1].rstrip(", ") + "…"


def _of_call(kernel):
    """Return a kernel's sums over its launches, with the keys of a whole call's roof."""
    n = kernel["launches"]
    return {
        "flops": n * sum(kernel["flops"].values()),
        "special": n * sum(kernel["special"].values()),
        "operations": n * kernel["operations"],
        "compulsory_bytes": n * kernel["bytes"]["compulsory"],
        "level_bytes": {name: n * moved for name, moved in kernel["level_bytes"].items()},
        "attainable_seconds": {"value": kernel["attainable_seconds"]},
        "level": kernel["level"],
        "bound_by": kernel["bound_by"],
    }


def _operations(roof, view):
    """Return the operations of a view; kernels without floating-point work are in the view of other
    operations."""
    if view is FLOPS:
        return roof["flops"]
    return roof["operations"] if not roof["flops"] and not roof["special"] else 0


class Part:
    """Store one space of one machine: its facts, ceilings and axes."""

    def __init__(self, number, content, several):
        self.number, self.content = number, content
        self.space, self.machine = content["space"], content["machine"]
        self.hardware = self.machine["device"] or f"{self.machine['cpu']}, {self.machine['cores']} cores"
        self.place = f"{self.space} ({self.hardware})" if several else self.space
        self.ceilings = Ceilings.from_dict(content["ceilings"]) if content["ceilings"] else None
        self.near_level = self.ceilings.near[0][0] if self.ceilings else ""
        self.rows, self.axes, self.inner = [], {}, {}

    @property
    def busy(self):
        """Return True if other work kept the machine busy."""
        return (self.machine["busy_cores"] or 0.0) > BUSY

    def dots(self, view):
        """Return the dots of the rows that a view can show."""
        return [dot for dot in (row.dot(view) for row in self.rows) if dot]

    def scale(self):
        """Make the axes of each view that is not empty: of the rows, and of the small plots, which contain
        kernels too."""
        for view in (FLOPS, OTHERS):
            dots = self.dots(view) if self.ceilings and view.roofs(self.ceilings) else []
            if dots:
                inner = [dot for row in self.rows if row.roof for dot in row.kernels(view)]
                self.axes[view] = Axes(dots, {"": self.ceilings}, view)
                self.inner[view] = Axes([*dots, *inner], {"": self.ceilings}, view)

    def small(self, view):
        """Return the id of the roofs that the small plots share."""
        return f"roofs{self.number}{'o' if view is OTHERS else ''}"

    @property
    def caveats(self):
        """Return the caveats that precede all figures."""
        return caveats(self.ceilings, self.content["checks"])


def parts_of(document):
    """Return the Parts of a document, with their rows; the results of one method on one input get consecutive
    numbers."""
    contents = document["parts"]
    several = len({tuple(sorted((k, str(p["machine"][k])) for k in ("cpu", "device"))) for p in contents}) > 1
    parts = [Part(k, content, several) for k, content in enumerate(contents)]
    grouped = defaultdict(list)
    for part in parts:
        for result in part.content["results"]:
            grouped[result["case"], result["method"], result["source"]].append((part, result))
    launched = sum(total(r) for part in contents for r in part["results"] if r["case"] == PROGRAM)
    pairs = [pair for found in grouped.values() for pair in found]
    for number, (part, result) in enumerate(pairs, 1):
        weight = total(result) / launched if result["case"] == PROGRAM and launched else None
        part.rows.append(Row(number, part, result, weight))
    for part in parts:
        part.scale()
    return parts


def total(result):
    """Return the seconds of all launches of a kind in a program, as a multiple of the median: the first
    launch may include the loading of code."""
    return result["seconds"]["median"] * len(result["seconds"]["values"])


@dataclass(frozen=True)
class Program:
    """Store a program whose launches a report describes: seconds of the whole and of its launches, the lines
    outside of launches, the costliest first, each {"place", "text", "seconds"}, and, if known, its peak
    memory in bytes and its time line."""

    seconds: float
    launched: float
    lines: list
    memory: int | None
    timeline: dict | None

    @property
    def outside(self):
        """Seconds outside of launches: Python, NumPy, copies and waiting."""
        return max(self.seconds - self.launched, 0.0)

    @property
    def words(self):
        """Return the lines that take this time: "line 12 of run.py, 62%: x = ..."."""
        return "; ".join(
            f"{line['place']}, {line['seconds'] / self.seconds:.0%}: {line['text']}" for line in self.lines
        )

    def leads(self, rows):
        """Return True if the time outside of launches exceeds every kernel's time."""
        return self.outside > max((total(row.result) for row in rows), default=0.0)

    def gain(self, share):
        """Return the program's speedup without a share of the time of its launches."""
        return self.seconds / max(self.seconds - share * self.launched, 1e-9)


def program(parts):
    """Return the Program of a program's report, else None."""
    whole = sum(part.content["program_seconds"] or 0.0 for part in parts)
    launched = sum(total(row.result) for part in parts for row in part.rows)
    told = next((one for part in parts if (one := part.content.get("program"))), {})
    rest = told.get("lines", []), told.get("memory_bytes"), told.get("timeline")
    return Program(whole, launched, *rest) if whole else None


def rows_of(parts):
    """Return all rows in their order."""
    return sorted((row for part in parts for row in part.rows), key=lambda row: row.number)


def kernels_of(rows):
    """Return each kernel with the row in which it took most time, and the names of small kernels; None if
    every row has a single kernel, because the row then describes it.

    Returns
    -------
    dict of "told": list of (Row, kernel, numbers of other rows), "small": names, "least": the share below
    which a kernel is small; or None
    """
    found = {}
    for row in rows:
        for kernel in row.roof["kernels"] if row.roof else ():
            found.setdefault((kernel["label"], kernel["place"], row.place), []).append((row, kernel))
    if not found or all(len(row.roof["kernels"]) == 1 for row in rows if row.roof):
        return None
    told, small = [], []
    for _, places in sorted(found.items(), key=lambda item: item[0]):
        row, kernel = max(places, key=lambda place: place[1]["seconds"])
        if all(other["share_of_time"] < HELPER for _, other in places):
            small.append(kernel["label"])
        else:
            told.append((row, kernel, sorted({other.number for other, _ in places} - {row.number})))
    return {"told": told, "small": list(dict.fromkeys(small)), "least": HELPER}


def sweeps(rows):
    """Return {method: {line: [(size, Row), ...]}} of methods that were run at several sizes or numbers of
    threads.

    A line is one space; if only the space differs, sizes are numbers of threads.
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
