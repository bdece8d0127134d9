"""Step 27: tuples and arrays of the enclosing scope, indexed by values that differ between indices; a
breakpoint.
"""

import sys
from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import portable as pk

from ..launching import floats, launch_for
from .test_ptx import assemble, lower

SIGNS = 0, 1, 0, -1, 0, 1, -1, -1, 1
WEIGHTS = (4 / 9,) + (1 / 9,) * 4 + (1 / 36,) * 4


class Step(NamedTuple):
    x: int
    y: int


STEPS = Step(0, 0), Step(1, 0), Step(0, 1)
GRID = np.arange(12, dtype=np.int32).reshape(4, 3)
FLAGS, BYTES, HALVES = (
    np.array([True, False, True]),
    np.array([250, 3, 7], np.uint8),
    np.array([0.5, 1.5], np.float16),
)


@pk.kernel
def looked_up(i, x, out):
    j = i % 9
    out[i] = SIGNS[j] + WEIGHTS[j] * x[i] + STEPS[i % 3].y + GRID[i % 4, i % 3] + (1 if FLAGS[i % 3] else 0)
    out[i] += BYTES[(i + 1) % 3] * HALVES[i % 2]
    for v in GRID[1]:
        out[i] += v


@floats
def test_tables(space, dtype):
    """Numbers of a tuple are weak: a float32 kernel has no float64."""
    x, want = np.linspace(0, 1, 40).astype(dtype), np.zeros(40)
    for i in range(40):
        looked_up.fn(i, x.astype(float), want)
    assert_allclose(launch_for(40, looked_up, x, np.zeros(40, dtype))[1], want, rtol=4 * np.finfo(dtype).eps)


def test_a_table_is_what_it_was_at_the_first_launch(space):
    values = np.arange(3.0)

    @pk.kernel
    def copied(i, out):
        out[i] = values[i]

    launch_for(3, copied, np.zeros(3))
    values[:] = 9
    assert_array_equal(launch_for(3, copied, np.zeros(3)), [0, 1, 2])


@pk.kernel
def beyond(i, out):
    out[i] = SIGNS[i]


def test_an_index_outside_is_found():
    with pytest.raises(
        pk.CheckError, match=r"test_step27_tables.py:\d+.*'SIGNS' of length 9 has no element \[9\]"
    ):
        pk.parallel_for(pk.RangePolicy(0, 10, space="checked"), beyond, np.zeros(10))


@pk.kernel
def of_variables(i, x, out):
    pair = x, out
    out[i] = pair[i % 2][i]


@pk.kernel
def written(i, x, out):
    GRID[i, 0] = 1


@pytest.mark.parametrize(
    "kernel, words", [(of_variables, "holds numbers, or tuples of as many"), (written, "'GRID' is read-only")]
)
def test_what_a_table_is_not(space, kernel, words):
    with pytest.raises(pk.KernelError, match=words):
        launch_for(2, kernel, np.ones(2), np.ones(2))


@floats
def test_tables_lower_to_ptx(dtype, tmp_path):
    text = lower(looked_up, 4, (np.ones(4, dtype), np.ones(4, dtype)))
    assert dtype is np.float64 or ".f64" not in text
    assemble(text, tmp_path)


@pk.kernel
def stops(i, x, out):
    total = 0.0
    for k in range(3):
        total += x[i, k]
    if total > 10.0:
        breakpoint()
    out[i] = total


def test_a_breakpoint_is_for_the_checked_space(space, monkeypatch):
    seen = []
    monkeypatch.setattr(sys, "breakpointhook", lambda: seen.append(dict(sys._getframe(1).f_locals)))
    x = np.arange(12.0).reshape(4, 3)
    if space != "checked":
        with pytest.raises(pk.LanguageError, match=r"`breakpoint\(\)` is for the checked space"):
            launch_for(4, stops, x, np.zeros(4))
        return
    launch_for(4, stops, x, np.zeros(4))
    assert [(s["i"], s["total"]) for s in seen] == [(1, 12.0), (2, 21.0), (3, 30.0)]
    assert_array_equal(seen[0]["x"], x)
