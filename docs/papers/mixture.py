"""Appendices B and C of Suchard et al.: densities by padded blocks, covariances entry by entry, beside what
is done here."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

import portable as pk

import page
from portable.models.mixture import covariance
from portable.models.mixture.blocks import Components, Points
from portable.models.mixture.density import log_density
from portable.models.mixture.prior import WithoutPrior
from portable.models.mixture.steps import FullSteps, HostSteps

P = 14  # coordinates, as the worked examples have them
ENTRIES = P * (P + 1) // 2
SIGMAS = {
    1: "calcSigma as printed, a launch an entry",
    2: "one launch, an index an entry",
    3: "one team per entry",
    4: "squares of entries in registers",
}


@dataclass(frozen=True)
class Size:
    """Points and components of the densities, of calcSigma, and of an iteration."""

    n: int
    k: int
    n_sigma: int
    k_sigma: int
    repeats: int = 3


class Paper(page.Study):
    """See `page.Study`."""

    title = "Massively parallel mixtures: mvNormalPDF and calcSigma of Appendices B and C"
    source = (
        "M. A. Suchard, Q. Wang, C. Chan, J. Frelinger, A. Cron, M. West: Understanding GPU programming for "
        "statistical "
        "computation (JCGS 2010), Appendices B and C: two kernels, without any time, so nothing printed can "
        "be compared."
    )
    settings = {
        "tiny": Size(640, 16, 500, 4, 1),
        "quick": Size(10_000, 64, 2_000, 16, 2),
        "middle": Size(100_000, 64, 20_000, 16),
        "full": Size(1_000_000, 256, 100_000, 64),
    }
    sections = {
        "appendix-b": "Appendix B: densities by padded blocks of 32 x 16",
        "appendix-c": "Appendix C: covariances by calcSigma",
        "iteration": "Where the time of an iteration goes",
    }

    def _problem(self, n, k):
        random = np.random.default_rng(0)
        means, spread = random.normal(0.0, 2.0, (k, P)), random.normal(size=(k, P, P)) / 4.0
        covariances = np.eye(P) + spread @ spread.transpose(0, 2, 1)
        x = means[random.integers(0, k, n)] + random.normal(size=(n, P))
        return x, means, covariances, np.full(k, 1.0 / k)

    def appendix_b(self):
        size = self.size
        rows = [self._densities(dtype) for dtype in ("float64", "float32")]
        names = (
            "",
            "blocks, s",
            "ours, s",
            "blocks / ours",
            "Gflop/s, blocks",
            "Gflop/s, ours",
            "MB that blocks touch",
        )
        caption = f"{size.n:,} points, {P} coordinates, {size.k} components; operations without exponentials"
        self.page.table(caption, names, rows)
        self.page.add_paragraph(
            "The padded blocks are the appendix's kernel: docs/examples/papers/mv_normal_pdf.py. They store "
            "n x k",
            "densities, which have to be read again; ours adds the logarithms of a tile of points up while "
            "the",
            "densities are in registers or cache, so neither padding nor staging of whole records is "
            "needed. The",
            f"logarithms of the mixture's densities differ by at most {self.error:.1g} in float32.",
        )

    def _densities(self, dtype):
        """Return a row: seconds of the blocks and of ours, and their rates."""
        n, k = self.size.n, self.size.k
        x, means, covariances, weights = self._problem(n, k)
        factors, x = covariance.factors_of("full", covariances), x.astype(dtype)
        theirs, found, n_bytes = self._blocks(x, means, covariances, weights)
        there = Points(x, k, self.space, x.mean(axis=0, dtype=np.float64), diagonal=False)
        components = Components(np.log(weights), means, factors)
        ours = page.seconds(lambda: there.log_densities(components), self.size.repeats, self.space)
        value = log_density(x, means, factors, weights, space=self.space)
        self.error = float(np.abs(np.log(found.sum(axis=1)) - value).max())
        flops = 1e-9 * n * k * (P * (P + 1) + 3 * P)  # triangular products, differences, squares
        return dtype, theirs, ours, theirs / ours, flops / theirs, flops / ours, n_bytes / 1e6

    def _blocks(self, x, means, covariances, weights):
        """Return seconds of the appendix's kernel, its densities and the bytes of its arrays."""
        blocks, dtype = page.example("mv_normal_pdf"), x.dtype
        with pk.use(self.space):
            points = pk.copy_of(blocks.padded(x, dtype))
            records = pk.copy_of(blocks.records_of(means, covariances, weights, dtype))
            pdf = pk.zeros((points.shape[0], records.shape[0]), dtype)
            took = page.seconds(lambda: blocks.densities(points, records, pdf), self.size.repeats, self.space)
            found = pdf.to_numpy()[: len(x), : len(means)].astype(float)
        return took, found, pdf.nbytes + points.nbytes + records.nbytes

    def appendix_c(self):
        n, k = self.size.n_sigma, self.size.k_sigma
        random = np.random.default_rng(0)
        x, r, means = random.normal(size=(n, P)), random.random((n, k)), random.normal(size=(k, P))
        took = [self._sigma(step, r, x, means) for step in SIGMAS]
        points = Points(x, k, self.space, np.zeros(P), diagonal=False)
        components = Components(np.log(np.full(k, 1.0 / k)), means, np.tile(np.eye(P), (k, 1, 1)))
        took.append(page.seconds(lambda: points.sweep(components), self.size.repeats, self.space))
        self._table_of_sigmas(took, n, k)
        self.page.add_paragraph(
            "docs/roofline-worked.md goes from the first of these to the last, with their roofs. The sweep "
            "also",
            "makes what the others are given: the responsibilities. Shares of the machine's peak: python -m "
            "roofline",
            "compare mixture_em, and python -m portable.roofline report docs/worked/calc_sigma_1.py.",
        )

    def _table_of_sigmas(self, took, n, k):
        words = [f"calc_sigma_{step}.py: {text}" for step, text in SIGMAS.items()]
        words.append("ours: densities, responsibilities and all sums in one sweep")
        self.sigmas, flops = took, 4e-9 * n * k * ENTRIES
        rows = [(what, each, flops / each, each / took[-1]) for what, each in zip(words, took)]
        names = "", "seconds", "Gflop/s of the covariances", "times ours"
        self.page.table(f"{n:,} points, {P} coordinates, {k} components, float64", names, rows)

    def _sigma(self, step, r, x, means):
        """Return seconds of a worked example, whose covariances are checked."""
        module = page.example(f"calc_sigma_{step}", "docs/worked")
        wanted = np.array([np.tril((r[:, j] * (x - m).T) @ (x - m)) for j, m in enumerate(means)])
        with pk.use(self.space):
            there, out = [pk.copy_of(a) for a in (r, x, means)], pk.zeros(wanted.shape)

            def call():
                pk.deep_copy(out, 0.0)
                module.sigma(*there, out)

            took = page.seconds(call, self.size.repeats if step > 1 else 1, self.space)
            np.testing.assert_allclose(out.to_numpy(), wanted, rtol=1e-8, atol=1e-8)
        return took

    def iteration(self):
        """Shares of an EM iteration; of covariances other than full the new parameters are made by NumPy."""
        n, k, rows = self.size.n, self.size.k, []
        problem = self._problem(n, k)
        for kind in ("full", "tied", "diag", "spherical"):
            steps = self._steps(kind, *problem)
            whole, new = min(self._once(steps) for _ in range(self.size.repeats + 1))
            rows.append(
                (kind, whole, new, f"{new / whole:.2%}", "on the space" if kind == "full" else "NumPy")
            )
        self.shares = {row[0]: row[2] / row[1] for row in rows}
        names = "covariances", "iteration, s", "of that new parameters, s", "share", "made"
        caption = f"One EM iteration, {n:,} points, {P} coordinates, {k} components, float64"
        self.page.table(caption, names, rows, words=(4,))
        self.page.add_paragraph(
            "New parameters of tied, diagonal and spherical covariances are made by NumPy from k (p + 2) to",
            "k (p + 1) p / 2 sums: that share is what kernels of their own could save at most.",
        )

    def _steps(self, kind, x, means, covariances, weights):
        """EM of one kind of covariances, a step at a time."""
        model, k = WithoutPrior(1e-6, kind, weights), len(means)
        points = Points(x, k, self.space, np.zeros(P), diagonal=covariance.is_diagonal(kind))
        if kind == "full":
            return FullSteps(points, model, means, covariances)
        start = np.eye(P) if kind == "tied" else np.ones(covariance.shape(kind, k, P))
        return HostSteps(points, model, means, start, kind)

    def _once(self, steps):
        """Return seconds of an iteration, and of its new parameters."""
        begin = time.perf_counter()
        steps.sweep()
        pk.fence(self.space)
        middle = time.perf_counter()
        steps.advance()
        pk.fence(self.space)
        end = time.perf_counter()
        return end - begin, end - middle


if __name__ == "__main__":
    page.main(Paper)
