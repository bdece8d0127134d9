"""Files: written whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from portable.errors import InputError

_PIECE = 1 << 20  # bytes of one write: what a full disk leaves half written is small


@contextlib.contextmanager
def replacing(path: str | os.PathLike, name: str = "out", mark: str | None = None) -> Iterator[Path]:
    """A name beside `path` for a new file, which takes the place of `path` once it is whole and on the disk.

    An interruption or a full disk leaves `path` as it was. The new file has the mode of the old one; where `path` is a link,
    the file that it points to is replaced.

    Parameters
    ----------
    path : path
    name : str
        Of the argument, for messages.
    mark : str, optional
        Makes the name beside the same every time, for a writer that nobody works beside; else it is random.

    Raises
    ------
    InputError
        The file cannot be written; the message says why.
    """
    target = Path(os.path.realpath(path))
    beside = target.with_name(f".{target.stem}.{mark or secrets.token_hex(4)}.partial{target.suffix}")
    try:
        if mark:
            beside.unlink(missing_ok=True)  # left by a writer that was killed
        os.close(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        if target.exists():
            os.chmod(beside, target.stat().st_mode & 0o7777)
        yield beside
        sync(beside)
        os.replace(beside, target)
        sync(target.parent)
    except OSError as error:
        raise cannot_write(name, path, error) from error
    finally:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)


def cannot_write(name: str, path: str | os.PathLike, error: OSError) -> InputError:
    """What to raise for a file that the system refuses to write."""
    return InputError(f"{name}: '{path}' cannot be written: {error.strerror or error}")


def write(path: str | os.PathLike, content: str | bytes | memoryview, name: str = "out") -> None:
    """Write a whole file, on the disk when this returns, or leave `path` as it was; see `replacing`."""
    with replacing(path, name) as beside:
        body = memoryview(content.encode() if isinstance(content, str) else content)
        file = os.open(beside, os.O_WRONLY)
        try:
            done = 0
            while done < len(body):
                done += os.write(file, body[done:done + _PIECE])
        finally:
            os.close(file)


def check_folder(path: str | os.PathLike, name: str = "out") -> Path:
    """Refuse a folder for results that could not be made, or written to, after all has been computed."""
    there = Path(path).absolute()
    while not there.exists() and there != there.parent:
        there = there.parent
    if not there.is_dir():
        raise InputError(f"{name} is '{path}', but '{there}' is a file; a folder is wanted")
    if not os.access(there, os.W_OK | os.X_OK):
        raise InputError(f"{name} is '{path}', but '{there}' cannot be written to")
    return Path(path)


def sync(path: str | os.PathLike) -> None:
    """Wait until a file's content, or a folder's names, are on the disk."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def allocate_npy(path: str | os.PathLike, shape: tuple[int, ...], dtype: type) -> np.memmap:
    """A new .npy file, mapped. All of its room is taken now: later a full disk could only end the process."""
    array = np.lib.format.open_memmap(path, "w+", dtype, shape)
    if hasattr(os, "posix_fallocate"):
        file = os.open(path, os.O_RDWR)
        try:
            os.posix_fallocate(file, 0, os.fstat(file).st_size)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):  # of file systems that cannot
                raise
        finally:
            os.close(file)
    return array


def check_no_input(path: str | os.PathLike, array: object, name: str, what: str) -> None:
    """Refuse to write to the file that an array is mapped from.

    Parameters
    ----------
    path : path
        To be written.
    array : object
        A memory map, a view of one, or anything else, which passes.
    name, what : str
        Of the argument that names the file, and of the array.
    """
    while array is not None:
        mapped = getattr(array, "filename", None) if isinstance(array, np.memmap) else None
        if mapped and os.path.exists(path) and os.path.samefile(path, mapped):
            raise InputError(f"{name} is '{path}', the file that {what} is read from; name another file")
        array = getattr(array, "base", None)
