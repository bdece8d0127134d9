"""Numbered random numbers: a value is a pure function of (seed, stream, draw), inside kernels and on the
host.

    u = pk.random.uniform(seed, stream, draw)

The generator is Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3",
SC 2011). One draw is one block of four 32-bit words. `seed` is the key, `draw` the counter's words 0 and 1,
`stream` its words 2 and 3, each with the low word first. All three are integers, seed and draw from 0 to 2^64
- 1, stream to 2^63 - 1: a seed has 2^63 streams of 2^64 draws, and none overlap. There is no state and no
initialisation; an index is a natural stream, the step of a loop a natural draw.

Uniform, exponential and integer variates read the same block, so those of the same (seed, stream, draw)
depend on each other, as do normal variates and those of float32. Independent values require different draws
or streams.

Functions whose names end in 32 use no float64 instruction and need no whole block: the streams s, s + 32, s +
64 and s + 96 of each 128 share one, beyond the other streams, and have a word each. Normal variates come in
pairs, the cosine and the sine of one angle: `normal` of the streams s and s + 32 of each 64 has a block,
`normal32` of a pair two words. Where one thread computes both, as in teams of a warp that visit neighbours,
the compiler computes the common part once. Logarithm and sine are portable's implementations, also in plain
Python: the bits are the same on every space. Calls on the host accept NumPy arrays too: `uniform(seed, 0,
np.arange(n, dtype=np.uint64))`.
"""

from .library.texts import counts, draws, variates
from .library.host_draws import host_form
from .library.texts.draws import philox, uniform, uniform_open, words

uniform32, uniform_open32 = host_form(draws.uniform32), host_form(draws.uniform_open32)
exponential, exponential32 = host_form(draws.exponential), host_form(draws.exponential32)
normal, normal32 = host_form(draws.normal), host_form(draws.normal32)
poisson, binomial = host_form(counts.poisson), host_form(counts.binomial)
randint = host_form(draws.randint)
gamma, beta = host_form(variates.gamma), host_form(variates.beta)
categorical, permutation = host_form(variates.categorical), host_form(variates.permutation)

__all__ = [
    "beta",
    "binomial",
    "categorical",
    "exponential",
    "exponential32",
    "gamma",
    "normal",
    "normal32",
    "permutation",
    "philox",
    "poisson",
    "randint",
    "uniform",
    "uniform32",
    "uniform_open",
    "uniform_open32",
    "words",
]
