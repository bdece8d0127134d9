"""Launch in numba's code: each launch has the bits of the launch from Python, wherever numba runs it."""

import functools
import textwrap
import threading

import numba
import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_array_equal
from numba import cfunc, njit, prange, types

import portable as pk
from portable.errors import DTypeError, InputError, LanguageError, ShapeError, SpaceError

from ..refusals import refusals

N = 40_013  # several blocks, chunks for every thread, and a remainder
X = default_rng(5).normal(size=N)
A = default_rng(6).normal(size=(37, 61))


@pk.kernel
def axpy(i, a, x, y):
    y[i] += a * x[i] / 3


@pk.kernel
def branchy(i, x, y):
    v, k = abs(x[i]), 0
    while v > 1e-3 and k < 40:
        v = v * v if v < 0.9 else v * 0.5
        k += 1
    y[i] = v + k


@pk.kernel
def value(i, x):
    return x[i] * 1.5


@pk.kernel
def several(i, x):
    return x[i], x[i], x[i]


@pk.kernel
def pair(i, x):
    return x[i] * 1e-3, x[i]


def _affine(f, g):
    return f[0] * g[0], f[1] * g[0] + g[1]


AFFINE = pk.Reducer("affine", _affine, (1.0, 0.0), commutes=False)  # composition of maps x -> f[0] x + f[1]


@pk.kernel
def outer(i, j, x, table):
    table[i, j] = x[i] * x[j]


@pk.kernel
def cube(i, j, k, x, table):
    table[i, j, k] = x[i] * x[j] + x[k]


@pk.kernel
def turned(i, x):
    return complex(x[i], 1.0)


@pk.kernel
def four(i, j, k, m, x, table):
    table[i, j, k, m] = x[i] * x[j] + x[k] * x[m]


@pk.kernel
def matvec(team, a, x, y):
    row = 0.0
    for j in team.thread_range(a.shape[1]):
        row += a[team.league_rank, j] * x[j]
    row = team.reduce(row)
    if team.single():
        y[team.league_rank] = row


@pk.kernel
def with_scratch(team, a, y):
    row = team.scratch(a.shape[1], a.dtype)
    for j in team.thread_range(a.shape[1]):
        row[j] = a[team.league_rank, j]
    team.barrier()
    if team.single():
        y[team.league_rank] = row[a.shape[1] - 1] + row[0]


@pk.kernel
def row_norm(team, a):
    total = 0.0
    for j in team.thread_range(a.shape[1]):
        total += a[team.league_rank, j] ** 2
    return team.reduce(total)


def python_for(y):
    pk.parallel_for(N, axpy, 2.0, X, y)
    pk.parallel_for(pk.RangePolicy(7, 99), axpy, 3, X, y)
    pk.parallel_for(N, branchy, X, y[::-1])


def python_box(y):
    pk.parallel_for(pk.MDRangePolicy((1, 2), (90, 80)), outer, X, y[:10_000].reshape(100, 100))
    pk.parallel_for(pk.MDRangePolicy((0, 1, 2), (9, 8, 7)), cube, X, y[10_000:11_000].reshape(10, 10, 10))
    pk.parallel_for(
        pk.MDRangePolicy((0, 1, 2, 0), (3, 4, 5, 7)), four, X, y[11_000:11_420].reshape(3, 4, 5, 7)
    )


def python_team(y):
    pk.parallel_for(pk.TeamPolicy(37), matvec, A, X, y)
    pk.parallel_for(pk.TeamPolicy(37, scratch_bytes=8 * 61 + 64), with_scratch, A, y[100:])


def python_reduce(y):
    y[0] = pk.parallel_reduce(N, value, X)
    y[1] = pk.parallel_reduce(pk.RangePolicy(3, 3), value, X)
    y[2] = pk.parallel_reduce(pk.RangePolicy(5, 5000), value, X, reducer=pk.Min)
    y[3] = pk.parallel_reduce(N, value, X, reducer=pk.Prod)
    y[4] = pk.parallel_reduce(N, value, X, reducer=pk.LogSumExp)
    y[5], k = pk.parallel_reduce(N, value, X, reducer=pk.MinLoc)
    y[6] = k
    (y[7], k), y[8], y[9] = pk.parallel_reduce(N, several, X, reducer=(pk.MaxLoc, pk.Sum, pk.Max))
    y[10] = k
    y[11] = pk.parallel_reduce(pk.TeamPolicy(37), row_norm, A)
    y[12], y[13] = pk.parallel_reduce(N, pair, X, reducer=AFFINE)


def python_scan(y):
    y[0] += pk.parallel_scan(N - 1, value, X, out=y[1:])
    y[0] += pk.parallel_scan(pk.RangePolicy(5, N - 5), value, X, out=y[1:], reducer=pk.Max, inclusive=False)


PATTERNS = {
    "for": python_for,
    "box": python_box,
    "team": python_team,
    "reduce": python_reduce,
    "scan": python_scan,
}
compiled = {name: njit(pattern, nogil=True) for name, pattern in PATTERNS.items()}  # the same texts
in_parallel = {name: njit(PATTERNS[name], parallel=True) for name in ("for", "scan")}


def test_scans_of_states_of_several_numbers():
    @njit
    def scan(x, a, b):
        return pk.parallel_scan(x.size, pair, x, out=(a, b), reducer=AFFINE)

    a, b, c, d = np.empty((4, N))
    total = scan(X, a, b)
    with pk.use("serial"):
        assert total == pk.parallel_scan(N, pair, X, out=(c, d), reducer=AFFINE)
    assert_array_equal((a, b), (c, d))


def wanted(pattern):
    y = np.zeros(N)
    with pk.use("serial"):
        PATTERNS[pattern](y)
    return y


def by_njit(pattern, y):
    compiled[pattern](y)


def by_parallel(pattern, y):
    in_parallel.get(pattern, compiled[pattern])(y)


def by_cfunc(pattern, y):
    launch = compiled[pattern]

    @cfunc(types.void(types.CPointer(types.float64)))
    def called(y):
        launch(numba.carray(y, N))

    called.ctypes(y.ctypes.data_as(called.ctypes.argtypes[0]))


@functools.cache
def _all_in_prange():
    """Run each pattern inside one prange, whose three indices do the same."""
    a, b, c, d, e = (compiled[name] for name in PATTERNS)

    @njit(parallel=True)
    def loop(ys):
        for k in prange(ys.shape[0]):
            a(ys[k, 0])
            b(ys[k, 1])
            c(ys[k, 2])
            d(ys[k, 3])
            e(ys[k, 4])

    ys = np.zeros((3, 5, N))
    loop(ys)
    assert (ys[0] == ys[2]).all()
    return dict(zip(PATTERNS, ys[1]))


def inside_prange(pattern, y):
    y[:] = _all_in_prange()[pattern]


def by_threads(pattern, y):
    ys = [np.zeros(N) for _ in range(3)]
    threads = [threading.Thread(target=compiled[pattern], args=(own,)) for own in ys]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (ys[0] == ys[2]).all()
    y[:] = ys[1]


ROUTES = {
    "njit": by_njit,
    "parallel=True": by_parallel,
    "cfunc": by_cfunc,
    "in prange": inside_prange,
    "nogil threads": by_threads,
}


@pytest.mark.filterwarnings("ignore::numba.core.errors.NumbaPerformanceWarning")
@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("route", ROUTES)
def test_every_route_has_the_bits_of_the_launch_from_python(route, pattern):
    y = np.zeros(N)
    ROUTES[route](pattern, y)
    assert_array_equal(y, wanted(pattern))


def test_float32_kernels_stay_float32():
    @njit
    def launch(x, y):
        pk.parallel_for(x.size, axpy, 0.1, x, y)
        return pk.parallel_reduce(x.size, value, x)

    x, y, z = X.astype(np.float32), np.zeros(N, np.float32), np.zeros(N, np.float32)
    total = launch(x, y)
    with pk.use("serial"):
        pk.parallel_for(N, axpy, 0.1, x, z)
        assert total == pk.parallel_reduce(N, value, x)
    assert_array_equal(y, z)
    assert launch.nopython_signatures[0].return_type == types.float32


def test_kernels_reducers_and_views_as_arguments():
    @njit
    def launch(kernel, reducer, x):
        return pk.parallel_reduce(x.size, kernel, x, reducer=reducer)

    x = pk.copy_of(X, space="serial")
    with pk.use("serial"):
        for reducer in (pk.Sum, pk.Max):
            assert launch(value, reducer, x) == pk.parallel_reduce(N, value, x, reducer=reducer)


PROGRAM = """
    import os
    import numba
    import numpy as np
    import portable as pk
    from kernels import twice

    pk.numba.register()

    @numba.njit(cache=True)
    def launch(x):
        pk.parallel_for(x.size, twice, x)
        return pk.parallel_reduce(x.size, twice, x)

    x = np.ones(100_000)
    total = launch(x)
    child = os.fork()
    if not child:
        os._exit(launch(np.ones(100_000)) != total)
    assert os.waitpid(child, 0)[1] == 0
    print(total, sum(launch.stats.cache_hits.values()), numba.threading_layer())
"""
KERNELS = """
    import portable as pk

    @pk.kernel
    def twice(i, x):
        x[i] = 2.0 * x[i]
        return x[i]
"""


def test_a_fresh_process_finds_numba_s_cache_and_a_fork_launches(program, tmp_path):
    """This holds also if another threading layer is chosen than when the code was made."""
    (tmp_path / "kernels.py").write_text(textwrap.dedent(KERNELS))
    for layer, hits in (("omp", 0), ("omp", 1), ("workqueue", 1)):
        assert program(PROGRAM, NUMBA_THREADING_LAYER=layer).split() == ["400000.0", str(hits), layer]


def test_code_of_a_changed_text_is_not_taken_from_numba_s_cache(program, tmp_path):
    """A kernel and a function are in another file than the caller: numba checks only the caller's file."""
    text = """
        import numba
        import numpy as np
        import portable as pk
        import changed

        pk.numba.register()

        @numba.njit(cache=True)
        def launch(x):
            pk.parallel_for(x.size, changed.kernel, x)
            return changed.function(x[0])

        x = np.ones(3)
        print(launch(x), x[1], sum(launch.stats.cache_hits.values()))
    """
    for step, c, hits in ((2, 1.0, 0), (3, 1.0, 0), (3, 5.0, 0)):
        (tmp_path / "changed.py").write_text(
            textwrap.dedent(f"""
            import portable as pk
            C = {c}

            @pk.function
            def function(x):
                return {step} * x

            @pk.kernel
            def kernel(i, x):
                x[i] += function(C)
        """)
        )
        x = 1.0 + step * c
        assert program(text, "caller.py").split() == [str(step * x), str(x), str(hits)]


def _not_a_number(a, b):
    return [a, b]


IN_PYTHON = pk.Reducer("in_python", _not_a_number, 0)

WRONG = [
    (
        lambda x: pk.parallel_reduce(x.size, value, x, reducer=IN_PYTHON),
        LanguageError,
        r"test_launches.py:\d+.*a list is not supported in kernels",
    ),
    (
        lambda x: pk.parallel_for(x.size, value, x, x),
        ShapeError,
        r"takes 1 argument\(s\) \(x\), but 2 were given",
    ),
    (
        lambda x: pk.parallel_for(x.size, np.sum, x),
        LanguageError,
        "expected a function marked with @pk.kernel",
    ),
    (lambda x: pk.parallel_for(1.5, value, x), InputError, "policy is numba's float64"),
    (lambda x: pk.parallel_for(-1, axpy, 1.0, x, x), InputError, "negative extent"),
    (lambda x: pk.parallel_for(pk.RangePolicy(3, 1), axpy, 1.0, x, x), InputError, "begin <= end"),
    (
        lambda x: pk.parallel_for(pk.RangePolicy(0, 1, space="serial"), axpy, 1.0, x, x),
        InputError,
        "space= is not accepted inside",
    ),
    (lambda x: pk.parallel_reduce(x.size, value, x, reducer=sum), DTypeError, "reducer is numba's"),
    (lambda x: pk.parallel_reduce(x.size, value, x, out=x), InputError, "out= is not accepted inside"),
    (
        lambda x: pk.parallel_reduce(pk.MDRangePolicy((0, 0), (2, 2)), outer, x, x, reducer=pk.MinLoc),
        InputError,
        "launch this box from Python",
    ),
    (lambda x: pk.parallel_for(pk.TeamPolicy(2), with_scratch, A, x), InputError, "scratch_bytes="),
    (lambda x: pk.parallel_for(3, axpy, 1j, x, x), DTypeError, "argument 'a'.*complex128"),
    (lambda x: pk.parallel_reduce(3, turned, x), DTypeError, "launch sums of complex numbers"),
    (lambda x: pk.parallel_scan(11, value, x, out=x), ShapeError, "indices outside"),
    (lambda x: pk.parallel_scan(pk.RangePolicy(-1, 3), value, x, out=x), ShapeError, "indices outside"),
    (
        lambda x: pk.parallel_scan(3, value, x, out=A),
        ShapeError,
        "out: expected a one-dimensional, writable",
    ),
    (lambda x: pk.parallel_for(3, axpy, "a", x, x), DTypeError, r"test_launches.py:\d+.*argument 'a'"),
]


test_what_is_wrong_is_refused_by_name = refusals(WRONG, lambda launch: njit(launch)(np.zeros(10)))


def test_a_view_of_a_device_is_refused():
    from ..backends.toy import Toy

    pk.register("numba_toy", Toy())
    view = pk.zeros(3, space="numba_toy")
    with pytest.raises(SpaceError, match="cannot reach it|cannot reach: "):
        njit(lambda v: v[0])(view)
