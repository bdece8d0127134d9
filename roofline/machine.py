"""Facts of the machine and its software, so that a number can be read years later."""

import contextlib
import datetime
import os
import platform
import subprocess
import time
from importlib import metadata
from pathlib import Path

# Everything whose version can change a time.
PACKAGES = ("portable-kernels", "numpy", "llvmlite", "numba", "numba-cuda", "cupy-cuda13x", "cupy-cuda12x")


def cpu_model():
    """The processor's name, from the kernel's table where there is one."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as table:
            for line in table:
                key, _, value = line.partition(":")
                if key.strip().lower() == "model name":
                    return value.strip()
    except OSError:
        pass  # not Linux
    return platform.processor() or platform.machine()


def gpu_model(space, folder="/proc/driver/nvidia/gpus"):
    """The name of the GPU of a space such as "cuda:1", from the driver's own files, where there are none from
    nvidia-smi; None where neither tells."""
    if not space.startswith("cuda"):
        return None
    number = int(space.partition(":")[2] or 0)
    names = [
        line.partition(":")[2].strip()
        for path in sorted(Path(folder).glob("*/information"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.startswith("Model:")
    ]
    if not names:
        with contextlib.suppress(OSError):
            ask = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
            names = subprocess.run(ask, capture_output=True, text=True).stdout.splitlines()
    return names[number].strip() if number < len(names) else None


def usable_cores():
    """Cores that this process may use, which a container or a batch system may hold below the machine's."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def busy_cores(seconds=0.1, stat="/proc/stat"):
    """How many of our cores other processes keep busy, watched for a moment in which we sleep; None where
    nobody tells.

    On two cores with one of them taken, numba's parallel dispatch went from 1.5 microseconds to 7
    milliseconds: the ratios of such a run are about the neighbours.
    """
    ours = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else ()
    names = {f"cpu{core}" for core in ours}

    def ticks():
        lines = [line.split() for line in Path(stat).read_text(encoding="utf-8").splitlines()]
        counts = [[int(v) for v in fields[1:9]] for fields in lines if fields and fields[0] in names]
        idle = sum(c[3] + c[4] for c in counts)  # idle and waiting for input or output
        return sum(map(sum, counts)), idle

    try:
        total, idle = ticks()
        time.sleep(seconds)
        total_after, idle_after = ticks()
    except (OSError, ValueError, IndexError):
        return None  # not Linux
    passed = total_after - total
    return round(len(names) * (1 - (idle_after - idle) / passed), 2) if passed > 0 else None


def versions():
    """Installed versions of `PACKAGES`, absent ones left out."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def facts(space):
    """The machine card of a report.

    Parameters
    ----------
    space : str
        The execution space that was timed.

    Returns
    -------
    dict, fit for JSON
    """
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "system": platform.platform(),
        "cpu": cpu_model(),
        "cores": usable_cores(),
        "busy_cores": busy_cores(),
        "space": space,
        "device": gpu_model(space),
        "python": platform.python_version(),
        "versions": versions(),
    }
