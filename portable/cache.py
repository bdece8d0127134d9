"""Compiled kernels on disk, keyed by content: what LLVM is given, for which machine, by which version.

The key is a hash of the unoptimised code itself, so nothing can be stale: editing a comment recompiles nothing, editing a
constant two calls away does. PORTABLE_CACHE=0 turns the cache off; PORTABLE_CACHE=FOLDER moves it.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import stat
import tempfile
import warnings
from pathlib import Path

from platformdirs import user_cache_dir

LIMIT_BYTES = 512 * 2**20
hits = misses = 0


def key(*parts):
    """Hash of everything that decides the compiled code."""
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()


@functools.cache
def folder():
    """The cache's folder, made and checked; None if the cache is off or the folder cannot be trusted."""
    setting = os.environ.get("PORTABLE_CACHE", "")
    if setting == "0":
        return None
    path = setting
    try:
        path = Path(setting or user_cache_dir("portable", appauthor=False)) / "kernels"
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode = path.stat()
    except (OSError, RuntimeError, KeyError) as error:  # the last two: a user without a home, whom the system does not know
        warnings.warn(f"portable: kernels are compiled anew in every process, the cache {path} cannot be used ({error})", stacklevel=2)
        return None
    if os.name == "posix" and (mode.st_uid != os.getuid() or mode.st_mode & (stat.S_IWGRP | stat.S_IWOTH)):
        warnings.warn(f"portable: the cache {path} is refused, others can write to it (chmod go-w, or set PORTABLE_CACHE)", stacklevel=2)
        return None
    return path


def get(name):
    """The bytes stored under a key, or None."""
    global hits, misses
    path = folder()
    content = None
    if path is not None:
        with contextlib.suppress(OSError):
            content = (path / name).read_bytes()
            os.utime(path / name)  # what was used last is removed last
    checked = _open(content)
    hits, misses = hits + (checked is not None), misses + (checked is None)
    return checked


def put(name, content):
    """Store bytes under a key: whole or not at all, however many processes do so at once."""
    path = folder()
    if path is None:
        return
    with contextlib.suppress(OSError):  # a full or read-only disk costs time, never a result
        handle, temporary = tempfile.mkstemp(dir=path, prefix=".part-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(_seal(content))
            os.replace(temporary, path / name)
        except OSError:
            os.unlink(temporary)
            raise
        if name.startswith("0"):  # one file in sixteen looks whether the folder has outgrown its limit
            _trim(path)


def _seal(content):
    return hashlib.sha256(content).digest() + content


def _open(sealed):
    if sealed is None or hashlib.sha256(sealed[32:]).digest() != sealed[:32]:
        return None
    return sealed[32:]


def _trim(path):
    """Remove what was not used longest when the folder outgrows its limit."""
    files = []
    for entry in os.scandir(path):
        with contextlib.suppress(OSError):
            files.append((entry.stat().st_mtime, entry.stat().st_size, entry.path))
    excess = sum(size for _, size, _ in files) - LIMIT_BYTES
    for _, size, name in sorted(files):
        if excess <= 0:
            break
        with contextlib.suppress(OSError):
            os.unlink(name)
            excess -= size


def statistics():
    """What `python -m portable cache` prints: folder, files, bytes, and this process's hits and misses."""
    path = folder()
    sizes = [e.stat().st_size for e in os.scandir(path)] if path else []
    return {"folder": str(path) if path else "off", "files": len(sizes), "bytes": sum(sizes), "hits": hits, "misses": misses}
