"""What an installed package has: commands that exist, types, one version."""

import configparser
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import portable

ROOT = Path(__file__).parents[2]
SETUP = configparser.ConfigParser()
SETUP.read(ROOT / "setup.cfg")
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
    told = subprocess.run(
        [sys.executable, "-m", "portable", "--version"], capture_output=True, text=True, cwd=ROOT
    )
    assert told.stdout == f"portable {portable.__version__}\n"


def test_an_unknown_word_ends_with_2_on_stderr():
    told = subprocess.run(
        [sys.executable, "-m", "portable", "nonsense"], capture_output=True, text=True, cwd=ROOT
    )
    assert told.returncode == 2 and told.stdout == "" and "usage" in told.stderr


@pytest.mark.parametrize("package", ["portable", "models", "roofline"])
def test_types_are_told(package):
    assert (ROOT / package / "py.typed").exists()


@pytest.mark.parametrize(
    "command", [["ruff", "check", "--quiet"], ["codespell", "--quiet-level", "2"]], ids=lambda c: c[0]
)
def test_the_text_is_clean(command):
    """`pip install '.[dev]'` brings both."""
    pytest.importorskip(
        {"codespell": "codespell_lib"}.get(command[0], command[0]), reason=f"{command[0]} is not installed"
    )
    arguments = command[1:] + (
        ["portable", "models", "roofline", "tests", "docs", "README.md", "CHANGELOG.md"]
    )
    program = [sys.executable, "-m", {"codespell": "codespell_lib"}.get(command[0], command[0])]
    done = subprocess.run(program + arguments, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout
