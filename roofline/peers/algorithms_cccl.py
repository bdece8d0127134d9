"""CUB by NVIDIA's own Python package, cuda.cccl: reductions of ragged rows. What it compiles and its
workspace are made once; a call allocates its output, as ours does.
"""

import functools

import cuda.compute as cccl
import cupy
import numpy as np

from portable.roofline.contract import Contender
from portable.roofline.digest import digest


def contenders(name, *inputs):
    """Its way to one result, on copies of the host arrays; none where it has no word for it."""
    if name not in WAYS:
        return []
    call = WAYS[name](*map(cupy.asarray, inputs))
    sync = cupy.cuda.get_current_stream().synchronize
    return [Contender(f"cuda.cccl, {name}", call, sync, lambda: digest(call().get()))]


def _segmented_reduce(x, offsets):
    n_rows = len(offsets) - 1
    given = {
        "d_in": x,
        "start_offsets_in": offsets[:-1],
        "end_offsets_in": offsets[1:],
        "op": cccl.OpKind.PLUS,
        "h_init": np.zeros(1),
    }
    reduce_rows = cccl.make_segmented_reduce(d_out=cupy.empty(n_rows), **given)
    launch = functools.partial(reduce_rows, num_segments=n_rows, **given)
    room = cupy.empty(max(1, launch(temp_storage=None, d_out=cupy.empty(n_rows))), np.uint8)

    def call():
        out = cupy.empty(n_rows)
        launch(temp_storage=room, d_out=out)
        return out

    return call


WAYS = {"segmented_reduce": _segmented_reduce}
