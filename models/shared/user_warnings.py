"""Warnings that are attributed to a line of the user's code."""

from __future__ import annotations

import sys
import warnings


def warn(text: str, kind: type[Warning] = RuntimeWarning) -> None:
    """Give a warning, attributed to the innermost calling line outside this package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back and frame.f_globals["__name__"].startswith("portable."):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, kind, stacklevel=level + 1)
