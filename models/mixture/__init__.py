"""Gaussian mixtures by Bayesian or maximum-likelihood EM, without an array of points times components.

Points x_i in R^p, i = 1..n, are drawn from sum_j pi_j N(mu_j, Sigma_j), j = 1..k, with Sigma_j = L_j L_j'.

    l_ij  = log pi_j - (p/2) log 2 pi - sum log diag L_j - |L_j^-1 (x_i - mu_j)|^2 / 2               (1)
    lse_i = log sum_j exp l_ij,   r_ij = exp(l_ij - lse_i)                                           (2)
    n_j, xbar_j, S_j = the sum, mean and centred scatter of the points, weighted by r_ij             (3)

Prior, a truncated Dirichlet process:
pi_j = V_j prod_{l<j} (1 - V_l), V_j ~ Be(1, alpha), V_k = 1; alpha ~ Ga(e, rate f),
mu_j | Sigma_j ~ N(m, g Sigma_j); Sigma_j ~ IW(nu, Psi). EM integrates alpha out, so with
T = sum_{j<k} log(1 - V_j)

    alpha*  = (e + k - 1) / (f - T)                                                                  (4)
    mu_j    = (m + g n_j xbar_j) / (1 + g n_j)                                                       (5)
    Sigma_j = [Psi + S_j + n_j / (1 + g n_j) (xbar_j - m) (xbar_j - m)'] / (n_j + nu + p + 2)        (6)
    V_j     = n_j / (alpha* - 1 + sum_{l>=j} n_l), clipped to [1e-10, 1 - 1e-10]                     (7)

    objective = sum_i lse_i - T - (k + e - 1) log(f - T)
         - sum_j [(nu + p + 2) log |Sigma_j| + tr(Psi Sigma_j^-1) + (mu_j - m)' Sigma_j^-1 (mu_j - m) / g] / 2
                                                                                                     (8)

Without a prior the objective is sum_i lse_i, and pi_j = n_j / n, mu_j = xbar_j, Sigma_j = S_j / n_j.

References
----------
M. A. Suchard, Q. Wang, C. Chan, J. Frelinger, A. Cron, M. West: Understanding GPU programming for statistical
computation: studies in massively parallel massive mixtures. Journal of Computational and Graphical Statistics
19 (2010), 419. Its M-step for Sigma_j divides by n_j; (6) is the mode, with which EM never decreases (8).
"""

from . import cytometry
from .cytometry.merging import Join, merge
from .density import log_density
from .estimator import DirichletMixture
from .fitting import Start
from .moves import Move
from .posterior import Posterior
from .prior import Prior
from .selection import Selection, select
from .sklearn_protocol import ConvergenceWarning
from .student import TMixture

__all__ = [
    "ConvergenceWarning",
    "DirichletMixture",
    "Join",
    "Move",
    "Posterior",
    "Prior",
    "Selection",
    "Start",
    "TMixture",
    "cytometry",
    "log_density",
    "merge",
    "select",
]
