"""Random kernels from a small grammar: plain Python and compiled lanes agree to the last bit.

Every assignment is rounded to eighths and held in [-4, 4], and an expression has at most four factors. So each value is
exact in float32 too: no rounding can tell the spaces apart, and what differs is a bug in masks, loops or variables.
"""

import importlib.util
import itertools

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import portable as pk

from ..launching import launch_for, launch_reduce

N = 21
HEADER = """import math
import portable as pk

@pk.function
def q(t):
    return math.floor(pk.clip(t, -4.0, 4.0) * 8.0) / 8.0

@pk.function
def bend(t, s):
    if t < s:
        return s
    for r in range(3):
        if t > 2.0:
            return t - 2.0
        t = q(t + 0.75)
    return t

@pk.function
def search(x, start, limit):
    found = 0.5
    for j in range(start, start + 6):
        if x[j] < 0.0:
            continue
        if x[j] > limit:
            return x[j], j
        found = x[j]
    return found, -1

TAPS = (1, 2)

@pk.kernel
def kernel(i, x, k, out):
    a, b, c = x[i], 0.5, 1.0
    m, n = k[i], 0
"""
FLOATS, INTS = ("a", "b", "c"), ("m", "n")
fresh = itertools.count()

leaves = st.sampled_from(FLOATS + ("x[i]", "x[k[i]]", "x[(i + 3) % 21]", "x[(k[i] + m) % 21]", "1.5", "-0.25", "2"))
whole = st.sampled_from(INTS + ("i", "k[i]", "3", "7"))


@st.composite
def numbers(draw):
    """A float expression of at most four leaves."""
    one, two, three, four = (draw(leaves) for _ in range(4))
    shape = draw(
        st.sampled_from(
            [
                "{0} + {1}",
                "{0} - {1} * {2}",
                "{0} * {1}",
                "min({0}, {1}) - {2}",
                "max({0}, {1}, {2})",
                "abs({0}) * {1}",
                "-{0}",
                "({0} if {c} else {1})",
                "({0} * {1} if {c} else {2} - {3})",
                "q({0} * {1})",
                "bend({0}, {1})",
                "pk.where({c}, {0}, {1})",
                "{0} + {n}",
                "{0} * ({n} % 3)",
            ]
        )
    )
    return shape.format(one, two, three, four, c=draw(conditions()), n=draw(whole))


@st.composite
def conditions(draw):
    one, two = draw(leaves), draw(leaves)
    shape = draw(
        st.sampled_from(
            [
                "{0} < {1}",
                "{0} >= {1}",
                "{0} > {1} and {n} % 2 == 0",
                "{0} > 0.5 or {n} > {o}",
                "not {0} < {1}",
                "-1 < {0} <= 1.5",
                "{n} == {o}",
                "{n} % 3 != 1",
                "{n} > 2 and x[k[i]] > {0}",
                "i > 4 and x[i - 4] < {0}",
            ]
        )
    )
    return shape.format(one, two, n=draw(whole), o=draw(whole))


@st.composite
def statements(draw, depth, in_loop):
    """A list of lines."""
    kinds = ["float", "float", "int", "store"] + (["if", "if", "for", "while"] if depth else [])
    kinds += ["return", "helper"] + (["leave", "leave"] if in_loop else [])
    kind = draw(st.sampled_from(kinds))
    if kind == "float":
        return [f"{draw(st.sampled_from(FLOATS))} = q({draw(numbers())})"]
    if kind == "int":
        return [
            f"{draw(st.sampled_from(INTS))} = ({draw(whole)} + {draw(whole)}) {draw(st.sampled_from(['% 5', '// 2 % 6', '& 7']))}"
        ]
    if kind == "store":
        return [f"out[i] = q({draw(numbers())})"]
    if kind == "return":
        return [f"if {draw(conditions())}:", f"    out[i] = q({draw(numbers())})", "    return RESULT"]
    if kind == "helper":
        return [
            f"{draw(st.sampled_from(FLOATS))}, {draw(st.sampled_from(INTS))} = search(x, {draw(whole)} % 5, {draw(leaves)})"
        ]
    if kind == "leave":
        return [f"if {draw(conditions())}:", f"    {draw(st.sampled_from(['break', 'continue']))}"]
    block = ["    " + line for line in draw(blocks(depth - 1, in_loop or kind != "if"))]
    if kind == "if":
        other = ["else:"] + ["    " + line for line in draw(blocks(depth - 1, in_loop))] if draw(st.booleans()) else []
        return [f"if {draw(conditions())}:"] + block + other
    name = f"j{next(fresh)}"
    if kind == "for" and draw(st.booleans()):
        return [
            f"for {name} in {draw(st.sampled_from(['(0.5, -1.0, 2.0)', 'TAPS', 'range(pk.static(2))']))}:",
            f"    c = q(c - {name})",
        ] + block
    if kind == "for":
        bounds = draw(st.sampled_from(["3", "k[i] % 4", "m, m + 3", "n % 3, 5", "4, 0, -1", "i % 3"]))
        return [f"for {name} in range({bounds}):", f"    b = q(b + 0.25 * {name})"] + block
    return [f"{name} = 0", f"while {name} < 4 and ({draw(conditions())}):", f"    {name} += 1"] + block


@st.composite
def blocks(draw, depth, in_loop):
    return list(itertools.chain.from_iterable(draw(st.lists(statements(depth, in_loop), min_size=1, max_size=3))))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("kernels")


def load_text(folder, text):
    """The kernel of a text, from a file of its own, so that its source can be read."""
    path = folder / f"random_kernel_{next(fresh)}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.kernel, text


def load(folder, lines, result):
    """The kernel with this body."""
    body = [*lines, "out[i] = q(out[i] + a + b * c + m - n)", "return RESULT"]
    text = HEADER + "".join(f"    {line}\n" for line in body).replace("return RESULT", f"return {result}".rstrip())
    return load_text(folder, text)


@settings(
    max_examples=30,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],
)  # a failure shows its text; shrinking would compile for minutes
@given(
    lines=blocks(depth=3, in_loop=False),
    dtype=st.sampled_from([np.float32, np.float64]),
    seed=st.integers(0, 2**32 - 1),
    reduces=st.booleans(),
)
def test_random_kernels(space, folder, lines, dtype, seed, reduces):
    if space == "checked":
        pytest.skip("the checked space is the reference here")
    kernel, text = load(folder, lines, "q(a - b)" if reduces else "")
    rng = np.random.default_rng(seed)
    whole_dtype = np.int32 if dtype is np.float32 else np.int64  # packs of 16 lanes, and of 8
    args = (rng.integers(-16, 17, N) / 8).astype(dtype), rng.integers(0, N, N).astype(whole_dtype), np.zeros(N, dtype)
    scalar = [pk.kernel(kernel.fn, packed=False)] if space == "serial" else []
    for compiled in [kernel, *scalar]:
        if reduces:
            assert launch_reduce(space, N, compiled, *args) == launch_reduce("checked", N, kernel, *args), text
        else:
            got, wanted = launch_for(space, N, compiled, *args)[2], launch_for("checked", N, kernel, *args)[2]
            np.testing.assert_array_equal(got, wanted, err_msg=text)
