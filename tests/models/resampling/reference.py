"""Run the schemes in plain Python: whole numbers of any size and exact fractions, draw after draw. For tests;
slow."""

import math
from bisect import bisect_right
from fractions import Fraction
from itertools import accumulate

from portable.models.resampling.pairing import LANES, SPAN
from portable.models.resampling.strata import EXTRA, QUANTILES

from portable import random


def quantised(weights, n_draws):
    """Return q, a list of whole numbers."""
    largest = math.frexp(max(float(w) for w in weights))[1]
    bits = min(51, 62 - math.ceil(math.log2(max(len(weights), n_draws))))
    return [round(math.ldexp(float(w), bits - largest)) for w in weights]


def _found(q, positions):
    cumulative = list(accumulate(q))
    return [bisect_right(cumulative, p) for p in positions]


def _start(seed, k, draw, total):
    return int(random.randint(seed, k, draw, total))


def _proposal(seed, k, draw, n):
    a, b, c, d = (int(word) for word in random.words(seed, k, draw))
    return ((b << 32 | a) * n) >> 64, Fraction((d << 32 | c) >> 11, 2**53)


def systematic(weights, n_draws, seed, draw):
    q = quantised(weights, n_draws)
    start = _start(seed, 0, draw, sum(q))
    return _found(q, [(k * sum(q) + start) // n_draws for k in range(n_draws)])


def _expanded(cumulative):
    """Return the ancestors of cumulative offspring."""
    return [i for i, (low, high) in enumerate(zip([0, *cumulative], cumulative)) for _ in range(high - low)]


def _places(q, parts):
    """Return the places of cumulative weights on a line of so many parts, rounded as in float64: (k, from
    0 to 1) of each."""
    total, whole = float(sum(q)), float(parts)
    ratio = whole / total
    if total * ratio < whole:
        ratio *= 1.0 + 2.0**-52
    places = (min(float(position) * ratio, whole) for position in accumulate(q))
    return [(int(y), y - int(y)) for y in places]


def stratified(weights, n_draws, seed, draw):
    places = _places(quantised(weights, n_draws), n_draws)
    return _expanded([k + bool(random.uniform(seed, k, draw) < part) for k, part in places])


def multinomial(weights, n_draws, seed, draw):
    q = quantised(weights, n_draws)
    return _expanded(_multinomial_cumulative(q, n_draws, seed, draw))


def _multinomial_cumulative(q, n_draws, seed, draw):
    counts, result = _strata(n_draws, seed, draw), []
    for b, part in _places(q, len(counts)):
        inside = 0
        for j in range(counts[b] if b < len(counts) else 0):
            inside += int(random.words(seed, b, draw + 1 + j // 4)[j % 4]) < int(part * 2.0**32)
        result.append(sum(counts[:b]) + inside)
    return result


def _strata(n_draws, seed, draw):
    """Return the number of n_draws in each stratum."""
    n_strata = max(n_draws, 1) if n_draws < 128 else n_draws - int(10.0 * math.sqrt(n_draws))
    counts = [0] * n_strata
    for b in range(n_strata if n_draws >= 128 else 0):
        word = int(random.words(seed, b // 4, draw)[b % 4])
        counts[b] = sum(word >= quantile for quantile in QUANTILES)
    for k in range(n_draws - sum(counts)):
        counts[_proposal(seed, k, draw + EXTRA, n_strata)[0]] += 1
    return counts


def residual(weights, n_draws, seed, draw):
    q = quantised(weights, n_draws)
    total = sum(q)
    whole = list(accumulate(n_draws * v // total for v in q))
    lost = max(0, math.frexp(min(len(q), n_draws))[1] + math.frexp(total)[1] - 62)
    residues = [(n_draws * v % total) >> lost for v in q]
    if whole[-1] == n_draws:
        return _expanded(whole)
    drawn = _multinomial_cumulative(residues, n_draws - whole[-1], seed, draw)
    return _expanded([a + b for a, b in zip(whole, drawn)])


def ssp(weights, n_draws, seed, draw):
    q = quantised(weights, n_draws)
    total = sum(q)
    offspring = [n_draws * v // total for v in q]
    items = [(i, n_draws * v % total) for i, v in enumerate(q)]
    level = 0
    while level == 0 or len(items) > 1:
        left = []
        for group in (items[first : first + LANES * SPAN] for first in range(0, len(items), LANES * SPAN)):
            n_lanes = min(LANES, -(-len(items) // SPAN) - len(left))
            left += [
                _meet(group[lane::n_lanes], total, offspring, seed, draw + level) for lane in range(n_lanes)
            ]
        items, level = left, level + 1
    return _expanded(list(accumulate(offspring)))


def _meet(items, total, offspring, seed, draw):
    """Return the fraction that is left of several after pairs met, one after another."""
    held, part = 0, 0
    for item, other in items:
        u, both = float(random.uniform(seed, item, draw)), part + other
        if both < total:
            held, part = held if u * float(both) < float(part) else item, both
        else:
            rises = u * float(2 * total - both) < float(total - other)
            offspring[held if rises else item] += 1
            held, part = item if rises else held, both - total
    return held, part


def metropolis(weights, n_draws, seed, draw, n_steps):
    ancestors = [k % len(weights) for k in range(n_draws)]
    for k in range(n_draws):
        for b in range(n_steps):
            j, u = _proposal(seed, k, draw + b, len(weights))
            if u * Fraction(weights[ancestors[k]]) < weights[j]:
                ancestors[k] = j
    return ancestors


def megopolis(weights, n_draws, seed, draw, n_steps):
    n = len(weights)
    ancestors = [k % n for k in range(n_draws)]
    for k in range(n_draws):
        place = k % n % 32 if n % 32 == 0 else 0
        for b in range(n_steps):
            offset = _proposal(seed, 2**32 - 1, draw + b, n)[0]
            turn = offset % 32 if n % 32 == 0 else 0
            j = (k % n - place + offset - turn) % n + (place + turn) % 32
            if (
                Fraction(float(random.uniform(seed, k, draw + b))) * Fraction(weights[ancestors[k]])
                < weights[j]
            ):
                ancestors[k] = j
    return ancestors


def rejection(weights, n_draws, seed, draw, max_weight=None):
    largest = Fraction(max(weights) if max_weight is None else max_weight)
    ancestors = []
    for k in range(n_draws):
        a, b = k % len(weights), 0
        while _proposal(seed, k, draw + b, len(weights))[1] * largest >= weights[a]:
            b += 1
            a = _proposal(seed, k, draw + b, len(weights))[0]
        ancestors.append(a)
    return ancestors


def killing(weights, n_draws, seed, draw):
    q = quantised(weights, n_draws)
    survives = [
        _proposal(seed, k, draw, len(weights))[1] * Fraction(max(weights)) < w for k, w in enumerate(weights)
    ]
    others = _found(q, [_start(seed, k, draw + 1, sum(q)) for k in range(n_draws)])
    return [k if survives[k] else others[k] for k in range(n_draws)]


def permute(ancestors):
    """Run code 9, serial: draws that lose their own slot move on, in order of the lowest number."""
    owner = {}
    for k, a in enumerate(ancestors):
        owner.setdefault(a, k)
    result = [None] * len(ancestors)
    for a, k in owner.items():
        result[a] = a
    for k, a in enumerate(ancestors):
        if owner[a] != k:
            slot = k
            while slot in owner:
                slot = owner[slot]
            result[slot] = a
    return result
