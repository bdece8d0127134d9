"""Measure packages in tokens. Limits only fall: a limit far above its package's size is lowered, and one that
has to rise falls elsewhere in the same commit, with a page in docs/decisions that gives the reason."""

import ast
import functools
import itertools
import re
from pathlib import Path

import pytest

from .rooms import CAPS

ROOT = Path(__file__).parents[2]
ROOMS = {
    "core": ["portable/core"],
    "portable": ["portable"],
    "models": ["models"],
    "roofline as shipped": ["roofline"],
    "cases, peers and truth": ["roofline/cases", "roofline/peers", "roofline/truth"],
    "docs": ["docs"],
    "tests": ["tests"],
}
# strings and comments before all else; the longest operators first
_TOKEN = re.compile(
    r"""#[^\n]*|[bfru]{0,2}(?:\"\"\"(?:\\.|.)*?\"\"\"|'''(?:\\.|.)*?'''|"(?:\\.|[^"])*"|'(?:\\.|[^'])*')"""
    r"|0[box]\w+|(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:e[-+]?[\d_]+)?j?|\w+"
    r"|\.\.\.|->|(?:\*\*|//|<<|>>|[-+*/%&|^@=<>!:])=?|[~()[\]{},.;]",
    re.DOTALL | re.IGNORECASE,
)


@functools.cache
def tokens(text):
    """Return the size of a source: each name, number and operator is one token, a string as many as it has
    words; comments and docstrings are free."""
    begins = [0, *itertools.accumulate(len(line) + 1 for line in text.split("\n"))]
    free = {begins[row - 1] + column for row, column in docstrings(ast.parse(text))}
    found = (token for token in _TOKEN.finditer(text) if token[0][0] != "#" and token.start() not in free)
    return sum(max(1, len(token[0].split())) for token in found)


def docstrings(tree):
    """Yield the places at which docstrings begin."""
    if isinstance(tree, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        if ast.get_docstring(tree, clean=False) is not None:
            yield tree.body[0].lineno, tree.body[0].col_offset
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.stmt, ast.excepthandler, ast.match_case)):
            yield from docstrings(node)


def size(room):
    """Return the number of tokens in all Python files of a package."""
    beside = ROOMS["cases, peers and truth"] if room == "roofline as shipped" else []
    files = [p for folder in ROOMS[room] for p in sorted((ROOT / folder).rglob("*.py"))]
    return sum(tokens(p.read_text()) for p in files if p.relative_to(ROOT).parent.as_posix() not in beside)


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_stays_below_its_cap(room):
    found = size(room)
    assert found <= CAPS[room]
    assert found >= 0.97 * CAPS[room], f"lower the cap of '{room}' in tests/architecture/rooms.py: {found}"


def test_words_of_strings_count_and_docstrings_do_not():
    text = 'def f():\n    """One two three."""\n    return "four five six", 7  # eight\n'
    assert tokens(text) == len("def f ( ) : return four five six , 7".split())
    assert tokens("x = f'one {two!r:>3} {f\"{three} four\"} five'\n") == len(["x", "=", *range(5)])
    assert tokens('x = f"""one\n{two} three""", 4\n') == len(["x", "=", *range(3), ",", "4"])
