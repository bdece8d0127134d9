"""Check the project's rules of imports and sizes by parsing each file: which package may import which."""

import ast
import functools
from pathlib import Path

import pytest

import portable

ROOT = Path(__file__).parents[2]
SOURCES = sorted(
    p.relative_to(ROOT) for top in ("portable", "models", "roofline") for p in (ROOT / top).rglob("*.py")
)
TOP = dict.fromkeys(("models", "roofline"), ["portable"])  # in front of these folders' names
COMPILERS = {"llvmlite"}
PEERS = {"numba", "cupy", "warp", "jax", "torch", "cuda", "numba_cuda", "sklearn"}


@functools.cache
def tree(path):
    return ast.parse((ROOT / path).read_text())


@pytest.fixture(scope="module", autouse=True)
def trees():
    """Free the trees, which take 170 MB, behind the last test."""
    yield
    tree.cache_clear()


def breaches(found, paths=SOURCES):
    """Return the findings of the function `found` for each file that has any."""
    return {str(path): wrong for path in paths if (wrong := found(path))}


def imports(path):
    return facts(path)[0]


def size(path):
    return facts(path)[1]


@functools.cache
def facts(path):
    """Return pairs of line and absolute module name for every import anywhere in a file (`from a import b`
    gives a and a.b), and the number of nodes of the file's syntax tree."""
    package, found, size = [*TOP.get(path.parts[0], []), *path.parent.parts], [], 0
    for size, node in enumerate(ast.walk(tree(path)), 1):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join(above + ([node.module] if node.module else []))
            found += [(node.lineno, base), *((node.lineno, f"{base}.{alias.name}") for alias in node.names)]
    return found, size


def within(path, *folder):
    return path.parts[: len(folder)] == folder


def outside(*folders):
    return [p for p in SOURCES if not any(within(p, *folder) for folder in folders)]


def of(packages):
    """Return a function of a file that lists its imports from `packages`."""
    return lambda path: [pair for pair in imports(path) if pair[1].split(".")[0] in packages]


def test_only_the_compiler_and_the_backends_know_llvm():
    others = outside(
        ("portable", "core", "compiler"),
        ("portable", "core", "machines"),
        ("portable", "watch"),
        ("portable", "numba"),
    )
    assert breaches(of(COMPILERS), others) == {}


def test_peers_are_only_for_comparison():
    """Peers are imported for comparison only, except numba: portable/numba/ works together with it and
    imports it only on request."""
    others = outside(("roofline", "peers"), ("roofline", "cases"), ("portable", "numba"))
    assert breaches(of(PEERS), others) == {}


def relatives(path, *family):
    """Return the imports of a member of a family (a folder of folders) that reach one of its siblings."""
    own = path.parts[len(family)].removesuffix(".py")
    siblings = {
        p.parts[len(family)] for p in SOURCES if within(p, *family) and len(p.parts) > len(family) + 1
    } - {own, "shared"}
    family = (*TOP.get(family[0], []), *family)
    return [
        (line, name)
        for line, name in imports(path)
        if name.split(".")[: len(family)] == list(family)
        and name.split(".")[len(family) : len(family) + 1]
        and name.split(".")[len(family)] in siblings
    ]


def test_backends_do_not_know_each_other():
    family = "portable", "core", "machines"
    files = [p for p in SOURCES if len(p.parts) > 4 and within(p, *family)]
    assert breaches(lambda path: relatives(path, *family), files) == {}


def test_models_do_not_know_each_other():
    """Models may import shared/, which imports no model."""
    files = [p for p in SOURCES if len(p.parts) > 2 and within(p, "models")]
    assert breaches(lambda path: relatives(path, "models"), files) == {}


@pytest.mark.parametrize("package", ["portable", "models", "roofline"])
def test_no_circle_of_imports(package):
    """Check for circles of imports; deferred imports and those for type checkers count, too."""
    own = {module(p): p for p in SOURCES if within(p, package)}
    left = {name: {other for _, other in imported(p) if other in own} - {name} for name, p in own.items()}
    while ends := [name for name, others in left.items() if not others & left.keys()]:
        for name in ends:
            del left[name]
    assert left == {}, "each of these imports another one of them"


@functools.cache
def module(path):
    """Return the name by which a file is imported."""
    parts = *TOP.get(path.parts[0], []), *path.with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


@functools.cache
def imported(path):
    """Return pairs of line and module for every import of a file; `from a import b` is a.b where that is a
    module.
    """
    names = set(map(module, SOURCES))
    found = imports(path)
    exact = {(line, name.rpartition(".")[0]) for line, name in found if name in names}
    return [(line, name) for line, name in found if name in names and (line, name) not in exact]


def test_the_layer_knows_nothing_above_it():
    def above(path):
        names = "portable.models", "portable.roofline", "tests"
        return [pair for pair in imports(path) if pair[1].startswith(names)]

    assert breaches(above, [p for p in SOURCES if within(p, "portable")]) == {}


def test_models_and_roofline_use_public_names_only():
    """Models and roofline import portable itself or its errors; `pk.name` must be in portable.__all__."""
    assert breaches(not_public, [p for p in SOURCES if p.parts[0] != "portable"]) == {}


def not_public(path):
    """Return the names of portable in a file that are not public."""
    text = tree(path)
    inner = [
        (line, name)
        for line, name in imports(path)
        if name.startswith("portable.") and name.split(".")[1] not in (*portable.__all__, *TOP)
    ]
    aliases = {
        alias.asname or alias.name
        for node in ast.walk(text)
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name == "portable"
    }
    private = [
        (node.lineno, node.attr)
        for node in ast.walk(text)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id in aliases
        and node.attr not in (*portable.__all__, "__version__", *TOP)
    ]
    return inner + private


def test_every_public_name_exists():
    assert [name for name in portable.__all__ if not hasattr(portable, name)] == []


SPACES = {"serial", "threads", "cuda", "checked", "cpu"}


def test_nothing_depends_on_which_space_it_is():
    """Backends define the differences between machines; elsewhere no decision depends on the name of a space,
    neither in a comparison nor in a table."""
    told = ("core", "machines"), ("core", "registry.py"), ("watch", "checked"), ("watch", "counts")
    told = [("portable", *folder) for folder in told]
    files = [p for p in outside(*told) if within(p, "portable")]
    assert breaches(decided_by_a_space, files) == {}


def decided_by_a_space(path):
    """Return the names of spaces that a file compares with, or has in a table."""

    def names(nodes):
        return [
            n.value for n in nodes if isinstance(n, ast.Constant) and str(n.value).partition(":")[0] in SPACES
        ]

    compared, tables = [], []
    for node in ast.walk(tree(path)):
        if isinstance(node, (ast.Compare, ast.MatchValue)):
            compared += [(node.lineno, name) for name in names(ast.walk(node))]
        held = names(getattr(node, "keys" if isinstance(node, ast.Dict) else "elts", ()))
        tables += [held] if len(held) > 1 else []
    return compared + tables


def test_files_stay_short():
    """Limit files to 5,400 nodes of the syntax tree, so that each has one purpose; most have about 1,500. The
    elementary functions, which follow each other with their coefficients, are exempt."""
    files = [p for p in SOURCES if not p.name.startswith("elementary")]
    assert breaches(lambda path: max(size(path) - 5_400, 0), files) == {}


# number of functions of a package that still have more than 300 nodes; it may only fall
LONG = """
models/edm 41
models/hawkes 53
models/mixture 30
models/mixture/cytometry 10
models/resampling 38
models/shared 0
models/tmap 27
roofline 30
roofline/cases 18
roofline/peers 20
roofline/scoreboard 2
roofline/truth 1
""".split()
LONG = dict(zip(LONG[::2], map(int, LONG[1::2])))


def test_functions_stay_short():
    """Limit functions to 300 nodes each, except as many of a room as LONG lists; no class defines the same
    method twice."""
    found = dict.fromkeys(LONG, 0)
    for path in SOURCES:
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.FunctionDef) and sum(1 for _ in ast.walk(node)) > 300:
                room = path.parent.as_posix()
                assert room in LONG, f"{path}:{node.lineno} {node.name}"
                found[room] += 1
            if isinstance(node, ast.ClassDef):
                plain = [m.name for m in node.body if isinstance(m, ast.FunctionDef) and not m.decorator_list]
                assert len(plain) == len(set(plain)), f"{path}:{node.lineno} {node.name}"
    off = {room: n for room, n in found.items() if not LONG[room] - 4 < n <= LONG[room]}
    assert not off, "split what is longer; where there are fewer, lower LONG"


@pytest.mark.parametrize("room", ["portable/core/compiler/reading"])
def test_a_compiler_is_made_of_parts(room):
    """No class has more than 60 methods or a base of a base, and every attribute that is called is named in
    the source.
    """
    classes = {}
    for path in sorted((ROOT / room).glob("*.py")):
        found = [node for node in ast.walk(tree(path)) if isinstance(node, ast.ClassDef)]
        classes |= {c.name: c for c in found}
        called = [node for node in ast.walk(tree(path)) if isinstance(node, ast.Call)]
        computed = [
            f"{path.name}:{node.lineno}"
            for node in called
            if getattr(node.func, "id", "") in ("getattr", "setattr", "hasattr")
            and isinstance(node.args[1], (ast.JoinedStr, ast.BinOp))
        ]
        assert not computed
    methods = {
        name: {m.name for m in c.body if isinstance(m, ast.FunctionDef)} for name, c in classes.items()
    }
    for name, c in classes.items():
        bases = [base for base in map(ast.unparse, c.bases) if base in classes]
        assert not any(b for base in bases for b in map(ast.unparse, classes[base].bases) if b in classes)
        assert len(methods[name].union(*map(methods.get, bases))) <= 60 and "__getattr__" not in methods[name]


@pytest.mark.parametrize("folder", "portable models roofline tests docs".split())
def test_lines_stay_narrow(folder):
    """Limit the width of code, docstrings, comments and messages; `ruff format` wraps only some of them."""
    wide = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in (ROOT / folder).rglob("*.py")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > 110
    ]
    assert not wide
