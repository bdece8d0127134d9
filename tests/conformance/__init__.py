"""Conformance suite: one function of a space, in the order of steps in which a new backend is developed."""

import os
import subprocess
import sys
from pathlib import Path


def run(space, steps=range(1, 100), options=(), environment=()):
    """Run the suite, or some of its steps, on a space; a backend's tests call this function.

    Parameters
    ----------
    space : str
        Name of a registered backend: installed with an entry point, or registered by a module that pytest
        loads (options=["-p", "my_backend"]).
    steps : iterable of int, default all
    options : iterable of str
        Further options of pytest.
    environment : dict, optional
        Variables of the process that runs the suite, in addition to the current ones.

    Returns
    -------
    int : pytest's exit status, 0 if all passed
    """
    folder = Path(__file__).parent
    files = [str(f) for f in sorted(folder.glob("test_step*.py")) if int(f.name[9:11]) in steps]
    command = [sys.executable, *"-m pytest -q -p no:cacheprovider -p no:benchmark".split(), *options, *files]
    variables = os.environ | {"PORTABLE_TEST_SPACES": space} | dict(environment)
    return subprocess.run(command, cwd=folder.parents[1], env=variables, check=False).returncode
