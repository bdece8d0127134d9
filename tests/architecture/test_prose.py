"""Test that docstrings begin with a verb and its object, or name the thing that they are about."""

import ast
import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CLAUSES = set("What Whether Of Where Who Whose Those As Which How Why".split())
NOUNS = set("The A An One Each All Its".split())
NAMED = {"property", "cached_property", "kernel", "fixture"}  # may begin with a noun
KEPT = ("roofline/peers",)  # records name the hashes of their sources


@functools.cache
def documented(folder):
    """List (place, whether a function gives a value, first word) of each docstring below a folder."""
    found = []
    for path in sorted((ROOT / folder).rglob("*.py")):
        place = path.relative_to(ROOT).as_posix()
        if place.startswith(KEPT):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                first = re.match(r"[A-Za-z]+", ast.get_docstring(node) or "")
                if first:
                    found.append((f"{place}: {getattr(node, 'name', 'the file')}", gives(node), first[0]))
    return found


def gives(node):
    """Return True for a function with a `return` of a value that is no property, kernel, fixture or test."""
    if not isinstance(node, ast.FunctionDef) or node.name.startswith("test_"):
        return False
    marks = {
        part.attr if isinstance(part, ast.Attribute) else getattr(part, "id", "")
        for mark in node.decorator_list
        for part in ast.walk(mark)
    }
    inside, found = list(node.body), False
    while inside and not found:
        part = inside.pop()
        if not isinstance(part, (ast.FunctionDef, ast.ClassDef, ast.Lambda)):
            inside.extend(ast.iter_child_nodes(part))
        found = isinstance(part, ast.Return) and part.value is not None
    return found and not marks & NAMED


@pytest.mark.parametrize("folder", ["portable", "models", "roofline", "docs", "tests"])
def test_no_docstring_begins_with_a_clause(folder):
    assert not [place for place, _, first in documented(folder) if first in CLAUSES]


@pytest.mark.parametrize("folder", ["portable", "models", "roofline", "docs"])
def test_functions_say_what_they_return_by_a_verb(folder):
    assert not [place for place, gives, first in documented(folder) if first in NOUNS and gives]
