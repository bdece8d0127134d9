"""Step 25: arrays of 8 and 16 bits: loaded as int32 or float32, stored by C's conversions, or rounded to the
nearest half or bfloat16."""

import sys

import ml_dtypes
import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal

import portable as pk

from ..launching import launch_for
from .test_ptx import assemble, lower

INTEGERS = [np.int8, np.uint8, np.int16, np.uint16]
N = 53


@pk.kernel
def doubled(i, x, y, out):
    if y[i] > 0:
        out[i] = 2 * x[i] - y[i]


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("step", [1, 2, -1])
def test_integers(space, dtype, step):
    info = np.iinfo(dtype)
    x, y = default_rng(1).integers(info.min // 2, info.max // 2, (2, 2 * N)).astype(dtype)
    x, y = (np.ascontiguousarray(v)[::step][:N] for v in (x, np.abs(y.astype(int)).astype(dtype) % 50))
    want = np.where(y > 0, 2 * x.astype(np.int32) - y, 7)
    out = launch_for(N, doubled, x, y, np.full(N, 7, np.int32))[2]
    assert_array_equal(out, want)
    if space != "checked":  # which reports values that do not fit int8 and int16
        assert_array_equal(launch_for(N, doubled, x, y, np.full(N, 7, dtype))[2], want.astype(dtype))


@pk.kernel
def converted(i, x, out):
    out[i] = x[i]


@pytest.mark.parametrize("dtype", INTEGERS)
def test_floats_are_cut_off_and_held_between_the_ends(space, dtype):
    info = np.iinfo(dtype)
    x = np.array([0.0, -0.9, 1.9, 1e30, -1e30, np.inf, np.nan, info.max, info.min, info.max + 0.5])
    want = np.array([0, 0, 1, info.max, info.min, info.max, 0, info.max, info.min, info.max], dtype)
    if space == "checked":
        x, want = x[[0, 1, 2, 7, 8]], want[[0, 1, 2, 7, 8]]
    assert_array_equal(launch_for(len(x), converted, x, np.ones(len(x), dtype))[1], want)


@np.errstate(all="ignore")
@pytest.mark.parametrize("dtype, eps", [(np.float16, 2.0**-11), (ml_dtypes.bfloat16, 2.0**-8)])
def test_every_short_float_is_loaded_and_stored(space, dtype, eps):
    """Test all 65,536 of them, and floats on either side of the midpoint between two."""
    x = np.arange(2**16, dtype=np.uint16).view(dtype)
    if space == "checked":
        x = x[::97]
    wide = x.astype(np.float32)
    got = launch_for(len(x), converted, x, np.zeros(len(x), np.float32))[1]
    assert_array_equal(got, wide)
    got = launch_for(len(x), converted, x, np.zeros(len(x), dtype))[1]
    assert_array_equal(got.astype(np.float32), wide)
    middles = wide[np.isfinite(wide)] * np.float32(1 + eps)
    middles = middles[np.isfinite(middles)] if dtype != np.float16 else middles[np.abs(middles) < 65500]
    for wide in (middles, np.nextafter(middles, np.float32(np.inf)), np.nextafter(middles, np.float32(0))):
        wide = wide[np.isfinite(wide.astype(dtype).astype(np.float32))]
        got = launch_for(len(wide), converted, wide, np.zeros(len(wide), dtype))[1]
        assert_array_equal(got.view(np.uint16), wide.astype(dtype).view(np.uint16))


@np.errstate(all="ignore")
def test_not_a_number_stays_so_in_bfloat16(space):
    """NaN remains NaN, also if its mark is only in the lower half; infinities remain, too."""
    bits = np.array([0x7FC00000, 0xFFC00001, 0x7F800001, 0xFFFFFFFF, 0x7F800000, 0xFF800000, 1], np.uint32)
    for x in (bits.view(np.float32), bits.view(np.float32).astype(float)):
        got = launch_for(len(x), converted, x, np.zeros(len(x), ml_dtypes.bfloat16))[1]
        want = [0x7FC0, 0xFFC0, 0x7FC0, 0xFFC0, 0x7F80, 0xFF80, 0]
        assert_array_equal(got.view(np.uint16), want)


def test_bfloat16_on_the_host(space):
    """Name bfloat16 by its name and by ml_dtypes' type; test copies, fills, DLPack."""
    view = pk.zeros((3, 2), "bfloat16")
    assert view.dtype == ml_dtypes.bfloat16 and view.nbytes == 12 and "bfloat16" in repr(view)
    pk.deep_copy(view, 0.1)
    pk.parallel_for(pk.MDRangePolicy((0, 0), (3, 2)), incremented, view[1:3, :], view[1:3, :])
    pk.fence(space)
    array = view.to_numpy()
    assert array.dtype == ml_dtypes.bfloat16 and float(array[0, 0]) == float(ml_dtypes.bfloat16(0.1))
    assert_array_equal(array.astype(float)[:, 0] > 1, [False, True, True])
    if view.memory == "host":
        again = pk.asview(Exported(view))
        assert again.dtype == view.dtype and again.strides == view.strides
        again[0, 0] = 2.5
        assert float(view[0, 0]) == 2.5


class Exported:
    """Array of a library that supports only DLPack."""

    def __init__(self, view):
        self.__dlpack__, self.__dlpack_device__ = view.__dlpack__, view.__dlpack_device__


@pk.kernel
def incremented(i, j, x, y):
    if i < x.shape[0]:
        y[i, j] = x[i, j] + 1.0


def test_bfloat16_without_its_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(pk.DTypeError, match="bfloat16 is not NumPy's own.*pip install ml_dtypes"):
        pk.zeros(3, "bfloat16", space="serial")


@pk.kernel
def scaled(i, x, out):
    out[i] = 0.1 * x[i] + 1.0 / 3.0


@pytest.mark.parametrize("dtype, eps", [(np.float16, 2e-3), (ml_dtypes.bfloat16, 2e-2)])
def test_halves_are_computed_in_float32(space, dtype, eps):
    x = default_rng(2).normal(size=N).astype(dtype)
    out = launch_for(N, scaled, x, np.zeros(N, dtype))[1]
    want = (np.float32(0.1) * x.astype(np.float32) + np.float32(1 / 3)).astype(dtype)
    assert_allclose(out.astype(float), want.astype(float), rtol=eps)
    assert (out == want).mean() > 0.9


@pk.kernel
def counted(i, labels, table, out):
    mine = pk.local((4,), np.uint8)
    for k in range(4):
        mine[k] = 0
    for k in range(labels.shape[1]):
        mine[labels[i, k] % 4] += 1
    for k in range(4):
        out[i, k] = mine[k] + table[labels[i, k]]


def test_gathered_and_private(space):
    rng = default_rng(3)
    labels, table = rng.integers(0, 4, (N, 9)).astype(np.uint8), np.array([-7, 3, 100, -128], np.int8)
    want = np.stack([(labels == k).sum(1) + table[labels[:, k]].astype(int) for k in range(4)], 1)
    assert_array_equal(launch_for(N, counted, labels, table, np.zeros((N, 4), np.int64))[2], want)


@pk.kernel
def total(i, x):
    return x[i]


def test_sums_of_bytes(space):
    x = default_rng(4).integers(0, 255, 1000).astype(np.uint8)
    view = pk.empty(1000, np.uint8)
    pk.deep_copy(view, pk.asview(x, space="serial"))
    assert pk.parallel_reduce(1000, total, view) == x.sum(dtype=int)


@pk.kernel
def added(i, x):
    pk.atomic_add(x, 0, 1)


def test_atomics_are_refused(space):
    with pytest.raises(pk.LoweringError, match="atomic_add is not defined for uint8"):
        launch_for(2, added, np.zeros(2, np.uint8))


@pk.kernel
def squared(i, x):
    x[i] = x[i] * x[i]


def test_what_does_not_fit_is_noted():
    for x, word in (
        (np.array([300.0], np.float16), "90000.0 does not fit float16"),
        (np.array([12], np.int8), "144 does not fit"),
    ):
        with pytest.raises(pk.CheckError, match=rf"test_step25_small.py:\d+.*{word}"):
            pk.parallel_for(pk.RangePolicy(0, 1, space="checked"), squared, x)
    with pytest.raises(pk.CheckError, match=r"e\+38 does not fit bfloat16"):
        launch_for(1, filled, np.float32(3.4e38), np.zeros(1, ml_dtypes.bfloat16), space="checked")


@pytest.mark.parametrize("dtype", [*INTEGERS, np.float16, ml_dtypes.bfloat16])
def test_small_arrays_lower_to_ptx(dtype, tmp_path):
    x = np.ones(4, dtype)
    text = lower(scaled, 4, (x, x))
    assert ".f64" not in text or dtype in INTEGERS
    assemble(text, tmp_path)


@pk.kernel
def times(i, x, by, out):
    out[i] = by * x[i] + 0.5


def test_a_weak_float_beside_halves_alone(space):
    """The kernel's float type is float32, also for arguments of the launch."""
    out = launch_for(N, times, np.arange(N).astype(np.float16), 3.0, np.zeros(N, np.int16))[1]
    assert_array_equal(out, 3 * np.arange(N))


@pk.kernel
def filled(i, by, x):
    x[i] = by


@pytest.mark.parametrize("dtype", [*INTEGERS, np.float16, ml_dtypes.bfloat16])
def test_numpy_scalars_are_arguments(space, dtype):
    assert_array_equal(launch_for(3, filled, dtype(5), np.zeros(3, dtype)), [5, 5, 5])
