"""Each program of these tests keeps numba's cache to itself, and numba knows the layer also where it is not installed."""
import pytest

import portable as pk

pk.numba.register()


@pytest.fixture
def program(tmp_path):
    """Run a program of its own, given as text, with its own cache of numba's; what it printed."""
    import os
    import subprocess
    import sys
    import textwrap

    def run(text, name="program.py", **environment):
        (tmp_path / name).write_text(textwrap.dedent(text))
        own = {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
        done = subprocess.run([sys.executable, "-B", name], cwd=tmp_path, env={**os.environ, **own, **environment},
                              capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    return run
