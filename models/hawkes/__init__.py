"""Spatiotemporal Hawkes processes: likelihood, fit, posterior, probabilities, simulation. Kilometres and
hours throughout.

Events n = 1..N at locations x_n in R^D (D = 1, 2, 3) and ascending times t_n; t = 0 is the first event, T the
end of observation. phi_D is the standard normal density in D dimensions, Phi the normal distribution
function, r the distance.

    mu_n     = mu0 sum_n' tau_x^-D phi_D(r_nn' / tau_x) tau_t^-1 phi_1((t_n - t_n') / tau_t)    (1) background
    xi_n     = theta sum_{t_n' < t_n} h^-D phi_D(r_nn' / h) omega exp(-omega (t_n - t_n'))      (2) excitation
    Lambda_n = mu0 (Phi((T - t_n) / tau_t) - Phi(-t_n / tau_t)) + theta (1 - exp(-omega (T - t_n)))    (3)
    loglik   = sum_n [log(mu_n + xi_n) - Lambda_n]                                                    (4)
    pi_n     = xi_n / (mu_n + xi_n)                                                                   (5)

The background is a kernel density over all events, past and future. Its own event is included by default, as
in the paper; the likelihood then grows without bound as tau_x or tau_t shrink, so use `background_self=False`
if these are estimated. Events at equal times do not excite each other.

References
----------
A. J. Holbrook, C. E. Loeffler, S. R. Flaxman, M. A. Suchard: Scalable Bayesian inference for self-excitatory
stochastic processes applied to big American gunfire data. Statistics and Computing 31 (2021), 4. Its equation
(2) is our (5). It prints theta / (omega h^D) in front of xi_n; its integral and its program agree with theta
omega / h^D, as here.
"""

from .backgrounds import BackgroundFit, fit_background
from .calibration import Calibration, calibrate
from .catalogue import Catalogue, read_catalogue
from .checks import Places, places
from .compose import compose
from .covariates import Covariates, season
from .triggering import Decay, exponentials, omori, EXPONENTIAL, Triggering
from .fit import Fit, fit
from .forecast import Declustered, Forecast, PredictiveCheck, decluster, forecast, predictive_check
from .guards import jitter, notes
from .histogram import fit_histogram, HistogramFit
from .likelihood import Likelihood
from .mutual import Mutual, MutualSimulation, MutualSlopes, omori_rates, simulate_mutual
from .mutual_fit import MutualFit, MutualResiduals, fit_mutual, mutual_residuals
from .mutual_likelihood import MutualLikelihood
from .parameters import Background, Parameters, ParametersBase
from .posterior import Posterior
from ..shared import Prior
from ..shared.priors import gamma, half_normal, log_normal, uniform
from .probabilities import (
    Parents,
    ProbabilitySummary,
    cluster_sizes,
    parent_probabilities,
    posterior_probabilities,
)
from .residuals import Residuals, ThinnedResiduals, intensity, intensity_grid, residuals, thinned_residuals
from .sampler import sample_nuts, sample_posterior
from .scores import (
    Evidence,
    ForecastScore,
    InformationGain,
    Magnitudes,
    evidence,
    information_gain,
    magnitudes,
    pointwise,
    score_forecast,
)
from .significance import TriggeringTest, triggering_test
from .simulate import Simulation, simulate
from .temporal import TemporalFit, TemporalLikelihood

__all__ = [
    "EXPONENTIAL",
    "Background",
    "BackgroundFit",
    "Calibration",
    "Catalogue",
    "Covariates",
    "Decay",
    "Declustered",
    "Evidence",
    "Fit",
    "Forecast",
    "ForecastScore",
    "HistogramFit",
    "InformationGain",
    "Likelihood",
    "Magnitudes",
    "Mutual",
    "MutualFit",
    "MutualLikelihood",
    "MutualResiduals",
    "MutualSimulation",
    "MutualSlopes",
    "Parameters",
    "ParametersBase",
    "Parents",
    "Places",
    "Posterior",
    "PredictiveCheck",
    "Prior",
    "ProbabilitySummary",
    "Residuals",
    "Simulation",
    "TemporalFit",
    "TemporalLikelihood",
    "ThinnedResiduals",
    "Triggering",
    "TriggeringTest",
    "calibrate",
    "cluster_sizes",
    "compose",
    "decluster",
    "evidence",
    "exponentials",
    "fit",
    "fit_background",
    "fit_histogram",
    "fit_mutual",
    "forecast",
    "gamma",
    "half_normal",
    "information_gain",
    "intensity",
    "intensity_grid",
    "jitter",
    "log_normal",
    "magnitudes",
    "mutual_residuals",
    "notes",
    "omori",
    "omori_rates",
    "parent_probabilities",
    "places",
    "pointwise",
    "posterior_probabilities",
    "predictive_check",
    "read_catalogue",
    "residuals",
    "sample_nuts",
    "sample_posterior",
    "score_forecast",
    "season",
    "simulate",
    "simulate_mutual",
    "thinned_residuals",
    "triggering_test",
    "uniform",
]
