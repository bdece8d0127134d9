"""The gallery: kernels of docs/examples at the size of a picture. `python docs/gallery.py FOLDER` draws them
all, `python docs/gallery.py FILE.png` a sheet of eight.

A picture is a function that runs an example's kernel, as it stands in its file, and draws on an axes. The
site makes a page of each.
"""

from __future__ import annotations

import math
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np

import portable as pk

EXAMPLES = Path(__file__).parent / "examples"
SPACE = "threads"
PICTURES = []  # (name, file, what it shows, function)


def picture(file):
    """Enter a function of an axes and of the names of an example's file; its docstring says what the picture
    shows."""

    def enter(fn):
        PICTURES.append((fn.__name__.replace("_", "-"), file, fn.__doc__, fn))
        return fn

    return enter


def draw(folder: Path):
    """Draw what is not there yet, or is older than its example, and write the pages."""
    from matplotlib.figure import Figure

    folder.mkdir(exist_ok=True)
    for name, file, text, fn in PICTURES:
        path, sources = folder / f"{name}.png", (EXAMPLES / file, Path(__file__))
        if not path.exists() or path.stat().st_mtime < max(s.stat().st_mtime for s in sources):
            figure = Figure(figsize=(4.8, 3.6), dpi=110, layout="constrained")
            ax = figure.subplots()
            with pk.use(SPACE):
                fn(ax, SimpleNamespace(**runpy.run_path(str(EXAMPLES / file))))
            figure.savefig(path)
        (folder / f"{name}.md").write_text(
            f"# {text}\n\n![{text}]({name}.png)\n\n```{{literalinclude}} ../examples/{file}\n:language:"
            " python\n```\n"
        )
    cards = "\n".join(
        f":::{{grid-item-card}} {text}\n:img-top: {name}.png\n:link: {name}\n:link-type: doc\n:::\n"
        for name, _, text, _ in PICTURES
    )
    pages = "\n".join(name for name, *_ in PICTURES)
    (folder / "index.md").write_text(
        "# Gallery\n\nEach picture is made by the kernel on its page.\n\n"
        f"::::{{grid}} 1 2 3 3\n{cards}::::\n\n"
        f"```{{toctree}}\n:hidden:\n\n{pages}\n```\n"
    )


def image(ax, values, **how):
    ax.imshow(values, interpolation="nearest", **{"cmap": "magma", **how})
    ax.set_axis_off()


@picture("mandelbrot.py")
def mandelbrot(ax, its):
    """The Mandelbrot set: loops whose length differs from index to index"""
    x, y = np.meshgrid(np.linspace(-2.1, 0.7, 480), np.linspace(-1.05, 1.05, 360))
    steps = np.zeros(x.size, np.int32)
    pk.parallel_for(x.size, its.mandelbrot, 200, x.ravel(), y.ravel(), steps)
    image(ax, np.log1p(steps).reshape(x.shape))


@picture("life.py")
def life(ax, its):
    """The game of life on a torus, after 300 steps"""
    cells = np.random.default_rng(1).integers(0, 2, (150, 200)).astype(np.int32)
    for _ in range(300):
        after = np.empty_like(cells)
        pk.parallel_for(pk.MDRangePolicy((0, 0), cells.shape), its.step, cells, after)
        cells = after
    image(ax, cells, cmap="Greens")


@picture("stencil.py")
def heat_in_a_plate(ax, its):
    """Heat in a plate: 3,000 Jacobi steps"""
    u = np.zeros((90, 120))
    u[0], u[-1, 30:60] = 1.0, 1.0
    for _ in range(3000):
        out = np.empty_like(u)
        pk.parallel_for(pk.MDRangePolicy((0, 0), u.shape), its.jacobi, u, out)
        u = out
    image(ax, u, cmap="inferno")


@picture("nbody.py")
def nbody(ax, its):
    """Two clusters of bodies fall together"""
    rng = np.random.default_rng(2)
    at = np.concatenate([rng.normal((-1, 0), 0.25, (150, 2)), rng.normal((1, 0.3), 0.25, (150, 2))]).T.copy()
    speed, pull, mass = np.zeros((2, 300)), np.zeros((2, 300)), np.full(300, 0.01)
    paths = []
    for _ in range(120):
        pk.parallel_for(300, its.attract, 0.02, mass, at[0], at[1], pull)
        speed += 0.01 * pull
        at += 0.01 * speed
        paths.append(at.copy())
    paths = np.array(paths)
    ax.plot(paths[:, 0], paths[:, 1], lw=0.4, color="0.5")
    ax.plot(*at, ".", ms=3)
    ax.set_axis_off()


@picture("kmeans.py")
def kmeans(ax, its):
    """Ten steps of k-means: sums by atomics"""
    rng = np.random.default_rng(3)
    centres = rng.uniform(-1, 1, (2, 6))
    x = np.concatenate([rng.normal(c, 0.17, (400, 2)) for c in centres.T]).T.copy()
    centres = x[:, rng.choice(x.shape[1], 6, replace=False)].copy()
    for _ in range(10):
        counts, sums = np.zeros(6, np.int64), np.zeros((2, 6))
        pk.parallel_for(x.shape[1], its.assign, x, centres, counts, sums)
        centres = sums / np.maximum(counts, 1)
    ax.scatter(*x, s=3, c=((x[:, :, None] - centres[:, None]) ** 2).sum(0).argmin(1), cmap="tab10")
    ax.plot(*centres, "k+", ms=12)


@picture("histogram.py")
def histogram(ax, its):
    """A histogram of a million numbers, by atomics"""
    counts = np.zeros(80, np.int32)
    pk.parallel_for(
        1_000_000,
        its.histogram,
        -4.0,
        4.0,
        np.random.default_rng(4).normal(size=1_000_000),
        pk.ScatterView(counts),
    )
    ax.bar(np.linspace(-3.95, 3.95, 80), counts, 0.09)


@picture("pi.py")
def pi(ax, its):
    """Pi from random points: the error falls as one over the square root of their number"""
    n = 2 ** np.arange(8, 24)
    error = [abs(4.0 * pk.parallel_reduce(int(k), its.inside, np.ones(1)) / k - math.pi) for k in n]
    ax.loglog(n, error, "o", n, 1.64 / np.sqrt(n), "-")
    ax.set(xlabel="points", ylabel="error")


@picture("kalman.py")
def kalman(ax, its):
    """A Kalman filter as one scan: what is seen, and what is filtered"""
    rng, state, n = np.random.default_rng(5), 0.0, 150
    truth = np.array([state := its.A * state + rng.normal(0, its.Q**0.5) for _ in range(n)])
    y, means, variances = truth + rng.normal(0, its.R**0.5, n), np.zeros(n), np.zeros(n)
    pk.parallel_scan(n, its.observed, y, out=(means, variances), reducer=its.Filter)
    half = 2 * np.sqrt(variances)
    ax.plot(y, ".", ms=3, color="0.6")
    ax.plot(truth, "k", lw=0.8)
    ax.plot(means)
    ax.fill_between(np.arange(n), means - half, means + half, alpha=0.3)


@picture("recurrence.py")
def recurrence(ax, its):
    """A linear recurrence as a scan: exponential smoothing"""
    x, n = np.random.default_rng(6).normal(size=400).cumsum(), 400
    for rate in (0.03, 0.2):
        s = np.zeros(n)
        pk.parallel_scan(n, its.step, np.full(n, 1 - rate), rate * x, out=s, reducer=its.Recurrence)
        ax.plot(s, label=f"rate {rate}")
    ax.plot(x, ".", ms=2, color="0.6")
    ax.legend()


@picture("bitonic.py")
def bitonic(ax, its):
    """A team sorts each row: the left half before, the right half after"""
    rows = np.random.default_rng(7).random((48, 64))
    after = rows.copy()
    pk.parallel_for(pk.TeamPolicy(48), its.sort_rows, after)
    image(ax, np.hstack([rows, np.ones((48, 4)), after]), cmap="viridis", aspect="auto")


@picture("topk.py")
def topk(ax, its):
    """The largest of each column, in registers"""
    x = np.random.default_rng(9).random((30, 60))
    out = np.zeros((its.K, 60))
    pk.parallel_for(60, its.largest, x, out)
    ax.plot(x.T, ".", ms=2, color="0.75")
    ax.plot(out.T, lw=1)


@picture("fields/physics.py")
def lattice_boltzmann(ax, its):
    """A shear layer rolls up: lattice Boltzmann, D2Q9"""
    n, m = 96, 144
    i, j = np.indices((n, m))
    ux = 0.08 * np.tanh((np.minimum(i, n - i) - n / 4) / 3.0)
    uy = 0.01 * np.sin(4 * np.pi * j / m)
    f = np.array(
        [
            w * (1 + 3 * (cx * uy + cy * ux) + 4.5 * (cx * uy + cy * ux) ** 2 - 1.5 * (ux**2 + uy**2))
            for w, cx, cy in zip(its.WEIGHTS, its.CX, its.CY)
        ]
    )
    out = np.empty_like(f)
    for _ in range(1600):
        pk.parallel_for(pk.MDRangePolicy((0, 0), (n, m)), its.lattice_boltzmann, f, out, 1.9)
        f, out = out, f
    ux, uy = np.tensordot(its.CY, f, 1) / f.sum(0), np.tensordot(its.CX, f, 1) / f.sum(0)
    image(ax, np.gradient(uy, axis=1) - np.gradient(ux, axis=0), cmap="RdBu")


@picture("fields/physics.py")
def ising(ax, its):
    """Spins of int8 below the critical temperature, after 200 sweeps"""
    spins = np.random.default_rng(10).choice([-1, 1], (160, 200)).astype(np.int8)
    for sweep in range(200):
        for colour in (0, 1):
            pk.parallel_for(pk.MDRangePolicy((0, 0), spins.shape), its.ising, spins, colour, 0.5, sweep)
    image(ax, spins, cmap="gray")


@picture("fields/physics.py")
def kepler(ax, its):
    """Kepler's equation: ellipses, at equal steps of time"""
    for e in (0.0, 0.4, 0.8):
        out, n = np.zeros((2, 60)), 60
        pk.parallel_for(n, its.kepler, np.linspace(-np.pi, np.pi, n, endpoint=False), np.full(n, e), out)
        ax.plot(out[1] * np.cos(out[0]), out[1] * np.sin(out[0]), ".", label=f"e = {e}")
    ax.set_aspect("equal")
    ax.legend()


@picture("fields/physics.py")
def walks(ax, its):
    """Ends of 20,000 random walks with a wind"""
    out = np.zeros((20_000, 2), np.int64)
    pk.parallel_for(20_000, its.walks, 120, np.array([4.0, 3.0, 3.0, 3.0]), 1, out)
    ax.hist2d(*out.T, bins=(np.arange(-40, 60, 2), np.arange(-45, 46, 2)), cmap="magma")


@picture("fields/images.py")
def fourier(ax, its):
    """A Fourier sum at each frequency"""
    t = np.arange(512)
    signal = (
        np.sin(2 * np.pi * 0.06 * t)
        + 0.5 * np.sin(2 * np.pi * 0.21 * t)
        + np.random.default_rng(11).normal(0, 0.7, 512)
    )
    found = np.zeros(512, complex)
    pk.parallel_for(512, its.fourier, signal, found)
    ax.plot(t[:257] / 512, abs(found[:257]))
    ax.set(xlabel="frequency", ylabel="size")


@picture("fields/numbers_and_life.py")
def totients(ax, its):
    """Euler's totient: how many numbers have no divisor in common with n"""
    out = np.zeros(1500, np.int64)
    pk.parallel_for(1500, its.totients, out)
    ax.plot(np.arange(1, 1501), out, ".", ms=1.5)
    ax.set_xlabel("n")


@picture("fields/numbers_and_life.py")
def epidemic(ax, its):
    """Epidemics of binomial numbers: who never fell ill, of 1,000, in 20,000 runs"""
    for beta in (0.25, 0.35, 0.5):
        out = np.zeros(20_000, np.int64)
        pk.parallel_for(20_000, its.epidemic, 60, beta, 0.2, 4, out)
        ax.hist(out, np.arange(0, 1001, 10), alpha=0.6, label=f"beta {beta}")
    ax.legend()


@picture("fields/numbers_and_life.py")
def chi_square(ax, its):
    """p-values of chi-square statistics, by the incomplete gamma function"""
    x = np.linspace(0, 30, 200)
    for freedom in (1, 4, 10, 20):
        p = np.zeros(200)
        pk.parallel_for(200, its.chi_square, x, np.full(200, freedom), p)
        ax.semilogy(x, p, label=f"{freedom} degrees")
    ax.set(xlabel="statistic", ylabel="p", ylim=(1e-6, 1.5))
    ax.legend()


@picture("fields/numbers_and_life.py")
def permutation_test(ax, its):
    """A permutation test: means of two groups shuffled 50,000 times"""
    values = np.random.default_rng(8).normal(size=12)
    values[:5] += 2.0
    out = np.zeros(50_000)
    pk.parallel_for(50_000, its.shuffled, values, 5, 9, out)
    ax.hist(out, 80)
    ax.axvline(values[:5].mean(), color="k")


def sheet(
    path: Path,
    names=(
        "mandelbrot",
        "lattice-boltzmann",
        "nbody",
        "ising",
        "kmeans",
        "kalman",
        "heat-in-a-plate",
        "totients",
    ),
):
    """Eight pictures on one, as README shows them."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), dpi=100, layout="constrained")
    for ax, name in zip(figure.subplots(2, 4).flat, names):
        file, fn = next((file, fn) for own, file, _, fn in PICTURES if own == name)
        with pk.use(SPACE):
            fn(ax, SimpleNamespace(**runpy.run_path(str(EXAMPLES / file))))
        ax.set(xticks=[], yticks=[], xlabel="", ylabel="")
    figure.savefig(path)


if __name__ == "__main__":
    (sheet if sys.argv[1].endswith(".png") else draw)(Path(sys.argv[1]))
