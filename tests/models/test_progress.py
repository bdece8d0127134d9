"""Test progress bars of long calls: on standard error, to the end, and without an effect on the result."""

import numpy as np
import pytest

from portable.models import edm
from portable.errors import DTypeError

from ..clusters.jobs import edm_ccm, mixture_fit, mixture_gibbs, series, tmap_fit


def ended(capfd):
    """Return True if the last bar reached its end."""
    out, err = capfd.readouterr()
    done = [part for part in err.split() if part.count("/") == 1 and part.replace("/", "").isdigit()]
    assert not out and done
    left, right = done[-1].split("/")
    return left == right


def edm_cross_map_test(**how):
    found = edm.cross_map_test(series(80, 3), 2, n_surrogates=20, surrogate="phase", space="serial", **how)
    return [found.rho, found.p_values]


@pytest.mark.parametrize(
    "call",
    [tmap_fit, edm_ccm, edm_cross_map_test, mixture_fit, mixture_gibbs],
    ids=lambda call: call.__name__,
)
def test_a_bar_comes_to_its_end(capfd, call):
    quiet = call()
    assert capfd.readouterr() == ("", "")
    for one, other in zip(call(progress=True), quiet, strict=True):
        np.testing.assert_array_equal(one, other)
    assert ended(capfd)
    with pytest.raises(DTypeError, match="progress"):
        call(progress="yes")
