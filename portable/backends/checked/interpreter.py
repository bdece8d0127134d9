"""What a launch means: a loop over the policy's indices in plain Python.

`run_for` and `run_reduce` are the whole interface. Arguments are NumPy arrays, Python numbers and tuples of these.
"""

import itertools

import numpy as np

from ...errors import LanguageError
from ...policy import AUTO, MDRangePolicy, TeamPolicy
from .plain import plain, unmark
from .team import DEFAULT_TEAM_SIZE, Meeting


def run_for(policy, fn, args):
    """Call `fn` for every index of `policy`, in order.

    Parameters
    ----------
    policy : RangePolicy or TeamPolicy
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
        One result a reducer, as Python numbers; a tuple (value, index) for the reducers that locate.
    """
    totals = [None] * len(reducers)
    with np.errstate(all="ignore"):
        for index, result in _results(policy, fn, args):
            for k, (reducer, value) in enumerate(zip(reducers, _contributions(fn, result, reducers))):
                state = (value, index) if reducer.with_index else value
                totals[k] = state if totals[k] is None else reducer.combine(totals[k], state)
    return tuple(_python_number(reducer.identity("float64") if total is None else total)
                 for reducer, total in zip(reducers, totals))


def _results(policy, fn, args):
    """Pairs of index and what the kernel returned for it, one after the other."""
    call = plain(fn)
    args = tuple(unmark(arg) for arg in args)
    is_team = isinstance(policy, TeamPolicy)
    size = DEFAULT_TEAM_SIZE if is_team and policy.team_size is AUTO else is_team and policy.team_size
    is_box = isinstance(policy, MDRangePolicy)
    for index in range(policy.league_size) if is_team else _places(policy):
        try:
            if is_team:
                result = Meeting(fn.__name__, index, policy.league_size, size).run(call, args)[0]
            else:
                result = call(*(index if is_box else (index,)), *args)
        except Exception as error:
            error.add_note(f"while kernel '{fn.__name__}' ({_place(fn)}) ran for index {index}")
            raise
        yield index, result


def _places(policy):
    """The indices of a range, or the tuples of indices of a box, the last the fastest."""
    if isinstance(policy, MDRangePolicy):
        return itertools.product(*(range(low, high) for low, high in zip(policy.begin, policy.end)))
    return range(policy.begin, policy.end)


def _contributions(fn, result, reducers):
    values = result if isinstance(result, tuple) else (result,)
    if len(values) != len(reducers) or any(value is None for value in values):
        what = "nothing" if result is None else f"{len(values)} value(s)"
        raise LanguageError(f"kernel '{fn.__name__}' ({_place(fn)}): a reduction's kernel returns its contribution; "
                            f"{len(reducers)} number(s) wanted from every index, it returned {what}")
    return [_widen(value) for value in values]


def _widen(value):
    """Whole numbers add up in 64 bits (in plain Python without any limit)."""
    return int(value) if isinstance(value, (bool, np.bool_, np.integer)) else value


def _python_number(value):
    if isinstance(value, tuple):
        return tuple(_python_number(v) for v in value)
    return value.item() if isinstance(value, np.generic) else value


def _place(fn):
    return f"{fn.__code__.co_filename}:{fn.__code__.co_firstlineno}"
