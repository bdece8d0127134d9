"""Execution spaces to backends, imported when first used: `import portable` loads no compiler and no driver."""

from __future__ import annotations

import functools
import importlib

_FOLDERS = {"serial": "cpu", "threads": "cpu", "cuda": "cuda", "checked": "checked"}


@functools.cache
def backend(name):
    """The backend that runs the space of this name."""
    return importlib.import_module(f"{__package__}.{_FOLDERS[name]}.space")

