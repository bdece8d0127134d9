"""The reference: every public name of the layer, the methods and roofline, in groups; a page each is made of
its docstrings."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

GROUPS = {
    "Kernels": "kernel function derivative Kernel Function Team ArrayLike Number SpaceLike",
    "Launches": "parallel_for parallel_reduce parallel_scan adjoint plan capture fence stamp listening",
    "Policies": "RangePolicy MDRangePolicy TeamPolicy scratch_bytes AUTO",
    "Reducers": "Reducer Sum Prod Min Max MinLoc MaxLoc LogSumExp ScatterView",
    "Views and copies": "View zeros empty asview copy_of deep_copy create_mirror create_mirror_view pinned",
    "Spaces": (
        "Space Threads Cuda use default_space instances concurrency queued follow unavailable_because"
        " register numba"
    ),
    "Sorting, selecting, ragged rows": (
        "argsort sort_by_key top_k compact unique bincount searchsorted segmented_reduce "
        "segmented_scan segmented_sort"
    ),
    "What became of a kernel": "check Report explain listing count",
}
METHODS = {
    "hawkes": "Hawkes processes",
    "tmap": "Transient Markovian arrival processes",
    "edm": "Empirical dynamic modelling",
    "resampling": "Resampling, filters, state-space models",
    "mixture": "Gaussian mixtures",
}


def groups():
    """Return the public names of portable by group: title -> names; each is in one group."""
    import portable
    from portable.core.language.words import NAMES

    found = {title: names.split() for title, names in GROUPS.items()}
    texts = (
        n for n in portable.__all__ if _module(getattr(portable, n)).startswith("portable.library.texts")
    )
    found["Words of kernels"] = sorted({*NAMES, *texts})
    found["Errors"] = sorted(
        n
        for n in portable.__all__
        if inspect.isclass(getattr(portable, n)) and issubclass(getattr(portable, n), Exception)
    )
    return found


def _module(value):
    return getattr(value, "__module__", None) or ""


SEVERAL = 10  # names on one page at most; where a group has more, each has a page of its own


def pages():
    """Return the text of each page by the name of its file: Markdown with reStructuredText for docstrings."""
    made, listed = {}, [(_file(title), title, "portable", names) for title, names in groups().items()]
    listed += [
        (name, title, f"portable.{name}", _public(f"portable.{name}"))
        for name, title in (("random", "Random numbers"), ("testing", "Testing"))
    ]
    for name, title in METHODS.items():
        package = f"portable.models.{name}"
        listed.append((f"models-{name}", f"{title}: {package}", package, _public(package)))
    listed.append(("roofline", "roofline", "portable.roofline", _public("portable.roofline")))
    for file, title, package, names in listed:
        made |= _group(file, title, package, names)
    links = "\n".join(file for file, *_ in listed)
    made["index"] = (
        "# Reference\n\nEvery public name, with shapes, units, errors and"
        f" sources.\n\n```{{toctree}}\n:maxdepth: 1\n\n{links}\n```\n"
    )
    return made


def write(folder: Path):
    """Write the pages; files that stay the same are left alone, so that a site is built again fast."""
    folder.mkdir(exist_ok=True)
    for name, text in pages().items():
        path = folder / f"{name}.md"
        path.parent.mkdir(exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def _file(title):
    return title.lower().replace(",", "").replace(" ", "-")


def _public(package):
    module = importlib.import_module(package)
    own = [
        n
        for n, v in vars(module).items()
        if not n.startswith("_") and getattr(v, "__module__", None) == package
    ]
    return sorted(getattr(module, "__all__", own))


def _group(file, title, package, names):
    """Return the pages of a group: one, or an index and a page for each of many names."""
    lines = [f"# {title}", ""]
    if package != "portable":  # a docstring is Markdown where its equations are indented
        text = inspect.getdoc(importlib.import_module(package))
        lines += [re.sub(r"\n(\w+)\n-+\n", r"\n**\1**\n\n", text), ""]
    if len(names) <= SEVERAL:
        return {file: "\n".join([*lines, *_described(package, names)])}
    own = {name: f"{file}/{_page_of(package, name)}" for name in names}
    lines += ["| | |", "|---|---|"]
    lines += [f"| [{name}]({page}.md) | {_first_sentence(package, name)} |" for name, page in own.items()]
    lines += [
        "",
        "```{toctree}",
        ":hidden:",
        "",
        *(f"{name} <{page}>" for name, page in own.items()),
        "```",
        "",
    ]
    return {file: "\n".join(lines)} | {
        page: "\n".join([f"# {package}.{name}", "", *_described(package, [name])])
        for name, page in own.items()
    }


def _described(package, names):
    return ["```{eval-rst}", *(line for name in names for line in _entry(package, name)), "```", ""]


def _page_of(package, name):
    """Return a file's name that differs from others by more than its case: Fit and fit are two."""
    return f"{name}-class" if inspect.isclass(getattr(importlib.import_module(package), name)) else name


def _first_sentence(package, name):
    value = getattr(importlib.import_module(package), name)
    text = inspect.getdoc(value) if callable(value) or inspect.ismodule(value) else None
    sentence = " ".join((text or "").split("\n\n")[0].split())
    return re.split(r"(?<=[.:;])\s", sentence)[0].rstrip(":;").replace("|", "\\|")


def _entry(package, name):
    value = getattr(importlib.import_module(package), name)
    if inspect.ismodule(value):
        return [f".. automodule:: {value.__name__}", "   :no-members:", "   :no-index:", ""]
    if inspect.isclass(value):
        return [f".. autoclass:: {package}.{name}", "   :members:", ""]
    if callable(value):
        return [f".. autofunction:: {package}.{name}", ""]
    return [f".. autodata:: {package}.{name}", "   :no-value:", ""]
