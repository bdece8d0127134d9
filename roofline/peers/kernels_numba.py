"""Anybody's kernels in numba: the same text under `njit(fastmath=True)`, in a loop of `prange`."""

import inspect
import math
import re
import textwrap

import numba
import numpy as np

import portable as pk
from portable.roofline.peers import kernels_text, numba_threads

WORDS = {r"pk\.local\(": "np.empty(", r"pk\.rsqrt\(": "1 / math.sqrt("}


def contenders(task, threads):
    """One peer; its arrays are NumPy's."""
    text = inspect.getsource(task.kernel.fn)
    text = textwrap.dedent(text[text.index("def ") :])
    for word, own in WORDS.items():
        text = re.sub(word, own, text)
    if "pk." in text or task.form.startswith("team"):
        raise ImportError("numba has no such word")
    text = kernels_text.single(text, task.dtype, r"np.float32(\g<0>)")
    arrays, arguments = task.fresh(), {}
    for name in task.arguments:
        value = arrays[name]
        arguments[name] = np.dtype(task.dtype).type(value) if isinstance(value, float) else value
    names, name = list(arguments), task.kernel.fn.__name__
    lines = [f"def run({', '.join(names)}):", "total = 0.0"]
    lines += [f"{array}{axis} = {array}.shape[{axis}]" for array, axis, _ in task.extents()]
    lines += [f"for step in range({task.steps}):"] * bool(task.steps)
    for k, (index, ends) in enumerate(zip(task.indices, task.bounds, strict=True)):
        lines.append(f"for {index} in {'range' if k else 'prange'}({', '.join(ends).removeprefix('0, ')}):")
    call = f"{name}({', '.join([*task.indices, *names])})"
    lines.append(f"total += {call}" if task.form == "sum" else call)
    deep, made = 0, ""
    for line in lines:
        made += f"{' ' * deep}{line}\n"
        deep += line.endswith(":")
    made += " return total\n"
    space = {**task.kernel.fn.__globals__, "np": np, "math": math, "prange": numba.prange}
    space |= {k: numba.njit(fastmath=True)(v.fn) for k, v in space.items() if isinstance(v, pk.Function)}
    exec(text, space)
    space[name] = numba.njit(fastmath=True)(space[name])
    exec(made, space)
    run = numba.njit(parallel=True, fastmath=True)(space["run"])
    numba_threads.set_threads(threads)

    def call():
        total = run(*arguments.values())
        if task.form == "sum":
            arrays["total_"][0] = total

    label = f"numba, the same text, {threads} thread{'s' * (threads > 1)}"
    return [task.contender(label, text + made, call, arrays, np.copyto)]
