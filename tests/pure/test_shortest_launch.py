"""Test launches on the default stream of the only device: one call of the driver, and its errors."""

import functools
import struct
import weakref

import pytest
from fake_cuda import fake_cuda  # noqa: F401

import portable as pk
from portable.core.machines.cuda import driver
from portable.core.machines.cuda import space as launches
from portable.errors import DeviceError, DTypeError, InputError, ReadOnlyError, ShapeError


@pk.kernel
def scaled(i, a, x):
    x[i] *= a


@pk.kernel
def first(i, x):
    return x[i]


@pk.kernel
def scaled_by_teams(team, a, x):
    x[team.league_rank] *= a


@pk.kernel
def scaled_box(i, j, a, x):
    x[j] *= a


def arranged():
    """Return a view, a policy of 100 indices and a new kernel, on the only device."""
    driver.context(0).alone = True
    return pk.zeros(300, space="cuda"), pk.RangePolicy(200, 300, space="cuda"), pk.kernel(scaled.fn)


@pytest.fixture
def launch(request, fake_cuda):
    """Launch 100 indices; the kernel has been launched once before."""
    x, policy, scale = arranged()
    if request.param == "teams":
        scale, policy = pk.kernel(scaled_by_teams.fn), pk.TeamPolicy(1, 256, space="cuda")
    if request.param == "box":
        scale, policy = pk.kernel(scaled_box.fn), pk.MDRangePolicy((0, 0), (1, 9), space="cuda")
    if request.param == "plan":
        made = pk.plan(policy, scale, 2.0, x)
    else:

        def made():
            pk.parallel_for(policy, scale, 2.0, x)

    made()
    fake_cuda.calls.clear()
    fake_cuda.launches.clear()
    return made


both = pytest.mark.parametrize("launch", "parallel_for teams box plan".split(), indirect=True)


@both
def test_one_call_of_the_driver(launch, fake_cuda):
    launch()
    assert fake_cuda.calls == ["cuLaunchKernelEx"]
    ((_, grid, _, shared, stream, _, device),) = fake_cuda.launches
    assert (grid, shared, stream, device) == ((1, 1, 1), 0, None, 0)


@both
def test_a_thread_that_has_not_used_cuda(launch, fake_cuda):
    fake_cuda.current = None
    launch()
    assert "cuCtxSetCurrent" in fake_cuda.calls and len(fake_cuda.launches) == 1


@both
def test_what_the_driver_refuses_is_told(launch, fake_cuda):
    fake_cuda.fail |= dict.fromkeys(("cuLaunchKernel", "cuLaunchKernelEx"), 700)
    with pytest.raises(DeviceError, match=r"cuLaunchKernel: .*ILLEGAL_ADDRESS, 700.*\n\(?1.* blocks of"):
        launch()


def test_a_driver_that_has_not_that_call(fake_cuda):
    """The driver is older than CUDA 11.8."""
    del fake_cuda._functions["cuLaunchKernelEx"]
    x, policy, kernel = arranged()  # the kernel is not compiled for another driver
    pk.parallel_for(policy, kernel, 2.0, x)
    pk.plan(policy, kernel, 2.0, x)()
    assert fake_cuda.calls.count("cuLaunchKernel") == 2


def test_the_block_is_that_of_the_long_way(fake_cuda):
    """The block contains the words of the arguments, begin and end, at the places that `_extra` gives."""
    x, policy, scale = arranged()
    pk.parallel_for(policy, scale, 2.0, x)
    space, _, _, compiled, words = pk.core.launch.dispatch.bind(policy, scale, (2.0, x), ())
    compiled.block[:] = bytes(len(compiled.block))
    launches.run_for(space, compiled, policy, words)
    wanted = words + launches._extra(policy, 0)
    assert compiled.block.raw == wanted.ljust(len(compiled.block), b"\0")
    assert struct.unpack_from("=2q", compiled.block, len(words)) == (200, 300)


class Foreign:
    """Array of another library on a device, whose description may change."""

    def __init__(self, view, **changes):
        self.__cuda_array_interface__ = {**view.__cuda_array_interface__, "strides": None, **changes}


def test_arrays_of_other_libraries_are_one_call_of_the_driver(fake_cuda):
    """An array's type, layout and address are compared with those of the previous launch; only changes are
    read again."""
    x, policy, scale = arranged()
    array = Foreign(x)
    pk.parallel_for(policy, scale, 2.0, array)
    fake_cuda.block_bytes = 8 * 4
    for changed in (x, x, x[:250]):
        array.__cuda_array_interface__ = Foreign(changed).__cuda_array_interface__
        fake_cuda.calls.clear()
        pk.parallel_for(policy, scale, 2.0, array)
        assert fake_cuda.calls == ["cuLaunchKernelEx"]
        assert fake_cuda.block[8:] == changed.words
    array.__cuda_array_interface__ = Foreign(x[1:]).__cuda_array_interface__
    pk.parallel_for(policy, scale, 2.0, array)
    assert fake_cuda.block[8:] == x[1:].words


@pytest.mark.parametrize(
    "changes, error, words",
    [
        (lambda x: {"data": (1, False)}, InputError, "CUDA did not allocate the memory"),
        (lambda x: {"typestr": "<M8[s]"}, DTypeError, "argument 'x': dtype 'datetime64"),
        (lambda x: {"shape": (1,) * 7}, ShapeError, "argument 'x': .* has 7 dimensions"),
        (lambda x: {"mask": object()}, DTypeError, "masked arrays are not supported"),
        (lambda x: {"data": (x.pointer + 4, False)}, InputError, "argument 'x': .* no multiple of 8"),
        (lambda x: {"data": (x.pointer, True)}, ReadOnlyError, "'x' is read-only here"),
    ],
)
def test_arrays_of_other_libraries_are_looked_at_each_time(fake_cuda, changes, error, words):
    x, policy, scale = arranged()
    array = Foreign(x)
    pk.parallel_for(policy, scale, 2.0, array)
    array.__cuda_array_interface__ |= changes(x)
    with pytest.raises(error, match=words):
        pk.parallel_for(policy, scale, 2.0, array)


def test_memory_that_nobody_refers_to_is_the_next_of_its_size(fake_cuda):
    x = pk.zeros(100, space="cuda")
    pointer, part = x.pointer, x[50:]
    del x
    assert pk.zeros(100, space="cuda").pointer != pointer  # a part of it is still referenced
    del part
    fake_cuda.calls.clear()
    again = pk.empty(100, space="cuda")
    assert again.pointer == pointer and "cuMemAlloc_v2" not in fake_cuda.calls


@pytest.mark.parametrize(
    "fn, kind, shared",
    [
        (scaled.fn, functools.partial(pk.RangePolicy, 0), 0),
        (scaled_by_teams.fn, functools.partial(pk.TeamPolicy, team_size=256, scratch_bytes=128), 128),
    ],
)
def test_a_policy_that_comes_again_finds_its_words(fake_cuda, fn, kind, shared):
    """This holds also after a launch of another policy."""
    (x, _, _), scale = arranged(), pk.kernel(fn)
    policy, other = (kind(n, space="cuda") for n in (7, 5))
    for a in (1.0, 2.0, 3.0):
        pk.parallel_for(policy, scale, a, x)
    pk.parallel_for(other, scale, 4.0, x)  # overwrites the kernel's block
    block = pk.core.launch.dispatch.bind(policy, scale, (5.0, x), ())[-1] + launches._extra(policy, shared)
    fake_cuda.block_bytes = len(block)
    for _ in range(2):
        fake_cuda.calls.clear()
        pk.parallel_for(policy, scale, 5.0, x)
        assert fake_cuda.calls == ["cuLaunchKernelEx"] and fake_cuda.block == block
        assert fake_cuda.launches[-1][1:4] == ((7 if shared else 1, 1, 1), (256, 1, 1), shared)


def test_a_reduction_that_comes_again_is_one_call_of_the_driver(fake_cuda):
    """The addresses of results are the last words of the block."""
    x, policy, _ = arranged()
    outs = [pk.zeros(1, space="cuda") for _ in range(2)]
    place = len(x.words) + len(launches._extra(policy, 0))
    fake_cuda.block_bytes = place + 8
    for out in outs * 2:
        fake_cuda.calls.clear()
        pk.parallel_reduce(policy, first, x, out=out)
        assert struct.unpack_from("=q", fake_cuda.block, place) == (out.pointer,)
    assert fake_cuda.calls == ["cuLaunchKernelEx"]


def test_no_argument_is_kept(fake_cuda):
    x, policy, scale = arranged()
    for _ in range(4):
        pk.parallel_for(policy, scale, 1.0, x)
    gone = weakref.ref(x)
    del x
    assert gone() is None


def test_captures_share_a_stream_and_pin_memory_for_reductions_alone(fake_cuda):
    (x, policy, _), out = arranged(), pk.zeros(1, space="cuda")
    graphs, streams = [], set()
    for _ in range(2):
        fake_cuda.launches.clear()
        with pk.capture("cuda", times=3) as graph:
            pk.parallel_for(policy, scaled, 2.0, x)
        graphs.append(graph)
        streams |= {stream for *_, stream, _, _ in fake_cuda.launches}
    assert len(streams) == 1 and None not in streams and len(fake_cuda.launches) == 3
    assert not driver.context(0).streamed and "pinned" not in fake_cuda.live.values()
    with pk.capture("cuda") as graph:
        pk.parallel_reduce(policy, first, x, out=out)
    assert list(fake_cuda.live.values()).count("pinned") == 1


def test_a_graph_with_another_number_is_one_call_of_the_driver(fake_cuda):
    x, policy, scale = arranged()
    with pk.capture("cuda") as graph:
        pk.parallel_for(policy, scale, 2.0, x)
    graph(a=1.0)
    fake_cuda.block_bytes = 8 * 4
    for call, a in ((lambda: graph(a=3), 3.0), (lambda: graph(a=4.5), 4.5), (graph, 2.0)):
        fake_cuda.calls.clear()
        call()
        assert fake_cuda.calls == ["cuLaunchKernelEx"]
        assert struct.unpack_from("=dq", fake_cuda.block) == (a, x.pointer)


@pytest.mark.parametrize("kind", ["range", "box", "graph"])
def test_code_for_short_indices_is_for_launches_that_have_no_others(fake_cuda, kind):
    """Compiled code assumes that indices are from 0 to 2^30; launches with other indices use different
    code."""
    driver.context(0).alone = True
    x = pk.zeros((300, 1), space="cuda")
    kernel = pk.kernel({"box": scaled_box}.get(kind, scaled).fn)
    known = set()
    for begin, short in ((5, True), (-5, False), (0, True), (2**30 - 5, False), (2**30 - 9, True)):
        policy = pk.RangePolicy(begin, begin + 9, space="cuda")
        if kind == "box":
            policy = pk.MDRangePolicy((begin, 0), (begin + 9, 9), space="cuda")
        if kind == "graph":
            with pk.capture("cuda") as graph:
                pk.parallel_for(policy, kernel, 2.0, x[:, 0])
            graph.replay()
        else:
            pk.parallel_for(policy, kernel, 2.0, x[:, 0])
        codes = {
            c.signature.specs[1][5:] for c in kernel.compiled.values() if isinstance(c, launches.Compiled)
        }
        known |= {short}
        assert codes == {(True,) * s for s in known}
