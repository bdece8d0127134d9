"""Compare a program's results on every space, number of lanes and kind of code with those of the oracle."""

from __future__ import annotations

import dataclasses
import itertools
from dataclasses import dataclass

import numpy as np

import portable as pk
from portable.errors import CheckError, LaunchError, LoweringError, PortableError

from ..launching import move
from .meaning import Refused, Undefined
from .lowering import lower
from .members import run
from .program import launch, load, replay

CHECKED_TEAM = 3  # members of a team in the checked space
_names = itertools.count()


class Difference(AssertionError):
    """Result of a space that differs from the oracle's. `file`: the text of a file that reproduces it."""

    def __init__(self, message, build, file=""):
        super().__init__(message)
        self.build, self.file = build, file


@dataclass(frozen=True)
class Build:
    """One way to run a program. `lanes`: 8 or 16 by the types of its arrays, 2 or 4 by packed=, 1 for
    packed=False, 0 where the space decides."""

    name: str
    space: str
    lanes: int
    team: int

    @property
    def packed(self):
        """Return the kernel's `packed` mark."""
        return {1: False, 2: 2, 4: 4}.get(self.lanes, True)

    @property
    def fused(self):
        return self.space != "checked"


CPU = (
    Build("serial, 8 lanes", "serial", 8, 8),
    Build("serial, 16 lanes", "serial", 16, 16),
    Build("serial, 4 lanes", "serial", 4, 4),
    Build("serial, packed=False", "serial", 1, 1),
    Build("threads:3, 8 lanes", "threads:3", 8, 8),
    Build("checked", "checked", 0, CHECKED_TEAM),
)
CUDA = (Build("cuda", "cuda", 0, 32),)
LOWERED = Build("cuda, lowered", "ptx", 0, 8)  # for all sizes of blocks; needs no GPU


def compare(program, builds=(*CPU, LOWERED)):
    """Run a program in each of `builds`; a program with `again` is run with other constants, too.

    Returns
    -------
    dict : build's name -> "same", or why it could not be compared

    Raises
    ------
    Difference, Undefined, Refused
    """
    said, loaded = {}, {}
    for other in program.again or (program,):
        said |= _everywhere(other, builds, loaded.setdefault(other.text, {}))
    return said


def _everywhere(program, builds, loaded):
    wanted, said = {}, {}
    for build in builds:
        if build is LOWERED:
            said[build.name] = _lower(program, loaded)
            continue
        team = build.team if program.policy[0] == "team" else 0
        if (team, build.fused) not in wanted:
            twin = wanted.get((team, not build.fused))
            if twin is not None and not twin[3]:  # without a sum with a product both round alike
                wanted[team, build.fused] = twin
            else:
                wanted[team, build.fused] = run(program, team, build.fused)
        wide = build.lanes == 16 and not program.narrow
        if wide not in loaded:
            loaded[wide] = load(program.text, f"<fuzz {next(_names)}>", wide)
        said[build.name] = _compare(program, build, loaded[wide], wide, *wanted[team, build.fused][:3])
    return said


def _lower(program, loaded):
    if not loaded:
        loaded[False] = load(program.text, f"<fuzz {next(_names)}>")
    try:
        lower(program, next(iter(loaded.values())), next(_names))
    except Exception as error:  # noqa: BLE001  (whatever leaves the compiler is a defect)
        text = replay(program, LOWERED.name, False, True, [], None)
        raise Difference(f"{LOWERED.name}: {type(error).__name__}: {error}", LOWERED, text) from error
    return "same"


def _compare(program, build, namespace, wide, arrays, result, overflow):
    given = list(program.args)
    if build.lanes == 8 and program.narrow:
        given[_pad(program)] = np.zeros(1, np.int64)
    asked = program
    if program.policy[0] == "team":
        asked = dataclasses.replace(program, policy=("team", program.policy[1], build.team))
    args = [move(a, build.space) if isinstance(a, np.ndarray) else a for a in given]
    with_file = replay(dataclasses.replace(asked, args=given), build.name, wide, build.packed, arrays, result)
    try:
        got_result = launch(asked, namespace, build.space, args, build.packed)
    except CheckError as error:
        strange = [f for f in error.findings if f.kind != "integer overflow" or not overflow]
        if strange:
            raise Difference(f"{build.name}: {strange[0]}", build, with_file) from error
        if program.launch != "for":
            return "reported an overflow"
        got_result = None
    except LaunchError:
        raise
    except LoweringError as error:  # the programs drawn here use only what the language supports
        raise Difference(f"{build.name}: {type(error).__name__}: {error}", build, with_file) from error
    except PortableError as error:
        raise RefusedBySpace(f"{type(error).__name__}: {error}", build.name, with_file) from error
    except Exception as error:  # noqa: BLE001  (whatever leaves a launch is a defect)
        raise Difference(f"{build.name}: {type(error).__name__}: {error}", build, with_file) from error
    got = [
        a if isinstance(a, np.ndarray) else a.to_numpy() for a in args if isinstance(a, (np.ndarray, pk.View))
    ]
    last = len(got) - (2 if program.launch == "scan" else 1)  # `pad` is not compared
    for k, (a, b) in enumerate(zip(got, arrays)):
        if k != last and not same_array(a, b):
            where = tuple(int(v) for v in np.argwhere(~_equal(a, b))[0])
            raise Difference(
                f"{build.name}: array argument {k} at {where}: got {a[where]!r}, wanted {b[where]!r}",
                build,
                with_file,
            )
    if not same(got_result, result):
        raise Difference(f"{build.name}: the result is {got_result!r}, wanted {result!r}", build, with_file)
    return "same"


class RefusedBySpace(Exception):
    """The compiler refused a program."""

    def __init__(self, message, build, file):
        super().__init__(message)
        self.build, self.file = build, file


def _pad(program):
    """Return the name of the argument `pad`: an array, the last parameter of the kernel."""
    return len(program.args) - (2 if program.launch == "scan" else 1)


def _equal(a, b):
    if a.dtype.kind != "f":
        return a == b
    bits = f"i{a.itemsize}"
    return (a.view(bits) == b.view(bits)) | (np.isnan(a) & np.isnan(b))


def same_array(a, b):
    """Return True if two arrays have equal bits; NaN equals NaN."""
    return a.shape == b.shape and a.dtype == b.dtype and bool(np.all(_equal(a, b)))


def same(a, b):
    """Return True if two results are equal: numbers bit by bit, tuples by element."""
    if isinstance(b, tuple):
        return isinstance(a, tuple) and len(a) == len(b) and all(same(x, y) for x, y in zip(a, b))
    if a is None or b is None:
        return a is b
    if isinstance(a, float):
        return a != a and b != b or (a == b and np.signbit(a) == np.signbit(b))
    return a == b


__all__ = [
    "Build",
    "CPU",
    "CUDA",
    "LOWERED",
    "Difference",
    "Refused",
    "RefusedBySpace",
    "Undefined",
    "compare",
]
