"""EM for a transient Markovian arrival process of unrestricted matrices: what the branches of
`portable.models.tmap` are chosen over.

    python docs/examples/papers/unrestricted_map.py

A chain on n states starts by alpha, changes by D0 (without an event) and D1 (with one), and ends with an
event at the rates d. A gap x with a before it and c behind it needs exp(D0 x) and the integral of exp(D0 (x
- u)) c a exp(D0 u) over u, the corner of a block matrix's exponential (Van Loan 1978). M. Brazenas, G.
Horvath, M. Telek say in their section 5 that the special structure ends higher than this does; `python
docs/papers/tmap.py --only general` tries it.
"""

import numpy as np


def exponentials(d0, gaps, c=None, a=None):
    """exp(D0 x) of each gap, and that corner where c and a (one row a gap) are given: Taylor's series, then
    doubling."""
    n_doublings = max(0, int(np.ceil(np.log2(np.abs(d0).sum(1).max() * gaps.max() / 0.5))))
    h = (gaps / 2.0**n_doublings)[:, None, None]
    term = whole = np.broadcast_to(np.eye(len(d0)), (len(gaps), *d0.shape))
    source = np.zeros_like(whole) if a is None else c[:, :, None] * a[:, None, :]
    part = corner = np.zeros_like(whole)
    for k in range(1, 11):
        part, term = (part @ d0 + term @ source) * h / k, term @ d0 * h / k
        whole, corner = whole + term, corner + part
    for _ in range(n_doublings):
        if a is not None:
            corner = whole @ corner + corner @ whole
        whole = whole @ whole
    return whole, corner


def recursions(model, gaps, first, last):
    """exp(D0 x), rows before each gap, columns behind its event, and the logarithm of what scaled the
    rows."""
    alpha, d0, d1, d = model
    n, moved, total = len(gaps), exponentials(d0, gaps)[0], 0.0
    before, after = np.empty((n, len(alpha))), np.empty((n, len(alpha)))
    for k in range(n):
        before[k] = alpha if first[k] else before[k - 1] @ moved[k - 1] @ d1
        size = before[k].sum()
        before[k] /= size
        total += np.log(size)
    for k in reversed(range(n)):
        after[k] = d if last[k] else d1 @ (moved[k + 1] @ after[k + 1])
        after[k] /= after[k].max()
    return moved, before, after, total


def step(model, gaps, first, last):
    """(log-likelihood, the next model) for gaps in the order of runs, the first and the last of each
    marked."""
    alpha, d0, d1, d = model
    moved, before, after, total = recursions(model, gaps, first, last)
    seen = np.einsum("ki,kij,kj->k", before, moved, after)
    at_event = np.einsum("ki,kij->kj", before, moved)
    total += np.log((at_event[last] * d).sum(1)).sum()
    corner = exponentials(d0, gaps, after, before)[1].transpose(0, 2, 1)
    spent = (corner / seen[:, None, None]).sum(0)
    on = np.flatnonzero(~last)
    behind = np.einsum("kij,kj->ki", moved[on + 1], after[on + 1])
    pairs = (d1 * np.einsum("ki,kj->kij", at_event[on], behind)).reshape(len(on), -1)
    events = shares(pairs).sum(0).reshape(d1.shape)
    start = alpha * np.einsum("kij,kj->ki", moved[first], after[first])
    ends = shares(at_event[last] * d).sum(0)
    return total, (shares(start).mean(0), *rates(d0 * spent, events, ends, np.diag(spent)))


def shares(rows):
    """Return rows over their sums."""
    return rows / rows.sum(1, keepdims=True)


def rates(inner, events, ends, time):
    """D0, D1 and d from expected numbers of changes and the time spent in each state."""
    d0, d1, d = inner / time[:, None], events / time[:, None], ends / time
    np.fill_diagonal(d0, 0.0)
    np.fill_diagonal(d0, -(d0.sum(1) + d1.sum(1) + d))
    return d0, d1, d


def log_likelihood(model, values, lengths):
    """Return the log-likelihood of runs: their gaps one after the other, and the number of gaps of each."""
    return step(model, values, *edges(lengths))[0]


def edges(lengths):
    """Return for each gap whether it begins its run, and whether it ends it."""
    ends = np.cumsum(lengths)
    first, last = np.zeros(ends[-1], bool), np.zeros(ends[-1], bool)
    first[ends - lengths], last[ends - 1] = True, True
    return first, last


def fit(values, lengths, n_states, n_steps, random):
    """EM from a random start: the log-likelihood before each step, and the last model."""
    scale = random.uniform(0.2, 5.0, n_states)[:, None] / values.mean()
    d0, d1 = (scale * random.random((n_states, n_states)) for _ in range(2))
    d = d1.sum(1) / (len(values) / len(lengths) - 1.0)
    np.fill_diagonal(d0, 0.0)
    np.fill_diagonal(d0, -(d0.sum(1) + d1.sum(1) + d))
    model, history = (random.dirichlet(np.ones(n_states)), d0, d1, d), []
    for _ in range(n_steps):
        value, model = step(model, values, *edges(lengths))
        history.append(value)
    return np.array(history), model


if __name__ == "__main__":
    from portable.models import tmap

    truth = tmap.TransientMAP([0.5, 0.5], [1, 2], [0.5, 8.0], [[0.7, 0.1], [0.1, 0.7]])
    runs = truth.simulate(40, seed=1)
    history, _ = fit(runs.values, runs.lengths, 3, 25, np.random.default_rng(1))
    assert (np.diff(history) > -1e-8 * abs(history[-1])).all()
    d0, d1, d, start = truth.matrices()
    found = log_likelihood((start, d0, d1, d), runs.values, runs.lengths)
    np.testing.assert_allclose(found, truth.log_likelihood(runs), rtol=1e-10)
    print(
        f"unrestricted_map: {history[0]:.2f} to {history[-1]:.2f} in {len(history)} steps, truth {found:.2f}"
    )
