"""Random counts: Poisson and binomial numbers, by inversion where the mean is small, else by transformed
rejection.

    n = pk.random.poisson(seed, stream, draw, mean)

A rejection is decided by the logarithm of a probability in Loader's form ("Fast and accurate computation of
binomial probabilities", 2000): no difference of large logarithms of gamma functions, so that it is accurate
for means of 10 and of 10^12. The rejections are PTRS and BTRS of Hoermann ("The transformed rejection method
for generating Poisson random variables", Insurance: Mathematics and Economics 12, 1993; "The generation of
binomial random variates", Journal of Statistical Computation and Simulation 46, 1993).
"""

import numpy as np

from ...core.language.annotations import Real, Whole
from .draws import _upper53, uniform, words
from ...core.texts.elementary import log_normal
from ...core.language.kernel import function
from ...core.language.words import FILES, exp, float64, floor, int64, log1p, sqrt, uint64, where

FILES.append(__file__)
# of a rejection, each of which succeeds with a probability above 0.7 (Hoermann): all fail in less than one of
# 10^33 draws
TRIES = 64
_HALF_LOG_TWO_PI = 0.9189385332046727
_SERIES = (
    1.0 / 12.0,
    -1.0 / 360.0,
    1.0 / 1260.0,
    -1.0 / 1680.0,
    1.0 / 1188.0,
    -691.0 / 360360.0,
)  # of Stirling


@function
def _stirling(k):
    """Return log k! beyond (k + 1/2) log k - k + log sqrt(2 pi), k >= 10, to 3e-13; for smaller k see
    _log_mass.
    """
    inverse = 1.0 / k
    square = inverse * inverse
    total = 0.0
    for j in range(6):
        total = total * square + _SERIES[5 - j]
    return total * inverse


@function
def _stirling_of_all(k):
    """Return `_stirling` for every k > 0: below 10 by the products themselves."""
    rise = 0.0
    while k < 10.0:  # s(k) = s(k + 1) + (k + 1/2) log((k + 1) / k) - 1
        rise += (k + 0.5) * log_normal((k + 1.0) / k) - 1.0
        k += 1.0
    return rise + _stirling(k)


@function
def _surplus(k, mean):
    """Return k log(k / mean) + mean - k for k, mean > 0, without cancellation (Loader's bd0)."""
    away = k - mean
    v = away / (k + mean)
    total = k * log_normal(k / mean) - away
    if abs(v) < 0.1:
        square = v * v
        total = 0.0
        for j in range(8):  # 2 k v (v^2 / 3 + v^4 / 5 + ...), down to v^16 / 17
            total = (total + 1.0 / (17.0 - 2.0 * j)) * square
        total = away * v + 2.0 * k * v * total
    return total


@function
def _log_poisson(k, mean):
    """Return the log of the Poisson probability of k >= 0, an integral float; Loader's form, accurate to
    about 1e-12.
    """
    log_mass = 0.0 - mean
    if k > 0.0:
        log_mass = 0.0 - _stirling_of_all(k) - _surplus(k, mean) - _HALF_LOG_TWO_PI - 0.5 * log_normal(k)
    return log_mass


@function
def _log_binomial(k, n, p):
    """Return the log of the binomial probability of k, 0 <= k <= n, except terms that do not depend on k."""
    rest = n - k
    log_mass = 0.0
    if k > 0.0:
        log_mass -= _stirling_of_all(k) + _surplus(k, n * p) + 0.5 * log_normal(k)
    else:
        log_mass -= n * p - _HALF_LOG_TWO_PI
    if rest > 0.0:
        log_mass -= _stirling_of_all(rest) + _surplus(rest, n * (1.0 - p)) + 0.5 * log_normal(rest)
    else:
        log_mass -= n * (1.0 - p) - _HALF_LOG_TWO_PI
    return log_mass


@function
def _pair(seed, stream, draw):
    """Return two independent uniforms of one block: in [0, 1), and in (0, 1)."""
    w = words(seed, stream, draw)
    return float64(_upper53(w[0], w[1])) * 2.0**-53, float64(_upper53(w[2], w[3]) | uint64(1)) * 2.0**-53


@function
def _candidate(u, hat, mean, shift):
    """Return the candidate of Hoermann's rejection, a whole float; and the distance of its uniform number
    from the nearer end."""
    b, a, _, _ = hat
    u -= 0.5
    left = 0.5 - abs(u)
    return floor((2.0 * a / left + b) * u + mean + shift), left


@function
def _poisson_hat(mean):
    """Return the constants of PTRS: b, a, 1 / alpha and v_r."""
    b = 0.931 + 2.53 * sqrt(mean)
    a = 0.02483 * b - 0.059
    return b, a, 1.1239 + 1.1328 / (b - 3.4), 0.9277 - 3.6224 / (b - 2.0)


@function
def _poisson_accepts(k, v, left, hat, mean):
    """Return True if v, uniform, lies below the ratio of a candidate's probability and the hat's."""
    b, a, scale, inside = hat
    accepted = left >= 0.07 and v <= inside
    if not accepted and k >= 0.0 and (left >= 0.013 or v <= left):
        accepted = log_normal(v * scale / (a / (left * left) + b)) <= _log_poisson(k, mean)
    return accepted


@function
def poisson(seed: Whole, stream: Whole, draw: Whole, mean: Real) -> np.int64:
    """Return an integer from the Poisson distribution, as int64; mean from 0 to 2^52. It reserves 64 draws:
    draw, ..., draw + 63.

    Below 10 by inversion, one draw, every probability accurate to 2^-50; from 10 on by Hoermann's transformed
    rejection (PTRS, 1993), whose distribution is exact except for rounding: the deciding logarithm is
    accurate to about 1e-12, 1e-9 beyond means of 2^40. -1 if mean is negative, NaN or too large, which the
    checked space and calls on the host refuse.
    """
    assert mean >= 0.0 and mean <= 4503599627370496.0
    mean = float64(mean)
    found = int64(-1)
    if mean >= 0.0 and mean < 10.0:
        u = uniform(seed, stream, draw)
        term = exp(0.0 - mean)
        total = term
        found = int64(0)
        while u >= total and found < 120:
            found += 1
            term *= mean / float64(found)
            total += term
    elif mean >= 10.0 and mean <= 4503599627370496.0:
        hat = _poisson_hat(mean)
        found = int64(mean)
        tried = 0
        while tried < TRIES:
            u, v = _pair(seed, stream, uint64(draw) + uint64(tried))
            tried += 1
            k, left = _candidate(u, hat, mean, 0.43)
            if _poisson_accepts(k, v, left, hat, mean):
                found = int64(k)
                tried = TRIES
    return found


@function
def _binomial_hat(p, mean):
    """Return the constants of BTRS: b, a, alpha and v_r."""
    spread = sqrt(mean * (1.0 - p))
    b = 1.15 + 2.53 * spread
    a = 0.0248 * b + 0.01 * p - 0.0873
    return b, a, (2.83 + 5.1 / b) * spread, 0.92 - 4.2 / b


@function
def _binomial_accepts(k, v, left, hat, trials, p, top):
    """Return the same condition for the binomial; `top` is the logarithm of the largest probability."""
    b, a, alpha, inside = hat
    accepted = left >= 0.07 and v <= inside
    if not accepted and k >= 0.0 and k <= trials:
        log_height = log_normal(v * alpha / (a / (left * left) + b))
        accepted = log_height <= _log_binomial(k, trials, p) - top
    return accepted


@function
def _successes(seed, stream, draw, trials, p):
    """Return the number of successes among `trials` trials, as a float; p is at most 1/2."""
    mean = trials * p
    k = 0.0
    if mean < 10.0:
        u = uniform(seed, stream, draw)
        odds = p / (1.0 - p)
        term = exp(trials * log1p(0.0 - p))
        total = term
        while u >= total and k < trials and k < 120.0:
            k += 1.0
            term *= odds * (trials - k + 1.0) / k
            total += term
    else:
        hat = _binomial_hat(p, mean)
        mode = floor((trials + 1.0) * p)
        top = _log_binomial(mode, trials, p)
        k = mode
        tried = 0
        while tried < TRIES:
            u, v = _pair(seed, stream, uint64(draw) + uint64(tried))
            tried += 1
            other, left = _candidate(u, hat, mean, 0.5)
            if _binomial_accepts(other, v, left, hat, trials, p, top):
                k = other
                tried = TRIES
    return k


@function
def binomial(seed: Whole, stream: Whole, draw: Whole, n: Whole, p: Real) -> np.int64:
    """Return an integer from the binomial distribution of n trials, as int64; n from 0 to 2^52. It reserves
    64 draws: draw, ..., draw + 63.

    If n min(p, 1 - p) is below 10 by inversion, one draw, every probability accurate to 2^-48; else by
    Hoermann's transformed rejection (BTRS, 1993), exact except for rounding as `poisson` is. n may be an
    integral float. -1 if n or p is negative, NaN or too large, which the checked space and calls on the host
    refuse.
    """
    assert n >= 0 and n <= 4503599627370496 and p >= 0.0 and p <= 1.0
    trials, p = float64(n), float64(p)
    found = int64(-1)
    if trials >= 0.0 and trials <= 4503599627370496.0 and p >= 0.0 and p <= 1.0:
        turned = p > 0.5
        k = _successes(seed, stream, draw, trials, where(turned, 1.0 - p, p))
        found = int64(where(turned, trials - k, k))
    return found
