"""Facts of the machine and its software, so that a number can be read years later."""

import datetime
import os
import platform
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
    """The name of the GPU of a space such as "cuda:1", from the driver's own files; None where it tells none."""
    if not space.startswith("cuda"):
        return None
    number = int(space.partition(":")[2] or 0)
    names = [
        line.partition(":")[2].strip()
        for path in sorted(Path(folder).glob("*/information"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if line.startswith("Model:")
    ]
    return names[number] if number < len(names) else None


def usable_cores():
    """Cores that this process may use, which a container or a batch system may hold below the machine's."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


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
        "space": space,
        "device": gpu_model(space),
        "python": platform.python_version(),
        "versions": versions(),
    }
