"""Counts of a report's methods on a device, made before the first one is timed, by parallel processes.

Counting is the host's work, most of it compilation, which one process does sequentially: of kernels for the
device, of their counting builds, and of both again for the operations of the source. The timing process then
finds the device's compiled code on disk.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import portable as pk
from portable.roofline import case_list, ceiling, machine
from portable.roofline.contract import Run
from portable.roofline.counts import Counts
from portable.roofline.profiling import profile

EACH, MOST = 2, 8  # cores of a process, and the most processes, as each has its inputs in the device's memory
THREADS = 4  # of a process: more than its cores, because it compiles most of the time
Method = tuple[str, str, str]  # its case, its name, its source
_asked = {}  # in a worker process: the space, the folder of data, and whether inputs are tiny


@contextlib.contextmanager
def processes(
    space: str, chosen: Iterable[str], data: Path | None, quick: bool = False
) -> Iterator[Callable[..., dict[Method, list[list[Counts]]]]]:
    """Start processes that prepare the inputs of cases in parallel with this one, and then count; they end
    with the block.

    Parameters
    ----------
    space : str
        A device's space.
    chosen : iterable of str
        The cases' names.
    data, quick : Path or None, bool
        As in `portable.roofline.cases.Case.prepare`.

    Yields
    ------
    count : callable
        Called with an iterable of (case, method, source), and optionally with a callable of (int, int) that
        is called before the first method and after each, with the number of finished methods and of all.
        Returns a dict by (case, method, source) of the Counts of a call's launches, a list for each event of
        the call in turn. Methods whose counting failed are left out, to be counted when they are timed; with
        too few cores all are.
    """
    n = min(machine.usable_cores() // EACH, MOST)
    if n < 2:
        yield lambda methods, on_done=None: {}
        return
    own, context = set(multiprocessing.active_children()), multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(n, context, _begin, (space, data, quick)) as pool:
        try:
            for _ in range(n):  # starts all processes
                pool.submit(_prepare, tuple(chosen))
            pool.submit(_compile_ceilings)
            yield functools.partial(_count, pool)
        finally:  # results are returned or on disk: killing loses nothing
            for process in set(multiprocessing.active_children()) - own:
                process.kill()


def _count(pool, methods, on_done=lambda n, total: None):
    # the methods that take longest are listed last, so begin with these
    asked, found = {pool.submit(_counts_of, *one): one for one in reversed(list(methods))}, {}
    on_done(0, len(asked))
    for done, one in enumerate(concurrent.futures.as_completed(asked), 1):
        with contextlib.suppress(Exception):
            found[asked[one]] = one.result()
        on_done(done, len(asked))
    return found


# ---- in a worker process
def _begin(*asked):
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is interrupted, and ends this process
    os.environ["PORTABLE_NUM_THREADS"] = str(min(THREADS, machine.usable_cores()))
    _asked.update(zip(("space", "data", "quick"), asked))


def _prepare(chosen):
    for case in chosen:
        _runs(case)


def _compile_ceilings():
    """Compile the kernels that measure the device, so that they are on disk when they are needed."""
    ceiling.ceilings(_asked["space"], quick=True)


@functools.cache
def _runs(case):
    with pk.use(_asked["space"]):
        return {(run.method, run.source): run for run in case_list.load(case).prepare(**_asked)}


def _counts_of(case, method, source):
    with pk.use(_asked["space"]):
        return counts_of(_runs(case)[method, source])


def counts_of(run: Run, executed: bool = False) -> list[list[Counts]]:
    """Return the counts of the launches of a call, event by event, after two calls that warm up."""

    def count(launch):
        made.meet(launch, executed=executed)

    for _ in range(2):
        run.complete()
    with profile(count, apart=True) as made:
        run.complete()
    return [found for _, found in made.counts(executed=executed)]
