"""The peak memory of a process during a block, as counted by the operating system (Linux)."""

import contextlib
import re
import types
from pathlib import Path

PROCESS = Path("/proc/self")


@contextlib.contextmanager
def high_water():
    """Measure a block: `with high_water() as most: ...`, then `most.bytes` is the peak memory minus that
    before the block; None if the system does not report it.

    A device's memory is not included, and of the host's only touched pages.
    """
    found, begin = types.SimpleNamespace(bytes=None), None
    with contextlib.suppress(OSError):
        (PROCESS / "clear_refs").write_text("5")  # Linux: resets the peak
        begin = _status_bytes("VmRSS")
    try:
        yield found
    finally:
        if begin is not None:
            found.bytes = max(0, (_status_bytes("VmHWM") or begin) - begin)


def _status_bytes(name):
    """Return an entry of the process's status in bytes, or None."""
    with contextlib.suppress(OSError):
        found = re.search(rf"{name}:\s+(\d+) kB", (PROCESS / "status").read_text())
        return int(found[1]) << 10 if found else None
