"""`python -m roofline report SCRIPT`: the launches of any Python program, each kind against its roof."""

import runpy
import sys
from pathlib import Path

from portable.errors import InputError
from roofline.attainable import analyse_launch
from roofline.contract import Work
from roofline.profiling import SHORT, profile
from roofline.report import LONG, Failure, Result
from roofline.timing import Samples
from roofline.units import one_line


def check(path):
    """Refuse what is no Python file, before anything runs.

    Raises
    ------
    InputError
        The message names the file.
    """
    if not Path(path).is_file():
        raise InputError(f"script: '{path}' is no file. Name a Python program that launches kernels.")


def collect(report, path, arguments=(), ceilings=None, on_start=lambda label, done: None):
    """Run a program under a profile; a result for each kind of launch that it made goes into the report.

    Launches of one kernel over one size on the same arrays are one kind, timed one by one as they came. A program that
    raises, or that ends by sys.exit, keeps what it had launched.

    Parameters
    ----------
    report : Report, filled in place
    path : str
    arguments : sequence of str
        What the program finds in sys.argv behind its name.
    ceilings, on_start : as in `roofline.report.collect`
    """
    with profile() as made:
        _run(report, path, arguments)
    kinds = {}
    for event in made.events:
        for launch in event.launches:
            kinds.setdefault(made.identity(launch), []).append((event, launch))
    if not kinds:
        report.failures.append(Failure("script", str(path), "it launched no kernel"))
    for done, found in enumerate(kinds.values()):
        event, launch = found[0]
        on_start(launch.label, done)
        seconds = Samples(tuple(e.seconds / len(e.launches) for e, _ in found))
        try:
            roof = _roof(report, made, launch, seconds, ceilings) if ceilings else None
        except Exception as error:  # noqa: BLE001 - one kernel's failure must not cost the others
            report.failures.append(Failure("script", launch.label, one_line(error)))
            continue
        size, unit = made.size(launch)
        report.results.append(
            Result("script", launch.label, Path(path).name, size, unit, event.space, seconds, Work(), None, roof)
        )


def _run(report, path, arguments):
    kept, sys.argv = sys.argv, [str(path), *arguments]
    try:
        runpy.run_path(str(path), run_name="__main__")
    except KeyboardInterrupt:
        report.interrupted = True
    except SystemExit as stop:
        if stop.code not in (None, 0):
            report.failures.append(Failure("script", str(path), f"it ended with exit code {stop.code}"))
    except Exception as error:  # noqa: BLE001 - what it had launched is still worth telling
        report.failures.append(Failure("script", str(path), one_line(error)))
    finally:
        sys.argv = kept


def _roof(report, made, launch, seconds, ceilings):
    space = str(launch.space)
    counts = made.count(launch, executed=not space.startswith("cuda") and seconds.median < LONG)
    found = ceilings(space, set(counts.special))
    if report.ceilings is None or space == report.space:
        report.ceilings = found
    roof = analyse_launch(launch.label, counts, seconds.median, found)
    if seconds.median < SHORT:
        roof.notes.append("too short to time one by one: mostly the cost of a launch")
    if len(seconds.values) == 1:
        roof.notes.append("launched once: its time may hold the compilation, and has no spread")
    return roof
