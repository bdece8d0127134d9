"""Watch the emission of code: debug and counting builds."""


class Watch:
    """Looks on at nothing: the usual build. Others (watch/) add code of their own at these calls.

    Attributes
    ----------
    branches : an operand that a condition rules out is branched around, also where a select would do
    visiting : the kernel is being emitted at an index
    sites, fault_bytes : of a debug build: what its faults mean; bytes of a fault in each launch
    """

    branches, visiting, pairs, sites, fault_bytes, identity = False, False, True, None, 0, ""

    def begin(self, ops):
        """A function begins at the builder of `ops`."""

    def opened(self, code, function):
        """The arguments of one of an entry's functions are there."""

    def done(self, code):
        """All code of an entry is emitted, but for the end of its last function."""

    def at(self, ops, line):
        """The statement of a line of the text comes next."""

    def own(self, here, name, text, args, float_dtype):
        """Give what stands for a text of the layer's own; None: its code."""

    def call(self, here, node):
        """Return True if something else stands for a call, whose results are known then."""
        return False

    def loop(self, here, loop, test):
        """Give the test of a loop, called with the place of its trips."""
        return test

    def access(self, here, view, indices, ways, locate):
        """Give what `locate()` gives, how and where an element is reached. `ways`: 1 to load, 2 to store, 3
        of an atomic."""
        return locate()

    def index(self, here, view, k, v):
        """Give the index of a part of a view."""
        return v

    def divide(self, here, op, x, y, dtype, known):
        """A division or shift of x by y comes next; `known`: the Python number that y is, or None."""

    def operation(self, here, o, args, emit):
        """Give what `emit` gives for an operation of the text."""
        return emit(here, o, *args)

    def read(self, here, place, load):
        """Give what a variable's place holds, as `load()` does."""
        return load()

    def stored(self, here, place, x):
        """A variable's place holds x from here on."""

    def scratch(self, here, view, made, before):
        """An array of scratch was made behind so many bytes."""
