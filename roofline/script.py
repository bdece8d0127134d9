"""`python -m roofline report SCRIPT`: the launches of any Python program, each kind against its roof."""

import runpy
import sys
import time
from pathlib import Path

import portable as pk
from portable.errors import InputError, printable
from roofline.attainable import analyse_launch
from roofline.contract import Work
from roofline.profiling import SHORT, count_launch, profile, region_now
from roofline.reasons import whys
from roofline.reporting import Failure, Result
from roofline.timing import Samples, tick
from roofline.units import one_line, scaled

KINDS = 80  # of launches that are told one by one, the costliest; a page stays readable
PATIENCE = 2.0  # seconds for counting a text, above which what is executed is not counted too: it takes several times as long
TICKS = 10  # steps of the clock, below which it does not tell a time
LEAST = 0.002  # of the time in launches, below which a kind is not told by itself, unless it is the costliest of its label


def check(path):
    """Refuse what is no Python file, before anything runs.

    Raises
    ------
    InputError
        The message names the file.
    """
    if not Path(path).is_file():
        raise InputError(f"script: '{path}' is no file. Name a Python program that launches kernels, or KERNELS.py::name.")


def collect(path, arguments, part, ceilings=None, on_start=lambda label, done: None):
    """Run a program under a profile; a result for each kind of launch that it made goes into the report of its space.

    A program that raises, or that ends by sys.exit, keeps what it had launched.

    Parameters
    ----------
    path : str
    arguments : sequence of str
        What the program finds in sys.argv behind its name.
    part : callable of a space's name, or None for the default space, that gives the Report to fill in place
    ceilings, on_start : as in `roofline.reporting.collect`
    """
    counted = Counted()
    with profile(counted.before if ceilings else None, apart=True) as made:
        _run(part, path, arguments)
    if not made.events:
        part(None).failures.append(Failure("script", str(path), "it launched no kernel"))
    tell(made, Path(path).name, part, ceilings, on_start, counted)


class Counted:
    """Counts of the first launch of each kind, taken before it runs: afterwards its data may be others'."""

    def __init__(self):
        self._found = {}

    def before(self, launch):
        """Count a launch if it is the first of its kind; what goes wrong is told when the counts are wanted."""
        key = _kind(launch, region_now())
        if key in self._found:
            return
        try:
            start = time.perf_counter()
            self._found[key] = count_launch(launch, executed=False)
            if time.perf_counter() - start < PATIENCE:
                self._found[key] = count_launch(launch, executed=True)
        except Exception as error:  # noqa: BLE001 - the program goes on
            self._found[key] = error

    def of(self, launch, region):
        """The counts of a launch's kind."""
        found = self._found[_kind(launch, region)]
        if isinstance(found, Exception):
            raise found
        return found


def _kind(launch, region):
    """What launches of one kind have in common."""
    shapes = _shapes(launch.args)
    return region, launch.label, str(launch.space), launch.kernel, launch.policy, launch.reducers, launch.scan, shapes


def tell(made, source, part, ceilings=None, on_start=lambda label, done: None, counted=None):
    """Each kind of launch of a profile, the costliest first: one kernel over one size, in one region, on one space.

    Parameters
    ----------
    made : Profile
    source : str
        Where the launches were made, in words.
    part, ceilings, on_start : as in `collect`
    """
    kinds = {}
    for event in made.events:
        for launch in event.launches:
            kinds.setdefault(_kind(launch, event.region), []).append((event, launch))
    ranked = sorted(kinds.items(), key=lambda item: -_seconds(item[1]))
    total = sum(map(_seconds, kinds.values()))
    if ranked:
        part(ranked[0][1][0][0].space).program_seconds = made.seconds
    longest = {found[0][1].label: key for key, found in reversed(ranked)}
    told = [(key, found) for key, found in ranked if _seconds(found) >= LEAST * total or longest[found[0][1].label] is key][:KINDS]
    for done, (_, found) in enumerate(told):
        event, launch = found[0]
        on_start(printable(launch.label), done)
        where = f"{source}, {event.region}" if event.region else source
        counts = counted.of if counted else lambda launch, _: made.count(launch)
        _tell_kind(made.size(launch), part(event.space), where, found, counts, ceilings)
    names = {id(key) for key, _ in told}
    if rest := [item for item in ranked if id(item[0]) not in names]:
        seconds = sum(_seconds(found) for _, found in rest)
        part(rest[0][1][0][0].space).notes.append(
            f"{len(rest):,} more kinds of launches, {scaled(seconds, 's')} of {scaled(total, 's')} together, are left out"
        )


def _tell_kind(size, report, source, found, counts, ceilings):
    event, launch = found[0]
    seconds, notes = _timed(found)
    if not seconds.median:
        report.notes.append(f"'{launch.label}' over {size[0]:,} {size[1]}: {notes[0]}; more work in a launch, or more launches, have a time")
    held = ceilings and seconds.median
    try:
        roof = _roof(report, launch, counts(launch, event.region), seconds, notes, ceilings) if held else None
        why = whys(roof, report.ceilings, seconds) if roof else ()
    except Exception as error:  # noqa: BLE001 - one kernel's failure must not cost the others
        report.failures.append(Failure("script", launch.label, one_line(error)))
        return
    about = "script", launch.label, source, *size, event.space
    report.results.append(Result(*about, seconds, Work(), None, roof, *why))


def _timed(found):
    """(Samples, notes) of the launches of a kind: of those too short for the clock the mean, 0.0 where that is too short as well.

    The mean holds where each launch does not: a clock tells the next one more for what it told the last one less.
    """
    seconds, least = Samples(tuple(e.seconds / len(e.launches) for e, _ in found)), TICKS * tick()
    if seconds.median >= least:
        return seconds, []
    n, total = len(found), sum(seconds.values)
    if total < least:
        return Samples((0.0,) * n), [f"its {n:,} launches are too short for the clock, which tells no time below {scaled(least, 's')}"]
    return Samples((total / n,) * n), [f"each launch is too short for the clock; the time is the mean of all {n:,}"]


def _seconds(found):
    """Seconds of launches of a kind, by their median."""
    return len(found) * Samples(tuple(event.seconds / len(event.launches) for event, _ in found)).median


def _shapes(args):
    """What makes two launches of a kernel differ in their work: shapes and types of arrays."""
    args = (a.view if isinstance(a, pk.ScatterView) else a for a in args)
    return tuple(_shapes(a) if isinstance(a, tuple) else (getattr(a, "shape", None), str(getattr(a, "dtype", ""))) for a in args)


def _run(part, path, arguments):
    kept, sys.argv = sys.argv, [str(path), *arguments]
    try:
        runpy.run_path(str(path), run_name="__main__")
    except KeyboardInterrupt:
        part(None).interrupted = True
    except SystemExit as stop:
        if stop.code not in (None, 0):
            part(None).failures.append(Failure("script", str(path), f"it ended with exit code {stop.code}"))
    except Exception as error:  # noqa: BLE001 - what it had launched is still worth telling
        part(None).failures.append(Failure("script", str(path), one_line(error)))
    finally:
        sys.argv = kept


def _roof(report, launch, counts, seconds, notes, ceilings):
    report.ceilings = ceilings(str(launch.space), set(counts.special))
    roof = analyse_launch(launch.label, counts, seconds.median, report.ceilings)
    roof.notes.extend(notes)
    if seconds.median < SHORT:
        roof.notes.append("too short to time one by one: mostly the cost of a launch")
    if len(seconds.values) == 1:
        roof.notes.append("launched once: its time may hold the compilation, and has no spread")
    return roof
