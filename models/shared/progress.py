"""The bar that is shown while a long call goes on."""

from __future__ import annotations

import rich.progress
from rich.console import Console

from .checks import check_flag


def bar(shown: bool, *columns: str) -> rich.progress.Progress:
    """Return a bar on standard error: what is done, how much of it, how long the rest will take.

    Parameters
    ----------
    shown : bool
        Otherwise nothing is written.
    *columns : str
        What stands behind it, in rich's words.

    Returns
    -------
    rich.progress.Progress

    Raises
    ------
    DTypeError
        `shown`, which users know as `progress`, is no bool.
    """
    return rich.progress.Progress(
        "[progress.description]{task.description}",
        rich.progress.BarColumn(),
        rich.progress.MofNCompleteColumn(),
        rich.progress.TimeRemainingColumn(),
        *columns,
        console=Console(stderr=True),
        disable=not check_flag(shown, "progress"),
    )
