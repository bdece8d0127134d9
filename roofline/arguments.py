"""The arguments of a launch that is counted: copied to the host, and restored afterwards."""

import contextlib

import numpy as np

import portable as pk


class Data:
    """Store a launch's arguments on the host, and restore them afterwards; a device's only if `again`.

    `with_room` surrounds the copies with zeros: if a host's teams have fewer members than those for which a
    device's arrays were sized, a kernel may reach beyond them.
    """

    def __init__(self, args, again, with_room=False):
        self.again, self.with_room = again, with_room
        self.notes, self.saved, self._copies, self._spans, self._views = [], [], {}, [], []
        self.args = tuple(map(self._host, args))

    def _host(self, a):
        if isinstance(a, tuple):
            items = map(self._host, a)
            return a._make(items) if hasattr(a, "_make") else tuple(items)
        a = a.view if isinstance(a, pk.ScatterView) else a
        if isinstance(a, pk.View) and a.memory != "host":
            return self._copied(a)
        if isinstance(a, (pk.View, np.ndarray)):
            array = np.asarray(a)
            if array.flags.writeable:
                self.saved.append((array, array.copy()))
        return a

    def _copied(self, view):
        """Return a host copy of a device's view; equal views share a copy, other overlaps are lost."""
        key = view.pointer, view.shape, view.strides, view.dtype.name
        if key not in self._copies:
            begin, end = view.pointer, view.pointer + max(view.nbytes, 1)
            if any(begin < other_end and other < end for other, other_end in self._spans):
                self.notes.append(
                    "arguments overlap in the device's memory; they were counted as if they did not"
                )
            self._spans.append((begin, end))
            self._copies[key] = _with_room(view.to_numpy()) if self.with_room else view.to_numpy()
            if self.again:
                self.saved.append((self._copies[key], self._copies[key].copy()))
                self._views.append((view, self.saved[-1][1]))
        return self._copies[key]

    @contextlib.contextmanager
    def on_device(self):
        """Restore the contents of the device's views after the block."""
        try:
            yield
        finally:
            for view, content in self._views:
                if not view.readonly:
                    pk.deep_copy(view, content)

    def restore(self):
        for array, content in self.saved:
            array[...] = content

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.restore()


def _with_room(array):
    """Return the array with as many zeros before and behind it; untouched pages of them cost nothing."""
    room = np.zeros(3 * array.size, array.dtype)
    room[array.size : 2 * array.size] = array.reshape(-1)
    return room[array.size : 2 * array.size].reshape(array.shape)
