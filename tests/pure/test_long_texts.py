"""Test sources that are long, or deeply nested: compiled in a time that grows with their length, and refused
if they are far too long."""

import ast
import linecache
import random

import numpy as np
import pytest

import portable as pk
from portable.core.language import frontend
from portable.core import locks
from portable.core.compiler.reading import build, statements


def made(lines, name):
    """Return a kernel of these lines."""
    source, file = "@pk.kernel\ndef k(i, x, n):\n" + "".join(f"    {line}\n" for line in lines), f"<{name}>"
    linecache.cache[file] = len(source), None, source.splitlines(True), file
    scope = {"pk": pk}
    exec(compile(source, file, "exec"), scope)  # noqa: S102
    return scope["k"]


def nest(depth):
    loops = ["    " * d + f"for a{d} in range(n):" for d in range(depth)]
    return made([*loops, "    " * depth + "x[i] += 1.0"], f"nest {depth}")


def test_loops_within_loops_are_looked_at_a_few_times_each(monkeypatch):
    """The number of visits does not double with each enclosing loop: nineteen loops once took 26 seconds."""
    looks = []
    monkeypatch.setattr(locks, "check_interrupt", looks.append)
    counts = {}
    for depth in (3, 6, 12, 18):
        looks.clear()
        assert len(nest(depth).portable_text.webs) == 3 + depth
        counts[depth] = len(looks)
    assert counts[6] <= 3 * counts[3] and counts[12] <= 2.5 * counts[6] and counts[18] <= 2 * counts[12]


def test_a_long_chain_of_conditions_is_walked_a_few_times(monkeypatch):
    """The number of visited nodes does not grow with the square of the length."""
    visits, counted, walk = {}, [], statements.walk
    monkeypatch.setattr(statements, "walk", lambda node: counted.append(len(walk(node))) or walk(node))
    for n in (40, 160):
        chain = ["if x[i] == 0.0: n = 1", *(f"elif x[i] == {k}.5: n = {k}" for k in range(n)), "x[i] = n"]
        pk.parallel_for(pk.RangePolicy(0, 3, space="checked"), made(chain, f"chain {n}"), np.zeros(3), 1)
        visits[n] = sum(counted)
    assert visits[160] < 8 * visits[40]


def test_nineteen_nested_loops_run(space="serial"):
    x = np.zeros(3)
    pk.parallel_for(pk.RangePolicy(0, 3, space=space), nest(19), x, 1)
    assert x.tolist() == [1.0] * 3


def tangled_loops(i, x, n):
    s = t = 0
    for a in range(n):
        if x[i] > a:
            s = a
            continue
        t = s
        while t < n:
            for b in range(a):
                if b == s:
                    t = b
                    break
                s = t
            else_ = s
            for s in range(2):
                t = t + s
                if t > 5:
                    break
            t = t + 1 + else_
        for b in range(3):
            s = b
    for a in range(2):
        t = a
        for t in range(a):
            s = t
    x[i] = s + t + a


def names_of(fn):
    """Return the variables of a source, and the variable at each place."""
    text = frontend.read(fn)
    return text.webs, [(n.id, n.lineno, n.col_offset) for n in text.nodes if hasattr(n, "id")]


@pytest.mark.parametrize("fn", [tangled_loops, nest(5).fn])
def test_variables_are_those_that_each_loop_read_twice_would_have(fn, monkeypatch):
    known = names_of(fn)
    for loop in (ast.For, ast.While):
        monkeypatch.setitem(frontend._STATEMENTS, loop, frontend._Webs._loop)
    assert names_of(fn) == known


def test_a_text_far_too_long_is_refused_with_a_count():
    lines = frontend.MOST_LINES
    kernel = made(["x[i] = 1.0"] * lines, "far too long")
    with pytest.raises(
        pk.SourceError, match=rf"kernel 'k' \(<far.*has {lines + 2:,} lines; at most {lines:,}"
    ):
        pk.parallel_for(pk.RangePolicy(0, 3, space="serial"), kernel, np.zeros(3), 1)


@pytest.mark.parametrize("space", ["serial", "checked"])
def test_operations_far_too_many_are_refused_with_a_count(space, monkeypatch):
    """A short source with unrolled loops has as many."""
    monkeypatch.setattr(build, "MOST_OPERATIONS", 1_000)
    x = np.zeros(3)
    policy = pk.RangePolicy(0, 3, space=space)
    pk.parallel_for(policy, made(["x[i] = x[i] * 0.5 + n"] * 100, "some"), x, 1)
    with pytest.raises(pk.KernelError, match="<many>:.*more than 1,000 operations.*several kernels"):
        pk.parallel_for(policy, made(["x[i] = x[i] * 0.5 + n"] * 1_000, "many"), x, 1)


def test_a_line_says_what_takes_long(monkeypatch, capsys):
    """There is one note for each slow kernel, and none for a quick one."""
    launch, number = pk.RangePolicy(0, 3, space="serial"), random.SystemRandom().random()  # not in any cache
    monkeypatch.setattr(locks.compiling, "reported", None)
    monkeypatch.setattr(locks, "SLOW", 999.0)
    pk.parallel_for(launch, made([f"x[i] = {number}"], "quick"), np.zeros(3), 1)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(locks, "SLOW", 0.0)
    pk.parallel_for(launch, made([f"x[i] = -{number}"], "slow"), np.zeros(3), 1)
    told = capsys.readouterr().err
    assert told.count("portable: kernel 'k' takes long to compile; Ctrl-C stops it") == 1 == told.count("\n")
