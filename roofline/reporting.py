"""`python -m portable.roofline report`: run every method, and report its time and its attainable time.

A report is a document of parts, one for each space and machine. The page, the tables and the figures are all
made from the document, so that a saved one can be shown again, or next to another.
"""

from __future__ import annotations

import time
import types
from dataclasses import dataclass, field, replace

from portable.roofline import checks, measuring, timing
from portable.roofline.attainable import ABOVE, Analysis, analyse
from portable.roofline.ceiling import Ceilings
from portable.roofline.contract import Run
from portable.roofline.counting import in_words
from portable.roofline.memory import high_water
from portable.roofline.profiling import profile
from portable.roofline.reasons import reasons_of
from portable.roofline.timing import Samples
from portable.roofline.units import finite, one_line, picked, scaled
from portable.roofline.verdicts import advice, verdict

MAX_SECONDS = 6.0  # for the repeats of one run, so that the default report takes at most a minute
# seconds of a call on a CPU above which its executed operations are not counted: counting takes several times
# as long
LONG = 0.3


@dataclass(frozen=True)
class Result:
    """Store the result of one timed run.

    `value` is the call's return value, `roof` its attainable time or None, `reason` the cause of the
    difference, and `reasons` the same for each of its kernels.
    """

    case: str
    method: str
    source: str
    size: int
    unit: str
    space: str
    seconds: Samples
    value: float | None
    roof: Analysis | None = None
    reason: dict | None = None
    reasons: list = field(default_factory=list)

    def as_dict(self):
        """Return the result as a JSON object."""
        return {
            **picked(self, "case method source size unit space"),
            "seconds": self.seconds.as_dict(),
            "value": finite(self.value),
            "roof": self._roof_dict() if self.roof else None,
        }

    def _roof_dict(self):
        found = self.roof.as_dict() | {"verdict": verdict(self), "advice": advice(self)}
        for kernel, why in zip(found["kernels"], self.reasons, strict=True):
            kernel["reason"] = why
        return found | {"reason": self.reason, "checks": checks.of_result(self)}


@dataclass(frozen=True)
class Failure:
    """Name a run that raised, and its error."""

    case: str
    method: str
    message: str


@dataclass
class Report:
    """Collect the results of one space."""

    space: str
    machine: dict
    results: list[Result] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    interrupted: bool = False
    ceilings: Ceilings | None = None  # None until the first launch was counted
    notes: list[str] = field(default_factory=list)
    # A program's launches may run on several spaces: this is given in the report of the first one only.
    program_seconds: float | None = None
    program: dict | None = None  # its costliest lines outside of kernels, and its peak memory
    quick: bool = False  # tiny inputs, and briefly measured ceilings

    def as_dict(self):
        """Return the report as a part of the JSON document."""
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
    """Time each run and add its result to the report; a run that raises is recorded as a failure.

    Parameters
    ----------
    report : Report
        Filled in place, so that an interruption loses nothing.
    runs : list of (case name, Run)
    on_start : callable of (str, int)
        Called before each method, with its name and the number of finished ones.
    ceilings : callable of (space, special functions) giving Ceilings, optional
        Called when the first launch was counted; without it no result has a roof. If a run was faster than
        its roof, it is called with `again=True` at the end, because the machine may have been busy before,
        and all results are compared with the new ceilings.
    on_row : callable of str
        Called with a line on the result of each run.
    counts : mapping of (case name, method, source) to list of lists of Counts
        Counts of a call's launches, event by event, where they are known: see
        `portable.roofline.parallel_counts`.
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
            report.results.append(Result(*about, seconds, value, roof, *why))
            share = f", {roof.share:.0%} of its roof" if roof else ""
            told = f"{done + 1} of {len(runs)}, {run.method}: {scaled(seconds.median, 's')}{share}"
            on_row(f"{told}; looked at for {scaled(time.perf_counter() - begin, 's')}")
        if any(result.roof and result.roof.share > ABOVE for result in report.results):
            on_start("ceilings, again", len(runs))
            _hold_anew(report, ceilings)
    except KeyboardInterrupt:
        report.interrupted = True


def _hold_anew(report, ceilings):
    """Compare all results with ceilings that are measured again."""
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
    """Return seconds per call, the last call's value, and the peak memory of one more call in bytes."""
    values, few = [], {"min_time": 1e-3, "repeats": 3} if quick else {"max_time": MAX_SECONDS}
    seconds, most = timing.measure(lambda: values.append(run.call()), run.sync, **few), None
    if seconds.median < MAX_SECONDS and not quick:
        with high_water() as most:
            run.complete()
    return seconds, values[-1], most and most.bytes


def _roof(report, run, seconds, ceilings, counts=None):
    """Return the roof of one more call, which is profiled and whose launches are counted on their own data
    unless their counts are given."""
    executed = not report.space.startswith("cuda") and seconds.median < LONG and not report.quick

    def count(launch):
        made.meet(launch, executed=executed)

    if counts is not None:
        with profile(apart=True) as made:
            run.complete()
    if counts is None or not _counts_match(made, counts):
        counts = None
        with profile(count, apart=True) as made:
            run.complete()

    def roofs(special):
        report.ceilings = ceilings(report.space, special)
        return report.ceilings

    return analyse(made, seconds.median, roofs, executed=executed, counts=counts)


def _counts_match(made, counts):
    """Return True if the counts belong to a profile's launches, by kernels and sizes in order."""
    launched = [[(one.kernel.name, in_words(one.policy)) for one in event.launches] for event in made.events]
    return launched == [[(one.kernel, one.policy) for one in event] for event in counts]
