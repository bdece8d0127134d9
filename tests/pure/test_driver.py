"""Test the wrapping of the CUDA driver with a simulated driver: calls, releases, errors."""

import ctypes
import gc
import os
import struct
import threading
import time

import numpy as np
import pytest
from fake_cuda import (  # noqa: F401
    BAD_PTX,
    BASE,
    GOOD_PTX,
    MEMORY_BYTES,
    FakeDriver,
    fake_cuda,
    fork,
    installed,
)

import portable as pk
from portable.core import locks
from portable.core.machines.cuda import driver, library
from portable.errors import DeviceError, NestedLaunchError, OutOfMemoryError, SpaceUnavailableError


@pytest.fixture
def context(fake_cuda):
    return driver.context(0)


def test_without_a_driver_the_reason_is_said():
    with installed(None):
        usable, reason = driver.available()
        assert not usable and "not installed" in reason and "libcuda" in reason
        assert driver.devices() == ()
        with pytest.raises(SpaceUnavailableError, match="cuda:0.*not installed"):
            driver.context(0)


def test_a_driver_that_does_not_start():
    fake = FakeDriver()
    fake.fail["cuInit"] = 100
    with installed(fake):
        assert driver.available() == (
            False,
            "the NVIDIA driver does not start: cuInit: CUDA_ERROR_NO_DEVICE (CUDA_ERROR_NO_DEVICE, 100)",
        )


def test_an_old_driver():
    fake = FakeDriver()
    del fake._functions["cuGraphInstantiateWithFlags"]
    with installed(fake):
        usable, reason = driver.available()
        assert not usable and "too old" in reason and "cuGraphInstantiateWithFlags" in reason


def test_threads_that_ask_side_by_side_share_a_context(fake_cuda):
    given = []
    threads = [threading.Thread(target=lambda: given.append(driver.context(0))) for _ in range(3)]
    with locks.compiling:
        for thread in threads:
            thread.start()
        while driver.context.cache_info().misses < 3 and any(thread.is_alive() for thread in threads):
            time.sleep(0.001)  # until all of them have started
    for thread in threads:
        thread.join()
    assert len(given) == 3 and all(one is driver.context(0) for one in given)


def test_a_foreign_address_may_be_the_first_question():
    with installed(FakeDriver()):
        assert driver.device_of(BASE) == 0 and driver.device_of(1) is None


def test_devices(fake_cuda):
    assert driver.available() == (True, "")
    assert driver.version() == (999, 0)
    first, second = driver.devices()
    assert (first.ordinal, second.ordinal) == (0, 1)
    assert (first.name, first.memory_bytes, first.compute_capability) == ("Fake", MEMORY_BYTES, (9, 0))
    assert (first.multiprocessors, first.shared_bytes_per_block_optin) == (132, 232448)
    with pytest.raises(SpaceUnavailableError, match="cuda:2.*numbered 0 to 1"):
        driver.context(2)


def test_memory_is_free_with_its_last_reference(context, fake_cuda):
    memory = context.allocate(1000)
    assert memory.nbytes == 1000 and memory.pointer in fake_cuda.live
    del memory
    assert context.memory_info() == (MEMORY_BYTES, MEMORY_BYTES)
    context.trim()
    assert not fake_cuda.live
    assert context.memory_info() == (MEMORY_BYTES, MEMORY_BYTES)
    assert context.allocate(0).pointer


def test_freed_memory_serves_the_next_request_of_its_size(context, fake_cuda):
    a, b = context.allocate(1000), context.allocate(1000)
    first = a.pointer
    del a
    assert context.allocate(2000).pointer != first
    again = context.allocate(1000)
    assert again.pointer == first != b.pointer
    assert fake_cuda.calls.count("cuMemAlloc_v2") == 3
    assert fake_cuda.calls.count("cuCtxSynchronize") == 0  # one queue: earlier uses come before


@pytest.mark.parametrize("use", ["a launch", "a graph", "another library"])
def test_memory_that_another_queue_may_use_is_waited_for(context, fake_cuda, use):
    memory = context.allocate(1000)
    if use == "a launch":
        function, word = context.load(GOOD_PTX).function("entry"), ctypes.c_int(0)
        context.launch(
            function.handle,
            1,
            1,
            0,
            context.stream().handle.value,
            (ctypes.c_void_p * 1)(ctypes.addressof(word)),
        )
    elif use == "a graph":
        stream = context.stream()
        with context.capture(stream.handle) as graph:
            pass
        assert not context.parallel
        graph.launch(stream.handle)
    else:
        np.testing.assert_equal(pk.empty(3, space="cuda").__cuda_array_interface__["shape"], (3,))
    del memory
    before = fake_cuda.calls.count("cuCtxSynchronize")
    context.allocate(1000)
    assert fake_cuda.calls.count("cuCtxSynchronize") == before + 1


def test_no_more_is_kept_than_an_eighth_of_the_memory(context, fake_cuda):
    memories = [context.allocate(MEMORY_BYTES // 16) for _ in range(5)]
    del memories
    assert len(fake_cuda.live) == 2


def test_what_is_kept_makes_room_for_another_size(context, fake_cuda):
    kept = context.allocate(MEMORY_BYTES // 8)
    del kept
    assert context.allocate(MEMORY_BYTES - 1000).nbytes == MEMORY_BYTES - 1000


def test_out_of_memory_says_how_much_and_collects_garbage_first(context, fake_cuda):
    with pytest.raises(OutOfMemoryError, match="cuda:0.*10,000,000 bytes.*4,194,304 of 4,194,304 are free"):
        context.allocate(10_000_000)
    assert not fake_cuda.live

    class Cycle:
        pass

    gc.disable()
    try:
        cycle = Cycle()
        cycle.itself, cycle.memory = cycle, context.allocate(3_000_000)
        del cycle
        assert context.allocate(2_000_000).nbytes == 2_000_000
    finally:
        gc.enable()


def test_copies_and_fills(context, fake_cuda):
    a, b = context.allocate(64), context.allocate(64)
    source, target = ctypes.create_string_buffer(bytes(range(64)), 64), ctypes.create_string_buffer(64)
    context.copy_to_device(a.pointer, ctypes.addressof(source), 64)
    context.copy(b.pointer, a.pointer, 64, context)
    context.fill(b.pointer + 60, 255, 4)
    context.copy_to_host(ctypes.addressof(target), b.pointer, 64)
    assert target.raw == bytes(range(60)) + b"\xff" * 4
    other = driver.context(1)
    c = other.allocate(64)
    assert c.pointer >= BASE + MEMORY_BYTES and driver.device_of(c.pointer) == 1
    assert driver.device_of(ctypes.addressof(source)) is None
    other.copy(c.pointer, a.pointer, 64, context)
    assert fake_cuda.bytes_at(c.pointer, 64) == source.raw
    before = len(fake_cuda.calls)
    context.copy(a.pointer, b.pointer, 0, context)
    assert not any(name.startswith("cuMemcpy") for name in fake_cuda.calls[before:])


@pytest.mark.parametrize("refused", [0, 217, 704])
@pytest.mark.parametrize("dtype", ["float64", "complex128", "int8"])
def test_queued_copies(context, fake_cuda, dtype, refused):
    """Queued copies do not block, and between linked devices are a kernel of the target; without a link, or
    with queues other than the default ones, they synchronize with all."""
    fake_cuda.fail["cuCtxEnablePeerAccess"] = refused
    fake_cuda.block_bytes = 48
    a, b, c = (pk.empty(5, dtype, space) for space in ("cuda:0", "cuda:0", "cuda:1"))
    pk.deep_copy(a, np.arange(5).astype(dtype))

    def asked(target):
        begin = len(fake_cuda.calls)
        pk.deep_copy(target, a, wait=False)
        names = "cuMemcpy", "cuStream", "cuCtxSync", "cuEventRecord", "cuLaunch"
        return [name for name in fake_cuda.calls[begin:] if name.startswith(names)]

    linked = ["cuLaunchKernel", "cuEventRecord", "cuStreamWaitEvent"]
    waiting = ["cuCtxSynchronize"] * 2 + ["cuMemcpyPeerAsync", "cuStreamSynchronize"]
    for _ in range(2):
        assert asked(c) == (waiting if refused == 217 else linked)
    if refused != 217:  # by the target's device, eight bytes at a time if the size is divisible by eight
        width, words = (1, 5) if dtype == "int8" else (8, a.nbytes // 8)
        assert fake_cuda.launches[-1][-1] == 1
        assert struct.unpack("6q", fake_cuda.block) == (a.pointer, words, width, c.pointer, words, width)
    assert asked(b) == ["cuMemcpyDtoDAsync_v2"]
    context.share()
    assert "cuCtxSynchronize" in asked(c)


@pytest.mark.parametrize("refused", [0, 217, 704])
def test_a_device_follows_another_one(context, fake_cuda, refused):
    """The device waits for an event, also if the devices cannot access each other's memory, or another
    library has linked them; if there are queues without the event, the host waits."""
    other = driver.context(1)
    fake_cuda.fail["cuCtxEnablePeerAccess"] = refused

    def asked():
        begin = len(fake_cuda.calls)
        pk.follow("cuda:1", "cuda:0")
        names = "cuCtxEnable", "cuEventRecord", "cuStream", "cuCtxSync"
        return [name for name in fake_cuda.calls[begin:] if name.startswith(names)]

    assert asked() == ["cuCtxEnablePeerAccess", "cuEventRecord", "cuStreamWaitEvent"]
    assert asked() == ["cuEventRecord", "cuStreamWaitEvent"] and fake_cuda.current == 2
    other.share()
    assert asked() == ["cuCtxSynchronize"]


def test_queues_of_one_device_follow_each_other(context, fake_cuda):
    first, second = pk.instances("cuda", 2)
    for space, other, waits in (
        (first, second, 1),
        (first, first, 0),
        ("serial", first, 1),
        (first, "serial", 0),
    ):
        begin = len(fake_cuda.calls)
        pk.follow(space, other)
        waited = [n for n in fake_cuda.calls[begin:] if n in ("cuStreamSynchronize", "cuCtxSynchronize")]
        assert len(waited) == waits


def test_programs(context, fake_cuda):
    code = context.link(GOOD_PTX.decode().rstrip("\0"))
    assert code == b"\x7fELF\0code"
    assert not fake_cuda.live  # the state of the linker is freed
    function = context.load(code).function("entry")
    assert (function.shared_bytes, function.local_bytes, function.registers) == (11, 13, 14)
    assert function.blocks_per_sm(256) == 8
    function.allow_shared(100_000)
    assert list(fake_cuda.live.values()) == ["module"]  # held by its function
    del function
    assert not fake_cuda.live


@pytest.mark.parametrize("call", ["load", "link"])
def test_the_compilers_log_is_in_the_message(context, fake_cuda, call):
    words = r"cu(ModuleLoadDataEx|LinkAddData): .*INVALID_PTX, 218\)\nptxas error: line 1"
    with pytest.raises(DeviceError, match=words):
        getattr(context, call)(BAD_PTX)
    assert not fake_cuda.live


@pytest.mark.parametrize("stream", [None, 0x7F00_1234_5678, ctypes.c_void_p(0x7F00_1234_5678)])
def test_launch(context, fake_cuda, stream):
    function = context.load(GOOD_PTX).function("entry")
    word = ctypes.c_uint64(42)
    parameters = (ctypes.c_void_p * 1)(ctypes.addressof(word))
    fake_cuda.current = None  # as in a thread that has not used CUDA
    context.launch(function.handle, 1000, 256, 128, stream, parameters)
    expected = None if stream is None else 0x7F00_1234_5678
    assert fake_cuda.launches == [(function.handle.value, (1000, 1, 1), (256, 1, 1), 128, expected, 42, 0)]
    driver.context(1).launch(function.handle, 1, 32, 0, None, parameters)
    assert fake_cuda.launches[-1][-1] == 1


def test_a_failing_launch_names_the_request(context, fake_cuda):
    fake_cuda.fail["cuLaunchKernel"] = 700
    word = ctypes.c_uint64(42)
    words = r"cuLaunchKernel: .*ILLEGAL_ADDRESS, 700.*\n5 blocks of 64 threads with 3 bytes.*context is lost"
    with pytest.raises(DeviceError, match=words):
        context.launch(ctypes.c_void_p(1), 5, 64, 3, None, (ctypes.c_void_p * 1)(ctypes.addressof(word)))


def test_streams_events_graphs_release_what_they_hold(context, fake_cuda):
    stream, begin, end = context.stream(), context.event(), context.event()
    begin.record(stream.handle)
    with context.capture(stream.handle) as graph:
        pass
    graph.launch(stream.handle)
    end.record(stream.handle)
    assert end.seconds_since(begin) == pytest.approx(2.5e-3)
    assert sorted(fake_cuda.live.values()) == "event event executable stream".split()
    del stream, begin, end, graph
    assert not fake_cuda.live


def test_an_exception_in_a_capture_ends_it(context, fake_cuda):
    stream = context.stream()
    with pytest.raises(ZeroDivisionError), context.capture(stream.handle):
        raise ZeroDivisionError
    assert fake_cuda.calls[-2:] == ["cuStreamEndCapture", "cuGraphDestroy"]


def test_a_lost_device_frees_quietly(context, fake_cuda, told):
    memory = context.allocate(MEMORY_BYTES // 2)
    fake_cuda.fail["cuMemFree_v2"] = 700
    del memory
    assert told.err == ""


def test_other_threads_make_the_device_current(context, fake_cuda):
    found = []
    fake_cuda.current = None
    thread = threading.Thread(target=lambda: found.append(context.allocate(10)))
    thread.start()
    thread.join()
    assert found[0].nbytes == 10


@fork
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_after_a_fork_everything_refuses(context, fake_cuda):
    memory, other = context.allocate(10), driver.context(1)
    view, array, large = pk.zeros(10, space="cuda"), np.zeros(10), np.zeros(1 << 17)
    pk.copy_of(large, "cuda")  # pinned memory is there
    child = os.fork()
    if child == 0:
        status = 1
        try:
            for use in (
                lambda: context.allocate(1),
                lambda: context.launch(None, 1, 1, 0, None, None),
                other.synchronize,
                lambda: pk.deep_copy(view, array),
                view.to_numpy,
            ):
                try:
                    use()
                except NestedLaunchError as error:
                    assert "forked" in str(error)
                else:
                    os._exit(2)
            del memory  # not freed here: it belongs to the parent
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert memory.pointer in fake_cuda.live


def test_every_signature_is_known_to_the_pretend_driver():
    """A function added to the table thereby needs a test."""
    assert {name for name, *_ in library._SIGNATURES} <= set(FakeDriver()._functions)


@pytest.mark.parametrize("dtype, n_places", [("int32", 4), ("float64", 8)])
def test_the_host_waits_for_no_part_of_a_sort(fake_cuda, dtype, n_places):
    """The launches clear, count, compute the starts of digits, and sort by each digit; no data are copied to
    the host.
    """
    keys = pk.empty(5000, dtype, "cuda")
    fake_cuda.calls.clear()
    order = pk.argsort(keys, "cuda", descending=True)
    assert order.shape == (5000,) and order.dtype == np.int64
    waits = [
        name for name in fake_cuda.calls if "Synchronize" in name or "Memcpy" in name or "Memset" in name
    ]
    assert not waits and fake_cuda.calls.count("cuLaunchKernel") == 3 + n_places
