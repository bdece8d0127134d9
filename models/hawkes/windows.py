"""Choose the pairs that the windowed method omits, and bound the resulting error.

An event farther than c tau_t away in time adds less than exp(-c^2 / 2) to a sum of (1); an event with omega
dt > k adds less than exp(-k) to a sum of (2) (for other triggering functions: beyond their `reach_h` of k).
With B and E the constant factors of (1) and (2), the rate of an event whose sums omit at most N other events
is too small by at most

    missing = N (B exp(-c^2 / 2) + E exp(-k)),

and since log(1 + u) <= u, the sum of log rates is too small by at most missing * sum_n 1 / rate_n, with the
rates as computed: they only lack positive terms. This bound is computed after the sums, and holds for all
data. To choose c and k beforehand, each rate is assumed to be at least B, which is true if the self term is
part of (1).
"""

import math
from typing import NamedTuple


class Windows(NamedTuple):
    """Reach of the sums, and a bound of the omitted part of a rate.

    Attributes
    ----------
    background_h, excitation_h : float, hours
        Pairs farther apart in time are omitted; infinite if no pair is.
    background_sds : float
        The reach of the background in units of tau_x: sums by cells omit pairs farther apart in space.
    cut : float
        The exponent of (2) beyond which pairs are omitted.
    missing : float, per km^D and hour
        Upper bound of the omitted part of any rate; 0 if no pair is omitted.
    """

    background_h: float
    excitation_h: float
    background_sds: float
    cut: float
    missing: float


EVERYTHING = Windows(math.inf, math.inf, math.inf, math.inf, 0.0)


def choose(params, n_dims, n_events, span_h, tolerance, given=None, largest=0.0, *, in_space=False):
    """Return windows that aim at an error of `tolerance` per event, half from each sum.

    Parameters
    ----------
    params : Parameters
    n_dims, n_events : int
    span_h : float, hours
        From the first event to the last: a window at least as long omits nothing.
    tolerance : float
    given : float, optional
        A typical rate of a given background, used in place of B; there are then no sums of (1).
    in_space : bool
        True if pairs far apart in space are also omitted, even if windows in time are infinite.
    largest : float
        The largest mark, for which the reach is longest.
    """
    if tolerance <= 0.0:
        return EVERYTHING
    excitation = params.excitation_scale(n_dims)
    background = params.background_scale(n_dims) if given is None else given
    most = math.log(2 * n_events / tolerance)
    c = math.sqrt(2.0 * max(most, 0.0))
    k = max(most + math.log(excitation / background), 1.0)
    background_h, missed_background = c * params.tau_t, n_events * background * math.exp(-0.5 * c * c)
    if given is not None:
        background_h, missed_background = math.inf, 0.0
    excitation_h = params.triggering.reach_h(params.trigger_values, k, largest)
    missed_excitation = n_events * excitation * math.exp(-k)
    if background_h >= span_h:
        background_h, missed_background = math.inf, missed_background if in_space else 0.0
    if excitation_h >= span_h:
        excitation_h, missed_excitation = math.inf, missed_excitation if in_space else 0.0
    return Windows(background_h, excitation_h, c, k, missed_background + missed_excitation)
