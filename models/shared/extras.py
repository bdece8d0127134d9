"""Optional packages, imported when a function requires them."""

import importlib
from types import ModuleType
from typing import Any

from portable.errors import InputError


def need(module: str, extra: str, purpose: str) -> ModuleType:
    """Import and return an optional module; raise with instructions for its installation if it is missing.

    Parameters
    ----------
    module : str
    extra : str
        Extra of this package that installs it.
    purpose : str
        The purpose that requires it, for the message.

    Returns
    -------
    module

    Raises
    ------
    InputError
        The module is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise InputError(
            f"{purpose}: the module '{module.partition('.')[0]}' is not installed. pip install \".[{extra}]\""
        ) from error


def new_figure(width: float = 7.0, height: float = 3.4) -> Any:
    """Return an empty matplotlib Figure of that size in inches."""
    size = width, height
    return need("matplotlib.figure", "plot", "figures").Figure(figsize=size, layout="constrained")


def axes_or_new(axes: Any, width: float, height: float) -> Any:
    """Return `axes`, or those of a new figure if None."""
    return new_figure(width, height).subplots() if axes is None else axes
