"""`python -m tests.platforms [pytest's arguments]`: run the conformance tests on aarch64, by emulation.

On Debian or Ubuntu, as root once: `apt-get install qemu-user-static && dpkg --add-architecture arm64 &&
apt-get update`. The distribution's Python for arm64 and the wheels of the dependencies are fetched into a
folder of the user's cache; the system itself is not changed. Emulation is about fifty times slower: without
arguments only the quicker steps run, on "serial"; with `tests/conformance` all of them, in about an hour.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from platformdirs import user_cache_dir

ROOT = Path(__file__).parents[2]
WHEELS = (
    "numpy>=2.1",
    "llvmlite==0.50.*",
    "numba==0.68.*",
    "platformdirs",
    "rich",
    "greenlet",
    "psutil",
    "pytest",
    "hypothesis",
    "mpmath",
    "scipy",
)
STEPS = [
    f"tests/conformance/test_step{name}.py"
    for name in (
        "01_memory 02_parallel_for 03_reduce 04_mdrange 05_scan 06_atomics 07_team 08_scratch 12_precision"
        " 13_plan"
    ).split()
]


def missing():
    """Return the reason why emulation cannot run here, in one line; None if it can."""
    for program in "qemu-aarch64-static apt-get apt-cache dpkg-deb".split():
        if shutil.which(program) is None:
            return f"{program} is not installed"
    if (
        "arm64"
        not in subprocess.run(
            ["dpkg", "--print-foreign-architectures"], capture_output=True, text=True
        ).stdout.split()
    ):
        return "dpkg does not know arm64 (dpkg --add-architecture arm64 && apt-get update)"
    return None


def fetched(folder):
    """Return (a system root with Python, a folder of packages), fetched once."""
    root, site = folder / "root", folder / "site"
    if not (root / "usr/bin/python3.11").exists():
        debs = folder / "debs"
        debs.mkdir(parents=True, exist_ok=True)
        asked = (
            "apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks"
            " --no-replaces --no-enhances python3.11:arm64 libstdc++6:arm64"
        ).split()
        lines = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.splitlines()
        names = sorted(
            {
                line
                for line in lines
                if line.endswith(":arm64") and not line.startswith((" ", "<", "dpkg", "tar", "install-info"))
            }
        )
        subprocess.run(["apt-get", "download", "-q", *names], check=True, cwd=debs)
        for deb in debs.glob("*.deb"):
            subprocess.run(["dpkg-deb", "-x", str(deb), str(root)], check=True)
    if not site.exists():
        subprocess.run(
            [
                sys.executable,
                "-m",
                "pip",
                "install",
                "-q",
                "--target",
                str(site),
                "--only-binary",
                ":all:",
                "--python-version",
                "3.11",
                "--implementation",
                "cp",
                "--platform",
                "manylinux_2_28_aarch64",
                "--platform",
                "manylinux_2_17_aarch64",
                "--platform",
                "manylinux2014_aarch64",
                *WHEELS,
            ],
            check=True,
        )
    return root, site


def main(arguments=None):
    arguments = sys.argv[1:] if arguments is None else arguments
    if (reason := missing()) is not None:
        print(f"aarch64 cannot be emulated here: {reason}", file=sys.stderr)
        return 2
    folder = Path(user_cache_dir("portable-platforms", appauthor=False)) / "aarch64"
    root, site = fetched(folder)
    paths = f"{ROOT}:{site}"
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "PYTHONPATH": paths,
        "PORTABLE_TEST_SPACES": "serial",
        "PORTABLE_CACHE": str(folder / "cache"),
        "OPENBLAS_NUM_THREADS": "1",
    }
    command = [
        "qemu-aarch64-static",
        "-L",
        str(root),
        str(root / "usr/bin/python3.11"),
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        *(arguments or STEPS),
    ]
    return subprocess.run(command, cwd=ROOT, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
