"""Explain why a method stays below its roof: the kernels that lose most of its time, each with its causes.

The causes of a kernel are found by `portable.roofline.causes`. A call's reason names the kernels that lose
most, until most of the loss is explained; time outside of kernels is reported in the same way:

neighbours  the median minus the fastest repeat, if that is much; measured
outside     the part of the call without a running kernel; measured
calls       the same, if the host's cost of launches is most of it; measured
"""

import math
from dataclasses import replace

import portable as pk
from portable.roofline.attainable import LOW
from portable.roofline.causes import HALF, Cause, causes
from portable.roofline.units import scaled
from portable.roofline.verdicts import CAUSES

DISTURBED = 0.7  # of the median: if the fastest repeat is below, other work took the rest
# multiple of the time outside of kernels: launches that would cost more one by one came from a graph
FAR = 4.0
OUTSIDE = 0.25  # of a call's time: a larger share outside of kernels is a reason
# Of a call's loss: the share to explain, the most kernels named for it, and the least share of one of these.
TOLD, MOST, LEAST = 0.7, 3, 0.05


def reason(analysis, ceilings, samples=None):
    """Return the reason why a call stays below `LOW` of its roof; None if it does not.

    Parameters
    ----------
    analysis : Analysis
    ceilings : Ceilings
    samples : Samples, optional
        The repeats of the call: if the fastest took far less than the median, other work took the rest.

    Returns
    -------
    dict of "text" (sentences) and "causes" (list, the most important first), fit for JSON; or None
    """
    if analysis.share >= LOW:
        return None
    found = []  # (seconds lost, subject of the sentence, its causes)
    fastest = min(samples.values) if samples else math.inf
    if samples and fastest < DISTURBED * samples.median:
        text = (
            f"the fastest repeat took {scaled(fastest, 's')}: the rest is other work on this machine, or a"
            " first run"
        )
        found.append((math.inf, "", [Cause("neighbours", samples.median - fastest, text, "measured")]))
    lost = analysis.seconds - analysis.attainable
    left = TOLD * lost
    if analysis.outside > OUTSIDE * analysis.seconds:
        found.append((analysis.outside, "", [_outside(analysis, ceilings)]))
        left -= analysis.outside
    for kernel in sorted(analysis.kernels, key=lambda k: k.attainable - k.seconds)[:MOST]:
        gap = kernel.seconds - kernel.attainable
        if not found or left > 0.0 and gap > LEAST * lost:
            found.append((gap, _named(kernel, analysis), _of_kernel(kernel, ceilings)))
            left -= gap
    found.sort(key=lambda item: -item[0])
    text = " ".join(f"{_sentence(subject + '; '.join(texts))}." for subject, texts in _joined(found))
    help = CAUSES[found[0][2][0].name][1]  # noqa: A001 - the remedy of the first cause ends the text
    return {
        "text": f"{text} {help}",
        "causes": [cause.as_dict(subject) for _, subject, causes in found for cause in causes],
    }


def _named(kernel, analysis):
    """Return the beginning of a sentence on a kernel: with its share of the call, and its share of its own
    roof."""
    share, own = kernel.seconds / analysis.seconds, kernel.attainable / kernel.seconds
    if len(analysis.kernels) == 1 and share > 0.9:
        return f"kernel {kernel.label}: "
    return (
        f"kernel {kernel.label}, {share:.0%} of the time, at {own:.{1 if own < 0.01 else 0}%} of its roof: "
    )


def _joined(found):
    """Yield (subject, clauses), with one subject for all kernels that have the same clauses."""
    kept = {}
    for _, subject, its in found:
        kept.setdefault(tuple(cause.clause for cause in its), []).append(subject)
    for texts, subjects in kept.items():
        several = [subject.removeprefix("kernel ").removesuffix(": ") for subject in subjects]
        yield subjects[0] if len(subjects) == 1 else f"kernels {'; '.join(several)}: each the same: ", texts


def _outside(analysis, ceilings):
    """Return the cause of the time without a running kernel."""
    n, each = len(analysis.launches), ceilings.rate("launch call") or ceilings.rate("launch")
    begin = f"{analysis.outside / analysis.seconds:.0%} of the call passes outside of its"
    launches = f"{n:,} launch{'es' * (n > 1)}"
    if HALF * analysis.outside < n * each < FAR * analysis.outside:
        text = f"{begin} kernels: {launches}, one by one, cost the host {scaled(n * each, 's')}"
        gain = analysis.seconds / sum(len(k.times) * _in_a_graph(k, ceilings) for k in analysis.kernels)
        return Cause("calls", analysis.outside, text, "measured", gain=gain)
    text = f"{begin} {launches}, in Python, copies and waiting"
    inside = max(analysis.seconds - analysis.outside, n * each)  # launches in sequence
    gain = analysis.seconds / inside if inside > 0.0 else None
    return Cause("outside", analysis.outside, text, "measured", gain=gain)


def _in_a_graph(kernel, ceilings):
    """Return seconds of one launch of a kernel in a graph: on a GPU the kernel's own time; on a CPU the work
    follows the launch, and a single thread does work that is shorter than waking the others."""
    if ceilings.space.startswith("cuda"):
        return max(kernel.bound.seconds, kernel.seconds / len(kernel.times))
    work = max((s for name, s in kernel.bound.wants.items() if name != "launch"), default=0.0)
    alone = pk.concurrency(ceilings.space) * work
    return ceilings.rate("launch") + (alone if alone < (ceilings.rate("launch call") or 0.0) else work)


def reasons_of(analysis, ceilings, samples):
    """Return (the reason of the call, the reasons of its kernels)."""
    return reason(analysis, ceilings, samples), of_kernels(analysis, ceilings)


def of_kernels(analysis, ceilings):
    """Return the reason of each kernel of a call below `LOW` of its own roof: a list of sentences, None for
    the other kernels."""
    return [
        _unnamed_causes(kernel, ceilings) if kernel.attainable < LOW * kernel.seconds else None
        for kernel in analysis.kernels
    ]


def _unnamed_causes(kernel, ceilings):
    """Return the causes without the kernel's name, which is printed next to them."""
    return f"{_sentence('; '.join(cause.clause for cause in _of_kernel(kernel, ceilings)))}."


def _sentence(text):
    return text[:1].upper() + text[1:]


def _of_kernel(kernel, ceilings):
    """Return at most two causes of a kernel's time, the one with the largest gain first."""
    n = len(kernel.times)
    return [replace(c, seconds=n * min(c.seconds, kernel.seconds / n)) for c in causes(kernel, ceilings)[:2]]
