"""`roofline.ceilings`: the peak rates of this machine, measured by kernels of the layer, and stored on disk
until they are stale."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
import math
import os
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from platformdirs import user_cache_dir

import portable as pk
from portable.errors import InputError
from portable.roofline import files, machine, measuring, microkernels, physics
from portable.roofline.grid import grid
from portable.roofline.timing import Samples
from portable.roofline.units import picked, scaled, spread

if TYPE_CHECKING:
    from rich.table import Table

SCHEMA_VERSION = 1
DAYS = 30  # the maximal age of ceilings: drivers, clocks and the machine's other work change
_held = {}  # by key: one process compares all its kernels with the same ceilings
TRIES = 6  # further measurements of ceilings that are too low: their order is then impossible for a machine
QUIETER = 0.3  # cores: a stored measurement is repeated if other work now takes this many fewer


@dataclass(frozen=True)
class Ceiling:
    """Store one ceiling: rates in `unit`s per second (or seconds, of the launch), one for each repeat.

    The roof is the best rate that several repeats reached, because a measured rate is attainable: of nine or
    more repeats the third best, since a single one may be an error of the clock. The effect of other work is
    in the spread. `name` is "fma float64", "exp float32", "integer int64", "atomic apart int64", "bandwidth
    L2", "launch" ...; "capacity L3" is in bytes.
    """

    name: str
    unit: str
    rate: Samples
    method: str

    @property
    def reached_once(self) -> bool:
        """Return True if more repeats than usual did not again come close to the best."""
        times = self.rate.values if self.unit == "s" else [1.0 / rate for rate in self.rate.values]
        return len(times) > measuring.REPEATS and not physics.steady(times)

    @property
    def best(self) -> float:
        """The best rate that several repeats reached."""
        values = sorted(self.rate.values, reverse=self.unit != "s")
        return values[min(physics.SEEN - 1, (len(values) - 1) // 4)]

    def better(self, other: Ceiling | None) -> Ceiling:
        """Return the better of this measurement and another one of the same ceiling.

        Parameters
        ----------
        other : Ceiling or None

        Returns
        -------
        Ceiling
        """
        if other is None:
            return self
        return (min if self.unit == "s" else max)(self, other, key=lambda one: one.best)

    def as_dict(self) -> dict[str, Any]:
        """Return the ceiling as a JSON object."""
        return {**picked(self, "name unit best method"), "provenance": "measured", **self.rate.as_dict()}


@dataclass(frozen=True)
class Ceilings:
    """Store all ceilings of a space on this machine.

    Attributes
    ----------
    space, date : str
    machine : dict, see `portable.roofline.machine.facts`
    clock : float or None
        Cycles per second of a core during the measurement; of a GPU under load, if nvidia-smi reports it,
        else None.
    levels : list of (name, bytes)
        Memory levels from the nearest to the farthest, with their capacity (of all cores together; None:
        unlimited).
    items : dict of name to Ceiling
    """

    space: str
    date: str
    machine: dict[str, Any]
    clock: float | None
    levels: list[tuple[str, int | None]]
    items: dict[str, Ceiling]

    def rate(self, name: str) -> float | None:
        """Return the roof of a name.

        Parameters
        ----------
        name : str
            As `Ceiling.name`.

        Returns
        -------
        float or None
            Its unit per second; None if it was not measured.
        """
        return self.items[name].best if name in self.items else None

    def seconds(self, n: float, name: str) -> float:
        """Return seconds of n operations, or bytes, at a roof; 0 if it was not measured.

        Parameters
        ----------
        n : float
        name : str
            As `Ceiling.name`.

        Returns
        -------
        float
        """
        return n / (self.rate(name) or math.inf)

    def measured_at(self, level: str) -> list[Ceiling]:
        """Return the ceilings of a memory level, one for each access pattern.

        Parameters
        ----------
        level : str
            Such as "L2".

        Returns
        -------
        list of Ceiling
        """
        return [c for c in self.items.values() if c.name.split(" ")[-1] == level and c.unit == "B"]

    def bandwidth(self, level: str) -> float:
        """Return the bandwidth of a memory level: the best of its measurements.

        Parameters
        ----------
        level : str
            Such as "L2".

        Returns
        -------
        float, bytes per second
        """
        found = self.measured_at(level)
        if not found:
            known = dict.fromkeys(c.name.split(" ")[-1] for c in self.items.values() if c.unit == "B")
            raise InputError(
                f"level: '{level}' is no memory level whose bandwidth was measured on {self.space}; there are"
                f" {', '.join(known)}."
            )
        return max(c.best for c in found)

    @property
    def doubts(self) -> list[str]:
        """Return the reasons to doubt these ceilings, as sentences; see `portable.roofline.physics`."""
        return physics.find_doubts(self)

    @property
    def near(self) -> list[tuple[str, int | None]]:
        """The memory levels in order of access: shared memory replaces a GPU's first cache."""
        first = [("shared", None)] if "bandwidth shared" in self.items else []
        return [*first, *self.levels]

    def level_of(self, n_bytes: float) -> str:
        """Return the nearest memory level that holds so many bytes: by its measured capacity if there is one,
        which is the part of a shared cache that other users of the machine leave.

        Parameters
        ----------
        n_bytes : float

        Returns
        -------
        str
        """
        return next(
            name
            for name, capacity in self.levels
            if capacity is None or n_bytes <= (self.rate(f"capacity {name}") or capacity)
        )

    def clock_in_words(self) -> str:
        """Return the end of a sentence on the machine: ", a core at 3.7 GHz", or the empty string."""
        which = "the GPU" if self.space.startswith("cuda") else "a core"
        return f", {which} at {scaled(self.clock, 'Hz')}" if self.clock else ""

    def as_dict(self) -> dict[str, Any]:
        """Return the ceilings as a JSON document."""
        return {
            "schema": "roofline-ceilings",
            "schema_version": SCHEMA_VERSION,
            **picked(self, "space date machine clock levels doubts"),
            "ceilings": [c.as_dict() for c in self.items.values()],
        }

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> Ceilings:
        """Return the Ceilings of a document that `as_dict` returned.

        Parameters
        ----------
        document : dict

        Returns
        -------
        Ceilings
        """
        items = {
            c["name"]: Ceiling(
                c["name"], c["unit"], Samples(tuple(c["values"]), c["calls_per_repeat"]), c["method"]
            )
            for c in document["ceilings"]
        }
        levels = [tuple(level) for level in document["levels"]]
        return cls(document["space"], document["date"], document["machine"], document["clock"], levels, items)

    def table(self) -> Table:
        """Return the table for the terminal."""
        caption = (
            f"measured {self.date} on {self.machine['device'] or self.machine['cpu']}{self.clock_in_words()}"
        )
        caption += f"; in doubt, so not kept: {'; '.join(self.doubts)}" if self.doubts else ""
        rows = []
        for c in self.items.values():
            unit = c.unit if c.unit in ("s", "byte") else f"{c.unit}/s"
            rows.append(
                (c.name, scaled(c.best, unit), scaled(c.rate.median, unit), spread(c.rate, unit), c.method)
            )
        return grid(f"Ceilings of {self.space}", "ceiling<|roof|median|?quartiles|method<", rows, caption)


def ceilings(
    space: pk.SpaceLike | None = None,
    *,
    special: Iterable[tuple[str, str]] = (),
    fresh: bool = False,
    again: bool = False,
    quick: bool = False,
    on_start: Callable[[str, int, int], object] = lambda name, done, total: None,
) -> Ceilings:
    """Return the ceilings of a space on this machine.

    Measured on the first call, which takes less than a minute, then read from a file of the user's cache
    folder (`PORTABLE_CACHE` moves it, `PORTABLE_CACHE=0` turns it off). The measurement is repeated on
    another machine, with another version of the software, after 30 days, or when the machine is quieter than
    it was then. Doubtful ceilings (`Ceilings.doubts`) are not kept for other processes. A folder that cannot
    be written costs a warning, never the result.

    Parameters
    ----------
    space : str or Space, optional
        The default space if not given.
    special : iterable of (name, dtype)
        More special functions, as `Counts.special` names them; a function without a version of one argument
        has no ceiling.
    fresh : bool
        Measure even if the file is valid.
    again : bool
        Measure once more, and keep the better value of each ceiling: for results above their roof.
    quick : bool
        Tiny measurements, for trials: the values are meaningless and never kept.
    on_start : callable of (str, int, int)
        Called before each measurement, with its name, the number of finished ones, and of all.

    Returns
    -------
    Ceilings

    Raises
    ------
    SpaceError
        The space is "checked" or cannot run here.
    """
    with pk.use(space if space is not None else pk.default_space()) as chosen:
        measuring.check(chosen)
        facts = machine.facts(str(chosen))
        key = _key(facts, chosen)
        path = None if quick else _folder()
        result = None
        if not (fresh or quick):
            result = _held.get(key) or (path and _read(path / f"{key}.json", facts["busy_cores"]))
        clock, levels, plans = measuring.plans(chosen, quick) if again or not result else (None, None, [])
        if not result:
            result = Ceilings(str(chosen), facts["date"], facts, clock() if clock else None, levels, {})
        more = (
            measuring.special(chosen, *names, quick)
            for names in sorted(set(special))
            if again or " ".join(names) not in result.items
        )
        plans = {plan.name: plan for plan in [*plans, *more] if plan}
        for done, plan in enumerate(plans.values()):
            on_start(plan.name, done, len(plans))
            _measure(plan, result, quick)
        for _ in range(0 if quick else TRIES):
            low = [
                plans[name]
                for names, _ in physics.disorder(result)
                for name in sorted(names)
                if name in plans
            ]
            for plan in low:
                on_start(f"{plan.name}, again", len(plans), len(plans))
                _measure(plan, result, quick)
    if not quick:
        _held[key] = result
    if plans and path and not result.doubts:
        _write(path / f"{key}.json", result)
    return result


def _measure(plan, result, quick):
    """Measure a ceiling, and keep the better of it and the known one."""
    made = Ceiling(plan.name, plan.unit, plan.measure(quick), plan.method)
    result.items[plan.name] = made.better(result.items.get(plan.name))


def _key(facts, space):
    """Return the key that identifies valid measurements."""
    source = "".join(
        Path(module.__file__).read_text(encoding="utf-8") for module in (microkernels, measuring)
    )
    parts = [facts[name] for name in ("system", "cpu", "cores", "space", "device", "versions")]
    return hashlib.sha256(json.dumps([*parts, space.n_threads, SCHEMA_VERSION, source]).encode()).hexdigest()[
        :32
    ]


def _folder():
    """Return the folder of measurements, or None if the cache is off or cannot be made."""
    setting = os.environ.get("PORTABLE_CACHE", "")
    if setting == "0":
        return None
    path = Path(setting or user_cache_dir("portable", appauthor=False)) / "ceilings"
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        _warn(path, error)
        return None
    return path


def _warn(path, error):
    warnings.warn(
        f"roofline: ceilings are measured anew in every process, '{path}' cannot be used ({error.strerror})",
        stacklevel=3,
    )


def _read(path, busy_cores):
    """Return a stored measurement that is valid, or None; a broken file is ignored, and so is a measurement
    that was made while the machine was busier."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        document = json.loads(path.read_text(encoding="utf-8"))
        age = datetime.datetime.now(datetime.UTC) - datetime.datetime.fromisoformat(document["date"])
        quieter = (busy_cores or 0.0) + QUIETER < (document["machine"]["busy_cores"] or 0.0)
        if age < datetime.timedelta(days=DAYS) and not quieter:
            return Ceilings.from_dict(document)
    return None


def _write(path, result):
    try:
        files.write(path, json.dumps(result.as_dict(), indent=1) + "\n")
    except OSError as error:
        _warn(path.parent, error)
