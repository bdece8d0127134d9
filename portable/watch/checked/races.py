"""Races and reads of unwritten memory, from the trace of a run: by the ordering of accesses, not by the order
in which they happened.

Two accesses are ordered if one lane made both, or if they are of one team and a barrier lies between (their
`epoch` differs). A reduce, scan or broadcast (their `phase` differs) lets no member continue before all have
arrived, so reads before it are not disturbed by writes after it; but it does not make writes visible to other
members. Teams, and the indices of a range, are unordered within a launch. Two unordered accesses of one
element race if one writes, unless both are atomic, or one is a read that its lane's compare-and-swap checks
again.

NumPy narrows the trace down to elements that several lanes access and one writes; only suspicious ones are
examined in Python, a few for each combination of places in the source.
"""

import itertools
from collections import namedtuple

import numpy as np

from .code import SITES
from .memory import CELL_SHIFT, READ, REPLACE, SITE_SHIFT, SWAP, UPDATE, WRITE

_EXAMPLES = 40  # elements looked at for one combination of places
_ROWS = 160  # accesses of one element looked at
_HOW = {
    READ: "reads",
    WRITE: "writes",
    UPDATE: "atomically updates",
    REPLACE: "atomically replaces",
    SWAP: "compares and swaps",
}


class Accesses(namedtuple("Accesses", "cell site how lane team epoch phase time")):
    """A trace in columns, arrays of numbers."""

    def take(self, rows):
        return Accesses(*(column[rows] for column in self))


def find_races(run):
    """Record the findings of a run's trace."""
    if not run.trace:
        return
    all_of = _columns(run)
    seen = _races(run, all_of)
    _unwritten(run, all_of, seen)


def _columns(run):
    words = np.frombuffer(run.trace, np.int64)
    segments = np.array(run.segments, np.int64)
    who = np.repeat(np.arange(len(segments)), np.diff(np.append(segments[:, 0], len(words))))
    columns = (segments[:, k][who] for k in range(1, 5))
    site = (words >> SITE_SHIFT) & ((1 << (CELL_SHIFT - SITE_SHIFT)) - 1)
    return Accesses(
        words >> CELL_SHIFT, site, words & ((1 << SITE_SHIFT) - 1), *columns, np.arange(len(words))
    )


def _races(run, all_of):
    """Record races; return the sites that take part in one."""
    cell, top = _compact(all_of.cell, run.memory.top)
    last, shared, written, plain = np.zeros(top, np.int64), *np.zeros((3, top), bool)
    last[cell] = all_of.lane
    shared[cell[last[cell] != all_of.lane]] = True
    written[cell[all_of.how != READ]] = True
    plain[cell[all_of.how <= WRITE]] = True
    rows = np.flatnonzero((shared & written & plain)[cell])
    if not rows.size:
        return set()
    some = all_of.take(rows)
    some = some.take(np.lexsort((some.phase, some.epoch, some.team, some.cell)))
    seen = set()
    for bounds, columns in _suspects(some):
        for first, end, times in _examples(bounds, some):
            _pairs(run, all_of, some.take(slice(first, min(end, first + _ROWS))), seen, columns, times)
    return seen


def _compact(cells, top):
    """Return (numbers below a bound, the bound) for cells; the cells themselves where they are not many more
    than accesses.
    """
    if top < 16 * len(cells) + (1 << 20):
        return cells, top
    known, number = np.unique(cells, return_inverse=True)
    return number, len(known)


def _suspects(some):
    """Yield (bounds of groups of accesses that may race, True if they are of one team), for one team and
    between teams.
    """
    first, end = _runs(some.cell)
    yield np.stack([first, end])[:, _conflicts(some.how, some.team, first)], False
    first, end = _runs(some.cell, some.team, some.epoch, some.phase)
    yield np.stack([first, end])[:, _conflicts(some.how, some.lane, first)], True
    first, end = _runs(some.cell, some.team, some.epoch)
    write_phase = np.minimum.reduceat(np.where(some.how == READ, np.iinfo(np.int64).max, some.phase), first)
    later = write_phase < np.maximum.reduceat(some.phase, first)
    yield np.stack([first, end])[:, later & _conflicts(some.how, some.lane, first)], True


def _runs(*columns):
    """Return begin and end of each stretch of rows that are equal in all columns."""
    starts = np.logical_or.reduce([c[1:] != c[:-1] for c in columns])
    bounds = np.concatenate([[0], np.flatnonzero(starts) + 1, [len(columns[0])]])
    return bounds[:-1], bounds[1:]


def _conflicts(how, who, first):
    """Return a flag for each group of accesses, beginning at `first`: True if several members took part
    and one of them wrote."""
    many = np.minimum.reduceat(who, first) != np.maximum.reduceat(who, first)
    has = np.bitwise_or.reduceat(1 << how, first)
    return many & ((has & 2 > 0) | (has & 1 > 0) & (has >> UPDATE > 0))


def _examples(bounds, some):
    """Yield (first, end, number of similar ones) of a few groups for each combination of sites."""
    if not bounds.size:
        return
    _, number = np.unique(some.site, return_inverse=True)
    marks = np.int64(1) << (number % 62)
    inside = bounds.T.ravel()
    if inside[-1] == len(marks):
        marks = np.append(marks, 0)
    combined = np.bitwise_or.reduceat(marks, inside)[::2]
    values, counts = np.unique(combined, return_counts=True)
    for value, count in zip(values, counts):
        rows = np.flatnonzero(combined == value)[:_EXAMPLES]
        for row in rows:
            yield int(bounds[0, row]), int(bounds[1, row]), max(int(count) // len(rows), 1)


def _pairs(run, all_of, group, seen, same_team, times):
    """Note the pairs of a group that race."""
    rows = {}
    for k in range(len(group.cell)):
        rows.setdefault((group.site[k], group.how[k], group.lane[k], group.phase[k]), k)
    rows = sorted(rows.values(), key=lambda k: -int(group.how[k] == WRITE))
    known = set()
    for a, b in itertools.combinations(rows, 2):
        if not _race(group, a, b, same_team):
            continue
        lines = frozenset((SITES[group.site[a]][:2], SITES[group.site[b]][:2]))
        seen.update((int(group.site[a]), int(group.site[b])))
        if lines not in known:
            known.add(lines)
            _note(run, group, *_in_turn(all_of, group, a, b, same_team), same_team, times)


def _race(group, a, b, same_team):
    who = group.lane if same_team else group.team
    if (
        who[a] == who[b]
        or group.how[a] == group.how[b] == READ
        or (group.how[a] > WRITE and group.how[b] > WRITE)
    ):
        return False
    if READ in (group.how[a], group.how[b]) and max(group.how[a], group.how[b]) > WRITE:
        # its compare-and-swap checks again the value that it read
        reader = group.lane[a if group.how[a] == READ else b]
        if ((group.lane == reader) & (group.how == SWAP)).any():
            return False
    if same_team and group.phase[a] != group.phase[b]:
        early = a if group.phase[a] < group.phase[b] else b
        return group.how[early] != READ
    return True


def _in_turn(all_of, group, a, b, same_team):
    """Return the plain access before the atomic one, else the later one in the kernel's course first."""
    first, second = group.how[a] > WRITE, group.how[b] > WRITE
    swapped = first if first != second else not _is_later(all_of, group, a, b, same_team)
    return (b, a) if swapped else (a, b)


def _note(run, group, a, b, same_team, times):
    here, there = SITES[group.site[a]], SITES[group.site[b]]
    view, index = run.memory.owner(int(group.cell[a]))
    kind, advice = _kind(group, a, b, same_team)
    element = f"{view.name}[{', '.join(map(str, index or '?'))}]"
    lanes = int(group.lane[a]), int(group.lane[b])

    def message():
        return (
            f"{run.name_of(lanes[0])} {_HOW[int(group.how[a])]} {element} in line {here.line},"
            f" {run.name_of(lanes[1])} {_HOW[int(group.how[b])]} it in line {there.line}, in no order."
            f" {advice}"
        )

    run.note(kind, here, message, view.name, index, lanes, other_line=there.line, times=times)


def _kind(group, a, b, same_team):
    """Return a race's name and its remedy."""
    here, there = SITES[group.site[a]].line, SITES[group.site[b]].line
    if max(group.how[a], group.how[b]) > WRITE:
        return "non-atomic update", "Make every access that may meet an update an atomic one"
    if not same_team:
        return "race", "Update by an atomic, or write to an array that the launch does not read"
    if here == there:
        return "race", "Let one member do it, or combine by team.reduce or an atomic"
    advice = f"Put a team.barrier() before line {here}"
    if group.phase[a] != group.phase[b]:
        advice += "; a reduce, scan or broadcast does not show what others wrote"
    return "missing barrier", advice


def _is_later(all_of, group, a, b, same_team):
    """Return True if access `a` is later than `b`: in the order of execution if one member makes both, else
    in the source's order.
    """
    one, two = group.site[a], group.site[b]
    near = (all_of.site == one) | (all_of.site == two)
    if same_team:
        near &= (all_of.team == group.team[a]) & (all_of.epoch == group.epoch[a])
    else:
        near &= (all_of.lane == group.lane[a]) | (all_of.lane == group.lane[b])
    order = {}
    for row in np.flatnonzero(near):
        order.setdefault(int(all_of.lane[row]), {}).setdefault(int(all_of.site[row]), row)
    for lane in sorted(order):
        if len(order[lane]) == 2:
            return bool(order[lane][int(one)] > order[lane][int(two)])
    return SITES[one].line > SITES[two].line


def _unwritten(run, all_of, racing):
    """Record reads of unwritten cells; not where a race already explains them."""
    if not run.memory.undefined and not run.scratch_cells:
        return
    bad = _early_reads(run, all_of)
    for site in np.unique(bad.site):
        if int(site) in racing:
            continue
        rows = np.flatnonzero(bad.site == site)
        view, index = run.memory.owner(int(bad.cell[rows[0]]))
        lane = int(bad.lane[rows[0]])
        run.note(
            "uninitialised read",
            SITES[site],
            f"{run.name_of(lane)} reads {view.name}[{', '.join(map(str, index or '?'))}], which "
            "nobody has written",
            view.name,
            index,
            (lane,),
            times=len(rows),
        )


def _early_reads(run, all_of):
    """Return the accesses that read a cell which began undefined and was never written before."""
    undefined = np.zeros(run.memory.top, bool)
    for cells in run.memory.undefined:
        undefined[cells] = True
    for first, end in run.scratch_cells:
        undefined[first:end] = True
    some = all_of.take(np.flatnonzero(undefined[all_of.cell]))
    cell, top = _compact(some.cell, run.memory.top)
    writes = np.flatnonzero(some.how != READ)[::-1]
    first_write = np.full(top, len(all_of.cell))
    # assignments of several keep the last one, the earliest access
    first_write[cell[writes]] = some.time[writes]
    reads = (some.how != WRITE) & (some.how != REPLACE)
    return some.take(np.flatnonzero(reads & (first_write[cell] >= some.time)))
