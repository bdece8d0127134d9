"""The identity of a peer, by its source and its libraries' versions. Only ratios to the same peer compare."""

from __future__ import annotations

import ast
import hashlib
import sys
from importlib import metadata
from pathlib import Path

PEERS = Path(__file__).parents[1] / "peers"
OWN = ("roofline", "portable", "models")


def identity_of(name: str, folder: Path = PEERS) -> dict:
    """Return the identity of a peer: {"source": hash, "versions": {library: version}}.

    Parameters
    ----------
    name : str
        A file of `portable.roofline.peers`, without its ending; the identity includes the files of that
        folder which it imports. Empty for the layer itself, which is the same on both sides.
    folder : Path
    """
    if not name:
        return {"source": "", "versions": {}}
    texts, libraries, wanted, seen = [], set(), [name], set()
    while wanted:
        file = wanted.pop()
        if file in seen:
            continue
        seen.add(file)
        text, imported = _read(folder / f"{file}.py")
        texts.append(text)
        libraries |= {module.split(".")[0] for module in imported} - set(OWN) - sys.stdlib_module_names
        wanted += sorted(
            part
            for module in imported
            if module.startswith("portable.roofline.peers")
            for part in module.split(".")[3:4]
        )
    if len(libraries) > 1:
        libraries.discard("numpy")  # imported by all; a peer written in NumPy imports nothing else
    return {
        "source": hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16],
        "versions": {library: _version(library) for library in sorted(libraries)},
    }


def _read(path):
    """Return the code lines of a file, and the modules it imports: without its docstring and without imports
    of this project, which change when files move."""
    text = path.read_text(encoding="utf-8")
    tree, left_out, imported = ast.parse(text), set(), []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            names = [base] + [f"{base}.{alias.name}" for alias in node.names] * (
                base == "portable.roofline.peers"
            )
        else:
            continue
        imported += names
        if names[0].split(".")[0] in OWN:
            left_out |= set(range(node.lineno, node.end_lineno + 1))
    if ast.get_docstring(tree) is not None:
        left_out |= set(range(1, tree.body[0].end_lineno + 1))
    lines = enumerate(text.splitlines(), 1)
    return "\n".join(line.rstrip() for n, line in lines if n not in left_out and line.strip()), imported


def _version(library):
    """Return the versions of the packages that provide a module."""
    found = metadata.packages_distributions().get(library, [])
    return ", ".join(f"{name} {metadata.version(name)}" for name in sorted(set(found))) or "unknown"
