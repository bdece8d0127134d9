"""Figures 2 to 6 of Murray, Lee and Jacob: the study in single precision, with prefix sums in float32 as
peers."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from pathlib import Path

import portable as pk

import page
from portable.models.shared.checks import check_count
from portable.models.resampling import figures
from portable.models.resampling.study import (
    SCHEMES,
    Design,
    decisions,
    excess,
    kind_of,
    load,
    study,
    weight_set,
)
from portable.models.resampling.weights import effective_sample_size, metropolis_steps

PEERS = page.example("prefix_sums", "tests/models/resampling").PEERS
STEPS = tuple(f"metropolis / {c}" for c in (1, 2, 4, 8))


@dataclass(frozen=True)
class Size:
    """Exponents of N, values of y, the design of cells; exponents of Figure 3."""

    exponents: tuple
    ys: tuple
    design: Design
    exponents_3: tuple
    schemes: tuple = SCHEMES


_ALL, _HALVES = tuple(range(4, 23)), tuple(0.5 * k for k in range(9))
_PRINTED_SETS, _PRINTED_K = 16, 256  # sets of a cell, vectors of a set
_FEW = ("multinomial", "stratified", "systematic", "metropolis", "rejection")


class Paper(page.Study):
    """See `page.Study`.

    Parameters
    ----------
    cost : int, optional
        Exponent of two of what a cell should cost in particles (`Design.most`), in place of the size's; cells
        that cost sixteen times as much with four vectors are left out.
    checkpoint : path, optional
        Stores each weight set of each cell; the same command resumes them.
    beside : sequence of path
        Each a study.json of another machine (`python -m portable.models.resampling experiment`), for Figure
        6 of both.
    """

    title = "Parallel resampling in the particle filter: Figures 2 to 6"
    source = (
        "L. M. Murray, A. Lee, P. E. Jacob: Parallel resampling in the particle filter (2015). Weights of "
        "equation (12) in float32; our schemes sum whole numbers, Codes 5 to 8 of the paper stand beside "
        "them as "
        "they are printed, with float32 prefix sums. The paper prints no table: what can be compared are "
        "its claims."
    )
    settings = {
        "tiny": Size((6, 10, 14), (2.0,), Design(8, 1, 1 << 18, 1 << 20, "float32", 0.0), (6, 10), _FEW),
        "quick": Size((4, 10, 16, 21), (0.0, 2.0), Design(16, 2, 1 << 20, 1 << 25, "float32", 0.0), (6, 10)),
        "middle": Size(_ALL, _HALVES, Design(256, 16, 1 << 24, dtype="float32"), _ALL[:13]),
        "full": Size(_ALL, _HALVES, Design(256, 16, 1 << 62, dtype="float32"), _ALL),
    }
    sections = {
        "figure-2": "Figure 2: bias of the schemes in single precision",
        "figure-3": "Figure 3: Metropolis with fewer steps",
        "figure-4": "Figure 4: mean squared error",
        "figure-5": "Figure 5: times, with those of sorting and of the effective sample size",
        "figure-6": "Figure 6: the fastest scheme",
        "counts": "Sets and vectors of the cells",
    }

    def __init__(
        self,
        size="quick",
        space=None,
        data=None,
        command="",
        *,
        cost: int | None = None,
        checkpoint: str | None = None,
        beside: tuple = (),
    ):
        if cost is not None:
            command += f" --cost {check_count(cost, 'cost', 10, 62)}"
        super().__init__(size, space, data, command)
        if cost is not None:
            design = replace(self.size.design, most=1 << cost, limit=16.0 * 2.0**cost)
            self.size = replace(self.size, design=design)
        self.checkpoint = checkpoint and Path(checkpoint)
        self.beside = [cell for path in beside for cell in load(path)]

    def _cells(self, names, exponents, ys, part):
        if self.checkpoint:
            self.checkpoint.mkdir(exist_ok=True)
        folder = self.checkpoint and self.checkpoint / part
        sizes = [1 << e for e in exponents]
        return list(
            study([self.space], sizes, ys, self.size.design, checkpoint=folder, names=names, peers=PEERS)
        )

    @functools.cached_property
    def cells(self):
        """Return the cells of our schemes and of the peers."""
        return self._cells((*self.size.schemes, *PEERS), self.size.exponents, self.size.ys, "schemes")

    @functools.cached_property
    def fewer_steps(self):
        """Return the cells of Metropolis with B = B* / C, at y = 4."""
        return self._cells(STEPS, self.size.exponents_3, (4.0,), "steps")

    def of(self, name, cells=None):
        """{(n, y): cell} of a scheme."""
        cells = self.cells if cells is None else cells
        return {(cell["n"], cell["y"]): cell for cell in cells if cell["scheme"] == name}

    def figure_2(self):
        shown = [c for c in self.cells if c["y"] in (0.0, 1.0, 2.0, 3.0, 4.0)]
        names = (*self.size.schemes, *PEERS)
        scaled = [cell | {"printed_k": self._as_printed(cell)} for cell in shown]
        figure = figures.lines(scaled, "printed_k", names=names, label="bias share of K = 256")
        caption = (
            "Bias share of the MSE as 256 vectors would have it, 1/256 + 255/256 |bias|^2 / MSE; 1/256 = "
            "0.0039 is none. "
            "Dashed: float32 prefix sums. Systematic schemes, with one random number a vector, only where K "
            ">= 64."
        )
        self.page.draw(figure, caption, sampled=True)
        y = 2.0 if 2.0 in self.size.ys else self.size.ys[0]
        self._table_of_bias(names, y)
        names = "", "N", "float32 prefix sums", "ours", "ours / theirs"
        self.page.table(f"The claim: |bias|^2 / MSE at the largest N, y = {y:g}", names, self.claims(y))
        self.page.add_paragraph(
            "Multinomial, stratified and systematic resampling by prefix sums in single precision gain a "
            "bias from",
            "about 2^19 particles on, because sums and N W / W_N + u keep 24 bits. Metropolis and rejection "
            "have no",
            "sums; ours add whole numbers of up to 51 bits. Systematic resampling has one random number "
            "per vector:",
            "its bias share is known to some K numbers only, so its row scatters about 0 far more than the "
            "others.",
        )

    def _table_of_bias(self, names, y):
        sizes = sorted({n for n, _ in self.of(SCHEMES[0])})
        rows = []
        for name in names:
            cells = self.of(name)
            rows.append((name, *(f"{excess(cells[n, y]):.4f}" if (n, y) in cells else "" for n in sizes)))
        caption = f"|bias|^2 / MSE at y = {y:g}; the 1 / K that unbiased vectors have too is taken off"
        self.page.table(caption, ("", *(f"2^{n.bit_length() - 1}" for n in sizes)), rows)

    @staticmethod
    def _as_printed(cell):
        """Return the bias share with the paper's K, from |bias|^2 / MSE; None where too few vectors say
        too little."""
        if cell["scheme"].startswith("systematic") and cell["runs"] < 64:
            return None
        return max(1.0 / _PRINTED_K + (1.0 - 1.0 / _PRINTED_K) * excess(cell), 1e-4)

    def claims(self, y=2.0):
        """(peer, N, its |bias|^2 / MSE, ours, their ratio) at the largest N of each peer but systematic
        ones."""
        for peer in (name for name in PEERS if not name.startswith("systematic")):
            name = peer.partition(",")[0]
            n = max(n for n, at in self.of(peer) if at == y)
            theirs, ours = excess(self.of(peer)[n, y]), excess(self.of(name)[n, y])
            yield peer, n, theirs, ours, ours / theirs

    def figure_3(self):
        cells = [cell | {"times_k": cell["runs"] * cell["bias_share"]} for cell in self.fewer_steps]
        self._draw_fewer_steps(cells)
        n = max(n for n, _ in self.of(STEPS[0], cells))
        steps = metropolis_steps(weight_set(n, 4.0, 0, "float32"), space=self.space)
        rows = []
        for name in STEPS:
            c, cell = int(name[-1]), self.of(name, cells)[n, 4.0]
            found = cell["times_k"], excess(cell), cell["mse"], cell["seconds"]
            rows.append((f"C = {c}", math.ceil(steps / c), *found))
        heads = ("", "steps", "bias share x K", "|bias|^2 / MSE", "MSE / N", "seconds")
        self.page.table(f"N = {n:,}, y = 4", heads, rows)
        self.page.add_paragraph(
            "Printed: the bias matches that of the multinomial resampler for C = 1 and increases noticeably "
            "for",
            "C >= 2, MSE increases slightly, time falls about linearly with C.",
        )

    def _draw_fewer_steps(self, cells):
        figure = page.new_figure(9.0, 3.0)
        panels = figure.subplots(1, 3)
        quantities = ("times_k", "bias share x K"), ("mse", "MSE / N"), ("seconds", "seconds")
        for panel, (quantity, label) in zip(panels, quantities):
            for name in STEPS:
                own = sorted((c for c in cells if c["scheme"] == name), key=lambda c: c["n"])
                values = [c[quantity] for c in own]
                panel.plot([c["n"] for c in own], values, marker=".", label=f"B* / {name[-1]}")
            panel.set_xscale("log", base=2)
            panel.set(xlabel="N", title=label, yscale="linear" if quantity == "mse" else "log")
        panels[0].legend(fontsize="small")
        caption = "Metropolis at y = 4 with B = B* / C steps for C = 1, 2, 4, 8: bias, error, time."
        self.page.draw(figure, caption)

    def figure_4(self):
        names = (*self.size.schemes, *PEERS)
        figure = figures.lines(self._whole_ys(), "mse", names=names)
        self.page.draw(figure, "MSE / N of our schemes and of float32 prefix sums.", sampled=True)
        self.page.add_paragraph(
            "Printed: the stratified resampler has less error than the multinomial one, the systematic one "
            "mostly",
            "less again; rejection goes from the stratified end towards the multinomial one as y grows, "
            "Metropolis is",
            "multinomial throughout.",
        )

    @functools.cached_property
    def helpers(self):
        """{"sorting" or "effective sample size": {n: seconds}}."""
        found = {"sorting": {}, "effective sample size": {}}
        for e in self.size.exponents:
            w = pk.copy_of(weight_set(1 << e, 2.0, 0, "float32"), self.space)
            with pk.use(self.space):
                found["sorting"][1 << e] = page.seconds(lambda: pk.argsort(w), 2, self.space)
                found["effective sample size"][1 << e] = page.seconds(
                    lambda: effective_sample_size(w, space=self.space), 2, self.space
                )
        return found

    def figure_5(self):
        extra = self.helpers.items()
        figure = figures.lines(self._whole_ys(), "seconds", names=self.size.schemes, extra=extra)
        caption = "Seconds until permuted ancestors; dotted: sorting, effective sample size."
        self.page.draw(figure, caption, sampled=True)
        some = [cell for cell in self.cells if cell["n"] in (1 << 4, 1 << 10, 1 << 16, 1 << 22)]
        figure = figures.lines(some, "seconds", by="y", names=self.size.schemes)
        self.page.draw(figure, "The same over y.", sampled=True)
        n = max(self.size.exponents)
        rows = [(name, *(self._time(name, 1 << n, y) for y in self.size.ys)) for name in self.size.schemes]
        rows += [(name, *(times[1 << n] for _ in self.size.ys)) for name, times in extra]
        self.page.table(f"Seconds at N = 2^{n}", ("", *(f"y = {y:g}" for y in self.size.ys)), rows)
        self.page.add_paragraph(
            "Printed, as curves without numbers: multinomial, stratified and systematic do not depend on y,",
            "Metropolis and rejection do. A GPU's times:",
            "not run here." if kind_of(self.space) == "cpu" else "the above.",
        )

    def _whole_ys(self):
        """Return cells of the values of y that the paper draws."""
        return [cell for cell in self.cells if cell["y"] in (0.0, 1.0, 2.0, 3.0, 4.0)]

    def _time(self, name, n, y):
        cell = self.of(name).get((n, y))
        return "left out" if cell is None else f"{cell['seconds']:.3g}"

    def figure_6(self):
        cells = [*self.cells, *self.beside]
        for kind, best in decisions(cells).items():
            if kind != "both" or len({cell["kind"] for cell in cells}) == 2:
                names = sorted(set(best.values()))
                counts = (f"{n} in {list(best.values()).count(n)}" for n in names)
                caption = f"The fastest, {kind}, of {len(best)} cells: {', '.join(counts)}."
                self.page.draw(figures.matrix(best, kind), caption)
        if len({cell["kind"] for cell in cells}) == 1:
            self.page.add_paragraph(
                "The other machine: not run here. A study.json of it (`python -m portable.models.resampling "
                "experiment`) joins by",
                "--beside. Printed: the GPU is not worth while below 2^10 particles, systematic is a good "
                "choice overall,",
                "Metropolis or rejection are fastest in a part of the low variances.",
            )

    def counts(self):
        """Return the numbers of sets and vectors of each cell: one for schemes that cost alike."""
        like = {
            "multinomial": "all schemes but these",
            "metropolis": "Metropolis, Megopolis",
            "rejection": "rejection",
        }
        heads = ("N", *(f"y = {y:g}" for y in self.size.ys))
        for name, words in like.items():
            cells = self.of(name)
            rows = [
                (f"2^{e}", *(_count(cells.get((1 << e, y))) for y in self.size.ys))
                for e in self.size.exponents
            ]
            self.page.table(f"Sets x vectors of each: {words}", heads, rows)
        sizes = sorted(n for n, _ in self.of(STEPS[0], self.fewer_steps))
        rows = [
            (name, *(_count(self.of(name, self.fewer_steps).get((n, 4.0))) for n in sizes)) for name in STEPS
        ]
        heads = ("", *(f"2^{n.bit_length() - 1}" for n in sizes))
        self.page.table("Sets x vectors of Figure 3, y = 4", heads, rows)
        design = self.size.design
        left_out = f"Cells that would cost more than {design.limit:,.0f} even so are left out."
        self.page.add_paragraph(
            f"As printed: {_PRINTED_SETS} x {_PRINTED_K}, of which each cell says its share. Here at most "
            f"{design.n_sets} x {design.n_runs}; where a cell would cost more",
            f"than {design.most:,} particles (eight steps of a chain, or proposals, cost as much as one "
            f"particle of",
            "another scheme) there are fewer vectors, then fewer sets, but one set of four vectors at least.",
            left_out if math.isfinite(design.limit) else "",
        )


def _count(cell):
    """Sets and vectors, and their share of those that are printed."""
    if cell is None:
        return "left out"
    share = cell["sets"] * cell["runs"] / (_PRINTED_SETS * _PRINTED_K)
    return f"{cell['sets']} x {cell['runs']}{'' if share >= 1.0 else f', {100.0 * share:.2g} %'}"


if __name__ == "__main__":
    page.main(Paper)
