"""State-space models that are ready to use; each with a reference in `portable.models.resampling.exact`::

    linear_gaussian           x_0 ~ N(0, sigma^2 / (1 - phi^2)), x_t = phi x_(t-1) + sigma e_t, y_t = x_t +
                              tau d_t
    stochastic_volatility     log-volatility x_t = mu + phi (x_(t-1) - mu) + sigma e_t, returns y_t = exp(x_t
                              / 2) d_t, and leverage: e_t and d_(t-1) are correlated by rho
    sir, seir                 an epidemic in a closed population by binomial steps; a share rho of new cases
                              is reported
    lotka_volterra            prey and predators, reaction by reaction, observed with normal errors

e_t and d_t are standard normal and, except for rho, independent. The models use functions of `pk` and `math`
only, and serve as examples.

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
from typing import Any, Literal, TypeAlias

import portable as pk

from ..shared import check_choice, check_count, check_number, check_positive
from .state_space import StateSpaceModel

HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)
OWN = 64  # draws reserved for a random count
Reports: TypeAlias = Literal["poisson", "negative binomial"]
REACTIONS = 1 << 20  # largest number of reactions in an interval: the state after these is kept


@pk.function
def log_normal_density(x: float, mean: float, sd: float) -> float:
    """Compute log N(x; mean, sd^2).

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
    """Compute the logarithm of the Poisson probability of a count; the mean may be 0.

    Parameters
    ----------
    count, mean : float
        mean is not negative.

    Returns
    -------
    float
        -inf if count is negative or not whole.
    """
    found = -math.inf
    if count >= 0.0 and count == pk.floor(count):
        if mean > 0.0:
            found = count * math.log(mean) - mean - math.lgamma(count + 1.0)
        elif count == 0.0:
            found = 0.0
    return found


@pk.function
def log_student(x: float, mean: float, scale: float, df: float) -> float:
    """Compute the logarithm of Student's density with df degrees of freedom, moved to mean and scaled.

    Parameters
    ----------
    x, mean, scale, df : float
        scale and df are positive.

    Returns
    -------
    float
    """
    z = (x - mean) / scale
    constant = math.lgamma(0.5 * df + 0.5) - math.lgamma(0.5 * df) - 0.5 * math.log(math.pi * df)
    return constant - math.log(scale) - 0.5 * (df + 1.0) * math.log1p(z * z / df)


@pk.function
def log_negative_binomial(count: float, mean: float, size: float) -> float:
    """Compute the logarithm of the negative binomial probability of a count; the mean may be 0.

    Parameters
    ----------
    count, mean, size : float
        mean is not negative, size positive: the variance is mean + mean^2 / size.

    Returns
    -------
    float
        -inf if count is negative or not whole.
    """
    found = -math.inf
    if count >= 0.0 and count == pk.floor(count):
        if mean > 0.0:
            constant = math.lgamma(count + size) - math.lgamma(size) - math.lgamma(count + 1.0)
            found = constant - size * math.log1p(mean / size) + count * math.log(mean / (mean + size))
        elif count == 0.0:
            found = 0.0
    return found


@pk.function
def _event(rate, step):
    """Compute the probability that an event of a given rate happens within a step."""
    return -math.expm1(-rate * step)


@pk.function
def _shift_draw(draw, n):
    """Return the number of the draw n after another one."""
    return pk.uint64(draw) + pk.uint64(n)


@pk.function
def euler_multinomial(
    seed: int, stream: int, draw: int, size: float, first: float, second: float, step: float
) -> tuple[float, float]:
    """Draw the numbers that leave a compartment within a step, by each of two ways with separate rates.

    Parameters
    ----------
    seed, stream, draw : int
        Draws draw .. draw + 127 are used.
    size : float
        A whole number.
    first, second, step : float
        Rates, of which the first is positive, and time.

    Returns
    -------
    first, second : float
        Whole numbers, whose sum is binomial with probability 1 - exp(-(first + second) step).
    """
    total = first + second
    leave = pk.float64(pk.random.binomial(seed, stream, draw, size, _event(total, step)))
    by_first = leave
    if second > 0.0:
        own = _shift_draw(draw, OWN)
        by_first = pk.float64(pk.random.binomial(seed, stream, own, leave, first / total))
    return by_first, leave - by_first


@pk.function
def runge_kutta(slope: Any, n: int, n_steps: int, time: float, duration: float, x: Any, params: Any) -> None:
    """Move a state along its differential equation, by the classical method of fourth order.

    Parameters
    ----------
    slope : pk.function (time, x, params) -> tuple of n numbers
    n : int
        Number of components, a compile-time constant: a literal in the source.
    n_steps : int
    time, duration : float
    x : array of n floats, such as pk.local(n, pk.float64)
        The state at `time`; on return the state at time + duration.
    params : as passed to the model's functions
    """
    h = duration / n_steps
    at, change, k = pk.local(n, pk.float64), pk.local(n, pk.float64), pk.local(n, pk.float64)
    for s in range(n_steps):
        for stage in range(4):
            share = 0.0 if stage == 0 else 1.0 if stage == 3 else 0.5
            weight = 1.0 if stage == 0 or stage == 3 else 2.0
            for j in range(n):
                at[j] = x[j]
                if stage > 0:
                    at[j] += share * h * k[j]
            found = slope(time + (s + share) * h, at, params)
            for j in range(n):
                k[j] = found[j]
                change[j] = weight * k[j] + (change[j] if stage > 0 else 0.0)
        for j in range(n):
            x[j] += h / 6.0 * change[j]


@pk.function
def euler_maruyama(
    drift: Any,
    spread: Any,
    n: int,
    n_steps: int,
    time: float,
    duration: float,
    x: Any,
    seed: int,
    stream: int,
    draw: int,
    params: Any,
) -> None:
    """Move a state along its stochastic differential equation dx = drift dt + spread dW, by Euler's steps.

    Parameters
    ----------
    drift, spread : pk.function (time, x, params) -> tuple of n numbers
        Their components have independent noise.
    n, n_steps, time, duration, x, params : as in `runge_kutta`
    seed, stream, draw : int
        Draws draw .. draw + n n_steps - 1 are used.
    """
    h = duration / n_steps
    for s in range(n_steps):
        slope, sd = drift(time + s * h, x, params), spread(time + s * h, x, params)
        for j in range(n):
            own = _shift_draw(draw, s * n + j)
            x[j] += h * slope[j] + math.sqrt(h) * sd[j] * pk.random.normal(seed, stream, own)


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
    """Compute mean and sd of x_t given x_(t-1) and y_t."""
    s2, tau2 = params[1] * params[1], params[2] * params[2]
    return (params[0] * state[0] * tau2 + y[0] * s2) / (s2 + tau2), math.sqrt(s2 * tau2 / (s2 + tau2))


@pk.function
def _lg_guide(t, state, y, seed, stream, draw, params):
    mean, sd = _lg_guide_law(state, y, params)
    return (mean + sd * pk.random.normal(seed, stream, draw),)


@pk.function
def _lg_log_guide(t, state, moved, y, params):
    mean, sd = _lg_guide_law(state, y, params)
    return _lg_log_transition(t, state, moved, params) - log_normal_density(moved[0], mean, sd)


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
    """Compute mean and sd of x_t given x_(t-1) and the previous return; if that is missing, for rho = 0."""
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


# ---- stochastic volatility with Student's returns: mu, phi, sigma, nu
@pk.function
def _st_propagate(t, state, seed, stream, draw, params):
    mean = params[0] + params[1] * (state[0] - params[0])
    return (mean + params[2] * pk.random.normal(seed, stream, draw),)


@pk.function
def _st_log_weight(t, state, y, params):
    return log_student(y[0], 0.0, math.exp(0.5 * state[0]), params[3])


@pk.function
def _st_observe(t, state, seed, stream, draw, params):
    own = _shift_draw(draw, 1)
    chi2 = 2.0 * pk.random.gamma(seed, stream, own, 0.5 * params[3])
    return (math.exp(0.5 * state[0]) * pk.random.normal(seed, stream, draw) / math.sqrt(chi2 / params[3]),)


@pk.function
def _st_log_transition(t, state, moved, params):
    return log_normal_density(moved[0], params[0] + params[1] * (state[0] - params[0]), params[2])


student_volatility = StateSpaceModel(
    ("mu", "phi", "sigma", "nu"),
    ("x",),
    _sv_initial,
    _st_propagate,
    _st_log_weight,
    _st_observe,
    _sv_log_initial,
    _st_log_transition,
)


# ---- epidemics
def _epidemic(names, states, population, n_substeps, duration, reports, turnover):
    """Make a model of a chain of compartments, the first infected by the last; the last state counts arrivals
    in the last compartment since the previous observation."""
    population, n_substeps = check_count(population, "population"), check_count(n_substeps, "n_substeps")
    step = check_positive(duration, "duration") / n_substeps
    turnover = check_number(turnover, "turnover", least=0.0)
    overdispersed = check_choice(reports, "reports", Reports) == "negative binomial"
    n = len(states) - 1  # compartments, without the removed
    n_events = n + (turnover > 0.0)

    @pk.function
    def as_state(x, new):
        if n == 2:
            return x[0], x[1], new
        return x[0], x[1], x[2], new

    @pk.function
    def initial(seed, stream, draw, params):
        x = pk.local(n, pk.float64)
        x[0] = population
        for j in range(1, n):
            own = _shift_draw(draw, OWN * (j - 1))
            x[j] = min(pk.random.poisson(seed, stream, own, params[n + 1]), population // (n - 1))
            x[0] -= x[j]
        return as_state(x, x[n - 1])

    @pk.function
    def propagate(t, state, seed, stream, draw, params):
        x, moved = pk.local(n + 1, pk.float64), pk.local(n + 1, pk.float64)
        x[n] = population
        for j in range(n):
            x[j] = state[j]
            x[n] -= x[j]  # the removed
        new, born, k = 0.0, 0.0, 0
        while k < n_events * n_substeps:  # one loop, so that the binomial's long source is compiled once
            j = k % n_events
            rate = params[0] * x[n - 1] / population if j == 0 else params[j] if j < n else 0.0
            own = _shift_draw(draw, OWN * k)
            if turnover > 0.0:
                own = _shift_draw(draw, 2 * OWN * k)
                died, moved[j] = euler_multinomial(seed, stream, own, x[j], turnover, rate, step)
                x[j] -= died
                born += died
            else:
                moved[j] = pk.random.binomial(seed, stream, own, x[j], _event(rate, step))
            if j == n_events - 1:
                x[0] += born - moved[0]
                for m in range(1, n):
                    x[m] += moved[m - 1] - moved[m]
                new += moved[n - 2]
                if turnover > 0.0:
                    x[n] += moved[n - 1]
                    born = 0.0
            k += 1
        return as_state(x, new)

    @pk.function
    def log_weight(t, state, y, params):
        mean = params[n] * state[n]
        if overdispersed:
            return log_negative_binomial(y[0], mean, params[n + 2])
        return log_poisson(y[0], mean)

    @pk.function
    def observe(t, state, seed, stream, draw, params):
        mean = params[n] * state[n]
        if overdispersed:
            size = params[n + 2]
            mean *= pk.random.gamma(seed, stream, _shift_draw(draw, OWN), size) / size
        return (pk.float64(pk.random.poisson(seed, stream, draw, mean)),)

    names += ("size",) * overdispersed
    return StateSpaceModel(names, states, initial, propagate, log_weight, observe)


@functools.cache
def sir(
    population: int,
    *,
    n_substeps: int = 7,
    duration: float = 7.0,
    reports: Reports = "poisson",
    turnover: float = 0.0,
) -> StateSpaceModel:
    """Make an SIR model: susceptible, infected, removed, with n_substeps binomial steps between two
    observations, of duration / n_substeps each.

    Parameters beta (infectious contacts per unit of time), gamma (recoveries per unit of time), rho (share of
    infections that is reported), i0 (expected infected at the start, a Poisson number). States S, I and C,
    the new infections since the previous observation; an observation is Poisson with mean rho C. At step 0, C
    = I.

    Parameters
    ----------
    population : int
    n_substeps : int, default 7
        Steps between two observations.
    duration : float, default 7.0
        Time between two observations, in the unit of the rates.
    reports : {"poisson", "negative binomial"}
        The law of an observation; the latter adds a parameter, size: the variance is mean + mean^2 / size.
    turnover : float, default 0.0
        Rate of deaths, each replaced by a susceptible, so that steps are Euler-multinomial.

    Returns
    -------
    StateSpaceModel

    Raises
    ------
    InputError, DTypeError, FiniteError
        A number is not positive, or not whole where a count is expected; `reports` is unknown.
    """
    names = "beta", "gamma", "rho", "i0"
    return _epidemic(names, ("S", "I", "C"), population, n_substeps, duration, reports, turnover)


@functools.cache
def seir(
    population: int,
    *,
    n_substeps: int = 7,
    duration: float = 7.0,
    reports: Reports = "poisson",
    turnover: float = 0.0,
) -> StateSpaceModel:
    """Make an SEIR model: `sir` with a time between infection and infectiousness, which ends at rate sigma.

    Parameters beta, sigma, gamma, rho, i0 (expected exposed at the start, and expected infectious). States S,
    E, I and C, the number that became infectious since the previous observation.

    Parameters
    ----------
    population : int
    n_substeps : int, default 7
        Steps between two observations.
    duration : float, default 7.0
        Time between two observations, in the unit of the rates.
    reports : {"poisson", "negative binomial"}
        The law of an observation; the latter adds a parameter, size: the variance is mean + mean^2 / size.
    turnover : float, default 0.0
        Rate of deaths, each replaced by a susceptible, so that steps are Euler-multinomial.

    Returns
    -------
    StateSpaceModel

    Raises
    ------
    InputError, DTypeError, FiniteError
        A number is not positive, or not whole where a count is expected; `reports` is unknown.
    """
    names = "beta", "sigma", "gamma", "rho", "i0"
    return _epidemic(names, ("S", "E", "I", "C"), population, n_substeps, duration, reports, turnover)


# ---- prey and predators
@functools.cache
def lotka_volterra(prey: int = 50, predators: int = 100, *, duration: float = 1.0) -> StateSpaceModel:
    """Make a Lotka-Volterra model: prey are born at rate birth U, eaten by predators that multiply at rate
    predation U V, and predators die at rate death V.

    Parameters birth, predation, death, noise (sd of both observations). States U and V begin at prey and
    predators; between two observations every reaction is drawn (Gillespie's algorithm), at most 2^20 of them.

    Parameters
    ----------
    prey, predators : int, default 50 and 100
        Numbers at the start.
    duration : float, default 1.0
        Time between two observations, in the unit of the rates.

    Returns
    -------
    StateSpaceModel

    Raises
    ------
    InputError, DTypeError, FiniteError
        A number of animals is negative or not whole, or duration is not positive.
    """
    prey, predators = check_count(prey, "prey", 0), check_count(predators, "predators", 0)
    duration = check_positive(duration, "duration")

    @pk.function
    def initial(seed, stream, draw, params):
        return pk.float64(prey), pk.float64(predators)

    @pk.function
    def propagate(t, state, seed, stream, draw, params):
        u, v, time, k = pk.float64(state[0]), pk.float64(state[1]), 0.0, 0
        while k < REACTIONS:
            born, eaten, dying = params[0] * u, params[1] * u * v, params[2] * v
            total = born + eaten + dying
            own = _shift_draw(draw, 2 * k)
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
            state[1] + params[3] * pk.random.normal(seed, stream, _shift_draw(draw, 1)),
        )

    return StateSpaceModel(
        ("birth", "predation", "death", "noise"),
        ("prey", "predators"),
        initial,
        propagate,
        log_weight,
        observe,
    )
