"""Share a cache of numba's between the programs of these tests; the layer is made known to numba even if it
is not installed.
"""

import os
import sys
import textwrap

import pytest

import portable as pk

from ..processes import python

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # the tests share their cores with other processes
pk.numba.register()


@pytest.fixture(scope="session")
def numba_cache(tmp_path_factory):
    return tmp_path_factory.mktemp("numba")


@pytest.fixture
def program(tmp_path, numba_cache):
    """Run a source in a separate process and return its output."""

    def run(text, name="program.py", **environment):
        (tmp_path / name).write_text(textwrap.dedent(text))
        own = {"NUMBA_CACHE_DIR": str(numba_cache), "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
        done = python(
            "-B", name, cwd=tmp_path, env={**os.environ, **own, **environment}, timeout=300, check=False
        )
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    return run
