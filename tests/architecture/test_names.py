"""Test that there is one top-level name: portable, with models and roofline in it, in a checkout and in the
wheel; a user's program may have folders called models and roofline."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import portable as pk

from ..processes import python
from .test_package import SCRIPTS

ROOT = Path(__file__).parents[2]
TAKEN = "setup.py", "setup.cfg", "pyproject.toml", "README.md", "LICENSE", "MANIFEST.in", "portable_pytest.py"
RUN = """
import models, roofline
import numpy as np
import portable as pk
from portable.models import tmap
from portable.roofline import profile

@pk.kernel
def add(i, a, x):
    x[i] += a

x = np.zeros(50_000)
with profile() as made:
    for k in range(3):
        pk.parallel_for(pk.RangePolicy(0, x.size, "serial"), add, 1.0, x)
assert models.User.name == "mine" and roofline.House.name == "mine" and tmap.fit and len(made.events) == 3
print("all mine")
"""

# each program's answer to --version and the status that it ends with
VERSIONS = f"""
import runpy, sys
from importlib import import_module

def tell(program):
    sys.argv[1:] = ["--version"]
    try:
        print(program() or 0)
    except SystemExit as end:
        print(end.code or 0)

for name in "hawkes", "tmap", "edm", "resampling", "mixture":
    tell(lambda: runpy.run_module(f"portable.models.{{name}}", run_name="__main__"))
for script in {list(SCRIPTS.values())}:
    module, _, function = script.partition(":")
    tell(getattr(import_module(module), function))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Build the wheel of this checkout and return its files, as pip would install them."""
    folder = tmp_path_factory.mktemp("wheel")
    ignored = shutil.ignore_patterns("__pycache__")
    for top in ("portable", "models", "roofline"):
        shutil.copytree(ROOT / top, folder / "tree" / top, ignore=ignored)
    for name in TAKEN:
        shutil.copy(ROOT / name, folder / "tree")
    build = [sys.executable, *f"-W ignore setup.py -q build --build-lib {folder}/site".split()]
    done = subprocess.run(build, cwd=folder / "tree", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "site"


@pytest.fixture
def stranger(tmp_path):
    """Make a user's program with packages of these names."""
    for package, name in (("models", "User"), ("roofline", "House")):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text(f"class {name}:\n    name = 'mine'\n")
    (tmp_path / "run.py").write_text(RUN)
    return tmp_path


def run(where, folder, *command):
    environment = {"PYTHONPATH": str(where), "PATH": "/usr/bin:/bin", "PORTABLE_CACHE": str(folder / "cache")}
    return python(*command, cwd=folder, env=environment, check=False)


def test_the_top_level_of_the_wheel(wheel):
    assert sorted(p.name for p in wheel.iterdir()) == ["portable", "portable_pytest.py"]
    inside = {p.relative_to(wheel).as_posix() for p in wheel.rglob("*.py")}
    assert {"portable/models/hawkes/__init__.py", "portable/roofline/__main__.py"} <= inside
    beside = {p for p in inside if re.search(r"roofline/(cases|peers|truth)/", p)}
    timed = "__init__ common edm hawkes layer methods mixture".split()
    files = {f"portable/roofline/cases/{name}.py" for name in timed}
    assert beside == files | {"portable/roofline/peers/__init__.py"}
    assert (wheel / "portable/roofline/templates/page.html").exists() and (
        wheel / "portable/py.typed"
    ).exists()


@pytest.mark.parametrize("place", ["checkout", "wheel"])
def test_a_program_keeps_its_own_models_and_roofline(place, stranger, request):
    where = ROOT if place == "checkout" else request.getfixturevalue("wheel")
    done = run(where, stranger, "run.py")
    assert done.returncode == 0 and done.stdout == "all mine\n", done.stderr
    done = run(where, stranger, "-m", "portable.roofline", "report", "--quick", "run.py")
    assert "all mine" in done.stdout and done.returncode == 0, done.stdout + done.stderr
    done = run(where, stranger, "-c", VERSIONS)
    assert done.stdout.splitlines() == [f"portable {pk.__version__}", "0"] * (5 + len(SCRIPTS)), done.stderr


def test_an_installed_package_times_its_methods_and_compares_nothing(wheel, tmp_path):
    load = "from portable.roofline import case_list; print(*map(case_list.load, case_list.REPORTED))"
    done = run(wheel, tmp_path, "-c", load)
    assert done.returncode == 0 and done.stdout.count("portable.roofline.cases.") == 3, done.stderr
    for command in ("compare hawkes", "scoreboard", "validate", "report --all"):
        done = run(wheel, tmp_path, "-m", "portable", "roofline", *command.split(), "--space", "serial")
        assert done.returncode == 2 and "needs a checkout of the project" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("command", [["-c", "import models"], ["-m", "models.hawkes", "--version"]])
def test_the_former_names_say_what_to_write(command):
    done = run(ROOT, ROOT, *command)
    assert done.returncode and "portable.models" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("name, now", [("models", "portable.models"), ("roofline", "portable.roofline")])
def test_a_name_that_nobody_has_is_told(wheel, tmp_path, name, now):
    """Unpickle an object of an earlier version, whose module has moved: the error names the new one."""
    where = f"{wheel}{os.pathsep}{Path(np.__file__).parents[1]}"  # excludes installed checkouts
    done = run(where, tmp_path, "-S", "-c", f"import portable, pickle; pickle.loads(b'c{name}.edm\\nx\\n.')")
    assert done.returncode and now in done.stderr.splitlines()[-1]


def test_what_is_completed_is_what_is_public():
    assert sorted(dir(pk)) == sorted(pk.__all__)
