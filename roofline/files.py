"""Check input folders and output files before any time is spent, and write files."""

import os
import tempfile
from pathlib import Path

from portable.errors import InputError


def data_folder(given):
    """Return the folder of real data: `--data`, else PORTABLE_DATA, else None for simulated inputs.

    Raises
    ------
    InputError
        The folder does not exist; the message names the option or the variable.
    """
    name, folder = ("--data", given) if given else ("PORTABLE_DATA", os.environ.get("PORTABLE_DATA"))
    if not folder:
        return None
    path = Path(folder)
    if not path.is_dir():
        raise InputError(
            f"{name}: '{path}' is not a folder. Name the folder that holds hawkes/, or none for simulated"
            " events."
        )
    return path


def check_writable(option, path):
    """Raise if a file could not be written at the end.

    Raises
    ------
    InputError
        The message names the option.
    """
    path = Path(path)
    if path.is_dir():
        raise InputError(f"{option}: '{path}' is a folder. Name a file in it.")
    if not path.parent.is_dir():
        raise InputError(f"{option}: the folder '{path.parent}' does not exist. Make it first.")
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}."):
            pass
    except OSError as error:
        raise InputError(f"{option}: '{path}' cannot be written: {error.strerror}.") from error
    if path.exists() and not os.access(path, os.W_OK):
        raise InputError(f"{option}: '{path}' exists and cannot be overwritten.")


def write(path, text):
    """Write a file atomically: an interruption never leaves half a report."""
    path = Path(path)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        partial.write_text(text, encoding="utf-8", errors="backslashreplace")  # any name can be encoded
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
