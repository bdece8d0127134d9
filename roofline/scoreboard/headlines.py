"""The headlines: the speed promised to users of a method, each a case's duel with one of its peers.

Those of one case and size share a process. The shortest ones come first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from portable.roofline.contract import Duel


@dataclass(frozen=True)
class Headline:
    """Name a row of the scoreboard, and the duel that it times.

    Parameters
    ----------
    name : str
        Its name in records.
    case : str
        The module of `portable.roofline.cases` that defines the duel.
    title, ours : str
        Parts of the duel's title, with * for any text between, and of our label; together they identify one
        duel of the case.
    peer : str
        A part of the peer's label; the first match counts.
    n : int, optional
    quick : bool
        As in `portable.roofline.cases.Case`.
    swapped : bool
        Whether the duel's peer is ours: in a duel that measures the cost of an addition.
    of_host : bool
        Whether a good part of either side's time is spent on a GPU's host: only records made with the same
        CPU are compared.
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
        """Return the key of headlines that one process prepares together."""
        return self.case, self.n, self.quick

    def find(self, duels: list[Duel]) -> Duel:
        """Return the duel with this title and label, reduced to the one peer.

        Parameters
        ----------
        duels : list of Duel
            The case's duels at this size.

        Raises
        ------
        LookupError
            No duel or several duels have the title and the label.
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


def _rows(text):
    """Return the Headlines of lines "case, n and flags | name | title | peer | ours"."""
    for line in text.strip().splitlines():
        case, name, title, peer, *ours = line.split(" | ")
        case, *flags = case.split()
        n = [int(word) for word in flags if word.isdigit()] or [None]
        yield Headline(name, case, title, peer, *ours, n=n[0], **{w: True for w in flags if not w.isdigit()})


ON_CPU = """
launch | launch | on serial, the caller's time | numba | parallel_for
launch | launch of a plan | on serial, the caller's time | numba | plan
launch | launch of a graph | ten launches*on serial | numba
start | start, import | a new process, import | numba
start | start, first call | a new process, first call, compiled before | numba
start | start, nothing cached | a new process, first call, nothing cached | numba
filters 1024 quick | filters | steps of PMMH | particles
tmap 20000 | tmap float64 | orders 1, 2, 3 | numba | float64
tmap 20000 | tmap float32 | orders 1, 2, 3 | numba | float32
resampling 1048576 | resampling systematic | systematic | particles
resampling 1048576 | resampling multinomial | multinomial | particles
hawkes 5000 | hawkes float64 | all pairs, float64 | numba, same pairs | portable
hawkes 5000 | hawkes mixed | all pairs, mixed | numba, same pairs | portable
hawkes 5000 swapped | hawkes gradient | gradient, 5,000 events, all pairs, float64 | gradient
algorithms 1000000 | argsort float64 | argsort of 1,000,000 float64 | numba
algorithms 1000000 | top_k | the 20 largest | NumPy
algorithms 1000000 | compact | compaction | NumPy
algorithms 1000000 | ragged sums | segmented_reduce*(mean 1,000) | numba
layer 4000000 | axpy | axpy | numba
layer 4000000 | dot | dot | numba
layer 4000000 | matrix product | matrix product | numba, tiles
layer 4000000 | stencil | stencil | numba
layer 4000000 | histogram | histogram | numba
layer 4000000 | scan | scan of 4,000,000 float64 | numba
layer 4000000 | exp under a condition | exp under a condition | numba
layer 4000000 | Mandelbrot | Mandelbrot | numba
calls 200000 | calls, tmap | TMAP, 3 EM iterations from one start, 270,780 gaps | serial
calls 200000 | calls, filter | particle filter, 16 steps with paths, 160,000 | serial
calls 200000 | calls, predict | mixture, predict, 40,000 | serial
edm | edm knn | 6 nearest neighbours of each point, 10,000 steps | SciPy
edm | edm simplex | simplex projection of one series, 10,000 steps | kedm
edm 8 | edm cross map | cross map | kedm
mixture_em 20000 | mixture_em far apart | components far apart | scikit-learn
mixture_em 20000 | mixture_em float64 | overlap, 20,000 points, 14 dimensions, 64 components, float64 | scikit
mixture_em 20000 | mixture_em float32 | overlap, 20,000 points, 14 dimensions, 64 components, float32 | scikit
"""
ON_GPU = """
launch of_host | launch | the caller's time | CUDA C++ | parallel_for
launch of_host | launch of a plan | the caller's time | CUDA C++ | plan
launch of_host | launch of a graph | ten launches | CUDA C++ | graph
tmap | tmap float64 | orders 1, 2, 3 | CUDA C++ | float64
tmap | tmap float32 | orders 1, 2, 3 | CUDA C++ | float32
hawkes | hawkes float64 | all pairs, float64 | CUDA C++, same pairs | portable
hawkes | hawkes mixed | all pairs, mixed | CUDA C++, same pairs | portable
hawkes swapped | hawkes gradient | gradient, 75,000 events, all pairs, float64 | gradient
resampling | resampling systematic | systematic, 16,777,216 | CuPy
resampling | resampling Metropolis | metropolis, 16 steps, 16,777,216 | CUDA C++
resampling | filter step float32 | a step of a filter, 16,777,216 particles in float32 | copy
resampling | filter step float64 | a step of a filter, 16,777,216 particles in float64 | copy
layer | axpy | axpy | CUDA C++
layer | dot | dot | CUDA C++
layer | matvec | matrix times vector | CUDA C++
layer | matrix product | matrix product | CUDA C++
layer | stencil | stencil | CUDA C++, 32 planes
layer | histogram | histogram | CUDA C++
layer | scan | scan of 100,000,000 float64 | CuPy
layer | Mandelbrot | Mandelbrot | CUDA C++
algorithms | argsort float64 | argsort of 100,000,000 float64 | CuPy
algorithms | top_k | the 20 largest | CuPy
algorithms | compact | compaction | CuPy
algorithms | ragged sums | segmented_reduce*(mean 8) | CUDA C++, a block
filters | filters | steps of PMMH | JAX
edm | edm knn | 11 nearest neighbours | kedm
edm | edm simplex | simplex projection of one series, 10,000 steps | kedm
edm | edm cross map | cross map, 1,000 series | kedm
calls of_host | calls, tmap | TMAP, 3 EM iterations | copies
calls of_host | calls, filter | particle filter | there
calls of_host | calls, predict | mixture, predict, | copies
mixture_em | mixture_em far apart | components far apart | PyTorch
mixture_em | mixture_em float64 | overlap, 5,000,000 points, 14 dimensions, 256 components, float64 | PyT
mixture_em | mixture_em float32 | overlap, 5,000,000 points, 14 dimensions, 256 components, float32 | PyT
"""


def headlines_of(space: str) -> list[Headline]:
    """Return the headlines of a space, the shortest first.

    Parameters
    ----------
    space : str
    """
    return list(_rows(ON_GPU if space.startswith("cuda") else ON_CPU))
