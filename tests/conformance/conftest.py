"""The `space` fixture, with more CPU threads than many machines have cores: their number must change
nothing."""

import pytest

from portable.space import unavailable_because

from ..conftest import ASKED, SPACES


@pytest.fixture(params=ASKED or [*SPACES, "threads:4"])
def space(request):
    """The name of an execution space that can run here; see tests/conftest.py."""
    reason = unavailable_because(request.param)
    if reason is not None:
        if ASKED:
            pytest.fail(f"PORTABLE_TEST_SPACES asks for {request.param}: {reason}")
        pytest.skip(f"no CUDA device: {reason}")
    return request.param
