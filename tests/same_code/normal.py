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


_COMMENT = re.compile(r"\s*(?:#+ |//).*$")
_DEFINED = {"cuda": re.compile(r"^(\S+):|\.(?:entry|func)(?: \(.*?\))? (\w+)|\.b\d+ ([\w$]+)(?=[\[;])", re.MULTILINE),
            "cpu": re.compile(r"^(\S+):", re.MULTILINE)}
_TOKEN = re.compile(r"%?[\w.$]+")
_VIRTUAL = re.compile(r"(%[a-z]+)\d+$")


def normal_code(machine, code):
    """The lines of assembly or PTX, with labels, symbols and PTX's registers renamed, without comments and files."""
    cuda = machine == "cuda"
    defined = {name for found in _DEFINED["cuda" if cuda else "cpu"].findall(code) for name in (found if cuda else [found]) if name}
    numbers, lines = {}, []

    def renamed(match):
        name = match[0]
        register = cuda and _VIRTUAL.match(name)
        if name in defined or register or cuda and "_param_" in name:
            kind = register[1] if register else "@"
            return f"{kind}{numbers.setdefault(name, len(numbers))}"
        return name

    for line in code.splitlines():
        line = _COMMENT.sub("", line).rstrip()
        if line and not re.match(r"\s*\.(?:file|ident|reg) ?", line):
            lines.append(_TOKEN.sub(renamed, line))
    return lines


def nameless_code(lines):
    """Lines of `normal_code` without registers, places on the stack and numbers of labels."""
    return [re.sub(r"-?\d*\(?%\w+|@\d+", "%", line) for line in lines]
