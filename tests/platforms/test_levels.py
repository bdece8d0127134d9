"""Compile for CPUs with fewer instructions than this one: the same bits, from SSE2 on."""

import os
import platform

import pytest

from ..processes import python

PROGRAM = """
import numpy as np
import portable as pk

@pk.kernel
def mixed(i, x, y, n):
    k = 0
    while k < i % 7:
        k += 1
    y[i] = pk.exp(x[i]) * pk.log1p(abs(x[i])) + pk.random.normal(1, i, k)
    n[i] = (i * 2654435761) >> (i % 33)

@pk.kernel
def rows(team, a, out):
    total = 0.0
    for j in team.thread_range(a.shape[1]):
        total += a[team.league_rank, j]
    total = team.reduce(total)
    if team.single():
        out[team.league_rank] = total

x, y, n = np.linspace(-3, 3, 1003), np.zeros(1003), np.zeros(1003, np.int64)
single, half = x.astype(np.float32), np.zeros(1003, np.float32)
a, out = np.random.default_rng(1).normal(size=(9, 101)), np.zeros(9)
with pk.use("threads:2"):
    pk.parallel_for(1003, mixed, x, y, n)
    pk.parallel_for(1003, mixed, single, half, n)
    pk.parallel_for(pk.TeamPolicy(9), rows, a, out)
    order = pk.argsort(y).to_numpy()
import hashlib
print(hashlib.sha256(b"".join(v.tobytes() for v in (y, half, n, out, order))).hexdigest())
"""


def told(tmp_path, **environment):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    return python(str(program), env={**os.environ, **environment}, check=False)


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    return told(tmp_path_factory.mktemp("here"))


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="levels of x86-64")
@pytest.mark.parametrize("level", "generic x86-64 x86-64-v2 x86-64-v3".split())
def test_a_lower_level_gives_the_same_bits(tmp_path, here, level):
    lower = told(tmp_path, PORTABLE_CPU=level)
    assert here.returncode == lower.returncode == 0, here.stderr + lower.stderr
    assert lower.stdout == here.stdout


def test_an_unknown_level_is_refused(tmp_path):
    assert (
        "PORTABLE_CPU is 'pentium'; expected one of generic, x86-64"
        in told(tmp_path, PORTABLE_CPU="pentium").stderr
    )
