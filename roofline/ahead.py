"""Counts of a report's methods on a device, made before the first one is timed, by processes side by side.

Counting is the host's work, most of it compilation, which one process does one after the other: of kernels
for the device, of their counting builds, of both again as text. What is compiled for the device is then found
on disk by who times.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import multiprocessing
import os
import signal
from pathlib import Path

import portable as pk
from roofline import cases, ceiling, machine
from roofline.profiling import profile

EACH, MOST = 2, 8  # cores of a process, and processes, each of which has the inputs in the device's memory
FEW = 8  # methods and fewer are not worth their start
_asked = {}  # in such a process: the space, the folder of data, whether inputs are tiny


def counts(
    space: str,
    methods: list[tuple[str, str, str]],
    data: Path | None,
    quick: bool = False,
    on_done=lambda n, total: None,
) -> dict:
    """Counts of the launches of a call of each method.

    Parameters
    ----------
    space : str
        Of a device.
    methods : list of (case, method, source)
    data, quick : Path or None, bool
        As of `roofline.cases.Case.prepare`.
    on_done : callable of (int, int)
        Told before the first how many methods are done, and after each, of how many.

    Returns
    -------
    dict of (case, method, source) to list of lists of Counts
        Of each event of the call in turn, those of its launches. What nobody could count is left out: whoever
        times it counts it then. Empty where there are too few cores or methods.
    """
    n, found = min(machine.usable_cores() // EACH, MOST), {}
    if n < 2 or len(methods) <= FEW:
        return found
    own, context = set(multiprocessing.active_children()), multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(n, context, _begin, (space, data, quick)) as pool:
        pool.submit(_compile_ceilings)
        asked = {pool.submit(_counts_of, *method): method for method in methods}
        try:
            on_done(0, len(asked))
            for done, one in enumerate(concurrent.futures.as_completed(asked), 1):
                with contextlib.suppress(Exception):
                    found[asked[one]] = one.result()
                on_done(done, len(asked))
        except BaseException:
            for process in set(multiprocessing.active_children()) - own:
                process.kill()
            raise
    return found


def _begin(*asked):
    """In a process that counts."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever asks is interrupted, and ends this process
    os.environ["PORTABLE_NUM_THREADS"] = str(EACH)
    _asked.update(zip(("space", "data", "quick"), asked))


def _compile_ceilings():
    """What measures the device, so that it is found on disk when it is wanted."""
    ceiling.ceilings(_asked["space"], quick=True)


@functools.cache
def _runs(case):
    return {(run.method, run.source): run for run in cases.load(case).prepare(**_asked)}


def _counts_of(case, method, source):
    with pk.use(_asked["space"]):
        return counts_of(_runs(case)[method, source])


def counts_of(run, executed=False):
    """Counts of the launches of a call that is neither the first nor the second, event by event."""

    def count(launch):
        made.meet(launch, executed=executed)

    for _ in range(2):
        run.complete()
    with profile(count, apart=True) as made:
        run.complete()
    return [found for _, found in made.counts(executed=executed)]
