"""Empirical dynamic modelling: nearest neighbours of embedded series, and predictions from them.

A series x of n_times values is embedded with dimension E and lag tau: the point of time t is x[t], x[t -
tau], ..., x[t - (E - 1) tau]; with several columns it has E lags of each. Row i of an embedding is the point
of time i + (E - 1) tau. Neighbours of a point are the nearest points of a library; the point of time t
predicts the value y[t + Tp] of a target y.

    d_ts   = sqrt( sum_e (x[t - e tau] - x[s - e tau])^2 )                                  (1) distance
    w_m    = max(exp(-d_m / d_1), 1e-6) for the neighbours m = 1..k, d_1 <= d_2 <= ...   (2) weight, k = E + 1
    p_t    = sum_m w_m y[s_m + Tp] / sum_m w_m                                          (3) simplex projection
    rho    = Pearson's correlation of p_t and y[t + Tp]                                     (4) skill
    S-map: p_t is the value at t of the c that minimise
        sum_s exp(-2 theta d_ts / mean d) (y[s + Tp] - c_0 - sum_e c_e x_s,e)^2             (5)

If d_1 = 0, exp(-d / d_1) is defined as 1 for d = 0, else 0. Among equal distances the earlier candidate comes
first. A point is not its own neighbour, but an equal point of another time is. Missing values are NaN: a
point without all coordinates is neither a candidate nor predicted, and a prediction that needs a missing
target is missing.

References
----------
G. Sugihara, R. M. May: Nature 344 (1990), 734-741. G. Sugihara: Phil. Trans. R. Soc. A 348 (1994), 477-495.
G. Sugihara et al.: Detecting causality in complex ecosystems. Science 338 (2012), 496-500. K. Takahashi et
al.: kEDM, a performance-portable implementation of empirical dynamic modeling using Kokkos. PEARC 2021.
"""

from .choice import Delays, FalseNeighbours, embedding_delay, false_neighbours
from .composed import Multiview, forecast, multiview, partial_cross_map, rolling_origin
from .convergence import Convergence, ConvergenceTest, ccm
from .cross import cross_map
from .inference import cross_map_test
from .lags import LaggedMap, lagged_map
from .local import SMap, smap
from .neighbours import Neighbours, Prediction, knn, simplex
from .segments import Segments
from .skill import Skill, skill
from .surrogates import surrogates
from .sweeps import Dimensions, embedding_dimension
from .tested import CrossMapTest, adjust
from .traits import Traits, traits

__all__ = [
    "Convergence",
    "ConvergenceTest",
    "CrossMapTest",
    "Delays",
    "Dimensions",
    "FalseNeighbours",
    "LaggedMap",
    "Multiview",
    "Neighbours",
    "Prediction",
    "SMap",
    "Segments",
    "Skill",
    "Traits",
    "adjust",
    "ccm",
    "cross_map",
    "cross_map_test",
    "embedding_delay",
    "embedding_dimension",
    "false_neighbours",
    "forecast",
    "knn",
    "lagged_map",
    "multiview",
    "partial_cross_map",
    "rolling_origin",
    "simplex",
    "skill",
    "smap",
    "surrogates",
    "traits",
]
