"""The space "cuda": launches through the driver, queued on the space's stream."""

import ctypes
import dataclasses
import functools
import itertools
import math
import struct

from ... import cache, registry
from ....errors import InputError
from ...compiler.writing.cached_code import CachedCode
from ...compiler.writing.block import EXTRA, FAULT, N_BYTES, N_SHARED_BYTES, scratch_of
from ...compiler.reading.signature import without_facts, without_scatter
from ...locks import Lock, compile_once
from ...places.place import Space
from ...places.policy import AUTO, MDRangePolicy, RangePolicy, TeamPolicy, box_words
from ...language.types import SHORT
from . import driver, engine
from .lanes import WARP
from .library import Shape, cu
from .lower import RANGE_THREADS, entry_of
from .scan import items_of, words_of_tiles

interprets, apart, builds = False, True, ("executed",)
# prepared launches of policies that repeat, with the objects that keep their ids alive
_known, _MOST_KNOWN = {}, 64
_lock = Lock()  # compiled code has one argument block, and a stream one workspace
_AUTO_TEAM = 128
_DEFAULT_SHARED = 48 * 1024  # more dynamic shared memory must be requested
TENSOR = 9, 0  # devices from here on have tensor cores that take steps of 16 x 8 float64
_MAX_GRID, _MAX_OUTER = 2**31 - 1, 65535
# distance in tiles between the first and the second pass of a block, as a share of the blocks that run at
# once
_LAG = 0.8
_TILE_ROWS, _DEPTH, _MANY_BLOCKS = 8, 16, 8192
_EXTRA = struct.Struct(f"={len(EXTRA)}q")


class Compiled:
    """A loaded kernel for one device, policy kind, signature and team size, with its own argument block."""

    watch = None  # the watch of a counting build

    def __init__(self, space, kernel, policy_kind, specs, reducers, team_size, tensor=None):
        self.context = driver.context(space.device)
        watch = registry.part("debug build").watching(space.debug) if space.debug else self.watch
        asked = tensor or (watch is None and _tensor_cores(space.device))  # a watch sees each product
        launch = kernel, policy_kind, specs, reducers
        emitted = functools.cache(functools.partial(_emitted, *launch, team_size, watch, asked))
        machine = None if watch or tensor else (team_size, self.context.device, driver.version())
        cached = CachedCode(launch, machine, emitted)
        self._take(cached.launched, self._load(cached, emitted))
        self.kernel, self.team_size, self.allowed = kernel, team_size, _DEFAULT_SHARED
        self.plain, self.everywhere = _others(space, *launch, team_size)
        self.faults = _Faults(self.context, cached.launched) if space.debug else None
        self._new_block()
        self.resident_blocks = functools.cache(self._resident_blocks)

    def _take(self, entry, module):
        """Take the facts and the function of an entry."""
        for name in "threads together results state_words scratch_static scratch_open signature".split():
            setattr(self, name, getattr(entry, name))
        self.function = module.function("entry")
        self.handle, self.scatters = self.function.handle, bool(entry.n_scatters)
        self.indices = self.threads * entry.width  # indices of a block
        if entry.policy_kind.startswith("scan"):
            self.tile = items_of(entry) * entry.threads

    def _new_block(self):
        """Allocate the argument block, and the parameters that the driver takes."""
        n_results = len(self.results.dtypes) if self.results else 0
        n_words = self.signature.n_words + len(EXTRA) + n_results + bool(self.faults)
        self.block = ctypes.create_string_buffer(8 * n_words)
        if self.faults:
            self.faults.put(ctypes.addressof(self.block))
        self.parameters = (ctypes.c_void_p * 1)(ctypes.addressof(self.block))
        self.raw = memoryview(self.block).cast("B")
        # the arguments, begin and end: the only words that a range reads
        put = struct.Struct(f"={8 * self.signature.n_words}s2q").pack_into
        self.put_range = functools.partial(put, self.block, 0)
        # a launch of a range on the default stream is one call of the driver
        self.direct = self.context.alone and cu.launch_as and not (self.scatters or self.faults)
        self.shape = Shape(1, 1, 1, self.threads, 1, 1)
        self.of_shape = ctypes.byref(self.shape)

    def box_grid(self, extents):
        return _box_grid(extents, self.threads, self.indices // self.threads)

    def _resident_blocks(self, shared=0):
        """Return the number of blocks that the device runs at once."""
        return max(1, self.function.blocks_per_sm(self.threads, shared)) * self.context.device.multiprocessors

    def _load(self, cached, emitted):
        capability = self.context.device.compute_capability
        key = cached.key("", lambda: cache.key("cubin", capability, driver.version(), emitted().text))
        code = cache.get(key)
        if code is None:
            code = self.context.link(engine.ptx(emitted().text, capability, cached.launched.kernel.name))
            cache.put(key, code)
        return self.context.load(code)

    def launch(self, grid, words, shared, stream):
        self.raw[: len(words)] = words
        if self.direct and not stream and driver.here.context:
            shape = self.shape
            shape.x, shape.y, shape.z = grid if grid.__class__ is tuple else (grid, 1, 1)
            shape.shared_bytes = shared
            if not cu.launch_as(self.of_shape, self.handle, self.parameters, None):
                return
        self.context.launch(self.handle, grid, self.threads, shared, stream or None, self.parameters)


def _others(space, kernel, policy_kind, specs, *rest):
    """Return two functions that compile the code without copies of ScatterViews, and the code for any
    indices.
    """
    make = functools.partial(_compiled, space, kernel, policy_kind)
    return [
        compile_once(functools.partial(make, less(specs), *rest)) for less in (without_scatter, without_facts)
    ]


@functools.cache
def _tensor_cores(number):
    """Return a function that tests whether a device's tensor cores multiply in order: run once, and cached on
    disk.
    """

    @functools.cache
    def ask():
        device = driver.devices()[number]
        key = cache.key("tensor cores", device.name, device.compute_capability, driver.version())
        known = cache.get(key)
        if known is None:
            known = bytes([device.compute_capability >= TENSOR and _same(number) == 128])
            cache.put(key, known)
        return known == b"\1"

    return ask


def _same(number):
    """Return the number of elements of a tile of 128 for which tensor cores agree with a chain of fma."""
    space, same = Space("cuda", device=number), ctypes.c_int64()
    specs = (("view", "int64", 1, True, False),)
    in_order = registry.part("tiles of a team").product.in_order
    compiled = Compiled(space, in_order, "team", specs, (), WARP, lambda: True)
    memory, shared = compiled.context.allocate(8), compiled.scratch_static
    words = struct.pack("=3q", memory.pointer, 1, 8) + _extra(TeamPolicy(1, WARP), shared)
    compiled.launch(1, words, shared, 0)
    compiled.context.copy_to_host(ctypes.addressof(same), memory.pointer, 8)
    return same.value


class _Faults:
    """Memory for the first fault of a debug build's launches: its words are the host's, so that reading
    them costs neither a copy nor a call of the driver."""

    def __init__(self, context, entry):
        self.context, self.sites = context, entry.sites
        self.memory, self.place = context.allocate(N_SHARED_BYTES, zero=True), 8 * entry.fault_word()
        self.words = context.allocate_pinned(N_BYTES)
        ctypes.memset(self.words.pointer, 0, N_BYTES)
        self.found = ctypes.c_int64.from_address(self.words.pointer)
        where = ctypes.c_uint64(self.words.pointer)
        context.copy_to_device(self.memory.pointer + FAULT, ctypes.addressof(where), 8)

    def put(self, block):
        """Write the memory's address into the argument block at an address."""
        ctypes.c_uint64.from_address(block + self.place).value = self.memory.pointer

    def watch(self, stream, call):
        """Run `call`, which launches a debug build on a stream, wait for it, and raise the fault that it
        found.
        """
        words = None
        try:
            call()
        finally:  # an interrupted launch's fault must not be reported by the next one
            cu.cuStreamSynchronize(stream)
            if self.found.value:
                words = self._clear_fault()
        if words:
            self.sites.raise_if(words)

    def _clear_fault(self):
        """Return the words of a fault, and clear them."""
        words = ctypes.string_at(self.words.pointer, N_BYTES)
        ctypes.memset(self.words.pointer, 0, N_BYTES)
        self.context.fill(self.memory.pointer, 0, FAULT, wait=True)
        return words


def prepare(space, kernel, policy_kind, specs, reducers=()):
    """Return a function of the team size for teams; the compiled kernel for ranges."""
    if reducers or policy_kind != "range":  # only plain ranges have enough work for each block
        specs = without_scatter(specs)
    if policy_kind != "team":
        return _compiled(space, kernel, policy_kind, specs, reducers, 0)
    return compile_once(functools.partial(_compiled, space, kernel, policy_kind, specs, reducers))


def _compiled(space, kernel, *launch):
    """Return the code for a policy's kind, specs, reducers and a team size."""
    key = ("cuda", space.device, space.debug, *launch)
    compiled = kernel.compiled.get(key)
    if compiled is None:
        compiled = kernel.compiled[key] = Compiled(space, kernel, *launch)
    return compiled


def _configure(space, compiled, policy):
    """Return (compiled kernel, blocks of the grid, bytes of dynamic shared memory) of a launch."""
    if policy.__class__ is MDRangePolicy:
        return compiled, compiled.box_grid(policy.extents), 0
    if policy.__class__ is RangePolicy:
        return compiled, max(0, -(-(policy.end - policy.begin) // compiled.indices)), 0
    asked = _AUTO_TEAM if policy.team_size is AUTO else policy.team_size
    size = -(-asked // WARP) * WARP
    device = driver.devices()[space.device]
    if size > device.max_threads_per_block:
        raise InputError(
            f"TeamPolicy: team_size {asked} is beyond this device's limit of {device.max_threads_per_block}"
        )
    compiled = compiled(size)
    shared = scratch_of(compiled, policy)
    if shared > compiled.allowed:
        if shared + compiled.function.shared_bytes > device.shared_bytes_per_block_optin:
            raise InputError(
                f"kernel '{compiled.kernel.name}': {shared} bytes of scratch; a team on this device has"
                f" at most {device.shared_bytes_per_block_optin - compiled.function.shared_bytes}"
            )
        compiled.function.allow_shared(shared)
        compiled.allowed = shared
    return compiled, -(-policy.league_size // compiled.together), shared


def _tile_bits(extents, threads):
    """Return log2 of a tile's width: rows of a tile share their input, but short dimensions leave no thread
    idle.
    """
    rows = min(_TILE_ROWS, 1 << max(extents[-2] - 1, 0).bit_length())
    return min(threads // rows, 1 << max(extents[-1] - 1, 0).bit_length()).bit_length() - 1


def _box_grid(extents, threads, each=1):
    """Return (x, y, z) blocks of a box: each has a tile of its last two dimensions, with `each` indices a
    thread; 0 for an empty box.
    """
    width = 1 << _tile_bits(extents, threads)
    wide, near = -(-extents[-1] // (width * each)), -(-extents[-2] // (threads // width))
    return (wide, near, math.prod(extents[:-2])) if 0 not in extents else 0


def _deep_grid(extents, threads):
    """Return the same for tiles that are several deep along the preceding dimensions, and that depth."""
    wide, near, first = _box_grid(extents, threads) or (1, 1, 1)
    n_blocks = wide * near * first
    near, first = (1, near) if len(extents) == 2 else (near, first)
    depth = max(1, min(_DEPTH, n_blocks // _MANY_BLOCKS), -(-first // _MAX_OUTER))
    first = -(-first // depth)
    return (wide, first, 1) if len(extents) == 2 else (wide, min(near, _MAX_OUTER), first), depth


def _extra(policy, shared, partials=0, counter=0, depth=0):
    """Return the words after the arguments, in the order of compiler.block.EXTRA."""
    begin = end = bits = n_teams = 0
    if policy.__class__ is TeamPolicy:
        n_teams = policy.league_size
    elif policy.__class__ is MDRangePolicy:
        bits = _tile_bits(policy.extents, RANGE_THREADS)
    else:
        begin, end = policy.begin, policy.end
    return _EXTRA.pack(begin, end, bits, partials, n_teams, shared, counter, *box_words(policy), depth)


def _fitting(compiled, policy):
    """Return the code for the indices of a launch."""
    if policy.__class__ is RangePolicy:
        short = policy.begin >= 0 and policy.end <= SHORT
    else:
        short = policy.__class__ is TeamPolicy or min(policy.begin) >= 0 and max(policy.end) <= SHORT
    return compiled if short else compiled.everywhere()


def run_for(space, compiled, policy, words):
    if policy.__class__ is RangePolicy and compiled.direct and not space.stream and driver.here.context:
        begin, end = policy.begin, policy.end  # the shortest way: most launches are these
        grid = -((begin - end) // compiled.indices)
        if 0 < grid <= _MAX_GRID and 0 <= begin < end <= SHORT:
            with _lock.held:
                compiled.put_range(words, begin, end)
                compiled.shape.x = grid
                if not cu.launch_as(compiled.of_shape, compiled.handle, compiled.parameters, None):
                    return
    run("for", space, compiled, policy, words, ())  # also if the driver refused: this raises its reason


# ---- the work of a launch: the kernels that it queues, as (compiled code, grid, bytes of shared memory, the
# argument block after the arguments' words)
def _for(space, compiled, policy, words, outs, work):
    compiled = _fitting(compiled, policy)
    if policy.__class__ is RangePolicy and compiled.scatters:
        found, n = compiled.signature.scattered(words), policy.end - policy.begin
        copies = sum(-(-n_bytes // 8) * 8 for _, n_bytes in found)
        if copies + compiled.function.shared_bytes <= _DEFAULT_SHARED:
            # copies are added up in a quarter of the time in which they are made
            each = max(compiled.threads, 4 * sum(size for size, _ in found))
            grid = min(-(-n // each), compiled.resident_blocks(copies))
            return _kernels((compiled, grid, copies, _extra(policy, copies)))
        compiled = compiled.plain()
    if policy.__class__ is MDRangePolicy:
        return _kernels(
            *((compiled, compiled.box_grid(box.extents), 0, _extra(box, 0)) for box in _boxes(policy))
        )
    compiled, grid, shared = _configure(space, compiled, policy)
    return _kernels((compiled, grid, shared, _extra(policy, shared)))


def _boxes(policy):
    """Return the box in parts that CUDA launches at once: the outer axes of a grid hold 65,535 blocks."""
    most = [_MAX_OUTER] * (len(policy.extents) - 1) + [policy.extents[-1]]
    if len(most) == 4:  # the first two share an axis
        most[0] = max(1, _MAX_OUTER // max(policy.extents[1], 1))
    if 0 in policy.extents or all(n <= m for n, m in zip(policy.extents, most)):
        return [policy]
    starts = itertools.product(*(range(low, high, m) for low, high, m in zip(policy.begin, policy.end, most)))
    return [
        MDRangePolicy(
            s, tuple(min(k + m, high) for k, m, high in zip(s, most, policy.end)), space=policy.space
        )
        for s in starts
    ]


def _reduce(space, compiled, policy, words, outs, work):
    compiled, grid, shared = _configure(space, compiled, policy)
    depth = 0
    if policy.__class__ is RangePolicy:
        grid = min(grid, compiled.resident_blocks())
    elif policy.__class__ is MDRangePolicy:
        grid, depth = _deep_grid(policy.extents, compiled.threads)
    grid = grid or 1  # for an empty policy, too, one block computes the identity
    partials = work.room(8 * (grid if grid.__class__ is int else math.prod(grid)) * compiled.state_words)
    extra = _extra(policy, shared, partials, work.counter.pointer, depth)
    return _kernels((compiled, grid, shared, extra + compiled.results.addresses(outs, work.results.pointer)))


def _scan(space, compiled, policy, words, outs, work):
    n_tiles = max(1, -(-(policy.end - policy.begin) // compiled.tile))  # the last block stores the total
    resident = compiled.resident_blocks()
    lag = int(_LAG * resident) if n_tiles > resident else 0
    left = work.words(8 * words_of_tiles(n_tiles + lag, compiled.state_words))
    behind = _extra(policy, 0, left, depth=lag) + compiled.results.addresses(outs, work.results.pointer)
    return _kernels((compiled, n_tiles + lag, 0, behind))


def _kernels(*rows):
    """Return the kernels that have work; raises InputError if CUDA cannot launch one."""
    for _, grid, _, _ in rows:
        n_blocks = grid if grid.__class__ is int else grid[0]
        if n_blocks > _MAX_GRID:
            raise InputError(
                f"policy has {n_blocks} blocks; CUDA launches at most {_MAX_GRID}: split the range"
            )
    return [row for row in rows if row[1]]


_STEPS = {"for": _for, "reduce": _reduce, "scan": _scan}


def run(pattern, space, compiled, policy, words, outs):
    key = id(compiled), id(policy), space.stream, *[(out.pointer, out.spec[0]) for out in outs]
    with _lock.held:
        rows, work, *_ = _known.get(key) or _prepared(pattern, space, compiled, policy, words, outs, key)
        if space.debug and rows:  # waits for their end
            rows[0][0].faults.watch(space.stream or None, lambda: _queue(rows, words, space.stream))
        else:
            _queue(rows, words, space.stream)
        if outs or not work:
            return None
        if not space.debug:
            cu.cuStreamSynchronize(space.stream or None)
        # also of teams, of which `compiled` is a function of the size
        return rows[0][0].results.read(work.found)


def _prepared(pattern, space, compiled, policy, words, outs, key):
    """Return the kernels of a launch and its workspace, and remember those of policies that repeat."""
    work = None if pattern == "for" else _workspace(space.device, space.stream)
    found = _STEPS[pattern](space, compiled, policy, words, outs, work), work, compiled, policy
    if pattern == "reduce" or policy.__class__ is not RangePolicy:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        _known[key] = found
    return found


def _queue(rows, words, stream):
    for made, grid, shared, behind in rows:
        made.launch(grid, words + behind, shared, stream)


def _calls(space, rows, words):
    for compiled, grid, shared, behind in rows:
        # its own: other launches of the kernel do not touch it
        block = ctypes.create_string_buffer(words + behind)
        parameters = (ctypes.c_void_p * 1)(ctypes.addressof(block))
        call = functools.partial(
            compiled.context.launch,
            compiled.handle,
            grid,
            compiled.threads,
            shared,
            space.stream or None,
            parameters,
        )
        recorded = space.stream and space.stream == compiled.context.recording  # and runs in another queue
        if compiled.context.alone and cu.launch_as and (recorded or not space.stream):
            call = _shortest(call, *call.args)
        call.block = block
        yield call


def _shortest(call, handle, grid, threads, shared, stream, parameters):
    """Return the same by one driver call, unless it refuses."""
    shape = Shape(*(grid if grid.__class__ is tuple else (grid, 1, 1)), threads, 1, 1, shared, stream)
    of_shape = ctypes.byref(shape)

    def launch():
        if not driver.here.context or cu.launch_as(of_shape, handle, parameters, None):
            call()

    return launch


def sequence(space, recorded):
    """Return a function that replays recorded launches as one CUDA graph on the stream, or queues the only
    one; None of debug builds."""
    if any(bound[0].debug for bound, _ in recorded):
        return None
    context, patterns = driver.context(space.device), [launch.pattern for _, launch in recorded]
    alone = patterns == ["for"]
    queue = space if alone else dataclasses.replace(space, stream=context.recording)
    work = _Workspace(context) if {"reduce", "scan"} & {*patterns} else None
    made, calls = {}, []  # made once for launches that repeat
    for (_, policy, _, compiled, words), launch in recorded:
        if id(launch) not in made:
            rows = _STEPS[launch.pattern](queue, compiled, policy, words, launch.outs, work)
            made[id(launch)] = list(_calls(queue, rows, words))
        calls += made[id(launch)]
    if alone:
        return calls[0] if len(calls) == 1 else lambda: [call() for call in calls]
    with context.capture(queue.stream) as graph:
        for call in calls:
            call()
    replay = functools.partial(graph.launch, space.stream or None)
    replay.kept = recorded, calls, work  # views and argument blocks live as long as the graph
    return replay


class _Workspace:
    """Memory shared by the reductions of one stream: partial states, the counter of arrived blocks,
    results in pinned memory."""

    def __init__(self, context):
        self.context = context
        self.results = context.allocate_pinned(512)
        self.found = (ctypes.c_char * self.results.nbytes).from_address(self.results.pointer)
        self.counter = context.allocate(8)
        context.fill(self.counter.pointer, 0, 8, wait=True)
        # the last of each is in use; queued work may still write to those before it
        self.partials, self.scans = [], []

    def room(self, n_bytes):
        return self._largest_buffer(self.partials, n_bytes)

    def words(self, n_bytes):
        """Return the words that only scans write, zero before the first: a word with a launch's mark is a
        number.
        """
        return self._largest_buffer(self.scans, n_bytes, zero=True)

    def _largest_buffer(self, kept, n_bytes, zero=False):
        if not kept or n_bytes > kept[-1].nbytes:
            kept.append(self.context.allocate(max(2 * n_bytes, 1 << 16), zero))
        return kept[-1].pointer


@compile_once
def _workspace(device, stream):
    return _Workspace(driver.context(device))


def stamp(space):
    event = driver.context(space.device).event()
    event.record(space.stream or None)
    return event


def fence(space):
    driver.context(space.device).activate()
    cu.cuStreamSynchronize(space.stream or None)


def counted(*launch):
    return registry.part("counts of a GPU").counted(*launch)


def explain(*launch):
    return registry.part("counts of a GPU").explain(*launch)


def listing(space, kernel, policy, policy_kind, specs, reducers):
    compiled = _configure(space, prepare(space, kernel, policy_kind, specs, reducers), policy)[0]
    capability = compiled.context.device.compute_capability
    return lower_to_ptx(
        kernel, policy_kind, compiled.signature.specs, reducers, compiled.team_size, capability
    )


def lower_to_ptx(
    kernel, policy_kind, specs, reducers=(), team_size=_AUTO_TEAM, capability=(9, 0), debug=False
):
    """Return the PTX of a kernel; no GPU is needed."""
    launch, tensor = (policy_kind, specs, reducers, team_size), capability >= TENSOR
    key = ("cuda", "emitted", *launch, debug, tensor)
    if key not in kernel.compiled:
        watch = registry.part("debug build").watching(debug) if debug else None
        kernel.compiled[key] = _emitted(kernel, *launch, watch, functools.partial(bool, tensor))
    return engine.ptx(kernel.compiled[key].text, capability, kernel.name)


def _emitted(*launch):
    """Return an entry with its text: emission determines the width, and the sites of a debug build."""
    entry = entry_of(*launch)
    entry.text  # noqa: B018
    return entry
