"""Define @kernel and @function, which hold a plain Python function, its source, and the code compiled from
it."""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import importlib
import operator
import sys
import textwrap
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, overload

import numpy as np

from . import frontend
from .. import locks
from .annotations import Arguments, Result
from .types import Known
from ...errors import DTypeError, InputError

Parameters = ParamSpec("Parameters")


class _Kept(dict):
    """Cache of the most recent values, so that a program with many values of pk.static does not fill the
    memory."""

    most = 512  # two for each set of types

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        while len(self) > self.most:
            self.pop(next(iter(self)), None)


class _Written:
    """Kernel or function for every space. A direct call runs the plain Python function.

    `change` : a named tuple of plain values that derives another Text from the function's and runs it on the
        host; None for most functions
    """

    kind = "function"

    def __init__(self, fn, fastmath=False, packed=True, teams=1, chain=False, change=None, source=None):
        fn = getattr(fn, "py_func", fn)  # the source of a function that numba compiles, by the layer's rules
        place = frontend.check_function(fn, self.kind)
        if source is not None and not isinstance(source, str):
            raise DTypeError(
                f"{place}: source is {source!r:.60}; expected the text that it was compiled from"
            )
        self.fn, self.fastmath, self.packed, self.teams, self.chain = fn, fastmath, packed, teams, chain
        self.compiled = _Kept()  # results of a backend, by that backend's key
        functools.update_wrapper(self, fn)
        self.__doc__ = fn.__doc__ or f"Written in {fn.__module__}."  # else help() would describe the class
        self.change = change
        if change is None:
            frontend.keep(fn, source and source.splitlines(keepends=True))

    def __call__(self, *args):
        if self.change is not None:
            return self.change.run(self, args)
        with np.errstate(all="ignore"):  # integers wrap and floats follow IEEE silently, as in compiled code
            return self.fn(*args)

    def __repr__(self):
        return f"<portable {self.kind} {self.name}{inspect.signature(self.fn)}>"

    def __reduce__(self):
        """Pickle by name if the object can be imported, else (in scripts, notebooks and functions) by
        source."""
        module, fn = sys.modules.get(self.fn.__module__), self.fn
        if fn.__module__ != "__main__" and find_by_path(module, fn.__qualname__) is self:
            return fn.__qualname__
        lines, first = frontend.lines_of(fn)
        scope = {
            name: _Module(v.__name__) if isinstance(v, types.ModuleType) else v
            for name, v in frontend.scope_of(fn).items()
            if getattr(builtins, name, None) is not v and v is not self
        }
        return from_text, (
            type(self),
            fn.__name__,
            fn.__module__,
            fn.__code__.co_filename,
            lines,
            first,
            scope,
            self.options,
            fn.__defaults__,
        )

    @locks.lazy_attribute
    def spec(self):
        """Return the type of this function as an argument (compiler/reading/signature.py)."""
        return "known", Known(self)

    @property
    def name(self) -> str:
        """Name in the def line."""
        return self.fn.__name__

    @property
    def options(self) -> tuple[Any, ...]:
        """Arguments of the decorator (fastmath, packed, teams, chain), and `change`."""
        return self.fastmath, self.packed, self.teams, self.chain, self.change

    @property
    def params(self) -> tuple[str, ...]:
        """Names of the parameters, if they are valid for `portable_text`."""
        code = self.fn.__code__
        return code.co_varnames[: code.co_argcount]

    @property
    def place(self) -> str:
        """'file:line' of the def line."""
        return self.portable_text.place_of()

    @locks.lazy_attribute
    def portable_text(self):
        text = frontend.read(self.fn, self.kind)
        return text if self.change is None else self.change.text(text)


class _Module:
    """Module in a pickle, by its name."""

    def __init__(self, name):
        self.name = name

    def __reduce__(self):
        return importlib.import_module, (self.name,)


def find_by_path(module, path):
    """Return the object at a dotted name in a module, or None."""
    try:
        return operator.attrgetter(path)(module)
    except AttributeError:
        return None


def from_text(cls, name, module, file, lines, first, scope, options, defaults=None):
    """Return a kernel or function of another process, rebuilt from its source and the values of its outside
    names."""
    tree = ast.increment_lineno(ast.parse(textwrap.dedent("".join(lines))), first - 1)
    tree.body[0].decorator_list, tree.body[0].args.defaults = [], [ast.Constant(None) for _ in defaults or ()]
    namespace = {"__name__": module, **scope}
    exec(compile(tree, file, "exec"), namespace)  # noqa: S102  (the text of a kernel)
    namespace[name].__defaults__ = defaults
    made = cls(namespace[name], *options)
    frontend.keep(made.fn, [""] * (first - 1) + lines)
    return made


class Kernel(_Written, Generic[Result, *Arguments]):
    """Kernel that @kernel makes of a function; pass it to parallel_for, parallel_reduce or parallel_scan."""

    kind = "kernel"
    if TYPE_CHECKING:

        def __call__(self, index: Any, /, *args: *Arguments) -> Result: ...


AnyKernel = Kernel[Any, *tuple[Any, ...]]


class Function(_Written, Generic[Parameters, Result]):
    """Function that @function makes; kernels call it, and it is compiled into them."""

    if TYPE_CHECKING:

        def __call__(self, *args: Parameters.args, **options: Parameters.kwargs) -> Result: ...


@overload
def kernel(fn: Callable[[Any, *Arguments], Result], /) -> Kernel[Result, *Arguments]: ...
@overload
def kernel(
    fn: None = None,
    /,
    *,
    fastmath: bool = False,
    packed: bool | int = True,
    teams: int = 1,
    source: str | None = None,
) -> Callable[[Callable[[Any, *Arguments], Result]], Kernel[Result, *Arguments]]: ...
def kernel(
    fn: Any = None,
    /,
    *,
    fastmath: bool = False,
    packed: bool | int = True,
    teams: int = 1,
    source: str | None = None,
) -> Any:
    """Mark a plain Python function as a kernel.

    Its first parameter is the index (RangePolicy) or the team (TeamPolicy). The source is compiled at the
    first launch, which also fixes the values of globals and closures.

    Parameters
    ----------
    fn : function written with def
    fastmath : bool
        Allow reassociation and the device's fast float32 functions. Off by default: compensated sums must
        survive.
    packed : bool or int
        For comparison, how many indices (or members of a team) the CPU computes at a time: False for one, or
        2, 4, 8 or 16. A GPU ignores it.
    teams : int
        Least number of blocks per multiprocessor of a GPU (launch bounds): the compiler limits the registers
        of a thread accordingly.
    source : str, optional
        Source that the function was compiled from, if Python cannot find it: the argument of exec, or the
        whole file of a frozen program.

    Returns
    -------
    Kernel
        Called directly, it is the plain function.

    Raises
    ------
    LanguageError
        If `fn` is not a plain function written with def.
    InputError
        If `packed` is another value.

    Examples
    --------
    >>> @pk.kernel
    ... def add(i, a, x):
    ...     x[i] += a
    >>> x = np.zeros(3)
    >>> pk.parallel_for(3, add, 2.0, x)
    >>> x.tolist()
    [2.0, 2.0, 2.0]
    """
    if type(packed) is not bool and packed not in (2, 4, 8, 16):
        raise InputError(f"kernel: packed is {packed!r}; expected True, False, 2, 4, 8 or 16")
    if fn is None:
        return functools.partial(kernel, fastmath=fastmath, packed=packed, teams=teams, source=source)
    return Kernel(fn, fastmath, packed, teams, source=source)


@overload
def function(fn: Callable[Parameters, Result], /) -> Function[Parameters, Result]: ...
@overload
def function(
    fn: None = None, /, *, chain: bool = False, source: str | None = None
) -> Callable[[Callable[Parameters, Result]], Function[Parameters, Result]]: ...
def function(fn: Any = None, /, *, chain: bool = False, source: str | None = None) -> Any:
    """Mark a plain Python function as callable from kernels; it is compiled into each of them.

    Parameters
    ----------
    fn : function written with def
    chain : bool
        The function is one long dependency chain, bound by latency: on a CPU the compiler interleaves two
        packs (16 indices, or members of a team, at a time).
    source : str, optional
        See `kernel`.

    Returns
    -------
    Function
        Called directly, it is the plain function.

    Raises
    ------
    LanguageError
        Not a plain function written with def.

    Examples
    --------
    >>> @pk.function
    ... def square(x):
    ...     return x * x
    >>> @pk.kernel
    ... def squares(i, out):
    ...     out[i] = square(i)
    >>> out = np.zeros(4, np.int64)
    >>> pk.parallel_for(4, squares, out)
    >>> out.tolist()
    [0, 1, 4, 9]
    """
    made = functools.partial(Function, chain=chain, source=source)
    return made if fn is None else made(fn)
