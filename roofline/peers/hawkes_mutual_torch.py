"""Mutual excitation in PyTorch: an associative scan over events, a state of K decays and M types.

Events come in runs that fit in memory, the state carried on between them. The scan is written by doubling,
and by PyTorch's own `associative_scan`, compiled on a GPU.
"""

import numpy as np
import torch

from portable.roofline.contract import Contender


def doubled(a, b):
    """States b_n = a_n b_(n-1) + own_n by doubling; a and b of shapes (n, K, 1) and (n, K, M)."""
    d = 1
    while d < len(b):
        b = torch.cat([b[:d], torch.addcmul(b[d:], a[d:], b[:-d])])
        a = torch.cat([a[:d], a[d:] * a[:-d]])
        d *= 2
    return a, b


def combine(left, right):
    return left[0] * right[0], right[0] * left[1] + right[1]


def library(device):
    """PyTorch's own scan."""
    from torch._higher_order_ops.associative_scan import associative_scan

    mode = "pointwise" if device == "cuda" else "generic"

    def scan(a, b):
        return associative_scan(combine, (a.expand_as(b).contiguous(), b), 0, combine_mode=mode)

    return torch.compile(scan) if device == "cuda" else scan


def contenders(times, types, params, device, threads=None):
    """The log-likelihood with its gradient in mu and branching, which stay on the device.

    Parameters
    ----------
    times, types : ndarray, shape (n_events,)
    params : hawkes.Mutual
    device : {"cuda", "cpu"}
    threads : int, optional

    Returns
    -------
    list of Contender
    """
    if threads:
        torch.set_num_threads(threads)
    n_rates, n_types, _ = params.branching.shape
    t, m = (torch.as_tensor(v, device=device) for v in (times - times[0], types))
    given = params.rates, params.mu, params.branching
    rates, mu, branching = (torch.as_tensor(v, device=device) for v in given)
    heights = (branching * rates[:, None, None]).permute(1, 0, 2).contiguous()
    rows = max((2**24 if device == "cuda" else 2**20) // (n_rates * n_types), 64)
    span, sync = float(times[-1] - times[0]), torch.cuda.synchronize if device == "cuda" else None

    def evaluate(scan, found):
        state = torch.zeros((1, n_rates, n_types), dtype=t.dtype, device=device)
        slopes = torch.zeros_like(heights)
        in_mu = torch.full_like(mu, -span)
        late = torch.zeros((n_types, n_rates), dtype=t.dtype, device=device)
        logs, last = torch.zeros((), dtype=t.dtype, device=device), t[:1]
        for clock, kind in zip(t.split(rows), m.split(rows)):
            gaps = torch.diff(clock, prepend=last)
            fade = torch.exp(-gaps[:, None] * rates)[:, :, None]
            own = torch.nn.functional.one_hot(kind, n_types).to(t.dtype)[:, None, :].expand(-1, n_rates, -1)
            # the state after an event: those before faded, and its own
            a, b = scan(fade, own)
            after = torch.addcmul(b, a, state)
            before = fade * torch.cat([state, after[:-1]])
            weight = 1.0 / (mu[kind] + (heights[kind] * before).sum((1, 2)))
            logs = logs - torch.log(weight).sum()
            slopes.index_add_(0, kind, before * weight[:, None, None])
            in_mu.index_add_(0, kind, weight)
            late.index_add_(0, kind, -torch.expm1(-(t[-1] - clock)[:, None] * rates))
            state, last = after[-1:], clock[-1:]
        found["slopes"] = rates[:, None, None] * slopes.permute(1, 0, 2) - late.T[:, None, :]
        found["mu"] = in_mu
        found["value"] = logs - mu.sum() * span - (branching.sum(1) * late.T).sum()

    def contender(label, scan):
        found = {}
        return Contender(
            label,
            lambda: evaluate(scan, found),
            sync=sync,
            result=lambda: float(np.float64(found["value"].cpu())),
        )

    return [
        contender("PyTorch, by doubling", doubled),
        contender("PyTorch, associative_scan", library(device)),
    ]
