"""Libraries that only some of the functions need."""

from __future__ import annotations

import importlib

from portable.errors import InputError


def need(module, extra, purpose):
    """That module, or an error that says what to install.

    Raises
    ------
    InputError
        It is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise InputError(
            f"{purpose}: the module '{module}' is not installed. pip install \"portable-kernels[{extra}]\""
        ) from error
