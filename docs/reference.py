"""The reference: every public name of the layer, the methods and roofline, in groups; a page each is made of
its docstrings."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

GROUPS = {
    "Kernels": "kernel function Kernel Function Team ArrayLike Number SpaceLike",
    "Launches": "parallel_for parallel_reduce parallel_scan plan capture fence stamp listening",
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
    """Of portable: title -> names; every public name is in one group."""
    import portable
    from portable.core.language.words import NAMES

    found = {title: names.split() for title, names in GROUPS.items()}
    found["Words of kernels"] = sorted({*NAMES, "gammainc", "gammaincc"})
    found["Errors"] = sorted(
        n
        for n in portable.__all__
        if inspect.isclass(getattr(portable, n)) and issubclass(getattr(portable, n), Exception)
    )
    return found


def pages():
    """File name -> text of a page, in reStructuredText within MyST."""
    made = {}
    for title, names in groups().items():
        made[_file(title)] = _page(title, "portable", names)
    made["random"] = _page("Random numbers", "portable.random", _public("portable.random"), module=True)
    made["testing"] = _page("Testing", "portable.testing", _public("portable.testing"), module=True)
    for name, title in METHODS.items():
        made[f"models-{name}"] = _page(
            f"{title}: portable.models.{name}", f"portable.models.{name}", _public(f"portable.models.{name}")
        )
    made["roofline"] = _page("roofline", "portable.roofline", _public("portable.roofline"))
    links = "\n".join(made)
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


def _page(title, package, names, module=False):
    lines = [f"# {title}", "", "```{eval-rst}"]
    if module:
        lines += [f".. automodule:: {package}", "   :no-members:", ""]
    lines += [line for name in names for line in _entry(package, name)]
    return "\n".join([*lines, "```", ""])


def _entry(package, name):
    value = getattr(importlib.import_module(package), name)
    if inspect.ismodule(value):
        return [f".. automodule:: {value.__name__}", "   :no-members:", "   :no-index:", ""]
    if inspect.isclass(value):
        return [f".. autoclass:: {package}.{name}", "   :members:", ""]
    if callable(value):
        return [f".. autofunction:: {package}.{name}", ""]
    return [f".. autodata:: {package}.{name}", "   :no-value:", ""]
