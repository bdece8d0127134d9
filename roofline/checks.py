"""Check whether a report's figures are reliable, each check with a sentence."""

from portable.roofline.attainable import ABOVE
from portable.roofline.profiling import SHORT
from portable.roofline.units import scaled, spread

# checks of a result without which its share of the roof is unreliable
OWN = "below its roof", "long enough", "steady"
SIZE, QUIET = "full size", ("quiet machine", "quiet ceilings")
STEADY = 0.25  # of the median: a wider interval between quartiles is due to other work of the machine
DRIFT = 0.05  # of a core's clock, between the measurements of the ceilings and of the report
BUSY = 0.3  # cores taken by other processes above which a report warns; an idle system needs less


def of_result(result):
    """Return the checks of one result that has a roof.

    Returns
    -------
    list of dict: "check" (its name), "passed", "text"
    """
    roof, seconds = result.roof, result.seconds
    apart = (seconds.upper - seconds.lower) / seconds.median
    single = len(seconds.values) == 1
    each, calls = seconds.median * seconds.calls, f"{seconds.calls:,} call{'s' * (seconds.calls > 1)}"
    quartiles = f"quartiles {spread(seconds, 's')}, {apart:.0%} of the median apart"
    once = "timed once: no spread is known, and the time may hold the compilation"
    too_low = "a ceiling was measured too low, or the compiler removed work that was counted"
    short = "too short to time one by one, mostly the cost of a launch"
    found = [
        _check("below its roof", roof.share <= ABOVE, f"{roof.share:.0%} of attainable", too_low),
        _check("long enough", each >= SHORT, f"{scaled(each, 's')} a repeat of {calls}", short),
        _check("steady", apart <= STEADY and not single, once if single else quartiles),
    ]
    declared = [note for note in roof.notes if note.startswith("declared ")]
    return found + [_check("declared cost", False, note) for note in declared]


def of_part(machine, ceilings, clock, quick=False):
    """Return the checks of the machine: its other work, and the drift of its clock.

    Parameters
    ----------
    machine : dict, see `portable.roofline.machine.facts`
    ceilings : Ceilings or None
    clock : float or None
        Cycles per second of a core now.
    quick : bool
        Whether inputs and ceilings were tiny.
    """
    found = (
        [_check(SIZE, False, "--quick: inputs were tiny, and ceilings measured for moments")] if quick else []
    )
    whens = [(machine, "the run began")]
    if ceilings:
        whens.append((ceilings.machine, f"the ceilings were measured, {ceilings.date}"))
    for name, (facts, when) in zip(QUIET, whens):
        if (busy := facts["busy_cores"]) is not None:
            text = f"other work kept {busy:g} of {facts['cores']} cores busy when {when}"
            found.append(_check(name, busy <= BUSY, text))
    if ceilings and ceilings.clock and clock:
        text = (
            f"a core ran at {scaled(ceilings.clock, 'Hz')} for the ceilings, at {scaled(clock, 'Hz')} at"
            " the end of this run"
        )
        found.append(_check("steady clock", abs(clock / ceilings.clock - 1) <= DRIFT, text))
    return found


def caveats(ceilings, checks):
    """Return the warnings that precede all figures: that the machine was busy, that its ceilings are
    implausible, or that inputs were tiny.

    Parameters
    ----------
    ceilings : Ceilings or None
    checks : list of dict, see `of_part`

    Returns
    -------
    list of str, sentences
    """
    failed = {check["check"]: check["text"] for check in checks if not check["passed"]}
    found = [f"No share of the roof is to be trusted: {failed[SIZE]}."] if SIZE in failed else []
    found += [
        f"The machine was not quiet: {failed[name]}. Times, shares and reasons include that work."
        for name in QUIET
        if name in failed
    ]
    if ceilings and ceilings.doubts:
        doubts = "; ".join(ceilings.doubts)
        found.append(f"The ceilings, and every share of the roof, are in doubt: {doubts}.")
    return found


def _check(name, passed, text, why=""):
    """Return the JSON object of a check; `why` is added if it failed."""
    return {"check": name, "passed": bool(passed), "text": text if passed or not why else f"{text}: {why}"}
