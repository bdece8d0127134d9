"""Progress bar of long calls."""

import rich.progress
from rich.console import Console

from .checks import check_flag


def bar(shown: bool, *columns: str) -> rich.progress.Progress:
    """Return a progress bar on standard error, with a description, the completed share, and the remaining
    time.

    Parameters
    ----------
    shown : bool
        If False, nothing is written.
    *columns : str
        Further columns after the bar, in the format of rich.

    Returns
    -------
    rich.progress.Progress

    Raises
    ------
    DTypeError
        `shown`, the argument `progress` of methods, is not a bool.
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


def tracked(items, description, total=None, shown=True):
    """Yield items, with a progress bar on standard error if `shown`."""
    return rich.progress.track(items, description, total, console=Console(stderr=True), disable=not shown)
