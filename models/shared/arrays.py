"""Arrays of users where a kernel reaches them."""

from __future__ import annotations

import concurrent.futures
import contextvars
from typing import Any

import numpy as np

import portable as pk

from .annotations import Array

_LARGE = 4 << 20  # bytes of a copy that is worth a thread's start
_KEPT = 128 << 10  # bytes of an array whose memory the layer keeps for the next one


def reached(array: Array | pk.View, space: pk.SpaceLike | None = None) -> pk.View:
    """Return an array as a view that a space reaches (the default space if None).

    Parameters
    ----------
    array : ndarray or View
    space : str, Space or None

    Returns
    -------
    View
        Of the array's own memory where the space reaches it, elsewhere a copy; row-major, but for a View
        that already is there.
    """
    host = array if isinstance(array, pk.View) else pk.asview(np.ascontiguousarray(array), space="serial")
    device = pk.create_mirror_view(host, pk.default_space() if space is None else space)
    if device is not host:
        pk.deep_copy(device, host)
    return device


class Copying:
    """A copy that a thread makes while the caller goes on: what is launched until `wait` does not read the
    target. Small copies are made at once.

    Parameters
    ----------
    target, source : View or ndarray, as of `pk.deep_copy`
    """

    def __init__(self, target: Array | pk.View, source: Array | pk.View) -> None:
        self._copied: concurrent.futures.Future[Any] | None = None
        if target.nbytes < _LARGE:
            pk.deep_copy(target, source)
            return
        thread = concurrent.futures.ThreadPoolExecutor(1, "portable copy")
        self._copied = thread.submit(contextvars.copy_context().run, pk.deep_copy, target, source)
        thread.shutdown(wait=False)

    def wait(self) -> None:
        """Until the copy is there.

        Raises
        ------
        PortableError
            As `pk.deep_copy`.
        """
        if self._copied is not None:
            self._copied.result()

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        self.wait()


def new_array(shape: int | tuple[int, ...], dtype: Any = np.float64) -> Array:
    """Return an array of no certain elements; a large one has the memory of one that is gone, as the
    system hands out new memory page by page.

    Parameters
    ----------
    shape : int or tuple of int
    dtype : str, type or numpy.dtype

    Returns
    -------
    ndarray
    """
    array = np.empty(shape, dtype)  # of a large one no page is touched
    return array if array.nbytes < _KEPT else pk.empty(shape, dtype, "serial").to_numpy()


def host_array(view: pk.View) -> Array:
    """Return the elements of a view on the host, where a large array has the memory of one that is gone.

    Parameters
    ----------
    view : View

    Returns
    -------
    ndarray
        The view's own memory where the host reaches it, elsewhere a copy.
    """
    near = pk.create_mirror_view(view)
    if near is not view:
        pk.deep_copy(near, view)
    return near.to_numpy()


class Together:
    """Small arrays of the host in a space, by one copy for each dtype there and back: on a GPU each waits.

    Parameters
    ----------
    arrays : dict of ndarray, by name
    space : str, Space or None
        The default space if None.

    Attributes
    ----------
    views : dict of View
        Of the same names and shapes, row-major; those of one dtype lie behind each other in one memory.
    """

    def __init__(self, arrays: dict[str, Array], space: pk.SpaceLike | None = None) -> None:
        self.views, self._places, self._wholes = {}, {}, {}
        for dtype in {array.dtype for array in arrays.values()}:
            own, end = {name: array for name, array in arrays.items() if array.dtype == dtype}, 0
            whole = pk.copy_of(np.concatenate([a.ravel() for a in own.values()]), space)
            for name, array in own.items():
                place, end = slice(end, end + array.size), end + array.size
                view = whole[place]
                self.views[name] = view if array.ndim == 1 else view.reshape(array.shape)
                self._places[name] = dtype, place
            self._wholes[dtype] = whole

    def to_numpy(self) -> dict[str, Array]:
        """Return all of them as they are now, in memory of their own.

        Returns
        -------
        dict of ndarray
        """
        wholes = {dtype: np.array(whole.to_numpy()) for dtype, whole in self._wholes.items()}
        places = self._places.items()
        return {name: wholes[dtype][at].reshape(self.views[name].shape) for name, (dtype, at) in places}


def as_view(array: Any) -> pk.View | None:
    """Return the View of an array whose results are wanted as Views.

    Parameters
    ----------
    array : anything

    Returns
    -------
    View or None
        Of a View, and of another library's array on a device, the memory itself; None for all else, which
        is taken to the host.
    """
    if isinstance(array, pk.View) or hasattr(array, "__cuda_array_interface__"):
        return pk.asview(array)
    return None
