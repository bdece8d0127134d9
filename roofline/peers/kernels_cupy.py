"""Anybody's kernels in CUDA C++ through CuPy's RawModule."""

import functools

import cupy
import numpy as np

from portable.roofline.peers import kernels_text

if not cupy.cuda.is_available():
    raise ImportError("CuPy finds no CUDA device")

RESIDENT = 8  # blocks of 256 threads that a multiprocessor holds


def contenders(task):
    """One peer; its arrays are CuPy's."""
    text = kernels_text.cuda(task)
    kernel = cupy.RawModule(code=text, options=("-std=c++17",)).get_function("run")
    arrays, rest = {}, []
    for name, value in task.fresh().items():
        if isinstance(value, np.ndarray):
            arrays[name] = cupy.asarray(value)
            rest += [arrays[name], *map(np.int32, value.shape)]
        elif name != "step":
            rest.append(np.int32(value) if isinstance(value, int) else np.dtype(task.dtype).type(value))
    launches = []
    for step in range(task.number(task.steps or "1")):
        grid, block = kernels_text.launch(task, step)
        grid = grid or (RESIDENT * cupy.cuda.Device().attributes["MultiProcessorCount"],)
        ends = [np.int32(edge) for both in task.ranges(step) for edge in both]
        launches.append((grid, block, (*ends, *rest, *[np.int32(step)] * bool(task.steps))))

    def call():
        if task.form == "sum":
            arrays["total_"].fill(0)
        for grid, block, arguments in launches:
            kernel(grid, block, arguments)

    one = functools.partial(kernel, *launches[0]) if len(launches) == 1 and task.form != "sum" else call
    wait = cupy.cuda.Device().synchronize
    return [task.contender("CUDA C++", text, one, arrays, cupy.ndarray.set, sync=wait)]
