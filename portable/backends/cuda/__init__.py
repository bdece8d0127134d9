"""The space "cuda": NVIDIA's GPUs."""

from ...errors import InputError
from ...policy import check_index
from ...space import Space


def Cuda(device=0, stream=0):  # noqa: N802  (a space reads like a class to its users)
    """The space of GPU number `device`; `stream` is a driver's stream handle."""
    if check_index(device, "Cuda: device") < 0:
        raise InputError(f"Cuda: device is {device}; zero or more is wanted")
    return Space("cuda", memory=f"cuda:{device}", device=device, stream=check_index(stream, "Cuda: stream"))
