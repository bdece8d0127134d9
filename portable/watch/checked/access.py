"""Reads and writes of kernels: `x[i]`, `x[i] = v` and the atomics, in a kernel's Python. A site is passed
already shifted into place.
"""

from ...core.language import types as t, words
from .memory import CELL_SHIFT, READ, REPLACE, SITE_SHIFT, SWAP, UPDATE, WRITE, Fault, Watched


def _reach(x, index, site, how):
    """Record an access, whose index is an integer, or a tuple unless x has one dimension; return the cell."""
    run = x.run
    run.left -= 1
    if run.left < 0:
        run.member.switch()
    if x.ndim == 1:
        if not 0 <= index < x.length:
            x.raise_outside((index,))
        cell = x.first + index * x.step
    else:
        cell = x.cell(index)
    if x.valid is None:
        x.log(cell << CELL_SHIFT | site | how)
    elif how != READ:
        x.valid[cell] = 1
    elif not x.valid[cell]:
        run.unwritten(x, cell, site >> SITE_SHIFT)
    return cell


def load(x, index, site):
    """Return x[index]."""
    _reach(x, index, site, READ)
    return x.get(index)


def store(x, index, site, value):
    """Execute x[index] = value, a number of x's dtype."""
    _write(x, _reach(x, index, site, WRITE), index, value)


def _write(x, cell, index, value):
    try:
        x.array[index] = value
    except ValueError as error:
        raise Fault(
            "read-only write",
            f"'{x.name}' is read-only here; pass a writable argument",
            x.name,
            x.index_of(cell),
        ) from error


def varying_bound(bound):
    """Return a bound of a slice that differs between indices."""
    if bound < 0:
        text = f"a slice has the bound {bound}; bounds that vary between indices cannot count from the end"
        raise Fault("negative index", text, None, None)
    return bound


def stopped(names, site):
    """Open the debugger's prompt at a place of the source, with these names of variables; views are NumPy
    arrays.
    """
    names = {name: v.array if isinstance(v, Watched) else v for name, v in names.items()}
    exec(compile("breakpoint()\npass", f"<the kernel at {site.file}:{site.line}>", "exec"), names)


def atomic(x, index, site, *values, op):
    """Perform an atomic operation, whose values are of x's dtype; return the old element."""
    cell = _reach(x, index, site, _HOW.get(op, UPDATE))
    old = x.get(index)
    new, dtype = words.ATOMICS[op](old, *values), x.dtype.name
    if not t.is_float(dtype):
        wrapped = t.converted(new, dtype)
        if new != wrapped and dtype not in t.UNSIGNED:
            x.run.overflow(f"{new} does not fit the {dtype} of '{x.name}'", site >> SITE_SHIFT)
        new = wrapped
    _write(x, cell, index, new)
    return old


_HOW = {"exchange": REPLACE, "cas": SWAP}
