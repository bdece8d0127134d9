"""The figures and the table of kEDM's paper: neighbours, lookups, six data sets, intensities; its algorithms
beside ours.

None of the six recordings is public: series of their numbers and lengths are simulated. Optimal dimensions
are not printed either: they are drawn from 1 to 20.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

import portable as pk

import page
from page import Compared
from portable.models.edm.cross import cross_map
from portable.models.edm.neighbours import knn
from portable.models.edm.simulated import coupled_logistic

if TYPE_CHECKING:
    from portable.roofline.ceiling import Ceilings
    from portable.roofline.counts import Counts

E_MAX = 20
MOST_BYTES = 1 << 31  # of a simulated recording
# Series, steps, seconds of kEDM on a V100 with a Xeon Gold 6148, and on two EPYC 7742 of 64 cores.
TABLE_1 = {
    "Fish1_Normo": (154, 1_600, 3.0, 3.0),
    "Fly80XY": (82, 10_608, 11.0, 22.0),
    "Genes_MEF": (45_318, 96, 344.0, 96.0),
    "Subject6": (92_538, 3_780, 5_391.0, 12_145.0),
    "Subject11": (101_729, 8_528, 20_517.0, 43_812.0),
    "F1": (8_520, 29_484, 11_372.0, 23_001.0),
}


@dataclass(frozen=True)
class Size:
    """Steps and dimensions of the microbenchmarks, targets of the lookups; libraries and targets of Table
    1."""

    n_steps: int
    dims: tuple
    targets: tuple
    n_libraries: int
    n_targets: int
    most_steps: int = 100_000


@dataclass(frozen=True)
class Point:
    """A launch on the roofline.

    Attributes
    ----------
    what : str
    E : int
    counts : portable.roofline.counts.Counts
    seconds : float
    """

    what: str
    E: int
    counts: Counts
    seconds: float

    @property
    def rate(self) -> float:
        """Operations per second."""
        return self.counts.flops / self.seconds

    def taken(self, ceilings: Ceilings) -> dict[str, int]:
        """{memory level: bytes that the launch takes from it}, of the levels of which this is known."""
        from portable.roofline.attainable import Kernel

        return Kernel(self.what, self.counts, None, (self.seconds,), self.seconds).level_bytes(ceilings)

    def intensities(self, ceilings: Ceilings) -> dict[str, float]:
        """{memory level: operations per byte taken from it}, of levels that deliver something."""
        return {name: self.counts.flops / n for name, n in self.taken(ceilings).items() if n}


class Paper(page.Study):
    """See `page.Study`."""

    title = "kEDM: neighbours, lookups and cross maps: Figures 2 to 9 and Table 1"
    source = (
        "K. Takahashi et al.: kEDM, a performance-portable implementation of empirical dynamic modeling "
        "using "
        "Kokkos (PEARC 2021). float32 throughout."
    )
    settings = {
        "tiny": Size(200, (1, 5, 10), (8, 16), 1, 8, 200),
        "quick": Size(2_000, (1, 5, 10, 20), (32, 128), 1, 128, 10_608),
        "middle": Size(5_000, (1, 2, 5, 10, 15, 20), (32, 128, 512), 2, 1_024),
        "full": Size(10_000, tuple(range(1, E_MAX + 1)), (100, 1_000, 10_000), 16, 1 << 20),
    }
    sections = {
        "figure-2": "Figures 2 and 3: all nearest neighbours over E",
        "figure-4": "Figures 4 and 5: lookups over E and over the number of targets",
        "table-1": "Table 1: cross maps of six data sets",
        "figure-6": "Figures 6 to 9: rooflines of the pairwise distances and of the lookups",
    }

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.kedm, self.agreement, self.points = page.example("kedm"), {}, []

    # ---- neighbours
    def figure_2(self):
        x = np.random.default_rng(1931).random(self.size.n_steps, np.float32)
        rows = []
        for E in self.size.dims:
            theirs = self._algorithms_1_and_2(x, E)
            ours = self._timed(
                lambda: knn(x, E, dtype="float32", space=self.space), ("edm.bound", "edm.nearest")
            )
            rest = ours["all"] - ours.get("edm.bound", 0.0) - ours.get("edm.nearest", 0.0)
            parts = (ours.get("edm.bound", 0.0), ours.get("edm.nearest", 0.0), rest)
            rows.append((E, *theirs, sum(theirs), *parts, ours["all"], sum(theirs) / ours["all"]))
        names = (
            "E",
            "Algorithm 1",
            "Algorithm 2",
            "both",
            "bound",
            "nearest",
            "rest",
            "ours",
            "Algorithms / ours",
        )
        self.page.table(f"Seconds, {self.size.n_steps:,} steps, k = E + 1", names, rows)
        self._draw_split(rows)
        self.page.add_paragraph(
            "Both find the same neighbours"
            + self._agree("neighbours")
            + ". Algorithm 1 writes all n x n distances",
            "and Algorithm 2 reads them; edm.bound bounds each point's k-th distance and marks chunks of "
            "candidates in",
            "bits, edm.nearest visits the marked chunks alone. The rest includes copies of arrays, which "
            "the algorithms' times leave out.",
            "Figure 2 (V100): not run here." if not self.on_gpu else "",
            "The paper's curves have no numbers; that selection grows with E, for queues take scratch, is "
            "seen here too.",
        )

    def _draw_split(self, rows):
        figure = page.new_figure(8.0, 3.2)
        left, right = figure.subplots(1, 2, sharey=True)
        es = [row[0] for row in rows]
        left.stackplot(
            es, [row[1] for row in rows], [row[2] for row in rows], labels=("distances", "selection")
        )
        right.stackplot(
            es, *([row[k] for row in rows] for k in (4, 5, 6)), labels=("bound", "nearest", "rest")
        )
        left.set(xlabel="E", ylabel="seconds", title="the paper's Algorithms 1 and 2")
        right.set(xlabel="E", title="what edm.knn does")
        for axes in (left, right):
            axes.legend(fontsize="small", loc="upper left")
        self.page.draw(figure, "All nearest neighbours: time over the embedding dimension, split.")

    def _algorithms_1_and_2(self, x, E):
        """Return seconds of distances and of selection."""
        with pk.use(self.space):
            there, n, k = pk.copy_of(x), len(x) - E + 1, E + 1
            squared, distance, index = self.kedm.search(there, E)
            room = pk.scratch_bytes((E, x.dtype))
            policy = pk.TeamPolicy(n, self.kedm.TEAM, scratch_bytes=room)
            first = page.seconds(
                lambda: pk.parallel_for(policy, self.kedm.distances, E, 1, there, squared), 2, self.space
            )
            second = page.seconds(lambda: self.kedm.select(k, squared, distance, index), 2, self.space)
            self._count(
                "pairwise distances, Algorithm 1", E, first, policy, self.kedm.distances, E, 1, there, squared
            )
            found = distance.to_numpy()
        ours = knn(x, E, dtype="float32", space=self.space).distances
        self.agreement.setdefault("neighbours", []).append(float(np.abs(ours / found - 1.0).max()))
        return first, second

    def _agree(self, what):
        return f": distances differ by at most {max(self.agreement[what]):.1g} of themselves"

    # ---- lookups
    def figure_4(self):
        n, most = self.size.n_steps, max(self.size.targets)
        over_e = [(E, *self._lookups(E, n, self.size.targets[0])) for E in self.size.dims]
        middle = self.size.dims[len(self.size.dims) // 2]
        over_n = [(m, *self._lookups(middle, n, m)) for m in self.size.targets]
        names = "Algorithm 3", "edm.look_up", "Algorithm 3 / ours"
        self.page.table(
            f"Seconds of lookups of {self.size.targets[0]} targets of {n:,} steps", ("E", *names), over_e
        )
        self.page.table(f"Seconds at E = {middle}, by the number of targets", ("targets", *names), over_n)
        self._draw_lookups(over_e, over_n)
        self.page.add_paragraph(
            f"Up to {most:,} targets here. edm.look_up also adds up the sums of Pearson's correlation, "
            f"which Algorithm 3",
            "as the paper times it leaves out. Algorithm 3 stages a target in scratch, ours reads 32 or "
            "more targets",
            "side by side through the caches. Predictions agree"
            + self._agree("lookups").replace("distances ", "")
            + ".",
            "" if self.on_gpu else "Figure 4 (V100): not run here.",
        )

    def _draw_lookups(self, over_e, over_n):
        figure = page.new_figure(8.0, 3.0)
        for axes, rows, label in zip(figure.subplots(1, 2), (over_e, over_n), ("E", "targets")):
            axes.plot([row[0] for row in rows], [row[1] for row in rows], marker="o", label="Algorithm 3")
            axes.plot([row[0] for row in rows], [row[2] for row in rows], marker="o", label="edm.look_up")
            axes.set(xlabel=label, ylabel="seconds", ylim=(0.0, None))
        axes.legend(fontsize="small")
        self.page.draw(figure, "Lookups over E (left) and over the number of targets (right).")

    def _lookups(self, E, n, n_targets):
        """Return seconds of Algorithm 3 and of ours, and their ratio."""
        data = np.random.default_rng(E).random((n, n_targets + 1), np.float32)
        with pk.use(self.space):
            theirs, guess = self._algorithm_3(data, E)

        def ours():
            return cross_map(data, E, libraries=[0], space=self.space)

        seen = data[E - 1 :, 1:5].T.astype(float)
        skill = [np.corrcoef(p, t)[0, 1] for p, t in zip(guess[:4].astype(float), seen)]
        self.agreement.setdefault("lookups", []).append(float(np.abs(ours()[0, 1:5] - skill).max()))
        took = self._timed(ours, ("edm.look_up",))["edm.look_up"]
        return theirs, took, theirs / took

    def _algorithm_3(self, data, E):
        """Return seconds, and predictions of all columns but the first from that one."""
        kedm, (n, n_columns) = self.kedm, data.shape
        _, distance, index = kedm.search(pk.copy_of(data[:, 0].copy()), E)
        weight, targets = (
            pk.empty(distance.shape, np.float32),
            pk.copy_of(np.ascontiguousarray(data[:, 1:].T)),
        )
        predicted = pk.empty((n_columns - 1, distance.shape[0]), np.float32)
        pk.parallel_for(distance.shape[0], kedm.weigh, distance, weight)
        given = E - 1, weight, index, targets, predicted
        took = page.seconds(lambda: kedm.predict(*given), 2, self.space)
        if all((point.what, point.E) != ("lookups, Algorithm 3", E) for point in self.points):
            policy = pk.TeamPolicy(n_columns - 1, 128, scratch_bytes=pk.scratch_bytes((n, np.float32)))
            self._count("lookups, Algorithm 3", E, took, policy, kedm.look_up, *given)
        return took, predicted.to_numpy()

    def _timed(self, call, labels):
        """Return seconds of the launches of these labels in a call after one that compiles, and of "all", the
        least of two calls that no one hears: a fence at each launch takes longer than most launches."""
        found, begun, whole = {}, [], []

        def tell(phase, _, launch):
            pk.fence(self.space)
            now = time.perf_counter()
            if phase == "begin":
                begun[:] = [now]
            elif launch.label in labels:
                found[launch.label] = found.get(launch.label, 0.0) + now - begun[0]

        call()
        with pk.listening(tell):
            call()
        for _ in range(2):
            begin = time.perf_counter()
            call()
            whole.append(time.perf_counter() - begin)
        return found | {"all": min(whole)}

    # ---- Table 1
    def table_1(self):
        found = {name: self._share_of(*TABLE_1[name][:2]) for name in TABLE_1}
        rows = [(name, *TABLE_1[name][:2], *found[name]) for name in TABLE_1]
        names = (
            "",
            "series",
            "steps",
            "libraries",
            "targets",
            "share of pairs",
            "seconds",
            "seconds of all pairs",
        )
        self.page.table("Cross maps of a share of the libraries on a share of the targets", names, rows)
        where, column = ("a V100", 2) if self.on_gpu else ("two EPYC 7742 with 64 cores each", 3)
        notes = {name: "measured whole" if found[name][2] == 1.0 else "extrapolated" for name in TABLE_1}
        rows = [Compared(name, TABLE_1[name][column], found[name][-1], "s", notes[name]) for name in TABLE_1]
        self.page.compare(f"All pairs, beside kEDM on {where}", rows)
        self.page.add_paragraph(
            "The time of all pairs is n_series (a + b n_series): b is the time of lookups and correlations, "
            "and a",
            "of all else, neighbours of a library for all E above all. The printed CPUs have 128 cores.",
            'Dimensions are those of the targets, as in the paper (dims="target"), not of the libraries.',
            f"Series longer than {self.size.most_steps:,} steps were cut to that, and their time is taken "
            f"as the",
            "square of the length. The other machine of the table: not run here.",
        )

    def _share_of(self, n_series, n_steps):
        """(libraries, targets, share of the pairs, their seconds, seconds of all pairs)."""
        steps, m = min(n_steps, self.size.most_steps), min(self.size.n_libraries, n_series)
        most = min(self.size.n_targets, n_series, MOST_BYTES // (4 * steps))
        (library, lookup), took = self._cross_map(steps, m, most)
        total = n_series * (library + n_series * lookup) * (n_steps / steps) ** 2
        return m, most, float(f"{m / n_series * most / n_series:.2g}"), took, total

    def _cross_map(self, n_steps, m, n_targets):
        """((seconds of a library's neighbours, of a lookup), seconds of all) of m libraries and n targets."""
        data = coupled_logistic(n_steps, n_targets, burn=100)
        dims = np.random.default_rng(7).integers(1, E_MAX + 1, n_targets)
        dims[0] = E_MAX  # so that all searches are needed
        dims, libraries = np.minimum(dims, max(n_steps // 4, 1)), np.arange(min(m, n_targets))
        labels = "edm.look_up", "edm.correlate"
        times = self._timed(lambda: cross_map(data, dims, libraries=libraries, space=self.space), labels)
        lookups = sum(times[label] for label in labels)
        each = len(libraries)
        return ((times["all"] - lookups) / each, lookups / (each * n_targets)), times["all"]

    # ---- Figures 6 to 9
    def _count(self, what, E, seconds, policy, kernel, *args):
        """Note operations and bytes of a launch."""
        from portable import roofline  # for the page alone: other commands of the family do not wait for it

        with pk.use(self.space):
            counts = roofline.count(policy, kernel, *args)
        self.points.append(Point(what, E, counts, seconds))

    def figure_6(self):
        if not self.points:
            self.page.add_paragraph("Run together with figure-2 and figure-4, whose launches are counted.")
            return
        from portable import roofline

        ceilings = roofline.ceilings(self.space, quick=self.size_name == "tiny")
        levels = [name for name, _ in ceilings.near]
        rows = [
            (point.what, point.E, 1e-9 * point.rate, f"{point.counts.intensity:.3g}")
            + tuple(moved.get(name, "not known") for name in levels)
            + tuple(f"{point.counts.flops / moved[name]:.3g}" if moved.get(name) else "" for name in levels)
            for point in self.points
            for moved in [point.taken(ceilings)]
        ]
        names = ["kernel", "E", "Gflop/s", "flop / byte of the arrays once"]
        names += [f"bytes from {name}" for name in levels] + [f"flop / byte from {name}" for name in levels]
        self.page.table("Counted operations, and bytes that each memory level delivers", names, rows)
        self._draw_roofline(ceilings)
        self.page.add_paragraph(
            "Of the nearest level the bytes are the loads and stores that the compiler left (on a GPU its "
            "scratch stands for it); of those behind it what caches of the level before would fetch and "
            "write back, by a sample of the launch's accesses: a model, without sets and "
            "prefetch, on a GPU of the memory behind L2 alone. "
            "Printed: the intensity of the pairwise kernel grows with E, because the series is reused; both "
            "kernels are bound by memory or a cache, never by arithmetic. The first is seen in the counts. "
            "The roofs of the kernels that the project runs in their place are a report of their own: python "
            "-m portable.roofline report docs/worked/edm_kernels.py; those of an EPYC and of an H200 are in "
            "docs/reports (edm-epyc.html, edm-h200.html).",
        )

    def _draw_roofline(self, ceilings):
        """A mark for each kernel, E and memory level, below the slopes of the levels."""
        kinds = list(dict.fromkeys(point.what for point in self.points))
        marked = {
            kind: [(p.rate, p.intensities(ceilings)) for p in self.points if p.what == kind] for kind in kinds
        }
        known = [at for points in marked.values() for _, found in points for at in found.values()]
        ends = np.geomspace(min(known) / 2.0, max(known) * 2.0, 100)
        peak = ceilings.rate("fma float32")
        figure = page.new_figure(8.5, 3.8)
        for axes, kind in zip(figure.subplots(1, len(kinds), sharey=True, squeeze=False)[0], kinds):
            for number, (level, _) in enumerate(ceilings.near):
                roof = np.minimum(ends * ceilings.bandwidth(level), peak)
                axes.plot(ends, 1e-9 * roof, color=f"C{number}", linewidth=0.8)
                own = [(found[level], 1e-9 * rate) for rate, found in marked[kind] if level in found]
                x, y = zip(*own) if own else ((), ())
                axes.plot(x, y, color=f"C{number}", marker="o", markersize=4, label=level)
            axes.set(xscale="log", yscale="log", xlabel="flop / byte", title=kind)
        axes.figure.axes[0].set_ylabel("Gflop/s")
        axes.legend(fontsize="x-small")
        self.page.draw(
            figure,
            "Rooflines by memory level: a mark for each E and level, joined in the order of E, and of each "
            "level the measured roof.",
        )


if __name__ == "__main__":
    page.main(Paper)
