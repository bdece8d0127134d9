"""`python -m tests.platforms.installed python3.11 python3.12 python3.13`: the wheel and the sdist, installed.

Both are built and looked at (`build`, `twine check`, `check-wheel-contents`: pip install ".[dev]"). For each
interpreter that is named, the wheel is installed with the extra `methods` into a fresh virtual environment,
and `own_data` runs the README there, outside of the checkout. The last one installs the sdist, too, which
builds a wheel of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]


def built(folder: Path) -> tuple[Path, Path]:
    """(wheel, sdist), looked at."""
    call([sys.executable, "-m", "build", "-o", folder, ROOT])
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    call([sys.executable, "-m", "twine", "check", "--strict", wheel, sdist])
    call([sys.executable, "-m", "check_wheel_contents", "--config", ROOT / "pyproject.toml", wheel])
    return wheel, sdist


def tried(interpreter: str, package: Path, folder: Path) -> str:
    """What the README's steps took, a line each, with a package installed for an interpreter."""
    folder.mkdir()
    call([interpreter, "-m", "venv", folder / "venv"])
    python = folder / "venv" / "bin" / "python"
    call([python, "-m", "pip", "install", "-q", f"{package}[methods]"])
    work = folder / "work"
    work.mkdir()
    program = ROOT / "tests" / "platforms" / "own_data.py"
    return call([python, "-P", program, ROOT / "README.md", work], cwd=folder)


def call(command, **options):
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, env=environment, **options
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}:\n{done.stdout}{done.stderr}")
    return done.stdout


def main(interpreters: list[str]) -> int:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        wheel, sdist = built(folder / "dist")
        print(f"{wheel.name} ({wheel.stat().st_size:,} bytes), {sdist.name} ({sdist.stat().st_size:,} bytes)")
        tasks = [(name, wheel) for name in interpreters] + [(interpreters[-1], sdist)]
        for number, (name, package) in enumerate(tasks):
            print(f"{name}, {package.suffix}", flush=True)
            print(tried(name, package, folder / str(number)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or [sys.executable]))
