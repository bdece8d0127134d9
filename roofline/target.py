"""`python -m portable.roofline report KERNELS.py::name ...`: report one kernel of a file, with arguments from
the command line.

    python -m portable.roofline report kernels.py::axpy n=1e5,1e6 n 2.0 "np.ones(n)" "np.ones(n)"

NAME=VALUES come first, several values for a sweep; then the policy (a number of indices, or an expression
such as pk.TeamPolicy(n)), and an expression for each further parameter of the kernel. Expressions are Python,
with the file's own names, np, pk and math. Arrays are copied to the space.
"""

import ast
import dataclasses
import functools
import itertools
import math
import re
import runpy
from pathlib import Path

import numpy as np

import portable as pk
from portable.errors import InputError
from portable.roofline.contract import Run
from portable.roofline.counting import size_of
from portable.roofline.units import one_line

SEPARATOR = "::"


def runs(target, arguments, space):
    """Return a Run of a kernel for each combination of the given values.

    Parameters
    ----------
    target : str
        FILE::name.
    arguments : sequence of str, see above
    space : Space

    Raises
    ------
    InputError
        The file, the kernel or an argument is invalid; the message names it.
    """
    kernel, names = _kernel(*target.split(SEPARATOR, 1))
    given = list(itertools.takewhile(lambda text: re.match(r"[A-Za-z_]\w*=(?!=)", text), arguments))
    swept = [
        [(name, value) for value in _values(target, name, values)]
        for name, _, values in (g.partition("=") for g in given)
    ]
    expressions = arguments[len(given) :]
    found = []
    for chosen in itertools.product(*swept):
        known = {"np": np, "pk": pk, "math": math, **names, **dict(chosen)}
        policy, *args = (_evaluate(text, known) for text in expressions) if expressions else (None,)
        _check(target, kernel, policy, args)
        found.append(_run(target, kernel, policy, args, chosen, space))
    return found


def _kernel(file, name):
    """Return the kernel, and the names that its file defines."""
    if not Path(file).is_file():
        raise InputError(f"report: '{file}' is no file. Write FILE.py::kernel.")
    try:
        names = runpy.run_path(file, run_name="__kernels__")
    except (Exception, SystemExit) as error:
        raise InputError(f"report: '{file}' cannot be run: {one_line(error)}.") from error
    kernels = [key for key, value in names.items() if hasattr(value, "portable_text")]
    if name not in kernels:
        raise InputError(f"report: '{file}' has no kernel '{name}'; it has: {', '.join(kernels) or 'none'}.")
    return names[name], names


def _values(target, name, text):
    try:
        numbers = [float(value) for value in text.split(",")]
    except ValueError:
        raise InputError(f"{target}: {name} is '{text}'; expected numbers, several between commas.") from None
    return [int(number) if number.is_integer() else number for number in numbers]


def _evaluate(text, known):
    try:
        return eval(text, dict(known))  # noqa: S307 - the user's own code, as in a script
    except Exception as error:
        raise InputError(f"argument '{text}' cannot be evaluated: {one_line(error)}.") from error


def _check(target, kernel, policy, args):
    """Raise for a number of arguments that does not match the kernel."""
    names = list(kernel.portable_text.params)
    wanted = names[len(policy.begin) if isinstance(policy, pk.MDRangePolicy) else 1 :]
    if policy is None or len(args) != len(wanted):
        raise InputError(
            f"{target}: {len(args)} arguments after the policy; expected {len(wanted)}. "
            f"Write: [NAME=VALUES ...] POLICY {' '.join(map(str.upper, wanted))}"
        )


def _run(target, kernel, policy, args, chosen, space):
    policy = pk.RangePolicy(0, policy) if isinstance(policy, int) else policy
    policy = _policy_in(policy, space)
    args = [pk.copy_of(a, space) if isinstance(a, np.ndarray) else a for a in args]
    returns = any(isinstance(node, ast.Return) and node.value for node in ast.walk(kernel.portable_text.tree))
    word = pk.parallel_reduce if returns else pk.parallel_for
    source = (
        ", ".join(f"{name} = {value:,}" for name, value in chosen) or Path(target.split(SEPARATOR)[0]).name
    )
    wait = functools.partial(pk.fence, space)
    return Run(
        kernel.name,
        source,
        *size_of(policy),
        functools.partial(_silent, word, policy, kernel, *args),
        sync=wait,
    )


def _policy_in(policy, space):
    """Return the policy in a space; raise InputError if it is no policy."""
    if not isinstance(policy, (pk.RangePolicy, pk.MDRangePolicy, pk.TeamPolicy)):
        raise InputError(
            f"policy is {policy!r:.60}; expected a number of indices, pk.RangePolicy, pk.MDRangePolicy or"
            " pk.TeamPolicy"
        )
    return dataclasses.replace(policy, space=space)


def _silent(word, *launch):
    """Launch a kernel, and discard its result, which the report does not compare."""
    word(*launch)
