"""Find the causes of a kernel's time, from measurements and counts, and its time without each.

A roof is the least time of the text's operations and compulsory bytes. Here each further thing that could
cost time is given the time that it would explain, and the time that the same work wants without it, both
modelled. What explains less than half of the measured time, or more than twice, is not believed. Of the
others the cause is the one whose end would gain most, told with that gain:

launch            the cost of a launch (measured; up to twice that), of a kernel that has hardly more to do;
                  without, its part of a launch ten times as dear, with bytes from where so many lie
divergence        lanes that take no part, as neighbours branch otherwise or make fewer trips: all of the
                  time; without, the share of the lanes that took part, beside the bytes that are moved
scattered         elements gathered or scattered one by one, two a cycle; without, by packs. Where each index
                  goes along a row of its own, all of the time; without, packs of what lies side by side
overfetch         the lines that are touched; or the elements at scattered places, each on another line than
                  the one before, at the rate of gathers from the level that holds them, or, by the sampled
                  accesses, of those that they come from (on a GPU a sector each); without, the elements
                  alone, side by side; at places that data tell they stay gathered, from the nearest cache
conversions       between integers and floats, or floats of two sizes, at their rate, beside the arithmetic
spills            bytes that registers had no room for, at the first cache's bandwidth, beside the arithmetic;
                  on a GPU those of each thread, once at least, and with each operation at most
banks             accesses to scratch, as often as the bank with most words is asked (GPU)
together          atomic operations on so few places (of a CPU lines, of a GPU elements) that they meet; what
                  that costs lies between nothing and the slowest rate at one place; without, each to its own
parallelism       the roof of that part of the machine which so few indices or teams can fill; without, of all

special           special functions, where nothing else was found: they are part of the roof, most of its
                  arithmetic, and a third of the time or more; without, the rest

The cost of a launch stays, whatever else ends, and bytes move as `attainable.moving` tells. Parts of
a time without, of arithmetic and of memory, say, overlap in part: the root of the sum of their squares stands
for both. On a GPU the threads that begin last take their time when others have ended: what one block takes
alone (measured) stays with idle lanes, and shared out among as many as have room with few threads; of other
code, which nobody has run, four cycles for each of a thread's operations. And all that the code has to start
but what ends takes a cycle for 32 lanes of a scheduler.

What none of these explains is waiting: of operations for the one before, of threads for each other.
"""

import collections
import math

import portable as pk
from portable.roofline import compiled
from portable.roofline.attainable import atomics, moving
from portable.roofline.cause import HALF, REFUTED, WORTH, Cause, extent_of, rows_of
from portable.roofline.counting import WARP
from portable.roofline.mix import lanes_and_type
from portable.roofline.touched import SIZES, accesses
from portable.roofline.units import scaled

IDLE = 0.1  # of the lanes: fewer are what fills the last pack
# instructions, and loads or scalar operations, that a core starts in a cycle
PER_CYCLE, LOADS_PER_CYCLE = 4, 2
LARGE = 10  # times a launch's cost: so long takes one that is about its own work
LANES, WIDEST = 8, 16  # elements that one load of a pack brings, and lanes that the widest packs have
LINE, SECTOR = 64, 32  # bytes that a CPU's cache moves at once, and a GPU's
IN_FLIGHT = 128  # threads that a GPU keeps in flight for each of the teams that pk.concurrency tells


def causes(kernel, ceilings):
    """Return the causes that may have cost one launch of a kernel its time, each with the gain of its end,
    the largest first; at least one: waiting."""
    n = len(kernel.times)
    took = kernel.seconds / n
    least = max(kernel.bound.seconds, moving(kernel.counts, ceilings))
    launch = ceilings.rate("launch")
    found = [
        c.without(took, least, launch)
        for c in candidates(kernel, ceilings, took)
        if HALF * took <= c.seconds <= REFUTED * took
    ]
    found = sorted(
        (c for c in found if c.gain >= WORTH),
        key=lambda c: (-round(c.gain, 2), -c.seconds),
    )
    if not found and (cause := compiled.special(kernel, ceilings, took)):
        return [cause]
    if not found:
        waiting = _waiting(kernel, ceilings, took)
        return [waiting.without(took, least, launch) if waiting.ideal else waiting]
    kinds = {}
    for c in found:
        kinds.setdefault(c.name, c)
    return list(kinds.values())


def _amortised(kernel, ceilings, launch):
    """Return seconds of a launch's own work, were it a part of one so large that its launch is a tenth of
    it: with its bytes from the memory level that holds as much."""
    rest = [s for name, s in kernel.bound.wants.items() if name != "launch" and not name.startswith("memory")]
    counts, work = kernel.counts, max(rest, default=0.0)
    for level, capacity in ceilings.levels if counts.compulsory else ():
        seconds = max(work, moving(counts, ceilings, level), counts.compulsory / ceilings.bandwidth(level))
        held = ceilings.rate(f"capacity {level}") or capacity
        if not held or counts.compulsory * LARGE * launch / seconds <= held:
            return seconds * (1 + 1 / LARGE)
    return work * (1 + 1 / LARGE)


def candidates(kernel, ceilings, took):
    """Return the time of one launch by each thing that could have cost it, a list of Cause; `took` is what
    it took."""
    counts, found, on_device = kernel.counts, [], ceilings.space.startswith("cuda")
    launch = ceilings.rate("launch") if on_device else ceilings.rate("launch call") or ceilings.rate("launch")
    text = f"its work is so short that a launch costs as much ({scaled(launch, 's')})"
    work = _amortised(kernel, ceilings, launch)
    # of more arguments, or of a box, it costs more than the least one
    seconds = min(max(took, launch), REFUTED * launch)
    found.append(Cause("launch", seconds, text, "measured", ideal=work, least=work, fixed=True))
    masked = 1.0 - min(1.0, (1.0 - counts.masked) / _filled(kernel, on_device))
    if masked > IDLE:
        idle = max(masked, 1.0 - _busy_arithmetic(kernel, ceilings))
        text = f"{idle:.0%} of the lanes are idle, where neighbours branch otherwise or make fewer trips"
        # bytes are moved once, whoever wants them; the longest thread stays as long
        alone = min(compiled.alone(counts, ceilings), took)
        ideal = math.hypot((1.0 - idle) * (took - alone), moving(counts, ceilings))
        found.append(Cause("divergence", took, text, ideal=ideal, alone=alone))
    if counts.executed and counts.ptx is None and ceilings.clock:
        found += _of_gathers(kernel, ceilings, took)
    found += compiled.of_code(kernel, ceilings, took)
    found += _of_memory(kernel, ceilings, took)
    found += _of_atomics(counts, ceilings, took)
    return [*found, *_of_parallelism(kernel, ceilings, took)]


def _filled(kernel, on_device):
    """Return the part of the lanes that indices fill: those behind the last one, or the last of each row
    of a box, are no divergence."""
    extent, unit = extent_of(kernel)
    pack, extent = (WARP, extent) if on_device else (WIDEST, rows_of(kernel))
    return extent / (-(-extent // pack) * pack) if unit == "indices" and extent else 1.0


def _of_atomics(counts, ceilings, took):
    """Atomic operations on so few places that they meet there: what they wait for each other depends on how
    often they do, between never and always, at the slowest rate of any type: it is the line that has to go
    from one core to another."""
    n, meeting = sum(counts.atomics.values()), _meeting(counts, ceilings)
    known = (ceilings.items.get(f"atomic together {dtype}") for dtype in ("int64", "float64"))
    rates = [min(one.rate.values) for one in known if one]
    apart, together = atomics(counts, ceilings, "apart"), meeting * n / min(rates, default=math.inf)
    if together > apart:
        text = f"its {scaled(n)} atomic operations wait for each other where they meet in one place"
        if not ceilings.space.startswith("cuda"):  # a core does nothing beside one
            apart += moving(counts, ceilings)
        else:  # and so many places of their own have to be moved
            own = sum(2 * m * SIZES[dtype] for (_, dtype), m in counts.atomics.items())
            moved = counts.compulsory + own
            apart = max(apart, moved / ceilings.bandwidth(ceilings.level_of(moved)))
        yield Cause("together", max(apart, min(took, together)), text, ideal=apart)


def _meeting(counts, ceilings):
    """Return the part of the atomic operations that find another one at their place: of a GPU at an
    element, so many threads are there; of a CPU's cores each has a line at a time."""
    names, on_device, places = {}, ceilings.space.startswith("cuda"), 0
    for (_, operation, dtype), _ in counts.text.items():
        if accesses(operation, "atomic "):
            names[operation.rpartition(" ")[2]] = SIZES[dtype]
    for together, lines in counts.lines.items():
        for name in names.keys() & set(together.split(", ")):
            places += counts.arrays[together][1] // names[name] if on_device else lines[1]
    others = 1 if on_device else max(_threads(ceilings) - 1, 1)
    return min(1.0, others / places) if places else 0.0


def _of_gathers(kernel, ceilings, took):
    """Return the causes of element-wise gathers or scatters in a CPU's code."""
    counts, gathered, written = kernel.counts, collections.Counter(), 0
    for (place, name, of), n in counts.executed.items():
        if name in ("masked.gather", "masked.scatter"):
            elements = n * lanes_and_type(of)[0]
            if name == "masked.gather":
                gathered[place] += elements
            else:
                written += elements
    if not (scattered := gathered.total() + written):
        return
    text = f"it reads or writes {scaled(scattered)} elements at scattered places, one by one"
    seconds = scattered / (LOADS_PER_CYCLE * ceilings.clock * _threads(ceilings))
    one_by_one = Cause("scattered", seconds, text, ideal=seconds / LANES)
    yield _across(counts, ceilings, gathered, took) or one_by_one
    moves, reach, others = _jumps(counts)
    level = ceilings.level_of(reach)  # what is touched stays there
    elements, rate = min(scattered, moves), ceilings.rate(f"gather {level}")
    each = _lines_from(kernel, ceilings, others) if elements else {}
    found = []
    if rate and elements:
        found.append((elements / rate, level))
    if each:
        found.append((sum(each.values()), max(each, key=each.get)))
    ideal = max(kernel.bound.seconds, _in_order(counts, ceilings, scattered))
    for once, level in found:
        text = (
            f"each of {scaled(elements)} elements at scattered places of {scaled(reach, 'B')} brings a"
            f" line of {LINE} bytes from {level}"
        )
        # a line that is written is read before, and goes back, for which nobody need wait
        twice = (1.0 + written / scattered) * once
        yield Cause("overfetch", min(max(took, once), twice), text, ideal=ideal, fixed=True)


def _across(counts, ceilings, gathered, took):
    """Return rows across lanes: each index goes along a row of its own, so that its neighbour's element is
    a row away, and a pack gathers what an index alone would find side by side."""
    place, elements = max(gathered.items(), key=lambda one: one[1], default=("", 0))
    loads = {
        operation.rpartition(" ")[2]: n
        for (line, operation, _), n in counts.text.items()
        if line == place and accesses(operation, "load ")
    }
    rows = [name for name in loads.keys() - counts.by_data if 2 * counts.moves.get(name, 0) < loads[name]]
    if rows and elements > HALF * sum(loads.values()):
        text = (
            f"line {place.rpartition(':')[2]}: neighbouring indices are a row of {' and '.join(sorted(rows))}"
            f" apart (strided), so that {scaled(elements)} elements are gathered one by one"
        )
        ideal = math.hypot(compiled.vectors(counts, ceilings), moving(counts, ceilings))
        return Cause("scattered", took, text, ideal=ideal)
    return None


def _in_order(counts, ceilings, scattered):
    """Return seconds of the bytes, and of elements at places that data tell, which stay one by one in any
    order, from the nearest cache."""
    told = {f"{way} {name}" for name in counts.by_data for way in ("load", "store")}
    gathered = sum(n for (_, operation, _), n in counts.text.items() if operation in told)
    one_by_one = ceilings.seconds(min(gathered, scattered), f"gather {ceilings.levels[0][0]}")
    return math.hypot(moving(counts, ceilings), one_by_one)


def _lines_from(kernel, ceilings, others):
    """{memory level: seconds that lines at scattered places take from there}, by the sampled accesses;
    `others` are bytes of further lines, which come once."""
    passed = [(name, max(n - others, 0)) for name, n in kernel.level_bytes(ceilings).items()][1:]
    farther = [n for _, n in passed[1:]] + [0]
    return {
        name: max(n - behind, 0) / LINE / rate
        for (name, n), behind in zip(passed, farther, strict=True)
        if (rate := ceilings.rate(f"gather {name}"))
    }


def _jumps(counts):
    """(accesses, bytes of the lines that they touch) of arguments whose accesses are mostly to another line
    than the one before, and bytes of all other lines, read and written."""
    asked, moves, reach, others = counts.asked, 0, 0, 0
    for together, lines in counts.lines.items():
        names = [name for name in together.split(", ") if counts.moves.get(name, 0) > HALF * asked[name]]
        moves += sum(counts.moves[name] for name in names)
        reach += LINE * max(lines) * bool(names)
        others += LINE * sum(lines) * (not names)
    return moves, reach, others


def _special(counts, ceilings):
    """Return seconds of the special functions that ran in packs."""
    packs = 0.0
    for (_, name, of), n in counts.executed.items():
        lanes, dtype, _ = lanes_and_type(of)
        if lanes > 1 and (name.startswith("special ") or name == "sqrt"):
            packs += ceilings.seconds(n * lanes, f"{name.removeprefix('special ')} {dtype}")
    return packs


def _busy_arithmetic(kernel, ceilings):
    """Return the part of the special functions that ran which the text asks for; 1 where they are not most
    of the arithmetic."""
    counts = kernel.counts
    few = kernel.bound.special < HALF * kernel.bound.wants["arithmetic"]
    if few or counts.executed is None or counts.ptx is not None:
        return 1.0
    ran = _special(counts, ceilings)
    wanted = sum(ceilings.seconds(n, " ".join(name)) for name, n in counts.special.items())
    return min(1.0, wanted / ran) if ran else 1.0


def _of_memory(kernel, ceilings, took):
    """Yield bytes that are moved beside those that are wanted."""
    counts, level, found = kernel.counts, kernel.bound.level, []
    moved, lines = counts.compulsory, counts.line_bytes
    if lines > 1.5 * moved:
        where = ceilings.level_of(lines)
        text = (
            f"the elements that it needs, {scaled(moved, 'B')}, lie apart, in lines of {scaled(lines, 'B')}"
            f" that come from {where}"
        )
        found.append((lines / ceilings.bandwidth(where), text))
    if counts.apart:
        sectors = SECTOR * counts.apart
        text = (
            f"each of {scaled(counts.apart)} elements that neighbouring threads reach far apart brings"
            f" {SECTOR} bytes, {scaled(sectors, 'B')} together, through {level}"
        )
        found.append((sectors / ceilings.bandwidth(level), text))
        moves, reach, _ = _jumps(counts)
        elements, level = min(counts.apart, moves), ceilings.level_of(reach)
        if elements and (rate := ceilings.rate(f"gather {level}")):
            text = (
                f"each of {scaled(elements)} elements at scattered places of {scaled(reach, 'B')} brings"
                f" {SECTOR} bytes from {level}"
            )
            found.append((elements / rate, text))
    for seconds, text in found:
        yield Cause("overfetch", seconds, text, ideal=moving(counts, ceilings), fixed=True)


def _packed(counts):
    """Return True if a CPU's code has packs of lanes."""
    return any(lanes_and_type(of)[0] > 1 for _, _, of in counts.executed or ())


def _of_parallelism(kernel, ceilings, took):
    """Yield the roof, were there only that part of the machine which so few indices or teams can fill.

    Few threads on each of a GPU's multiprocessors do not fill these either: teams, of which each has room for
    sixteen, or indices, an eighth of which may be enough. They take a time between the roof of what is enough
    and that of the room.
    """
    extent, unit = extent_of(kernel)
    slots = _threads(ceilings)
    if ceilings.space.startswith("cuda"):
        wide, most = (slots // 16, slots) if unit == "teams" else (slots * IN_FLIGHT // 8, slots * IN_FLIGHT)
    else:  # a thread works on a pack at a time
        most = wide = slots if unit == "teams" or not _packed(kernel.counts) else slots * LANES
    if extent < most:
        own = (
            f"its {extent:,} {unit} fill"
            if extent > 1
            else f"its only {'team' if unit == 'teams' else 'index'} fills"
        )
        text = f"{own} a part of the machine only, which has room for {most:,} at once"
        work = max(seconds for name, seconds in kernel.bound.wants.items() if name != "launch")
        least, longest = (max(work * n / extent, kernel.bound.seconds) for n in (wide, most))
        seconds, alone = min(max(took, least), longest), compiled.alone(kernel.counts, ceilings)
        # shared out among as many as there is room for, each has so much less to do
        yield Cause("parallelism", seconds, text, ideal=kernel.bound.seconds, alone=alone * extent / most)


def _waiting(kernel, ceilings, took):
    """Return the cause of whom no other one fits; without, the instructions alone would take their
    time."""
    counts, started = kernel.counts, 0.0
    if counts.executed and counts.ptx is None and ceilings.clock:
        started = _instructions(counts) / (PER_CYCLE * ceilings.clock * _threads(ceilings))
        integer = counts.executed_totals["integer"] / ceilings.rate("integer int64")
        started = max(started, integer, compiled.vectors(counts, ceilings))
    return Cause("waiting", took, _waits(kernel, ceilings, took), ideal=min(started, took))


def _instructions(counts):
    return sum(
        n for (_, name, _), n in counts.executed.items() if not name.startswith(("special ", "inside "))
    )


def _waits(kernel, ceilings, took):
    """Return the evidence that only waiting is left, and that few wait where more could."""
    counts = kernel.counts
    few = "".join(f"; {cause.text}" for cause in _of_parallelism(kernel, ceilings, took))
    if counts.executed and counts.ptx is None and ceilings.clock:
        rate = _instructions(counts) / (took * ceilings.clock * _threads(ceilings))
        return f"it starts {rate:.2g} instructions a cycle, of about {PER_CYCLE}{few}"
    met = collections.Counter()
    for (_, operation, _), n in counts.text.items():
        if operation.startswith("team."):
            met[operation] += n
    each = sum(met.values()) / max(extent_of(kernel)[0], 1)
    words = " and ".join(sorted(met))
    meets = f", or for each other, {each:,.0f} times a team in {words}" if each >= 1 else ""
    room = f"; {counts.occupancy}" if counts.occupancy else ""
    return (
        "no rate of the machine explains its time, so its threads wait for the operation before, for"
        f" memory{meets}{room}{few}"
    )


def _threads(ceilings):
    """Threads of a CPU's space; of a GPU what `pk.concurrency` tells."""
    return pk.concurrency(ceilings.space)
