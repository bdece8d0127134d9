"""Define the typed tree of a source: all its operations, each subexpression once, in order of evaluation.

build.py builds the tree of a source's operations, typing.py solves for their dtypes and kinds, and machines
emit code from the tree (emit.py). Which operations, loops and inlined calls exist depends on constants, on
tuples and on the ranks of views, never on a solved dtype or kind: no node is made after building.

Only some of the lanes reach a SPLIT block. A variable that is assigned where a split lies between its home
and the assignment keeps the old value in the other lanes, and so varies between lanes.
"""

from __future__ import annotations

from ...language.types import PARTS, UNIFORM, Complex, Known, Number, Record, Vector


def node(cls):
    """Return a class with an attribute for each annotation, which its __init__ takes in that order. It acts
    like a dataclass, but takes a tenth of the time to create, which each process has to do. A default of
    `list` is a new list."""
    names, given = list(cls.__annotations__), vars(cls)
    takes = ", ".join(f"{name}=given[{name!r}]" if name in given else name for name in names)
    sets = "; ".join(
        f"self.{name} = {name}" + f" if {name} is not list else []" * (given.get(name) is list)
        for name in names
    )
    made = {"given": given}
    exec(f"def __init__(self, {takes}): {sets}", made)  # noqa: S102
    body = {name: value for name, value in given.items() if name not in (*names, "__dict__", "__weakref__")}
    return type(cls.__name__, cls.__bases__, body | {"__slots__": names, "__init__": made["__init__"]})


@node
class Operation(Number):
    """Operation on numbers, with a number or an effect as its result. typing.py has a rule for each `op`, and
    instructions.py emits it.

    attr : further parameters of the operation; view : the view that it reads or writes
    counts : the name under which counting builds count it, "" if it is not an operation of the source
    at : (Text, syntax node); line : "file:line" of the statement
    """

    op: str
    args: list = ()
    attr: object = None
    view: object = None
    dtype: str | None = None
    kind: str | None = None
    const: object = None
    step: int = 0
    aligned: bool = False
    counts: str = ""
    line: str = ""
    at: tuple | None = None


@node
class Seen:
    """Values of a source's variables at some place."""

    values: dict


class Shaped:
    """Object with a shape, extents of its dimensions."""

    __slots__ = ()

    @property
    def ndim(self):
        """Return the number of dimensions."""
        return len(self.shape)


@node
class View(Shaped):
    """View: an argument, a part of another, an array made here (`store` "(local)" or "(scratch)", with the
    variable's `name`), a "(table)" of the numbers `data`, or one of several `options`, selected by the number
    items[0]. A part without items is its base with reversed dimensions. `tile`: for a member's part of a
    team's tile, how the tile is distributed."""

    label: str
    dtype: str
    shape: list  # integers, or Operations whose result is an extent
    readonly: bool = False
    scatter: bool = False
    lanes_last: bool = False
    store: str = ""
    base: View | None = None
    items: list = ()  # for a part: Operations, and (lower, upper) of slices
    line: str = ""
    name: str = ""
    options: list = ()
    data: tuple = ()
    tile: tuple = ()

    @property
    def n_indices(self):
        """Return the number of indices of an element in memory; for complex numbers the part is the last
        index."""
        return self.ndim + (self.dtype in PARTS)

    def indices(self):
        """Return the indices at which this part and its bases begin."""
        if self.base is None:
            return list(self.items)
        own = [item for item in self.items if not isinstance(item, tuple)]
        for item, extent in zip(self.items, self.base.shape):
            start = item[0] if isinstance(item, tuple) else None
            if start is not None and not (isinstance(start.const, int) and start.const >= 0):
                own += [v for v in (start, extent) if isinstance(v, Operation)]  # it may count from the end
        return own + self.base.indices()


def one_of(label, items, options):
    """Return the view that is one of several, by the number items[0]."""
    view = View(label, options[0].dtype, [], options[0].readonly, items=items, options=options)
    rank = range(len(options[0].shape))
    view.shape = [Operation("extent", attr=(view, d), dtype="int", kind=UNIFORM) for d in rank]
    return view


@node
class Block:
    """Sequence of statements; `split`: only some of the lanes that reach the parent reach this block."""

    parent: Block | None = None
    body: list = list
    split: bool = False

    def parted_from(self, home):
        """Return True if a split lies between `home` and this place."""
        block = self
        while block is not home:
            if block is None or block.split:
                return True
            block = block.parent
        return False


@node
class Variable:
    """Variable that is assigned more than once; its dtype and kind join those of all its values. `call`: the
    Call whose result it is."""

    name: str
    call: Call | None = None
    dtype: str | None = None
    kind: str = UNIFORM


@node
class Set:
    """Assignment to a variable; `inner`: a split lies between the variable's home and the assignment."""

    variable: Variable
    value: Operation
    home: Block
    block: Block
    loop: Loop | None = None
    inner: bool = False
    line: str = ""
    at: tuple | None = None


@node
class If:
    """Branch; `heavy`: for each side, whether it costs more than a jump around it; `choice`: it is an
    expression's."""

    condition: Operation
    then: Block
    otherwise: Block | None
    heavy: tuple
    choice: bool = False
    line: str = ""


@node
class Loop:
    """Loop of the form "while", "range", "members" (of a team, over a range) or "trips" (unrolled, but lanes
    may leave it).

    breaks, exits, returns : whether its body breaks it; breaks or continues it; returns
    deciding : function that returns the names of variables on which the next iteration may depend
    varying : lanes leave it one by one, by its condition; varying_exit, varying_continue : by a break, return
        or continue
    writes : memory changes in it
    free : variables that an iteration changes for all active lanes together
    """

    form: str
    call: Call
    body: Block | None = None
    test: Block | None = None
    condition: Operation | None = None
    start: Operation | None = None
    stop: Operation | None = None
    step: int | Operation = 1
    counter: Operation | None = None
    trips: list = ()
    breaks: bool = False
    exits: bool = False
    returns: bool = False
    deciding: object = None
    writes: bool = False
    varying: bool = False
    varying_exit: bool = False
    varying_continue: bool = False
    free: list = ()
    line: str = ""
    at: tuple | None = None

    @property
    def masked(self):
        """Return True if lanes leave the loop one by one."""
        return self.varying or self.varying_exit

    def has_few_iterations(self):
        """Return True if the loop is known to have few iterations."""
        ends = [getattr(end, "const", None) for end in (self.start, self.stop)]
        least = abs(self.step) if isinstance(self.step, int) else 1
        return None not in ends and abs(int(ends[1]) - int(ends[0])) <= 1024 * least

    def innermost(self):
        """Return True if no iteration runs a loop of many iterations."""
        loops = (node for node in every(self.body.body) if node.__class__ is Loop)
        return all(loop.trips or loop.has_few_iterations() for loop in loops)


def every(nodes):
    """Yield nodes, and after each those that it runs."""
    for node in nodes:
        yield node
        for block in inside(node):
            yield from every(block.body)


def inside(node):
    """Return the blocks that a node runs."""
    if node.__class__ is If:
        return [block for block in (node.then, node.otherwise) if block]
    if node.__class__ is Loop:
        return [block for block in (node.test, node.body, *node.trips) if block]
    return [node.body] if node.__class__ is Call else ()


@node
class Leave:
    """Exit: break or continue of a Loop, or return of a Call; `valued`: of a Call with results, whose
    variables are assigned before."""

    how: str
    target: object
    block: Block
    valued: bool = False
    loops: list = ()
    together: bool = True
    line: str = ""


@node
class Rejoin:
    """Mark after statements in which lanes may have left the loop's iteration (or, outside of loops, the
    call)."""

    call: Call
    loop: Loop | None
    block: Block
    line: str = ""


@node
class Call:
    """Source inlined at one place: the kernel, or a function.

    `outputs` : the numbers that represent its results in later operations
    """

    text: object
    body: Block
    inputs: list = ()
    outputs: list = ()
    n_results: int = 0
    varying_return: bool = False
    line: str = ""


@node
class Tree:
    """Tree of a source for arguments of known types. `scalar`: the reason why packs do not pay; `chain`: it
    calls a function that is one long chain."""

    text: object
    inputs: list
    root: Block
    result: object = None
    scalar: str | None = None
    chain: bool = False


def flat(values):
    """Return a list of the numbers in a number or a tuple of (tuples of) numbers."""
    return [n for v in values for n in flat(v)] if isinstance(values, tuple) else [values]


def plain_tuple(value):
    """Return True for a tuple other than a complex number."""
    return isinstance(value, tuple) and not isinstance(value, Complex)


def described_number(value):
    """Return the description of a number, or of a tuple of them, that `typing.typed` takes."""
    if isinstance(value, tuple):
        return "tuple", getattr(value, "names", ()), *map(described_number, value)
    if value.__class__ is Known:
        return "known", value
    if value.const is not None:
        return "constant", value.dtype, repr(value.const), value.const
    return "number", value.dtype, value.kind, value.step, value.aligned


def describe(v):
    if isinstance(v, View):
        return f"a view of {v.ndim} dimension(s) ('{v.label}')"
    if isinstance(v, Complex):
        return "a complex number"
    if isinstance(v, Vector):
        return f"a vector of {len(v)}"
    if isinstance(v, tuple):
        return f"a record of {', '.join(v.names)}" if getattr(v, "names", ()) else f"a tuple of {len(v)}"
    if isinstance(v, Operation):
        return "a number"
    if isinstance(v, Known):
        return f"{v.value!r:.60}"
    return repr(v)


def arrangement(values):
    """Return the arrangement of numbers in a value: None for a number, a tuple for a tuple."""
    return mapped(lambda _: None, values)


def equal_arrangements(a, b):
    """Return True if two arrangements are equal; a complex number differs from a tuple of two."""
    return a == b and a.__class__ is b.__class__ and (a is None or all(map(equal_arrangements, a, b)))


def arranged(like, numbers):
    """Return the numbers of an iterator in the arrangement `like`."""
    return mapped(lambda _: next(numbers), like)


def mapped(change, values):
    """Apply `change` to a number, or to each number in a tuple of (tuples of) numbers, and return the
    result."""
    if isinstance(values, tuple):
        return Record((mapped(change, v) for v in values), getattr(values, "names", ()))
    return change(values)
