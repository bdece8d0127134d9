"""Find the model's function that gave the first NaN of a filter, by running the filter again, step by
step."""

from typing import Literal, TypeAlias

import numpy as np

from . import weight_kernels
from .arguments import tried

OnNan: TypeAlias = Literal["die", "raise"]


def undefined(extremes):
    """Find the step at which each filter's largest log-weight was NaN or infinite; -1 if none, shape
    (n_rows,).

    Parameters
    ----------
    extremes : ndarray of int64, shape (n_steps, n_rows, 3)
        See `portable.models.resampling.filter_kernels`.

    Returns
    -------
    ndarray of int
    """
    largest = weight_kernels.ordered_numpy(extremes[:, :, 0])
    bad = np.isnan(largest) | (largest == np.inf)
    return np.where(bad.any(axis=0), bad.argmax(axis=0), -1)


def named(names, params):
    """Format parameters with their names, for a message."""
    return ", ".join(f"{name} = {value:.6g}" for name, value in zip(names, params.tolist()))


def sentence(run, data, row, number):
    """Describe in a sentence the function that gave the first NaN of a row that died of NaN, the step and the
    parameters.

    Parameters
    ----------
    run : Run
        Before its first step; it takes all steps up to the first NaN.
    data : Data
        That of its rows.
    row : int
        The row's number in `run`.
    number : int or None
        The filter's number in the message; None for a single filter.

    Returns
    -------
    str
    """
    model, params, at = run.model, data.params[row], "" if number is None else f" of filter {number}"
    given = named(model.names or [f"params[{place}]" for place in range(len(params))], params)
    culprit = ""
    for t in range(data.n_steps):
        run.steps(t, t + 1)
        x = run.x[t % run.x.shape[0]].to_numpy()[:, row]
        if not culprit and np.isnan(x).any():
            is_guided = model.functions[3] is not None and not np.isnan(data.y[t]).all()
            name = "initial" if t == 0 else "guide" if is_guided else "propagate"
            culprit = f"{name} gave nan for a particle's state at step {t}{at}"
        if undefined(run.extremes.to_numpy()[t : t + 1])[row] == 0:
            logs = run.log_w[t % run.log_w.shape[0]].to_numpy()[row]
            k = int(np.flatnonzero(np.isnan(logs) | (logs == np.inf))[0])
            if not culprit:
                name = _of_both(model, data, params, t, x[:, k])
                culprit = f"{name} gave {logs[k]} for a particle at step {t}{at}"
            break
    culprit = culprit or f"a log-weight was nan{at}"
    return f"{culprit}, with {given}; expected finite numbers, or log-weights -inf"


def _of_both(model, data, params, t, state):
    """Return "log_weight", or the functions added to it or taken from it if log_weight is below infinity."""
    log_weight, log_guide = model.functions[2], model.functions[4]
    others = ["log_guide"] * bool(log_guide) + ["look_ahead"] * bool(model.look_ahead)
    if t == 0 or not others:
        return "log_weight"
    known = np.concatenate([params, data.inputs[t]])
    try:
        value = tried("log_weight", log_weight, known, t, tuple(state.tolist()), data.y[t], known)
    except ArithmeticError:
        return "log_weight"
    return " or ".join(others) if value < np.inf else "log_weight"


def counted(n_bad, n_filters, reason):
    """Make the warning about filters that died of NaN.

    Parameters
    ----------
    n_bad, n_filters : int
    reason : str
        Result of `sentence`.

    Returns
    -------
    str
    """
    which = "the filter died" if n_filters == 1 else f"{n_bad} of {n_filters} filters died"
    return f"{which} of NaN, with log-likelihood -inf: {reason}. on_nan='raise' makes an error of it"
