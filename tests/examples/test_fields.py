"""Run the kernels of docs/examples/fields, from several fields of science, on every space against their
references, and lower them to PTX."""

import importlib.util
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

from ..conformance.test_ptx import assemble, lower
from ..launching import launch_for

FOLDER = Path(__file__).parents[2] / "docs" / "examples" / "fields"


def loaded(path):
    spec = importlib.util.spec_from_file_location(f"fields_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


EXAMPLES = [example for path in sorted(FOLDER.glob("*.py")) for example in loaded(path).EXAMPLES]


@pytest.mark.parametrize("kernel, make", EXAMPLES, ids=[kernel.name for kernel, _ in EXAMPLES])
def test_an_example_is_its_reference(space, kernel, make):
    policy, args, k, expected = make()
    arrays = [n for n, a in enumerate(args) if isinstance(a, np.ndarray)]
    after = launch_for(policy, kernel, *args, space=space)
    got = after if len(arrays) == 1 else after[arrays.index(k)]
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kernel, make", EXAMPLES, ids=[kernel.name for kernel, _ in EXAMPLES])
def test_an_example_lowers_to_ptx(kernel, make, tmp_path):
    policy, args, _, _ = make()
    assemble(lower(kernel, policy, args), tmp_path)


def test_there_are_25():
    assert len(EXAMPLES) == 25


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda p: p.stem)
def test_a_file_checks_itself(path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", [path.name, "serial"])
    runpy.run_path(str(path), run_name="__main__")
    assert capsys.readouterr().out.count("on serial: right") == len(loaded(path).EXAMPLES)
