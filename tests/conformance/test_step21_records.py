"""Step 21: a NamedTuple or dataclass of views and numbers is one argument, whose fields keep their names in
the kernel."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import portable as pk
from portable.errors import KernelError

from ..fuzz.program import load
from ..launching import move


class Line(NamedTuple):
    slope: float
    start: float


class Points(NamedTuple):
    x: object
    y: object
    line: Line


@dataclass
class Grid:
    values: object
    n: int


@pk.function
def height(line, x):
    return line.slope * x + line.start


@pk.kernel
def residuals(i, points, grid):
    grid.values[i] = points.y[i] - height(points.line, points.x[i]) if i < grid.n else points[2][1]


@pk.kernel
def squares(i, points):
    return (points.y[i] - height(points.line, points.x[i])) ** 2


@dataclass
class Particle:
    line: Line
    mass: float = 0.25


@pk.function
def joined(a, b):
    return Line(a.slope + b.slope, start=a.start * b.start)


@pk.kernel
def moved(i, first, x, out):
    particle = Particle(Line(x[i], 1.0))
    line = first
    for _ in range(3):
        line = joined(line, particle.line)._replace(start=line.start - particle.mass)
    out[i] = line.slope * 10 + line.start


@pk.kernel
def misspelt(i, points):
    points.y[i] = points.z[i]


def points_on(space, n=21):
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(2, n))
    return x, y, Points(move(x, space), move(y, space), Line(2.0, 0.5))


def test_records_are_made_and_changed_in_kernels(space):
    x, wanted = np.arange(5.0), np.zeros(5)
    for i in range(5):
        moved(i, Line(2.0, 3.0), x, wanted)
    given = move(x), move(np.zeros(5))
    pk.parallel_for(5, moved, Line(2.0, 3.0), *given)
    out = given[1].to_numpy() if isinstance(given[1], pk.View) else given[1]
    assert_array_equal(out, wanted)


@pytest.mark.parametrize(
    "text, message",
    [
        ("Line(1.0)", "'Line' takes 2 argument\\(s\\) \\(slope, start\\), but 1"),
        ("Line(1.0, 2.0, 3.0)", "'Line' takes 2 argument"),
        ("Line(1.0, begin=2.0)", "'Line' has no parameter 'begin'"),
        ("Line(1.0, 2.0)._replace(begin=1.0)", "_replace takes fields of slope, start"),
    ],
)
def test_fields_that_there_are_not_are_refused(text, message):
    text = f"import portable as pk\n\n\n@pk.kernel\ndef k(i, x):\n    x[i] = {text}.slope\n"
    module = load("from tests.conformance.test_step21_records import Line\n" + text, f"<{message}>")
    with pytest.raises(KernelError, match=message):
        pk.parallel_for(pk.RangePolicy(0, 3, space="serial"), module["k"], np.zeros(3))


def test_fields_have_their_names(space):
    x, y, points = points_on(space)
    values = move(np.zeros(21))
    pk.parallel_for(21, residuals, points, Grid(values, 19))
    want = np.where(np.arange(21) < 19, y - (2.0 * x + 0.5), 0.5)
    assert_allclose(pk.asview(values).to_numpy(), want, rtol=1e-15, atol=1e-15)
    total = pk.parallel_reduce(21, squares, points)
    assert_allclose(total, ((y - 2.0 * x - 0.5) ** 2).sum(), rtol=1e-13)


def test_a_field_that_is_not_there_is_named(space):
    _, _, points = points_on(space)
    with pytest.raises(pk.LanguageError, match=r"misspelt.*a record of x, y, line has no attribute 'z'"):
        pk.parallel_for(21, misspelt, points)


def test_a_field_of_the_wrong_kind_is_named():
    with pytest.raises(pk.InputError, match=r"argument 'points'.*'text'"):
        pk.parallel_for(3, squares, Points("text", np.zeros(3), Line(1.0, 2.0)))
