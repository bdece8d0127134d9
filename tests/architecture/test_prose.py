"""Test that docstrings begin with a verb and its object, or name the thing that they are about."""

import ast
import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CLAUSES = re.compile(r"(What|Whether|Of|Where|Who|Whose|Those|As|Which|How|Why|The.same)\b")
NOUNS = re.compile(r"(The|A|An|One|Each|All|Its)\b")
NAMED = {"property", "cached_property", "kernel", "fixture"}  # may begin with a noun
PEOPLE = re.compile(
    r"\b(whoever|(no|some|any)body|goes\son|(is|are)\s(wanted|told|heard|asked)|what\swas\s(found|seen))\b",
    re.I,
)


@functools.cache
def documented(folder):
    """List (place, whether a function gives a value, docstring) of each docstring below a folder."""
    found = []
    for path in sorted((ROOT / folder).rglob("*.py")):
        place = path.relative_to(ROOT).as_posix()
        if place.startswith("roofline/peers"):  # records name the hashes of their sources
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                name = getattr(node, "name", "")
                found.append((f"{place}: {name}", gives(node), ast.get_docstring(node) or ""))
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
    inside = list(node.body)
    for part in inside:
        if not isinstance(part, (ast.FunctionDef, ast.ClassDef, ast.Lambda)):
            inside.extend(ast.iter_child_nodes(part))
    return not marks & NAMED and any(isinstance(p, ast.Return) and p.value is not None for p in inside)


ROOMS = "portable models roofline docs tests".split()


@pytest.mark.parametrize("folder", ROOMS)
def test_docstrings_begin_with_no_clause_and_pages_name_no_people_for_code(folder):
    assert not [place for place, _, text in documented(folder) if CLAUSES.match(text) or PEOPLE.search(text)]
    assert not [path for path in (ROOT / folder).rglob("*.md") if PEOPLE.search(path.read_text())]


@pytest.mark.parametrize("folder", ROOMS[:-1])
def test_functions_say_what_they_return_by_a_verb(folder):
    assert not [place for place, gives, text in documented(folder) if NOUNS.match(text) and gives]


@pytest.mark.parametrize("folder", ROOMS[:3])
def test_names_of_files_functions_and_classes_say_what_they_do(folder):
    assert not [
        place
        for place, *_ in documented(folder)
        if re.search(
            r"[/ ]_*(once|ahead|again|apart|alone|kept|told|given|seen|before|later|last|"
            r"asked|taken|say|tell|held|heard|wanted|whole|here|there)(\.py:.*)?$",
            place,
        )
    ]
