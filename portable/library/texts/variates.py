"""More random variates: gamma, beta, numbers by weight, permutations.

Gamma numbers are those of Marsaglia and Tsang ("A simple method for generating gamma variables", ACM TOMS 26,
2000); permutations are shuffled as Fisher and Yates do.
"""

import numpy as np

from ...core.language.annotations import ArrayLike, Real, Whole
from .draws import normal, randint, uniform, uniform_open
from ...core.language.kernel import function
from ...core.language.words import FILES, float64, int64, log, pow, sqrt, uint64, where  # noqa: A004

FILES.append(__file__)
NAN = float("nan")
TRIES = 60  # each succeeds with a probability above 0.95


@function
def gamma(seed: Whole, stream: Whole, draw: Whole, shape: Real) -> np.float64:
    """Return a float64 from the gamma distribution of scale 1; shape > 0. It reserves 64 draws: draw,
    ..., draw + 63.

    The distribution is exact except for rounding. NaN unless shape is above 0, which the checked space and
    calls on the host refuse.
    """
    assert shape > 0.0
    wanted = float64(shape)
    a = where(wanted < 1.0, wanted + 1.0, wanted)
    d = a - 1.0 / 3.0
    c = 1.0 / sqrt(9.0 * d)
    found = float64(0.0)
    tried = 0
    while tried < TRIES:
        at = uint64(draw) + uint64(tried)
        tried += 1
        x = normal(seed, stream, at)
        v = 1.0 + c * x
        v = v * v * v
        if v > 0.0 and log(uniform_open(seed, stream, at)) < 0.5 * x * x + d - d * v + d * log(v):
            found = d * v
            tried = TRIES
    if wanted < 1.0:  # by a power of a uniform number
        found *= pow(uniform_open(seed, stream, uint64(draw) + uint64(63)), 1.0 / wanted)
    return where(wanted > 0.0, found, NAN)


@function
def beta(seed: Whole, stream: Whole, draw: Whole, a: Real, b: Real) -> np.float64:
    """Return a float64 from the beta distribution; a, b > 0. It reserves 128 draws: draw, ..., draw +
    127.

    The ratio of one gamma variate to the sum of two; where both are too small for a float64 it is 0 or 1. NaN
    unless a and b are above 0.
    """
    x = gamma(seed, stream, draw, a)
    y = gamma(seed, stream, uint64(draw) + uint64(64), b)
    end = where(
        uniform(seed, stream, uint64(draw) + uint64(62)) * (float64(a) + float64(b)) < float64(a), 1.0, 0.0
    )
    return where(x + y == 0.0, end, x / where(x + y == 0.0, 1.0, x + y))


@function
def categorical(seed: Whole, stream: Whole, draw: Whole, weights: ArrayLike) -> np.int64:
    """Return a number k from 0 to len(weights) - 1, as int64, with a probability of weights[k] over their
    sum; one draw.

    weights : a view of one dimension, of numbers of at least 0. -1 if their sum is 0 or no number.
    """
    total = float64(0.0)
    for weight in weights:
        assert weight >= 0.0
        total += float64(weight)
    u = uniform(seed, stream, draw) * total
    below = float64(0.0)
    found, last = int64(-1), int64(-1)
    for k, weight in enumerate(weights):
        below += float64(weight)
        if weight > 0.0:
            last = int64(k)
            if found < 0 and u < below:
                found = int64(k)
    return where(found < 0 and total > 0.0, last, found)


@function
def permutation(seed: Whole, stream: Whole, draw: Whole, out: ArrayLike) -> None:
    """Fill `out`, a view of integers of one dimension, with a random permutation of 0, 1, ..., all equally
    probable. It reserves len(out) draws.

    Many long ones are made faster by `pk.argsort` of random words.
    """
    n = out.shape[0]
    for k in range(n):
        out[k] = k
    for k in range(n - 1):
        j = k + randint(seed, stream, uint64(draw) + uint64(k), n - k)
        moved = out[k]
        out[k] = out[j]
        out[j] = moved
