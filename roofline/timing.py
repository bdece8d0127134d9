"""Timing calls: batches long enough for the clock, medians with quartiles, and alternation for ratios.

Timings of a shared machine vary by a factor of two within seconds, so a ratio is only ever taken between
samples of one round of `alternate`, where the contenders run one right after the other.

Work on a device is timed with the host's clock from the first call of a batch to the end of a
synchronisation: a batch is long, so the one synchronisation is negligible, and the time is what a caller
observes.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from portable.roofline.side import batch_seconds, no_sync

MIN_SECONDS = 0.05  # of a repeat: ten thousand times the cost of the clock and a synchronisation
LONG_SECONDS = 10.0  # of a call whose compilation is a small part of it
ROUNDS, MIN_SAMPLES = 7, 3  # quartiles of fewer samples are meaningless
MORE_SECONDS = 1.0  # of a measurement, after which it is not repeated more often than required
SLOW_SECONDS = 0.5  # of a round, above which the fewest rounds are enough: long calls are averages themselves
PAUSE = 0.1  # seconds between contenders: idle threads of OpenBLAS spin for 40 ms, on the other side's cores
QUEUE = 500  # launches; CUDA's driver queues about 1,000 before it blocks the caller


@dataclass(frozen=True)
class Samples:
    """Store repeated measurements of one quantity.

    Parameters
    ----------
    values : tuple of float
        One value for each repeat: seconds per call, or a ratio.
    calls : int
        Calls averaged within each value.
    """

    values: tuple[float, ...]
    calls: int = 1

    @property
    def median(self) -> float:
        return float(np.median(self.values))

    @property
    def lower(self) -> float:
        """The first quartile."""
        return float(np.quantile(self.values, 0.25))

    @property
    def upper(self) -> float:
        """The third quartile."""
        return float(np.quantile(self.values, 0.75))

    def as_dict(self) -> dict[str, Any]:
        """Return plain numbers for JSON."""
        return {
            "median": self.median,
            "lower": self.lower,
            "upper": self.upper,
            "repeats": len(self.values),
            "calls_per_repeat": self.calls,
            "values": list(self.values),
        }


def tick():
    """Return the step of the host's clock in seconds: shorter times are measured as zero."""
    steps = []
    for _ in range(10):
        start = now = time.perf_counter()
        while now == start:
            now = time.perf_counter()
        steps.append(now - start)
    return min(steps)


def calls_that_fill(seconds_of, min_time):
    """Return a number of calls that take at least `min_time`, and the seconds of each.

    Parameters
    ----------
    seconds_of : callable of int
        Returns seconds per call of a batch of so many.
    min_time : float, seconds
    """
    calls = 1
    while (per_call := seconds_of(calls)) * calls < min_time:
        # At most tenfold at a time: the first batches are slow and would overstate a call.
        calls = max(calls + 1, min(10 * calls, math.ceil(1.1 * min_time / max(per_call, 1e-9))))
    return calls, per_call


def _calibrate(fn, sync, min_time):
    """Return calls that fill `min_time` seconds, and their seconds per call; a first call compiles and fills
    caches.

    If the first call took so long that compilation is a small part of it, it is used: a call of minutes is
    not repeated.
    """
    first = batch_seconds(fn, sync, 1)
    if first >= LONG_SECONDS:
        return 1, first
    seconds_of = functools.partial(batch_seconds, fn, sync)
    return calls_that_fill(seconds_of, MIN_SECONDS if min_time is None else min_time)


def measure(
    fn: Callable,
    sync: Callable | None = None,
    *,
    min_time=None,
    repeats=7,
    max_time=math.inf,
    most=0,
    enough: Callable | None = None,
) -> Samples:
    """Time a call.

    Parameters
    ----------
    fn : callable without arguments
    sync : callable, optional
        Blocks until the work of the preceding calls is done (`portable.fence` of the space).
    min_time : float, seconds, optional
        A repeat calls `fn` as often as needed to last this long; MIN_SECONDS by default.
    repeats : int
    max_time : float, seconds
        No further repeat starts after this time, once there are three.
    most : int
        Repeats continue up to this number, and MORE_SECONDS at most, until `enough` of all values is true.
    enough : callable of a list of float, optional

    Returns
    -------
    Samples
        Seconds per call, one value for each repeat.
    """
    sync = sync or no_sync
    calls, first = _calibrate(fn, sync, min_time)
    start, values = time.perf_counter(), [first]
    while len(values) < repeats or (
        len(values) < most and time.perf_counter() - start < MORE_SECONDS and not enough(values)
    ):
        if len(values) >= MIN_SAMPLES and time.perf_counter() - start > max_time:
            break
        values.append(batch_seconds(fn, sync, calls))
    return Samples(tuple(values), calls)


def alternate(
    fns: Mapping[str, Callable],
    rounds: int | None = None,
    *,
    sync: Mapping[str, Callable] | None = None,
    min_time=None,
    host_only=False,
    pause: float | None = None,
) -> dict[str, Samples]:
    """Time several calls in turn: first, second, ..., first, second, ..., each after a pause.

    Worker threads without work may spin for a while; without the pause they would slow the next contender.

    Parameters
    ----------
    fns : mapping of name to callable without arguments
    rounds : int, optional
        Every callable gives one sample a round, so equal positions in two results were measured together.
        ROUNDS, or MIN_SAMPLES of slow ones, by default. If there is a single round, a call of LONG_SECONDS is
        made only once.
    sync : mapping of name to callable, optional
        As in `measure`, for each name that needs one.
    min_time : float, seconds, optional
        As in `measure`.
    host_only : bool
        Stop the clock before the synchronisation, to time the caller only. Samples are then `QUEUE` calls,
        since a device blocks the caller once its queue is full.
    pause : float, seconds
        PAUSE by default; contenders whose threads do not spin need less.

    Returns
    -------
    dict of name to Samples, seconds per call, `rounds` values each
    """
    waits = {name: (sync or {}).get(name, no_sync) for name in fns}
    found = {name: _calibrate(fn, waits[name], min_time) for name, fn in fns.items()}
    batch = {name: calls for name, (calls, _) in found.items()}
    if rounds is None:
        rounds = (
            ROUNDS
            if sum(calls * seconds for calls, seconds in found.values()) < SLOW_SECONDS
            else MIN_SAMPLES
        )
    if host_only:
        batch = dict.fromkeys(fns, QUEUE)
    long = rounds == 1 and not host_only
    values = {
        name: [seconds] if long and seconds >= LONG_SECONDS else [] for name, (_, seconds) in found.items()
    }
    for done in range(rounds):
        for name, fn in fns.items():
            if len(values[name]) > done:
                continue
            time.sleep(PAUSE if pause is None else pause)
            values[name].append(batch_seconds(fn, waits[name], batch[name], host_only))
    return {name: Samples(tuple(v), batch[name]) for name, v in values.items()}


def ratio(numerator: Samples, denominator: Samples) -> Samples:
    """Return the ratios of two results of one `alternate`, round by round, so that they have their own
    spread."""
    return Samples(tuple(a / b for a, b in zip(numerator.values, denominator.values, strict=True)))
