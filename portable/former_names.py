"""Find portable.models and portable.roofline, and warn programs that import them by their former names."""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from pathlib import Path

_NOW = {
    "models": "the methods of portable are portable.models (from portable.models import hawkes)",
    "roofline": "portable's measuring tool is portable.roofline (from portable import roofline)",
}


class _Last(MetaPathFinder):
    """The last finder, and so one that receives only names of packages that do not exist."""

    def find_spec(self, name, path=None, target=None):
        if name in _NOW:
            raise ModuleNotFoundError(f"No module named {name!r}; {_NOW[name]}", name=name)
        return None


def checkout_folder(file: str) -> list[str]:
    """Return the folder in which a checkout has models/ and roofline/, next to portable/; a wheel has them
    inside.
    """
    here = Path(file).parent
    return [] if (here / "models").exists() else [str(here.parent)]


def stand_last() -> None:
    """Install the finder for names that no other finder resolves."""
    if not any(isinstance(finder, _Last) for finder in sys.meta_path):
        sys.meta_path.append(_Last())
