"""Test names of columns, clocks and dates of tables."""

from functools import partial

import numpy as np
import pandas
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal

from portable.errors import InputError
from portable.models import edm
from portable.models.edm import files
from portable.models.edm.__main__ import main

from .series import logistic_maps

simplex, cross_map = partial(edm.simplex), partial(edm.cross_map)
X = logistic_maps(60, 3)


def test_columns_may_be_numbers():
    table = pandas.DataFrame(X)
    wanted = simplex(X[:, 0], 2, target=X[:, 1]).predicted
    for columns, target in ((0, 1), ("0", "1"), ([0], ["1"]), (np.int64(0), 1)):
        found = simplex(table, 2, columns=columns, target=target).predicted
        assert_array_equal(found.reshape(len(wanted), -1)[:, 0], wanted)
    assert_array_equal(simplex(X, 2, columns=0, target=1).predicted, wanted)
    years = pandas.DataFrame(X, columns=[1990, 2000, 2010])
    assert_array_equal(simplex(years, 2, columns=1990, target="2000").predicted, wanted)
    with pytest.raises(InputError, match="columns: there is no column 3; the columns are 0, 1, 2"):
        simplex(table, 2, columns=3)
    with pytest.raises(InputError, match="target: there is no column 0; the columns are 1990, 2000, 2010"):
        simplex(years, 2, columns=1990, target=0)


def test_one_series_has_a_name():
    polars, series = pytest.importorskip("polars"), pandas.Series(X[:, 0], name="x")
    for named in (series, series.to_xarray(), polars.Series("x", X[:, 0])):
        assert simplex(named, 2, columns="x").rho == simplex(X[:, 0], 2).rho
        with pytest.raises(InputError, match="segments is 'x'; expected a column of pandas"):
            simplex(named, 2, segments="x")


def test_names_twice_are_refused():
    table = pandas.DataFrame(X, columns=["a", "b", "b"])
    for columns in ("b", ["b"], ["a", "b"]):
        with pytest.raises(InputError, match="columns: there are 2 columns 'b'; expected distinct names"):
            simplex(table, 1, columns=columns, target="a")
    with pytest.raises(InputError, match="target: there are 2 columns 'b'"):
        simplex(table, 1, columns="a", target="b")
    with pytest.raises(InputError, match="libraries: 2 series are called 'b'"):
        cross_map(table, 1, libraries=["b"])
    assert simplex(table, 1, columns="a").rho > 0.5  # other columns do not matter
    mixed = pandas.DataFrame(X, columns=[0, "0", "c"])
    wanted = simplex(X[:, 1], 1).rho
    assert simplex(mixed, 1, columns="0").rho == wanted
    assert simplex(mixed, 1, columns=0).rho != wanted


@pytest.mark.parametrize("clock", [np.arange(60), np.arange(60) * 0.01 + 12.0])
@pytest.mark.parametrize("name", ["Time", "year", "anything"])
def test_a_clock_is_no_series(clock, name):
    table = pandas.DataFrame({name: clock, "a": X[:, 0], "b": X[:, 1]})
    with pytest.warns(UserWarning, match=f"library: the first column, '{name}', numbers the times"):
        found = edm.embedding_dimension(table, 3)
    wanted = edm.embedding_dimension(X[:, :2], 3)
    assert_array_equal(found.rho, wanted.rho)
    with pytest.warns(UserWarning, match="dataset: the first column"):
        matrix = cross_map(table, 2)
    assert list(matrix.index) == ["a", "b"]
    assert_array_equal(matrix, cross_map(X[:, :2], 2))
    named = simplex(table, 2, columns="a", target="b")  # warnings are errors
    asked = simplex(table, 2, columns=name, target="b")
    assert_allclose(named.index[:-1], clock[2:])
    assert asked.predicted.shape == (59,)


def test_a_clock_may_run_backwards():
    table = pandas.DataFrame({"year": 2000 - np.arange(60), "a": X[:, 0], "b": X[:, 1]})
    with pytest.warns() as caught:
        cross_map(table, 1)
    assert "numbers the times" in str(caught[0].message)
    assert "not in the order of time: 1999 follows 2000" in str(caught[1].message) and len(caught) == 2


def test_series_that_rise_are_series():
    """Neither a short ramp nor a ramp after the first column is a clock."""
    ramp = np.arange(60.0)
    later = pandas.DataFrame({"a": X[:, 0], "b": ramp})
    uneven = pandas.DataFrame({"a": np.cumsum(X[:, 0]), "b": X[:, 1]})
    for table in (later, uneven, later[:15][["b", "a"]]):
        assert cross_map(table, 1).shape == (2, 2)


def test_rows_out_of_order_and_missing_rows_are_warned_of():
    years = pandas.Index(np.arange(1950, 2010), name="year")
    table = pandas.DataFrame(X[:, :2], columns=["a", "b"], index=years)
    keys = {"columns": "a", "target": "b"}
    with pytest.warns(UserWarning, match="library: its rows are not in the order of time: 2008 follows 2009"):
        simplex(table.iloc[::-1], 2, **keys)
    with pytest.warns(
        UserWarning, match="library: rows are missing between 1959 and 1962; embedded points span the gap"
    ):
        simplex(table.drop(index=[1960, 1961]), 2, **keys)
    with pytest.warns(UserWarning, match="dataset: .* between 1959 and 1961, and in 1 other places"):
        cross_map(table.drop(index=[1960, 1970]), 2)
    for index in (
        pandas.date_range("2001-01-31", periods=60, freq="ME"),
        pandas.bdate_range("2001-01-01", periods=60),
        pandas.period_range("2001-01", periods=60, freq="M"),
        pandas.date_range("2001-01-01", periods=60, freq="YS"),
        [f"site {k}" for k in range(60)],
    ):
        simplex(table.set_axis(index), 2, **keys)  # warnings are errors
    dates = table.set_axis(pandas.date_range("2001-01-01", periods=60))
    with pytest.warns(UserWarning, match="between 2001-01-10 .* and 2001-01-12"):
        simplex(dates.drop(index=dates.index[10]), 2, **keys)


def test_the_clock_of_a_file(tmp_path):
    columns = np.column_stack([1900 + np.arange(60), X[:, :2]])
    np.savetxt(tmp_path / "x.csv", columns, delimiter=",", header="year,a,b", comments="", fmt="%.17g")
    table = files.read(tmp_path / "x.csv")
    assert table.clock == "year" and table.series == ["a", "b"] and list(table) == ["year", "a", "b"]
    found = simplex(table, 2, columns="a")
    assert_array_equal(found.index, 1902 + np.arange(59))
    assert cross_map(table, 1).shape == (2, 2)
    given = f"simplex {tmp_path}/x.csv --columns a -E 2".split()
    assert main([*given, "--out", str(tmp_path / "out.csv")]) == 0
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert lines[1].startswith("1902,") and lines[-1].startswith("1960,")


def test_messages_of_the_command_name_the_series(tmp_path, told):
    walk = np.cumsum(default_rng(5).normal(size=80)) + 0.2 * np.arange(80)
    noise = default_rng(2).normal(size=80)
    np.savetxt(tmp_path / "x.csv", np.c_[noise, walk], delimiter=",", header="a,b", comments="")
    given = f"test {tmp_path}/x.csv -E 2 --surrogates 9".split()
    assert main(given) == 0
    assert "dataset: 'b' may drift as a random walk," in told.err
