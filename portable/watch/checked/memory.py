"""Monitored memory: views that record every access, and the numbers that identify their elements.

Every byte that a launch can reach has a number, its cell: arguments that overlap share cells, scratch has
separate cells in each team. An access appends one integer to the run's trace:

    cell << 23 | site << 3 | how    how: READ, WRITE; atomically: UPDATE, REPLACE (does not read), SWAP
                                    (compares first)

All other facts about races are derived from the trace afterwards (races.py). Bounds are checked here.
"""

import bisect
import itertools

import numpy as np

from ...core.launch import dispatch
from ...core.language.types import Record, loaded_dtype, named, reach
from ...core.arrays.scatter import viewed
from ...core.arrays.view import View, address, mark_unwritten

READ, WRITE, UPDATE, REPLACE, SWAP = range(5)
SITE_SHIFT, CELL_SHIFT = 3, 23
ALIGN = 64
_MARK32 = 0x7FF5FACE  # the contents of unwritten memory (view.UNWRITTEN), in four bytes
_MARK = {4: _MARK32, 8: _MARK32 << 32 | _MARK32}


def array_of(arg):
    """Return the NumPy array of an argument that has elements (a device's are copied), else None, as for an
    argument that launches refuse."""
    arg = viewed(arg)
    return arg.to_numpy() if isinstance(arg, View) else None


def arrays_in(args, names=itertools.repeat("")):
    """Yield (name, array) of every array among arguments and tuples of them; a view's label is its name."""
    for arg, name in zip(args, names):
        if dispatch.is_record(arg):
            names, items = dispatch.parts_of(arg)
            yield from arrays_in(items, named(name, len(items), names))
        elif (array := array_of(arg)) is not None:
            yield getattr(arg, "label", None) or name, array


def replaced(arg, change):
    """Return an argument, or a tuple of them, with each array replaced by the result of `change(array)`."""
    if not dispatch.is_record(arg):
        return arg if array_of(arg) is None else change(arg)
    names, items = dispatch.parts_of(arg)
    record = Record(replaced(a, change) for a in items)
    record._fields = names  # of a NamedTuple, as dispatch sees it
    return record


class Fault(BaseException):
    """An error that stops a lane: (kind, message, label, index)."""


class Watched:
    """A view as a kernel sees it in the checked space.

    `first` and `steps` are in cells: element (i, j) is cell first + i * steps[0] + j * steps[1]. `valid`
    holds a byte for each byte of a private array that has been written; memory that others reach too has None
    and is traced.
    """

    def __init__(self, array, run, first, root=None, valid=None, label=None):
        # for an index that messages show: the part of a complex number is not shown
        self.last = root and root.last
        if array.dtype.kind == "c":
            array, self.last = in_parts(array), -1
        self.array, self.run, self.log, self.first, self.valid = array, run, run.log, first, valid
        self.shape, self.steps, self.ndim, self.dtype = array.shape, array.strides, array.ndim, array.dtype
        # an element as the checked space's number
        self.get = array.__getitem__ if array.dtype == np.float32 else array.item
        if array.dtype.itemsize == 2 and loaded_dtype(array.dtype.name) == "float32":
            self.get = lambda index: np.float32(array[index])
        self.length, self.step = (self.shape[0], self.steps[0]) if self.ndim else (0, 0)
        self.root = self if root is None else root
        self.label = label

    def index_of(self, cell):
        """Return the index of a cell in this view, or None if it has no such element."""
        rest, index = cell - self.first, [0] * self.ndim
        for k in sorted(range(self.ndim), key=lambda k: -abs(self.steps[k])):
            if self.steps[k]:
                index[k] = min(max(rest // self.steps[k], 0), self.shape[k] - 1)
                rest -= index[k] * self.steps[k]
        return tuple(map(int, index[: self.last])) if rest == 0 else None

    def cell(self, index):
        """Return the cell of an element, whose index is a tuple."""
        cell = self.first
        for i, extent, step in zip(index, self.shape, self.steps):
            if not 0 <= i < extent:
                self.raise_outside(index)
            cell += i * step
        return cell

    def part(self, index):
        """Return a view of the part that a tuple of integers and slices selects, in the same memory."""
        cell = self.first
        for i, extent, step in zip(index, self.shape, self.steps):
            if i.__class__ is slice:
                i, _, _ = i.indices(extent)
            elif not 0 <= i < extent:
                self.raise_outside(index)
            cell += i * step
        return Watched(self.array[index], self.run, cell, self.root, self.valid, self.label)

    def turned(self, n):
        """Return a view of the same memory with the first n dimensions in reverse."""
        array = self.array.transpose(*range(n)[::-1], *range(n, self.ndim))
        return Watched(array, self.run, self.first, self.root, self.valid, self.label)

    def raise_outside(self, index):
        """Raise the Fault of an index outside."""
        index = index[: self.last] if len(index) == self.ndim else index
        index = tuple((i.start, i.stop) if i.__class__ is slice else i for i in index)
        below = any(i.__class__ is int and i < 0 for i in index)
        text = ", ".join(
            str(i) if i.__class__ is int else ":".join("" if b is None else str(b) for b in i) for i in index
        )
        shape = self.shape[: self.last]
        extent = f"shape {shape}" if len(shape) != 1 else f"length {shape[0]}"
        raise Fault(
            "negative index" if below else "out of bounds",
            f"'{self.name}' of {extent} has no element [{text}]",
            self.name,
            index,
        )

    @property
    def name(self):
        """Return the memory's name for messages: a view's label, a parameter, or the variable that scratch
        was assigned to."""
        return self.root.label or ("scratch" if self.root.valid is None else "local")


class Memory:
    """The cells of one run, and their owners."""

    def __init__(self):
        self.top = ALIGN
        self.owners = []  # pairs of a first cell, ascending, and the views over the cells from there on
        self.undefined = []  # pairs of cells: memory unwritten at the beginning of the run

    def claim(self, n_bytes):
        """Return the first of new cells for `n_bytes` bytes."""
        first = self.top
        self.top += -(-max(n_bytes, 1) // ALIGN) * ALIGN
        return first

    def owner(self, cell):
        """Return (view, index) of a cell."""
        _, views = self.owners[bisect.bisect_right(self.owners, cell, key=lambda owners: owners[0]) - 1]
        found = ((view, view.index_of(cell)) for view in views)
        return next((pair for pair in found if pair[1] is not None), (views[0], None))

    def watch(self, arrays, run):
        """Return monitored views of the caller's arrays, (label, array) pairs; arrays that share memory share
        cells.
        """
        watched = [None] * len(arrays)
        for low, high, members in _memory_stretches([array for _, array in arrays]):
            first = self.claim(high - low + low % ALIGN) + low % ALIGN - low
            for k in members:
                label, array = arrays[k]
                watched[k] = Watched(array, run, first + address(array), label=label)
                self._find_unwritten(watched[k])
            self.owners.append((first + low, [watched[k] for k in members]))
        return watched

    def _find_unwritten(self, view):
        array = _without_repeats(view.array)
        if not array.size or array.itemsize < 4 and array.dtype != bool:  # too few bits for a mark
            return
        bits = array.view(f"u{array.itemsize}")
        mask = bits > 1 if array.dtype == bool else bits == bits.dtype.type(_MARK[array.itemsize])
        if mask.any():
            self.undefined.append(
                view.first + np.argwhere(mask) @ np.array(view.steps, np.int64).reshape(array.ndim)
            )


def _without_repeats(array):
    """Return an array with one index of each dimension that repeats the same elements."""
    return array[..., *(slice(None if step else 1) for step in array.strides)]


def in_parts(array):
    """Return the floats of complex numbers, rows of two, in the same memory."""
    parts = array.real
    shape, strides = (*array.shape, 2), (*array.strides, parts.itemsize)
    return np.lib.stride_tricks.as_strided(parts, shape, strides, writeable=array.flags.writeable)


def _bytes(array):
    """Return the lowest address of an array, and one past the highest."""
    low, high = reach(array.shape, array.strides, array.itemsize) if array.size else (0, 1)
    return address(array) + low, address(array) + high


def _memory_stretches(arrays):
    """Return [lowest address, one past the highest, numbers of the arrays] of each stretch of memory that
    some arrays share.
    """
    blocks = []
    for (low, high), k in sorted((_bytes(a), k) for k, a in enumerate(arrays)):
        if blocks and low < blocks[-1][1]:
            blocks[-1][1:] = max(blocks[-1][1], high), sorted([*blocks[-1][2], k])
        else:
            blocks.append([low, high, [k]])
    return blocks


def unwritten(shape, dtype):
    """Return a new array of unwritten memory."""
    array = np.empty(shape, dtype)
    mark_unwritten(array.reshape(-1).view(np.uint8))
    return array


def copies(arrays):
    """Return copies of arrays with the same strides and flags; arrays that share memory have copies that
    do so too."""
    result = [None] * len(arrays)
    for low, high, members in _memory_stretches(arrays):
        buffer = np.empty(high - low + ALIGN, np.uint8)
        shift = (low - address(buffer)) % ALIGN - low
        for k in members:
            array = arrays[k]
            copy = result[k] = np.ndarray(
                array.shape, array.dtype, buffer, shift + address(array), array.strides
            )
            _without_repeats(copy)[...] = _without_repeats(array)
            copy.flags.writeable = array.flags.writeable
    return result
