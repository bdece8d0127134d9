"""Functions and kernels of a table: blocks of lines, each a name, or a name and parameters, and a body."""

import linecache


def made(kind, table, scope, file, params=""):
    """Return the functions of a table, by pk.function or pk.kernel, with the names of a scope."""
    blocks = [block.split("\n", 1) for block in table.strip("\n").split("\n\n")]
    heads = [head if "(" in head else f"{head}({params})" for head, _ in blocks]
    text = "".join(f"def {head}:\n{body}\n" for head, (_, body) in zip(heads, blocks))
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec"), scope)  # noqa: S102  (a text of the tests)
    names = [head.partition("(")[0] for head in heads]
    scope |= {name: kind(scope[name]) for name in names}
    return [scope[name] for name in names]
