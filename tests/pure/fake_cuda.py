"""Simulate a CUDA driver with two devices and no GPU: calls are recorded, and answered from a bytearray.

Addresses of its memory are not mapped in any process, so that a host that accesses device memory crashes in
the test.
"""

import contextlib
import ctypes
import os
from ctypes import (
    POINTER,
    c_char_p,
    c_float,
    c_int,
    c_size_t,
    c_ubyte,
    c_uint,
    c_uint64,
    c_ulonglong,
    c_void_p,
)

import pytest

from portable.core.launch import dispatch
from portable.core.places import space
from portable.core import registry
from portable.core.machines.cuda import driver, library

# not canonical on any processor: an access through it faults
BASE, MEMORY_BYTES = 0x6000_0000_0000_0000, 1 << 22
FUNCTIONS, PIECE = 0x7700_0000_0000, 16 << 10  # names of one length are one function; bytes of a stamp
ATTRIBUTES = {75: 9, 76: 0, 16: 132, 10: 32, 1: 1024, 97: 232448}
ERRORS = {
    2: "OUT_OF_MEMORY",
    100: "NO_DEVICE",
    201: "INVALID_CONTEXT",
    218: "INVALID_PTX",
    700: "ILLEGAL_ADDRESS",
}
GOOD_PTX, BAD_PTX = b".version 6.3 good\0", b".version 6.3 bad\0"
VERSION = 999_000  # of no real driver, which would find the simulated machine code in the cache


class FakeDriver:
    """Functions of the library by name, each also counted in `calls`; `fail[name] = code` makes a function
    fail."""

    def __init__(self):
        self.calls, self.live, self.launches = [], {}, []
        self.fail = {"cuCtxEnablePeerAccess": 217}  # there is no link
        self.memory = {d: bytearray(MEMORY_BYTES) for d in (0, 1)}
        self.used = {0: 0, 1: 0}  # bytes, and the next address: addresses are not reused
        self.current, self.handles, self.capturing = None, 100, False
        self.pinned, self._functions = {}, {}
        self.block, self.block_bytes = b"", 0  # the block of the previous launch, of `block_bytes` bytes
        for name, (function, types) in _functions(self).items():
            self._functions[name] = ctypes.CFUNCTYPE(c_int, *types)(self._counted(name, function))

    def __getattr__(self, name):
        if name not in self._functions:
            raise AttributeError(f"undefined symbol: {name}")
        return self._functions[name]

    __getitem__ = __getattr__

    def _counted(self, name, function):
        def call(*arguments):
            self.calls.append(name)
            if name in self.fail:
                return self.fail[name]
            return function(*arguments) or 0

        return call

    def new(self, kind):
        self.handles += 1
        self.live[self.handles] = kind
        return self.handles

    def bytes_at(self, pointer, nbytes):
        """Return a memoryview of device memory."""
        device, offset = divmod(pointer - BASE, MEMORY_BYTES)
        assert offset + nbytes <= MEMORY_BYTES
        return memoryview(self.memory[device])[offset : offset + nbytes]


def _functions(fake):
    """Return name -> (implementation, types of its parameters as in cuda.h)."""
    handle_out, device = POINTER(c_void_p), c_int

    def out(pointer, value):
        pointer[0] = value

    def error_text(code, text):
        fake.text = text[0] = f"CUDA_ERROR_{ERRORS.get(code, 'UNKNOWN')}".encode()

    def allocate(pointer, nbytes):
        if not fake.current:
            return 201
        here = fake.current - 1
        if (
            sum(v[1] for v in fake.live.values() if isinstance(v, tuple) and v[0] == here) + nbytes
            > MEMORY_BYTES
        ):
            return 2
        # Addresses are exhausted: begin again with those that the test has freed.
        if fake.used[here] + nbytes > MEMORY_BYTES:
            fake.used[here] = 0
        pointer[0] = BASE + here * MEMORY_BYTES + fake.used[here]
        fake.live[pointer[0]] = here, nbytes
        fake.used[here] += -(-nbytes // 256) * 256

    def free(pointer):
        del fake.live[pointer]

    def pin(pointer, nbytes, flags):
        memory = ctypes.create_string_buffer(nbytes)
        pointer[0] = ctypes.addressof(memory)
        fake.live[pointer[0]], fake.pinned[pointer[0]] = "pinned", memory

    def memory_info(free_bytes, total):
        used = sum(v[1] for v in fake.live.values() if isinstance(v, tuple) and v[0] == fake.current - 1)
        free_bytes[0], total[0] = MEMORY_BYTES - used, MEMORY_BYTES

    def host_to_device(target, source, nbytes, stream=None):
        fake.bytes_at(target, nbytes)[:] = ctypes.string_at(source, nbytes)

    def device_to_host(target, source, nbytes, stream=None):
        ctypes.memmove(target, bytes(fake.bytes_at(source, nbytes)), nbytes)

    def device_to_device(target, source, nbytes, stream):
        assert abs(target - source) >= nbytes, "overlapping copies are undefined"
        fake.bytes_at(target, nbytes)[:] = bytes(fake.bytes_at(source, nbytes))

    def peer(target, target_context, source, source_context, nbytes, stream):
        assert (target_context, source_context) == (
            (target - BASE) // MEMORY_BYTES + 1,
            (source - BASE) // MEMORY_BYTES + 1,
        )
        device_to_device(target, source, nbytes, stream)

    def pointer_attributes(n, attributes, values, pointer):
        """Memory unknown to CUDA is no error: zeros, and -2 for its device number."""
        ours = BASE <= pointer < BASE + 2 * MEMORY_BYTES
        found = {2: 2 * ours, 9: (pointer - BASE) // MEMORY_BYTES if ours else -2}
        for attribute, place in zip(attributes[:n], values[:n]):
            c_int.from_address(place).value = found[attribute]

    def compile_(image, count, options, values):
        options = dict(zip(options[:count], values[:count]))
        assert set(options) == {5, 6}
        if image.startswith(b".version") and b"bad" in image:
            ctypes.memmove(options[5], b"ptxas error: line 1\0", 20)
            return 218

    def load(module, image, count, options, values):
        code = compile_(ctypes.string_at(image), count, options, values)
        if code:
            return code
        module[0] = fake.new("module")

    def link_create(count, options, values, state):
        fake.link = count, (c_int * count)(*options[:count]), (c_void_p * count)(*values[:count])
        state[0] = fake.new("link")

    def link_add(state, kind, data, size, name, count, options, values):
        assert kind == 1 and ctypes.string_at(data, size)[-1] == 0
        return compile_(ctypes.string_at(data), *fake.link)

    def link_complete(state, image, size):
        fake.cubin = ctypes.create_string_buffer(b"\x7fELF\0code", 9)
        image[0], size[0] = ctypes.addressof(fake.cubin), 9

    def make(kind):
        return lambda pointer, *rest: out(pointer, fake.new(kind))

    def move(parameters):
        """Execute the kernel of backends/cuda/staging.py."""
        values = ctypes.cast(parameters, POINTER(POINTER(c_uint64)))
        target, source, nbytes, stamps, serial = (values[k][0] for k in range(5))
        found = bytes(fake.bytes_at(source, nbytes)) if source >= BASE else ctypes.string_at(source, nbytes)
        if target >= BASE:
            fake.bytes_at(target, nbytes)[:] = found
        else:
            ctypes.memmove(target, found, nbytes)
        for piece in range(-(-nbytes // PIECE) if stamps else 0):
            c_uint64.from_address(stamps + 8 * piece).value = serial

    def launch(function, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra):
        if not fake.current:
            return 201
        if function == FUNCTIONS + len("ring_move"):
            return move(parameters)
        first = ctypes.cast(parameters, POINTER(POINTER(c_uint64)))[0][0]
        fake.block = ctypes.string_at(ctypes.cast(parameters, POINTER(c_void_p))[0], fake.block_bytes)
        fake.launches.append((function, (gx, gy, gz), (bx, by, bz), shared, stream, first, fake.current - 1))

    def launch_as(shape, function, parameters, extra):
        s = shape[0]
        grid, block = (s.x, s.y, s.z), (s.block_x, s.block_y, s.block_z)
        assert not s.attributes and not s.n_attributes
        return launch(function, *grid, *block, s.shared_bytes, s.stream, parameters, extra)

    def end_capture(stream, graph):
        graph[0] = fake.new("graph")

    def forget(handle, *rest):
        del fake.live[handle]

    nothing = lambda *arguments: 0  # noqa: E731
    handle = c_void_p
    return {
        "cuInit": (nothing, [c_uint]),
        "cuGetErrorName": (error_text, [c_int, POINTER(c_char_p)]),
        "cuGetErrorString": (error_text, [c_int, POINTER(c_char_p)]),
        "cuDriverGetVersion": (lambda v: out(v, VERSION), [POINTER(c_int)]),
        "cuDeviceGetCount": (lambda n: out(n, 2), [POINTER(c_int)]),
        "cuDeviceGet": (lambda d, n: out(d, n), [POINTER(c_int), c_int]),
        "cuDeviceGetName": (lambda t, n, d: ctypes.memmove(t, b"Fake\0", 5) and 0, [c_void_p, c_int, device]),
        "cuDeviceTotalMem_v2": (lambda n, d: out(n, MEMORY_BYTES), [POINTER(c_size_t), device]),
        "cuDeviceGetAttribute": (
            lambda v, a, d: out(v, ATTRIBUTES.get(a, 0)),
            [POINTER(c_int), c_int, device],
        ),
        "cuDevicePrimaryCtxRetain": (lambda c, d: out(c, d + 1), [handle_out, device]),
        "cuCtxSetCurrent": (lambda c: setattr(fake, "current", c), [handle]),
        "cuCtxSynchronize": (nothing, []),
        "cuCtxEnablePeerAccess": (nothing, [handle, c_uint]),
        "cuPointerGetAttributes": (pointer_attributes, [c_uint, POINTER(c_int), POINTER(c_void_p), c_uint64]),
        "cuModuleLoadDataEx": (load, [handle_out, c_void_p, c_uint, POINTER(c_int), handle_out]),
        "cuModuleUnload": (forget, [handle]),
        "cuModuleGetFunction": (lambda f, m, n: out(f, FUNCTIONS + len(n)), [handle_out, handle, c_char_p]),
        "cuLinkCreate_v2": (link_create, [c_uint, POINTER(c_int), handle_out, handle_out]),
        "cuLinkAddData_v2": (
            link_add,
            [handle, c_int, c_void_p, c_size_t, c_char_p, c_uint, c_void_p, c_void_p],
        ),
        "cuLinkComplete": (link_complete, [handle, handle_out, POINTER(c_size_t)]),
        "cuLinkDestroy": (forget, [handle]),
        "cuFuncGetAttribute": (lambda v, a, f: out(v, 10 + a), [POINTER(c_int), c_int, handle]),
        "cuFuncSetAttribute": (nothing, [handle, c_int, c_int]),
        "cuOccupancyMaxActiveBlocksPerMultiprocessor": (
            lambda n, f, b, s: out(n, 2048 // b),
            [POINTER(c_int), handle, c_int, c_size_t],
        ),
        "cuLaunchKernel": (launch, [handle] + [c_uint] * 7 + [handle, c_void_p, c_void_p]),
        "cuLaunchKernelEx": (launch_as, [POINTER(library.Shape), handle, c_void_p, c_void_p]),
        "cuMemAlloc_v2": (allocate, [POINTER(c_uint64), c_size_t]),
        "cuMemFree_v2": (free, [c_uint64]),
        "cuMemGetInfo_v2": (memory_info, [POINTER(c_size_t), POINTER(c_size_t)]),
        "cuMemHostAlloc": (pin, [handle_out, c_size_t, c_uint]),
        "cuMemFreeHost": (forget, [c_void_p]),
        "cuMemcpyHtoDAsync_v2": (host_to_device, [c_uint64, c_void_p, c_size_t, handle]),
        "cuMemcpyDtoHAsync_v2": (device_to_host, [c_void_p, c_uint64, c_size_t, handle]),
        "cuMemcpyHtoD_v2": (host_to_device, [c_uint64, c_void_p, c_size_t]),
        "cuMemcpyDtoH_v2": (device_to_host, [c_void_p, c_uint64, c_size_t]),
        "cuMemcpyDtoDAsync_v2": (device_to_device, [c_uint64, c_uint64, c_size_t, handle]),
        "cuMemcpyPeerAsync": (peer, [c_uint64, handle, c_uint64, handle, c_size_t, handle]),
        "cuMemsetD8Async": (
            lambda p, v, n, s: fake.bytes_at(p, n).__setitem__(slice(None), bytes([v]) * n),
            [c_uint64, c_ubyte, c_size_t, handle],
        ),
        "cuStreamCreate": (make("stream"), [handle_out, c_uint]),
        "cuStreamDestroy_v2": (forget, [handle]),
        "cuStreamSynchronize": (nothing, [handle]),
        "cuStreamWaitEvent": (nothing, [handle, handle, c_uint]),
        "cuStreamBeginCapture_v2": (nothing, [handle, c_int]),
        "cuStreamEndCapture": (end_capture, [handle, handle_out]),
        "cuEventCreate": (make("event"), [handle_out, c_uint]),
        "cuEventDestroy_v2": (forget, [handle]),
        "cuEventRecord": (nothing, [handle, handle]),
        "cuEventSynchronize": (nothing, [handle]),
        "cuEventElapsedTime": (lambda ms, a, b: out(ms, 2.5), [POINTER(c_float), handle, handle]),
        "cuGraphInstantiateWithFlags": (make("executable"), [handle_out, handle, c_ulonglong]),
        "cuGraphLaunch": (nothing, [handle, handle]),
        "cuGraphDestroy": (forget, [handle]),
        "cuGraphExecDestroy": (forget, [handle]),
    }


def _forget_everything():
    known = library._load, library.devices, space._first_choice, dispatch._space, registry.memory
    for function in (
        *known,
        driver.context,
        driver.context.__wrapped__.__wrapped__,
    ):  # of `locks.compile_once`
        function.cache_clear()
    driver.known.clear()


@contextlib.contextmanager
def installed(fake):
    """Replace the driver by `fake`; tests are skipped if there is a real driver.

    Objects that outlive the test, such as compiled kernels and memory that is freed later, would be passed to
    the real driver. The large memory of `fake` is cleared explicitly: it is in reference cycles, which may be
    collected much later.
    """
    if library.available()[0]:
        pytest.skip("a CUDA device is present, whose driver would be given the pretended one's handles")
    real, library._open = library._open, lambda: fake
    _forget_everything()
    try:
        yield fake
    finally:
        library._open = real
        _forget_everything()
        if fake is not None:
            fake.memory.clear()
            fake.pinned = {at: memory for at, memory in fake.pinned.items() if len(memory) < 1 << 20}


@pytest.fixture
def fake_cuda():
    """Replace the driver by a simulated one."""
    with installed(FakeDriver()) as fake:
        yield fake


fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
