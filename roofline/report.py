"""`python -m roofline report`: run every method, and tell how long each took, and how long it could take."""

from dataclasses import dataclass, field

from rich.table import Table

from roofline import timing
from roofline.attainable import Analysis, analyse
from roofline.ceiling import Ceilings
from roofline.contract import Run, Work
from roofline.profiling import profile
from roofline.timing import Samples
from roofline.units import finite, one_line, scaled, spread, times

SCHEMA_VERSION = 2
MAX_SECONDS = 6.0  # for the repeats of one run, so that the default report ends within a minute
LONG = (
    0.3  # seconds of a call, on a CPU, whose executed operations are not counted too: that takes several times as long
)


@dataclass(frozen=True)
class Result:
    """One run, timed; `value` is what the call returned, `roof` what it could have taken, or None."""

    case: str
    method: str
    source: str
    size: int
    unit: str
    space: str
    seconds: Samples
    work: Work
    value: float | None
    roof: Analysis | None = None

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
            "roof": self.roof.as_dict() if self.roof else None,
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
    ceilings: Ceilings | None = None  # once they were wanted

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
            "ceilings": self.ceilings.as_dict() if self.ceilings else None,
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

    def roofs(self):
        """The terminal's table of what each run could take, or None where nobody can tell."""
        table = Table(title="Against the roof", title_justify="left", caption=ROOF_CAPTION, caption_justify="left")
        table.add_column("method")
        table.add_column("input")
        for name in ROOF_COLUMNS:
            table.add_column(name, justify="left" if name == "bound by" else "right")
        rows = [r for r in self.results if r.roof]
        for r in rows:
            table.add_row(r.method, r.source, *roof_cells(r))
        return table if rows else None


ROOF_COLUMNS = ("median", "flops", "special", "bytes", "flops / byte", "attainable", "share", "bound by")
ROOF_CAPTION = (
    "flops, calls of special functions and compulsory bytes are counted in the text; attainable: the least time at the "
    "measured ceilings (python -m roofline ceilings); share: attainable over measured"
)


def roof_cells(result):
    """The figures of ROOF_COLUMNS of a result that has a roof, as text."""
    roof = result.roof
    return (
        scaled(result.seconds.median, "s"),
        scaled(roof.total("flops")),
        scaled(roof.special),
        scaled(roof.total("compulsory"), "B"),
        "" if roof.intensity is None else f"{roof.intensity:.3g}",
        scaled(roof.attainable, "s"),
        f"{roof.share:.0%}",
        roof.by,
    )


def verdict(results):
    """One sentence on the results of one input: the fastest, and by how much."""
    best, slowest = (pick(results, key=lambda r: r.seconds.median) for pick in (min, max))
    sentence = f"Fastest: {best.method}, {scaled(best.seconds.median, 's')} a call"
    if len(results) > 1:
        sentence += f"; {times(slowest.seconds.median / best.seconds.median)} times as fast as {slowest.method}"
    return sentence + "."


def collect(report: Report, runs: list[tuple[str, Run]], on_start=lambda method, done: None, ceilings=None):
    """Time each run and put it into the report; one that raises is noted and the next goes on.

    Parameters
    ----------
    report : Report
        Filled in place, so that an interruption loses nothing.
    runs : list of (case name, Run)
    on_start : callable of (str, int)
        Told each method before it starts, and how many are done.
    ceilings : callable of (space, special functions) giving Ceilings, optional
        Asked when the first launch was counted; without it nothing is held against a roof.
    """
    try:
        for done, (case, run) in enumerate(runs):
            on_start(run.method, done)
            try:
                seconds, value = _timed(run)
                roof = _roof(report, run, seconds, ceilings) if ceilings else None
            except Exception as error:  # noqa: BLE001 - one method's failure must not cost the others
                report.failures.append(Failure(case, run.method, one_line(error)))
                continue
            report.results.append(
                Result(case, run.method, run.source, run.size, run.unit, report.space, seconds, run.work, value, roof)
            )
    except KeyboardInterrupt:
        report.interrupted = True


def _timed(run):
    """Seconds per call, and what the last call returned."""
    values = []
    seconds = timing.measure(lambda: values.append(run.call()), run.sync, max_time=MAX_SECONDS)
    return seconds, values[-1]


def _roof(report, run, seconds, ceilings):
    """One more call, profiled and counted."""
    with profile() as made:
        run.call()
        if run.sync:
            run.sync()

    def roofs(special):
        report.ceilings = ceilings(report.space, special)
        return report.ceilings

    return analyse(made, seconds.median, roofs, executed=not report.space.startswith("cuda") and seconds.median < LONG)
