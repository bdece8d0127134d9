"""`python -m portable`: what this machine offers. `python -m portable cache`: the compiled kernels on disk.

`python -m portable cache program.py its arguments` runs a program first: hits and misses are then the
program's.
"""

from __future__ import annotations

import platform
import runpy
import sys
from importlib import metadata

from rich.console import Console
from rich.table import Table

from .core import cache
from .core.places import space
from . import __version__
from .core import registry
from .errors import SpaceUnavailableError


def _table(title, rows):
    table = Table("", "", title=title, title_justify="left", show_header=False)
    for name, value in rows:
        table.add_row(name, str(value))
    return table


def _spaces():
    for name in registry.names():
        try:
            yield from registry.backend(name).about(space.require(space.resolve(name)))
        except SpaceUnavailableError as error:
            yield name, str(error)


def main(arguments: list[str] | None = None) -> int:
    arguments, console = sys.argv[1:] if arguments is None else arguments, Console()
    if arguments[:1] == ["cache"]:
        if arguments[1:]:
            sys.argv = arguments[1:]
            runpy.run_path(sys.argv[0], run_name="__main__")
        console.print(_table("compiled kernels", cache.statistics().items()))
    elif not arguments:
        console.print(_table("execution spaces", [*_spaces(), ("default", space.default_space())]))
        console.print(
            _table(
                "versions",
                [
                    ("portable", __version__),
                    ("python", platform.python_version()),
                    *((p, metadata.version(p)) for p in ("numpy", "llvmlite")),
                ],
            )
        )
        console.print(_table("compiled kernels", [("folder", cache.folder() or "off")]))
    elif arguments == ["--version"]:
        print(f"portable {__version__}")
    else:
        print("usage: python -m portable [--version | cache [program.py ...]]", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
