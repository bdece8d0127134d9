"""Kernels that draw series from a state-space model; an index is a row of parameters, and a series."""

import math

import portable as pk

from .filter_kernels import user_draw
from .spreading import key

SEEN = 1 << 31  # draws of an observation begin this far behind those of the state


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
    own = pk.local(n_params + n_lags + n_inputs, pk.float64)
    state = pk.local(n_dims, pk.float64)
    for p in range(n_params):
        own[p] = params[r, p]
    for d in range(n_lags):
        own[n_params + d] = math.nan
    for t in range(first, first + n_steps):
        for d in range(n_inputs):
            own[n_params + n_lags + d] = inputs[t - first, d]
        if t == first and not goes_on:
            drawn = initial(seed, key(r, 0), user_draw(t), own)
            for c in range(n_dims):
                state[c] = drawn[c]
        else:
            if t == first:
                for c in range(n_dims):
                    state[c] = start[c, r]
            moved = propagate(t, state, seed, key(r, 0), user_draw(t), own)
            for c in range(n_dims):
                state[c] = moved[c]
        seen = observe(t, state, seed, key(r, 0), user_draw(t) + pk.uint64(SEEN), own)
        for c in range(n_dims):
            x[t - first, c, r] = state[c]
        for d in range(n_values):
            y[t - first, d, r] = seen[d]
        for d in range(n_lags):
            own[n_params + d] = seen[d]


@pk.kernel
def observe_rows(r, observe, n_dims, n_values, n_params, n_inputs, seed, params, inputs, x, y):
    own = pk.local(n_params + n_inputs, pk.float64)
    state = pk.local(n_dims, pk.float64)
    for p in range(n_params):
        own[p] = params[r, p]
    for t in range(x.shape[0]):
        for d in range(n_inputs):
            own[n_params + d] = inputs[t, d]
        for c in range(n_dims):
            state[c] = x[t, c, r]
        seen = observe(t, state, seed, key(r, 0), user_draw(t) + pk.uint64(SEEN), own)
        for d in range(n_values):
            y[t, d, r] = seen[d]
