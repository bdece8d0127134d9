"""Run the ten kernels of docs/examples on every space, and compare them with plain Python and NumPy."""

import ast
import functools
import importlib.util
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

import portable as pk

from ..launching import launch_for, launch_reduce
from ..tolerance import assert_close

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
# name of the file: the kernel in it, and the number of terms in a result of size n
LOOPS = {
    "axpy": ("axpy", 1),
    "stencil": ("jacobi", 4),
    "histogram": ("histogram", 1),
    "spmv": ("spmv", 40),
    "nbody": ("attract", "n"),
    "mandelbrot": ("mandelbrot", 1),
    "matmul": ("matmul", 24),
}
REDUCTIONS = {"dot": ("dot", "n"), "conditional_sum": ("root_above", "n"), "pi": ("inside", 1)}
KERNELS = LOOPS | REDUCTIONS
SIZES = [0, 1, 7, 8, 9, 15, 16, 17, 45]  # sizes around the packs of 8 and 16 lanes
DTYPES = [np.float32, np.float64]


@functools.cache
def example(name):
    """Load an example as a module; it can import its neighbours as if it were run."""
    if str(EXAMPLES) not in sys.path:
        sys.path.append(str(EXAMPLES))
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def launch(space, name, n, dtype, packed=True):
    """Return the example's result on a space, and its NumPy result: the last array, or the sum."""
    kernel = getattr(example(name), KERNELS[name][0])
    kernel = kernel if packed is True else pk.kernel(kernel.fn, packed=packed)
    policy, args, expected = example(name).make(n, dtype, np.random.default_rng(n))
    if name in REDUCTIONS:
        return launch_reduce(policy, kernel, *args, space=space), expected
    arrays = launch_for(policy, kernel, *args, space=space)
    return (arrays[-1] if isinstance(arrays, tuple) else arrays), expected


def check(name, n, dtype, got, wanted):
    terms = KERNELS[name][1]
    scale = np.abs(wanted).max(initial=0.0) if name == "nbody" else 0.0  # forces from all sides cancel
    assert_close(got, wanted, dtype, n if terms == "n" else terms, scale)


@functools.cache
def meaning(name, n, dtype):
    return launch("checked", name, n, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", KERNELS)
def test_the_ten_kernels(space, name, dtype):
    for n in SIZES:
        got, expected = meaning(name, n, dtype) if space == "checked" else launch(space, name, n, dtype)
        check(name, n, dtype, got, expected)
        check(name, n, dtype, got, meaning(name, n, dtype)[0])


@pytest.mark.parametrize(
    "packed, dtype",
    [
        (False, np.float32),
        (False, np.float64),
        (2, np.float64),
        (4, np.float32),
        (8, np.float64),
        (16, np.float32),
    ],
)
@pytest.mark.parametrize("name", KERNELS)
def test_the_ten_kernels_by_lanes(name, dtype, packed):
    """Compiled without packs, as on a GPU, the source keeps its branches; and in packs of any width."""
    for n in (9, 45):
        check(name, n, dtype, *launch("serial", name, n, dtype, packed=packed))


@pytest.mark.parametrize("name", KERNELS)
def test_an_example_checks_itself(name, monkeypatch, told):
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setattr(sys, "argv", [f"{name}.py", "serial"])
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert "serial" in told.out


def test_pi_draws_the_published_numbers():
    """SplitMix64 with seed 0 begins with these numbers (the reference C code of Vigna, splitmix64.c)."""
    first = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    drawn = [float(example("pi").uniform(k)) for k in (1, 2, 3)]
    assert drawn == [(z >> 40) * 2.0**-24 for z in first]


@pytest.mark.parametrize("name", KERNELS)
def test_an_example_is_short(name):
    """Under 40 lines of code; blank lines and docstrings are not code."""
    text = (EXAMPLES / f"{name}.py").read_text()
    docs = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        for line in range(node.lineno, node.end_lineno + 1)
    }
    code = [line for number, line in enumerate(text.splitlines(), 1) if line.strip() and number not in docs]
    assert len(code) < 40
