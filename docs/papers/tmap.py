"""Table 1 and Figures 3 and 4 of Brazenas, Horvath and Telek, and the claim of their section 5, on simulated
runs.

Their two traces are not published. Runs of the same number and mean length are drawn from a process of
orders 1, 2 and 3, so log-likelihoods are of other data: what can be compared is how far single precision is
from double, and the time.
"""

from __future__ import annotations

import functools
import time
from dataclasses import dataclass

import numpy as np

import page
from page import Compared
from portable.models.tmap.em import EM
from portable.models.tmap.fit import fit, paper_start
from portable.models.tmap.model import TransientMAP
from portable.models.tmap.runs import Runs

ORDERS, N_ITERATIONS = (1, 2, 3), 30
# Data set: runs, gaps, and by implementation the log-likelihood and seconds that are printed.
PRINTED = {
    "1 million runs": (
        1_000_000,
        8_824_586,
        {
            "Java (double)": (-3.65998e7, 862.0),
            "C++ (double)": (-3.65998e7, 381.0),
            "C++ (single)": (-3.65902e7, 404.0),
            "CUDA (single)": (-3.65997e7, 46.0),
        },
    ),
    "2 million runs": (
        2_000_000,
        14_503_248,
        {
            "Java (double)": (-5.73999e7, 1335.0),
            "C++ (double)": (-5.73999e7, 628.0),
            "C++ (single)": (-5.73752e7, 664.0),
            "CUDA (single)": (-5.73997e7, 73.0),
        },
    ),
}
LIKE = {
    ("serial", "float64"): "C++ (double)",
    ("serial", "float32"): "C++ (single)",
    ("cuda", "float32"): "CUDA (single)",
}


@dataclass(frozen=True)
class Size:
    """share: of the runs that are printed; then the runs, starts and steps of the comparison with
    unrestricted matrices."""

    share: float
    n_runs: int
    n_starts: int
    n_steps: int


def runs_like(data, share=1.0, seed=1):
    """Return simulated runs of a data set's number and mean length."""
    n_runs, n_gaps, _ = PRINTED[data]
    going_on = 1.0 - n_runs / n_gaps
    truth = TransientMAP(
        [0.5, 0.3, 0.2],
        ORDERS,
        [4.0, 1.0, 0.5],
        going_on * np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.2, 0.1, 0.7]]),
    )
    return truth.simulate(max(int(share * n_runs), 10), seed=seed, space="serial")


class Paper(page.Study):
    """See `page.Study`."""

    title = "EM for transient Markovian arrival processes: Table 1, Figures 3 and 4"
    source = (
        "M. Brazenas, G. Horvath, M. Telek: Efficient implementations of the EM-algorithm for transient "
        "Markovian arrival "
        "processes. Three branches of orders 1, 2, 3; 30 iterations from one start by the rule of section "
        "4.1."
    )
    settings = {
        "tiny": Size(0.0005, 40, 2, 40),
        "quick": Size(0.02, 60, 2, 60),
        "middle": Size(0.25, 100, 4, 200),
        "full": Size(1.0, 100, 8, 300),
    }
    sections = {
        "table-1": "Table 1: log-likelihoods and times",
        "figure-3": "Figure 3: log-likelihood by iteration, first data set",
        "figure-4": "Figure 4: log-likelihood by iteration, second data set",
        "general": "Section 5: the special structure against unrestricted matrices",
        "real": "The same on real runs",
    }

    @functools.cached_property
    def ends(self):
        """{"branches" or "unrestricted": log-likelihoods of the fitted and of new runs}, once `general`
        ran."""
        return {}

    @functools.cached_property
    def timed(self):
        """{data: (runs, {(space, dtype): (history, seconds)})}, of spaces on this machine."""
        found = {}
        for data in PRINTED:
            runs = runs_like(data, self.size.share)
            start, times = paper_start(runs, ORDERS), {}
            for space in self.spaces():
                for dtype in ("float64", "float32"):
                    em = EM(runs, start.orders, 1, np.dtype(dtype).type, space)
                    em.run_em([start], N_ITERATIONS, 0.0)  # compiles
                    begin = time.perf_counter()
                    ((_, history, *_),) = em.run_em([start], N_ITERATIONS, 0.0)
                    times[space, dtype] = history, time.perf_counter() - begin
            found[data] = runs, times
        return found

    def table_1(self):
        """Ours on each space of this machine, from the same start."""
        names = "", "log-likelihood", "for each gap", "time", "ns a gap and iteration", "beside"
        for data, (runs, times) in self.timed.items():
            n_runs, n_gaps, printed = PRINTED[data]
            rows = []
            for (space, dtype), (history, seconds) in times.items():
                like = LIKE.get((space.partition(":")[0], dtype), "")
                rows.append(_row(f"portable, {space}, {dtype}", history[-1], seconds, runs.n_gaps, like))
            rows += [
                _row(name, value, seconds, n_gaps, "printed") for name, (value, seconds) in printed.items()
            ]
            caption = (
                f"{data}: {runs.n_runs:,} runs, {runs.n_gaps:,} gaps here ({runs.n_runs / n_runs:.1%} of "
                f"the runs), "
                f"{n_gaps:,} there; 30 iterations"
            )
            self.page.table(caption, names, rows, words=(5,))
        self.page.compare(
            "What can be compared: times for each gap and iteration, and single precision less double, as a "
            "share of the "
            "log-likelihood",
            self._comparable(),
        )
        self.page.add_paragraph(
            "The printed runs were timed on an Intel Core 2 of 2.1 GHz and a GeForce GTX 560 Ti, so the "
            "times compare",
            "machines more than programs. In single precision ours differs far less from double: "
            "likelihoods are",
            "divided by the largest branch's at each gap, and sums over gaps are in double precision. The "
            "paper",
            "rescales by powers of two; that its CUDA runs, too, are near the double ones, though in single "
            "precision,",
            "suggests that its C++ loses in long sums.",
        )

    def _comparable(self):
        for data, (runs, times) in self.timed.items():
            _, n_gaps, printed = PRINTED[data]
            for (machine, dtype), like in LIKE.items():
                here = [
                    space for space, kind in times if kind == dtype and space.partition(":")[0] == machine
                ]
                was = 1e9 * printed[like][1] / (N_ITERATIONS * n_gaps)
                ours = 1e9 * times[here[0], dtype][1] / (N_ITERATIONS * runs.n_gaps) if here else None
                yield Compared(
                    f"{data}, {like} against {machine}, {dtype}", was, ours, "ns", "a gap and iteration"
                )
            exact = printed["C++ (double)"][0]
            for like in ("C++ (single)", "CUDA (single)"):
                on_gpu = like.startswith("CUDA")
                here = [
                    space for space, kind in times if kind == "float32" and space.startswith("cuda") == on_gpu
                ]
                ours = self.lost(data, here[0]) if here else None
                yield Compared(
                    f"{data}, {like}: |single less double| of the log-likelihood",
                    abs(printed[like][0] - exact) / abs(exact),
                    ours,
                )

    def lost(self, data, space=None):
        """|float32 less float64| of the last log-likelihood, as a share of it."""
        times = self.timed[data][1]
        space = self.space if space is None else space
        single, double = (times[space, dtype][0][-1] for dtype in ("float32", "float64"))
        return abs(single - double) / abs(double)

    def figure_3(self):
        self._history("1 million runs")

    def figure_4(self):
        self._history("2 million runs")

    def _history(self, data):
        runs, times = self.timed[data]
        figure = page.new_figure(8.0, 3.2)
        left, right = figure.subplots(1, 2)
        first = self.spaces()[0]
        exact = times[first, "float64"][0]
        left.plot(exact, marker=".")
        left.set(xlabel="iteration", ylabel="log-likelihood", title=f"float64, {first}")
        for (space, dtype), (history, _) in times.items():
            if (space, dtype) != (first, "float64"):
                right.plot(history - exact, marker=".", label=f"{space}, {dtype}")
        right.set(xlabel="iteration", ylabel="difference", title=f"less float64, {first}")
        right.legend(fontsize="small")
        self.page.draw(figure, f"{data}, {runs.n_gaps:,} gaps. Left: float64; right: the others less it.")
        if not any(space.startswith("cuda") for space, _ in times):
            self.page.add_paragraph("GPU: not run here (--space cuda).")

    def general(self):
        """EM of unrestricted matrices of as many states against branches of orders 1, 2, 3, and both on new
        runs."""
        share = self.size.n_runs / 1_000_000
        runs, fresh = (runs_like("1 million runs", share, seed=seed) for seed in (2, 4))
        kinds = {
            "branches of orders 1, 2, 3": (14, self._branches),
            "unrestricted matrices, 6 states": (77, self._matrices()),
        }
        rows, histories = [], {}
        for name, (n_parameters, fitted) in kinds.items():
            begin = time.perf_counter()
            found = [fitted(runs, fresh, k) for k in range(self.size.n_starts)]
            each = (time.perf_counter() - begin) / len(found)
            rows.append((name, *self._ends(name, n_parameters, runs, found), f"{each:.3g} s"))
            histories[name] = [history for history, _ in found]
        caption = (
            f"Log-likelihood after {self.size.n_steps} steps from {self.size.n_starts} starts, "
            f"{runs.n_runs} runs "
            f"with {runs.n_gaps:,} gaps; the best model's log-likelihood of {fresh.n_runs} other runs"
        )
        self.page.table(caption, ("", "parameters", "best", "median", "BIC", "of new runs", "a start"), rows)
        self._draw_histories(histories, min(row[3] for row in rows))
        self._say_of_ends()

    def _draw_histories(self, histories, low):
        figure = page.new_figure()
        axes = figure.subplots()
        for color, (name, lines) in enumerate(histories.items()):
            for k, history in enumerate(lines):
                axes.plot(history, color=f"C{color}", label=name if k == 0 else None)
        axes.set(xlabel="EM step", ylabel="log-likelihood", ylim=(low - 0.1 * abs(low), None))
        axes.legend()
        self.page.draw(figure, "Log-likelihood of the fitted runs by step, a line for each start.")

    def _branches(self, runs, fresh, k):
        """Return the history of a start, and where it leads on other runs."""
        how = {"start": "paper", "seed": k, "max_iter": self.size.n_steps, "tol": 0.0}
        model, info = fit(runs, orders=ORDERS, space=self.space, **how)
        return info.history, model.log_likelihood(fresh, space=self.space)

    def _matrices(self):
        """Return the same for unrestricted matrices."""
        unrestricted, random = page.example("unrestricted_map"), np.random.default_rng(3)

        def fitted(runs, fresh, _):
            n_states = sum(ORDERS)
            history, model = unrestricted.fit(
                runs.values, runs.lengths, n_states, self.size.n_steps + 1, random
            )
            return history, unrestricted.log_likelihood(model, fresh.values, fresh.lengths)

        return fitted

    def _ends(self, name, n_parameters, runs, found):
        """For the table: the parameters, the best end, the median, BIC, and the best one's on new runs."""
        ends = np.array([history[-1] for history, _ in found])
        best = int(ends.argmax())
        self.ends[name.split()[0]] = ends[best], found[best][1], float(np.median(ends))
        bic = n_parameters * np.log(runs.n_runs) - 2.0 * ends[best]
        return n_parameters, ends[best], np.median(ends), bic, found[best][1]

    def _say_of_ends(self):
        special, general = self.ends.values()
        self.page.add_paragraph(
            "The paper says, without numbers, that the special structure ends with the higher likelihood. "
            "Seen",
            f"here: on the runs that are fitted it ends {_than(special[0], general[0])}, on new runs of the "
            f"same",
            f"process {_than(special[1], general[1])}; its median start ends "
            f"{_than(special[2], general[2])}'",
            "median, so that it depends more on where it starts. Unrestricted matrices contain every "
            "process of such"
            if special[2] < general[2]
            else "median. Unrestricted matrices contain every process of such",
            "branches, so a higher likelihood of the special structure can only be one of EM that has "
            "not converged;",
            "what five times as many parameters gain on the fitted runs they may lose on others. The EM of",
            "unrestricted matrices is docs/examples/papers/unrestricted_map.py.",
        )

    def real(self):
        """Single less double precision on runs that people and browsers made."""
        rows = []
        for name, file, resolution in (
            ("CDNOW, days between purchases", "cdnow_interpurchase_days.npz", None),
            ("NASA's web server, seconds between requests", "nasa_http_19950801_sessions.npz", 1.0),
        ):
            path = self.file("tmap", file)
            if path is None:
                continue
            with np.load(path) as given:
                runs = Runs(given["x"], given["K"], resolution=resolution)
            most = {"tiny": 200, "quick": 2_000}.get(self.size_name, runs.n_runs)
            runs = runs.subset(slice(0, most))
            ends = [
                fit(
                    runs,
                    orders=ORDERS,
                    start="paper",
                    max_iter=N_ITERATIONS,
                    tol=0.0,
                    dtype=dtype,
                    space=self.space,
                )[1].history[-1]
                for dtype in ("float64", "float32")
            ]
            rows.append((name, runs.n_runs, runs.n_gaps, f"{ends[0]:.4f}", f"{ends[1] - ends[0]:.2g}"))
        if rows:
            self.page.table(
                "30 iterations from the paper's start",
                ("", "runs", "gaps", "log-likelihood, float64", "float32 less it"),
                rows,
            )
        else:
            self.page.add_paragraph("Not run here: --data FOLDER that holds tmap/*.npz is wanted.")


def _row(name, log_likelihood, seconds, n_gaps, beside):
    """Return the row of Table 1."""
    each = 1e9 * seconds / (N_ITERATIONS * n_gaps)
    return (
        name,
        f"{log_likelihood:.8g}",
        f"{log_likelihood / n_gaps:.6f}",
        f"{seconds:.3g} s",
        f"{each:.3g}",
        beside,
    )


def _than(a, b):
    return f"{abs(a - b):.1f} {'above' if a >= b else 'below'} unrestricted matrices"


if __name__ == "__main__":
    page.main(Paper)
