"""Attacks on the first second of a process, each in a new interpreter (cold.py): first launches side by side,
in random order, also from an archive, without a home, with all descriptors closed."""

import concurrent.futures
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from .victims import attack

ROOT, PROGRAM = Path(__file__).parents[2], Path(__file__).with_name("cold.py")
_CLOSED = ["sh", "-c", 'exec "$0" "$@" <&- >&- 2>&-']  # no stdin, stdout and stderr


def _plain(run):
    run()


def _watched(run):
    run("watched")


def _isolated(run):
    run("watched", options=["-I"])


def _optimised(run):
    run(options=["-O"])


def _without_docstrings(run):
    run(options=["-OO"])


def _umask(run):
    for mask in ("002", "000", "077"):
        folder = os.path.join(run.folder, f"cache{mask}")
        run(f"umask={mask}", "once", XDG_CACHE_HOME=folder)
        run(f"umask={mask}", XDG_CACHE_HOME=folder)
        kept = list(Path(folder).rglob("*"))
        assert any(file.is_file() for file in kept), f"no cache with umask {mask}"
        assert not any(file.stat().st_mode & 0o022 for file in kept), f"open to others with umask {mask}"


def _zip(run):
    archive = Path(run.folder, "portable.zip")
    with zipfile.ZipFile(archive, "w") as kept:
        for file in sorted((ROOT / "portable").rglob("*.py")):
            kept.write(file, file.relative_to(ROOT))
    run(path=archive)


def _closed_descriptors(run):
    run("closed")


def _closed_streams(run):
    run(before=_CLOSED, wanted="")


def _no_cache(run):
    run(PORTABLE_CACHE="0")


def _no_home(run):
    for home in ("/dev/null/home", "/proc/home"):  # nothing can be created there, not even by root
        run(says="compiled anew in every process", HOME=home, XDG_CACHE_HOME=None)


CONDITIONS = (
    _plain,
    _watched,
    _umask,
    _zip,
    _isolated,
    _closed_descriptors,
    _no_home,
    _optimised,
    _closed_streams,
    _no_cache,
    _without_docstrings,
)


class _Run:
    """Start cold.py in a separate folder, with a seed."""

    def __init__(self, folder, seed):
        self.folder, self.seed = folder, seed

    def __call__(self, *words, options=(), before=(), path=ROOT, wanted="held\n", says=None, **environment):
        settings = {**os.environ, "XDG_CACHE_HOME": os.path.join(self.folder, "cache"), **environment}
        settings.pop("PYTHONPATH", None)
        command = [*before, sys.executable, *options, str(PROGRAM), str(path), str(self.seed), *words]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
            cwd=self.folder,
            env={name: text for name, text in settings.items() if text is not None},
        )
        told = [line for line in done.stderr.splitlines() if "takes long to compile" not in line]
        right = says in done.stderr if says else not told
        assert done.returncode == 0 and done.stdout == wanted and right, (
            f"{' '.join(command)} {environment}: exit status {done.returncode}\n"
            f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        )


def _one(number, seed):
    """Return a description of the failure of one condition, or None."""
    condition = CONDITIONS[number % len(CONDITIONS)]
    with tempfile.TemporaryDirectory() as folder:
        try:
            condition(_Run(folder, seed))
        except (AssertionError, subprocess.TimeoutExpired) as error:
            return f"{condition.__name__[1:]}: {error}"


@attack(len(CONDITIONS))
def cold_processes(random, times):
    """Run the conditions, two processes at a time."""
    seeds = [(number, random.randrange(1 << 30)) for number in range(times)]
    with concurrent.futures.ThreadPoolExecutor(2) as both:
        wrong = [error for error in both.map(_one, *zip(*seeds)) if error]
    assert not wrong, f"{len(wrong)} of {times} did not hold:\n" + "\n".join(wrong)
    return times


@attack(1)
def order_of_locks(random, times):
    """Check the order of locks in each public word as the first one of a process, and in the import of each
    module.
    """
    for _ in range(times):
        with tempfile.TemporaryDirectory() as folder:
            _Run(folder, 0)("watched", "each")
    return times
