"""Test the handling of a launch's arguments: by their types, and of indices of any size."""

import collections

import numpy as np
import pandas
import pytest

import portable as pk
from portable.core.launch import dispatch

MOST = 1024  # limit of stored types


@pk.kernel
def count_from(i, begin, out):
    out[i - begin] += 1


@pk.kernel
def add_own(i, x, out):
    out[i] += x[i]


@pytest.mark.parametrize("begin", [-(2**40) - 3, -(2**31) - 2, -(2**31) + 1, 2**31 - 9, 2**31, 2**40 + 1])
def test_indices_far_from_zero_reach_compiled_code_whole(begin):
    out = np.zeros(9, np.int64)
    pk.parallel_for(pk.RangePolicy(begin + 1, begin + 8, space="serial"), count_from, begin, out)
    assert out.tolist() == [0, *[1] * 7, 0]


class Lent:
    """Array of another library, which counts the requests for its memory."""

    def __init__(self, elements):
        self.elements, self.shares, self.asked = elements, True, 0

    def __array__(self, dtype=None, copy=None):
        self.asked += 1
        return self.elements if self.shares else self.elements.copy()


def test_an_array_is_asked_once_whether_it_shares_its_memory_and_each_time_where_that_is():
    """The library may move the array's elements, or begin to return copies."""
    lent, out, policy = Lent(np.arange(4)), np.zeros(4, np.int64), pk.RangePolicy(0, 4, space="serial")
    pk.parallel_for(policy, add_own, lent, out)
    lent.asked = 0
    pk.parallel_for(policy, add_own, lent, out)
    assert lent.asked == 1
    before, lent.elements = lent.elements, np.full(4, 10)
    pk.parallel_for(policy, add_own, lent, out)
    assert out.tolist() == (2 * before + 10).tolist()
    lent.shares = False
    with pytest.raises(pk.DTypeError, match="'x': Lent shares no memory"):
        pk.parallel_for(policy, add_own, lent, out)
    other = Lent(lent.elements)
    other.shares = False
    with pytest.raises(pk.DTypeError, match="'x': Lent shares no memory"):
        pk.parallel_for(policy, add_own, other, out)


def test_arrays_of_other_libraries_are_arguments_where_they_share_memory():
    series, out = pandas.Series(np.arange(5, dtype=np.int64)), np.zeros(5, np.int64)
    pk.parallel_for(pk.RangePolicy(0, 5, space="serial"), add_own, series, out)
    assert out.tolist() == [0, 1, 2, 3, 4]
    frame = pandas.DataFrame({"a": series, "b": 0.5 * series})
    with pytest.raises(
        pk.DTypeError, match="'x': DataFrame shares no memory; pass one column, .* a copy: v = pk.asview"
    ):
        pk.parallel_for(pk.RangePolicy(0, 5, space="serial"), add_own, frame, out)


class Sometimes:
    """Arrays of a type of which some are on a GPU and others are not, as in PyTorch."""

    def __init__(self, **interface):
        self.__dict__.update(interface)


def test_what_one_argument_of_a_type_was_says_nothing_of_the_next():
    on_host, out = Sometimes(), np.zeros(2)
    for given in (on_host, Sometimes(__cuda_array_interface__={"data": (0, False)}), on_host):
        with pytest.raises(pk.PortableError) as error:
            pk.parallel_for(pk.RangePolicy(0, 2, space="serial"), count_from, given, out)
        assert ("is not a kernel argument" in str(error.value)) == (given is on_host)


def test_types_made_in_a_loop_are_let_go_of():
    for _ in range(MOST + 9):
        pair = collections.namedtuple("Pair", "x y")(1.0, 2)
        assert dispatch._describe((pair,))[0][0][2] == ("x", "y")
    assert len(dispatch._of_type) <= MOST


def test_parts_of_records_are_packed_as_the_kernel_computes():
    pair = collections.namedtuple("Pair", "a b")
    got = {}
    for dtype in (np.float32, np.float64):
        x = np.zeros(3, dtype)
        pk.parallel_for(pk.RangePolicy(0, 3, space="serial"), add_parts, pair(0.1, (3, 1e300)), x)
        got[dtype] = x[0]
    assert got[np.float32] == np.inf and got[np.float64] == 0.1 + 3.0 + 1e300


@pk.kernel
def add_parts(i, pair, x):
    x[i] = pair.a + pair.b[0] + pair.b[1]
