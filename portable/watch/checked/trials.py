"""A launch run again and again on copies of its arguments, under several schedules and team sizes."""

import contextlib
import dataclasses

from ...core.launch import dispatch
from ...errors import CheckError, CollectiveError, ReadOnlyError
from ...core.places.policy import AUTO, kind_of, n_indices
from ...core.arrays.scatter import ScatterView
from ...core.places.space import resolve
from . import memory
from .findings import in_order
from .interpreter import Run, combined
from .sizes import disagreements
from .space import Compiled

# accesses, a quarter of a second: of launches with more, all trials but the first visit the first few teams
# or indices
MANY = 100_000


def run(policy, kernel, args, reducers, seeds, in_full, team_sizes):
    """Return (findings, seeds, team sizes that ran, the number of teams or indices in all but the first
    trial, or None for all).

    Parameters
    ----------
    policy, kernel, args, reducers
        The launch.
    seeds : tuple of int
    in_full : bool
        Whether every seed visits all indices, however many accesses they make.
    team_sizes : tuple of int
        Besides the policy's own; empty for policies without teams.
    """
    refusal, compiled = _compiled(policy, kernel, args, reducers)

    def trial(seed, size=None, limit=None):
        if size is None:
            return Trial(policy, compiled, args, seed, limit)
        # Scratch requested together with one team size may not suffice for another.
        return Trial(
            dataclasses.replace(policy, team_size=size), compiled, args, seed, limit, policy.team_size is AUTO
        )

    full, groups, limit = _grouped(trial, seeds, in_full, team_sizes)
    every = dict.fromkeys([*full, *(t for group in groups for t in group)])
    found = _merged(f for t in every for f in t.findings)
    if refusal is not None and not found:
        raise refusal
    return (
        found or disagreements(kernel, groups),
        seeds,
        [g[0].team_size for g in groups if team_sizes],
        limit,
    )


def _grouped(trial, seeds, in_full, team_sizes):
    """Return the trials that visit all; lists of trials of one team size each, which visit the same; how
    many teams or indices these visit, or None for all."""
    full = first, *_ = [trial(seed) for seed in (seeds if in_full else seeds[:1])]
    others, limit = [size for size in team_sizes if size != first.team_size], None
    if (others or not in_full) and first.n_accesses > MANY:
        limit = max(MANY * first.n_indices // first.n_accesses, 2)
    if limit is None:
        same_size = full + [trial(seed) for seed in seeds[len(full) :]]
    else:
        same_size = [trial(seed, None, limit) for seed in seeds]
    return full, [same_size, *([trial(seed, size, limit) for seed in seeds] for size in others)], limit


def reference(policy, kernel, args, reducers):
    """Return a Trial under seed 0; CheckError if it has findings."""
    policy = dataclasses.replace(policy, space="checked")
    refusal, compiled = _compiled(policy, kernel, args, reducers)
    if refusal is not None:
        raise refusal
    trial = Trial(policy, compiled, args, 0)
    if trial.findings:
        raise CheckError(trial.findings)
    return trial


def _compiled(policy, kernel, args, reducers):
    """Return (refusal, code): the refusals that a run explains better, and then code that is not refused."""
    with contextlib.suppress(RecursionError):  # of records within each other, which bind refuses
        args = copied(args)
    alone = not reducers and kernel.portable_text.returns_something  # which a launch would refuse

    def code(apart):
        kind = kind_of(policy)
        specs = dispatch.compiler_specs(args, resolve("checked"), kernel, kind)
        return Compiled(kernel, kind, specs, reducers, apart=apart)

    try:
        found = dispatch.bind(policy, kernel, args, reducers, compiles=not alone)[3]
        return None, code(apart=False) if alone else found
    except (CollectiveError, ReadOnlyError) as refusal:
        return refusal, code(apart=True)


def copied(args):
    """Return host copies of arguments; arrays that share memory still do."""
    copies = iter(memory.copies([array for _, array in memory.arrays_in(args)]))

    def copy(array):
        return ScatterView(next(copies)) if isinstance(array, ScatterView) else next(copies)

    return memory.replaced(args, copy)


class Trial:
    """One run on copies: its findings, the final arrays, and its results."""

    def __init__(self, policy, compiled, args, seed, limit=None, bounded=True):
        self.args, params = copied(args), compiled.kernel.portable_text.params[n_indices(kind_of(policy)) :]
        names = [getattr(a, "label", None) or name for a, name in zip(args, params)]
        run = Run(compiled, policy, self.args, names=names, seed=seed, bounded=bounded, limit=limit)
        values = run.results()
        self.team_size, self.findings, self.seed = run.team_size, run.findings(), seed
        self.reduced = combined(run, values) if not self.findings else ()
        self.n_indices, self.n_accesses = max(len(values), 1), len(run.trace)


def _merged(findings):
    """Return each defect once, as first found."""
    first = {}
    for f in findings:
        known = first.get(f.key)
        first[f.key] = f if known is None else dataclasses.replace(known, times=known.times + f.times)
    return in_order(first.values())
