"""The first call of a compiled function in a new process, in plain numba."""

import numba  # noqa: F401 - listed as absent where it is

from portable.roofline.cases.start import program

FIRST_CALL = """
import numpy as np
from numba import njit, prange

@njit(parallel={parallel}, cache=True)
def axpy(a, x, y):
    for i in prange(x.shape[0]):
        y[i] += a * x[i]

x, y = np.ones(1000), np.ones(1000)
axpy(2.0, x, y)
assert y[-1] == 3.0
"""


def contenders(what, folder, cold, *, threads):
    """The program of that name, of those that numba has.

    Parameters
    ----------
    what : str
        A title of `portable.roofline.cases.start`.
    folder : Path
    cold : bool
        Whether caches are emptied before each run.
    threads : int
        CPU threads; 1 is compiled without parallel=True.

    Returns
    -------
    list of Contender
    """
    if "first call" not in what and what != "import":
        return []
    text = "import numba" if what == "import" else FIRST_CALL.format(parallel=threads > 1)
    return [program(f"numba{', cache=True' if what != 'import' else ''}", [text], folder, cold)]
