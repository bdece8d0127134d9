"""Rename LLVM IR, assembly and PTX: names are replaced by numbers in order of appearance."""

import re

_NAME = re.compile(r'[%@!](?:"[^"]*"|[-\w.$]+)|^(?:"[^"]*"|[-\w.$]+)(?=:)')
_DECLARED = re.compile(r'^declare [^@]*@"?([^"(]+)', re.MULTILINE)
_KIND = re.compile(r"![a-zA-Z_][\w.]*$")


def normal(text):
    """Return the lines of a text, renamed, without comments and empty lines.

    Declared functions and kinds of metadata keep their names, which mean something. Declarations come last,
    sorted, since nothing depends on their order.
    """
    declared, lines = set(_DECLARED.findall(text)), []
    numbers = {"%": {}, "@": {}, "!": {}}

    def renamed(match):
        name = match[0]
        mark = name[0] if name[0] in "%@!" else "%"  # the line that defines a label
        bare = name.removeprefix(mark).strip('"')
        if mark == "@" and bare in declared or _KIND.match(name):
            return f"{mark}{bare}"
        return f"{mark}{numbers[mark].setdefault(bare, len(numbers[mark]))}"

    for line in text.splitlines():
        if line.startswith("define"):  # registers and labels are local to a function
            numbers["%"] = {}
        if line.strip() and not line.startswith(";"):
            lines.append(_NAME.sub(renamed, line.rstrip()))
    declarations = sorted(line for line in lines if line.startswith("declare"))
    return [line for line in lines if not line.startswith("declare")] + declarations


def nameless(lines):
    """Return lines without even the numbers, so that one additional instruction does not change all following
    lines.
    """
    return [re.sub(r"([%@!])\d+", r"\1", line) for line in lines]


_COMMENT = re.compile(r"\s*(?:#+ |//).*$")
_SYMBOL = re.compile(r"^([^\s:]+):|\.(?:entry|func)(?: \(.*?\))? (\w+)|\.b\d+ ([\w$]+)(?=[\[;])", re.M)
_TOKEN = re.compile(r"%?[\w.$]+")
_REGISTER = re.compile(r"(%[a-z]+)\d+$")  # registers of PTX


def normal_code(machine, code):
    """Return the lines of assembly or PTX without comments; labels, symbols and PTX's registers are
    numbered."""
    defined, numbers, lines = {m[m.lastindex] for m in _SYMBOL.finditer(code)}, {}, []
    cuda = machine == "cuda"

    def renamed(match):
        name = match[0]
        register = cuda and _REGISTER.match(name)
        if not (register or name in defined or cuda and "_param_" in name):
            return name
        return f"{register[1] if register else '@'}{numbers.setdefault(name, len(numbers))}"

    for line in code.splitlines():
        line = _COMMENT.sub("", line).rstrip()
        if line and not re.match(r"\s*\.(?:file|ident|reg) ?", line):
            lines.append(_TOKEN.sub(renamed, line))
    return lines


def nameless_code(lines):
    """Return the lines of `normal_code` without registers, places on the stack and numbers of labels."""
    return [re.sub(r"-?\d*\(?%\w+|@\d+", "%", line) for line in lines]
