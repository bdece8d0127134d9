"""Test numba-cuda with the space "cuda": functions in both directions, arrays and streams without copies.

The tests require a GPU, numba-cuda, NumPy below 2.5: `PORTABLE_TEST_SPACES=cuda python -m pytest
tests/numba`.
"""

import importlib.util
import math
import types

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import portable as pk
from portable.core.machines.cuda import engine
from portable.numba import assembly

from ..conftest import ASKED

pytestmark = pytest.mark.filterwarnings("ignore:.*Grid size")  # numba-cuda's advice on small launches
N = 10_007
X = np.random.default_rng(8).random(N) * 4 - 2


@pytest.fixture(scope="module")
def cuda():
    """Return numba-cuda, if there is a GPU; a test that requires it and finds none fails."""
    missing = pk.unavailable_because("cuda")
    if missing is None and importlib.util.find_spec("numba_cuda") is None:
        missing = "numba-cuda is not installed"
    if missing is not None:
        (pytest.fail if "cuda" in ASKED else pytest.skip)(f"no CUDA device: {missing}")
    from numba import cuda

    return cuda


@pk.function
def density(x, mu, sigma):
    z = (x - mu) / sigma
    return pk.exp(-0.5 * z * z) / (sigma * 2.5066282746310002)


@pk.function
def tails(x):
    return pk.erf(x), x > 0.0


@pk.kernel
def mixed(i, x, y, counts):
    tail, right = tails(x[i])
    y[i] = density(x[i], 0.1, 1.2) + pk.random.normal(7, i, 0) + (tail if right else -1.0)
    pk.atomic_add(counts, i % 7, 1)


@pk.kernel
def scale(i, a, x):
    x[i] *= a


def series(x, n):
    total, term = 0.0, 1.0
    for k in range(1, n):
        term *= x / k
        total += term
        if abs(term) < 1e-12:
            break
    return total


def hard(x):
    return math.sin(x) + math.lgamma(abs(x) + 1.0)


def wanted():
    x, y, counts = (pk.copy_of(a, space="cuda") for a in (X, np.zeros(N), np.zeros(7, np.int64)))
    pk.parallel_for(pk.RangePolicy(0, N, space="cuda"), mixed, x, y, counts)
    return y.to_numpy(), counts.to_numpy()


def test_our_functions_in_kernels_of_numba_cuda(cuda):
    @cuda.jit
    def theirs(x, y, counts):
        i = cuda.grid(1)
        if i < x.size:
            tail, right = tails(x[i])
            first = density(x[i], 0.1, 1.2)
            second = pk.random.normal(7, i, 0)
            y[i] = first + second + (tail if right else -1.0)
            pk.atomic_add(counts, i % 7, 1)

    x, y, counts = cuda.to_device(X), cuda.to_device(np.zeros(N)), cuda.to_device(np.zeros(7, np.int64))
    theirs[(N + 255) // 256, 256](x, y, counts)
    for got, ours in zip((y, counts), wanted()):
        assert_array_equal(got.copy_to_host(), ours)


@pytest.mark.parametrize("blocks", [3, 200])
def test_a_kernel_of_ours_as_one_of_numba_cuda_s(cuda, blocks):
    x, y, counts = cuda.to_device(X), cuda.to_device(np.zeros(N)), cuda.to_device(np.zeros(7, np.int64))
    stream = cuda.stream()
    pk.numba.cuda_kernel(mixed)[blocks, 128, stream](N, x, y, counts)
    stream.synchronize()
    for got, ours in zip((y, counts), wanted()):
        assert_array_equal(got.copy_to_host(), ours)


@pytest.mark.parametrize("kind", ["njit", "device"])
@pytest.mark.parametrize("text", [series, hard], ids=lambda text: text.__name__)
def test_functions_of_numba_in_our_kernels(cuda, kind, text):
    import numba

    function = numba.njit(text) if kind == "njit" else cuda.jit(device=True)(text)
    n = text.__code__.co_argcount

    if n == 2:

        @pk.kernel
        def ours(i, x, y):
            if x[i] > -1.5:
                y[i] = function(x[i], 30)

        @cuda.jit
        def theirs(x, y):
            i = cuda.grid(1)
            if i < x.size and x[i] > -1.5:
                y[i] = function(x[i], 30)

    else:

        @pk.kernel
        def ours(i, x, y):
            if x[i] > -1.5:
                y[i] = function(x[i])

        @cuda.jit
        def theirs(x, y):
            i = cuda.grid(1)
            if i < x.size and x[i] > -1.5:
                y[i] = function(x[i])

    x, y, z = cuda.to_device(X), cuda.to_device(np.zeros(N)), cuda.to_device(np.zeros(N))
    theirs[(N + 255) // 256, 256](x, y)
    pk.parallel_for(pk.RangePolicy(0, N, space="cuda"), ours, x, z)
    assert_array_equal(z.copy_to_host(), y.copy_to_host())
    assert_allclose(
        z.copy_to_host(), [text(v, *[30] * (n - 1)) if v > -1.5 else 0.0 for v in X], rtol=1e-12, atol=1e-12
    )


def test_arrays_go_both_ways_and_streams_are_shared(cuda):
    """Both libraries launch in turns in one stream of numba's, on one array of each."""

    @cuda.jit
    def scaled(a, x):
        i = cuda.grid(1)
        if i < x.size:
            x[i] *= a

    stream = cuda.stream()
    space = pk.Cuda(stream=stream)
    assert space.stream == int(stream.__cuda_stream__()[1])
    theirs, ours = cuda.to_device(X), pk.copy_of(X, space="cuda")
    for array in (theirs, ours):
        for _ in range(50):
            scaled[(N + 255) // 256, 256, stream](3.0, array)
            pk.parallel_for(pk.RangePolicy(0, N, space=space), scale, 0.5, array)
            pk.parallel_for(pk.RangePolicy(0, N, space=space), scale, 2.0 / 3.0, array)
    stream.synchronize()
    plain = X.copy()
    for _ in range(50):
        plain = plain * 3.0 * 0.5 * (2.0 / 3.0)
    assert_array_equal(theirs.copy_to_host(), plain)
    assert_array_equal(ours.to_numpy(), plain)


def test_an_array_of_numba_s_on_a_space_of_the_host_is_refused(cuda):
    with pytest.raises(pk.WrongSpaceError, match="argument 'x'"):
        pk.parallel_for(pk.RangePolicy(0, N, space="serial"), scale, 2.0, cuda.to_device(X))


@pytest.mark.parametrize(
    "stream, handle",
    [
        (types.SimpleNamespace(__cuda_stream__=lambda: (0, 123)), 123),
        (77, 77),
        (0, 0),
        (types.SimpleNamespace(handle=types.SimpleNamespace(value=None)), 0),
        (types.SimpleNamespace(ptr=5), 5),
        (types.SimpleNamespace(cuda_stream=6), 6),
    ],
)
def test_a_stream_of_another_library_is_one_for_a_space(stream, handle):
    assert pk.Cuda(stream=stream).stream == handle


def test_what_is_no_stream_is_refused():
    with pytest.raises(pk.DTypeError, match="Cuda: stream must be an integer"):
        pk.Cuda(stream="default")


@pytest.mark.skipif(importlib.util.find_spec("numba_cuda") is None, reason="numba-cuda is not installed")
def test_both_ways_are_lowered_without_a_gpu(monkeypatch):
    """The remaining calls are those that numba-cuda's code contains, too."""
    import numba
    import numba.cuda.dispatcher as theirs
    from numba import cuda
    from numba import types as kinds

    from portable.core.machines.cuda.space import lower_to_ptx

    monkeypatch.setattr(
        theirs, "get_current_device", lambda: types.SimpleNamespace(compute_capability=(9, 0))
    )

    def kernel(x, y, counts):
        i = cuda.grid(1)
        if i < x.size:
            mixed(i, x, y, counts)
            y[i] += density(x[i], 0.1, 1.2) + pk.fma(x[i], 2.0, 1.0)

    array, whole = kinds.float64[::1], kinds.int64[::1]
    ptx, _ = cuda.compile(kernel, (array, array, whole), cc=(9, 0), device=False, abi="numba", output="ptx")
    assert "atom." in ptx and "call" not in ptx
    easy, calling = numba.njit(series), cuda.jit(device=True)(hard)

    @pk.kernel
    def inlined(i, x, y):
        y[i] = easy(x[i], 30) + easy(y[i], 9)

    @pk.kernel
    def with_calls(i, x, y):
        y[i] = calling(x[i])

    view = ("view", "float64", 1, True, False)
    assert "call" not in lower_to_ptx(inlined, "range", (view, view))
    assert "call.uni" in lower_to_ptx(with_calls, "range", (view, view))


PTX = """
define { i32, double } @outer(i64 %n, double %x, ptr %p) {
  %a = icmp sgt i64 %n, 3
  br i1 %a, label %yes, label %no
yes:
  %old = atomicrmw fadd ptr %p, double %x monotonic
  %y = fmul double %x, %old
  %r = insertvalue { i32, double } { i32 1, double undef }, double %y, 1
  ret { i32, double } %r
no:
  ret { i32, double } { i32 0, double 2.0 }
}
"""


def _ptx(text, name="outer"):
    from llvmlite import binding

    text = f'target triple = "nvptx64-nvidia-cuda"\n{text}'
    return engine.machine((7, 5)).emit_assembly(binding.parse_assembly(text))


def test_a_function_s_ptx_becomes_a_block_that_another_text_takes():
    """An inlined function leaves no call, parameter or name, and LLVM's source of its caller holds it."""
    from llvmlite import ir

    double, long, pointer = ir.DoubleType(), ir.IntType(64), ir.PointerType()
    body = assembly.block(_ptx(PTX), "outer", [long, double, long], [ir.IntType(32), double])
    assert not {".param", "ret;", "call", "outer"} & set(body.split()) and "%rd1" not in body
    assert all(f"${k}" in body for k in range(5)) and "mul.rn.f64" in assembly.rounded(body)
    module = ir.Module("taker")
    taker = ir.Function(module, ir.FunctionType(double, [long, double, pointer]), "taker")
    b = ir.IRBuilder(taker.append_basic_block())
    n, x, p = taker.args
    first = assembly.call(b, body, [ir.IntType(32), double], [n, x, b.ptrtoint(p, long)], False)
    second = assembly.call(b, body, [ir.IntType(32), double], [n, first[1], b.ptrtoint(p, long)], False)
    b.ret(second[1])
    ptx = _ptx(str(module).partition("\n")[2].replace('target triple = "unknown-unknown-unknown"\n', ""))
    assert ptx.count("atom.") == 2 and "call" not in ptx


@pytest.mark.parametrize(
    "text",
    [
        (
            "declare double @other(double)\ndefine double @outer(double %x) {\n %r = call double"
            " @other(double %x)\n ret double %r\n}"
        ),
        (
            "@table = internal constant [4 x double] [double 1.0, double 2.0, double 5.0, double 7.0]\ndefine"
            " double @outer(i64 %n) {\n %p = getelementptr [4 x double], ptr @table, i64 0, i64 %n\n %r ="
            " load double, ptr %p\n ret double %r\n}"
        ),
    ],
)
def test_what_needs_more_than_itself_is_no_block(text):
    from llvmlite import ir

    kind = ir.IntType(64) if "i64 %n" in text else ir.DoubleType()
    assert assembly.block(_ptx(text), "outer", [kind], [ir.DoubleType()]) is None
