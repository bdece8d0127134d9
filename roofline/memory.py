"""The most memory that a process held for a while, by the operating system's own count (Linux)."""

import contextlib
import re
from pathlib import Path

PROCESS = Path("/proc/self")


class HighWater:
    """Bytes held at the begin of a block, and the most beyond them since; `bytes` is None where nobody
    tells."""

    def __init__(self):
        self.begin, self.bytes = None, None

    def look(self):
        """The most so far, beyond what was held at the begin."""
        most = _held("VmHWM")
        self.bytes = None if self.begin is None or most is None else max(0, most - self.begin)


@contextlib.contextmanager
def high_water():
    """Watch a block: `with high_water() as most: ...`, then `most.bytes`.

    Memory of a device is not in it, and of the host only what was touched.
    """
    found = HighWater()
    with contextlib.suppress(OSError):
        (PROCESS / "clear_refs").write_text("5")  # Linux: the mark starts anew
        found.begin = _held("VmRSS")
    try:
        yield found
    finally:
        found.look()


def _held(name):
    """A line of the process's status in bytes, or None."""
    with contextlib.suppress(OSError):
        found = re.search(rf"{name}:\s+(\d+) kB", (PROCESS / "status").read_text())
        return int(found[1]) << 10 if found else None
