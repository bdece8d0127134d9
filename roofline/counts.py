"""Store the counts of one launch, by line, operation and type, and compute the sums that reports need."""

from __future__ import annotations

import collections
import dataclasses
import inspect
import linecache
import math
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any


import numpy as np

import portable as pk
from portable.roofline.units import picked
from portable.roofline.grid import grid
from portable.roofline.operation_mix import conversions, executed_totals
from portable.roofline.templates import rendered
from portable.roofline.touched import SIZES, accesses

if TYPE_CHECKING:
    from rich.table import Table

ARITHMETIC = {"+": 1, "-": 1, "*": 1, "/": 1, "//": 1, "%": 1, "fma": 2}
LISTED = set("compare neg abs min max select convert rint floor ceil trunc copysign".split())
LAYER = os.path.dirname(inspect.getfile(pk)) + os.sep  # the folder of portable's sources
LINE = 64  # bytes of a cache line of a CPU
LOGIC = set("& | ^ << >> ~".split())


@dataclass(frozen=True)
class Counts:
    """Store the counts of one launch. Every number is counted, none is estimated.

    Attributes
    ----------
    kernel, place, policy : str
    text : dict of (line, operation, dtype) to int
        Operations of the source, as `portable.count` returns them.
    executed : dict of (line, instruction, LLVM type) to int, or None
        Operations of the code optimised for the launch's space, including the layer's code around the kernel.
    masked : float
        Share of inactive lanes among the lanes of packs, or of a GPU's warps, for which operations were
        executed; 0 without packs, and for teams on a GPU.
    arrays : dict of str to (read, written), bytes
        Compulsory bytes of each argument: each touched element counts once. Arguments that share memory have
        one entry: "x, y".
    on_device : bool
        True if the launch is one of a GPU.
    notes : list of str
        Caveats for the reader: data-dependent counts, declared costs that disagree, ...
    apart : int
        Elements that neighbouring threads access at places that are not adjacent (cuda, without reducers).
    occupancy : str
        Resident threads of a GPU and registers of each, in words.
    lines : dict of str to (read, written)
        Lines of 64 bytes that contain the touched elements, as `arrays`.
    moves : dict of str to int
        For each argument, the number of accesses to another line than the preceding access at the same place
        of the source.
    beyond : dict of int to (int, int)
        {bytes of all workers' caches together: (bytes fetched, bytes written back)} with least-recently-used
        replacement, from a sample of the accesses, in the order of the indices. A line that is only written
        is not fetched.
    alike : int
        Bytes loaded separately by each thread although all threads of a warp load the same element (cuda,
        without reducers).
    spilled : int
        Bytes of registers spilled to the stack and reloaded in loops, in a CPU's code.
    local : int
        Bytes of a GPU thread's local memory: spilled registers and private arrays.
    banks : (int, int)
        For a sample of a GPU's accesses to scratch: requests to its memory, and requests without bank
        conflicts between words of a warp.
    by_data : frozenset of str
        Arguments whose accessed places depend on data.
    since : int
        Bytes of other arrays that a program's launches touch between two launches of this kind.
    alone : float
        Seconds of a launch of one block or team, the slowest of several, in a graph of several launches;
        measured, not counted (cuda, without reducers).
    """

    kernel: str
    place: str
    policy: str
    text: dict[tuple[str, str, str], int]
    executed: dict[Any, int] | None
    masked: float
    arrays: dict[str, tuple[int, int]]
    on_device: bool = False
    notes: list[str] = field(default_factory=list)
    apart: int = 0
    occupancy: str = ""
    lines: dict[str, tuple[int, int]] = field(default_factory=dict)
    moves: dict[str, int] = field(default_factory=dict)
    beyond: dict[int, tuple[int, int]] = field(default_factory=dict)
    alike: int = 0
    spilled: int = 0
    local: int = 0
    banks: tuple[int, int] = (0, 0)
    by_data: frozenset[str] = frozenset()
    alone: float = 0.0
    since: int = 0

    def _sum(self, wanted):
        return sum(n * wanted(operation, dtype) for (_, operation, dtype), n in self.text.items())

    def _by(self, key, wanted):
        """Return the sums of the counts of the `wanted` operations, grouped by `key(operation, type)`."""
        found = collections.Counter()
        for (_, *what), n in self.text.items():
            if times := wanted(*what):
                found[key(*what)] += n * times
        return dict(found)

    @property
    def flops_by_dtype(self) -> dict[str, int]:
        """Floating-point operations of the source: {"float64": n, ...}."""
        return self._by(
            lambda operation, dtype: dtype,
            lambda operation, dtype: dtype.startswith("float") * ARITHMETIC.get(operation, 0),
        )

    @property
    def flops(self) -> int:
        """Floating-point operations of the source, all precisions."""
        return sum(self.flops_by_dtype.values())

    @property
    def special(self) -> dict[tuple[str, str], int]:
        """Special functions: {("exp", "float64"): n, ...}."""
        return self._by(lambda *what: what, lambda operation, _: _is_special(operation))

    @property
    def integer(self) -> int:
        """Integer operations of the source, including index arithmetic."""
        return self._sum(
            lambda operation, dtype: "int" in dtype and (operation in ARITHMETIC or operation in LOGIC)
        )

    @property
    def conversions(self) -> dict[str, int]:
        """Executed conversions between integers and floats, or floats of two sizes: {"int64 to float64": n};
        empty if executed operations were not counted."""
        return conversions(self.executed or {})

    @property
    def comparisons(self) -> int:
        """Comparisons of the source, of all types."""
        return self._sum(lambda operation, _: operation == "compare")

    @property
    def atomics(self) -> dict[tuple[str, str], int]:
        """Atomic operations: {("add", "int64"): n, ...}."""
        return self._by(
            lambda operation, dtype: (operation.split(" ")[1], dtype),
            lambda operation, _: operation.startswith("atomic "),
        )

    @property
    def accesses_by_argument(self) -> dict[str, int]:
        """Return the number of reads, writes and additions of each argument."""
        found: dict[str, int] = collections.Counter()
        for (_, operation, _), n in self.text.items():
            if accesses(operation, ("load ", "store ", "atomic ")):
                found[operation.rpartition(" ")[2]] += n
        return found

    def _requested(self, *ways):
        return self._sum(lambda operation, dtype: accesses(operation, ways) * SIZES.get(dtype, 0))

    @property
    def loaded(self) -> int:
        """Requested bytes of loads: every load of an argument's element, atomics included."""
        return self._requested("load ", "atomic ")

    @property
    def stored(self) -> int:
        """Requested bytes of stores: every store, atomics included."""
        return self._requested("store ", "atomic ")

    @property
    def scratch(self) -> int:
        """Bytes loaded from and stored to a team's scratch."""
        return self._sum(lambda operation, dtype: operation.endswith("(scratch)") * SIZES.get(dtype, 0))

    @property
    def compulsory(self) -> int:
        """Compulsory bytes: of each argument the read bytes and the written bytes, each counted once."""
        return sum(map(sum, self.arrays.values()))

    @property
    def reach(self) -> int:
        """Size in bytes of a cache that retains a launch's data until the next launch."""
        return self.compulsory + self.since

    @property
    def line_bytes(self) -> int:
        """Bytes of the lines that must be moved, or of the elements where no lines were counted."""
        return LINE * sum(map(sum, self.lines.values())) if self.lines else self.compulsory

    def passed(self, capacity: float) -> float:
        """Return bytes that caches of a capacity fetch and write back; 0 if they hold all touched data.

        Parameters
        ----------
        capacity : float, bytes
            Of the caches of all cores together.

        Returns
        -------
        float : NaN where no accesses were sampled
        """
        if not self.beyond or self.line_bytes <= capacity:
            return 0.0 if self.beyond else math.nan
        sizes = np.log(list(self.beyond))
        moved = np.log([max(sum(both), 1) for both in self.beyond.values()])
        return float(np.exp(np.interp(math.log(capacity), sizes, moved)))

    @property
    def intensity(self) -> float | None:
        """Flops per compulsory byte, or None where nothing is moved."""
        return self.flops / self.compulsory if self.compulsory else None

    @property
    def executed_totals(self) -> dict[str, Any] | Any:
        """Executed operations: flops by precision, special functions, loads and stores; None if not
        counted."""
        return executed_totals(self.executed) if self.executed is not None else None

    def by_line(self) -> dict[str, dict[str, int]]:
        """{line: {operation and dtype: n}} of the source, in the order of its lines."""
        found = {}
        for (line, operation, dtype), n in self.text.items():
            row = found.setdefault(line, collections.Counter())
            row[f"{operation} {dtype}".strip()] += n
        return {line: dict(found[line]) for line in sorted(found, key=_line_order)}

    def table(self) -> Table:
        """Return the table for the terminal and for a notebook."""
        named = {
            **{f"flops {dtype}": n for dtype, n in self.flops_by_dtype.items()},
            **_joined(self.special),
            **{f"atomic {name}": n for name, n in _joined(self.atomics).items()},
            "integer operations": self.integer,
            "comparisons": self.comparisons,
            "bytes, compulsory": self.compulsory,
            "bytes, in lines touched": self.line_bytes,
            "bytes, loaded": self.loaded,
            "bytes, stored": self.stored,
            "bytes, scratch": self.scratch,
        }
        caption = "; ".join([*self.explanation(), *self.notes])
        return grid(
            f"{self.kernel}, {self.policy}",
            "counted<|",
            ((name, f"{n:,}") for name, n in named.items()),
            caption,
        )

    def _repr_html_(self):
        """Return the counts, and the kernel's source with the operations of each line."""
        kernel = self.as_dict() | {"source": self.source()}
        return rendered("counts.html", kernel=kernel, sentences=[*self.explanation(), *self.notes])

    def source(self) -> dict[str, str]:
        """{place: source line} of the kernel, and of the functions that it calls."""
        file, _, first = self.place.rpartition(":")
        lines = linecache.getlines(file)[int(first) - 1 :] if first.isdigit() else []
        found = {}
        if lines:
            found = {
                f"{file}:{k}": line.rstrip() for k, line in enumerate(inspect.getblock(lines), int(first))
            }
        for place in self.by_line():
            file, _, number = place.rpartition(":")
            if text := linecache.getline(file, int(number)).rstrip() if number.isdigit() else "":
                found.setdefault(place, text)
        return found

    def explanation(self) -> list[str]:
        """Explanations of differences between the executed flops and those of the source."""
        if self.executed is None:
            return ["executed operations were not counted"]
        flops, executed = self.flops, sum(self.executed_totals["flops"].values())
        sentences = [f"executed: {executed:,} flops; of the text: {flops:,}"]
        if self.masked > 0:  # also if no flop but an exp is masked
            idle = "idle beside their warp's" if self.on_device else "masked off, and computed all the same"
            sentences.append(f"{self.masked:.2%} of the lanes were {idle}")
        if executed < flops:
            sentences.append("what is the same for all lanes, or for all trips of a loop, is computed once")
        if executed > flops and not self.on_device:
            sentences += self._more()
        if executed > flops and self.on_device:
            sentences.append(
                "partial sums of threads, warps and blocks are combined, by every thread of them"
            )
        return sentences

    def _more(self):
        """Return the lines for which a CPU's compiled code does more flops than the source: those around it,
        or the line with most additional flops."""
        more = collections.Counter()  # by line; all lines of the layer have one entry
        for (line, operation, dtype), n in self.text.items():
            more[_line_of_kernel(line)] -= n * ARITHMETIC.get(operation, 0) * dtype.startswith("float")
        for key, n in self.executed.items():
            more[_line_of_kernel(key[0])] += sum(executed_totals({key: n})["flops"].values())
        if (around := more.pop("", 0)) > 0:
            yield f"partial sums of packs, blocks and teams are combined: {around:,} flops more"
        line = max(more, key=more.get, default="")
        if more[line] > 0:
            yield (
                f"line {line.rpartition(':')[2]}: {more[line]:,} flops more, of lanes that are masked off,"
                " that fill a pack, or that compute the same"
            )

    def as_dict(self) -> dict[str, Any]:
        """Return the counts as a JSON object."""
        return {
            **picked(self, "kernel place policy integer comparisons notes"),
            "provenance": "counted",
            "flops": self.flops_by_dtype,
            "special": _joined(self.special),
            "atomics": _joined(self.atomics),
            "bytes": {**picked(self, "compulsory loaded stored scratch"), "lines": self.line_bytes},
            "lines": self.by_line(),
            "executed": self.executed_totals,
            "masked_lanes": self.masked,
        }


def _joined(pairs):
    return {" ".join(key): n for key, n in pairs.items()}


def _line_of_kernel(line):
    """Return a line of a kernel, or "" for a line of the layer."""
    return "" if line.startswith(LAYER) else line


def _line_order(line):
    file, _, number = line.rpartition(":")
    return file, int(number or 0)


def _is_special(operation):
    plain = operation in ARITHMETIC.keys() | LISTED | LOGIC
    return not (plain or operation.startswith(("team.", "load ", "store ", "atomic ")))


def mean(weighted):
    """Return the weighted mean Counts of a launch, from a list of (weight, Counts) of one kernel and
    policy."""
    first, total = weighted[0][1], sum(weight for weight, _ in weighted)
    if len(weighted) == 1:
        return first

    def of(quantity):
        sums = collections.Counter()
        for weight, counts in weighted:
            for key, n in quantity(counts).items():
                sums[key] += weight * n
        return {key: round(n / total) for key, n in sums.items()}

    def both_ways(name):
        ways = of(lambda c: {(k, way): both[way] for k, both in getattr(c, name).items() for way in (0, 1)})
        return {key: (ways[key, 0], ways[key, 1]) for key, _ in ways}

    common = set.intersection(*(set(counts.beyond) for _, counts in weighted))
    notes = list(dict.fromkeys(note for _, counts in weighted for note in counts.notes))
    return dataclasses.replace(
        first,
        text=of(lambda counts: counts.text),
        executed=None if any(c.executed is None for _, c in weighted) else of(lambda c: c.executed),
        masked=sum(weight * counts.masked for weight, counts in weighted) / total,
        arrays=both_ways("arrays"),
        lines=both_ways("lines"),
        moves=of(lambda counts: counts.moves),
        beyond={size: both for size, both in both_ways("beyond").items() if size in common},
        **of(lambda counts: picked(counts, "apart alike spilled")),
        local=max(counts.local for _, counts in weighted),
        banks=tuple(sum(weight * counts.banks[k] for weight, counts in weighted) for k in (0, 1)),
        notes=[*notes, f"the mean of {len(weighted):,} counts: launches of this kind differ"],
    )
