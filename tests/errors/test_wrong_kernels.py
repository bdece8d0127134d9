"""Test errors of wrong kernels: the exception's type, the words of its message, and the line that it
names."""

import inspect
import traceback

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import portable as pk
from portable.errors import KernelError, LanguageError, LoweringError, PortableError

from ..fuzz.program import load
from ..launching import move, space as space
from . import wrong_kernels as wrong
from .wrong_kernels import TABLE, X


@pytest.mark.parametrize("kernel, exception, words, args, marked", TABLE, ids=[row[0].name for row in TABLE])
def test_wrong_text(space, kernel, exception, words, args, marked):
    if space == "cuda" and any(arg is wrong.READ_ONLY for arg in args):
        pytest.skip("a copy on the device can be written")
    of_teams = next(iter(inspect.signature(kernel.fn).parameters)) == "team"
    lines, first = inspect.getsourcelines(marked.fn)
    (line,) = (first + k for k, text in enumerate(lines) if "# wrong" in text)
    with pytest.raises(exception, match=rf"(?i)kernel '{kernel.name}'.*wrong_kernels.py:{line}\).*{words}"):
        pk.parallel_for(pk.TeamPolicy(2) if of_teams else 5, kernel, *(move(arg, space) for arg in args))


def test_a_function_returns_on_every_path(space):
    words = r"'stores_sometimes' \(.*wrong_kernels.py:\d+\): 'sometimes' returns nothing on some paths"
    with pytest.raises(LanguageError, match=words):
        pk.parallel_for(5, wrong.stores_sometimes, move(X, space))


@pytest.mark.parametrize("n", [0, 5])
def test_a_wrong_kernel_is_refused_for_any_size(space, n):
    with pytest.raises(KernelError):
        pk.parallel_for(n, wrong.stores_a_string, move(X, space))


def test_nothing_is_written_before_a_kernel_is_refused(space):
    x = move(X, space)
    with pytest.raises(PortableError):
        pk.parallel_for(5, wrong.calls_the_system, x)
    assert_array_equal(x if isinstance(x, np.ndarray) else x.to_numpy(), X)


@pytest.mark.parametrize(
    "kernel, message",
    [
        (wrong.returns_nothing, "got nothing"),
        (wrong.returns_sometimes, "on some paths"),
        (wrong.returns_two, r"expected 1 number.s., got 2"),
        (wrong.returns_a_row, "got an array; return an element, or its .sum"),
    ],
)
def test_a_reduction_wants_a_number_on_every_path(space, kernel, message):
    with pytest.raises(LanguageError, match=rf"{kernel.name}' \(.*wrong_kernels.py:\d+\).*{message}"):
        pk.parallel_reduce(5, kernel, move(X, space))


def test_and_or_give_what_python_gives_or_are_refused(space):
    k = move(np.array([0, 3, 0, 7, 1]), space)
    try:
        pk.parallel_for(5, wrong.takes_a_number_from_and, k)
    except KernelError as error:
        assert "takes_a_number_from_and" in str(error)
    else:
        assert_array_equal(np.asarray(k if isinstance(k, np.ndarray) else k.to_numpy()), [0, 5, 0, 5, 5])


def test_a_function_that_gives_nothing_has_no_place_for_a_sum(space):
    with pytest.raises(LanguageError, match=r"'adds_in_vain' \(.*wrong_kernels.py:\d+\): `s \+= v`"):
        pk.parallel_for(5, wrong.adds_by_a_function, move(X, space), 0.0)


def test_a_kernel_that_writes_and_returns_is_warned_of(space):
    """The kernel may also be used in parallel_reduce; pk.check ignores the returned value."""
    policy, x = 5, move(X, space)
    kernel = pk.kernel(wrong.writes_and_returns.fn)
    with pytest.warns(
        RuntimeWarning, match=r"'writes_and_returns' \(.*wrong_kernels.py:\d+\): parallel_for drops"
    ):
        kernel.portable_text  # noqa: B018  (code that is on disk was warned of before)
        pk.parallel_for(policy, kernel, x)
    assert pk.parallel_reduce(policy, kernel, x) == 15.0
    assert pk.check(5, wrong.returns_from_parallel_for, X).ok


@pytest.mark.parametrize(
    "reducer", [(pk.Sum, pk.Max), (pk.Sum, pk.Sum), pk.Max, pk.MaxLoc, pk.LogSumExp, "Pair"]
)
def test_a_complex_number_is_one_contribution(space, reducer):
    z, reducer = move(np.arange(4) + 1j, space), wrong.Pair if reducer == "Pair" else reducer
    with pytest.raises(LanguageError, match=r"'a_complex_number' .* got 1 value\(s\), among them a complex"):
        pk.parallel_reduce(4, wrong.a_complex_number, z, reducer=reducer)
    lifted = pk.Reducer("Lifted", wrong.pairs_added, (0.0, 0.0), wrong.parts_of)
    args = 4, wrong.a_complex_number, z
    assert pk.parallel_reduce(*args, reducer=lifted) == (6.0, 4.0)
    assert pk.parallel_reduce(*args) == 6 + 4j


def test_variables_have_the_users_names(space):
    """Variables of one name differ only inside the compiler."""
    with pytest.raises(LoweringError, match=r"`pk.int32\(2\) \+ t`: int32 meets uint32"):
        pk.parallel_for(5, wrong.reuses_a_name, move(X, space))


REMEDIES = r"""
x[i] = divmod(x[i], 2)[0]
    write a // b, a % b
x[i] = (1, 2)[n := i]
    ':='.* on a line of its own
x[i] = [1, 2][0]
    a list.*write a tuple, or a pk.local
x[i] = sum([v for v in x])
    write a loop
f = lambda v: v
    with @pk.function
a, *b = (1, 2, 3)
    take a part of the tuple
x[i] = 1 if i in (1, 2) else 0
    write `a == b or a == c`
x[i] = pk.sinn(x[i])
    there are sin,
for k in reversed(range(3)): x[i] = k
    counts down
for j in i.thread_range(3): x[j] = 1
    launched with a pk.TeamPolicy
x[i] = pk.local(x.shape[0], pk.float64)[0]
    pk.static\(n\)
row = x[:2]; row *= 2
    change elements by
x.append(1)
    views have .sum
v = np.zeros(3); x[i] = v[0]
    pk.local.shape, dtype. an array
x[i] = np.sinc(x[i])
    a @pk.function of .*sin,
x[i] = f'{i}'
    a string
raise ValueError(1)
    write an assert
x[i] = x[i + 0.5]
    not an integer; indices are integers
for k in range(2.5): x[i] = k
    cuts it off
del x
    del is not supported
x[i] = pk.int32(3) + pk.uint32(2)
    cast one of them, for example pk.uint32
x[:] = x[i] @ x[i]
    arrays of one or two dimensions|a number
x[i] = len(i)
    len wants one view or tuple
x[i] = max(x, key=3)
    keyword arguments are for functions marked with @pk.function
global X
    write to an element of an argument
with open('f') as f: x[i] = 1
    write to an array
x[i] = 1 if x else 0
    expected a condition
return x[i]
    launch with pk.parallel_reduce
x[i] = i.shape[0]
    a number has no attribute 'shape'
x[i] = pk.local(3)[0]
    local takes a shape and a dtype
x[i] = pk.float32
    expected a number for an element
y = x[i]; y[0] = 1
    only views and tuples are indexed
x[i] = x[i] ^ 2
    a power is written ..
x[i] = x(i)
    an element is x\[i\]
x[i] = float('inf')
    write math.inf
x[x < 0] = 0
    such as an element
x[i] = x.sum(axis=0)
    of all elements
x[i] = i < None
    expected a number
x[i] = np.mean(x)
    a mean is x.sum.. / x.size
for v in x[i]: x[i] = v
    runs over range
x[i] = pk.where(x[i] > 0.0, 1.0)
    3 argument.*2 were given
x[i] = x.mean
    'mean'.*shape
x[i] = dict.__dict__
    got mappingproxy.{48}$
x[i] = np.sign(x[i])
    pk\.where\(x == 0, x, pk\.copysign
x[i] = math.factorial(i)
    round\(pk\.gamma\(n \+ 1\.0\)\)
x[i] = pk.prange(3)
    does not exist; .* loop over range
x[i] = x[i].astype('float32')
    write pk\.float32\(v\)
with i.single(): x[i] = 1
    `if team\.single
x[...] = 0
    write x\[:\]
x[i] = pk.local(3, 'complex64')[0]
    a dtype is pk\.float32
x[i] = self.a
    'self' is not defined.*no method
x[i] = pk.cos(x)
    an array: take an element, or assign to a slice
x[i] = pk.random.uniform(1, i)
    3 argument\(s\) \(seed, stream, draw\), but 2
for k in range(3, step=2): x[i] = k
    others take positions
pk.atomic_add(x, -1, 1.0)
    index -1 is outside 'x'
x[i] = pk.derivative(pk.exp, x)
    it is for the host
""".strip().splitlines()
REMEDIES = dict(zip(REMEDIES[::2], map(str.strip, REMEDIES[1::2]))) | {
    "while x[i] > 0: x[i] -= 1\n    else: x[i] = 3": "set a variable before `break`",
    "match i:\n        case 0: x[i] = 1": "write if and elif",
}


@pytest.mark.parametrize("line, remedy", REMEDIES.items(), ids=REMEDIES)
def test_a_refusal_says_what_to_write(line, remedy):
    """Also if the code is on disk, from the first try."""
    for name in ("serial", "serial", "checked"):
        kernel = load(
            f"import math\nimport numpy as np\nimport portable as pk\n@pk.kernel\ndef k(i, x):\n    {line}\n",
            f"<remedy {line}>",
        )["k"]
        with pytest.raises(KernelError, match=remedy):
            pk.parallel_for(pk.RangePolicy(0, 5, space=name), kernel, X)


def test_a_kernel_is_no_method_and_has_the_policy_s_indices():
    text = "import portable as pk\n\n\n@pk.kernel\ndef k({}):\n    x[0] = 1\n"
    for params, policy, x, message in (
        ("self, x", 5, X, "@staticmethod"),
        ("i, j, x", 5, X, "pk.MDRangePolicy"),
        ("i, j, x", (5, 5), X, "pk.MDRangePolicy"),
        ("i, x", pk.MDRangePolicy((0, 0), (5, 5)), X, "a pk.MDRangePolicy one for each dimension"),
        ("i, x", 5, np.zeros(3, [("a", float)]), "array\\['name'\\]"),
        ("i, x", 5, np.zeros(3, "M8[s]"), "view\\('int64'\\)"),
    ):
        kernel = load(text.format(params), f"<params {params}>")["k"]
        with pytest.raises(PortableError, match=message):
            pk.parallel_for(policy, kernel, x)


def test_a_mistake_takes_few_lines_to_show(space):
    """A traceback omits the frames of the layer."""
    for kernel, arrays in ((wrong.too_many_indices, (X,)), (wrong.reads_behind_the_end, (X, X))):
        if kernel is wrong.reads_behind_the_end and space != "checked":
            continue
        with pytest.raises(PortableError) as error:
            pk.parallel_for(5, kernel, *(move(a, space) for a in arrays))
        lines = "".join(traceback.format_exception(error.value)).splitlines()
        assert len(lines) <= 12 and "wrong_kernels.py:" in lines[-1]


def test_an_array_without_dimensions_is_a_number(space):
    text = "import portable as pk\n\n\n@pk.kernel\ndef k(i, a, x):\n    x[i] = a * -a + abs(a)\n"
    x = move(X, space)
    pk.parallel_for(5, load(text, "<0-d>")["k"], move(np.array(3.0), space), x)
    assert (x if isinstance(x, np.ndarray) else x.to_numpy()).tolist() == [-6.0] * 5
