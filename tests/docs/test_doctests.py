"""Run the examples in docstrings of public names, and compare their output."""

import doctest
import importlib

import numpy as np
import pytest

import portable as pk

from ..architecture.test_public import FUNCTIONS, TYPES, WORDS

NAMES = {"np": np, "pk": pk}
# names without an example: types of annotations, methods, and names that the pages on numba and on backends
# show
WITHOUT = {*TYPES, *WORDS, "Report", "register", "resolve"}
MAIN = {
    *(
        "portable.models.hawkes.simulate",
        "portable.models.hawkes.Likelihood",
        "portable.models.hawkes.fit",
    ),
    *("portable.models.tmap.TransientMAP", "portable.models.tmap.fit", "portable.models.edm.simplex"),
    *("portable.models.resampling.resample", "portable.models.mixture.DirichletMixture"),
}
EXAMPLES = {
    name: test
    for name, value in FUNCTIONS
    for test in doctest.DocTestFinder(recurse=False).find(value, name, globs=dict(NAMES))
    if test.examples
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs(name):
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    found = []
    with pk.use("threads"):  # the examples use NumPy arrays, even if this machine has a device
        runner.run(EXAMPLES[name], out=found.append)
    assert runner.failures == 0, "".join(found)


def test_main_entries_of_the_methods_have_examples():
    assert MAIN - set(EXAMPLES) == set()


def test_public_names_of_the_layer_have_examples():
    top = {
        name.split(".")[1]
        for name, _ in FUNCTIONS
        if name.count(".") == 1 and name.startswith("portable.") and hasattr(pk, name.split(".")[1])
    }
    assert sorted(top - {name.split(".")[1] for name in EXAMPLES} - WITHOUT) == []
    assert importlib.import_module("portable.random").uniform.fn.__doc__.count(">>>") >= 2
