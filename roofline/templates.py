"""The templates of pages and of notebooks' output, and the functions that they may use."""

import datetime
import functools
import math
import textwrap

from portable.roofline.units import resource, scaled, times


@functools.cache
def _templates():
    from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape  # 30 ms

    made = Environment(
        loader=PackageLoader("portable.roofline"),
        autoescape=select_autoescape(("html", "svg")),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    made.filters |= {
        "date": _date,
        "listing": _listing,
        "log": math.log10,
        "named": lambda kernels: [(f"kernel {k['label']}", "bar", k["seconds"]) for k in kernels],
        "percent": "{:.0%}".format,
        "px": lambda value: f"{value:.1f}".removesuffix(".0"),
        "resource": resource,
        "scaled": scaled,
        "times": times,
        "wants": _wants,
        "whole": "{:,}".format,
    }
    return made


def rendered(template, **what):
    """Return a template filled with `what`, as text."""
    return _templates().get_template(template).render(**what)


def _date(text):
    """Return a date in words: "21 November 2026, 16:07 UTC"."""
    moment = datetime.datetime.fromisoformat(text)
    return f"{moment.day} {moment:%B %Y, %H:%M} UTC"


def _wants(roof):
    """Return (resource, seconds) of each resource, and of the time outside of kernels, the largest first."""
    total, outside = roof["seconds"]["value"], roof["outside_seconds"]["value"]
    wants = [(resource(name), s) for name, s in roof["wants_seconds"].items() if s > 0.001 * total]
    wants += [("measured, outside of kernels", outside)] if outside > 0.01 * total else []
    return sorted(wants, key=lambda want: -want[1])


def _listing(kernel, most):
    """Return ((whether it is in another function, file, number), share, number of operations, place,
    operations, text) of a kernel's lines: of a long source the costliest, in order."""
    own, lines = kernel["place"].rpartition(":")[0], []
    for place in kernel["source"] | kernel["lines"]:
        file, _, number = place.rpartition(":")
        if number.isdigit():
            done, share = kernel["lines"].get(place, {}), kernel.get("shares", {}).get(place, 0.0)
            lines.append(((file != own, file, int(number)), share, sum(done.values()), place, done))
    costliest = sorted(
        sorted(lines, key=lambda line: line[1:3], reverse=True)[:most], key=lambda line: line[0]
    )
    texts = textwrap.dedent("\n".join(kernel["source"].get(place, "") for *_, place, _ in costliest)).split(
        "\n"
    )
    return [(*line, text) for line, text in zip(costliest, texts, strict=True)]
