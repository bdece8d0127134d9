"""Step 30: complex numbers with the results of Python and NumPy, each operation rounded, the same bits
everywhere."""

from typing import NamedTuple

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal

import portable as pk

from ..launching import launch_for, launch_reduce, move
from .test_ptx import assemble, lower


N = 53
DTYPES = [np.complex64, np.complex128]


def numbers(dtype, n=N, seed=1, whole=False):
    """Return two arrays of complex numbers; small whole ones have exact sums and products."""
    rng = default_rng(seed)
    parts = rng.integers(-9, 10, (4, n)) if whole else rng.normal(size=(4, n))
    return (parts[0] + 1j * parts[1]).astype(dtype), (parts[2] + 1j * parts[3]).astype(dtype)


@pk.kernel
def arithmetic(i, z, w, x, out):
    out[i, 0] = z[i] + w[i]
    out[i, 1] = z[i] - w[i]
    out[i, 2] = z[i] * w[i]
    out[i, 3] = z[i] / w[i]
    out[i, 4] = x[i] * z[i] - w[i] * 2
    out[i, 5] = z[i] / x[i]
    out[i, 6] = x[i] / w[i]
    out[i, 7] = 1 - z[i] + x[i]
    out[i, 8] = -z[i] + w[i].conjugate()
    out[i, 9] = z[i] ** 3 + np.conj(+z[i]) ** 2
    out[i, 10] = complex(w[i].imag, abs(x[i])) * 1j
    out[i, 11] = z[i] * z[i].conjugate()
    out[i, 11] -= w[i]
    out[i, 11] *= z[i]


def by_numpy(z, w, x, out):
    with np.errstate(all="ignore"):
        for i in range(len(z)):
            arithmetic.fn(i, z, w, x, out)
    out.real[:, 5], out.imag[:, 5] = (
        z.real / x,
        z.imag / x,
    )  # for each part; NumPy's are sometimes a unit off


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("step", [1, 2, -1])
def test_operations_have_the_bits_of_numpy(space, dtype, step):
    z, w = (v[::step][:N] for v in numbers(dtype, 2 * N))
    x = default_rng(2).normal(size=N).astype(z.real.dtype)
    want = np.zeros((N, 12), dtype)
    by_numpy(z, w, x, want)
    assert_array_equal(launch_for(N, arithmetic, z, w, x, np.zeros_like(want))[3], want)


def test_quotients_at_the_edges(space):
    """Divide by large, small and zero divisors."""
    edges = np.array([0, 1, -2, 1e300, 1e-300, 1e200j, -1e-200j, 1e300 + 1e300j, 1e-310 + 1j, 3 - 4j])
    z, w = (v.ravel().copy() for v in np.meshgrid(edges, edges))
    with np.errstate(all="ignore"):
        want = np.array([a / b for a, b in zip(z, w)])
    got = launch_for(len(z), divided, z, w, np.zeros_like(z))[2]
    assert_array_equal(got.view(float), want.view(float))


@pk.kernel
def divided(i, z, w, out):
    out[i] = z[i] / w[i]


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_index_at_a_time_has_the_same_bits(dtype):
    z, w = numbers(dtype)
    x = z.real.copy()
    got = [np.zeros((N, 12), dtype) for _ in range(2)]
    for kernel, out in zip((arithmetic, pk.kernel(arithmetic.fn, packed=False)), got):
        pk.parallel_for(pk.RangePolicy(0, N, space="serial"), kernel, z, w, x, out)
    assert got[0].tobytes() == got[1].tobytes()


def expression(rng, depth):
    """Draw a random expression of the complex names a, b, c and the bool d."""
    if depth == 0:
        return rng.choice(["a", "b", "c", "(1.5 - 2j)", "1j"])
    x, y = expression(rng, depth - 1), expression(rng, rng.integers(depth))
    return rng.choice(
        [
            *(f"({x} {op} {y})" for op in "+-**/"),
            f"(-{x})",
            f"({x}).conjugate()",
            f"np.conj({x})",
            f"({x} if {y} == b else {y})",
            f"({x} if d else {y})",
            f"complex(({x}).real, ({y}).imag)",
            f"(({x}) ** 3)",
            f"pk.where({x} != a, {x}, {y})",
        ]
    )


@pytest.mark.parametrize("seed", range(2))
def test_random_expressions_have_the_bits_of_numpy(space, seed, tmp_path):
    """Evaluate six expressions in one kernel, on numbers that include zeros and infinities."""
    rng = default_rng(seed)
    lines = [f"    out[i, {k}] = {expression(rng, 4)}" for k in range(6)]
    text = "def drawn(i, z, w, out):\n    a, b, c, d = z[i], w[i], z[i - i], z[i].real > 0.0\n" + "\n".join(
        lines
    )
    path = tmp_path / "drawn.py"
    path.write_text(text)
    scope = {"np": np, "pk": pk}
    exec(compile(text, str(path), "exec"), scope)
    z, w = numbers(np.complex128, seed=seed, whole=seed == 1)
    z[::7], w[::5], z[3], w[4] = 0, -1j, np.inf, 1e200
    want = np.zeros((N, 6), complex)
    with np.errstate(all="ignore"):
        for i in range(N):
            scope["drawn"](i, z, w, want)
    for kernel in (pk.kernel(scope["drawn"]), pk.kernel(scope["drawn"], packed=False)):
        out = launch_for(N, kernel, z, w, np.zeros_like(want))[2]
        assert_array_equal(out.view(float), want.view(float), err_msg=text)


@pk.kernel
def functions(i, z, out, sizes):
    out[i] = pk.exp(z[i])
    sizes[i] = abs(z[i])


@pytest.mark.parametrize("dtype", DTYPES)
def test_exp_and_abs(space, dtype):
    z = numbers(dtype)[0] * 3
    z[:3] = 0, 2, -1e30  # exp of a real number has no imaginary part
    _, out, sizes = launch_for(N, functions, z, np.zeros_like(z), np.zeros(N, z.real.dtype))
    eps = np.finfo(dtype).eps
    assert_allclose(out.real, np.exp(z).real, rtol=4 * eps, atol=0)
    assert_allclose(out.imag, np.exp(z).imag, rtol=4 * eps, atol=0)
    assert_allclose(sizes, abs(z), rtol=2 * eps)
    assert (out.imag[:3] == 0).all()


@pk.function
def escape(c, most):
    z, n = 0j, 0
    while n < most:
        if z.real * z.real + z.imag * z.imag > 4.0:
            return z, n
        z = z * z + c
        n += 1
    return z, most


@pk.kernel
def mandelbrot(i, c, most, ends, out):
    ends[i], out[i] = escape(c[i], most)


def test_a_name_that_is_assigned_again(space):
    """Assign in lanes that leave a loop at different iterations; use two returns."""
    c = (np.linspace(-2, 1, N) + 0.3j * np.linspace(-1, 1, N)).astype(np.complex128)
    ends, want = np.zeros(N, complex), np.zeros(N, np.int64)
    with np.errstate(all="ignore"):
        for i in range(N):
            z, n = 0j, 0
            while n < 30 and not z.real**2 + z.imag**2 > 4.0:
                z, n = z * z + c[i], n + 1
            ends[i], want[i] = z, n
    _, got, counts = launch_for(N, mandelbrot, c, 30, np.zeros(N, complex), np.zeros(N, np.int64))
    assert_array_equal(counts, want)
    assert_array_equal(got, ends)


ROOTS = np.exp(2j * np.pi * np.arange(8) / 8)
UNITS = (1 + 0j, 1j, -1 + 0j, -1j)
TURN = np.complex64(0.5 - 0.5j)


@pk.kernel
def transformed(i, x, out):
    total, mine = 0j, pk.local((2, 8), pk.complex128)
    for k in range(8):
        mine[i % 2, k] = x[k] * ROOTS[(i * k) % 8]
    for k in range(8):
        total += mine[i % 2, k]
    out[i] = total * UNITS[i % 4] + TURN


def test_tables_constants_and_own_arrays(space):
    x = numbers(np.complex128)[0]
    k = np.arange(8)
    want = [(x[:8] * ROOTS[i * k % 8]).sum() * UNITS[i % 4] + (0.5 - 0.5j) for i in range(16)]
    got = launch_for(16, transformed, x, np.zeros(16, complex))[1]
    assert_allclose(got, want, rtol=1e-13, atol=1e-13)


class Wave(NamedTuple):
    amplitude: complex
    values: object


@pk.kernel
def scaled(i, wave, turn, out):
    row = wave.values[i]
    total = complex(0)
    for v in row[1:]:
        total += v
    out[i] = wave.amplitude * total * turn + row.shape[0] + wave.values.ndim


@pytest.mark.parametrize("turn", [2 - 1j, np.complex64(2 - 1j), np.complex128(2 - 1j)])
def test_arguments_and_rows(space, turn):
    values = numbers(np.complex64, 4 * N, whole=True)[0].reshape(N, 4)
    want = 3j * values[:, 1:].sum(1) * (2 - 1j) + 6
    out = move(np.zeros(N, np.complex64))
    pk.parallel_for(N, scaled, Wave(3j, move(values)), turn, out)
    assert_array_equal(pk.asview(out).to_numpy(), want)


@pk.kernel
def shared(team, z, out):
    mine = team.scratch(8, pk.complex64)
    for j in team.thread_range(8):
        mine[j] = z[team.league_rank, j] * 1j
    team.barrier()
    total = 0j
    for j in team.thread_range(8):
        total += mine[7 - j]
    total, before = team.reduce(total), team.scan(1j)
    before = team.broadcast(before + team.rank, 2)
    if team.single():
        out[team.league_rank] = total + mine[3] + before


def test_scratch_of_a_team(space):
    z = numbers(np.complex64, 40, whole=True)[0].reshape(5, 8)
    out = launch_for(pk.TeamPolicy(5), shared, z, np.zeros(5, np.complex64))[1]
    assert_array_equal(out, z.sum(1) * 1j + z[:, 3] * 1j + 2j + 2)


@pk.kernel
def each(i, z):
    return z[i] * 2.0


@pytest.mark.parametrize("dtype", DTYPES)
def test_sums(space, dtype):
    z = numbers(dtype, 1000, whole=True)[0]
    total = launch_reduce(1000, each, z)
    assert isinstance(total, complex) and total == 2 * z.sum()
    assert launch_reduce(0, each, z) == 0j
    total, largest = launch_reduce(1000, with_size, z, reducer=(pk.Sum, pk.Max))
    assert total == z.sum() and largest == abs(z.real).max()
    out = pk.zeros(1, dtype)
    pk.parallel_reduce(1000, each, move(z), out=out)
    assert out.to_numpy()[0] == 2 * z.sum()


def test_prefix_sums_of_complex_numbers_are_refused(space):
    z, (x, y) = move(np.ones(4, complex)), (pk.zeros(4) for _ in range(2))
    for out in (x, (x, y)):
        with pytest.raises(
            pk.LanguageError, match=r"expected 1 number\(s\), got 1 value\(s\), among them a complex"
        ):
            pk.parallel_scan(4, each, z, out=out)


@pk.kernel
def with_size(i, z):
    return z[i], abs(z[i].real)


@pk.kernel
def less(i, z, out):
    if z[i] < 1.0:
        out[i] = 1.0


@pk.kernel
def largest(i, z, out):
    out[i] = max(abs(z[i]), z[i])


@pk.kernel
def into_real(i, z, out):
    out[i] = z[i]


@pk.kernel
def floored(i, z, out):
    out[i] = z[i].real // z[i] + out[i]


@pk.kernel
def raised(i, z, out):
    pk.atomic_max(z, 0, 1.0)


@pk.kernel
def begun_real(i, z, out):
    total = 0.0
    for k in range(i):
        total += z[k]
    out[i] = total.real


@pk.kernel
def root(i, z, out):
    out[i] = pk.sqrt(z[i]).real


@pk.kernel
def truth(i, z, out):
    if z[i]:
        out[i] = 1.0


@pytest.mark.parametrize(
    "kernel, words",
    [
        (less, r"`z\[i\] < 1.0`: complex numbers have no order"),
        (largest, r"`z\[i\]` is a complex number; expected a number"),
        (into_real, "element of 'out', got a complex number"),
        (floored, "complex numbers know"),
        (raised, "rows and complex numbers are added and subtracted"),
        (begun_real, "a complex sum begins with 0j"),
        (root, r"`z\[i\]` is a complex number"),
        (truth, r"`z\[i\]` is a complex number; expected a condition"),
    ],
)
def test_what_is_not_for_complex_numbers(space, kernel, words):
    with pytest.raises(pk.KernelError, match=rf"test_step30_complex.py:\d+.*{words}"):
        launch_for(4, kernel, np.ones(4, np.complex64), np.zeros(4))


@pytest.mark.parametrize("dtype", DTYPES)
def test_complex_arrays_lower_to_ptx(dtype, tmp_path):
    z, _ = numbers(dtype)
    text = lower(arithmetic, N, (z, z, z.real.copy(), np.zeros((N, 12), dtype)))
    assert ".f64" not in text or dtype != np.complex64
    assemble(text, tmp_path)
    assemble(lower(functions, N, (z, z, z.real.copy())), tmp_path)
    assemble(lower(each, N, (z,), reducers=(pk.Sum,)), tmp_path)


def test_an_element_outside_is_told_by_its_index():
    with pytest.raises(pk.CheckError, match=r"'z' of length 4 has no element \[4\]"):
        launch_for(5, into_parts, np.ones(4, complex), np.zeros(5), space="checked")


@pk.kernel
def into_parts(i, z, out):
    out[i] = z[i].imag


def test_what_is_counted():
    """A complex number counts as two floats: its product as four products and two sums."""
    z, w = numbers(np.complex64, 1000)
    launch = pk.RangePolicy(0, 1000, space="serial"), product, z, w, np.zeros_like(z)
    counts = {(what, dtype): n for (place, what, dtype), n in pk.count(*launch).items() if place}
    assert counts.pop(("load z", "float32")) == counts.pop(("load w", "float32")) == 2000
    assert counts == {("*", "float32"): 4000, ("+", "float32"): 1000, ("-", "float32"): 1000} | {
        ("store out", "float32"): 2000
    }
    touched = pk.count(*launch, build="touched")
    assert touched["", "bytes z", ""] * touched["", "touched z", "load"] == z.nbytes


@pk.kernel
def product(i, z, w, out):
    out[i] = z[i] * w[i]
