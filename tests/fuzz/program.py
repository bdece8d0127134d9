"""Define a program: the source of a module with a kernel, a launch, and the arguments."""

import linecache
from dataclasses import dataclass

import numpy as np

HEADER = """import math

import numpy as np
import portable as pk

WIDE = False  # True: sixteen lanes, whatever the width of the arrays


@pk.function(chain=WIDE)
def wide(t):
    return t


"""


@dataclass
class Program:
    """One launch.

    Attributes
    ----------
    text : str, a module that defines `kernel`, whose last parameter is an array that it does not touch (see
    `lanes`)
    policy : ("range", begin, end), ("box", begins, ends) or ("team", league_size)
    args : list of ndarray, numbers and ("static", number)
    launch : "for", "reduce" or "scan"; the last argument of a scan is its `out`
    reducers : names as in the source, "Sum" for pk.Sum
    again : Programs with other constants that are run in its place, one after the other
    """

    kind: str
    text: str
    policy: tuple
    args: list
    launch: str = "for"
    reducers: tuple = ("Sum",)
    inclusive: bool = True
    again: tuple = ()
    plain: str = ""  # the oracle's source, if it is not `text`

    @property
    def narrow(self):
        """Return True if no array has elements wider than 32 bits: packs have sixteen lanes then."""
        return all(a.dtype.itemsize <= 4 for a in self.args if isinstance(a, np.ndarray))


def load(text, name="<fuzz>", wide=False, names=()):
    """Execute a module's source, among other names, and return its namespace; inspect can find the source
    although it is in no file.
    """
    text = text.replace("WIDE = False", f"WIDE = {wide}")
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    namespace = {"__name__": "fuzzed", **dict(names)}
    exec(compile(text, name, "exec"), namespace)  # noqa: S102  (a text of our own making)
    return namespace


def show(value):
    """Return an argument as Python source."""
    if isinstance(value, np.ndarray):
        held, ending = value, ""
        if value.dtype.kind == "f":  # bits, so that no digit is lost
            held, ending = value.view(f"u{value.itemsize}"), f".view(np.{value.dtype})"
        return f"np.array({held.tolist()}, np.dtype('{held.dtype}')){ending}.reshape({value.shape})"
    if isinstance(value, tuple) and value and value[0] == "static":
        return f"pk.static({show(value[1])})"
    if isinstance(value, np.generic):
        return f"np.{value.dtype}({value.item()!r})"
    if isinstance(value, float) and not np.isfinite(value):
        return f"float('{value!r}')"
    return repr(value)


def launch(program, namespace, space, args, packed=True):
    """Launch a program's kernel on a space with its arguments, which are not copied, and return the launch's
    result.
    """
    import portable as pk

    kernel = namespace["kernel"] if packed is True else pk.kernel(namespace["kernel"].fn, packed=packed)
    policy = policy_of(program)(space)
    args = [pk.static(a[1]) if isinstance(a, tuple) else a for a in args]
    if program.launch == "for":
        return pk.parallel_for(policy, kernel, *args)
    reducers = reducers_of(program, namespace)
    if program.launch == "scan":
        *args, out = args
        return pk.parallel_scan(
            policy, kernel, *args, out=out, reducer=reducers[0], inclusive=program.inclusive
        )
    return pk.parallel_reduce(policy, kernel, *args, reducer=reducers if len(reducers) > 1 else reducers[0])


def policy_of(program):
    """Return a function of a space's name that gives a program's policy there."""
    import portable as pk

    shape, *rest = program.policy
    kind = {"team": pk.TeamPolicy, "range": pk.RangePolicy, "box": pk.MDRangePolicy}[shape]
    return lambda space: kind(*rest, space=space)


def reducers_of(program, namespace):
    import portable as pk

    return tuple(namespace.get(name) or getattr(pk, name) for name in program.reducers)


END = """
    arrays = [a if isinstance(a, np.ndarray) else a.to_numpy() for a in args if getattr(a, "shape", ())]
    for k, (got, right) in enumerate(zip(arrays, wanted)):
        if got.tobytes() != right.tobytes():
            print(f"array argument {k}: got\\n{got}\\nwanted\\n{right}")
    if wanted_result is not None:
        print(f"result: got {result}, wanted {wanted_result}")
"""


def replay(program, build, wide, packed, wanted, result):
    """Return the text of a file that runs a program again and prints the expected and the actual result."""
    shape, *rest = program.policy
    policy = {"team": "TeamPolicy", "range": "RangePolicy", "box": "MDRangePolicy"}[shape]
    names = [n if f"\n{n} = " in program.text else f"pk.{n}" for n in program.reducers]
    out = ", out=args[-1]" if program.launch == "scan" else ""
    more = (
        ""
        if program.launch == "for"
        else f", reducer={names[0] if len(names) == 1 else '(' + ', '.join(names) + ')'}"
    )
    more += f", inclusive={program.inclusive}" if program.launch == "scan" else ""
    last = "args[:-1]" if program.launch == "scan" else "args"
    lines = [
        program.text.replace("WIDE = False", f"WIDE = {wide}").rstrip(),
        "",
        "",
        f"# {build}: a {program.kind} program",
        "args = [",
        *(f"    {show(a)}," for a in program.args),
        "]",
        "wanted = [",
        *(f"    {show(a)}," for a in wanted),
        "]",
        f"wanted_result = {show(result)}",
        "",
        'if __name__ == "__main__":',
        *([] if packed is True else [f"    kernel = pk.kernel(kernel.fn, packed={packed})"]),
        f'    policy = pk.{policy}({", ".join(map(repr, rest))}, space="{build.partition(",")[0]}")',
        '    if policy.space.startswith("cuda"):',
        (
            "        args = [pk.copy_of(a, space=policy.space) if isinstance(a, np.ndarray) else a for a in"
            " args]"
        ),
        f"    result = pk.parallel_{program.launch}(policy, kernel, *{last}{out}{more})",
    ]
    return "\n".join(lines) + END
