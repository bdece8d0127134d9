"""Process a plate of FCS files by one command, and measure its rate and memory.

`python -m tests.models.mixture.plate --files 200 --cells 50000` writes the files to a temporary folder, fits
250 cells of each, labels all, and prints seconds, events a second, and the largest resident memory, and those
of the same command for a tenth of the files. With --kill the run is first killed halfway, and the table of
the resumed run is compared with that of an undisturbed one.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from numpy.random import default_rng

from portable.models.mixture import cytometry

KINDS = 4  # samples that are simulated; files repeat them with other cells


def write_plate(folder, n_files, n_cells, seed=0):
    """Write files of ten markers, and return their paths."""
    samples, _ = cytometry.simulate(
        n_cells=n_cells, n_samples=KINDS, n_populations=12, n_markers=10, seed=seed
    )
    random, paths = default_rng(seed), []
    for number in range(n_files):
        sample = samples[number % KINDS]
        own = sample.take(random.choice(n_cells, n_cells))
        paths.append(folder / f"well{number:03d}.fcs")
        cytometry.write(own, paths[-1])
    return paths


def command(paths, folder, kept):
    """Return the command for these files."""
    request = [sys.executable, "-m", "portable.models.mixture", "fit", *map(str, paths)]
    options = "--components 30 --cells-per-sample 250 --figures none --labels none --no-halves".split()
    return [*request, *options, *f"--quiet --checkpoint {kept} --out {folder}".split()]


def run(paths, folder, kept):
    """Return the seconds, the seconds of all cores, and the largest resident memory in megabytes of a run."""
    start = time.perf_counter()
    process = subprocess.Popen(command(paths, folder, kept))
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"the command ended with status {status}")
    return time.perf_counter() - start, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def kill_halfway(paths, folder, kept):
    """Return the number of files that were finished when the run was killed."""
    process = subprocess.Popen(command(paths, folder, kept))
    while process.poll() is None and len(list(kept.glob("files/file-*.npz"))) < len(paths) // 2:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    return len(list(kept.glob("files/file-*.npz")))


def main(argv=None):
    parser = argparse.ArgumentParser(prog="python -m tests.models.mixture.plate", description=__doc__)
    parser.add_argument("--files", type=int, default=20, help="(default: %(default)s)")
    parser.add_argument("--cells", type=int, default=5000, help="of a file (default: %(default)s)")
    parser.add_argument("--kill", action="store_true", help="kill a run halfway, and go on")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        paths = write_plate(folder, options.files, options.cells)
        for n in sorted({max(options.files // 10, 1), options.files}):
            seconds, cpu, megabytes = run(paths[:n], folder / f"out{n}", folder / f"kept{n}")
            rate = n * options.cells / seconds
            print(
                f"{n} files of {options.cells:,}: {seconds:.1f} s, {cpu:.1f} s of cores, {rate:,.0f} events "
                f"a second, {megabytes:.0f} MB",
                flush=True,
            )
        if options.kill:
            done = kill_halfway(paths, folder / "killed", folder / "kept")
            seconds, *_ = run(paths, folder / "killed", folder / "kept")
            whole, again = ((folder / name / "shares.csv").read_bytes() for name in (f"out{n}", "killed"))
            same = "the same" if whole == again else "ANOTHER"
            print(f"killed after {done} files; went on in {seconds:.1f} s: {same} table")
            return whole != again
    return 0


if __name__ == "__main__":
    sys.exit(main())
