"""Make tests of tables of wrong calls: each row has an error, and words of its message."""

import pytest


def refusals(rows, call=lambda call: call(), error=None):
    """Return a test that a call with the values of each row raises its error with its words.

    Parameters
    ----------
    rows : list of tuples (*values, error, words); without the error if `error` is that of all
    call : callable of the values, by default the one value itself
    """

    @pytest.mark.parametrize("row", rows, ids=lambda row: str(row[-1])[:40])
    def refused(row):
        *values, words = row
        kind = error or values.pop()
        with pytest.raises(kind, match=words):
            call(*values)

    return refused
