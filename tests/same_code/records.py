"""Pickle kernels by their source, so that another revision of the project can read them.

A kernel, or a user's function, is stored as its lines and the values of the names in it, so that the other
revision compiles the same source. The layer's words (`portable.core.language.words.exp`,
`portable.core.language.reducer.Sum`) are stored by name: each side uses its version.
"""

import ast
import importlib
import inspect
import io
import linecache
import marshal
import pickle
import sys
import textwrap
import types
import zlib
from pathlib import Path

import portable as pk

Kernel, Function = pk.Kernel, pk.Function

_KEPT = Kernel, Function, types.FunctionType, types.ModuleType
HERE = Path(__file__).resolve().parents[2]
_OPTIONS = {Kernel: ("fastmath", "packed", "teams"), Function: ("chain",)}


class Pickler(pickle.Pickler):
    """Write kernels, functions and modules in a separate form, each object once."""

    def reducer_override(self, value):
        if isinstance(value, _KEPT) and getattr(value, "__module__", None) != __name__:
            return _named(value) or _described(value)
        return NotImplemented


def dumps(value):
    """Return the bytes of a value, for `pickle.loads`."""
    file = io.BytesIO()
    Pickler(file, protocol=5).dump(value)
    return file.getvalue()


def _named(value):
    """Return the module and name of the layer's word, or of a function of another package; None for all
    others."""
    if isinstance(value, types.ModuleType):
        return _found, (value.__name__, None)
    fn = getattr(value, "fn", value)
    module = sys.modules.get(fn.__module__)
    if _of_the_layer(fn.__module__ or ""):  # source run by exec has no module
        if not isinstance(value, Kernel):
            for place in ("portable", fn.__module__, *[m for m in list(sys.modules) if _of_the_layer(m)]):
                for name, v in vars(sys.modules[place]).items():
                    if v is value:
                        return _found, (place, name)
    elif value is fn and getattr(module, fn.__qualname__, None) is value and not _ours(module):
        return _found, (fn.__module__, fn.__qualname__)
    return None


def _ours(module):
    """Return True for a module of this checkout: another revision may lack it, or have a different
    version."""
    file = Path(getattr(module, "__file__", None) or "/").resolve()
    return HERE in file.parents and "site-packages" not in file.parts


def _described(value):
    if isinstance(value, types.FunctionType):
        code, cells = value.__code__, [c.cell_contents for c in value.__closure__ or ()]
        return _plain, (marshal.dumps(code), value.__module__, _scope(value), cells, value.__defaults__)
    fn = value.fn
    lines = textwrap.dedent("".join(inspect.getsourcelines(fn)[0])).splitlines(keepends=True)
    lines = lines[ast.parse("".join(lines)).body[0].lineno - 1 :]  # without decorators
    options = {name: getattr(value, name) for name in _OPTIONS[type(value)]}
    scope = {name: v for name, v in _scope(fn).items() if v is not value}
    return _from_text, (type(value).__name__.lower(), lines, fn.__module__, fn.__qualname__, scope, options)


def _scope(fn):
    """Return the values of names outside a function, except Python's builtins."""
    cells, found = dict(zip(fn.__code__.co_freevars, fn.__closure__ or ())), {}
    codes = [fn.__code__]
    for code in codes:
        codes += [c for c in code.co_consts if isinstance(c, types.CodeType)]
        for name in (*code.co_names, *code.co_freevars):
            if name in cells:
                found[name] = cells[name].cell_contents
            elif name in fn.__globals__:
                found[name] = fn.__globals__[name]
    return found


def _of_the_layer(module):
    return module.partition(".")[0] == "portable" and module.split(".")[1:2] not in (["models"], ["roofline"])


def _found(module, name):
    for place in (module, *_elsewhere(module)):
        try:
            found = importlib.import_module(place)
            return found if name is None else getattr(found, name)
        except (ModuleNotFoundError, AttributeError):
            pass
    raise ImportError(f"{module} {name or ''} is not on this side")


def _elsewhere(module):
    """Return the module's place in a revision in which files were in other folders, or had other names."""
    if _of_the_layer(module):
        leaf = module.rpartition(".")[2]
        for folder in Path(pk.__file__).parent.rglob(f"{leaf}.py"):
            yield ".".join(("portable", *folder.relative_to(Path(pk.__file__).parent).with_suffix("").parts))


def _plain(code, module, scope, cells, defaults):
    cells = tuple(map(types.CellType, cells))
    return types.FunctionType(marshal.loads(code), {"__name__": module, **scope}, None, defaults, cells)


def _from_text(decorator, lines, module, qualname, scope, options):
    file = f"<{module}.{qualname} {zlib.crc32(''.join(lines).encode()):08x}>"  # the same on both sides
    linecache.cache[file] = sum(map(len, lines)), None, lines, file
    namespace = {"__name__": module, **scope}
    exec(compile("".join(lines), file, "exec"), namespace)  # noqa: S102 (the text of a kernel)
    fn = namespace[qualname.rpartition(".")[2]]
    fn.__qualname__ = qualname
    return getattr(pk, decorator)(**options)(fn)
