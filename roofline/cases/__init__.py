"""What is timed. One file a method; nothing else in `roofline` knows the models.

A case is a module with one or both of the functions of `Case`. A new method adds its file here and its name
below.
"""

import importlib
from pathlib import Path
from typing import Protocol

from portable.errors import InputError
from roofline.contract import Duel, Run

REPORTED = ("hawkes", "methods", "edm")  # have `prepare`
ALL = (*REPORTED, "rest")  # as `report --all` has them
COMPARED = (  # have `duels`
    "algorithms",
    "calls",
    "ceilings",
    "cytometry",
    "edm",
    "edm_brains",
    "edm_test",
    "filters",
    "hawkes",
    "hawkes_triggering",
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
    """The file of the case of that name."""
    return str(Path(__file__).with_name(f"{name}.py"))


def load(name: str) -> Case:
    """The case module of that name, imported only now.

    Raises
    ------
    InputError
        Another package named `models` is found before ours.
    """
    found = importlib.import_module("models").__file__ or ""
    if Path(found).parents[1] != Path(__file__).parents[2]:
        raise InputError(
            f"another package named 'models' is found first, '{found}': call portable-roofline, or python -m"
            " roofline in another folder"
        )
    return importlib.import_module(f"{__name__}.{name}")
