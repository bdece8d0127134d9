"""`portable roofline versus OLD.py NEW.py`: time two versions of a program in turn, each run in a new
process.

A round runs each version once; the one that runs first alternates. For the whole program and for the launches
of each kernel the result is the median of the rounds' ratios, new over old, with a 95 % interval
(`compare_revisions.interval`). The first run of each version compiles and is not counted.
"""

import collections
import json
import os
import runpy
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import portable as pk
from portable.errors import InputError, printable
from portable.roofline import compare_revisions, machine, script
from portable.roofline.grid import grid
from portable.roofline.printing import (
    exit_code,
    print_step,
    show_tables,
    wait_for_quiet,
    warn_if_busy,
    write_json,
)
from portable.roofline.profiling import profile
from portable.roofline.timing import Samples
from portable.roofline.units import in_words, scaled

SCHEMA_VERSION = 1
WHOLE = "the whole program"
SAME, SLOWER, FASTER, UNDECIDED = "same", "slower", "faster", "not decided"


def run_versus(options, space):
    """Time both programs in turn and return the exit code: 1 if the whole program or a kernel is slower."""
    for path in (options.old, options.new):
        script.check(path)
    wait_for_quiet(options.wait)
    facts = machine.facts(space)
    warn_if_busy(facts)
    paths, rounds, interrupted = (options.old, options.new), [], False
    try:
        for turn in range(options.rounds + 1):
            order = paths if turn % 2 else paths[::-1]
            found = {path: _run_once(path, options.arguments, space) for path in order}
            if turn:
                rounds.append(tuple(found[path] for path in paths))
                times = ", ".join(scaled(one[WHOLE], "s") for one in rounds[-1])
                print_step(f"round {turn} of {options.rounds}: {times}")
    except KeyboardInterrupt:
        interrupted = True
    rows = judged(rounds, options.threshold) if rounds else []
    show_tables(_table(rows, paths, options.threshold))
    kept = write_json(options, SCHEMA_VERSION, facts, old=options.old, new=options.new, rows=rows)
    return exit_code(interrupted, kept and all(row["verdict"] != SLOWER for row in rows))


def judged(rounds, threshold):
    """Return a dict for the whole program, then one for each kernel of both versions.

    Parameters
    ----------
    rounds : list of (dict, dict)
        Seconds by name, of the old version and of the new one.
    threshold : float
        Ratio new over old from which a version is slower.
    """
    first, found = rounds[0], []
    for name in (name for name in first[0] if name in first[1]):
        pairs = [(old[name], new[name]) for old, new in rounds if name in old and name in new]
        ratio = compare_revisions.interval([[new / old for old, new in pairs]])
        verdict = SLOWER if ratio.lower > threshold else FASTER if ratio.upper < 1 / threshold else SAME
        if verdict == SAME and not ratio.upper / ratio.lower < threshold**2:
            verdict = UNDECIDED
        seconds = {side: Samples(values).as_dict() for side, values in zip(("old", "new"), zip(*pairs))}
        found.append({"name": name, "seconds": seconds, "new_over_old": ratio.as_dict(), "verdict": verdict})
    return found


def _table(rows, paths, threshold):
    cells = []
    for row in rows:
        times = (in_words(Samples(tuple(side["values"]))) for side in row["seconds"].values())
        ratio = row["new_over_old"]
        ends = "" if ratio["lower"] is None else f" ({ratio['lower']:.3g} to {ratio['upper']:.3g})"
        cells.append((printable(row["name"]), *times, f"{ratio['median']:.3g}{ends}", row["verdict"]))
    caption = (
        "times: median (quartiles) of a run; new / old: median (95 % interval), above 1: the new one is"
        f" slower; slower: the interval lies above {threshold:g}"
    )
    return grid(f"{paths[1]} against {paths[0]}", "what<|old|new|new / old|verdict<", cells, caption)


def _run_once(path, arguments, space):
    """Run a program in a new process, with its output on the error stream, and return seconds by name."""
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "told.json"
        command = [
            sys.executable,
            "-m",
            "portable.roofline.compare_programs",
            space,
            str(told),
            path,
            *arguments,
        ]
        code = subprocess.run(command, stdout=2, env=os.environ).returncode
        if code or not told.exists():
            raise InputError(f"versus: '{path}' ended with exit code {code}; both have to run to their end.")
        return json.loads(told.read_text())


def _serve(space, told, path, *arguments):
    """Run a program, and write the times of the whole and of its launches."""
    sys.argv, seconds = [path, *arguments], collections.Counter()
    with pk.use(space), profile() as made:
        began = time.perf_counter()
        try:
            runpy.run_path(path, run_name="__main__")
        except SystemExit as stop:
            if stop.code not in (None, 0):
                raise
        whole = time.perf_counter() - began
    for event in made.events:
        seconds[event.label] += event.seconds
    Path(told).write_text(json.dumps({WHOLE: whole, **{name: s for name, s in seconds.items() if s > 0}}))


if __name__ == "__main__":
    _serve(*sys.argv[1:])
