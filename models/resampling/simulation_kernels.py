"""Kernels that simulate a state-space model; an index is a row of parameters, and a series."""

import math

import portable as pk

from .filter_kernels import user_draw
from .ancestor_kernels import key

SEEN = 1 << 31  # offset of the draws of an observation from those of the state


@pk.kernel
def simulate_rows(
    r,
    initial,
    propagate,
    observe,
    n_dims,
    n_values,
    n_lags,
    n_params,
    n_inputs,
    n_steps,
    first,
    goes_on,
    seed,
    params,
    inputs,
    start,
    x,
    y,
):
    """Draw states and observations of a row's steps; if `propagate` is None, only observations of the given
    states."""
    own = pk.local(n_params + n_lags + n_inputs, pk.float64)
    state = pk.local(n_dims, pk.float64)
    own[:n_params] = params[r]
    own[n_params : n_params + n_lags] = math.nan
    for s in range(n_steps):
        t = first + s
        own[n_params + n_lags :] = inputs[s]
        if propagate is None:
            state[:] = x[s, :, r]
        elif s == 0 and not goes_on:
            state[:] = initial(seed, key(r, 0), user_draw(t), own)
        else:
            if s == 0:
                state[:] = start[:, r]
            state[:] = propagate(t, state, seed, key(r, 0), user_draw(t), own)
        seen = observe(t, state, seed, key(r, 0), user_draw(t) + pk.uint64(SEEN), own)
        x[s, :, r] = state
        y[s, :, r] = seen
        if n_lags > 0:
            own[n_params : n_params + n_lags] = seen
