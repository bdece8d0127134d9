"""Define a row of the gallery, and the broken form of a kernel.

The text of a kernel is the correct one. Behind a line, `# broken: TEXT` is what the broken form has in its
place (a dash: nothing), and `# also: TEXT` a line that only the broken form has; `# wrong` marks the line of
its defect.
"""

import functools
import inspect
import re
from pathlib import Path
from typing import NamedTuple

from ..fuzz.program import load


@functools.cache
def broken(kernel):
    """Return the broken form of a kernel: a kernel of its name and `_broken`, whose file has the text."""
    text = []
    for line in inspect.getsourcelines(kernel.fn)[0]:
        begin, word, more = re.fullmatch(r"(.*?)(?:# (broken|also): (.*))?\n", line).groups()
        if begin.strip():
            text.append(begin)
        if word == "also":
            text.append(begin + more)
        elif word:
            line = text.pop()
            text += [] if more == "-" else [line[: len(line) - len(line.lstrip())] + more]
    name, file = f"{kernel.name}_broken", Path(inspect.getfile(kernel.fn)).name
    source = "\n".join(text).replace(f"def {kernel.name}(", f"def {name}(") + "\n"
    return load(source, f"{name} of {file}", names=kernel.fn.__globals__)[name]


class Case(NamedTuple):
    """Kernel, and the finding that its broken form should produce.

    kind : str
        A key of portable.watch.checked.findings.KINDS.
    args : callable
        Fresh arguments for either form.
    """

    kind: str
    corrected: object
    policy: object
    args: object

    @property
    def name(self):
        return self.corrected.name

    @property
    def broken(self):
        return broken(self.corrected)

    @property
    def line(self):
        """Return the number of the line that is marked as wrong."""
        lines, first = inspect.getsourcelines(self.broken.fn)
        return next(first + k for k, line in enumerate(lines) if "# wrong" in line)
