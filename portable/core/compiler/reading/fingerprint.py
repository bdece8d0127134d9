"""A fingerprint of all that a kernel's typed tree is made from, found without reading its text into a tree.

The tree is a function of these, and of nothing else that a program can change:

    texts       of the kernel and of each function that it reaches: the lines of their files, as they were
                when these were imported, and where in them the functions begin
    names       what they hold: globals, closure cells, defaults, attributes of modules and classes. A text
                reads no attribute whose name its code object does not have: all of these are taken, read or
                not
    the launch  types of arguments, options, reducers, the machine
    compiler    its files by inode, size and times. An editor can set back the time of a change in content,
                but not that of the change in the file system
    arithmetic  of constants: Python's, NumPy's and the C library's

Functions, classes and modules that are found under their names are told apart by these. Where anything else
is met, there is no fingerprint.
"""

from __future__ import annotations

import functools
import os
import sys
import types

import llvmlite
import numpy as np

from ... import cache
from ...language import frontend, words
from ...language.kernel import Function, Kernel, find_by_path
from ...language.reducer import Reducer
from ...language.types import DTYPES, fields_of

_PLAIN = bool, int, float, complex, type(None), type(...), type(NotImplemented)
_WRITTEN = types.FunctionType, type(np.sum)  # in Python; the latter wraps functions of NumPy's
_BUILTIN = types.BuiltinFunctionType, np.ufunc  # whose attributes nobody changes
_IMMUTABLE = 1 << 8  # the flag of such types
_COARSEST_SECONDS = 2  # by which known file systems tell times


class _Unknown(Exception):
    """An object that can be identified by its address alone."""


def fingerprint(kernel: Kernel, reducers: tuple[Reducer, ...], known: tuple, *launch: str) -> str | None:
    """Return a name for everything that a kernel's code is made from; None if that cannot be determined.

    Parameters
    ----------
    known : functions and the like among the arguments
    launch : what else decides the code, as texts
    """
    made_by = compiler()
    if made_by is None:
        return None
    writer = _Writer()
    try:
        writer.add(kernel)
        writer.add(reducers)
        writer.add(known)
    except Exception:  # noqa: BLE001  (_Unknown, and whatever objects raise where attributes are read)
        return None
    return cache.key("fingerprint", made_by, *launch, *writer.parts)


@functools.cache
def compiler():
    """Return the compiler, as a text; None if it may have changed since this process imported it."""
    try:
        found = [
            (path, os.stat(path))
            for path in cache.files("core", "derivatives", "library", "numba", "errors.py")
        ]
    except OSError:  # it was imported from an archive
        return None
    if os.name != "posix" or max(s.st_ctime for _, s in found) > frontend.BEGAN - _COARSEST_SECONDS:
        return None
    states = sorted((path, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns) for path, s in found)
    library = "CS_GNU_LIBC_VERSION"
    versions = sys.version, np.__version__, llvmlite.__version__
    return repr((states, versions, library in os.confstr_names and os.confstr(library)))


class _Writer:
    """Writes objects into `parts`, a repeated one as its number, so that identity is recorded too."""

    def __init__(self):
        self.parts, self.numbers, self.kept, self.names, self.looked_at = [], {}, [], frozenset(), set()

    def add(self, value):
        kind = value.__class__
        if kind in _PLAIN:
            self.parts.append(f"{kind.__name__} {value!r}")
        elif isinstance(value, type) or kind in (types.ModuleType, *_WRITTEN, *_BUILTIN):
            self.named(value, kind)
        elif not self.again(value):
            self.once(value, kind)

    def again(self, value):
        """Write the number of an object; return True if it was written before."""
        number = self.numbers.setdefault(id(value), len(self.kept))
        self.parts.append(f"%{number}")
        if number == len(self.kept):
            self.kept.append(value)  # as long as it lives, no other has its address
            return False
        return True

    def once(self, value, kind):
        self.parts.append(kind.__name__)
        if isinstance(value, (Kernel, Function)) and kind.portable_text is Kernel.portable_text:
            self.text(value)
        elif kind is Reducer:
            self.reducer(value)
        elif kind is words.static:
            self.add(value.value)
        elif kind in (str, bytes):
            self.parts.append(repr(value))
        elif kind is tuple or isinstance(value, tuple) and all(v.__class__ in _PLAIN for v in value):
            self.parts += [repr(getattr(kind, "_fields", ())), str(len(value))]
            for v in tuple.__iter__(value):
                self.add(v)
        elif (kind is np.ndarray or isinstance(value, np.generic)) and not value.dtype.hasobject:
            small = value.nbytes <= frontend.MOST_TABLE
            self.parts += [repr((value.dtype, value.shape)), value.tobytes().hex() if small else "large"]
        elif isinstance(value, np.dtype) and value.isbuiltin == 1:
            self.parts.append(value.str)
        else:
            raise _Unknown

    def text(self, written):
        """A text, and what the names in it hold."""
        fn, outer, lines = written.fn, self.names, frontend.kept_lines(written.fn)
        read = {name for code in frontend.codes(fn.__code__) for name in code.co_names}
        if not lines or any(name.startswith("__") for name in read):
            raise _Unknown
        self.names = frozenset(read | {"dtype"})  # which np.dtype reads of a class
        if not self.again(lines):
            self.parts += [str(len(lines)), *lines]
        self.parts.append(
            repr((fn.__code__.co_firstlineno, fn.__code__.co_name, fn.__name__, written.options))
        )
        self.add(fn.__defaults__)
        scope = frontend.scope_of(fn)
        self.parts.append(str(len(scope)))
        for name, value in scope.items():
            self.parts.append(name)
            self.add(value)
        self.names = outer

    def reducer(self, reducer):
        identities = tuple(map(reducer.identity, DTYPES))
        steps = reducer.combine, reducer.lift, reducer.finish
        for part in (reducer.name, reducer.commutes, identities, *steps):
            self.add(part)

    def named(self, value, kind):
        """A word, or what stands under its name in a module; and the attributes of it that can be read."""
        if kind is not types.ModuleType and value in words.MEANT:
            row = words.MEANT[value]
            self.parts.append(f"word {row.name} {row.reads}")
            return
        if kind is types.ModuleType:
            module, path, found = value.__name__, "", sys.modules.get(value.__name__)
        else:
            ufunc = kind is np.ufunc
            module, path = ("numpy", value.__name__) if ufunc else (value.__module__, value.__qualname__)
            found = find_by_path(sys.modules.get(module), path)
        if found is not value:
            raise _Unknown
        self.parts.append(f"{module}:{path}")
        if kind not in _BUILTIN and not (isinstance(value, type) and value.__flags__ & _IMMUTABLE):
            self.attributes(value, kind)

    def attributes(self, value, kind):
        """Note the attributes that the source may read of a module, a function or a class."""
        if kind not in (types.ModuleType, type, *_WRITTEN):
            raise _Unknown  # a class of a class of its own, which may answer anything
        if kind is types.ModuleType and value is not np and "__getattr__" in vars(value):
            raise _Unknown
        if (id(value), self.names) in self.looked_at:
            return
        self.looked_at.add((id(value), self.names))
        there = self.names & vars(value).keys()
        if kind is type:
            fields = tuple(fields_of(value) or ("", (), ()))
            there = self.names.difference(fields[1])
            self.parts.append(repr(value.__mro__))
            self.add(fields)
        for name in sorted(there):
            if hasattr(value, name):
                self.parts.append(f".{name}")
                self.add(getattr(value, name))
        self.parts.append(".")
