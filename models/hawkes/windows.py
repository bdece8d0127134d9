"""Which pairs the windowed method may leave out, and what that can change.

An event farther than c tau_t in time adds less than exp(-c^2 / 2) to a sum of (1), one beyond omega dt = k less than
exp(-k) to a sum of (2). With B and E the constant factors of (1) and (2), the rate of an event that misses at most N
others is too small by at most

    missing = N (B exp(-c^2 / 2) + E exp(-k)),

and since log(1 + u) <= u, the sum of log-rates by at most missing * sum_n 1 / rate_n, with the rates as computed: they
only lack positive terms. That bound holds after the fact, whatever the events are. To choose c and k beforehand, a rate
is taken to be at least B: with its own term in (1) it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Windows:
    """How far the sums reach, and how much a rate can lack.

    Attributes
    ----------
    background_h, excitation_h : float, hours
        Pairs farther apart are left out; infinite where none is.
    missing : float, per km^D and hour
        Upper bound of what any rate lacks; 0 where no pair is left out.
    """

    background_h: float
    excitation_h: float
    missing: float

    def error(self, sum_of_inverse_rates):
        """Upper bound of the absolute error of the log-likelihood."""
        return self.missing * sum_of_inverse_rates if self.missing else 0.0


EVERYTHING = Windows(math.inf, math.inf, 0.0)


def choose(params, n_dims, n_events, span_h, tolerance):
    """Windows that aim at an error of `tolerance` an event, half from each sum.

    Parameters
    ----------
    params : Parameters
    n_dims, n_events : int
    span_h : float, hours
        From the first event to the last: a window that reaches as far leaves nothing out.
    tolerance : float
    """
    if tolerance <= 0.0:
        return EVERYTHING
    background, excitation = params.background_scale(n_dims), params.excitation_scale(n_dims)
    c = math.sqrt(2.0 * max(math.log(2 * n_events / tolerance), 0.0))
    k = max(math.log(2 * n_events / tolerance) + math.log(excitation / background), 1.0)
    background_h, missed_background = c * params.tau_t, n_events * background * math.exp(-0.5 * c * c)
    excitation_h, missed_excitation = k / params.omega, n_events * excitation * math.exp(-k)
    if background_h >= span_h:
        background_h, missed_background = math.inf, 0.0
    if excitation_h >= span_h:
        excitation_h, missed_excitation = math.inf, 0.0
    return Windows(background_h, excitation_h, missed_background + missed_excitation)
