"""Step 22, on a machine that continues after a fault, as a GPU does: here a CPU whose kernels cannot be left.

Teams have few members or none: a pack of a CPU's team is one thread.
"""

import numpy as np
import pytest
from numpy.random import default_rng

import portable as pk
from portable.core.machines.cpu import entry, lanes
from portable.core.machines.cpu import space as launches
from portable.core.compiler.writing import block
from portable.watch.debug import faults, sites

from ..launching import launch_for, launch_reduce
from .debug_kernels import BROKEN, far_apart, gather, whole


_fault_place = faults.Debug.fault_place


def _where_kernels_are_left(watch, entry):
    watch.leaves = True
    place = _fault_place(watch, entry)
    watch.leaves = False
    return place


@pytest.fixture
def space():
    return "serial"  # once is enough


@pytest.fixture(autouse=True)
def going_on(monkeypatch):
    monkeypatch.setattr(lanes.CpuTarget, "leave", None)
    monkeypatch.setattr(entry.Cores, "lanes", lambda self, entry: 1)
    monkeypatch.setattr(faults.Debug, "fault_bytes", block.N_SHARED_BYTES)  # a zero, and free space, after it
    monkeypatch.setattr(faults.Debug, "fault_place", _where_kernels_are_left)
    monkeypatch.setattr(faults, "emit_reporter", lambda behind: sites.emit_reporter(None))
    made = []
    usual = launches._compiled

    def compiled(kernel, *args):
        made.append(kernel)
        return usual(kernel, *args)

    monkeypatch.setattr(launches, "_compiled", compiled)
    clear = lambda: [case.kernel.compiled.clear() for case in BROKEN]  # noqa: E731
    clear()
    yield
    clear()
    for kernel in made:
        kernel.compiled.clear()


@pytest.mark.parametrize("case", BROKEN, ids=lambda case: case.kernel.name)
def test_each_broken_kernel_is_named_and_goes_on(case):
    if isinstance(case.policy, pk.TeamPolicy):
        pytest.skip("a team of a CPU is a pack")
    launch = launch_reduce if case.reducer else launch_for
    with pk.use(debug=case.debug), pytest.raises(pk.CheckError) as caught:
        launch(case.policy, case.kernel, *case.args, space="serial")
    (fault,) = caught.value.findings
    assert (fault.kind, fault.kernel) == (case.kind, case.kernel.name)
    assert case.number in (None, fault.number) and case.limit in (None, fault.limit)
    assert case.index in (None, fault.index)
    if not case.kernel.name.endswith("in_a_function"):
        assert fault.line == case.line


@pk.kernel
def neighbours(i, x, y):
    s = 0.0
    for j in range(len(x)):
        if j + 1 < len(x):
            s += x[j + 1]
        if j >= 2:
            s -= 3.0 * x[j - 2]
    y[i] = s


@pk.kernel
def strides(i, x, y):
    s = 0.0
    for j in range(1, len(x), 3):
        s += x[j]
    for j in range(len(x) - 1, i, -2):
        s -= j * x[j - i]
    y[i] = s


@pk.kernel
def moving(i, x, y):
    s, o = 0.0, i
    for j in range(4):
        s += x[o] * x[len(x) - 1 - 2 * j]
        o += 2
    for j in range(3, 3 * i):
        o = min(o + j, len(x) - 1)
        s -= x[o]
    y[i] = s


@pk.kernel
def of_rows(i, k, x, y):
    s = 0.0
    for j in range(x.shape[1]):
        row = x[k[i]]
        s += row[j] + x[j % 3, (j + i) % 5]
    for j in range(x.shape[0]):
        row = x[j]
        s *= row[i]
    y[i] = s


@pk.kernel
def private(i, x, y):
    a = pk.local(24, pk.float64)
    for j in range(24):
        a[j] = x[j] * i
    for j in range(24):
        a[j] += a[23 - j]
    for j in range(3):
        for k in range(8):
            y[i] += a[8 * j + k] * (j + k)


@pk.kernel
def in_a_row(i, k, x, y):
    o = k[i]
    s = x[o]
    o += 1
    s += x[o] - 2.0 * x[o - 3]
    o += 2
    y[i] = s * x[o]


_X, _ROWS = default_rng(7).random(29), default_rng(8).random((9, 12))


@pytest.mark.parametrize(
    ("kernel", "args"),
    [
        (neighbours, (_X,)),
        (strides, (_X,)),
        (moving, (_X,)),
        (of_rows, (np.arange(9)[::-1].copy(), _ROWS)),
        (private, (_X,)),
        (in_a_row, (np.arange(2, 11), _X)),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_what_is_right_stays(kernel, args):
    results = [np.ones(9), np.ones(9)]
    for debug, y in zip((False, True), results):
        with pk.use("serial", debug=debug):
            pk.parallel_for(9, kernel, *args, y)
    assert (results[0] == results[1]).all() and (results[0] != 1.0).any()


@pytest.mark.parametrize(
    "kernel args number limit index".split(),
    [
        (moving, (_X[:8],), 8, 8, (2,)),
        (of_rows, (whole((4, 1 << 40), n=9), _ROWS), 1 << 40, 9, (4,)),
        (of_rows, (whole((4, -1), n=9), _ROWS), -1, 9, (4,)),
        (private, (_X[:23],), 23, 23, (0,)),
        (in_a_row, (np.full(9, 1), _X), -1, 29, (0,)),
        (in_a_row, (np.full(9, 26), _X), 29, 29, (0,)),
        (in_a_row, (np.full(9, 28), _X), 29, 29, (0,)),
        (in_a_row, (np.full(9, (1 << 63) - 1), _X), (1 << 63) - 1, 29, (0,)),
        (far_apart, (5, _X), 4611686018427387904, 29, (0,)),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_what_is_wrong_is_named_in_loops(kernel, args, number, limit, index):
    with pk.use("serial", debug=True), pytest.raises(pk.CheckError) as caught:
        pk.parallel_for(9, kernel, *args, np.ones(9))
    (fault,) = caught.value.findings
    assert (fault.number, fault.limit, fault.index) == (number, limit, index)


def test_a_fault_goes_nowhere_else():
    """Elements outside are neither read nor written, also through parts of views and empty views."""
    x, out = np.arange(64.0), np.zeros(64)
    inner, into = x[16:48], out[16:48]
    for k in (whole((7, -16), n=32), whole((7, 32), n=32), whole((7, 1 << 60), n=32)):
        out[:] = 5.0
        with pk.use("serial", debug=True), pytest.raises(pk.CheckError):
            pk.parallel_for(32, scatter_all, k, inner, into)
        assert (out[:16] == 5.0).all() and (out[48:] == 5.0).all()
        assert out[16 + 7] == 5.0 and (np.delete(out[16:48], 7) == np.delete(inner, 7)).all()
    with pk.use(debug=True), pytest.raises(pk.CheckError, match="extent 0"):
        launch_for(3, gather, whole(n=3), np.zeros(0), np.zeros(3), space="serial")
    with pk.use(debug=True), pytest.raises(pk.CheckError, match="extent 0"):
        launch_for(3, first_of_row, whole(n=3), np.zeros((0, 4)), np.zeros(3), space="serial")


@pk.kernel
def scatter_all(i, k, x, y):
    y[k[i]] = x[k[i]]


@pk.kernel
def first_of_row(i, k, x, y):
    row = x[k[i]]
    y[i] = row[3]
