"""Define a cause: a property of a kernel that costs time, the time that it explains, and its gain."""

import math
import re
from dataclasses import dataclass, replace

from portable.roofline.units import picked, times

HALF, REFUTED = 0.5, 2.0  # of the time: a cause that explains less, or more, is rejected
WORTH = 1.1  # the least gain of a cause


@dataclass(frozen=True)
class Cause:
    """Store a property that costs time: its `seconds` of the call, and a clause that names it.

    `ideal` is the time of the same work without it, and `gain` the speedup of the whole without it, if that
    is known. `least` is the roof of the work without it, if that differs from the roof of the work. If
    `fixed`, the work without the cause takes `ideal` even if the cause explains less than the measured time;
    otherwise `ideal` is scaled up in proportion. `alone` is the time of a thread from its beginning to its
    end without the cause, independent of the number of threads: the time of the threads that begin last is
    not hidden by others.
    """

    name: str
    seconds: float
    text: str
    provenance: str = "modelled"
    ideal: float = 0.0
    gain: float | None = None
    least: float | None = None
    fixed: bool = False
    alone: float = 0.0

    def without(self, took, least, launch=0.0):
        """Return this cause with its gain: the time except `launch` and `alone` shrinks by the ratio of
        `ideal` to the explained time, or to `ideal` if the cause explains more than the measured time; no
        time becomes less than `least`."""
        stays = min(launch + self.alone, took) if self.name != "launch" else 0.0
        left = self.ideal * (1.0 if self.fixed else max(1.0, (took - stays) / self.seconds))
        return replace(self, gain=took / (stays + max(least if self.least is None else self.least, left)))

    @property
    def clause(self):
        """The clause, with its gain."""
        return self.text + (
            f": up to {times(self.gain)} times as fast without" if self.gain and self.gain >= WORTH else ""
        )

    def as_dict(self, subject):
        """Return the cause as a JSON object; `subject` is the subject of its clause."""
        told = {**picked(self, "name seconds provenance"), "text": f"{subject}{self.clause}"}
        return told | {"gain": self.gain and float(f"{self.gain:.4g}")}


def extent_of(kernel):
    """Return the number of indices or teams of a launch, and the unit, "indices" or "teams"."""
    extents, unit = _extents(kernel)
    return math.prod(extents), unit


def rows_of(kernel):
    """Return the number of adjacent indices: those of a box's last extent, or all."""
    return _extents(kernel)[0][-1]


def _extents(kernel):
    number, _, unit = kernel.counts.policy.rpartition(" ")
    return [int(n) for n in re.findall(r"\d+", number.replace(",", ""))], unit
