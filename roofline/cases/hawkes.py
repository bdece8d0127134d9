"""The Hawkes log-likelihood: all pairs in float64 and in mixed precision, and by windows in time."""

import functools
import gzip
import zlib

import numpy as np

from portable.models import hawkes
from portable.errors import InputError
from portable.roofline.cases import common
from portable.roofline.contract import Contender, Duel, Run

# Near the fit of Holbrook et al. to gunfire in Washington, D.C.: excitation over a minute and 70 m,
# background over 14 days and 1.6 km.
PARAMS = hawkes.Parameters(mu0=1.0, tau_x=1.6, tau_t=336.0, theta=0.15, omega=60.0, h=0.07)
HOURS_PER_EVENT = 2.0  # 54,582 events in 117,666 hours there

# For duels: a long memory, so that no exp of any pair underflows, even in float32. With the parameters above
# nearly all underflow; that makes libm's exp, and so plain numba, up to four times as slow, and does not
# affect a branch-free exp.
LONG = hawkes.Parameters(mu0=1.0, tau_x=3.0, tau_t=3000.0, theta=0.15, omega=0.002, h=3.0)
LONG_HOURS = 20_000.0  # at most, from the first event to the last; the least exponents are then about -40

COLUMNS = "x_km,y_km,t_hours"

METHODS = {
    "Hawkes, all pairs, float64": {"method": "all_pairs", "keep_background": False},
    "Hawkes, all pairs, mixed": {"method": "all_pairs", "keep_background": False, "dtype": "mixed"},
    "Hawkes, windowed, background recomputed": {"method": "windowed", "keep_background": False},
    "Hawkes, windowed, background kept": {"method": "windowed", "keep_background": True},
}


def prepare(space, data, quick):
    """Return each method on each input; see `portable.roofline.cases.Case`."""
    limit = _small_size(space, quick)
    if data is None:
        n = limit or (80_000 if space.startswith("cuda") else 10_000)
        inputs = [("simulated", *simulated(n, PARAMS, HOURS_PER_EVENT * n))]
    else:
        inputs = [(path.name, *(part[:limit] for part in read(path))) for path in real_files(data)]
    return [
        Run(
            method,
            source,
            len(times),
            "events",
            _evaluation(locations, times, PARAMS, space, options),
        )
        for source, locations, times in inputs
        for method, options in METHODS.items()
    ]


def duels(space, n, quick):
    """Return duels of all pairs in both precisions, and of the gradient against the likelihood; see
    `portable.roofline.cases.Case`."""
    n = n or _small_size(space, quick) or (75_000 if space.startswith("cuda") else 10_000)
    locations, times = simulated(n, LONG, LONG_HOURS)
    found = []
    for precision, tolerance in (("float64", 1e-10), ("mixed", 1e-6)):
        about = {"options": {"mixed": precision == "mixed"}, "tolerance": tolerance}
        call = _evaluation(locations, times, LONG, space, METHODS[f"Hawkes, all pairs, {precision}"])
        title = f"Hawkes log-likelihood, {n:,} events, long memory, all pairs, {precision}"
        given = locations, times
        found += [
            common.duel(title, space, call, "hawkes", *given, LONG, result=call, **about),
            _gradient_duel(space, n, precision, tolerance, call, *given),
        ]
    return found


def _gradient_duel(space, n, precision, tolerance, likelihood, locations, times):
    """Return the duel of the log-likelihood's six derivatives against the log-likelihood."""
    options = METHODS[f"Hawkes, all pairs, {precision}"]
    made = functools.cache(lambda: hawkes.Likelihood(locations, times, space=space, **options))

    def gradient():
        return made().gradient(LONG)[0]

    return Duel(
        f"Hawkes gradient, {n:,} events, all pairs, {precision}: its time over the likelihood's",
        Contender("the log-likelihood", likelihood, result=likelihood),
        [Contender("the log-likelihood with its gradient", gradient, result=gradient)],
        tolerance=tolerance,
    )


@functools.cache
def simulated(n_events, params, span_h):
    """Return events of known parameters in a square of 10 km.

    Parameters
    ----------
    n_events : int
    params : Parameters
    span_h : float, hours
        The interval in which about `n_events` events happen.

    Returns
    -------
    locations : ndarray, shape (n_events, 2), km
    times : ndarray, shape (n_events,), hours, from 0
    """
    # A fifth more events than requested are expected: enough for this seed's draw; the surplus is cut off.
    n_immigrants = 1.2 * (1.0 - params.theta) * n_events + 50
    made = hawkes.simulate(params, n_immigrants=n_immigrants, horizon_h=1.2 * span_h, seed=1)
    return made.locations[:n_events], made.times[:n_events] - made.times[0]


def real_files(folder):
    """Return the gunfire files of a data folder, smallest first.

    Raises
    ------
    InputError
        The folder has no such file.
    """
    found = sorted((folder / "hawkes").glob("dc_gunfire_*.csv.gz"), key=lambda path: path.stat().st_size)
    if not found:
        raise InputError(
            f"data: '{folder}' has no hawkes/dc_gunfire_*.csv.gz. Name the folder that holds hawkes/."
        )
    return found


def read(path):
    """Return locations and times from a file with the columns x_km, y_km, t_hours.

    Raises
    ------
    InputError
        The file cannot be read, or has other columns.
    """
    try:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            header = lines.readline().strip()
            if header != COLUMNS:
                raise InputError(f"data: '{path}' has the columns '{header}'; expected '{COLUMNS}'.")
            table = np.loadtxt(lines, delimiter=",", ndmin=2)
    except InputError:
        raise
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise InputError(f"data: '{path}' cannot be read as gzipped CSV: {error}") from error
    if table.shape[0] == 0 or table.shape[1] != 3:
        raise InputError(
            f"data: '{path}' holds a table of shape {table.shape}; expected events in three columns."
        )
    return table[:, :2].copy(), table[:, 2] - table[0, 2]


def _small_size(space, quick):
    """Return a small number of events for runs whose time does not matter, else None."""
    return 40 if space == "checked" else 300 if quick else None


def _evaluation(locations, times, params, space, options):
    """Return a call that evaluates the log-likelihood; the events are checked and copied before it is timed,
    at its first use.
    """
    made = functools.cache(lambda: hawkes.Likelihood(locations, times, space=space, **options))
    return lambda: made().log_likelihood(params)
