"""The words of kernels for observation, `print` and `breakpoint`, read into the typed tree."""

import ast

from ..core.compiler.reading.operations import build
from ..core.compiler.reading.tree import Seen
from ..errors import LanguageError


def only_checked(node):
    if not build.asserts:
        build.fail(
            node,
            f'`{ast.unparse(node)}` is for the checked space alone, `with pk.use("checked")`',
            LanguageError,
        )


def read_breakpoint(node):
    """Return the node of a debugger's prompt, which has access to the source's variables."""
    only_checked(node)
    seen = dict(build.frame.direct) | {name: build.read(name, node) for name in build.frame.variables}
    return build.operation("breakpoint", attr=Seen({name.partition("@")[0]: v for name, v in seen.items()}))


def read_print(node):
    only_checked(node)
    texts = [a.value if isinstance(a, ast.Constant) and isinstance(a.value, str) else None for a in node.args]
    return build.operation(
        "print", *(build.number(a) for a, text in zip(node.args, texts) if text is None), attr=tuple(texts)
    )


WORDS = {"print": read_print, "breakpoint": read_breakpoint}
