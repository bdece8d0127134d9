"""Step 28: gamma and beta variates, weighted choice, permutations: equal on every space and on the host, with
the right distributions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import portable as pk

from ..refusals import refusals
from ..launching import launch_for
from .test_ptx import assemble, lower

stats = pytest.importorskip("scipy.stats")
FALSE_ALARM, MANY = 1e-6, 1_000_000


@pk.kernel
def drawn(i, a, b, weights, out, places):
    out[0, i] = pk.random.gamma(7, i, 0, a[i])
    out[1, i] = pk.random.beta(8, i, 3, a[i], b)
    out[2, i] = pk.random.categorical(9, i, 0, weights)
    pk.random.permutation(10, i, 0, places[i])


def test_the_same_numbers_everywhere(space):
    """Compiled spaces agree to the bit; plain Python's logarithm may differ in the last bits."""
    a, weights = 10.0 ** np.linspace(-2, 5, 24), np.array([1.0, 0.0, 2.5])
    args = a, 0.7, weights, np.zeros((3, 24)), np.zeros((24, 5), np.int64)
    (got, places), (want, there) = (
        launch_for(24, drawn, *args, space=where)[2:] for where in (space, "serial")
    )
    if space == "checked":
        assert_allclose(got, want, rtol=1e-12)
    else:
        assert_array_equal(got, want)
    assert_array_equal(places, there)
    assert_array_equal(np.sort(places, axis=1), np.tile(np.arange(5), (24, 1)))


@pk.kernel
def one_gamma(i, a, out):
    out[i] = pk.random.gamma(7, i, 0, a)


@pk.kernel
def one_beta(i, a, b, out):
    out[i] = pk.random.beta(9, i, 0, a, b)


@pytest.mark.parametrize("a", [0.3, 2.5, 1e5])
def test_gamma_numbers(a):
    x = launch_for(MANY, one_gamma, a, np.zeros(MANY), space="threads")
    assert stats.kstest(x, stats.gamma(a).cdf).pvalue > FALSE_ALARM


@pytest.mark.parametrize("a, b", [(0.4, 30.0)])
def test_beta_numbers(a, b):
    x = launch_for(MANY, one_beta, a, b, np.zeros(MANY), space="threads")
    assert stats.kstest(x, stats.beta(a, b).cdf).pvalue > FALSE_ALARM


@pk.kernel
def one_category(i, weights, counts):
    pk.atomic_add(counts, pk.random.categorical(3, i, 0, weights), 1)


@pk.kernel
def one_order(i, counts):
    order = pk.local((4,), pk.int32)
    pk.random.permutation(4, i, 0, order)
    pk.atomic_add(counts, order[0] + 4 * order[1] + 16 * order[2], 1)


def test_numbers_by_weight():
    weights = np.array([0.5, 0.0, 3.0, 1.0, 0.001], np.float32)
    counts = launch_for(MANY, one_category, weights, np.zeros(5, np.int64), space="threads")[1]
    assert counts[1] == 0
    some = weights > 0
    assert (
        stats.chisquare(counts[some], MANY * weights[some].astype(float) / weights.astype(float).sum()).pvalue
        > FALSE_ALARM
    )


def test_all_orders_are_alike():
    counts = launch_for(MANY, one_order, np.zeros(64, np.int64), space="threads")
    counts = counts[counts > 0]
    assert len(counts) == 24 and stats.chisquare(counts).pvalue > FALSE_ALARM


HOST = [
    ("normal", ()),
    ("exponential", ()),
    ("normal32", ()),
    ("uniform32", ()),
    ("uniform_open32", ()),
    ("exponential32", ()),
    ("gamma", (2.5,)),
    ("beta", (2.0, 0.5)),
    ("poisson", (30.0,)),
    ("binomial", (9, 0.25)),
]


@pytest.mark.parametrize("name, of", HOST, ids=lambda v: v if isinstance(v, str) else "")
def test_host_forms_take_arrays(name, of):
    """Each argument may be an array; a single number gives the same result."""
    word, streams = getattr(pk.random, name), np.arange(12).reshape(3, 4)
    got = word(2**64 - 1, streams, 5, *of)
    assert got.shape == (3, 4) and got.dtype.name == {"poisson": "int64", "binomial": "int64"}.get(
        name, "float32" if name.endswith("32") else "float64"
    )
    assert_allclose(got[1, 2], word(2**64 - 1, 6, 5, *of), rtol=1e-6 if name.endswith("32") else 1e-13)
    assert_array_equal(word(1, 6, np.arange(3), *of)[1], word(1, np.full(1, 6), 1, *of)[0])
    assert word(1, np.arange(0), 0, *of).shape == (0,)
    assert of or word(seed=1, stream=6, draw=1) == word(1, 6, 1)


def test_host_forms_of_weights_and_permutations():
    weights = [0.0, 1.0, 2.0]
    got = pk.random.categorical(1, np.arange(50), 0, np.array(weights))
    assert set(got.tolist()) == {1, 2} and got[7] == pk.random.categorical(1, 7, 0, np.array(weights))
    order = np.zeros(9, np.int64)
    pk.random.permutation(1, 2, 3, order)
    assert sorted(order.tolist()) == list(range(9))
    with pytest.raises(pk.InputError, match="permutation: seed, stream and draw must be numbers"):
        pk.random.permutation(1, np.arange(2), 3, order)


test_what_has_no_distribution = refusals(
    [
        ("gamma", (0.0,), "gamma: shape is 0.0; expected a number above 0"),
        ("beta", (1.0, np.nan), "beta: b is nan"),
        ("gamma", (np.array([1.0, -2.0]),), "shape is -2.0"),
    ],
    lambda word, of: getattr(pk.random, word)(1, 2, 3, *of),
    error=pk.InputError,
)


def test_a_negative_mean_is_found_in_a_kernel():
    with pytest.raises(pk.CheckError, match="assert"):
        pk.parallel_for(pk.RangePolicy(0, 1, space="checked"), one_gamma, -1.0, np.zeros(1))
    assert np.isnan(launch_for(1, one_gamma, -1.0, np.zeros(1), space="serial"))[0]


def test_variates_lower_to_ptx(tmp_path):
    x = np.ones(4)
    assemble(lower(drawn, 4, (x, 0.5, x, np.ones((3, 4)), np.ones((4, 5), np.int64))), tmp_path)
