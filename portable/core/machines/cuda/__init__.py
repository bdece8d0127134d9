"""The space "cuda": NVIDIA's GPUs."""

from __future__ import annotations

from typing import Any

from ...places.policy import check_index
from ...places.space import Space


def _handle(stream):
    """Return the driver's handle of a stream: by `__cuda_stream__`, or `handle`, `ptr`, `cuda_stream`."""
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1])
    names = [name for name in ("handle", "ptr", "cuda_stream") if hasattr(stream, name)]
    handle = getattr(stream, names[0]) if names else stream
    return int(getattr(handle, "value", handle) or 0) if names else stream


def Cuda(device: int = 0, stream: Any = 0) -> Space:  # noqa: N802  (a space reads like a class to its users)
    """Return the space of a GPU.

    Parameters
    ----------
    device : int
        Its number.
    stream : int or stream of another library
        The driver's handle, or an object that has one (`__cuda_stream__`, `handle`, `ptr` or `cuda_stream`);
        0 is the default stream.

    Returns
    -------
    Space

    Raises
    ------
    InputError, DTypeError

    Examples
    --------
    >>> pk.Cuda(1).memory
    'cuda:1'
    """
    if not isinstance(stream, int):
        stream = _handle(stream)
    check_index(device, "Cuda: device", 0)
    return Space("cuda", memory=f"cuda:{device}", device=device, stream=check_index(stream, "Cuda: stream"))
