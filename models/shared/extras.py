"""Libraries that only some of the functions need."""

from __future__ import annotations

import importlib
from types import ModuleType

from portable.errors import InputError


def need(module: str, extra: str, purpose: str) -> ModuleType:
    """That module, or an error that says what to install.

    Parameters
    ----------
    module : str
    extra : str
        Of this package, which brings it.
    purpose : str
        What wants it.

    Returns
    -------
    module

    Raises
    ------
    InputError
        It is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise InputError(
            f"{purpose}: the module '{module.partition('.')[0]}' is not installed. pip install \".[{extra}]\""
        ) from error
