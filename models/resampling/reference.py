"""The schemes in plain Python: whole numbers of any size and exact fractions, draw after draw. For tests; slow."""

from __future__ import annotations

import math
from bisect import bisect_right
from fractions import Fraction
from itertools import accumulate

from portable import random


def quantised(weights, n_draws):
    """q, a list of whole numbers."""
    largest = math.frexp(max(float(w) for w in weights))[1]
    bits = 62 - math.ceil(math.log2(max(len(weights), n_draws)))
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


def stratified(weights, n_draws, seed, draw):
    q = quantised(weights, n_draws)
    return _found(q, [(k * sum(q) + _start(seed, k, draw, sum(q))) // n_draws for k in range(n_draws)])


def multinomial(weights, n_draws, seed, draw):
    q = quantised(weights, n_draws)
    return _found(q, [_start(seed, k, draw, sum(q)) for k in range(n_draws)])


def residual(weights, n_draws, seed, draw):
    q = quantised(weights, n_draws)
    total = sum(q)
    copies = [i for i, whole in enumerate(q) for _ in range(n_draws * whole // total)]
    shift = max(0, ((n_draws - len(copies)) * total).bit_length() - 63)
    residues = [(n_draws * whole % total) >> shift for whole in q]
    return copies + _found(residues, [_start(seed, k, draw, sum(residues)) for k in range(len(copies), n_draws)])


def metropolis(weights, n_draws, seed, draw, n_steps):
    ancestors = [k % len(weights) for k in range(n_draws)]
    for k in range(n_draws):
        for b in range(n_steps):
            j, u = _proposal(seed, k, draw + b, len(weights))
            if u * Fraction(weights[ancestors[k]]) < weights[j]:
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
    survives = [_proposal(seed, k, draw, len(weights))[1] * Fraction(max(weights)) < w for k, w in enumerate(weights)]
    others = _found(q, [_start(seed, k, draw + 1, sum(q)) for k in range(n_draws)])
    return [k if survives[k] else others[k] for k in range(n_draws)]


def permute(ancestors):
    """Code 9, serial: draws that lose their own slot move on, in order of the lowest number."""
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
