"""Kernels written once as plain Python functions, run on multicore SIMD CPUs and on CUDA.

    import portable as pk

    @pk.kernel
    def axpy(i, a, x, y):
        y[i] += a * x[i]

    pk.parallel_for(len(x), axpy, 2.0, x, y)

Importing needs no GPU, driver or toolkit; `python -m portable` says what this machine offers.
"""

from . import errors, locks, numba, random, words
from .elementary_gamma import gammainc, gammaincc  # (made of random.py's; rows of their own)
from .annotations import ArrayLike, Number, SpaceLike
from .algorithms import argsort, sort_by_key
from .backends.cpu import Threads
from .backends.cuda import Cuda
from .backends.contract import register
from .check import Report, check
from .copy import copy_of, create_mirror, create_mirror_view, deep_copy, pinned
from .count import count
from .dispatch import parallel_for, parallel_reduce, parallel_scan
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
from .events import listening
from .explain import explain, listing
from .graph import capture
from .kernel import Function, Kernel, function, kernel
from .plan import plan
from .policy import AUTO, MDRangePolicy, RangePolicy, TeamPolicy, scratch_bytes
from .reducer import LogSumExp, Max, MaxLoc, Min, MinLoc, Prod, Reducer, Sum
from .scatter import ScatterView
from .segments import bincount, searchsorted, segmented_reduce, segmented_scan, segmented_sort, unique
from .selecting import compact, top_k
from .space import (
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
from .team import Team
from .view import View, asview, empty, zeros
from .words import *  # noqa: F403  (a name for each row)

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
    "deep_copy",
    "default_space",
    "empty",
    "errors",
    "explain",
    "fence",
    "follow",
    "function",
    "gammainc",
    "gammaincc",
    "instances",
    "kernel",
    "listening",
    "listing",
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
    "zeros",
    *words.__all__,
]
