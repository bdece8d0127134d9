"""Compare deep_copy and mirrors between all pairs of memories with NumPy's assignment; devices are
simulated."""

import itertools

import ml_dtypes  # noqa: F401  (bfloat16 by its name)
import numpy as np
import pytest
from numpy.testing import assert_array_equal
from fake_cuda import fake_cuda  # noqa: F401
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import portable as pk
from portable.errors import DTypeError, DeviceError, InputError, ShapeError
from portable.core.places import space as space_module
from portable.core.machines import host
from portable.core.language.types import STORED

SPACES = ["serial", "cuda", "cuda:1"]
# Equal shapes: columns and evens; rows and pair; the others with themselves.
PARTS = {
    "whole": np.s_[...],
    "rows": np.s_[1:3],
    "pair": np.s_[4:1:-2],
    "columns": np.s_[:, 1:4:2],
    "evens": np.s_[::-1, 5:2:-2],
    "element": np.s_[2, 3, ...],
    "none": np.s_[2:2],
    "row": np.s_[2],
}
_GRID = np.empty((5, 6))


def _view(array, space):
    view = pk.zeros(array.shape, array.dtype, space=space)
    pk.deep_copy(view, array)
    return view


@pytest.mark.parametrize("target_space, source_space", list(itertools.product(SPACES, SPACES)))
def test_copies_between_memories_and_strides(fake_cuda, target_space, source_space):
    for (to, target_part), (of, source_part) in itertools.product(PARTS.items(), PARTS.items()):
        if _GRID[target_part].shape != _GRID[source_part].shape:
            continue
        for wait in (True, False):
            source, target = np.arange(30.0).reshape(5, 6), -np.arange(30.0).reshape(5, 6)
            source_view, target_view = _view(source, source_space), _view(target, target_space)
            pk.deep_copy(target_view[target_part], source_view[source_part], wait=wait)
            target[target_part] = source[source_part]
            assert_array_equal(target_view.to_numpy(), target, f"{of} to {to}, {wait}")
            assert_array_equal(source_view.to_numpy(), source, f"{of} to {to}, {wait}")


@pytest.mark.parametrize(
    "target, source", [((3,), (4,)), ((3,), (3, 1)), ((2, 3), (3,)), ((3,), (1,)), ((), (1,))]
)
def test_shapes_must_agree(fake_cuda, target, source):
    for target_space, source_space in itertools.product(SPACES, SPACES):
        with pytest.raises(ShapeError, match=r"the target has shape \(.*\), the source \(.*\)"):
            pk.deep_copy(pk.zeros(target, space=target_space), pk.zeros(source, space=source_space))


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize(
    "target, source", [(np.s_[1:], np.s_[:-1]), (np.s_[:-1], np.s_[1:]), (np.s_[::-1], np.s_[:])]
)
def test_overlapping_copies(fake_cuda, space, target, source):
    array = np.arange(1000)
    view = _view(array, space)
    pk.deep_copy(view[target], view[source])
    array[target] = array[source].copy()
    assert_array_equal(view.to_numpy(), array)


@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
@pytest.mark.parametrize("space", SPACES)
def test_dtypes_are_converted_only_if_asked(fake_cuda, space):
    for target_dtype, source_dtype in itertools.product(STORED, STORED):
        source = np.arange(5).astype(source_dtype)
        target = pk.zeros(5, target_dtype, space=space)
        if target_dtype != source_dtype:
            words = f"target has dtype {target_dtype}, the source {source_dtype}.*cast=True"
            with pytest.raises(DTypeError, match=words):
                pk.deep_copy(target, source)
        pk.deep_copy(target, _view(source, space), cast=True)
        wanted = source.astype(target_dtype)
        assert_array_equal(target.to_numpy(), wanted, f"of {source_dtype}", strict=True)


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("value", [0, 1, True, 1.0, np.float32(1), np.int64(1), np.bool_(True)])
def test_fills(fake_cuda, space, value):
    for dtype, part in itertools.product(STORED, PARTS.values()):
        expected = np.zeros((5, 6), dtype)
        view = _view(expected, space)
        pk.deep_copy(view[part], value)
        expected[part] = value
        assert_array_equal(view.to_numpy(), expected, strict=True)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=25,
    deadline=None,
)
@given(st.floats(width=64), st.integers(1, 300_000))
def test_large_fills_on_a_device(fake_cuda, value, n):
    view = pk.empty(n, space="cuda")
    pk.deep_copy(view, value)
    assert_array_equal(view.to_numpy(), np.full(n, value))


@pytest.mark.parametrize(
    "dtype, value",
    [
        ("int32", 0.5),
        ("int32", 2**40),
        ("uint32", -1),
        ("bool", 2),
        ("int64", 2**70),
        ("uint64", -1),
        ("int64", float("nan")),
        ("int32", float("inf")),
        ("float64", 10**400),
    ],
)
def test_values_that_do_not_fit(dtype, value):
    with pytest.raises(DTypeError, match="does not fit"):
        pk.deep_copy(pk.zeros(3, dtype, space="serial"), value)


def test_casting_a_value_is_numpys_conversion():
    view = pk.zeros(3, "int32", space="serial")
    pk.deep_copy(view, 2.7, cast=True)
    assert_array_equal(view, [2, 2, 2])


@pytest.mark.parametrize("source", ["text", None, [1.0, 2.0, 3.0], {}])
def test_sources_of_wrong_types(source):
    with pytest.raises(InputError, match="the source is .*type"):
        pk.deep_copy(pk.zeros(3, space="serial"), source)


def test_targets_that_cannot_be_written(fake_cuda):
    frozen = np.zeros(3)
    frozen.flags.writeable = False
    for target in (frozen, pk.asview(frozen)):
        with pytest.raises(InputError, match="cannot be written"):
            pk.deep_copy(target, 1.0)
        with pytest.raises(InputError, match="cannot be written"):
            pk.deep_copy(target, np.ones(3))
    with pytest.raises(InputError, match="the target is of type list"):
        pk.deep_copy([1, 2], 1.0)


def test_numpy_arrays_may_be_targets(fake_cuda):
    target = np.zeros(3)
    pk.deep_copy(target, _view(np.array([1.0, 2.0, 3.0]), "cuda"))
    assert_array_equal(target, [1, 2, 3])


@pytest.mark.parametrize("space", SPACES)
def test_mirrors(fake_cuda, space):
    view = pk.zeros((2, 3), "int32", space=space, label="x")[:, ::2]
    mirror = pk.create_mirror(view)
    assert (mirror.memory, mirror.shape, mirror.dtype, mirror.label) == (
        "host",
        (2, 2),
        np.dtype("int32"),
        "x",
    )
    assert mirror.pointer != view.pointer and mirror.strides == (8, 4)
    device = pk.create_mirror(view, "cuda:1")
    assert device.memory == "cuda:1" and device.pointer != view.pointer
    from portable.library.copies import create_mirror_view

    assert (create_mirror_view(view) is view) == (view.memory == "host")
    assert (create_mirror_view(view, "cuda:1") is view) == (view.memory == "cuda:1")


def test_copies_wait_for_the_device(fake_cuda):
    """Work on other streams must be done before a copy, which runs on the default stream, reads its
    result."""
    view, host = pk.zeros(3, space="cuda"), np.zeros(3)
    pk.deep_copy(host, view)
    assert "cuCtxSynchronize" not in fake_cuda.calls  # there are no other streams yet
    assert view.__cuda_array_interface__  # other streams may exist from now on
    for copy in (
        lambda: pk.deep_copy(host, view),
        lambda: pk.deep_copy(view, host),
        lambda: pk.deep_copy(view, 1.0),
        lambda: view.to_numpy(),
        lambda: pk.deep_copy(pk.zeros(3, space="cuda"), view),
    ):
        fake_cuda.calls.clear()
        copy()
        names = [n for n in fake_cuda.calls if n.startswith(("cuMemcpy", "cuCtxSync"))]
        assert names[0] == "cuCtxSynchronize" and len(names) > 1


def test_large_copies_go_through_pinned_pieces(fake_cuda, monkeypatch):
    """Every byte arrives, in both directions, whatever the size relative to the pieces and their ring."""
    from portable.core.machines.cuda import driver, staging

    monkeypatch.setattr(driver, "_LARGE", 1000)
    monkeypatch.setattr(staging, "RING_BYTES", 1 << 16)
    rng = np.random.default_rng(1)
    for n in (999, 1000, 1001, 4097, 50_000, 500_003):
        source = rng.integers(0, 2, n).astype(bool)
        view = pk.copy_of(source, "cuda")
        assert_array_equal(view.to_numpy(), source)
        back = np.zeros_like(source)
        pk.deep_copy(back, view)
        assert_array_equal(back, source)
    assert list(fake_cuda.live.values()).count("pinned") == 1


def test_small_copies_go_through_pinned_memory_once_there_are_many(fake_cuda):
    """A process with few copies uses the driver's buffers; later copies are one call each, and correct."""
    view = pk.zeros(1000, space="cuda")
    for k in range(30):
        pk.deep_copy(view, np.full(1000, float(k)))
        assert (view.to_numpy() == k).all()
        if k == 4:
            assert "pinned" not in fake_cuda.live.values()
    assert list(fake_cuda.live.values()).count("pinned") == 1
    fake_cuda.calls.clear()
    pk.deep_copy(view, np.zeros(1000))
    assert fake_cuda.calls == ["cuCtxSetCurrent", "cuMemcpyHtoDAsync_v2"]


@pytest.mark.parametrize("n_bytes", [1 << 13, 1 << 20, 2_000_000])
@pytest.mark.parametrize("first", [0, 1])
def test_a_copy_that_the_driver_refuses_is_an_error(fake_cuda, n_bytes, first):
    whole = pk.zeros(n_bytes + first, np.uint8, space="cuda")
    view = whole[first:]  # arrays that begin at a multiple of 16 bytes are copied by a kernel
    pk.deep_copy(whole, np.ones(n_bytes + first, np.uint8))
    for copy in (lambda: pk.deep_copy(view, np.zeros(n_bytes, np.uint8)), view.to_numpy):
        for _ in range(20):
            copy()
        names = "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuLaunchKernel"
        fake_cuda.fail.update(dict.fromkeys(names, 700))
        with pytest.raises(DeviceError, match=f"{n_bytes:,} bytes.*ILLEGAL_ADDRESS"):
            copy()
        fake_cuda.fail.clear()
    assert_array_equal(whole.to_numpy(), np.arange(n_bytes + first) < first)


def test_large_copies_of_the_host_take_all_threads(monkeypatch):
    from portable.core.machines import host
    from portable.core import registry

    memory = registry.memory("host")
    for n in (host._MANY - 1, host._MANY, host._MANY + 1, 5_000_001):
        source, target = np.arange(n, dtype=np.uint8), np.zeros(n + 1, np.uint8)
        memory.copy_to_host(target.ctypes.data, source.ctypes.data, n)
        assert (target[:-1] == source).all() and target[-1] == 0


def test_pinned_memory_that_is_refused_costs_one_warning(fake_cuda, monkeypatch):
    from portable.core.machines.cuda import driver

    monkeypatch.setattr(driver, "_LARGE", 1000)
    fake_cuda.fail["cuMemHostAlloc"] = 2
    source = np.arange(1000.0)
    with pytest.warns(UserWarning, match="slow without pinned memory"):
        view = pk.copy_of(source, "cuda")
    assert_array_equal(view.to_numpy(), source)  # warnings are errors here: there is no further one


def test_pinned_arrays(fake_cuda):
    array = pk.pinned((3, 4), "float32")
    array[:] = 2.0
    assert array.shape == (3, 4) and array.dtype == np.float32 and array.ctypes.data in fake_cuda.pinned
    view = pk.copy_of(array, "cuda")
    assert_array_equal(view.to_numpy(), array)
    assert pk.pinned(0).size == 0


def test_pinned_arrays_without_a_gpu():
    if pk.unavailable_because("cuda") is None:
        pytest.skip("there is a GPU here")
    assert pk.pinned(5).shape == (5,)


@pytest.mark.parametrize("dtype", ["float64", "int8", "complex64"])
def test_arrays_like_the_view_are_copied_without_a_view_of_their_own(fake_cuda, monkeypatch, dtype):
    array, back = np.arange(12).reshape(3, 4).astype(dtype), np.empty((3, 4), dtype)
    view = pk.empty((3, 4), dtype, space="cuda:1")
    heard = []
    monkeypatch.setattr("portable.library.copies.asview", None)
    with pk.listening(lambda phase, what, copy: heard.append((phase, copy)), copies=True):
        pk.deep_copy(view, array)
        pk.deep_copy(back, view)
    assert_array_equal(back, array)
    assert [(phase, copy.source, copy.target, copy.nbytes) for phase, copy in heard] == [
        (phase, *way, array.nbytes)
        for way in (("host", "cuda:1"), ("cuda:1", "host"))
        for phase in ("begin", "end")
    ]


def test_arrays_unlike_the_view_go_the_long_way(fake_cuda):
    array = np.arange(12.0).reshape(3, 4)
    view, locked = pk.zeros((3, 4), space="cuda"), np.zeros((3, 4))
    pk.deep_copy(view, array[::-1])
    assert_array_equal(view.to_numpy(), array[::-1])
    pk.deep_copy(view, np.asfortranarray(array))
    assert_array_equal(view.to_numpy(), array)
    locked.flags.writeable = False
    with pytest.raises(InputError, match="cannot be written"):
        pk.deep_copy(locked, view)
    with pytest.raises(DTypeError, match="float32"):
        pk.deep_copy(view, array.astype(np.float32))


def test_a_copy_to_a_named_space_asks_for_no_default(monkeypatch):
    """Determining the default would start a GPU's driver, if there is one."""
    monkeypatch.setattr(space_module, "default_space", lambda: pytest.fail("the default space was asked for"))
    view = pk.copy_of(np.arange(3.0), space="serial")
    assert view.to_numpy().tolist() == [0.0, 1.0, 2.0] and view.space == "serial"
    assert pk.copy_of(np.array(3.5), space="serial").to_numpy() == 3.5


def test_a_large_array_that_comes_back_has_the_memory_of_one_that_is_gone(fake_cuda, monkeypatch):
    """Memory of live arrays is not reused: the results of earlier calls do not change."""
    monkeypatch.setattr(host._Large, "kept", {})
    numbers = np.arange(host.LARGE // 8)
    view = pk.copy_of(numbers, "cuda")
    first, second = view.to_numpy(), view.to_numpy()
    places = [first.ctypes.data, second.ctypes.data]
    pk.deep_copy(view, 0)
    del first
    third = view.to_numpy()
    assert third.ctypes.data == places[0] != places[1] and not third.any()
    assert_array_equal(second, numbers)
