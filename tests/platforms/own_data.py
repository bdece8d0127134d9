"""`python tests/platforms/own_data.py README FOLDER`: run the first steps of a new user, from the README.

Runs the README's first kernel, its commands on a user's files, and its program for a series. The files are
written into FOLDER, where all steps run with this Python and its installed packages; one line for each prints
its seconds. `installed.py` does this with newly built packages.
"""

import re
import shlex
import sys
import time
from pathlib import Path

import numpy as np

from ..processes import python


def write_files(folder):
    """Write small tables in the layouts that the README names."""
    rng = np.random.default_rng(1)
    parents = np.column_stack([rng.uniform(0, 10, (150, 2)), rng.uniform(0, 1000, 150)])
    children = parents[:60] + np.column_stack([rng.normal(0, 0.05, (60, 2)), rng.exponential(0.5, 60)])
    events = np.concatenate([parents, children])
    table(folder / "events.csv", "x_km,y_km,t_hours", events[events[:, 2].argsort()])
    runs = [(run, gap) for run in range(300) for gap in rng.exponential(2.0, rng.geometric(0.3))]
    table(folder / "runs.csv", "run,gap", runs)
    x = np.full((300, 2), (0.4, 0.2))
    for t in range(299):
        x[t + 1] = x[t] * ((3.8, 3.5) - x[t] * (3.8, 3.5) - (0.0, 0.1 * x[t, 0]))
    table(folder / "table.csv", "a,b", x)
    table(
        folder / "series.csv", "y", np.cumsum(rng.normal(0, 0.3, 60))[:, None] + rng.normal(0, 0.5, (60, 1))
    )
    centres = np.array([(0, 0), (6, 0), (0, 6)])
    table(folder / "cells.csv", "CD3,CD4", centres[rng.choice(3, 1500)] + rng.normal(size=(1500, 2)))


def table(path, header, rows):
    np.savetxt(path, np.asarray(rows), delimiter=",", header=header, comments="", fmt="%.6g")


def steps(readme):
    """Return name -> command, in the README's order; programs are in files that `programs` writes."""
    block = marked(readme, "own data")
    commands = [line.split("  #")[0].strip() for line in block.splitlines() if line.startswith("python -m")]
    found = {"first kernel": ["python", "first.py"], "a series": ["python", "series.py"]}
    return found | {line: shlex.split(line) for line in commands}


def programs(readme, folder):
    (folder / "first.py").write_text(re.search(r"^```python\n(.*?)^```", readme, re.M | re.S)[1])
    (folder / "series.py").write_text(marked(readme, "own series"))


def marked(readme, mark):
    """Return the text of the block below `<!-- mark -->`."""
    return re.search(rf"^<!-- {mark} -->\n```\w+\n(.*?)^```", readme, re.M | re.S)[1]


# the README's draws have converged
NO_SURPRISE = "error:the draws have not converged"


def run(readme, folder, only=None):
    """Return the seconds of each step. Raises RuntimeError with the output of the first step that fails."""
    write_files(folder)
    programs(readme, folder)
    seconds = {}
    for name, command in steps(readme).items():
        if only is not None and name != only:
            continue
        begin = time.perf_counter()
        done = python("-W", NO_SURPRISE, *command[1:], cwd=folder, check=False)
        if done.returncode:
            raise RuntimeError(f"{name}: {done.stdout}{done.stderr}")
        seconds[name] = time.perf_counter() - begin
    return seconds


if __name__ == "__main__":
    for name, value in run(Path(sys.argv[1]).read_text(), Path(sys.argv[2])).items():
        print(f"{value:6.1f} s  {name}")
