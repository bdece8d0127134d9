"""List the remedies for words that kernels lack, for messages."""

import difflib
import types

from ..core.language import words
from ..core.language.team import Team


def _table(text):
    """Return a dict of a text that has some names, a colon and their value in each line."""
    rows = [line.split(": ") for line in text.strip().splitlines()]
    return {name: value.strip() for names, value in rows for name in names.split()}


# constructs that kernels do not have, and their replacements
_UNSUPPORTED = _table(
    """
    With AsyncWith: with; write to an array, or `if team.single():`
    Try TryStar: try; look at the value by an if
    Raise: raise; write an assert
    Delete: del
    Global: global; write to an element of an argument
    Nonlocal: nonlocal; write to an element of an argument
    FunctionDef AsyncFunctionDef: a nested function; define it beside the kernel, with @pk.function
    ClassDef: a class; pass a NamedTuple or a dataclass
    Import ImportFrom: import; import above the kernel
    Match: match; write if and elif
    Dict: a dict; number its keys, and pass a tuple or an array
    List: a list; write a tuple, or a pk.local to change its items
    Set: a set; write a tuple
    JoinedStr: a string
    Starred: '*'; write the items one by one, or a part of the tuple, t[1:]
    Lambda: a lambda; define it beside the kernel, with @pk.function
    NamedExpr: ':='; assign on a line of its own
    ListComp SetComp DictComp GeneratorExp: a comprehension; write a loop
    """
)
# names of functions, methods and attributes that kernels do not have, and their replacements
_INSTEAD = _table(
    """
    prange: a kernel's indices run in parallel; loop over range
    reversed: range(n - 1, -1, -1) counts down
    divmod: write a // b, a % b
    at atomic_inc: write pk.atomic_add(x, i, v)
    sign: write pk.where(x == 0, x, pk.copysign(1.0, x))
    factorial: write round(pk.gamma(n + 1.0))
    square: write x ** 2
    deg2rad: write pk.radians(x)
    mean: a mean is x.sum() / x.size
    fill: write x[:] = v
    astype int8 int16 uint8 uint16 float16: write pk.float32(v), pk.int32(v); arrays alone have small types
    isinstance type: compare dtypes, x.dtype == pk.float32
    barrier sync: a team's is team.barrier(), under a pk.TeamPolicy
    cumsum sort sorted argsort: use pk.parallel_scan or pk.argsort before the launch
    argmax argmin all any: write a loop
    str: pass numbers; a dtype is pk.float32
    ellipsis: write x[:]
    self: a kernel is no method
    zeros empty ones full array eye zeros_like empty_like: pk.vector(x, y) holds few numbers,\
 pk.local(shape, dtype) an array of one index's own
    """
)

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


def of_name(name, known=()):
    """Return what to write in place of a name that kernels lack, or the nearest of the known names."""
    team = "a kernel of a team is launched with a pk.TeamPolicy" * (name in vars(Team))
    near = ", ".join(difflib.get_close_matches(name, known, 4))
    hint = _INSTEAD.get(name) or team or near and f"there are {near}"
    return hint and f"; {hint}"


def of_call(fn, name):
    """Return the replacement of a call that kernels do not support."""
    module = (getattr(fn, "__module__", None) or "").partition(".")[0]
    if module == "portable":
        return ", where one index or team is at work; it is for the host"
    if isinstance(fn, types.FunctionType) and module != "numpy":
        return "; mark it with @pk.function"
    last = name.rpartition(".")[2]
    if last in _INSTEAD:
        return of_name(last)
    if name.startswith(("np.random.", "numpy.random.", "random.")):
        return "; numbered random numbers are in pk.random, as in pk.random.normal(seed, stream, draw)"
    if module not in ("numpy", "math", "scipy") and not hasattr(fn, "nin"):  # which ufuncs have
        return "; call it before the launch, and pass the result"
    there = ", ".join(row.name for row in words.ROWS if row.line)
    return f"; write it in a @pk.function of {there}"


def of_source(file):
    """Return the remedy if a function's file has no source."""
    return _AT_A_PROMPT if file == "<stdin>" else _EXECUTED
