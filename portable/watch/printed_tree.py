"""A typed tree as readable text: `print(pk.explain(...).tree)`."""

from ..core.compiler.reading.tree import Call, If, Leave, Loop, Operation, Rejoin, Set, View, inside
from ..core.language.types import named

_MARKS = ("varying", "varying_exit", "varying_continue", "writes")


def printed_tree(tree):
    """Return one line for each operation, "%3: float64 varying = binary + %1, x" , and for each statement;
    blocks are indented."""
    shown = _Shown()
    for name, node in zip(tree.text.params, tree.inputs):
        shown.name(node, name)
    return "\n".join(shown.lines(tree.root))


class _Shown:
    def __init__(self):
        self.names = {}

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

    def lines(self, block):
        """Yield the lines of a block, those of blocks inside indented."""
        for node in block.body:
            yield from _LINES[node.__class__](self.name_of, node)
            for k, part in enumerate(inside(node)):
                yield from ["then:" if isinstance(node, Loop) else "else:"][: k > 0]
                yield from map("  {}".format, self.lines(part))


# ---- display of a node: lines before those of the blocks that it runs
def _operation(of, o):
    what = getattr(o.attr, "name", o.attr) if not isinstance(o.attr, (Loop, View, type(None))) else ""
    words = [o.op, str(what), of(o.view) if o.view else "", ", ".join(map(of, o.args))]
    yield (f"{of(o)}: {o.dtype} {o.kind} = " if o.dtype else "") + " ".join(filter(None, words))


def _view(of, v):
    made = f"{of(v.base)}[{', '.join(map(of, v.items))}]" if v.base else v.label
    yield f"{of(v)}: {v.dtype} view = {made}"


def _set(of, s):
    v = s.variable
    yield f"{v.name}: {v.dtype} {v.kind} := {of(s.value)}{' in some lanes' * s.inner}"


def _if(of, s):
    yield f"if {of(s.condition)}{', in some lanes' * s.then.split}:"


def _loop(of, s):
    step = s.step if isinstance(s.step, int) else of(s.step)
    bounds = f" {of(s.counter)} in {of(s.start)}, {of(s.stop)}, {step}" if s.counter else ""
    bounds = f" {of(s.condition)}" if s.test else bounds
    marks = ", ".join(mark.replace("_", " ") for mark in _MARKS if getattr(s, mark))
    yield f"loop {s.form}{bounds}{f' [{marks}]' * bool(marks)}:"


def _leave(of, s):
    yield s.how if s.together else f"{s.how} in some lanes"


def _call(of, s):
    yield f"{s.text.name}({', '.join(map(of, s.inputs))}):"


_LINES = {
    Operation: _operation,
    View: _view,
    Set: _set,
    If: _if,
    Loop: _loop,
    Leave: _leave,
    Call: _call,
    Rejoin: lambda of, s: (),  # only masks
}
