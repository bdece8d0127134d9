"""Test Philox4x32-10 as plain Python: the published vectors, the counter and key of a draw, and the rarest
draws."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from portable import random

# Source: Random123 (Salmon and others, 2011), its file kat_vectors: counter, key, result.
PUBLISHED = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]
MULTIPLIERS, WEYL = (0xD2511F53, 0xCD9E8D57), (0x9E3779B9, 0xBB67AE85)


def draw_of(words, seed=0):
    """Return (stream, draw) at which `words` are drawn, by the inverse of Philox, whose multipliers are
    odd."""
    c = list(words)
    inverse = [pow(m, -1, 2**32) for m in MULTIPLIERS]
    for r in reversed(range(10)):
        k0, k1 = ((k + r * w) % 2**32 for k, w in zip((seed % 2**32, seed >> 32), WEYL))
        before0, before2 = c[3] * inverse[0] % 2**32, c[1] * inverse[1] % 2**32
        high0, high2 = before0 * MULTIPLIERS[0] >> 32, before2 * MULTIPLIERS[1] >> 32
        c = [before0, c[0] ^ high2 ^ k0, before2, c[2] ^ high0 ^ k1]
    return c[2] | c[3] << 32, c[0] | c[1] << 32


@pytest.mark.parametrize("counter, key, words", PUBLISHED)
def test_the_published_vectors(counter, key, words):
    assert random.philox(*counter, *key) == words


def test_which_counter_a_draw_is():
    """The seed is the key, the draw the counter's words 0 and 1, the stream words 2 and 3, low words first;
    all have 64 bits."""
    counter, key, words = PUBLISHED[2]
    seed, draw, stream = (low | high << 32 for low, high in (key, counter[:2], counter[2:]))
    assert random.words(seed, stream, draw) == words
    assert draw_of(words, seed) == (stream, draw)


@pytest.mark.parametrize("kind", [int, np.int64, np.uint64, np.int32, np.uint32])
def test_whole_numbers_of_any_kind_name_the_same_draw(kind):
    assert random.words(kind(7), kind(3), kind(2**31 - 1)) == random.words(7, 3, 2**31 - 1)


def test_arrays_on_the_host():
    draws = np.arange(20, dtype=np.uint64)
    for drawn in (
        random.uniform,
        random.uniform_open,
        random.uniform32,
        lambda *at: random.randint(*at, 1000),
    ):
        got = drawn(5, 2, draws)
        assert_array_equal(got, [drawn(5, 2, k) for k in range(20)])
        assert got.dtype == drawn(5, 2, 0).dtype


ZEROS, ONES = (0,) * 4, (0xFFFFFFFF,) * 4
BELOW_64, BELOW_32 = 1 - 2.0**-53, np.float32(1 - 2.0**-24)
RAREST = {
    random.uniform: (0.0, BELOW_64),
    random.uniform_open: (2.0**-53, BELOW_64),
    random.exponential: (0.0, 53 * np.log(2)),
    random.normal: (0.0, np.sqrt(106 * np.log(2))),
    random.uniform32: (np.float32(0), BELOW_32),
    random.uniform_open32: (np.float32(2.0**-24), BELOW_32),
    random.exponential32: (np.float32(0), np.float32(24 * np.log(2))),
    random.normal32: (np.float32(0), np.float32(np.sqrt(48 * np.log(2)))),
}


SHARED = 1 << 63  # marks blocks shared by several streams


def places(drawn):
    """Return the bits of a stream that give its place among the streams that share a block."""
    return 96 if drawn.__name__.endswith("32") else 32 if drawn is random.normal else 0


def call_of(drawn, words):
    """Return (seed, stream, draw) at which a function reads `words`; for a shared block, its first stream."""
    if not places(drawn):
        return 0, *draw_of(words)
    bits = SHARED | places(drawn)
    seed, (stream, draw) = next((s, at) for s in range(1000) if (at := draw_of(words, s))[0] & bits == SHARED)
    return seed, stream - SHARED, draw


@pytest.mark.parametrize("drawn", RAREST, ids=lambda f: f.__name__)
def test_the_rarest_draws(drawn):
    """Four words of zeros, and of ones, give the ends of the range, without a minus sign on a zero."""
    for words, wanted in zip((ZEROS, ONES), RAREST[drawn]):
        got = drawn(*call_of(drawn, words))
        assert got.dtype == np.asarray(wanted).dtype and abs(got - wanted) <= 2 * np.spacing(wanted)
        assert not np.signbit(got)


@pytest.mark.parametrize("stream", [0, 5, 31, 128 + 7, 2**40 + 3 * 128])
def test_four_streams_share_a_block(stream):
    """Each stream has a separate word; the normal numbers of a pair are on one circle, whose radius is
    computed from the first word of the pair."""
    words = random.words(3, stream | SHARED, 9)
    streams = stream, stream + 32, stream + 64, stream + 96
    assert [random.uniform32(3, s, 9) for s in streams] == [
        np.float32((int(w) >> 8) * 2.0**-24) for w in words
    ]
    x = [float(random.normal32(3, s, 9)) for s in streams]
    for (cosine, sine), (u, v) in zip((x[:2], x[2:]), (words[:2], words[2:])):
        radius, turn = (
            np.sqrt(-2.0 * np.log1p(-(int(u) >> 8) * 2.0**-24)),
            2.0 * np.pi * (int(v) >> 8) * 2.0**-24,
        )
        assert_allclose(
            (cosine, sine), (radius * np.cos(turn), radius * np.sin(turn)), rtol=0, atol=1e-6 * radius
        )


@pytest.mark.parametrize("stream", [0, 5, 31, 64 + 7, 2**40 + 3 * 64])
def test_two_streams_of_normal_numbers_share_a_block(stream):
    """Both are on one circle, whose radius is computed from the first half of the block, their angle from the
    second."""
    words = [int(w) for w in random.words(3, stream | SHARED, 9)]
    radius = np.sqrt(-2.0 * np.log1p(-((words[1] << 32 | words[0]) >> 11) * 2.0**-53))
    turn = 2.0 * np.pi * ((words[3] << 32 | words[2]) >> 11) * 2.0**-53
    cosine, sine = random.normal(3, stream, 9), random.normal(3, stream + 32, 9)
    expected = radius * np.cos(turn), radius * np.sin(turn)
    assert_allclose((cosine, sine), expected, rtol=0, atol=1e-14 * radius)


@pytest.mark.parametrize("n", [1, 2, 3, 10, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 10**18, 2**63 - 1])
def test_randint_is_the_upper_part_of_an_exact_product(n):
    for words in [ZEROS, ONES, (1, 2, 3, 0x80000000), *(random.words(1, 2, k) for k in range(20))]:
        exact = sum(int(w) << 32 * k for k, w in enumerate(words)) * n >> 128
        got = random.randint(0, *draw_of([int(w) for w in words]), n)
        assert got == exact and got.dtype == np.int64
