"""Find the lines of a program in which the host spends its time while no kernel runs: a hint, not a time.

Its line is sampled every few milliseconds, which has no measurable cost.
"""

import collections
import linecache
import sys
import sysconfig
import threading
from pathlib import Path

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

    def __init__(self, clock):
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
