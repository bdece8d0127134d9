"""Whole numbers, genomes, epidemics, tests: steps known at run time, gcd, tables, random counts, gamma
functions.

    python docs/examples/fields/numbers_and_life.py [space]
"""

import math
import sys

import numpy as np

import portable as pk

# of codons in the order TCAG
CODE = np.frombuffer(b"FFLLSSSSYY**CC*WLLLLPPPPHHQQRRRRIIIMTTTTNNKKSSRRVVVVAAAADDEEGGGG", np.uint8)
LETTER = np.zeros(128, np.int8)
LETTER[[ord(c) for c in "TCAG"]] = range(4)


@pk.kernel
def sieve(i, composite):
    """Every index crosses out the multiples of its own number; all that write write the same."""
    p = i + 2
    if p * p < len(composite):
        for multiple in range(p * p, len(composite), p):
            pk.atomic_or(composite, multiple, 1)


def primes():
    n = np.arange(400)
    return (
        18,
        (np.zeros(400, np.int32),),
        0,
        [any(k % d == 0 for d in range(2, math.isqrt(k) + 1)) if k > 3 else 0 for k in n.tolist()],
    )


@pk.kernel
def totients(i, out):
    """Count the numbers up to i + 1 that have no divisor in common with it."""
    for k in range(1, i + 2):
        if math.gcd(k, i + 1) == 1:
            out[i] += 1


def coprimes():
    return (
        60,
        (np.zeros(60, np.int64),),
        0,
        [sum(math.gcd(k, n) == 1 for k in range(1, n + 1)) for n in range(1, 61)],
    )


@pk.kernel
def few_bits(i, x, bits, out):
    """Numbers with so many bits only, the nearest, half to even."""
    m, e = math.frexp(x[i])
    out[i] = math.ldexp(float(round(math.ldexp(m, bits))), e - bits)


def measured():
    x = np.random.default_rng(1).normal(size=50) * 10.0 ** np.arange(-25, 25)
    return (
        50,
        (x, 6, np.zeros(50)),
        2,
        [math.ldexp(round(math.ldexp(m, 6)), e - 6) for m, e in map(math.frexp, x.tolist())],
    )


@pk.kernel
def cubic(i, p, q, roots):
    """The real roots of x^3 + p x + q: by cube roots if there is one, by an angle if there are three."""
    d = 0.25 * q[i] * q[i] + p[i] * p[i] * p[i] / 27.0
    if d > 0.0:
        roots[0, i] = math.cbrt(-0.5 * q[i] + math.sqrt(d)) + math.cbrt(-0.5 * q[i] - math.sqrt(d))
    else:
        size = 2.0 * math.sqrt(-p[i] / 3.0)
        angle = math.acos(min(1.0, max(-1.0, 3.0 * q[i] / (p[i] * size)))) / 3.0
        for k in range(3):
            roots[k, i] = size * math.cos(angle - 2.0 * math.pi * k / 3.0)


def equations():
    p, q = np.random.default_rng(2).normal(size=(2, 40))
    want = np.zeros((3, 40))
    for i in range(40):
        found = np.roots([1, 0, p[i], q[i]])
        real = np.sort(found[abs(found.imag) < 1e-9].real)[::-1]
        want[: len(real), i] = real
    return 40, (p, q, np.zeros((3, 40))), 2, want


@pk.kernel
def translated(i, genome, protein):
    """Codons of a genome of bytes as amino acids, by two tables."""
    codon = 0
    for letter in genome[i]:
        codon = 4 * codon + LETTER[letter]
    protein[i] = CODE[codon]


def a_genome():
    letters = np.frombuffer(b"TCAG", np.uint8)[np.random.default_rng(3).integers(0, 4, (80, 3))]
    order = {ord(c): k for k, c in enumerate("TCAG")}
    return (
        80,
        (letters.copy(), np.zeros(80, np.uint8)),
        1,
        [CODE[16 * order[a] + 4 * order[b] + order[c]] for a, b, c in letters.tolist()],
    )


@pk.kernel
def epidemic(i, days, beta, gamma, seed, out):
    """Chain-binomial SIR: each day's infections and recoveries are binomial numbers."""
    s, ill, n = 990, 10, 1000
    for day in range(days):
        new = pk.random.binomial(seed, i, 128 * day, s, -math.expm1(-beta * ill / n))
        well = pk.random.binomial(seed, i, 128 * day + 64, ill, -math.expm1(-gamma))
        s, ill = s - new, ill + new - well
    out[i] = s


def epidemics():
    s, ill = np.full(20, 990), np.full(20, 10)
    for day in range(15):
        new = pk.random.binomial(4, np.arange(20), 128 * day, s, -np.expm1(-0.5 * ill / 1000))
        well = pk.random.binomial(4, np.arange(20), 128 * day + 64, ill, -math.expm1(-0.2))
        s, ill = s - new, ill + new - well
    return 20, (15, 0.5, 0.2, 4, np.zeros(20, np.int64)), 4, s


@pk.kernel
def reads(i, mean, dispersion, seed, out):
    """Counts of a gene, more spread than Poisson's: of a mean that is a gamma number itself."""
    out[i] = pk.random.poisson(
        seed, i, 64, mean[i] * dispersion * pk.random.gamma(seed, i, 0, 1.0 / dispersion)
    )


def genes():
    mean, who = np.linspace(1, 200, 40), np.arange(40)
    return (
        40,
        (mean, 0.4, 5, np.zeros(40, np.int64)),
        3,
        pk.random.poisson(5, who, 64, mean * 0.4 * pk.random.gamma(5, who, 0, 2.5)),
    )


@pk.kernel
def chi_square(i, statistic, freedom, p):
    """p-values of chi-square statistics."""
    p[i] = pk.gammaincc(0.5 * freedom[i], 0.5 * statistic[i])


def statistics():
    freedom = np.arange(1, 41)
    x = freedom * np.random.default_rng(6).uniform(0.3, 2.5, 40)
    want = np.zeros(40)
    for k in range(40):  # Q(a + 1, x) = Q(a, x) + x^a exp(-x) / gamma(a + 1)
        q, a = (math.erfc(math.sqrt(x[k] / 2)), 0.5) if freedom[k] % 2 else (math.exp(-x[k] / 2), 1.0)
        while a < freedom[k] / 2 - 0.25:
            q += math.exp(a * math.log(x[k] / 2) - x[k] / 2 - math.lgamma(a + 1))
            a += 1
        want[k] = q
    return 40, (x, freedom, np.zeros(40)), 2, want


@pk.kernel
def gamma_score(i, data, shapes, out):
    """The derivative of a gamma distribution's log-likelihood by its shape."""
    for x in data:
        out[i] += math.log(x) - pk.digamma(shapes[i])


def shapes():
    data, k = np.random.default_rng(7).gamma(3.0, size=30), np.arange(1, 22)
    digamma = np.cumsum([0, *(1 / k[:-1])]) - np.euler_gamma
    return 21, (data, k, np.zeros(21)), 2, np.log(data).sum() - 30 * digamma


@pk.kernel
def shuffled(i, values, n_first, seed, out):
    """The means of two groups under a random permutation, as a permutation test needs them."""
    order = pk.local((12,), np.uint8)
    pk.random.permutation(seed, i, 0, order)
    total = 0.0
    for k in range(n_first):
        total += values[order[k]]
    out[i] = total / n_first


def groups():
    x, want = np.random.default_rng(8).normal(size=12), np.zeros(30)
    for i in range(30):
        order = np.zeros(12, np.int64)
        pk.random.permutation(9, i, 0, order)
        want[i] = x[order[:5]].mean()
    return 30, (x, 5, 9, np.zeros(30)), 3, want


@pk.kernel
def heat(team, a, b, n):
    """Heat in a rod of one team: two arrays take turns."""
    for _ in range(n):
        for j in team.thread_range(a.shape[0]):
            b[j] = a[j] + 0.25 * (a[max(j - 1, 0)] - 2.0 * a[j] + a[min(j + 1, a.shape[0] - 1)])
        team.barrier()
        a, b = b, a


def a_rod():
    u = np.random.default_rng(10).normal(size=50)
    v = u.copy()
    for _ in range(8):
        e = np.concatenate([v[:1], v, v[-1:]])
        v = v + 0.25 * (e[:-2] - 2 * v + e[2:])
    return pk.TeamPolicy(1, 32), (u, np.zeros(50), 8), 0, v


@pk.kernel
def near(i, a, b, out):
    """Compare two results: 1 if they agree to nine digits."""
    out[i] = math.isclose(a[i], b[i], rel_tol=1e-9) or math.isclose(a[i], b[i], rel_tol=0.0, abs_tol=1e-12)


def results():
    a = np.random.default_rng(11).normal(size=30)
    b = a * (1 + np.resize([1e-12, 1e-6, 0.0], 30))
    return (
        30,
        (a, b, np.zeros(30, bool)),
        2,
        [math.isclose(x, y, rel_tol=1e-9) or abs(x - y) <= 1e-12 for x, y in zip(a, b)],
    )


EXAMPLES = [
    (sieve, primes),
    (totients, coprimes),
    (few_bits, measured),
    (cubic, equations),
    (translated, a_genome),
    (epidemic, epidemics),
    (reads, genes),
    (chi_square, statistics),
    (gamma_score, shapes),
    (shuffled, groups),
    (heat, a_rod),
    (near, results),
]

if __name__ == "__main__":
    with pk.use(*sys.argv[1:] or ["threads"]) as space:
        for kernel, make in EXAMPLES:
            policy, args, k, expected = make()
            args = [pk.copy_of(a) if isinstance(a, np.ndarray) else a for a in args]
            pk.parallel_for(policy, kernel, *args)
            np.testing.assert_allclose(args[k].to_numpy(), expected, rtol=1e-9, atol=1e-9)
            print(f"{kernel.name} on {space}: right")
