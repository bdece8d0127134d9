"""What the commands print and write: progress on the error stream, tables, files."""

import json
import sys
import time

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

from portable.errors import printable
from portable.roofline import checks, figure, files, machine


def say(text):
    """A line on the error stream: what a long command does."""
    print(text, file=sys.stderr, flush=True)


def wait_for_quiet(seconds):
    """Wait until other work leaves the cores alone, so long at most."""
    end = time.monotonic() + (seconds or 0.0)
    while (left := end - time.monotonic()) > 0 and (
        busy := machine.busy_cores(min(left, 1.0)) or 0
    ) > checks.BUSY:
        say(f"roofline: waiting for a quiet machine, {left:.0f} s at most: {busy:g} cores are busy")


def warn_if_busy(facts):
    if (facts["busy_cores"] or 0) > checks.BUSY:
        print(
            f"roofline: other processes keep {facts['busy_cores']} of {facts['cores']} cores busy; "
            "times, and ratios of threads above all, will be about them too",
            file=sys.stderr,
        )


def bar():
    """A bar on the error stream, gone at the end, so that the table can be piped."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    return Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty())


def console():
    """Standard output; a file or a pipe gets whole lines instead of a narrow terminal's, and names are no
    markup."""
    return Console(width=None if sys.stdout.isatty() else 200, markup=False, highlight=False)


def as_json(document):
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def write_json(options, version, facts, **what):
    """Write what a command found as JSON, if that was asked for."""
    head = {"schema": f"roofline-{options.command}", "schema_version": version, "machine": facts}
    return write_file(options.json, as_json(head | what))


def write_file(path, text):
    """Write a file if one was asked for; whether all is well."""
    if not path:
        return True
    try:
        files.write(path, text)
    except OSError as error:
        print(f"roofline: '{printable(path)}' could not be written: {error.strerror}", file=sys.stderr)
        return False
    print(f"wrote {printable(path)}")
    return True


def write_figures(options, shown):
    """Write the plots that were asked for; whether all is well."""
    if not (options.svg or options.pdf):
        return True
    drawing = figure.drawing(shown)
    if not drawing:
        print(
            "roofline: nothing to plot: no method with floating-point operations has a roof here",
            file=sys.stderr,
        )
        return False
    if options.pdf:
        figure.write_pdf(drawing, options.pdf)
        print(f"wrote {printable(options.pdf)}")
    return write_file(options.svg, drawing)


def exit_code(interrupted, well):
    return 130 if interrupted else 0 if well else 1
