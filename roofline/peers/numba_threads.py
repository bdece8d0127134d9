"""As many threads for numba as for ours."""

import numba


def set_threads(threads):
    """Numba then uses this many threads, or all it was started with where that is fewer."""
    numba.set_num_threads(min(threads, numba.config.NUMBA_NUM_THREADS))
