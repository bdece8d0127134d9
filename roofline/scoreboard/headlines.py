"""The headlines: what a user of a method was promised, each the duel of a case with one of its peers.

Those of one case and size share a process. The shortest stand first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from portable.roofline.contract import Duel


@dataclass(frozen=True)
class Headline:
    """A row of the scoreboard.

    Parameters
    ----------
    name : str
        Its name in records.
    case : str
        The module of `portable.roofline.cases` that has the duel.
    title, ours : str
        Parts of the duel's title, with * for what lies between, and of our label; no other duel of the case
        has both.
    peer : str
        A part of the peer's label, the first that has it.
    n : int, optional
    quick : bool
        As in `portable.roofline.cases.Case`.
    swapped : bool
        What the duel calls the peer is ours, for a duel that tells what more costs.
    of_host : bool
        A good part of either side's time is the host's, beside a GPU: only records made with the same CPU
        are compared.
    """

    name: str
    case: str
    title: str
    peer: str
    ours: str = ""
    n: int | None = None
    quick: bool = False
    swapped: bool = False
    of_host: bool = False

    @property
    def group(self) -> tuple[str, int | None, bool]:
        """What one process prepares."""
        return self.case, self.n, self.quick

    def find(self, duels: list[Duel]) -> Duel:
        """The duel, with at most the one peer.

        Parameters
        ----------
        duels : list of Duel
            Of the case, at this size.

        Raises
        ------
        LookupError
            No duel or several have the title and the label.
        """
        found = [
            duel
            for duel in duels
            if fnmatchcase(duel.title, f"*{self.title}*") and self.ours in duel.ours.label
        ]
        if len(found) != 1:
            raise LookupError(f"{len(found)} duels of '{self.case}' have '{self.title}' and '{self.ours}'")
        (duel,) = found
        peers = [peer for peer in duel.peers if self.peer in peer.label][:1]
        if self.swapped and peers:
            return replace(duel, ours=peers[0], peers=[duel.ours])
        return replace(duel, peers=peers)


def _rows(case, *rows, **more):
    return [Headline(name, case, *parts, **more) for name, *parts in rows]


ON_CPU = [
    *_rows(
        "launch",
        ("launch", "on serial, the caller's time", "numba", "parallel_for"),
        ("launch of a plan", "on serial, the caller's time", "numba", "plan"),
        ("launch of a graph", "ten launches*on serial", "numba"),
    ),
    *_rows(
        "start",
        ("start, import", "a new process, import", "numba"),
        ("start, first call", "a new process, first call, compiled before", "numba"),
        ("start, nothing cached", "a new process, first call, nothing cached", "numba"),
    ),
    *_rows("filters", ("filters", "steps of PMMH", "particles"), n=1024, quick=True),
    *_rows(
        "tmap",
        ("tmap float64", "orders 1, 2, 3", "numba", "float64"),
        ("tmap float32", "orders 1, 2, 3", "numba", "float32"),
        n=20_000,
    ),
    *_rows(
        "resampling",
        ("resampling systematic", "systematic", "particles"),
        ("resampling multinomial", "multinomial", "particles"),
        n=1 << 20,
    ),
    *_rows(
        "hawkes",
        ("hawkes float64", "all pairs, float64", "numba, same pairs", "portable"),
        ("hawkes mixed", "all pairs, mixed", "numba, same pairs", "portable"),
        n=5_000,
    ),
    Headline(
        "hawkes gradient",
        "hawkes",
        "gradient, 5,000 events, all pairs, float64",
        "gradient",
        n=5_000,
        swapped=True,
    ),
    *_rows(
        "algorithms",
        ("argsort float64", "argsort of 1,000,000 float64", "numba"),
        ("top_k", "the 20 largest", "NumPy"),
        ("compact", "compaction", "NumPy"),
        ("ragged sums", "segmented_reduce*(mean 1,000)", "numba"),
        n=1_000_000,
    ),
    *_rows(
        "layer",
        ("axpy", "axpy", "numba"),
        ("dot", "dot", "numba"),
        ("matrix product", "matrix product", "numba, tiles"),
        ("stencil", "stencil", "numba"),
        ("histogram", "histogram", "numba"),
        ("scan", "scan of 4,000,000 float64", "numba"),
        ("exp under a condition", "exp under a condition", "numba"),
        ("Mandelbrot", "Mandelbrot", "numba"),
        n=4_000_000,
    ),
    *_rows(
        "calls",
        ("calls, tmap", "TMAP, 3 EM iterations from one start, 270,780 gaps", "serial"),
        ("calls, filter", "particle filter, 16 steps with paths, 160,000", "serial"),
        ("calls, predict", "mixture, predict, 40,000", "serial"),
        n=200_000,
    ),
    *_rows(
        "edm",
        ("edm knn", "6 nearest neighbours of each point, 10,000 steps", "SciPy"),
        ("edm simplex", "simplex projection of one series", "kedm"),
    ),
    *_rows("edm", ("edm cross map", "cross map", "kedm"), n=8),
    *_rows(
        "mixture_em",
        ("mixture_em far apart", "components far apart", "scikit-learn"),
        ("mixture_em float64", "overlap, 20,000 points, 14 dimensions, 64 components, float64", "scikit"),
        ("mixture_em float32", "overlap, 20,000 points, 14 dimensions, 64 components, float32", "scikit"),
        n=20_000,
    ),
]

ON_GPU = [
    *_rows(
        "launch",
        ("launch", "the caller's time", "CUDA C++", "parallel_for"),
        ("launch of a plan", "the caller's time", "CUDA C++", "plan"),
        ("launch of a graph", "ten launches", "CUDA C++", "graph"),
        of_host=True,
    ),
    *_rows(
        "tmap",
        ("tmap float64", "orders 1, 2, 3", "CUDA C++", "float64"),
        ("tmap float32", "orders 1, 2, 3", "CUDA C++", "float32"),
    ),
    *_rows(
        "hawkes",
        ("hawkes float64", "all pairs, float64", "CUDA C++, same pairs", "portable"),
        ("hawkes mixed", "all pairs, mixed", "CUDA C++, same pairs", "portable"),
    ),
    Headline(
        "hawkes gradient", "hawkes", "gradient, 75,000 events, all pairs, float64", "gradient", swapped=True
    ),
    *_rows(
        "resampling",
        ("resampling systematic", "systematic, 16,777,216", "CuPy"),
        ("resampling Metropolis", "metropolis, 16 steps, 16,777,216", "CUDA C++"),
        ("filter step float32", "a step of a filter, 16,777,216 particles in float32", "copy"),
        ("filter step float64", "a step of a filter, 16,777,216 particles in float64", "copy"),
    ),
    *_rows(
        "layer",
        ("axpy", "axpy", "CUDA C++"),
        ("dot", "dot", "CUDA C++"),
        ("matvec", "matrix times vector", "CUDA C++"),
        ("matrix product", "matrix product", "CUDA C++"),
        ("stencil", "stencil", "CUDA C++, 32 planes"),
        ("histogram", "histogram", "CUDA C++"),
        ("scan", "scan of 100,000,000 float64", "CuPy"),
        ("Mandelbrot", "Mandelbrot", "CUDA C++"),
    ),
    *_rows(
        "algorithms",
        ("argsort float64", "argsort of 100,000,000 float64", "CuPy"),
        ("top_k", "the 20 largest", "CuPy"),
        ("compact", "compaction", "CuPy"),
        ("ragged sums", "segmented_reduce*(mean 8)", "CUDA C++, a block"),
    ),
    *_rows("filters", ("filters", "steps of PMMH", "JAX")),
    *_rows(
        "edm",
        ("edm knn", "11 nearest neighbours", "kedm"),
        ("edm simplex", "simplex projection of one series", "kedm"),
        ("edm cross map", "cross map, 1,000 series", "kedm"),
    ),
    *_rows(
        "calls",
        ("calls, tmap", "TMAP, 3 EM iterations", "copies"),
        ("calls, filter", "particle filter", "there"),
        ("calls, predict", "mixture, predict,", "copies"),
        of_host=True,
    ),
    *_rows(
        "mixture_em",
        ("mixture_em far apart", "components far apart", "PyTorch"),
        ("mixture_em float64", "overlap, 5,000,000 points, 14 dimensions, 256 components, float64", "PyT"),
        ("mixture_em float32", "overlap, 5,000,000 points, 14 dimensions, 256 components, float32", "PyT"),
    ),
]


def of(space: str) -> list[Headline]:
    """The headlines of a space, the shortest first.

    Parameters
    ----------
    space : str
    """
    return ON_GPU if space.startswith("cuda") else ON_CPU
