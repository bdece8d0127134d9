"""`python -m tests.docs.sample 10 --seed 3`: print sentences of docs, docstrings, messages at random."""

import argparse
import ast
import random
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def texts():
    """Yield (path, text) of each page of the docs, each docstring and each message of an exception."""
    for path in sorted((ROOT / "docs").rglob("*.md")):
        yield path, re.sub(r"(?s)```.*?```|\|[^\n]*\|", "", path.read_text())
    for path in sorted(p for room in ("portable", "models", "roofline") for p in (ROOT / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                yield path, ast.get_docstring(node) or ""
            elif isinstance(node, ast.Raise):
                yield path, ast.unparse(node)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("n", type=int)
    parser.add_argument("--seed", type=int)
    options = parser.parse_args()
    found = [(path, part) for path, text in texts() for part in re.split(r"(?<=[.:?])\s+|\n\n", text)]
    whole = [
        (path, " ".join(part.split()))
        for path, part in found
        if len(part.split()) >= 5 and part[-1] in ".:?)"
    ]
    for path, sentence in random.Random(options.seed).sample(whole, options.n):
        print(f"{path.relative_to(ROOT)}: {sentence}\n")


if __name__ == "__main__":
    main()
