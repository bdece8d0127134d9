"""Find the causes of a kernel's time, from measurements and counts, and its time without each.

A roof is the least time of the source's operations and compulsory bytes. Each possible cause of more time has
two modelled times: the time that it would explain, and the time of the same work without it. A cause that
explains less than half of the measured time, or more than twice, is rejected. Of the others the reported
cause is the one whose removal would gain most, with that gain:

launch            the cost of a launch (measured; up to twice that), for a kernel with little work; without,
                  its part of a launch ten times as expensive, with the bytes from the level that holds as
                  many
divergence        inactive lanes, as neighbours take another branch or fewer iterations: all of the time;
                  without, the share of the active lanes, in addition to the moved bytes
scattered         elements gathered or scattered one by one, two a cycle; without, by packs. If each index
                  traverses a separate row, all of the time; without, packs of adjacent elements
overfetch         the lines that are touched; or the elements at scattered places, each on another line than
                  the one before, at the rate of gathers from the level that holds them, or, by the sampled
                  accesses, from the levels that supply them (on a GPU a sector each); without, only the
                  elements, in adjacent places; elements at data-dependent places stay gathered, from the
                  nearest cache
conversions       between integers and floats, or floats of two sizes, at their rate, in addition to the
                  arithmetic
spills            bytes of spilled registers at the first cache's bandwidth, in addition to the arithmetic; on
                  a GPU those of each thread, at least once, and at most with each operation
banks             accesses to scratch, repeated as often as the bank with most words is read (GPU)
together          atomic operations that collide at few places (lines of a CPU, elements of a GPU): their cost
                  is between nothing and the slowest rate at one place; without, each to a separate place
parallelism       the roof of that part of the machine which so few indices or teams can fill; without, of the
                  whole machine

special           special functions, if no other cause was found: they are part of the roof, most of its
                  arithmetic, and a third of the time or more; without, the rest

The cost of a launch remains without any other cause, and bytes move as in `attainable.moving`. Parts of a
time without a cause, for example of arithmetic and of memory, overlap in part: their sum is modelled as the
root of the sum of their squares. On a GPU the threads that begin last run after the others have ended.
Without divergence the time of one block by itself (measured) remains; with enough parallelism it remains in
the ratio of the launched indices or teams to those that fit; for other code, which was not run, it is four
cycles for each of a thread's operations. And each instruction that remains without the cause takes a cycle
for 32 lanes of a scheduler.

Time that none of these explains is waiting: of operations for preceding ones, of threads for each other.
"""

import collections
import math

import portable as pk
from portable.roofline import compiled
from portable.roofline.attainable import atomics, moving
from portable.roofline.cause import HALF, REFUTED, WORTH, Cause, extent_of, rows_of
from portable.roofline.counting import WARP
from portable.roofline.operation_mix import lanes_and_type
from portable.roofline.touched import SIZES, accesses
from portable.roofline.units import scaled

IDLE = 0.1  # of the lanes: a smaller share is due to the last pack
# instructions, and loads or scalar operations, that a core starts in each cycle
PER_CYCLE, LOADS_PER_CYCLE = 4, 2
LARGE = 10  # multiple of a launch's cost at which the work dominates
LANES, WIDEST = 8, 16  # elements of a pack's load, and lanes of the widest packs
LINE, SECTOR = 64, 32  # bytes of a CPU's cache line, and of a GPU's sector
IN_FLIGHT = 128  # threads that a GPU keeps in flight for each of the teams that pk.concurrency reports


def causes(kernel, ceilings):
    """Return the possible causes of the time of one launch of a kernel, each with the gain of its removal,
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
    found = sorted((c for c in found if c.gain >= WORTH), key=lambda c: (-round(c.gain, 2), -c.seconds))
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
    """Return the seconds that a launch's work takes in a launch so large that launching costs a tenth of it.
    The bytes are moved at the bandwidth of the smallest memory level that holds the larger data."""
    rest = [s for name, s in kernel.bound.wants.items() if name != "launch" and not name.startswith("memory")]
    counts, work = kernel.counts, max(rest, default=0.0)
    for level, capacity in ceilings.levels if counts.compulsory else ():
        seconds = max(work, moving(counts, ceilings, level), counts.compulsory / ceilings.bandwidth(level))
        held = ceilings.rate(f"capacity {level}") or capacity
        if not held or counts.compulsory * LARGE * launch / seconds <= held:
            return seconds * (1 + 1 / LARGE)
    return work * (1 + 1 / LARGE)


def candidates(kernel, ceilings, took):
    """Return the time of one launch that each possible cause explains, a list of Cause; `took` is the
    measured time."""
    counts, found, on_device = kernel.counts, [], ceilings.space.startswith("cuda")
    launch = ceilings.rate("launch") if on_device else ceilings.rate("launch call") or ceilings.rate("launch")
    text = f"its work is so short that a launch costs as much ({scaled(launch, 's')})"
    work = _amortised(kernel, ceilings, launch)
    # with more arguments, or over a box, a launch costs more than the least one
    seconds = min(max(took, launch), REFUTED * launch)
    found.append(Cause("launch", seconds, text, "measured", ideal=work, least=work, fixed=True))
    masked = 1.0 - min(1.0, (1.0 - counts.masked) / _filled(kernel, on_device))
    if masked > IDLE:
        idle = max(masked, 1.0 - _busy_arithmetic(kernel, ceilings))
        text = f"{idle:.0%} of the lanes are idle, where neighbours branch otherwise or make fewer trips"
        # bytes are moved once, independent of the lanes; the longest thread takes as long
        alone = min(compiled.seconds_of_block(counts, ceilings), took)
        ideal = math.hypot((1.0 - idle) * (took - alone), moving(counts, ceilings))
        found.append(Cause("divergence", took, text, ideal=ideal, alone=alone))
    if counts.executed and not counts.on_device and ceilings.clock:
        found += _of_gathers(kernel, ceilings, took)
    found += compiled.of_code(kernel, ceilings, took)
    found += _of_memory(kernel, ceilings, took)
    found += _of_atomics(counts, ceilings, took)
    return [*found, *_of_parallelism(kernel, ceilings, took)]


def _filled(kernel, on_device):
    """Return the share of lanes that have an index: lanes after the last index, or after the last index of
    each row of a box, are not divergent."""
    extent, unit = extent_of(kernel)
    pack, extent = (WARP, extent) if on_device else (WIDEST, rows_of(kernel))
    return extent / (-(-extent // pack) * pack) if unit == "indices" and extent else 1.0


def _of_atomics(counts, ceilings, took):
    """Yield the cost of atomic operations on so few places that they collide: their waiting depends on the
    number of collisions, between none and all, at the slowest rate of any type, because a cache line must
    move between cores."""
    n, meeting = sum(counts.atomics.values()), _meeting(counts, ceilings)
    known = (ceilings.items.get(f"atomic together {dtype}") for dtype in ("int64", "float64"))
    rates = [min(one.rate.values) for one in known if one]
    apart, together = atomics(counts, ceilings, "apart"), meeting * n / min(rates, default=math.inf)
    if together > apart:
        text = f"its {scaled(n)} atomic operations wait for each other where they meet in one place"
        if not ceilings.space.startswith("cuda"):  # a core does no other work during one
            apart += moving(counts, ceilings)
        else:  # and the separate places have to be moved
            own = sum(2 * m * SIZES[dtype] for (_, dtype), m in counts.atomics.items())
            moved = counts.compulsory + own
            apart = max(apart, moved / ceilings.bandwidth(ceilings.level_of(moved)))
        yield Cause("together", max(apart, min(took, together)), text, ideal=apart)


def _meeting(counts, ceilings):
    """Return the share of atomic operations that collide with another one: on a GPU at an element, as very
    many threads run; on a CPU at a line, of which each core holds one at a time."""
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
    counts, ran, gathered, written = kernel.counts, collections.Counter(), collections.Counter(), 0
    for (place, name, of), n in counts.executed.items():
        lanes, masked = lanes_and_type(of)[0], name.startswith("masked")
        if masked or lanes == 1 or name.endswith("element"):
            ran[place, name] += n * lanes if masked else n
    for place in {place for place, _ in ran}:  # a lane's own load is put into the pack
        gathered[place] = ran[place, "masked.gather"] + min(ran[place, "load"], ran[place, "insertelement"])
        written += ran[place, "masked.scatter"] + min(ran[place, "store"], ran[place, "extractelement"])
    if not (scattered := gathered.total() + written):
        return
    text = f"it reads or writes {scaled(scattered)} elements at scattered places, one by one"
    seconds = scattered / (LOADS_PER_CYCLE * ceilings.clock * _threads(ceilings))
    one_by_one = Cause("scattered", seconds, text, ideal=seconds / LANES)
    yield _rows_across_lanes(counts, ceilings, gathered, took) or one_by_one
    moves, reach, others = _jumps(counts)
    level = ceilings.level_of(reach)  # the touched elements stay there
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
        # a written line is read first and written back, for which the kernel need not wait
        twice = (1.0 + written / scattered) * once
        yield Cause("overfetch", min(max(took, once), twice), text, ideal=ideal, fixed=True)


def _rows_across_lanes(counts, ceilings, gathered, took):
    """Return the cause of rows across lanes, or None: each index traverses a separate row, so that its
    neighbour's element is a row away, and a pack gathers elements that are adjacent for a single index."""
    [(place, elements)] = gathered.most_common(1)
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
    """Return seconds of the bytes, and of elements at data-dependent places, which stay gathered one by one
    in any order, from the nearest cache."""
    told = {f"{way} {name}" for name in counts.by_data for way in ("load", "store")}
    gathered = sum(n for (_, operation, _), n in counts.text.items() if operation in told)
    one_by_one = ceilings.seconds(min(gathered, scattered), f"gather {ceilings.levels[0][0]}")
    return math.hypot(moving(counts, ceilings), one_by_one)


def _lines_from(kernel, ceilings, others):
    """Return {memory level: seconds of its lines at scattered places}, by the sampled accesses; `others` are
    bytes of further lines, which are moved once."""
    passed = [(name, max(n - others, 0)) for name, n in kernel.level_bytes(ceilings).items()][1:]
    farther = [n for _, n in passed[1:]] + [0]
    return {
        name: max(n - behind, 0) / LINE / rate
        for (name, n), behind in zip(passed, farther, strict=True)
        if (rate := ceilings.rate(f"gather {name}"))
    }


def _jumps(counts):
    """Return (accesses, bytes of the touched lines) of arguments whose accesses are mostly to another line
    than the preceding one, and bytes of all other lines, read and written."""
    asked, moves, reach, others = counts.accesses_by_argument, 0, 0, 0
    for together, lines in counts.lines.items():
        names = [name for name in together.split(", ") if counts.moves.get(name, 0) > HALF * asked[name]]
        moves += sum(counts.moves[name] for name in names)
        reach += LINE * max(lines) * bool(names)
        others += LINE * sum(lines) * (not names)
    return moves, reach, others


def _special(counts, ceilings):
    """Return seconds of the special functions that were executed in packs."""
    packs = 0.0
    for (_, name, of), n in counts.executed.items():
        lanes, dtype, _ = lanes_and_type(of)
        if lanes > 1 and (name.startswith("special ") or name == "sqrt"):
            packs += ceilings.seconds(n * lanes, f"{name.removeprefix('special ')} {dtype}")
    return packs


def _busy_arithmetic(kernel, ceilings):
    """Return the share of the executed special functions that the source requires; 1 if they are not most of
    the arithmetic."""
    counts = kernel.counts
    few = kernel.bound.special < HALF * kernel.bound.wants["arithmetic"]
    if few or counts.executed is None or counts.on_device:
        return 1.0
    ran = _special(counts, ceilings)
    wanted = sum(ceilings.seconds(n, " ".join(name)) for name, n in counts.special.items())
    return min(1.0, wanted / ran) if ran else 1.0


def _of_memory(kernel, ceilings, took):
    """Yield the costs of bytes that are moved in addition to the needed ones."""
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
    """Yield the roof of that part of the machine which so few indices or teams can fill.

    Few threads on each of a GPU's multiprocessors do not fill these either: a multiprocessor has room for
    sixteen teams, and for indices of which an eighth may be enough. The time is between the roof with enough
    threads and that with all that fit.
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
        seconds, alone = min(max(took, least), longest), compiled.seconds_of_block(kernel.counts, ceilings)
        # with as many indices or teams as fit, each has proportionally less work
        yield Cause("parallelism", seconds, text, ideal=kernel.bound.seconds, alone=alone * extent / most)


def _waiting(kernel, ceilings, took):
    """Return the cause "waiting", if no other one explains the time; without it, only the instructions take
    time."""
    counts, started = kernel.counts, 0.0
    if counts.executed and not counts.on_device and ceilings.clock:
        started = _instructions(counts) / (PER_CYCLE * ceilings.clock * _threads(ceilings))
        integer = counts.executed_totals["integer"] / ceilings.rate("integer int64")
        started = max(started, integer, compiled.vectors(counts, ceilings))
    return Cause("waiting", took, _waits(kernel, ceilings, took), ideal=min(started, took))


def _instructions(counts):
    return sum(
        n for (_, name, _), n in counts.executed.items() if not name.startswith(("special ", "inside "))
    )


def _waits(kernel, ceilings, took):
    """Return the evidence that the rest is waiting, and that fewer threads wait than have room."""
    counts = kernel.counts
    few = "".join(f"; {cause.text}" for cause in _of_parallelism(kernel, ceilings, took))
    if counts.executed and not counts.on_device and ceilings.clock:
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
    """Return the threads of a CPU's space; for a GPU the value of `pk.concurrency`."""
    return pk.concurrency(ceilings.space)
