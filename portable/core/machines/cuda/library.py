"""The CUDA driver's library, its functions with the types of their parameters, its errors, and its devices.

Importing this file loads nothing; the first call does. After a fork every function refuses: CUDA does not
survive in the child.
"""

import contextlib
from ctypes import (
    CDLL,
    Structure,
    addressof,
    byref,
    c_char_p,
    c_int,
    c_size_t,
    c_ubyte,
    c_uint,
    c_uint64,
    c_ulonglong,
    c_void_p,
    cast,
    create_string_buffer,
)
import dataclasses
import functools
import os
import threading
import types

from ....errors import DeviceError, NestedLaunchError, OutOfMemoryError

LIBRARIES = ("nvcuda.dll",) if os.name == "nt" else ("libcuda.so.1", "libcuda.so")
# The driver's error codes after which a context is unusable: ECC, illegal address, timeout, assert, stack,
# ...
_FATAL = {214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719}

# Parameters: P pointer or handle, D device address, Z size_t, I int, U unsigned, L unsigned long long, B
# byte.
_SIGNATURES = [
    line.split()
    for line in """
cuDriverGetVersion P
cuDeviceGetCount P
cuDeviceGet PI
cuDeviceGetName PII
cuDeviceTotalMem_v2 PI
cuDeviceGetAttribute PII
cuDevicePrimaryCtxRetain PI
cuCtxSetCurrent P
cuCtxSynchronize
cuModuleLoadDataEx PPUPP
cuModuleUnload P
cuModuleGetFunction PPP
cuLinkCreate_v2 UPPP
cuLinkAddData_v2 PIPZPUPP
cuLinkComplete PPP
cuLinkDestroy P
cuFuncGetAttribute PIP
cuFuncSetAttribute PII
cuOccupancyMaxActiveBlocksPerMultiprocessor PPIZ
cuMemAlloc_v2 PZ
cuMemFree_v2 D
cuMemGetInfo_v2 PP
cuMemHostAlloc PZU
cuMemFreeHost P
cuMemcpyHtoDAsync_v2 DPZP
cuMemcpyHtoD_v2 DPZ
cuMemcpyDtoH_v2 PDZ
cuMemcpyDtoHAsync_v2 PDZP
cuMemcpyDtoDAsync_v2 DDZP
cuMemcpyPeerAsync DPDPZP
cuMemsetD8Async DBZP
cuStreamCreate PU
cuStreamDestroy_v2 P
cuStreamSynchronize P
cuStreamWaitEvent PPU
cuStreamBeginCapture_v2 PI
cuStreamEndCapture PP
cuEventCreate PU
cuEventDestroy_v2 P
cuEventRecord PP
cuEventSynchronize P
cuEventElapsedTime PPP
cuGraphInstantiateWithFlags PPL
cuGraphLaunch PP
cuGraphDestroy P
cuGraphExecDestroy P
""".strip().splitlines()
]
_TYPES = {
    "P": c_void_p,
    "D": c_uint64,
    "Z": c_size_t,
    "I": c_int,
    "U": c_uint,
    "L": c_ulonglong,
    "B": c_ubyte,
}


class Shape(Structure):
    """Launch parameters of `cu.launch_as`, on the default stream: the driver's CUlaunchConfig."""

    _fields_ = [
        *((name, c_uint) for name in "x y z block_x block_y block_z shared_bytes".split()),
        ("stream", c_void_p),
        ("attributes", c_void_p),
        ("n_attributes", c_uint),
    ]


# the loaded functions, without version suffixes; all raise on failure except those with different names here
cu = types.SimpleNamespace()


def available():
    """Return True if CUDA can be used in this process.

    Returns
    -------
    (bool, str) : the answer, and the reason if it is no (else "")
    """
    reason = _load()
    if reason:
        return False, reason
    return (True, "") if devices() else (False, "the NVIDIA driver sees no device")


@functools.cache
def _load():
    """Load the driver; the reason in words if that is impossible, else ""."""
    library = _open()
    if library is None:
        return f"the NVIDIA driver is not installed ({' and '.join(LIBRARIES)} not found)"
    try:
        for name, *letters in _SIGNATURES:
            function = getattr(library, name)
            function.argtypes = [_TYPES[letter] for letter in "".join(letters)]
            short = name.split("_v")[0]
            setattr(cu, short, _checked(short, function))
        # Without argtypes ctypes takes 0.3 instead of 0.8 microseconds for eleven arguments; handles must be
        # c_void_p.
        cu.launch = library["cuLaunchKernel"]
        # with four arguments instead of eleven, from CUDA 11.8 on
        cu.launch_as = library["cuLaunchKernelEx"] if hasattr(library, "cuLaunchKernelEx") else None
        # called for every large copy, mostly with memory that is not CUDA's: unlike cuPointerGetAttribute it
        # reports no error then, neither here nor to tools that trace driver calls
        cu.pointer_attributes = library["cuPointerGetAttributes"]
        cu.pointer_attributes.argtypes = [c_uint, *[c_void_p] * 2, c_uint64]
        # no error either: there may be no link, or another library has enabled it
        cu.enable_peer = library["cuCtxEnablePeerAccess"]
        # for compiled code, which calls them itself
        cu.address = lambda name: cast(library[name], c_void_p).value
        cu.error_name, cu.error_string = library["cuGetErrorName"], library["cuGetErrorString"]
    except AttributeError as missing:
        return f"the NVIDIA driver is too old ({missing}); expected CUDA 11.4 or newer"
    code = library.cuInit(0)
    return f"the NVIDIA driver does not start: {_words('cuInit', code)}" if code else ""


def _open():
    for name in LIBRARIES:
        with contextlib.suppress(OSError):
            return CDLL(name)
    return None


def _checked(name, function):
    def call(*arguments):
        code = function(*arguments)
        if code:
            raise error(name, code)

    return call


def _words(call, code):
    texts = []
    for function in (cu.error_name, cu.error_string):
        text = c_char_p()
        function(code, byref(text))
        texts.append(text.value.decode() if text.value else "unknown error")
    return f"{call}: {texts[1]} ({texts[0]}, {code})"


def error(call, code, more=""):
    """Return the exception for a code that `call` returned."""
    text = _words(call, code) + (f"\n{more}" if more else "")
    if code in _FATAL:
        text += ". The device's context is lost; start a new process."
    return (OutOfMemoryError if code == 2 else DeviceError)(text)


def _refuse(*arguments):
    raise NestedLaunchError(
        "CUDA was used before this process was forked, and does not work in the child. Use the "
        "start method 'spawn', or CUDA in the child."
    )


def _forked():
    for name in vars(cu):
        setattr(cu, name, _refuse)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


@dataclasses.dataclass(frozen=True)
class Device:
    """Properties of one GPU as the driver reports them; an SM is a multiprocessor."""

    ordinal: int
    name: str
    memory_bytes: int
    compute_capability: tuple[int, int]
    multiprocessors: int
    max_threads_per_block: int
    max_threads_per_sm: int
    shared_bytes_per_block_optin: int  # after Function.allow_shared


# Numbers of the driver's device attributes.
_ATTRIBUTES = dict(
    multiprocessors=16, max_threads_per_block=1, max_threads_per_sm=39, shared_bytes_per_block_optin=97
)


@functools.cache
def devices():
    """Return the GPUs, a tuple of Device in the driver's order; empty where CUDA is not available."""
    if _load():
        return ()
    count = c_int()
    cu.cuDeviceGetCount(byref(count))
    return tuple(_device(ordinal) for ordinal in range(count.value))


def _device(ordinal):
    device, memory, name = c_int(), c_size_t(), create_string_buffer(256)
    cu.cuDeviceGet(byref(device), ordinal)
    cu.cuDeviceGetName(name, len(name), device)
    cu.cuDeviceTotalMem(byref(memory), device)
    return Device(
        ordinal,
        name.value.decode(),
        memory.value,
        (attribute(ordinal, 75), attribute(ordinal, 76)),
        **{word: attribute(ordinal, number) for word, number in _ATTRIBUTES.items()},
    )


def attribute(ordinal, number):
    """Return the device's attribute of that number in the driver's CUdevice_attribute, an int."""
    value, device = c_int(), c_int()
    cu.cuDeviceGet(byref(device), ordinal)
    cu.cuDeviceGetAttribute(byref(value), number, device)
    return value.value


def version():
    """Return the CUDA version that the driver supports, (major, minor)."""
    value = c_int()
    cu.cuDriverGetVersion(byref(value))
    return value.value // 1000, value.value % 1000 // 10


# The driver's CU_POINTER_ATTRIBUTE_MEMORY_TYPE, which is 0 for memory that is not CUDA's, and
# CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL.
_KIND_AND_ORDINAL = (c_int * 2)(2, 9)
_answer = threading.local()  # buffer for the driver's answer


def _new_answer():
    found = (c_int * 2)()
    where = addressof(found)
    _answer.of_driver = found, (c_void_p * 2)(where, where + 4)
    return _answer.of_driver


def device_of(pointer):
    """Return the ordinal of the device that holds an address, or None for memory that is not CUDA's.

    Memory of the host that CUDA has pinned counts as known; managed memory too.
    """
    if _load():  # a foreign array may be this process's first use of CUDA
        return None
    found, places = _answer.__dict__.get("of_driver") or _new_answer()
    code = cu.pointer_attributes(2, _KIND_AND_ORDINAL, places, pointer)
    kind, ordinal = found
    return None if code or not kind else ordinal
