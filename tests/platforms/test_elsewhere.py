"""Remove features that Windows lacks: POSIX threads, modules, users' ids, forks. Windows itself was not
run."""

import os

from ..processes import python
from .test_levels import PROGRAM

WITHOUT = """
import asyncio, concurrent.futures, ctypes, os, pathlib, signal, subprocess, sys, threading
import numba, numpy, platformdirs, rich.console  # others' code is for this machine

for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[name] = None  # an import then fails
for name in "fork register_at_fork sched_getaffinity getuid geteuid killpg pread O_NOFOLLOW".split():
    delattr(os, name)
for name in ("SIGKILL", "SIGALRM", "pthread_sigmask", "setitimer"):
    delattr(signal, name)
os.supports_dir_fd.clear()


class CDLL(ctypes.CDLL):
    def __init__(self, name, *arguments, **keywords):
        if name is None:
            raise TypeError("bad argument type for built-in operation")
        super().__init__(name, *arguments, **keywords)


ctypes.CDLL = CDLL
os.name = "elsewhere"
"""
MORE = """
from portable.models import tmap
from portable.core.machines.cpu import pool
assert pool.compiled() is None
truth = tmap.TransientMAP(alpha=[1.0], orders=[1], rates=[1.0], switching=[[0.5]])
model, info = tmap.fit(truth.simulate(200, seed=1), orders=[1])
print(model.rates.size)
try:
    tmap.fit(truth.simulate(200, seed=1), orders=[1], checkpoint="kept")
except pk.InputError as error:
    print(error)
"""


def told(tmp_path, program, **environment):
    (tmp_path / "program.py").write_text(program)
    done = python("program.py", cwd=tmp_path, env={**os.environ, **environment}, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_same_bits_without_posix(tmp_path):
    here = told(tmp_path, PROGRAM)
    cache = {"PORTABLE_CACHE": str(tmp_path / "cache")}
    assert told(tmp_path, WITHOUT + PROGRAM, **cache) == here
    assert told(tmp_path, WITHOUT + PROGRAM, **cache) == here  # from the cache
    assert any((tmp_path / "cache").rglob("*"))


def test_a_model_without_posix(tmp_path):
    cache = {
        "PORTABLE_CACHE": str(tmp_path / "cache")
    }  # the machine's usual code refers to a missing function
    _, size, refused = told(tmp_path, WITHOUT + PROGRAM + MORE, **cache)
    assert size == "1" and "this system has no file locks" in refused
