"""Test that every public name documents its parameters and results, by annotations and by a docstring with
numpydoc's sections."""

import ast
import importlib
import inspect
import re
import textwrap

import pytest

import portable as pk
from portable.core.language.words import ROWS

PACKAGES = """
portable portable.random portable.testing portable.models.hawkes portable.models.tmap
portable.models.edm portable.models.resampling portable.models.mixture
portable.models.shared.sharding portable.models.shared.cluster portable.models.shared.priors
portable.models.resampling.ready portable.models.shared.mapped
portable.roofline
""".split()
OURS = "portable.", "portable.models."
WORDS = {row.name for row in ROWS}  # documented by a row in docs/kernels.md
TYPES = {"ArrayLike", "Team", "Kernel", "Function"}  # users do not construct these, or a decorator does


def functions(package):
    """Yield (name, function) of a package's public functions, and of its public classes and methods."""
    module = importlib.import_module(package)
    names = getattr(module, "__all__", None) or [
        n
        for n, v in vars(module).items()
        if not n.startswith("_") and getattr(v, "__module__", None) == package
    ]
    for name in sorted(set(names) - WORDS):
        value = getattr(module, name)
        value = getattr(value, "fn", value)  # the function of a kernel
        if inspect.isclass(value) and not issubclass(value, Exception):
            yield f"{package}.{name}", value
            bases = [
                base
                for base in value.__mro__
                if base.__module__.startswith(OURS[package.split(".")[1:2] == ["models"]])
            ]
            for method, own in {k: v for base in reversed(bases) for k, v in vars(base).items()}.items():
                own = getattr(own, "fget", getattr(own, "__func__", own))
                if inspect.isfunction(own) and not method.startswith("_"):
                    yield f"{package}.{name}.{method}", own
        elif inspect.isroutine(value):
            yield f"{package}.{name}", value


def parameters(value):
    """Return the parameters of a function or constructor."""
    if inspect.isclass(value) and issubclass(value, list):
        return []  # constructed like any list
    try:
        found = inspect.signature(value).parameters
    except (TypeError, ValueError):
        return []
    return [p for p in found.values() if p.name not in ("self", "cls") and not p.name.startswith("_")]


FUNCTIONS = [pair for package in PACKAGES for pair in functions(package)]


def test_there_are_many():
    assert len(FUNCTIONS) > 340 and {name.split(".")[0] for name, _ in FUNCTIONS} == {
        p.split(".")[0] for p in PACKAGES
    }


def test_public_names_are_annotated():
    for name, value in FUNCTIONS:
        known = name.split(".")[1] in TYPES
        bare = [p.name for p in parameters(value) if p.annotation is p.empty and not known]
        returns = inspect.isclass(value) or "return" in value.__annotations__
        assert not bare and returns, f"{name}: no annotation of {bare or 'what it returns'}"


def test_public_names_say_what_they_take_and_give():
    assert {name: wanting for name, value in FUNCTIONS if (wanting := missing(name, value))} == {}


def missing(name, value):
    """Return the names of the sections that a docstring lacks."""
    text = inspect.getdoc(value) or ""
    if not text:
        return ["all of it"]
    if inspect.isclass(value) or name.startswith(("portable.Team.", "portable.random.")):
        # Words of teams have one-line docstrings, too; seeds, streams and draws are documented once, in the
        # module's docstring.
        return []
    missing = ["Parameters"] * (bool(parameters(value)) and "Parameters\n---" not in text)
    gives = value.__annotations__.get("return") not in ("None", None)
    missing += ["Returns"] * (
        gives and bool(parameters(value)) and not any(f"{s}\n---" in text for s in ("Returns", "Yields"))
    )
    return missing


def refuses(value):
    """Return True if a function, or a class's constructor, raises or checks its arguments."""
    made = (
        vars(value).get("__init__") or vars(value).get("__post_init__") if inspect.isclass(value) else value
    )
    if not inspect.isfunction(made) or made.__code__.co_filename.startswith("<"):
        return False  # the constructor of a dataclass is generated
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(made)))):
        called = node.func if isinstance(node, ast.Call) else None
        called = getattr(called, "attr", getattr(called, "id", ""))
        if isinstance(node, ast.Raise) and node.exc or re.match(r"_?check_|need$", called):
            return True
    return False


def test_public_names_say_what_they_refuse():
    for name, value in FUNCTIONS:
        silent = name.split(".")[1] not in TYPES and "Raises\n---" not in inspect.getdoc(value)
        assert not (silent and refuses(value)), f"{name} raises, and has no section Raises"


COMMANDS = (
    "portable.models.hawkes",
    "portable.models.tmap",
    "portable.roofline",
    "portable.models.edm",
    "portable.models.resampling",
    "portable.models.mixture",
)


@pytest.mark.parametrize("package", COMMANDS)
def test_commands_tell_the_version(package, capsys):
    with pytest.raises(SystemExit) as ended:
        importlib.import_module(f"{package}.__main__").main(["--version"])
    assert ended.value.code == 0 and capsys.readouterr().out == f"portable {pk.__version__}\n"
