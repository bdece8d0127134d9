"""python -m tests.same_code: does the compiler make the same code as before?

    record FILE             what the tests of models, examples and conformance compile, kept in FILE
    text FILE FOLDER        the LLVM text of each record by this checkout, into FOLDER/texts.pickle
    diff FOLDER FOLDER      two of these, compared after renaming

A record is a kernel and what it was compiled for; it is lowered for the CPU, for the CPU one index at a time,
and for CUDA (which needs no GPU).
"""

import argparse
import collections
import difflib
import os
import pickle
import subprocess
import sys
from pathlib import Path

from . import seam
from .normal import nameless, normal

HERE = Path(__file__).resolve().parents[2]
SHOWN, WIDTH, LONG = 12, 150, 3000  # lines of a difference that are printed, their width; lines looked at


def side(tree, *arguments):
    """Run side.py with a tree first on the path; its exit status."""
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    others = [p for p in paths if p and Path(p).resolve() != HERE]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tree), *others])}
    command = [sys.executable, str(Path(__file__).with_name("side.py")), *map(str, arguments)]
    return subprocess.run(command, env=environment, cwd=tree, check=False).returncode


def texts(folder):
    """(record, machine) -> LLVM text."""
    content = pickle.loads((Path(folder) / "texts.pickle").read_bytes())
    return {key: text for key, (text, _) in content.items()}


def changed(a, b):
    """The lines that were taken out ("-") and put in ("+"); of long changes only where they begin."""
    first = next((k for k, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    ends = zip(reversed(a[first:]), reversed(b[first:]))
    same = next((k for k, (x, y) in enumerate(ends) if x != y), min(len(a), len(b)) - first)
    a, b = a[first:len(a) - same][:LONG], b[first:len(b) - same][:LONG]
    return [line for line in difflib.unified_diff(a, b, lineterm="", n=0) if not line.startswith("@@")][2:]


def compare(before, after):
    """Print what differs between two such folders, grouped; the number of texts that differ."""
    old, new = texts(before), texts(after)
    groups, same, renamed = collections.defaultdict(list), 0, 0
    for key in sorted(old.keys() & new.keys()):
        if old[key] == new[key]:
            same += 1
            continue
        a, b = normal(old[key]), normal(new[key])
        if a == b:
            renamed += 1
            continue
        lines = changed(nameless(a), nameless(b)) or ["the same operations on other operands"]
        groups["\n    ".join(line[:WIDTH] for line in lines[:SHOWN])].append((key, len(lines)))
    for shown, keys in sorted(groups.items(), key=lambda item: -len(item[1])):
        print(f"\n{len(keys)} texts differ so:\n    {shown}")
        print(*(f"  {name} ({machine}), {n} lines" for (name, machine), n in keys[:6]), sep="\n")
    differ = sum(map(len, groups.values()))
    print(f"\n{same} texts identical, {renamed} after renaming, {differ} differ in {len(groups)} ways; "
          f"only before: {len(old.keys() - new.keys())}, only after: {len(new.keys() - old.keys())}")
    return differ


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.same_code", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("record")
    command.add_argument("file", type=Path)
    command = commands.add_parser("text")
    command.add_argument("file", type=Path)
    command.add_argument("folder", type=Path)
    command.add_argument("--only", default="", help="records whose name holds this")
    command.add_argument("--machines", default=";".join(seam.MACHINES), help="default: '%(default)s'")
    command.add_argument("--quick", type=float, default="inf", metavar="SECONDS",
                         help="records whose lowering took so long at most when they were recorded")
    command = commands.add_parser("diff")
    command.add_argument("before", type=Path)
    command.add_argument("after", type=Path)
    args = parser.parse_args()
    if args.command == "record":
        return side(HERE, "record", args.file.resolve())
    if args.command == "text":
        args.folder.mkdir(parents=True, exist_ok=True)
        out = args.folder.resolve() / "texts.pickle"
        return side(HERE, "text", args.file.resolve(), out, args.machines, args.only, args.quick)
    return int(compare(args.before, args.after) > 0)


if __name__ == "__main__":
    sys.exit(main())
