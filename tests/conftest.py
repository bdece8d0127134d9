"""The `space` fixture: every conformance and model test is a function of the space and runs on each one present.

PORTABLE_TEST_SPACES names the spaces, for example "serial,cuda"; a space named there that cannot run here FAILS its
tests. Without it every space is tried, and cuda is skipped where no device answers.

Tests that take long and stand side by side run whole where the command line names their file or folder, as in
`python -m pytest tests/clusters`; a run of everything takes every N-th of them.
"""

import os
from pathlib import Path

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


# Of tests/: every N-th of a file, or of a function's.
SAMPLED = {
    "clusters/": 4,
    "platforms/": 3,
    "models/test_papers.py": 4,
    "roofline/test_cli.py::test_compare_has_a_row_a_peer": 3,
}
HERE = Path(__file__).parent


def pytest_collection_modifyitems(config, items):
    """Keep a sample of the tests of SAMPLED, unless they are asked for by name."""
    asked = [
        Path(config.invocation_params.dir, argument.partition("::")[0]).resolve() for argument in config.args
    ]
    seen, left_out = {}, []
    for item in items:
        path = item.path.relative_to(HERE).as_posix()
        rule = next((name for name in SAMPLED if f"{path}::{item.name}".startswith(name)), None)
        if rule is None or any(
            at.is_relative_to(HERE) and at != HERE for at in asked if item.path.is_relative_to(at)
        ):
            continue
        seen[path] = seen.get(path, -1) + 1
        if seen[path] % SAMPLED[rule]:
            left_out.append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]
