"""`compare CASE --against REV`: time this revision against another, in two processes that alternate.

A *round* of a row is a sample of each side, one right after the other; the side that goes first alternates.
After a few rounds both processes are restarted: the layout of a process's memory changes its times by some
per cent for its whole life, so the rounds of one pair of processes (a *sitting*) are together no more than
one draw of this effect, however many there are.

The result of a row is the median of its rounds' ratios, this revision's seconds over the other's. Its 95 %
interval is from a bootstrap in two stages: sittings are drawn with replacement, then rounds within each.
"""

import math
import re
import time
from dataclasses import dataclass, field

import numpy as np
from portable.roofline.grid import grid

from portable.roofline.process import SideDied, SideError
from portable.roofline.timing import MIN_SECONDS, QUEUE, Samples, calls_that_fill
from portable.roofline.units import finite, in_words, picked, relative_difference

SCHEMA_VERSION = 1
SLOWER = 1.02  # this revision is slower if the interval begins here or above
NARROW, WIDE = 0.04, 0.10  # widths of intervals over medians: small enough to stop, too large to decide
# the fewest: five draws of a continuous quantity lie on both sides of its median with a probability of 94 %
SITTINGS = 5
ROUNDS = 4  # at least, of a row in a sitting, unless they take longer than ROW_SECONDS
ROW_SECONDS = 4.0
RESAMPLES = 1000
PAUSE = 0.005  # seconds between the sides: idle workers of the pool spin for a tenth of a millisecond at most

NOT_SLOWER, IS_SLOWER, UNDECIDED = "not slower", "slower", "not decided"


@dataclass(frozen=True)
class Interval:
    """Store a median of ratios and its 95 % interval."""

    median: float
    lower: float
    upper: float

    @property
    def width(self):
        """Return the interval's width as a share of the median."""
        return (self.upper - self.lower) / self.median

    def as_dict(self):
        """Return the interval as a JSON object."""
        return {name: finite(value) for name, value in vars(self).items()}


def interval(sittings, seed=1) -> Interval:
    """Return the median of ratios and its 95 % interval, by a bootstrap in two stages.

    Parameters
    ----------
    sittings : list of list of float
        The ratios of each sitting's rounds; none is empty. With a single round the interval's ends are NaN.
    seed : int
    """
    median = float(np.median(np.concatenate([np.asarray(ratios, float) for ratios in sittings])))
    if sum(map(len, sittings)) < 2:
        return Interval(median, math.nan, math.nan)
    random = np.random.default_rng(seed)
    sizes = np.array([len(ratios) for ratios in sittings])
    table = np.full((len(sittings), sizes.max()), np.inf)
    for line, ratios in zip(table, sittings, strict=True):
        line[: len(ratios)] = ratios
    drawn = random.integers(0, len(sittings), (RESAMPLES, len(sittings), 1))
    rounds = np.floor(random.random((RESAMPLES, len(sittings), sizes.max())) * sizes[drawn]).astype(int)
    unused = np.arange(sizes.max()) >= sizes[drawn]  # places beyond the rounds of a shorter sitting
    ordered = np.sort(np.where(unused, np.inf, table[drawn, rounds]).reshape(RESAMPLES, -1), axis=1)
    last, each = sizes[drawn].sum(axis=(1, 2)) - 1, np.arange(RESAMPLES)
    medians = (ordered[each, last // 2] + ordered[each, (last + 1) // 2]) / 2
    lower, upper = (float(v) for v in np.quantile(medians, (0.025, 0.975)))
    return Interval(median, min(lower, median), max(upper, median))


@dataclass
class Row:
    """Store the seconds of one duel's own side in both revisions: (this, other) of each round, by sitting."""

    title: str
    label: str
    places: tuple[int, int] = (0, 0)  # index among the rows of this revision and of the other
    tolerance: float = 0.0
    host_only: bool = False
    has_result: bool = False
    calls: int | None = None
    sittings: list[list[tuple[float, float]]] = field(default_factory=list)
    difference: float | None = None
    problem: str | None = None

    @property
    def rounds(self):
        """Return the rounds of all sittings."""
        return sum(self.sittings, [])

    @property
    def interval(self):
        """Return the interval of this revision's time over the other's; None without rounds."""
        found = [[this / other for this, other in sitting] for sitting in self.sittings if sitting]
        return interval(found) if found else None

    @property
    def verdict(self):
        """Return NOT_SLOWER, IS_SLOWER or UNDECIDED."""
        found = self.interval
        if self.problem or found is None or len(self.sittings) < SITTINGS or not found.width <= WIDE:
            return UNDECIDED
        return NOT_SLOWER if found.lower < SLOWER else IS_SLOWER

    @property
    def done(self):
        """Return True if no further round is needed."""
        return self.problem is not None or (len(self.sittings) >= SITTINGS and self.interval.width < NARROW)

    def seconds(self, side):
        """Return the samples of this revision (0) or of the other (1)."""
        return Samples(tuple(pair[side] for pair in self.rounds), self.calls)

    def as_dict(self):
        """Return the row as a JSON object."""
        found = self.interval
        return {
            **picked(self, "title problem verdict"),
            "ours": self.label,
            "this_seconds": self.seconds(0).as_dict() if found else None,
            "other_seconds": self.seconds(1).as_dict() if found else None,
            "this_over_other": found and found.as_dict(),
            "sittings": len(self.sittings),
            "rounds": len(self.rounds),
            "relative_difference": finite(self.difference),
        }


@dataclass
class Outcome:
    """Collect the results so far; filled in place, so that an interruption loses nothing."""

    name: str  # of the other revision
    rows: list[Row] = field(default_factory=list)
    only_this: list[str] = field(default_factory=list)
    only_other: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def verdict(self):
        """Return the worst verdict of the rows; an undecided row did not pass."""
        verdicts = {row.verdict for row in self.rows}
        return IS_SLOWER if IS_SLOWER in verdicts else NOT_SLOWER if verdicts == {NOT_SLOWER} else UNDECIDED

    @property
    def passed(self):
        """Return True if no row is slower, undecided, or has results that disagree."""
        return self.verdict == NOT_SLOWER and not any(row.problem for row in self.rows)

    def as_dict(self):
        """Return the outcome as a JSON object."""
        return {
            "rows": [row.as_dict() for row in self.rows],
            **picked(self, "only_this only_other seconds verdict"),
        }

    def table(self):
        """Return the table for the terminal."""
        caption = (
            f"times: median (quartiles); this / {self.name}: median (95 % interval), above 1 this revision is"
            f" slower; '{NOT_SLOWER}': the interval begins below {SLOWER}; '{UNDECIDED}': wider than"
            f" {WIDE:.0%}, or fewer than {SITTINGS} sittings"
        )
        rows = []
        for row in self.rows:
            found, cells = row.interval, ["", "", ""]
            if found:
                cells = [in_words(row.seconds(side)) for side in (0, 1)]
                ends = f" ({found.lower:.3f} to {found.upper:.3f})" if math.isfinite(found.width) else ""
                cells.append(f"{found.median:.3f}{ends}")
            sittings = f"{len(row.rounds)} in {len(row.sittings)}"
            rows.append((f"{row.title}; {row.label}", *cells, sittings, row.verdict))
        columns = f"work<|this|{self.name}|this / {self.name}|?rounds in sittings|verdict<"
        return grid(f"this revision against {self.name}", columns, rows, caption)


def match(here, there):
    """Return rows of both revisions, matched by title and label, and the titles of unmatched rows.

    Numbers of operations in a title may differ between revisions for the same work, if they were counted in
    compiled code.

    Parameters
    ----------
    here, there : list of dict
        The rows that each process reports.

    Returns
    -------
    rows : list of Row
    only_here, only_there : list of str
    """
    rows, left = [], dict(enumerate(there))
    for place, row in enumerate(here):
        own = row["label"], work(row["title"])
        other = next((k for k, r in left.items() if (r["label"], work(r["title"])) == own), None)
        if other is not None:
            del left[other]
            rows.append(Row(**row, places=(place, other)))
    found = {row.places[0] for row in rows}
    return (
        rows,
        [row["title"] for place, row in enumerate(here) if place not in found],
        [row["title"] for row in left.values()],
    )


def work(title):
    """Return a title without its counted numbers: ", 5.6 G operations, 560 a pair" and the like."""
    return re.sub(r", [\d.,]+ \w? ?operations( executed)?(, [\d.,]+ a pair)?", "", title)


def run(start, outcome, limit=600.0, on_round=lambda row: None, clock=time.monotonic):
    """Time rounds of all rows until each interval is narrow or time is up.

    Parameters
    ----------
    start : callable without arguments
        Starts the processes of a sitting: a context manager that gives (this, other), each with `rows`,
        `seconds(place, calls)` and `result(place)`.
    outcome : Outcome
    limit : float, seconds
        No round begins after this, except the first of each row.
    on_round : callable of Row
        Called before each round.
    clock : callable
    """
    began = clock()

    def late():
        outcome.seconds = clock() - began
        return outcome.seconds >= limit

    first = True
    while first or not (late() or all(row.done for row in outcome.rows)):
        asked = clock()
        with start() as sides:
            if first:
                outcome.rows, outcome.only_this, outcome.only_other = match(*(side.rows for side in sides))
                first = False
            undecided = [row for row in outcome.rows if not row.done]
            # rounds take at least as long as the preparation
            share = (clock() - asked) / max(len(undecided), 1)
            for row in undecided:
                if late() and row.sittings:
                    break
                on_round(row)
                try:
                    _sit(row, sides, share, late, clock)
                except SideError as error:
                    row.problem = str(error)
                    if isinstance(error, SideDied):
                        break  # the other rows continue in the next sitting
    late()


def _sit(row, sides, share, late, clock):
    """Time one row's rounds in one sitting: ROUNDS, or as many as fill `share` seconds if that is more."""
    if row.calls is None:
        row.calls = _calibrate(row, sides)
    else:
        for side, place in zip(sides, row.places, strict=True):
            side.seconds(place, 1)  # compiles, or loads compiled code
    began, sitting = clock(), []
    row.sittings.append(sitting)
    while not sitting or not (late() or clock() - began > (share if len(sitting) >= ROUNDS else ROW_SECONDS)):
        order = (0, 1) if len(row.rounds) % 2 == 0 else (1, 0)
        seconds = [0.0, 0.0]
        for which in order:
            time.sleep(PAUSE)
            seconds[which] = sides[which].seconds(row.places[which], row.calls)
        sitting.append(tuple(seconds))
    if len(row.sittings) == 1 and row.has_result:
        this, other = (side.result(place) for side, place in zip(sides, row.places, strict=True))
        row.difference = relative_difference(this, other)
        if not row.difference <= row.tolerance:  # also where it is NaN
            row.problem = (
                f"this gave {this!r}, the other {other!r}: they differ by {row.difference:.1e}, beyond"
                f" {row.tolerance:.0e}"
            )


def _calibrate(row, sides):
    """Return the calls of a sample, the same number on both sides: the faster side fills MIN_SECONDS."""
    if row.host_only:
        return QUEUE
    places = list(zip(sides, row.places, strict=True))
    for side, place in places:
        side.seconds(place, 1)  # compiles

    def fastest(calls):
        return min(side.seconds(place, calls) for side, place in places)

    return calls_that_fill(fastest, MIN_SECONDS)[0]
