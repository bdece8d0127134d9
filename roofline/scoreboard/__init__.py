"""`python -m portable.roofline scoreboard`: time every headline against its peer, and compare with the
records.

A row's figure is the median of its rounds' ratios, the peer's seconds over ours. Its 95 % interval is that of
`portable.roofline.compare_revisions.interval`: sittings (processes) are drawn with replacement, then rounds
within each. A row whose median is below the record's limit is timed again, with twice as many rounds, in
another process, while there is time: only a row whose interval stays below that of the record, in DECISIVE
processes, is slower. For a record, a row with a wide interval is timed again too, because later runs are
compared with it. Sittings during which other programs used the cores count only if there are no quiet ones,
and then nothing is slower.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from portable.roofline import checks, compare_revisions
from portable.roofline.grid import grid
from portable.roofline.process import Worker
from portable.roofline.revision import HERE
from portable.roofline.scoreboard import headlines, records
from portable.roofline.timing import Samples
from portable.roofline.units import picked, scaled, times

# on a CPU, and on a GPU
LIMITS = 0.90, 0.95  # of the recorded ratio: a row below is slower
MINUTES = 10.0, 6.0  # of a run, at most
SPARE = 5.0  # seconds of these, reserved for the end of a run
DECISIVE = 3  # processes, of a row that is slower: a process's memory, and a minute, change all of its times
SITTINGS = 6  # at most, of a row that seems slower, or whose ratio varies too much for a record
RECORDED = 3  # of every row, for a record

HOLDS, FASTER, SLOWER, UNDECIDED, BUSY = "holds", "faster", "slower", "not decided", "machine busy"
NO_RECORD, NO_PEER, LATE = "no record", "no peer", "no time left"
PEER_CHANGED, FAILED = "peer changed", "failed"
WRONG = (SLOWER, PEER_CHANGED, FAILED)  # verdicts with which a run does not pass

# Idle threads of OpenMP (numba's, scikit-learn's, kEDM's) sleep instead of spinning, which would slow ours.
PASSIVE = {"OMP_WAIT_POLICY": "passive", "GOMP_SPINCOUNT": "0", "KMP_BLOCKTIME": "0"}


@dataclass
class Row:
    """Store a headline, its measurements and its record.

    Parameters
    ----------
    headline : Headline
    record : dict or None
        As in `portable.roofline.scoreboard.records`.
    limit : float
        Share of the recorded ratio below which the row is slower.
    """

    headline: headlines.Headline
    record: dict[str, Any] | None
    limit: float
    title: str = ""
    ours: str = ""
    peer: str = ""
    identity: dict[str, Any] = field(default_factory=dict)
    sittings: list[list[tuple[float, float]]] = field(default_factory=list)  # (ours, peer) seconds of a round
    absent: str | None = None
    problem: str | None = None
    quiet: list = field(default_factory=list)  # the sittings during which other programs left the cores alone
    seconds: float = 0.0  # that its sittings took

    def add(self, told: dict[str, Any]) -> None:
        """Add the result of a sitting: see `portable.roofline.scoreboard.timing_process`."""
        self.seconds += told["seconds"]
        self.title, self.ours = told.get("title", self.title), told.get("ours", self.ours)
        self.absent, self.problem = told.get("absent"), told.get("problem")
        if "ours_seconds" in told:
            self.peer, self.identity = told["peer"], told["identity"]
            self.sittings.append(list(zip(told["ours_seconds"], told["peer_seconds"], strict=True)))
            self.quiet += self.sittings[-1:] * (told["busy_cores"] <= checks.BUSY)

    @property
    def interval(self) -> compare_revisions.Interval:
        """Return the interval of the peer's time over ours."""
        counted = self.quiet or self.sittings
        return compare_revisions.interval([[peer / ours for ours, peer in sitting] for sitting in counted])

    def samples(self, side: int) -> Samples:
        """Return the seconds of ours (0), of the peer (1), or their ratios (2), of all rounds."""
        return Samples(tuple((o, p, p / o)[side] for o, p in sum(self.quiet or self.sittings, [])))

    @property
    def verdict(self) -> str:
        """Return one of the words above.

        A record of other work, for example of another size, is ignored.
        """
        if self.problem:
            return FAILED
        if self.absent:
            return NO_PEER
        if not self.sittings:
            return LATE
        if self.record is None or compare_revisions.work(self.record["title"]) != compare_revisions.work(
            self.title
        ):
            return NO_RECORD
        if self.record["identity"] != self.identity:
            return PEER_CHANGED
        found, ratio = self.interval, self.record["ratio"]
        low, high = ratio["interval"]
        if found.upper < self.limit * low and len(self.quiet) >= DECISIVE:
            return SLOWER
        if found.median < self.limit * ratio["median"]:
            return UNDECIDED if self.quiet else BUSY
        return FASTER if found.lower * self.limit > high else HOLDS

    def may_change(self, recorded: bool) -> bool:
        """Return True if another process may clarify a row: it seems slower, or is `recorded` and varies."""
        seems = (
            self.verdict in (SLOWER, UNDECIDED, BUSY)
            or recorded
            and self.interval.width > compare_revisions.WIDE
        )
        return seems and len(self.sittings) < SITTINGS

    def as_record(self, space: str, facts: dict[str, Any], commit: str) -> dict[str, Any]:
        """Return the row as an entry of a record, on a machine with these facts."""
        found, three = self.interval, [picked(self.samples(side), "median lower upper") for side in range(3)]
        return {
            "name": self.headline.name,
            "space": space,
            "title": compare_revisions.work(self.title),
            **picked(self, "ours peer identity"),
            "ours_seconds": three[0],
            "peer_seconds": three[1],
            "ratio": three[2] | {"interval": [found.lower, found.upper]},
            "rounds": sum(map(len, self.sittings)),
            "sittings": len(self.sittings),
            "seconds": self.seconds / len(self.sittings),
            "command": f"python -m portable.roofline scoreboard --only '{self.headline.name}'",
            "date": facts.get("date", "")[:10],
            "commit": commit,
            "busy_cores": facts.get("busy_cores"),
            **({"host": records.host(facts)} if self.headline.of_host else {}),
        }

    def as_dict(self) -> dict[str, Any]:
        """Return the row as a JSON object."""
        seen = (
            self.as_record("", dict.fromkeys(("cpu", "cpu_id")), "")
            if self.sittings
            else {"name": self.headline.name}
        )
        return seen | picked(self, "verdict absent problem record")

    @property
    def cells(self) -> tuple[str, ...]:
        """Return the cells of the table for the terminal."""
        seen, known = ["", "", ""], ["", ""]
        if self.sittings:
            ratio = self.samples(2)
            seen = [scaled(self.samples(side).median, "s") for side in (0, 1)]
            seen.append(f"{times(ratio.median)} ({times(ratio.lower)} to {times(ratio.upper)})")
        if self.record:
            known = [
                times(self.record["ratio"]["median"]),
                scaled(self.record["ours_seconds"]["median"], "s"),
            ]
        verdict = ": ".join(filter(None, (self.verdict, self.problem or self.absent)))
        return self.headline.name, self.peer or self.headline.peer, *seen, *known, verdict


def table(rows: list[Row], machine: str):
    """Return the table for the terminal."""
    columns = "headline<|?peer<|ours|the peer|peer / ours|on record|?ours on record|verdict<"
    caption = (
        "medians; peer / ours with quartiles: above 1, ours is faster; slower: 95 % interval below"
        f" {rows[0].limit:g} of the recorded one"
    )
    return grid(f"scoreboard of {machine}", columns, [row.cells for row in rows], caption)


def summary(rows: list[Row]) -> str:
    """Return the number of rows with each verdict, and the names of those that fail a run."""
    counts = [f"{n} {verdict}" for verdict, n in Counter(row.verdict for row in rows).most_common()]
    names = [f"{row.headline.name} ({row.verdict})" for row in rows if row.verdict in WRONG]
    return f"{len(rows)} headlines: {', '.join(counts)}" + (f". {'; '.join(names)}" if names else "")


def run(
    rows: list[Row],
    space: str,
    limit: float,
    passes: int = 1,
    on_row: Callable[[Row], None] = lambda row: None,
    sit: Callable[..., None] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Time all rows, group by group, then again those that seem slower, or vary if they are recorded.

    Parameters
    ----------
    rows : list of Row
        Filled in place.
    space : str
    limit : float, seconds
        The run is stopped then; unfinished rows have no result.
    passes : int
        Sittings of every row; several for a record.
    on_row : callable of Row
        Called with each row after it was timed.
    sit : callable (space, names, rounds, seconds, on_result), optional
        Times one sitting: `sitting_of` by default; tests pass another function.
    clock : callable
    """
    began, sit = clock(), sit or sitting_of
    wanted, turn = list(rows), 0
    while wanted:
        for group in _groups(wanted):
            left = limit + began - clock()
            if left <= (sum(map(_cost, group)) if turn else 0.0):
                continue
            by_name = {row.headline.name: row for row in group}

            def add_result(told, by_name=by_name):
                by_name[told["name"]].add(told)
                on_row(by_name[told["name"]])

            rounds = 2 * max(len(row.sittings[0]) for row in group) if turn >= passes else None
            sit(space, list(by_name), rounds, left, add_result)
        turn += 1
        timed = [row for row in wanted if len(row.sittings) == turn and not row.problem]
        wanted = timed if turn < passes else [row for row in timed if row.may_change(passes > 1)]


def _groups(rows):
    """Return the rows grouped by the inputs that one process prepares, the shortest group first."""
    found: dict[tuple, list[Row]] = {}
    for row in rows:
        found.setdefault(row.headline.group, []).append(row)
    return sorted(found.values(), key=lambda group: sum(map(_cost, group)))


def _cost(row):
    """Return the estimated seconds of a row's sitting."""
    if row.sittings:
        return row.seconds / len(row.sittings)
    return row.record["seconds"] if row.record else 0.0


def sitting_of(
    space: str, names: list[str], rounds: int | None, seconds: float, on_result: Callable[[dict], None]
) -> None:
    """Time headlines of one group in a new process.

    Parameters
    ----------
    space, names, rounds
        As in `portable.roofline.scoreboard.timing_process.serve`.
    seconds : float
        The process and its children are ended after this time.
    on_result : callable of dict
        Called with the result of each headline; if the process dies, the missing headlines are problems.
    """
    asked = json.dumps({"space": space, "names": names, "rounds": rounds})
    late, left = threading.Event(), list(names)
    worker = Worker(["-m", "portable.roofline.scoreboard.timing_process", asked], HERE, **PASSIVE)

    def end():
        late.set()
        worker.kill()

    timer = threading.Timer(seconds, end)
    timer.start()
    try:
        for line in worker.process.stdout:
            told = json.loads(line)
            left.remove(told["name"])
            on_result(told)
        words = worker.last_words()
    finally:
        timer.cancel()
        worker.kill()
        worker.close()
    if not late.is_set():
        for name in left:
            on_result({"name": name, "seconds": 0.0, "problem": f"its {words}"})
