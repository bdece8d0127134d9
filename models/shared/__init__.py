"""The face of the room that all families share: what most of their files import. What few need is imported
from its module."""

from portable.errors import DTypeError, FiniteError, InputError, OrderError, ShapeError, printable

from .annotations import (
    Array,
    ArrayLike,
    ArrayOrView,
    ClientLike,
    DType,
    Floats,
    Ints,
    Label,
    LargeLike,
    Names,
    NumberOrArray,
    PathLike,
    Real,
    SpaceLike,
    Spaces,
    TableLike,
    Whole,
)
from .arrays import new_array, reached
from .checks import (
    as_numbers,
    check_choice,
    check_count,
    check_each,
    check_finite,
    check_flag,
    check_fractions,
    check_kind,
    check_labels,
    check_number,
    check_numbers,
    check_outputs,
    check_positive,
    check_seed,
    check_share,
    generator_of,
    numbers_in,
    refuse,
)
from .cluster import add_cluster, connected
from .dates import looks_dated
from .extras import axes_or_new, need, new_figure
from .files import (
    check_file,
    numbers,
    read_csv,
    read_json,
    read_npy,
    read_npz,
    reading,
    replacing,
    write,
    write_csv,
)
from .launches import exclusive, launch, lock_of, reduce
from .mapped import Streamed, opened
from .notebook_html import Frozen, Shown
from .posteriors import stopped
from .priors import Prior
from .progress import bar, tracked
from .results import Result
from .sharding import Shards, local_space, nodes
from .shared_kernels import first_not_below
from .store import NOWHERE, Store
from .user_warnings import warn
