"""Figures 2 to 6 of Murray, Lee and Jacob from the cells of a study (`portable.models.resampling.study`)."""

import pathlib

import numpy as np

from ..shared import new_figure, replacing
from .study import SCHEMES, decisions

QUANTITIES = {
    "bias_share": (2, "bias share of MSE"),
    "mse": (4, "MSE / N"),
    "seconds": (5, "seconds until permuted ancestors"),
}


def draw(cells, folder):
    """Draw Figures 2, 4, 5 and 6 for every kind of machine in the cells."""
    folder = pathlib.Path(folder)
    for kind in sorted({cell["kind"] for cell in cells}):
        own = [cell for cell in cells if cell["kind"] == kind]
        for quantity, (number, _) in QUANTITIES.items():
            _save(lines(own, quantity), folder / f"figure{number}-{quantity}-{kind}.png")
        _save(lines(own, "seconds", by="y"), folder / f"figure5-seconds-over-y-{kind}.png")
    for kind, best in decisions(cells).items():
        _save(matrix(best, kind), folder / f"figure6-decisions-{kind}.png")


def _save(figure, path):
    with replacing(path) as beside:
        figure.savefig(beside)


def lines(cells, quantity, by="n", names=SCHEMES, label=None, extra=()):
    """Draw a panel for each value of the other variable, with a line for each scheme.

    Parameters
    ----------
    cells : list of dict
    quantity : str
        One of QUANTITIES, or a key of the cells; cells with value None are left out.
    by : {"n", "y"}
    names : sequence of str
    label : str, optional
    extra : sequence of (str, dict)
        Further lines for all panels, over n: label, and {n: value}.

    Returns
    -------
    matplotlib Figure
    """
    other = "y" if by == "n" else "n"
    panels = sorted({cell[other] for cell in cells})
    columns = min(len(panels), 5)
    rows = -(-len(panels) // columns)
    figure = new_figure(2.4 * columns + 1.8, 2.6 * rows + 0.3)
    axes = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for axis in axes.flat[len(panels) :]:
        axis.set_visible(False)
    for axis, panel in zip(axes.flat, panels):
        own = [cell for cell in cells if cell[other] == panel and cell[quantity] is not None]
        _draw_panel(axis, own, quantity, by, names, extra)
        axis.set(title=f"y = {panel}" if other == "y" else f"N = $2^{{{panel.bit_length() - 1}}}$")
    figure.supylabel(label or QUANTITIES[quantity][1])
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside right upper", fontsize="small")
    return figure


def _draw_panel(axis, cells, quantity, by, names, extra):
    """Draw a line for each scheme, and the further lines."""
    for number, name in enumerate(names):
        line = sorted((cell for cell in cells if cell["scheme"] == name), key=lambda cell: cell[by])
        style = {"color": f"C{number % 10}", "linestyle": "-" if number < 10 else "--"}
        axis.plot([c[by] for c in line], [c[quantity] for c in line], marker=".", label=name, **style)
    for name, values in extra:
        axis.plot(list(values), list(values.values()), color="0.5", linestyle=":", label=name)
    axis.set(xlabel="N" if by == "n" else "y", yscale="log")
    if by == "n":
        axis.set_xscale("log", base=2)


def matrix(best, title):
    """Draw the fastest scheme of each cell as a colour; missing cells are white."""
    from matplotlib.patches import Patch

    sizes, ys, names = (sorted(set(values)) for values in (*zip(*best), best.values()))
    table = np.array([[names.index(best[n, y]) if (n, y) in best else np.nan for n in sizes] for y in ys])
    figure = new_figure(0.5 * len(sizes) + 4, 0.35 * len(ys) + 2)
    axis = figure.subplots()
    shown = axis.imshow(table, origin="lower", aspect="auto", cmap="tab20", vmin=-0.5, vmax=19.5)
    axis.set(title=f"fastest scheme, {title}", xlabel="N", ylabel="y")
    axis.set_xticks(range(len(sizes)), [f"$2^{{{n.bit_length() - 1}}}$" for n in sizes])
    axis.set_yticks(range(len(ys)), ys)
    axis.legend(
        [Patch(color=shown.cmap(shown.norm(k))) for k in range(len(names))],
        names,
        bbox_to_anchor=(1.02, 1.0),
        loc="upper left",
        fontsize="small",
    )
    return figure
