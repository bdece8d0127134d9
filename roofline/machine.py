"""State the machine and its software, so that a measurement can be understood years later."""

import contextlib
import datetime
import platform
import subprocess
import time
from importlib import metadata
from pathlib import Path

import psutil

# All packages whose version can change a time.
PACKAGES = ("portable-kernels", "numpy", "llvmlite", "numba", "numba-cuda", "cupy-cuda13x", "cupy-cuda12x")


def cpu_model():
    """Return the processor's name, from the kernel's table if there is one."""
    return _table().get("model name") or platform.processor() or platform.machine()


def cpu_id(table=None):
    """Return the processor's family, model and stepping, as "6/143/8", which a virtual machine reports even
    if it hides the name; None if they are unknown."""
    table = _table() if table is None else table
    names = "cpu family", "model", "stepping"
    return "/".join(table[name] for name in names) if all(name in table for name in names) else None


def _table():
    """Return the Linux kernel's facts of the first processor."""
    with contextlib.suppress(OSError):
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
        lines = (line.partition(":") for line in text.partition("\n\n")[0].splitlines())
        return {key.strip().lower(): value.strip() for key, _, value in lines}
    return {}


def gpu_model(space, folder="/proc/driver/nvidia/gpus"):
    """Return the name of the GPU of a space such as "cuda:1", from nvidia-smi or else from the driver's own
    files; None if neither has it."""
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


def _ours():
    """Return the numbers of the cores that this process may use, which a container or a batch system may
    restrict."""
    asked = getattr(psutil.Process(), "cpu_affinity", None)  # macOS has none
    return asked() if asked else list(range(psutil.cpu_count() or 1))


def usable_cores():
    """Return the number of cores that this process may use."""
    return len(_ours())


def busy_cores(seconds=0.1):
    """Return the number of this process's cores that other processes keep busy, measured while this process
    sleeps; None if the system does not report it.

    On two cores with one of them taken, numba's parallel dispatch went from 1.5 microseconds to 7
    milliseconds: the ratios of such a run are determined by other processes.
    """
    with contextlib.suppress(OSError, RuntimeError, IndexError, psutil.Error):
        before = seconds_of_others()
        time.sleep(seconds)
        return round(max(seconds_of_others() - before, 0.0) / seconds, 2)


def seconds_of_others():
    """Return the seconds for which processes other than this one and its children have used this process's
    cores: their sum over the cores, since the system started."""
    each, own = psutil.cpu_times(percpu=True), psutil.Process()
    # the times of guests, after the first eight, are included in the user's
    total = sum(sum(t[:8]) - t.idle - getattr(t, "iowait", 0.0) for t in map(each.__getitem__, _ours()))
    for process in own, *own.children(recursive=True):
        with contextlib.suppress(psutil.Error):
            total -= sum(process.cpu_times()[:4])
    return total


def versions():
    """Return the installed versions of `PACKAGES`, without absent ones."""
    found = {}
    for name in PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def facts(space):
    """Return the facts of the machine that a report states.

    Parameters
    ----------
    space : str
        The timed execution space.

    Returns
    -------
    dict, fit for JSON
    """
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "system": platform.platform(),
        "cpu": cpu_model(),
        "cpu_id": cpu_id(),
        "cores": usable_cores(),
        "busy_cores": busy_cores(),
        "space": space,
        "device": gpu_model(space),
        "python": platform.python_version(),
        "versions": versions(),
    }
