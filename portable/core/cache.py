"""Compiled kernels on disk, keyed by content: the LLVM IR that they are made from, for which machine.

The key is a hash of everything that determines the code, so no entry can be stale: editing a comment
recompiles nothing, editing a constant two calls away does. PORTABLE_CACHE=0 turns the cache off;
PORTABLE_CACHE=FOLDER moves it.
"""

import contextlib
import functools
import hashlib
import os
import stat
import warnings
from pathlib import Path
from typing import Any

# No link is followed, and a pipe does not keep its reader waiting.
_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
LIMIT_BYTES = 512 * 2**20
hits = misses = 0


def key(*parts):
    """Hash of everything that decides the compiled code."""
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()


@functools.cache
def folder() -> Path | None:
    """Return the cache's folder, made and checked; None if the cache is off or the folder cannot be
    trusted."""
    setting = path = os.environ.get("PORTABLE_CACHE", "")
    if setting == "0":
        return None
    try:
        if not setting:
            from platformdirs import user_cache_dir  # three milliseconds of a process that needs it

            setting = path = user_cache_dir("portable", appauthor=False)
        path = Path(setting) / "kernels"
        for place in (*reversed(path.parents), path):
            if not place.is_dir():  # `parents=True` would leave those above to the umask
                place.mkdir(mode=0o700, exist_ok=True)
                place.chmod(0o700)  # if the umask removes further permissions
        others = _open_to_others(path)
    except (
        OSError,
        RuntimeError,
        KeyError,
    ) as error:  # the last two: a user without a home directory or without an entry in the user database
        warnings.warn(
            f"portable: kernels are compiled anew in every process, the cache {path} cannot be used"
            f" ({error})",
            stacklevel=2,
        )
        return None
    if others is not None:
        warnings.warn(
            f"portable: the cache {path} is not used, since others can write to {others} (run `chmod"
            f" go-w '{others}'` if it is yours, or set PORTABLE_CACHE)",
            stacklevel=2,
        )
        return None
    return path


def _open_to_others(path):
    """Return the first of a folder and its parents in which another user could create or replace files; None
    if there is none.
    """
    if os.name != "posix":
        return None
    for place in (path, *path.resolve().parents):
        mode = place.stat()
        shared = mode.st_mode & 0o022 and (place == path or not mode.st_mode & stat.S_ISVTX)
        if shared or mode.st_uid not in (os.getuid(), *([] if place == path else [0])):
            return place
    return None


@functools.cache
def _directory():
    """Return the checked folder, opened, and its status: replacing the folder at this path later has no
    effect. None if it cannot be used.
    """
    path = folder()
    if path is None or os.open not in os.supports_dir_fd:
        return path
    return _opened(path)


def _opened(path):
    try:
        directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    # of the opened folder, even if the path has been replaced since it was checked
    mode = os.fstat(directory)
    shared = mode.st_mode & 0o022
    if not os.path.samestat(mode, os.stat(path)) or mode.st_uid != os.getuid() or shared:
        os.close(directory)
        return None
    return [directory, mode]


def _file_place(name):
    """Return the path of a file, and the options by which functions of `os` find it: relative to the opened
    folder, if the system has such calls. None without a folder.
    """
    found = _directory()
    if not isinstance(found, list):
        return found and (found / name, {})
    # a daemon closes inherited descriptors, and the number may belong to another file
    if not _is_open(*found):
        again = _opened(folder())
        if again is None or not os.path.samestat(again[1], found[1]):
            return None
        found[0] = again[0]
    return name, {"dir_fd": found[0]}


def _is_open(descriptor, mode):
    try:
        return os.path.samestat(os.fstat(descriptor), mode)
    except OSError:
        return False


def get(name, counts=True):
    """Return the bytes stored under a key, or None. `counts`: True to count this as a hit or a miss."""
    global hits, misses
    content, at = None, _file_place(name)
    if at is not None:
        path, where = at
        with contextlib.suppress(OSError), open(os.open(path, _READ, **where), "rb") as file:
            if _is_own(os.fstat(file.fileno())):
                content = file.read()
                os.utime(file.fileno())  # the file that was used last is removed last
    checked = _open(content)
    if counts:
        hits, misses = hits + (checked is not None), misses + (checked is None)
    return checked


def _is_own(mode):
    """Return True for a file that this user, and no other, can write."""
    own = os.name != "posix" or mode.st_uid == os.getuid() and not mode.st_mode & 0o022
    return own and stat.S_ISREG(mode.st_mode)


def put(name, content):
    """Store bytes under a key: whole or not at all, however many processes do so at once."""
    at = _file_place(f".part-{os.getpid()}-{os.urandom(8).hex()}")
    if at is None:
        return
    temporary, where = at
    with contextlib.suppress(OSError):  # a full or read-only disk costs time, never a result
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, **where)
        try:
            with open(handle, "wb") as file:
                file.write(_seal(content))
            os.replace(
                temporary,
                name if where else temporary.with_name(name),
                **{f"{end}_{word}": value for end in ("src", "dst") for word, value in where.items()},
            )
        except OSError:
            os.unlink(temporary, **where)
            raise
        if name.startswith("0"):  # one file in sixteen checks if the folder exceeds its limit
            _trim()


def _seal(content):
    return hashlib.sha256(content).digest() + content


def _open(sealed):
    if sealed is None or hashlib.sha256(sealed[32:]).digest() != sealed[:32]:
        return None
    return sealed[32:]


def _trim():
    """Remove the files that have not been used for the longest time when the folder exceeds its limit."""
    files, at = [], _file_place(".")
    if at is None:
        return
    here, where = at
    for entry in os.scandir(where.get("dir_fd", here)):
        with contextlib.suppress(OSError):
            files.append((entry.stat().st_mtime, entry.stat().st_size, entry.name))
    excess = sum(size for _, size, _ in files) - LIMIT_BYTES
    for _, size, name in sorted(files):
        if excess <= 0:
            break
        with contextlib.suppress(OSError):
            os.unlink(name if where else here / name, **where)
            excess -= size


def statistics() -> dict[str, Any]:
    """Return the facts that `python -m portable cache` prints: folder, files, bytes, and this process's
    hits and misses."""
    path, sizes = folder(), []
    with contextlib.suppress(OSError):  # another process has removed the folder
        sizes = [e.stat().st_size for e in os.scandir(path)] if path else []
    return {
        "folder": str(path) if path else "off",
        "files": len(sizes),
        "bytes": sum(sizes),
        "hits": hits,
        "misses": misses,
    }


def files(*rooms: str) -> list[str]:
    """Return the paths of portable's Python files, or those of some packages, sorted; OSError if it is in an
    archive.
    """
    layer, found = os.path.dirname(os.path.dirname(__file__)), []
    for room in rooms:
        left = [f"{layer}/{room}"]
        while left:
            path = left.pop()
            if path.endswith(".py"):
                found.append(path)
            else:
                left += [
                    e.path
                    for e in os.scandir(path)
                    if e.name.endswith(".py") or e.is_dir() and e.name != "__pycache__"
                ]
    return sorted(found)
