"""Launches: parallel_for, parallel_reduce, fence."""

from __future__ import annotations

import struct
import threading

import numpy as np

from . import events
from .backends import registry
from .errors import DTypeError, LanguageError, NestedLaunchError, ShapeError, WrongSpaceError
from .kernel import Kernel
from .policy import RangePolicy, TeamPolicy, as_policy
from .reducer import Reducer, Sum
from .space import Space, default_space, require, resolve
from .view import View, describe
from .words import static

_PACK_INT, _PACK_FLOAT, _PACK_FLOAT32 = struct.Struct("=q").pack, struct.Struct("=d").pack, struct.Struct("=f4x").pack
_PACK_NUMPY = {"int32": struct.Struct("=i4x").pack, "uint32": struct.Struct("=I4x").pack, "int64": _PACK_INT,
               "uint64": struct.Struct("=Q").pack, "float32": _PACK_FLOAT32, "float64": _PACK_FLOAT, "bool": _PACK_INT}
_INT, _FLOAT, _BOOL = ("number", "int"), ("number", "float"), ("number", "bool")
_view_specs = {}  # a view's own spec -> (this module's spec, memory)
_lock = threading.RLock()
_running = threading.local()


def _describe(argument, name, memory):
    """(spec, bytes) of one argument; bytes None for a weak float, whose size is known only with all arguments."""
    kind = type(argument)
    if kind is float:
        return _FLOAT, None
    if kind is int:
        try:
            return _INT, _PACK_INT(argument)
        except struct.error:
            raise DTypeError(f"argument '{name}' is {argument}, beyond int64; pass np.uint64(...) or a float") from None
    if kind is View or kind is np.ndarray:
        spec, words = (argument.spec, argument.words) if kind is View else describe(argument)
        known = _view_specs.get(spec)
        if known is None:
            known = _view_specs[spec] = (("view", *spec[:4]), spec[4])
        if known[1] != memory:
            raise _wrong_space(argument, name, known[1], memory)
        return known[0], words
    if kind is bool:
        return _BOOL, _PACK_INT(argument)
    if kind is static:
        return ("static", argument.value), b""
    if isinstance(argument, np.generic) and argument.dtype.name in _PACK_NUMPY:
        return ("number", argument.dtype.name), _PACK_NUMPY[argument.dtype.name](argument.item())
    if isinstance(argument, tuple):
        parts = [_describe(a, f"{name}[{k}]", memory) for k, a in enumerate(argument)]
        return ("tuple", tuple(s for s, _ in parts)), [w for _, w in parts]
    if isinstance(argument, np.ndarray):
        return _describe(argument.view(np.ndarray), name, memory)
    raise DTypeError(f"argument '{name}' is {argument!r:.60} of type {kind.__name__}; a view, a NumPy array, a number, "
                     "pk.static(number) or a tuple of these is wanted (pk.asview takes arrays of other libraries)")


def _wrong_space(argument, name, have, want):
    what = "NumPy array" if isinstance(argument, np.ndarray) else "view"
    how = (f"Copy it once with pk.asview(...) and pk.deep_copy, or make it there: pk.create_mirror(pk.asview({name}), '{want}')"
           if have == "host" else f"Copy it with v.to_numpy() or pk.deep_copy, or launch on '{have}'")
    return WrongSpaceError(f"argument '{name}' is a {what} in memory '{have}', but the launch runs on '{want}'. {how}.")


def _arguments(kernel, args, memory):
    """(specs, argument block) of a launch."""
    specs, words, weak = [], [], False
    try:
        for k, a in enumerate(args):
            spec, w = _describe(a, k, memory)
            specs.append(spec)
            words.append(w)
            weak = weak or w is None or w.__class__ is list
    except (DTypeError, WrongSpaceError):  # say it again with the parameter's name
        names = kernel.portable_text.params[1:]
        for k, a in enumerate(args):
            try:
                _describe(a, names[k] if k < len(names) else k, memory)
            except (DTypeError, WrongSpaceError) as error:
                raise type(error)(f"kernel '{kernel.name}' ({kernel.place}): {error}") from None
        raise
    specs = tuple(specs)
    if weak:
        single = any(s[1] == "float32" for s in _views(specs)) and not any(s[1] == "float64" for s in _views(specs))
        words = list(_flat(words, args, _PACK_FLOAT32 if single else _PACK_FLOAT))
    return specs, b"".join(words)


def _views(specs):
    for s in specs:
        if s[0] == "view":
            yield s
        elif s[0] == "tuple":
            yield from _views(s[1])


def _flat(words, args, pack):
    for w, a in zip(words, args):
        if w is None:
            yield pack(a)
        elif w.__class__ is list:
            yield from _flat(w, a, pack)
        else:
            yield w


class _Launch:
    """A checked, compiled launch, ready to run."""

    __slots__ = ("space", "backend", "compiled", "policy", "words", "args", "kernel", "label")

    def __init__(self, policy, kernel, args, label, reducers=()):
        self.policy = policy = as_policy(policy)
        if kernel.__class__ is not Kernel:
            raise LanguageError(f"kernel must be a function marked with @pk.kernel, got {kernel!r} of type {type(kernel).__name__}")
        self.space = space = policy.space
        if space.__class__ is not Space:
            self.space = space = default_space() if space is None else require(resolve(space))
        self.kernel, self.args, self.label = kernel, args, label or kernel.name
        if len(args) != kernel.fn.__code__.co_argcount - 1:
            names = kernel.portable_text.params
            raise ShapeError(f"kernel '{kernel.name}' ({kernel.place}) takes {len(names) - 1} argument(s) after '{names[0]}' "
                             f"({', '.join(names[1:])}), but {len(args)} were given")
        kind = "range" if policy.__class__ is RangePolicy else "team"
        if space.name == "checked":
            self.compiled = self.backend = None
            _check_text(kernel, kind, _arguments(kernel, args, "host")[0], reducers)
            return
        self.backend = registry.backend(space.name)
        specs, self.words = _arguments(kernel, args, space.memory)
        self.compiled = self.backend.prepare(space, kernel, kind, specs, reducers)


def _check_text(kernel, kind, specs, reducers):
    """What other spaces refuse, plain Python refuses too: lower the text without compiling it."""
    key = ("checked", kind, specs, reducers)
    if key not in kernel.compiled:
        from .backends.cpu.lower import Entry

        kernel.compiled[key] = Entry(kernel, kind, specs, reducers) and True


def _alone(launch, run):
    """Run under the lock; a launch inside a launch on the same thread is refused."""
    if getattr(_running, "label", None):
        raise NestedLaunchError(f"'{launch.label}' was launched while '{_running.label}' runs on this thread")
    with _lock:
        _running.label = launch.label
        try:
            if events.listeners:
                with events.kernel(launch):
                    return run()
            return run()
        finally:
            _running.label = None


def parallel_for(policy, kernel, *args, label=None):
    """Run a kernel at every index of a policy.

    Parameters
    ----------
    policy : int, RangePolicy or TeamPolicy
        An integer n means the indices 0..n-1 on the default space.
    kernel : function marked with @pk.kernel
        Called with the index (or the team) and `args`.
    *args : views, NumPy arrays (host spaces), numbers, pk.static(number), tuples of these
    label : str, optional
        Name in profiles; the kernel's own if not given.

    Raises
    ------
    InputError, SpaceError, KernelError
        Before anything ran; the message names kernel, file, line and argument.
    """
    launch = _Launch(policy, kernel, args, label)
    if launch.compiled is None:
        from .backends.checked import interpreter

        _alone(launch, lambda: interpreter.run_for(launch.policy, kernel.fn, _plain(args)))
    else:
        _alone(launch, lambda: launch.backend.run_for(launch.space, launch.compiled, launch.policy, launch.words))


def parallel_reduce(policy, kernel, *args, reducer=Sum, out=None, label=None):
    """Combine what a kernel returns at every index.

    Parameters
    ----------
    policy, kernel, *args, label : as in parallel_for; the kernel returns its contribution
    reducer : Reducer or tuple of Reducers
        Sum if not given. With a tuple the kernel returns as many numbers. MinLoc and MaxLoc add the policy's index (the
        league rank of a team): ties go to the lowest, NaN wins as in NumPy.
    out : one-element view, or tuple of them, optional
        Receives the result instead of returning it.

    Returns
    -------
    number, (value, index) for MinLoc and MaxLoc, or a tuple of these; None with `out`
        Floats keep the dtype that the kernel returns, integers count in 64 bits. The bits do not depend on the number
        of threads. An empty policy gives the reducer's identity.
    """
    several = isinstance(reducer, tuple)
    reducers = reducer if several else (reducer,)
    for r in reducers:
        if not isinstance(r, Reducer):
            raise DTypeError(f"reducer must be pk.Sum, pk.Min, ... or a tuple of these, got {r!r}")
    launch = _Launch(policy, kernel, args, label, reducers)
    if launch.compiled is None:
        from .backends.checked import interpreter

        states = _alone(launch, lambda: interpreter.run_reduce(launch.policy, kernel.fn, _plain(args), reducers))
        results = list(states)
    else:
        numbers = iter(_alone(launch, lambda: launch.backend.run_reduce(launch.space, launch.compiled, launch.policy, launch.words)))
        results = [(next(numbers), next(numbers)) if r.with_index else next(numbers) for r in reducers]
    if out is not None:
        _deliver(results, out, launch)
        return None
    return tuple(results) if several else results[0]


def _deliver(results, out, launch):
    outs = out if isinstance(out, tuple) else (out,)
    flat = [v for r in results for v in (r if isinstance(r, tuple) else (r,))]
    if len(outs) != len(flat):
        raise ShapeError(f"out: {len(flat)} one-element view(s) wanted, got {len(outs)}")
    from .copy import deep_copy

    for view, value in zip(outs, flat):
        deep_copy(view, value) if isinstance(view, View) else view.__setitem__(..., value)


def _plain(args):
    """Arguments as plain Python sees them: views as NumPy arrays."""
    def plain(a):
        if isinstance(a, View):
            if a.spec[4] != "host":
                raise _wrong_space(a, a.label or "view", a.spec[4], "host")
            return np.asarray(a)
        if isinstance(a, tuple):
            return tuple(plain(x) for x in a)
        return a.value if isinstance(a, static) else a
    return tuple(plain(a) for a in args)


def fence(space=None):
    """Wait until everything launched on a space has finished."""
    space = require(resolve(space))
    if space.name != "checked":
        registry.backend(space.name).fence(space)
