"""Appendices B and C of Suchard et al.: densities by padded blocks, covariances entry by entry, beside what
is done here."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

import portable as pk

from .. import page
from . import covariance
from .blocks import Components, Points
from .density import log_density
from .prior import WithoutPrior
from .steps import FullSteps, HostSteps

P = 14  # coordinates, as the worked examples have them
ENTRIES = P * (P + 1) // 2
SIGMAS = {
    1: "calcSigma as printed, a launch an entry",
    2: "one launch, an index an entry",
    3: "a team an entry",
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
    """See `models.page.Study`."""

    title = "Massively parallel mixtures: mvNormalPDF and calcSigma of Appendices B and C"
    source = (
        "M. A. Suchard, Q. Wang, C. Chan, J. Frelinger, A. Cron, M. West: Understanding GPU programming for "
        "statistical "
        "computation (JCGS 2010), Appendices B and C: two kernels, without any time, so nothing printed can "
        "be compared."
    )
    settings = {
        "tiny": Size(640, 16, 500, 4, 1),
        "quick": Size(20_000, 64, 4_000, 16),
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
        blocks, size, rows = page.example("mv_normal_pdf"), self.size, []
        x, means, covariances, weights = self._problem(size.n, size.k)
        factors = covariance.factors_of("full", covariances)
        flops = size.n * size.k * (P * (P + 1) + 2 * P + P)  # differences, triangular products, squares
        for dtype in ("float64", "float32"):
            with pk.use(self.space):
                points = pk.copy_of(blocks.padded(x, dtype))
                records = pk.copy_of(blocks.records_of(means, covariances, weights, dtype))
                pdf = pk.zeros((points.shape[0], records.shape[0]), dtype)
                theirs = page.seconds(
                    lambda: blocks.densities(points, records, pdf), size.repeats, self.space
                )
                found = pdf.to_numpy()[: size.n, : size.k].astype(float)
            there = Points(x.astype(dtype), size.k, self.space, x.mean(axis=0), diagonal=False)
            components = Components(np.log(weights), means, factors)
            ours = page.seconds(lambda: there.log_densities(components), size.repeats, self.space)
            value = log_density(x.astype(dtype), means, factors, weights, space=self.space)
            self.error = float(np.abs(np.log(found.sum(axis=1)) - value).max())
            n_bytes = pdf.nbytes + points.nbytes + records.nbytes
            rows.append(
                (
                    dtype,
                    theirs,
                    ours,
                    theirs / ours,
                    1e-9 * flops / theirs,
                    1e-9 * flops / ours,
                    n_bytes / 1e6,
                )
            )
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
        self.page.say(
            "The padded blocks are the appendix's kernel, line by line: "
            "docs/examples/papers/mv_normal_pdf.py. They store",
            "n x k densities, which have to be read again; ours adds the logarithms of a tile of points up "
            "while the",
            "densities are in registers or cache, so neither padding nor staging of whole records is "
            "needed. The",
            f"logarithms of the mixture's densities differ by at most {self.error:.1g} in float32.",
        )

    def appendix_c(self):
        n, k = self.size.n_sigma, self.size.k_sigma
        random = np.random.default_rng(0)
        x, r, means = random.normal(size=(n, P)), random.random((n, k)), random.normal(size=(k, P))
        wanted = np.array([np.tril((r[:, j] * (x - m).T) @ (x - m)) for j, m in enumerate(means)])
        flops, rows = 4 * n * k * ENTRIES, []
        for step, words in SIGMAS.items():
            module = page.example(f"calc_sigma_{step}", "worked")
            with pk.use(self.space):
                there = [pk.copy_of(a) for a in (r, x, means)]
                out = pk.zeros((k, P, P))

                def call():
                    pk.deep_copy(out, 0.0)
                    module.sigma(*there, out)

                took = page.seconds(call, self.size.repeats if step > 1 else 1, self.space)
                np.testing.assert_allclose(out.to_numpy(), wanted, rtol=1e-8, atol=1e-8)
            rows.append((f"calc_sigma_{step}.py: {words}", took, 1e-9 * flops / took))
        points = Points(x, k, self.space, np.zeros(P), diagonal=False)
        components = Components(np.log(np.full(k, 1.0 / k)), means, np.tile(np.eye(P), (k, 1, 1)))
        took = page.seconds(lambda: points.sweep(components), self.size.repeats, self.space)
        rows.append(
            ("ours: densities, responsibilities and all sums in one sweep", took, 1e-9 * flops / took)
        )
        rows = [(*row, row[1] / rows[-1][1]) for row in rows]
        self.sigmas = [row[1] for row in rows]
        names = "", "seconds", "Gflop/s of the covariances", "times ours"
        self.page.table(f"{n:,} points, {P} coordinates, {k} components, float64", names, rows)
        self.page.say(
            "docs/roofline-worked.md goes from the first of these to the last, with their roofs. The sweep "
            "also makes what",
            "the others are given: the responsibilities. Shares of the machine's peak: python -m roofline "
            "compare",
            "mixture_em, and python -m roofline report docs/worked/calc_sigma_1.py.",
        )

    def iteration(self):
        """Shares of an EM iteration; of covariances other than full the new parameters are made by NumPy."""
        n, k, rows = self.size.n, self.size.k, []
        x, means, covariances, weights = self._problem(n, k)
        for kind in ("full", "tied", "diag", "spherical"):
            model = WithoutPrior(1e-6, kind, weights)
            points = Points(x, k, self.space, np.zeros(P), diagonal=covariance.is_diagonal(kind))
            if kind == "full":
                steps = FullSteps(points, model, means, covariances)
            else:
                start = np.eye(P) if kind == "tied" else np.ones(covariance.shape(kind, k, P))
                steps = HostSteps(points, model, kind, means, start)
            best = None
            for _ in range(self.size.repeats + 1):
                begin = time.perf_counter()
                steps.sweep()
                pk.fence(self.space)
                middle = time.perf_counter()
                steps.advance()
                pk.fence(self.space)
                found = time.perf_counter() - begin, time.perf_counter() - middle
                best = found if best is None or found[0] < best[0] else best
            where = "on the space" if kind == "full" else "NumPy on the host"
            rows.append((kind, best[0], best[1], f"{best[1] / best[0]:.2%}", where))
        self.shares = {row[0]: row[2] / row[1] for row in rows}
        names = "covariances", "iteration, s", "of that new parameters, s", "share", "made"
        self.page.table(
            f"One EM iteration, {n:,} points, {P} coordinates, {k} components, float64",
            names,
            rows,
            words=(4,),
        )
        self.page.say(
            "New parameters of tied, diagonal and spherical covariances are made by NumPy from k (p + 2) to "
            "k (p + 1) p / 2",
            "sums: that share is what kernels of their own could save at most.",
        )
