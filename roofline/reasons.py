"""Why a method stays below its roof: what its time went into, by what was measured and counted.

A roof is the least time of the text's operations and compulsory bytes. Here each further thing that costs time is given
a time of its own, and the one that comes nearest to the measured time is the reason:

neighbours    the median less the fastest repeat, where that is much                                       measured
outside       the part of the call in which no kernel ran                                                  measured
calls         the same, where what launches cost the host is most of it                                    measured
launch        the cost of a launch, of a kernel that has hardly more to do                                 measured
executed      the operations that ran, at their rates: lanes that a condition masks off and padding included, what
              runs one lane at a time at two operations a cycle                                            modelled
instructions  all instructions that ran, at four a cycle and core                                          modelled
memory LEVEL  compulsory bytes from a farther level than the nearest that could hold them                  modelled
reread        all loads and stores at a memory level, from which each comes anew                           modelled
scratch       loads and stores of scratch at shared memory's bandwidth (GPU)                               modelled
scattered     elements gathered or scattered one by one, two a cycle                                       modelled
overfetch     a whole line of memory for each of these elements, on a GPU a sector                         modelled
together      atomic operations that all go to one place                                                   modelled
integer       integer operations of the text (GPU)                                                         modelled
parallelism   the roof of that part of the machine which so few indices or teams can fill                  modelled

What none of these explains to a half is waiting: of operations for the one before, of threads for each other. A call's
reason names the kernels that lose most, until most of what it loses is told.
"""

import collections
import math
import re
from dataclasses import dataclass

import portable as pk
from roofline.attainable import LOW
from roofline.mix import lanes_and_type
from roofline.units import scaled, times
from roofline.verdicts import HELP

DISTURBED = 0.7  # of the median: a fastest repeat below says that something else took the time
HALF = 0.5  # of the time that a cause must explain to be called the reason
OUTSIDE = 0.25  # of a call's time, from which what passes outside of kernels is a reason
TOLD, MOST, LEAST = 0.7, 3, 0.05  # of what a call loses: told, kernels named for it, and what one of these loses at least
PER_CYCLE, LOADS_PER_CYCLE = 4, 2  # instructions, and loads or scalar operations, that a core starts in a cycle
LINE, SECTOR = 64, 32  # bytes that a CPU's cache moves at once, and a GPU's
IN_FLIGHT = 128  # threads that a GPU keeps in flight for each of the teams that pk.concurrency tells
ARITHMETIC = {"fadd": 1, "fsub": 1, "fmul": 1, "fdiv": 1, "fma": 2, "fmuladd": 2}  # flops of LLVM's instructions


@dataclass(frozen=True)
class Cause:
    """Something that costs time: `seconds` of the call, and a clause that says so."""

    name: str
    seconds: float
    text: str
    provenance: str = "modelled"

    def as_dict(self, subject):
        """The JSON object; `subject` is what the clause is about."""
        return {**vars(self), "text": f"{subject}{self.text}"}


def reason(analysis, ceilings, samples=None):
    """Why a call stays below `LOW` of its roof; None where it does not.

    Parameters
    ----------
    analysis : Analysis
    ceilings : Ceilings
    samples : Samples, optional
        The repeats of the call: where the fastest took far less than the median, other work took the rest.

    Returns
    -------
    dict of "text" (sentences) and "causes" (list, the weightiest first), fit for JSON; or None
    """
    if analysis.share >= LOW:
        return None
    found, fastest = [], min(samples.values) if samples else math.inf  # (seconds lost, what is told of, its causes)
    if samples and fastest < DISTURBED * samples.median:
        text = f"the fastest repeat took {scaled(fastest, 's')}: the rest is other work on this machine, or a first run"
        found.append((math.inf, "", [Cause("neighbours", samples.median - fastest, text, "measured")]))
    lost = analysis.seconds - analysis.attainable
    left = TOLD * lost
    if analysis.outside > OUTSIDE * analysis.seconds:
        found.append((analysis.outside, "", [_outside(analysis, ceilings)]))
        left -= analysis.outside
    for kernel in sorted(analysis.kernels, key=lambda k: k.attainable - k.seconds)[:MOST]:
        gap = kernel.seconds - kernel.attainable
        if left > 0.0 and gap > LEAST * lost:
            found.append((gap, _named(kernel, analysis), _of_kernel(kernel, ceilings)))
            left -= gap
    if not found:
        found = [(lost, "", [_spread(analysis, lost)])]
    found.sort(key=lambda item: -item[0])
    text = " ".join(f"{_sentence(subject + '; '.join(texts))}." for subject, texts in _joined(found))
    helps = [HELP[cause.name] for _, _, causes in found for cause in causes if cause.name in HELP]
    return {"text": " ".join([text, *helps[:1]]), "causes": [cause.as_dict(subject) for _, subject, causes in found for cause in causes]}


def _named(kernel, analysis):
    """The beginning of a sentence on a kernel: with its part of the call, and how near it comes to its own roof."""
    share, own = kernel.seconds / analysis.seconds, kernel.attainable / kernel.seconds
    if len(analysis.kernels) == 1 and share > 0.9:
        return f"kernel {kernel.label}: "
    return f"kernel {kernel.label}, {share:.0%} of the time, at {own:.{1 if own < 0.01 else 0}%} of its roof: "


def _joined(found):
    """(what is told of, clauses): kernels of which the same is to be told, together."""
    kept = {}
    for _, subject, causes in found:
        kept.setdefault(tuple(cause.text for cause in causes), []).append(subject)
    for texts, subjects in kept.items():
        several = [subject.removeprefix("kernel ").removesuffix(": ") for subject in subjects]
        yield subjects[0] if len(subjects) == 1 else f"kernels {'; '.join(several)}: each the same: ", texts


def _outside(analysis, ceilings):
    """What passes while no kernel runs."""
    n, each = len(analysis.launches), ceilings.rate("launch call") or ceilings.rate("launch")
    begin, launches = f"{analysis.outside / analysis.seconds:.0%} of the call passes outside of its", f"{n:,} launch{'es' * (n > 1)}"
    if n * each > HALF * analysis.outside:
        return Cause("calls", analysis.outside, f"{begin} kernels: {launches}, one by one, cost the host {scaled(n * each, 's')}", "measured")
    host = f"; the host is busiest in {analysis.host}" if analysis.host else ""
    return Cause("outside", analysis.outside, f"{begin} {launches}, in Python, copies and waiting{host}", "measured")


def _spread(analysis, lost):
    """Of a call whose loss is in many places: where most of it is."""
    parts = [(analysis.outside, "outside of kernels"), *((k.seconds - k.attainable, f"in {k.label}") for k in analysis.kernels)]
    most = sorted((part for part in parts if part[0] > 0.0), reverse=True)[: MOST + 1]
    text = "what it loses is spread over many kernels: " + ", ".join(f"{seconds / lost:.0%} {where}" for seconds, where in most)
    return Cause("several", lost, text, "measured")


def whys(analysis, ceilings, samples):
    """(the reason of the call, those of its kernels)."""
    return reason(analysis, ceilings, samples), of_kernels(analysis, ceilings)


def of_kernels(analysis, ceilings):
    """Why each kernel of a call stays below `LOW` of its own roof: a list of sentences, None for one that does not."""
    return [_alone(kernel, ceilings) if kernel.attainable < LOW * kernel.seconds else None for kernel in analysis.kernels]


def _alone(kernel, ceilings):
    """The causes without the kernel's name, which stands beside them."""
    return f"{_sentence('; '.join(cause.text for cause in _of_kernel(kernel, ceilings)))}."


def _sentence(text):
    return text[:1].upper() + text[1:]


def _of_kernel(kernel, ceilings):
    """At most two causes of a kernel's time, the nearest to it first."""
    took, n = kernel.seconds / len(kernel.times), len(kernel.times)
    found = [c for c in candidates(kernel, ceilings, took) if c.seconds >= HALF * took]
    found.sort(key=lambda c: abs(math.log(c.seconds / took)))
    if not found:
        return [Cause("waiting", kernel.seconds, _waits(kernel, ceilings, took))]
    return [Cause(c.name, n * min(c.seconds, took), c.text, c.provenance) for c in _told(found, took)]


def _told(found, took):
    """The nearest cause, and the next one of another kind where the nearest leaves much open."""
    kind = found[0].name.split(" ")[0]
    others = [c for c in found[1:] if c.name.split(" ")[0] != kind]
    return [found[0], *others[: 0 if 0.8 < found[0].seconds / took < 1.25 else 1]]


def candidates(kernel, ceilings, took):
    """The time of one launch by each thing that could have cost it, a list of Cause; `took` is what it took."""
    counts, found, on_device = kernel.counts, [], ceilings.space.startswith("cuda")
    launch = ceilings.rate("launch") if on_device else ceilings.rate("launch call") or ceilings.rate("launch")
    found.append(Cause("launch", launch, f"its work is so short that a launch costs as much ({scaled(launch, 's')})", "measured"))
    if counts.executed and counts.ptx is None and ceilings.clock:
        found += _of_instructions(kernel, ceilings)
    found += _of_memory(kernel, ceilings, took)
    atomics = sum(counts.atomics.values())
    if atomics and (together := ceilings.rate("atomic together int64")):
        text = f"its {scaled(atomics)} atomic operations wait for each other where they meet in one place"
        found.append(Cause("together", atomics / together, text))
    if counts.ptx is not None and counts.integer:
        text = f"its text has {scaled(counts.integer)} integer operations, index arithmetic included"
        found.append(Cause("integer", counts.integer / ceilings.rate("integer int64"), text))
    return [*found, *_of_parallelism(kernel, ceilings)]


def _of_instructions(kernel, ceilings):
    """What the optimised code does more, or other, than the text."""
    counts, cycles = kernel.counts, ceilings.clock * _threads(ceilings)
    vector, scalar, total, scattered = 0.0, 0, 0, 0
    for (_, name, of), n in counts.executed.items():
        if name.startswith("special "):
            continue
        lanes, dtype, _ = lanes_and_type(of)
        total += n
        if name in ("masked.gather", "masked.scatter"):
            scattered += n * lanes
        if dtype.startswith("float") and name in ARITHMETIC:
            if lanes == 1:
                scalar += n
            else:
                kind = "fma" if name in ("fma", "fmuladd") else "no fma"
                vector += n * lanes * ARITHMETIC[name] / ceilings.rate(f"{kind} {dtype}")
    special = sum(n / (ceilings.rate(name) or math.inf) for name, n in counts.executed_totals["special"].items())
    one_by_one = scalar / (LOADS_PER_CYCLE * cycles)
    masked = f"; {counts.masked:.0%} of the lanes are masked off and computed all the same" if counts.masked > 0.1 else ""
    if vector + special + one_by_one > 1.3 * kernel.bound.wants["arithmetic"]:
        text = f"the compiled code does more arithmetic than the text{masked}"
        if one_by_one > vector + special:
            text = f"its {scaled(scalar)} operations run one lane at a time{masked}"
        yield Cause("executed", vector + special + one_by_one, text)
    text = f"its {scaled(total)} instructions, of which arithmetic is a part, want that time to be started{masked}"
    yield Cause("instructions", total / (PER_CYCLE * cycles), text)
    if scattered:
        text = f"it reads or writes {scaled(scattered)} elements at scattered places, one by one"
        yield Cause("scattered", scattered / (LOADS_PER_CYCLE * cycles), text)
        lines = LINE * scattered
        text = f"each of {scaled(scattered)} elements at scattered places brings a line of {LINE} bytes, {scaled(lines, 'B')} together"
        yield Cause("overfetch", lines / ceilings.bandwidth(ceilings.level_of(lines)), text)


def _of_memory(kernel, ceilings, took):
    """Bytes that come from farther than the roof assumes, or more often."""
    levels = [name for name, _ in ceilings.levels]
    moved, level, scratch = kernel.counts.compulsory, kernel.bound.level, kernel.counts.scratch
    for farther in levels[levels.index(level) + 1 :]:
        text = f"its {scaled(moved, 'B')} would fit into {level}, and come from {farther} at the rate seen"
        yield Cause(f"memory {farther}", moved / ceilings.bandwidth(farther), text)
    asked = kernel.near_bytes - scratch
    if moved and asked > 1.5 * moved:
        at = [(asked / ceilings.bandwidth(name), name) for name in levels[: levels.index(level) + 1]]
        if "bandwidth shared" in ceilings.items:  # a GPU's first cache is the same memory
            at.append((asked / ceilings.bandwidth("shared"), "the first cache"))
        seconds, name = min(at, key=lambda one: abs(math.log(one[0] / took)))
        text = (
            f"its loads and stores ask for {scaled(asked, 'B')}, {times(asked / moved)} times what it must move, "
            f"about what {name} delivers in that time"
        )
        yield Cause("reread", seconds, text)
    if kernel.counts.apart:
        sectors = SECTOR * kernel.counts.apart
        text = (
            f"each of {scaled(kernel.counts.apart)} elements that neighbouring threads reach far apart brings {SECTOR} bytes, "
            f"{scaled(sectors, 'B')} together, through {level}"
        )
        yield Cause("overfetch", sectors / ceilings.bandwidth(level), text)
    if scratch and "bandwidth shared" in ceilings.items:
        text = f"its loads and stores of scratch come to {scaled(scratch, 'B')}, about what shared memory delivers in that time"
        yield Cause("scratch", scratch / ceilings.bandwidth("shared"), text)


def _of_parallelism(kernel, ceilings):
    """The roof, were there only that part of the machine which so few indices can fill."""
    extent, unit = extent_of(kernel)
    slots = _threads(ceilings)
    if ceilings.space.startswith("cuda"):
        wide = slots // 16 if unit == "teams" else slots * IN_FLIGHT
    else:
        wide = slots
    if extent < wide:
        own = f"its {extent:,} {unit} fill" if extent > 1 else f"its only {'team' if unit == 'teams' else 'index'} fills"
        text = f"{own} a part of the machine only, which has room for {wide:,} at once"
        work = max(seconds for name, seconds in kernel.bound.wants.items() if name != "launch")
        yield Cause("parallelism", max(work * wide / extent, kernel.bound.seconds), text)


def extent_of(kernel):
    """How many indices or teams a launch has, and which of both."""
    number, _, unit = kernel.counts.policy.rpartition(" ")
    return math.prod(int(n) for n in re.findall(r"\d+", number.replace(",", ""))), unit


def _waits(kernel, ceilings, took):
    """What shows that nothing but waiting is left, and that few wait where more could."""
    counts, few = kernel.counts, "".join(f"; {cause.text}" for cause in _of_parallelism(kernel, ceilings))
    if counts.executed and counts.ptx is None and ceilings.clock:
        total = sum(n for (_, name, _), n in counts.executed.items() if not name.startswith("special "))
        rate = total / (took * ceilings.clock * _threads(ceilings))
        return (
            f"it starts {rate:.2g} instructions a cycle, of about {PER_CYCLE}, so operations wait for the one before, "
            f"for memory, or for a neighbour on this machine{few}"
        )
    met = collections.Counter()
    for (_, operation, _), n in counts.text.items():
        if operation.startswith("team."):
            met[operation] += n
    each = sum(met.values()) / max(extent_of(kernel)[0], 1)
    words = " and ".join(sorted(met))
    meets = f", or for each other, {each:,.0f} times a team in {words}" if each >= 1 else ""
    room = f"; {counts.occupancy}" if counts.occupancy else ""
    return f"no rate of the machine explains its time, so its threads wait for the operation before, for memory{meets}{room}{few}"


def _threads(ceilings):
    """Threads of a CPU's space; of a GPU what `pk.concurrency` tells."""
    return pk.concurrency(ceilings.space)
