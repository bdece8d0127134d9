"""Counts of launches of each kind, taken before they run: of all first ones, and of ever fewer later ones."""

from __future__ import annotations

import collections
import contextlib
import time

import numpy as np

import portable as pk
from portable.roofline.counting import branches, count
from portable.roofline.counts import mean

PATIENCE = 1.0  # seconds for repeated counting of launches of one kind, each on its own data
PATIENCE_AGAIN = 10.0  # seconds for repeated counting of launches of a program, each on its own data
SIZES = 12  # of a kernel that are all counted; of further sizes every third or fewer
# seconds of counting a source above which executed operations are not counted: that takes several times as
# long
TEXT = 2.0

regions = []  # open blocks, outermost first, independent of any profile


class Met:
    """Store counts of launches of one kind: of all first ones, and of ever fewer later ones."""

    def __init__(self):
        self.n, self.next, self.left, self.samples, self._mean = 0, 1, PATIENCE, [], None
        self.numbers = None

    def meet(self, launch, executed, again=True):
        """Count a launch if it is due; if there is a count already, only if `again`."""
        self.n += 1
        if self.samples and (
            not again or self.n < self.next or self.left <= 0.0 or not self._may_differ(launch)
        ):
            return
        again, start = bool(self.samples), time.perf_counter()
        self.samples.append((self.n, count_launch(launch, executed=executed)))
        self.left -= again * (time.perf_counter() - start)  # the first one includes compilation
        self.next, self._mean = self.n + max(1, self.n // 3), None
        self.numbers = _whole_numbers(launch.args)

    def _may_differ(self, launch):
        """Return True if a launch may do other work than the last counted one."""
        return branches(launch.kernel) or _whole_numbers(launch.args) != self.numbers

    def mean(self):
        """Return the mean of the samples, each weighted by the launches until the next."""
        if self._mean is None:
            ends = [n for n, _ in self.samples[1:]] + [self.n + 1]
            self._mean = mean(
                [(end - n, counts) for (n, counts), end in zip(self.samples, ends, strict=True)]
            )
        return self._mean


class Counted:
    """Store counts of launches of each kind, taken before they run, because their memory may be reused
    afterwards.

    The first launch of a kind is counted, and later ones ever more rarely while time is left: for data that
    change, the result is the mean. If a kernel is launched over many sizes, some sizes are counted.
    """

    def __init__(self):
        self._kinds, self._own, self._groups, self._left = {}, set(), {}, PATIENCE_AGAIN

    def count_if_due(self, launch):
        """Count a launch if it is due; an error is raised when the counts are read."""
        key = kind_of(launch, region_now())
        group = self._groups.setdefault(group_of(key), _Sizes())
        if key in self._own:
            self._count_again(self._kinds[key], launch)
        elif key in self._kinds or group.wants():
            self._own.add(key)
            self._kinds[key] = group.last = self._first(launch)
        else:
            self._kinds[key] = group.last

    def _count_again(self, met, launch):
        if isinstance(met, Met):
            start = time.perf_counter()
            with contextlib.suppress(Exception):  # the first launch was counted
                met.meet(launch, met.executed, again=self._left > 0.0)
            self._left -= time.perf_counter() - start

    def _first(self, launch):
        met, start = Met(), time.perf_counter()
        met.executed = False
        try:
            met.meet(launch, False)
            if time.perf_counter() - start < TEXT:  # counted again, with executed operations
                met = Met()
                met.executed = True
                met.meet(launch, True)
        except Exception as error:  # noqa: BLE001 - the program continues
            return error
        return met

    def of(self, keys):
        """Return the mean counts of a launch over several kinds, weighted by their given numbers of
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
    """Select the sizes of a kernel to be counted: all of the first ones, ever fewer later ones; sizes between
    these use the last count."""

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
    """Return the Counts of a launch, as listeners receive it, in its own space, independent of the default
    space."""
    scan = launch.scan and launch.scan.split(" ")[1]
    with pk.use(launch.space):
        return count(
            launch.policy, launch.kernel, *launch.args, reducer=launch.reducers, scan=scan, executed=executed
        )


def shapes_of(args):
    """Return the traits that determine the work of a kernel's launch: shapes and types of arrays, and values
    for which it was compiled."""
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
    """Return the whole numbers among the arguments, on which loops may depend."""
    return [
        _whole_numbers(a) if isinstance(a, tuple) else a
        for a in args
        if isinstance(a, (int, np.integer, tuple))
    ]
