"""Write LLVM's metadata for disjoint views and for loops, which llvmlite does not support."""

from ..reading.tree import node

_FREE = 1_000_000  # first number of metadata, beyond those of llvmlite


@node
class Disjoint:
    """View that overlaps no other view of its launch; `pointer`: the load of its first element's address."""

    label: str
    pointer: object


class Metadata:
    """Line of metadata in a module."""

    def __init__(self, number, text):
        self.name, self.text = f"!{_FREE + number}", text

    def __str__(self):
        return f"{self.name} = {self.text.replace('!self', self.name)}"


def add_metadata(module, text):
    """Add a line of metadata to a module, in which `!self` is its own name; return the name."""
    number = len(module.globals)
    line = module.globals[f"metadata {number}"] = Metadata(number, text)
    return line.name


def range_below(module, end):
    """Return the metadata for a load of a number in [0, end)."""
    return f", !range {add_metadata(module, f'!{{i64 0, i64 {end}}}')}"


class Facts:
    """Record of the accesses to disjoint views while code is emitted."""

    def __init__(self):
        self.lines, self.written = [], set()

    def note(self, view, line):
        """Record a load or store of a view and return it."""
        if view.apart is not None and getattr(line, "opname", "") in ("load", "store"):
            self.lines.append((line, view.apart))
        return line

    def writes(self, view):
        """Record a store to a view, which may be any view if it is unknown."""
        if not view.store:
            self.written.add(view.apart)

    def write_to(self, module):
        """Append the metadata to the recorded lines: the scope of each, the other scopes, and that loads of
        unwritten views are invariant."""
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
