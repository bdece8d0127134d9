"""Warnings that name the line of the user's that they are about."""

from __future__ import annotations

import sys
import warnings


def warn(text: str, kind: type[Warning] = RuntimeWarning) -> None:
    """Warn at the nearest line that is not of this package, however many functions lie between."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back and frame.f_globals["__name__"].startswith("portable."):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, kind, stacklevel=level + 1)
