"""Step 31, sources: kernels of an index only, ranges with steps of every kind, deep nesting."""

import dataclasses
import sys
import threading

import numpy as np
import pytest

import portable as pk

from ..fuzz.program import load
from ..launching import launch_for, launch_reduce, move


# ---- an index, or a team, and nothing else
@pk.kernel
def nothing(i):
    pass


@pk.kernel
def itself(i):
    return i


@pk.kernel
def both(i, j):
    return i * j, j


@pk.kernel
def members(team):
    return team.reduce(1.0) / team.size


def test_kernels_without_arguments(space):
    launch_for_all = pk.RangePolicy(0, 5), pk.MDRangePolicy((0, 0), (2, 5))
    pk.parallel_for(launch_for_all[0], nothing)
    assert launch_reduce(5, itself) == 10
    assert launch_reduce(launch_for_all[1], both, reducer=(pk.Sum, pk.Max)) == (10, 4)
    assert launch_reduce(pk.TeamPolicy(3), members) == 3.0
    out = move(np.zeros(5, np.int64))
    assert pk.parallel_scan(5, itself, out=out) == 10
    pk.plan(launch_for_all[0], nothing)()


@pytest.mark.parametrize(
    "policy, kernel, reducer",
    [(5, nothing, None), (5, itself, pk.Sum), (5, itself, None), (pk.TeamPolicy(3), members, pk.Sum)],
)
def test_they_are_looked_at(policy, kernel, reducer):
    assert pk.check(policy, kernel, reducer=reducer).ok


# ---- steps
@pk.kernel
def steps(i, by, back, out):
    for j in range(0, 10, by[i]):
        out[i] += j + 1
    for j in range(10, -2, back):
        out[i] += 100
    for j in range(0, 5000, by[0]):
        out[i] += 1000
        if j > 3000:
            break
    for j in range(3, 0, by[i]):
        out[i] += 10**6
    for j in range(True, 7, by[0]):
        for k in range(0, 3, by[i]):
            out[i] += 10**7


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint32, np.uint8])
@pytest.mark.parametrize("packed", [True, False])
def test_steps_that_vary_between_ends_that_are_known(space, dtype, packed):
    by, wanted = np.array([3, 1, 2, 7, 11] * 5, dtype), np.zeros(25, np.int64)
    for i in range(25):
        steps.fn(i, by.tolist(), -3, wanted)
    got = launch_for(25, pk.kernel(steps.fn, packed=packed), by, -3, np.zeros(25, np.int64))[-1]
    np.testing.assert_array_equal(got, wanted)


# ---- texts of many levels
def kernel_of(text):
    """Return a kernel whose source is in no file."""
    return load(f"import portable as pk\n{text}", f"<text {len(text)} {hash(text)}>")["k"]


def many(n):
    """Return sources with `n` levels of one kind of nesting, whose result does not depend on `n`."""
    functions = "@pk.function\ndef f0(x):\n    return x + 1.0\n"
    early = "".join(
        f"@pk.function\ndef f{q}(x):\n    if x > 1e9:\n        return x\n    return f{q - 1}(x) + 1.0\n"
        for q in range(1, n // 2)
    )
    head = "@pk.kernel\ndef k(i, x):\n    "
    return {
        "terms": head + "x[i] = x[i]" + " + 1.0" * n,
        "signs": head + "x[i] = " + "-" * n + "x[i]",
        "elif": head
        + "if x[i] == 0.5:\n        x[i] = 2.0\n"
        + "".join(f"    elif x[i] == {q}.0:\n        x[i] = {q}.5\n" for q in range(n)),
        "choices": head + "x[i] = " + "".join(f"{q}.5 if x[i] == {q}.0 else " for q in range(n)) + "x[i]",
        "links": head + "x[i] = 3.0 if x[i]" + " <= x[i]" * n + " else 2.0",
        "ands": head + "x[i] = 3.0 if " + "".join(f"x[i] > {-q}.0 and " for q in range(n)) + "True else 2.0",
        "calls": functions
        + "".join(f"@pk.function\ndef f{q}(x):\n    return f{q - 1}(x) + 1.0\n" for q in range(1, n))
        + head
        + f"x[i] = f{n - 1}(x[i])",
        "early": functions + early + head + f"x[i] = f{n // 2 - 1}(x[i])",
        "within": functions + head + "x[i] = " + "f0(" * 90 + "x[i]" + ")" * 90,
    }


WANTED = {"terms": 251.0, "signs": 1.0, "elif": 1.5, "choices": 1.5, "links": 3.0, "ands": 3.0}
WANTED |= {"calls": 251.0, "early": 126.0, "within": 91.0}


@pytest.mark.parametrize("kind", WANTED)
def test_texts_of_250_levels(space, kind):
    kernel = pk.kernel(kernel_of(many(250)[kind]).fn, packed=False)  # LLVM takes long for nested masks
    limit = sys.getrecursionlimit()
    assert launch_for(2, kernel, np.ones(2))[0] == WANTED[kind]
    assert sys.getrecursionlimit() == limit


@pytest.mark.parametrize("kind, levels", [("links", 4000), ("calls", 2000)])
def test_texts_that_are_too_deep_are_refused_with_a_count(space, kind, levels):
    kernel, limit = kernel_of(many(levels)[kind]), sys.getrecursionlimit()
    count = r"40\d\d levels" if kind == "links" else r"2001 function\(s\) that call each other"
    with pytest.raises(pk.LanguageError, match=rf"kernel 'k' .*nested too deeply to be compiled.*{count}"):
        launch_for(2, kernel, np.ones(2))
    assert sys.getrecursionlimit() == limit


def test_threads_have_room_side_by_side():
    limit, raised = sys.getrecursionlimit(), []

    def work(kind):
        try:
            with pk.use("serial"):
                pk.parallel_for(2, pk.kernel(kernel_of(many(240)[kind]).fn, packed=False), np.ones(2))
        except Exception as error:  # noqa: BLE001
            raised.append(error)

    threads = [threading.Thread(target=work, args=(kind,)) for kind in "terms calls signs within".split()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not raised and sys.getrecursionlimit() == limit


@dataclasses.dataclass
class Knot:
    x: object
    inner: object = None


@pk.kernel
def first(i, out, record):
    out[i] = 1.0


def nested(levels):
    found = 1.0
    for _ in range(levels):
        found = (found,)
    return found


def test_records_within_records(space):
    knot = Knot(1.0)
    knot.inner = knot
    assert launch_for(2, first, np.zeros(2), nested(40))[0] == 1.0
    for record in (knot, nested(400), (1, (2, knot))):
        for work in (pk.parallel_for, pk.plan, pk.explain, pk.check):
            out = move(np.zeros(2))
            with pytest.raises(pk.DTypeError, match="'first' .*argument 'record'.*50 levels, or itself"):
                work(pk.RangePolicy(0, 2), first, out, record)
