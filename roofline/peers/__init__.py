"""Hand-written rivals: the same work in plain numba, and in CUDA C++ through CuPy.

A file is named after the method and the tool, imports its tool at the top, has one function `contenders`, and
is itself imported only when a comparison wants it. A tool that is missing, or that cannot run on this
machine, is listed with its reason; it never stops a comparison.
"""

import importlib
import importlib.util
from dataclasses import replace

import portable as pk
from portable.roofline.contract import Contender
from portable.roofline.units import one_line


def gather(method, space, *args, tools=None, **options) -> tuple[list[Contender], list[tuple[str, str]]]:
    """Whoever can compete on a space: a library that has the method, or else the text in the tools for
    kernels.

    Parameters
    ----------
    method : str
        The first part of the files' names.
    space : str
        Decides the tools: scikit-learn, or else numba, with as many threads as ours on the CPU; PyTorch, or
        else CuPy, cuda.cccl and numba-cuda, on a GPU.
    tools : sequence of str, optional
        Instead of those: tools with Python functions of their own.
    *args, **options
        Given to each file's `contenders`.

    Returns
    -------
    contenders : list of Contender
    absent : list of (file, reason)
    """
    if space == "checked":
        return [], [("all", "nothing is compared with an interpreter")]
    found, absent = [], []
    on_gpu = space.startswith("cuda")
    usual, others = (("cupy", "numba_cuda"), ("torch",)) if on_gpu else (("numba",), ("sklearn",))

    own = ("cccl",) if on_gpu else ()  # where such a file is there: a library that has some of the methods

    def written(names):
        return [
            f"{method}_{tool}" for tool in names if importlib.util.find_spec(f"{__name__}.{method}_{tool}")
        ]

    files = written(tools) if tools else written(others) or written((*usual, *own))
    if not files:
        absent = [(f"{method}_{tool}", "not written") for tool in tools or usual]
    for name in files:
        limits = {} if on_gpu else {"threads": _threads(space)}
        try:
            made = importlib.import_module(f"{__name__}.{name}").contenders(*args, **options, **limits)
            found += [replace(contender, file=name) for contender in made]
        except Exception as error:  # noqa: BLE001 - a foreign tool may fail in any way it likes
            absent.append((name, one_line(error)))
    return found, absent


def _threads(space):
    with pk.use(space) as resolved:
        return resolved.n_threads
