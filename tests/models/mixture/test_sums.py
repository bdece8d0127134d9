"""The sums over points: where their numbers lie, and what their innermost loop does."""

import ast
import inspect
import textwrap

import numpy as np
import pytest

from portable.models.mixture import moment_kernels
from portable.models.mixture.blocks import Components, Points
from portable.models.mixture.sums import record_length


def whiles_around_products(text):
    """Loops whose form is `while` and that have products in them without another loop between that runs."""
    found = []

    def visit(node, loop):
        if isinstance(node, ast.AugAssign) and ast.unparse(node.target).startswith("part["):
            found.append(loop)
        runs = (
            isinstance(node, ast.While)
            or isinstance(node, ast.For)
            and "static" not in ast.unparse(node.iter)
        )
        for child in ast.iter_child_nodes(node):
            visit(child, node if runs else loop)

    visit(ast.parse(text), None)
    return [loop for loop in found if isinstance(loop, ast.While)], found


def test_the_product_asks_no_flag_at_each_trip():
    """A `while` asks for Ctrl-C at each trip, and the sums leave their registers for that: a third longer."""
    text = textwrap.dedent(inspect.getsource(moment_kernels))
    wrong, all_of_them = whiles_around_products(text)
    assert all_of_them and not wrong


@pytest.mark.parametrize("diagonal", [False, True])
def test_records_begin_where_loads_of_16_bytes_do(diagonal):
    for p in range(1, 30):
        least = 2 * p + 1 if diagonal else p * (p + 3) // 2 + 1
        assert record_length(p, diagonal) % 4 == 0 and 0 <= record_length(p, diagonal) - least < 4


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("p, k, diagonal", [(9, 8, False), (3, 8, False), (3, 6, False), (3, 8, True)])
def test_members_with_one_place_each(p, k, diagonal, dtype):
    """32 members for 8 components have a place each, make features of their own and load neighbours together,
    of 6 they load shares by themselves: the sums are those of packs, which have many places, but that
    products are rounded."""
    random = np.random.default_rng(3)
    x = random.standard_normal((70, p)).astype(dtype)
    factors = np.ones((k, p)) if diagonal else np.tile(np.eye(p), (k, 1, 1))
    components = Components(np.full(k, -np.log(k)), random.normal(0.0, 0.5, (k, p)), factors)

    def sums(space):
        points = Points(x, k, space, np.zeros(p), diagonal=diagonal)
        points.gather(components)
        return points.gathered()[0]

    tolerance = 1e-4 if dtype == "float32" else 1e-12  # of sums of 70
    np.testing.assert_allclose(sums("checked"), sums("serial"), rtol=tolerance, atol=tolerance)
