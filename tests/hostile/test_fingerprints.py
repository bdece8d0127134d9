"""Test that fingerprints differ for functions, models and values that act differently, and for no
others."""

import os
import sys
import threading
import types
from dataclasses import replace

import numpy as np
import pytest
from numpy.random import default_rng

import portable as pk
from portable.models import hawkes, tmap
from portable.models.shared.fingerprints import Unnamed, fingerprint
from portable.models.resampling import priors
from portable.models.shared.store import Store
from portable.errors import InputError

from ..processes import python


def transient(rate):
    return tmap.TransientMAP([0.6, 0.4], [1, 2], [rate, 0.5], [[0.5, 0.3], [0.2, 0.6]])


TEXT = '''
import helpers
from helpers import Prior, scale

LIMITS = {"low": 0.0, "high": [1.0, 2.0]}


def inner(x):
    """Words."""
    assert x in {1.0, 2.0, "three"}
    return helpers.weight * x + LIMITS["low"]


def outer(x, power=2.0, *, offset=0.5):
    def within(v):
        return v**power + inner(v) + scale(v)  # a remark

    return [within(v) for v in x] if x is not None else Prior(3.0)
'''
HELPERS = """
weight, unread = 1.5, 1.0


def scale(v):
    return v * deep(v)


def deep(v):
    return v + 1.25


class Prior:
    width = 4.0

    def __init__(self, mean):
        self.mean = mean

    def __call__(self, v):
        return (v - self.mean) / self.width
"""
EDITS = {  # source before and after the edit, in TEXT or else in HELPERS
    "default": ("power=2.0", "power=2.5"),
    "keyword": ("offset=0.5", "offset=0.75"),
    "operator": ("**power +", "**power -"),
    "global": ('"high": [1.0, 2.0]', '"high": [1.0, 3.0]'),
    "type of a constant": ("Prior(3.0)", "Prior(3)"),
    "sign of zero": ('"low": 0.0', '"low": -0.0'),
    "last digit": ("1.25", "1.2500000000000002"),
    "attribute of a module": ("weight, unread = 1.5", "weight, unread = 1.75"),
    "two calls away": ("v + 1.25", "v + 1.5"),
    "attribute of a class": ("width = 4.0", "width = 5.0"),
    "method": ("(v - self.mean)", "(v + self.mean)"),
}
SAME = {
    "remark": ("# a remark", "# another\n"),
    "docstring": ("Words.", "Other words."),
    "lines": ("import helpers\n", "import helpers\n\n\n\n"),
    "what no text reads": ("unread = 1.5, 1.0", "unread = 1.5, 2.0"),
    "another dictionary": ('{"low": 0.0, "high"', '{**{"low": 0.0}, "high"'),
}


def named(monkeypatch, old="", new=""):
    """Return the fingerprint of `outer`."""
    assert old in TEXT + HELPERS
    for module, text in (("helpers", HELPERS), ("text", TEXT)):
        made = types.ModuleType(module)
        monkeypatch.setitem(sys.modules, module, made)
        exec(compile(text.replace(old, new), module, "exec"), vars(made))
    return fingerprint(made.outer)


def test_code_is_told_by_all_that_it_does(tmp_path, monkeypatch):
    first = named(monkeypatch)
    assert [edit for edit, change in EDITS.items() if named(monkeypatch, *change) == first] == []
    assert [edit for edit, change in SAME.items() if named(monkeypatch, *change) != first] == []
    (tmp_path / "text.py").write_text(TEXT)
    (tmp_path / "helpers.py").write_text(HELPERS)
    code = (
        "from text import outer; from portable.models.shared.fingerprints import fingerprint;"
        " print(fingerprint(outer))"
    )
    for seed in "12":  # other processes, whose sets have other orders
        search = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
        environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": search}
        done = python("-c", code, env=environment)
        assert done.stdout.strip() == first


def test_values_are_told_in_full():
    one = np.float32(1.0)
    pairs = [
        (0.1, np.nextafter(0.1, 1.0)),
        (1, 1.0),
        (1, True),
        (0.0, -0.0),
        (0j, complex(0.0, -0.0)),
        ("a", b"a"),
        ([1], (1,)),
        ({"a": 1}, {"a": 2}),
        ({1, 2}, {1, 3}),
        (np.zeros(3), np.zeros(3, np.float32)),
        (np.zeros(4), np.zeros((2, 2))),
        (one, np.float64(one)),
        (np.sin, np.cos),
        (np.sum, np.prod),
        (default_rng(1), default_rng(2)),
        (priors.normal(0.0, 0.0100000001), priors.normal(0.0, 0.0100000049)),
        (priors.normal(0.0, 1.0).draw, priors.half_normal(1.0).draw),
        (transient(2.0), transient(np.nextafter(2.0, 3.0))),
        (pk.static(1), pk.static(2)),
        (hawkes.compose(n_dims=2), hawkes.compose(distance="power_law", n_dims=2)),
    ]
    assert [pair for pair in pairs if fingerprint(pair[0]) == fingerprint(pair[1])] == []
    assert [one for one, _ in pairs if fingerprint(one) != fingerprint(one)] == []


def test_what_a_property_keeps_changes_nothing():
    triggering = hawkes.compose(n_dims=2).triggering
    before = fingerprint(triggering)
    assert triggering.functions and triggering.reciprocal is not None
    assert fingerprint(triggering) == before


def test_what_no_value_tells_is_refused(tmp_path):
    lock = threading.Lock()

    def guarded(v):
        with lock:
            return v

    with pytest.raises(Unnamed, match="a _thread.lock"):
        fingerprint(guarded)
    with pytest.raises(
        InputError, match="checkpoint: prior contains a _thread.lock, which has no fingerprint"
    ):
        Store(tmp_path / "run", "a job", {"prior": guarded})
    assert not (tmp_path / "run").exists()
    Store(None, "a job", {"prior": guarded})  # without a checkpoint no fingerprint is computed


def test_parts_of_a_triggering_function_are_told():
    """Test a decay that a user defines, as `compose` takes it."""

    def of(power):
        @pk.function
        def exponent(dt, p):
            return power * p[0] * dt

        return replace(hawkes.exponentials(1), exponent=exponent)

    kinds = [hawkes.compose(decay=of(power), n_dims=2) for power in (1.0, 1.5)]
    assert fingerprint(kinds[0]) != fingerprint(kinds[1])
    assert fingerprint(kinds[0]) == fingerprint(hawkes.compose(decay=of(1.0), n_dims=2))
