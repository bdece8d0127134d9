"""Test which processes find compiled code on disk, without compiling."""

import os
import sys

import pytest
from fake_cuda import FakeDriver, installed

import portable as pk
from portable.core import cache
from portable.core.machines.cpu.entry import entry_of
from portable.core.compiler.reading import fingerprint, tree
from portable.core.compiler.writing.emit import Emitter
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


def test_names_and_places_make_no_other_key():
    """A kernel that moved in its file, or whose variables were renamed, finds its code."""

    def text(source):
        name = f"kernels_{abs(hash(source))}"
        file = FOLDER / f"{name}.py"
        file.write_text(source)
        scope = {"pk": pk, "__name__": name}
        exec(compile(source, str(file), "exec"), scope)
        return entry_of(scope["kernel"], "range", (VIEW, OUT)).text

    first = (
        "@pk.kernel\ndef kernel(i, x, out):\n    s = x[i]\n    for k in range(x.shape[0]):\n        s += k\n "
        "   out[i] = s\n"
    )
    moved = "# a comment\n\n" + first.replace("s ", "total ").replace("= s", "= total")
    other_constant = first.replace("range(x", "range(1, x")
    assert text(first) == text(moved) != text(other_constant)


@pytest.fixture(autouse=True)
def folder(tmp_path):
    global FOLDER
    FOLDER = tmp_path


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
    made, plain = [], Emitter.begin
    monkeypatch.setattr(Emitter, "begin", lambda *args: (made.append(1), plain(*args)))
    monkeypatch.setattr(fingerprint, "compiler", lambda: "this compiler")
    monkeypatch.setattr(cache, "get", KEPT.get)
    monkeypatch.setattr(cache, "put", KEPT.__setitem__)
    KEPT.clear()
    grids, emitted = [], []
    for _ in range(2):
        for kernel in (rich, squares):
            kernel.compiled.clear()
        with installed(FakeDriver()) as fake:
            x, out = (pk.View(1000, pk.float64, space="cuda") for _ in range(2))
            launch(pk.RangePolicy(0, 1000, space="cuda"), x, out)
            grids.append([row[1:4] for row in fake.launches])
            emitted.append(len(made))
    assert KEPT and grids[0] == grids[1] and grids[0] and 0 < emitted[0] == emitted[1]


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
