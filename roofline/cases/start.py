"""How long a program waits before its first kernel: whole processes, from the interpreter's start to its end.

What the first call itself takes is the time of its process less that of the process which only imports.
"""

import atexit
import functools
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from roofline import peers
from roofline.contract import Contender, Duel

FIRST_CALL = """
import numpy as np
import portable as pk

@pk.kernel
def axpy(i, a, x, y):
    y[i] += a * x[i]

x, y = (pk.copy_of(np.ones(1000), space={space!r}) for _ in range(2))
pk.parallel_for(pk.RangePolicy(0, 1000, space={space!r}), axpy, 2.0, x, y)
assert y.to_numpy()[-1] == 3.0
"""


def duels(space, n, quick):
    """Importing, a first call with nothing cached, and one that was compiled by an earlier process.

    See `roofline.cases.Case`; there is no size, and with `quick` nothing but the import.
    """
    folder = Path(tempfile.mkdtemp(prefix="roofline-start-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    programs = {"import": "import portable"}
    if not quick:
        programs |= dict.fromkeys(("first call, nothing cached", "first call, compiled before"), FIRST_CALL.format(space=space))
    found = []
    for what, text in programs.items():
        cold = "nothing" in what
        ours = program(f"portable, {space}", text, folder, cold)
        rivals, absent = peers.gather("start", space, what, folder, cold)
        if what == "import":
            rivals = [program("NumPy alone", "import numpy", folder, cold), *rivals]
        found.append(Duel(f"a new process, {what}", ours, rivals, absent))
    return found


def program(label, text, folder, cold):
    """A process that runs `text` from a file in a temporary folder, where its caches are, too: empty each time if `cold`."""
    place = folder / f"{len(list(folder.iterdir()))}"
    place.mkdir()
    (place / "program.py").write_text(text)
    return Contender(label, functools.partial(_run, place, cold))


def _run(place, cold):
    if cold:
        shutil.rmtree(place / "cache", ignore_errors=True)
    (place / "cache").mkdir(exist_ok=True, mode=0o700)
    caches = {"PORTABLE_CACHE": str(place / "cache"), "NUMBA_CACHE_DIR": str(place / "cache")}
    path = os.pathsep.join(p for p in sys.path if p)
    subprocess.run([sys.executable, place / "program.py"], check=True, env={**os.environ, **caches, "PYTHONPATH": path})
