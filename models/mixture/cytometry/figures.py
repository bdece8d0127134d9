"""Draw populations: biaxial plots with ellipses, a heat map of medians, shares of populations in samples."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence

import numpy as np

from ...shared import InputError, need, new_figure, replacing
from .. import covariance, figures
from .labels import Labels, Tally, shares
from .populations import Populations
from .samples import Sample

_MOST_CELLS = 20_000  # cells in a biaxial plot, at most
_PAIRS, _COLUMNS = 6, 3
_WITHIN = (0.0005, 0.9995)  # quantiles of cells that axes span
_INSIDE = 0.9  # share of a component's cells in its ellipse
_LEAST_WEIGHT = 0.0002  # components of smaller weight have no ellipse
_TICKS = (-1e4, -1e3, -1e2, 0.0, 1e2, 1e3, 1e4, 1e5, 1e6)
_LISTED = 24  # populations in a legend, at most
_LETTERS = 40  # letters of a name in a figure, at most
NAMES = ("biaxial", "medians", "shares", "marginals")


def check_pairs(panel, pairs):
    """Return the positions of the channels of biaxial plots, given the names of channels or markers.

    Parameters
    ----------
    panel : Panel
    pairs : sequence of pairs of str, or None

    Returns
    -------
    list of pairs of int

    Raises
    ------
    InputError
        A pair does not have two names, or the panel does not have one of them.
    """
    found = []
    for pair in pairs or ():
        if len(pair) != 2:
            raise InputError(f"pairs holds {list(pair)!r}; expected two channels")
        every = [*panel.names, *panel.channels]
        for name in pair:
            if name not in every:
                raise InputError(f"pairs holds '{name}'; the panel has {', '.join(panel.names)}")
        found.append(tuple(every.index(name) % len(panel.names) for name in pair))
    return found


def biaxial(
    populations: Populations,
    samples: Sequence[Sample],
    labels: Sequence[Labels],
    pairs: Sequence[Sequence[str]] | None = None,
):
    """Draw cells in pairs of channels, coloured by population, with an ellipse around 90 % of each component.

    Parameters
    ----------
    populations : Populations
    samples : sequence of Sample
    labels : sequence of Labels, one of each sample
    pairs : sequence of pairs of str, optional
        Names of markers or channels; if not given, the pairs that separate the populations most.

    Returns
    -------
    matplotlib.figure.Figure
    """
    places = _telling(populations) if pairs is None else check_pairs(populations.panel, pairs)
    panel, colours = populations.panel, _colours(populations.n_populations)
    points, own = _random_subset(panel, samples, labels)
    listed = _numbered(populations.names)[:_LISTED]
    below = 0.35 * math.ceil(len(listed) / 3)
    figure, axes_of = figures.grid(len(places), _COLUMNS, 4.0, 3.7, below)
    for axes, pair in zip(axes_of, places):
        at = list(pair)
        _draw_cells(axes, panel, points[:, at] * panel.spreads[at] + panel.centres[at], colours[own], at)
        _draw_ellipses(axes, populations, at, colours)
    for name, colour in zip(listed, colours):
        axes_of[0].plot([], [], "o", color=colour, markersize=4, label=name)
    figure.legend(loc="outside lower center", ncols=3, fontsize="x-small", frameon=False)
    return figure


def _draw_cells(axes, panel, drawn, colours, at):
    """Draw cells on the scales of two channels, which label the axes."""
    axes.scatter(*drawn.T, s=1.5, c=colours, linewidths=0, rasterized=True)
    low, high = np.quantile(drawn, _WITHIN, axis=0)
    margin = 0.05 * (high - low)
    for axis, channel, *span in zip((axes.xaxis, axes.yaxis), at, low - margin, high + margin):
        _label(axis, panel.scales[channel], panel.names[channel], span)


def _draw_ellipses(axes, populations, at, colours):
    """Draw the components' ellipses in two channels."""
    panel, model = populations.panel, populations.model
    each = covariance.for_each(model.covariance, model.covariances_, *model.means_.shape)
    for j in np.flatnonzero(model.weights_ >= _LEAST_WEIGHT):
        matrix = each[j][np.ix_(at, at)] if each.ndim == 3 else np.diag(each[j, at])
        outline = _ellipse(model.means_[j, at], matrix) * panel.spreads[at] + panel.centres[at]
        axes.plot(*outline.T, color=colours[populations.members[j]], linewidth=1.8)
        axes.plot(*outline.T, color="black", linewidth=0.5)


def medians(populations: Populations):
    """Draw a heat map of the median of each channel in each population, from the lowest (0) to the highest
    (1) of the channel.

    Returns
    -------
    matplotlib.figure.Figure
    """
    panel = populations.panel
    levels = _levels(populations)
    low, high = levels.min(axis=0), levels.max(axis=0)
    shown = (levels - low) / np.where(high > low, high - low, 1.0)
    k, p = shown.shape
    figure = new_figure(4.5 + 0.42 * p, 1.6 + 0.26 * k)
    axes = figure.subplots()
    image = axes.imshow(shown, aspect="auto", cmap="viridis", vmin=0.0, vmax=1.0)
    axes.set_xticks(range(p), [_plain_label(name) for name in panel.names], rotation=90)
    share = populations.cells / max(populations.cells.sum(), 1)
    named = [f"{name}  {own:.2%}" for name, own in zip(_numbered(populations.names), share)]
    axes.set_yticks(range(k), named, fontsize="small")
    figure.colorbar(image, label="median, lowest to highest population")
    return figure


def shares_of(labels: Sequence[Labels | Tally]):
    """Draw the share of each population in the cells of each sample as stacked bars.

    Returns
    -------
    matplotlib.figure.Figure
    """
    found, names = shares(labels).T, _numbered(labels[0].names)
    figure = new_figure(6.0 + 0.45 * len(labels), 4.0 + 0.18 * min(len(names), _LISTED))
    axes, places = figure.subplots(), range(len(labels))
    bottoms = found.cumsum(axis=0) - found
    for number, colour in enumerate(_colours(len(names))):
        name = names[number] if number < _LISTED else None
        axes.bar(places, found[number], bottom=bottoms[number], color=colour, label=name)
    axes.set_xticks(places, [_plain_label(own.sample) for own in labels], rotation=90 * (len(labels) > 3))
    axes.set(ylabel="share of cells", ylim=(0.0, 1.0))
    figure.legend(loc="outside right upper", fontsize="x-small", frameon=False)
    return figure


def draw(folder, populations, samples, labels, tallies, pairs=None):
    """Write all figures, each to a .png file and to a page of figures.pdf.

    Parameters
    ----------
    folder : path
    populations : Populations
    samples : sequence of Sample
    labels : sequence of Labels
        Labels of the cells that are drawn.
    tallies : sequence of Labels or Tally
        Counts of all cells, for the shares of populations in samples.
    pairs : sequence of pairs of str, optional
        As in `biaxial`.

    Raises
    ------
    InputError
        Matplotlib is not installed.
    StorageError
        A file cannot be written.
    """
    backend = need("matplotlib.backends.backend_pdf", "plot", "figures")
    points, _ = _random_subset(populations.panel, samples, labels)
    drawn = (
        biaxial(populations, samples, labels, pairs),
        medians(populations),
        shares_of(tallies),
        figures.marginals_of(
            populations.model, points, [_plain_label(name) for name in populations.panel.names]
        ),
    )
    for name, figure in zip(NAMES, drawn):
        with replacing(os.path.join(folder, f"{name}.png"), "--out") as beside:
            figure.savefig(beside, dpi=150)
    with replacing(os.path.join(folder, "figures.pdf"), "--out") as beside, backend.PdfPages(beside) as pages:
        for figure in drawn:
            pages.savefig(figure, dpi=150)


def _levels(populations):
    """Return the populations' medians on the channels' scales."""
    columns = zip(populations.panel.scales, populations.medians.T)
    return np.column_stack([scale.apply(column) for scale, column in columns])


def _telling(populations):
    """Return pairs of channels, those whose medians differ most between populations first."""
    levels = _levels(populations) / populations.panel.spreads
    order = np.argsort(-levels.var(axis=0), kind="stable").tolist()
    return list(zip(order[::2], [*order[1::2], order[0]]))[:_PAIRS]


def _random_subset(panel, samples, labels):
    """Return points and populations of a random subset of the cells, with the same share of each sample."""
    random, points, own = np.random.default_rng(0), [], []
    share = min(_MOST_CELLS / max(sum(sample.n_cells for sample in samples), 1), 1.0)
    for sample, label in zip(samples, labels):
        use = np.flatnonzero(label.population >= 0)
        use = np.sort(random.choice(use, math.ceil(share * len(use)), replace=False))
        points.append(panel.points(sample.take(use))[0])
        own.append(label.population[use])
    points, own = np.concatenate(points), np.concatenate(own)
    if not len(points):
        raise InputError("no cell is left to draw: all are saturated, or not finite")
    mixed = random.permutation(len(points))  # so that no population hides another because it is drawn later
    return points[mixed], own[mixed]


def _ellipse(mean, matrix):
    angles = np.linspace(0.0, 2.0 * math.pi, 100)
    radius = math.sqrt(-2.0 * math.log(1.0 - _INSIDE))
    circle = radius * np.column_stack([np.cos(angles), np.sin(angles)])
    return mean + circle @ np.linalg.cholesky(matrix + 1e-12 * np.eye(2)).T


def _label(axis, scale, name, span):
    """Set an axis's limits, and ticks at powers of ten of the instrument's scale."""
    axis.axes.set(**{f"{axis.axis_name}lim": span})
    axis.set_label_text(_plain_label(name))
    if scale.kind != "none":
        at, ticks = scale.apply(np.array(_TICKS)), np.array(_TICKS)
        near = np.abs(at - at[ticks == 0.0]) <= 0.08 * (span[1] - span[0])
        shown = (span[0] <= at) & (at <= span[1]) & ~(near & (ticks != 0.0))
        axis.set_ticks(
            at[shown],
            [
                f"${'-' if tick < 0.0 else ''}10^{round(math.log10(abs(tick)))}$" if tick else "0"
                for tick in ticks[shown]
            ],
        )


def _colours(n):
    """Return n colours that differ as much as possible, shape (n, 3)."""
    table = need("matplotlib", "plot", "figures").colormaps["tab20"].colors
    number = np.arange(max(n - 20, 0))
    hues = number * 0.618034 % 1.0, 0.55 + 0.4 * (number % 2), 0.85 - 0.3 * (number % 3 == 2)
    more = need("matplotlib.colors", "plot", "figures").hsv_to_rgb(np.column_stack(hues))
    return np.array([*(table[:20:2] + table[1:20:2]), *more])[:n]


def _numbered(names):
    """Return the names of populations preceded by their numbers, which labels and tables use."""
    return [f"{number}  {_plain_label(name)}" for number, name in enumerate(names)]


def _plain_label(name):
    """Return a name, shortened if it is long, in which Matplotlib finds no formula."""
    name = name if len(name) <= _LETTERS else f"{name[: _LETTERS - 3]}..."
    return name.replace("$", r"\$")
