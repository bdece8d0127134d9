"""Step 11, random numbers: every space draws the same bits, and they are distributed as their names say.

The statistical tests run once, since the bits are the same everywhere. Their seeds are fixed, so they pass or fail for
ever; a right generator would fail each of them for one seed in a million: FALSE_ALARM.
"""

import numpy as np
import pytest
from scipy import stats

import portable as pk

from ..launching import launch_for

FALSE_ALARM = 1e-6
SEED, STREAM, N = 2**40 + 7, 2**33 + 5, 203
DRAWS = [pk.random.uniform, pk.random.uniform_open, pk.random.exponential, pk.random.normal]
DRAWS_32 = [pk.random.uniform32, pk.random.uniform_open32, pk.random.exponential32, pk.random.normal32]


@pk.kernel
def philox(i, counter, key, out):
    c = pk.random.philox(counter[i, 0], counter[i, 1], counter[i, 2], counter[i, 3], key[i, 0], key[i, 1])
    for k in range(4):
        out[i, k] = c[k]


def test_the_published_vectors(space):
    """Random123's kat_vectors for philox4x32, 10 rounds."""
    full = 0xFFFFFFFF
    pi = [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344]
    counter = np.array([[0] * 4, [full] * 4, pi], np.uint32)
    key = np.array([[0] * 2, [full] * 2, [0xA4093822, 0x299F31D0]], np.uint32)
    out = launch_for(space, 3, philox, counter, key, np.zeros((3, 4), np.uint32))[2]
    wanted = [[0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8], [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD],
              [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]]
    np.testing.assert_array_equal(out, np.array(wanted, np.uint32))


@pk.kernel
def all_64(i, seed, stream, out):
    out[0, i] = pk.random.uniform(seed, stream, i)
    out[1, i] = pk.random.uniform_open(seed, stream, i)
    out[2, i] = pk.random.exponential(seed, stream, i)
    out[3, i] = pk.random.normal(seed, stream, i)


@pk.kernel
def all_32(i, seed, stream, out):
    out[0, i] = pk.random.uniform32(seed, stream, i)
    out[1, i] = pk.random.uniform_open32(seed, stream, i)
    out[2, i] = pk.random.exponential32(seed, stream, i)
    out[3, i] = pk.random.normal32(seed, stream, i)


@pytest.mark.parametrize("kernel, dtype, draws", [(all_64, np.float64, DRAWS), (all_32, np.float32, DRAWS_32)],
                         ids=["float64", "float32"])
def test_every_space_has_the_bits_of_plain_python(space, kernel, dtype, draws):
    out = launch_for(space, N, kernel, SEED, STREAM, np.zeros((4, N), dtype))
    np.testing.assert_array_equal(out, [[drawn(SEED, STREAM, k) for k in range(N)] for drawn in draws])


@pk.kernel
def whole_numbers(i, seed, n, out):
    out[i] = pk.random.randint(seed, i, 0, n)


@pytest.mark.parametrize("n", [1, 6, 2**32, 3 * 2**61])
def test_every_space_has_the_integers_of_plain_python(space, n):
    out = launch_for(space, 50, whole_numbers, SEED, n, np.zeros(50, np.int64))
    np.testing.assert_array_equal(out, [pk.random.randint(SEED, k, 0, n) for k in range(50)])
    assert out.min() >= 0 and out.max() < n


@pk.kernel
def until_small(i, out):
    """A loop whose length differs between lanes: each goes on until its draw is below a tenth."""
    draw = 0
    while pk.random.uniform(11, i, draw) >= 0.1:
        draw += 1
    out[i] = draw


def test_draws_in_a_loop(space):
    out = launch_for(space, 60, until_small, np.zeros(60, np.int64))
    first = [next(k for k in range(10_000) if pk.random.uniform(11, i, k) < 0.1) for i in range(60)]
    np.testing.assert_array_equal(out, first)


def test_float32_kernels_hold_no_float64():
    """A float64 on the way would show in the PTX, which needs no GPU to be made."""
    from portable.backends.cuda.space import lower_to_ptx

    ptx = lower_to_ptx(all_32, "range", (("number", "int"), ("number", "int"), ("view", "float32", 2, True, False)))
    assert ".f32" in ptx and ".f64" not in ptx


# ---- distributions
def sample(kernel, shape, dtype, *args):
    out = np.zeros(shape, dtype)
    pk.parallel_for(pk.RangePolicy(0, shape[-1], space="serial"), kernel, *args, out)
    return out


@pytest.mark.parametrize("kernel, dtype", [(all_64, np.float64), (all_32, np.float32)], ids=["float64", "float32"])
def test_distributions(kernel, dtype):
    """Kolmogorov and Smirnov's test of each; steps of 2^-24 are far below what 100,000 numbers resolve."""
    drawn = sample(kernel, (4, 100_000), dtype, 1, 0)
    for x, name in zip(drawn.astype(np.float64), ("uniform", "uniform", "expon", "norm")):
        assert stats.kstest(x, name).pvalue > FALSE_ALARM, name


@pk.kernel
def along(i, seed, step_seed, step_stream, step_draw, out):
    out[i] = pk.random.uniform(seed + i * step_seed, i * step_stream, i * step_draw)


@pytest.mark.parametrize("steps", [(0, 0, 1), (0, 1, 0), (1, 0, 0), (0, 2**32, 0), (1, 1, 1)], ids=str)
def test_neighbours_are_independent(steps):
    """Pairs of neighbouring draws, streams or seeds fill a grid of 16 x 16 evenly: chi-square with 255 degrees."""
    n = 200_000
    u = sample(along, (n,), np.float64, 9, *steps)
    cells = (u * 16).astype(int)
    counts = np.bincount(cells[::2] * 16 + cells[1::2], minlength=256)
    assert stats.chisquare(counts).pvalue > FALSE_ALARM


@pk.kernel
def by_stream(i, out):
    out[0, i] = pk.random.uniform32(9, i, 0)
    out[1, i] = pk.random.normal32(9, i, 1)


def test_streams_that_share_a_block_are_independent():
    """Uniforms of two places fill a grid evenly; squares of all four normals add up to a chi-square of four degrees, and sums and
    differences of two are normal with variance 2."""
    u, x = (a.reshape(-1, 4, 32) for a in sample(by_stream, (2, 128 * 2_000), np.float32).astype(np.float64))
    assert stats.kstest((x**2).sum(axis=1).ravel(), stats.chi2(4).cdf).pvalue > FALSE_ALARM
    for a, b in [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]:
        cells = (u[:, a] * 16).astype(int) * 16 + (u[:, b] * 16).astype(int)
        assert stats.chisquare(np.bincount(cells.ravel(), minlength=256)).pvalue > FALSE_ALARM
        for both in (x[:, a] + x[:, b], x[:, a] - x[:, b]):
            assert stats.kstest(both.ravel(), stats.norm(0, np.sqrt(2)).cdf).pvalue > FALSE_ALARM


def test_every_bit_of_a_uniform_is_fair():
    """53 counts of ones, each normal with variance n / 4 (Bonferroni: the smallest p-value times 53)."""
    n = 200_000
    whole = (sample(along, (n,), np.float64, 3, 0, 0, 1) * 2.0**53).astype(np.int64)
    ones = np.array([((whole >> k) & 1).sum() for k in range(53)])
    p = 2 * stats.norm.sf(np.abs(ones - n / 2) / np.sqrt(n / 4))
    assert p.min() * 53 > FALSE_ALARM


@pytest.mark.parametrize("n", [6, 1000, 3 * 2**61])
def test_whole_numbers_are_even(n):
    """Chi-square over 6, 1000 or 3 cells. Taking 64 bits modulo 3 * 2^61 would draw the lowest two thirds too often."""
    cells = min(n, 1000) if n < 2**32 else 3
    drawn = sample(whole_numbers, (300_000,), np.int64, SEED, n)
    counts = np.bincount(drawn if n == cells else drawn // (n // cells), minlength=cells)
    assert len(counts) == cells and stats.chisquare(counts).pvalue > FALSE_ALARM


def test_normals_in_the_tails():
    """Beyond 3.5 lie 4.65 of 10,000: a Poisson count."""
    n = 400_000
    x = sample(all_64, (4, n), np.float64, 5, 1)[3]
    wanted = n * 2 * stats.norm.sf(3.5)
    count = (np.abs(x) > 3.5).sum()
    assert stats.poisson.cdf(count, wanted) > FALSE_ALARM / 2 and stats.poisson.sf(count - 1, wanted) > FALSE_ALARM / 2
