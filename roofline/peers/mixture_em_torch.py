"""One EM iteration in PyTorch on the GPU, by matrix products over blocks of points that fit in memory."""

import math

import numpy as np
import torch

from portable.roofline.contract import Contender

_NUMBERS = 2**28  # of the largest array of a block


def contenders(x, means):
    """From unit covariances and equal weights.

    Parameters
    ----------
    x : ndarray, shape (n_points, p)
    means : ndarray, shape (k, p)

    Returns
    -------
    list of Contender
    """
    k, p = means.shape
    points = torch.as_tensor(x, device="cuda")
    centres = torch.as_tensor(means.astype(x.dtype), device="cuda")
    factors = torch.eye(p, dtype=points.dtype, device="cuda").repeat(k, 1, 1)
    flat = factors.permute(1, 0, 2).reshape(p, k * p)
    rows, found = max(_NUMBERS // (k * p), 1), {}

    def iteration():
        log_weights = (
            math.log(1.0 / k)
            - 0.5 * p * math.log(2.0 * math.pi)
            + factors.diagonal(dim1=1, dim2=2).log().sum(1)
        )
        shift = torch.einsum("kp,kpq->kq", centres, factors).reshape(1, k * p)
        total = torch.zeros((), dtype=torch.float64, device="cuda")
        n = torch.zeros(k, dtype=torch.float64, device="cuda")
        first = torch.zeros((k, p), dtype=torch.float64, device="cuda")
        second = torch.zeros((k, p * p), dtype=torch.float64, device="cuda")
        for block in points.split(rows):
            y = (block @ flat).sub_(shift).square_().view(len(block), k, p).sum(2)
            joint = log_weights - 0.5 * y
            lse = torch.logsumexp(joint, 1)
            r = joint.sub_(lse[:, None]).exp_()
            total += lse.sum(dtype=torch.float64)
            n += r.sum(0)
            first += r.T @ block
            second += r.T @ (block[:, :, None] * block[:, None, :]).reshape(len(block), p * p)
        xbar = first / n[:, None]
        covariances = second.reshape(k, p, p) / n[:, None, None] - xbar[:, :, None] * xbar[:, None, :]
        lower = torch.linalg.cholesky(covariances + 1e-6 * torch.eye(p, dtype=torch.float64, device="cuda"))
        found["factors"] = torch.linalg.inv(lower)
        found["total"] = total

    return [
        Contender(
            "PyTorch",
            iteration,
            sync=torch.cuda.synchronize,
            result=lambda: float(np.float64(found["total"].cpu())),
        )
    ]
