"""FCS files as instruments and programs write them, and as nobody should."""

import warnings

import numpy as np
import pytest

import portable as pk
from models.mixture import cytometry

from .odd_cases import CASES


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_odd_files(case, tmp_path):
    path = tmp_path / "odd.fcs"
    path.write_bytes(case.content)
    if case.X is None:
        with pytest.raises(pk.InputError, match=case.says) as caught:
            cytometry.read(path, data_set=case.data_set)
        assert "odd.fcs" in str(caught.value)
        return
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        sample = cytometry.read(path, data_set=case.data_set)
    if case.says:
        with pytest.warns(UserWarning, match=case.says):
            [warnings.warn_explicit(own.message, None, own.filename, own.lineno) for own in said]
    else:
        assert not said, [str(own.message) for own in said]
    np.testing.assert_allclose(sample.X, case.X, rtol=1e-12)
    for name in ("channels", "markers"):
        assert getattr(case, name) in (None, getattr(sample, name))
    assert case.gains is None or sample.gains.tolist() == list(case.gains)
    if case.spillover:
        assert sample.spillover[1].tolist() == [[1, 0.25], [0, 1]]
    if case.spillover is False:
        assert sample.spillover is None
