"""List the cases to be timed. One file for each method; no other module of `roofline` imports the models.

A case is a module of cases/ with one or both of the functions of `Case`. For a new method, add its file there
and its name below.
"""

import importlib
from pathlib import Path
from typing import Any, Protocol

from portable.errors import InputError
from portable.roofline.contract import Duel, Run

REPORTED = ("hawkes", "methods", "edm")  # cases with `prepare`
ALL = (*REPORTED, "rest")  # the cases of `report --all`
COMPARED = (  # cases with `duels`
    "algorithms",
    "calls",
    "ceilings",
    "cytometry",
    "cytometry_files",
    "derivatives",
    "edm",
    "edm_brains",
    "edm_test",
    "filters",
    "hawkes",
    "hawkes_mutual",
    "hawkes_triggering",
    "kernels",
    "lanes",
    "launch",
    "layer",
    "mixture",
    "mixture_em",
    "mixture_fit",
    "mixture_large",
    "numba",
    "profile",
    "resampling",
    "scaleout",
    "scaling",
    "start",
    "tmap",
)

# Run unchanged on both sides of `compare --against`, with the EXAMPLES of the other revision: they time
# processes, which import either side's packages.
OF_PROCESSES = ("start",)


class Case(Protocol):
    """State the functions of a case module."""

    def prepare(self, space: str, data, quick: bool) -> list[Run]:
        """Return the runs of the report: on the real files below `data` (a Path), or on simulated data if
        None."""

    def duels(self, space: str, n: int | None, quick: bool) -> list[Duel]:
        """Return the duels of `compare`, at size `n` or at the case's default size."""


def file(name: str) -> str:
    """Return the file of the case of a name."""
    return str(Path(__file__).parent / "cases" / f"{name}.py")


def load(name: str) -> Case:
    """Import the case module of a name.

    Raises
    ------
    InputError
        The package has no cases: it is installed without the checkout.
    """
    return import_optional(f"cases.{name}")


def import_optional(name: str) -> Any:
    """Import a module of this package that is in a checkout, but may be missing in an installed package.

    Raises
    ------
    InputError
        The module is missing.
    """
    if not _has_module(f"{name.replace('.', '/')}.py"):
        raise _missing(f"portable.roofline.{name}")
    return importlib.import_module(f"portable.roofline.{name}")


def check_checkout(command: str) -> None:
    """Raise for a command that needs peers if this package is installed without the checkout.

    Raises
    ------
    InputError
    """
    if not _has_module("truth"):
        raise _missing(command)


def _has_module(name):
    return (Path(__file__).parent / name).exists()


def _missing(what):
    return InputError(
        f"{what} needs a checkout of the project, which has peers and planted causes; `report` and"
        " `report PROGRAM` run anywhere"
    )
