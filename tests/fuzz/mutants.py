"""Change the compiler in ways that the programs must detect: reverted fixes, and mutants drawn from its
source.

Each is made in a copy of the tree and tried in a separate process, until the first difference or a given
number of programs. A crash, a program that does not end, and the refusal of a program that the unchanged
compiler accepts count as detected.
"""

from __future__ import annotations

import ast
import concurrent.futures
import os
import random
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from . import campaign
from .mends import MENDS

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("portable/core/compiler", "portable/core/machines/cpu")
LEFT_OUT = ("counting.py", "count.py", "touched.py")  # counts for pk.count, which affect no result
LIMIT_S = 3600
_ARITHMETIC = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.Pow: ast.Mult,
    ast.Div: ast.Mult,
}
_COMPARISONS = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}


@dataclass(frozen=True)
class Change:
    """Replacement of a part of a file, from `start` on."""

    name: str
    file: str
    line: int
    start: int
    old: str
    new: str

    def __str__(self):
        return (
            f"{self.name}: {self.file}:{self.line}: `{self.old.strip()[:110]}` -> `{self.new.strip()[:110]}`"
        )


# ---- mends taken back
def taken_back():
    """Return the Changes of `mends.py`; the source of each must occur exactly once."""
    changes = []
    for item, what, file, now, before in MENDS:
        text = (ROOT / file).read_text()
        if text.count(now) != 1:
            raise SystemExit(
                f"mends.py, item {item} ({what}): {text.count(now)} times in {file}, once is wanted:\n{now}"
            )
        start = text.index(now)
        changes.append(
            Change(f"item {item}, {what}", file, text.count("\n", 0, start) + 1, start, now, before)
        )
    return changes


# ---- mutants of the text
def candidates():
    """Return all Changes of one operator, constant or condition, sorted."""
    found = []
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if path.name not in LEFT_OUT:
                found += _of_file(path)
    return found


def _of_file(path):
    text = path.read_text()
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line.encode()))
    data, name, found = text.encode(), str(path.relative_to(ROOT)), []

    def change(node, what, replaced):
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        found.append(
            Change(
                what,
                name,
                node.lineno,
                len(data[:start].decode()),
                data[start:end].decode(),
                f"({ast.unparse(replaced)})",
            )
        )

    for node in _executed(ast.parse(text)):
        if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
            change(node, "operator", ast.BinOp(node.left, _ARITHMETIC[type(node.op)](), node.right))
        elif isinstance(node, ast.Compare) and len(node.ops) == 1:
            change(
                node,
                "operator",
                ast.Compare(node.left, [_COMPARISONS[type(node.ops[0])]()], node.comparators),
            )
        elif isinstance(node, ast.BoolOp):
            change(
                node,
                "operator",
                ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values),
            )
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
            change(node, "operator", node.operand)
        elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
            change(node, "constant", ast.Constant(not node.value))
        elif isinstance(node, ast.Constant) and isinstance(node.value, int):
            change(node, "constant", ast.Constant(node.value + 1))
        if isinstance(node, (ast.If, ast.While, ast.IfExp)):
            change(node.test, "condition", ast.UnaryOp(ast.Not(), node.test))
    return found


def _executed(node):
    """Return the nodes below `node` that affect programs: no docstrings, annotations, messages, nor
    statements that only raise an error."""
    annotations = [getattr(node, name, None) for name in ("annotation", "returns")]
    for child in ast.iter_child_nodes(node):
        called = ast.unparse(child.func).rpartition(".")[2] if isinstance(child, ast.Call) else ""
        if (
            isinstance(child, (ast.Raise, ast.JoinedStr, ast.Assert))
            or called in ("fail", "refuse", "wanted")
            or (isinstance(child, ast.FunctionDef) and child.name in ("fail", "refuse", "_counted"))
            or child in annotations
            or called.endswith(("Error", "Clash"))
        ):
            continue
        yield child
        yield from _executed(child)


# ---- trying
def attempt(change, seed, programs, accepted):
    """Try a change; return it with "" if no program detected it, else the reason."""
    with tempfile.TemporaryDirectory(prefix="mutant") as folder:
        folder = Path(folder)
        shutil.copytree(ROOT / "portable", folder / "portable", ignore=shutil.ignore_patterns("__pycache__"))
        (folder / "tests").mkdir()
        for name in ("__init__.py", "launching.py"):
            shutil.copy(ROOT / "tests" / name, folder / "tests")
        shutil.copytree(
            ROOT / "tests/fuzz", folder / "tests/fuzz", ignore=shutil.ignore_patterns("__pycache__")
        )
        path = folder / change.file
        text = path.read_text()
        assert text[change.start :].startswith(change.old)
        path.write_text(text[: change.start] + change.new + text[change.start + len(change.old) :])
        (folder / "accepted").write_text("\n".join(accepted))
        command = [
            sys.executable,
            "-m",
            "tests.fuzz",
            "--until-first",
            "accepted",
            "--programs",
            str(programs),
            "--seed",
            str(seed),
        ]
        others = os.environ.get("PYTHONPATH", "")  # the copy comes first
        environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{others}", "PORTABLE_CACHE": "0"}
        try:
            done = subprocess.run(
                command, cwd=folder, env=environment, capture_output=True, text=True, timeout=LIMIT_S
            )
        except subprocess.TimeoutExpired:
            return change, f"no end within {LIMIT_S} s"
    last = (done.stdout.strip().splitlines() or done.stderr.strip().splitlines() or [""])[-1]
    if done.returncode == 0:
        return change, ""
    return change, last if done.returncode == 1 and done.stdout else f"exit status {done.returncode}: {last}"


def try_here(programs, seed, hashes):
    """Run the comparison in the changed copy."""
    tried, difference = campaign.until_first(programs, seed, set(Path(hashes).read_text().split()))
    print(f"after {tried} programs: {difference}" if difference else f"none of {tried}")
    return 1 if difference else 0


def main(seed, n_mutants, programs, processes, part=(1, 1)):
    drawn = random.Random(seed).sample(candidates(), n_mutants)
    # The longest runs come first: survivors, and changes of reducers, which come late among the programs.
    changes = (drawn + taken_back()[::-1])[part[0] - 1 :: part[1]]
    before = campaign.campaign(programs, seed, None, processes, shrink=False, chunk=campaign.CHUNK_OF_MUTANTS)
    different = [d for outcome in before.values() for d in outcome.differences]
    if different:
        print(f"the unchanged compiler differs already: {different[0][0]}")
        return 1
    accepted = set().union(*(outcome.refused_hashes for outcome in before.values()))
    unchanged = Change("nothing", changes[0].file, 1, 0, "", "")
    _, noticed = attempt(unchanged, seed, 20, accepted)
    if noticed:  # otherwise every change would seem to be detected
        print(f"an unchanged copy does not pass: {noticed}")
        return 1
    survivors = 0
    with concurrent.futures.ThreadPoolExecutor(processes) as pool:
        attempts = [pool.submit(attempt, change, seed, programs, accepted) for change in changes]
        for done in concurrent.futures.as_completed(attempts):
            change, noticed = done.result()
            survivors += not noticed
            print(f"{'noticed ' if noticed else 'SURVIVED'}  {change}\n          {noticed}", flush=True)
    print(
        f"{len(changes)} changes (part {part[0]}/{part[1]}), {survivors} survived {programs} programs each;"
        f" seed {seed}"
    )
    return 1 if survivors else 0
