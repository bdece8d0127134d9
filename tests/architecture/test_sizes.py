"""Measure packages in tokens. Limits only fall: a limit far above its package's size is lowered, and one that
has to rise falls elsewhere in the same commit, with a page in docs/decisions that gives the reason."""

import ast
import functools
import io
import tokenize
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
_FREE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


@functools.cache
def tokens(text):
    """Return the size of a source: each name, number and operator is one token, a string as many as it has
    words; comments and docstrings are free."""
    free, n, begun = set(docstrings(ast.parse(text))), 0, []
    lines = text.splitlines(keepends=True)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        kind = tokenize.tok_name[token.type]
        if kind.endswith("STRING_START"):  # from Python 3.12 on the parts of an f-string are tokens
            begun.append(token.start)
        if kind.endswith("STRING_END"):
            (row, column), (last, end) = begun.pop(), token.end
            whole = "".join(lines[row - 1 : last])[column : end - len(lines[last - 1]) or None]
            n += 0 if begun else max(1, len(whole.split()))
        elif not begun and token.type not in _FREE and not (kind == "STRING" and token.start in free):
            n += max(1, len(token.string.split())) if kind == "STRING" else 1
    return n


def docstrings(tree):
    """Yield the places at which docstrings begin."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            if ast.get_docstring(node, clean=False) is not None:
                yield node.body[0].lineno, node.body[0].col_offset


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
