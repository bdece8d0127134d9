"""List the cases to be timed. One file for each method; nothing else in `roofline` knows the models.

A case is a module of cases/ with one or both of the functions of `Case`. A new method adds its file here and
its name below.
"""

import importlib
from pathlib import Path
from typing import Any, Protocol

from portable.errors import InputError
from portable.roofline.contract import Duel, Run

REPORTED = ("hawkes", "methods", "edm")  # have `prepare`
ALL = (*REPORTED, "rest")  # as `report --all` has them
COMPARED = (  # have `duels`
    "algorithms",
    "calls",
    "ceilings",
    "cytometry",
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

# Run as they are here on both sides of `compare --against`, with the EXAMPLES of the other revision: they
# time processes, in which either side's packages are imported.
OF_PROCESSES = ("start",)


class Case(Protocol):
    """The functions of a case module."""

    def prepare(self, space: str, data, quick: bool) -> list[Run]:
        """The runs of the report: on the real files under `data` (a Path), or simulated where it is None."""

    def duels(self, space: str, n: int | None, quick: bool) -> list[Duel]:
        """The duels of `compare`, at size `n` or at the case's own."""


def file(name: str) -> str:
    """Return the file of the case of that name."""
    return str(Path(__file__).parent / "cases" / f"{name}.py")


def load(name: str) -> Case:
    """Import the case module of that name.

    Raises
    ------
    InputError
        There are no cases beside this package: it is installed without the checkout.
    """
    return beside(f"cases.{name}")


def beside(name: str) -> Any:
    """Import a module of this package that a checkout has, and an installed package may lack.

    Raises
    ------
    InputError
        It is not there.
    """
    if not _there(f"{name.replace('.', '/')}.py"):
        raise _missing(f"portable.roofline.{name}")
    return importlib.import_module(f"portable.roofline.{name}")


def check_checkout(command: str) -> None:
    """Refuse a command that wants peers beside this package, where it is installed without the checkout.

    Raises
    ------
    InputError
    """
    if not _there("truth"):
        raise _missing(command)


def _there(name):
    return (Path(__file__).parent / name).exists()


def _missing(what):
    return InputError(
        f"{what} wants a checkout of the project, which this installed package is not: peers and planted"
        " causes are there; `report` and `report PROGRAM` run anywhere"
    )
