"""Find the host's lines while no kernel runs, in a call or a program: a hint, not a time.

A call is measured by Python's own profiler, a program by sampling its line every few milliseconds, which has
no measurable cost.
"""

import collections
import cProfile
import linecache
import pstats
import re
import sys
import sysconfig
import threading
import time
from pathlib import Path

FUNCTIONS, LEAST = 2, 0.1  # the most functions that are named, and the least share of time of each
_LAUNCHES = "portable", "core"  # folders of the code that runs kernels and waits for devices
STEP, TOLD = 2e-3, 3  # seconds between two samples of a program, and its reported lines
_HERE = Path(__file__).parents[1]  # a checkout, which contains these folders, or portable itself
_PARTS = ("portable", "models", "roofline") if (_HERE / "portable").is_dir() else ("",)
_LAYER = tuple(str(_HERE / part) for part in _PARTS)
_LIBRARIES = (*(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")), "<")


class Lines:
    """Sum the seconds of this thread by the line of a program: `with Lines() as lines:`

    Parameters
    ----------
    clock : callable
        Returns the seconds so far, and whether they count: for example, not while a kernel runs.
    """

    def __init__(self, clock=lambda: (time.perf_counter(), True)):
        self._seconds, self._clock, self._end = collections.Counter(), clock, threading.Event()
        self._of, self._looks = threading.get_ident(), threading.Thread(target=self._sample_line, daemon=True)

    def __enter__(self):
        self._looks.start()
        return self

    def __exit__(self, *error):
        self._end.set()
        self._looks.join()

    def _sample_line(self):
        now, _ = self._clock()
        while not self._end.wait(STEP):
            before, (now, counts) = now, self._clock()
            if counts and (place := _place(sys._current_frames().get(self._of))):
                self._seconds[place] += max(now - before, 0.0)  # a clock that excludes counting may step back

    def costliest_lines(self):
        """Return the costliest lines: a list of {"place", "text", "seconds"}."""
        return [
            {
                "place": f"{Path(file).name}:{n}",
                "text": linecache.getline(file, n).strip()
                + within * " (compiles, launches, copies or waits)",
                "seconds": seconds,
            }
            for (file, n, within), seconds in self._seconds.most_common(TOLD)
        ]


def _place(frame):
    """Return the file and line of a program from a frame, and whether portable is running; None if no line is
    the program's."""
    within = False
    while frame:
        file = frame.f_code.co_filename
        layer = file.startswith(_LAYER)
        if not layer and not file.startswith(_LIBRARIES):
            return file, frame.f_lineno, within
        within, frame = within or layer, frame.f_back
    return None


def busiest(call):
    """Return the functions with the most time of their own, in words: "numpy.array 40%, check_runs
    (tmap/checks.py:12) 20%"; "" if there are none.

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
    if file == "~":  # a function of C
        return re.sub(r"^(built-in )?method ", "", name.strip("<>")).split(" of ")[0].strip("'")
    return f"{name.strip('<>')} ({'/'.join(Path(file).parts[-2:])}:{line})"
