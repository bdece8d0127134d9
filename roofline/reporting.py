"""`python -m portable.roofline report`: run every method, and tell how long each took, and how long it could
take.

A report is a document of parts, one for each space and machine; everything that shows it, the page, the
tables, the figures, reads the document, so that a saved one can be shown again, or beside another.
"""

from __future__ import annotations

import time
import types
from dataclasses import dataclass, field, replace

from portable.roofline import checks, measuring, timing
from portable.roofline.attainable import ABOVE, Analysis, analyse
from portable.roofline.ceiling import Ceilings
from portable.roofline.contract import Run, Work
from portable.roofline.counting import in_words
from portable.roofline.host import busiest
from portable.roofline.memory import high_water
from portable.roofline.profiling import profile
from portable.roofline.reasons import OUTSIDE, reasons_of
from portable.roofline.timing import Samples
from portable.roofline.units import finite, one_line, picked, scaled
from portable.roofline.verdicts import advice, verdict

MAX_SECONDS = 6.0  # for the repeats of one run, so that the default report ends within a minute
# seconds of a call, on a CPU, whose executed operations are not counted too: that takes several times as long
LONG = 0.3


@dataclass(frozen=True)
class Result:
    """One run, timed; `value` is what the call returned, `roof` what it could have taken, or None, `reason`
    why it took more, and `reasons` the same of each of its kernels."""

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
    reason: dict | None = None
    reasons: list = field(default_factory=list)

    @property
    def pairs_per_second(self):
        """The median rate, or None for work without pairs."""
        return None if self.work.pairs is None else self.work.pairs / self.seconds.median

    def as_dict(self):
        """Return the JSON object of a result."""
        return {
            **picked(self, "case method source size unit space pairs_per_second"),
            "seconds": self.seconds.as_dict(),
            "work": vars(self.work),
            "value": finite(self.value),
            "roof": self._held() if self.roof else None,
        }

    def _held(self):
        found = self.roof.as_dict() | {"verdict": verdict(self), "advice": advice(self)}
        for kernel, why in zip(found["kernels"], self.reasons, strict=True):
            kernel["reason"] = why
        return found | {"reason": self.reason, "checks": checks.of_result(self)}


@dataclass(frozen=True)
class Failure:
    """A run that raised."""

    case: str
    method: str
    message: str


@dataclass
class Report:
    """Results so far on one space."""

    space: str
    machine: dict
    results: list[Result] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    interrupted: bool = False
    ceilings: Ceilings | None = None  # once they were wanted
    notes: list[str] = field(default_factory=list)
    # Of a program whose launches these are, the first of its spaces only.
    program_seconds: float | None = None
    program: dict | None = None  # its costliest lines outside of kernels, and the memory that it held at most
    quick: bool = False  # of tiny inputs, and ceilings of a moment

    def as_dict(self):
        """Return a part of the JSON document."""
        on_cores = self.ceilings and self.ceilings.clock and not self.space.startswith("cuda")
        clock = measuring.clock() if on_cores else None
        return {
            **picked(self, "space machine interrupted notes program_seconds program"),
            "ceilings": self.ceilings.as_dict() if self.ceilings else None,
            "results": [result.as_dict() for result in self.results],
            "failures": [vars(failure) for failure in self.failures],
            "checks": checks.of_part(self.machine, self.ceilings, clock, self.quick),
        }


def collect(
    report: Report,
    runs: list[tuple[str, Run]],
    on_start=lambda method, done: None,
    ceilings=None,
    on_row=lambda text: None,
    counts=types.MappingProxyType({}),
):
    """Time each run and put it into the report; one that raises is noted and the next goes on.

    Parameters
    ----------
    report : Report
        Filled in place, so that an interruption loses nothing.
    runs : list of (case name, Run)
    on_start : callable of (str, int)
        Told each method before it starts, and how many are done.
    ceilings : callable of (space, special functions) giving Ceilings, optional
        Asked when the first launch was counted; without it nothing is held against a roof. Where a run was
        faster than its roof, it is asked with `again=True` at the end, for the machine may have been busy
        before, and all are held anew.
    on_row : callable of str
        Told what each run came to, in a line.
    counts : mapping of (case name, method, source) to list of lists of Counts
        Those of a call's launches, event by event, where they are known (`portable.roofline.ahead`).
    """
    try:
        for done, (case, run) in enumerate(runs):
            on_start(run.method, done)
            begin = time.perf_counter()
            try:
                seconds, value, most = _timed(run, report.quick)
                known = counts.get((case, run.method, run.source))
                roof = _roof(report, run, seconds, ceilings, known) if ceilings else None
                roof = roof and replace(roof, memory=most)
                why = reasons_of(roof, report.ceilings, seconds) if roof else ()
            except Exception as error:  # noqa: BLE001 - one method's failure must not cost the others
                report.failures.append(Failure(case, run.method, one_line(error)))
                on_row(f"{done + 1} of {len(runs)}, {run.method}: {report.failures[-1].message}")
                continue
            about = case, run.method, run.source, run.size, run.unit, report.space
            report.results.append(Result(*about, seconds, run.work, value, roof, *why))
            share = f", {roof.share:.0%} of its roof" if roof else ""
            told = f"{done + 1} of {len(runs)}, {run.method}: {scaled(seconds.median, 's')}{share}"
            on_row(f"{told}; looked at for {scaled(time.perf_counter() - begin, 's')}")
        if any(result.roof and result.roof.share > ABOVE for result in report.results):
            on_start("ceilings, again", len(runs))
            _hold_anew(report, ceilings)
    except KeyboardInterrupt:
        report.interrupted = True


def _hold_anew(report, ceilings):
    """All results against ceilings that were measured again."""
    special = {
        names
        for result in report.results
        if result.roof
        for _, counts, _, _ in result.roof.launches
        for names in counts.special
    }
    report.ceilings = ceilings(report.space, special, again=True)
    for k, result in enumerate(report.results):
        if result.roof:
            roof = result.roof.against(report.ceilings)
            why, each = reasons_of(roof, report.ceilings, result.seconds)
            report.results[k] = replace(result, roof=roof, reason=why, reasons=each)


def _timed(run, quick):
    """Return seconds per call, what the last call returned, and bytes that one more held at most."""
    values, few = [], {"min_time": 1e-3, "repeats": 3} if quick else {"max_time": MAX_SECONDS}
    seconds, most = timing.measure(lambda: values.append(run.call()), run.sync, **few), None
    if seconds.median < MAX_SECONDS and not quick:
        with high_water() as most:
            run.complete()
    return seconds, values[-1], most and most.bytes


def _roof(report, run, seconds, ceilings, counts=None):
    """Return one more call, profiled, and counted on the data that each launch meets; but where its counts
    are known."""
    executed = not report.space.startswith("cuda") and seconds.median < LONG and not report.quick

    def count(launch):
        made.meet(launch, executed=executed)

    if counts is not None:
        with profile(apart=True) as made:
            run.complete()
    if counts is None or not _alike(made, counts):
        counts = None
        with profile(count, apart=True) as made:
            run.complete()

    def roofs(special):
        report.ceilings = ceilings(report.space, special)
        return report.ceilings

    found = analyse(made, seconds.median, roofs, executed=executed, counts=counts)
    if found and found.outside > OUTSIDE * found.seconds and not report.quick:
        found = replace(found, host=busiest(run.call))
    return found


def _alike(made, counts):
    """Return True if counts are those of a profile's launches, kernel by kernel and size by size."""
    launched = [[(one.kernel.name, in_words(one.policy)) for one in event.launches] for event in made.events]
    return launched == [[(one.kernel, one.policy) for one in event] for event in counts]
