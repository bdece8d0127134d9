"""Test an installed package: its commands, types and version."""

import configparser
import importlib
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import portable

from ..processes import python

ROOT = Path(__file__).parents[2]
SETUP = configparser.ConfigParser()
SETUP.read(ROOT / "setup.cfg")
DEV = [line.replace(" ", "") for line in SETUP["options.extras_require"]["dev"].split("\n") if line]
SCRIPTS = dict(
    line.split(" = ") for line in SETUP["options.entry_points"]["console_scripts"].split("\n") if line
)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_command_is_a_function_of_no_arguments(name):
    module, _, function = SCRIPTS[name].partition(":")
    assert name.startswith("portable") and callable(getattr(importlib.import_module(module), function))


def test_one_version():
    assert SETUP["metadata"]["version"] == "attr: portable.__version__"
    assert f"version: {portable.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    told = python("-m", "portable", "--version", cwd=ROOT, check=False)
    assert told.stdout == f"portable {portable.__version__}\n"


def test_an_unknown_word_ends_with_2_on_stderr():
    told = python("-m", "portable", "nonsense", cwd=ROOT, check=False)
    assert told.returncode == 2 and told.stdout == "" and "no command 'nonsense'" in told.stderr


@pytest.mark.parametrize("package", ["portable", "models", "roofline"])
def test_types_are_told(package):
    assert (ROOT / package / "py.typed").exists()


@pytest.mark.parametrize(
    "command",
    [["ruff", "check", "--quiet"], ["ruff", "format", "--check"], ["codespell", "--quiet-level", "2"]],
    ids=lambda c: " ".join(c[:2]),
)
def test_the_text_is_clean(command):
    """Run the ruff of `pip install '.[dev]'`; another series of ruff may format differently."""
    name = command[0]
    module = {"codespell": "codespell_lib"}.get(name, name)
    pytest.importorskip(module, reason=f"{name} is not installed")
    if command[1] == "format" and not any(f">={'.'.join(version(name).split('.')[:2])}," in s for s in DEV):
        pytest.skip(f"{name} {version(name)} is installed, another series than setup.cfg's: {DEV}")
    texts = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"] if name == "codespell" else []
    arguments = [*command[1:], "portable", "models", "roofline", "tests", "docs", *texts]
    program = [sys.executable, "-m", module]
    done = subprocess.run(program + arguments, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout


def test_what_is_to_be_installed_is_ours():
    """Until a release no package index has this project; a different project there has its import name."""
    extras, hint = (
        SETUP["options.extras_require"],
        re.compile(r"""pip install (?:-e )?['"]\.\[([\w, ]+)\]['"]"""),
    )
    files = [
        path
        for folder in "portable models roofline docs tests".split()
        for kind in "py md ipynb html".split()
        for path in (ROOT / folder).rglob(f"*.{kind}")
    ]
    named = set()
    for path in [*files, *ROOT.glob("*.md")]:
        text = path.read_text(errors="replace")
        other = re.search(r"""pip install (-\S+ )*\S?portable(-kernels)?\b""", text)
        assert other is None, f"{path}: {other[0]}"
        named |= {extra.strip() for extras in hint.findall(text) for extra in extras.split(",")}
    assert len(named) > 8 and named - set(extras) == set()
    need = importlib.import_module("portable.models.shared.extras").need
    with pytest.raises(portable.InputError, match=r"""pip install "\.\[files\]"$"""):
        need("no_such_module", "files", "this")
