"""What the commands of `python -m portable.models.hawkes` share: options of the model, starts, earlier
results, coverage."""

from __future__ import annotations

import sys

from rich.box import SIMPLE_HEAD
from rich.table import Table

from portable.errors import InputError

from ..shared import command
from ..shared.files import read_json
from .backgrounds import KINDS, fit_background
from .catalogue import read_catalogue
from .compose import compose
from .coverage import CLUSTERS, coverage
from .likelihood import Likelihood
from .mutual_coverage import KINDS as KINDS_OF_MUTUAL
from .mutual_coverage import mutual_coverage
from .noise import ALPHA, LEVEL, calibrate_noise
from .parameters import Parameters
from .posterior import Posterior


def add_model(one):
    """Options that say what the events are and which model is fitted."""
    command.add(one, read_catalogue, "ids", "marks", "reference_mark", "end", "date_order")
    one.add_argument(
        "--decay", default="exponential", help="exponential, omori, or a number of exponentials (exponential)"
    )
    command.add(one, compose, "within_h", "distance", "growth")
    one.add_argument(
        "--background",
        choices=("paper", *KINDS),
        default="declustered",
        help=(
            "fitted in turns with the triggering (declustered), or the kernel density over all events of"
            " the paper"
        ),
    )
    command.add(one, fit_background, "n_periods", "n_simulations")
    one.add_argument(
        "--box-km",
        type=float,
        nargs="+",
        metavar="LOW HIGH",
        help="where the background is: a pair for each dimension",
    )
    one.add_argument(
        "--polygon", metavar="FILE.geojson", help="in place of the box: the region, projected as the events"
    )
    one.add_argument(
        "--least-h", type=float, metavar="KM", help="lower bound of h, such as the rounding of places"
    )
    one.add_argument("--jitter", type=float, metavar="KM", help="spread places at random over so wide a box")
    command.add(one, Likelihood, "repeats")


def add_found(one):
    one.add_argument("--params", help="params.json of a fit, instead of a posterior")
    one.add_argument("--posterior", help="posterior.nc of a fit")


def start_of(options, events):
    """Where estimates begin: scales of the background as given, of the triggering by what the events are
    spread over."""
    kind = Parameters
    if options.decay != "exponential" or options.marks or options.distance != "normal" or options.growth:
        decay = int(options.decay) if options.decay.isdigit() else options.decay
        within = options.within_h or (
            10.0 * (options.horizon_h or events.horizon_h or float(events.times[-1]))
            if decay == "omori"
            else None
        )
        kind = compose(
            decay,
            distance=options.distance,
            marks=options.marks is not None,
            growth=options.growth,
            n_dims=events.locations.shape[1],
            within_h=within,
        )
    values = {
        "mu0": 0.5,
        "tau_x": options.tau_x or 1.6,
        "tau_t": options.tau_t or 336.0,
        "theta": 0.3,
        "h": 1.0,
        "omega": 1.0,
        "c": 0.1,
        "p": 1.1,
        "q": 1.5,
        "alpha": 0.5,
        "gamma": 0.2,
    }
    values |= {f"omega_{k + 1}": 10.0 / 100.0**k for k in range(8)} | {
        f"weight_{k}": 1.0 for k in range(2, 9)
    }
    return kind(**{name: values[name] for name in kind.names()})


def number_or_text(text):
    try:
        return None if text is None else float(text)
    except ValueError:
        return text


def given(options):
    """Parameters, or a posterior, of an earlier fit; None if neither is named."""
    if getattr(options, "posterior", None) is not None:
        return Posterior.load(options.posterior)
    if getattr(options, "params", None) is None:
        return None
    values = read_json(options.params)
    try:
        spec = values.pop("triggering", None)
        kind = Parameters if spec is None else compose(**spec)
        return kind(**values)
    except (TypeError, AttributeError) as error:
        wanted = ", ".join(Parameters.names())
        raise InputError(f"--params: '{options.params}' is no JSON object of {wanted}: {error}") from error


def print_coverage(options, sets, console):
    """Print a row for each parameter and speed of clusters; the exit status is 1 where 90 % intervals do not
    hold 84 to 96 %."""
    table = Table(
        box=SIMPLE_HEAD,
        pad_edge=False,
        title=f"90 % intervals, {sets} data sets, background {options.background}",
        title_justify="left",
    )
    for name in ("clusters", "parameter", "truth", "mean estimate", "held"):
        table.add_column(name)
    worst = []
    for clusters in CLUSTERS if options.clusters == "both" else (options.clusters,):
        found = coverage(
            options.background,
            clusters,
            n_sets=sets,
            seed=options.seed,
            space=options.space,
            jobs=options.jobs,
            progress=options.progress,
            client=options.client,
        )
        for name, share in found.shares.items():
            table.add_row(
                clusters,
                name,
                f"{getattr(found.truth, name):.4g}",
                f"{found.means[name]:.4g}",
                f"{share:.1%}",
            )
            worst += [f"{name}, {clusters}: {share:.1%}"] if not 0.84 <= share <= 0.96 else []
    console.print(table)
    if worst and sets >= 200 and options.background != "paper":
        print(f"hawkes: coverage is outside 84 to 96 %: {'; '.join(worst)}", file=sys.stderr)
        return 1
    return 0


def print_mutual(options, console):
    """Print how often 90 % intervals of mutual excitation hold the truth; the exit status is 1 where they do
    so in less than 85 or more than 95 %, but for influences of 0, which may be held more often."""
    off = []
    for kind in KINDS_OF_MUTUAL:
        shares = mutual_coverage(kind, **command.given(options, mutual_coverage))
        console.print(f"{kind}: " + ", ".join(f"{name} {share:.1%}" for name, share in shares.items()))
        most = {"no influence": 1.0}
        off += [f"{name}, {kind}" for name, v in shares.items() if not 0.85 <= v <= most.get(name, 0.95)]
    if off and options.n_sets >= 200:
        print(f"hawkes: coverage is outside 85 to 95 %: {'; '.join(off)}", file=sys.stderr)
        return 1
    return 0


def print_noise(options, console):
    """Print how often the 5 % test rejects noise of each shape, and what becomes of triggering; the exit
    status is 1 where enough sets say that something is off."""
    found = calibrate_noise(**command.given(options, calibrate_noise))
    table = Table(
        box=SIMPLE_HEAD,
        pad_edge=False,
        title=(
            f"{found.n_sets:,} sets of {found.n_events:,} events without triggering,"
            f" {found.n_simulations} draws a test"
        ),
        title_justify="left",
    )
    table.add_column("background")
    table.add_column(f"rejected at {ALPHA:.0%}", justify="right")
    for shape, share in found.rejected.items():
        table.add_row(shape, f"{share:.1%}")
    console.print(table)
    truth = found.truth
    console.print(
        f"{found.n_triggered:,} sets with theta {truth.theta:g}, omega {truth.omega:g}/h and h {truth.h:g}"
        f" km in these windows of 10 km and a year: found in {found.found:.1%}"
    )
    for name, share in found.covered.items():
        console.print(f"  {name:6} {LEVEL:.0%} interval holds the truth in {share:.1%}")
    off = [f"{shape} {share:.1%}" for shape, share in found.rejected.items() if not 0.035 <= share <= 0.065]
    off = off if found.n_sets >= 1000 else []
    if found.n_triggered >= 200:
        off += [f"found {found.found:.1%}"] if found.found < 0.95 else []
        off += [f"{name} {share:.1%}" for name, share in found.covered.items() if not 0.85 <= share <= 0.95]
    if off:
        print(f"hawkes: calibration is off: {'; '.join(off)}", file=sys.stderr)
        return 1
    return 0
