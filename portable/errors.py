"""Every exception that portable, models and roofline raise on purpose.

PortableError
├── InputError (ValueError)        an argument of a public function is wrong
│   ├── ShapeError                 shapes or ranks disagree
│   ├── DTypeError (TypeError)     a dtype or a Python type is not accepted here
│   ├── OrderError                 values that must ascend do not
│   └── FiniteError                NaN or infinity where a number is required
├── StorageError                   a file cannot be written: the disk is full, or refuses
├── ClusterError                   workers are unusable, or the scheduler has ended
├── SpaceError                     an execution or memory space
│   ├── UnknownSpaceError (ValueError)   no space has that name
│   ├── SpaceUnavailableError (RuntimeError)   the space exists but cannot run on this machine
│   └── WrongSpaceError (ValueError)     data is in memory that the launch cannot reach
├── KernelError                    the source of a kernel; the message names kernel, file and line
│   ├── SourceError                the source cannot be read
│   ├── LanguageError              a construct or a callable that kernels do not have
│   │   └── CollectiveError        a barrier or collective that not all members reach
│   └── LoweringError              the source cannot be typed or compiled for these arguments
│       └── ReadOnlyError          a write through a read-only view
└── LaunchError (RuntimeError)     a launch that cannot run as requested
    ├── CheckError                 the checked space found defects; `.findings` lists them
    ├── NestedLaunchError          a launch after a fork
    ├── DeviceError                the driver reported a failure
    └── OutOfMemoryError (MemoryError)   the space has too little memory for the request
"""

import re

_NOT_SHOWN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text):
    """Return text with control characters and lone surrogates escaped, which a terminal would act on and
    files refuse.
    """
    return _NOT_SHOWN.sub(lambda found: ascii(found[0])[1:-1], str(text))


def nearest(message):
    """Return a message that ends in "(choose from ...)" with the choice nearest to what it quotes instead."""
    import difflib

    told, _, choices = message.partition(" (choose from ")
    word = told.split("'")[1:2] or [""]
    near = difflib.get_close_matches(word[0], re.findall(r"[\w.-]+", choices), 1)
    return f"{told}; did you mean '{near[0]}'?" if near else message


class PortableError(Exception):
    """Base of every exception raised on purpose. Names in its message are shown without control
    characters."""

    def __str__(self):
        return printable(super().__str__())


class InputError(PortableError, ValueError):
    """An argument is wrong; the message names it, the given value and the expected one."""


class ShapeError(InputError):
    """Shapes or ranks disagree."""


class DTypeError(InputError, TypeError):
    """A dtype or a Python type is not accepted here."""


class OrderError(InputError):
    """Values that must ascend do not; the message names the first offending index."""


class FiniteError(InputError):
    """NaN or infinity where a number is required; the message names the first offending index."""


class StorageError(PortableError):
    """A file cannot be written for lack of space or permission; the message names it."""


class ClusterError(PortableError):
    """Workers of a cluster are unusable, or the scheduler has ended; the message names them and the
    reason.
    """


class SpaceError(PortableError):
    """Something about an execution or memory space."""


class UnknownSpaceError(SpaceError, ValueError):
    """No space has that name."""


class SpaceUnavailableError(SpaceError, RuntimeError):
    """The space exists but cannot run on this machine; the message gives the reason."""


class WrongSpaceError(SpaceError, ValueError):
    """Data is in memory that the launch cannot reach; the message explains how to move it."""


class KernelError(PortableError):
    """The source of a kernel is at fault; the message names kernel, file and line."""


class SourceError(KernelError):
    """The source of a kernel cannot be read."""


class LanguageError(KernelError):
    """A construct or a callable that kernels do not have."""


class CollectiveError(LanguageError):
    """A barrier or collective is at a place that not all members of a team reach."""


class LoweringError(KernelError):
    """The source cannot be typed or compiled for these arguments."""


class ReadOnlyError(LoweringError):
    """A write through a read-only view."""


class LaunchError(PortableError, RuntimeError):
    """A launch cannot run as requested."""


class CheckError(LaunchError):
    """The checked space found defects in a kernel.

    Attributes
    ----------
    findings : list of Finding, causes first
    """

    def __init__(self, findings):
        super().__init__("\n".join(map(str, findings)))
        self.findings = list(findings)


class NestedLaunchError(LaunchError):
    """A launch after a fork where the space cannot follow."""


class DeviceError(LaunchError):
    """The device's driver reported a failure; the message includes its code and text."""


class OutOfMemoryError(LaunchError, MemoryError):
    """The space has too little memory for the request."""
