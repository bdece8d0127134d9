"""`python -m portable.roofline validate`: check the reasons on pairs with and without a planted cause, which
are counted, timed and judged.

The work is scaled until the clean launch takes many times the cost of launching it. Both launches of a pair
are timed alternately. The reason of the one with the cause should name it, that of the clean one should not,
and the predicted gain should be the measured one: the time with the cause over the time without, for the same
work.
"""

import functools
import math
from dataclasses import dataclass, replace

import numpy as np
from portable.roofline.grid import grid

import portable as pk
from portable.errors import InputError
from portable.roofline import timing, truth
from portable.roofline.attainable import LOW, analyse, analyse_launch
from portable.roofline.ceiling import ceilings
from portable.roofline.counting import count
from portable.roofline.cause import WORTH
from portable.roofline.causes import candidates, causes
from portable.roofline.compiled import special
from portable.roofline.physics import steady
from portable.roofline.profiling import profile
from portable.roofline.reasons import reason
from portable.roofline.side import batch_seconds
from portable.roofline.units import one_line, picked, scaled, times

NEAR = 1.3  # the largest ratio between a predicted gain that counts as right and the measured one
# short samples of each side, of which the fastest counts: longer ones would all include other work; on a
# quiet machine a few samples confirm it
ROUNDS, AT_ONCE = 25, 5
AMPLE = 6  # multiple of the cost of a launch: a clean launch that takes longer is dominated by its work
LASTS, FEW = 1e-3, 5  # the least seconds of a sample; single launches, of which the quickest has its cost
SIDES = "with", "without"
STEP, LARGEST = 16, 4096  # the largest increase of the work at once, and in all
SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Judged:
    """Store the verdict on a pair, and the measurements.

    Attributes
    ----------
    pair : Pair
    named, of_clean : str
        The first cause that was named for each launch; "" for one that is near its roof.
    predicted, measured : float or None
        The speedup without the cause.
    text : str
    seconds : (float, float)
        The times of the launch with the cause and of the clean one.
    error : str, the reason if the pair could not be run
    refused : bool
        Whether the pair requires a feature that the space does not have, or its cause costs nothing there.
    launches : tuple of dict
        The one with the cause and the clean one: the counts, the times of the roof, and every candidate with
        the time that it would explain, even if it was rejected.
    """

    pair: truth.Pair
    named: str = ""
    of_clean: str = ""
    predicted: float | None = None
    measured: float | None = None
    text: str = ""
    seconds: tuple = (0.0, 0.0)
    error: str = ""
    refused: bool = False
    launches: tuple = ()

    @property
    def right(self):
        """Return True if the planted cause was named."""
        return self.named in self.pair.causes

    @property
    def accused(self):
        """Return True if the planted cause was also named for the clean launch."""
        return self.of_clean in self.pair.causes

    @property
    def near(self):
        """Return True if the predicted gain is close to the measured one."""
        return (
            self.right
            and bool(self.predicted)
            and abs(math.log(self.predicted / self.measured)) <= math.log(NEAR)
        )

    def as_dict(self):
        """Return the verdict as a JSON object."""
        return {
            "pair": self.pair.name,
            "causes": list(self.pair.causes),
            **picked(self, "named right accused text refused seconds launches"),
            "named_of_the_clean_one": self.of_clean,
            "predicted_gain": self.predicted,
            "measured_gain": self.measured,
            "gain_is_near": self.near,
            "error": self.error or None,
        }


def judge(pair, space, known, random, quick=False):
    """Make, count, time and judge a pair.

    Parameters
    ----------
    pair : Pair
    space : str
    known : callable of special functions that gives Ceilings
    random : callable that returns a numpy Generator, each time in the same state
    quick : bool
        Tiny inputs, to test that everything runs.

    Returns
    -------
    Judged
    """
    try:
        launches = _ample(pair, space, known, random) if not quick else pair.make(space, random(), 0)
        each = _seconds(launches, space, quick)
        told = [_first_cause(launch, took, known) for launch, took in zip(launches, each, strict=True)]
    except InputError as error:
        return Judged(pair, error=str(error), refused=True)
    except Exception as error:  # noqa: BLE001 - the other pairs are still judged
        return Judged(pair, error=one_line(error))
    measured = each[0] / each[1]
    if pair.causes == ("launch",):  # the two launches have different sizes
        measured *= _work(launches[1][0]) / _work(launches[0][0])
    (first, text, gain, _), (clean, *_) = told
    made = Judged(pair, first, clean, gain, measured, text, tuple(each), launches=tuple(t[-1] for t in told))
    if measured < WORTH and not (quick or made.accused):
        why = (
            f"what was planted costs nothing on '{space}': {times(measured)} times the time of the clean one"
        )
        return replace(made, error=why, refused=True)
    return made


def _ample(pair, space, known, random):
    """Return both launches with so much work that the clean one takes AMPLE times the cost of launching it:
    the least cost of a launch, or this launch's cost on the host if the device works asynchronously."""
    on_device, scale = str(space).startswith("cuda"), 1.0
    while True:
        launches = pair.make(space, random(), scale)
        call, wait = _call(launches[1]), functools.partial(pk.fence, space)
        samples = timing.measure(call, wait, min_time=LASTS, repeats=3, most=ROUNDS, enough=steady)
        took, least = min(samples.values), known(()).rate("launch call")
        if on_device and not callable(launches[1]):
            least = max(least, min(batch_seconds(call, wait, 1, host_only=True) for _ in range(FEW)))
        ample = AMPLE * least
        if took >= ample or scale >= LARGEST:
            return launches
        scale *= min(STEP, 1.2 * ample / took)


def _call(side):
    """Return one side of a pair as a call: a launch, or the side itself if it is a call."""
    return side if callable(side) else functools.partial(pk.parallel_for, *side)


def _seconds(launches, space, quick):
    """Return [seconds of the launch with the cause, seconds of the clean one]: the fastest of alternating
    samples, until it is confirmed."""
    wait = functools.partial(pk.fence, space)
    calls = {name: _call(launch) for name, launch in zip(SIDES, launches)}
    values, batches = {name: [] for name in SIDES}, {}
    for name, call in calls.items():
        call()  # compiles
        wait()
        batches[name] = max(1, math.ceil(LASTS / batch_seconds(call, wait, 1)))
    for done in range(3 if quick else ROUNDS):
        for name, call in calls.items():
            call()  # moves its data to the caches in which repeated calls find them
            wait()
            values[name].append(batch_seconds(call, wait, batches[name]))
        if done >= AT_ONCE and all(map(steady, values.values())):
            break
    return [min(values[name]) for name in SIDES]


def _first_cause(launch, seconds, known):
    """Return (name, clause, gain, all evidence) of the first cause of a launch, or a call, that took
    `seconds`; for one near its roof the name is empty unless special functions explain its time."""
    if callable(launch):
        return _told_of_call(launch, seconds, known)
    counts = count(*launch)
    roofs = known(set(counts.special))
    # timed as separate launches, not in a graph
    by_call = replace(roofs, items=roofs.items | {"launch": roofs.items["launch call"]})
    analysis = analyse_launch(launch[1].name, counts, seconds, roofs)
    (kernel,) = analysis.kernels
    seen = {
        "seconds": seconds,
        "share": analysis.share,
        "wants_seconds": kernel.bound.wants,
        "candidates": [picked(c, "name seconds ideal text") for c in candidates(kernel, by_call, seconds)],
        **picked(counts, "policy apart moves occupancy line_bytes"),
        **counts.as_dict(),
    }
    if analysis.share < LOW:
        cause = causes(kernel, by_call)[0]
    elif not (cause := special(kernel, by_call, seconds)):
        return "", f"{analysis.share:.0%} of its roof", None, seen
    return cause.name, cause.clause, cause.gain, seen


def _told_of_call(call, seconds, known):
    """Return the same of a call, as in a report, from the fastest of several profiles."""
    profiles = []
    for _ in range(AT_ONCE):
        with profile(apart=True) as made:
            call()
        profiles.append(made)
    quietest = min(profiles, key=lambda one: sum(event.seconds for event in one.events))
    analysis = analyse(quietest, seconds, known, executed=False)
    seen = {"seconds": seconds, "share": analysis.share, "outside": analysis.outside}
    if not (why := reason(analysis, analysis.ceilings)):
        return "", f"{analysis.share:.0%} of its roof", None, seen
    cause = why["causes"][0]
    return cause["name"], cause["text"], cause["gain"], seen | {"causes": why["causes"]}


def _work(policy):
    """Return the number of indices of a policy whose size differs between the sides."""
    return math.prod(policy.extents) if isinstance(policy, pk.MDRangePolicy) else policy.end - policy.begin


def chosen(only):
    """Return [(place in the corpus, Pair)] of the requested pairs; all by default.

    Raises
    ------
    InputError
        No pair has such a name or cause.
    """
    wanted = [text.strip() for text in (only or "").split(",")]
    pairs = list(enumerate(truth.corpus()))
    found = [
        (k, pair)
        for k, pair in pairs
        if any(text in name for text in wanted for name in (pair.name, *pair.causes))
    ]
    if not found:
        raise InputError(
            f"--only: no pair's name or cause contains '{only}'; there are:"
            f" {', '.join(pair.name for _, pair in pairs)}."
        )
    return found


def run(space, seed, quick=False, only=None, on_start=lambda name: None, on_end=lambda found: None):
    """Return the requested pairs as a list of Judged; `on_end` is called with the list so far after each of
    them.

    A pair's data depend on the seed and on its place in the corpus, not on the other requested pairs.
    """

    def known(special):
        return ceilings(space, special=special, quick=quick)

    found = []
    for k, pair in chosen(only):
        on_start(pair.name)
        random = functools.partial(np.random.default_rng, [seed, k])
        found.append(judge(pair, space, known, random, quick))
        on_end(found)
    return found


def rates(space, quick=False):
    """Return {name: rate} of the ceilings on which the reasons are based."""
    return {name: one.best for name, one in ceilings(space, quick=quick).items.items()}


def table(found, space, seed):
    """Return the table for the terminal."""
    judged = [j for j in found if not j.refused]
    n = len(judged)
    right, accused, near = (sum(getattr(j, what) for j in judged) for what in ("right", "accused", "near"))
    caption = (
        f"{right} of {n} planted causes named; {accused} of {n} clean launches accused; {near} of {n} gains"
        f" within {NEAR - 1:.0%}; seed {seed}"
    )
    if n < len(found):
        caption += (
            f"; not judged, so in none of these numbers: {len(found) - n} of {len(found)} pairs, whose cause"
            f" '{space}' does not have, or where it costs less than a tenth"
        )
    columns = "planted<|named<|of the clean one<|gain predicted|measured|?with|?without"
    return grid(f"Reasons against planted causes on {space}", columns, map(row, found), caption)


def row(j):
    """Return the cells of a Judged."""
    if j.error:
        return j.pair.name, f"{'not judged' if j.refused else 'not run'}: {j.error}"
    gains = [times(gain) if gain else "" for gain in (j.predicted, j.measured)]
    return (
        j.pair.name,
        f"{j.named or 'none'}{'' if j.right else ' (wrong)'}",
        f"{j.of_clean or 'none'}{' (accused)' * j.accused}",
        f"{gains[0]}{'' if j.near else ' (off)'}",
        gains[1],
        *(scaled(s, "s") for s in j.seconds),
    )
