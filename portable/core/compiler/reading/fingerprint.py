"""Compute a fingerprint of all inputs of a kernel's typed tree, without building the tree.

The tree depends on the following, and on nothing else that a program can change:

    sources     of the kernel and of each function that it calls: the lines of their files at import, and
                the first lines of the functions
    names       their values: globals, closure cells, defaults, attributes of modules and classes. A source
                reads only attributes whose names its code object contains: all of these are included, read
                or not
    the launch  types of arguments, options, reducers, the machine
    compiler    its files by inode, size and times. An editor can reset a file's modification time, but not
                its change time in the file system
    arithmetic  of constants: Python's, NumPy's and the C library's

Functions, classes and modules that can be imported are identified by their names. If any other object occurs,
there is no fingerprint.
"""

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
_WRITTEN = types.FunctionType, type(np.sum)  # functions in Python; the latter type wraps functions of NumPy
_BUILTIN = types.BuiltinFunctionType, np.ufunc  # types whose attributes do not change
_IMMUTABLE = 1 << 8  # the flag of such types
_COARSEST_SECONDS = 2  # resolution of times in known file systems


class _Unknown(Exception):
    """Raised for an object that only its address identifies."""


def fingerprint(kernel: Kernel, reducers: tuple[Reducer, ...], known: tuple, *launch: str) -> str | None:
    """Return a hash of everything that determines a kernel's code; None if that is not possible.

    Parameters
    ----------
    known : functions and other objects without a run-time value among the arguments
    launch : strings with everything else that determines the code
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
    """Return a string that identifies the compiler; None if it may have changed since this process imported
    it."""
    try:
        found = [
            (path, os.stat(path))
            for path in cache.files("core", "derivatives", "library", "numba", "errors.py")
        ]
    except OSError:  # imported from an archive
        return None
    if os.name != "posix" or max(s.st_ctime for _, s in found) > frontend.BEGAN - _COARSEST_SECONDS:
        return None
    states = sorted((path, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns) for path, s in found)
    library = "CS_GNU_LIBC_VERSION"
    versions = sys.version, np.__version__, llvmlite.__version__
    return repr((states, versions, library in os.confstr_names and os.confstr(library)))


class _Writer:
    """Writer of objects into `parts`; a repeated object is written as its number, so that identity is
    recorded."""

    def __init__(self):
        self.parts, self.numbers, self.kept, self.names, self.looked_at = [], {}, [], frozenset(), set()
        self.put = self.parts.append

    def add(self, value):
        kind = value.__class__
        if kind in _PLAIN:
            self.put(f"{kind.__name__} {value!r}")
        elif isinstance(value, type) or kind in (types.ModuleType, *_WRITTEN, *_BUILTIN):
            self.named(value, kind)
        elif not self.write_reference(value):
            self.write_once(value, kind)

    def write_reference(self, value):
        """Write the number of an object; return True if it was written before."""
        number = self.numbers.setdefault(id(value), len(self.kept))
        self.put(f"%{number}")
        if number == len(self.kept):
            self.kept.append(value)  # keeps it alive, so that no other object gets its address
            return False
        return True

    def write_once(self, value, kind):
        self.put(kind.__name__)
        if isinstance(value, (Kernel, Function)) and kind.portable_text is Kernel.portable_text:
            self.text(value)
        elif kind is Reducer:
            self.reducer(value)
        elif kind is words.static:
            self.add(value.value)
        elif kind in (str, bytes):
            self.put(repr(value))
        elif kind is tuple or isinstance(value, tuple) and all(v.__class__ in _PLAIN for v in value):
            self.parts += [repr(getattr(kind, "_fields", ())), str(len(value))]
            for v in tuple.__iter__(value):
                self.add(v)
        elif (kind is np.ndarray or isinstance(value, np.generic)) and not value.dtype.hasobject:
            small = value.nbytes <= frontend.MOST_TABLE
            self.parts += [repr((value.dtype, value.shape)), value.tobytes().hex() if small else "large"]
        elif isinstance(value, np.dtype) and value.isbuiltin == 1:
            self.put(value.str)
        else:
            raise _Unknown

    def text(self, written):
        """Write the source of a function and the values of its names."""
        fn, outer, lines = written.fn, self.names, frontend.kept_lines(written.fn)
        read = {name for code in frontend.codes(fn.__code__) for name in code.co_names}
        if not lines or any(name.startswith("__") for name in read):
            raise _Unknown
        self.names = frozenset(read | {"dtype"})  # np.dtype reads this attribute of a class
        if not self.write_reference(lines):
            self.parts += [str(len(lines)), *lines]
        self.put(repr((fn.__code__.co_firstlineno, fn.__code__.co_name, fn.__name__, written.options)))
        self.add(fn.__defaults__)
        scope = frontend.scope_of(fn)
        self.put(str(len(scope)))
        for name, value in scope.items():
            self.put(name)
            self.add(value)
        self.names = outer

    def reducer(self, reducer):
        identities = tuple(map(reducer.identity, DTYPES))
        steps = reducer.combine, reducer.lift, reducer.finish
        for part in (reducer.name, reducer.commutes, identities, *steps):
            self.add(part)

    def named(self, value, kind):
        """Write a word, or an object by its importable name, with the attributes that the source may read."""
        if kind is not types.ModuleType and value in words.MEANT:
            row = words.MEANT[value]
            self.put(f"word {row.name} {row.reads}")
            return
        if kind is types.ModuleType:
            module, path, found = value.__name__, "", sys.modules.get(value.__name__)
        else:
            ufunc = kind is np.ufunc
            module, path = ("numpy", value.__name__) if ufunc else (value.__module__, value.__qualname__)
            found = find_by_path(sys.modules.get(module), path)
        if found is not value:
            raise _Unknown
        self.put(f"{module}:{path}")
        if kind not in _BUILTIN and not (isinstance(value, type) and value.__flags__ & _IMMUTABLE):
            self.attributes(value, kind)

    def attributes(self, value, kind):
        """Write the attributes of a module, a function or a class that the source may read."""
        if kind not in (types.ModuleType, type, *_WRITTEN):
            raise _Unknown  # a metaclass may compute any attribute
        if kind is types.ModuleType and value is not np and "__getattr__" in vars(value):
            raise _Unknown
        if (id(value), self.names) in self.looked_at:
            return
        self.looked_at.add((id(value), self.names))
        there = self.names & vars(value).keys()
        if kind is type:
            fields = tuple(fields_of(value) or ("", (), ()))
            there = self.names.difference(fields[1])
            self.put(repr(value.__mro__))
            self.add(fields)
        for name in sorted(there):
            if hasattr(value, name):
                self.put(f".{name}")
                self.add(getattr(value, name))
        self.put(".")
