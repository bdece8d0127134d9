"""The most memory that a process held for a while, by the operating system's own count (Linux)."""

import contextlib
import re
import types
from pathlib import Path

PROCESS = Path("/proc/self")


@contextlib.contextmanager
def high_water():
    """Watch a block: `with high_water() as most: ...`, then `most.bytes`, what was held at most beyond what
    was held before; None where nobody tells.

    Memory of a device is not in it, and of the host only what was touched.
    """
    found, begin = types.SimpleNamespace(bytes=None), None
    with contextlib.suppress(OSError):
        (PROCESS / "clear_refs").write_text("5")  # Linux: the mark starts anew
        begin = _held("VmRSS")
    try:
        yield found
    finally:
        if begin is not None:
            found.bytes = max(0, (_held("VmHWM") or begin) - begin)


def _held(name):
    """Return a line of the process's status in bytes, or None."""
    with contextlib.suppress(OSError):
        found = re.search(rf"{name}:\s+(\d+) kB", (PROCESS / "status").read_text())
        return int(found[1]) << 10 if found else None
