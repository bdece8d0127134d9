"""Probabilities of rounded gaps, and kernels that tabulate them, once for each model and distinct gap.

A gap recorded as x is between low = max(x - resolution / 2, 0) and high = x + resolution / 2; for gaps
between two limits, x is the middle and the resolution the width of each. The density (1) of a gap is
replaced by the probability of that interval,

    P_i = F_i(high) - F_i(low), and its x in (6) by the mean of such gaps, (r_i / lambda_i) P'_i / P_i,   (9)

where P' is that of order r_i + 1 at the same rate. The difference is computed from the distribution function
or its complement, whichever is smaller; if the interval is so narrow that digits would cancel, the density at
its middle times its width is accurate to 1e-10.
"""

import math

import portable as pk

from .kernels import CONSTANT, LOG_CHANCE, MEAN_GAP, POWER, RATE, SURVIVAL, poisson_below

# width over the scale on which the density changes: the error of the density at the middle is its square
_NARROW = 1e-5


@pk.function
def log_lower(order, log_factorial, y):
    """Compute log F(y) of an Erlang distribution of rate 1, for y below `order`; log_factorial is log (order
    - 1)!."""
    term = pk.float64(1.0)
    total = pk.float64(1.0)
    k = pk.float64(1.0)
    while term > 1e-17 * total:
        term *= y / (order + k)
        total += term
        k += 1.0
    return order * pk.log(y) - y - log_factorial - pk.log(order) + pk.log(total) if y > 0.0 else -math.inf


@pk.function
def log_upper(order, log_factorial, y):
    """Compute log (1 - F(y)): a Poisson variable of mean y is below `order`."""
    total, _ = poisson_below(order, y)
    value = pk.log(total)
    if y > order:
        value = (order - 1.0) * pk.log(y) - log_factorial - y + value
    else:
        value = value - 0.5 * y
    return value


@pk.function
def log_interval(order, log_factorial, low, high):
    """Compute log (F(high) - F(low)) of an Erlang distribution of rate 1."""
    middle = 0.5 * (low + high)
    if low > 0.0 and (high - low) * max(1.0, (order - 1.0) / middle) < _NARROW:
        value = (order - 1.0) * pk.log(middle) - middle - log_factorial + pk.log(high - low)
    elif high <= order:
        whole = log_lower(order, log_factorial, high)
        value = (
            whole + pk.log1p(-pk.exp(log_lower(order, log_factorial, low) - whole)) if low > 0.0 else whole
        )
    else:
        whole = log_upper(order, log_factorial, low) if low > 0.0 else 0.0
        value = whole + pk.log1p(-pk.exp(log_upper(order, log_factorial, high) - whole))
    return value


@pk.kernel
def tabulate(start, i, k, models, values, table):
    """Fill rows LOG_CHANCE, MEAN_GAP and SURVIVAL (of the lower end) for a distinct interval in a branch of a
    start's model.

    values, shape (2, n_values), are the ends, in the unit of the models, shape (n_starts, rows, R); table has
    the shape (n_starts, 3, R, n_values).
    """
    order = models[start, POWER, i] + 1.0
    rate = models[start, RATE, i]
    log_factorial = order * pk.log(rate) - models[start, CONSTANT, i]  # of order - 1
    low = values[0, k]
    high = values[1, k]
    value = log_interval(order, log_factorial, rate * low, rate * high)
    more = log_interval(order + 1.0, log_factorial + pk.log(order), rate * low, rate * high)
    mean = order / rate * pk.exp(more - value) if value > -math.inf else low
    table[start, LOG_CHANCE, i, k] = value
    table[start, MEAN_GAP, i, k] = pk.clip(mean, low, high)
    table[start, SURVIVAL, i, k] = pk.exp(log_upper(order, log_factorial, rate * low)) if low > 0.0 else 1.0
