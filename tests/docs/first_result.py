"""python -m tests.docs.first_result: time the way from a clone to a user's own first result.

Clone this checkout, make an environment, install the package with the libraries of the methods, and fit a
model to a table; the seconds of each step are printed. Wanted on two quiet cores: under three minutes in all.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]


def main():
    """Run the steps; the exit status is that of the first that fails, else 0."""
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        clone, python = folder / "portable", folder / "env" / "bin" / "python"
        events = np.random.default_rng(1).uniform(0.0, 10.0, (1000, 3))
        table = folder / "events.csv"
        np.savetxt(table, events * [1, 1, 876], delimiter=",", header="x_km,y_km,t_hours", comments="")
        steps = (
            ("clone", ["git", "clone", "--quiet", ROOT, clone]),
            ("environment", [sys.executable, "-m", "venv", folder / "env"]),
            ("installation", [python, "-m", "pip", "install", "--quiet", ".[methods]"]),
            ("first fit", [python, "-m", "portable", "hawkes", "fit", table, "--out", folder / "fit"]),
        )
        environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
        environment["XDG_CACHE_HOME"] = str(folder / "cache")  # an empty one, of kernels and of pip
        began = time.monotonic()
        for name, command in steps:
            start = time.monotonic()
            where = clone if clone.exists() else folder
            done = subprocess.run(list(map(str, command)), cwd=where, env=environment)
            print(f"{name:14}{time.monotonic() - start:6.1f} s", flush=True)
            if done.returncode:
                return done.returncode
        print(f"{'in all':14}{time.monotonic() - began:6.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
