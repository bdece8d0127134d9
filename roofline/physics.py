"""Test ceilings for orders that are impossible for a machine.

A fused multiply-add is an addition and a multiplication in one instruction; a register holds twice as many
numbers of 32 bits as of 64, on a CPU exactly twice; and data that a nearer memory level holds need not come
from a farther one. A roof is the best repeat, which other work on the machine can only lower, so of two
ceilings in the wrong order the lower one is doubtful.
"""

from portable.roofline.units import scaled

SLACK = 0.97  # of the other rate: repeats of equal rates differ by as much
STEADY = 1.02  # of the fastest repeat's time: repeats below it ran under the same conditions
SEEN = 3  # such repeats, with the fastest, confirm a best
MANY = 0.25  # of all ceilings: if this share was reached only once, the machine had other work

ORDERS = [(f"fma {dtype}", f"no fma {dtype}") for dtype in ("float64", "float32")]
ORDERS += [(f"{kind} float32", f"{kind} float64") for kind in ("fma", "no fma")] + [
    ("integer int32", "integer int64")
]
# half of the numbers that fit into a CPU's registers take at least half of the time; a GPU has separate units
HALVES = ["fma float", "no fma float", "integer int"]


def steady(values):
    """Return True if several times are close to the fastest."""
    return sum(v <= STEADY * min(values) for v in values) >= SEEN


def disorder(ceilings):
    """Return pairs of ceilings in an order that is impossible for a machine.

    Parameters
    ----------
    ceilings : Ceilings

    Returns
    -------
    list of (names, sentence)
        The names of the measurements that are too low, and the evidence.
    """
    found = []
    for more, less in ORDERS:
        high, low = ceilings.rate(more), ceilings.rate(less)
        if high is not None and low is not None and high < SLACK * low:
            found.append(({more}, _sentence(more, high, less, low, f"{ceilings.items[more].unit}/s")))
    for kind in HALVES if not ceilings.space.startswith("cuda") else ():
        wide, narrow = f"{kind}64", f"{kind}32"
        low, high = ceilings.rate(wide), ceilings.rate(narrow)
        if low is not None and high is not None and low < 0.5 * SLACK * high:
            unit = f"{ceilings.items[wide].unit}/s"
            found.append(({wide}, _sentence(wide, low, f"half of {narrow}", 0.5 * high, unit)))
    known = [level for level, _ in ceilings.levels if ceilings.measured_at(level)]
    for near, far in zip(known, known[1:], strict=False):
        high, low = ceilings.bandwidth(near), ceilings.bandwidth(far)
        if high < SLACK * low:
            names = {c.name for c in ceilings.measured_at(near)}
            found.append((names, _sentence(f"the bandwidth of {near}", high, f"that of {far}", low, "B/s")))
    return found


def _sentence(more, high, less, low, unit):
    return (
        f"{more} was measured at {scaled(high, unit)}, below {less}, {scaled(low, unit)}, which no machine"
        " can have"
    )


def find_doubts(ceilings):
    """Return the reasons to doubt ceilings, as sentences; an empty list if there is none."""
    found = [sentence for _, sentence in disorder(ceilings)]
    once = [c.name for c in ceilings.items.values() if c.reached_once]
    if len(once) > MANY * len(ceilings.items):
        found.append(
            f"of {len(once)} of {len(ceilings.items)} ceilings the best repeat was not reached again, however"
            " often they were repeated"
        )
    return found
