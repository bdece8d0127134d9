"""A typed tree as readable text: `print(pk.explain(...).tree)`."""

from ..core.compiler.reading.tree import Block, Call, If, Leave, Loop, Operation, Rejoin, Set, View
from ..core.language.types import named

_MARKS = ("varying", "varying_exit", "varying_continue", "writes")


def printed_tree(tree):
    """Return one line for each operation, "%3: float64 varying = binary + %1, x" , and for each statement;
    blocks are indented."""
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

    def name_of(self, node):
        """Return a number, a view or an index by its name."""
        if isinstance(node, tuple):
            return ":".join("" if bound is None else self.name_of(bound) for bound in node)
        if isinstance(node, Operation) and node.op == "const":
            return repr(node.const)
        if isinstance(node, Operation) and node.op == "extent":
            return f"{self.name_of(node.attr[0])}.shape[{node.attr[1]}]"
        return self.names.setdefault(node, f"%{len(self.names)}")

    def block(self, block, depth):
        for node in block.body:
            for deeper, part in _PARTS[node.__class__](self.name_of, node):
                if isinstance(part, Block):
                    self.block(part, depth + deeper)
                else:
                    self.lines.append("  " * (depth + deeper) + part)


# ---- display of a node: lines and blocks, with their indentation relative to it
def _operation(of, o):
    what = getattr(o.attr, "name", o.attr) if not isinstance(o.attr, (Loop, View, type(None))) else ""
    words = [o.op, str(what), of(o.view) if o.view else "", ", ".join(map(of, o.args))]
    typed = f"{of(o)}: {o.dtype} {o.kind} = " if o.dtype else ""
    yield 0, typed + " ".join(filter(None, words))
    for block, result in o.parts:
        yield 1, "where needed:"
        yield 2, block
        yield 2, f"gives {of(result)}"


def _view(of, v):
    made = f"{of(v.base)}[{', '.join(map(of, v.items))}]" if v.base else v.label
    yield 0, f"{of(v)}: {v.dtype} view = {made}"


def _set(of, s, deeper=0):
    v = s.variable
    yield deeper, f"{v.name}: {v.dtype} {v.kind} := {of(s.value)}{' in some lanes' * s.inner}"


def _if(of, s):
    yield 0, f"if {of(s.condition)}{', in some lanes' * s.then.split}:"
    yield 1, s.then
    if s.otherwise:
        yield 0, "else:"
        yield 1, s.otherwise


def _loop(of, s):
    step = s.step if isinstance(s.step, int) else of(s.step)
    bounds = f" {of(s.counter)} in {of(s.start)}, {of(s.stop)}, {step}" if s.counter else ""
    marks = ", ".join(mark.replace("_", " ") for mark in _MARKS if getattr(s, mark))
    yield 0, f"loop {s.form}{bounds}{f' [{marks}]' * bool(marks)}:"
    if s.test:
        yield 1, s.test
        yield 1, f"while {of(s.condition)}"
    for trip in s.trips or (s.body,):
        yield 1, trip


def _leave(of, s):
    for assignment in s.results:
        yield from _set(of, assignment)
    yield 0, s.how if s.together else f"{s.how} in some lanes"


def _call(of, s):
    yield 0, f"{s.text.name}({', '.join(map(of, s.inputs))}):"
    for assignment in s.setup:
        yield from _set(of, assignment, 1)
    yield 1, s.body


_PARTS = {
    Operation: _operation,
    View: _view,
    Set: _set,
    If: _if,
    Loop: _loop,
    Leave: _leave,
    Call: _call,
    Rejoin: lambda of, s: (),  # only masks
}
