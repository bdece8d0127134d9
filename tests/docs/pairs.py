"""`python -m tests.docs.pairs PAGE`: both sides of a page that says how to come here from another library.

A block that begins with ```python and a word is the other library's. Where it sets `theirs`, the next one
of ours sets `ours`, and the two are compared: within 1e-12 of the largest, or, once a block has set it,
within `tolerance`. All blocks run in order, as one program. A process of its own: libraries have switches
for all of it.
"""

from __future__ import annotations

import linecache
import sys
from pathlib import Path

import numpy as np

FENCE = "```python"


def blocks(page: Path):
    """(number of the first line, whose it is or "" for ours, text) of every block of Python."""
    first, whose, lines = 0, None, []
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if whose is None and line.startswith(FENCE):
            first, whose, lines = number + 1, line.removeprefix(FENCE).strip(), []
        elif whose is not None and line == "```":
            yield first, whose, "\n".join(lines)
            whose = None
        else:
            lines.append(line)
    assert whose is None, f"{page.name}: a block has no end"


def others(page: Path):
    """The names of the libraries that a page's blocks use beside ours."""
    return {whose for _, whose, _ in blocks(page)} - {""}


def compare(page: Path) -> int:
    """Run a page; the number of pairs that agree. AssertionError for the first that does not."""
    text = [""] * len(page.read_text().splitlines())
    for first, _, block in blocks(page):
        text[first - 1 : first + block.count("\n")] = block.split("\n")
    name = f"{page.stem}.py"  # kernels are read from their text
    linecache.cache[name] = (0, None, [line + "\n" for line in text], name)
    names, compared = {"__name__": "__page__"}, 0
    for first, whose, block in blocks(page):
        exec(compile("\n" * (first - 1) + block, name, "exec"), names)
        if not whose and "theirs" in names:
            wanted, found = (np.asarray(names.pop(side), float) for side in ("theirs", "ours"))
            if wanted.ndim:  # pyEDM begins with rows of nothing, or leaves them out at the end
                wanted = wanted[max(len(wanted) - len(found), 0) :]
                found = found[: len(wanted)]
            known = np.isfinite(wanted)
            assert known.sum() >= max(wanted.size - 2, 1), (
                f"line {first}: {known.sum()} of {wanted.size} numbers"
            )
            bound = names.get("tolerance", 1e-12 * max(1.0, np.abs(wanted[known]).max()))
            np.testing.assert_allclose(
                found[known], wanted[known], rtol=0, atol=bound, err_msg=f"{page.name}, line {first}"
            )
            compared += 1
    assert "theirs" not in names, "the last block of theirs has none of ours after it"
    return compared


if __name__ == "__main__":
    print(compare(Path(sys.argv[1])))
