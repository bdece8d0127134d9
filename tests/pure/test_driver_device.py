"""Test the wrapping of the CUDA driver on a real device: each call once, with a kernel written in PTX.
Skipped without a GPU."""

import ctypes
import threading

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from portable.core.machines.cuda import driver
from portable.errors import DeviceError, OutOfMemoryError

pytestmark = pytest.mark.skipif(not driver.available()[0], reason=driver.available()[1] or "no GPU")

N, BLOCK = 1000, 128
# x[i] += by for i < n, staged through dynamic shared memory.
PTX = """
.version 6.3
.target sm_70
.address_size 64
.extern .shared .align 8 .b8 stage[];
.visible .entry add(.param .u64 x, .param .u64 by, .param .u64 n)
{
    .reg .pred %p;
    .reg .b32 %r<6>;
    .reg .b64 %d<9>;
    ld.param.u64 %d1, [x];
    ld.param.u64 %d2, [by];
    ld.param.u64 %d3, [n];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.s32 %r4, %r1, %r2, %r3;
    cvt.u64.u32 %d4, %r4;
    setp.ge.u64 %p, %d4, %d3;
    @%p bra done;
    shl.b64 %d5, %d4, 3;
    add.u64 %d6, %d1, %d5;
    ld.global.u64 %d7, [%d6];
    add.u64 %d7, %d7, %d2;
    mov.u32 %r5, stage;
    mad.lo.u32 %r5, %r3, 8, %r5;
    st.shared.u64 [%r5], %d7;
    ld.shared.u64 %d8, [%r5];
    st.global.u64 [%d6], %d8;
done:
    ret;
}
"""


@pytest.fixture(scope="module")
def context():
    return driver.context(0)


class Adder:
    """Run `add` on an array of the device."""

    def __init__(self, context, image=PTX):
        self.context, self.function = context, context.load(image).function("add")
        self.memory = context.allocate(8 * N)
        context.fill(self.memory.pointer, 0, 8 * N, wait=True)
        self.values = (ctypes.c_uint64 * 3)(self.memory.pointer, 0, N)
        self.parameters = (ctypes.c_void_p * 3)(*(ctypes.addressof(self.values) + 8 * k for k in range(3)))

    def launch(self, by, stream=None):
        self.values[1] = by
        self.context.launch(self.function.handle, -(-N // BLOCK), BLOCK, 8 * BLOCK, stream, self.parameters)

    def result(self):
        self.context.synchronize()
        array = np.empty(N, np.int64)
        self.context.copy_to_host(array.ctypes.data, self.memory.pointer, array.nbytes)
        assert (array == array[0]).all()
        return array[0]


def test_device(context):
    device = context.device
    assert device.name and device.memory_bytes > 1 << 30 and device.compute_capability >= (5, 0)
    assert device.multiprocessors > 0 and device.shared_bytes_per_block_optin >= 48 << 10
    assert device.max_threads_per_sm >= device.max_threads_per_block == 1024
    free, total = context.memory_info()
    assert 0 < free <= total
    assert driver.version() >= (11, 4)


def test_launch_from_ptx_and_from_linked_code(context):
    code = context.link(PTX)
    assert code.startswith(b"\x7fELF")
    for image in (PTX, code):
        adder = Adder(context, image)
        for k in range(10):
            adder.launch(k)
        assert adder.result() == 45


def test_function_attributes_and_limits(context):
    function = context.load(PTX).function("add")
    assert function.registers > 0 and function.local_bytes == 0
    assert function.blocks_per_sm(BLOCK) >= 8
    function.allow_shared(context.device.shared_bytes_per_block_optin)
    assert function.blocks_per_sm(BLOCK, context.device.shared_bytes_per_block_optin) == 1
    with pytest.raises(DeviceError, match="cuFuncSetAttribute"):
        function.allow_shared(1 << 30)


def test_bad_programs_and_launches_say_why(context):
    with pytest.raises(DeviceError, match="(?s)cuModuleLoadDataEx.*PTX.*\n.*nonsense"):
        context.load(PTX.replace("ret;", "nonsense;"))
    with pytest.raises(DeviceError, match="(?s)cuLink.*\n.*nonsense"):
        context.link(PTX.replace("ret;", "nonsense;"))
    with pytest.raises(DeviceError, match="cuModuleGetFunction.*NOT_FOUND"):
        context.load(PTX).function("missing")
    adder = Adder(context)
    with pytest.raises(DeviceError, match="cuLaunchKernel.*INVALID_VALUE.*\n1 blocks of 5000 threads"):
        context.launch(adder.function.handle, 1, 5000, 0, None, adder.parameters)
    adder.launch(1)
    assert adder.result() == 1


def test_streams_events_and_graphs(context):
    adder, stream = Adder(context), context.stream()
    begin, end = context.event(), context.event()
    begin.record(stream.handle)
    adder.launch(1, stream.handle)
    adder.launch(1, stream.handle.value)
    end.record(stream.handle)
    assert 0 <= end.seconds_since(begin) < 10
    with context.capture(stream.handle) as graph:
        for _ in range(5):
            adder.launch(10, stream.handle)
    assert adder.result() == 2
    for _ in range(3):
        graph.launch(stream.handle)
    assert adder.result() == 152


def test_an_exception_in_a_capture_leaves_the_stream_usable(context):
    adder, stream = Adder(context), context.stream()
    with pytest.raises(ZeroDivisionError), context.capture(stream.handle):
        adder.launch(1, stream.handle)
        raise ZeroDivisionError
    adder.launch(5, stream.handle)
    assert adder.result() == 5


def test_other_threads(context):
    adder = Adder(context)
    threads = [threading.Thread(target=adder.launch, args=(1,)) for _ in range(3)]
    for thread in threads:
        thread.start()
        thread.join()
    assert adder.result() == 3


def test_memory(context):
    source, target = np.arange(N), np.zeros(N, np.int64)
    a, b, pinned = context.allocate(8 * N), context.allocate(8 * N), context.allocate_pinned(8 * N)
    context.copy_to_device(a.pointer, source.ctypes.data, 8 * N)
    context.copy(b.pointer, a.pointer, 8 * N, context)
    context.fill(b.pointer, 255, 8)
    context.copy_to_host(pinned.pointer, b.pointer, 8 * N)
    context.copy_to_host(target.ctypes.data, b.pointer, 8 * N)
    source[0] = -1
    assert_array_equal(target, source)
    assert_array_equal((ctypes.c_int64 * N).from_address(pinned.pointer)[:], source)
    assert driver.device_of(a.pointer) == 0 and driver.device_of(target.ctypes.data) is None
    free = context.memory_info()[0]
    big = context.allocate(1 << 28)
    assert context.memory_info()[0] <= free - (1 << 28)
    del big
    assert context.memory_info()[0] >= free - (1 << 22)
    with pytest.raises(OutOfMemoryError, match="cuda:0.*has no room for 1,125,899,906,842,624 bytes"):
        context.allocate(1 << 50)


def test_two_devices(context):
    if len(driver.devices()) < 2:
        pytest.skip("one device")
    other = driver.context(1)
    source, target = np.arange(N), np.zeros(N, np.int64)
    a, b = context.allocate(8 * N), other.allocate(8 * N)
    context.copy_to_device(a.pointer, source.ctypes.data, 8 * N)
    other.copy(b.pointer, a.pointer, 8 * N, context)
    other.copy_to_host(target.ctypes.data, b.pointer, 8 * N)
    assert_array_equal(target, source)
    assert (driver.device_of(a.pointer), driver.device_of(b.pointer)) == (0, 1)
    adders = Adder(context), Adder(other)
    for k in range(4):
        adders[k % 2].launch(1)
    assert adders[0].result() == adders[1].result() == 2
