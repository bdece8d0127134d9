"""Test errors of wrong launches, policies, spaces and views: the exception's type and the words of its
message.
"""

import contextlib
import functools

import numpy as np
import pytest

import portable as pk
from portable.errors import (
    CheckError,
    DTypeError,
    InputError,
    LanguageError,
    LoweringError,
    OutOfMemoryError,
    PortableError,
    SpaceUnavailableError,
    SourceError,
    UnknownSpaceError,
    WrongSpaceError,
)
from portable.core.places.space import unavailable_because

from ..processes import python
from ..launching import move
from .wrong_kernels import entry, fill

pytestmark = pytest.mark.usefixtures("serial")
X = np.array([3.0, 1.0, 2.0])
# object marked as a kernel, words of the message
NOT_FUNCTIONS = [
    (lambda i, x: None, "lambda.*def"),
    (dict, "plain Python function.*dict"),
    (len, "plain Python function.*len"),
    (functools.partial(print), "plain Python function.*partial"),
    (3, "plain Python function.*3"),
]


@pytest.mark.parametrize("thing, words", NOT_FUNCTIONS)
@pytest.mark.parametrize("mark", [pk.kernel, pk.function])
def test_only_plain_functions_are_kernels(mark, thing, words):
    with pytest.raises(LanguageError, match=words):
        mark(thing)


def generator(i, x):
    yield x[i]


def with_name(i, *, x):
    pass


def with_star(i, *x):
    pass


def without_parameters():
    pass


@pytest.mark.parametrize(
    "function", [generator, with_name, with_star, without_parameters], ids=lambda f: f.__name__
)
def test_signatures_that_kernels_do_not_have(function):
    with pytest.raises(
        LanguageError, match=rf"kernel '{function.__name__}' \(.*test_wrong_launches.py:\d+\)"
    ):
        pk.parallel_for(3, pk.kernel(function), X)


def test_a_kernel_without_source_is_refused():
    scope = {"pk": pk}
    exec("@pk.kernel\ndef typed_in(i, x):\n    x[i] = 1.0\n", scope)
    with pytest.raises(SourceError, match="kernel 'typed_in'.*source.*@pk.kernel.source=text"):
        pk.parallel_for(3, scope["typed_in"], X)


def test_a_text_is_handed_over():
    text = "\n@pk.function(source=text)\ndef f(v):\n    return v * 2\n\n"
    text += "@pk.kernel(source=text)\ndef typed_in(i, x):\n    x[i] = f(3.0)\n"
    scope, x = {"pk": pk, "text": text}, np.ones(3)
    exec(text, scope)
    pk.parallel_for(3, scope["typed_in"], x)
    assert x.tolist() == [6.0] * 3


def test_a_prompt_s_text_is_in_linecache_or_nowhere():
    text = "import portable as pk\n@pk.kernel\ndef k(i): return i\n\npk.parallel_reduce(4, k)\n"
    done = python("-", input=text, check=False)
    assert "what is piped in, keep none; put it in a file" in done.stderr


def test_a_command_line_s_text_is_read():
    text = "import portable as pk\n@pk.kernel\ndef k(i): return i\nprint(pk.parallel_reduce(4, k))\n"
    done = python("-c", text)
    assert done.stdout == "6\n"


@pytest.mark.parametrize("name", ["gpu", "", "Serial", "cuda:x", "threads:0", "threads:x", "serial:2"])
def test_unknown_spaces(name):
    for action in (
        lambda: pk.zeros(3, "float64", space=name),
        lambda: pk.fence(name),
        lambda: pk.use(name).__enter__(),
        lambda: pk.parallel_for(pk.RangePolicy(0, 3, space=name), fill, 1.0, X),
    ):
        with pytest.raises(UnknownSpaceError, match="serial, threads, numba, cuda, checked"):
            action()


def test_a_missing_device_says_why():
    if unavailable_because("cuda") is None:
        pytest.skip("a CUDA device is present")
    with pytest.raises(SpaceUnavailableError, match="cuda"):
        pk.parallel_for(pk.RangePolicy(0, 3, space="cuda"), fill, 1.0, X)


def test_numpy_arrays_are_refused_on_cuda():
    if unavailable_because("cuda") is not None:
        pytest.skip("no CUDA device")
    with pytest.raises(
        WrongSpaceError, match=r"kernel 'fill' \(.*wrong_kernels.py:\d+\): argument 'x'.*NumPy.*deep_copy"
    ):
        pk.parallel_for(pk.RangePolicy(0, 3, space="cuda"), fill, 1.0, X)


# arguments of fill(i, value, x), exception, words
WRONG_ARGUMENTS = [
    ((1.0,), InputError, "2.*1"),
    ((1.0, X, 2.0), InputError, "2.*3"),
    ((1.0, "text"), DTypeError, "'x'.*str"),
    ((1.0, None), LoweringError, "`x` is None"),
    ((1.0, [1.0, 2.0, 3.0]), DTypeError, "'x'.*list"),
    ((1.0, {"a": 1}), DTypeError, "'x'.*dict"),
    ((1 + 2j, X), LoweringError, "'x'.*complex"),
    ((1.0, np.zeros(3, "datetime64[s]")), DTypeError, "'x'.*datetime64"),
    ((1.0, np.ones(3, np.clongdouble)), DTypeError, "'x'.*complex"),
    ((1.0, np.array(["a", "b", "c"])), DTypeError, "'x'"),
    ((1.0, np.array([1, 2, 3], object)), DTypeError, "'x'.*object"),
    ((1.0, np.ones(3, ">f8")), DTypeError, "'x'"),
    ((2**64, X), InputError, "'value'"),
]


@pytest.mark.parametrize("args, exception, words", WRONG_ARGUMENTS)
def test_wrong_arguments(args, exception, words):
    for space in ("checked", "serial", "threads"):
        for launch in (pk.parallel_for, pk.check):
            with pytest.raises(exception, match=f"kernel 'fill'.*wrong_kernels.py:.*{words}"):
                launch(pk.RangePolicy(0, 3, space=space), fill, *args)


def test_a_plain_function_is_not_launched(space):
    def plain(i, x):
        x[i] = 1.0

    with pytest.raises(LanguageError, match="'plain'.*@pk.kernel"):
        pk.parallel_for(pk.RangePolicy(0, 3, space=space), plain, move(X, space))


WRONG = "x", None, 1.5, -1, [], object(), np.inf, int, X, memoryview(X)
TAKEN = [  # function, and arguments that it takes
    (pk.pinned, 3, "int8"),
    (pk.create_mirror, pk.asview(X)),
    (pk.create_mirror_view, pk.asview(X)),
    (lambda out: pk.parallel_reduce(3, entry, X, out=out), X[:1]),
    (lambda *given: pk.count(3, entry, X, reducer=given[0], build=given[1]), pk.Sum, "text"),
    (lambda reducer: pk.check(3, entry, X, reducer=reducer), pk.Sum),
    (lambda of: pk.adjoint(3, fill, 1.0, X, wrt="value", of=of), {"x": X}),
    (lambda of: pk.adjoint(3, fill, 1.0, X, wrt="value", of={"x": of}), X),
    (lambda out: pk.parallel_scan(3, entry, X, out=out), X),
    (functools.partial(pk.Reducer, "Own", entry.fn), 0.0),
    (pk.RangePolicy, 1, 2),
    (pk.gcd, 3, 6),
    (pk.norm, X),
    *((word, 1.0) for word in (pk.exp, pk.gamma, pk.isnan, pk.bits)),
    (lambda source: pk.parallel_for(3, pk.kernel(source=source)(fill.fn), 1.0, X), None),
    *((getattr(pk.random, name), 1, 2, 3, 4) for name in "randint poisson gamma".split()),
    *((getattr(pk.random, name), 1, 2, 3, X) for name in "categorical permutation".split()),
]


@pytest.mark.parametrize("function", TAKEN)
def test_an_argument_of_a_wrong_kind_is_refused_by_the_layer(function):
    """It is taken, or refused in an error of portable, not from inside of Python or NumPy."""
    function, *taken = function
    function(*taken)
    for k in range(len(taken)):
        for wrong in WRONG:
            with contextlib.suppress(PortableError):
                function(*taken[:k], wrong, *taken[k + 1 :])


# function that makes a policy, or makes or copies a view; exception, words
WRONG_CALLS = [
    (pk.RangePolicy, DTypeError, r"begin.*pk\.TeamPolicy\(n\)"),
    (pk.TeamPolicy, DTypeError, r"league_size.*None.*pk\.TeamPolicy\(n\)"),
    (pk.MDRangePolicy, InputError, "begin.*None"),
    (lambda: pk.RangePolicy(5, 3), InputError, "5.*3"),
    (lambda: pk.RangePolicy(0, 2.5), DTypeError, r"end.*2\.5.*float"),
    (lambda: pk.RangePolicy(0, True), DTypeError, "end.*True"),
    (lambda: pk.RangePolicy(0, 2**70), InputError, "end.*range"),
    (lambda: pk.RangePolicy(-(2**63), 0), InputError, "begin.*range"),
    (lambda: pk.MDRangePolicy((0, 0), (2, 1.5)), DTypeError, r"end\[1\].*1\.5.*float"),
    (lambda: pk.MDRangePolicy((0, 3), (2, 1)), InputError, r"begin\[1\] is 3.*end\[1\] is 1"),
    (lambda: pk.MDRangePolicy((0, 0), (2**40, 2**40)), InputError, f"number of indices.*{2**80}"),
    (lambda: pk.MDRangePolicy((0,), (2,)), InputError, "2 to 4"),
    (lambda: pk.TeamPolicy(-1), InputError, "league_size.*-1"),
    (lambda: pk.TeamPolicy(2, 0), InputError, "team_size.*0"),
    (lambda: pk.TeamPolicy(2, 2.0), DTypeError, r"team_size.*2\.0"),
    (lambda: pk.TeamPolicy(2, scratch_bytes=-8), InputError, "scratch_bytes.*-8"),
    (lambda: pk.Threads(0), InputError, "0"),
    (lambda: pk.parallel_for(pk.RangePolicy(0, 3, space=3), fill, 1.0, X), UnknownSpaceError, "3.*int"),
    (lambda: pk.parallel_for(-1, fill, 1.0, X), InputError, "-1"),
    (lambda: pk.parallel_for(2.0, fill, 1.0, X), DTypeError, r"2\.0"),
    (lambda: pk.parallel_for(X, fill, 1.0, X), DTypeError, "policy must be an integer.*ndarray"),
    (lambda: pk.parallel_for("3", fill, 1.0, X), DTypeError, r"'3'.*pk\.RangePolicy\(0, n\)"),
    (lambda: pk.parallel_reduce(3, entry, X, reducer=sum), PortableError, "reducer"),
    (lambda: pk.parallel_reduce(3, entry, X, reducer=()), PortableError, "reducer"),
    (lambda: pk.zeros((2, -1), "float64"), InputError, "-1"),
    (lambda: pk.zeros((2, 2.5), "float64"), InputError, r"2\.5"),
    (lambda: pk.zeros((1,) * 7, "float64"), InputError, "6"),
    (lambda: pk.zeros(3, "datetime64[s]"), DTypeError, "datetime64"),
    (lambda: pk.zeros(3, "no such"), DTypeError, "no such"),
    (lambda: pk.asview([1.0, 2.0]), InputError, "list"),
    (lambda: pk.deep_copy(pk.zeros(3, "float64"), pk.zeros(4, "float64")), InputError, "3.*4"),
    (lambda: pk.parallel_scan(pk.RangePolicy(-2, 1), entry, X, out=X), InputError, "from 0 on"),
    (lambda: pk.count(3, entry, X, X[:2], reducer=pk.Sum, scan="inclusive"), InputError, "out"),
]


@pytest.mark.parametrize("make, exception, words", WRONG_CALLS)
def test_wrong_policies_and_views(make, exception, words):
    with pytest.raises(exception, match=words):
        make()


@pk.kernel
def fill_scratch(team, n, x):
    s = team.scratch(n, x.dtype)
    for j in team.thread_range(n):
        s[j] = 1.0
    if team.single():
        x[team.league_rank] = s[0]


@pk.kernel
def known_scratch(team, x):
    s = team.scratch(100_000_000, x.dtype)
    s[team.rank] = 1.0
    x[team.league_rank] = s[0]


@pk.kernel
def large_local(i, x):
    v = pk.local(100_000_000, x.dtype)
    v[i] = 1.0
    x[i] = v[i]


def test_more_scratch_than_a_team_can_have(space):
    """The message states the requested and the available size."""
    if space == "checked":
        pytest.skip("memory is the only limit of plain Python")
    x = move(np.zeros(4), space)
    with pytest.raises(
        InputError, match=r"kernel 'fill_scratch': 8000000000 bytes of scratch; a team .* at most \d+"
    ):
        pk.parallel_for(pk.TeamPolicy(4, space=space, scratch_bytes=8 * 10**9), fill_scratch, 10**9, x)
    with pytest.raises(
        InputError, match=r"kernel 'known_scratch': 800000000 bytes of scratch; a team .* at most \d+"
    ):
        pk.parallel_for(pk.TeamPolicy(4, space=space), known_scratch, x)


def test_a_team_larger_than_the_device_has(space):
    if not space.startswith(("cuda", "checked")):
        pytest.skip("a CPU's team has the size of a pack, whatever was asked")
    with pytest.raises(InputError, match="team_size 4096 is beyond .*limit of 1024"):
        pk.parallel_for(pk.TeamPolicy(1, 4096, space=space), fill_scratch, 1, move(np.zeros(4), space))


def test_scratch_beyond_what_was_asked_for_is_found_in_plain_python():
    with pytest.raises(
        CheckError,
        match=r"kernel 'fill_scratch' .* uses 8000 bytes of scratch, but the team has 64; .*scratch_bytes",
    ):
        pk.parallel_for(pk.TeamPolicy(4, space="checked", scratch_bytes=64), fill_scratch, 1000, np.zeros(4))
    pk.parallel_for(pk.TeamPolicy(4, space="checked", scratch_bytes=8000), fill_scratch, 1000, np.zeros(4))


def test_local_arrays_have_a_limit(space):
    with pytest.raises(
        LoweringError,
        match=(
            r"large_local.*pk.local\(100000000, x.dtype\)`: arrays of 800000000 bytes for each index; at most"
        ),
    ):
        pk.parallel_for(pk.RangePolicy(0, 4, space=space), large_local, move(np.zeros(4), space))


def test_no_room_says_what_was_asked_for(space):
    with pytest.raises(OutOfMemoryError, match="no room for (the )?281,474,976,710,656 bytes"):
        pk.empty(2**45, space=space)


def test_empty_policies_do_nothing(space):
    x = move(np.zeros(4), space)
    for begin in (3, 0):
        pk.parallel_for(pk.RangePolicy(begin, begin, space=space), fill, 1.0, x)
    pk.parallel_for(pk.TeamPolicy(0, space=space, scratch_bytes=64), fill_scratch, 8, x)
    for box in ((0, 5), (5, 0), (0, 2**61), (2**61, 0)):
        pk.parallel_for(pk.MDRangePolicy((0, 0), box, space=space), fill_box, 1.0, x)
    assert pk.parallel_reduce(pk.RangePolicy(2, 2, space=space), entry, x) == 0.0
    nothing = move(np.zeros(0), space)
    assert pk.parallel_scan(pk.RangePolicy(0, 0, space=space), entry, nothing, out=nothing) == 0.0
    pk.deep_copy(pk.asview(nothing), pk.zeros(0, space=space))
    np.testing.assert_array_equal(pk.asview(x).to_numpy(), 0.0)


@pk.kernel
def fill_box(i, j, value, x):
    x[j] = value
