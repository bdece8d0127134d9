"""The `space` fixture: every conformance and model test is a function of the space and runs on each one present.

PORTABLE_TEST_SPACES names the spaces, for example "serial,cuda"; a space named there that cannot run here FAILS its
tests. Without it every space is tried, and cuda is skipped where no device answers.
"""
import os

import pytest

from portable.space import unavailable_because

ASKED = [name.strip() for name in os.environ.get("PORTABLE_TEST_SPACES", "").split(",") if name.strip()]
SPACES = ASKED or ["checked", "serial", "threads", "cuda"]


@pytest.fixture(params=SPACES)
def space(request):
    """The name of an execution space that can run here."""
    reason = unavailable_because(request.param)
    if reason is not None:
        if ASKED:
            pytest.fail(f"PORTABLE_TEST_SPACES asks for {request.param}: {reason}")
        pytest.skip(f"no CUDA device: {reason}")
    return request.param
