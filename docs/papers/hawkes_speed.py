"""Figure 1 of Holbrook et al.: the time of a likelihood over threads, lanes and events."""

from __future__ import annotations

import numpy as np

import portable as pk

import page
from page import Compared
from portable.models.hawkes.likelihood import Likelihood
from portable.models.hawkes.parameters import Parameters

algorithm_2 = page.example("algorithm_2", "tests/models/hawkes")
FITTED = Parameters(mu0=0.85, tau_x=1.6, tau_t=336.0, theta=0.153, omega=60.0, h=0.0695)
# Seconds of one likelihood of 75,000 events, and what of ours is set beside them.
N_TIMED = 75_000
TIMED = {
    "not vectorised, one thread": (117.16, "Algorithm 2, scalar, serial"),
    "SSE, 2 lanes, one thread": (96.94, "Algorithm 2, 2 lanes, serial"),
    "AVX, 4 lanes, one thread": (77.19, "Algorithm 2, 4 lanes, serial"),
    "AVX, 18 threads": (6.93, "ours, float64, threads"),
    "GPU (Titan V)": (0.73, "ours, float64, cuda"),
}
_THREADS = 2, 4, 6, 8, 10, 12, 14, 16, 18


class Speed(page.Study):
    """The section of the paper's page that times likelihoods."""

    def figure_1(self):
        """Left: over threads and lanes."""
        n = self.size.n_timed
        few = max(n // 8, 200)
        events, one = _events(n, 1), self.spaces()[0]
        seconds = self._printed_way(events, few, one) | self._our_way(events)
        first = "ours, float64, serial" if "ours, float64, serial" in seconds else next(iter(seconds))
        caption = (
            f"Seconds of one log-likelihood of {n:,} events; Algorithm 2 timed with {few:,} events, times "
            f"({n:,} / {few:,})^2"
        )
        rows = [(name, took, seconds[first] / took) for name, took in seconds.items()]
        self.page.table(caption, ("", "seconds", f"speed beside {first}"), rows)
        caption = f"Beside the printed times of {N_TIMED:,} events, ours by the square of N"
        self.page.compare(caption, self._beside(seconds, n))
        self.page.add_paragraph(
            "Algorithm 2 is one text, compiled for so many events at a time (@pk.kernel(packed=n)), a lane",
            "each; 16 lanes of float64 take two registers of AVX-512. Ours holds 8 lanes of float64 or 16 of",
            "float32. The printed likelihood meets all n x n pairs; ours meets each pair once. The paper's",
            "processor is a Xeon W-2155 with 10 cores.",
        )
        self._over_n()

    def _printed_way(self, events, few, one):
        """{what: seconds of all events} of Algorithm 2 on one thread over lanes, or on the GPU."""
        kernels = {"a thread an event": algorithm_2.packed}
        if not self.on_gpu:
            kernels = {
                "scalar" if n == 1 else f"{n} lanes": kernel for n, kernel in algorithm_2.BY_LANES.items()
            }
        seconds = {}
        for name, kernel in kernels.items():
            call = algorithm_2.log_rates(kernel, events[0][:few], events[1][:few], FITTED, one)
            took = page.seconds(call, 2, one)
            seconds[f"Algorithm 2, {name}, {one}"] = took * (len(events[1]) / few) ** 2
        return seconds

    def _our_way(self, events):
        """Return the same of the likelihood, over precisions and threads."""
        seconds = {}
        with pk.use(self.space):
            most = pk.concurrency()
        some = [] if self.on_gpu or most == 1 else [*(k for k in _THREADS if k < most), most]
        for precision in ("float64", "mixed"):
            how = {"method": "all_pairs", "dtype": precision, "keep_background": False}
            for space in (self.spaces()[0], *(f"threads:{k}" for k in some)):
                likelihood = Likelihood(*events, **how, space=space)
                took = page.seconds(lambda one=likelihood: one.log_likelihood(FITTED), 2, space)
                seconds[f"ours, {precision}, {space}"] = took
        return seconds

    def _beside(self, seconds, n):
        """Printed times, and those of what comes nearest."""
        for name, (printed, like) in TIMED.items():
            found = [what for what in seconds if like and what.startswith(like)]
            ours = seconds[found[-1]] * (N_TIMED / n) ** 2 if found else None
            yield Compared(name, printed, ours, "s", found[-1] if found else "")

    def _over_n(self):
        """Right: over the number of events."""
        figure = page.new_figure(5.0, 3.2)
        axes, self.curve = figure.subplots(), {n: [] for n in self.size.n_curve}
        for space in self.spaces():
            for n, times in self.curve.items():
                likelihood = Likelihood(
                    *_events(n, 2), method="all_pairs", keep_background=False, space=space
                )
                times.append(page.seconds(lambda one=likelihood: one.log_likelihood(FITTED), 1, space))
            axes.plot(list(self.curve), [times[-1] for times in self.curve.values()], marker="o", label=space)
        axes.set(xlabel="events", ylabel="seconds")
        axes.legend()
        self.page.draw(figure, "Seconds of one log-likelihood over the number of events, all pairs, float64.")
        if not self.on_gpu:
            self.page.add_paragraph("GPU: not run here (--space cuda).")


def _events(n, seed):
    random = np.random.default_rng(seed)
    return random.random((n, 2)) * 20.0, np.sort(random.random(n)) * 1000.0 * n / 75.0
