"""Every exception that portable, models and roofline raise on purpose.

PortableError
├── InputError (ValueError)        an argument of a public function is wrong
│   ├── ShapeError                 shapes or ranks disagree
│   ├── DTypeError (TypeError)     a dtype or a Python type is not accepted here
│   ├── OrderError                 values that must ascend do not
│   └── FiniteError                NaN or infinity where a number is wanted
├── StorageError                   a file cannot be written: the disk is full, or refuses
├── ClusterError                   workers that cannot take part, or a scheduler that is gone
├── SpaceError                     an execution or memory space
│   ├── UnknownSpaceError (ValueError)   no space has that name
│   ├── SpaceUnavailableError (RuntimeError)   the space exists but cannot run on this machine
│   └── WrongSpaceError (ValueError)     data lives where the launch cannot reach it
├── KernelError                    the text of a kernel; the message names kernel, file and line
│   ├── SourceError                the text cannot be read
│   ├── LanguageError              a construct or a callable that kernels do not have
│   │   └── CollectiveError        a barrier or collective where not all members get
│   └── LoweringError              the text cannot be typed or compiled for these arguments
│       └── ReadOnlyError          a write through a read-only view
└── LaunchError (RuntimeError)     a launch that cannot run as asked
    ├── CheckError                 the checked space found defects; `.findings` lists them
    ├── NestedLaunchError          a launch after a fork
    ├── DeviceError                the driver reported a failure
    └── OutOfMemoryError (MemoryError)   the space has no room for the request
"""

import re

_NOT_SHOWN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text):
    """Text with escapes in the place of what a terminal would act on and what no file takes: controls and
    lone surrogates."""
    return _NOT_SHOWN.sub(lambda found: ascii(found[0])[1:-1], str(text))


class PortableError(Exception):
    """Base of every exception raised on purpose. Names in its message are shown without control
    characters."""

    def __str__(self):
        return printable(super().__str__())


class InputError(PortableError, ValueError):
    """An argument is wrong; the message names it, what was got and what is wanted."""


class ShapeError(InputError):
    """Shapes or ranks disagree."""


class DTypeError(InputError, TypeError):
    """A dtype or a Python type is not accepted here."""


class OrderError(InputError):
    """Values that must ascend do not; the message names the first offending index."""


class FiniteError(InputError):
    """NaN or infinity where a number is wanted; the message names the first offending index."""


class StorageError(PortableError):
    """A file cannot be written, for want of room or of permission; the message names it."""


class ClusterError(PortableError):
    """Workers of a cluster that cannot take part, or a scheduler that is gone; the message says which and
    why."""


class SpaceError(PortableError):
    """Something about an execution or memory space."""


class UnknownSpaceError(SpaceError, ValueError):
    """No space has that name."""


class SpaceUnavailableError(SpaceError, RuntimeError):
    """The space exists but cannot run on this machine; the message says why."""


class WrongSpaceError(SpaceError, ValueError):
    """Data lives where the launch cannot reach it; the message says how to move it."""


class KernelError(PortableError):
    """The text of a kernel is at fault; the message names kernel, file and line."""


class SourceError(KernelError):
    """The text of a kernel cannot be read."""


class LanguageError(KernelError):
    """A construct or a callable that kernels do not have."""


class CollectiveError(LanguageError):
    """A barrier or collective stands where not all members of a team get."""


class LoweringError(KernelError):
    """The text cannot be typed or compiled for these arguments."""


class ReadOnlyError(LoweringError):
    """A write through a read-only view."""


class LaunchError(PortableError, RuntimeError):
    """A launch that cannot run as asked."""


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
    """The device's driver reported a failure; the message carries its code and text."""


class OutOfMemoryError(LaunchError, MemoryError):
    """The space has no room for the request."""
