"""List the remedies for words that kernels lack, for messages."""

import types

from ..core.language import frontend, words

# constructs that kernels do not have, and their replacements
_UNSUPPORTED = {
    "With": "with; write to an array",
    "Try": "try; look at the value by an if",
    "Raise": "raise; write an assert",
    "Delete": "del",
    "Global": "global; write to an element of an argument",
    "Nonlocal": "nonlocal; write to an element of an argument",
    "FunctionDef": "a nested function; define it beside the kernel, with @pk.function",
    "ClassDef": "a class; pass a NamedTuple or a dataclass",
    "Import": "import; import above the kernel",
    "ImportFrom": "import; import above the kernel",
    "Match": "match; write if and elif",
    "Dict": "a dict; number its keys, and pass a tuple or an array",
    "List": "a list; write a tuple, or a pk.local to change its items",
    "Set": "a set; write a tuple",
    "JoinedStr": "a string",
    "Starred": "'*'; write the items one by one, or a part of the tuple, t[1:]",
    "Lambda": "a lambda; define it beside the kernel, with @pk.function",
    "NamedExpr": "':='; assign on a line of its own",
    **dict.fromkeys("ListComp SetComp DictComp GeneratorExp".split(), "a comprehension; write a loop"),
}
_INSTEAD = {
    "prange": "a kernel's indices run in parallel; loop over range",
    "reversed": "range(n - 1, -1, -1) counts down",
    "divmod": "write a // b, a % b",
    "at": "write pk.atomic_add(x, i, v)",
    "mean": "a mean is x.sum() / x.size",
    **dict.fromkeys("argmax argmin all any".split(), "write a loop"),
    **dict.fromkeys(
        "zeros empty ones full array eye zeros_like empty_like".split(),
        "pk.vector(x, y) holds few numbers, pk.local(shape, dtype) an array of one index's own",
    ),
}

_AT_A_PROMPT = (
    "the prompt before Python 3.13, and what is piped in, keep none; put it in a file and run"
    " that, or use python -c, IPython or a notebook"
)
_EXECUTED = (
    "pass the source that was executed, or of a frozen program's file, @pk.{}(source=text); or put it in a"
    " file"
)


def of_syntax(kind):
    """Return the name of a class of syntax nodes, and its replacement."""
    what, _, remedy = _UNSUPPORTED.get(kind, kind).partition(";")
    return what, remedy and f";{remedy}"


def of_call(fn, name):
    """Return the replacement of a call that kernels do not support."""
    if frontend.is_own(fn):
        return ", where one index or team is at work; it is for the host"
    module = (getattr(fn, "__module__", None) or "").partition(".")[0]
    if isinstance(fn, types.FunctionType) and module != "numpy":
        return "; mark it with @pk.function"
    last = name.rpartition(".")[2]
    if last in _INSTEAD:
        return f"; {_INSTEAD[last]}"
    if name.startswith(("np.random.", "numpy.random.", "random.")):
        return "; numbered random numbers are in pk.random, as in pk.random.normal(seed, stream, draw)"
    if module not in ("numpy", "math", "scipy") and not hasattr(fn, "nin"):  # which ufuncs have
        return "; call it before the launch, and pass the result"
    return f"; there are {', '.join(row.name for row in words.ROWS if row.line)}"


def of_source(file):
    """Return the remedy if a function's file has no source."""
    return _AT_A_PROMPT if file == "<stdin>" else _EXECUTED
