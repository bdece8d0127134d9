"""Causes that are visible in compiled code: conversions, spills, bank conflicts; and special functions."""

import math

import portable as pk
from portable.roofline.attainable import moving
from portable.roofline.cause import HALF, WORTH, Cause, extent_of
from portable.roofline.counting import WARP
from portable.roofline.operation_mix import FLOPS, STARTS, lanes_and_type
from portable.roofline.units import scaled

THIRD = 1 / 3  # the least share of the time
IN_TURN = 4  # cycles from an operation of a GPU's thread to its next, if no other thread interferes
# lanes whose instructions a GPU starts in a cycle for each of the teams that pk.concurrency reports
STARTED = 8
WORD = 8  # bytes of the largest number that is spilled


def of_code(kernel, ceilings, took):
    """Yield the causes in the code of one launch that cost time in addition to its arithmetic."""
    yield from _conversions(kernel, ceilings)
    yield from _spills(kernel, ceilings, took)
    yield from _banks(kernel.counts, ceilings)


def seconds_of_block(counts, ceilings):
    """Return seconds of one block by itself, minus those of an empty launch; 0 if that was not measured."""
    return max(counts.alone - ceilings.rate("launch"), 0.0)


def _in_turn(kernel, ceilings):
    """Return seconds of the arithmetic of a GPU's thread, one operation after the other, in packs of 32
    threads; 0 for a CPU, and for teams, whose number of threads is not known."""
    counts, (extent, unit) = kernel.counts, extent_of(kernel)
    if not counts.on_device or not counts.executed or unit == "teams" or not ceilings.clock:
        return 0.0
    ran = sum(n for (_, name, _), n in counts.executed.items() if name in FLOPS)
    return IN_TURN * ran / (max(extent, 1) * ceilings.clock)


def started(counts, ceilings):
    """Return seconds in which a GPU starts all arithmetic of its code, integer operations, loads and stores,
    except the operations inside special functions and conversions."""
    if not counts.on_device or not counts.executed or not ceilings.clock:
        return 0.0
    ran = sum(n * lanes_and_type(of)[0] for (_, name, of), n in counts.executed.items() if name in STARTS)
    return ran / (STARTED * pk.concurrency(ceilings.space) * ceilings.clock)


def _conversions(kernel, ceilings):
    """Yield the cost of conversions at their rate; they share the units of arithmetic."""
    counts, wants = kernel.counts, kernel.bound.wants
    if not (seconds := converting(counts, ceilings)):
        return
    rest = wants["arithmetic"]
    # float64 operations between two conversions would run as float32 at its rate
    if _conversions_of(counts.conversions, "float32"):
        rest *= ceilings.rate("fma float64") / ceilings.rate("fma float32")
    others = (s for name, s in wants.items() if name not in ("arithmetic", "launch"))
    least = max([rest, moving(counts, ceilings), started(counts, ceilings), *others])
    text = f"its {scaled(sum(counts.conversions.values()))} conversions between types take most of that time"
    seconds += wants["arithmetic"]
    yield Cause("conversions", seconds, text, ideal=least, least=least, alone=_in_turn(kernel, ceilings))


def converting(counts, ceilings):
    """Return seconds of the conversions only."""
    return sum(
        ceilings.seconds(_conversions_of(counts.conversions, other), f"convert {other}")
        for other in ("int64", "float32")
    )


def _conversions_of(conversions, other):
    """Return the number of conversions from a type or to it."""
    return sum(n for name, n in conversions.items() if other in name)


def _spills(kernel, ceilings, took):
    """Yield the cost of spills in addition to the arithmetic; for a GPU's thread their number is known, but
    not how often they run."""
    counts, wants = kernel.counts, kernel.bound.wants
    if counts.spilled and (rate := ceilings.rate("copy L1")):
        seconds = wants["arithmetic"] + counts.spilled / rate
        text = f"registers are too few: {scaled(counts.spilled, 'B')} go to the stack and come back"
        rest = max(s for name, s in wants.items() if name not in ("requested", "launch"))
        yield Cause("spills", seconds, text, ideal=rest)
    if counts.local and counts.executed:
        ran = counts.executed_totals["flops"]
        near, (extent, unit) = ceilings.bandwidth(ceilings.levels[0][0]), extent_of(kernel)
        threads = extent * (WARP if unit == "teams" else 1)
        least = max(2 * counts.local * threads / near, kernel.bound.seconds)
        most = 2 * WORD * sum(ran.values()) / near
        text = f"registers are too few: {counts.local:,} bytes of each thread lie in memory"
        seconds, ideal = min(max(took, least), max(least, most)), kernel.bound.seconds
        yield Cause("spills", seconds, text, ideal=ideal, alone=_in_turn(kernel, ceilings))


def _banks(counts, ceilings):
    """Yield the cost of accesses to scratch with several words in one bank, which returns one at a time."""
    taken, least = counts.banks
    if taken > least and "bandwidth shared" in ceilings.items:
        once = counts.scratch / ceilings.bandwidth("shared")
        without = max(once, started(counts, ceilings))
        text = (
            f"its accesses to scratch meet in the same banks, which are asked {taken / least:.2g} times as"
            " often as they had to"
        )
        yield Cause("banks", once * taken / least, text, ideal=without, least=without, fixed=True)


def vectors(counts, ceilings):
    """Return seconds of the executed arithmetic of packs, or of a GPU's threads."""
    seconds = 0.0
    for (_, name, of), n in counts.executed.items():
        lanes, dtype, _ = lanes_and_type(of)
        if (lanes > 1 or counts.on_device) and dtype in ("float32", "float64") and name in FLOPS:
            kind = "fma" if name in ("fma", "fmuladd") else "no fma"
            seconds += ceilings.seconds(n * lanes * FLOPS[name], f"{kind} {dtype}")
    return seconds


def special(kernel, ceilings, took):
    """Return the cause "special" if special functions are most of the arithmetic and a good part of the time,
    else None. It is tried last, because the rest of the time is then unexplained."""
    wants, of_special = kernel.bound.wants, kernel.bound.special
    if of_special < max(HALF * wants["arithmetic"], THIRD * took):
        return None
    others = (s for name, s in wants.items() if name not in ("arithmetic", "launch"))
    ran = vectors(kernel.counts, ceilings) if kernel.counts.executed else 0.0
    rest = max(wants["arithmetic"] - of_special, ran)
    rest = max(math.hypot(rest, moving(kernel.counts, ceilings)), started(kernel.counts, ceilings), *others)
    text = f"its {scaled(sum(kernel.counts.special.values()))} special functions take most of that time"
    own = _in_turn(kernel, ceilings)  # if it is known, it explains a longer measured time
    cause = Cause("special", wants["arithmetic"], text, ideal=rest, alone=own, fixed=own > 0.0)
    found = cause.without(took, rest, ceilings.rate("launch"))
    return found if found.gain >= WORTH else None
