"""Figures 2 to 6 of Murray, Lee and Jacob from the cells of a study (`models.resampling.study`)."""

from __future__ import annotations

import pathlib

import numpy as np

from ..files import replacing
from .study import SCHEMES, decisions


def draw(cells, folder):
    """Draw all figures of every machine that the cells tell of; returns their paths."""
    folder = pathlib.Path(folder)
    try:
        import matplotlib
    except ImportError as error:
        raise ImportError("figures want matplotlib: pip install 'portable-kernels[plot]'") from error
    matplotlib.use("Agg")
    paths = []
    for kind in sorted({cell["kind"] for cell in cells}):
        own = [cell for cell in cells if cell["kind"] == kind]
        for number, quantity, label in ((2, "bias_share", "bias share of MSE"), (3, "mse", "MSE / N"), (4, "seconds", "seconds")):
            paths.append(_lines(own, quantity, label, folder / f"figure{number}-{quantity}-{kind}.png", by="n"))
        paths.append(_lines(own, "seconds", "seconds", folder / f"figure5-seconds-over-y-{kind}.png", by="y"))
    for kind, best in decisions(cells).items():
        paths.append(_matrix(best, kind, folder / f"figure6-decisions-{kind}.png"))
    return paths


def _lines(cells, quantity, label, path, by):
    """A panel for each value of the other variable, a line for each scheme."""
    from matplotlib import pyplot

    other = "y" if by == "n" else "n"
    panels = sorted({cell[other] for cell in cells})
    columns = min(len(panels), 5)
    rows = -(-len(panels) // columns)
    figure, axes = pyplot.subplots(rows, columns, figsize=(2.4 * columns + 1.6, 2.6 * rows), sharex=True, sharey=True, squeeze=False,
                                   layout="constrained")
    for axis in axes.flat[len(panels):]:
        axis.set_visible(False)
    for axis, panel in zip(axes.flat, panels):
        for name in SCHEMES:
            line = sorted((cell for cell in cells if cell["scheme"] == name and cell[other] == panel), key=lambda cell: cell[by])
            axis.plot([cell[by] for cell in line], [cell[quantity] for cell in line], marker=".", label=name)
        where = f"y = {panel}" if other == "y" else f"N = $2^{{{panel.bit_length() - 1}}}$"
        axis.set(title=where, xlabel="N" if by == "n" else "y", yscale="log")
        if by == "n":
            axis.set_xscale("log", base=2)
    figure.supylabel(label)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside right upper", fontsize="small")
    with replacing(path) as beside:
        figure.savefig(beside)
    pyplot.close(figure)
    return path


def _matrix(best, title, path):
    """The fastest scheme in each cell, a colour each; cells that were not run yet stay white."""
    from matplotlib import pyplot

    sizes, ys, names = (sorted(set(values)) for values in (*zip(*best), best.values()))
    table = np.array([[names.index(best[n, y]) if (n, y) in best else np.nan for n in sizes] for y in ys])
    figure, axis = pyplot.subplots(figsize=(0.5 * len(sizes) + 4, 0.35 * len(ys) + 2))
    shown = axis.imshow(table, origin="lower", aspect="auto", cmap="tab20", vmin=-0.5, vmax=19.5)
    axis.set(title=f"fastest scheme, {title}", xlabel="N", ylabel="y", xticks=range(len(sizes)), yticks=range(len(ys)))
    axis.set_xticklabels([f"$2^{{{n.bit_length() - 1}}}$" for n in sizes])
    axis.set_yticklabels(ys)
    axis.legend([pyplot.Rectangle((0, 0), 1, 1, color=shown.cmap(shown.norm(k))) for k in range(len(names))], names,
                bbox_to_anchor=(1.02, 1.0), loc="upper left", fontsize="small")
    figure.tight_layout()
    with replacing(path) as beside:
        figure.savefig(beside)
    pyplot.close(figure)
    return path
