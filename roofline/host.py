"""Where the host spends a call, while no kernel runs: by Python's own profiler, so a hint, not a time."""

import cProfile
import pstats
from pathlib import Path

FUNCTIONS, LEAST = 2, 0.1  # that are named at most, and what one of them takes at least
_LAUNCHES = "portable", "core"  # folders where kernels run and devices are waited for


def busiest(call):
    """The functions that take most themselves, in words: "numpy.array 40%, check_runs (tmap/checks.py:12)
    20%"; "" for none.

    Parameters
    ----------
    call : callable without arguments; it runs once
    """
    watch = cProfile.Profile()
    watch.runcall(call)
    own = {
        place: row[2]
        for place, row in pstats.Stats(watch).stats.items()
        if not set(_LAUNCHES) < set(Path(place[0]).parts)
    }
    total = sum(own.values())
    ranked = sorted(own.items(), key=lambda item: -item[1])[:FUNCTIONS]
    return ", ".join(
        f"{_words(place)} {seconds / total:.0%}" for place, seconds in ranked if seconds > LEAST * total
    )


def _words(place):
    file, line, name = place
    if file == "~":  # of C
        return (
            name.strip("<>")
            .removeprefix("built-in method ")
            .removeprefix("method ")
            .split(" of ")[0]
            .strip("'")
        )
    return f"{name.strip('<>')} ({'/'.join(Path(file).parts[-2:])}:{line})"
