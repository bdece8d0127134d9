"""Test that every kernel lowers to PTX on a machine without a GPU, and that float32 kernels have no float64
instruction."""

import re
import shutil
import subprocess

import numpy as np
import pytest
from numpy.random import default_rng

import portable as pk
from portable.library import algorithms, rows, segments
from portable.core.machines.cuda import engine
from portable.watch.counts.counting import Marked
from portable.watch.counts.cuda import ptx as counting_ptx
from portable.core.machines.cuda.lower import entry_of
from portable.core.language.types import Known
from portable.core.launch.dispatch import described
from portable.core.places.policy import as_policy, kind_of

from .lane_kernels import CASES
from .test_gate import KERNELS, REDUCTIONS, example
from .test_step09_lanes import name_of
from .test_step22_states import MAPS, ORDERED, SEGMENTS, VALUES, affine, flagged, in_a_team, teams_in_order

NEWEST = (9, 0)
CAPABILITIES = [(7, 0), (8, 0), NEWEST]
TEAM_SIZE = 128


def spec(arg):
    """Return an argument's type for the compiler (compiler/signature.py)."""
    if isinstance(arg, np.ndarray):
        return view(arg.dtype.name, arg.ndim)
    return described((arg,))[0]


def view(dtype, ndim=1):
    return "view", dtype, ndim, True, False


def compiled(entry, capability=NEWEST):
    """Return the PTX of an entry."""
    return engine.ptx(entry.text, capability, entry.kernel.name)


def lower(kernel, policy, args, capability=NEWEST, reducers=()):
    kind = kind_of(as_policy(policy))
    entry = entry_of(kernel, kind, tuple(map(spec, args)), reducers, TEAM_SIZE if kind == "team" else 0)
    return compiled(entry, capability)


def assemble(ptx, folder, capability=NEWEST):
    """Assemble PTX by NVIDIA's assembler, if it is installed."""
    if shutil.which("ptxas"):
        (folder / "kernel.ptx").write_text(ptx)
        command = ["ptxas", f"-arch=sm_{capability[0]}{capability[1]}", "kernel.ptx", "-o", "kernel.cubin"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "capability, dtype",
    [*zip(CAPABILITIES, (np.float64, np.float32, np.float64)), (NEWEST, np.float32)],
    ids=str,
)
@pytest.mark.parametrize("name", KERNELS)
def test_the_ten_kernels(name, dtype, capability, tmp_path):
    policy, args, _ = example(name).make(9, dtype, default_rng(1))
    ptx = lower(
        getattr(example(name), KERNELS[name][0]),
        policy,
        args,
        capability,
        (pk.Sum,) if name in REDUCTIONS else (),
    )
    assert ".visible .entry" in ptx and f".target sm_{capability[0]}{capability[1]}" in ptx
    if dtype is np.float32:
        assert not re.findall(r".*\.f64.*", ptx)
    if capability == NEWEST:
        assemble(ptx, tmp_path)


@pytest.mark.parametrize("name", KERNELS)
def test_counting_builds_of_the_ten_kernels(name, tmp_path):
    """Each block of the optimised code increments a separate counter, whose address is part of the code."""
    policy, args, _ = example(name).make(9, np.float64, default_rng(1))
    kind = kind_of(as_policy(policy))
    kernel, reducers = getattr(example(name), KERNELS[name][0]), (pk.Sum,) if name in REDUCTIONS else ()
    size = TEAM_SIZE if kind == "team" else 0
    entry = entry_of(kernel, kind, tuple(map(spec, args)), reducers, size, Marked)
    ptx, counts = counting_ptx(entry, NEWEST, name, lambda n_bytes: 1 << 40)
    assert (
        ptx.count("atom.global.add.u64") >= len(counts.mixes) > 0
        and sum(mix.total() for mix in counts.mixes) > 0
    )
    assemble(ptx, tmp_path)


@pytest.mark.parametrize("kernel, make, dtype, terms", CASES, ids=[name_of(item) for item in CASES])
def test_the_language(kernel, make, dtype, terms, tmp_path):
    args = make(default_rng(7), dtype)
    assemble(lower(kernel, len(args), args), tmp_path)


@pytest.mark.parametrize(
    "capability, target",
    [((6, 0), 60), ((7, 5), 75), ((8, 6), 86), ((8, 9), 89), ((10, 0), 100), ((12, 1), 121), ((99, 0), 121)],
)
def test_every_architecture_lowers(capability, target):
    """Each architecture uses the oldest PTX version that supports it; a future architecture the newest known
    version, which its driver accepts.
    """
    policy, args, _ = example("axpy").make(9, np.float64, default_rng(1))
    assert f".target sm_{target}" in lower(example("axpy").axpy, policy, args, capability)


def test_teams_that_should_fit_a_multiprocessor():
    def body(team, out):
        out[team.league_rank] = team.size

    for teams, wanted in ((1, 0), (3, 1)):
        ptx = lower(pk.kernel(body, teams=teams), pk.TeamPolicy(2), [np.zeros(2)])
        assert ptx.count(".minnctapersm 3") == wanted


@pytest.mark.parametrize("n, teams, roots", [(1, 1, 3), (6, 1, 5), (12, 1, 3), (6, 4, 3), (0, 1, 18)])
def test_short_loops_are_written_four_trips_at_a_time(n, teams, roots):
    """The remainder is a fifth copy. The shortest loops, which LLVM and the driver unroll more often, longer
    loops, and those of teams that share a multiprocessor have no mark. A loop of arithmetic, with two roots,
    is written eight times and once."""

    def body(team, n, x, out):
        total = 0.0
        for j in range(x.shape[0]):
            near = x[j]
            for _ in range(n):
                near = near * near + 0.5
            total += pk.rsqrt(near) * (1.0 if n else pk.rsqrt(near + 1.0))
        out[team.rank] = total

    x = np.zeros(9, "f")
    ptx = lower(pk.kernel(body, teams=teams), pk.TeamPolicy(2), (pk.static(n), x, x))
    assert ptx.count("rsqrt") == roots


@pk.kernel
def rows_of_scratch(team, x, out):
    rows = team.scratch((32, 36), x.dtype)
    for e in team.thread_range(1152):
        rows[e // 36, e % 36] = x[e]
    team.barrier()
    for i in team.thread_range(32):
        total, c = 0.0, 0
        while c < 32:
            for d in range(4):
                total += rows[i, c + d] * x[c + d]
            c += 4
        out[i] = total


@pytest.mark.parametrize("dtype, width", [("float32", 4), ("float64", 2)])
def test_neighbours_in_scratch_are_read_16_bytes_at_a_time(dtype, width):
    ptx = lower(rows_of_scratch, pk.TeamPolicy(2), (np.zeros(1152, dtype), np.zeros(32, dtype)))
    assert f"ld.shared.v{width}" in ptx


@pk.kernel
def scaled_sum(i, a, x, y):
    y[i] += a * x[i]


@pk.kernel
def scaled_sum_of_large(i, a, x, y):
    if x[i] > a:
        y[i] += a * x[i]


@pk.kernel(fastmath=True)
def powers(i, a, x, y):
    y[i] = pk.fast_exp(a * x[i]) + pk.fast_exp2(x[i]) + pk.fast_log(y[i]) + pk.exp(x[i])


@pytest.mark.parametrize(
    "kernel, dtype, indices",
    [
        (scaled_sum, "float32", 4),
        (scaled_sum, "float64", 2),
        (scaled_sum_of_large, "float32", 1),
        (powers, "float32", 1),
    ],
)
def test_a_thread_takes_several_indices_of_straight_text(kernel, dtype, indices):
    """All loads precede the first store, so that several are in progress at the same time. The loop over the
    last indices is left as it is: unrolled, it would take twice the registers of the whole kernel."""
    x = np.zeros(9, dtype)
    ptx = lower(kernel, 9, (2.0, x, x))
    assert ptx.partition("st.global")[0].count("ld.global") == 2 * indices
    assert ptx.count("nounroll") == (indices > 1) != ptx.count(".minnctapersm 4")


def test_atomics_without_a_used_result():
    """A thread does not wait for them."""

    def body(i, x):
        pk.atomic_add(x, 0, 1.0)
        x[i] = pk.atomic_add(x, 1, 1.0)

    ptx = lower(pk.kernel(body), 9, [np.zeros(9)])
    assert ptx.count("red.global.add.f64") == ptx.count("atom.global.add.f64") == 3


@pk.kernel
def draw(i, seed, out):
    out[i] = pk.random.words(seed, i, 0)[0]


def test_a_product_of_two_halves_is_one_instruction():
    """Check the ten rounds of Philox."""
    ptx = lower(draw, 9, (np.uint64(1), np.zeros(9, np.int64)))
    assert ptx.count("mul.wide.u32") == 20 and "mul.lo.s64" not in ptx


def test_streams_of_one_thread_share_a_block_of_random_bits():
    """A warp's team that iterates over 128 neighbours at a time needs ten rounds of Philox for four
    numbers."""

    def body(team, seed, out):
        for base in range(0, out.shape[0], 4 * team.size):
            for m in range(4):
                k = base + m * team.size + team.rank
                out[k] = pk.random.normal32(seed, k, 0)

    entry = entry_of(pk.kernel(body), "team", (spec(np.uint64(1)), view("float32")), (), 32)
    assert compiled(entry).count("mul.wide.u32") < 40  # four blocks would have 80


def test_a_team_of_one_warp_meets_without_the_block():
    def body(team, out):
        team.barrier()
        out[team.league_rank] = team.size

    ptx = [compiled(entry_of(pk.kernel(body), "team", (view("float64"),), (), size)) for size in (32, 64)]
    assert ["bar.warp.sync" in text for text in ptx] == [True, False]
    # Eight teams share a block; the assembler derives that values computed from its rank are uniform.
    assert [".maxntid 256" in text and "shfl.sync.idx" in text for text in ptx] == [True, False]


def tile_of_a_sort(given, keys, word="int32", members=256):
    """Return the PTX of the kernel that sorts on GPUs."""
    items, order, state = map(view, (given, "int64", word))
    pair = ("tuple", (view(keys), view("int32")), ())
    sizes = (("static", v, str(v)) for v in (16 * members, 8, int(keys[4:]) // 8))
    specs = *sizes, ("number", "int"), ("static", False, "False"), items, pair, pair, order, state
    return compiled(entry_of(algorithms._move_tile, "team", specs, (), members))


@pytest.mark.parametrize(
    "given, keys, word",
    [("int32", "uint32", "int32"), ("float64", "uint64", "int32"), ("uint64", "uint64", "int64")],
)
def test_a_sort_of_many_members(given, keys, word, tmp_path):
    """Keys, ranks and numbers stay in registers; each key of a member is counted once, by votes; a team polls
    a value by an atomic read, which no compiler moves out of the loop."""
    ptx = tile_of_a_sort(given, keys, word)
    assert ".local" not in ptx
    assert ptx.count("atom.shared.add") == 16 and ptx.count("vote.sync.ballot") == 16 * 8
    assert ptx.count("atom.global.or") == 1  # the only load of a word, in its loop
    assemble(ptx, tmp_path)


@pytest.mark.parametrize("dtype", ["int32", "float32", "float64"])
def test_ragged_rows(dtype, tmp_path):
    wide = "int64" if dtype == "int32" else dtype
    tile = ("static", segments._GPU_TILE, str(segments._GPU_TILE))
    inclusive = ("static", True, "True")
    values, out, index, looks = map(view, (dtype, wide, "int64", "uint8"))
    neutral, n, parts = ("number", wide), ("number", "int"), (index, out, out, out, index)
    for kernel, specs in (
        (segments._reduce_staged_tile, (tile, neutral, values, *parts)),
        (segments._join_tiles, (tile, n, neutral, *parts)),
        (rows.reduce_row, (("static", 8, "8"), n, neutral, values, index, out, looks)),
        (rows.reduce_row, (("static", 16, "16"), n, neutral, values, index, out, looks)),
        (rows.reduce_block, (tile, neutral, values, index, out)),
        (rows.join_row, (tile, neutral, values, index, out, out)),
        (rows.scan_row, (n, inclusive, neutral, values, index, out, looks)),
    ):
        specs = ("known", Known(pk.Sum)), *specs
        ptx = compiled(entry_of(kernel, "team", specs, (), segments._WARP))
        assert ".local" not in ptx and (dtype == "float64" or ".f64" not in ptx)
        assemble(ptx, tmp_path)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "kernel, kind, reducer, n_outs",
    [
        (affine, "scan inclusive", MAPS, 2),
        (affine, "scan exclusive", VALUES, 1),
        (flagged, "scan inclusive", SEGMENTS, 1),
        (affine, "scan total", ORDERED, 0),
        (in_a_team, "team", None, 3),
        (teams_in_order, "team", None, 2),
    ],
)
def test_scans_of_states(kernel, kind, reducer, n_outs, dtype, tmp_path):
    of = view(dtype)
    inputs, outs = (view("int32") if kernel is flagged else of, of), (of,) * n_outs
    if kind == "team":
        entry = entry_of(kernel, kind, inputs + outs, (), TEAM_SIZE)
    else:
        views = (("tuple", outs, ()),) if n_outs > 1 else outs
        entry = entry_of(kernel, kind, (*inputs, *views), (reducer,), 0)
    ptx = compiled(entry)
    assert ptx.count(".visible .entry") == 1
    assemble(ptx, tmp_path)


@pk.kernel
def widened(i, decay, near):
    return decay[i], near[i] * 1.0


@pk.kernel
def summed(i, decay, near):
    total = 0.0
    for j in range(i):
        total += decay[j] * near[j]
    return total, 1.0


@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize("near, n_bits", [("float32", (32, 64)), ("int64", (64,)), ("int8", (64,))])
def test_scans_tell_the_cache_what_is_read_again(near, n_bits, capability, tmp_path):
    """The first read of a tile is kept in the cache, where the machine has hints for it; the second and the
    prefixes are not. Short types are read without hints."""
    decay, near = view("float64"), view(near)
    entry = entry_of(widened, "scan inclusive", (decay, near, ("tuple", (decay, decay), ())), (MAPS,), 0)
    ptx = compiled(entry, capability)
    assert ptx.count("createpolicy") == (capability >= (8, 0))
    for n in (32, 64):
        kept, once = f"ld.global.L2::cache_hint.b{n}", f"ld.global.cs.b{n}"
        assert (once in ptx) == (n in n_bits)
        assert ptx.count(kept) == (ptx.count(once) if capability >= (8, 0) else 0)
    assert "st.global.cs.b64" in ptx
    if capability == NEWEST:
        assemble(ptx, tmp_path)


def test_what_a_scan_reads_in_loops_is_left_to_the_cache():
    decay = view("float64")
    specs = decay, decay, ("tuple", (decay, decay), ())
    ptx = compiled(entry_of(summed, "scan inclusive", specs, (MAPS,), 0))
    assert "cache_hint" not in ptx and ".cs." not in ptx


@pk.kernel
def handed_on(team, x, k, out):
    for j in team.thread_range(x.shape[0]):
        out[j] = 0.0
    n = team.rank
    for value in (
        team.broadcast(n / 3),
        team.broadcast(0.5 if n > 2 else 1.5, team.size - 1),
        team.broadcast(float(n), k[0] % team.size),
        team.broadcast(n + 1),
        team.broadcast(n > 1),
        team.broadcast(x[n % 5]),
        team.broadcast(k[n % 5]),
        team.reduce(n / 3, pk.Max),
        team.scan(n / 3),
        team.reduce((n / 3, n), pk.MinLoc)[0],
    ):
        out[n % 5] += value


@pytest.mark.parametrize("size", [32, 64, 128, 1024])
@pytest.mark.parametrize("real, whole", [("float32", "int32"), ("float32", "int64"), ("float64", "uint32")])
def test_numbers_of_all_widths_go_from_member_to_member(real, whole, size, tmp_path):
    """Shuffle numbers of all widths between members, weak ones too, which have the kernel's float type."""
    views = (*map(view, (real, whole, real)),)
    ptx = compiled(entry_of(handed_on, "team", views, (), size))
    assert real == "float64" or ".f64" not in ptx
    assemble(ptx, tmp_path)
