"""Another revision of this project: the commit of a name, and its files in a separate folder."""

import contextlib
import shutil
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

from portable.errors import InputError

HERE = Path(__file__).resolve().parents[1]  # the folder that contains roofline/


@dataclass(frozen=True)
class Revision:
    """Store a commit, and the name that requested it."""

    name: str
    commit: str


def find(name, case=None, asked_as="--against") -> Revision:
    """Return the commit of a name, after a check that a case can be run in it.

    Parameters
    ----------
    name : str
        Any name that git accepts for a commit: a hash, a tag, a branch, HEAD~3.
    case : str, optional
    asked_as : str
        The argument that contained it, for messages.

    Raises
    ------
    InputError
        There is no git or no checkout, no such commit, or a commit without the case.
    """
    _check_checkout(asked_as)
    commit = _git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}").stdout.strip()
    if not commit:
        raise InputError(
            f"{asked_as}: '{name}' names no commit of '{HERE}'. Name a hash, a tag or a branch "
            "that is there (git fetch)."
        )
    if case is not None and _git("cat-file", "-e", f"{commit}:roofline/cases/{case}.py").returncode:
        raise InputError(
            f"{asked_as}: '{name}' has no case '{case}' (roofline/cases/{case}.py). Name a later revision."
        )
    return Revision(name, commit)


def current():
    """Return the state of the working tree, as a JSON object: its commit, and whether files were changed
    since."""
    changed = bool(_git("status", "--porcelain").stdout.strip())
    return {"commit": _git("rev-parse", "HEAD").stdout.strip(), "changed": changed}


@contextlib.contextmanager
def unpacked(revision):
    """Yield a temporary folder with the files of a revision, removed at the end; the checkout is not
    changed."""
    folder = Path(tempfile.mkdtemp(prefix="roofline-against-"))
    try:
        with subprocess.Popen(
            ["git", "-C", str(HERE), "archive", "--format=tar", revision.commit], stdout=subprocess.PIPE
        ) as archive:
            with tarfile.open(fileobj=archive.stdout, mode="r|") as files:
                files.extraction_filter = getattr(tarfile, "data_filter", None)  # 3.11.4 has it
                files.extractall(folder)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _check_checkout(asked_as):
    if shutil.which("git") is None:
        raise InputError(f"{asked_as}: git is not on the path; it reads the other revision.")
    found = _git("rev-parse", "--show-toplevel")
    if found.returncode or Path(found.stdout.strip()).resolve() != HERE.resolve():
        why = (
            found.stderr.strip().splitlines()[0] if found.stderr.strip() else "its checkout begins elsewhere"
        )
        raise InputError(
            f"{asked_as}: the project runs from '{HERE}', which is not the top of a git checkout "
            f"({why}). Run it in a clone, by python -m, with the clone's folder on PYTHONPATH."
        )


def _git(*arguments):
    return subprocess.run(["git", "-C", str(HERE), *arguments], capture_output=True, text=True, check=False)
