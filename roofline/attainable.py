"""Bound a launch's time: the time of each resource at its measured ceiling, and the largest of them.

arithmetic      flops of the source, or of the compiled code if it has fewer, at the FMA peak of their
                precision; products of teams in float64 at their own peak, and special functions at their own
                rates. On a CPU they share the same units, so their times add up, except square roots, which
                use the unit of divisions; a GPU has separate units for float64, for float32, for special
                functions in float32 and for integers, which work at the same time, so the largest time counts
integer         integer operations of the source, or the executed ones if these are fewer, at the integer
                peak; on a GPU only for kernels without floating-point work
memory LEVEL    compulsory bytes at the bandwidth of the nearest level that was measured to hold them
requested       executed loads and stores at the first level's bandwidth (CPU)
atomics         at the rate of atomic additions, each to a separate place
launch          the cost of a launch in a graph of many, which is the least cost of a launch
"""

import math
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property

import portable as pk
from portable.errors import printable
from portable.roofline.units import picked, scaled
from portable.roofline.counting import WARP, static_arguments
from portable.roofline.counts import mean

LOW = 0.6  # of the attainable rate: for lower rates a report gives reasons
ABOVE = 1.1  # of the attainable rate: more than the variation between repeats of a ceiling


@dataclass(frozen=True)
class Bound:
    """Store the bound of one launch.

    Attributes
    ----------
    wants : dict of str to seconds
        Attainable time by resource, the largest first.
    level : str
        The memory level that holds the launch's arrays.
    special : float, seconds
        The time of special functions, a part of the arithmetic.
    notes : list of str
    """

    wants: dict
    level: str
    special: float = 0.0
    notes: list = field(default_factory=list)

    @property
    def seconds(self):
        """The least time at the measured ceilings, in seconds."""
        return next(iter(self.wants.values()))

    @property
    def by(self):
        """The resource that bounds the launch."""
        return next(iter(self.wants))


def bound(counts, ceilings):
    """Return the bound of one launch.

    Parameters
    ----------
    counts : Counts
    ceilings : Ceilings

    Returns
    -------
    Bound
    """
    notes, level = [], ceilings.level_of(counts.reach)
    if level != ceilings.level_of(counts.compulsory):
        notes.append(
            f"other launches touch {scaled(counts.since, 'B')} in between: its data come from {level}"
        )
    ran = counts.executed_totals
    executed = ran if not counts.on_device else None  # of the CPU's code only
    arithmetic, special = _arithmetic(counts, ran, ceilings, notes)
    wants = {
        "arithmetic": arithmetic,
        "integer": _integer(counts, executed, ceilings),
        f"memory {level}": counts.compulsory / ceilings.bandwidth(level),
        "atomics": atomics(counts, ceilings, "apart"),
        "launch": ceilings.rate("launch"),
    }
    if executed and "bandwidth L1" in ceilings.items:
        wants["requested"] = (executed["loaded"] + executed["stored"]) / ceilings.bandwidth("L1")
    wants, product = _ranked(wants), ceilings.rate("product float64") or 0.0
    n, other = counts.flops_by_dtype.get("float64", 0), of_products(counts)
    if "arithmetic" in [*wants][:1] and 2 * other < n and product > 1.5 * ceilings.rate("fma float64"):
        notes.append(f"float64 by team.product has a roof of {scaled(product, 'flop/s')}")
    return Bound(wants, level, special, notes)


def atomics(counts, ceilings, where):
    """Return seconds of the atomic operations, each to a separate place ("apart") or all to one ("together"),
    at the rate of additions of integers or floats."""
    seconds = 0.0
    for (_, dtype), n in counts.atomics.items():
        kind = "float64" if dtype.startswith("float") else "int64"
        own = f"atomic {where} {kind}"
        seconds += ceilings.seconds(n, own if own in ceilings.items else f"atomic {where} int64")
    return seconds


def moving(counts, ceilings, level=None):
    """Return seconds of the compulsory bytes with the costs that a roof, the best of all patterns, omits: a
    CPU's cache fetches the lines that are written and not read, and a shared cache holds less than its
    capacity.

    Parameters
    ----------
    counts : Counts
    ceilings : Ceilings
    level : str, optional
        The memory level that supplies the bytes; by default the nearest that was measured to hold them.

    Returns
    -------
    float, seconds
    """
    moved = counts.compulsory
    level = level or _level_that_held(counts, ceilings)
    written = sum(max(written - read, 0) for read, written in counts.arrays.values())
    rates = {name: ceilings.rate(f"{name} {level}") for name in ("copy", "bandwidth")}
    if not written or not any(rates.values()):
        return moved / ceilings.bandwidth(level)
    if ceilings.space.startswith("cuda"):
        return moved / max(filter(None, rates.values()))
    # a copy moves 16 bytes an element, a triad 24; both also fetch the 8 written bytes, which are not counted
    fetched = max(times * (rates[name] or 0.0) for name, times in (("copy", 3 / 2), ("bandwidth", 4 / 3)))
    return (moved + written) / fetched


def _level_that_held(counts, ceilings):
    """Return the memory level that held the bytes: a core may write data that another core wrote in the
    preceding launch, through the cache that they share."""
    level, shared = ceilings.level_of(counts.reach), ceilings.measured_at("L3")
    written = any(written for _, written in counts.arrays.values())
    several = not ceilings.space.startswith("cuda") and pk.concurrency(ceilings.space) > 1
    return "L3" if level in ("L1", "L2") and written and shared and several else level


def _ranked(wants):
    return dict(sorted(wants.items(), key=lambda item: -item[1]))


def _arithmetic(counts, executed, ceilings, notes):
    """Return (seconds of flops and special functions, seconds of special functions) at their ceilings.

    Flops are those of the source, or of the compiled code if it has fewer: values that are uniform over lanes
    or iterations are computed once.
    """
    wanted = counts.flops_by_dtype
    if executed:
        wanted = {dtype: min(n, executed["flops"].get(dtype, 0)) for dtype, n in wanted.items()}
    flops = {dtype: n / ceilings.rate(f"fma {dtype}") for dtype, n in wanted.items()}
    product, n = ceilings.rate("product float64"), min(of_products(counts), wanted.get("float64", 0))
    if product and n:
        flops["float64"] += n / product - n / ceilings.rate("fma float64")
    special, roots, on_device = Counter(), 0.0, ceilings.space.startswith("cuda")
    for (name, dtype), n in counts.special.items():
        rate = ceilings.rate(f"{name} {dtype}")
        if rate is None:
            notes.append(f"no ceiling of {name} {dtype}: its calls are left out of the attainable time")
        else:
            additions = ceilings.rate(f"no fma {dtype}")
            seconds = n * _of_a_call(rate, additions, alone=on_device and dtype == "float32")
            special[dtype] += seconds
            roots += seconds * (name == "sqrt")
    if not on_device:
        rest = sum(flops.values()) + special.total() - roots
        return (rest, special.total() - roots) if rest > roots else (roots, roots)
    units = {dtype: flops.get(dtype, 0.0) + special[dtype] for dtype in {*flops, *special} - {"float32"}}
    units |= {"float32": flops.get("float32", 0.0), "special float32": special["float32"]}
    most = max(units, key=units.get)
    return units[most], special.get(most.removeprefix("special "), 0.0) if most != "float32" else 0.0


def of_products(counts):
    """Return the float64 flops in products of teams, which run on tensor cores."""
    places = {place for place, name, _ in counts.text if name == "team.product"}
    return sum(
        2 * n for (place, *what), n in counts.text.items() if place in places and what == ["fma", "float64"]
    )


def _of_a_call(rate, additions, alone):
    """Return seconds of a special function: it was measured with two additions a call, which are subtracted
    if they use the same units."""
    each = 1.0 / rate
    return each if alone or not additions else max(each - 2.0 / additions, 0.5 * each)


def _integer(counts, executed, ceilings):
    if executed:
        n = min(executed["integer"], counts.integer)
    else:
        n = 0 if counts.flops or counts.special else counts.integer
    return n / ceilings.rate("integer int64")


def shares(counts, ceilings):
    """Return {place: share} of each line of a source: its share of the seconds of arithmetic, atomics, and
    loads and stores, without overlap; integer operations count if the source has no other arithmetic."""
    wants, near = {}, ceilings.bandwidth(ceilings.levels[0][0])
    for place in {line for line, *_ in counts.text}:
        own = {key: n for key, n in counts.text.items() if key[0] == place}
        line = replace(counts, text=own, executed=None)
        integer = 0 if counts.flops or counts.special else line.integer
        wants[place] = (
            _arithmetic(line, None, ceilings, [])[0]
            + integer / ceilings.rate("integer int64")
            + atomics(line, ceilings, "apart")
            + (line.loaded + line.stored + line.scratch) / near
        )
    total = sum(wants.values())
    return {place: seconds / total for place, seconds in wants.items()} if total else {}


def other_operations(counts):
    """Return the operations of the source that are no flops: of integers, atomics, loads and stores."""
    reached = sum(
        n for (_, name, _), n in counts.text.items() if name.startswith(("load ", "store ", "atomic "))
    )
    return counts.integer + reached


def _mean(bounds):
    """Return the mean Bound of several launches."""
    if all(b is bounds[0] for b in bounds):
        return bounds[0]
    wants = Counter()
    for b in bounds:
        wants.update({name: seconds / len(bounds) for name, seconds in b.wants.items()})
    special = sum(b.special for b in bounds) / len(bounds)
    return Bound(
        _ranked(wants),
        bounds[0].level,
        special,
        list(dict.fromkeys(note for b in bounds for note in b.notes)),
    )


@dataclass(frozen=True)
class Kernel:
    """Store the launches of one kernel over one size within a call: `times` in seconds, one for each launch.

    `counts` and `bound` are means over the launches, `attainable` the seconds of all launches at the
    ceilings.
    """

    label: str
    counts: object
    bound: Bound
    times: tuple
    attainable: float

    @property
    def seconds(self):
        """Measured seconds of all launches together."""
        return sum(self.times)

    @property
    def near_bytes(self):
        """Return the bytes requested from the nearest memory level: loads and stores, after optimisation if
        executed operations were counted, and accesses to scratch; an element that all threads of a GPU's warp
        read counts once."""
        totals, alike = self.counts.executed_totals, self.counts.alike
        text = {"loaded": self.counts.loaded, "stored": self.counts.stored}
        asked = totals or text
        if self.counts.on_device:  # executed loads and stores include those of scratch
            asked = {way: min(n, asked[way]) for way, n in text.items()}
        once = max(asked["loaded"] - alike + alike // WARP, asked["loaded"] // WARP)
        return once + asked["stored"] + self.counts.scratch

    def level_bytes(self, ceilings):
        """Return {memory level: bytes} that one launch takes from each level, the nearest first.

        The nearest level supplies all requested bytes. The others supply the bytes that the level before them
        does not hold, by the sampled accesses; on a GPU only the memory is included, because it is unknown
        which threads run together.
        """
        found = {ceilings.near[0][0]: self.near_bytes}
        for (_, capacity), (name, _) in zip(ceilings.near, ceilings.near[1:]):
            passed = self.counts.passed(capacity) if capacity else math.nan
            if not math.isnan(passed):
                found[name] = round(passed)
        return found

    @property
    def operations(self):
        """The operations of one launch that are no flops: of integers, atomics, loads and stores."""
        return other_operations(self.counts)

    def as_dict(self, seconds, ceilings=None):
        """Return the kernel as a JSON object; `seconds` is the time of the whole call."""
        left = seconds - self.seconds + min(self.attainable, self.seconds)
        return {
            **picked(self, "label seconds operations"),
            "level_bytes": self.level_bytes(ceilings) if ceilings else {},
            "launches": len(self.times),
            "share_of_time": self.seconds / seconds,
            "attainable_seconds": self.attainable,
            "gain_of_the_call": seconds / left,
            "level": self.bound.level,
            "bound_by": self.bound.by,
            "wants_seconds": self.bound.wants,
            "explanation": self.counts.explanation(),
            "source": self.counts.source(),
            "shares": shares(self.counts, ceilings) if ceilings else {},
            **self.counts.as_dict(),
        }


@dataclass(frozen=True)
class Analysis:
    """Compare a whole call with its roof.

    Attributes
    ----------
    seconds : float
        The measured time of the call.
    launches : list of (label, Counts, Bound, seconds)
        Each launch of one call; its share of the time was measured with the profile.
    notes : list of str
    ceilings : Ceilings or None
        The ceilings from which the bounds were computed.
    copies : float
        Seconds of the call in copies.
    memory : int or None
        Peak memory of the process, minus its memory before the call.
    """

    seconds: float
    launches: list
    notes: list
    ceilings: object = None
    copies: float = 0.0
    memory: int | None = None

    @cached_property
    def kernels(self):
        """The launches grouped by kind, a list of Kernel, the costliest first; if queues overlap, times are
        scaled to the time of the call."""
        found, scale = {}, min(1.0, self.seconds / (sum(s for *_, s in self.launches) or self.seconds))
        for label, counts, b, seconds in self.launches:
            found.setdefault((label, counts.kernel, counts.policy), []).append((counts, b, seconds * scale))
        return sorted(
            (_merged_kernel(label, launches) for (label, *_), launches in found.items()),
            key=lambda k: -k.seconds,
        )

    def against(self, ceilings):
        """Return the same call, compared with other ceilings."""
        launches = [
            (label, counts, bound(counts, ceilings), seconds) for label, counts, _, seconds in self.launches
        ]
        return replace(self, launches=launches, ceilings=ceilings)

    @property
    def outside(self):
        """Seconds of the call without a running kernel: Python, copies, waiting."""
        return max(0.0, self.seconds - sum(k.seconds for k in self.kernels))

    @property
    def attainable(self):
        """Seconds of the launches at the ceilings."""
        return sum(b.seconds for _, _, b, _ in self.launches)

    @property
    def share(self):
        """The attainable time over the measured one: 1 is the roof."""
        return self.attainable / self.seconds

    @property
    def by(self):
        """Return the resource that bounds the call: the one with the largest part of the attainable time."""
        return self._summed(lambda _, b: {b.by: b.seconds}).most_common(1)[0][0]

    def _summed(self, quantities):
        """Return the sums, by name, of quantities of each launch's Counts and Bound."""
        found = Counter()
        for _, counts, b, _ in self.launches:
            found.update(quantities(counts, b))
        return found

    def total(self, quantity):
        """Return the sum of a quantity of Counts over the launches."""
        return sum(getattr(counts, quantity) for _, counts, _, _ in self.launches)

    @property
    def special(self):
        """The number of calls of special functions."""
        return self._summed(lambda counts, _: counts.special).total()

    @property
    def flops_by_dtype(self):
        """Flops of the source by precision."""
        return dict(self._summed(lambda counts, _: counts.flops_by_dtype))

    @property
    def special_share(self):
        """The share of special functions in the time of arithmetic."""
        sums = self._summed(lambda _, b: {"special": b.special, "all": b.wants["arithmetic"]})
        return sums["special"] / sums["all"] if sums["all"] else 0.0

    @property
    def wants(self):
        """Seconds by resource, summed over the launches, the largest first: the attainable times next to each
        other."""
        return dict(self._summed(lambda _, b: b.wants).most_common())

    @property
    def intensity(self):
        """Flops per compulsory byte, or None if no bytes are moved."""
        moved = self.total("compulsory")
        return self.total("flops") / moved if moved else None

    @property
    def level(self):
        """The memory level with the most compulsory bytes of the launches."""
        return self._summed(lambda counts, b: {b.level: counts.compulsory}).most_common(1)[0][0]

    @property
    def level_bytes(self):
        """Bytes that the call moves to or from each memory level, by the name of the level; only levels for
        which the bytes of all its kernels are known."""
        of_kernels = (
            [(len(k.times), k.level_bytes(self.ceilings)) for k in self.kernels] if self.ceilings else []
        )
        known = [set(found) for _, found in of_kernels]
        names = [name for name in of_kernels[0][1] if all(name in every for every in known)] if known else []
        return {name: sum(n * found[name] for n, found in of_kernels) for name in names}

    def as_dict(self):
        """Return the call as a JSON object; every number has its provenance."""
        return {
            "seconds": {"value": self.seconds, "provenance": "measured"},
            "attainable_seconds": {"value": self.attainable, "provenance": "modelled"},
            "share_of_attainable": self.share,
            "bound_by": self.by,
            **picked(self, "level flops_by_dtype special intensity notes"),
            "flops": self.total("flops"),
            "operations": sum(len(k.times) * k.operations for k in self.kernels),
            "integer": self.total("integer"),
            "compulsory_bytes": self.total("compulsory"),
            "requested_bytes": self.total("loaded") + self.total("stored"),
            "level_bytes": self.level_bytes,
            "wants_seconds": self.wants,
            "outside_seconds": {"value": self.outside, "provenance": "measured"},
            "copies_seconds": self.copies,
            "memory_bytes": self.memory,
            "kernels": [kernel.as_dict(self.seconds, self.ceilings) for kernel in self.kernels],
        }


def _merged_kernel(label, launches):
    """Return the Kernel of several launches, (Counts, Bound, seconds) each."""
    same = Counter(id(counts) for counts, *_ in launches)
    different = {id(counts): counts for counts, *_ in launches}
    counts = mean([(same[key], different[key]) for key in same])
    bounds = [b for _, b, _ in launches]
    return Kernel(
        label,
        counts,
        _mean(bounds),
        tuple(seconds for *_, seconds in launches),
        sum(b.seconds for b in bounds),
    )


def analyse_launch(label, counts, seconds, ceilings):
    """Return one launch compared with its roof; `seconds` is its measured time."""
    found = bound(counts, ceilings)
    notes = [*counts.notes, *found.notes]
    return Analysis(seconds, [(label, counts, found, seconds)], notes, ceilings=ceilings)


def analyse(profile, seconds, ceilings, *, executed=True, counts=None):
    """Return one profiled call compared with its roof.

    Parameters
    ----------
    profile : Profile
        The profile of one call.
    seconds : float
        The time of a call, measured without the profile.
    ceilings : callable of a set of (name, dtype) that gives Ceilings
        Called with the special functions that were counted.
    executed : bool
        Also count the executed operations, by four more runs.
    counts : list of lists of Counts, optional
        The counts of the launches of each event of the profile, if they are known.

    Returns
    -------
    Analysis, or None if the call launched no kernel
    """
    known = counts is not None
    counted = list(zip(profile.events, counts, strict=True)) if known else profile.counts(executed=executed)
    if not counted:
        return None
    roof = ceilings({name for _, counts in counted for c in counts for name in c.special})
    # On a CPU other work may have slowed the profiled call; a device's own clock is not affected.
    on_device = any(event.space.startswith("cuda") for event, _ in counted)
    launches, scale = [], 1.0 if on_device or not profile.seconds else seconds / profile.seconds
    compiled = {}
    for launch in (launch for event, _ in counted for launch in event.launches):
        compiled.setdefault((launch.label, launch.kernel), set()).add(str(static_arguments(launch)))
    for event, counts in counted:
        for launch, c in zip(event.launches, counts, strict=True):
            label = printable(launch.label)
            if len(compiled[launch.label, launch.kernel]) > 1:
                label += (
                    f" ({', '.join(f'{name} = {value}' for name, value in static_arguments(launch).items())})"
                )
            launches.append((label, c, bound(c, roof), scale * event.seconds / len(counts)))
    notes = list(dict.fromkeys(note for _, c, b, _ in launches for note in (*c.notes, *b.notes)))
    copies = min(scale * sum(copy.seconds for copy in profile.copies), seconds)
    if profile.short():
        notes.append(f"too short to time one by one: {', '.join(profile.short())}")
    return Analysis(seconds, launches, notes, ceilings=roof, copies=copies)
