"""Wrong kernels: the exception's type, the words of its message, and the line that it names."""

import inspect

import numpy as np
import pytest

import portable as pk
from portable.errors import KernelError, LanguageError, LoweringError, PortableError

from ..launching import move
from . import wrong_kernels as wrong

X = np.ones(5)
READ_ONLY = np.ones(5)
READ_ONLY.flags.writeable = False
MIXED = (X, np.ones(5, np.int64), np.ones(5, np.uint64))

# kernel, arguments, exception, words of the message
TABLE = [
    (wrong.stores_a_string, (X,), LanguageError, ["string"]),
    (wrong.makes_a_dict, (X,), LanguageError, ["dict"]),
    (wrong.makes_a_list, (X,), LanguageError, ["comprehension"]),
    (wrong.calls_the_system, (X,), LanguageError, ["os.getpid"]),
    (wrong.calls_unmarked, (X,), LanguageError, ["not_marked", "@pk.function"]),
    (wrong.uses_an_undefined_name, (X,), LanguageError, ["'undefined_factor' is not defined"]),
    (wrong.uses_before_assignment, (X,), LanguageError, ["'late'", "before"]),
    (wrong.uses_an_outside_array, (X,), LanguageError, ["outside", "argument"]),
    (wrong.adds_a_view, (X,), LoweringError, ["view", "number"]),
    (wrong.too_many_indices, (X,), LoweringError, ["'x'", "1 dimension", "2 indices"]),
    (wrong.indexes_by_a_float, (X,), LoweringError, ["integer"]),
    (wrong.asks_for_a_missing_attribute, (X,), LanguageError, ["'mean'", "shape"]),
    (wrong.loops_over_a_view, (X,), LanguageError, ["range"]),
    (wrong.tries, (X,), LanguageError, ["try"]),
    (wrong.opens_a_context, (X,), LanguageError, ["with"]),
    (wrong.defines_a_function, (X,), LanguageError, ["nested function"]),
    (wrong.imports, (X,), LanguageError, ["import"]),
    (wrong.passes_a_keyword, (X,), LanguageError, ["keyword"]),
    (wrong.forgets_an_argument, (X,), LoweringError, ["3 argument", "2 were given"]),
    (wrong.recurses, (X,), LanguageError, ["'forever' calls itself"]),
    (wrong.unpacks_too_much, (X,), LoweringError, ["3 values", "a, b, c"]),
    (wrong.mixes_signs, MIXED, LoweringError, ["int64", "uint64", "cast"]),
    (wrong.shifts_a_float, (X,), LoweringError, ["integers", "float64"]),
    (wrong.names_a_missing_word, (X,), LanguageError, ["no_such_word"]),
    (wrong.writes_to_the_first, (READ_ONLY, X), LoweringError, ["'x'", "read-only"]),
    (wrong.local_of_unknown_size, (X,), LoweringError, ["local", "compile time"]),
    (wrong.adds_a_number_too_large, (np.ones(5, np.int32),), LoweringError, ["4294967296", "int32"]),
    (wrong.index_as_team, (X,), LanguageError, ["league_rank"]),
]
TEAM_TABLE = [
    (wrong.barrier_for_some, (X,), LanguageError, ["barrier", "every member"]),
    (wrong.reduce_for_some, (X,), LanguageError, ["reduce", "every member"]),
    (wrong.reduces_by_a_number, (X,), LoweringError, ["`2.0` is not a reducer"]),
    (wrong.barrier_in_single, (X,), LanguageError, ["barrier", "every member"]),
    (wrong.barrier_in_a_ragged_loop, (X,), LanguageError, ["barrier", "every member"]),
    (wrong.barrier_after_some_left, (X,), LanguageError, ["barrier", "every member"]),
    (wrong.scratch_in_a_loop, (X,), LanguageError, ["scratch", "top level"]),
    (wrong.scratch_in_a_branch, (X,), LanguageError, ["scratch", "top level"]),
    (wrong.scratch_of_no_size, (X,), LoweringError, ["scratch", "positive"]),
    (wrong.asks_the_team_for_more, (X,), LanguageError, ["vector_length", "league_rank"]),
]


def line_of_the_mark(*kernels):
    for kernel in kernels:
        lines, first = inspect.getsourcelines(kernel.fn)
        found = [first + k for k, line in enumerate(lines) if "# wrong" in line]
        if found:
            return found[0]
    raise AssertionError("no line is marked")


def check(error, kernel, exception, words, line):
    message = str(error.value)
    assert isinstance(error.value, exception)
    for word in [f"kernel '{kernel.fn.__name__}'", f"wrong_kernels.py:{line})", *words]:
        assert word.lower() in message.lower()


def names(table):
    return [row[0].fn.__name__ for row in table]


@pytest.mark.parametrize("kernel, args, exception, words", TABLE, ids=names(TABLE))
def test_wrong_text(space, kernel, args, exception, words):
    if space == "cuda" and any(arg is READ_ONLY for arg in args):
        pytest.skip("a copy on the device can be written")
    with pytest.raises(KernelError) as error:
        pk.parallel_for(pk.RangePolicy(0, 5, space=space), kernel, *(move(arg, space) for arg in args))
    check(error, kernel, exception, words, line_of_the_mark(kernel, wrong.forever))


@pytest.mark.parametrize("kernel, args, exception, words", TEAM_TABLE, ids=names(TEAM_TABLE))
def test_wrong_team_text(space, kernel, args, exception, words):
    with pytest.raises(KernelError) as error:
        pk.parallel_for(pk.TeamPolicy(2, space=space), kernel, *(move(arg, space) for arg in args))
    check(error, kernel, exception, words, line_of_the_mark(kernel))


@pytest.mark.parametrize("n", [0, 5])
def test_a_wrong_kernel_is_refused_for_any_size(space, n):
    with pytest.raises(KernelError):
        pk.parallel_for(pk.RangePolicy(0, n, space=space), wrong.stores_a_string, move(X, space))


def test_nothing_is_written_before_a_kernel_is_refused(space):
    x = move(X, space)
    with pytest.raises(PortableError):
        pk.parallel_for(pk.RangePolicy(0, 5, space=space), wrong.calls_the_system, x)
    np.testing.assert_array_equal(x if isinstance(x, np.ndarray) else x.to_numpy(), X)


def test_a_reduction_wants_a_result(space):
    with pytest.raises(LanguageError, match=r"kernel 'returns_nothing' \(.*wrong_kernels.py:\d+\).*return"):
        pk.parallel_reduce(pk.RangePolicy(0, 5, space=space), wrong.returns_nothing, move(X, space))


def test_a_reduction_wants_a_result_on_every_path(space):
    with pytest.raises(LanguageError, match=r"kernel 'returns_sometimes' \(.*wrong_kernels.py:\d+\).*return"):
        pk.parallel_reduce(pk.RangePolicy(0, 5, space=space), wrong.returns_sometimes, move(X, space))


def test_and_or_give_what_python_gives_or_are_refused(space):
    k = move(np.array([0, 3, 0, 7, 1]), space)
    try:
        pk.parallel_for(pk.RangePolicy(0, 5, space=space), wrong.takes_a_number_from_and, k)
    except KernelError as error:
        assert "takes_a_number_from_and" in str(error)
    else:
        np.testing.assert_array_equal(
            np.asarray(k if isinstance(k, np.ndarray) else k.to_numpy()), [0, 5, 0, 5, 5]
        )


def test_a_reduction_wants_a_value_for_each_reducer(space):
    with pytest.raises(LanguageError, match=r"kernel 'returns_two' \(.*wrong_kernels.py:\d+\)"):
        pk.parallel_reduce(pk.RangePolicy(0, 5, space=space), wrong.returns_two, move(X, space))


def test_variables_have_the_users_names(space):
    """Those of one name are told apart inside the compiler alone."""
    with pytest.raises(LoweringError, match=r"`pk.int32\(2\) \+ t`: int32 meets uint32"):
        pk.parallel_for(pk.RangePolicy(0, 5, space=space), wrong.reuses_a_name, move(X, space))
