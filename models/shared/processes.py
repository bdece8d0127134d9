"""Independent jobs, such as simulated data sets, in parallel processes."""

import concurrent.futures
import functools
import multiprocessing
from collections.abc import Callable

from .checks import check_count
from .cluster import connected, each
from .progress import tracked


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
    track = functools.partial(tracked, description=description, total=n, shown=progress)
    if client is not None:
        with connected(client) as client:
            return list(track(each(client, function, n, space)))
    if jobs == 1:
        return list(track(map(function, range(n))))
    with concurrent.futures.ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        return list(track(pool.map(function, range(n))))


def space_of(space: object, jobs: int, client: object = None) -> object:
    """Return the space of each of `jobs` processes, or of the workers of a client: `space` if given, else
    "serial" if they share the cores."""
    return "serial" if space is None and (jobs > 1 or client is not None) else space
