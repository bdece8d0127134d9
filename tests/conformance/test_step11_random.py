"""Step 11, random numbers: every space draws the same bits, and they have the distributions of their names.

The statistical tests run once, since the bits are the same everywhere. Their seeds are fixed, so their
outcome never changes; a correct generator would fail each of them for one seed in a million: FALSE_ALARM.
"""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import stats

import portable as pk
from portable.library.texts.counts import _log_binomial, _log_poisson

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
    out = launch_for(3, philox, counter, key, np.zeros((3, 4), np.uint32))[2]
    wanted = [
        [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8],
        [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD],
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ]
    assert_array_equal(out, np.array(wanted, np.uint32))


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


@pytest.mark.parametrize(
    "kernel, dtype, draws",
    [(all_64, np.float64, DRAWS), (all_32, np.float32, DRAWS_32)],
)
def test_every_space_has_the_bits_of_plain_python(space, kernel, dtype, draws):
    out = launch_for(N, kernel, SEED, STREAM, np.zeros((4, N), dtype))
    assert_array_equal(out, [[drawn(SEED, STREAM, k) for k in range(N)] for drawn in draws])


@pk.kernel
def whole_numbers(i, seed, n, out):
    out[i] = pk.random.randint(seed, i, 0, n)


@pytest.mark.parametrize("n", [1, 6, 2**32, 3 * 2**61])
def test_every_space_has_the_integers_of_plain_python(space, n):
    out = launch_for(50, whole_numbers, SEED, n, np.zeros(50, np.int64))
    assert_array_equal(out, [pk.random.randint(SEED, k, 0, n) for k in range(50)])
    assert out.min() >= 0 and out.max() < n


@pk.kernel
def until_small(i, out):
    """Draw in a loop whose length differs between lanes: each continues until its draw is below a tenth."""
    draw = 0
    while pk.random.uniform(11, i, draw) >= 0.1:
        draw += 1
    out[i] = draw


def test_draws_in_a_loop(space):
    out = launch_for(60, until_small, np.zeros(60, np.int64))
    first = [next(k for k in range(10_000) if pk.random.uniform(11, i, k) < 0.1) for i in range(60)]
    assert_array_equal(out, first)


def test_float32_kernels_hold_no_float64():
    """A float64 in between would appear in the PTX, which can be generated without a GPU."""
    from portable.core.machines.cuda.space import lower_to_ptx

    ptx = lower_to_ptx(
        all_32, "range", (("number", "int"), ("number", "int"), ("view", "float32", 2, True, False))
    )
    assert ".f32" in ptx and ".f64" not in ptx


# ---- distributions
def sample(kernel, shape, dtype, *args):
    out = np.zeros(shape, dtype)
    pk.parallel_for(pk.RangePolicy(0, shape[-1], space="serial"), kernel, *args, out)
    return out


@pytest.mark.parametrize("kernel, dtype", [(all_64, np.float64), (all_32, np.float32)])
def test_distributions(kernel, dtype):
    """Apply the Kolmogorov-Smirnov test to each; steps of 2^-24 are far below the resolution of 100,000
    numbers.
    """
    drawn = sample(kernel, (4, 100_000), dtype, 1, 0)
    for x, name in zip(drawn.astype(np.float64), ("uniform", "uniform", "expon", "norm")):
        assert stats.kstest(x, name).pvalue > FALSE_ALARM, name


@pk.kernel
def along(i, out):
    out[i] = pk.random.uniform(3, 0, i)


def test_every_bit_of_a_uniform_is_fair():
    """Test 53 counts of ones, each normal with variance n / 4 (Bonferroni: the smallest p-value times 53)."""
    n = 200_000
    whole = (sample(along, (n,), np.float64) * 2.0**53).astype(np.int64)
    ones = np.array([((whole >> k) & 1).sum() for k in range(53)])
    p = 2 * stats.norm.sf(np.abs(ones - n / 2) / np.sqrt(n / 4))
    assert p.min() * 53 > FALSE_ALARM


def test_normals_in_the_tails():
    """Count normals beyond 3.5: 4.65 of 10,000 are expected, a Poisson count."""
    n = 400_000
    x = sample(all_64, (4, n), np.float64, 5, 1)[3]
    wanted = n * 2 * stats.norm.sf(3.5)
    count = (np.abs(x) > 3.5).sum()
    assert (
        stats.poisson.cdf(count, wanted) > FALSE_ALARM / 2
        and stats.poisson.sf(count - 1, wanted) > FALSE_ALARM / 2
    )


# ---- whole numbers of given expectation
@pk.kernel
def counts(i, seed, means, n, p, out):
    out[0, i] = pk.random.poisson(seed, i, 0, means[i % means.shape[0]])
    out[1, i] = pk.random.binomial(seed, i, 64, n[i % n.shape[0]], p[i % n.shape[0]])


MEANS = np.array([0.0, 1e-9, 0.7, 9.999, 10.0, 12.5, 400.0, 1e7, 2.0**52])
TRIED, CHANCES = (
    np.array([0, 1, 7, 90, 90, 100, 5000, 2**40, 2**52]),
    np.array([0.3, 1.0, 0.5, 0.11, 0.89, 0.5, 0.999, 1e-3, 0.25]),
)


def test_every_space_has_the_counts_of_plain_python(space):
    n = 90
    out = launch_for(n, counts, SEED, MEANS, TRIED, CHANCES, np.zeros((2, n), np.int64))[-1]
    wanted = [
        [pk.random.poisson(SEED, k, 0, MEANS[k % 9]) for k in range(n)],
        [pk.random.binomial(SEED, k, 64, TRIED[k % 9], CHANCES[k % 9]) for k in range(n)],
    ]
    assert_array_equal(out, wanted)
    assert (out[0, ::9] == 0).all() and (out[1, ::9] == 0).all() and (out[1, 1::9] == 1).all()


def test_counts_of_arrays_on_the_host():
    streams = np.arange(6, dtype=np.uint64)
    assert_array_equal(
        pk.random.poisson(1, streams, 0, 30.0), [pk.random.poisson(1, k, 0, 30.0) for k in range(6)]
    )
    drawn = pk.random.binomial(1, streams[:, None], 0, np.array([3, 60]), 0.4)
    assert drawn.shape == (6, 2) and drawn[4, 1] == pk.random.binomial(1, 4, 0, 60, 0.4)


@pk.kernel
def one_count(i, mean, n, p, out):
    out[0] = pk.random.poisson(1, 0, 0, mean)
    out[1] = pk.random.binomial(1, 0, 0, n, p)


@pytest.mark.parametrize(
    "mean, n, p, name",
    [
        (-1e-300, -1, 0.5, "n is -1"),
        (np.nan, 3, 1.0000001, "p is 1.0000001"),
        (1e300, 3, np.nan, "p is nan"),
        (np.inf, 2**62, 0.5, "n is"),
    ],
)
def test_what_has_no_distribution(space, mean, n, p, name):
    """Compiled code returns -1; plain Python raises."""
    if space == "checked":
        with pytest.raises(pk.errors.CheckError, match="assert"):
            pk.parallel_for(1, one_count, mean, n, p, np.zeros(2, np.int64))
    else:
        assert launch_for(1, one_count, mean, n, p, np.zeros(2, np.int64)).tolist() == [-1, -1]
    with pytest.raises(pk.errors.InputError, match="poisson: mean is .*; expected 0 to 2.52"):
        pk.random.poisson(1, 0, 0, mean)
    with pytest.raises(pk.errors.InputError, match=f"binomial: {name}"):
        pk.random.binomial(1, 0, 0, n, p)


def p_value(drawn, law):
    """Return the p-value of chi-square for a million numbers, in at most some 200 cells with at least five
    expected each.
    """
    low, high = int(law.ppf(1e-5)), int(law.ppf(1 - 1e-5))
    ends = np.arange(low, high + 1, max(1, (high - low) // 200))
    expected = np.diff(np.concatenate([[0.0], law.cdf(ends), [1.0]])) * len(drawn)
    found = np.bincount(np.searchsorted(ends, drawn), minlength=len(ends) + 1)
    few = expected < 5
    found, expected = np.append(found[~few], found[few].sum()), np.append(expected[~few], expected[few].sum())
    found, expected = found[expected > 0], expected[expected > 0]
    return stats.chisquare(found, expected * found.sum() / expected.sum()).pvalue


@pk.kernel
def poissons(i, mean, out):
    out[i] = pk.random.poisson(5, i, 0, mean)


@pk.kernel
def binomials(i, n, p, out):
    out[i] = pk.random.binomial(6, i, 0, n, p)


@pytest.mark.parametrize("mean", [0.05, 3.0, 9.99, 10.0, 11.7, 64.0, 1e5, 3e9])
def test_poisson_numbers(mean):
    assert p_value(sample(poissons, (1_000_000,), np.int64, mean), stats.poisson(mean)) > FALSE_ALARM


@pytest.mark.parametrize(
    "n, p", [(1, 0.3), (30, 0.9), (99, 0.1), (20, 0.5), (21, 0.5), (1000, 0.013), (10**5, 0.7), (10**9, 2e-4)]
)
def test_binomial_numbers(n, p):
    assert p_value(sample(binomials, (1_000_000,), np.int64, n, p), stats.binom(n, p)) > FALSE_ALARM


def test_the_logarithms_that_decide():
    """Poisson and binomial probabilities agree with 40 digits, to the 1e-12 that the docstrings state."""
    import mpmath

    mpmath.mp.dps = 40
    for k, mean in [
        (0, 12.0),
        (1, 11.0),
        (7, 10.5),
        (10, 10.0),
        (25, 10.0),
        (400, 430.5),
        (10**6 + 3000, 1e6),
        (10**9, 1e9 + 1e5),
    ]:
        exact = k * mpmath.log(mpmath.mpf(mean)) - mean - mpmath.loggamma(k + 1)
        assert abs(float(_log_poisson(float(k), mean) - exact)) < 1e-12 * max(1, abs(float(exact)))
    for k, n, p in [(0, 40, 0.3), (40, 40, 0.3), (17, 40, 0.4), (500, 10**4, 0.05), (300_100, 10**6, 0.3)]:
        exact = [
            mpmath.log(mpmath.binomial(n, j))
            + j * mpmath.log(mpmath.mpf(p))
            + (n - j) * mpmath.log(1 - mpmath.mpf(p))
            for j in (k, int(n * p))
        ]
        got = _log_binomial(float(k), float(n), p) - _log_binomial(float(int(n * p)), float(n), p)
        assert abs(float(got - (exact[0] - exact[1]))) < 2e-12 * max(1, abs(float(exact[0] - exact[1])))
