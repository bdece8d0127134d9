"""Hand-written rivals: the same work in plain numba, plain numba-cuda and CUDA C++ through CuPy.

Each module imports its tool at the top, has one function `contenders` and is itself imported only when a comparison wants
it. A tool that is missing, or that cannot run on this machine, is listed with its reason; it never stops a comparison.
"""
import importlib

from roofline.contract import Contender
from roofline.units import one_line


def gather(modules, *args, **options) -> tuple[list[Contender], list[tuple[str, str]]]:
    """The contenders of several modules.

    Parameters
    ----------
    modules : dict of str to dict
        Names of files in this folder, each with options of its own for `contenders`.
    *args, **options
        Given to every module's `contenders`.

    Returns
    -------
    contenders : list of Contender
    absent : list of (module, reason)
    """
    found, absent = [], []
    for name, own in modules.items():
        try:
            found += importlib.import_module(f"{__name__}.{name}").contenders(*args, **options, **own)
        except Exception as error:  # noqa: BLE001 - a foreign tool may fail in any way it likes
            absent.append((name, one_line(error)))
    return found, absent
