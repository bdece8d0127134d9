"""Step 36, vectors and matrices that kernels keep in registers; the reference is plain Python with NumPy."""

from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose

import portable as pk
from portable.core.launch import dispatch
from portable.core.machines.cuda.space import lower_to_ptx
from portable.errors import KernelError

from ..fuzz.program import load
from ..launching import launch_for

DOWN = pk.vector(0.0, 0.0, -9.81)


class Body(NamedTuple):
    place: object
    speed: object
    mass: float = 2.0


@pk.function
def turned(m, v, flip):
    if flip > 0.0:
        return m @ v
    return -v


@pk.kernel
def arithmetic(i, x, y):
    v = pk.vector(x[i, 0], 1.5, x[i, 2])
    w = pk.vector(x[i, 1:4]) * 2.0 + DOWN
    y[i, :3] = (v + 1) * w - w / (v * v + 2) + x[0, :3] * v
    y[i, 3:] = -v - +w + (v**2) % 3.0


@pk.kernel
def products(i, x, y):
    v, w = pk.vector(x[i, :3]), pk.vector((x[i, 3], 2.0, x[i, 4]))
    m = pk.matrix(v, w, np.cross(v, w))
    y[i, :3] = m @ v + (m.T @ m)[1] + w @ m
    y[i, 3] = np.dot(v, w) + pk.norm(v) + np.linalg.norm(m) + m.sum()
    y[i, 4] = (m @ pk.matrix((1.0, 0.0, 2.0), (0.0, 1.0, 0.0), v)).sum() + len(m) + m.shape[1]
    y[i, 5] = v.max() - min(w) + m.reshape(9)[4] + v.size


@pk.kernel
def indexed(i, x, y):
    v, m = pk.vector(x[i, :3]), pk.matrix(x[i, 0:2], x[i, 2:4], x[i, 4:6])
    pair = x[i, 0], x[i, 1] * 2.0
    for k in range(i % 3 + 1):
        y[i, k] = v[k] + m[k, i % 2] + pair[k % 2] + (DOWN[k], v[k])[i % 2]
    y[i, 3:5] = m[i % 3] + m[1:, 1]
    for a, b in zip(v, x[i]):
        y[i, 5] += a * b + m[-1, -1]


@pk.kernel
def stepped(i, x, y):
    body = Body(pk.vector(x[i, :2]), pk.vector(x[i, 2:4]))
    for k in range(5):
        force = turned(pk.matrix((0.0, -1.0), (1.0, 0.0)), body.place, x[i, k])
        body = body._replace(speed=body.speed + 0.125 * force / body.mass)
        body = body._replace(place=body.place + 0.125 * body.speed)
    v = body.place if x[i, 0] > 0.0 else body.speed * 2.0
    v += 0.25
    u = v
    u -= pk.vector(1.0, 2.0)
    y[i, :2], y[i, 2:4] = v, u
    y[i, 4] = (v[0] if i > 2 else u[1]) + (1.0, 2.0)[0]


@pk.kernel
def by_element(i, x, y):
    y[i, :] = np.sqrt(abs(x[i])) + np.maximum(x[i], 0.5) * np.exp(-abs(x[0])) + np.clip(x[i], -0.5, 0.5)
    y[i, :3] += np.where(i > 2, np.floor(pk.vector(x[i, :3])), 1.0) + max(x[i]) - min(x[i, 1:])


@pk.kernel
def reshaped(i, x, y):
    flat, square = x.reshape(-1), x[i].reshape(2, 3)
    y[i, 0] = flat[i * 6 + 2] + square[1, 2] + square.T[0, 1] + x.reshape(3, -1).T[i, 0]
    y[i, 1:4] = square[1] * 2
    y.reshape(-1)[i * 6 + 4] = len(flat)
    for row in square:
        y[i, 5] += row[1]


@pk.kernel
def summed(i, x, y):
    pk.atomic_add(y, i % 2, x[i])
    pk.atomic_sub(y, (i % 3,), pk.vector(x[i, :6]) * 2.0)


KERNELS = arithmetic, products, indexed, stepped, by_element, reshaped, summed


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
@pytest.mark.parametrize("dtype, tol", [(np.float64, 1e-12), (np.float32, 2e-4)])
def test_vectors_are_those_of_plain_python(space, kernel, dtype, tol):
    x = np.random.default_rng(1).normal(size=(9, 6)).astype(dtype)
    wanted = np.ones((9, 6), dtype)
    for i in range(9):
        kernel(i, x, wanted)
    got = launch_for(9, kernel, x, np.ones((9, 6), dtype))[1]
    assert_allclose(got, wanted, rtol=tol, atol=tol)


def test_a_vector_is_an_argument(space):
    x, m = np.arange(12.0).reshape(4, 3), pk.matrix((1.0, 2.0, 0.0), (0.0, 1.0, 0.0), (0.5, 0.0, 1.0))
    got = launch_for(4, pk.kernel(_mapped), m, DOWN, x, np.zeros((4, 3)))[1]
    assert_allclose(got, x @ m.T + DOWN, rtol=1e-13)


def _mapped(i, m, shift, x, y):
    y[i] = m @ x[i] + shift


def test_complex_numbers_are_summed(space):
    z = np.exp(1j * np.arange(24.0)).reshape(6, 4)
    got = launch_for(6, pk.kernel(_dots), z, np.zeros(3, complex))[1]
    wanted = np.zeros(3, complex)
    for i in range(6):
        _dots(i, z, wanted)
    assert_allclose(got, wanted, rtol=1e-12)


def _dots(i, z, out):
    v = pk.vector(z[i, :4])
    pk.atomic_add(out, i % 3, z[i] @ z[0] + (v * 2.0).sum() + v @ v)


def test_vectors_lower_for_a_gpu():
    x = np.ones((9, 6), np.float32)
    for kernel in KERNELS:
        policy = pk.RangePolicy(0, 9, space="serial")
        *_, kind, specs, reducers, _ = dispatch.describe_launch(policy, kernel, (x, x.copy()))
        text = lower_to_ptx(kernel, kind, specs, reducers)
        assert "ld.global" in text and ".f64" not in text


REFUSED = {
    "v = pk.vector(1.0, 2.0); v[0] = x[i, 0]": "is immutable; make another, or write to `w = pk.local",
    "v = pk.vector(1.0, 2.0); v[i] += 1": "is immutable",
    "v = pk.vector(x[i])": "known at compile time and 64 at most, as in pk.vector",
    "v = pk.vector(1.0, 2.0); y[i, 0] = v[2]": "index 2 is outside the 2 of `v`",
    "v = pk.vector(1.0, 2.0); y[i, 0] = v[0, 1]": "has more indices than `v` dimensions",
    "y[i, :] = pk.vector(1.0, 2.0) + pk.vector(1.0, 2.0, 3.0)": "same shape, got extents 3 and 2",
    "y[i, 0] = pk.vector(1.0, 2.0)": "element of 'y', got a vector of 2",
    "v = pk.vector(1.0, 2.0); y[i, 0] = v.x": "no attribute 'x' in kernels .shape",
    "m = pk.matrix((1.0, 2.0), (1.0,))": "rows of equal length",
    "y[i, 0] = x[i, 0] if i > 1 else (x[i, 0], 1.0)": "both sides have as many numbers",
    "y[i, 0] = x.reshape(-1, -1)[0, 0]": "one -1 among them at most",
    "pk.atomic_max(y, i, x[i])": "rows and complex numbers are added and subtracted",
    "w = pk.local(65, pk.float64); v = w * 2": "needs a temporary array here",
}


@pytest.mark.parametrize("line, message", REFUSED.items(), ids=REFUSED)
def test_what_vectors_are_not_is_refused(line, message):
    text = f"import portable as pk\n\n\n@pk.kernel\ndef k(i, x, y):\n    {line}\n"
    with pytest.raises(KernelError, match=message):
        launch_for(3, load(text, f"<{line}>")["k"], np.ones((3, 4)), np.ones((3, 4)), space="serial")


@pytest.mark.parametrize(
    "line, message",
    [
        ("y[i, 0] = pk.vector(1.0, 2.0)[i]", "the index of 2 numbers is outside"),
        ("y[i, 0] = pk.vector(x[i, :5])[4]", "'x' of length 4 has no element"),
        ("y[i, :] = pk.vector(1.0, 2.0, 3.0) + x[i]", "the shapes of arrays differ"),
        ("y[i, 0] = x.reshape(5, 5)[0, 0]", "the shapes of arrays differ"),
    ],
)
def test_what_is_outside_is_found(line, message):
    text = f"import portable as pk\n\n\n@pk.kernel\ndef k(i, x, y):\n    {line}\n"
    with pytest.raises(pk.CheckError, match=message):
        launch_for(3, load(text, f"<{line}>")["k"], np.ones((3, 4)), np.ones((3, 4)), space="checked")
