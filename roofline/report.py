"""`python -m roofline report`: run every method, and tell how long each took."""

from dataclasses import dataclass, field

from rich.table import Table

from roofline import timing
from roofline.contract import Run, Work
from roofline.timing import Samples
from roofline.units import finite, one_line, scaled, spread, times

SCHEMA_VERSION = 1
MAX_SECONDS = 6.0  # for the repeats of one run, so that the default report ends within a minute


@dataclass(frozen=True)
class Result:
    """One run, timed; `value` is what the call returned."""

    case: str
    method: str
    source: str
    size: int
    unit: str
    space: str
    seconds: Samples
    work: Work
    value: float | None

    @property
    def pairs_per_second(self):
        """The median rate, or None for work without pairs."""
        return None if self.work.pairs is None else self.work.pairs / self.seconds.median

    @property
    def rate_quartiles(self):
        """Pairs per second at the slower and the faster quartile of time."""
        return self.work.pairs / self.seconds.upper, self.work.pairs / self.seconds.lower

    def as_dict(self):
        """The JSON object of a result."""
        return {
            "case": self.case,
            "method": self.method,
            "source": self.source,
            "size": self.size,
            "unit": self.unit,
            "space": self.space,
            "seconds": self.seconds.as_dict(),
            "work": vars(self.work),
            "pairs_per_second": self.pairs_per_second,
            "value": finite(self.value),
        }


@dataclass(frozen=True)
class Failure:
    """A run that raised."""

    case: str
    method: str
    message: str


@dataclass
class Report:
    """What was measured so far; every field is fit for the table, the page and the JSON."""

    space: str
    machine: dict
    results: list[Result] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    interrupted: bool = False

    def groups(self):
        """Results by input, each named with its size."""
        found = {}
        for result in self.results:
            found.setdefault(f"{result.source}, {result.size:,} {result.unit}", []).append(result)
        return found

    def as_dict(self):
        """The JSON document; `schema_version` grows when a reader would have to change."""
        return {
            "schema": "roofline-report",
            "schema_version": SCHEMA_VERSION,
            "machine": self.machine,
            "space": self.space,
            "results": [result.as_dict() for result in self.results],
            "failures": [vars(failure) for failure in self.failures],
            "interrupted": self.interrupted,
        }

    def table(self):
        """The terminal's table."""
        table = Table(title=f"Measured on {self.space}", title_justify="left")
        table.add_column("method")
        table.add_column("input")
        table.add_column("size", justify="right")
        table.add_column("space")
        table.add_column("median", justify="right")
        table.add_column("quartiles", justify="right")
        table.add_column("pairs/s", justify="right")
        for r in self.results:
            rate = "" if r.pairs_per_second is None else scaled(r.pairs_per_second)
            table.add_row(
                r.method,
                r.source,
                f"{r.size:,} {r.unit}",
                r.space,
                scaled(r.seconds.median, "s"),
                spread(r.seconds, "s"),
                rate,
            )
        return table


def verdict(results):
    """One sentence on the results of one input: the fastest, and by how much."""
    best, slowest = (pick(results, key=lambda r: r.seconds.median) for pick in (min, max))
    sentence = f"Fastest: {best.method}, {scaled(best.seconds.median, 's')} a call"
    if len(results) > 1:
        sentence += f"; {times(slowest.seconds.median / best.seconds.median)} times as fast as {slowest.method}"
    return sentence + "."


def collect(report: Report, runs: list[tuple[str, Run]], on_start=lambda method, done: None):
    """Time each run and put it into the report; one that raises is noted and the next goes on.

    Parameters
    ----------
    report : Report
        Filled in place, so that an interruption loses nothing.
    runs : list of (case name, Run)
    on_start : callable of (str, int)
        Told each method before it starts, and how many are done.
    """
    try:
        for done, (case, run) in enumerate(runs):
            on_start(run.method, done)
            try:
                seconds, value = _timed(run)
            except Exception as error:  # noqa: BLE001 - one method's failure must not cost the others
                report.failures.append(Failure(case, run.method, one_line(error)))
                continue
            report.results.append(
                Result(case, run.method, run.source, run.size, run.unit, report.space, seconds, run.work, value)
            )
    except KeyboardInterrupt:
        report.interrupted = True


def _timed(run):
    """Seconds per call, and what the last call returned."""
    values = []
    seconds = timing.measure(lambda: values.append(run.call()), run.sync, max_time=MAX_SECONDS)
    return seconds, values[-1]
