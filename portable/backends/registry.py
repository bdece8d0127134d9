"""Execution spaces to backends, imported when first used: `import portable` loads no compiler and no driver."""

from __future__ import annotations

import functools
import importlib

_FOLDERS = {"serial": "cpu", "threads": "cpu", "cuda": "cuda", "checked": "checked"}


@functools.cache
def backend(name):
    """The backend that runs the space of this name."""
    return importlib.import_module(f"{__package__}.{_FOLDERS[name]}.space")


def check_text(kernel, policy_kind, specs, reducers):
    """Lower a kernel without compiling it: whatever no space could run is refused here. Returns the entry."""
    entry = "scan.ScanEntry" if policy_kind.startswith("scan") else "lower.Entry"
    module, name = entry.split(".")
    made = getattr(importlib.import_module(f"{__package__}.cpu.{module}"), name)(kernel, policy_kind, specs, reducers)
    assert made.text  # whatever constant does not fit is found when code is emitted
    return made
