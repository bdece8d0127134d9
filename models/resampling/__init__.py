"""Resampling for particle filters: ancestors are drawn by weights, identically on every space.

Notation: weights w_i >= 0, i = 0..N-1, M draws, ancestors a_k (M of them), offspring o_i = #{k : a_k = i},
cumulative offspring O_i = o_0 + ... + o_i, expected offspring e_i = M w_i / sum w.

Schemes that need the sum of the weights work on whole numbers. With b = min(51, 62 - ceil(log2 max(N, M)))
and w_max < 2^e

    q_i = w_i 2^(b - e) to the nearest whole number,   Q_i = q_0 + ... + q_i <= 2^62

so that the scan is associative: its bits depend neither on the space nor on threads or teams. Positions are
whole numbers too, and every draw is unbiased for q, up to the 2^-128 of `pk.random.randint`. The quantisation
remains,

    |M q_i / Q - e_i| <= (M + N e_i) 2^-b

2e-11 (1 + e_i) at N = M = 2^13 and 4e-6 (1 + e_i) at 2^22. A weight below 2^-(b + 1) of the largest counts as
zero.

Random numbers are keyed by (seed, k, step): a filter passes its time as `step` and keeps one seed. Schemes
called with equal seed and step draw the same numbers, so that their results depend on each other.

References
----------
L. M. Murray, A. Lee, P. E. Jacob: Parallel resampling in the particle filter. Journal of Computational and
Graphical Statistics 25 (2016). Docstrings refer to its equation (9) and its Codes.
"""

from ..shared import priors
from . import exact, ready
from .filter import ParticleFilter
from .filtered import Filtered
from .inference import sample_gibbs, sample_pmmh
from .iterated import Maximum, Profile, maximise, profile
from .online import Online
from .populations import sample_smc, sample_smc2
from .posterior import Posterior
from .prediction import posterior_densities, posterior_paths, predictive_bands
from .sampling import Sampling
from .schemes import (
    killing,
    megopolis,
    metropolis,
    multinomial,
    partial_rejection,
    permute,
    rejection,
    residual,
    ssp,
    stratified,
    systematic,
)
from .smoothing import backward_paths, lagged_moments
from .state_space import StateSpaceModel
from .study import resample
from .tuning import particles_needed
from .weights import effective_sample_size, log_sum_exp, metropolis_steps

__all__ = [
    "Filtered",
    "Maximum",
    "Online",
    "ParticleFilter",
    "Posterior",
    "Profile",
    "Sampling",
    "StateSpaceModel",
    "backward_paths",
    "effective_sample_size",
    "exact",
    "killing",
    "lagged_moments",
    "log_sum_exp",
    "maximise",
    "megopolis",
    "metropolis",
    "metropolis_steps",
    "multinomial",
    "partial_rejection",
    "particles_needed",
    "permute",
    "posterior_densities",
    "posterior_paths",
    "predictive_bands",
    "priors",
    "profile",
    "ready",
    "rejection",
    "resample",
    "residual",
    "sample_gibbs",
    "sample_pmmh",
    "sample_smc",
    "sample_smc2",
    "ssp",
    "stratified",
    "systematic",
]
