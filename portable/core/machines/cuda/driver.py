"""The CUDA driver through ctypes: memory, programs, launches, streams, events and graphs. No toolkit is
needed.

Handles are ctypes objects (c_void_p), addresses of memory are Python ints. Each device has one Context, over
the device's primary context, which other CUDA libraries in the process share: their memory and streams may be
used here, and those of portable there.
"""

import contextlib
from ctypes import (
    addressof,
    byref,
    c_float,
    c_int,
    c_size_t,
    c_uint64,
    c_void_p,
    create_string_buffer,
    string_at,
)
import functools
import gc
import itertools
import sys
import threading
import warnings
import weakref

from ... import dlpack
from ....errors import DeviceError, NestedLaunchError, OutOfMemoryError, SpaceUnavailableError
from ...locks import Lock, lazy_attribute, compile_once
from .. import contract
from . import staging
from .library import attribute, available, cu, device_of, devices, error, version

__all__ = ["Context", "attribute", "available", "context", "device_of", "devices", "version"]

_INVALID_CONTEXT, _INVALID_HANDLE, _ENABLED_ALREADY = 201, 400, 704  # the driver's codes
_MOST_KNOWN = 4096
_UNTIMED = 2  # a mark that has no time
_KEPT_SHARE = 8  # at most one in this number of bytes of the device's memory is kept
# Bytes from which a copy checks whether its memory is pinned, and from which it justifies pinned memory,
# whose allocation takes the system milliseconds; it is also allocated after _FEW smaller copies.
_ASKED, _LARGE, _FEW = 64 << 10, 1 << 20, 16


class _Here(threading.local):
    """The context that this thread made current last: a launch without a current context is a driver error,
    which error checkers report.
    """

    context = None


here = _Here()


@compile_once
def context(ordinal=0):
    """Return the Context of device `ordinal`; SpaceUnavailableError if it cannot be used."""
    usable, reason = available()
    if usable and not 0 <= ordinal < len(devices()):
        usable, reason = False, f"the devices are numbered 0 to {len(devices()) - 1}"
    if not usable:
        raise SpaceUnavailableError(f"space 'cuda:{ordinal}': {reason}")
    return Context(ordinal)


known: dict[int, "Context"] = {}  # the only device, by addresses of arrays that its driver has located


def know(pointer, context):
    """Remember where an address is, if it can be nowhere else: asking takes as long as a short launch."""
    if context.alone:
        if len(known) >= _MOST_KNOWN:
            known.clear()
        known[pointer] = context


class Context(contract.Memory):
    """One device: memory, copies, programs and launches. Get it from `context(ordinal)`.

    Every method makes the device current in the calling thread. Streams are Stream.handle, or None for the
    default stream (which cannot be captured). Copies and fills are queued on the default stream; `wait=True`
    waits for it.
    """

    def __init__(self, ordinal):
        device, self.handle = c_int(), c_void_p()
        self.ordinal, self.name, self.device = ordinal, f"cuda:{ordinal}", devices()[ordinal]
        self.dlpack = dlpack.CUDA, ordinal
        self.alone, self.lasting = len(devices()) == 1, []
        self._staging, self._stage_lock, self._few = None, Lock(), _FEW
        self.capturing = Lock()  # waiting for the whole context ends captures of other threads
        # size in bytes -> addresses of freed memory, and their total in bytes; True if a queue other than the
        # default stream was used
        self._kept, self._kept_bytes, self.parallel = {}, 0, False
        self._most_kept = self.device.memory_bytes // _KEPT_SHARE
        self.streamed = False  # the same, for queues of other libraries
        self._marks = {}  # in the queues of other devices, by their numbers
        self._links = {}  # True if kernels here can read the memory of another device, by its number
        cu.cuDeviceGet(byref(device), ordinal)
        cu.cuDevicePrimaryCtxRetain(byref(self.handle), device)

    def activate(self):
        """Make the device current in this thread."""
        cu.cuCtxSetCurrent(self.handle)
        here.context = self

    def launch(self, function, grid, block, shared_bytes, stream, parameters):
        """Launch `grid` blocks of `block` threads.

        Parameters
        ----------
        function : c_void_p, Function.handle
        stream : int, c_void_p or None
        grid : int, or (x, y, z)
        block, shared_bytes : int
        parameters : c_void_p or ctypes array
            The address of an array with the address of each of the kernel's parameters; copied before this
            returns.
        """
        if not self.alone or here.context is not self:
            self.activate()
        if stream.__class__ is int:  # without argtypes ctypes would cut it to 32 bits
            stream, self.streamed = c_void_p(stream), True
            self.share()
        x, y, z = grid if grid.__class__ is tuple else (grid, 1, 1)
        launch = function, x, y, z, block, 1, 1, shared_bytes, stream, parameters, None
        code = cu.launch(*launch)
        if code in (_INVALID_CONTEXT, _INVALID_HANDLE):  # a foreign context
            self.activate()
            code = cu.launch(*launch)
        if code:
            raise error(
                "cuLaunchKernel",
                code,
                f"{grid} blocks of {block} threads with {shared_bytes} bytes of shared memory",
            )

    def synchronize(self):
        """Wait for everything queued on the device."""
        self.activate()
        with self.capturing:
            cu.cuCtxSynchronize()

    # Memory

    def allocate(self, nbytes, zero=False):
        """Allocate device memory as Memory; OutOfMemoryError if there is no room.

        Freed memory is kept for the next request of its size, since the driver takes 100 to 500 microseconds
        for one.
        """
        try:
            pointer = self._kept[nbytes].pop()
        except (KeyError, IndexError):
            pointer = self._new(nbytes)
        else:
            self._kept_bytes -= nbytes
            if self.parallel:
                self.synchronize()  # another queue than the default stream may still use it
        if zero:
            self.fill(pointer, 0, nbytes, wait=self.parallel)
        return Memory(self, pointer, nbytes, self._keep)

    def _new(self, nbytes):
        self.activate()
        pointer = c_uint64()
        try:
            cu.cuMemAlloc(byref(pointer), max(nbytes, 1))
        except OutOfMemoryError:
            gc.collect()  # views in reference cycles hold their memory until collected
            self.trim()
            try:
                cu.cuMemAlloc(byref(pointer), max(nbytes, 1))
            except OutOfMemoryError as full:
                free, total = self.memory_info()
                raise OutOfMemoryError(
                    f"space 'cuda:{self.ordinal}' has no room for {nbytes:,} bytes: {free:,} of "
                    f"{total:,} are free ({full})"
                ) from full
        return pointer.value

    def _keep(self, pointer, nbytes):
        self._kept.setdefault(nbytes, []).append(pointer)
        self._kept_bytes += nbytes
        if self._kept_bytes > self._most_kept:
            self.activate()
            self.trim()  # perhaps of sizes that are not used any more

    def trim(self):
        """Return the kept memory to the driver."""
        kept, self._kept, self._kept_bytes = self._kept, {}, 0
        for pointer in itertools.chain(*kept.values()):
            cu.cuMemFree(pointer)

    def allocate_pinned(self, nbytes):
        """Allocate page-locked host memory, as a Memory; the device reaches it at the same address."""
        self.activate()
        pointer = c_void_p()
        cu.cuMemHostAlloc(byref(pointer), max(nbytes, 1), 3)  # for every context, and mapped
        return Memory(self, pointer.value, nbytes, functools.partial(_release, self, cu.cuMemFreeHost))

    def memory_info(self):
        """Return (free, total) bytes of the device; kept memory counts as free."""
        self.activate()
        free, total = c_size_t(), c_size_t()
        cu.cuMemGetInfo(byref(free), byref(total))
        return free.value + self._kept_bytes, total.value

    def ready(self, stream):
        """Let another stream wait for the default stream, without waiting here; wait where other streams
        were used."""
        if self.streamed:
            self.synchronize()
        elif stream not in (None, 0, 1):  # 0 and 1 are the default stream
            mark = self.event()
            mark.record()
            cu.cuStreamWaitEvent(c_void_p(stream), mark.handle, 0)

    def share(self):
        """Other queues than the default stream may use this memory from now on."""
        if not self.parallel:
            self.parallel = True
            self.activate()
            cu.cuStreamSynchronize(None)  # the last copy

    def interface(self, view):
        self.share()
        return {
            "data": (view.pointer if view.size else 0, view.readonly),
            "shape": view.shape,
            "strides": view.strides,
            "typestr": view.dtype.str,
            "version": 3,
            "stream": 1,
        }  # 1: the legacy default stream

    def copy_to_device(self, target, source, nbytes):
        """Copy from host address `source`, which may change when this returns, to device address `target`."""
        if not self._staged("up", target, source, nbytes, source):
            self.activate()
            cu.cuMemcpyHtoD(target, source, nbytes)
        if self.parallel:  # it may be on its way still, for which other queues do not wait
            cu.cuStreamSynchronize(None)

    def copy_to_host(self, target, source, nbytes):
        """Copy from device address `source` to host address `target`; waits for the end."""
        if not self._staged("down", target, source, nbytes, target):
            self.activate()
            cu.cuMemcpyDtoH(target, source, nbytes)  # in the default stream, and waits for it

    def _staged(self, way, target, source, nbytes, host):
        """Copy pageable memory, at address `host`, through pinned pieces; returns False if it did not."""
        if self.parallel:  # queues other than the default stream, which copies follow anyway
            self.synchronize()
        large = nbytes >= _LARGE
        if nbytes >= _ASKED and device_of(host) is not None:  # pinned already
            return False
        lock = self._stage_lock.held
        if not lock.acquire(large):  # a small copy does not wait for another thread's large one
            return False
        try:
            if self._staging is None:
                self._few -= 1
                if large or self._few < 0:
                    self._staging = self._made_staging()
            if self._staging:
                self._staging.copy(way, target, source, nbytes)
            return bool(self._staging)
        finally:
            lock.release()

    def _made_staging(self):
        try:
            return staging.staging_of(self) or False
        except (DeviceError, OutOfMemoryError) as refused:
            warnings.warn(
                f"portable: copies to cuda:{self.ordinal} are slow without pinned memory ({refused})",
                stacklevel=2,
            )
            return False

    def copy(self, target, source, nbytes, origin):
        """Copy from address `source` of another Context, or this one, to `target` of this one; waits for the
        end."""
        origin.synchronize()
        self.synchronize()
        if origin is self:
            self._queue(cu.cuMemcpyDtoDAsync, target, source, nbytes)
        elif isinstance(origin, Context):
            self._queue(cu.cuMemcpyPeerAsync, target, self.handle, source, origin.handle, nbytes)
        else:
            super().copy(target, source, nbytes, origin)

    def queue_copy(self, target, source, nbytes, origin):
        """Queue the same copy without waiting for its end."""
        if origin is self and not self.parallel:
            self._queue(cu.cuMemcpyDtoDAsync, target, source, nbytes, wait=False)
        else:  # other queues may be active there
            self.copy(target, source, nbytes, origin)

    def reaches(self, other):
        """Also False if queues other than the default ones would have to be waited for."""
        alone = isinstance(other, Context) and other is not self and not (self.parallel or other.parallel)
        return alone and self._linked(other)

    def _linked(self, other):
        """Return True if kernels here reach another device's memory, from now on."""
        if other.ordinal not in self._links:
            self.activate()
            self._links[other.ordinal] = cu.enable_peer(other.handle, 0) in (0, _ENABLED_ALREADY)
        return self._links[other.ordinal]

    def follow(self, other):
        """By a mark in the other device's default stream, for which this one's waits."""
        if not isinstance(other, Context) or self.parallel or other.parallel:
            return other.synchronize()
        if other.ordinal not in self._marks:
            self._linked(other)
            self._marks[other.ordinal] = Event(other, _UNTIMED)
        mark = self._marks[other.ordinal]
        mark.record()
        self.activate()
        cu.cuStreamWaitEvent(None, mark.handle, 0)

    def fill(self, target, byte, nbytes, wait=False):
        """Set every byte to `byte`."""
        self._queue(cu.cuMemsetD8Async, target, byte, nbytes, wait=wait)

    def _queue(self, call, *arguments, wait=True):
        self.activate()
        if arguments[-1]:  # bytes
            call(*arguments, None)
        if wait:
            cu.cuStreamSynchronize(None)

    # Programs

    def load(self, image):
        """Return a Module from PTX (str or bytes) or machine code (bytes); DeviceError includes the
        compiler's log.
        """
        self.activate()
        module, log = c_void_p(), _Log()
        with log.attached():
            cu.cuModuleLoadDataEx(byref(module), _image(image), *log.options)
        return Module(self, module)

    def link(self, ptx):
        """Return this device's machine code of PTX: bytes for `load`, to be stored on disk."""
        self.activate()
        image, log = _image(ptx), _Log()
        state, cubin, size = c_void_p(), c_void_p(), c_size_t()
        with log.attached():
            cu.cuLinkCreate(*log.options, byref(state))
            try:
                cu.cuLinkAddData(state, 1, image, len(image), b"kernel", 0, None, None)  # 1: PTX
                cu.cuLinkComplete(state, byref(cubin), byref(size))
                return string_at(cubin, size.value)
            finally:
                cu.cuLinkDestroy(state)

    # Streams, events, graphs

    def stream(self):
        """Return a new Stream; it and the default stream do not wait for each other."""
        self.activate()
        return Stream(self)

    @lazy_attribute
    def recording(self):
        """Return the handle, an int, of a stream for captures, one at a time."""
        return self.lasting_stream()

    def lasting_stream(self):
        """Return the handle, an int, of a new stream that is released with the process."""
        self.lasting.append(self.stream())
        return self.lasting[-1].handle.value

    def event(self, flags=0):
        """Return a new Event."""
        return Event(self, flags)

    @contextlib.contextmanager
    def capture(self, stream):
        """Context manager: records the operations queued on `stream` instead of running them, in the Graph it
        yields.
        """
        with self.capturing:
            self.activate()
            graph, parallel = Graph(self), self.parallel
            recorded, executable = c_void_p(), c_void_p()
            self.parallel = True  # the recorded operations will run later, and `share` need not wait for them
            # 2: relaxed; a collected view may free its memory meanwhile
            cu.cuStreamBeginCapture(stream, 2)
            try:
                yield graph
            except BaseException:
                # ends the capture; an exception raised inside takes precedence
                with contextlib.suppress(DeviceError):
                    cu.cuStreamEndCapture(stream, byref(recorded))
                    cu.cuGraphDestroy(recorded)
                raise
            finally:
                self.parallel = parallel
            self.activate()
            cu.cuStreamEndCapture(stream, byref(recorded))
            try:
                cu.cuGraphInstantiateWithFlags(byref(executable), recorded, 0)
            finally:
                cu.cuGraphDestroy(recorded)
            graph._executable = _Owner(self, executable, cu.cuGraphExecDestroy)


class _Owner:
    """A driver's handle, released with its last reference; at exit the driver releases all by itself."""

    def __init__(self, context, handle, release):
        self.context, self.handle = context, handle
        self._finalizer = weakref.finalize(self, _release, context, release, handle)
        self._finalizer.atexit = False


def _release(context, release, handle, nbytes=None):
    with contextlib.suppress(DeviceError, NestedLaunchError):  # a lost context has lost its handles
        context.activate()
        release(handle)


class Memory:
    """Allocated bytes, freed with the last reference. Attributes: pointer (int), nbytes, context.

    Calls make dozens of them, each of which an _Owner's finalizer would cost two microseconds.
    """

    __slots__ = ("context", "pointer", "nbytes", "_release")

    def __init__(self, context, pointer, nbytes, release):
        self.context, self.pointer, self.nbytes, self._release = context, pointer, nbytes, release

    def __del__(self, ending=sys.is_finalizing, lost=(DeviceError, NestedLaunchError)):
        if not ending():
            try:  # in half the time of contextlib.suppress
                self._release(self.pointer, self.nbytes)
            except lost:
                pass


class Module(_Owner):
    """A loaded program."""

    def __init__(self, context, handle):
        super().__init__(context, handle, cu.cuModuleUnload)

    def function(self, name):
        """Return the Function of that name."""
        self.context.activate()
        handle = c_void_p()
        cu.cuModuleGetFunction(byref(handle), self.handle, name.encode())
        return Function(self, handle)


class Function:
    """A kernel on the device; keeps its module loaded.

    Attributes
    ----------
    handle : c_void_p
    registers : int, a thread's
    local_bytes : int, a thread's spills and local arrays
    shared_bytes : int, a block's static shared memory
    """

    def __init__(self, module, handle):
        self.module, self.handle = module, handle
        self.shared_bytes, self.local_bytes, self.registers = map(self._attribute, (1, 3, 4))

    def _attribute(self, number):
        value = c_int()
        cu.cuFuncGetAttribute(byref(value), number, self.handle)
        return value.value

    def allow_shared(self, nbytes):
        """Permit launches with up to `nbytes` of dynamic shared memory (needed beyond 48 KiB)."""
        self.module.context.activate()
        cu.cuFuncSetAttribute(self.handle, 8, nbytes)

    def blocks_per_sm(self, block, shared_bytes=0):
        """Return the number of blocks of `block` threads with that much dynamic shared memory that a
        multiprocessor holds at once."""
        self.module.context.activate()
        value = c_int()
        cu.cuOccupancyMaxActiveBlocksPerMultiprocessor(byref(value), self.handle, block, shared_bytes)
        return value.value


class Stream(_Owner):
    """A queue of work. Attribute: handle."""

    def __init__(self, context):
        handle = c_void_p()
        cu.cuStreamCreate(byref(handle), 1)  # 1: the default stream does not wait for it
        super().__init__(context, handle, cu.cuStreamDestroy)


class Event(_Owner):
    """A mark in a stream."""

    def __init__(self, context, flags=0):
        context.activate()
        handle = c_void_p()
        cu.cuEventCreate(byref(handle), flags)
        super().__init__(context, handle, cu.cuEventDestroy)

    def record(self, stream=None):
        """Record the event after the operations queued on `stream`."""
        self.context.activate()
        cu.cuEventRecord(self.handle, stream)

    def wait(self):
        """Wait until the device has reached the mark; return at once if it was never recorded."""
        cu.cuEventSynchronize(self.handle)

    def seconds_since(self, earlier):
        """Return the time between two recorded events, once the device has reached the later one."""
        self.context.activate()
        cu.cuEventSynchronize(self.handle)
        milliseconds = c_float()
        cu.cuEventElapsedTime(byref(milliseconds), earlier.handle, self.handle)
        return milliseconds.value * 1e-3


class Graph:
    """Recorded work, ready to be launched again and again."""

    def __init__(self, context):
        self.context, self._executable = context, None

    def launch(self, stream=None):
        """Queue the whole graph on `stream`."""
        self.context.activate()
        if stream is not None:
            self.context.share()
            self.context.streamed = True
        cu.cuGraphLaunch(self._executable.handle, stream)


class _Log:
    """The options with which the driver's compiler writes its errors into the buffer of this object."""

    def __init__(self, nbytes=16384):
        self._errors = create_string_buffer(nbytes)
        words = (c_int * 2)(5, 6)  # errors, their size
        self.options = 2, words, (c_void_p * 2)(addressof(self._errors), nbytes)

    @contextlib.contextmanager
    def attached(self):
        """Append the compiler's errors to the message of an exception raised inside."""
        try:
            yield
        except DeviceError as failure:
            raise DeviceError(
                f"{failure}\n{self._errors.value.decode(errors='replace').strip()}".rstrip()
            ) from None


def _image(image):
    """Return the bytes that the driver loads: PTX must end with a zero byte, machine code may."""
    return (image.encode() if isinstance(image, str) else bytes(image)) + b"\0"
