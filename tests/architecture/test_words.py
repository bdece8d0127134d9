"""Test that public prose uses the field's terms: no private vocabulary in pages, docstrings, messages and
help.
"""

import ast
import inspect
import re
from pathlib import Path

import pytest

from .test_public import FUNCTIONS

ROOT = Path(__file__).parents[2]
_THINGS = "team|thread|member|lane|row|line|number|value|pair|panel|chain|word|block|column"
_FINE = r"time\b|second\b|little\b|hundred\b|third\b"
# private words, and the term of the field that replaces each
PRIVATE = {
    rf"\b(?:a|one) (?:\w+ )?(?:{_THINGS}) an? (?!{_FINE})[a-z]": "one ... per ..., ... for each",
    r"\bclimb": "EM runs, converges",
    r"\b(?:is|are|at) rest\b": "converged",
    r"\bon (?:its|their) way\b": "in flight",
    r"\bshel(?:f|ves)\b": "shared memory, a workspace",
    r"\bleav\w+ (?:its|their) arrays\b": "indexes out of bounds",
    r"\bnot for kernels\b": "not supported in kernels",
    r"\bstraight text\b": "straight-line code",
    r"\blanes? (?:may )?part\b": "control flow diverges",
    r"\bwaits? for the one before\b": "a dependency chain, latency-bound",
    r"\bregisters would let\b": "launch bounds, occupancy",
    r"\btold (?:once|by its|by their|in the mean|as [\"']|at its|of (?:it|no)\b)": "reported",
    r"\bsaid again\b": "repeated",
}
_SHOWN = {"add_argument", "add_parser", "warn", "print"}
_SAID = {"say", "tell", *_SHOWN}


def pages():
    """Return (place, text) of each line of prose of README and docs."""
    pages = {*(ROOT / "docs").glob("*.md")} - {ROOT / "docs/measured.md"}  # it names peers, as records do
    for page in (ROOT / "README.md", *sorted(pages)):
        inside = False
        for number, line in enumerate(page.read_text().splitlines(), 1):
            inside ^= line.strip().startswith("```")
            if not inside:
                yield f"{page.relative_to(ROOT)}:{number}", line


def docstrings():
    for name, value in FUNCTIONS:
        yield name, inspect.getdoc(value) or ""


def messages():
    """Return the strings of errors, warnings and help."""
    for folder in ("portable", "models", "roofline"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                name = node.func if isinstance(node, ast.Call) else None
                name = getattr(name, "attr", getattr(name, "id", None))
                if isinstance(node, ast.Raise) and node.exc is not None or name in _SAID:
                    for part in ast.walk(node):
                        if isinstance(part, ast.Constant) and isinstance(part.value, str):
                            yield f"{path.relative_to(ROOT)}:{part.lineno}", part.value


@pytest.mark.parametrize("texts", [pages, docstrings, messages], ids=lambda f: f.__name__)
def test_public_text_has_no_private_vocabulary(texts):
    found = [
        f"{place}: {match[0]!r} ({instead})"
        for place, text in texts()
        for pattern, instead in PRIVATE.items()
        for match in re.finditer(pattern, text, re.IGNORECASE)
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "words", ["a team a row", "EM is at rest", "Not for kernels: lists", "all starts climb"]
)
def test_the_list_finds_what_was_there(words):
    assert any(re.search(pattern, words, re.IGNORECASE) for pattern in PRIVATE)
