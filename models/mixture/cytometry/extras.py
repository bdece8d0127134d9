"""Libraries that only some of the work wants."""

from __future__ import annotations

import importlib
from types import ModuleType

from portable.errors import InputError

EXTRAS = {
    "flowio": "cytometry",
    "flowutils": "cytometry",
    "matplotlib": "plot",
    "pyarrow": "files",
    "anndata": "anndata",
}


def need(module: str, purpose: str) -> ModuleType:
    """That module, or an InputError that says what to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise InputError(
            f"{purpose}: the module '{module.partition('.')[0]}' is not installed. pip install "
            f'"portable-kernels[{EXTRAS[module.partition(".")[0]]}]"'
        ) from error
