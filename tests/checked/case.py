"""Define a row of the gallery."""

import inspect
from typing import NamedTuple


class Case(NamedTuple):
    """Broken kernel, the finding that it should produce, and the corrected kernel.

    kind : str
        A key of portable.watch.checked.findings.KINDS.
    args : callable
        Fresh arguments for either kernel.
    """

    kind: str
    broken: object
    corrected: object
    policy: object
    args: object

    @property
    def name(self):
        return self.corrected.name

    @property
    def line(self):
        """Return the number of the line that is marked as wrong."""
        lines, first = inspect.getsourcelines(self.broken.fn)
        return next(first + k for k, line in enumerate(lines) if "# wrong" in line)
