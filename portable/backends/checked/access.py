"""Reads and writes of kernels: what `x[i]`, `x[i] = v` and the atomics become when a kernel's text is rewritten."""

from __future__ import annotations

import numpy as np

from ... import words
from .memory import (
    CELL_SHIFT,
    READ,
    REPLACE,
    SITE_SHIFT,
    SWAP,
    UPDATE,
    WRITE,
    Fault,
    Watched,
    counted,
)

_FLOAT64 = np.float64
_LIMITS = {np.dtype(t): (int(np.iinfo(t).min), int(np.iinfo(t).max)) for t in (np.int32, np.int64)}


def load(x, index, site):
    """x[index]."""
    if x.__class__ is not Watched:
        return x[index]  # a tuple
    run = x.run
    run.left -= 1
    if run.left < 0:
        run.pause()
    if index.__class__ is int and x.ndim == 1:
        if not 0 <= index < x.length:
            x.beyond((index,))
        cell = x.first + index * x.step
    else:
        index = counted(index)
        cell, part = x.element(index, site)
        if part is not None:
            return part
    if x.valid is None:
        x.log(cell << CELL_SHIFT | site << SITE_SHIFT)
    elif not x.valid[cell]:
        run.unwritten(x, cell, site)
    return x.array[index]


def store(x, index, value, site):
    """x[index] = value."""
    run = x.run
    run.left -= 1
    if run.left < 0:
        run.pause()
    if index.__class__ is int and x.ndim == 1:
        if not 0 <= index < x.length:
            x.beyond((index,))
        cell = x.first + index * x.step
    else:
        index = counted(index)
        cell, _ = x.element(index, site)
    if x.valid is None:
        x.log(cell << CELL_SHIFT | site << SITE_SHIFT | WRITE)
    else:
        x.valid[cell] = 1
    if value.__class__ is _FLOAT64 and run.float32_only and x.dtype == np.float32:
        run.leak(x, cell, site)
    _write(x, cell, index, _fitting(x, value, site))


def _fitting(x, value, site):
    """A number as an element of `x`."""
    if x.dtype.kind not in "iu" or value.__class__ is x.dtype.type:
        return x.dtype.type(value)
    return x.dtype.type(x.run.fitted(value, x.dtype.name, f"the {x.dtype} of '{x.name}'", site))


def _write(x, cell, index, value):
    try:
        x.array[index] = value
    except ValueError as error:
        raise Fault("read-only write", f"'{x.name}' is read-only here; pass a writable view", x.name, x.index_of(cell)) from error


def _atomic(combine, how=UPDATE):
    def operation(site, x, index, *values):
        run = x.run
        run.left -= 1
        if run.left < 0:
            run.pause()
        index = counted(index)
        cell, _ = x.element(index, site)
        if x.valid is None:
            x.log(cell << CELL_SHIFT | site << SITE_SHIFT | how)
        else:
            x.valid[cell] = 1
        old = x.array[index]
        values = [_fitting(x, v, site) for v in values]
        new = combine(old, *values)
        _write(x, cell, index, new)
        if x.dtype in _LIMITS:
            _check_sum(run, x, combine, old, values, new, site)
        return old
    return operation


def _check_sum(run, x, combine, old, values, new, site):
    if combine in (_add, _sub):
        exact = combine(int(old), int(values[0]))
        if exact != new:
            run.overflow(f"{exact} does not fit the {x.dtype} of '{x.name}'", site)


def _add(old, value):
    return old + value


def _sub(old, value):
    return old - value


ATOMICS = {
    words.atomic_add: _atomic(_add),
    words.atomic_sub: _atomic(_sub),
    words.atomic_min: _atomic(words.minimum),
    words.atomic_max: _atomic(words.maximum),
    words.atomic_and: _atomic(lambda old, value: old & value),
    words.atomic_or: _atomic(lambda old, value: old | value),
    words.atomic_xor: _atomic(lambda old, value: old ^ value),
    words.atomic_exchange: _atomic(lambda old, value: value, REPLACE),
    words.atomic_cas: _atomic(lambda old, expected, value: value if old == expected else old, SWAP),
}
assert READ == 0  # `load` leaves it out
