"""Step 37, arguments by name, defaults of kernels, functools.partial."""

import functools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import portable as pk
from portable.errors import InputError, LanguageError, ShapeError

from ..launching import move


@pk.kernel
def scaled(i, x, out, scale=2.0, link=None, shift=(0.5, 1)):
    v = scale * x[i] + shift[0] * shift[1]
    out[i] = v if link is None else link(v)


@pk.kernel
def entry(i, x, power=2):
    return x[i] ** power


X = np.arange(1.0, 6.0)


def of(space, *args, kernel=scaled, **named):
    x, out = move(X, space), move(np.zeros(5), space)
    pk.parallel_for(pk.RangePolicy(0, 5, space=space), kernel, x, out, *args, **named)
    return pk.asview(out).to_numpy()


def test_what_has_a_default_may_be_left_out(space):
    assert_array_equal(of(space), 2 * X + 0.5)
    assert_array_equal(of(space, 3.0), 3 * X + 0.5)
    assert_allclose(of(space, 3.0, np.sqrt), np.sqrt(3 * X + 0.5), rtol=1e-15)


def test_arguments_have_names(space):
    assert_array_equal(of(space, shift=(1.0, 2)), 2 * X + 2)
    assert_allclose(of(space, link=np.sqrt, scale=4.0), np.sqrt(4 * X + 0.5), rtol=1e-15)
    assert_array_equal(of(space, kernel=functools.partial(scaled, scale=5.0)), 5 * X + 0.5)
    twice = functools.partial(functools.partial(scaled, scale=5.0, shift=(0.0, 0)), scale=6.0)
    assert_array_equal(of(space, kernel=twice), 6 * X)


def test_reductions_and_scans_take_them_too(space):
    policy, x, out = pk.RangePolicy(0, 5), move(X), move(np.zeros(5))
    assert pk.parallel_reduce(policy, entry, x) == 55.0
    assert pk.parallel_reduce(policy, entry, power=1, x=x) == 15.0
    assert pk.parallel_scan(policy, functools.partial(entry, power=1), x, out=out) == 15.0
    assert_array_equal(pk.asview(out).to_numpy(), np.cumsum(X))
    assert pk.parallel_scan(policy, entry, x, out=out) == 55.0
    assert pk.check(5, entry, X.copy()).ok


def _of_list(i, x, scales=[1.0]):  # noqa: B006
    x[i] = scales[0]


@pytest.mark.parametrize(
    "launch, error, message",
    [
        (lambda: pk.parallel_for(5, scaled, X), ShapeError, "takes 2 to 5 argument.*but 1 were given"),
        (lambda: pk.parallel_for(5, scaled, X, X, 1, None, (1, 2), 3), ShapeError, "2 to 5 .* 6 were given"),
        (
            lambda: pk.parallel_for(5, scaled, X, out=X, factor=3),
            InputError,
            "'factor' is none of .* out, sc",
        ),
        (lambda: pk.parallel_for(5, scaled, X, x=X), InputError, "'x' is none of the remaining arguments"),
        (lambda: pk.parallel_for(5, scaled, X, X, space="serial"), InputError, "the space is the policy's"),
        (lambda: pk.parallel_for(5, scaled, scale=1.0), ShapeError, "takes 2 to 5 argument"),
        (
            lambda: pk.parallel_for(5, functools.partial(scaled, 1)),
            InputError,
            "pass arguments by their names",
        ),
        (lambda: pk.parallel_for(5, functools.partial(print, end="")), LanguageError, "'print' of type"),
        (lambda: pk.parallel_for(5, pk.kernel(_of_list), X), InputError, "a default is .1.0. of type list"),
    ],
)
def test_wrong_names_are_refused(launch, error, message):
    with pk.use("serial"), pytest.raises(error, match=message):
        launch()
