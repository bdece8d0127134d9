"""Arrays of users where a kernel reaches them."""

import numpy as np

import portable as pk


def reached(array, space=None):
    """An array as a row-major view that a space reaches (the default space if None): on the host itself,
    elsewhere a copy."""
    host = pk.asview(np.ascontiguousarray(array), space="serial")
    device = pk.create_mirror_view(host, pk.default_space() if space is None else space)
    if device is not host:
        pk.deep_copy(device, host)
    return device
