"""DLPack: other libraries' arrays as views, and views as arrays of other libraries, without a copy.

A producer returns a capsule with a C struct (https://dmlc.github.io/dlpack/latest/): in versions below 1.0
named "dltensor", since then "dltensor_versioned" with flags. Reading does not consume the capsule: an
unconsumed capsule owns the memory and frees it when dropped, so holding the capsule is enough to keep the
memory alive.
"""

from ctypes import (
    CFUNCTYPE,
    POINTER,
    PYFUNCTYPE,
    Structure,
    addressof,
    c_char_p,
    c_int,
    c_int32,
    c_int64,
    c_uint16,
    c_uint32,
    c_uint64,
    c_uint8,
    c_void_p,
    cast,
    py_object,
    pythonapi,
)

import numpy as np

from ..errors import DTypeError, InputError

CPU, CUDA, CUDA_HOST, CUDA_MANAGED = 1, 2, 3, 13  # device types
HOSTS = CPU, CUDA_HOST
_CODES = {"i": 0, "u": 1, "f": 2, "V": 4, "c": 5, "b": 6}  # dtype codes by NumPy's kinds; V: bfloat16
_READONLY = 1  # a flag


def _fields(names, *types):
    return list(zip(names.split(), types))


class _Tensor(Structure):
    _fields_ = _fields(
        "data device_type device_id ndim code bits lanes",
        c_void_p,
        c_int32,
        c_int32,
        c_int32,
        c_uint8,
        c_uint8,
        c_uint16,
    ) + _fields("shape strides byte_offset", POINTER(c_int64), POINTER(c_int64), c_uint64)


class _Managed(Structure):
    _fields_ = _fields("tensor context deleter", _Tensor, c_void_p, c_void_p)


class _Versioned(Structure):
    _fields_ = _fields(
        "major minor context deleter flags tensor", c_uint32, c_uint32, c_void_p, c_void_p, c_uint64, _Tensor
    )


# names of capsules, which keep the addresses of these
_UNVERSIONED, _VERSIONED = b"dltensor", b"dltensor_versioned"
_NAMES = {_UNVERSIONED: _Managed, _VERSIONED: _Versioned}


def _python(name, result, *arguments):
    return PYFUNCTYPE(result, *arguments)((name, pythonapi))


_capsule_new = _python("PyCapsule_New", py_object, c_void_p, c_char_p, c_void_p)
# by address: see _destroy
_capsule_is = _python("PyCapsule_IsValid", c_int, c_void_p, c_char_p)
_capsule_pointer = _python("PyCapsule_GetPointer", c_void_p, c_void_p, c_char_p)


def read(array):
    """Return the export of `array.__dlpack__`.

    Returns
    -------
    dict : an array interface (data, shape, typestr, strides in bytes)
    (int, int) : device type and number
    object : to be held as long as the memory is used
    """
    device = tuple(map(int, array.__dlpack_device__()))
    stream = {"stream": 1} if device[0] == CUDA else {}  # 1: ready for work on the legacy default stream
    try:
        capsule = array.__dlpack__(max_version=(1, 0), **stream)
    except TypeError:  # a producer from before 1.0
        capsule = array.__dlpack__(**stream)
    return _interface(array, _managed(array, capsule)), device, capsule


def _managed(array, capsule):
    """Return the struct in a capsule, of a version that is known here."""
    for name, kind in _NAMES.items():
        if _capsule_is(id(capsule), name):
            managed = kind.from_address(_capsule_pointer(id(capsule), name))
            break
    else:
        raise InputError(f"{type(array).__name__}.__dlpack__ returned no usable capsule but {capsule!r}")
    if kind is _Versioned and managed.major != 1:
        raise InputError(
            f"{type(array).__name__} exports DLPack {managed.major}.{managed.minor}; expected 1.x or older"
        )
    return managed


def _interface(array, managed):
    """Return the array interface of the memory that a struct describes."""
    tensor = managed.tensor
    pointer = (tensor.data or 0) + tensor.byte_offset
    versioned = isinstance(managed, _Versioned)
    readonly = bool(managed.flags & _READONLY) if versioned else not _may_be_written(array, pointer)
    letter = {code: letter for letter, code in _CODES.items()}.get(tensor.code)
    if letter is None or tensor.lanes != 1 or tensor.bits % 8:
        raise DTypeError(
            f"{type(array).__name__} exports DLPack dtype code {tensor.code}, {tensor.bits} bits, "
            f"{tensor.lanes} lanes, which kernels do not support"
        )
    itemsize, shape = tensor.bits // 8, tuple(tensor.shape[: tensor.ndim])
    return {
        "data": (pointer, readonly),
        "shape": shape,
        "strides": tuple(itemsize * step for step in tensor.strides[: tensor.ndim])
        if tensor.strides
        else None,
        "typestr": "bfloat16" if letter == "V" else np.dtype(f"{letter}{itemsize}").str,
        "version": 3,
    }


def _may_be_written(array, pointer):
    """Return True if NumPy may write to the same memory, for capsules from before 1.0, which have no such
    flag: JAX's arrays are immutable.
    """
    try:
        seen = np.asarray(array)
    except Exception:  # noqa: BLE001  (whatever another library raises: a device's memory, gradients)
        return False
    return seen.flags.writeable and seen.__array_interface__["data"][0] == pointer


_exported = {}  # address of a struct -> the object that keeps its memory alive


@CFUNCTYPE(None, c_void_p)
def _delete(address):
    """Release the object kept for a consumer that has finished."""
    _exported.pop(address, None)


@PYFUNCTYPE(None, c_void_p)
def _destroy(capsule):
    """Release the memory of a capsule that is destroyed: its original name means that it was never
    consumed."""
    for name in _NAMES:
        if _capsule_is(capsule, name):
            _delete(_capsule_pointer(capsule, name))


def write(owner, pointer, shape, strides, dtype, device, readonly, versioned):
    """Return a capsule that exports memory and keeps `owner` alive until the consumer has finished.

    Parameters
    ----------
    owner : object
    pointer : int
    shape, strides : tuple of int; strides in bytes
    dtype : numpy.dtype
    device : (int, int), DLPack's device type and number
    readonly, versioned : bool
    """
    shape_words = (c_int64 * len(shape))(*shape)
    stride_words = (c_int64 * len(shape))(*(step // dtype.itemsize for step in strides))
    tensor = _Tensor(
        pointer, *device, len(shape), _CODES[dtype.kind], 8 * dtype.itemsize, 1, shape_words, stride_words, 0
    )
    deleter = cast(_delete, c_void_p)
    if versioned:
        name, managed = _VERSIONED, _Versioned(1, 0, None, deleter, _READONLY * readonly, tensor)
    elif readonly:
        raise BufferError("a read-only view can only be exported to consumers of DLPack 1.0 or newer")
    else:
        name, managed = _UNVERSIONED, _Managed(tensor, None, deleter)
    address = addressof(managed)
    _exported[address] = managed, shape_words, stride_words, owner
    return _capsule_new(address, name, cast(_destroy, c_void_p))
