"""Entry functions on the CPU before any code is emitted."""

import ast

from ...compiler.writing.entry import Entry
from ...compiler.reading.team import TeamHandle
from ...compiler.reading.tree import If, Leave, Loop, Set, View, every
from ...language.types import VARYING
from . import engine


class Cores:
    """The cores of this machine, for entries.

    Parameters
    ----------
    lanes : int, a fixed number of lanes of a pack
    scans : bool, True to emit the launcher of scans, False to treat scans as reductions
    options : keyword arguments of `lower.text`
    """

    step = 1

    def __init__(self, lanes=None, scans=True, **options):
        self.n_lanes, self.scans, self.options, self.chained = lanes, scans, options, lanes or 16

    def lanes(self, entry):
        packed = entry.kernel.packed
        return self.n_lanes or (entry.signature.width if packed is True else packed or 1)

    @staticmethod
    def team_facts(width):
        return TeamHandle, width, engine.pack_registers(), width

    def text(self, entry):
        from . import lower, scan

        scans = self.scans and "scan" in entry.policy_kind
        return lower.text(entry, (scan if scans else lower).launcher, **self.options)


def entry_of(kernel, policy_kind, specs, reducers=(), watch=None, **options):
    """Return the entry of a kernel for the cores of this machine; `options`: see Cores."""
    entry = Entry(Cores(**options), kernel, policy_kind, specs, reducers, watch)
    entry.light = not any(
        isinstance(node, (ast.If, ast.IfExp, ast.Call)) for node in kernel.portable_text.nodes
    )
    entry.in_turn = "scan" in policy_kind and _in_turn(entry)
    if "box" in policy_kind and entry.has_loops and not (reducers or watch):
        entry.rows = _rows_together(entry)
    return entry


def _rows_together(entry):
    """Return the number of a box's rows that are processed together: several if its loops have one length in
    all rows, sums that fit into registers, and loads that all rows share, or none. The sums then do not wait
    for each other, and what the rows share is loaded once.
    """
    # what differs between rows is varying here
    nodes = list(every(entry.typed_for(entry.width, VARYING).root.body))
    inner = [node for loop in nodes if loop.__class__ is Loop for node in every([loop])]
    own = [VARYING in [i.kind for i in node.args] for node in inner if getattr(node, "op", "") == "load"]
    sums = {node.variable for node in inner if node.__class__ is Set}
    differs = (node.__class__ in (If, Leave, View) or getattr(node, "masked", False) for node in nodes)
    # LLVM gets each node as many times as there are rows
    if any(differs) or len(nodes) > 64 or own and all(own) or not sums:
        return 1
    return engine.pack_registers() // 4 // len(sums) or 1


def _in_turn(entry):
    """Return True if a scan processes elements in sequence, several blocks side by side: combining a state of
    two numbers without a call takes less time than passing it from lane to lane.
    """
    calls = any(isinstance(node, ast.Call) for node in entry.reducers[0].combine.portable_text.nodes)
    return entry.state_words == 2 and not (entry.has_loops or calls)
