"""Compare reverse mode with forward mode, closed forms and differences, and its bits on all spaces."""

import contextlib
from typing import NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import portable as pk
from portable.core.launch.dispatch import describe_launch
from portable.core.machines.cuda.space import lower_to_ptx
from portable.errors import DTypeError, InputError, LanguageError, ShapeError

from ..launching import move
from .tables import made
from .traps import TRAPS, X, Y

RNG = np.random.default_rng(66)


TEXT = """
applied(i, f, x, y, out)
    out[i] = f(x[i], y[i])

slopes(i, d, x, y, out)
    dx, dy = d(x[i], y[i])
    out[0, i] = dx
    out[1, i] = dy

overwritten(i, x, y)
    y[i] = x[i] * x[i]
    x[i] = x[i] * 3.0

heat(i, j, s, out)
    around = s.u[i - 1, j] + s.u[i + 1, j] + s.u[i, j - 1] + s.u[i, j + 1]
    out[i, j] = s.u[i, j] + s.rate * (around - 4.0 * s.u[i, j]) * s.u[i, j]

energy(i, x)
    total = 0.0
    for j in range(i):
        square = 0.01
        for k in range(3):
            square += (x[i, k] - x[j, k]) ** 2
        total += pk.rsqrt(square)
    return total

product(i, a, x, y)
    total = 0.0
    for j in range(x.shape[0]):
        total += a[i, j] * x[j]
    y[i] = total

recurrence(i, x, y)
    row, state = x[i], 0.5
    for j in range(row.shape[0]):
        state = pk.sin(state) * 0.9 + 0.3 * row[j] * row[j]
        y[i, j] = state * row[j]

taken(i, index, x, y)
    y[i] = x[index[i]] ** 2

counted(i, index, x, y)
    pk.atomic_add(y, index[i], x[i] * x[i])

workspace(i, x, own, y, factor=2.0)
    if x[i] > 1.0:
        own[i] = factor * x[i]
    y[i] = own[i] * x[i]

far(i, x, y)
    y[i + 1] = x[i] * x[i + 5] + x[i + 2]

humps(i, x, c)
    return pk.sin(c * x[i]) * x[i]

turned(i, x, c)
    x[i] = -x[i]
    return c * x[i] ** 2

tallied(i, x, c)
    pk.atomic_add(x, 0, 1.0)
    return c * i
"""
(
    applied,
    slopes,
    overwritten,
    heat,
    energy,
    product,
    recurrence,
    taken,
    counted,
    workspace,
    far,
    humps,
    turned,
    tallied,
) = made(pk.kernel, TEXT, globals(), "<adjoints_kernel>")


@pytest.fixture(autouse=True)
def on_the_host(request):
    """Launch on NumPy arrays in tests without a space: the default may be a device."""
    with contextlib.nullcontext() if "space" in request.fixturenames else pk.use("serial"):
        yield


def numpy_of(array):
    return array if isinstance(array, np.ndarray) else array.to_numpy()


def both_ways(f, space):
    """Return the derivatives of a function of two numbers in reverse and forward mode."""
    policy = pk.RangePolicy(0, len(X), space=space)
    x, y, out, ones = (move(a, space) for a in (X, Y, np.empty(len(X)), np.ones(len(X))))
    found = pk.adjoint(policy, applied, f, x, y, out, wrt=("x", "y"), of={"out": ones})
    forward = move(np.zeros((2, len(X))), space)
    pk.parallel_for(policy, slopes, pk.derivative(f, ("x", "y")), x, y, forward)
    return [numpy_of(a) for a in found], numpy_of(forward)


PEERS = "loop_carried", "newton", "before_the_loop_used_after", "array_in_a_branch"
FEW = [f for f in TRAPS if f.name in PEERS] + TRAPS[5::13]


@pytest.mark.parametrize("f", FEW, ids=lambda f: f.name)
@pytest.mark.filterwarnings("ignore:kernel .* is a step")
def test_traps(f, space):
    for found, wanted in zip(*both_ways(f, space)):
        assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("f", TRAPS, ids=lambda f: f.name)
@pytest.mark.filterwarnings("ignore:kernel .* is a step")
def test_all_traps(f):
    for found, wanted in zip(*both_ways(f, "serial")):
        assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


class State(NamedTuple):
    u: np.ndarray
    rate: float


U, MATRIX, VECTOR = RNG.random((7, 19)), RNG.random((13, 21)), RNG.random(21)
POINTS, ROWS, INDEX = RNG.normal(size=(40, 3)), RNG.random((3, 150)), RNG.integers(0, 11, 11)
W = {n: RNG.normal(size=n) for n in ((7, 19), (13,), (3, 150), (11,))}


def heat_by_hand(w):
    """Compute the derivatives from the formula."""
    found, inner = w.copy(), w[1:-1, 1:-1] * 0.3
    found[[0, -1]] = found[:, [0, -1]] = 0.0
    u, here = U, (slice(1, -1), slice(1, -1))
    around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
    found[here] += inner * (around - 8.0 * u[here])
    for rows, columns in (((0, -2), (1, -1)), ((2, None), (1, -1)), ((1, -1), (0, -2)), ((1, -1), (2, None))):
        found[slice(*rows), slice(*columns)] += inner * u[here]
    return found


def energy_by_hand():
    d = POINTS[:, None] - POINTS[None]
    return -np.sum(d * ((d**2).sum(-1) + 0.01)[..., None] ** -1.5, axis=1)


def recurrence_by_differences(w, step=1e-6):
    def value(x):
        out = np.zeros_like(x)
        pk.parallel_for(pk.RangePolicy(0, 3, space="serial"), recurrence, x, out)
        return np.sum(out * w)

    places = [(0, 0), (1, 70), (2, 149), (2, 80)]
    units = [np.equal.outer(np.arange(3), i)[:, None] * (np.arange(150) == j) * step for i, j in places]
    return places, [(value(ROWS + e) - value(ROWS - e)) / (2 * step) for e in units]


def all_adjoints(space):
    """Return adjoints of kernels of each kind, on a space."""

    def on(*arrays):
        return tuple(move(a, space) for a in arrays)

    def line(n):
        return pk.RangePolicy(0, n, space=space)

    u, w, a, x, points, rows, wy, wr, wi = on(
        U, W[7, 19], MATRIX, VECTOR, POINTS, ROWS, W[13,], W[3, 150], W[11,]
    )
    index, x11 = on(INDEX, X)
    box = pk.MDRangePolicy((1, 1), (6, 18), space=space)
    empty = on(np.zeros((7, 19)), np.zeros(13), np.zeros((3, 150)), np.zeros(11))
    found = [pk.adjoint(box, heat, State(u, 0.3), empty[0], wrt="s.u", of={"out": w})]
    found.append(pk.parallel_reduce(line(40), energy, points, gradient="x")[1])
    found += pk.adjoint(line(13), product, a, x, empty[1], wrt=("a", "x"), of={"y": wy})
    found.append(pk.adjoint(line(3), recurrence, rows, empty[2], wrt="x", of={"y": wr}))
    found.append(pk.adjoint(line(11), taken, index, x11, empty[3], wrt="x", of={"y": wi}))
    found.append(pk.adjoint(line(11), counted, index, x11, empty[3], wrt="x", of={"y": wi}))
    found.append(pk.adjoint(line(40), energy, points, wrt="x", order="any"))
    return [numpy_of(v) for v in found]


@pytest.fixture(scope="module")
def on_serial():
    return all_adjoints("serial")


def test_each_kind_of_kernel(space, on_serial):
    stencil, pairs, matrix, vector, carried, gathered, scattered, unordered = found = all_adjoints(space)
    for here, wanted in zip(found[:-1], on_serial):
        if space == "checked":  # uses Python's arithmetic
            assert_allclose(here, wanted, rtol=1e-12, atol=1e-12)
        else:
            assert here.tobytes() == wanted.tobytes()
    assert_allclose(stencil, heat_by_hand(W[7, 19]), rtol=1e-12, atol=1e-13)
    assert_allclose(pairs, energy_by_hand(), rtol=1e-12, atol=1e-11)
    assert_allclose(unordered, pairs, rtol=1e-12, atol=1e-11)
    assert_array_equal(matrix, np.outer(W[13,], VECTOR))
    assert_allclose(vector, MATRIX.T @ W[13,], rtol=1e-13)
    places, wanted = recurrence_by_differences(W[3, 150])
    assert_allclose([carried[p] for p in places], wanted, rtol=1e-6, atol=1e-8)
    by_hand = np.zeros(11)
    np.add.at(by_hand, INDEX, 2.0 * X[INDEX] * W[11,])
    assert_allclose(gathered, by_hand, rtol=1e-13)
    assert_array_equal(scattered, 2.0 * X * W[11,][INDEX])


@pytest.mark.parametrize("threads", [1, 2])
def test_the_same_bits_on_any_number_of_threads(threads, on_serial):
    for found, wanted in zip(all_adjoints(f"threads:{threads}")[:-1], on_serial):
        assert found.tobytes() == wanted.tobytes()


def test_adjoints_lower_to_ptx():
    launches = []
    with pk.listening(lambda phase, what, launch: phase == "begin" and launches.append(launch)):
        all_adjoints("serial")
    assert len({launch.kernel.name for launch in launches}) >= 6
    for launch in launches:
        *_, kind, specs, reducers, _ = describe_launch(
            launch.policy, launch.kernel, launch.args, launch.reducers
        )
        assert ".visible .entry" in lower_to_ptx(launch.kernel, kind, specs, reducers)


@pytest.mark.parametrize("n", [1, 64, 65, 130])
def test_numbers_of_trips(n):
    """Values that a loop carries are stored for 64 iterations; in longer loops others are recomputed."""

    @pk.function
    def grown(x, y):
        for _ in range(int(y)):
            x = x * 1.01 + 0.1 * pk.sin(x)
        return x

    policy, x, y = pk.RangePolicy(0, 3, space="serial"), X[:3], np.full(3, float(n))
    found = pk.adjoint(policy, applied, grown, x, y, np.empty(3), wrt="x", of={"out": np.ones(3)})
    for k in range(3):
        at, slope = x[k], 1.0
        for _ in range(n):
            slope *= 1.01 + 0.1 * np.cos(at)
            at = at * 1.01 + 0.1 * np.sin(at)
        assert_allclose(found[k], slope, rtol=1e-12)


def test_derivatives_are_added_to_arrays_of_a_dict(space):
    a, x, w = (move(v, space) for v in (MATRIX, VECTOR, W[13,]))
    y, by_x, by_a = (move(v, space) for v in (np.zeros(13), np.ones(21), np.zeros((13, 21))))
    policy = pk.RangePolicy(0, 13, space=space)
    for _ in range(2):
        found = pk.adjoint(policy, product, a, x, y, wrt={"a": by_a, "x": by_x}, of={"y": w})
    assert found[0] is by_a
    assert_array_equal(numpy_of(by_a), 2.0 * np.outer(W[13,], VECTOR))
    assert_allclose(numpy_of(by_x), 1.0 + 2.0 * MATRIX.T @ W[13,], rtol=1e-13)


def test_what_is_written_takes_a_new_array():
    ones = np.ones(len(X))
    for of in "xy":
        with pytest.raises(InputError, match="'x' is written by the kernel; name it without an array"):
            pk.adjoint(len(X), overwritten, X, np.empty(len(X)), wrt={"x": ones}, of={of: ones})


def test_an_array_that_is_not_named_is_followed():
    own, w = np.full(len(X), 5.0), RNG.random(len(X))
    found = pk.adjoint(len(X), workspace, X, own, np.empty(len(X)), wrt="x", of={"y": w})
    assert_allclose(found, w * np.where(X > 1.0, 4.0 * X, 5.0), rtol=1e-14)
    found = pk.adjoint(
        len(X), workspace, X, own, y=np.empty(len(X)), factor=3.0, wrt=("own", "factor"), of={"y": w}
    )
    assert_allclose(found[0], np.where(X > 1.0, 0.0, X * w), rtol=1e-14)
    assert_allclose(found[1], [np.sum(w[X > 1.0] * X[X > 1.0] ** 2)], rtol=1e-14)


def test_numbers(space):
    """Derive by numbers through arrays that are written, which forward mode refuses."""
    u, w, new = (move(v, space) for v in (U, W[7, 19], np.zeros((7, 19))))
    box = pk.MDRangePolicy((1, 1), (6, 18), space=space)
    by_u, by_rate = pk.adjoint(box, heat, State(u, 0.3), new, wrt=("s.u", "s.rate"), of={"out": w})
    assert_allclose(numpy_of(by_u), heat_by_hand(W[7, 19]), rtol=1e-12, atol=1e-13)
    around = U[:-2, 1:-1] + U[2:, 1:-1] + U[1:-1, :-2] + U[1:-1, 2:] - 4.0 * U[1:-1, 1:-1]
    assert_allclose(by_rate, [np.sum(around * U[1:-1, 1:-1] * W[7, 19][1:-1, 1:-1])], rtol=1e-12)


@pytest.mark.parametrize("n", [0, 1, 2, 4, 5, 6, 9])
def test_a_range_shorter_than_a_stencil_is_wide(n):
    x, w = RNG.random(n + 5), RNG.random(n + 1)
    found = pk.adjoint(n, far, x, np.empty(n + 1), wrt="x", of={"y": w})
    wanted = np.zeros(n + 5)
    for i in range(n):
        wanted[i] += w[i + 1] * x[i + 5]
        wanted[i + 5] += w[i + 1] * x[i]
        wanted[i + 2] += w[i + 1]
    assert_allclose(found, wanted, rtol=1e-14)


@pytest.mark.parametrize(("reducer", "pick"), [(pk.Max, np.argmax), (pk.Min, np.argmin)])
def test_of_the_largest_the_derivative_is_that_of_one(space, reducer, pick):
    x, policy = move(X, space), pk.RangePolicy(0, len(X), space=space)
    value, (by_x, by_c) = pk.parallel_reduce(policy, humps, x, 2.0, reducer=reducer, gradient=("x", "c"))
    k, wanted = pick(np.sin(2.0 * X) * X), np.zeros(len(X))
    wanted[k] = 2.0 * np.cos(2.0 * X[k]) * X[k] + np.sin(2.0 * X[k])
    assert value == pk.parallel_reduce(policy, humps, x, 2.0, reducer=reducer)
    assert_allclose(numpy_of(by_x), wanted, rtol=1e-13)
    assert_allclose(by_c, [np.cos(2.0 * X[k]) * X[k] ** 2], rtol=1e-13)


@pytest.mark.parametrize("kernel", [turned, tallied])
def test_a_kernel_that_changes_what_it_reads_is_refused_for_an_extreme(kernel):
    """The index that is taken runs twice."""
    x = X.copy()
    with pytest.raises(LanguageError, match="changes what it reads; it runs twice with pk.Max"):
        pk.parallel_reduce(len(X), kernel, x, 2.0, reducer=pk.Max, gradient="c")
    assert_array_equal(x, X)


def test_the_largest_of_none():
    value, slope = pk.parallel_reduce(0, humps, X, 2.0, reducer=pk.Max, gradient="c")
    assert (value, *slope) == (-np.inf, 0.0)


def test_float32():
    x = X.astype(np.float32)
    found = pk.adjoint(len(X), overwritten, x, np.empty_like(x), wrt="x", of={"y": np.ones_like(x)})
    assert found.dtype == np.float32
    assert_array_equal(found, 2.0 * x)


# ---- refusals
REFUSED = """
shifted
    x[i] = x[i + 1] * 2.0

one_place
    y[0] = x[i]

twice
    for k in range(x.shape[0]):
        y[i] = y[i] + x[k]
        y[(i + k) % 3] = x[i]

smallest
    pk.atomic_min(y, i, x[i])

by_bits
    y[i] = pk.from_bits64(pk.bits(x[i]))

large_array
    v = pk.local(40, pk.float64)
    for k in range(x.shape[0]):
        v[k] = x[k]
    y[i] = v[i]

effect_in_a_test
    while pk.atomic_add(y, 0, x[i]) < 0.0:
        pass

steps_of_a_number
    total = 0.0
    for k in range(0, x.shape[0], x.shape[0] // 2):
        total += x[k]
    y[i] = total
"""
WHY = (
    "'x' is read and written at different indices",
    "an index writes elements that may be another's",
    "an index writes elements that may be another's|read and written at different",
    "atomic_add and atomic_sub",
    "the bits of a float",
    "local arrays that are indexed by variables have 32 elements",
    "the test of a while changes an array",
    "a range in reverse mode needs a step",
)
KERNELS = made(pk.kernel, REFUSED, globals(), "<refused>", "i, x, y")


@pytest.mark.parametrize(("kernel", "words"), [*zip(KERNELS, WHY)], ids=lambda v: getattr(v, "name", ""))
def test_refused(kernel, words):
    with pytest.raises(LanguageError, match=words) as told:
        pk.adjoint(3, kernel, np.ones(4), np.ones(4), wrt="x", of={"y": np.ones(4)})
    assert "<refused>:" in str(told.value)


RETURNED = """
turned
    return x[i] * 1j

nothing
    y[i] = x[i]

alone
    return (x[i] * x[i],)
"""
*OTHERS, ALONE = made(pk.kernel, RETURNED, globals(), "<returned>", "i, x, y")


def test_sums_other_than_real_numbers_are_refused():
    assert_array_equal(pk.parallel_reduce(len(X), ALONE, X, X, gradient="x")[1], 2 * X)
    for kernel in OTHERS:
        with pytest.raises(LanguageError, match="<returned>:.* of one real number"):
            pk.parallel_reduce(3, kernel, X, X.copy(), gradient="x")


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"wrt": "z"}, InputError, "no parameter 'z'"),
        ({"of": {"y": np.ones(3)}}, ShapeError, "'y' has shape"),
        ({"order": "none"}, InputError, "order is 'none'"),
        ({"wrt": ()}, InputError, "the name of a parameter"),
    ],
)
def test_wrong_calls(change, error, words):
    given = {"wrt": "x", "of": {"y": np.ones(len(X))}} | change
    with pytest.raises(error, match=words):
        pk.adjoint(len(X), overwritten, X, np.empty(len(X)), **given)


def test_arrays_that_share_memory_are_refused():
    ones = np.ones(11)
    for x, wrt in ((ones[1:], "x"), (X, {"x": ones})):
        with pytest.raises(InputError, match="is written, and shares memory with"):
            pk.adjoint(5, counted, INDEX, x, ones, wrt=wrt, of={"y": ones})
    into = {"a": np.zeros((13, 21))}
    into["x"] = into["a"][3]
    with pytest.raises(InputError, match="is written, and shares memory with"):
        pk.adjoint(13, product, MATRIX, VECTOR, np.empty(13), wrt=into, of={"y": np.ones(13)})


def test_integers_have_no_derivatives():
    with pytest.raises(DTypeError, match="'index' of kernel 'taken' is of int64"):
        pk.adjoint(3, taken, INDEX, X, np.empty(11), wrt="index", of={"y": np.ones(11)})


def test_teams_are_refused():
    with pytest.raises(InputError, match="expected a range or a box for adjoints"):
        pk.adjoint(pk.TeamPolicy(3, 8), overwritten, X, np.empty(11), wrt="x", of={"y": np.ones(11)})
