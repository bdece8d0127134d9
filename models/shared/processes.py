"""Independent jobs, such as simulated data sets, in parallel processes."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
from collections.abc import Callable

import rich.progress
from rich.console import Console

from .checks import check_count
from .cluster import connected, each


def map_numbers(
    function: Callable,
    n: int,
    *,
    jobs: int = 1,
    description: str = "",
    progress: bool = False,
    client: object = None,
    space: str | None = None,
) -> list:
    """Return [function(0), ..., function(n - 1)], computed in parallel.

    Parameters
    ----------
    function : callable (int) -> object
        With jobs > 1, it and its results must pickle: a function at the top of a module, or a
        functools.partial of one.
    n : int
    jobs : int, default 1
        Number of processes. With 1, this process computes all.
    description : str
    progress : bool
        Show a progress bar.
    client : distributed.Client or "local", optional
        A client whose workers are used instead of `jobs`.
    space : str, optional
        The space that each of those workers must have, which is checked before work begins.

    Returns
    -------
    list

    Raises
    ------
    Exception
        The first exception that a call raised; calls that have not begun are cancelled.
    """
    jobs = min(check_count(jobs, "jobs", 1, 1024), max(n, 1))
    shown = {"description": description, "disable": not progress, "total": n, "console": Console(stderr=True)}
    if client is not None:
        with connected(client) as client:
            return list(rich.progress.track(each(client, function, n, space), **shown))
    if jobs == 1:
        return [function(k) for k in rich.progress.track(range(n), **shown)]
    found = [None] * n
    with concurrent.futures.ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        numbers = {pool.submit(function, k): k for k in range(n)}
        try:
            for done in rich.progress.track(concurrent.futures.as_completed(numbers), **shown):
                found[numbers[done]] = done.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return found


def space_of(space: object, jobs: int, client: object = None) -> object:
    """Return the space of each of `jobs` processes, or of the workers of a client: `space` if given, else
    "serial" if they share the cores."""
    return "serial" if space is None and (jobs > 1 or client is not None) else space
