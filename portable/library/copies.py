"""Copies between views: mirrors, and `deep_copy` between memories, strides and, if requested, dtypes.

A device copies contiguous memory; large pieces of pageable memory through pinned ones
(core/machines/cuda/staging.py). Strided views of a device go through the host: the bytes between their lowest
and highest element are fetched, the elements changed, and the bytes sent back. Every copy that involves a
device follows the work that is queued there. When it returns, the host's array may be written to or is
complete; bytes sent to a device may be in transfer, ahead of all work launched there afterwards.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core import events, registry
from ..core.places import space as spaces
from ..core.language.annotations import ArrayLike, DTypeLike, Number, Shape, SpaceLike
from ..core.launch.dispatch import Launch, repeated_launch, bind
from ..errors import DTypeError, InputError, ShapeError
from ..core.language.kernel import kernel
from ..core.places.policy import RangePolicy
from ..core.places.space import HOST
from ..core.language.types import PARTS, loaded_dtype, is_float
from ..core.arrays.view import (
    View,
    _view,
    address,
    asview,
    check_dtype,
    check_shape,
    empty,
    lowest,
    over_new,
    span,
)

_FILL_BYTES = 1 << 20  # the host's part of a fill; the device doubles it
_MOST_LAUNCHED = 64
_launched = {}  # launches of the last copies over a link, which keep no view alive, by the views' keys


def create_mirror(view: View, space: SpaceLike = None) -> View:
    """Return a new View of the shape and dtype of `view`, row-major, in another memory; the elements are
    not copied.

    Parameters
    ----------
    view : View
    space : str, Space or None, default the host

    Returns
    -------
    View, of the space

    Examples
    --------
    >>> pk.create_mirror(pk.zeros((2, 3), space="serial")).shape
    (2, 3)
    """
    view = asview(view)
    return empty(view.shape, view.dtype, _mirror_space(space), view.label)


def copy_of(array: Any, space: SpaceLike = None, label: str | None = None) -> View:
    """Return a new view in a space with the elements of an array: the way to copy data to a GPU.

    Parameters
    ----------
    array : View, array of any library that `asview` takes, or array-like
    space : str, Space or None
        The default space if None.
    label : str or None

    Returns
    -------
    View, row-major

    Examples
    --------
    >>> v = pk.copy_of([1, 2, 3], space="serial")
    >>> v.to_numpy().tolist()
    [1, 2, 3]
    """
    foreign = hasattr(array, "__dlpack__") or hasattr(array, "__cuda_array_interface__")
    own = isinstance(array, View) or type(array) is np.ndarray
    source = array if own else asview(array) if foreign else np.asarray(array)
    target = empty(source.shape, source.dtype, space, label)
    deep_copy(target, source)
    return target


def pinned(shape: Shape, dtype: DTypeLike = "float64") -> np.ndarray[Any, Any]:
    """Return a NumPy array in host memory that a GPU copies from and to at the speed of its link, without a
    copy in between.

    Parameters
    ----------
    shape : int or tuple of int
    dtype : str, type or numpy.dtype, default "float64"

    Returns
    -------
    ndarray, uninitialised
        Common memory where this machine has no GPU.

    Raises
    ------
    OutOfMemoryError
        The system has too little memory; pinned memory cannot be swapped out.

    Examples
    --------
    >>> x = pk.pinned(1000)
    >>> x[:] = 1.0
    """
    array = np.empty(check_shape(shape), check_dtype(dtype))
    found = registry.first("pinned", array.nbytes) if array.nbytes else None
    if found is None:
        return array
    return over_new(found[1], array.shape, array.dtype)


def create_mirror_view(view: View, space: SpaceLike = None) -> View:
    """Return `view` itself if a space reaches it, else `create_mirror(view, space)`.

    Parameters
    ----------
    view : View
    space : str, Space or None, default the host

    Returns
    -------
    View, in the memory of the space

    Examples
    --------
    >>> v = pk.zeros(3, space="serial")
    >>> pk.create_mirror_view(v) is v
    True
    """
    space = _mirror_space(space)
    return view if space.memory == asview(view).memory else create_mirror(view, space)


def _mirror_space(space):
    if space is not None:
        return spaces.resolve(space)
    default = spaces.default_space()
    return default if default.memory == HOST else spaces.resolve(registry.PREFERRED[-1])


def deep_copy(
    target: ArrayLike, source: ArrayLike | Number, *, cast: bool = False, wait: bool = True
) -> None:
    """Copy the elements of `source` into `target`, or set all of them to one value.

    Parameters
    ----------
    target : View or NumPy array, in any memory
    source : View or NumPy array of the same shape, in any memory; or a bool, int or float
    cast : bool, default False
        Convert between dtypes as NumPy's `astype` does; without it they must be the same.
    wait : bool, default True
        Without it a copy between contiguous views of devices is queued, in order with the launches on the
        target's space; if the source is on another one, `follow` makes the copy wait for earlier launches
        there, and later launches there wait for the copy. Other copies are waited for.

    Raises
    ------
    ShapeError, DTypeError : shapes or dtypes differ, or the value does not fit the dtype
    InputError : `target` is read-only

    Examples
    --------
    >>> v = pk.empty(3, space="serial")
    >>> pk.deep_copy(v, np.array([1.0, 2.0, 3.0]))
    >>> v.to_numpy().tolist()
    [1.0, 2.0, 3.0]
    >>> pk.deep_copy(v, 7)
    >>> v[2]
    np.float64(7.0)
    """
    events.refuse_while_recording("a copy")
    if _copied(target, source):
        return None
    target = _check_view(target, "target")
    if target.readonly:
        raise InputError(f"deep_copy: the target {target!r} cannot be written")
    array = isinstance(source, View) or isinstance(source, np.ndarray) and source.ndim
    if not array and (
        np.ndim(source) == 0 and not hasattr(source, "__dlpack__") or isinstance(source, np.generic)
    ):
        value = _check_value(source, target.dtype, cast)
        with events.copy("", target.memory, target.nbytes):
            return _fill(target, value)
    source = _check_view(source, "source")
    if source.shape != target.shape:
        raise ShapeError(
            f"deep_copy: the target has shape {target.shape}, the source {source.shape}; expected the same"
        )
    if source.dtype != target.dtype and not cast:
        raise DTypeError(
            f"deep_copy: the target has dtype {target.dtype}, the source {source.dtype}; expected the same, "
            "or cast=True"
        )
    if target.size:
        with events.copy(source.memory, target.memory, target.nbytes):
            _copy(target, source, wait)
    return None


def _copied(target, source):
    """Copy between a view and a NumPy array of the same layout and return True, else False: the most frequent
    case, in which all other checks would take half of the time.
    """
    up = source.__class__ is np.ndarray
    host, view = (source, target) if up else (target, source)
    if view.__class__ is not View or host.__class__ is not np.ndarray:
        return False
    there, here = view._array, host.flags
    if host.dtype != there.dtype or host.shape != there.shape or (view.spec[3] if up else not here.writeable):
        return False
    if view.memory == HOST:
        plain = not events.current().copying
        if plain and up:
            there[...] = host
        elif plain:
            host[...] = there
        return plain
    if not (here.c_contiguous and there.flags.c_contiguous and here.aligned and host.size):
        return False
    memory, nbytes = registry.memory(view.memory), host.nbytes
    if up:
        with events.copy(HOST, view.memory, nbytes):
            memory.copy_to_device(view.pointer, address(host), nbytes)
    else:
        with events.copy(view.memory, HOST, nbytes):
            memory.copy_to_host(address(host), view.pointer, nbytes)
    return True


def _copy(target, source, wait=True):
    """Copy elements between views of one shape, in any memories."""
    direct = (
        source.memory != HOST and source.dtype == target.dtype and _contiguous(source) and _contiguous(target)
    )
    if target.memory == HOST and not direct:
        np.copyto(target._array, registry.memory(source.memory).read(source), casting="unsafe")
    elif target.memory == HOST:
        registry.memory(source.memory).copy_to_host(target.pointer, source.pointer, target.nbytes)
    elif direct and (source.memory != target.memory or abs(target.pointer - source.pointer) >= target.nbytes):
        origin = registry.memory(source.memory)
        memory = registry.memory(target.memory)
        if not wait and memory.reaches(origin):
            _read_over_link(target, source)
            origin.follow(memory)
        else:
            copy = memory.copy if wait else memory.queue_copy
            copy(target.pointer, source.pointer, target.nbytes, origin)
    else:
        _to_device(target, registry.memory(source.memory).read(source))


@kernel
def _copy_word(i, source, target):
    target[i] = source[i]


def _read_over_link(target, source):
    """Copy between linked devices by a kernel in the target's queue: the driver's copies require a separate
    queue, and tens of microseconds to switch between queues.
    """
    key = target.key, source.key
    call = _launched.get(key)
    if call is None:
        width = 1 if (target.nbytes | target.pointer | source.pointer) % 8 else 8
        words = (
            _view(view._array.reshape(-1).view(f"u{width}"), target.memory, target.space)
            for view in (source, target)
        )
        policy = RangePolicy(0, target.nbytes // width, space=target.space)
        bound = bind(policy, _copy_word, tuple(words), ())
        if len(_launched) >= _MOST_LAUNCHED:
            _launched.clear()
        call = _launched[key] = repeated_launch(Launch(policy, _copy_word, (), bound[0], ""), bound)
    call()


def _check_view(array, role):
    if isinstance(array, View):
        return array
    if hasattr(array, "__dlpack__") or hasattr(array, "__cuda_array_interface__"):
        return asview(array)
    raise InputError(
        f"deep_copy: the {role} is of type {type(array).__name__}; expected a View or a NumPy array"
    )


def _check_value(value, dtype, cast):
    """Return the value as an array of one element; integers and bools must hold it exactly unless
    `cast`."""
    if not isinstance(value, (bool, int, float, complex, np.generic)):
        raise InputError(
            f"deep_copy: the source is {value!r} of type {type(value).__name__}; expected a View, a NumPy "
            "array or a number"
        )
    lost = isinstance(value, (complex, np.complexfloating)) and dtype.name not in PARTS
    with np.errstate(all="ignore"):
        try:
            filled = np.asarray(value.real if lost else value).astype(dtype).reshape(1)
        except (OverflowError, ValueError):
            filled = None
    exact = lost or not is_float(loaded_dtype(dtype.name))
    if filled is None or not cast and exact and filled[0] != value:
        raise DTypeError(f"deep_copy: {value!r} does not fit dtype {dtype}")
    return filled


def _fill(target, value):
    if target.memory == HOST:
        target._array[...] = value[0]
    elif not target.size:
        return
    elif not _contiguous(target):
        _to_device(target, np.broadcast_to(value, target.shape))
    else:
        memory, pattern = registry.memory(target.memory), value.tobytes()
        if pattern == pattern[:1] * len(pattern):
            memory.synchronize()
            memory.fill(target.pointer, pattern[0], target.nbytes, wait=True)
            return
        start = np.full(min(target.size, _FILL_BYTES // target.dtype.itemsize), value)
        memory.copy_to_device(target.pointer, start.ctypes.data, done := start.nbytes)
        while done < target.nbytes:
            part = min(done, target.nbytes - done)
            memory.copy(target.pointer + done, target.pointer, part, memory)
            done += part


def _contiguous(view):
    return view._array.flags.c_contiguous


def _to_device(target, elements):
    """Write a NumPy array of any strides and dtype into a view on a device."""
    memory = registry.memory(target.memory)
    if elements.flags.c_contiguous and elements.dtype == target.dtype and _contiguous(target):
        memory.copy_to_device(target.pointer, elements.ctypes.data, elements.nbytes)
        return
    buffer, staged = span(target)
    if buffer.nbytes != target.nbytes:
        memory.copy_to_host(
            buffer.ctypes.data, lowest(target), buffer.nbytes
        )  # the bytes between the elements must be written back unchanged
    np.copyto(staged, elements, casting="unsafe")
    memory.copy_to_device(lowest(target), buffer.ctypes.data, buffer.nbytes)
