"""Define the state of the sources, calls and loops that are open while code is emitted."""

from ..reading.tree import node


class Scope:
    """Values of a source's nodes so far, slots of its variables with the likely difference between lanes, and
    its team."""

    def __init__(self, team=None):
        self.values, self.slots, self.likely, self.team = {}, {}, {}, team


class OpenCall:
    """Call being emitted: its nesting depth, its exit block, and a slot for the mask of the lanes that have
    not returned."""

    def __init__(self, depth):
        self.depth, self.exit_block, self.active = depth, None, None


@node
class OpenLoop:
    """Loop being emitted. `live`: mask of the lanes still in the loop; `current`: of those still in this
    iteration (slots, packs only).

    For a masked loop also `free`: slots of variables private to the loop, where lanes that have left hold
    arbitrary values, so that the condition of the next iteration does not wait for masks; `entry`: the block
    before the first iteration; `first`, `trip`: the masks of the first and of the current iteration;
    `before`: the blocks that existed when the loop began.
    """

    node: object
    next_block: object = None
    exit_block: object = None
    live: object = None
    current: object = None
    entry: object = None
    first: object = None
    trip: object = None
    before: set = ()
    free: dict = ()
