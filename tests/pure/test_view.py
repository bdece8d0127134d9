"""Test views: their shapes, memory and descriptions, and views of other objects without a copy. Devices are
simulated."""

import ctypes
import gc
import itertools
import pickle
import struct
import weakref

import ml_dtypes  # noqa: F401  (bfloat16 by its name)
import numpy as np
import pytest
from numpy.testing import assert_array_equal
from fake_cuda import BASE, MEMORY_BYTES, fake_cuda  # noqa: F401
from hypothesis import given
from hypothesis import strategies as st

import portable as pk
from portable.errors import (
    DTypeError,
    InputError,
    OutOfMemoryError,
    ShapeError,
    SpaceUnavailableError,
    UnknownSpaceError,
    WrongSpaceError,
)
from portable.core import dlpack
from portable.core.machines import host
from portable.core import registry
from portable.core.machines.cuda import driver
from portable.core.arrays.view import STORED, describe

pytestmark = pytest.mark.usefixtures("serial")

SPACES = "serial threads checked cuda cuda:1".split()


@pytest.fixture(params=SPACES)
def place(request):
    """Return the name of a space; cuda is the simulated device."""
    if request.param.startswith("cuda"):
        request.getfixturevalue("fake_cuda")
    return request.param


def _unpack(words):
    return struct.unpack(f"<{len(words) // 8}q", words)


# New views


@pytest.mark.parametrize("shape", [(), 0, 3, (2, 3), (1, 0, 2), (2, 3, 4, 5), [2, 2], np.int64(4)])
def test_views_are_zero_row_major_and_described(place, shape):
    for dtype, make in itertools.product(STORED, (pk.View, pk.zeros)):
        view, expected = make(shape, dtype, space=place, label="name"), np.zeros(shape, dtype)
        assert (view.shape, view.dtype) == (expected.shape, expected.dtype)
        assert view.strides == expected.strides or not view.size
        assert (view.ndim, view.size, view.nbytes) == (expected.ndim, expected.size, expected.nbytes)
        assert (view.space, view.label, view.readonly) == (place, "name", False)
        memory = place if place.startswith("cuda:") else "cuda:0" if place == "cuda" else "host"
        assert view.memory == memory
        assert view.spec == (dtype, expected.ndim, True, False, memory) and view.spec is view[...].spec
        assert _unpack(view.words) == (view.pointer, *view.shape, *view.strides)
        assert view.pointer % 64 == 0
        assert_array_equal(view.to_numpy(), expected, strict=True)


def test_empty_is_not_filled(fake_cuda):
    pk.empty(10, space="cuda")
    assert "cuMemsetD8Async" not in fake_cuda.calls
    pk.zeros(10, space="cuda")
    assert "cuMemsetD8Async" in fake_cuda.calls
    assert pk.empty((2, 3), "int32").strides == (12, 4)


def test_the_default_is_float64_on_the_default_space():
    with pk.use("serial"):
        view = pk.View(3)
    assert (view.dtype, view.space) == (np.dtype("float64"), "serial")


@pytest.mark.parametrize(
    "shape, words",
    [
        (-1, "negative"),
        ((2, -3), "negative"),
        (1.5, "integer"),
        ("3", "integer"),
        ((2, 2.0), "integer"),
        (None, "integer"),
        ((1,) * 7, "7 dimensions.*up to 6"),
    ],
)
def test_wrong_shapes(shape, words):
    pk.zeros((2, 2))  # facts about it must not be used for an equal shape
    with pytest.raises(ShapeError, match=words):
        pk.zeros(shape)


@pytest.mark.parametrize(
    "dtype",
    ["clongdouble", "object", "U3", "datetime64[s]", ">f8", "longdouble", "no such thing", 3, [("a", "f8")]],
)
def test_wrong_dtypes(dtype):
    with pytest.raises(DTypeError, match="float32, float64"):
        pk.zeros(3, dtype)


def test_wrong_spaces_and_labels(fake_cuda):
    with pytest.raises(UnknownSpaceError):
        pk.zeros(3, space="gpu")
    with pytest.raises(SpaceUnavailableError, match="cuda:7"):
        pk.zeros(3, space="cuda:7")
    with pytest.raises(InputError, match="label is 3"):
        pk.zeros(3, label=3)


@pytest.mark.parametrize("n", [2**61, 2**50, 10**30])
def test_no_room(place, n):
    with pytest.raises(OutOfMemoryError, match=f"'{place}(:0)?' has no room for (the )?{8 * n:,} bytes"):
        pk.zeros(n, space=place)


def test_device_memory_is_freed_with_the_last_view_of_it(fake_cuda):
    view = pk.zeros((4, 4), space="cuda")
    part = view[1:, ::2].T
    del view
    assert _bytes_in_use() == 128
    del part
    assert _bytes_in_use() == 0


def _bytes_in_use(device=0):
    free, total = driver.context(device).memory_info()
    return total - free


# Descriptions

_shapes = st.lists(st.integers(0, 4), max_size=4).map(tuple)


def _index(shape):
    """Draw ints, slices and an Ellipsis that suit a shape."""
    parts = [st.one_of(st.slices(n), *([st.integers(-n, n - 1)] if n else [])) for n in shape]
    return st.tuples(*parts).flatmap(
        lambda full: st.integers(0, len(full)).flatmap(
            lambda cut: st.sampled_from(
                [full, full[:cut], (*full[:cut], Ellipsis), (Ellipsis, *full[cut:]), ...]
            )
        )
    )


_cases = _shapes.flatmap(lambda shape: st.tuples(st.just(shape), _index(shape), st.sampled_from(STORED)))


@given(_cases)
def test_arrays_are_described_as_numpy_describes_them(case):
    shape, index, dtype = case
    array = np.zeros(shape, dtype)[index if index is ... or ... in index else (*index, ...)]
    spec, words = describe(array)
    assert _unpack(words) == (array.__array_interface__["data"][0], *array.shape, *array.strides)
    name, ndim, contiguous_last, readonly, memory = spec
    assert (name, ndim, readonly, memory) == (dtype, array.ndim, False, "host")
    if contiguous_last and array.ndim and array.shape[-1] > 1 and array.size:
        assert array.strides[-1] == array.itemsize
    if array.ndim and array.strides[-1] == array.itemsize:
        assert contiguous_last
    array.flags.writeable = False
    assert describe(array)[0] == (name, ndim, contiguous_last, True, memory)


def test_equal_descriptions_are_one_object(fake_cuda):
    for space in ("serial", "cuda"):
        a, b = pk.zeros(3, space=space), pk.zeros(7, space=space)
        assert a.spec is b.spec and a.spec is not pk.zeros(3, "int64", space=space).spec
    assert pk.zeros(3).spec is describe(np.ones(5)[1:])[0]
    assert pk.zeros(3, space="cuda").spec is not pk.zeros(3, space="cuda:1").spec
    assert describe(np.ones((3, 4)).T)[0] is describe(np.ones((9, 9))[:, ::3])[0]


@pytest.mark.parametrize(
    "array, error, words",
    [
        (np.zeros(3, "datetime64[s]"), DTypeError, "datetime64.*not supported"),
        (np.zeros(3, ">f8"), DTypeError, ">f8.*not supported"),
        (np.array(["a"]), DTypeError, "not supported"),
        (np.array([None]), DTypeError, "object.*not supported"),
        (np.ma.masked_array([1.0], [True]), DTypeError, "masked"),
        (np.zeros((1,) * 7), ShapeError, "7 dimensions"),
        (np.frombuffer(bytes(17), "u1")[1:].view("f8"), InputError, "no multiple of 8"),
    ],
)
def test_arrays_that_kernels_cannot_use(array, error, words):
    for use in (describe, pk.asview):
        with pytest.raises(error, match=words):
            use(array)


# Indexing


@given(_cases, st.booleans())
def test_slices_are_views_of_the_same_memory(case, transpose):
    shape, index, dtype = case
    view = pk.zeros(shape, dtype)
    array = view.to_numpy()
    array[...] = np.arange(array.size).reshape(shape)
    if transpose:
        view, array, index = view.T, array.T, index if index is ... else ...
    part, expected = view[index], array[index]
    if not isinstance(expected, np.ndarray):
        assert part == expected and part.dtype == expected.dtype
        return
    assert (part.shape, part.strides) == (expected.shape, expected.strides)
    assert part.pointer == expected.__array_interface__["data"][0]
    assert_array_equal(part, expected, strict=True)


def test_slices_on_a_device(fake_cuda):
    array = np.arange(24.0).reshape(2, 3, 4)
    view = pk.zeros((2, 3, 4), space="cuda", label="x")
    pk.deep_copy(view, array)
    for index in [1, (0, 2), (..., 1), np.s_[:, ::-1], np.s_[1, ::2, 1:], np.s_[:0], ..., (1, 2, 3, ...)]:
        part = view[index]
        assert (part.shape, part.memory, part.label) == (array[index].shape, "cuda:0", "x")
        assert_array_equal(part.to_numpy(), array[index])
    assert view[1, 2, 3] == 23 and view.T[3, 2, 1] == 23
    assert isinstance(view[1, 2, 3], np.float64)


def test_assignment(fake_cuda):
    view = pk.zeros((2, 3))
    view[0, 1] = 5
    view[1] = pk.asview(np.array([1.0, 2.0, 3.0]))
    view[:, 2] = [7, 8]
    assert_array_equal(view, [[0, 5, 7], [1, 2, 8]])
    frozen = np.zeros(3)
    frozen.flags.writeable = False
    with pytest.raises(InputError, match="readonly.*cannot be written"):
        pk.asview(frozen)[0] = 1
    with pytest.raises(WrongSpaceError, match="deep_copy"):
        pk.zeros(3, space="cuda")[0] = 1


@pytest.mark.parametrize(
    "index", [[0, 1], np.array([0]), None, True, 1.0, "a", (0, None), (slice(None), [0])]
)
def test_wrong_indices(index):
    with pytest.raises(InputError, match="indexed by ints, slices and Ellipsis"):
        pk.zeros((2, 2))[index]


@pytest.mark.parametrize("index", [2, -3, (0, 2), (0, 0, 0)])
def test_indices_out_of_range(place, index):
    with pytest.raises(IndexError):
        pk.zeros((2, 2), space=place)[index]


def test_a_view_never_changes():
    view = pk.zeros(3)
    for name in "shape pointer label anything".split():
        with pytest.raises(AttributeError, match="never changes"):
            setattr(view, name, 1)
    with pytest.raises(TypeError, match="0 dimensions"):
        len(pk.zeros(()))
    assert len(view) == 3 and list(view) == [0, 0, 0]
    assert (
        repr(pk.zeros(3, "int32", "serial", "x"))
        == "View([0 0 0], shape=(3,), dtype=int32, space='serial', label='x')"
    )
    many = repr(pk.asview(np.arange(1e6).reshape(1000, 1000), "serial"))
    assert many.startswith("View([[0.00000e+00 1.00000e+00 ...") and len(many) < 300


def test_memory_of_a_device_is_not_pickled(fake_cuda):
    with pytest.raises(TypeError, match="to_numpy"):
        pickle.dumps(pk.zeros(3, space="cuda"))


# Memory of others


def test_numpy_arrays_are_not_copied():
    array = np.arange(6.0).reshape(2, 3)
    view = pk.asview(array[:, ::2], label="x")
    assert view.memory == "host" and view.label == "x"
    view[0, 1] = 9
    assert array[0, 2] == 9
    assert np.shares_memory(view.to_numpy(), array) and np.shares_memory(np.asarray(view), array)


def test_views_keep_what_they_view_alive():
    array = np.arange(3.0)
    alive = weakref.ref(array)
    part = pk.asview(array)[1:]
    del array
    gc.collect()
    assert alive() is not None
    assert_array_equal(part, [1, 2])
    del part
    gc.collect()
    assert alive() is None


def test_asview_of_a_view():
    view = pk.zeros(3, label="x")
    assert pk.asview(view).label == "x" and pk.asview(view).space == "serial"
    other = pk.asview(view, space="threads", label="y")
    assert (other.pointer, other.label, other.space) == (view.pointer, "y", "threads")


def test_asview_does_not_move(fake_cuda):
    with pytest.raises(WrongSpaceError, match="memory 'host'.*space 'cuda' uses 'cuda:0'.*deep_copy"):
        pk.asview(np.zeros(3), space="cuda")
    with pytest.raises(WrongSpaceError, match="memory 'cuda:0'.*'serial' uses 'host'"):
        pk.asview(pk.zeros(3, space="cuda"), space="serial")


@pytest.mark.parametrize("thing", [[1.0, 2.0], 3.0, "text", None, {"a": 1}, b"bytes"])
def test_things_without_memory(thing):
    with pytest.raises(InputError, match="no memory to share.*asarray"):
        pk.asview(thing)


class Interface:
    """Array with only NumPy's array interface."""

    def __init__(self, array):
        self.array, self.__array_interface__ = array, array.__array_interface__


class Pack:
    """Array with only DLPack; `old` is from before version 1.0."""

    def __init__(self, array, old=False, device=(1, 0)):
        self.array, self.old, self.device = array, old, device

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **arguments):
        if self.old and arguments.keys() - {"stream"}:
            raise TypeError("unexpected keyword argument")
        return self.array.__dlpack__(**{k: v for k, v in arguments.items() if k != "stream"})


class OldPack(Pack):
    """Producer from before DLPack 1.0, whose capsules do not state if they may be written: NumPy's flag
    does."""

    def __init__(self, array, writeable=True):
        super().__init__(array, old=True)
        self.writeable = writeable

    def __array__(self, dtype=None, copy=None):
        seen = self.array.view()
        seen.flags.writeable = self.writeable
        return seen


def test_old_capsules_may_be_written_where_numpy_may():
    array = np.arange(3.0)
    assert not pk.asview(OldPack(array)).readonly
    assert pk.asview(OldPack(array, writeable=False)).readonly and pk.asview(Pack(array, old=True)).readonly


NUMPYS = [dtype for dtype in STORED if dtype != "bfloat16"]  # NumPy's interfaces lack it


@pytest.mark.parametrize("wrap", [Interface, Pack, OldPack, lambda a: Pack(a, device=(3, 0))])
def test_other_libraries_host_arrays(wrap):
    alive, parts = [], []
    for dtype in NUMPYS:
        array = np.arange(12).reshape(3, 4).astype(dtype)[:, ::2]
        alive.append(weakref.ref(array))
        view = pk.asview(wrap(array))
        assert (view.shape, view.strides, view.dtype) == (array.shape, array.strides, array.dtype)
        assert view.pointer == array.ctypes.data and not view.readonly
        assert_array_equal(view, array)
        parts.append(view[1:])
    del array, view
    gc.collect()
    assert all(of() is not None for of in alive)
    parts.clear()
    gc.collect()
    assert all(of() is None for of in alive)


def test_read_only_stays_read_only():
    array = np.arange(3.0)
    array.flags.writeable = False
    for wrapped in (array, Interface(array), Pack(array)):
        assert pk.asview(wrapped).readonly and pk.asview(wrapped)[1:].spec[3]


def test_dlpack_devices_without_a_space():
    with pytest.raises(WrongSpaceError, match="device of type 8"):
        pk.asview(Pack(np.zeros(3), device=(8, 0)))


def test_what_another_library_raises_is_explained():
    class Stubborn:
        def __dlpack_device__(self):
            return 1, 0

        def __dlpack__(self, **arguments):
            raise RuntimeError("requires grad")

    with pytest.raises(InputError, match="Stubborn does not export its memory: requires grad"):
        pk.asview(Stubborn())


class CudaInterface:
    """Device array of another library."""

    def __init__(self, view, **changes):
        self.view = view
        self.__cuda_array_interface__ = {**view.__cuda_array_interface__, **changes}


def test_other_libraries_device_arrays(fake_cuda):
    for device, space in enumerate(("cuda", "cuda:1")):
        view = pk.zeros((2, 3), "int32", space=space)
        other = pk.asview(CudaInterface(view[:, ::2]))
        assert (other.memory, other.shape, other.strides) == (view.memory, (2, 2), (12, 8))
        assert other.pointer == view.pointer
        assert pk.asview(CudaInterface(view, data=(view.pointer, True))).readonly
        assert pk.asview(CudaInterface(view, strides=None)).strides == (12, 4)
        packed = pk.asview(_OnlyDlpack(view))
        assert (packed.memory, packed.pointer, packed.shape) == (view.memory, view.pointer, (2, 3))
        del view
        assert _bytes_in_use(device) == 24
        del other, packed
        assert _bytes_in_use(device) == 0
    view = pk.zeros(3, space="cuda")
    with pytest.raises(DTypeError, match="masked"):
        pk.asview(CudaInterface(view, mask=view))
    with pytest.raises(InputError, match="CUDA did not allocate the memory"):
        pk.asview(CudaInterface(view, data=(BASE - 4096, False)))
    empty = pk.asview(CudaInterface(pk.zeros(0, space="cuda"), data=(0, False)))
    assert empty.shape == (0,) and empty.__cuda_array_interface__["data"] == (0, False)
    before = fake_cuda.calls.count("cuCtxSynchronize")
    pk.asview(CudaInterface(view, stream=7))
    assert fake_cuda.calls.count("cuCtxSynchronize") == before + 1


# Our memory for others


class _OnlyDlpack:
    def __init__(self, view):
        self.__dlpack__, self.__dlpack_device__ = view.__dlpack__, view.__dlpack_device__

    def __getattribute__(self, name):
        return object.__getattribute__(self, name)


@pytest.mark.parametrize("dtype", NUMPYS)
def test_numpy_reads_views_through_dlpack(dtype):
    view = pk.zeros((3, 4), dtype)
    array = np.from_dlpack(view[:, 1::2].T)
    assert array.shape == (2, 3) and np.shares_memory(array, view.to_numpy())
    view[2, 3] = 1
    assert array[1, 2] == 1
    alive = weakref.ref(view)
    del view
    gc.collect()
    before = len(dlpack._exported)
    assert alive() is None and before >= 1  # the exported slice lives, and with it the memory
    del array
    gc.collect()
    assert len(dlpack._exported) == before - 1


def test_capsules_that_nobody_consumes_release_their_view():
    view = pk.zeros(3)
    alive = weakref.ref(view)
    for version in (None, (1, 0)):
        capsule = view.__dlpack__(max_version=version)
        assert len(dlpack._exported) == 1
        del capsule
        assert not dlpack._exported
    del view
    assert alive() is None


def test_what_dlpack_cannot_promise_is_refused():
    frozen = np.zeros(3)
    frozen.flags.writeable = False
    view = pk.asview(frozen)
    with pytest.raises(BufferError, match="read-only"):
        view.__dlpack__()
    assert not np.from_dlpack(view).flags.writeable
    with pytest.raises(BufferError, match="without a copy"):
        view.__dlpack__(copy=True, max_version=(1, 0))
    with pytest.raises(BufferError, match="from its own device"):
        view.__dlpack__(dl_device=(2, 0), max_version=(1, 0))


def test_device_views_for_others(fake_cuda):
    view = pk.zeros((2, 3), "float32", space="cuda:1")
    assert view.__dlpack_device__() == (2, 1)
    interface = view[:, 1:].__cuda_array_interface__
    assert interface == {
        "data": (view.pointer + 4, False),
        "shape": (2, 2),
        "strides": (12, 4),
        "typestr": "<f4",
        "version": 3,
        "stream": 1,
    }
    with pytest.raises(WrongSpaceError, match="to_numpy"):
        np.asarray(view)
    assert not hasattr(pk.zeros(3), "__cuda_array_interface__")

    def waits(stream):
        before = [fake_cuda.calls.count(name) for name in ("cuCtxSynchronize", "cuStreamWaitEvent")]
        view.__dlpack__(stream=stream)
        return [
            fake_cuda.calls.count(name) - n
            for name, n in zip(("cuCtxSynchronize", "cuStreamWaitEvent"), before)
        ]

    # our queued work is in the default stream, too
    assert waits(-1) == waits(None) == waits(0) == waits(1) == [0, 0]
    assert waits(77) == [0, 1]  # a stream of others waits on the device
    registry.memory("cuda:1").streamed = True  # our work may be in other streams
    assert waits(1) == waits(77) == [1, 0] and waits(-1) == [0, 0]
    assert BASE + MEMORY_BYTES <= view.pointer


def test_arrays_of_other_dtypes():
    view = pk.zeros(3)
    assert np.asarray(view, "float32").dtype == np.float32
    assert not np.shares_memory(np.array(view), view.to_numpy())
    with pytest.raises(ValueError, match="without a copy"):
        view.__array__("float32", copy=False)


def test_the_struct_is_what_the_header_says():
    """Compare with sizes and offsets of dlpack.h 1.0 on 64-bit machines."""
    assert ctypes.sizeof(dlpack._Tensor) == 48 and ctypes.sizeof(dlpack._Managed) == 64
    assert ctypes.sizeof(dlpack._Versioned) == 80 and dlpack._Versioned.tensor.offset == 32
    assert (dlpack._Tensor.shape.offset, dlpack._Tensor.byte_offset.offset) == (24, 40)


@pytest.fixture
def nothing_kept(monkeypatch):
    """Start without host memory kept for reuse; return a function that gives the kept memory."""
    monkeypatch.setattr(host._Large, "kept", {})
    return lambda: {size: len(arrays) for size, arrays in host._Large.kept.items() if arrays}


def test_large_memory_of_the_host_is_used_again(nothing_kept):
    n = host.LARGE // 8
    first = pk.empty(n)
    assert first.pointer % 64 == 0 and first.to_numpy().flags.writeable
    part, pointer = first.to_numpy()[5:9], first.pointer
    del first
    assert not nothing_kept()  # a reference remains
    other = pk.empty(n, space="threads")
    assert other.pointer != pointer
    del part
    assert nothing_kept() == {8 * n: 1}
    smaller = pk.empty(n - 1)
    assert smaller.pointer != pointer and nothing_kept()
    again = pk.empty((2, n // 2), "int64", "serial")
    assert again.pointer == pointer and not nothing_kept()
    assert not pk.zeros(n).to_numpy().any()  # also memory that was kept


def test_kept_memory_is_bounded(nothing_kept, monkeypatch):
    monkeypatch.setattr(host, "_MOST_KEPT", 2 * host.LARGE)
    n = host.LARGE // 8
    views = [pk.empty(n) for _ in range(2)]
    views.clear()
    assert nothing_kept() == {8 * n: 2}
    pk.empty(n + 1)
    assert nothing_kept() == {8 * (n + 1): 1}
    pk.empty(2 * n + 1)  # larger than the limit by itself
    assert not nothing_kept()
    views, count = [pk.empty(n) for _ in range(3)], host._Large._n_kept
    # a thread frees two between another one's count and its use
    monkeypatch.setattr(host._Large, "_n_kept", lambda: (count(), views.clear())[0])
    views.pop()
    assert sum(nothing_kept().values()) <= 2


@pytest.mark.parametrize("gib, kept_mib", [(1, 256), (64, 512), (2000, 1024), (None, 256)])
def test_how_much_memory_is_kept(gib, kept_mib, monkeypatch):
    """The limit is a share of the machine's memory, if the system states its size."""

    def sysconf(name):
        if gib is None:
            raise ValueError("unrecognized configuration name")
        return {"SC_PHYS_PAGES": gib << 18, "SC_PAGE_SIZE": 4096}[name]

    monkeypatch.setattr(host.os, "sysconf", sysconf, raising=False)
    assert host._most_kept() == kept_mib << 20


def test_where_memory_is_short_what_is_kept_is_given_back(nothing_kept, monkeypatch):
    n, asked = host.LARGE // 8, []
    pk.empty(n)

    def empty(nbytes, dtype):
        asked.append(nothing_kept())
        if len(asked) == 1:
            raise MemoryError
        return np.zeros(8, dtype)

    monkeypatch.setattr(host.np, "empty", empty)
    host._Large._new(8)
    assert asked == [{8 * n: 1}, {}]
