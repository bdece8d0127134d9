"""Deeply nested sources: room for them in Python's call stack, and an error for those that exceed it."""

import ast
import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator

from ..errors import LanguageError
from .locks import Lock

# Nested calls of Python, of which a level of a source takes up to fifteen. They lie on the heap, except those
# that pass through C: all of them fit a stack of 2 MiB four times.
MOST_CALLS = 8000
_lock, _held = Lock(), []  # the previous limits, one for each thread inside `room`


@contextlib.contextmanager
def deep_sources(place: str, trees: Callable[[], Iterable[ast.AST]] = tuple) -> Iterator[None]:
    """Let this block read, or write, deeply nested sources.

    Parameters
    ----------
    place : str
        Place of the kernel or function, as messages name it.
    trees : callable
        Returns the syntax trees of the input, if they are too deep.

    Raises
    ------
    LanguageError
        There are more levels than MOST_CALLS, or Python itself, allow.
    """
    with _lock:
        _held.append(_held[-1] if _held else sys.getrecursionlimit())
        sys.setrecursionlimit(max(_held[-1], MOST_CALLS))
    try:
        yield
    except (RecursionError, SyntaxError) as error:
        if isinstance(error, SyntaxError) and "too many" not in str(error):
            raise
        many = list(trees())
        levels, line = max(map(_deepest, many), default=(0, 0))
        raise LanguageError(
            f"{place}: its source is nested too deeply to be compiled: {levels} levels of terms or branches"
            f" (line {line}), in {len(many)} function(s) that call each other; assign parts to names, or loop"
            " over a table"
        ) from None
    finally:
        with _lock:
            before = _held.pop()
            if not _held:
                with contextlib.suppress(RecursionError):  # this thread is deeper than that by itself
                    sys.setrecursionlimit(before)


def _deepest(tree):
    """Return the number of nodes within each other, and the line of the innermost."""
    found, left = (0, 0), [(1, 0, tree)]
    while left:
        levels, line, node = left.pop()
        line = getattr(node, "lineno", line)
        levels += len(getattr(node, "comparators", ()))  # a link of a comparison lies in the one before
        found = max(found, (levels, line))
        left += [(levels + 1, line, child) for child in ast.iter_child_nodes(node)]
    return found
