"""Launches: parallel_for, parallel_reduce, parallel_scan, fence.

A repeated combination of kernel, space and argument types finds its compiled code under a key of cheap
objects and does nothing else in Python than build the argument block; checks and compilation happen at the
first launch.
"""

from __future__ import annotations

import ast
import dataclasses
from functools import lru_cache, partial
import math
import struct
import warnings
from typing import Any, NamedTuple, TypeAlias, Union, overload

import numpy as np

from .. import events, locks, registry
from ..language.annotations import Arguments, Out, Policy, Result
from ..language.types import COMPLEX, HELD, WORDS, Known, loaded_dtype, named
from ...errors import (
    DTypeError,
    InputError,
    LanguageError,
    PortableError,
    ReadOnlyError,
    ShapeError,
    WrongSpaceError,
)
from ..language.frontend import by_users_names, is_own, only_added, writes
from ..language.kernel import AnyKernel, Function, Kernel
from ..places.policy import KINDS, WITH_PREFIXES, MDRangePolicy, RangePolicy, as_policy, kind_of, n_indices
from ..language.reducer import Reducer, Reducers, Sum
from ..arrays.host_arrays import describe_lent
from ..arrays.scatter import ScatterView, viewed
from ..places.space import HOST, Space, default_space, require
from ..arrays.view import Spec, View, asview, describe, describe_adopted, producer_of
from ..language.words import row_of_word, static
from .two_codes import TwoCodes, have_two_codes
from .launching import launching

compiling, _hooks = locks.compiling, events.current
_PLAIN = None if events.NONE.debug else events.NONE  # hooks with which a launch is bound and run, and no more
_PACK = {name: struct.Struct(f"={word}").pack for name, word in WORDS.items()}
_pack_int, _pack_float, _pack_float32 = (_PACK[name] for name in ("int64", "float64", "float32"))
_NUMBER = {name: Spec(("number", name)) for name in ("int", "float", *_PACK)}  # weak ones first
_INT, _FLOAT = _NUMBER["int"], _NUMBER["float"]
_SCALARS = {name: (_NUMBER[loaded_dtype(name)], _PACK[loaded_dtype(name)]) for name in (*_PACK, *HELD)}
_MOST_STATICS = 1024
_MOST_LEVELS = 50  # largest depth of nested tuples and records
_statics = {}  # the last constants by type and repr, one object each: a NaN equals itself only as an object
_policy, _space = lru_cache(maxsize=1024)(as_policy), lru_cache(maxsize=64)(require)
_REFUSED = InputError, struct.error
Names: TypeAlias = Union[str, tuple[str, ...]]
_BoxKernel: TypeAlias = Kernel[Any, Any, *tuple[Any, ...]]


def _describe(args, before=(), level=0):
    """Describe arguments, or the parts of one at some `level`, as (specs, words, weak), with the specs in
    `before` first. `weak` lists the words that are still to be packed: weak floats, and (words, weak) of
    records with one.
    """
    specs, words, weak = [*before], [], []
    for a in args:
        kind = type(a)
        if kind is View:
            specs.append(a.spec)
            words.append(a.words)
        elif kind is float:
            weak.append(len(words))
            specs.append(_FLOAT)
            words.append(a)
        elif kind is int:
            specs.append(_INT)
            words.append(_pack_int(a))
        else:
            spec, w = (_of_type.get(kind) or _describer(a, kind))(a, level)
            if w.__class__ is tuple:
                weak.append(len(words))
            specs.append(spec)
            words.append(w)
    return tuple(specs), words, weak


def described(args):
    """Return the compiler's description of arguments."""
    return _describe(args)[0]


def _describe_static(a, level):
    value = a.value
    key = type(value), repr(value)  # which distinguish 4, 4.0 and True, and 0.0 and -0.0
    if key not in _statics:
        if len(_statics) >= _MOST_STATICS:
            _statics.clear()
        _statics[key] = Spec(("static", value, key[1]))
    return _statics[key], b""


@lru_cache(_MOST_STATICS)
def _known_spec(value):
    return Spec(("known", Known(value)))


def _describe_known(a, level):
    """Return the spec of an argument without run-time value; DTypeError if the object is no argument."""
    if a is None or type(a) is Reducer or callable(a) and (row_of_word(a) or hasattr(a, "py_func")):
        return _known_spec(a), b""
    if callable(a) and hasattr(a, "__code__"):
        raise DTypeError(f"{a.__name__!r} is a plain function; mark it with @pk.function")
    raise DTypeError(
        f"{a!r:.60} of type {type(a).__name__} is not a kernel argument; expected a view, an array, a number,"
        " pk.static(number), a @pk.function, a tuple, NamedTuple or dataclass of these"
    )


def _describe_foreign(adopt, a, level):
    """Return the spec and words of an array of a library that has some on a GPU."""
    if (adopted := adopt(a)) is None:
        return describe_lent(a)
    return describe_adopted(*adopted) or asview(a).key  # the view's error is more specific


def _describe_record(a, level):
    if level == _MOST_LEVELS:
        raise DTypeError(f"it nests records or tuples to more than {level} levels, or itself; flatten it")
    names, parts = parts_of(a)
    specs, words, weak = _describe(parts, (), level + 1)
    return ("tuple", specs, names), (words, weak) if weak else b"".join(words)


# function that describes an argument at a level, by its type: added at the first argument of a type
_of_type: dict[type, Any] = {
    np.ndarray: lambda a, level: describe(a),
    bool: lambda a, level: (_NUMBER["bool"], _pack_int(a)),
    static: _describe_static,
    ScatterView: lambda a, level: (("scatter", a.view.spec), a.view.words),
    **dict.fromkeys((Function, Kernel), lambda a, level: (a.spec, b"")),
    **dict.fromkeys((Reducer, type(None)), _describe_known),
}


def _describer(a, kind):
    """Return the function that describes arguments of a new type."""
    if isinstance(a, np.generic) and a.dtype.name in _SCALARS:
        spec, pack = _SCALARS[a.dtype.name]
        found = lambda a, level: (spec, pack(a))  # noqa: E731
    elif isinstance(a, Function):
        found = _of_type[Function]
    elif is_record(a):
        found = _describe_record
    elif isinstance(a, np.ndarray):  # masked arrays are refused by `describe`
        found = lambda a, level: describe(a if hasattr(a, "filled") else a.view(np.ndarray))  # noqa: E731
    elif hasattr(a, "__cuda_array_interface__"):
        found = partial(_describe_foreign, registry.first("adopt", a)[0])
    elif any(hasattr(kind, name) for name in ("__dlpack__", "__array_interface__", "__array__")):
        found = lambda a, level: describe_lent(a)  # noqa: E731
    else:
        return _describe_known
    if len(_of_type) >= _MOST_STATICS:  # for programs that create many types
        _of_type.pop(next(reversed(_of_type)))
    return _of_type.setdefault(kind, found)


def is_record(a):
    """Return True if an argument has parts: a tuple, NamedTuple, dataclass or complex number."""
    plain = tuple, complex, np.complexfloating
    return isinstance(a, plain) or hasattr(a, "numbered") or dataclasses.is_dataclass(a.__class__)


def parts_of(a):
    """Return the field names of an object with parts, () for a plain tuple, and their values."""
    if hasattr(a, "numbered"):
        return a.numbered()
    if isinstance(a, tuple):
        return getattr(a, "_fields", ()), tuple(a)
    is_complex = isinstance(a, (complex, np.complexfloating))
    names = COMPLEX if is_complex else tuple(field.name for field in dataclasses.fields(a))
    return names, tuple(getattr(a, name) for name in names)


def _block(words, weak, pack_weak):
    """Return the argument block of a launch, or the part of it that is a record's."""
    for k in weak:
        word = words[k]
        words[k] = pack_weak(word) if word.__class__ is float else _block(*word, pack_weak)
    return b"".join(words)


def _pack_single(number):
    try:
        return _pack_float32(number)
    except OverflowError:  # for a float beyond the range of float32, which struct does not round to infinity
        return _pack_float32(math.copysign(math.inf, number))


def _compiler_specs(specs, space, kernel, names):
    """Return the arguments' types for the compiler; raises WrongSpaceError for a view that the space
    cannot reach."""
    result = []
    for spec, name in zip(specs, names):
        if spec[0] == "tuple":
            parts = named(name, len(spec[1]), spec[2])
            result.append(("tuple", _compiler_specs(spec[1], space, kernel, parts), spec[2]))
            continue
        if spec[0] in ("number", "static", "known"):
            result.append(tuple(spec))
            continue
        what, spec = spec if spec[0] == "scatter" else ("view", spec)
        if spec[4] != space.memory:
            raise _wrong_space(kernel, name, spec[4], space)
        result.append((what, *spec[:4]))
    return tuple(result)


def _wrong_space(kernel, name, memory, space):
    how = (
        f"Copy it there once: device = pk.empty(x.shape, x.dtype, space='{space}'); pk.deep_copy(device, x)."
        if memory == HOST
        else f"Copy it with v.to_numpy(), or launch on '{memory}'."
    )
    what = "a NumPy array or host view" if memory == HOST else f"a view in memory '{memory}'"
    return WrongSpaceError(
        f"kernel '{kernel.name}' ({kernel.place}): argument '{name}' is {what}, "
        f"but the launch runs on '{space}'. {how}"
    )


def describe_launch(policy, kernel, args, reducer=(), scan=None):
    """Return a launch as tools see it, checked: (space, policy, backend, policy_kind, specs, reducers,
    words).

    `reducer`: one or a tuple, for a reduction; `scan`: "inclusive" or "exclusive", with `out` the last of
    `args`.
    """
    reducers, scan = _as_tuple(reducer), scan and f"scan {scan}"
    if scan:
        _check_scan(as_policy(policy), reducers, args and args[-1])
    elif reducers:
        check_reducers(policy, reducers)
    space, policy, backend, _, words = bound(policy, kernel, args, reducers, scan, compiles=False)
    policy_kind = kind_of(policy)
    return (
        space,
        policy,
        backend,
        scan or policy_kind,
        compiler_specs(args, space, kernel, policy_kind, reducers),
        reducers,
        words,
    )


def compiler_specs(args, space, kernel, policy_kind, reducers=()):
    """Return the types of a launch's arguments for the compiler."""
    specs, words, _ = _describe(_completed(kernel, policy_kind, args))
    names = [*kernel.portable_text.params[n_indices(policy_kind) :], "out"]
    wanted = _compiler_specs(specs, space, kernel, names)
    if not _two_codes(space, registry.launches(space.name), wanted):
        return wanted
    return TwoCodes(wanted, _added(kernel, names, policy_kind, reducers)).specs_for(words)


def _added(kernel, names, policy_kind, reducers):
    """Return for each argument True if a launch may treat it as a ScatterView."""
    added = only_added(kernel) if policy_kind == "range" and not reducers else ()
    return [name in added for name in names]


def _two_codes(space, backend, specs):
    """Return True if a launch chooses between two codes."""
    return backend.apart and not space.debug and have_two_codes(specs)


class Launch(NamedTuple):
    """One launch, as listeners receive it (events.py)."""

    policy: object
    kernel: Kernel
    args: tuple
    space: Space
    label: str
    reducers: tuple = ()
    # "scan inclusive" or "scan exclusive", whose last argument receives the prefixes, or "scan total"
    scan: str | None = None
    outs: tuple = ()  # one-element views for the results; () if they are returned

    @property
    def pattern(self) -> str:
        return "scan" if self.scan else "reduce" if self.reducers else "for"


@lru_cache(maxsize=1024)
def _debugging(policy, space, debug):
    """Return a policy on the space's debug build, and that space."""
    space = dataclasses.replace(space, debug=space.debug or debug)
    return dataclasses.replace(policy, space=space), space


def _make_policy(policy):
    """Return the policy that an integer or another object represents; those of integers are cached."""
    return _policy(policy) if type(policy) is int else as_policy(policy)


def no_kernel(fn):
    """Return the error for a launch of an object that is no kernel."""
    return LanguageError(
        f"'{getattr(fn, '__name__', repr(fn))}' of type {type(fn).__name__} cannot be launched;"
        " expected a policy, then a @pk.kernel"
    )


def named_arguments():
    """Return the module for arguments by name and for defaults, which most launches do not need."""
    return registry.part("given arguments")


def _completed(kernel, kind, args):
    """Return arguments with the defaults of the missing ones appended."""
    return (*args, *named_arguments().absent(kernel, kind, len(args))) if kernel.fn.__defaults__ else args


def bind(policy, kernel, args, reducers, scan=None, debug=False, compiles=True):
    """Return the parts of a launch: (space, policy, the space's launcher, compiled code, argument block or
    arguments).

    Arguments of new types are checked and compiled for; with `compiles=False` only checked. `debug`: the
    build for a space that specifies none.
    """
    if type(kernel) is not Kernel:
        raise no_kernel(kernel)
    if type(policy) not in KINDS:
        policy = _make_policy(policy)
    kind = KINDS[type(policy)]
    if kind == "box":
        kind = kind_of(policy)
    space = policy.space
    if type(space) is not Space:
        space = default_space() if space is None else _space(space)
    if debug:
        policy, space = _debugging(policy, space, debug)
    before = scan or kind, reducers, space.name, space.device, space.debug
    try:
        key, words, weak = _describe(args, before)
    except _REFUSED as error:
        raise _named(error, kernel, args, policy) from error
    backend, code, pack_weak = kernel.compiled.get(key) or _first(
        args, scan or kind, reducers, space, kernel, key[len(before) :], compiles and key, words
    )
    if pack_weak is None:
        block = _completed(kernel, scan or kind, args)
    else:
        block = _block(words, weak, pack_weak) if weak else b"".join(words)
    return space, policy, backend, code(words), block


def bound(policy, kernel, args, reducers, scan=None, compiles=True):
    """Return the result of `bind`, or of the function that replaces it in this context."""
    hooks = _hooks()
    return (hooks.redirect or partial(bind, compiles=compiles))(
        policy, kernel, args, reducers, scan, hooks.debug
    )


def _first(args, *launch):
    """Call `_prepare`; the error of a write to a read-only array names the libraries that forbid it."""
    try:
        return _prepare(*launch)
    except ReadOnlyError as error:
        raise _with_producers(error, args) from error


@locks.compile_alone
def _prepare(policy_kind, reducers, space, kernel, specs, key, words):
    """Check and compile for new argument types, and store the code under `key`; without a key only check."""
    names, first = list(kernel.params), n_indices(policy_kind)
    if policy_kind in WITH_PREFIXES:
        names.append("out")
    if len(specs) != len(names) - first:
        specs += described(named_arguments().absent(kernel, policy_kind, len(specs)))
    wanted = _compiler_specs(specs, space, kernel, names[first:])
    backend = registry.launches(space.name)
    code = _code_of(space, backend, kernel, policy_kind, names[first:], wanted, reducers) if key else _no_code
    code(words)
    # if the source was not read, the code was found on disk, where only that of accepted ones is
    if key and not reducers and "portable_text" in vars(kernel):
        refuse_results(kernel)
    pack_weak = None if backend.interprets else _own_float(wanted)
    if key:
        kernel.compiled[key] = backend, code, pack_weak
    return backend, code, pack_weak


def _own_float(wanted):
    """Return the function that packs weak floats that accompany arguments of these specs."""
    floats = {"float32", "float64"} & {loaded_dtype(s[1]) for s in _views(wanted)}
    return _pack_single if floats == {"float32"} else _pack_float


def numbers_of(launch, space):
    """Return ({parameter: (its byte in the argument block, the function that packs it)} of a launch's
    numbers, the block).
    """
    (specs, words, weak), kind = _describe(launch.args), kind_of(launch.policy)
    own = _own_float(compiler_specs(launch.args, space, launch.kernel, kind, launch.reducers))
    block, found, place = _block(words, weak, own), {}, 0
    for name, spec, word in zip(launch.kernel.params[n_indices(kind) :], specs, words):
        if spec[0] == "number":
            found[name] = place, own if spec is _FLOAT else _PACK["int64" if spec is _INT else spec[1]]
        place += len(word)
    return found, block


def _code_of(space, backend, kernel, policy_kind, names, wanted, reducers):
    """Return a function that returns the code of a launch, given the words of its arguments."""

    def prepare(specs):
        return backend.prepare(space, kernel, policy_kind, specs, reducers)

    if _two_codes(space, backend, wanted):
        return TwoCodes(wanted, _added(kernel, names, policy_kind, reducers), prepare).code
    compiled = prepare(wanted)
    return lambda words: compiled


def _no_code(words):
    """Return no code, for launches that are only described."""


def refuse_results(kernel):
    """Raise LanguageError for a kernel that only returns a value, which parallel_for would discard; warn for
    a user's kernel that also writes.
    """
    lost = kernel.portable_text.returns_something
    if lost is None:
        return
    message = (
        f"kernel '{kernel.name}' ({kernel.portable_text.place_of(lost)}): parallel_for drops what"
        f" `{by_users_names(ast.unparse(lost))}` gives; store it in an element of an array, or launch with"
        " pk.parallel_reduce or pk.parallel_scan"
    )
    if not writes(kernel.portable_text):
        raise LanguageError(message)
    if not is_own(kernel.fn):
        warnings.warn(message, RuntimeWarning, stacklevel=2)


def _launch(policy, kernel, args, label, reducers=(), scan=None, outs=()):
    """Run a launch, or record it where a capture is open; return the results of reducers, or None if `outs`
    takes them."""
    hooks = _hooks()
    if hooks is _PLAIN and not outs:  # most launches are these
        return _run(bind(policy, kernel, args, reducers, scan), reducers, scan)
    found = bound(policy, kernel, args, reducers, scan)
    if outs:
        outs = tuple(_checked_out(out, found[0]) for out in outs)
    if hooks.recording is None and not hooks.listeners:
        return _run(found, reducers, scan, outs)
    launch = Launch(found[1], kernel, args, found[0], label or kernel.name, reducers, scan, outs)
    if hooks.recording is not None:
        if reducers and not outs:
            events.refuse_while_recording(
                f"'{launch.label}', which returns a number (give it a view, {'total' if scan else 'out'}=),"
            )
        hooks.recording.record(launch, found)
        return None
    with events.kernel(launch):
        return _run(found, reducers, scan, outs)


def _short_traceback(*launch):
    """Call `_launch`, with tracebacks reduced to the user's line."""
    try:
        return _launch(*launch)
    except PortableError as error:
        raise error.with_traceback(None)  # noqa: B904  (the same)


def repeat(launch, found):
    """Run a recorded launch without calling listeners."""
    return _run(found, launch.reducers, launch.scan, launch.outs)


def repeated_launch(launch, found):
    """Return a function that repeats a launch that `bind` prepared, with as little remaining work as
    possible.
    """
    space, _, backend, *_ = found
    return backend.sequence(space, [(found, launch)]) or partial(repeat, launch, found)


def _run(found, reducers=(), scan=None, outs=()):
    space, policy, backend, compiled, words = found
    try:
        if not reducers:
            return backend.run_for(space, compiled, policy, words)
        return backend.run("scan" if scan else "reduce", space, compiled, policy, words, outs)
    except BaseException as error:
        raise interrupted(error)  # noqa: B904  (the same)


def interrupted(error):
    """Return an error that was raised within a launch, with a note on half-written arrays if it is a
    KeyboardInterrupt.
    """
    for forget in locks.ending:
        forget()
    if isinstance(error, KeyboardInterrupt):
        error.add_note("Ctrl-C stopped a launch: the arrays that it writes may be half written")
    return error


def _checked_out(out, space):
    """Check a view that receives a number; its dtype is checked when that of the result is known."""
    view = viewed(out)
    if type(view) is not View:
        raise InputError(f"out is {out!r:.60}; expected a view of one element")
    if view.size != 1:
        raise ShapeError(f"out: expected a view of one element, got shape {view.shape}")
    if view.readonly:
        raise InputError("out is read-only; expected a writable view")
    if view.memory != space.memory:
        raise WrongSpaceError(
            f"out is in memory '{view.memory}', but the launch runs on '{space}', whose memory is "
            f"'{space.memory}'; take the returned number, or pk.empty(1, space='{space}')"
        )
    return view


def _views(specs):
    for s in specs:
        if s[0] in ("view", "scatter"):
            yield s
        elif s[0] == "tuple":
            yield from _views(s[1])


def _named(error, kernel, args, policy):
    """Return the error of an argument, with the kernel and the parameter named."""
    for name, a in zip(kernel.portable_text.params[n_indices(kind_of(policy)) :], args):
        where = f"kernel '{kernel.name}' ({kernel.place}): argument '{name}'"
        try:
            _describe((a,))
        except struct.error:
            return DTypeError(f"{where} is {a}, beyond int64; pass a float")
        except InputError as own:
            return type(own)(f"{where}: {own}")
    return error


def _with_producers(error, args):
    """Return the error of a write to a read-only view, with the foreign arrays among the arguments that
    forbid it."""
    names = {
        producer_of(a) if a.__class__ is View else type(a).__name__
        for a in args
        if getattr(a, "readonly", hasattr(a, "to_numpy"))
    } - {None}
    why = f" ({', '.join(sorted(names))} forbids writing to its memory: pk.copy_of(...) makes a copy)"
    return ReadOnlyError(f"{error}{why * bool(names)}")


@launching
def parallel_for(policy: Any, kernel: Any, *args: Any, label: str | None = None, **named: Any) -> None:
    """Run a kernel at every index of a policy.

    Parameters
    ----------
    policy : int, RangePolicy, MDRangePolicy or TeamPolicy
        An integer n means the indices 0..n-1 on the default space.
    kernel : function marked with @pk.kernel
        Called with the index (or the team) and `args`.
    *args, **named : views, NumPy arrays (host spaces), numbers, pk.static(number), functions, None, tuples
        A NamedTuple or dataclass of these is a tuple whose fields keep their names in the kernel:
        `state.x[i]`. Arguments may be passed by name; those with a default may be omitted.
    label : str, optional
        Name in profiles; the kernel's own if not given.

    Raises
    ------
    InputError, SpaceError, KernelError
        Raised before any execution; the message names kernel, file, line and argument.

    Examples
    --------
    >>> @pk.kernel
    ... def add(i, a, x):
    ...     x[i] += a
    >>> x = np.zeros((4,))
    >>> pk.parallel_for(pk.RangePolicy(1, 3, space="serial"), add, 1.0, x)
    >>> x.tolist()
    [0.0, 1.0, 1.0, 0.0]
    """
    if named or kernel.__class__ is not Kernel:
        kernel, args = named_arguments().arranged(policy, kernel, args, named)
    try:
        _launch(policy, kernel, args, label)
    except PortableError as error:
        raise error.with_traceback(None)  # noqa: B904  (the user's line and the message)


def check_reducers(policy, reducers, several=False):
    """Return True if contributions are combined in the order of indices; refuse arguments that are no
    reducers."""
    if not reducers:
        raise InputError("reducer is an empty tuple; expected at least one reducer")
    for r in reducers:
        if not isinstance(r, Reducer):
            raise DTypeError(f"reducer must be pk.Sum, pk.Min, ... or a pk.Reducer, got {r!r}")
    ordered = not all(r.commutes for r in reducers)
    if ordered and (several or as_policy(policy).__class__ is not RangePolicy):
        raise InputError(
            f"reducer: {reducers if several else reducers[0]!r} does not commute; expected one reducer and a"
            " RangePolicy or an integer"
        )
    return ordered


@overload
def parallel_reduce(
    policy: Policy,
    kernel: Kernel[Result, *Arguments],
    *args: *Arguments,
    out: None = None,
    label: str | None = None,
) -> Result: ...
@overload
def parallel_reduce(
    policy: Policy,
    kernel: Kernel[Any, *Arguments],
    *args: *Arguments,
    reducer: Reducer,
    out: None = None,
    label: str | None = None,
) -> Any: ...
@overload
def parallel_reduce(
    policy: Policy,
    kernel: Kernel[Any, *Arguments],
    *args: *Arguments,
    reducer: tuple[Reducer, ...],
    out: None = None,
    label: str | None = None,
) -> tuple[Any, ...]: ...
@overload
def parallel_reduce(
    policy: Policy,
    kernel: Kernel[Any, *Arguments],
    *args: *Arguments,
    reducer: Reducers = ...,
    out: Out,
    label: str | None = None,
) -> None: ...
@overload
def parallel_reduce(
    policy: MDRangePolicy,
    kernel: Kernel[Result, Any, *tuple[Any, ...]],
    *args: Any,
    out: None = None,
    label: str | None = None,
) -> Result: ...
@overload
def parallel_reduce(
    policy: MDRangePolicy,
    kernel: _BoxKernel,
    *args: Any,
    reducer: Reducers = ...,
    out: Out | None = None,
    label: str | None = None,
) -> Any: ...
@overload
def parallel_reduce(
    policy: Any,
    kernel: AnyKernel,
    *args: Any,
    out: Out | None = None,
    label: str | None = None,
    gradient: Names,
) -> tuple[float, Any]: ...
@overload
def parallel_reduce(
    policy: Any,
    kernel: AnyKernel,
    *args: Any,
    out: Out | None = None,
    label: str | None = None,
    hessian: Names,
) -> tuple[float, np.ndarray, np.ndarray]: ...
def parallel_reduce(
    policy: Any,
    kernel: Any,
    *args: Any,
    reducer: Reducers = Sum,
    out: Out | None = None,
    label: str | None = None,
    gradient: Names | None = None,
    hessian: Names | None = None,
    **named: Any,
) -> Any:
    """Combine the values that a kernel returns at the indices of a policy.

    Parameters
    ----------
    policy, kernel, *args, label : as in parallel_for; the kernel returns its contribution
    reducer : Reducer or tuple of Reducers
        Sum if not given. With a tuple the kernel returns as many contributions. MinLoc and MaxLoc add the
        policy's index (the league rank of a team): ties go to the lowest, NaN wins as in NumPy. A reducer
        that does not commute must be the only one, and requires a range.
    out : one-element view or tuple of them, one a number of the result, optional
        Receives the result, in the result's dtype, without waiting for it; a view in the memory of the
        launch's space.
    gradient : str or tuple of str, optional
        Names of arguments that are floats, "h", or of fields of records, "p.omega", or "p" for all of them.
        The result is then (value, array of derivatives); the reducer is Sum, Max or Min. `out` takes one view
        a number. For a tuple that includes arrays the result is (value, tuple with an array a name), for the
        name of one array (value, array).
    hessian : so, for (value, array of derivatives, array of second derivatives)

    Returns
    -------
    number, tuple (value, index) for MinLoc and MaxLoc, or a tuple of such results; None with `out`
        Floats keep the dtype that the kernel returns, integers are summed in 64 bits. The bits do not depend
        on the number of threads. The result of an empty policy is the reducer's identity. An index of a box
        is a tuple; in `out` it is one number, counted row by row.

    Raises
    ------
    DTypeError, InputError
        `reducer` is no reducer, or does not commute where that is required; any argument that `parallel_for`
        refuses.

    Examples
    --------
    >>> @pk.kernel
    ... def value(i, x):
    ...     return x[i]
    >>> x = np.array([3.0, 1.0, 2.0])
    >>> float(pk.parallel_reduce(3, value, x)), float(pk.parallel_reduce(3, value, x, reducer=pk.Min))
    (6.0, 1.0)
    """
    derived = gradient is not None or hessian is not None
    if named or derived or kernel.__class__ is not Kernel:
        kernel, args = named_arguments().arranged(policy, kernel, args, named)
    if derived:
        return registry.part("derivatives").reduced(
            policy, kernel, args, reducer, gradient, hessian, out, label
        )
    several = isinstance(reducer, tuple)
    reducers = reducer if several else (reducer,)
    ordered = check_reducers(policy, reducers, several)
    results = _short_traceback(
        policy, kernel, args, label, reducers, "scan total" if ordered else None, _as_tuple(out)
    )
    if out is not None:
        return None
    if policy.__class__ is MDRangePolicy:
        results = tuple(
            _located(policy, result) if r.with_index else result for r, result in zip(reducers, results)
        )
    return results if several else results[0]


def parallel_scan(
    policy: int | RangePolicy,
    kernel: Kernel[Any, *Arguments],
    *args: *Arguments,
    out: Out,
    reducer: Reducer = Sum,
    inclusive: bool = True,
    total: Out | None = None,
    label: str | None = None,
    **named: Any,
) -> Any:
    """Compute prefix sums of the values that a kernel returns, or prefixes under another reducer.

    Parameters
    ----------
    policy : int or RangePolicy
    kernel, *args, label : as in parallel_reduce; the kernel may run twice at an index, so it has no side
        effects
    out : one-dimensional view or NumPy array, or a tuple of them, one for each prefix
        out[i] receives the prefix at index i; it may be an array that the kernel reads at i only.
    reducer : Reducer
        Sum if not given; any associative reducer, commutative or not: contributions are combined in the order
        of indices. A prefix is the result of the reducer's `finish` for the state so far.
    inclusive : bool
        Whether out[i] includes the contribution of i itself. The first exclusive prefix is the reducer's
        identity.
    total : one-element view, optional
        Receives the total without waiting for it, as parallel_reduce's `out` does.

    Returns
    -------
    number
        The total; None with `total`. The bits do not depend on the number of threads.

    Raises
    ------
    DTypeError, ShapeError, InputError
        `reducer` is no reducer, the policy no range, `out` too short or read-only; any argument that
        `parallel_for` refuses.

    Examples
    --------
    >>> @pk.kernel
    ... def value(i, x):
    ...     return x[i]
    >>> x, sums = np.array([3.0, 1.0, 2.0]), np.zeros(3)
    >>> float(pk.parallel_scan(3, value, x, out=sums)), sums.tolist()
    (6.0, [3.0, 4.0, 6.0])
    """
    policy = as_policy(policy)
    _check_scan(policy, (reducer,), out)
    kernel, args = named_arguments().arranged(policy, kernel, args, named)
    kind = "scan inclusive" if inclusive else "scan exclusive"
    results = _short_traceback(policy, kernel, (*args, out), label, (reducer,), kind, _as_tuple(total))
    return results[0] if total is None else None


def _check_scan(policy, reducers, outs):
    """Refuse a scan whose prefixes have no place in `outs`, an array or a tuple of arrays."""
    check_reducers(policy, reducers)
    if policy.__class__ is not RangePolicy or policy.begin < 0:
        raise InputError(f"policy: scans run over a RangePolicy from 0 on or an integer, got {policy!r}")
    for array in _as_tuple(outs):
        array = array if isinstance(array, np.ndarray) else viewed(array)
        if not isinstance(array, (np.ndarray, View)) or array.ndim != 1 or array.size < policy.end:
            raise ShapeError(
                f"out: expected a one-dimensional array of at least {policy.end} elements, got"
                f" {getattr(array, 'shape', array)!r}"
            )
        if array.readonly if isinstance(array, View) else not array.flags.writeable:
            raise InputError("out is read-only; expected a writable array")


def _as_tuple(outs):
    return outs if isinstance(outs, tuple) else () if outs is None else (outs,)


def _located(policy, result):
    """Convert the last number of a result, a place in a box counted row by row, to a tuple of indices."""
    *others, place = result if isinstance(result, tuple) else (result,)
    if not 0 <= place < math.prod(policy.extents):  # no place: that of an empty box, for example
        return result
    place = tuple(int(low + k) for low, k in zip(policy.begin, np.unravel_index(place, policy.extents)))
    return (*others, place) if others else place
