"""The command `portable`, which `python -m portable` is too: a word for each method and tool.

`portable cache program.py its arguments` runs a program first: hits and misses are then the program's.
"""

import importlib
import platform
import runpy
import sys
from importlib import metadata

from rich.console import Console
from rich.table import Table

from .core import cache, registry
from .core.places import space
from . import __version__
from .errors import SpaceUnavailableError, nearest, printable

HELP = "usage: portable COMMAND ...\n       portable COMMAND --help\n\n"
COMMANDS = {
    "info": "what this machine offers: execution spaces, versions",
    "hawkes": "events in place and time: is there triggering, and who triggers whom",
    "tmap": "event sequences that stop: how long they go on",
    "edm": "time series: how well one finds another, which says who drives whom",
    "resampling": "the study of resampling schemes; calibration of particle filters",
    "mixture": "cells or points: how many kinds there are, and which is which",
    "roofline": "how near kernels come to what this machine can do",
    "cache": "compiled kernels on disk, and a program's hits and misses",
}
EXAMPLE = """

example: portable hawkes fit events.csv
exit codes: 0 done; 1 a check failed; 2 the request cannot be met; 130 interrupted
"""


def _table(title, rows):
    table = Table("", "", title=title, title_justify="left", show_header=False)
    for name, value in rows:
        table.add_row(name, str(value))
    return table


def _spaces():
    for name in registry.names():
        try:
            yield from registry.backend(name).about(space.require(name))
        except SpaceUnavailableError as error:
            yield name, str(error)


def _info(arguments):
    """Print the available machines."""
    console = Console()
    versions = [("portable", __version__), ("python", platform.python_version())]
    versions += [(name, metadata.version(name)) for name in ("numpy", "llvmlite")]
    console.print(_table("execution spaces", [*_spaces(), ("default", space.default_space())]))
    console.print(_table("versions", versions))
    console.print(_table("compiled kernels", [("folder", cache.folder() or "off")]))


def _cache(arguments):
    """Print hits and misses of this process, after a program if one is named."""
    if arguments:
        sys.argv = arguments
        runpy.run_path(arguments[0], run_name="__main__")
    Console().print(_table("compiled kernels", cache.statistics().items()))


def main(arguments: list[str] | None = None) -> int:
    """Run a command.

    Parameters
    ----------
    arguments : list of str, optional
        Those of the process if None.

    Returns
    -------
    int
        The exit code: 2 for an unknown command, else that of the command.
    """
    name, *rest = (sys.argv[1:] if arguments is None else arguments) or ["--help"]
    if name in ("-h", "--help") or name in _OWN and "--help" in rest[:1]:
        print(HELP + "\n".join(f"  {command:12}{does}" for command, does in COMMANDS.items()) + EXAMPLE)
    elif name == "--version":
        print(f"portable {__version__}")
    elif name not in COMMANDS:
        told = f"there is no command '{printable(name)}' (choose from {', '.join(COMMANDS)})"
        print("portable:", nearest(told), file=sys.stderr)
        return 2
    elif name in _OWN:
        _OWN[name](rest)
    else:
        place = "roofline" if name == "roofline" else f"models.{name}"
        return importlib.import_module(f"portable.{place}.__main__").main(rest)
    return 0


_OWN = {"info": _info, "cache": _cache}

if __name__ == "__main__":
    sys.exit(main())
