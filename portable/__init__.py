"""Kernels written once as plain Python functions, run on multicore SIMD CPUs and on CUDA.

    import portable as pk

    @pk.kernel
    def axpy(i, a, x, y):
        y[i] += a * x[i]

    pk.parallel_for(len(x), axpy, 2.0, x, y)

Importing needs no GPU, driver or toolkit; `python -m portable` lists the available machines.
"""

from .core import locks  # first: it refuses a subinterpreter, which NumPy would refuse without a remedy
from . import former_names, errors, numba, random
from .core.language import words
from .library.texts.gamma import gammainc, gammaincc  # (made of random.py's; separate rows)
from .core.language.annotations import ArrayLike, Number, SpaceLike
from .library.algorithms import argsort, sort_by_key
from .core.machines.cpu import Threads
from .core.machines.cuda import Cuda
from .core.machines.contract import register
from .watch.checked.check import Report, check
from .derivatives.derive import adjoint, derivative
from .library.copies import copy_of, create_mirror, create_mirror_view, deep_copy, pinned
from .watch.counts.count import count
from .core.launch.dispatch import parallel_for, parallel_reduce, parallel_scan
from .errors import (
    CheckError,
    CollectiveError,
    DeviceError,
    DTypeError,
    FiniteError,
    InputError,
    KernelError,
    LanguageError,
    LaunchError,
    LoweringError,
    NestedLaunchError,
    OrderError,
    OutOfMemoryError,
    PortableError,
    ReadOnlyError,
    ShapeError,
    SourceError,
    SpaceError,
    SpaceUnavailableError,
    UnknownSpaceError,
    WrongSpaceError,
)
from .watch.listeners import listening
from .watch.counts.explain import explain, listing
from .library.graph import capture
from .core.language.kernel import Function, Kernel, function, kernel
from .library.plan import plan
from .core.places.policy import AUTO, MDRangePolicy, RangePolicy, TeamPolicy, scratch_bytes
from .core.language.reducer import LogSumExp, Max, MaxLoc, Min, MinLoc, Prod, Reducer, Sum
from .core.arrays.scatter import ScatterView
from .library.segments import bincount, searchsorted, segmented_reduce, segmented_scan, segmented_sort, unique
from .library.selecting import compact, top_k
from .core.places.space import (
    Space,
    concurrency,
    default_space,
    fence,
    follow,
    instances,
    queued,
    stamp,
    unavailable_because,
    use,
)
from .core.language.team import Team
from .core.arrays.view import View, asview, empty, zeros
from .library.texts.words import cross, digamma, frexp, gcd, isclose, matrix, norm, vector
from .core.language.words import *  # noqa: F403  (a name for each row)

former_names.stand_last()
__path__ += former_names.checkout_folder(__file__)
__version__ = "0.1.0"
__all__ = [
    "AUTO",
    "ArrayLike",
    "CheckError",
    "CollectiveError",
    "Cuda",
    "DTypeError",
    "DeviceError",
    "FiniteError",
    "Function",
    "InputError",
    "Kernel",
    "KernelError",
    "LanguageError",
    "LaunchError",
    "LogSumExp",
    "LoweringError",
    "MDRangePolicy",
    "Max",
    "MaxLoc",
    "Min",
    "MinLoc",
    "NestedLaunchError",
    "Number",
    "OrderError",
    "OutOfMemoryError",
    "PortableError",
    "Prod",
    "RangePolicy",
    "ReadOnlyError",
    "Reducer",
    "Report",
    "ScatterView",
    "ShapeError",
    "SourceError",
    "Space",
    "SpaceError",
    "SpaceLike",
    "SpaceUnavailableError",
    "Sum",
    "Team",
    "TeamPolicy",
    "Threads",
    "UnknownSpaceError",
    "View",
    "WrongSpaceError",
    "adjoint",
    "argsort",
    "asview",
    "bincount",
    "capture",
    "check",
    "compact",
    "concurrency",
    "copy_of",
    "count",
    "create_mirror",
    "create_mirror_view",
    "cross",
    "deep_copy",
    "default_space",
    "derivative",
    "digamma",
    "empty",
    "errors",
    "explain",
    "fence",
    "follow",
    "frexp",
    "function",
    "gammainc",
    "gammaincc",
    "gcd",
    "instances",
    "isclose",
    "kernel",
    "listening",
    "listing",
    "matrix",
    "norm",
    "numba",
    "parallel_for",
    "parallel_reduce",
    "parallel_scan",
    "pinned",
    "plan",
    "queued",
    "random",
    "register",
    "scratch_bytes",
    "searchsorted",
    "segmented_reduce",
    "segmented_scan",
    "segmented_sort",
    "sort_by_key",
    "stamp",
    "top_k",
    "unavailable_because",
    "unique",
    "use",
    "vector",
    "zeros",
    *words.__all__,
]


def __dir__() -> list[str]:
    return list(__all__)
