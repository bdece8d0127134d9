"""What a launch means: a loop over the policy's indices in plain Python.

`run_for` and `run_reduce` are the whole interface. Arguments are NumPy arrays, Python numbers and tuples of these.
"""

import itertools

import numpy as np

from ...errors import LanguageError
from ...policy import AUTO, MDRangePolicy, RangePolicy, TeamPolicy
from .plain import plain, reducing, unmark
from .team import DEFAULT_TEAM_SIZE, Meeting


def run_for(policy, fn, args):
    """Call `fn` for every index of `policy`, in order.

    Parameters
    ----------
    policy : RangePolicy or TeamPolicy
        A TeamPolicy's `scratch_bytes` are all that a team may have.
    fn : function
        The user's own function.
    args : tuple of ndarray, numbers and tuples of them
    """
    with np.errstate(all="ignore"):
        for _ in _results(policy, fn, args):
            pass


def run_reduce(policy, fn, args, reducers):
    """Combine what `fn` returns for every index of `policy`, from the first index to the last.

    Parameters
    ----------
    policy, fn, args
        As for `run_for`. A team contributes what its member 0 returns.
    reducers : sequence of Reducer
        One for each value that `fn` returns.

    Returns
    -------
    tuple
        One result a reducer, as Python numbers or tuples of them. An index of a box is its place counted row by row.
    """
    totals, steps = [None] * len(reducers), [reducing(r) for r in reducers]
    with np.errstate(all="ignore"):
        for index, result in enumerate(_results(policy, fn, args), policy.begin if isinstance(policy, RangePolicy) else 0):
            for k, ((lift, combine, _), value) in enumerate(zip(steps, _contributions(fn, result, reducers))):
                state = _widen(lift(value, index))
                totals[k] = state if totals[k] is None else combine(totals[k], state)
        return tuple(_python_number(finish(reducer.identity("float64") if total is None else total))
                     for reducer, (_, _, finish), total in zip(reducers, steps, totals))


def run_scan(policy, fn, args, reducer, out, inclusive):
    """Write the prefixes of what `fn` returns into `out`, an index after the other; the total as a one-tuple."""
    (lift, combine, _), total = reducing(reducer), None
    with np.errstate(all="ignore"):
        for index, result in zip(range(policy.begin, policy.end), _results(policy, fn, args)):
            before = reducer.identity(out.dtype.name) if total is None else total
            state = _widen(lift(_contributions(fn, result, (reducer,))[0], index))
            total = state if total is None else combine(total, state)
            out[index] = total if inclusive else before
    return (_python_number(reducer.identity(out.dtype.name) if total is None else total),)


def _results(policy, fn, args):
    """What the kernel returns for each index, one after the other."""
    call = plain(fn)
    args = tuple(unmark(arg) for arg in args)
    is_team = isinstance(policy, TeamPolicy)
    size = DEFAULT_TEAM_SIZE if is_team and policy.team_size is AUTO else is_team and policy.team_size
    is_box = isinstance(policy, MDRangePolicy)
    for index in range(policy.league_size) if is_team else _places(policy):
        try:
            if is_team:
                result = Meeting(fn.__name__, index, policy.league_size, size, policy.scratch_bytes).run(call, args)[0]
            else:
                result = call(*(index if is_box else (index,)), *args)
        except Exception as error:
            error.add_note(f"while kernel '{fn.__name__}' ({_place(fn)}) ran for index {index}")
            raise
        yield result


def _places(policy):
    """The indices of a range, or the tuples of indices of a box, the last the fastest."""
    if isinstance(policy, MDRangePolicy):
        if 0 in policy.extents:  # product would first list the other dimensions
            return ()
        return itertools.product(*(range(low, high) for low, high in zip(policy.begin, policy.end)))
    return range(policy.begin, policy.end)


def _contributions(fn, result, reducers):
    """What one index returned, a number or tuple a reducer; the compiler has seen to their number, but not to every path."""
    if result is None:
        raise LanguageError(f"kernel '{fn.__name__}' ({_place(fn)}): a reduction's kernel returns its contribution, but for "
                            "some index it returned nothing")
    alone = len(reducers) == 1 and not (isinstance(result, tuple) and len(result) == 1)
    return (result,) if alone or not isinstance(result, tuple) else result


def _widen(value):
    """Whole numbers add up in 64 bits (in plain Python without any limit)."""
    if isinstance(value, tuple):
        return tuple(_widen(v) for v in value)
    return int(value) if isinstance(value, (bool, np.bool_, np.integer)) else value


def _python_number(value):
    if isinstance(value, tuple):
        return tuple(_python_number(v) for v in value)
    return value.item() if isinstance(value, np.generic) else value


def _place(fn):
    return f"{fn.__code__.co_filename}:{fn.__code__.co_firstlineno}"
