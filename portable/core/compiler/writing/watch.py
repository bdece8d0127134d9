"""Define the observer of emission, for debug and counting builds."""


class Watch:
    """Observer without effect, for the usual build. Others (watch/) add code at these calls.

    Attributes
    ----------
    visiting : the kernel is being emitted at an index
    sites, fault_bytes : for a debug build: the meanings of its faults; bytes of a fault in each launch
    """

    visiting, pairs, sites, fault_bytes = False, True, None, 0

    def begin(self, ops):
        """Observe the beginning of a function at the builder of `ops`."""

    def opened(self, code, function):
        """Observe that the arguments of one of an entry's functions are loaded."""

    def done(self, code):
        """Observe that all code of an entry is emitted, except the end of its last function."""

    def begin_statement(self, ops, line):
        """Observe that the statement of a source line comes next."""

    def replace_function(self, here, name, text, args, float_dtype):
        """Return a replacement for the result of one of the layer's own functions; None to emit its code."""

    def call(self, here, node):
        """Return True if a call is replaced, and its results are already known."""
        return False

    def loop(self, here, loop, test):
        """Return the test of a loop, a function of the place of its iterations."""
        return test

    def access(self, here, view, indices, ways, locate):
        """Return the result of `locate()`, an element's access pattern and address. `ways`: 1 for a load, 2
        for a store, 3 for an atomic."""
        return locate()

    def index(self, here, view, k, v):
        """Return the index of a part of a view."""
        return v

    def divide(self, here, op, x, y, dtype, known):
        """Observe that a division or shift of x by y comes next; `known`: the Python number of y, or None."""

    def operation(self, here, o, args, emit):
        """Return the result of `emit` for an operation of the source."""
        return emit(here, o, *args)

    def scratch(self, here, view, made, before):
        """Observe that an array of scratch was allocated after `before` bytes."""
