"""Files: read with a message for every fault, and written completely or not at all."""

from __future__ import annotations

import collections
import contextlib
import csv
import errno
import gzip
import itertools
import json
import os
import re
import secrets
import stat
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np

from portable.errors import DTypeError, InputError, ShapeError, StorageError

from .annotations import Array, Names, PathLike

_PIECE = 1 << 20  # bytes that are read at a time
_ROWS = 1 << 16  # rows of a table that are written at a time
# Upper bounds of the size of an unpacked file: a multiple of its packed size, and bytes that are always
# allowed. Text of numbers grows by factors of 2 to 20, deflate's limit is 1,032. Text takes up to 30 times
# its bytes while it is read.
_MOST_GROWTH, _MUCH, _MUCH_TEXT = 100, 1 << 28, 1 << 24
written: list[Path] = []  # completed files, in order: a command prints those of its run
MISSING = ("", "NA", "N/A", "#N/A", "NAN", "NULL", "NONE", "<NA>")  # words for a missing number, capitals


@contextlib.contextmanager
def reading(path: PathLike) -> Iterator[None]:
    """Name the file in the message of every error while it is read.

    Raises
    ------
    InputError
    """
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # bytes of another format raise anything
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise InputError(f"'{path}' cannot be read: {why}") from error


def ordinary(path: PathLike, flags: int) -> int:
    """Open a file; an opener for `open`. Pipes and devices, which may never end, are refused.

    Raises
    ------
    OSError
    """
    file = os.open(path, flags | getattr(os, "O_NONBLOCK", 0), 0o666)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, "it is no ordinary file", os.fspath(path))
    return file


def read_bytes(path: PathLike) -> bytes:
    """Return the content of an ordinary file; raise OSError for any other."""
    with open(path, "rb", opener=ordinary) as file:
        return file.read()


def check_growth(path: PathLike, n_bytes: int, much: int = _MUCH) -> None:
    """Raise if a file would unpack to more than 100 times its size, and to more than `much` bytes."""
    most = max(much, _MOST_GROWTH * os.path.getsize(path))
    if n_bytes > most:
        raise InputError(
            f"'{path}' holds {os.path.getsize(path):,} bytes, which unpack to more than {most:,}: such "
            "files are refused. Unpack it yourself if you trust it"
        )


def check_file(path: PathLike, kinds: Names) -> str:
    """Return the ending of a file, such as ".csv" or ".csv.gz"; raise unless it exists and is of one of the
    kinds."""
    path = Path(path)
    kind = "".join(path.suffixes[-2:]).lower() if path.suffix.lower() == ".gz" else path.suffix.lower()
    either = " or ".join(filter(None, (", ".join(kinds[:-1]), kinds[-1])))
    if not path.exists():
        raise InputError(f"there is no file '{path}'; expected a {either} file")
    if not path.is_file():
        raise InputError(f"'{path}' is no file; expected a {either} file")
    if kind not in kinds:
        raise InputError(f"'{path}' ends in '{kind}'; expected {either}")
    return kind


def read_csv(path: PathLike, rename: Callable[[list[str]], list[str]] = list) -> dict[str, list[str]]:
    """Read the columns of a .csv or .csv.gz, as strings.

    Cells are separated by commas; if the header has semicolons or tabs and no comma, by these, and decimal
    commas become points.

    Parameters
    ----------
    path : path
    rename : callable
        Returns new names of the columns from those of the header.

    Returns
    -------
    dict of lists of str

    Raises
    ------
    InputError
        The file is not UTF-8, has a NUL, a line with more or fewer cells than the header, a name twice, or
        another fault; the message names the line.
    """
    with reading(path):
        check_csv(path)
        with _opened(path, "rt", encoding="utf-8-sig", newline="") as lines:
            first = next(lines, "")
            apart = delimiter_of(first)
            rows = csv.reader(itertools.chain([first], lines), delimiter=apart)
            names = rename([name.strip() for name in next(rows, [])])
            _check_once(path, names, names)
            columns = {name: [] for name in names}
            for row in rows:
                if len(row) == len(names):
                    for column, cell in zip(columns.values(), row):
                        column.append(cell if apart == "," else _with_point(cell))
                elif row:
                    raise ShapeError(
                        f"'{path}', line {rows.line_num} has {len(row)} cells, the header {len(names)}; "
                        "expected equal numbers"
                    )
    return columns


def _with_point(cell: str) -> str:
    """Return a number with its decimal comma replaced by a point; other cells unchanged."""
    whole = cell.strip().replace(",", ".", 1)
    try:
        float(whole)
    except ValueError:
        return cell
    return whole


def check_csv(path: PathLike, wanted: list[str] | None = None) -> None:
    """Raise for faults of a CSV file that other readers accept: NULs, duplicate names, excessive compression.

    Parameters
    ----------
    path : path
    wanted : list of str, optional
        Names that must not occur twice; by default all names.
    """
    with reading(path):
        seen, line = 0, 1
        with _opened(path, "rb") as file:
            while piece := file.read(_PIECE):
                at = piece.find(b"\0")
                if at >= 0:
                    here = line + piece.count(10, 0, at)
                    raise InputError(f"'{path}', line {here} holds a NUL character; expected text")
                seen, line = seen + len(piece), line + piece.count(10)
                check_growth(path, seen, _MUCH_TEXT)
        if wanted is not None:
            _check_once(path, header(path), wanted)


def header(path: PathLike) -> list[str]:
    """Return the names in the first line of a .csv or .csv.gz file.

    Raises
    ------
    InputError
        The file cannot be read.
    """
    with reading(path):
        line = first_line(path)
        return [name.strip() for name in next(csv.reader([line], delimiter=delimiter_of(line)), [])]


def first_line(path: PathLike) -> str:
    """Return the first line of a .csv or .csv.gz file, like `header`."""
    with reading(path), _opened(path, "rt", encoding="utf-8-sig") as lines:
        return lines.readline(_PIECE)


def delimiter_of(line: str) -> str:
    """Return what separates the cells of a header: commas, or else semicolons, or else tabs, but for those
    within quotes."""
    bare = re.sub('"[^"]*"', "", line)
    return next((one for one in ",;\t" if one in bare), ",")


def _opened(path: PathLike, mode: str, **keywords):
    if str(path).lower().endswith(".gz"):
        return gzip.open(path, mode, **keywords)
    return open(path, mode, opener=ordinary, **keywords)


def _check_once(path: PathLike, names: list[str], wanted: list[str]) -> None:
    counts = collections.Counter(names)
    for name in wanted:
        if counts[name] > 1:
            raise InputError(f"'{path}' has {counts[name]} columns '{name}'; expected distinct names")


def numbers(column: list[str], name: str, path: PathLike) -> Array:
    """Return a column of strings as float64, NaN for the words in `MISSING`.

    Raises
    ------
    DTypeError
        Another word, which the message states with its row.
    """
    with contextlib.suppress(ValueError):
        return np.array(column, np.float64)
    found = np.empty(len(column))
    for row, cell in enumerate(column):
        try:
            found[row] = np.nan if cell.strip().upper() in MISSING else float(cell)
        except ValueError:
            raise DTypeError(
                f"'{path}', column '{name}', row {row + 1} is {cell!r}; expected a number, or NA"
            ) from None
    return found


def read_npz(path: PathLike, choose: Callable[[list[str]], list[str]] = list) -> dict[str, Array]:
    """Return arrays of an .npz file, never Python objects.

    Parameters
    ----------
    path : path
    choose : callable
        Returns the names of the arrays to read from all names; by default all.
    """
    with reading(path), open(path, "rb", opener=ordinary) as raw:
        with zipfile.ZipFile(raw) as archive:
            check_growth(path, sum(entry.file_size for entry in archive.infolist()))
        raw.seek(0)
        with np.load(raw, allow_pickle=False) as file:
            return {name: file[name] for name in choose(file.files)}


def read_npy(path: PathLike) -> Array:
    """Return the array of an .npy file, memory-mapped, never Python objects."""
    with reading(path):
        os.close(ordinary(path, os.O_RDONLY))
        return np.lib.format.open_memmap(path, "r")


def read_json(path: PathLike) -> object:
    """Return the content of a .json file."""
    with reading(path):
        return json.loads(read_bytes(path))


@contextlib.contextmanager
def replacing(
    path: PathLike,
    name: str = "out",
    mark: str | None = None,
    shared: bool = False,
    follow: bool = True,
) -> Iterator[Path]:
    """Yield a name in the folder of `path` for a new file, which replaces `path` once it is complete and on
    the disk.

    After an interruption or on a full disk, `path` is unchanged. The new file has the mode of the old one; if
    `path` is a link, its target is replaced, or with `follow=False` the link.

    Parameters
    ----------
    path : path
    name : str
        Name of the argument, for messages.
    mark : str, optional
        Makes the temporary name the same every time, for a single writer; else it is random.
    shared : bool
        True if another process may create `path` meanwhile, which is then not replaced.

    Raises
    ------
    StorageError
        The file cannot be written; the message states the reason.
    InputError
        `shared`, and another process has created `path` since the block began.
    """
    named, process = Path(path), os.getpid()
    target = Path(os.path.realpath(named)) if follow else Path(os.path.realpath(named.parent), named.name)
    before = _state(target)
    beside = target.with_name(f".{target.stem}.{mark or secrets.token_hex(4)}.partial{target.suffix}")
    try:
        if mark:
            beside.unlink(missing_ok=True)  # left by a writer that was killed
        _create(beside, target)
        yield beside
        sync(beside)
        if not shared or _state(target) == before is not None:
            os.replace(beside, target)
        else:
            _appear(beside, target, name, path)
        sync(target.parent)
        if follow:  # parts of a store do not
            written.append(named)
    except OSError as error:
        raise cannot_write(name, path, error) from error
    finally:
        if os.getpid() == process:  # and not in a fork that leaves the block
            with contextlib.suppress(OSError):
                beside.unlink(missing_ok=True)


def _create(path, like):
    """Create a file, with the mode of another one if that exists."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
    if like.exists() and not like.is_symlink():
        os.chmod(path, like.stat().st_mode & 0o7777)


def _state(path: Path) -> tuple[int, ...] | None:
    """Return the identity and the time of a file; None if it does not exist."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns


def _appear(beside: Path, target: Path, name: str, path: PathLike) -> None:
    """Rename a file, unless its new name exists."""
    try:
        os.link(beside, target)
    except OSError as error:
        if isinstance(error, FileExistsError) or target.exists():
            raise InputError(
                f"{name} is '{path}', which another call has written meanwhile; it is kept: name another file"
            ) from error
        os.replace(beside, target)  # a file system without links


def cannot_write(name: str, path: PathLike, error: OSError) -> StorageError:
    """Return the error for a file that the system refuses to write."""
    return StorageError(f"{name}: '{path}' cannot be written: {error.strerror or error}")


def write(path: PathLike, content: str | bytes | memoryview, name: str = "out", follow: bool = True) -> None:
    """Write a file completely, and to the disk, or leave `path` unchanged; see `replacing`."""
    with replacing(path, name, follow=follow) as beside:
        beside.write_bytes(content.encode() if isinstance(content, str) else content)


def write_csv(path: PathLike, name: str, columns: Mapping[str, Array]) -> None:
    """Write named columns of equal length as CSV, completely or not at all.

    Parameters
    ----------
    path : path
    name : str
        Name of the argument, for messages.
    columns : dict of ndarrays, shape (n_rows,)

    Raises
    ------
    StorageError
        The file cannot be written.
    """
    with (
        replacing(path, name) as beside,
        beside.open("w", newline="", encoding="utf-8", errors="backslashreplace") as file,
    ):
        lines = csv.writer(file)
        lines.writerow(columns)
        for start in range(0, len(next(iter(columns.values()))), _ROWS):
            lines.writerows(zip(*(own[start : start + _ROWS].tolist() for own in columns.values())))


def check_folder(path: PathLike, files: Names, read: PathLike) -> Path:
    """Raise if the folder for results, option --out, cannot be created or written to, before anything is
    computed.

    Parameters
    ----------
    path : path
    files : tuple of str
        Names of the files that will be written.
    read : path
        The input file, which must not be one of them.
    """
    for file in files:
        if is_same_file(read, Path(path) / file):
            raise InputError(
                f"--out is '{path}', where '{read}', the file that is read, would be written over; name "
                "another folder"
            )
    there = Path(path).absolute()
    while not there.exists() and there != there.parent:
        there = there.parent
    if not there.is_dir():
        raise InputError(f"--out is '{path}', but '{there}' is a file; expected a folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise InputError(f"--out is '{path}', but '{there}' cannot be written to")
    return Path(path)


def is_same_file(one: PathLike, other: PathLike) -> bool:
    """Return True if two names refer to the same existing file."""
    return os.path.exists(one) and os.path.exists(other) and os.path.samefile(one, other)


def sync(path: PathLike) -> None:
    """Wait until a file's content, or a folder's names, are on the disk."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def allocate_npy(path: PathLike, shape: tuple[int, ...], dtype: type) -> np.memmap:
    """Create a .npy file, and return its memory map. Its disk space is allocated now, since a write to the
    map on a full disk would end the process."""
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


def check_no_input(path: PathLike, array: object, name: str, what: str) -> None:
    """Raise if a file to be written is the one that an array is mapped from.

    Parameters
    ----------
    path : path
        The file to be written.
    array : object
        A memory map or a view of one; any other object passes.
    name, what : str
        Names of the arguments for the file and for the array.
    """
    while array is not None:
        mapped = getattr(array, "filename", None) if isinstance(array, np.memmap) else None
        if mapped and is_same_file(path, mapped):
            raise InputError(f"{name} is '{path}', the file that {what} is read from; name another file")
        array = getattr(array, "base", None)
