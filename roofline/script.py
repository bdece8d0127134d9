"""`python -m portable.roofline report SCRIPT`: compare each kind of launch of any Python program with its
roof."""

import bisect
import dataclasses
import functools
import runpy
import statistics
import sys
from pathlib import Path

from portable.errors import InputError, printable
from portable.roofline import timeline
from portable.roofline.attainable import analyse_launch
from portable.roofline.counting import size_of, static_arguments
from portable.roofline.counts import mean
from portable.roofline.host import Lines
from portable.roofline.launch_counts import SIZES, Counted, group_of, kind_of
from portable.roofline.launch_arguments import spans
from portable.roofline.profiling import profile
from portable.roofline.reasons import reasons_of
from portable.roofline.reporting import Failure, Result
from portable.roofline.timing import Samples, tick
from portable.roofline.units import one_line, scaled

FEW, AGAIN = 4, 5  # the most sizes of a kernel with a row each, or the least launches of a size with a row
KINDS = 80  # of launches that are reported, the costliest; a page stays readable
TICKS = 10  # steps of the clock below which a time is not measurable
# of the time in launches: a smaller kind is not reported, unless it is the costliest of its label
LEAST = 0.002


def check(path):
    """Raise for a path that is no Python file, before anything runs.

    Raises
    ------
    InputError
        The message names the file.
    """
    if not Path(path).is_file():
        raise InputError(
            f"script: '{path}' is no file. Name a Python program that launches kernels, or KERNELS.py::name."
        )


def collect(path, arguments, part, ceilings=None, on_start=lambda label, done: None):
    """Run a program under a profile; add a result for each kind of launch to the report of its space.

    If a program raises, or ends by sys.exit, its launches so far are kept.

    Parameters
    ----------
    path : str
    arguments : sequence of str
        The program's arguments in sys.argv, after its name.
    part : callable of a space's name, or None for the default space, that gives the Report to fill in place
    ceilings, on_start : as in `portable.roofline.reporting.collect`

    Returns
    -------
    Profile
    """
    counted = Counted()
    with profile(counted.count_if_due if ceilings else None, apart=True) as made, Lines(made.look) as lines:
        _run(part, path, arguments)
    if not made.events:
        part(None).failures.append(Failure("script", str(path), "it launched no kernel"))
    add_results(made, Path(path).name, part, ceilings, on_start, counted)
    if made.events:
        first = part(made.events[0].space)
        passed = {"seconds": made.seconds, "tracks": timeline.picture(made)}
        first.program = {
            "lines": lines.costliest_lines(),
            "memory_bytes": made.memory_bytes,
            "timeline": passed,
        }
    return made


def _rows(kinds):
    """Return {kind or group: [kind, ...]}: kinds of launches that share a row, in the order of their first
    launch.

    A kernel over few sizes, or a repeated size, has a separate row; the other sizes of a kernel share one.
    """
    groups, rows = {}, {}
    for kind in kinds:
        groups.setdefault(group_of(kind), []).append(kind)
    for group, members in groups.items():
        for kind in members:
            alone = len(members) <= FEW or len(kinds[kind]) >= AGAIN
            rows.setdefault(kind if alone else group, []).append(kind)
    return rows


def add_results(made, source, part, ceilings=None, on_start=lambda label, done: None, counted=None):
    """Add a result for each kind of launch of a profile, the costliest first: one kernel over one size, or
    over many, in one region, on one space.

    Parameters
    ----------
    made : Profile
    source : str
        The place of the launches, in words.
    part, ceilings, on_start : as in `collect`
    """
    kinds, order = {}, []
    for event in made.events:
        for launch in event.launches:
            order.append(kind_of(launch, event.region))
            kinds.setdefault(order[-1], []).append((event, launch))
    since = _since(order, {kind: spans(found[-1][1]) for kind, found in kinds.items()})
    rows = {key: [(kind, kinds[kind]) for kind in members] for key, members in _rows(kinds).items()}
    ranked = sorted(
        ((parts, [pair for _, found in parts for pair in found]) for parts in rows.values()),
        key=lambda item: -_seconds(item[1]),
    )
    total = sum(_seconds(found) for _, found in ranked)
    if ranked:
        part(ranked[0][1][0][0].space).program_seconds = made.seconds
    longest = {found[0][1].label: parts for parts, found in reversed(ranked)}
    told = [
        (parts, found)
        for parts, found in ranked
        if _seconds(found) >= LEAST * total or longest[found[0][1].label] is parts
    ][:KINDS]
    for done, (parts, found) in enumerate(told):
        event, launch = found[0]
        on_start(printable(launch.label), done)
        fixed = (f"{name} = {value}" for name, value in static_arguments(launch).items())
        where = ", ".join(filter(None, (source, event.region, *fixed)))
        size = size_of(launch.policy)
        if len(parts) > 1:
            sizes = [size_of(one.policy)[0] for _, one in found]
            size = round(sum(sizes) / len(sizes)), size[1]
            where += f", {len(parts):,} sizes from {min(sizes):,} to {max(sizes):,}"
        numbers = [(kind, len(launches)) for kind, launches in parts]
        counts = (
            functools.partial(counted.of, numbers)
            if counted
            else functools.partial(_counted_now, made, parts)
        )
        between = max(since[kind] for kind, _ in parts)
        _tell_row(size, len(parts), between, part(event.space), where, found, counts, ceilings)
    names = {id(parts) for parts, _ in told}
    if rest := [item for item in ranked if id(item[0]) not in names]:
        seconds = sum(_seconds(found) for _, found in rest)
        part(rest[0][1][0][0].space).notes.append(
            f"{len(rest):,} more kinds of launches, {scaled(seconds, 's')} of {scaled(total, 's')} together,"
            " are left out"
        )


def _since(order, arrays):
    """Return {kind: bytes of other arrays that launches access between the last two launches of a kind}.

    Parameters
    ----------
    order : list of kinds, a launch each
    arrays : dict of kind to dict, as of `portable.roofline.launch_arguments.spans`
    """
    places, found = {}, dict.fromkeys(arrays, 0)
    for k, kind in enumerate(order):
        places.setdefault(kind, []).append(k)
    for kind, at in places.items():
        others = {}
        for other, theirs in places.items() if len(at) > 1 else ():
            if bisect.bisect(theirs, at[-2]) < bisect.bisect(theirs, at[-1] - 1):
                others |= arrays[other]
        found[kind] = sum(others[pointer] for pointer in others.keys() - arrays[kind].keys())
    return found


def _counted_now(made, parts):
    """Return the mean counts of a launch over its kinds, on the present data; of many sizes some are
    counted."""
    step = max(1, len(parts) // SIZES)
    return mean(
        [
            (sum(len(found) for _, found in parts[k : k + step]), made.count(parts[k][1][-1][1]))
            for k in range(0, len(parts), step)
        ]
    )


def _tell_row(size, n_sizes, since, report, source, found, counts, ceilings):
    event, launch = found[0]
    seconds, notes = _timed(found)
    roof, why = None, ()
    if not seconds.median:
        report.notes.append(
            f"'{launch.label}' over {size[0]:,} {size[1]}: {notes[0]}; more work in a launch, or more"
            " launches, have a time"
        )
    elif ceilings:
        try:
            counted, took = dataclasses.replace(counts(), since=since), seconds.median
            if n_sizes > 1:  # the mean without the first, which may include compilation
                counted = dataclasses.replace(counted, policy=f"{size[0]:,} {size[1]}")
                took = statistics.fmean(seconds.values[1:])
            roof = _roof(report, launch, counted, took, notes, ceilings)
            why = reasons_of(roof, report.ceilings, seconds)
        except Exception as error:  # noqa: BLE001 - one kernel's failure must not affect the others
            report.failures.append(Failure("script", launch.label, one_line(error)))
            return
    about = "script", launch.label, source, *size, event.space
    report.results.append(Result(*about, seconds, None, roof, *why))


def _timed(found):
    """Return (Samples, notes) of the launches of a kind: if they are too short for the clock, their mean; 0.0
    if all together are too short.

    The mean is correct even if single times are not: the clock's rounding errors of consecutive times cancel.
    """
    seconds, least = Samples(tuple(e.seconds / len(e.launches) for e, _ in found)), TICKS * tick()
    if seconds.median >= least:
        return seconds, []
    n, total = len(found), sum(seconds.values)
    if total < least:
        return Samples((0.0,) * n), [
            f"its {n:,} launches are too short for the clock, which tells no time below {scaled(least, 's')}"
        ]
    return Samples((total / n,) * n), [
        f"each launch is too short for the clock; the time is the mean of all {n:,}"
    ]


def _seconds(found):
    """Return seconds of all launches of a kind, from their median."""
    return len(found) * Samples(tuple(event.seconds / len(event.launches) for event, _ in found)).median


def _run(part, path, arguments):
    kept, sys.argv = sys.argv, [str(path), *arguments]
    try:
        runpy.run_path(str(path), run_name="__main__")
    except KeyboardInterrupt:
        part(None).interrupted = True
    except SystemExit as stop:
        if stop.code not in (None, 0):
            part(None).failures.append(Failure("script", str(path), f"it ended with exit code {stop.code}"))
    except Exception as error:  # noqa: BLE001 - its launches so far are still reported
        part(None).failures.append(Failure("script", str(path), one_line(error)))
    finally:
        sys.argv = kept


def _roof(report, launch, counts, took, notes, ceilings):
    report.ceilings = ceilings(str(launch.space), set(counts.special))
    roof = analyse_launch(launch.label, counts, took, report.ceilings)
    roof.notes.extend(notes)
    return roof
