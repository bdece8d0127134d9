"""What the commands of `python -m models.hawkes` share: options of the model, starts, earlier results, coverage."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.table import Table

from portable.errors import InputError

from ..dates import ORDERS
from ..files import read_json
from .backgrounds import KINDS
from .compose import SHAPES, compose
from .coverage import CLUSTERS, coverage
from .parameters import Parameters
from .posterior import load_posterior


def add_model(command):
    """Options that say what the events are and which model is fitted."""
    command.add_argument(
        "--ids", metavar="COLUMN", help="names of events, for results; else the rows' numbers"
    )
    command.add_argument(
        "--marks",
        metavar="COLUMN",
        help="marks, such as magnitudes: offspring by exp(alpha (mark - reference))",
    )
    command.add_argument(
        "--reference-mark", metavar="MARK", help="a number, or a column: the completeness (the smallest mark)"
    )
    command.add_argument(
        "--end", help="when the record ended, a number or a date as those of --time (the last event)"
    )
    command.add_argument("--date-order", choices=ORDERS, help="of dates in text that may be read in two ways")
    command.add_argument(
        "--decay", default="exponential", help="exponential, omori, or a number of exponentials (exponential)"
    )
    command.add_argument(
        "--within-h", type=float, help="longest delay of the Omori law (ten times the record)"
    )
    command.add_argument(
        "--distance", choices=SHAPES, default="normal", help="density of offspring in space (normal)"
    )
    command.add_argument("--growth", action="store_true", help="with --marks: distances grow with the mark")
    command.add_argument(
        "--background",
        choices=("paper", *KINDS),
        default="paper",
        help="kernel density over all events (paper), or fitted in turns with the triggering",
    )
    command.add_argument("--periods", type=int, help="of a background whose rate changes (8 for piecewise)")
    command.add_argument(
        "--box-km",
        type=float,
        nargs="+",
        metavar="LOW HIGH",
        help="where the background is: a pair a dimension",
    )
    command.add_argument(
        "--least-h", type=float, metavar="KM", help="lower bound of h, such as the rounding of places"
    )
    command.add_argument(
        "--jitter", type=float, metavar="KM", help="spread places at random over so wide a box"
    )
    command.add_argument(
        "--repeats", choices=("refuse", "accept"), default="refuse", help="places that repeat as centroids do"
    )


def add_found(command):
    command.add_argument("--params", help="params.json of a fit, instead of a posterior")
    command.add_argument("--posterior", help="posterior.nc of a fit")


def start_of(options, events):
    """Where estimates begin: scales of the background as given, of the triggering by what the events are spread over."""
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
            space=options.distance,
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
        return load_posterior(options.posterior)
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
    """A row a parameter and speed of clusters; an error where 90 % intervals do not hold 84 to 96 %."""
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
            progress=console.is_terminal,
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
        raise InputError(f"coverage is outside 84 to 96 %: {'; '.join(worst)}")
