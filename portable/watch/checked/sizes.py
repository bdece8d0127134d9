"""Test if results depend on the team size, which the machine chooses."""

import numpy as np

from .findings import Finding
from .memory import arrays_in, in_parts


def disagreements(kernel, groups):
    """Return the results that differ by more than rounding between trials of different team sizes.

    Parameters
    ----------
    kernel : Kernel
    groups : list of lists of trials
        For each team size its trials under several seeds. Elements that differ between those depend on the
        order of atomics, which is open: they are not compared.

    Returns
    -------
    list of Finding, one for the first size that disagrees with the first group's
    """
    first = groups[0]
    for other in groups[1:]:
        terms = max(t.n_accesses // t.n_indices for t in (*first, *other))
        for name, ones, others in zip(
            names(kernel, first[0]), zip(*map(_sizes_of, first)), zip(*map(_sizes_of, other))
        ):
            limit = bound([*ones, *others], _sizes_of(first[0]), terms)
            differ = differing_places(ones[0], others[0], limit)
            for same_size in (ones, others):
                for again in same_size[1:]:
                    differ &= ~differing_places(same_size[0], again, limit)
            if differ.any():
                return [_finding(kernel, name, first[0], other[0], ones[0], others[0], differ)]
    return []


def _sizes_of(trial):
    return results(trial.args, trial.reduced)


def results(args, reduced):
    """Return every array among arguments, and the results of a reduction as arrays."""
    arrays = [array for _, array in arrays_in(args)]
    reduced = [np.asarray(r, complex if isinstance(r, complex) else float).reshape(-1) for r in reduced]
    return [in_parts(array) if array.dtype.kind == "c" else array for array in (*arrays, *reduced)]


def names(kernel, trial):
    """Return a name for each of `results`."""
    params = kernel.portable_text.params
    yield from (name for name, _ in arrays_in(trial.args, params[len(params) - len(trial.args) :]))
    yield from ("the result" for _ in trial.reduced)


def bound(ones, inputs, terms):
    """Return a bound of the difference between two orders of a sum of `terms` terms, for terms as large as
    any float here.

    Each order is wrong by at most half an eps a term (Higham 2002, section 4.2); eight more for functions and
    products.
    """
    if ones[0].dtype.kind != "f":
        return 0.0
    floats = [*ones, *(r for r in inputs if r.dtype.kind == "f")]
    largest = max(float(np.abs(r[np.isfinite(r)]).max(initial=0.0)) for r in floats)
    coarsest = max(float(np.finfo(r.dtype).eps) for r in floats)
    return (8 + terms) * coarsest * largest


def differing_places(a, b, limit):
    """Return the places at which two arrays differ by more than a limit (integers: at all). Two NaN are
    equal."""
    if a.dtype.kind != "f":
        return a != b
    with np.errstate(all="ignore"):
        return ~np.isclose(a, b, rtol=0.0, atol=limit, equal_nan=True)


def _finding(kernel, name, first, other, one, two, differ):
    index, text = tuple(map(int, np.argwhere(differ)[0])), kernel.portable_text
    element = name if name == "the result" else f"{name}[{', '.join(map(str, index))}]"
    message = (
        f"{element} is {one[index]} in teams of {first.team_size} and {two[index]} in teams of"
        f" {other.team_size}; {int(differ.sum())} element(s) differ by more than rounding: results"
        " may not depend on a team's size"
    )
    return Finding(
        "team size",
        kernel.name,
        text.file,
        text.line,
        message,
        name,
        index,
        (),
        None,
        first.seed,
        other.team_size,
    )
