"""LLVM text without its names: registers, labels, symbols and metadata are numbered as they appear."""

import re

_NAME = re.compile(r'[%@!](?:"[^"]*"|[-\w.$]+)|^(?:"[^"]*"|[-\w.$]+)(?=:)')
_DECLARED = re.compile(r'^declare [^@]*@"?([^"(]+)', re.MULTILINE)
_KIND = re.compile(r'![a-zA-Z_][\w.]*$')


def normal(text):
    """The lines of a text, renamed, without comments and empty lines.

    Declared functions and kinds of metadata keep their names, which mean something. Declarations come last,
    sorted, since nothing depends on their order.
    """
    declared, lines = set(_DECLARED.findall(text)), []
    numbers = {"%": {}, "@": {}, "!": {}}

    def renamed(match):
        name = match[0]
        mark = name[0] if name[0] in "%@!" else "%"  # a label's own line
        bare = name.removeprefix(mark).strip('"')
        if mark == "@" and bare in declared or _KIND.match(name):
            return f"{mark}{bare}"
        return f"{mark}{numbers[mark].setdefault(bare, len(numbers[mark]))}"

    for line in text.splitlines():
        if line.startswith("define"):  # registers and labels are a function's own
            numbers["%"] = {}
        if line.strip() and not line.startswith(";"):
            lines.append(_NAME.sub(renamed, line.rstrip()))
    declarations = sorted(line for line in lines if line.startswith("declare"))
    return [line for line in lines if not line.startswith("declare")] + declarations


def nameless(lines):
    """Lines without even the numbers, so that one instruction more does not change all that follow."""
    return [re.sub(r"([%@!])\d+", r"\1", line) for line in lines]
