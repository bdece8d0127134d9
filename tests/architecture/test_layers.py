"""The rules of the house, read from the imports: who may know whom."""

import ast
import functools
from pathlib import Path

import pytest

import portable

ROOT = Path(__file__).parents[2]
SOURCES = sorted(
    p.relative_to(ROOT) for top in ("portable", "models", "roofline") for p in (ROOT / top).rglob("*.py")
)
COMPILERS = {"llvmlite"}
PEERS = {"numba", "cupy", "warp", "jax", "torch", "cuda", "numba_cuda", "sklearn"}


def tree(path):
    return ast.parse((ROOT / path).read_text())


def breaches(found, paths=SOURCES):
    """What a function of a file finds, file by file where it finds something."""
    return {str(path): wrong for path in paths if (wrong := found(path))}


def imports(path):
    return facts(path)[0]


def size(path):
    return facts(path)[1]


@functools.cache
def facts(path):
    """Pairs of line and absolute module name, for every import anywhere in a file; `from a import b` gives a
    and a.b. And the number of nodes of its syntax tree."""
    package, found, size = list(path.parent.parts), [], 0
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
    """A function of a file: its imports from some packages."""
    return lambda path: [pair for pair in imports(path) if pair[1].split(".")[0] in packages]


def test_only_the_compiler_and_the_backends_know_llvm():
    others = outside(*(("portable", folder) for folder in ("compiler", "backends", "numba")))
    assert breaches(of(COMPILERS), others) == {}


def test_peers_are_only_for_comparison():
    """But numba, with which the layer works together: portable/numba/ alone imports it, when it is asked
    for."""
    others = outside(("roofline", "peers"), ("roofline", "cases"), ("portable", "numba"))
    assert breaches(of(PEERS), others) == {}


def relatives(path, *family):
    """The imports of a member of a family (a folder of folders) that reach one of its siblings."""
    own = path.parts[len(family)].removesuffix(".py")
    siblings = {
        p.parts[len(family)] for p in SOURCES if within(p, *family) and len(p.parts) > len(family) + 1
    } - {own}
    return [
        (line, name)
        for line, name in imports(path)
        if name.split(".")[: len(family)] == list(family)
        and name.split(".")[len(family) : len(family) + 1]
        and name.split(".")[len(family)] in siblings
    ]


def test_backends_do_not_know_each_other():
    files = [p for p in SOURCES if len(p.parts) > 3 and within(p, "portable", "backends")]
    assert breaches(lambda path: relatives(path, "portable", "backends"), files) == {}


def test_models_do_not_know_each_other():
    files = [p for p in SOURCES if len(p.parts) > 2 and within(p, "models")]
    assert breaches(lambda path: relatives(path, "models"), files) == {}


def test_the_layer_knows_nothing_above_it():
    assert breaches(of(("models", "roofline", "tests")), [p for p in SOURCES if within(p, "portable")]) == {}


def test_models_and_roofline_use_public_names_only():
    """They import portable itself, or its errors; `pk.name` is a name of portable.__all__."""
    assert breaches(not_public, [p for p in SOURCES if p.parts[0] != "portable"]) == {}


def not_public(path):
    """What a file names of portable that is not public."""
    text = tree(path)
    inner = [
        (line, name)
        for line, name in imports(path)
        if name.startswith("portable.") and name.split(".")[1] not in portable.__all__
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
        and node.attr not in (*portable.__all__, "__version__")
    ]
    return inner + private


def test_every_public_name_exists():
    assert [name for name in portable.__all__ if not hasattr(portable, name)] == []


SPACES = {"serial", "threads", "cuda", "checked", "cpu"}


def test_nothing_depends_on_which_space_it_is():
    """What differs between machines, their backends say; a space's name, alone or in a table, decides nothing
    elsewhere."""
    files = [p for p in SOURCES if within(p, "portable") and not within(p, "portable", "backends")]
    assert breaches(decided_by_a_space, files) == {}


def decided_by_a_space(path):
    """The names of spaces that a file compares with, or has in a table."""

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


GROWTH = (  # nodes of the layer's syntax trees: where, and why
    (108_920, "the layer at commit d29c9e6"),
    (
        9_820,
        (
            "one meaning for every operation: edges of operators and conversions, collectives behind loops,"
            " locks, a cache that trusts nobody"
        ),
    ),
    (260, "a wave of samples that two streams share, and words for infinities and the builtin pow"),
    (
        8_990,
        (
            "one typed tree: nodes, their types, keys and print stand beside the code that is emitted, where"
            " one walk did all at once; functions of at most 300 nodes"
        ),
    ),
    (1_510, "a typed contract of backends, and pk.register"),
    (3_020, "ragged rows, searchsorted, unique, bincount, falling sorts and sorts of several keys"),
    (900, "scans of states of several numbers, reductions in the order of indices"),
    (230, "records as arguments; the checked space, which runs the typed tree, is smaller"),
    (
        14_200,
        (
            "numba as a neighbour: its functions in kernels, ours and launches in its code, its threads,"
            " policies there, and PTX as assembly"
        ),
    ),
    (
        7_090,
        (
            "words: atan2 to gammainc as kernel text, tan within one unit, default and keyword arguments of"
            " functions, print in checked"
        ),
    ),
    (420, "arrays of 8 and 16 bits"),
    (20, "small pieces of freed memory are not added up each time"),
    (
        1_900,
        "steps known at run time, enumerate, zip, loops over views, names that hold one of several views",
    ),
    (
        1_300,
        (
            "tables: tuples and arrays from outside that are indexed by variables; breakpoint in the checked"
            " space"
        ),
    ),
    (820, "gamma, beta and weighted random numbers, permutations, host forms that take arrays"),
    (
        3_300,
        (
            "launches that are safe wherever Python runs: Ctrl-C, the state of arithmetic, locks, limits of"
            " memory"
        ),
    ),
    (4_600, "the debug build: its emitter, its faults, its memory on two machines"),
    (200, "scratch_bytes, the size of run-time scratch"),
    (900, "light loops in strips between looks at Ctrl-C's flag; loops of a debug build that a fault ends"),
    (3_300, "annotations of the public names, and the types that they speak of"),
    (210, "copies that listeners hear of, for the time line of a profile; views in notebooks"),
    (3_760, "complex numbers as records of two floats, names that hold tuples again and again"),
    (640, "bfloat16 arrays"),
    (1_170, "boxes of four dimensions; slices whose bounds differ between indices"),
    (30, "empty arrays of other libraries under NumPy before 2.4"),
    (
        3_460,
        (
            "sorts of GPUs with one pass a digit, which wait for nothing; team.tally; rows of tiles sought by"
            " whole teams, and read from scratch where they are short"
        ),
    ),
    (240, "counting asks LLVM what an instruction does, where it read printed lines by regular expressions"),
    (1_210, "words in one bank: accesses to scratch that a counting build samples; refusals of LLVM"),
    (2_350, "bytes by memory level: accesses that the counting build samples, and what caches keep of them"),
    (160, "captures that repeat what they recorded, prepared once"),
    (40, "a fork waits for other threads' calls of LLVM"),
    (30, "launches know NumPy's numbers by their types at once"),
    (130, "pieces of copies from a device are large, and a thread takes a share of new memory's pages"),
    (
        165,
        "copies into the host's views ask few questions; plans run as launches do where these are looked at",
    ),
    (290, "a process that finds its code imports none of what emits it; nodes of the tree are quick to make"),
    (60, "kernels in packs of as many lanes as asked for"),
    (385, "a launch on a GPU's default stream is one call of the driver"),
    (255, "copies of arrays that are like the view make no view of them"),
    (
        4_130,
        (
            "scans of a GPU that read their input once, in a fixed order; ragged rows cut by values and ends"
            " of rows, whose offsets are looked at while they are combined"
        ),
    ),
    (300, "large memory of the host, which is kept for the next array of its size"),
    (
        1_480,
        (
            "a policy that comes again finds its launch ready; launches of teams on a GPU are one call of the"
            " driver; pinned pieces are filled past the caches"
        ),
    ),
    (
        3_800,
        (
            "the debug build where a kernel goes on: accesses elsewhere by a select, looks told of at the end"
            " of a block, loops without those that their ends tell of; LLVM's pass managers, freed"
        ),
    ),
    (
        540,
        (
            "a debug build's plans known in each block that asks for it, the first of a block's looks told by"
            " one call; CPU plans by calls of one argument; LLVM's builders made anew"
        ),
    ),
    (
        2_150,
        (
            "a fingerprint of texts and names, under which a launch finds what it has to know, so that it"
            " builds no tree"
        ),
    ),
    (1_310, "ragged rows that are long on average, of which a GPU's teams take one each"),
    (600, "launches of teams, and reductions ahead, that are made ready once; memory without a finalizer"),
    (
        1_050,
        (
            "scans of a CPU that go from element to element, blocks side by side, in windows that stay in a"
            " cache"
        ),
    ),
    (443, "copies between GPUs that nobody waits for; spaces that follow each other, or queue launches"),
    (118, "pk.exp_nonpositive, exp without what numbers above zero and subnormal results need"),
    (
        849,
        (
            "scans of a GPU that tell its cache what is read again, and have fewer barriers; prefixes of rows"
            " that are queued before the answer"
        ),
    ),
    (3_218, "debug builds of a CPU that look for NaN once in a stretch of a text, and copy ScatterViews"),
    (335, "copies between GPUs by kernels that read over their link"),
    (143, "views have keys, by which a launch knows that it comes again"),
    (69, "constant packs written once, facts of a text kept"),
    (171, "copies back of some MiB by a kernel that stamps its pieces, into memory of the host that is kept"),
    (34, "sums of long rows that read further ahead"),
    (29, "threads that stay awake where launches follow each other soon"),
    (188, "less text for LLVM: reductions of long texts have it once, loops of known ends no empty parts"),
    (28, "counts of functions that return two numbers"),
    (172, "constants known again, rounds of a sort by one policy, captures of one stream by one call each"),
    (
        1_107,
        (
            "counts of launches by many cores, which share what they read and write what is new; elements"
            " side by side at once; a counter a block; what is looked at again, kept"
        ),
    ),
    (450, "masked accesses lane by lane without branches, where a CPU has no instruction for them"),
    (26, "code that threads ask for side by side is made once"),
    (12, "compile-time constants that pickle"),
    (
        510,
        (
            "loops and packs of a CPU's debug build without the looks that their ends tell of; words for a"
            " fault in each launch"
        ),
    ),
    (
        960,
        "rows that the first teams of their sums look at, and the host reads what they see; cheap new views",
    ),
    (21, "a plan that tells whether its call launches what was prepared, for whoever keeps plans"),
    (
        190,
        "a CPU's tiles of keys that add up what those before them have; its sorts of floats wait for nothing",
    ),
    (26, "counts of kernels without packs by a warp of members, and of loads that stand before a loop"),
    (
        369,
        (
            "threads that take fewer chunks the fewer are left, and enter without a line that all write; the"
            " least and the largest without an atomic step where nothing changes; teams that come again"
        ),
    ),
    (
        834,
        (
            "code of a CPU that is made when a launch wants it: packs alone or any range, Ctrl-C's; strips of"
            " a launch; divisions of packs"
        ),
    ),
    (1_454, "instructions that are text when they are made: a kernel is emitted in half of the time"),
)


def test_the_layer_stays_small():
    """All of portable/ but the tables of coefficients, whole. What needs more says here how much, and why.

    In nodes of the syntax tree, which neither the width of lines nor comments change.
    """
    counted = [p for p in SOURCES if within(p, "portable") and p.name != "elementary_tables.py"]
    nodes = {str(p): size(p) for p in counted}
    assert sum(nodes.values()) <= sum(n for n, _ in GROWTH), nodes


def test_files_stay_short():
    """Near 1,500 nodes of the syntax tree, and never so many that a file has more than one purpose; but for
    the elementary functions, one after the other, each with its coefficients."""
    files = [p for p in SOURCES if not p.name.startswith("elementary")]
    assert breaches(lambda path: max(size(path) - 5_400, 0), files) == {}


def test_functions_stay_short():
    """At most 300 nodes each, and no class says twice what a method does."""
    for path in (p for p in SOURCES if within(p, "portable")):
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.FunctionDef):
                assert sum(1 for _ in ast.walk(node)) <= 300, f"{path}:{node.lineno} {node.name}"
            if isinstance(node, ast.ClassDef):
                plain = [m.name for m in node.body if isinstance(m, ast.FunctionDef) and not m.decorator_list]
                assert len(plain) == len(set(plain)), f"{path}:{node.lineno} {node.name}"


@pytest.mark.parametrize("folder", ["portable", "models", "roofline", "tests", "docs"])
def test_lines_stay_narrow(folder):
    """Code, docstrings, comments and messages alike; `ruff format` holds only some of them."""
    wide = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in (ROOT / folder).rglob("*.py")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > 110
    ]
    assert not wide
