"""Compare the layer's words and their peers with NumPy: times of wrong results would be meaningless."""

import math

import numpy as np
import pytest

from portable.roofline import peers
from portable.roofline.cases import layer
from portable.roofline.digest import PERIOD, digest

from ..conftest import SPACES

N = 500  # matvec 22 x 22, product 32 cubed: four tiles, stencil 7 cubed


@pytest.fixture
def alone(monkeypatch):
    monkeypatch.setattr(peers, "gather", lambda *args, **options: ([], [("peers", "not asked")]))


def handed_over(monkeypatch, space, n):
    """Return the inputs that the case gives to its peers, in its order: (word, inputs), with those of
    portable for each."""
    given = []
    monkeypatch.setattr(
        peers, "gather", lambda method, where, word, *inputs, tools: given.append((word, inputs)) or ([], [])
    )
    return [
        (word, inputs, duel) for duel, (word, inputs) in zip(layer.duels(space, n, True), given, strict=True)
    ]


def mandelbrot(limit, cx, cy):
    steps, z, c = np.zeros(cx.size, np.int32), np.zeros(cx.size, complex), cx + 1j * cy
    for _ in range(limit):
        near = abs(z) <= 2.0
        z[near] = z[near] ** 2 + c[near]
        steps += near
    return steps


def stencil(u):
    out = np.zeros_like(u)
    inner = slice(1, -1)
    around = sum(np.roll(u, shift, axis)[inner, inner, inner] for axis in range(3) for shift in (-1, 1))
    out[inner, inner, inner] = 0.4 * u[inner, inner, inner] + 0.1 * around
    return out


EXPECTED = {
    "axpy": lambda a, x, y: digest(y + a * x),
    "dot": lambda x, y: math.fsum(x * y),
    "matvec": lambda a, x: digest(a @ x),
    "matmul": lambda a, b: digest(a @ b),
    "dense": lambda m, n, step, a, b: digest(a @ b),
    "stencil": lambda u: digest(stencil(u)),
    "argmin": lambda x: int(np.argmin(x)),
    "histogram": lambda levels, bins: digest(np.bincount(levels, minlength=bins)),
    "scan": lambda x: digest(np.cumsum(x)),
    "sum": np.sum,
    "conditional": lambda x: digest(np.where(x > 0.5, np.exp(-x), x)),
    "mandelbrot": lambda limit, cx, cy: digest(mandelbrot(limit, cx, cy)),
}


def test_ours_agrees_with_numpy(space, monkeypatch):
    words = handed_over(monkeypatch, space, N)
    assert {word for word, _, _ in words} == set(EXPECTED)
    for word, inputs, duel in words:
        for _ in range(2):  # the second request, after calls, gives the same
            duel.ours.call()
            assert duel.ours.result() == pytest.approx(
                EXPECTED[word](*inputs), rel=duel.tolerance or 1e-15
            ), word


@pytest.mark.parametrize("where", [name for name in SPACES if name != "checked"])
@pytest.mark.parametrize("word", EXPECTED)
def test_peers_agree_with_numpy(word, where, monkeypatch):
    pytest.importorskip("cupy" if "cuda" in where else "numba")
    gather = peers.gather
    asked = [given for given in handed_over(monkeypatch, where, N) if given[0] == word]
    assert asked
    for _, inputs, duel in asked:
        tools = ["cublas" if "cuda" in where else "blas"] if word == "dense" else None
        found, absent = gather("layer", where, word, *inputs, tools=tools)
        assert found and not absent
        expected = pytest.approx(EXPECTED[word](*inputs), rel=duel.tolerance or 1e-15)
        for peer in found:
            peer.call()
            assert peer.result() == expected, peer.label


def test_every_duel_says_what_it_moves(alone):
    duels = layer.duels("serial", N, True)
    assert all(duel.bytes > 0 and duel.title.endswith("to move") for duel in duels)
    assert duels[0].bytes == 3 * 8 * N and f"{N:,}" in duels[0].title


@pytest.mark.parametrize("n", [1, 2, 9])
def test_few_elements_are_enough(alone, space, n):
    for duel in layer.duels(space, n, True):
        duel.ours.call()
        assert math.isfinite(duel.ours.result())


@pytest.mark.parametrize("n", [0, 1, PERIOD - 1, 3 * PERIOD + 2, 1001 * PERIOD])
def test_a_digest_weighs_each_element_by_its_place(n):
    x = np.random.default_rng(1).random(n)
    weights = 1.0 + np.arange(n) % PERIOD / PERIOD
    assert digest(x) == pytest.approx(float(x @ weights), rel=1e-13)
    if n > 1:
        assert digest(x) != digest(x[::-1])
