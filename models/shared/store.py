"""Checkpoints of long jobs: a folder of sealed parts, from which a job resumes with bit-identical results.

    with Store(checkpoint, "edm.cross_map", {"tau": tau, "dataset": dataset}) as store:
        part = store.get("rows-00000000")  # None if it is not there, or damaged: then a warning names it
        if part is None:
            store.put("rows-00000000", rows=rows)  # on the disk when this returns, whole or not at all

The folder holds

    run.json    the job, its settings (arrays by their digests, functions by their fingerprints): the key of
                the run; and the release that began it
    lock        locked while a process uses the folder; its content identifies the process, for messages
    NAME.npz    a part: arrays, which `numpy.load` reads, and a seal over them, the part's name and the key
    NAME.part   a folder of the same kind, for one of several parts of a job (`inside`)

Settings that only determine the length of the job (draws, rows, cells, iterations) are not in the key: a
longer job uses the parts of a shorter one. With None in place of a folder nothing is stored, and nothing
found.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import platform
import stat
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType

import numpy as np

import portable as pk
from portable.errors import InputError, StorageError

from .annotations import Array, PathLike
from .checks import check_kind
from .files import cannot_write, read_bytes, sync, write
from .fingerprints import Unnamed, digest, fingerprint
from .mapped import Streamed
from .user_warnings import warn

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None

# Version of settings and parts, increased by a release that computes or stores something else in a part.
FORMAT = 2
EVERY_S = 5.0  # seconds between two parts of a job whose parts may have any length
_SEAL = 65  # bytes at the end of a part: a new line and a digest in hexadecimal
_SHARE = 20  # a job spends at most 1 / _SHARE of its time on storing parts


class Store:
    """A folder of sealed parts, locked against other processes until it is closed.

    Parameters
    ----------
    path : str, Path or None
        The folder, which is created if its parent exists. None: nothing is stored.
    job : str
        Name of the algorithm, such as "edm.cross_map".
    settings : dict
        Everything on which the parts depend: numbers, which JSON represents exactly, strings, lists of these,
        arrays (in the key by their digests), functions and other objects that `fingerprint` supports.
    name : str
        Name of the argument for the folder, for messages.

    Raises
    ------
    DTypeError, InputError
        `path` is not a path, has no parent folder, is a file or a folder with other content, belongs to a run
        with other settings or of a release with another format (the message names them), or is in use by
        another process (the message identifies it); or a setting has no fingerprint.
    StorageError
        The folder cannot be written to.

    Warns
    -----
    RuntimeWarning
        Another release has begun the run, in the same format.
    """

    def __init__(self, path: PathLike | None, job: str, settings: dict, name: str = "checkpoint") -> None:
        self.path, self._name, self._lock = None, name, None
        self._written, self._cost, self._pid = time.monotonic(), 0.0, os.getpid()
        if path is None:
            return
        check_kind(path, name, (str, os.PathLike), "be the name of a folder")
        self.path = Path(path)
        run = {"format": FORMAT, "job": job, "numpy": ".".join(np.__version__.split(".")[:2])}
        run |= settings_as_json(settings, name)
        self.key = _key_of(run)
        self._make()
        self._lock = self._take_lock()
        try:
            for left in self.path.glob(".*.partial*"):  # by a process that was killed
                left.unlink()
            self._check_run(run)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Store:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Unlock the folder for other processes; in a fork, leave it to the process that has locked it."""
        if self._lock is None:
            return
        lock, self._lock = self._lock, None
        try:
            is_own = os.path.samestat(os.fstat(lock), self._locked)
        except OSError:
            is_own = False
        if is_own:  # a daemon closes open files, and the descriptor may be another file's now
            if os.getpid() == self._pid:
                fcntl.flock(lock, fcntl.LOCK_UN)  # explicitly, since a fork may have the file open
            os.close(lock)

    # ---- parts
    def put(self, part: str, **arrays: Array) -> None:
        """Store a part, which is on the disk when this returns.

        Raises
        ------
        StorageError
            The disk is full, or cannot be written for another reason. Parts that were kept before are not
            touched.
        """
        if self.path is None:
            return
        begin, body = time.monotonic(), io.BytesIO()
        np.savez(body, **arrays)
        body.write(b"\n" + self._seal(part, body.getbuffer()))
        try:
            write(self._file(part), body.getbuffer(), self._name, follow=False)
        except StorageError as error:
            raise StorageError(
                f"{error}. Finished parts are stored there: make room, and the same call continues from them"
            ) from error
        self._written = time.monotonic()
        self._cost = self._written - begin

    def get(self, part: str) -> dict[str, Array] | None:
        """Return the arrays of a part; None if it does not exist, or, with a warning, if it is damaged."""
        if self.path is None:
            return None
        try:
            body = read_bytes(self._file(part))
        except FileNotFoundError:
            return None
        except OSError as error:
            return self._damaged(part, error.strerror)
        if body[-_SEAL:] != b"\n" + self._seal(part, memoryview(body)[:-_SEAL]):
            return self._damaged(part, "its seal does not fit its content")
        with np.load(io.BytesIO(body[:-_SEAL]), allow_pickle=False) as file:
            return {name: file[name] for name in file.files}

    def names(self, begin: str = "") -> list[str]:
        """Return the names of parts with the prefix `begin`, ascending, including damaged parts."""
        if self.path is None:
            return []
        return sorted(file.stem for file in self.path.glob("*.npz") if file.name.startswith(begin))

    def parts(self, begin: str = "") -> Iterator[dict[str, Array]]:
        """Return the parts with the prefix `begin` that are whole."""
        return filter(None, map(self.get, self.names(begin)))

    def due(self) -> bool:
        """Return True if it is time to store the next part; always False if nothing is stored."""
        return self.path is not None and time.monotonic() - self._written >= max(EVERY_S, _SHARE * self._cost)

    def chain(self, name: str, n: int, run: Callable[[dict | None, int, int], dict]) -> Iterator[dict]:
        """Yield the parts of a chain of n steps; each depends only on the state at the end of the preceding
        part.

        Parameters
        ----------
        name : str
            Name of the chain: its parts are named NAME-FIRST_STEP.
        n : int
            Number of steps. The last part may extend beyond them if a longer chain stored it.
        run : callable
            Called with the arrays of the preceding part (None for the first), the first step and the end;
            returns the arrays of a part: `end`, the first step of the next part, the state there, and the
            results of the job. It may stop earlier, for example when `due`.

        Yields
        ------
        dict of arrays: stored parts, and newly computed ones.
        """
        at, part = 0, None
        while at < n:
            kept = self.get(f"{name}-{at:012d}")
            if kept is None:
                begins = [int(part.rpartition("-")[2]) for part in self.names(f"{name}-")]
                kept = run(part, at, min([begin for begin in begins if begin > at] + [n]))
                self.put(f"{name}-{at:012d}", **kept)
            part, at = kept, int(kept["end"])
            yield part

    def rows(
        self, name: str, wanted: Array, compute: Callable[[Array], dict], key: str = "rows"
    ) -> Iterator[dict]:
        """Yield the parts of a job with independent rows.

        Parameters
        ----------
        name : str
            Prefix of the parts' names, before their first row.
        wanted : array of int
            Rows, ascending.
        compute : callable
            Called with the missing rows; returns the arrays of a part: the first of these rows, as many as it
            has computed, and their results.
        key : str
            Name of the array of rows in a part.

        Yields
        ------
        dict of arrays
            Stored parts, which may also include other rows, then newly computed ones.
        """
        for part in self.parts(name):
            wanted = np.setdiff1d(wanted, part[key])
            yield part
        while len(wanted):
            part = compute(wanted)
            self.put(f"{name}{part[key][0]:08d}", **part)
            wanted = wanted[len(part[key]) :]
            yield part

    def _file(self, part: str) -> Path:
        return self.path / f"{part}.npz"

    def _seal(self, part: str, body: memoryview) -> bytes:
        digest = hashlib.sha256(f"{self.key} {part} ".encode())
        digest.update(body)
        return digest.hexdigest().encode()

    def _damaged(self, part: str, why: str) -> None:
        warn(f"{self._name}: part '{self._file(part)}' is damaged ({why}); it is computed again")

    # ---- the folder
    def _make(self) -> None:
        """Create the folder; raise if it has foreign content."""
        if self.path.is_dir():
            for file in self.path.iterdir():
                own = file.name in ("run.json", "lock") or file.suffix in (".npz", ".part")
                if not (own or ".partial" in file.suffixes):
                    raise InputError(
                        f"{self._name}: '{self.path}' holds {file.name!r}, which is not of a checkpoint; name"
                        " a folder of its own"
                    )
            return
        if self.path.exists():
            raise InputError(
                f"{self._name}: '{self.path}' is a file; expected the name of a folder, which is made if it "
                "is missing"
            )
        if not self.path.parent.is_dir():
            raise InputError(f"{self._name}: the folder '{self.path.parent}' does not exist")
        try:
            self.path.mkdir(exist_ok=True)
            sync(self.path.parent)
        except OSError as error:
            raise cannot_write(self._name, self.path, error) from error

    def _take_lock(self) -> int:
        """Return the descriptor of the locked file."""
        if fcntl is None:
            raise InputError(f"{self._name}: this system has no file locks, which exclude a second process")
        path = self.path / "lock"
        try:
            lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
        except OSError as error:
            if path.is_symlink():
                raise self._no_lock(path) from error
            raise cannot_write(self._name, path, error) from error
        self._locked = os.fstat(lock)
        if not stat.S_ISREG(self._locked.st_mode) or self._locked.st_nlink != 1:  # its content is overwritten
            os.close(lock)
            raise self._no_lock(path)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(lock, 1000, 0).decode(errors="replace")
            os.close(lock)
            if isinstance(error, BlockingIOError):
                raise InputError(
                    f"{self._name}: '{self.path}' is in use by {holder or 'another process'}; wait for it, "
                    "or name another folder"
                ) from error
            raise StorageError(f"{self._name}: '{path}' cannot be locked: {error.strerror}") from error
        _sign(lock)
        return lock

    def _no_lock(self, path: Path) -> InputError:
        return InputError(
            f"{self._name}: '{path}' must be an ordinary file and no link; "
            "remove it, or name a folder of its own"
        )

    def _check_run(self, run: dict) -> None:
        """Raise if the folder is of another run; write run.json if the folder is new."""
        path = self.path / "run.json"
        try:
            whole = json.loads(read_bytes(path))
            found, damaged = whole["run"], whole["key"] != _key_of(whole["run"])
            release = whole.get("release", found.get("portable"))
        except FileNotFoundError:
            found, damaged = None, False
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            damaged = True
        if not damaged and found is not None:
            self._check_same(whole["key"], found, run, release)
            return
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            parts = self.names()
            own = any(self.get(part) is not None for part in parts)
        if parts and not own:
            raise InputError(
                f"{self._name}: '{path}' is {'damaged' if damaged else 'missing'}, and no part is of this "
                "run; name another folder, or remove this one to begin anew"
            )
        if damaged:
            warn(f"{self._name}: '{path}' is damaged; it is written again")
        about = {"key": self.key, "release": pk.__version__, "run": run}
        write(path, json.dumps(about, indent=1) + "\n", self._name, follow=False)

    def _check_same(self, key: str, found: dict, run: dict, release: object) -> None:
        """Raise if the run differs; warn if another release has begun it."""
        other = f"portable {release}" if release != pk.__version__ else ""
        if key == self.key:
            if other:
                warn(
                    f"{self._name}: '{self.path}' was begun by {other}; portable {pk.__version__} continues"
                    " it in the same form"
                )
            return
        if found.get("format") != FORMAT:
            raise InputError(
                f"{self._name}: '{self.path}' was written by portable {release}, in form "
                f"{found.get('format')} of checkpoints; portable {pk.__version__} reads form {FORMAT}. "
                "Finish it with that release, or name another folder to begin anew"
            )
        raise InputError(
            f"{self._name}: '{self.path}' belongs to another run{other and f', begun by {other}'}: "
            f"{list_differences(found, run)}. Name another folder, or remove this one to begin anew"
        )


def _sign(lock):
    """Write into a locked file which process has locked it."""
    with contextlib.suppress(OSError):  # on a full disk the finished parts can still be read
        os.ftruncate(lock, 0)
        since = time.strftime("%Y-%m-%d %H:%M:%S")
        os.write(lock, f"process {os.getpid()} on {platform.node()} since {since}".encode())


def _key_of(run):
    return hashlib.sha256(json.dumps(run, sort_keys=True).encode()).hexdigest()


def inside(path: PathLike | None, part: str) -> Path | None:
    """Return the folder of one of several stores of a job in its checkpoint, which is created if its parent
    exists."""
    if path is None:
        return None
    with Store(path, "several jobs", {}):  # checks the folder, and writes its run.json
        return Path(path) / f"{part}.part"


NOWHERE = Store(None, "nothing", {})  # stores nothing


def settings_as_json(settings: dict, name: str) -> dict:
    """Return settings as JSON; if they include code, with the version of Python, on which bytecode depends.

    Parameters
    ----------
    settings : dict
    name : str
        Name of the argument for the file or folder, for messages.

    Raises
    ------
    InputError
        A setting has no fingerprint.
    """
    found, with_code = {}, []
    for key, value in settings.items():
        try:
            found[key] = _words(value, with_code)
        except Unnamed as error:
            raise InputError(
                f"{name}: {key} contains {error}, which has no fingerprint; "
                "expected numbers, arrays, strings and functions of these"
            ) from error
    return found | ({"python": ".".join(platform.python_version_tuple()[:2])} if with_code else {})


def _words(value: object, with_code: list) -> object:
    """Return a setting in a form for JSON; values that are not plain are appended to `with_code`."""
    if isinstance(value, (np.ndarray, Streamed)):
        return f"{value.dtype} {value.shape} {digest(value)}"
    if isinstance(value, np.generic) and isinstance(value.item(), (bool, int, float, str)):
        return value.item()
    if type(value) is dict:
        return {str(key): _words(item, with_code) for key, item in value.items()}
    if type(value) in (list, tuple):
        return [_words(item, with_code) for item in value]
    if value is None or type(value) in (bool, int, float, str):
        return value
    with_code.append(value)
    return f"{type(value).__name__} {fingerprint(value)}"


def list_differences(found: dict, run: dict) -> str:
    """Return the settings in which two runs differ, in words."""
    names = [name for name in run | found if found.get(name) != run.get(name)]
    long = [name for name in names if any(len(str(one.get(name))) > 40 for one in (found, run))]
    return "; ".join(
        f"{name} differ{'s' * (not name.endswith('s'))}"
        if name in long
        else f"{name} is {found.get(name)!r} there, {run.get(name)!r} here"
        for name in names
    )
