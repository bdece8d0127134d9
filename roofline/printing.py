"""Print and write for the commands: progress on the error stream, tables, files."""

import contextlib
import functools
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
from portable.roofline.grid import fitted


def print_step(text):
    """Print a line on the error stream: the present step of a long command."""
    print(text, file=sys.stderr, flush=True)


def wait_for_quiet(seconds):
    """Wait until other processes leave the cores idle, at most for `seconds`."""
    end = time.monotonic() + (seconds or 0.0)
    while (left := end - time.monotonic()) > 0 and (
        busy := machine.busy_cores(min(left, 1.0)) or 0
    ) > checks.BUSY:
        print_step(f"roofline: waiting for a quiet machine, {left:.0f} s at most: {busy:g} cores are busy")


def warn_if_busy(facts):
    if (facts["busy_cores"] or 0) > checks.BUSY:
        print_step(
            f"roofline: other processes keep {facts['busy_cores']} of {facts['cores']} cores busy; "
            "times, and ratios of threads above all, will be about them too"
        )


@contextlib.contextmanager
def progress(text="", total=None):
    """Show a bar on the error stream, gone at the end, so that the table can be piped.

    Yields
    ------
    callable of description, completed, total
        Changes the bar's description and progress.
    """
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    quiet = not sys.stderr.isatty()
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=quiet) as shown:
        yield functools.partial(shown.update, shown.add_task(text, total=total))


def show_tables(*tables):
    """Print tables on standard output, in the terminal's width; in a file or a pipe in COLUMNS, or 80."""
    console = Console(markup=False, highlight=False)
    for table in tables:
        console.print(fitted(table, console))


def as_json(document):
    return json.dumps(document, indent=1, allow_nan=False) + "\n"


def write_json(options, version, facts, **what):
    """Write a command's result as JSON, if that was requested."""
    head = {"schema": f"roofline-{options.command}", "schema_version": version, "machine": facts}
    return write_file(options.json, as_json(head | what))


def write_file(path, text):
    """Write a file if `path` is given; return False if it could not be written."""
    if not path:
        return True
    try:
        files.write(path, text)
    except OSError as error:
        print_step(f"roofline: '{printable(path)}' could not be written: {error.strerror}")
        return False
    print(f"wrote {printable(path)}")
    return True


def write_figures(options, shown):
    """Write the requested plots; return False if one could not be written."""
    if not (options.svg or options.pdf):
        return True
    drawing = figure.drawing(shown)
    if not drawing:
        print_step("roofline: nothing to plot: no method with floating-point operations has a roof here")
        return False
    if options.pdf:
        figure.write_pdf(drawing, options.pdf)
        print(f"wrote {printable(options.pdf)}")
    return write_file(options.svg, drawing)


def exit_code(interrupted, well):
    return 130 if interrupted else 0 if well else 1
