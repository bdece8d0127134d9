"""State the figures in plain words: a sentence for each method, and advice that names its evidence."""

import statistics

from portable.roofline.units import resource, scaled, times

NEAR = 0.8  # of the attainable rate: measured ceilings vary by more than the rest
FAR = 0.1  # of it: rows below are listed one by one, each with its reason
CAUSES = {  # found by `portable.roofline.reasons`: the name of each, and its meaning or its remedy
    "neighbours": (
        "other work on this machine",
        "The fastest repeat says what the machine can do; a quiet one, or more repeats, tell the rest.",
    ),
    "outside": (
        "time outside of kernels",
        "Data that stay in the space, and larger launches, leave less to the host.",
    ),
    "calls": (
        "many small launches",
        "pk.capture records launches and replays them together; pk.plan prepares one.",
    ),
    "waiting": (
        "waiting",
        (
            "Operations wait for the previous one, for memory, or for other work on this machine. More"
            " independent work for each index hides waiting; pk.explain names lines with strided accesses."
        ),
    ),
    "divergence": (
        "idle lanes",
        "Indices sorted or grouped so that neighbours do the same work keep lanes busy.",
    ),
    "overfetch": (
        "more data fetched than used",
        "Arrays laid out so that neighbouring indices read neighbouring elements are fetched by whole lines.",
    ),
    "scattered": (
        "elements fetched one by one",
        "A team for each row, or the other layout, lets neighbours read neighbouring elements by one load.",
    ),
    "conversions": (
        "conversions between types",
        "Values kept in the type that they are used in, and constants of the arrays' precision, need none.",
    ),
    "spills": (
        "registers that are too few",
        "Fewer values at once for each index, in several turns, stay in registers; pk.explain tells.",
    ),
    "banks": (
        "words in one bank of scratch",
        "Rows of scratch that are one number longer, or members that lie side by side, meet in no bank.",
    ),
    "special": (
        "special functions",
        "pk.fast_exp and pk.fast_log cost less; a product in place of a power costs none.",
    ),
    "together": (
        "atomic operations that meet",
        "Partial results in pk.ScatterView, in scratch, or a reduction, meet less often.",
    ),
    "parallelism": ("too few indices", "More indices or teams in one launch would fill the machine."),
    "launch": ("the cost of a launch", "Larger launches, pk.plan or pk.capture."),
}


def titled(name):
    """Return (name, title) of a cause."""
    return name, CAUSES[name][0] if name in CAUSES else name


def groups(rows):
    """Return the reasons for rows below their roofs, by cause; the cause of most rows is first.

    Returns
    -------
    list of dict: "name", "title", "help" (said once), "told": list of (numbers of rows, sentence)
    """
    found = {}
    for row in rows:
        for cause in ((row.roof or {}).get("reason") or {"causes": ()})["causes"]:
            told = found.setdefault(titled(cause["name"]), {})
            told.setdefault(cause["text"][:1].upper() + cause["text"][1:], []).append(str(row.number))
    ranked = sorted(found.items(), key=lambda item: -len(item[1]))
    return [
        {
            "name": name,
            "title": title[:1].upper() + title[1:],
            "help": CAUSES[name][1] if name in CAUSES else "",
            "told": [(f"No. {', '.join(numbers)}", sentence) for sentence, numbers in told.items()],
        }
        for (name, title), told in ranked
    ]


def median_share(rows):
    """Return the median share of the roof of rows that have one; None if no row has."""
    return statistics.median(row.share for row in rows if row.roof) if any(row.roof for row in rows) else None


def standing(rows):
    """Return sentences on the rows' shares of their roofs: the median, and the reason for each low share.

    Returns
    -------
    list of str: the first on all of them, then one for each row below FAR, the lowest first
    """
    held = [row for row in rows if row.roof]
    if len(held) < 2:
        return []
    far = sorted((row for row in held if row.share < FAR), key=lambda row: row.share)
    told = [
        f"No. {row.number}, {row.result['method']}, {row.share:.1%}: {row.roof['reason']['text']}"
        for row in far
    ]
    below = f"{len(far)} below {FAR:.0%}{':' if far else '.'}"
    return [f"Median share of the roof {median_share(held):.0%} of {len(held)} rows, {below}", *told]


def verdict(result):
    """Return one sentence on a result that has a roof: its bound, and its possible speedup."""
    roof = result.roof
    if roof.share > 1.1:
        return (
            f"{result.method} is faster than its measured roof, which is therefore wrong: measure the"
            " ceilings again on a quiet machine (python -m portable.roofline ceilings --fresh)."
        )
    took = scaled(roof.seconds, "s")
    if roof.share >= NEAR:
        return (
            f"{result.method} is at its roof: {took}, {roof.share:.0%} of what {resource(roof.by)} allows"
            " here."
        )
    return (
        f"{result.method} takes {took}; {resource(roof.by)} would take {scaled(roof.attainable, 's')}, so it"
        f" could be up to {times(1 / roof.share)} times as fast."
    )


def _without_special(roof):
    """Return a method's speedup without special functions, at its share of the roof."""
    rest = [seconds for name, seconds in roof.wants.items() if name != "arithmetic"]
    return roof.wants["arithmetic"] / max([roof.wants["arithmetic"] * (1.0 - roof.special_share), *rest])


def advice(result):
    """Return advice, each with its evidence; a list of sentences, empty if nothing stands out."""
    roof, found = result.roof, []
    if roof.by.startswith("memory") and roof.share > 0.5:
        found.append(
            "It moves data as fast as the memory gives: only fewer bytes help (float32, or one kernel for"
            " two)."
        )
    special = roof.special_share
    if roof.by == "arithmetic" and special > 0.5:
        found.append(
            f"{special:.0%} of its arithmetic is special functions: pk.fast_exp and pk.fast_log, or fewer of"
            f" them; without any it could be up to {times(_without_special(roof))} times as fast."
        )
    if roof.by == "arithmetic" and set(roof.flops_by_dtype) == {"float64"} and roof.share > 0.5:
        found.append("All of it is float64: float32, where its digits are enough, has a higher roof.")
    return found
