"""The conformance suite: one function of a space, in the steps in which a new backend comes to life."""

import os
import subprocess
import sys
from pathlib import Path


def run(space, steps=range(1, 100), options=(), environment=()):
    """Run the suite, or some of its steps, on a space: what the tests of a backend call.

    Parameters
    ----------
    space : str
        Of a registered backend: installed with an entry point, or registered by a module that pytest is told
        to load (options=["-p", "my_backend"]).
    steps : iterable of int, default all
    options : iterable of str
        More of pytest's.
    environment : dict, optional
        Variables of the process that runs the suite, besides this one's.

    Returns
    -------
    int : pytest's exit status, 0 if all passed
    """
    folder = Path(__file__).parent
    files = [str(f) for f in sorted(folder.glob("test_step*.py")) if int(f.name[9:11]) in steps]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:benchmark",
        *options,
        *files,
    ]
    variables = os.environ | {"PORTABLE_TEST_SPACES": space} | dict(environment)
    return subprocess.run(command, cwd=folder.parents[1], env=variables, check=False).returncode
