"""Execution spaces to backends, imported when first used: `import portable` loads no compiler and no driver."""

from __future__ import annotations

import functools
import importlib


@functools.cache
def backend(name):
    """The backend that runs the space of this name."""
    folder = {"serial": "cpu", "threads": "cpu", "cuda": "cuda"}[name]
    return importlib.import_module(f"{__package__}.{folder}.space")
