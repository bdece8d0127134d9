"""A typed tree as a text that people read: `print(pk.explain(...).tree)`."""

from __future__ import annotations

from .tree import Loop, Operation, View
from ...language.types import named

_MARKS = ("varying", "varying_exit", "varying_continue", "writes")


def shown(tree):
    """One line for each operation, "%3: float64 varying = binary + %1, x" , and for each statement; blocks
    are indented."""
    writer = _Shown()
    for name, node in zip(tree.text.params, tree.inputs):
        writer.name(node, name)
    writer.block(tree.root, 0)
    return "\n".join(writer.lines)


class _Shown:
    def __init__(self):
        self.names, self.lines = {}, []

    def name(self, node, name):
        if isinstance(node, tuple):
            for part, own in zip(node, named(name, len(node), node.names)):
                self.name(part, own)
        else:
            self.names[node] = name

    def of(self, node):
        """A number, a view or an index by its name."""
        if isinstance(node, tuple):
            return ":".join("" if bound is None else self.of(bound) for bound in node)
        if isinstance(node, Operation) and node.op == "const":
            return repr(node.const)
        if isinstance(node, Operation) and node.op == "extent":
            return f"{self.of(node.attr[0])}.shape[{node.attr[1]}]"
        return self.names.setdefault(node, f"%{len(self.names)}")

    def put(self, depth, text):
        self.lines.append("  " * depth + text)

    def block(self, block, depth):
        for node in block.body:
            getattr(self, f"put_{node.__class__.__name__.lower()}")(node, depth)

    def put_operation(self, o, depth):
        what = getattr(o.attr, "name", o.attr) if not isinstance(o.attr, (Loop, View, type(None))) else ""
        words = [o.op, str(what), self.of(o.view) if o.view else "", ", ".join(map(self.of, o.args))]
        typed = f"{self.of(o)}: {o.dtype} {o.kind} = " if o.dtype else ""
        self.put(depth, typed + " ".join(filter(None, words)))
        for block, result in o.parts:
            self.put(depth + 1, "where needed:")
            self.block(block, depth + 2)
            self.put(depth + 2, f"gives {self.of(result)}")

    def put_view(self, v, depth):
        made = f"{self.of(v.base)}[{', '.join(map(self.of, v.items))}]" if v.base else v.label
        self.put(depth, f"{self.of(v)}: {v.dtype} view = {made}")

    def put_set(self, s, depth):
        v = s.variable
        self.put(depth, f"{v.name}: {v.dtype} {v.kind} := {self.of(s.value)}{' in some lanes' * s.inner}")

    def put_if(self, s, depth):
        self.put(depth, f"if {self.of(s.condition)}{', in some lanes' * s.then.split}:")
        self.block(s.then, depth + 1)
        if s.otherwise:
            self.put(depth, "else:")
            self.block(s.otherwise, depth + 1)

    def put_loop(self, s, depth):
        bounds = (
            f" {self.of(s.counter)} in {self.of(s.start)}, {self.of(s.stop)},"
            f" {s.step if isinstance(s.step, int) else self.of(s.step)}"
            if s.counter
            else ""
        )
        marks = ", ".join(mark.replace("_", " ") for mark in _MARKS if getattr(s, mark))
        self.put(depth, f"loop {s.form}{bounds}{f' [{marks}]' * bool(marks)}:")
        if s.test:
            self.block(s.test, depth + 1)
            self.put(depth + 1, f"while {self.of(s.condition)}")
        for trip in s.trips or (s.body,):
            self.block(trip, depth + 1)

    def put_leave(self, s, depth):
        for assignment in s.results:
            self.put_set(assignment, depth)
        self.put(depth, s.how + "" if s.together else f"{s.how} in some lanes")

    def put_rejoin(self, s, depth):
        """Masks alone."""

    def put_call(self, s, depth):
        self.put(depth, f"{s.text.name}({', '.join(map(self.of, s.inputs))}):")
        for assignment in s.setup:
            self.put_set(assignment, depth + 1)
        self.block(s.body, depth + 1)
