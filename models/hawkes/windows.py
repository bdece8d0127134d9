"""Choose the pairs that the windowed method leaves out, and bound the change.

An event farther than c tau_t in time adds less than exp(-c^2 / 2) to a sum of (1), one beyond omega dt = k
less than exp(-k) to a sum of (2) (other triggering functions: beyond their `reach_h` of k). With B and E the
constant factors of (1) and (2), the rate of an event that misses at most N others is too small by at most

    missing = N (B exp(-c^2 / 2) + E exp(-k)),

and since log(1 + u) <= u, the sum of log-rates by at most missing * sum_n 1 / rate_n, with the rates as
computed: they only lack positive terms. That bound holds after the fact, whatever the events are. To choose c
and k beforehand, a rate is taken to be at least B: with its own term in (1) it is.
"""

from __future__ import annotations

import math
from typing import NamedTuple


class Windows(NamedTuple):
    """Reach of the sums, and the most that a rate can lack.

    Attributes
    ----------
    background_h, excitation_h : float, hours
        Pairs farther apart in time are left out; infinite where none is.
    background_sds : float
        As far as the background reaches, in tau_x: what cells in space may leave out.
    cut : float
        The exponent of (2) beyond which pairs are left out.
    missing : float, per km^D and hour
        Upper bound of what any rate lacks; 0 where no pair is left out.
    """

    background_h: float
    excitation_h: float
    background_sds: float
    cut: float
    missing: float

    def error(self, sum_of_inverse_rates):
        """Return upper bound of the absolute error of the log-likelihood."""
        return self.missing * sum_of_inverse_rates if self.missing else 0.0


EVERYTHING = Windows(math.inf, math.inf, math.inf, math.inf, 0.0)


def choose(params, n_dims, n_events, span_h, tolerance, given=None, largest=0.0, *, in_space=False):
    """Return windows that aim at an error of `tolerance` an event, half from each sum.

    Parameters
    ----------
    params : Parameters
    n_dims, n_events : int
    span_h : float, hours
        From the first event to the last: a window that reaches as far leaves nothing out.
    tolerance : float
    given : float, optional
        A typical rate of the background where it is given: no sum of (1), and in place of B.
    in_space : bool
        Pairs far apart in space are left out as well, however long the windows.
    largest : float
        The largest mark: such an event reaches farthest.
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
