"""Test launches that find their code by a fingerprint: never the code of another kernel, whatever the program
has changed since.
"""

import linecache
import os
import sys
import textwrap
import types

import numpy as np
import pytest

import portable as pk
from portable.core import cache
from portable.core.language import frontend
from portable.core.compiler.writing.entry import Entry
from portable.core.compiler.reading import fingerprint
from portable.core.machines.cpu import lower

# (description of the change, source of a module `config`, source of one with kernels, values of {}: a, then
# b)
CHANGES = [
    ("a global", "", "N = {}\n@pk.kernel\ndef f(i, out): out[i] = N", ("1", "2")),
    ("the type of a global", "", "N = {}\n@pk.kernel\ndef f(i, out): out[i] = 1 / (N * 2)", ("1", "True")),
    (
        "the sign of zero",
        "",
        "N = {}\n@pk.kernel\ndef f(i, out): out[i] = pk.copysign(1.0, N)",
        ("0.0", "-0.0"),
    ),
    ("a NumPy number", "", "N = np.float32({})\n@pk.kernel\ndef f(i, out): out[i] = N", ("1.5", "2.5")),
    (
        "a NumPy number's type",
        "",
        "N = np.{}(0.1)\n@pk.kernel\ndef f(i, out): out[i] = N",
        ("float32", "float64"),
    ),
    ("a tuple", "", "N = 1, {}\n@pk.kernel\ndef f(i, out): out[i] = N[1]", ("1", "2")),
    (
        "a tuple in a tuple",
        "",
        "N = (1, ({}, 3)), 4\n@pk.kernel\ndef f(i, out): out[i] = N[0][1][0]",
        ("1", "2"),
    ),
    (
        "the order of names of a tuple",
        "",
        "import collections\nN = collections.namedtuple('N', '{}')(1, 2)\n"
        "@pk.kernel\ndef f(i, out): out[i] = N.left",
        ("left right", "right left"),
    ),
    (
        "a table",
        "",
        "N = np.array([1.0, {}])\n@pk.kernel\ndef f(i, out): out[i] = N[(i + 1) % 2]",
        ("1.0", "2.0"),
    ),
    ("pk.static", "", "N = pk.static({})\n@pk.kernel\ndef f(i, out): out[i] = N", ("1", "2")),
    ("a complex number", "", "N = {}\n@pk.kernel\ndef f(i, out): out[i] = N.imag", ("1j", "2j")),
    (
        "a closure cell",
        "",
        "def make(n):\n    @pk.kernel\n    def f(i, out): out[i] = n\n    return f\nf = make({})",
        ("1", "2"),
    ),
    (
        "a default",
        "",
        "@pk.function\ndef g(x=({})): return x\n@pk.kernel\ndef f(i, out): out[i] = g()",
        ("1", "2"),
    ),
    (
        "a default from elsewhere",
        "N = {}",
        "import config\n@pk.function\ndef g(x=config.N): return x\n@pk.kernel\ndef f(i, out): out[i] = g()",
        ("1", "2"),
    ),
    ("the text", "", "@pk.kernel\ndef f(i, out): out[i] = {}", ("i", "-i")),
    (
        "a module's attribute",
        "N = {}",
        "import config\n@pk.kernel\ndef f(i, out): out[i] = config.N",
        ("1", "2"),
    ),
    (
        "an attribute of a module's module",
        "import types, sys\nsys.modules['inner'] = inner = types.ModuleType('inner')\ninner.N = {}",
        "import config\n@pk.kernel\ndef f(i, out): out[i] = config.inner.N",
        ("1", "2"),
    ),
    (
        "a function's text in another file",
        "@pk.function\ndef g(x): return x + {}",
        "import config\n@pk.kernel\ndef f(i, out): out[i] = config.g(1)",
        ("1", "2"),
    ),
    (
        "a global of a function that a function calls",
        "N = {}\n@pk.function\ndef g(x): return x + N",
        "from config import g\n@pk.function\ndef h(x): return g(x)\n@pk.kernel\ndef f(i, out): out[i] = h(1)",
        ("1", "2"),
    ),
    ("a word", "", "from math import {} as g\n@pk.kernel\ndef f(i, out): out[i] = g(2.0)", ("sqrt", "exp")),
    (
        "a word of a module",
        "import math\ng = math.{}",
        "import config\n@pk.kernel\ndef f(i, out): out[i] = config.g(2.0)",
        ("sqrt", "exp"),
    ),
    (
        "a dtype",
        "",
        "T = np.{}\n@pk.kernel\ndef f(i, out):\n    x = pk.local(1, T)\n    x[0] = 0.1\n    out[i] = x[0]",
        ("float32", "float64"),
    ),
    (
        "a dtype of NumPy's that is no word",
        "",
        "T = np.{}\n@pk.kernel\ndef f(i, out):\n    x = pk.local(1, T)\n    x[0] = 77.0\n    out[i] = x[0]",
        ("float16", "int8"),
    ),
    (
        "a class",
        "class C:\n    N = {}",
        "from config import C\n@pk.kernel\ndef f(i, out): out[i] = C.N",
        ("1", "2"),
    ),
    (
        "the base of a class",
        "class B:\n    N = {}\nclass C(B): pass",
        "from config import C\n@pk.kernel\ndef f(i, out): out[i] = C.N",
        ("1", "2"),
    ),
    (
        "an attribute of a function",
        "def g(): pass\ng.N = {}",
        "from config import g\n@pk.kernel\ndef f(i, out): out[i] = g.N",
        ("1", "2"),
    ),
    (
        "what a class descends from",
        "class C(np.{}): pass",
        "from config import C\n"
        "@pk.kernel\ndef f(i, out):\n    x = pk.local(1, C)\n    x[0] = 0.1\n    out[i] = x[0]",
        ("float32", "float64"),
    ),
    (
        "beside an attribute that raises",
        "class D:\n    def __get__(self, *of): raise OSError\nclass C:\n    shape = D()\n    N = {}",
        "from config import C\n@pk.kernel\ndef f(i, out): out[i] = C.N * (out.shape[0] > 0)",
        ("1", "2"),
    ),
    (
        "which of two functions",
        "def a(): pass\ndef b(): pass\ng = {}",
        "from config import a, g\n@pk.kernel\ndef f(i, out): out[i] = 1 if g is a else 2",
        ("a", "b"),
    ),
    (
        "which of two equal texts",
        "a, b = 'one text', ''.join(['one', ' text'])\ng = {}",
        "from config import a, g\n@pk.kernel\ndef f(i, out): out[i] = 1 if g is a else 2",
        ("a", "b"),
    ),
    (
        "the dtype of a class",
        "class C:\n    dtype = np.dtype('{}')",
        "from config import C\n"
        "@pk.kernel\ndef f(i, out):\n    x = pk.local(1, C)\n    x[0] = 0.1\n    out[i] = x[0]",
        ("float32", "float64"),
    ),
    (
        "the order of fields",
        "import typing\nclass R(typing.NamedTuple):\n    {}: float",
        "from config import R\n@pk.kernel\ndef f(i, out): out[i] = R(1.0, 2.0).left",
        ("left: float\n    right", "right: float\n    left"),
    ),
    (
        "an enumeration",
        "import enum\nclass C(enum.IntEnum):\n    N = {}",
        "from config import C\n@pk.kernel\ndef f(i, out): out[i] = C.N",
        ("1", "2"),
    ),
    (
        "an object's attribute",
        "import types\ng = types.SimpleNamespace(N={})",
        "from config import g\n@pk.kernel\ndef f(i, out): out[i] = g.N",
        ("1", "2"),
    ),
    (
        "what a module makes up",
        "def __getattr__(name):\n    if name == 'N': return {}\n    raise AttributeError(name)",
        "import config\n@pk.kernel\ndef f(i, out): out[i] = config.N",
        ("1", "2"),
    ),
    (
        "a class of a class of its own",
        "class M(type):\n    @property\n    def N(cls): return {}\nclass C(metaclass=M): pass",
        "from config import C\n@pk.kernel\ndef f(i, out): out[i] = C.N",
        ("1", "2"),
    ),
    (
        "a named tuple with a property",
        "import typing\nclass T(typing.NamedTuple):\n    x: object\n"
        "    @property\n    def N(self): return {}\n"
        "g = T('')",
        "from config import g\n@pk.kernel\ndef f(i, out): out[i] = g.N",
        ("1", "2"),
    ),
]
# cases without a fingerprint: they are compiled as before fingerprints were introduced
WITHOUT = {
    "what a class descends from",
    "beside an attribute that raises",
    "an enumeration",
    "an object's attribute",
    "what a module makes up",
    "a class of a class of its own",
    "a named tuple with a property",
}


@pytest.fixture
def built(tmp_path, monkeypatch):
    """Return the names of kernels whose code was emitted, in an empty cache."""
    monkeypatch.setenv("PORTABLE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir(mode=0o700)
    for known in (cache.folder, cache._directory):
        known.cache_clear()
    monkeypatch.setattr(fingerprint, "compiler", lambda: "this compiler")
    names, plain = [], lower.text_of

    def counted(entry, *how):
        names.append(entry.kernel.name)
        return plain(entry, *how)

    monkeypatch.setattr(lower, "text_of", counted)
    yield names
    for name in ("config", "kernels", "inner"):
        sys.modules.pop(name, None)
    for known in (cache.folder, cache._directory):
        known.cache_clear()


def imported(folder, name, text):
    """Import a module as a new process does."""
    path = folder / f"{name}.py"
    path.write_text(text)
    linecache.clearcache()
    module = sys.modules[name] = types.ModuleType(name)
    module.pk, module.np = pk, np
    exec(compile(text, str(path), "exec"), vars(module))
    return module


def launched(folder, config, kernels, value):
    imported(folder, "config", config.replace("{}", value))
    kernel = imported(folder, "kernels", kernels.replace("{}", value)).f
    out, plain = np.zeros(9), np.zeros(9)
    pk.parallel_for(pk.RangePolicy(0, 9, space="serial"), kernel, out)
    for i in range(9):
        kernel(i, plain)
    np.testing.assert_array_equal(out, plain)
    return out.tobytes()


@pytest.mark.parametrize("what, config, kernels, values", CHANGES, ids=[row[0] for row in CHANGES])
def test_what_is_changed_is_compiled(what, config, kernels, values, built, tmp_path):
    results = [launched(tmp_path, config, kernels, value) for value in values]
    assert built == ["f", "f"]
    again = [launched(tmp_path, config, kernels, value) for value in values]
    assert again == results and len(built) == (4 if what in WITHOUT else 2)


REDUCERS = [
    ("combine", "def g(a, b): return a {} b\nR = pk.Reducer('R', g, 0.0)", ("+", "-")),
    ("identity", "def g(a, b): return a + b\nR = pk.Reducer('R', g, {})", ("0.0", "1.0")),
    (
        "identity, a function",
        "def g(a, b): return a + b\nR = pk.Reducer('R', g, lambda dtype: {} if dtype == 'float64' else 0)",
        ("0.0", "1.0"),
    ),
    (
        "finish",
        "def g(a, b): return a + b\ndef h(a): return {} * a\nR = pk.Reducer('R', g, 0.0, finish=h)",
        "12",
    ),
    ("lift", "def g(a, b): return a + b\ndef h(a): return {} * a\nR = pk.Reducer('R', g, 0.0, h)", "12"),
]


@pytest.mark.parametrize("what, config, values", REDUCERS, ids=[row[0] for row in REDUCERS])
def test_what_is_changed_in_a_reducer_is_compiled(what, config, values, built, tmp_path):
    def result(value):
        reducer = imported(tmp_path, "config", config.replace("{}", value)).R
        kernel = imported(tmp_path, "kernels", "@pk.kernel\ndef f(i, x): return x[i]").f
        policy = pk.RangePolicy(0, 5, space="serial")
        return pk.parallel_reduce(policy, kernel, np.arange(5.0), reducer=reducer)

    first = [result(value) for value in values]
    assert first[0] != first[1] and built == ["f", "f"]
    assert [result(value) for value in values] == first and built == ["f", "f"]


def test_what_is_changed_in_a_function_among_the_arguments_is_compiled(built, tmp_path):
    def result(value):
        config = f"@pk.function\ndef f(x): return {value} * x\n@pk.function\ndef g(x): return 5.0 * x"
        functions = imported(tmp_path, "config", config)
        kernel = imported(tmp_path, "kernels", "@pk.kernel\ndef f(i, g, out): out[i] = g(i)").f
        found = []
        for function in (functions.f, functions.g):
            pk.parallel_for(pk.RangePolicy(0, 3, space="serial"), kernel, function, out := np.zeros(3))
            found.append(out[2])
        return found

    for _ in range(2):
        assert [result(value) for value in (2.0, 3.0)] == [[4.0, 10.0], [6.0, 10.0]]
        assert built == ["f"] * 4


def test_arguments_options_and_machines_have_their_own(built, tmp_path, monkeypatch):
    """Change types of arguments, static values, the kind of the policy, reducers, the decorator's options,
    the CPU."""

    def launch(options="", n=9, dtype=np.float64, policy=pk.RangePolicy(0, 4, space="serial")):
        text = f"@pk.kernel{options}\ndef f(i, n, out): out[i, 0] = n * 0.1"
        pk.parallel_for(policy, imported(tmp_path, "kernels", text).f, n, np.zeros((4, 1), dtype))

    rows = [{}, {"options": "(fastmath=True)"}, {"options": "(packed=4)"}, {"n": pk.static(9)}]
    rows += [{"n": pk.static(9.0)}, {"dtype": np.float32}]
    for number, row in enumerate(rows):
        launch(**row)
        assert len(built) == number + 1
    monkeypatch.setattr(fingerprint, "compiler", lambda: "that compiler")
    launch()
    assert len(built) == len(rows) + 1


def test_results_of_reductions_are_read_as_they_were(built, tmp_path):
    """The facts about the code are the same if it comes from the disk."""
    texts = {
        "one": ("return x[i]", pk.Sum),
        "two": ("return x[i], x[i]", (pk.Sum, pk.Max)),
        "place": ("return x[i]", pk.MaxLoc),
        "complex": ("return complex(x[i], 1.0)", pk.Sum),
        "scaled": ("return x[i]", pk.LogSumExp),
    }
    for body, reducer in texts.values():
        found = []
        for _ in range(2):
            kernel = imported(tmp_path, "kernels", f"@pk.kernel\ndef f(i, x): {body}").f
            policy = pk.RangePolicy(0, 9, space="serial")
            found.append(pk.parallel_reduce(policy, kernel, np.arange(9.0), reducer=reducer))
        assert found[0] == found[1] and type(found[0]) is type(found[1])
    assert len(built) == len(texts)


def test_scratch_copies_and_loops_are_known_from_the_disk(built, tmp_path):
    text = """
    @pk.kernel
    def f(team, x, counts):
        own = team.scratch(8, pk.float64)
        for j in team.thread_range(8):
            own[j] = x[j]
        team.barrier()
        for j in team.thread_range(8):
            pk.atomic_add(counts, j, own[7 - j])
    """
    found = []
    for _ in range(2):
        kernel, x, counts = (
            imported(tmp_path, "kernels", textwrap.dedent(text)).f,
            np.arange(8.0),
            np.zeros(8),
        )
        pk.parallel_for(pk.TeamPolicy(3, space="threads:2"), kernel, x, pk.ScatterView(counts))
        found.append(counts.tolist())
    assert found == [(3 * np.arange(8.0)[::-1]).tolist()] * 2 and len(set(built)) == 1
    assert built.count("f") <= 2  # with copies, and without


def test_a_change_while_it_is_compiled_leaves_nothing(built, tmp_path, monkeypatch):
    plain = Entry.__init__

    def slow(self, *args):
        plain(self, *args)
        sys.modules["config"].N = 2

    monkeypatch.setattr(Entry, "__init__", slow)
    change = "N = {}", "import config\n@pk.kernel\ndef f(i, out): out[i] = config.N"
    imported(tmp_path, "config", change[0].replace("{}", "1"))
    pk.parallel_for(
        pk.RangePolicy(0, 9, space="serial"), imported(tmp_path, "kernels", change[1]).f, np.zeros(9)
    )
    assert not [p for p in (tmp_path / "cache/kernels").iterdir() if p.stat().st_size < 1000]


def test_a_compiler_that_may_have_changed_has_none(monkeypatch):
    fingerprint.compiler.cache_clear()
    now = fingerprint.compiler()
    file = os.path.realpath(fingerprint.__file__)
    settled = os.stat(file).st_ctime + 2 * fingerprint._COARSEST_SECONDS
    try:
        for began, known in ((settled + 1e6, True), (os.stat(file).st_ctime + 1.0, False)):
            fingerprint.compiler.cache_clear()
            monkeypatch.setattr(frontend, "BEGAN", began)
            assert (fingerprint.compiler() is not None) == known
        plain = os.scandir
        monkeypatch.setattr(frontend, "BEGAN", settled + 1e6)
        fingerprint.compiler.cache_clear()
        before = fingerprint.compiler()
        fingerprint.compiler.cache_clear()
        monkeypatch.setattr(os, "scandir", lambda path: [e for e in plain(path) if e.name != "tree.py"])
        assert fingerprint.compiler() != before
    finally:
        fingerprint.compiler.cache_clear()
    assert now is None or now == before
