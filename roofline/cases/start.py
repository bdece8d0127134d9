"""Measure the time to a program's first kernel: whole processes, from the interpreter's start to its end.

Rows "beyond imports" are the seconds of a program in a process that has already run PREAMBLE: the costs of
every program in any revision, mostly of NumPy and LLVM's library, are left out, and so are `import portable`
itself (which has a separate row) and the modules of the compiler, which some revisions import at once and
others before they first compile. Against another revision both sides run the programs of that revision's
docs/examples.
"""

import atexit
import functools
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from portable.roofline import peers
from portable.roofline.contract import Contender, Duel

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


LU = """
import numpy as np
import portable as pk

@pk.kernel
def factorise(b, n, a):
    for k in range(n):
        for i in range(k + 1, n):
            a[i, k, b] /= a[k, k, b]
            for j in range(k + 1, n):
                a[i, j, b] -= a[i, k, b] * a[k, j, b]

a = np.random.default_rng(1).random((16, 16, 64)) + 16.0 * np.eye(16)[:, :, None]
x = pk.copy_of(a, space={space!r})
pk.parallel_for(pk.RangePolicy(0, 64, space={space!r}), factorise, pk.static(16), x)
found = x.to_numpy()[:, :, 0]
np.testing.assert_allclose(np.tril(found, -1) @ np.triu(found) + np.triu(found), a[:, :, 0], rtol=1e-12)
"""
PREAMBLE = """
import contextlib, importlib, pkgutil
import numpy, numpy.random, numpy.testing
import llvmlite.binding
import portable
for name in ("core.compiler", "core.machines.cpu", "compiler", "backends.cpu"):  # of this revision, or before
    with contextlib.suppress(ModuleNotFoundError):
        package = importlib.import_module(f"portable.{name}")
        for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            importlib.import_module(module.name)
"""
BEYOND = """
import sys, time
seconds, program, *sys.argv[1:] = sys.argv[1:]
code = compile(open(program).read(), program, "exec")
begin = time.perf_counter()
exec(code, {"__name__": "__main__", "__file__": program})
with open(seconds, "w") as file:
    file.write(str(time.perf_counter() - begin))
"""
EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


def _programs(space):
    """Return the programs of each process by name: the sources of one or several processes."""
    found = {
        "first call": [FIRST_CALL.format(space=space)],
        "a batched LU of 16 x 16 by pk.static": [LU.format(space=space)],
    }
    examples = [path.read_text() for path in sorted(EXAMPLES.glob("*.py"))]
    return found | ({f"the {len(examples)} programs of docs/examples": examples} if examples else {})


def duels(space, n, quick):
    """Return duels of the import, and of a first call, as whole processes; beyond imports of a first call, an
    LU that unrolls, and the examples, with nothing cached and compiled by an earlier process.

    See `portable.roofline.cases.Case`; there is no size, and with `quick` only the import is timed.
    """
    folder = Path(tempfile.mkdtemp(prefix="roofline-start-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    programs, found = {"import": ["import portable"]}, []
    cases = [] if quick else ["nothing cached", "compiled before"]
    for cached in cases:
        programs[f"first call, {cached}"] = [FIRST_CALL.format(space=space)]
    for what, texts in programs.items():
        cold = "nothing" in what
        ours = program(f"portable, {space}", texts, folder, cold)
        rivals, absent = peers.gather("start", space, what, folder, cold)
        if what == "import":
            rivals = [program("NumPy alone", ["import numpy"], folder, cold), *rivals]
        found.append(Duel(f"a new process, {what}", ours, rivals, absent))
    for what, texts in _programs(space).items() if cases else ():
        for cached in cases:
            ours = program(f"portable, {space}", texts, folder, "nothing" in cached, [space])
            found.append(Duel(f"beyond imports, {what}, {cached}", ours, []))
    return found


def program(label, texts, folder, cold, arguments=None):
    """Return a contender that runs sources in processes one after the other, from files in a temporary folder
    with their caches, which are empty if `cold`. With `arguments`, which become sys.argv of the programs, the
    result is the time beyond PREAMBLE.
    """
    place = folder / f"{len(list(folder.iterdir()))}"
    place.mkdir()
    (place / "beyond.py").write_text(PREAMBLE + BEYOND)
    for k, text in enumerate(texts):
        (place / f"program{k}.py").write_text(text)
    call = functools.partial(_run, place, cold, arguments)
    call.tells_seconds = arguments is not None
    return Contender(label, call)


def _run(place, cold, arguments):
    """Run the programs of a folder; return the sum of their times beyond PREAMBLE, 0 without `arguments`."""
    if cold:
        shutil.rmtree(place / "cache", ignore_errors=True)
    (place / "cache").mkdir(exist_ok=True, mode=0o700)
    caches = {"PORTABLE_CACHE": str(place / "cache"), "NUMBA_CACHE_DIR": str(place / "cache")}
    path = os.pathsep.join(p for p in sys.path if p)
    environment = {**os.environ, **caches, "PYTHONPATH": path}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # imported modules are compiled once, as for users
    seconds, total = place / "seconds", 0.0
    for file in sorted(place.glob("program*.py")):
        beyond = [place / "beyond.py", seconds, file, *arguments] if arguments is not None else [file]
        subprocess.run([sys.executable, *beyond], check=True, env=environment, stdout=subprocess.DEVNULL)
        total += float(seconds.read_text()) if arguments is not None else 0.0
    return total
