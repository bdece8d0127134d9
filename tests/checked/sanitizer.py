"""The broken kernels of the gallery on a GPU under compute-sanitizer's four tools: a table of their reports.

    python -m tests.checked.sanitizer

Requires a GPU, and compute-sanitizer of the CUDA toolkit on the PATH or under /usr/local/cuda. A process
launches one kernel after the other; if one destroys the device's context, another process continues with the
next.
"""

import glob
import re
import shutil
import subprocess
import sys

import numpy as np

import portable as pk

from .gallery_of_indices import INDICES
from .gallery_of_teams import TEAM_KERNELS

TOOLS = {
    "memcheck": ["--destroy-on-device-error", "kernel"],
    "racecheck": ["--racecheck-report", "analysis"],
    "synccheck": [],
    "initcheck": [],
}
CASES = [*INDICES, *TEAM_KERNELS]
MARK = "@@@"
REPORT = re.compile(
    r"=========\s+(?!RACECHECK|ERROR SUMMARY)(Invalid|Uninitialized|Error|Warning|.*Race reported|Barrier"
    r" error|Divergent)"
)


def launch_from(first):
    """Run as worker: launch the broken kernels from number `first` on, and print a mark with each number
    before it.
    """
    with pk.use("cuda"):
        for number in range(first, len(CASES)):
            case = CASES[number]
            print(f"{MARK} {number}", flush=True)
            args = [
                (
                    pk.copy_of(a)
                    if isinstance(a, np.ndarray)
                    else pk.empty(a.shape, a.dtype)
                    if isinstance(a, pk.View)
                    else a
                )
                for a in case.args()
            ]
            try:
                pk.parallel_for(case.policy, case.broken, *args)
                pk.fence()
            except pk.KernelError:
                print(f"{MARK} refused", flush=True)
            except pk.DeviceError:
                print(f"{MARK} crash", flush=True)
                return


def watch(sanitizer, tool):
    """Return {number of a case: the tool's report of it}."""
    said, first = {}, 0
    while first < len(CASES):
        command = [
            sanitizer,
            "--tool",
            tool,
            "--print-limit",
            "100000",
            *TOOLS[tool],
            sys.executable,
            "-m",
            __spec__.name,
            str(first),
        ]
        text = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        numbers = []
        for line in text.splitlines():
            if line.startswith(MARK):
                word = line.removeprefix(MARK).strip()
                numbers += [int(word)] if word.isdigit() else []
                said[numbers[-1]] = "" if word.isdigit() else said[numbers[-1]] or word
            elif (match := REPORT.match(line)) and numbers and said[numbers[-1]] != "finds":
                said[numbers[-1]] = "warns" if match[1].startswith("Warning") else "finds"
        if not numbers:
            sys.exit(f"{tool}: {text[-2000:]}")
        first = numbers[-1] + 1
    return said


def main():
    found = shutil.which("compute-sanitizer") or next(
        iter(glob.glob("/usr/local/cuda*/bin/compute-sanitizer")), None
    )
    if found is None:
        sys.exit("compute-sanitizer is not on the PATH")
    said = {tool: watch(found, tool) for tool in TOOLS}
    print(f"| broken kernel | `pk.check` | {' | '.join(TOOLS)} |\n{'|---' * (2 + len(TOOLS))}|")
    for number, case in enumerate(CASES):
        print(
            f"| {case.name.replace('_', ' ')} | {case.kind} |"
            f" {' | '.join(said[tool][number] for tool in TOOLS)} |"
        )


if __name__ == "__main__":
    launch_from(int(sys.argv[1])) if len(sys.argv) > 1 else main()
