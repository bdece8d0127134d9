"""Functions and kernels of a table: blocks of lines, each a name and a body."""

import linecache


def made(kind, params, table, scope, file):
    """Return the functions of a table, by pk.function or pk.kernel, with the names of a scope."""
    blocks = dict(block.split("\n", 1) for block in table.strip("\n").split("\n\n"))
    text = "".join(f"def {name}({params}):\n{body}\n" for name, body in blocks.items())
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec"), scope)  # noqa: S102  (a text of the tests)
    return [kind(scope[name]) for name in blocks]
