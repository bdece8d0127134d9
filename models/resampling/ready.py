"""State-space models that are ready to use; each with a reference in `portable.models.resampling.exact`::

    linear_gaussian           x_0 ~ N(0, sigma^2 / (1 - phi^2)), x_t = phi x_(t-1) + sigma e_t, y_t = x_t +
                              tau d_t
    stochastic_volatility     log-volatility x_t = mu + phi (x_(t-1) - mu) + sigma e_t, returns y_t = exp(x_t
                              / 2) d_t, and leverage: e_t and d_(t-1) are correlated by rho
    sir, seir                 an epidemic in a closed population by binomial steps; a share rho of new cases
                              is reported
    lotka_volterra            prey and predators, reaction by reaction, seen with normal errors

e_t and d_t are standard normal and independent but for rho. Functions of `pk` and `math` only: read them as
examples.

References
----------
Omori, Chib, Shephard, Nakajima: Stochastic volatility with leverage. Journal of Econometrics 140 (2007).
King, Nguyen, Ionides: Statistical inference for partially observed Markov processes via pomp. JSS 69 (2016):
binomial steps. Gillespie: Exact stochastic simulation of coupled chemical reactions. Journal of Physical
Chemistry 81 (1977).
"""

from __future__ import annotations

import functools
import math

import portable as pk

from ..shared.checks import check_count, check_number
from .state_space import StateSpaceModel

HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)
OWN = 64  # draws that belong to a random count
REACTIONS = 1 << 20  # of an interval at most: what has not come to rest by then stays as it is


@pk.function
def log_normal_density(x: float, mean: float, sd: float) -> float:
    """log N(x; mean, sd^2).

    Parameters
    ----------
    x, mean, sd : float
        sd is positive.

    Returns
    -------
    float
    """
    z = (x - mean) / sd
    return -0.5 * z * z - math.log(sd) - HALF_LOG_TWO_PI


@pk.function
def log_poisson(count: float, mean: float) -> float:
    """log of the Poisson probability of a count; of a mean of 0 too.

    Parameters
    ----------
    count, mean : float
        mean is not negative.

    Returns
    -------
    float
        -inf of what is no whole number or negative.
    """
    found = -math.inf
    if count >= 0.0 and count == pk.floor(count):
        if mean > 0.0:
            found = count * math.log(mean) - mean - math.lgamma(count + 1.0)
        elif count == 0.0:
            found = 0.0
    return found


# ---- linear Gaussian: phi, sigma, tau
@pk.function
def _stationary(params):
    return params[1] / math.sqrt(1.0 - params[0] * params[0])


@pk.function
def _lg_initial(seed, stream, draw, params):
    return (_stationary(params) * pk.random.normal(seed, stream, draw),)


@pk.function
def _lg_propagate(t, state, seed, stream, draw, params):
    return (params[0] * state[0] + params[1] * pk.random.normal(seed, stream, draw),)


@pk.function
def _lg_log_weight(t, state, y, params):
    return log_normal_density(y[0], state[0], params[2])


@pk.function
def _lg_observe(t, state, seed, stream, draw, params):
    return (state[0] + params[2] * pk.random.normal(seed, stream, draw),)


@pk.function
def _lg_log_initial(state, params):
    return log_normal_density(state[0], 0.0, _stationary(params))


@pk.function
def _lg_log_transition(t, state, moved, params):
    return log_normal_density(moved[0], params[0] * state[0], params[1])


@pk.function
def _lg_guide_law(state, y, params):
    """Mean and sd of x_t given x_(t-1) and y_t."""
    s2, tau2 = params[1] * params[1], params[2] * params[2]
    return (params[0] * state[0] * tau2 + y[0] * s2) / (s2 + tau2), math.sqrt(s2 * tau2 / (s2 + tau2))


@pk.function
def _lg_guide(t, state, y, seed, stream, draw, params):
    mean, sd = _lg_guide_law(state, y, params)
    return (mean + sd * pk.random.normal(seed, stream, draw),)


@pk.function
def _lg_log_guide(t, state, moved, y, params):
    mean, sd = _lg_guide_law(state, y, params)
    return log_normal_density(moved[0], params[0] * state[0], params[1]) - log_normal_density(
        moved[0], mean, sd
    )


linear_gaussian = StateSpaceModel(
    ("phi", "sigma", "tau"),
    ("x",),
    _lg_initial,
    _lg_propagate,
    _lg_log_weight,
    _lg_observe,
    _lg_log_initial,
    _lg_log_transition,
    _lg_guide,
    _lg_log_guide,
)


# ---- stochastic volatility with leverage: mu, phi, sigma, rho, and the return before
@pk.function
def _sv_initial(seed, stream, draw, params):
    return (
        params[0] + params[2] / math.sqrt(1.0 - params[1] * params[1]) * pk.random.normal(seed, stream, draw),
    )


@pk.function
def _sv_law(state, params):
    """Mean and sd of x_t given x_(t-1) and the return before; without it, for rho = 0."""
    mean = params[0] + params[1] * (state[0] - params[0])
    sd = params[2]
    if not pk.isnan(params[4]):
        mean += params[2] * params[3] * params[4] * math.exp(-0.5 * state[0])
        sd = params[2] * math.sqrt(1.0 - params[3] * params[3])
    return mean, sd


@pk.function
def _sv_propagate(t, state, seed, stream, draw, params):
    mean, sd = _sv_law(state, params)
    return (mean + sd * pk.random.normal(seed, stream, draw),)


@pk.function
def _sv_log_weight(t, state, y, params):
    return -0.5 * (y[0] * y[0] * math.exp(-state[0]) + state[0]) - HALF_LOG_TWO_PI


@pk.function
def _sv_observe(t, state, seed, stream, draw, params):
    return (math.exp(0.5 * state[0]) * pk.random.normal(seed, stream, draw),)


@pk.function
def _sv_log_initial(state, params):
    return log_normal_density(state[0], params[0], params[2] / math.sqrt(1.0 - params[1] * params[1]))


@pk.function
def _sv_log_transition(t, state, moved, params):
    mean, sd = _sv_law(state, params)
    return log_normal_density(moved[0], mean, sd)


stochastic_volatility = StateSpaceModel(
    ("mu", "phi", "sigma", "rho"),
    ("x",),
    _sv_initial,
    _sv_propagate,
    _sv_log_weight,
    _sv_observe,
    _sv_log_initial,
    _sv_log_transition,
    lagged=True,
)


# ---- epidemics
@pk.function
def _event(rate, step):
    """The probability that what happens at a rate happens within a step."""
    return -math.expm1(-rate * step)


@functools.cache
def sir(population: int, *, n_substeps: int = 7, duration: float = 7.0) -> StateSpaceModel:
    """Susceptible, infected, removed; between two observations n_substeps binomial steps of duration /
    n_substeps each.

    Parameters beta (contacts that infect, per unit of time), gamma (recoveries per unit of time), rho (share
    of infections that is reported), i0 (expected infected at the start, a Poisson number). States S, I and C,
    the new infections since the observation before; an observation is Poisson with mean rho C. At step 0
    nothing has happened: C = I.

    Parameters
    ----------
    population : int
    n_substeps : int, default 7
        Steps between two observations.
    duration : float, default 7.0
        Time between two observations, in the unit of the rates.

    Returns
    -------
    StateSpaceModel

    Raises
    ------
    InputError, DTypeError, FiniteError
        A number that is not positive, or not whole where a count is wanted.
    """
    population, n_substeps = check_count(population, "population"), check_count(n_substeps, "n_substeps")
    step = check_number(duration, "duration", above=0.0) / n_substeps

    @pk.function
    def initial(seed, stream, draw, params):
        infected = pk.float64(min(pk.random.poisson(seed, stream, draw, params[3]), population))
        return population - infected, infected, infected

    @pk.function
    def propagate(t, state, seed, stream, draw, params):
        s, i, new, caught, k = pk.float64(state[0]), pk.float64(state[1]), 0.0, 0.0, 0
        recovers = _event(params[1], step)
        while (
            k < 2 * n_substeps
        ):  # first infections, then recoveries, of the same step: one text of the binomial, which is long
            first = k % 2 == 0
            chance = pk.where(first, _event(params[0] * i / population, step), recovers)
            count = pk.float64(
                pk.random.binomial(
                    seed, stream, pk.uint64(draw) + pk.uint64(OWN * k), pk.where(first, s, i), chance
                )
            )
            if first:
                caught = count
            else:
                s -= caught
                i += caught - count
                new += caught
            k += 1
        return s, i, new

    @pk.function
    def log_weight(t, state, y, params):
        return log_poisson(y[0], params[2] * state[2])

    @pk.function
    def observe(t, state, seed, stream, draw, params):
        return (pk.float64(pk.random.poisson(seed, stream, draw, params[2] * state[2])),)

    return StateSpaceModel(
        ("beta", "gamma", "rho", "i0"), ("S", "I", "C"), initial, propagate, log_weight, observe
    )


@functools.cache
def seir(population: int, *, n_substeps: int = 7, duration: float = 7.0) -> StateSpaceModel:
    """As `sir`, with a time between infection and infectiousness, which ends at rate sigma.

    Parameters beta, sigma, gamma, rho, i0 (expected exposed at the start, and expected infectious). States S,
    E, I and C, who became infectious since the observation before.

    Parameters
    ----------
    population : int
    n_substeps : int, default 7
        Steps between two observations.
    duration : float, default 7.0
        Time between two observations, in the unit of the rates.

    Returns
    -------
    StateSpaceModel

    Raises
    ------
    InputError, DTypeError, FiniteError
        A number that is not positive, or not whole where a count is wanted.
    """
    population, n_substeps = check_count(population, "population"), check_count(n_substeps, "n_substeps")
    step = check_number(duration, "duration", above=0.0) / n_substeps

    @pk.function
    def initial(seed, stream, draw, params):
        exposed = pk.float64(min(pk.random.poisson(seed, stream, draw, params[4]), population // 2))
        infected = pk.float64(
            min(pk.random.poisson(seed, stream, pk.uint64(draw) + pk.uint64(OWN), params[4]), population // 2)
        )
        return population - exposed - infected, exposed, infected, infected

    @pk.function
    def propagate(t, state, seed, stream, draw, params):
        s, e, i, new, caught, shown, k = (
            pk.float64(state[0]),
            pk.float64(state[1]),
            pk.float64(state[2]),
            0.0,
            0.0,
            0.0,
            0,
        )
        shows, recovers = _event(params[1], step), _event(params[2], step)
        while k < 3 * n_substeps:  # infections, onsets, recoveries of the same step
            which = k % 3
            chance, tries = recovers, i
            if which == 0:
                chance, tries = _event(params[0] * i / population, step), s
            elif which == 1:
                chance, tries = shows, e
            count = pk.float64(
                pk.random.binomial(seed, stream, pk.uint64(draw) + pk.uint64(OWN * k), tries, chance)
            )
            if which == 0:
                caught = count
            elif which == 1:
                shown = count
            else:
                s -= caught
                e += caught - shown
                i += shown - count
                new += shown
            k += 1
        return s, e, i, new

    @pk.function
    def log_weight(t, state, y, params):
        return log_poisson(y[0], params[3] * state[3])

    @pk.function
    def observe(t, state, seed, stream, draw, params):
        return (pk.float64(pk.random.poisson(seed, stream, draw, params[3] * state[3])),)

    return StateSpaceModel(
        ("beta", "sigma", "gamma", "rho", "i0"), ("S", "E", "I", "C"), initial, propagate, log_weight, observe
    )


# ---- prey and predators
@functools.cache
def lotka_volterra(prey: int = 50, predators: int = 100, *, duration: float = 1.0) -> StateSpaceModel:
    """Prey are born at rate birth U, eaten by predators that multiply at rate predation U V, and predators
    die at rate death V.

    Parameters birth, predation, death, noise (sd of both observations). States U and V begin at prey and
    predators; between two observations every reaction is drawn (Gillespie's algorithm), at most 2^20 of them.

    Parameters
    ----------
    prey, predators : int, default 50 and 100
        At the start.
    duration : float, default 1.0
        Time between two observations, in the unit of the rates.

    Returns
    -------
    StateSpaceModel

    Raises
    ------
    InputError, DTypeError, FiniteError
        A number of animals that is negative or not whole, or a duration that is not positive.
    """
    prey, predators = check_count(prey, "prey", 0), check_count(predators, "predators", 0)
    duration = check_number(duration, "duration", above=0.0)

    @pk.function
    def initial(seed, stream, draw, params):
        return pk.float64(prey), pk.float64(predators)

    @pk.function
    def propagate(t, state, seed, stream, draw, params):
        u, v, time, k = pk.float64(state[0]), pk.float64(state[1]), 0.0, 0
        while k < REACTIONS:
            born, eaten, dying = params[0] * u, params[1] * u * v, params[2] * v
            total = born + eaten + dying
            own = pk.uint64(draw) + pk.uint64(2 * k)
            time += pk.random.exponential(seed, stream, own) / total
            k += 1
            if time > duration or not total > 0.0:
                k = REACTIONS
            else:
                which = total * pk.random.uniform(seed, stream, own + pk.uint64(1))
                if which < born:
                    u += 1.0
                elif which < born + eaten:
                    u -= 1.0
                    v += 1.0
                else:
                    v -= 1.0
        return u, v

    @pk.function
    def log_weight(t, state, y, params):
        found = 0.0
        for d in range(2):
            if not pk.isnan(y[d]):
                found += log_normal_density(y[d], state[d], params[3])
        return found

    @pk.function
    def observe(t, state, seed, stream, draw, params):
        return (
            state[0] + params[3] * pk.random.normal(seed, stream, draw),
            state[1] + params[3] * pk.random.normal(seed, stream, pk.uint64(draw) + pk.uint64(1)),
        )

    return StateSpaceModel(
        ("birth", "predation", "death", "noise"),
        ("prey", "predators"),
        initial,
        propagate,
        log_weight,
        observe,
    )
