"""`python -m tests.docs.pairs PAGE`: compare both sides of a page on migration from another library.

A block that begins with ```python and a word uses the other library. If it sets `theirs`, the next block with
portable sets `ours`, and the two are compared: within 1e-12 of the largest value, or within `tolerance` if a
block has set it. All blocks run in order, as one program, in a separate process, since libraries have global
switches.
"""

import linecache
import sys
from pathlib import Path

import numpy as np

FENCE = "```python"


def blocks(page):
    """Return (number of the first line, name of the library or "" for portable, source) of every block of
    Python.
    """
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


def others(page):
    """Return the names of the libraries that a page's blocks use in addition to portable."""
    return {whose for _, whose, _ in blocks(page)} - {""}


def compare(page):
    """Run a page and return the number of pairs that agree. Raises AssertionError for the first that does
    not.
    """
    text = [""] * len(page.read_text().splitlines())
    for first, _, block in blocks(page):
        text[first - 1 : first + block.count("\n")] = block.split("\n")
    name = f"{page.stem}.py"  # kernels are compiled from their source
    linecache.cache[name] = (0, None, [line + "\n" for line in text], name)
    names, compared = {"__name__": "__page__"}, 0
    for first, whose, block in blocks(page):
        exec(compile("\n" * (first - 1) + block, name, "exec"), names)
        if not whose and "theirs" in names:
            wanted, found = (np.asarray(names.pop(side), float) for side in ("theirs", "ours"))
            if wanted.ndim:  # pyEDM begins with rows of NaN, or leaves rows out at the end
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
