"""Fingerprints of values, functions and models, by everything that determines their behaviour, reproducible
in every process.

The fingerprint of a function includes its code and constants, defaults, closure, the globals and attributes
of modules that it uses, and recursively those of all functions that it calls. An edited comment, docstring or
line number does not change it; an edited constant two calls away does. Functions and classes of Python, NumPy
and portable are identified by name, those of installed packages by name and version; classes of the methods
by name, but their functions by code, since these are models.
"""

import copyreg
import dis
import functools
import hashlib
import inspect
import sys
import sysconfig
import types
from collections.abc import Iterable
from typing import Any

import numpy as np

from .mapped import Streamed

_ATOMS = bool, int, str, bytes, type(None), type(...), type(NotImplemented), range
_BUILTIN = types.BuiltinFunctionType, types.MethodWrapperType
_DESCRIPTORS = (
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.ClassMethodDescriptorType,
)
_WRAPPING = staticmethod, classmethod, functools.cached_property, property
_NAMED_ONLY = "numpy", "portable"  # like Python's own: their release is in the key, or stored next to it
_SITES = tuple(sysconfig.get_path(name) for name in ("purelib", "platlib"))
_PIECE = 1 << 24  # bytes of an array that are read for its digest at a time
_GENERATOR, _COROUTINE = 0x20, 0x80
_KINDS = 0x04 | 0x08 | _GENERATOR | _COROUTINE  # the flags of a code object that change its behaviour


class Unnamed(Exception):
    """An object that is distinguished from others only by its address."""


def fingerprint(value: object) -> str:
    """Return the fingerprint of a value, by everything that determines its behaviour.

    Parameters
    ----------
    value : object
        Numbers, strings, arrays, containers, functions, classes, and objects that `pickle` supports.

    Returns
    -------
    str
        64 hexadecimal digits, the same in every process of one minor version of Python.

    Raises
    ------
    Unnamed
        It contains or uses an object that cannot be distinguished from others, such as a lock or open file.
    """
    return _Namer().name(value)


def digest(array: np.ndarray | Streamed) -> str:
    """Return the SHA-256 of an array's numbers, dtype and shape; one larger than memory is read in pieces."""
    found = hashlib.sha256(f"{array.dtype} {array.shape} ".encode())
    rows = max(1, _PIECE // max(1, array[:1].nbytes)) if array.ndim else 1
    for begin in range(0, len(array) if array.ndim else 1, rows):
        found.update(np.ascontiguousarray(array[begin : begin + rows] if array.ndim else array).data)
    return found.hexdigest()


class _Namer:
    """Computes the name of each object once; a recursive reference is represented by the number of steps."""

    def __init__(self) -> None:
        self.known: dict[int, str] = {}
        self.within: dict[int, int] = {}
        self.kept: list[object] = []  # referenced, so that no other object gets their addresses

    def name(self, value: object) -> str:
        """Return the name of a value."""
        here = id(value)
        if here in self.within:
            return f"within {self.within[here]}"
        if here not in self.known:
            self.kept.append(value)
            self.within[here] = len(self.within)
            try:
                text = "\0".join((type(value).__qualname__, *self.parts(value)))
            except RecursionError:
                raise Unnamed(f"{type(value).__name__} within a thousand others") from None
            del self.within[here]
            self.known[here] = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        return self.known[here]

    def names_of(self, values: Iterable[object]) -> list[str]:
        """Return the names of several values."""
        return [self.name(value) for value in values]

    def parts(self, value: Any) -> Iterable[str]:
        """Return the parts that distinguish a value from others of its type."""
        kind = type(value)
        if kind in _ATOMS:
            return (repr(value),)
        if kind is float:
            return (value.hex(),)
        if kind is complex:
            return value.real.hex(), value.imag.hex()
        if kind in (tuple, list):
            return self.names_of(value)
        if kind in (dict, types.MappingProxyType):
            return sorted(f"{self.name(key)} {self.name(item)}" for key, item in value.items())
        if kind in (set, frozenset):
            return sorted(self.names_of(value))
        if (kind in (np.ndarray, np.memmap) or isinstance(value, Streamed)) and not value.dtype.hasobject:
            return (digest(value),)
        if isinstance(value, np.generic) and not value.dtype.hasobject:
            return value.dtype.str, value.tobytes().hex()
        if isinstance(value, np.dtype):
            return (repr(value),)
        return self.code(value, kind)

    def code(self, value: Any, kind: type) -> Iterable[str]:
        """Return the parts of code and functions."""
        if kind is types.CodeType:
            return self.instructions(value, value.co_consts)
        if kind is types.FunctionType:
            return self.function(value)
        if kind is types.MethodType:
            return self.names_of((value.__func__, value.__self__))
        if kind in _BUILTIN and not isinstance(value.__self__, (types.ModuleType, type(None))):
            return value.__name__, self.name(value.__self__)
        if kind in _BUILTIN or kind in _DESCRIPTORS or kind is np.ufunc:
            return str(getattr(value, "__module__", "")), getattr(value, "__qualname__", value.__name__)
        return self.holder(value, kind)

    def holder(self, value: Any, kind: type) -> Iterable[str]:
        """Return the parts of what holds functions, of classes and modules, and of other objects."""
        if kind in _WRAPPING:
            names = "__func__", "func", "fget", "fset", "fdel"
            return self.names_of(getattr(value, name, None) for name in names)
        if kind is types.CellType:
            return self.names_of((value.cell_contents,) if _is_full(value) else ())
        if kind is types.ModuleType:
            return (value.__name__,)
        if isinstance(value, type):
            return self.cls(value)
        named = _named(value)
        if named is not None:
            return named
        wrapped = getattr(value, "__wrapped__", None)
        if isinstance(wrapped, types.FunctionType):  # by pk.function, numba, functools.cache
            return self.names_of((getattr(value, "options", None), wrapped))
        return self.reduced(value)

    def function(self, fn: types.FunctionType) -> Iterable[str]:
        """Return the parts of a function written in Python."""
        named = _named(fn)
        if named is not None:
            return named
        code, namespace = fn.__code__, fn.__globals__
        has_docstring = isinstance(fn.__doc__, str) and code.co_consts[:1] == (fn.__doc__,)
        found = self.instructions(code, code.co_consts[has_docstring:])
        found += self.names_of((fn.__defaults__, fn.__kwdefaults__, fn.__closure__, vars(fn)))
        codes = list(_codes(code))
        read = {name for one in codes for name in one.co_names}
        for name in sorted({name for one in codes for name in _globals(one)}):
            if name in namespace:
                found += [name, self.name(namespace[name])]
                found += self.attributes(namespace[name], read, [])
        return found

    def instructions(self, code: types.CodeType, constants: tuple) -> list[str]:
        """Return the instructions of a code object, without its lines and file."""
        names = code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars
        counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags & _KINDS
        return [
            code.co_code.hex(),
            code.co_exceptiontable.hex(),
            repr((names, counts)),
            *self.names_of(constants),
        ]

    def attributes(self, value: object, read: set[str], above: list[object]) -> list[str]:
        """Return the names of the attributes that a function may read of a module, and of modules in it."""
        if type(value) is not types.ModuleType or value in above or _library(value.__name__) is not None:
            return []
        found = []
        for name in sorted(read & vars(value).keys()):
            found += [name, self.name(vars(value)[name])]
            found += self.attributes(vars(value)[name], read, [*above, value])
        return found

    def cls(self, cls: type) -> Iterable[str]:
        """Return the parts of a class: bases, methods and other attributes, except those that Python
        creates."""
        named = _named(cls)
        if named is not None:
            return named
        own = {
            name: item
            for name, item in vars(cls).items()
            if isinstance(item, (types.FunctionType, *_WRAPPING))
            or not name.startswith(("__", "_abc_"))
            and not isinstance(item, _DESCRIPTORS)
        }
        return [cls.__qualname__, *self.names_of((cls.__bases__, type(cls), own))]

    def reduced(self, value: object) -> Iterable[str]:
        """Return the parts of any other object, by `pickle`."""
        try:
            take = copyreg.dispatch_table.get(type(value))
            taken = take(value) if take else value.__reduce_ex__(4)
        except Exception as error:  # noqa: BLE001  (objects raise as they like)
            raise Unnamed(f"a {type(value).__module__}.{type(value).__qualname__}") from error
        if isinstance(taken, str):
            return type(value).__module__, taken
        make, args, state, items, pairs, *_ = (*taken, None, None, None)
        if type(state) is dict:  # without the cached values of properties
            state = {name: item for name, item in state.items() if not _is_kept(type(value), name)}
        return self.names_of(
            (
                make,
                args,
                state,
                None if items is None else list(items),
                None if pairs is None else dict(pairs),
            )
        )


def _is_kept(kind: type, name: str) -> bool:
    """Return True if a class computes an attribute when it is first read."""
    return isinstance(inspect.getattr_static(kind, str(name), None), functools.cached_property)


def _is_full(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return False
    return True


def _codes(code: types.CodeType) -> Iterable[types.CodeType]:
    """Yield a code object and those nested in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _globals(code: types.CodeType) -> set[str]:
    return {step.argval for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")}


def _named(value: Any) -> tuple[str, ...] | None:
    """Return the name of a function or class of a library; None if its code must be compared."""
    module, path = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(path, str):
        return None
    version = "" if isinstance(value, type) and _is_ours(module) else _library(module)
    if version is None:
        return None
    found: object = sys.modules.get(module)
    for name in path.split("."):
        found = getattr(found, name, None)
    # by the names of earlier releases, so that their checkpoints remain valid
    module = (
        module.replace("portable.models.shared.", "models.").removeprefix("portable.")
        if _is_ours(module)
        else module
    )
    return (f"{module}:{path} {version}",) if found is value else None


def _is_ours(module: str) -> bool:
    return module.startswith(("portable.models.", "portable.roofline."))


def _library(module: str) -> str | None:
    """Return the version of the library of a module, "" for Python's own; None for a program's module."""
    top = module.partition(".")[0]
    if _is_ours(module):
        return None
    if top in sys.stdlib_module_names or top in _NAMED_ONLY:
        return ""
    package = sys.modules.get(top)
    at, version = getattr(package, "__file__", None) or "", getattr(package, "__version__", None)
    return str(version) if version is not None and at.startswith(_SITES) else None
