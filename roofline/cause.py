"""Define a cause: something that costs a kernel time, the time that it explains, and its gain."""

import math
import re
from dataclasses import dataclass, replace

from portable.roofline.units import picked, times

HALF, REFUTED = 0.5, 2.0  # of the time: a cause that explains less, or more, is not believed
WORTH = 1.1  # gain, below which a cause is none


@dataclass(frozen=True)
class Cause:
    """Something that costs time: `seconds` of the call, and a clause that says so.

    `ideal` is what the same work wants without it, and `gain` how many times as fast all would be, where that
    is known. `least` is the roof of the work without it, where that is not the roof of the work as it is.
    `fixed`: where it explains less than was seen, the work without it still wants no more than `ideal`; else
    it is taken to want more by as much. `alone` is what a thread takes from its begin to its end without it,
    however many others there are: nothing hides that of those which begin last.
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
        """Return this cause with its gain: all of the time but `launch` and `alone` shrinks as what it
        explains does, or to what the work wants without it, where it explains more than was seen; nothing
        gets faster than `least`."""
        stays = min(launch + self.alone, took) if self.name != "launch" else 0.0
        left = self.ideal * (1.0 if self.fixed else max(1.0, (took - stays) / self.seconds))
        return replace(self, gain=took / (stays + max(least if self.least is None else self.least, left)))

    @property
    def told(self):
        """The clause, with its gain."""
        return self.text + (
            f": up to {times(self.gain)} times as fast without" if self.gain and self.gain >= WORTH else ""
        )

    def as_dict(self, subject):
        """Return the JSON object; `subject` is what the clause is about."""
        told = {
            **picked(self, "name seconds provenance"),
            "text": f"{subject}{self.told}",
        }
        return told | {"gain": self.gain and float(f"{self.gain:.4g}")}


def extent_of(kernel):
    """Return the number of indices or teams of a launch, and which of both."""
    extents, unit = _extents(kernel)
    return math.prod(extents), unit


def rows_of(kernel):
    """Return the number of indices side by side: those of a box's last extent, or all."""
    return _extents(kernel)[0][-1]


def _extents(kernel):
    number, _, unit = kernel.counts.policy.rpartition(" ")
    return [int(n) for n in re.findall(r"\d+", number.replace(",", ""))], unit
