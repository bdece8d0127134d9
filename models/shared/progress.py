"""The bar that is shown while a long call goes on."""

from __future__ import annotations

import types
from typing import Any

import rich.progress
from rich.console import Console

from .checks import check_flag


class Unseen:
    """A bar that is not shown, with as much of rich's as the methods ask for: rich's own takes as long as a
    dozen launches."""

    disable = True

    def __init__(self) -> None:
        self.tasks: list[Any] = []

    def __enter__(self) -> Unseen:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def add_task(
        self, description: str, total: float | None = None, completed: float = 0.0, **fields: Any
    ) -> int:
        self.tasks.append(types.SimpleNamespace(id=len(self.tasks), total=total, completed=completed))
        return self.tasks[-1].id

    def advance(self, task: int, advance: float = 1.0) -> None:
        self.tasks[task].completed += advance

    def update(
        self,
        task: int,
        total: float | None = None,
        completed: float | None = None,
        advance: float = 0.0,
        **fields: Any,
    ) -> None:
        own = self.tasks[task]
        own.total = own.total if total is None else total
        own.completed = (own.completed if completed is None else completed) + advance


def bar(shown: bool, *columns: str) -> rich.progress.Progress | Unseen:
    """Return a bar on standard error: what is done, how much of it, how long the rest will take.

    Parameters
    ----------
    shown : bool
        Otherwise nothing is written.
    *columns : str
        What stands behind it, in rich's words.

    Returns
    -------
    rich.progress.Progress, or what has its methods

    Raises
    ------
    DTypeError
        `shown`, which users know as `progress`, is no bool.
    """
    if not check_flag(shown, "progress"):
        return Unseen()
    return rich.progress.Progress(
        "[progress.description]{task.description}",
        rich.progress.BarColumn(),
        rich.progress.MofNCompleteColumn(),
        rich.progress.TimeRemainingColumn(),
        *columns,
        console=Console(stderr=True),
    )
