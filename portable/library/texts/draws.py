"""Numbered random numbers in kernels; random.py defines the rules."""

from typing import Any

from ...core.language.annotations import Whole
from ...core.language.kernel import function
from ...core.texts.elementary import F32, ELEMENTARY_FILES, T, log_normal, quarter
from ...core.language.words import (
    FILES,
    bits,
    float32,
    float64,
    int32,
    int64,
    modulo64,
    sqrt,
    uint32,
    uint64,
    where,
)

ELEMENTARY_FILES.append(__file__)
FILES.append(__file__)
_MULTIPLIERS = 0xD2511F53, 0xCD9E8D57  # the paper's, chosen for their avalanche
_WEYL = 0x9E3779B9, 0xBB67AE85  # a round adds these to the key: the golden ratio and sqrt(3) - 1, times 2^32
_LOW = 0xFFFFFFFF
_SHARED = 1 << 63  # of blocks that streams share
_QUARTER = 1.5707963267948966  # of a turn
_ROUND, _ROUND32, log_normal32, quarter32 = T.ROUND, F32.T.ROUND, F32.log_normal, F32.quarter


@function(chain=True)
def philox(c0: Whole, c1: Whole, c2: Whole, c3: Whole, k0: Whole, k1: Whole) -> tuple[Any, Any, Any, Any]:
    """Return Philox4x32-10 of a counter of four 32-bit words under a key of two: four uint32, by 20
    multiplications.
    """
    c0, c1, c2, c3, k0, k1 = uint64(c0), uint64(c1), uint64(c2), uint64(c3), uint64(k0), uint64(k1)
    # lower halves of 64 bits: converting lanes to 32 bits in between would cost twice as much
    for _ in range(10):
        p, q = (c0 & _LOW) * _MULTIPLIERS[0], (c2 & _LOW) * _MULTIPLIERS[1]
        c0, c1, c2, c3 = (q >> 32) ^ c1 ^ k0, q, (p >> 32) ^ c3 ^ k1, p
        k0, k1 = k0 + _WEYL[0], k1 + _WEYL[1]
    return uint32(c0 & _LOW), uint32(c1 & _LOW), uint32(c2 & _LOW), uint32(c3 & _LOW)


@function
def words(seed: Whole, stream: Whole, draw: Whole) -> tuple[Any, Any, Any, Any]:
    """Return the four uint32 of a draw, of which everything else is made."""
    s, t, d = modulo64(seed), modulo64(stream), modulo64(draw)
    return philox(d & _LOW, d >> 32, t & _LOW, t >> 32, s & _LOW, s >> 32)


@function
def _word_of_four(seed, stream, draw):
    """Return the words of the block that four streams share, and which of the four this is."""
    return words(seed, modulo64(stream) & ~uint64(96) | _SHARED, draw), (modulo64(stream) >> 5) & 3


@function
def _word(seed, stream, draw):
    """Return the upper 24 bits of this stream's word."""
    w, place = _word_of_four(seed, stream, draw)
    return where(place < 2, where(place < 1, w[0], w[1]), where(place < 3, w[2], w[3])) >> 8


@function
def _upper53(low, high):
    """Return the upper 53 bits of two words, as a uint64."""
    return (uint64(high) << 21) | (uint64(low) >> 11)


@function
def uniform(seed: Whole, stream: Whole, draw: Whole) -> Any:
    """Return a float64 in [0, 1): a multiple of 2^-53. `1 - uniform(...)` is exact, and in (0, 1].

    Examples
    --------
    >>> bool(0.0 <= pk.random.uniform(1, 2, 3) < 1.0)
    True
    >>> pk.random.uniform(1, 0, np.arange(4)).shape
    (4,)
    """
    w = words(seed, stream, draw)
    return float64(_upper53(w[0], w[1])) * 2.0**-53


@function
def uniform_open(seed: Whole, stream: Whole, draw: Whole) -> Any:
    """Return a float64 in (0, 1), neither end included: an odd multiple of 2^-53."""
    w = words(seed, stream, draw)
    return float64(_upper53(w[0], w[1]) | uint64(1)) * 2.0**-53


@function
def uniform32(seed: Whole, stream: Whole, draw: Whole) -> float32:
    """Return a float32 in [0, 1): a multiple of 2^-24. `1 - uniform32(...)` is exact, and in (0, 1]."""
    return float32(int32(_word(seed, stream, draw))) * 2.0**-24


@function
def uniform_open32(seed: Whole, stream: Whole, draw: Whole) -> float32:
    """Return a float32 in (0, 1), neither end included: an odd multiple of 2^-24."""
    return float32(int32(_word(seed, stream, draw) | uint32(1))) * 2.0**-24


@function
def randint(seed: Whole, stream: Whole, draw: Whole, n: Whole) -> int64:
    """Return an integer in [0, n) as int64, n from 1 to 2^63 - 1; 0 if n is below 1.

    floor(X n / 2^128) for the 128-bit number X of the draw, by schoolbook multiplication: no loop that may
    not end, and every number's probability differs from 1 / n by less than 2^-128.
    """
    n = uint64(n * (n > 0))
    total = uint64(0)
    for w in words(seed, stream, draw):  # total = floor((total + w n) / 2^32), exactly: no sum reaches 2^64
        low = uint64(w) * (n & _LOW) + (total & _LOW)
        total = uint64(w) * (n >> 32) + (total >> 32) + (low >> 32)
    return int64(total)


@function
def exponential(seed: Whole, stream: Whole, draw: Whole) -> float64:
    """Return a float64 from the exponential distribution of mean 1: -log(1 - uniform), at most 36.7."""
    return 0.0 - log_normal(1.0 - uniform(seed, stream, draw))


@function
def exponential32(seed: Whole, stream: Whole, draw: Whole) -> float32:
    """Return a float32 from the exponential distribution of mean 1, at most 16.6."""
    return 0.0 - log_normal32(1.0 - uniform32(seed, stream, draw))


@function
def normal(seed: Whole, stream: Whole, draw: Whole) -> float64:
    """Return a float64 from the standard normal distribution, at most 8.6 in size: Box and Muller's radius
    times the cosine of an angle, or, in streams s + 32 of each 64, its sine."""
    t = modulo64(stream)
    sine = int64((t >> 5) & 1)
    w = words(seed, t & ~uint64(32) | _SHARED, draw)
    radius = sqrt(2.0 * (0.0 - log_normal(1.0 - float64(_upper53(w[0], w[1])) * 2.0**-53)))
    turn = float64(_upper53(w[2], w[3])) * 2.0**-51  # in quarters: taking whole ones away is exact
    near = turn + _ROUND  # the nearest integer is in its low bits
    return radius * quarter(bits(near) + 1 - sine, (turn - (near - _ROUND)) * _QUARTER, 0.0)


@function
def normal32(seed: Whole, stream: Whole, draw: Whole) -> float32:
    """Return a float32 from the standard normal distribution, at most 5.8 in size: streams s and s + 32
    have one radius."""
    w, place = _word_of_four(seed, stream, draw)
    first, second = where(place < 2, w[0], w[2]), where(place < 2, w[1], w[3])
    radius = sqrt(2.0 * (0.0 - log_normal32(1.0 - float32(int32(first >> 8)) * 2.0**-24)))
    turn = float32(int32(second >> 8)) * 2.0**-22
    near = turn + _ROUND32
    return radius * quarter32(bits(near) + 1 - int32(place & 1), (turn - (near - _ROUND32)) * _QUARTER, 0.0)
