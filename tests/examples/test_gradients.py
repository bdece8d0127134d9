"""Run docs/examples/gradients with the libraries that they use."""

import ctypes
import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import portable as pk

FOLDER = Path(__file__).parents[2] / "docs" / "examples" / "gradients"
LIBRARIES = {"nutpie_model": ["nutpie"], "nutpie_pointer": ["nutpie"], "jax_model": ["jax", "blackjax"]}


def loaded(name, monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    spec = importlib.util.spec_from_file_location(f"gradients_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_model_has_right_derivatives(space, monkeypatch):
    model = loaded("nutpie_model", monkeypatch)
    b, x, counts = model.data(3)
    with pk.use(space):
        arrays = [pk.copy_of(v) for v in (b, x, counts)] if space == "cuda" else (b, x, counts)
        value, slopes = model.value_and_gradient(*arrays)
    slopes = slopes if isinstance(slopes, np.ndarray) else slopes.to_numpy()
    rate = np.exp(x @ b)
    assert_allclose(value, counts @ (x @ b) - rate.sum() - 0.5 * b @ b, rtol=1e-12)
    assert_allclose(slopes, x.T @ (counts - rate) - b, rtol=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("name", LIBRARIES)
@pytest.mark.filterwarnings("ignore")
def test_a_program_recovers_the_truth(name, monkeypatch):
    for library in LIBRARIES[name]:
        pytest.importorskip(library)
    loaded(name, monkeypatch).main()
    sys.modules.pop("nutpie_model", None)


def test_a_c_function_gives_the_same(monkeypatch):
    """The C function that nutpie_pointer.py passes to nutpie is called by its address."""
    model = loaded("nutpie_pointer", monkeypatch)
    b, x, counts = model.data(3)
    slopes, value = np.zeros(model.K), np.zeros(1)
    addresses = (a.ctypes.data_as(ctypes.POINTER(ctypes.c_double)) for a in (b, slopes, value))
    assert model.pointer(x, counts).ctypes(model.K, *addresses, None) == 0
    expected = sys.modules["nutpie_model"].value_and_gradient(b, x, counts)
    assert_allclose(value[0], expected[0], rtol=1e-12)
    assert_allclose(slopes, expected[1], rtol=1e-11)
