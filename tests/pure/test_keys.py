"""Test the keys of compiled code on disk: they contain all inputs of the compilation, and are computed
without compiling."""

import os
import sys

import pytest
from fake_cuda import FakeDriver, installed

import portable as pk
from portable.core import cache
from portable.core.machines.cpu.entry import entry_of
from portable.core.compiler.reading import tree
from portable.core.compiler.reading.keys import _NODES, _Writer, written
from portable.core.compiler.reading.tree import Operation
from tests.processes import python

VIEW, OUT = ("view", "float64", 1, True, True), ("view", "float64", 1, True, False)


@pk.function
def halved(v, least):
    if v < least:
        return least
    return v / 2.0


@pk.kernel
def rich(i, n, x, out):
    best, place = x[i], pk.local(3, pk.float64)
    for j in range(n):
        if best > 4.0 and x[j] < 1.0:
            break
        best = halved(best, 0.5) if x[j] > 0.0 else best + j
        place[j % 3] = pk.exp(best)
    while best > 2.0:
        best -= 1.0
    out[i] = best + place[0] + x[0:2][1]


@pk.kernel
def together(team, x, out):
    total = 0.0
    for j in team.thread_range(x.shape[0]):
        total += x[j]
    total = team.reduce(total, pk.Max)
    if team.single():
        out[team.league_rank] = total


@pk.kernel
def squares(i, x):
    return x[i] * x[i]


KEPT = {}


def nodes(value, seen):
    """Return all nodes of a tree."""
    if isinstance(value, (list, tuple)):
        for v in value:
            nodes(v, seen)
    elif value.__class__ in _NODES and value not in seen:
        seen[value] = True
        for name in _NODES[value.__class__]:
            nodes(getattr(value, name), seen)
    return seen


def other(value):
    """Return a different value of the same kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float, str)):
        return value + value + type(value)(1)
    if isinstance(value, (list, tuple)):
        return (*value, "more")
    if isinstance(value, frozenset):
        return value | {"more"}
    return 7


@pytest.mark.parametrize(
    "kernel, kind, specs",
    [(rich, "range", (("number", "int64"), VIEW, OUT)), (together, "team", (VIEW, OUT))],
)
def test_each_field_of_each_node_makes_another_key(kernel, kind, specs):
    """A reducer, and its state's type, are represented by the tree of its source."""
    tree = entry_of(kernel, kind, specs).tree
    key = written(tree, "float64")
    found = nodes((tree.inputs, tree.root, tree.result), {})
    assert len(found) > 20 and key == written(tree, "float64")
    for node in found:
        for name in _NODES[node.__class__]:
            kept = getattr(node, name)
            if node.__class__ is Operation and isinstance(node.attr, pk.Reducer) and name in ("attr", "args"):
                continue
            setattr(node, name, other(kept))
            assert written(tree, "float64") != key, (node.__class__.__name__, name)
            setattr(node, name, kept)
    assert written(tree, "float64") == key


def test_constants_of_other_types_make_other_keys():
    def text(value):
        writer = _Writer("float64")
        writer.add(Operation("const", const=value))
        return "".join(writer.parts)

    assert len({text(v) for v in (4, 4.0, True, 1, 0.0, -0.0, False, 0)}) == 8


def test_names_and_places_make_no_other_key():
    """A kernel that moved in its file, or whose variables were renamed, finds its code."""

    def identity(source):
        name = f"kernels_{abs(hash(source))}"
        file = FOLDER / f"{name}.py"
        file.write_text(source)
        scope = {"pk": pk, "__name__": name}
        exec(compile(source, str(file), "exec"), scope)
        return entry_of(scope["kernel"], "range", (VIEW, OUT)).identity_of_code

    first = (
        "@pk.kernel\ndef kernel(i, x, out):\n    s = x[i]\n    for k in range(x.shape[0]):\n        s += k\n "
        "   out[i] = s\n"
    )
    moved = "# a comment\n\n" + first.replace("s ", "total ").replace("= s", "= total")
    other_constant = first.replace("range(x", "range(1, x")
    assert identity(first) == identity(moved) != identity(other_constant)


@pytest.fixture(autouse=True)
def folder(tmp_path):
    global FOLDER
    FOLDER = tmp_path


def test_reducers_of_other_texts_make_other_keys():
    @pk.kernel
    def own(i, x):
        return x[i]

    def longest(a, b):
        return max(a, b) + 0.0

    def shortest(a, b):
        return min(a, b) + 0.0

    one, two = (pk.Reducer("Own", fn, 0.0) for fn in (longest, shortest))
    assert (
        entry_of(own, "range", (VIEW,), (one,)).identity_of_code
        != entry_of(own, "range", (VIEW,), (two,)).identity_of_code
    )
    assert (
        entry_of(own, "scan inclusive", (VIEW, OUT), (one,)).identity_of_code
        != entry_of(own, "scan exclusive", (VIEW, OUT), (one,)).identity_of_code
    )


WARM = """
import sys
import numpy as np
sys.path.insert(0, {folder!r})
import portable as pk
from portable.core import cache
from portable.core.compiler.writing.emit import Emitter
from tests.pure.test_keys import rich, together

made = []
plain = Emitter.begin
Emitter.begin = lambda *args: (made.append(1), plain(*args))

@pk.kernel
def squares(i, x):
    return x[i] * x[i]

x, out = np.arange(100.0), np.zeros(100)
pk.parallel_for(pk.RangePolicy(0, 100, space="threads"), rich, 5, x, out)
pk.parallel_for(pk.TeamPolicy(3, space="threads"), together, x, out)
policy = pk.RangePolicy(0, 100, space="threads")
assert pk.parallel_reduce(policy, squares, x, reducer=(pk.Sum, pk.MaxLoc)[:1]) == (x * x).sum()
assert pk.parallel_scan(policy, squares, x, out=out) == (x * x).sum()
print(len(made))
"""


def test_a_process_that_finds_its_code_emits_none(tmp_path):
    (tmp_path / "cache").mkdir(mode=0o700)
    program = tmp_path / "program.py"
    program.write_text(WARM.format(folder=os.getcwd()))
    paths = os.pathsep.join([os.getcwd(), *filter(None, sys.path)])
    environment = {**os.environ, "PORTABLE_CACHE": str(tmp_path / "cache"), "PYTHONPATH": paths}
    first, second = (int(python(str(program), env=environment).stdout) for _ in range(2))
    assert first > 0 and second == 0


@pytest.mark.parametrize(
    "launch",
    [
        lambda policy, x, out: pk.parallel_for(policy, rich, 5, x, out),
        lambda policy, x, out: pk.parallel_scan(policy, squares, x, out=out),
        lambda policy, x, out: pk.parallel_reduce(policy, squares, x, reducer=pk.Max),
    ],
    ids=["for", "scan", "reduce"],
)
def test_a_launch_of_code_that_was_kept_is_the_same_launch(launch, monkeypatch):
    """A launch on CUDA needs no information of its kernel that requires the source."""
    monkeypatch.setattr(cache, "get", KEPT.get)
    monkeypatch.setattr(cache, "put", KEPT.__setitem__)
    KEPT.clear()
    grids = []
    for _ in range(2):
        for kernel in (rich, squares):
            kernel.compiled.clear()
        with installed(FakeDriver()) as fake:
            x, out = (pk.View(1000, pk.float64, space="cuda") for _ in range(2))
            launch(pk.RangePolicy(0, 1000, space="cuda"), x, out)
            grids.append([row[1:4] for row in fake.launches])
    assert KEPT and grids[0] == grids[1] and grids[0]


def test_a_node_takes_its_attributes_in_order_and_shares_no_list():
    one, other = tree.Block(None), tree.Block(split=True)
    one.body.append("statement")
    assert (one.body, other.body, one.split, other.split) == (["statement"], [], False, True)
    assert one != other and one in {one: 1}
    assert tree.Variable("x", kind="varying").kind == "varying" and tree.Variable("x").dtype is None
    with pytest.raises(AttributeError):
        one.unknown = []
    with pytest.raises(TypeError, match="missing"):
        tree.Variable()
