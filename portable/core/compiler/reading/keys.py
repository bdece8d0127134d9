"""Compute the keys of code on disk: hashes of all inputs of the code, which take little time since no code is
emitted."""

import functools
import hashlib
import os

import llvmlite

from ... import cache
from ...language.reducer import Reducer
from .tree import Block, Call, If, Leave, Loop, Operation, Rejoin, Set, Variable, View, described_number
from .typing import typed

_PLAIN = {str, int, float, bool, type(None)}
_NOT_KEYED = ("line", "at", "text", "name", "deciding")  # places in files, and names of variables
_NODES = {
    node: [name for name in node.__slots__ if name not in _NOT_KEYED]
    for node in (Operation, View, Block, Variable, Set, If, Loop, Leave, Rejoin, Call)
}


@functools.cache
def sources():
    """Return the version of LLVM and a hash of the files that determine the code of a typed tree."""
    try:
        paths = cache.files(
            "core/compiler", "core/language", "core/machines", "core/texts", "library/texts", "watch"
        )
    except OSError:
        return llvmlite.__version__ + _archived()
    found = hashlib.sha256()
    for path in paths:
        file = os.open(path, os.O_RDONLY)  # by os.open, since each process reads them all
        found.update(os.read(file, 1 << 20))
        os.close(file)
    return llvmlite.__version__ + found.hexdigest()


def _archived():
    """Return a hash of the layer's files in the archive that it was imported from."""
    from importlib.resources import files

    folders, found = [files(__package__.partition(".")[0])], hashlib.sha256()
    for folder in folders:
        for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
            if entry.is_dir():
                folders.append(entry)
            elif entry.name.endswith((".py", ".pyc")):
                found.update(entry.read_bytes())
    return found.hexdigest()


def written(tree, float_dtype):
    """Return a tree as a string, with nodes numbered by first appearance and the trees of the reducers
    included."""
    writer = _Writer(float_dtype)
    writer.add((tree.inputs, tree.root, tree.result))
    return "".join(writer.parts)


class _Writer:
    def __init__(self, float_dtype):
        self.float_dtype, self.numbers, self.parts = float_dtype, {}, []
        self.put = self.parts.append

    def add(self, value):
        if value.__class__ in _PLAIN:
            self.put(f"{value!r} ")
        elif value.__class__ in _NODES:
            self.node(value)
        elif isinstance(value, (list, tuple)):
            self.put("(")
            for v in value:
                self.add(v)
            self.put(")")
        elif not isinstance(value, Reducer):
            self.put(f"{value!r} ")

    def node(self, node):
        if node in self.numbers:
            self.put(f"%{self.numbers[node]} ")
            return
        self.numbers[node] = len(self.numbers)
        self.put(f"{node.__class__.__name__}{{")
        for name in _NODES[node.__class__]:
            self.add(getattr(node, name))
        if node.__class__ is Operation and isinstance(node.attr, Reducer):
            state = tuple(map(described_number, node.args))
            state = state[0] if len(state) == 1 else ("tuple", (), *state)
            tree = typed(
                node.attr.combine.portable_text, (state, state), 1, 1, self.float_dtype, node.attr.name
            )
            self.add((node.attr.identity(node.args[0].dtype), tree.inputs, tree.root, tree.result))
        self.put("}")
