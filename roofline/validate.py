"""`python -m roofline validate`: are the reasons true? Pairs with and without a planted cause, counted, timed
and judged.

Both launches of a pair are timed alternately. The reason of the one with the cause should name it, that of
the clean one should not, and the gain that is predicted should be the one that is measured: the time with
over the time without, for as much work.
"""

import functools
import math
from dataclasses import dataclass

import numpy as np
from roofline.grid import grid

import portable as pk
from portable.errors import InputError
from roofline import timing, truth
from roofline.attainable import LOW, analyse_launch
from roofline.ceiling import ceilings
from roofline.counting import count
from roofline.causes import causes
from roofline.units import one_line, picked, scaled, times

NEAR = 1.3  # times as much or as little: a predicted gain that is right
ROUNDS = 25  # short samples of each side, of which the fastest counts: longer ones would all hold other work
SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Judged:
    """What was said of a pair, and what was so.

    Attributes
    ----------
    pair : Pair
    named, of_clean : str
        The first cause that was named of each launch; "" of one that is near its roof.
    predicted, measured : float or None
        How many times as fast without the cause.
    text : str
    seconds : (float, float)
        Of the launch with the cause and of the clean one.
    error : str, where it could not be run
    refused : bool
        The pair wants what the space does not have.
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

    @property
    def right(self):
        """Whether what was planted was named."""
        return self.named in self.pair.causes

    @property
    def accused(self):
        """Whether the clean launch was said to have it."""
        return self.of_clean in self.pair.causes

    @property
    def near(self):
        """Whether the predicted gain is the measured one."""
        return (
            self.right
            and bool(self.predicted)
            and abs(math.log(self.predicted / self.measured)) <= math.log(NEAR)
        )

    def as_dict(self):
        """The JSON object."""
        return {
            "pair": self.pair.name,
            "causes": list(self.pair.causes),
            **picked(self, "named right accused text"),
            "named_of_the_clean_one": self.of_clean,
            "predicted_gain": self.predicted,
            "measured_gain": self.measured,
            "gain_is_near": self.near,
            "seconds": list(self.seconds),
            "error": self.error or None,
        }


def judge(pair, space, known, random, quick=False):
    """Make, count, time and judge a pair.

    Parameters
    ----------
    pair : Pair
    space : str
    known : callable of special functions that gives Ceilings
    random : numpy Generator
    quick : bool
        Tiny inputs: shows that everything runs.

    Returns
    -------
    Judged
    """
    try:
        launches = pair.make(space, random, quick)
        calls = [functools.partial(pk.parallel_for, *launch) for launch in launches]
        wait = functools.partial(pk.fence, space)
        found = timing.alternate(
            {"with": calls[0], "without": calls[1]},
            3 if quick else ROUNDS,
            sync={"with": wait, "without": wait},
            min_time=1e-3,
        )
        told = [
            _told(launch, min(samples.values), known)
            for launch, samples in zip(launches, found.values(), strict=True)
        ]
    except InputError as error:
        return Judged(pair, error=str(error), refused=True)
    except Exception as error:  # noqa: BLE001 - the other pairs are still worth judging
        return Judged(pair, error=one_line(error))
    each = [min(samples.values) for samples in found.values()]
    work = [_work(launch[0]) for launch in launches]
    measured = each[0] / each[1] if pair.causes != ("launch",) else (each[0] / work[0]) / (each[1] / work[1])
    (first, text, gain), (clean, *_) = told
    return Judged(pair, first, clean, gain, measured, text, tuple(each))


def _told(launch, seconds, known):
    """(name, clause, gain) of the first cause of a launch that took so long; of one near its roof none."""
    counts = count(*launch)
    roofs = known(set(counts.special))
    analysis = analyse_launch(launch[1].name, counts, seconds, roofs)
    if analysis.share >= LOW:
        return "", f"{analysis.share:.0%} of its roof", None
    cause = causes(analysis.kernels[0], roofs)[0]
    return cause.name, cause.told, cause.gain


def _work(policy):
    """Indices of a policy that is launched over other sizes."""
    return policy.end - policy.begin if isinstance(policy, pk.RangePolicy) else 1


def run(space, seed, quick=False, on_start=lambda name: None):
    """All pairs, a list of Judged."""
    random = np.random.default_rng(seed)

    def known(special):
        return ceilings(space, special=special, quick=quick)

    found = []
    for pair in truth.corpus():
        on_start(pair.name)
        found.append(judge(pair, space, known, random, quick))
    return found


def table(found, space, seed):
    """The terminal's table."""
    n = sum(not j.refused for j in found)
    caption = (
        f"{sum(j.right for j in found)} of {n} planted causes named; {sum(j.accused for j in found)} of {n}"
        f" clean launches accused; {sum(j.near for j in found)} of {n} gains within {NEAR - 1:.0%}; seed"
        f" {seed}"
    )
    rows = []
    for j in found:
        if j.error:
            rows.append((j.pair.name, f"not run: {j.error}"))
            continue
        gains = [times(gain) if gain else "" for gain in (j.predicted, j.measured)]
        named = (
            f"{j.named or 'none'}{'' if j.right else ' (wrong)'}",
            f"{j.of_clean or 'none'}{' (accused)' * j.accused}",
        )
        rows.append(
            (
                j.pair.name,
                *named,
                f"{gains[0]}{'' if j.near else ' (off)'}",
                gains[1],
                *(scaled(s, "s") for s in j.seconds),
            )
        )
    columns = "planted<|named<|of the clean one<|gain predicted|measured|with|without"
    return grid(f"Reasons against planted causes on {space}", columns, rows, caption)
