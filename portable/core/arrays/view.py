"""Views: arrays of 0 to 6 dimensions in one space's memory, and their description that launches hand to
kernels.

A View never changes: its shape, strides and address are fixed, only its elements may be written. Therefore
the data that a launch requires are computed once, when the view is created:

    view.spec   (dtype name, ndim, contiguous_last, readonly, memory): what a kernel is compiled for. Equal
                specs are one object, so that they can be compared by identity.
    view.words  the address, the shape and the strides in bytes, a little-endian int64 each: a kernel's
                argument.
    view.key    both: equal keys are equal arguments.

`describe` makes the same pair for a NumPy array. A view keeps its metadata in a NumPy array: on the host the
data's own; for a device it lies over the device's addresses and its elements are never touched, NumPy only
does the slicing.
"""

from __future__ import annotations

import ctypes
import functools
import math
import operator
import struct
from typing import Any, Final

import numpy as np

from .. import dlpack, events, registry
from ..places import space as spaces
from ..language.annotations import DTypeLike, Shape, SpaceLike
from ..language.types import STORED, reach
from ...errors import DTypeError, InputError, OutOfMemoryError, ShapeError, WrongSpaceError
from ..places.space import HOST

_KNOWN = frozenset(np.dtype(name) for name in STORED if name != "bfloat16")
MAX_NDIM = 6
_MAX_BYTES = 2**62  # far beyond any machine; products of sizes must not wrap on the way to an allocator
_new, _pack_word = object.__new__, struct.Struct("<q").pack
_PACKERS = [struct.Struct(f"<{1 + 2 * ndim}q").pack for ndim in range(MAX_NDIM + 1)]
# The mark of unwritten memory, NaN for floats and invalid as a bool; and True if all host arrays of `empty`
# bear it, False if only those for the checked space do.
UNWRITTEN = np.frombuffer(b"\xce\xfa\xf5\x7f" * 16, np.uint8)
# (type, dtype, NumPy's flags, ndim) -> spec if the last dimension is contiguous, spec if not, itemsize
_known = {}


def _address_by_layout(array):
    """Return the address of an array's data: NumPy's first field after the object header of CPython, in all
    versions.
    """
    return _word_at(id(array) + _HEADER_BYTES).value


_word_at, _HEADER_BYTES, _probe = ctypes.c_int64.from_address, object.__basicsize__, np.zeros(3)
# five times slower
address = (
    _address_by_layout
    if _address_by_layout(_probe) == _probe.ctypes.data
    else lambda array: array.ctypes.data
)


def describe(array):
    """Return the spec and the words of a NumPy array.

    Returns
    -------
    (tuple, bytes) : (dtype name, ndim, contiguous_last, readonly, "host"), one object for equal contents; the
    address,
        the shape and the strides in bytes, int64 each. The address is good for as long as the array lives.
    """
    shape, strides = array.shape, array.strides
    ndim = len(shape)
    key = type(array), array.dtype, array.flags.num, ndim
    known = _known.get(key)
    if known is None:
        known = _known[key] = _examine(array)
    contiguous, strided, itemsize = known
    return (
        contiguous if not ndim or strides[-1] == itemsize else strided,
        _PACKERS[ndim](address(array), *shape, *strides),
    )


def _examine(array):
    """Check the properties that arrays with these flags share; return their specs with a contiguous and with
    a strided last dimension, and their item size.
    """
    if hasattr(array, "filled"):  # without importing numpy.ma, which takes as long as a first launch
        raise DTypeError(
            "masked arrays are not supported: kernels would not see the mask. Pass array.filled(...)."
        )
    name = check_dtype(array.dtype).name
    if array.ndim > MAX_NDIM:
        raise ShapeError(
            f"an array of shape {array.shape} has {array.ndim} dimensions; kernels take up to {MAX_NDIM}:"
            " pass a.reshape(...)"
        )
    if not array.flags.aligned:
        raise InputError(
            f"an array of {name} starts at an address that is no multiple of {array.itemsize}; copy it"
        )
    contiguous, strided = (
        _spec(name, array.ndim, flag or array.flags.c_contiguous, not array.flags.writeable, HOST)
        for flag in (True, False)
    )
    return contiguous, strided, array.itemsize


class Spec(tuple):
    """A tuple of which equal ones are one object, so that it can be hashed as fast as an object."""

    __slots__ = ()
    __hash__ = object.__hash__


@functools.cache
def _spec(*words):
    return Spec(words)


_CONVERT = "Convert the array, for example with array.astype('float64')."
_REMEDIES = {
    "V": "Pass its fields, array['name'], alone or in a NamedTuple.",
    "M": "Pass its numbers, array.view('int64').",
    "m": "Pass its numbers, array.view('int64').",
    "O": "Pass numbers: of a frame one column, frame['name'].to_numpy().",
    "U": "Number the strings, for example with np.unique(array, return_inverse=True).",
}


def check_dtype(dtype):
    """Return the numpy.dtype meant by a name or type; DTypeError unless kernels have it."""
    if isinstance(dtype, str) and dtype == "bfloat16":
        return _bfloat16()
    try:
        found = np.dtype(dtype)
    except TypeError as error:
        raise DTypeError(f"dtype {dtype!r} is unknown; expected one of {', '.join(STORED)}") from error
    # a dtype's name is slow to make
    if found not in _KNOWN and (found.name not in STORED or not found.isnative):
        raise DTypeError(
            f"dtype '{found.name if found.isnative else found.str}' is not supported; expected one of "
            f"{', '.join(STORED)}. {_REMEDIES.get(found.kind, _CONVERT)}"
        )
    return found


def _bfloat16():
    """Return the numpy.dtype of bfloat16, which a separate package adds to NumPy."""
    try:
        import ml_dtypes
    except ImportError as error:
        raise DTypeError(f"bfloat16 is not NumPy's own ({error}): pip install ml_dtypes") from error
    return np.dtype(ml_dtypes.bfloat16)


def check_shape(shape):
    if type(shape) is tuple and len(shape) <= MAX_NDIM and all([type(n) is int and n >= 0 for n in shape]):
        return shape
    try:
        checked = tuple(map(operator.index, shape if isinstance(shape, (tuple, list)) else (shape,)))
    except TypeError as error:
        raise ShapeError(f"shape is {shape!r}; expected an integer or a tuple of integers") from error
    if len(checked) > MAX_NDIM:
        raise ShapeError(f"shape {checked} has {len(checked)} dimensions; views have up to {MAX_NDIM}")
    if min(checked, default=0) < 0:
        raise ShapeError(f"shape {checked} has a negative extent")
    return checked


class _Fields:
    """Parts of a View while it is made: setting a View's own takes five times as long."""

    __slots__ = "memory space label pointer spec words key _array __weakref__".split()


class View(_Fields):
    """An array of 0 to 6 dimensions in the memory of one space; made by this call it is row-major and all
    zero.

    Parameters
    ----------
    shape : int or tuple of int
    dtype : str, type or numpy.dtype, default "float64"
        bool, float32, float64, int32, int64, uint32, uint64, complex64, complex128; or int8, uint8, int16,
        uint16, float16, bfloat16 (by the package ml_dtypes), computed in 32 bits.
    space : str, Space or None
        The space whose kernels use it; the default space if None.
    label : str or None
        For messages and profiles.

    Attributes
    ----------
    shape, strides, ndim, size, nbytes, dtype, T : as in NumPy
    memory : str
        "host", or "cuda:0" and so on.
    space, label : str (label may be None)
    readonly : bool
    pointer : int, the address of the first element
    spec, words, key : tuple, bytes, a tuple of both
        The data that launches use; see the module.

    Notes
    -----
    `v[...]` with ints, slices and Ellipsis is a View of the same memory; with an int for each dimension, the
    element. `v[...] = x` works on host spaces. A View keeps its memory alive, a foreign library's too.

    Examples
    --------
    >>> v = pk.View((2, 3), "float32", space="serial", label="table")
    >>> v.shape, v[1].shape, v.memory
    ((2, 3), (3,), 'host')
    """

    shape: Final[tuple[int, ...]]
    strides: Final[tuple[int, ...]]
    ndim: Final[int]
    size: Final[int]
    nbytes: Final[int]
    dtype: Final[np.dtype[Any]]
    memory: Final[str]
    space: Final[str]
    label: Final[str | None]
    pointer: Final[int]
    __slots__ = ()

    def __new__(
        cls,
        shape: Shape,
        dtype: DTypeLike = "float64",
        space: SpaceLike = None,
        label: str | None = None,
    ) -> View:
        return _allocate(shape, dtype, space, label, zero=True)

    def __setattr__(self, name, value):
        raise AttributeError(f"a View never changes: '{name}' cannot be set")

    shape, strides, ndim, size, nbytes, dtype = (
        property(operator.attrgetter(f"_array.{name}"), doc=f"`{name}` as in NumPy")
        for name in "shape strides ndim size nbytes dtype".split()
    )

    @property
    def readonly(self) -> bool:
        """True if writing is refused."""
        return self.spec[3]

    @property
    def T(self) -> View:
        """The view with its dimensions reversed."""
        return _view(self._array.T, self.memory, self.space, self.label)

    def reshape(self, *shape: Any) -> View:
        """Return a view of the same elements in another shape, without a copy.

        Parameters
        ----------
        *shape : int, or one tuple of int
            One extent may be -1, as in NumPy.

        Returns
        -------
        View, of the same memory

        Raises
        ------
        ShapeError
            The view is not row-major without gaps, or has another number of elements.
        """
        if not self._array.flags.c_contiguous:
            raise ShapeError(
                f"{self!r} has strides {self.strides}: it cannot be reshaped without a copy; pk.copy_of(v)"
                " makes one"
            )
        wanted = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        try:
            reshaped = self._array.reshape(wanted)
        except (TypeError, ValueError) as error:
            raise ShapeError(
                f"{self!r} has {self.size} elements; they do not fill shape {tuple(wanted)}"
            ) from error
        return _view(reshaped, self.memory, self.space, self.label)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a View of 0 dimensions has no len()")
        return self.shape[0]

    def __getitem__(self, index: Any) -> Any:
        index = _check_index(index)
        # With an Ellipsis NumPy always makes an array and reads no element.
        part = self._array[index if Ellipsis in index else (*index, Ellipsis)]
        if len(index) == self.ndim and Ellipsis not in index and not part.ndim:
            return _view(part, self.memory, self.space).to_numpy()[()]
        return _view(part, self.memory, self.space, self.label)

    def __setitem__(self, index: Any, value: Any) -> None:
        if self.memory != HOST:
            raise WrongSpaceError(
                f"{self!r}: elements on a device cannot be assigned from the host. "
                "Use portable.deep_copy(v[...], value), or a kernel."
            )
        if self.readonly:
            raise InputError(f"{self!r} cannot be written")
        self._array[_check_index(index)] = value._array if isinstance(value, View) else value

    def to_numpy(self) -> np.ndarray[Any, Any]:
        """Return the elements as a NumPy array: on the host the same memory, from a device a copy."""
        if self.memory == HOST:
            return self._array
        with events.copy(self.memory, HOST, self.nbytes):
            return registry.memory(self.memory).read(self)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if self.memory != HOST:
            raise WrongSpaceError(f"{self!r} is on a device; NumPy cannot reach it. Use v.to_numpy().")
        if copy is False and dtype is not None and np.dtype(dtype) != self.dtype:
            raise ValueError(f"{self!r} cannot become {np.dtype(dtype)} without a copy")
        return np.array(self._array, dtype, copy=True) if copy else np.asarray(self._array, dtype)

    def __iter__(self):
        """Iterate over the first axis, as NumPy does, so that pandas accepts a View as a column."""
        yield from np.asarray(self)

    @property
    def __cuda_array_interface__(self):
        return registry.memory(self.memory).interface(self)

    def __dlpack_device__(self):
        return registry.memory(self.memory).dlpack

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if copy or dl_device not in (None, self.__dlpack_device__()):
            raise BufferError(f"{self!r} is exported from its own device, without a copy")
        memory = registry.memory(self.memory)
        if stream != -1:  # -1: the consumer requests no synchronisation
            memory.ready(stream)
        memory.share()
        return dlpack.write(
            self,
            self.pointer,
            self.shape,
            self.strides,
            self.dtype,
            memory.dlpack,
            self.readonly,
            versioned=max_version is not None and max_version[0] >= 1,
        )

    def __reduce__(self):
        if self.memory != HOST:
            raise TypeError(f"{self!r} is device memory and cannot be pickled; pickle v.to_numpy()")
        return asview, (self._array, self.space, self.label)

    def __repr__(self):
        """Name the view and its first and last elements; those of a device stay there."""
        elements = "..."
        if self.memory == HOST:
            elements = " ".join(np.array2string(self._array, threshold=6, edgeitems=2).split())
        label = f", label={self.label!r}" if self.label else ""
        readonly = ", readonly" * self.readonly
        return (
            f"View({elements}, shape={self.shape}, dtype={self.dtype}, space={self.space!r}{label}{readonly})"
        )


def zeros(
    shape: Shape, dtype: DTypeLike = "float64", space: SpaceLike = None, label: str | None = None
) -> View:
    """Return a View with all elements zero, as `View(...)` does.

    Parameters
    ----------
    shape, dtype, space, label : as for View

    Returns
    -------
    View, row-major

    Raises
    ------
    ShapeError, DTypeError, UnknownSpaceError, SpaceUnavailableError, OutOfMemoryError

    Examples
    --------
    >>> pk.zeros(2, space="serial").to_numpy()
    array([0., 0.])
    """
    return View(shape, dtype, space, label)


def empty(
    shape: Shape, dtype: DTypeLike = "float64", space: SpaceLike = None, label: str | None = None
) -> View:
    """Allocate a View with uninitialised elements.

    Parameters
    ----------
    shape, dtype, space, label : as for View

    Returns
    -------
    View, row-major

    Raises
    ------
    ShapeError, DTypeError, UnknownSpaceError, SpaceUnavailableError, OutOfMemoryError

    Examples
    --------
    >>> pk.empty((2, 3), "int32", space="serial").nbytes
    24
    """
    return _allocate(shape, dtype, space, label, zero=False)


def asview(array: Any, space: SpaceLike = None, label: str | None = None) -> View:
    """Return a View of an array's own memory, without a copy.

    Parameters
    ----------
    array : View, or anything with `__array_interface__`, `__cuda_array_interface__`, `__dlpack__` or
        `__array__`
        NumPy, CuPy, PyTorch, JAX, numba arrays and others; columns and frames of one dtype of pandas, xarray,
        polars, pyarrow. Where such a library hands out a copy (missing values, several dtypes), the View is
        read-only and of that copy.
    space : str, Space or None
        The space whose kernels use it; WrongSpaceError if the array is not in its memory.
    label : str or None

    Returns
    -------
    View : of the same memory, which it keeps alive; read-only if the array is

    Raises
    ------
    DTypeError, ShapeError : the array has elements or dimensions that kernels do not have
    InputError : the array exports no memory

    Examples
    --------
    >>> x = np.zeros(3)
    >>> v = pk.asview(x, space="serial")
    >>> v[0] = 5.0
    >>> x.tolist()
    [5.0, 0.0, 0.0]
    """
    if isinstance(array, View):
        metadata, memory, label = array._array, array.memory, label or array.label
    elif isinstance(array, np.ndarray):
        metadata, memory = array, HOST
    else:
        metadata, memory = _foreign(array)
    if space is None:
        where = array.space if isinstance(array, View) else _space_of(memory)
    else:
        resolved = spaces.resolve(space)
        where = str(resolved)
        if resolved.memory != memory:
            raise WrongSpaceError(
                f"asview: the {type(array).__name__} is in memory '{memory}', space '{where}' uses "
                f"'{resolved.memory}'. To copy: v = portable.empty({metadata.shape}, "
                f"'{metadata.dtype}', space='{where}'); portable.deep_copy(v, array)."
            )
    return _view(metadata, memory, where, label)


def _allocate(shape, dtype, space, label, *, zero):
    events.refuse_while_recording("an allocation")
    space = spaces.default_space() if space is None else space
    asked = shape if type(shape) is int else check_shape(shape), dtype, space
    try:
        where, name, shape, dtype, spec, behind = _row_major(*asked)
    except TypeError:  # unhashable values are refused
        where, name, shape, dtype, spec, behind = _row_major.__wrapped__(*asked)
    try:
        metadata = registry.memory(where.memory).array(shape, dtype, zero)
    except OutOfMemoryError:
        raise
    except MemoryError as error:
        raise _no_room(where, shape, dtype) from error
    if (
        not zero
        and where.memory == HOST
        and (events.current().watched or registry.backend(where.name).marks_unwritten)
    ):
        mark_unwritten(metadata.reshape(-1).view(np.uint8))
    pointer = address(metadata)
    return _make_view(metadata, where.memory, name, label, spec, pointer, _pack_word(pointer) + behind)


@functools.lru_cache(maxsize=1024, typed=True)
def _row_major(shape, dtype, space):
    """Return the common parts of new arrays of one kind: (space, its name, shape, dtype, spec, words after
    the address).
    """
    where, shape, dtype = spaces.resolve(space), check_shape(shape), check_dtype(dtype)
    if math.prod(shape) * dtype.itemsize > _MAX_BYTES:
        raise _no_room(where, shape, dtype)
    spec, words = describe(np.ndarray(shape, dtype, _New.from_address(64)))
    return where, str(where), shape, dtype, _spec(*spec[:4], where.memory), words[8:]


def mark_unwritten(raw):
    """Fill bytes with the mark by which the checked space recognises memory that was never written."""
    raw[:] = np.resize(UNWRITTEN, len(raw))


def _no_room(where, shape, dtype):
    return OutOfMemoryError(
        f"space '{where}' has no room for the {math.prod(shape) * dtype.itemsize:,} bytes of shape"
        f" {shape} and dtype {dtype}"
    )


def _view(metadata, memory, space, label=None):
    """Return the View of a NumPy array, or with a device's memory of an array over its addresses."""
    spec, words = describe(metadata)
    spec = spec if memory == HOST else _spec(*spec[:4], memory)
    return _make_view(metadata, memory, space, label, spec, address(metadata), words)


def _make_view(metadata, memory, space, label, spec, pointer, words):
    if label is not None and not isinstance(label, str):
        raise InputError(f"label is {label!r}; expected a string")
    view = _new(_Fields)
    view._array, view.memory, view.space, view.label = metadata, memory, space, label
    view.pointer, view.spec, view.words, view.key = pointer, spec, words, (spec, words)
    view.__class__ = View
    return view


class _Over:
    """Memory described by its array interface, the owner that keeps it alive, and the type of the source
    array.
    """

    def __init__(self, interface, owner, producer):
        self.__array_interface__, self.owner, self.producer = interface, owner, producer


def array_over(interface, owner, producer=None):
    """Return the NumPy array over an interface's memory; on a device only its metadata may be used."""
    dtype, (place, readonly) = check_dtype(interface["typestr"]), interface["data"]
    wanted = {name: interface.get(name) for name in ("shape", "strides", "version")}
    # NumPy before 2.4 refuses an empty array's null pointer; this address is never read
    wanted |= {"data": (place or 64, readonly), "typestr": dtype.str}
    array = np.asarray(_Over(wanted, owner, producer))
    return array if array.dtype == dtype else array.view(dtype)  # a bfloat16 is described by its size only


class _New(ctypes.c_char * _MAX_BYTES):
    """New memory as a buffer, whose length is that of the array over it."""

    __slots__ = ("owner",)


def over_new(memory, shape, dtype):
    """Return the same over memory from `Memory.allocate`, in less than half the time."""
    buffer = _New.from_address(memory.pointer or 64)
    buffer.owner = memory
    return np.ndarray(shape, dtype, buffer)


def describe_adopted(interface, memory):
    """Return the spec and the words of another library's array on a device, as those of its view, in a
    fraction of the time; None if the array is invalid and a view must report the reason.
    """
    place, readonly = interface["data"]
    try:
        spec, aligned, behind = _layout(
            interface["typestr"], interface["shape"], interface.get("strides"), readonly, memory
        )
    except (InputError, TypeError):  # a view reports the reason in more detail
        return None
    return None if place % aligned else (spec, _pack_word(place or 64) + behind)


@functools.lru_cache(maxsize=1024)
def _layout(typestr, shape, strides, readonly, memory):
    """Return the spec, the required alignment of the memory, and the words after the address."""
    interface = {"typestr": typestr, "shape": shape, "strides": strides, "data": (64, readonly)}
    array = array_over(interface | {"version": 3}, None)
    spec, words = describe(array)
    return _spec(*spec[:4], memory), array.dtype.alignment, words[8:]


def producer_of(view):
    """Return the name of the foreign type that owns a view's memory; None for portable's and
    NumPy's memory.
    """
    base = view._array
    while isinstance(base, np.ndarray):
        base = base.base
    return getattr(base, "producer", None)


def _foreign(array):
    """Return (NumPy array over the memory, the memory's name) of another library's array."""
    kind = type(array).__name__
    producer = f"{type(array).__module__}.{kind}"
    try:
        if (adopted := registry.first("adopt", array)) is not None:
            _, (interface, memory) = adopted
            return array_over(interface, array, producer), memory
        if hasattr(array, "__dlpack__"):
            interface, device, owner = dlpack.read(array)
            memory = registry.memory_of(*device)
            if memory is None:
                raise WrongSpaceError(
                    f"asview: the {kind} is on a DLPack device of type {device[0]}, which no space supports"
                )
            registry.memory(memory).share()  # its library may use other queues
            return array_over(interface, owner, producer), memory
        if hasattr(array, "__array_interface__"):
            return np.asarray(array), HOST
        if hasattr(array, "__array__"):  # pandas, xarray, polars, pyarrow
            elements = np.asarray(array)
            if address(elements) != address(np.asarray(array)):
                elements.flags.writeable = False  # a copy: writes to it would be lost
            return elements, HOST
    except (InputError, WrongSpaceError):
        raise
    except Exception as error:  # of a library that refuses to export (PyTorch with gradients, ...)
        raise InputError(f"asview: the {kind} does not export its memory: {error}") from error
    raise InputError(
        f"asview: a {kind} has no memory to share (no array interface, no __dlpack__, no __array__). "
        "Make an array of it first, with numpy.asarray."
    )


def _check_index(index):
    index = index if isinstance(index, tuple) else (index,)
    for part in index:
        if not (part is Ellipsis or isinstance(part, (slice, int, np.integer))) or isinstance(part, bool):
            raise InputError(f"a View is indexed by ints, slices and Ellipsis, not by {part!r}")
    return index


def _space_of(memory):
    """Return the name of a space for memory given without one: the default space if it reaches it."""
    default = spaces.default_space()
    return str(default) if default.memory == memory else registry.PREFERRED[-1] if memory == HOST else memory


def lowest(view):
    """Return the smallest address of an element: the first element's, less the extent of negative strides."""
    return view.pointer + reach(view.shape, view.strides, 0)[0]


def span(view):
    """Return a host buffer for the bytes from a view's lowest to its highest element, and over it an array
    like the view."""
    if not view.size:
        return np.empty(0, np.uint8), np.empty(view.shape, view.dtype)
    low, high = reach(view.shape, view.strides, view.dtype.itemsize)
    buffer = np.empty(high - low, np.uint8)
    return buffer, np.ndarray(view.shape, view.dtype, buffer, -low, view.strides)
