"""Run many random programs on several processes, and count programs, refusals and differences."""

import concurrent.futures
import concurrent.futures.process
import contextlib
import hashlib
import multiprocessing
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings

from . import constants, edges, effects, launches, ranges, reductions, small, teams
from .comparing import CPU, CUDA, LOWERED, Difference, Refused, RefusedBySpace, Undefined, compare
from .program import replay

KINDS = {
    "range": ranges.programs,
    "team": teams.programs,
    "edge": edges.programs,
    "effect": effects.programs,
    "launch": launches.programs,
    "reduction": reductions.programs,
    "constant": constants.programs,
    "small": small.programs,
}
SHARES = """
range team edge range team edge effect launch reduction constant small
""".split()  # shares of each eleven chunks
SHRINKING_S = 40  # longest time for shrinking a failure
CHUNK_OF_MUTANTS = 10  # programs, so that each kind comes early
HANGING_S = 120  # a program that takes longer ends its process


class Enough(KeyboardInterrupt):
    """Exception that ends a run of Hypothesis, which catches all others."""


@dataclass
class Outcome:
    """Results of some programs of one kind."""

    kind: str
    programs: int = 0
    comparisons: int = 0
    undefined: int = 0
    # comparisons without a result, because the checked space reported an overflow that the source has
    reported: int = 0
    refused: Counter = field(default_factory=Counter)
    refused_hashes: set = field(default_factory=set)
    differences: list = field(default_factory=list)  # (message, text of a file that reproduces it)

    def add(self, other):
        self.programs += other.programs
        self.comparisons += other.comparisons
        self.undefined += other.undefined
        self.reported += other.reported
        self.refused += other.refused
        self.refused_hashes |= other.refused_hashes
        self.differences += other.differences


def builds_of(space):
    """Return the builds that a campaign compares: those of the CPU and the code lowered for CUDA, or those of
    one space."""
    if space is None:
        return *CPU, LOWERED
    found = tuple(b for b in (*CPU, *CUDA, LOWERED) if b.space.partition(":")[0] == space)
    if not found:
        raise SystemExit(f"--space {space}: one of serial, threads, checked, cuda, ptx is wanted")
    return found


def tasks(programs, seed_, chunk=20, kinds=SHARES):
    """Return (kind, seed, number of programs) of each chunk; kinds take turns."""
    found, k = [], 0
    while programs > 0:
        found.append((kinds[k % len(kinds)], 1_000_003 * seed_ + k, min(chunk, programs)))
        programs, k = programs - chunk, k + 1
    return found


def hash_of(program):
    return hashlib.sha256(program.text.encode()).hexdigest()[:16]


def run_chunk(kind, seed_, n, space=None, shrink=True, accepted=None, running=None, in_turn=False):
    """Run `n` programs of a kind and return their Outcome; the run ends with the first difference, which
    `shrink` reduces.

    `accepted`: hashes of programs that may be refused; any other refusal counts as a difference. `running`: a
    file that holds the current program, which the parent process reads if this process dies. `in_turn`: of
    the builds with fewer or more than 8 lanes, only one is tried for each program, in turn: each needs a
    compilation, which takes most of the time.
    """
    outcome, builds, failed = Outcome(kind), builds_of(space), []

    def examine(program):
        if failed and time.monotonic() > failed[0] + SHRINKING_S:
            raise Enough
        signal.alarm(HANGING_S)
        if running is not None:
            running.write_text(replay(program, builds[0].name, False, True, [], None))
        try:
            others = [b for b in builds if b.lanes not in (0, 8)] if in_turn else []
            left_out = {b for k, b in enumerate(others) if k != outcome.programs % len(others)}
            said = compare(program, failed[1:] or [b for b in builds if b not in left_out])
        except Difference as difference:
            if not failed:
                failed.extend([time.monotonic(), difference.build])
                outcome.programs += 1
            smallest = outcome.differences[0] if outcome.differences else None
            if smallest is None or len(difference.file) <= len(smallest[1]):
                outcome.differences[:] = [(str(difference), difference.file)]
            if not shrink:
                raise Enough from None
            raise
        except RefusedBySpace as refusal:
            said = {}
            if accepted is not None and hash_of(program) not in accepted:
                outcome.differences.append((f"refused: {refusal.build}: {refusal}", refusal.file))
                raise Enough from None
            if not failed:
                outcome.refused[reason(str(refusal))] += 1
                outcome.refused_hashes.add(hash_of(program))
        except Refused as refusal:
            said = {}
            outcome.refused[f"the oracle: {refusal}"] += not failed
        except Undefined:
            said = {}
            outcome.undefined += not failed
        finally:
            signal.alarm(0)
        if not failed:
            outcome.programs += 1
            outcome.comparisons += len(said)
            outcome.reported += sum(v != "same" for v in said.values())

    phases = [Phase.generate, Phase.shrink] if shrink else [Phase.generate]
    options = settings(
        max_examples=n,
        deadline=None,
        database=None,
        phases=phases,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        print_blob=False,
    )
    try:
        seed(seed_)(options(given(KINDS[kind]())(examine)))()
    except (Difference, Enough):
        pass
    if running is not None:
        running.unlink(missing_ok=True)
    return outcome


def reason(message):
    """Return a refusal's message without the parts that differ from program to program."""
    message = re.sub(r"kernel '\w+' \([^)]*\): ", "", message.splitlines()[0])
    return re.sub(r"`[^`]*`", "`...`", message)[:150]


def campaign(
    programs, seed_, space=None, processes=1, say=lambda outcome: None, shrink=True, chunk=20, kinds=SHARES
):
    """Run all tasks and return Outcomes by kind. `say` is called after each chunk."""
    totals, left = (
        {kind: Outcome(kind) for kind in KINDS if kind in kinds},
        tasks(programs, seed_, chunk, kinds),
    )
    with tempfile.TemporaryDirectory(prefix="fuzz") as folder:
        while left:
            done, ended = _some(left, space, shrink, processes, Path(folder))
            for outcome in [*done.values(), *ended.values()]:
                totals[outcome.kind].add(outcome)
                say(outcome)
            left = [task for task in left if task not in done and task not in ended]
    return totals


def _some(wanted, space, shrink, processes, folder):
    """Return Outcomes by task, of the tasks that completed, and the tasks whose process died: by a crash, or
    because a program hung."""
    done, ended = {}, {}
    with concurrent.futures.ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        futures = {
            task: pool.submit(run_chunk, *task, space, shrink, None, folder / f"{task[1]}.py")
            for task in wanted
        }
        for task, future in futures.items():
            with contextlib.suppress(concurrent.futures.process.BrokenProcessPool):
                done[task] = future.result()
    for task in wanted:  # a dead process ends the whole pool: each task is tried separately
        running = folder / f"{task[1]}.py"
        if task in done or not running.exists():
            continue
        try:
            code = subprocess.run(
                [sys.executable, running], capture_output=True, timeout=HANGING_S
            ).returncode
        except subprocess.TimeoutExpired:
            code = "none: it hangs"
        if code not in (0, 1):
            ended[task] = Outcome(
                task[0], 1, differences=[(f"the process ends; exit status {code}", running.read_text())]
            )
        running.unlink()
    if len(done) + len(ended) == 0:
        raise RuntimeError("processes end at once, and no program shows why")
    return done, ended


def until_first(programs, seed_, accepted):
    """Return (number of programs, the first difference or None), computed in this process."""
    tried = 0
    for task in tasks(programs, seed_, CHUNK_OF_MUTANTS):
        outcome = run_chunk(*task, shrink=False, accepted=accepted)
        tried += outcome.programs
        if outcome.differences:
            return tried, outcome.differences[0][0]
    return tried, None
