"""Counts of launches of each kind, taken as they come: of the first, and ever fewer of the many."""

from __future__ import annotations

import collections
import contextlib
import time

import numpy as np

import portable as pk
from portable.roofline.counting import branches, count
from portable.roofline.counts import mean

PATIENCE = 1.0  # seconds for counting launches of one kind again, on the data that each meets
PATIENCE_AGAIN = 10.0  # seconds for counting launches of a program again, on the data that each meets
SIZES = 12  # of a kernel that are all counted; of further ones every third or fewer
# seconds for counting a text, above which what is executed is not counted too: it takes several times as long
TEXT = 2.0

regions = []  # open blocks, outermost first: a program names them whoever profiles it


class Met:
    """Counts of launches of one kind: all of the first, ever fewer of the many."""

    def __init__(self):
        self.n, self.next, self.left, self.samples, self._mean = 0, 1, PATIENCE, [], None
        self.numbers = None

    def meet(self, launch, executed, again=True):
        """Count a launch if it is time to; once there is a count, only if `again`."""
        self.n += 1
        if self.samples and (
            not again or self.n < self.next or self.left <= 0.0 or not self._may_differ(launch)
        ):
            return
        again, start = bool(self.samples), time.perf_counter()
        self.samples.append((self.n, count_launch(launch, executed=executed)))
        self.left -= again * (time.perf_counter() - start)  # the first one compiles
        self.next, self._mean = self.n + max(1, self.n // 3), None
        self.numbers = _whole_numbers(launch.args)

    def _may_differ(self, launch):
        """Return True if a launch may do other work than the one that was counted last."""
        return branches(launch.kernel) or _whole_numbers(launch.args) != self.numbers

    def mean(self):
        """Return the mean of the samples, each for the launches up to the next."""
        if self._mean is None:
            ends = [n for n, _ in self.samples[1:]] + [self.n + 1]
            self._mean = mean(
                [(end - n, counts) for (n, counts), end in zip(self.samples, ends, strict=True)]
            )
        return self._mean


class Counted:
    """Counts of launches of each kind, taken before they run: afterwards their data may be others'.

    The first launch of a kind is counted, and later ones ever more rarely while time is left: of data that
    evolve the mean is told. Of a kernel that is launched over ever other sizes, some sizes are counted.
    """

    def __init__(self):
        self._kinds, self._own, self._groups, self._left = {}, set(), {}, PATIENCE_AGAIN

    def before(self, launch):
        """Count a launch if it is time to; what goes wrong is told when the counts are wanted."""
        key = kind_of(launch, region_now())
        group = self._groups.setdefault(group_of(key), _Sizes())
        if key in self._own:
            self._again(self._kinds[key], launch)
        elif key in self._kinds or group.wants():
            self._own.add(key)
            self._kinds[key] = group.last = self._first(launch)
        else:
            self._kinds[key] = group.last

    def _again(self, met, launch):
        if isinstance(met, Met):
            start = time.perf_counter()
            with contextlib.suppress(Exception):  # the first one was counted
                met.meet(launch, met.executed, again=self._left > 0.0)
            self._left -= time.perf_counter() - start

    def _first(self, launch):
        met, start = Met(), time.perf_counter()
        met.executed = False
        try:
            met.meet(launch, False)
            if time.perf_counter() - start < TEXT:  # counted anew, with what is executed
                met = Met()
                met.executed = True
                met.meet(launch, True)
        except Exception as error:  # noqa: BLE001 - the program goes on
            return error
        return met

    def of(self, keys):
        """Return the counts of a launch in the mean of several kinds, given with their numbers of
        launches."""
        weights, counted = collections.Counter(), {}
        for key, n in keys:
            found = self._kinds[key]
            if isinstance(found, Exception):
                raise found
            weights[id(found)] += n
            counted[id(found)] = found
        return mean([(n, counted[k].mean()) for k, n in weights.items()])


class _Sizes:
    """Sizes of a kernel that were met: all of the first are counted, ever fewer of the many; those between
    are as the last one."""

    def __init__(self):
        self.met, self.next, self.last = 0, 1, None

    def wants(self):
        """Return True if a new size is to be counted."""
        self.met += 1
        if self.met < self.next:
            return False
        self.next = self.met + (1 if self.met < SIZES else self.met // 3)
        return True


def kind_of(launch, region):
    """Return the traits that launches of one kind share."""
    shapes = shapes_of(launch.args)
    return (
        region,
        launch.label,
        str(launch.space),
        launch.kernel,
        launch.policy,
        launch.reducers,
        launch.scan,
        shapes,
    )


def group_of(kind):
    """Return the traits that launches of one kernel share, over all sizes."""
    region, label, space, kernel, _, reducers, scan, _ = kind
    return region, label, space, kernel, reducers, scan


def region_now():
    """Return the names of the open blocks, outermost first, joined by " / "."""
    return " / ".join(regions)


def count_launch(launch, *, executed=True):
    """Return the Counts of a launch as listeners are told of it, in its own space, whichever is the
    default now."""
    scan = launch.scan and launch.scan.split(" ")[1]
    with pk.use(launch.space):
        return count(
            launch.policy, launch.kernel, *launch.args, reducer=launch.reducers, scan=scan, executed=executed
        )


def shapes_of(args):
    """Return the traits by which two launches of a kernel differ in their work: shapes and types of
    arrays, and values that it was compiled for."""
    args = (a.view if isinstance(a, pk.ScatterView) else a for a in args)
    return tuple(
        (
            shapes_of(a)
            if isinstance(a, tuple)
            else (getattr(a, "shape", None), str(getattr(a, "dtype", "")), getattr(a, "value", None))
        )
        for a in args
    )


def _whole_numbers(args):
    """Return the whole numbers among the arguments, by which loops may differ."""
    return [
        _whole_numbers(a) if isinstance(a, tuple) else a
        for a in args
        if isinstance(a, (int, np.integer, tuple))
    ]
