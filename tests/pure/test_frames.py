"""View columns of pandas, xarray, polars and pyarrow: the same memory if the library shares it."""

import numpy as np
import pandas
import pytest

import portable as pk

NUMBERS = [1.0, 2.0, 4.0]


MAKERS = {"pandas": "Series", "xarray": "DataArray", "polars": "Series", "pyarrow": "array"}


def made(library, values):
    return getattr(pytest.importorskip(library), MAKERS[library])(values)


@pk.kernel
def element(i, x):
    return x[i]


@pytest.mark.parametrize("library", MAKERS)
def test_a_column_is_a_view_of_its_own_memory(library):
    column = made(library, np.array(NUMBERS))
    view = pk.asview(column, space="serial")
    assert view.pointer == np.asarray(column).ctypes.data and view.readonly != (library == "xarray")
    for space in ("serial", "checked"):
        policy = pk.RangePolicy(0, 3, space=space)
        total, slopes = pk.parallel_reduce(policy, element, column, gradient="x")
        assert total == 7.0 and slopes.to_numpy().tolist() == [1.0] * 3
    assert pk.check(3, element, column, reducer=pk.Sum).ok


def test_a_copy_is_read_only():
    view = pk.asview(made("polars", [1.0, None, 4.0]), space="serial")
    assert view.readonly and np.isnan(view.to_numpy()[1])


def test_pyarrow_exports_no_missing_values():
    with pytest.raises(pk.InputError, match="does not export its memory"):
        pk.asview(made("pyarrow", [1.0, None, 4.0]), space="serial")


@pytest.mark.parametrize(
    "library,values", [("pandas", ["a", "b"]), ("pandas", np.array(["2020-01-01"], "datetime64[s]"))]
)
def test_what_is_no_number_is_refused_by_its_dtype(library, values):
    column = made(library, values)
    for refusing in (lambda: pk.asview(column), lambda: pk.check(1, element, np.asarray(column))):
        with pytest.raises(pk.DTypeError, match="datetime64|object|str"):
            refusing()


def test_a_view_is_a_column_of_a_table():
    table = pandas.DataFrame({"a": pk.asview(np.array(NUMBERS)), "b": NUMBERS})
    assert table.a.dtype == np.float64 and table.a.tolist() == list(table.b)
