"""Copies of users' arrays in memory that a kernel can access."""

from __future__ import annotations

import concurrent.futures
import contextvars
from typing import Any

import numpy as np

import portable as pk

from .annotations import Array

_LARGE = 4 << 20  # smallest copy in bytes for which a thread is started
_KEPT = 128 << 10  # smallest array in bytes whose memory is reused


def reached(array: Array | pk.View, space: pk.SpaceLike = None) -> pk.View:
    """Return an array as a view that a space can access (the default space if None).

    Parameters
    ----------
    array : ndarray or View
    space : str, Space or None

    Returns
    -------
    View
        A view of the array's memory if the space can access it, else a copy; row-major, except for a View
        that the space can already access.
    """
    host = array if isinstance(array, pk.View) else pk.asview(np.ascontiguousarray(array), space="serial")
    device = pk.create_mirror_view(host, pk.default_space() if space is None else space)
    if device is not host:
        pk.deep_copy(device, host)
    return device


class Copying:
    """A copy by a thread, while the caller continues. Kernels launched before `wait` must not read the
    target. Small copies are performed immediately.

    Parameters
    ----------
    target, source : View or ndarray, arguments of `pk.deep_copy`
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
        """Wait until the copy is complete.

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
    """Return an uninitialised array. A large one reuses the memory of a deleted array, since the system
    provides new memory page by page, which is slow.

    Parameters
    ----------
    shape : int or tuple of int
    dtype : str, type or numpy.dtype

    Returns
    -------
    ndarray
    """
    array = np.empty(shape, dtype)  # does not touch the pages of a large array
    return array if array.nbytes < _KEPT else pk.empty(shape, dtype, "serial").to_numpy()


def as_view(array: Any) -> pk.View | None:
    """Return an array as a View if it is in a device's memory or a View, so that results should be Views.

    Parameters
    ----------
    array : anything

    Returns
    -------
    View or None
        A view of the same memory for a View and for another library's array on a device; None for all others,
        which are processed on the host.
    """
    if isinstance(array, pk.View) or hasattr(array, "__cuda_array_interface__"):
        return pk.asview(array)
    return None
