"""`python -m tests.platforms.installed python3.11 python3.12 python3.13`: install and test the wheel and the
sdist.

Both are built and checked (`build`, `twine check`, `check-wheel-contents`: pip install ".[dev]"). For each
named interpreter, the wheel is installed with the extra `methods` into a fresh virtual environment, and
`own_data` runs the README there, outside of the checkout. The last one installs the sdist, too, which builds
another wheel.

With `--out dist` both are kept there, together with a list, for each interpreter, of the packages installed
with the wheel: with hashes (`pip install --require-hashes -r dist/requirements-cp311.txt` installs the same
files) and as a bill of materials in CycloneDX's form (`cyclonedx-bom`), and SHA256SUMS of all of these.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]


def built(folder):
    """Build and check (wheel, sdist)."""
    call([sys.executable, "-m", "build", "-o", folder, ROOT])
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    call([sys.executable, "-m", "twine", "check", "--strict", wheel, sdist])
    call([sys.executable, "-m", "check_wheel_contents", "--config", ROOT / "pyproject.toml", wheel])
    return wheel, sdist


def tried(interpreter, package, folder, out=None):
    """Run the README's steps with a package installed for an interpreter; return their times, one line each.
    `out` is the folder for lists of the installed packages."""
    folder.mkdir()
    call([interpreter, "-m", "venv", folder / "venv"])
    python = folder / "venv" / "bin" / "python"
    report = folder / "report.json"
    call([python, "-m", "pip", "install", "-q", "--report", report, f"{package}[methods]"])
    if out is not None:
        listed(python, json.loads(report.read_text()), out)
    work = folder / "work"
    work.mkdir()
    program = ROOT / "tests" / "platforms" / "own_data.py"
    return call([python, "-P", program, ROOT / "README.md", work], cwd=folder)


def listed(python, report, out):
    """Write the packages that pip has installed into an environment: versions with hashes, and a bill of
    materials.
    """
    tag = call([python, "-c", "import sys; print('cp%d%d' % sys.version_info[:2])"]).strip()
    lines = [
        f"{one['metadata']['name']}=={one['metadata']['version']} "
        f"--hash=sha256:{one['download_info']['archive_info']['hashes']['sha256']}"
        for one in report["install"]
    ]
    (out / f"requirements-{tag}.txt").write_text("\n".join(sorted(lines, key=str.lower)) + "\n")
    how = ["--output-reproducible", "--of", "JSON", "-o", out / f"portable-kernels-{tag}.cdx.json"]
    call([sys.executable, "-m", "cyclonedx_py", "environment", *how, python])


def summed(folder):
    """Write SHA256SUMS of the files of a folder, which `sha256sum -c` checks."""
    files = sorted(path for path in folder.iterdir() if path.name != "SHA256SUMS")
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (folder / "SHA256SUMS").write_text("".join(lines))


def call(command, **options):
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, env=environment, **options
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}:\n{done.stdout}{done.stderr}")
    return done.stdout


def main(argv):
    parser = argparse.ArgumentParser(prog="python -m tests.platforms.installed", description=__doc__)
    parser.add_argument("interpreters", nargs="*", default=[sys.executable], metavar="PYTHON")
    parser.add_argument(
        "--out", type=Path, metavar="FOLDER", help="keep what was built, and lists of the rest"
    )
    options = parser.parse_args(argv)
    if options.out is not None:
        options.out.mkdir()  # files already in the folder might be uploaded, too
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        wheel, sdist = built(folder / "dist")
        print(f"{wheel.name} ({wheel.stat().st_size:,} bytes), {sdist.name} ({sdist.stat().st_size:,} bytes)")
        interpreters = options.interpreters
        tasks = [(name, wheel) for name in interpreters] + [(interpreters[-1], sdist)]
        for number, (name, package) in enumerate(tasks):
            print(f"{name}, {package.suffix}", flush=True)
            out = options.out if package == wheel else None
            print(tried(name, package, folder / str(number), out), flush=True)
        if options.out is not None:
            shutil.copy(wheel, options.out), shutil.copy(sdist, options.out)
            summed(options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
