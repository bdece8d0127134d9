"""Keep the sources, calls and loops that are open while code is emitted."""

from __future__ import annotations

from ..reading.tree import node


class Scope:
    """Values of a source's nodes so far, places of its variables; its team."""

    def __init__(self, team=None):
        self.values, self.slots, self.team = {}, {}, team


class OpenCall:
    """A call being emitted: how many it stands in, where it ends, and the lanes that have not returned (a
    slot)."""

    def __init__(self, depth):
        self.depth, self.exit_block, self.active = depth, None, None


@node
class OpenLoop:
    """A loop being emitted. `live`: lanes that still loop; `current`: those still in this trip (slots, packs
    only).

    Of a masked loop also `free`: places of variables as the loop alone sees them, where lanes that have left
    hold anything, so that what decides about the next trip does not wait for masks; `entry`: the block before
    the first trip; `first`, `trip`: the masks of the first trip and of this one; `before`: the blocks that
    were there when it began.
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
