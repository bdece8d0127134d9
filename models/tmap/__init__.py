"""Transient Markovian arrival processes: terminating runs of gaps between events, their likelihood, fit and
simulation.

A run is a sequence of gaps x_1..x_K, K >= 1. R Erlang branches have orders r_i and rates lambda_i; a run
starts in branch i with probability alpha_i, continues from i to j with probability pi_ij, and ends after i
with probability pi_i0 = 1 - sum_j pi_ij.

    f_i(x)  = lambda_i^r_i x^(r_i - 1) exp(-lambda_i x) / (r_i - 1)!                               (1) density
    a_i[0]  = alpha_i;                  a_j[k] = sum_i a_i[k-1] f_i(x_k) pi_ij             k < K         (2)
    b_i[K]  = f_i(x_K) pi_i0;           b_i[k] = f_i(x_k) sum_j pi_ij b_j[k+1]             k = K-1..1    (3)
    L       = sum_i a_i[k] b_i[k+1] for every k = 0..K-1;      loglik = sum over runs of log L             (4)
    q_i[k]  = a_i[k-1] b_i[k] / L;      q_ij[k] = a_i[k-1] f_i(x_k) pi_ij b_j[k+1] / L           (5) posterior
    N_i     = sum q_i;   M_ij = sum q_ij;   X_i = sum x_k q_i[k]                                           (6)
    lambda_i = r_i N_i / X_i;   pi_ij = M_ij / N_i;   alpha_i = mean over runs of q_i[1]           (7) EM step

A run that continues after the end of the record has an open last gap, longer than x_K: its f_i and pi_i0 are
replaced by the probability of a longer gap and by 1, its x_K in (6) by the mean of longer gaps, and (7)
divides M_ij by the number of gaps with an observed end.

Gaps may be zero: then f_i is lambda_i for r_i = 1 and 0 for higher orders. The unit of time is the user's.

References
----------
Brazenas, Horvath and Telek on EM for transient Markovian arrival processes. Their recursions are given here
with the last gap's density included in b[K] and the switches counted up to k = K - 1.
"""

from .files import from_events, from_frame, read
from .fit import FitInfo, fit, paper_start
from .goodness import Goodness, goodness_of_fit
from .model import TransientMAP
from .runs import Runs
from .stored import StoredRuns
from .select import Candidate, best_renewal, select_orders
from .uncertainty import StandardErrors, standard_errors

__all__ = [
    "Candidate",
    "FitInfo",
    "Goodness",
    "Runs",
    "StandardErrors",
    "StoredRuns",
    "TransientMAP",
    "best_renewal",
    "fit",
    "from_events",
    "from_frame",
    "goodness_of_fit",
    "paper_start",
    "read",
    "select_orders",
    "standard_errors",
]
