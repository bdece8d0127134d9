"""Parts of the command lines of all families: options derived from functions, output, and exit codes.

An option is a parameter of the function: its name without a leading `n_` and with `-` for `_`, the type and
the choices of its annotation, its default, and the first sentence of its description in the docstring.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib
import inspect
import io
import json
import math
import re
import sys
import types
import typing
import warnings
from collections.abc import Callable, Iterator, Sequence

import numpy as np

import portable as pk
from portable.errors import PortableError, nearest, printable

from .belongs import family_of
from .checks import check_outputs
from .cluster import asked_for
from .files import write, written
from .user_warnings import warn

_NUMBERS = int, float
# These mean the same in every command.
_EVERYWHERE = {
    "space": {"metavar": "NAME", "help": "where to compute (default: a GPU, else threads)"},
    "seed": {"help": "seed of random numbers"},
    "dtype": {"help": "precision of the computation"},
    "level": {"help": "of intervals: 0.95 for 95 %%"},
    "checkpoint": {"metavar": "FOLDER", "help": "stores finished parts; the same command resumes them"},
}
_TOLD = UserWarning, RuntimeWarning


def parser(family: str, description: str):
    """Return the parser of `python -m portable.models.FAMILY`, and the object to which commands are added."""
    made = _Parser(prog=f"portable {family}", description=description)
    made.add_argument("--version", action="version", version=f"portable {pk.__version__}")
    return made, made.add_subparsers(required=True, metavar="COMMAND", parser_class=_Command)


class _Parser(argparse.ArgumentParser):
    """A parser whose refusal of a choice names the nearest one, and whose usage fits 80 columns."""

    def add_argument(self, *names, **how):
        if len("".join(map(str, how.get("choices") or ()))) > 24 and not how.get("metavar"):
            how["help"], how["metavar"] = f"{how['help']}: %(choices)s", "KIND"
        return super().add_argument(*names, **how)

    def error(self, message):
        super().error(nearest(message))


class _Command(_Parser):
    """A command of a family, with --quiet and --json."""

    def __init__(self, **words):
        super().__init__(**words, conflict_handler="resolve")
        self.add_argument("--quiet", action="store_true", help="print only errors and warnings")
        add_json(self)


def main_of(family: str, make: Callable) -> Callable:
    """Return the `main` of a family from the function that makes its parser; see `run`."""
    return lambda argv=None: run(family, make(), argv)


def run(family: str, made: argparse.ArgumentParser, argv: Sequence[str] | None) -> int:
    """Parse the command line and call `options.act(options)`.

    Parameters
    ----------
    family : str
        Prefix of messages and warnings on standard error.
    made : argparse.ArgumentParser
    argv : sequence of str or None
        Arguments; those of the process if None.

    Returns
    -------
    int
        The result of `options.act`, 0 for None; 1 means that a check failed. 2 if the request cannot be met;
        130 after Ctrl-C.
    """
    options, before = made.parse_args(argv), len(written)
    shown = (
        contextlib.redirect_stdout(io.StringIO())
        if getattr(options, "quiet", False)
        else contextlib.nullcontext()
    )
    try:
        with shown, _warned(family), asked_for(options):
            check_outputs(options, "json")
            _warn_of_others(family, options)
            code = options.act(options) or 0
            if getattr(options, "json", None):
                files = [str(path) for path in dict.fromkeys(written[before:])]
                found = {"files": files, "exit_code": code, **getattr(options, "found", {})}
                write(options.json, json.dumps(_as_json(found), indent=1, allow_nan=False) + "\n", "--json")
            _tell_written(options, written[before:])
            return code
    except (OSError, PortableError, ImportError) as error:
        file = getattr(error, "filename", None)
        why = f"{error.strerror}: '{file}'" if file else error
        print(f"{family}: {printable(why)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"{family}: stopped", file=sys.stderr)
        return 130


def _warn_of_others(family, options):
    """Warn of each file among the options that looks like one of another family."""
    for value in vars(options).values():
        for path in value if isinstance(value, list) else [value]:
            if isinstance(path, str) and (found := family_of(path)) and found[0] != family:
                warn(f"'{path}' looks like a file of 'portable {found[0]}': it has {found[1]}", UserWarning)


def _tell_written(options, paths):
    """Print the files that a run wrote, or the option that writes one."""
    if paths:
        print("wrote", ", ".join(dict.fromkeys(printable(str(path)) for path in paths)))
    elif option := next((name for name in ("out", "json") if name in options), ""):
        print(f"wrote no file; --{option} FILE does")


@contextlib.contextmanager
def _warned(family: str) -> Iterator[None]:
    """Write warnings to standard error, one per line, at the end of the block."""
    with warnings.catch_warnings(record=True) as caught:
        for kind in _TOLD:
            warnings.simplefilter("always", kind)
        try:
            yield
        finally:
            for text in dict.fromkeys(str(w.message) for w in caught if issubclass(w.category, _TOLD)):
                print(f"{family}: warning: {printable(text)}", file=sys.stderr)


def add(to: argparse._ActionsContainer, function: Callable, *names: str, **changes: dict) -> None:
    """Add options for parameters of a function.

    Parameters
    ----------
    to : argparse.ArgumentParser
    function : callable
        Annotated, with a numpydoc docstring.
    names : str
        Names of parameters.
    changes : dict
        By a parameter's name: keywords of `add_argument` that replace those derived from the function.
    """
    described, parameters = parameters_of(function), inspect.signature(function, eval_str=True).parameters
    for name in (*names, *changes):
        parameter = parameters[name]
        required = parameter.default is parameter.empty
        how = {
            "dest": name,
            **_kind(parameter.annotation, parameter.default),
            "help": described.get(name, ""),
        }
        how |= _EVERYWHERE.get(name, {})
        how |= {"required": True} if required else {"default": parameter.default}
        if how.get("action") == "store_false":
            how["help"] = f"do not {how['help']}"
        how |= changes.get(name, {})
        default = how.get("default")
        if not (default is None or isinstance(default, bool) or "(default" in how["help"]):
            how["help"] += " (default: %(default)s)"
        flag = name.removeprefix("n_").replace("_", "-")
        prefix = "-" if len(flag) == 1 else "--no-" if how.get("action") == "store_false" else "--"
        to.add_argument(prefix + flag, **how)


def arguments_of(options: argparse.Namespace, *functions: Callable) -> dict:
    """Return the keyword arguments of functions from the command line, including their space and their
    client."""
    wanted = [p for one in functions for p in inspect.signature(one).parameters.values()]
    return {
        p.name: getattr(options, p.name) for p in wanted if p.kind is p.KEYWORD_ONLY and p.name in options
    }


def progress(to: argparse._ActionsContainer) -> None:
    """Add --progress and --no-progress; by default there is a bar if standard error is a terminal."""
    to.add_argument(
        "--progress",
        action=argparse.BooleanOptionalAction,
        default=sys.stderr.isatty(),
        help="show a progress bar (default: if standard error is a terminal)",
    )


def add_json(to: argparse._ActionsContainer) -> None:
    """Add --json, for `write_json`."""
    to.add_argument("--json", metavar="FILE", help="also write the numbers as JSON")


def write_json(options: argparse.Namespace, **found: object) -> None:
    """Store results by name for --json, which `run` writes; NaN and infinities become null."""
    options.found = getattr(options, "found", {}) | found


def _as_json(value):
    """Return a value in a form that JSON supports: dataclasses as their fields, arrays as lists."""
    if dataclasses.is_dataclass(value):
        return {f.name: _as_json(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(name): _as_json(own) for name, own in value.items()}
    if isinstance(value, np.ndarray) and value.dtype.kind == "M":
        return _as_json(value.astype(str).tolist())
    if isinstance(value, (np.ndarray, np.generic)):
        return _as_json(value.tolist())
    if isinstance(value, (list, tuple, range)):
        return [_as_json(own) for own in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, (int, str, bool, type(None))) else str(value)


def parameters_of(function: Callable) -> dict[str, str]:
    """Return the first sentence of each parameter's description in a numpydoc docstring, without the full
    stop; for 'As in `other`', that of the other function of the package."""
    text = inspect.getdoc(function) or ""
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^\w[^\n]*\n-+\n|\Z)", text, re.M | re.S)
    found = {}
    for entry in re.finditer(
        r"^(\S[^\n]*)\n((?:[ ]+[^\n]*\n|\n)*)", section[1] + "\n" if section else "", re.M
    ):
        sentence = re.split(r"\.(?:\s|$)", " ".join(entry[2].split()), maxsplit=1)[0]
        first = sentence.partition(" ")[0][1:]
        words = sentence if first and not first.islower() else sentence[:1].lower() + sentence[1:]
        other = re.match(r"as in `(\w+)`", words)
        for name in map(str.strip, entry[1].partition(" : ")[0].split(",")):
            if other:
                package = importlib.import_module(function.__module__.rpartition(".")[0])
                words = parameters_of(getattr(package, other[1])).get(name, "")
            found[name] = words.replace("`", "").replace("%", "%%")
    return found


def _kind(hint, default):
    """Return the keywords of `add_argument` for the type of an option."""
    if isinstance(default, bool):
        return {"action": "store_false" if default else "store_true"}
    if default == ():
        return {"nargs": "*"}
    choices, kinds = [], []
    for part in _parts(hint):
        if typing.get_origin(part) is typing.Literal:
            choices += typing.get_args(part)
        else:
            kinds.append(part)
    if choices:
        return {"choices": choices}
    number = None if str in kinds else next((kind for kind in _NUMBERS if kind in kinds), None)
    return {"metavar": "TEXT" if number is None else "N" if number is int else "NUMBER"} | (
        {} if number is None else {"type": number}
    )


def _parts(hint):
    """Return the members of a union, including those of nested unions."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return [one for part in typing.get_args(hint) for one in _parts(part)]
    return [hint]
