"""Write LLVM's metadata for views that overlap nothing, and for loops: llvmlite has no words for them."""

from __future__ import annotations

from ..reading.tree import node

_FREE = 1_000_000  # from here on numbers of metadata are not llvmlite's


@node
class Disjoint:
    """A view that overlaps no other one of its launch, and where its first element's address was loaded."""

    label: str
    pointer: object


class Metadata:
    """A line of a module."""

    def __init__(self, number, text):
        self.name, self.text = f"!{_FREE + number}", text

    def __str__(self):
        return f"{self.name} = {self.text.replace('!self', self.name)}"


def add_metadata(module, text):
    """Add a line to a module, in which `!self` is its own name; returns the name."""
    number = len(module.globals)
    line = module.globals[f"metadata {number}"] = Metadata(number, text)
    return line.name


def range_below(module, end):
    """Return the metadata of a load of a number of [0, end)."""
    return f", !range {add_metadata(module, f'!{{i64 0, i64 {end}}}')}"


class Facts:
    """The accesses to such views while code is emitted."""

    def __init__(self):
        self.lines, self.written = [], set()

    def note(self, view, line):
        """Note a load or store of a view; returns it."""
        if view.apart is not None and getattr(line, "opname", "") in ("load", "store"):
            self.lines.append((line, view.apart))
        return line

    def writes(self, view):
        """Note that a view, which may be any where it is not known, is written."""
        if not view.store:
            self.written.add(view.apart)

    def tell(self, module):
        """Write what is known behind the lines: which scope is theirs, which others are not, and that what is
        not written may be loaded at any time."""
        views = list(dict.fromkeys(view for _, view in self.lines))
        if not views:
            return
        domain, nothing = add_metadata(module, "distinct !{!self}"), add_metadata(module, "!{}")
        aligned = add_metadata(module, "!{i64 16}")
        scopes = {view: add_metadata(module, f"distinct !{{!self, {domain}}}") for view in views}
        lists = {}
        for view in views:
            view.pointer.text += f", !align {aligned}"
            own = add_metadata(module, f"!{{{scopes[view]}}}")
            others = add_metadata(module, f"!{{{', '.join(scopes[v] for v in views if v is not view)}}}")
            lists[view] = f", !alias.scope {own}, !noalias {others}"
        for line, view in self.lines:
            line.text += lists[view]
            if line.opname == "load" and not {view, None} & self.written:
                line.text += f", !invariant.load {nothing}"
