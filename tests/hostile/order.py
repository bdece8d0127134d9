"""A debug lock: it checks that each thread takes the layer's locks in the order of portable/core/locks.py.

`watch()` must be called before portable is imported, in a separate process: it replaces threading.RLock, and
the lock that Python's import takes for a module. A lock's rank is that of the line that made it.
"""

import importlib._bootstrap as imports
import linecache
import sys
import threading
import traceback

# the end of the path of the file, or a part of the line, that makes a lock; other locks are not checked
RANKS = (
    ("portable/library/plan.py", 10),
    ("portable/library/graph.py", 10),
    ("portable/watch/counts/count.py", 11),
    ("backends/checked/space.py", 12),
    ("backends/cuda/space.py", 13),
    ("_stage_lock", 14),
    ("numba/core/compiler_lock.py", 20),
    ("compiling = Compiling()", 21),
    ("self.capturing = Lock()", 40),
    ("backends/cpu/pool.py", 41),
    ("llvmlite/binding/ffi.py", 42),
)
IMPORT, UNKNOWN = 30, None
_own = threading.local()  # .held: (rank, name, lock) of each lock that this thread holds
_make = threading.RLock


def _held():
    if not hasattr(_own, "held"):
        _own.held = []
    return _own.held


class Watched:
    """Lock like threading.RLock, with a rank."""

    def __init__(self, rank, name, found):
        self.lock, self.rank, self.name, self.found = _make(), rank, name, found

    def acquire(self, *args, **options):
        entering(self.rank, self.name, self, self.found)
        taken = self.lock.acquire(*args, **options)
        if taken:
            _held().append((self.rank, self.name, self))
        return taken

    def release(self):
        self.lock.release()
        leaving(self)

    __enter__ = acquire

    def __exit__(self, *error):
        self.release()

    def __getattr__(self, name):
        return getattr(self.lock, name)


def entering(rank, name, lock, found):
    """Record a violation if a thread that holds a lock of this rank or a later one takes another lock."""
    held = _held()
    if any(other is lock for _, _, other in held):
        return  # taken again by its holder
    for before, its, _ in held:
        if before > rank or before == rank != IMPORT:
            stack = "".join(traceback.format_stack(sys._getframe(2), limit=12))
            found.append(f"{name} is taken with {its}\n{stack}")


def leaving(lock):
    held = _held()
    last = max(k for k, (_, _, other) in enumerate(held) if other is lock)
    del held[last]


def _rank_of_caller():
    """Return the rank of the lock that is being made, and the place of the line that makes it."""
    frame, place = sys._getframe(2), None
    while frame is not None and frame.f_code.co_filename.endswith(("portable/core/locks.py", "threading.py")):
        if frame.f_code.co_name == "<module>":
            break  # `compiling` itself
        frame = frame.f_back
    if frame is not None:
        place = frame.f_code.co_filename.replace("\\", "/")
        line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
        for mark, rank in RANKS:
            if place.endswith(mark) or mark in line:
                return rank, f"the lock of {place}:{frame.f_lineno}"
    return UNKNOWN, place


def watch():
    """Check all locks from now on; return a list to which each violation is added."""
    found = []

    def made():
        rank, name = _rank_of_caller()
        return _make() if rank is UNKNOWN else Watched(rank, name, found)

    threading.RLock = made
    acquire, release = imports._ModuleLock.acquire, imports._ModuleLock.release

    def of_layer(lock):
        return lock.name == "portable" or lock.name.startswith("portable.")

    def acquire_watched(lock):
        if of_layer(lock):
            entering(IMPORT, f"the import of {lock.name}", lock, found)
        taken = acquire(lock)
        if of_layer(lock):
            _held().append((IMPORT, f"the import of {lock.name}", lock))
        return taken

    def release_watched(lock):
        release(lock)
        if of_layer(lock):
            leaving(lock)

    imports._ModuleLock.acquire, imports._ModuleLock.release = acquire_watched, release_watched
    return found
